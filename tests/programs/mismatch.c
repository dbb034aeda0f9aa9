/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mismatch
 * The last rank means something else by a name than the others: prints "CASE: TEXT" of the error
 * that this rank got. The name can be used again afterwards, and the job goes on. Then wrong
 * arguments: "refused CASE: TEXT".
 */
#include "program.h"

#define GROUP 3

static double zeros[64], results[64];

static bool odd(void)
{
    return reigen_rank() == reigen_size() - 1;
}

struct meaning {
    int kind, dtype;
    int64_t shape[3];
    int ndim;
    struct reigen_options options;
};

static int submit(const char *name, const struct meaning *m, reigen_handle *ret_handle)
{
    switch (m->kind) {
    case REIGEN_ALLGATHER:
        return reigen_allgather_async(name, zeros, m->dtype, m->shape, m->ndim, &m->options,
                                      ret_handle);
    case REIGEN_BROADCAST:
        return reigen_broadcast_async(name, zeros, results, m->dtype, m->shape, m->ndim,
                                      &m->options, ret_handle);
    case REIGEN_ALLTOALL:
        return reigen_alltoall_async(name, zeros, m->dtype, m->shape, m->ndim, NULL, 0,
                                     &m->options, ret_handle);
    case REIGEN_REDUCESCATTER:
        return reigen_reducescatter_async(name, zeros, m->dtype, m->shape, m->ndim, &m->options,
                                          ret_handle);
    default:
        return reigen_allreduce_async(name, zeros, results, m->dtype, m->shape, m->ndim,
                                      &m->options, ret_handle);
    }
}

/* Twice: the second time the ranks know the name already. Before, between and after it works. */
static void differ(const char *name, const struct meaning *same, const struct meaning *other)
{
    reigen_handle handle;

    for (int i = 0; i < 2; i++) {
        expect(submit(name, same, &handle), 0, name);
        finish(handle, 0, name);
        expect(submit(name, odd() ? other : same, &handle), 0, name);
        int r = reigen_wait(handle, -1);

        if (r != -EINVAL)
            fail("%s ended with %d, not %d", name, r, -EINVAL);
        say("%s: %s", name, reigen_handle_error(handle));
        expect(reigen_release(handle), 0, name);
        goes_on();
    }
    expect(submit(name, same, &handle), 0, name);
    finish(handle, 0, name);
}

static void all_mismatches(void)
{
    const struct meaning base = { REIGEN_ALLREDUCE, REIGEN_FLOAT32, { 6 }, 1, REIGEN_OPTIONS_INIT };
    struct meaning other;

    differ("type", &base, (other = base, other.dtype = REIGEN_INT64, &other));
    differ("reduction", &base, (other = base, other.options.op = REIGEN_MAX, &other));
    differ("prescale", &base, (other = base, other.options.prescale = 0.5, &other));
    differ("postscale", &base, (other = base, other.options.postscale = 2.0, &other));
    differ("shape", &base, (other = base, other.shape[0] = 5, &other));
    differ("dimensions", &base,
           (other = base, other.ndim = 2, other.shape[0] = 2, other.shape[1] = 3, &other));

    struct meaning tall = base;

    tall.kind = REIGEN_ALLGATHER;
    tall.ndim = 2;
    tall.shape[1] = 3;
    differ("gather", &tall, (other = tall, other.shape[1] = 2, &other));
    differ("gather_dimensions", &tall, (other = tall, other.ndim = 1, &other));
    tall.kind = REIGEN_REDUCESCATTER;
    differ("scatter", &tall, (other = tall, other.shape[0] = 5, &other));
    tall.kind = REIGEN_ALLTOALL;
    tall.shape[0] = reigen_size();
    differ("exchange", &tall, (other = tall, other.shape[1] = 2, &other));
    tall.kind = REIGEN_BROADCAST;
    tall.shape[0] = 6;
    differ("root", &tall, (other = tall, other.options.root = 1, &other));
    differ("broadcast", &tall, (other = tall, other.dtype = REIGEN_UINT8, &other));
}

static void group_fails_as_a_whole(void)
{
    const char *names[GROUP] = { "g0", "g1", "g2" };
    int64_t small[] = { 4 }, large[] = { odd() ? 5 : 6 };
    const int64_t *shapes[GROUP] = { small, large, small };
    const void *ins[GROUP] = { zeros, zeros, zeros };
    void *outs[GROUP] = { results, results + 16, results + 32 };
    int ndims[GROUP] = { 1, 1, 1 };
    reigen_handle handles[GROUP];

    expect(reigen_grouped_async(REIGEN_ALLREDUCE, GROUP, names, ins, outs, REIGEN_FLOAT32, shapes,
                                ndims, NULL, handles), 0, "group");
    for (int i = 0; i < GROUP; i++) {
        int r = reigen_wait(handles[i], -1);

        if (r != -EINVAL)
            fail("member %d ended with %d", i, r);
        say("group: %s", reigen_handle_error(handles[i]));
        reigen_release(handles[i]);
    }
    large[0] = 6;
    expect(reigen_grouped_async(REIGEN_ALLREDUCE, GROUP, names, ins, outs, REIGEN_FLOAT32, shapes,
                                ndims, NULL, handles), 0, "group");
    for (int i = 0; i < GROUP; i++)
        finish(handles[i], 0, "group");
    goes_on();
}

