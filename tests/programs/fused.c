/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: fused NSTEPS
 * Steps of a group and of single sums, all too large for the one-shot path.
 */
#include "program.h"

#define N 6
#define COUNT 30000

static float in[N][COUNT], out[2 * N][COUNT];

int main(int argc, char **argv)
{
    int nsteps = (int) argument(argc, argv, 1, 100);
    const char *const names[] = { "g0", "g1", "g2", "g3", "g4", "g5" };
    const int64_t length = COUNT, *shapes[N];
    const void *ins[N];
    void *outs[N];
    int ndims[N];
    reigen_handle handles[2 * N];

    begin();
    for (int i = 0; i < N; i++) {
        shapes[i] = &length;
        ndims[i] = 1;
        ins[i] = in[i];
        outs[i] = out[i];
    }
    for (int step = 0; step < nsteps; step++) {
        for (int i = 0; i < N; i++)
            for (int k = 0; k < COUNT; k++)
                in[i][k] = (float) (step + i + k % 7);
        expect(reigen_grouped_async(REIGEN_ALLREDUCE, N, names, ins, outs, REIGEN_FLOAT32, shapes,
                                    ndims, NULL, handles),
               0, "group");
        for (int i = 0; i < N; i++) {
            char name[16];

            snprintf(name, sizeof(name), "s%d", i);
            expect(reigen_allreduce_async(name, in[i], out[N + i], REIGEN_FLOAT32, &length, 1, NULL,
                                          &handles[N + i]),
                   0, name);
        }
        for (int i = 0; i < 2 * N; i++) {
            finish(handles[i], 0, "sum");
            for (int k = 0; k < COUNT; k++)
                if (out[i][k] != (float) reigen_size() * in[i % N][k])
                    fail("step %d, tensor %d: element %d is %g", step, i, k, (double) out[i][k]);
        }
    }
    reigen_shutdown();
    return 0;
}
