/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of any MPI: sums 1 to n over all ranks, by payloads of two sizes, and says where it runs,
 * in one line. NO_FINALIZE is for MPICH 4.0 alone: it leaves without MPI_Finalize, in which that
 * often hangs over UCX with ranks on two hosts: one rank closes connections to others that do not
 * look at theirs any more. Hydra, Intel's too, kills the ranks beside one that leaves and has not
 * said so, if they are not gone yet, and then ends with 9 or 255 though all ranks have written. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT (1 << 14)

/* The word for it, on the socket that Hydra has given us. */
static void take_leave(void)
{
    const char *fd = getenv("PMI_FD");
    char answer[64];

    if (!fd || dprintf(atoi(fd), "cmd=finalize\n") < 0 || read(atoi(fd), answer, sizeof answer) < 0)
        _exit(1);
    _exit(0);
}

int main(int argc, char **argv)
{
    static double many[COUNT], sums[COUNT];
    double one, sum = 0;
    char host[256] = "";
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    one = rank + 1;
    for (int i = 0; i < COUNT; i++)
        many[i] = one;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(many, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s: %g %g\n", rank, size, host, sum, sums[COUNT - 1]);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (getenv("NO_FINALIZE"))
        take_leave();
    MPI_Finalize();
    return 0;
}
