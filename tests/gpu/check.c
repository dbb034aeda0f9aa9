/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make check-gpu: every operation of the C API with every type, on tensors in a GPU's memory,
 * against the same operation on the host's memory, byte by byte. One rank by NCCL; then several
 * ranks on one GPU, which NCCL refuses and staging does.
 *
 * usage: check [RANKS,...]    1,2,4 by default
 *
 * Values are small whole numbers, of which every type holds all sums and products exactly; so the
 * order in which a GPU adds does not matter. Adasum has no such values: its bytes are compared all
 * the same, as the host computes it in both cases.
 */
#include "device.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reigen/reigen.h"

enum { LIMIT_S = 300, BIG = 3 << 20, RANKS_MAX = 8, GROUP = 3 };

/* Beyond enum reigen_kind. */
enum { GROUPED = 100, INTO };

static const int nbytes_of[REIGEN_NDTYPES] = { 1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2 };

struct step {
    int kind, into; /* into: REIGEN_ALLGATHER or _REDUCESCATTER */
    int dtype, in_place;
    struct reigen_options options;
    int64_t count; /* of elements that this rank gives */
    int rank, n;
};

static int nsteps;
static long ncompared;

static int fail(const char *what, const struct step *step)
{
    fprintf(stderr, "rank %d of %d: %s: kind %d/%d, type %d, reduction %d, %lld elements: %s\n",
            step->rank, step->n, what, step->kind, step->into, step->dtype, step->options.op,
            (long long) step->count, reigen_last_error());
    return 1;
}

/* Element i of this rank: 1, 2 or 3; of bool 0 or 1. */
static void put_value(void *at, int dtype, int rank, int64_t i)
{
    static const uint16_t halves[] = { 0, 0x3c00, 0x4000, 0x4200 };
    static const uint16_t brains[] = { 0, 0x3f80, 0x4000, 0x4040 };
    int value = 1 + (int) ((rank * 2 + i * 5 + i / 7) % 3);
    int64_t whole = dtype == REIGEN_BOOL ? value % 2 : value;
    float single = (float) value;
    double dbl = value;
    const void *from = &whole;

    if (dtype == REIGEN_FLOAT16)
        from = &halves[value];
    else if (dtype == REIGEN_BFLOAT16)
        from = &brains[value];
    else if (dtype == REIGEN_FLOAT32)
        from = &single;
    else if (dtype == REIGEN_FLOAT64)
        from = &dbl;
    memcpy((char *) at + i * nbytes_of[dtype], from, (size_t) nbytes_of[dtype]);
}

/* ------------------------------------------------------------ one operation */

static int submit(const struct step *step, const char *name, void *in, void *out,
                  reigen_handle *handles)
{
    const char *names[GROUP] = { "g0", "g1", "g2" };
    int32_t splits[RANKS_MAX];
    int64_t third = step->count / GROUP;
    const int64_t *shapes[GROUP] = { &third, &third, &third };
    int ndims[GROUP] = { 1, 1, 1 };
    const void *ins[GROUP];
    void *outs[GROUP];

    switch (step->kind) {
    case REIGEN_ALLREDUCE:
        return reigen_allreduce_async(name, in, out, step->dtype, &step->count, 1, &step->options,
                                      handles);
    case REIGEN_BROADCAST:
        return reigen_broadcast_async(name, in, out, step->dtype, &step->count, 1, &step->options,
                                      handles);
    case REIGEN_ALLGATHER:
        return reigen_allgather_async(name, in, step->dtype, &step->count, 1, &step->options,
                                      handles);
    case REIGEN_REDUCESCATTER:
        return reigen_reducescatter_async(name, in, step->dtype, &step->count, 1, &step->options,
                                          handles);
    case REIGEN_ALLTOALL:
        for (int r = 0; r < step->n; r++)
            splits[r] = (int32_t) (step->rank + r);
        splits[step->n - 1] += (int32_t) step->count;
        for (int r = 0; r < step->n; r++)
            splits[step->n - 1] -= step->rank + r;
        return reigen_alltoall_async(name, in, step->dtype, &step->count, 1, splits, step->n,
                                     &step->options, handles);
    case INTO:
        return reigen_into_async(step->into, name, in, out, step->dtype,
                                 (size_t) (step->into == REIGEN_ALLGATHER ? step->count
                                                                          : step->count / step->n),
                                 &step->options, handles);
    default:
        for (int i = 0; i < GROUP; i++) {
            ins[i] = (char *) in + i * third * nbytes_of[step->dtype];
            outs[i] = (char *) out + i * third * nbytes_of[step->dtype];
        }
        return reigen_grouped_async(REIGEN_ALLREDUCE, GROUP, names, ins, outs, step->dtype, shapes,
                                    ndims, &step->options, handles);
    }
}

