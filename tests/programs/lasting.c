/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: lasting
 * Allreduces of two sizes, every result checked, until a line comes on rank 0's standard input.
 * Says "ready PID", then "round N" some five times a second, and "done" at the end; or "error
 * NUMBER TEXT".
 */
#include "program.h"

#include <poll.h>

#define LARGE (64 << 10)
#define TOLD_MS 200

static float data[LARGE];

static bool told_to_end(void)
{
    struct pollfd pfd = { 0, POLLIN, 0 };

    return reigen_rank() == 0 && poll(&pfd, 1, 0) > 0;
}

static int reduce(const char *name, int64_t n, float value, float expected)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = value;
    int r = reigen_allreduce(name, data, data, REIGEN_FLOAT32, &n, 1, NULL);

    for (int64_t i = 0; i < n && r == 0; i++)
        if (data[i] != expected)
            fail("%s: element %lld is %g, not %g", name, (long long) i, (double) data[i],
                 (double) expected);
    return r;
}

static int reduce_round(uint64_t round, bool *ret_end)
{
    float n = (float) reigen_size(), k = (float) (round % 100);
    float end = told_to_end();
    int r = reduce("small", 100, k + (float) reigen_rank(), k * n + n * (n - 1) / 2);

    if (r == 0 && round % 4 == 0)
        r = reduce("large", LARGE, k, k * n);
    if (r == 0)
        r = reigen_allreduce("end", &end, &end, REIGEN_FLOAT32, NULL, 0, NULL);
    *ret_end = end > 0;
    return r;
}

int main(void)
{
    uint64_t told_ms = 0;
    bool end = false;
    int r = 0;

    begin();
    say("ready %d", (int) getpid());
    for (uint64_t round = 0; r == 0 && !end; round++) {
        r = reduce_round(round, &end);
        if (r == 0 && now_ms() >= told_ms + TOLD_MS) {
            told_ms = now_ms();
            say("round %llu", (unsigned long long) round);
        }
        sleep_ms(1); /* patient: it computes */
    }
    if (r < 0)
        say("error %d %s", r, reigen_last_error());
    else
        say("done");
    reigen_shutdown();
    return 0;
}
