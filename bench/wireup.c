/* SPDX-License-Identifier: Apache-2.0 */
/* How long a rank takes from its exec to the end of init: prints "init=SECONDS". It is compiled
 * with a contender, as measure.c is. To know when it was executed it executes itself once more. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    const char *began = getenv("BENCH_EXECUTED");
    int rank, size;

    if (!began) {
        char text[64];
        snprintf(text, sizeof text, "%.9f", now());
        setenv("BENCH_EXECUTED", text, 1);
        execv("/proc/self/exe", argv);
        perror("wireup: execv");
        return 1;
    }
    if (bench_contender.init(&argc, &argv, &rank, &size))
        return 1;
    printf("init=%.6f\n", now() - strtod(began, NULL));
    fflush(stdout);
    bench_contender.shutdown();
    return 0;
}