/* Wait for it, and the result's bytes to `to` in pinned memory; how many, or -1. */
static long collect(const struct step *step, const reigen_handle *handles, const void *out,
                    void *to, int on_gpu)
{
    long nbytes = (long) step->count * nbytes_of[step->dtype];
    int n = step->kind == GROUPED ? GROUP : 1, ndim;
    int64_t shape[REIGEN_NDIM_MAX];
    const void *from = out;
    size_t found;

    for (int i = 0; i < n; i++)
        if (reigen_wait(handles[i], -1) < 0) {
            fprintf(stderr, "%s\n", reigen_handle_error(handles[i]));
            return -1;
        }
    if (step->kind == INTO)
        nbytes = step->into == REIGEN_ALLGATHER ? nbytes * step->n : nbytes / step->n;
    if (step->kind == REIGEN_ALLGATHER || step->kind == REIGEN_ALLTOALL ||
        step->kind == REIGEN_REDUCESCATTER) {
        if (reigen_output(handles[0], &from, &found, shape, &ndim) < 0)
            return -1;
        nbytes = (long) found;
    }
    if (on_gpu) {
        device_copy(to, from, (size_t) nbytes);
        device_wait();
    } else if (nbytes)
        memcpy(to, from, (size_t) nbytes);
    for (int i = 0; i < n; i++)
        reigen_release(handles[i]);
    return nbytes;
}

/* The bytes of the result to `to`; how many, or -1. values: what this rank gives. */
static long perform(const struct step *step, const void *values, void *to, int on_gpu, int device)
{
    size_t nbytes = (size_t) (step->count * nbytes_of[step->dtype]);
    size_t room = nbytes * (size_t) (step->into == REIGEN_ALLGATHER ? step->n : 1) + 1;
    void *in = on_gpu ? device_alloc(nbytes) : malloc(nbytes + 1), *out = in;
    reigen_handle handles[GROUP];
    char name[32];
    long found;

    if (!step->in_place)
        out = on_gpu ? device_alloc(room) : calloc(room, 1);
    snprintf(name, sizeof(name), "%s.%d", on_gpu ? "gpu" : "host", nsteps % 8);
    if (on_gpu)
        device_copy(in, values, nbytes);
    else if (nbytes)
        memcpy(in, values, nbytes);
    if (reigen_use_device(on_gpu ? device : -1, on_gpu ? device_stream() : NULL) < 0 ||
        submit(step, name, in, out, handles) < 0)
        return -1;
    found = collect(step, handles, out, to, on_gpu);
    if (out != in)
        on_gpu ? device_free(out) : free(out);
    on_gpu ? device_free(in) : free(in);
    return found;
}

static int compare(const struct step *step, int device)
{
    size_t room = (size_t) ((step->count + 8) * nbytes_of[step->dtype] * (step->n + 1)) + 64;
    static char *values, *gpu, *host;
    static size_t have;
    long on_gpu, on_host;

    if (room > have) {
        have = room * 2;
        values = device_pinned(have);
        gpu = device_pinned(have);
        host = realloc(host, have);
    }
    for (int64_t i = 0; i < step->count; i++)
        put_value(values, step->dtype, step->rank, i);
    nsteps++;
    on_gpu = perform(step, values, gpu, 1, device);
    on_host = on_gpu < 0 ? -1 : perform(step, values, host, 0, device);
    if (on_gpu < 0 || on_host < 0)
        return fail("failed", step);
    if (on_gpu != on_host || memcmp(gpu, host, (size_t) on_gpu))
        return fail("the GPU's result is not the host's", step);
    ncompared += on_gpu;
    return 0;
}

