/* SPDX-License-Identifier: Apache-2.0 */
/* Many sums at once, while the rank computes: each is submitted as soon as its vector is there, and
 * all are waited for at the end. Ranks may submit them in any order. */
#include <reigen/reigen.h>
#include <stdio.h>

#define LAYERS 8
#define WIDTH 1000

static float gradients[LAYERS][WIDTH];

/* Stands for the backward pass of a layer. */
static void compute(int layer)
{
    for (int i = 0; i < WIDTH; i++)
        gradients[layer][i] = (float) (layer + reigen_rank());
}

static int train(void)
{
    const int64_t shape[] = { WIDTH };
    reigen_handle handles[LAYERS];
    char name[32];
    int r = 0, n = 0;

    for (int layer = LAYERS - 1; layer >= 0 && r >= 0; layer--) {
        compute(layer);
        snprintf(name, sizeof(name), "layer%d", layer);
        r = reigen_allreduce_async(name, gradients[layer], gradients[layer], REIGEN_FLOAT32, shape,
                                   1, NULL, &handles[n]);
        n += r >= 0;
    }
    int waited = reigen_wait_all(n, handles, -1);

    reigen_release_all(n, handles);
    return r < 0 ? r : waited;
}

int main(void)
{
    if (reigen_init(NULL) < 0 || train() < 0) {
        fprintf(stderr, "%s\n", reigen_last_error());
        return 1;
    }
    printf("rank %d: layer 0 is %g, layer %d is %g\n", reigen_rank(), gradients[0][0], LAYERS - 1,
           gradients[LAYERS - 1][WIDTH - 1]);
    return reigen_shutdown() < 0;
}
