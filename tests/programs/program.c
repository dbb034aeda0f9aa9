/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <stdarg.h>
#include <time.h>

uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t rng_next(struct rng *rng)
{
    return mix(rng->state += 0x9e3779b97f4a7c15u);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    return limit ? rng_next(rng) % limit : 0;
}

bool rng_one_in(struct rng *rng, unsigned n)
{
    return rng_below(rng, n) == 0;
}

uint64_t hash_bytes(uint64_t hash, const void *data, size_t nbytes)
{
    const unsigned char *bytes = data;
    uint64_t word;

    for (; nbytes >= sizeof(word); nbytes -= sizeof(word), bytes += sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    while (nbytes-- > 0)
        hash = (hash ^ *bytes++) * 0x100000001b3u;
    return hash;
}

char fail_context[256];

void fail(const char *fmt, ...)
{
    char text[2048];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "rank %d: %s%s%s\n", reigen_rank(), text, fail_context[0] ? "; " : "",
            fail_context);
    fflush(NULL);
    _exit(1);
}

void say(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

void sleep_ms(unsigned ms)
{
    struct timespec t = { ms / 1000, (long) (ms % 1000) * 1000000 };

    while (nanosleep(&t, &t) < 0 && errno == EINTR) /* patient: for programs */
        ;
}

void *allocate(size_t nbytes)
{
    void *data = malloc(nbytes ? nbytes : 1);

    if (!data)
        fail("no memory for %zu bytes", nbytes);
    return data;
}

long argument(int argc, char **argv, int index, long otherwise)
{
    return index < argc ? strtol(argv[index], NULL, 10) : otherwise;
}

void begin(void)
{
    int r;

    begin_mpi();
    r = reigen_init(NULL);
    if (r < 0)
        fail("init: %s: %s", strerror(-r), reigen_last_error());
    say_planes();
}

void expect(int r, int expected, const char *what)
{
    if (r != expected)
        fail("%s gave %d, not %d; last error: %s", what, r, expected, reigen_last_error());
}

void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail("\"%s\" does not hold \"%s\"", text, part);
}

void finish(reigen_handle handle, int expected, const char *what)
{
    int r = reigen_wait(handle, -1);

    if (r != expected)
        fail("%s ended with %d, not %d: %s", what, r, expected, reigen_handle_error(handle));
    expect(reigen_release(handle), 0, "release");
}

void goes_on(void)
{
    float ones[3] = { 1, 1, 1 }, sums[3] = { 0 };
    int64_t shape[] = { 3 };

    expect(reigen_allreduce("goes_on", ones, sums, REIGEN_FLOAT32, shape, 1, NULL), 0, "goes_on");
    for (int i = 0; i < 3; i++)
        if (sums[i] != (float) reigen_size())
            fail("goes_on: %g, not %d", (double) sums[i], reigen_size());
}