/* ------------------------------------------------------------ all of them */

static int reductions(struct step step, int device)
{
    static const int64_t counts[] = { 1, 1000, 30001, 0 };
    int floating = step.dtype == REIGEN_FLOAT16 || step.dtype == REIGEN_FLOAT32 ||
                   step.dtype == REIGEN_FLOAT64 || step.dtype == REIGEN_BFLOAT16;
    int bad = 0;

    for (int op = REIGEN_AVERAGE; op <= REIGEN_PRODUCT && !bad; op++) {
        if ((op == REIGEN_AVERAGE && step.dtype == REIGEN_BOOL) ||
            (op == REIGEN_ADASUM && !floating))
            continue;
        step.options.op = op;
        for (int k = 0; k < 4 && !bad; k++) {
            step.count = counts[k];
            step.in_place = k % 2;
            bad = compare(&step, device);
        }
    }
    step.options = (struct reigen_options) REIGEN_OPTIONS_INIT;
    step.options.prescale = 2;
    step.options.postscale = step.dtype == REIGEN_BOOL ? 1 : 0.5;
    if (step.dtype == REIGEN_BOOL)
        step.options.prescale = 1;
    step.count = 999;
    bad = bad || compare(&step, device);
    step.kind = GROUPED;
    return bad || compare(&step, device);
}

static int movements(struct step step, int device)
{
    static const int kinds[] = { REIGEN_ALLGATHER, REIGEN_ALLTOALL, REIGEN_REDUCESCATTER };
    int bad = 0;

    for (step.options.root = 0; step.options.root < step.n && !bad; step.options.root++) {
        step.kind = REIGEN_BROADCAST;
        step.count = 777;
        bad = compare(&step, device);
    }
    step.options.root = 0;
    for (int k = 0; k < 3 && !bad; k++) {
        step.kind = kinds[k];
        /* Unequal parts, where they are allowed. */
        step.count = step.kind == REIGEN_REDUCESCATTER ? 1003 : 100 + 13 * step.rank;
        bad = compare(&step, device);
    }
    step.kind = INTO;
    step.count = 64 * step.n;
    step.into = REIGEN_ALLGATHER;
    bad = bad || compare(&step, device);
    step.into = REIGEN_REDUCESCATTER;
    return bad || compare(&step, device);
}

/* Those of more bytes than one piece of staging, and a set of the ranks but the last. */
static int large_and_set(struct step step, int device)
{
    int ranks[RANKS_MAX], members = step.n > 1 ? step.n - 1 : 1, set, bad;

    step.dtype = REIGEN_FLOAT32;
    step.count = BIG;
    bad = compare(&step, device);
    step.kind = REIGEN_BROADCAST;
    bad = bad || compare(&step, device);
    for (int r = 0; r < members; r++)
        ranks[r] = r;
    if (bad || step.n == 1)
        return bad;
    if (reigen_process_set_add(ranks, members, &set) < 0)
        return fail("no process set", &step);
    step.kind = REIGEN_ALLREDUCE;
    step.options.process_set = set;
    step.count = 5000;
    return step.rank < members ? compare(&step, device) : 0;
}

