/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: progress NAMES
 * What goes on while nobody waits: an operation submitted and left alone, one that is released
 * before it is done, and NAMES distinct names, whose memory is bounded.
 */
#include "help/wait.h"
#include "program.h"

#define LARGE (2 << 20)
#define BATCH 100

static float in[LARGE];
static volatile float out[LARGE];

/* Rank 0 submits and computes for two seconds; the others get their result meanwhile. */
static void others_need_not_wait(void)
{
    int64_t shapes[][1] = { { 100 }, { LARGE } };
    reigen_handle handles[2];
    float *outs[2] = { allocate(LARGE * sizeof(float)), allocate(LARGE * sizeof(float)) };

    expect(reigen_barrier(), 0, "barrier");
    uint64_t start_ms = now_ms();

    for (int i = 0; i < 2; i++)
        expect(reigen_allreduce_async(i ? "left.large" : "left.small", in, outs[i], REIGEN_FLOAT32,
                                      shapes[i], 1, NULL, &handles[i]), 0, "left");
    if (reigen_rank() == 0)
        while (now_ms() < start_ms + 2000)
            mix(1);
    for (int i = 0; i < 2; i++) {
        finish(handles[i], 0, "left");
        if (reigen_rank() != 0 && now_ms() > start_ms + 1500)
            fail("waited %llu ms for a rank that had submitted",
                 (unsigned long long) (now_ms() - start_ms));
        free(outs[i]);
    }
}

static void released_before_done(void)
{
    static const int64_t counts[] = { 1, 5000, LARGE };
    reigen_handle handle;

    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        int64_t n = counts[i];

        expect(reigen_barrier(), 0, "barrier");
        expect(reigen_allreduce_async("dropped", in, (void *) (uintptr_t) out, REIGEN_FLOAT32, &n,
                                      1, NULL, &handle), 0, "dropped");
        expect(reigen_release(handle), 0, "release");
        expect(reigen_poll(handle), -EINVAL, "poll");

        if (!unit_until(out[0] == (float) reigen_size() && out[n - 1] == (float) reigen_size(),
                        "the operation"))
            fail("a released operation of %lld elements was not carried out", (long long) n);
        /* The runtime may still send from there: until all have it. */
        expect(reigen_barrier(), 0, "barrier");
        memset((void *) (uintptr_t) out, 0, sizeof(out));
    }
}

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        fail("no /proc/self/statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void batch(int first)
{
    static float values[BATCH][8];
    int64_t shape[] = { 8 };
    reigen_handle handles[BATCH];
    char name[64];

    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < 8; k++)
            values[i][k] = (float) (i + k);
        snprintf(name, sizeof(name), "distinct.%d", first + i);
        expect(reigen_allreduce_async(name, values[i], values[i], REIGEN_FLOAT32, shape, 1, NULL,
                                      &handles[i]), 0, name);
    }
    for (int i = 0; i < BATCH; i++) {
        finish(handles[i], 0, "distinct");
        for (int k = 0; k < 8; k++)
            if (values[i][k] != (float) ((i + k) * reigen_size()))
                fail("distinct.%d: %g", first + i, (double) values[i][k]);
    }
}

static void many_names(int n)
{
    long half_kib = 0;

    for (int i = 0; i < n; i += BATCH) {
        if (i >= n / 2 && half_kib == 0)
            half_kib = resident_kib();
        batch(i);
    }
    say("names %d: %ld KiB at half, %ld KiB at the end", n, half_kib, resident_kib());
    batch(0);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < LARGE; i++)
        in[i] = 1;
    begin();
    others_need_not_wait();
    released_before_done();
    many_names((int) argument(argc, argv, 1, 10000));
    goes_on();
    expect(reigen_shutdown(), 0, "shutdown");
    return 0;
}