/* In flight for certain: the others come after the barrier. */
static void name_in_use(void)
{
    float one = 1, sum = 0;
    int64_t shape[] = { 1 };
    reigen_handle first, second = 77;

    if (reigen_rank() == 0) {
        expect(reigen_allreduce_async("used", &one, &sum, REIGEN_FLOAT32, shape, 1, NULL, &first),
               0, "used");
        expect(reigen_allreduce_async("used", &one, &sum, REIGEN_FLOAT32, shape, 1, NULL, &second),
               -EEXIST, "used again");
        say("in use: %s", reigen_last_error());
        if (second != 77)
            fail("a refused submission wrote its handle");
        expect(reigen_allreduce("used", &one, &sum, REIGEN_FLOAT32, shape, 1, NULL), -EEXIST,
               "used again, blocking");
        expect(reigen_barrier(), 0, "barrier");
        finish(first, 0, "used");
    } else {
        expect(reigen_barrier(), 0, "barrier");
        expect(reigen_allreduce("used", &one, &sum, REIGEN_FLOAT32, shape, 1, NULL), 0, "used");
    }
    if (sum != (float) reigen_size())
        fail("used: %g", (double) sum);
    goes_on();
}

static void refuse(const char *what, const struct meaning *m)
{
    reigen_handle handle = 77;

    expect(submit(what, m, &handle), -EINVAL, what);
    if (handle != 77)
        fail("%s: a refused submission wrote its handle", what);
    say("refused %s: %s", what, reigen_last_error());
}

static void wrong_arguments(void)
{
    const struct meaning base = { REIGEN_ALLREDUCE, REIGEN_FLOAT32, { 6 }, 1, REIGEN_OPTIONS_INIT };
    struct meaning m;

    refuse("adasum", (m = base, m.dtype = REIGEN_INT32, m.options.op = REIGEN_ADASUM, &m));
    refuse("reduction", (m = base, m.options.op = 6, &m));
    refuse("bool average",
           (m = base, m.dtype = REIGEN_BOOL, m.options.op = REIGEN_AVERAGE, &m));
    refuse("type", (m = base, m.dtype = REIGEN_NDTYPES, &m));
    refuse("dimensions", (m = base, m.ndim = REIGEN_NDIM_MAX + 1, &m));
    refuse("negative dimension", (m = base, m.shape[0] = -1, &m));
    refuse("overflow", (m = base, m.ndim = 2, m.shape[0] = m.shape[1] = INT64_MAX / 2, &m));
    refuse("process set", (m = base, m.options.process_set = 1, &m));
    refuse("root", (m = base, m.kind = REIGEN_BROADCAST, m.options.root = reigen_size(), &m));
    refuse("scalar gather", (m = base, m.kind = REIGEN_ALLGATHER, m.ndim = 0, &m));
    refuse("scalar scatter", (m = base, m.kind = REIGEN_REDUCESCATTER, m.ndim = 0, &m));
    refuse("scatter max", (m = base, m.kind = REIGEN_REDUCESCATTER, m.options.op = REIGEN_MAX, &m));
    if (reigen_size() > 1)
        refuse("uneven", (m = base, m.kind = REIGEN_ALLTOALL, m.shape[0] = reigen_size() + 1, &m));
    char name[REIGEN_NAME_MAX + 2];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    refuse(name, &base);
}

static void wrong_splits(void)
{
    int32_t splits[RANKS_MAX + 1] = { 7 };
    int64_t shape[] = { 6 };
    reigen_handle handle;
    int n = reigen_size();

    expect(reigen_alltoall_async("a", zeros, REIGEN_FLOAT32, shape, 1, splits, n, NULL, &handle),
           -EINVAL, "splits of more rows than there are");
    say("refused sum: %s", reigen_last_error());
    expect(reigen_alltoall_async("a", zeros, REIGEN_FLOAT32, shape, 1, splits, n + 1, NULL,
                                 &handle), -EINVAL, "one split too many");
    say("refused count: %s", reigen_last_error());
    splits[0] = -1;
    expect(reigen_alltoall_async("a", zeros, REIGEN_FLOAT32, shape, 1, splits, n, NULL, &handle),
           -EINVAL, "a negative split");
    say("refused negative: %s", reigen_last_error());
}

static void unknown_handles(void)
{
    const void *data;
    size_t nbytes;
    int64_t shape[REIGEN_NDIM_MAX];
    int ndim;

    for (reigen_handle h = -1; h < 1; h++) {
        expect(reigen_poll(h), -EINVAL, "poll");
        expect(reigen_wait(h, 0), -EINVAL, "wait");
        expect(reigen_release(h), -EINVAL, "release");
        expect(reigen_output(h, &data, &nbytes, shape, &ndim), -EINVAL, "output");
    }
    expect(reigen_poll(INT64_MAX), -EINVAL, "poll");
}

int main(void)
{
    reigen_handle handle;

    expect(reigen_rank(), -ENOTCONN, "rank before init");
    expect(reigen_barrier_async(NULL, &handle), -ENOTCONN, "barrier before init");
    say("before: %s", reigen_last_error());
    begin();
    if (reigen_size() > 1)
        all_mismatches();
    if (reigen_size() > 1)
        group_fails_as_a_whole();
    if (reigen_size() > 1)
        name_in_use();
    wrong_arguments();
    wrong_splits();
    unknown_handles();
    goes_on();
    expect(reigen_shutdown(), 0, "shutdown");
    expect(reigen_size(), -ENOTCONN, "size after shutdown");
    return 0;
}
