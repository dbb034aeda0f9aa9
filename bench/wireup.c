/* SPDX-License-Identifier: Apache-2.0 */
/* How long a rank takes from its exec to the end of init: prints "init=SECONDS". It is Reigen's,
 * or with -DWITH_MPI that of the MPI that mpicc belongs to. To know when it was executed it
 * executes itself once more. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#define init() MPI_Init(NULL, NULL)
#define shutdown() MPI_Finalize()
#else
#include <reigen/reigen.h>
#define init() reigen_init(NULL)
#define shutdown() reigen_shutdown()
#endif

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    const char *began = getenv("BENCH_EXECUTED");

    if (!began) {
        char text[64];
        snprintf(text, sizeof text, "%.9f", now());
        setenv("BENCH_EXECUTED", text, 1);
        execv("/proc/self/exe", argv);
        perror("wireup: execv");
        return 1;
    }
    (void) argc;
    if (init() != 0)
        return 1;
    printf("init=%.6f\n", now() - strtod(began, NULL));
    fflush(stdout);
    return shutdown() != 0;
}
