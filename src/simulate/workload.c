/* SPDX-License-Identifier: Apache-2.0 */
/* Each network is a function that adds its layers, as short as the papers' own tables. */
#include "simulate/workload.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "simulate/profile.h"

#define NAMES_MAX 32

#define TENSORFLOW_2017 "tensorflow.org/performance/benchmarks (2017): one Tesla P100 of a DGX-1, "\
                        "synthetic data"

static void add(struct rg_workload *w, uint64_t count, double flops)
{
    if (!w->tensors && w->ntensors)
        return; /* memory was short */
    if (rg_grow(&w->tensors, &w->capacity, w->ntensors + 1) < 0) {
        free(w->tensors);
        w->tensors = NULL;
        w->ntensors = 1; /* so that it shows */
        return;
    }
    w->tensors[w->ntensors++] = (struct rg_workload_tensor){ count, flops };
    w->nparameters += count;
    w->flops += flops;
}

/* A convolution without a bias: a kernel of height x width, and the side of what comes out. */
static void conv(struct rg_workload *w, int height, int width, int from, int to, int side)
{
    uint64_t count = (uint64_t) height * (uint64_t) width * (uint64_t) from * (uint64_t) to;

    add(w, count, 2.0 * (double) count * side * side);
}

/* Batch or layer normalisation: a scale and a shift. */
static void norm(struct rg_workload *w, int channels)
{
    add(w, (uint64_t) channels, 0);
    add(w, (uint64_t) channels, 0);
}

static void conv_norm(struct rg_workload *w, int height, int width, int from, int to, int side)
{
    conv(w, height, width, from, to, side);
    norm(w, to);
}

/* With a bias, for so many positions. */
static void linear(struct rg_workload *w, int from, int to, int positions)
{
    add(w, (uint64_t) from * (uint64_t) to, 2.0 * from * to * positions);
    add(w, (uint64_t) to, 0);
}

/* --- ResNet ----------------------------------------------------------------------------------- */

static void resnet(struct rg_workload *w, const int blocks[4])
{
    int from = 64;

    conv_norm(w, 7, 7, 3, 64, 112);
    for (int stage = 0; stage < 4; stage++) {
        int width = 64 << stage, side = 56 >> stage, to = 4 * width;
        for (int block = 0; block < blocks[stage]; block++) {
            int side_in = block == 0 && stage > 0 ? 2 * side : side;
            conv_norm(w, 1, 1, from, width, side_in);
            conv_norm(w, 3, 3, width, width, side);
            conv_norm(w, 1, 1, width, to, side);
            if (block == 0)
                conv_norm(w, 1, 1, from, to, side);
            from = to;
        }
    }
    linear(w, from, 1000, 1);
}

static void resnet50(struct rg_workload *w)
{
    resnet(w, (const int[]){ 3, 4, 6, 3 });
}

static void resnet101(struct rg_workload *w)
{
    resnet(w, (const int[]){ 3, 4, 23, 3 });
}

/* --- VGG -------------------------------------------------------------------------------------- */

static void vgg16(struct rg_workload *w)
{
    static const int stages[][2] = { { 2, 64 }, { 2, 128 }, { 3, 256 }, { 3, 512 }, { 3, 512 } };
    int from = 3, side = 224;

    for (size_t i = 0; i < rg_array_len(stages); i++, side /= 2) {
        for (int k = 0; k < stages[i][0]; k++) {
            conv(w, 3, 3, from, stages[i][1], side);
            add(w, (uint64_t) stages[i][1], 0);
            from = stages[i][1];
        }
    }
    linear(w, from * side * side, 4096, 1);
    linear(w, 4096, 4096, 1);
    linear(w, 4096, 1000, 1);
}

/* --- Inception v3 ----------------------------------------------------------------------------- */

/* 35 x 35: modules of the paper's figure 5. */
static int inception_a(struct rg_workload *w, int from, int pool)
{
    conv_norm(w, 1, 1, from, 64, 35);
    conv_norm(w, 1, 1, from, 48, 35);
    conv_norm(w, 5, 5, 48, 64, 35);
    conv_norm(w, 1, 1, from, 64, 35);
    conv_norm(w, 3, 3, 64, 96, 35);
    conv_norm(w, 3, 3, 96, 96, 35);
    conv_norm(w, 1, 1, from, pool, 35);
    return 64 + 64 + 96 + pool;
}

