/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: joins [NNAMES]
 * Rank r has data for 2 r + 1 steps, then joins: the others' sums are those of the ranks that
 * still have data. Then the last rank reduces NNAMES new names while all others have joined.
 */
#include "program.h"

#define LARGE (256 << 10)
#define BATCH 500

static float in[LARGE], out[LARGE];

/* The ranks that have data for this step. */
static int nactive(int step)
{
    int n = 0;

    for (int r = 0; r < reigen_size(); r++)
        n += step < 2 * r + 1;
    return n;
}

static void reduce(const char *name, int64_t count, int op, int step)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    float want = (float) nactive(step);

    options.op = op;
    if (op == REIGEN_AVERAGE)
        want /= (float) reigen_size();
    for (int64_t i = 0; i < count; i++)
        in[i] = 1;
    expect(reigen_allreduce(name, in, out, REIGEN_FLOAT32, &count, 1, &options), 0, name);
    for (int64_t i = 0; i < count; i++)
        if (out[i] - want > 1e-6f || want - out[i] > 1e-6f)
            fail("%s, step %d: element %lld is %g, not %g", name, step, (long long) i,
                 (double) out[i], (double) want);
}

/* A group that is too large to travel in one piece. By Adasum it may be refused: a host all of
 * whose ranks have joined does not know its members. */
static void reduce_group(int op, int step)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t counts[] = { LARGE, 3, LARGE / 2 };
    const int64_t *shapes[] = { &counts[0], &counts[1], &counts[2] };
    const char *sums[] = { "group.0", "group.1", "group.2" };
    const char *adasums[] = { "adasum.0", "adasum.1", "adasum.2" };
    const int ndims[] = { 1, 1, 1 };
    const void *ins[] = { in, in, in };
    static float outs[3][LARGE];
    void *to[] = { outs[0], outs[1], outs[2] };
    float want = op == REIGEN_ADASUM ? 1 : (float) nactive(step);
    reigen_handle handles[3];

    options.op = op;
    for (int i = 0; i < LARGE; i++)
        in[i] = 1;
    expect(reigen_grouped_async(REIGEN_ALLREDUCE, 3, op == REIGEN_SUM ? sums : adasums, ins, to,
                                REIGEN_FLOAT32, shapes, ndims, &options, handles),
           0, "group");
    for (int i = 0; i < 3; i++) {
        if (op == REIGEN_ADASUM && reigen_wait(handles[i], -1) == -EINVAL) {
            expect_text(reigen_handle_error(handles[i]), "not supported with Join at this time");
            if (nactive(step) == reigen_size())
                fail("Adasum of a group is refused though nobody has joined");
            reigen_release(handles[i]);
            continue;
        }
        finish(handles[i], 0, "group");
        for (int64_t k = 0; k < counts[i]; k++)
            if (outs[i][k] != want)
                fail("group, step %d: element %lld is %g, not %g", step, (long long) k,
                     (double) outs[i][k], (double) want);
    }
}

/* Groups and a tensor at once: between nodes they may go together. */
static void reduce_groups(int step)
{
    static const char *const names[3][2] = { { "a.0", "a.1" }, { "b.0", "b.1" }, { "c.0", "c.1" } };
    static float outs[7][LARGE / 8];
    const int64_t counts[2] = { LARGE / 8, 5 };
    const int64_t *shapes[] = { &counts[0], &counts[1] };
    const int ndims[] = { 1, 1 };
    const void *ins[] = { in, in };
    reigen_handle handles[7];
    float want = (float) nactive(step);

    for (int g = 0; g < 3; g++) {
        void *to[] = { outs[2 * g], outs[2 * g + 1] };

        expect(reigen_grouped_async(REIGEN_ALLREDUCE, 2, names[g], ins, to, REIGEN_FLOAT32, shapes,
                                    ndims, NULL, &handles[2 * g]),
               0, names[g][0]);
    }
    expect(reigen_allreduce_async("beside", in, outs[6], REIGEN_FLOAT32, shapes[0], 1, NULL,
                                  &handles[6]), 0, "beside");
    for (int i = 0; i < 7; i++) {
        finish(handles[i], 0, "groups");
        for (int64_t k = 0; k < counts[i < 6 ? i % 2 : 0]; k++)
            if (outs[i][k] != want)
                fail("tensor %d of groups, step %d: element %lld is %g, not %g", i, step,
                     (long long) k, (double) outs[i][k], (double) want);
    }
}

