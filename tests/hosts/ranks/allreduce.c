/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of any MPI: sums 1 to n over all ranks, by payloads of two sizes, and says where it runs,
 * in one line. NO_FINALIZE makes it leave without MPI_Finalize, in which MPICH 4.0 over UCX often
 * hangs with ranks on two hosts: one rank closes connections to others that do not look at theirs
 * any more. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT (1 << 14)

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
        _exit(0);
    MPI_Finalize();
    return 0;
}