/* All ranks but the first have no more data: its sum is what it gives. */
static int joined(struct step step)
{
    size_t nbytes = 1000 * sizeof(float);
    float *values = device_pinned(nbytes), *found = device_pinned(nbytes);
    void *at = device_alloc(nbytes);
    reigen_handle handle;
    int bad = 0;

    step.dtype = REIGEN_FLOAT32;
    step.count = 1000;
    for (int64_t i = 0; i < step.count; i++)
        put_value(values, step.dtype, step.rank, i);
    device_copy(at, values, nbytes);
    if (reigen_use_device(0, device_stream()) < 0)
        bad = 1;
    if (!bad && step.rank == 0 &&
        reigen_allreduce("joined", at, at, step.dtype, &step.count, 1, NULL) < 0)
        bad = 1;
    device_copy(found, at, nbytes);
    device_wait();
    nsteps++;
    if (bad || reigen_join_async(&handle) < 0 || reigen_wait(handle, -1) < 0 ||
        memcmp(values, found, nbytes))
        return fail("join", &step);
    reigen_release(handle);
    device_free(at);
    return 0;
}

static int by_nccl(void)
{
    char *planes = NULL;
    int uses = reigen_planes(&planes) == 0 && strstr(planes, "nccl 300") != NULL;

    reigen_free(planes);
    return uses;
}

static int run_rank(int rank, int n, void *arg)
{
    struct step step = { REIGEN_ALLREDUCE, 0, 0, 0, REIGEN_OPTIONS_INIT, 0, rank, n };
    const char *missing = device_open(0);
    int bad = 0;

    (void) arg;
    alarm(LIMIT_S);
    if (missing || reigen_init(NULL) < 0) {
        fprintf(stderr, "rank %d: %s\n", rank, missing ? missing : reigen_last_error());
        return 1;
    }
    for (step.dtype = 0; step.dtype < REIGEN_NDTYPES && !bad; step.dtype++)
        bad = reductions(step, 0) || movements(step, 0);
    bad = bad || large_and_set(step, 0) || joined(step);
    if (!bad && rank == 0)
        printf("%d rank%s on one GPU, %s: %d operations of %d types, %ld bytes of results, all "
               "as on the host\n",
               n, n > 1 ? "s" : "", by_nccl() ? "by NCCL" : "by staging", nsteps, REIGEN_NDTYPES,
               ncompared);
    if (!bad && n == 1 && !by_nccl()) {
        fprintf(stderr, "one rank was not served by NCCL: is libnccl.so.2 there? REIGEN_NCCL=FILE "
                        "names it\n");
        bad = 1;
    }
    reigen_shutdown();
    return bad;
}

/* ------------------------------------------------------------ a rank that dies */

static int die_or_see(int rank, int n, void *arg)
{
    const char *missing = device_open(0);
    int64_t count = 1 << 16;
    double began;
    int rc = 0;
    void *at;

    (void) n;
    (void) arg;
    alarm(LIMIT_S);
    if (missing || reigen_init(NULL) < 0 || reigen_use_device(0, device_stream()) < 0)
        return 1;
    at = device_alloc((size_t) count * 4);
    for (int i = 0; i < 20 && rc == 0; i++)
        rc = reigen_allreduce("d", at, at, REIGEN_FLOAT32, &count, 1, NULL);
    if (rank)
        _exit(rc != 0); /* as a crash: nobody is told */
    began = device_now();
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = reigen_allreduce("d", at, at, REIGEN_FLOAT32, &count, 1, NULL);
    if (rc != -ECONNRESET) {
        fprintf(stderr, "a rank died, and the other one got %d: %s\n", rc, reigen_last_error());
        return 1;
    }
    printf("a rank that dies: the other one has its error after %.1f s\n", device_now() - began);
    reigen_shutdown();
    return 0;
}

int main(int argc, char **argv)
{
    const char *list = argc > 1 ? argv[1] : "1,2,4";
    int bad = 0;

    for (char *end; *list && !bad; list = end + (*end == ',')) {
        long n = strtol(list, &end, 10);

        if (end == list || n < 1 || n > RANKS_MAX) {
            fprintf(stderr, "usage: check [RANKS,...], each 1 to %d\n", RANKS_MAX);
            return 64;
        }
        bad = device_ranks((int) n, run_rank, NULL);
    }
    return bad || device_ranks(2, die_or_see, NULL);
}