/* All ranks, of which those that joined first have submitted fewer without a name. */
static void gather_without_name(void)
{
    int64_t shape[] = { 1 };
    reigen_handle handle;

    expect(reigen_allgather_async(NULL, in, REIGEN_FLOAT32, shape, 1, NULL, &handle), 0, "gather");
    finish(handle, 0, "gather after a join");
    expect(reigen_barrier(), 0, "barrier after a join");
}

static void refused_beside_joined(int step)
{
    int64_t shape[] = { reigen_size() };
    reigen_handle handle;

    if (step == 0 || nactive(step) == reigen_size())
        return;
    expect(reigen_allgather_async(NULL, in, REIGEN_FLOAT32, shape, 1, NULL, &handle), 0, "gather");
    if (reigen_wait(handle, -1) != -EINVAL)
        fail("an allgather beside a joined rank did not fail");
    expect_text(reigen_handle_error(handle), "Allgather is not supported with Join at this time");
    reigen_release(handle);
    expect(reigen_broadcast("b", in, out, REIGEN_FLOAT32, shape, 1, NULL), -EINVAL, "broadcast");
    expect_text(reigen_last_error(), "Broadcast is not supported with Join at this time");
    expect(reigen_reducescatter_async("s", in, REIGEN_FLOAT32, shape, 1, NULL, &handle), 0, "s");
    if (reigen_wait(handle, -1) != -EINVAL)
        fail("a reducescatter beside a joined rank did not fail");
    expect_text(reigen_handle_error(handle),
                "Reducescatter is not supported with Join at this time");
    reigen_release(handle);
}

static void epoch(int epoch)
{
    char name[32];
    reigen_handle handle;

    for (int step = 0; step < 2 * reigen_rank() + 1; step++) {
        snprintf(name, sizeof(name), "new.%d.%d", epoch, step);
        reduce("small", 7, REIGEN_SUM, step);
        reduce("large", LARGE, REIGEN_AVERAGE, step);
        reduce(name, 1 + step * 5000, REIGEN_SUM, step);
        reduce_group(REIGEN_SUM, step);
        reduce_groups(step);
        reduce_group(REIGEN_ADASUM, step);
        refused_beside_joined(step);
        expect(reigen_barrier(), 0, "barrier");
    }
    expect(reigen_join_async(&handle), 0, "join");
    int r = reigen_wait(handle, -1);

    if (r < 1 || r > reigen_size())
        fail("join gave %d: %s", r, reigen_handle_error(handle));
    reigen_release(handle);
    /* Nobody who has data for longer joins earlier. */
    expect(r, reigen_size(), "the last rank to join, plus one,");
    goes_on();
    gather_without_name();
}

/* A host that has joined takes names up, and forgets them. */
static void many_names(int n)
{
    bool last = reigen_rank() == reigen_size() - 1;
    char name[32];
    int64_t count = 1;
    reigen_handle handle, handles[BATCH];

    for (int i = 0; last && i < n; i += BATCH) {
        for (int k = 0; k < BATCH; k++) {
            snprintf(name, sizeof(name), "many.%d", i + k);
            expect(reigen_allreduce_async(name, &in[k], &out[k], REIGEN_FLOAT32, &count, 1, NULL,
                                          &handles[k]),
                   0, name);
        }
        for (int k = 0; k < BATCH; k++)
            finish(handles[k], 0, "one of many names");
    }
    expect(reigen_join_async(&handle), 0, "join");
    finish(handle, reigen_size(), "the last rank to join, plus one,");
}

int main(int argc, char **argv)
{
    int nnames = (int) argument(argc, argv, 1, 0);

    begin();
    for (int i = 0; i < 3; i++)
        epoch(i);
    if (nnames > 0)
        many_names(nnames);
    expect(reigen_barrier(), 0, "barrier");
    expect(reigen_shutdown(), 0, "shutdown");
    say("joined");
    return 0;
}