/* 17 x 17, with kernels of 1 x 7 and 7 x 1: figure 6. */
static void inception_c(struct rg_workload *w, int width)
{
    conv_norm(w, 1, 1, 768, 192, 17);
    conv_norm(w, 1, 1, 768, width, 17);
    conv_norm(w, 1, 7, width, width, 17);
    conv_norm(w, 7, 1, width, 192, 17);
    conv_norm(w, 1, 1, 768, width, 17);
    conv_norm(w, 7, 1, width, width, 17);
    conv_norm(w, 1, 7, width, width, 17);
    conv_norm(w, 7, 1, width, width, 17);
    conv_norm(w, 1, 7, width, 192, 17);
    conv_norm(w, 1, 1, 768, 192, 17);
}

/* 8 x 8: figure 7. */
static void inception_e(struct rg_workload *w, int from)
{
    conv_norm(w, 1, 1, from, 320, 8);
    conv_norm(w, 1, 1, from, 384, 8);
    conv_norm(w, 1, 3, 384, 384, 8);
    conv_norm(w, 3, 1, 384, 384, 8);
    conv_norm(w, 1, 1, from, 448, 8);
    conv_norm(w, 3, 3, 448, 384, 8);
    conv_norm(w, 1, 3, 384, 384, 8);
    conv_norm(w, 3, 1, 384, 384, 8);
    conv_norm(w, 1, 1, from, 192, 8);
}

static void inception3(struct rg_workload *w)
{
    static const int widths[] = { 128, 160, 160, 192 };

    conv_norm(w, 3, 3, 3, 32, 149);
    conv_norm(w, 3, 3, 32, 32, 147);
    conv_norm(w, 3, 3, 32, 64, 147);
    conv_norm(w, 1, 1, 64, 80, 73);
    conv_norm(w, 3, 3, 80, 192, 71);
    int from = inception_a(w, inception_a(w, inception_a(w, 192, 32), 64), 64);
    conv_norm(w, 3, 3, from, 384, 17); /* to 17 x 17 */
    conv_norm(w, 1, 1, from, 64, 35);
    conv_norm(w, 3, 3, 64, 96, 35);
    conv_norm(w, 3, 3, 96, 96, 17);
    for (size_t i = 0; i < rg_array_len(widths); i++)
        inception_c(w, widths[i]);
    conv_norm(w, 1, 1, 768, 192, 17); /* to 8 x 8 */
    conv_norm(w, 3, 3, 192, 320, 8);
    conv_norm(w, 1, 1, 768, 192, 17);
    conv_norm(w, 1, 7, 192, 192, 17);
    conv_norm(w, 7, 1, 192, 192, 17);
    conv_norm(w, 3, 3, 192, 192, 8);
    inception_e(w, 1280);
    inception_e(w, 2048);
    linear(w, 2048, 1000, 1);
}

/* --- BERT ------------------------------------------------------------------------------------- */

static void bert_large(struct rg_workload *w)
{
    enum { WIDTH = 1024, TOKENS = 512, WORDS = 30522, LAYERS = 24 };

    add(w, (uint64_t) WORDS * WIDTH, 0); /* look-ups */
    add(w, (uint64_t) TOKENS * WIDTH, 0);
    add(w, 2 * WIDTH, 0);
    norm(w, WIDTH);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < 3; i++) /* query, key, value */
            linear(w, WIDTH, WIDTH, TOKENS);
        /* What comes out of attention, with what that does without parameters: scores, and sums of
         * values. */
        add(w, WIDTH * WIDTH, 2.0 * WIDTH * WIDTH * TOKENS + 4.0 * TOKENS * TOKENS * WIDTH);
        add(w, WIDTH, 0);
        norm(w, WIDTH);
        linear(w, WIDTH, 4 * WIDTH, TOKENS);
        linear(w, 4 * WIDTH, WIDTH, TOKENS);
        norm(w, WIDTH);
    }
    linear(w, WIDTH, WIDTH, 1); /* pooler */
}

/* --- blocks of transformers, all alike -------------------------------------------------------- */

/* n * part / nparts, without an overflow. */
static uint64_t part_of(uint64_t n, uint64_t part, uint64_t nparts)
{
    return part * (n / nparts) + part * (n % nparts) / nparts;
}

