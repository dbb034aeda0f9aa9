/* SPDX-License-Identifier: Apache-2.0 */
/* The mean of a vector over all ranks. docs/c.md says how to build and run it. */
#include <reigen/reigen.h>
#include <stdio.h>

int main(void)
{
    const int64_t shape[] = { 4 };
    struct reigen_options mean = REIGEN_OPTIONS_INIT;

    mean.op = REIGEN_AVERAGE;
    if (reigen_init(NULL) < 0) {
        fprintf(stderr, "%s\n", reigen_last_error());
        return 1;
    }
    float rank = (float) reigen_rank();
    float gradient[] = { rank, rank + 1, rank + 2, rank + 3 };

    if (reigen_allreduce("gradient", gradient, gradient, REIGEN_FLOAT32, shape, 1, &mean) < 0) {
        fprintf(stderr, "%s\n", reigen_last_error());
        return 1;
    }
    printf("rank %d of %d: %g %g %g %g\n", reigen_rank(), reigen_size(), gradient[0], gradient[1],
           gradient[2], gradient[3]);
    return reigen_shutdown() < 0;
}
