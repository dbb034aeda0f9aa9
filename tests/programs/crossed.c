/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: crossed CASE
 * The last rank does another kind of operation by the name in which the others wait: says "TEXT" of
 * the error that this rank got. Then all join the job anew, and it goes on. CASE: blocking, waited,
 * group, request, set (three ranks), or one where both come in the end: late, where none waits, and
 * half, where all but the last rank do.
 */
#include "program.h"

static double zeros[16], results[16];
static const int64_t shape[] = { 4 };

static bool odd(void)
{
    return reigen_rank() == reigen_size() - 1;
}

static int ended(reigen_handle handle, int r)
{
    if (r == 0)
        r = reigen_wait(handle, -1);
    return r;
}

static int gather(const char *name, const struct reigen_options *options)
{
    reigen_handle handle;
    int r = reigen_allgather_async(name, zeros, REIGEN_FLOAT64, shape, 1, options, &handle);

    return ended(handle, r);
}

static int blocking(void)
{
    return odd() ? gather("x", NULL)
                 : reigen_allreduce("x", zeros, results, REIGEN_FLOAT64, shape, 1, NULL);
}

static int waited(void)
{
    reigen_handle handle;
    int r = odd() ? reigen_broadcast_async("x", zeros, results, REIGEN_FLOAT64, shape, 1, NULL,
                                           &handle)
                  : reigen_reducescatter_async("x", zeros, REIGEN_FLOAT64, shape, 1, NULL,
                                               &handle);

    return ended(handle, r);
}

static int group(void)
{
    const char *const names[] = { "x", "y" };
    const void *const ins[] = { zeros, zeros };
    void *const outs[] = { results, results + 8 };
    const int64_t *const shapes[] = { shape, shape };
    const int ndims[] = { 1, 1 };
    reigen_handle handles[2];
    int r = reigen_grouped_async(odd() ? REIGEN_ALLGATHER : REIGEN_ALLREDUCE, 2, names, ins, outs,
                                 REIGEN_FLOAT64, shapes, ndims, NULL, handles);

    return ended(handles[0], r);
}

static int request(void)
{
    struct reigen_request *q;

    expect(reigen_request_create(odd() ? REIGEN_BROADCAST : REIGEN_ALLREDUCE, "x", REIGEN_FLOAT64,
                                 shape, 1, NULL, &q), 0, "a request");
    int r = reigen_request_run(q, zeros, results, -1);

    reigen_request_free(q);
    return r;
}

static int set(void)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int ranks[] = { 1, 2 };

    expect(reigen_process_set_add(ranks, 2, &options.process_set), 0, "a set");
    if (reigen_rank() == 0)
        return reigen_allreduce("all", zeros, results, REIGEN_FLOAT64, shape, 1, NULL);
    return odd() ? gather("x", &options)
                 : reigen_allreduce("x", zeros, results, REIGEN_FLOAT64, shape, 1, &options);
}

static int come_late(bool waits)
{
    reigen_handle first, second;

    for (int i = 0; i < 2; i++) {
        bool sum = odd() == (i == 0);

        expect(sum ? reigen_allreduce_async("x", zeros, results, REIGEN_FLOAT64, shape, 1, NULL,
                                            i ? &second : &first)
                   : reigen_allgather_async("x", zeros, REIGEN_FLOAT64, shape, 1, NULL,
                                            i ? &second : &first), 0, "one of two");
        if (i == 0 && waits && !odd())
            expect(reigen_wait(first, -1), 0, "the first");
        else if (i == 0)
            sleep_ms(7000); /* patient: it comes late */
    }
    finish(first, 0, "the first");
    finish(second, 0, "the second");
    return 0;
}

static int late(void)
{
    return come_late(false);
}

static int half(void)
{
    return come_late(true);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = { { "blocking", blocking }, { "waited", waited }, { "group", group },
                  { "request", request },   { "set", set },       { "late", late },
                  { "half", half } };

    if (argc != 2)
        fail("which case?");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        begin();
        goes_on();
        if (cases[i].run() == 0)
            say("well");
        else
            say("%s", reigen_last_error());
        expect(reigen_shutdown(), 0, "shutdown");
        begin();
        goes_on();
        expect(reigen_shutdown(), 0, "shutdown");
    }
    return 0;
}