static void even(struct rg_workload *w, uint64_t nparameters, int nlayers)
{
    static const unsigned parts[] = { 1, 1, 1, 1, 4, 4 }; /* of twelve */
    uint64_t nparts = 12 * (uint64_t) nlayers, dealt = 0;

    for (int layer = 0; layer < nlayers; layer++) {
        for (size_t i = 0; i < rg_array_len(parts); i++) {
            uint64_t before = part_of(nparameters, dealt, nparts);
            dealt += parts[i];
            uint64_t count = part_of(nparameters, dealt, nparts) - before;
            add(w, count, 2.0 * (double) count);
        }
    }
}

int rg_workload_make_even(const char *name, uint64_t nparameters, int nlayers,
                          struct rg_workload *ret_workload)
{
    struct rg_workload workload = { .name = name };

    even(&workload, nparameters, nlayers);
    if (!workload.tensors)
        return -ENOMEM;
    *ret_workload = workload;
    return 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

static const struct {
    struct rg_workload facts;
    void (*add)(struct rg_workload *workload); /* NULL: it is even, with so many */
    uint64_t nparameters;
    int nlayers;
} known[] = {
    { { .name = "resnet50", .rate = 219, .batch = 64, .source = TENSORFLOW_2017 }, resnet50, 0, 0 },
    { { .name = "resnet101" }, resnet101, 0, 0 },
    { { .name = "vgg16", .rate = 154, .batch = 64, .source = TENSORFLOW_2017 }, vgg16, 0, 0 },
    { { .name = "inception3", .rate = 142, .batch = 64, .source = TENSORFLOW_2017 },
      inception3, 0, 0 },
    { { .name = "bert-large" }, bert_large, 0, 0 },
    { { .name = "bert-base" }, NULL, 110000000, 12 },
    { { .name = "vit-base" }, NULL, 86000000, 12 },
    { { .name = "vit-large" }, NULL, 307000000, 24 },
    { { .name = "vit-huge" }, NULL, 632000000, 32 },
    { { .name = "gpt2-xl" }, NULL, 1542000000, 48 },
    { { .name = "gpt3" }, NULL, 175000000000, 96 },
    { { .name = "llama-7b" }, NULL, 6700000000, 32 },
    { { .name = "llama-13b" }, NULL, 13000000000, 40 },
    { { .name = "llama-65b" }, NULL, 65200000000, 80 },
    { { .name = "llama3-8b" }, NULL, 8000000000, 32 },
    { { .name = "llama3-70b" }, NULL, 70000000000, 80 },
    { { .name = "llama3-405b" }, NULL, 405000000000, 126 },
};

const char *rg_workload_name(int i)
{
    return i >= 0 && (size_t) i < rg_array_len(known) ? known[i].facts.name : NULL;
}

int rg_workload_make(const char *name, struct rg_workload *ret_workload, struct rg_error *err)
{
    const char *names[NAMES_MAX] = { NULL };
    rg_autobuf struct rg_buf all = RG_BUF_INIT;

    for (size_t i = 0; i < rg_array_len(known); i++) {
        names[i] = known[i].facts.name;
        rg_buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(name, names[i]) != 0)
            continue;
        struct rg_workload workload = known[i].facts;
        if (known[i].add)
            known[i].add(&workload);
        else
            even(&workload, known[i].nparameters, known[i].nlayers);
        if (!workload.tensors)
            return rg_error_memory(err);
        *ret_workload = workload;
        return 0;
    }
    const char *near = rg_str_nearest(name, names);
    if (near)
        return rg_error_set(err, EINVAL, "--model %.80s: it is not known; did you mean %s?", name,
                            near);
    return rg_error_set(err, EINVAL, "--model %.80s: it is not known; give one of %s", name,
                        rg_buf_text(&all));
}

void rg_workload_of_profile(const char *name, const struct rg_profile *profile,
                            struct rg_workload *ret_workload)
{
    struct rg_workload workload = { .name = name, .profile = profile, .ntensors = profile->nops };

    for (size_t i = 0; i < profile->nops; i++) {
        const struct rg_profile_op *op = &profile->ops[i];
        if (strcmp(op->kind, "ALLREDUCE") == 0 && strstr(op->type, "float"))
            workload.nparameters += op->nbytes / rg_profile_element(op->type);
    }
    *ret_workload = workload;
}

void rg_workload_fini(struct rg_workload *workload)
{
    free(workload->tensors);
    *workload = (struct rg_workload){ .name = NULL };
}
