/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: hindered CAUSE RANK WORK EXTRA NBYTES [FILE]
 * Steps until it is ended: each is so much WORK for the processor, and an allreduce of NBYTES. One
 * RANK is hindered by EXTRA more, of what CAUSE says: none, compute, bytes (work, and as much more
 * to allgather), turns (another rank in each step), input (microseconds for which a child that
 * feeds it by a pipe sleeps), pages (of FILE, mapped, that it reads); neighbours and limits of
 * cgroups come from outside. bench/diagnosis.py looks what is said of it.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "program.h"

#define LOOPS 2000 /* that take some 1 us */
#define JITTER 50  /* thousandths by which a step may be longer or shorter than usual */
#define PAGE_NBYTES 4096
#define ROW_COUNT 256 /* elements of an allgather's row */
#define ROWS_MAX 1000

/* Some 1 us for each. */
static void work(long amount)
{
    static volatile uint64_t sum;

    for (long i = 0; i < amount * LOOPS; i++)
        sum = sum + (uint64_t) i;
}

/* No two steps of a program are alike. */
static long vary(long amount, struct rng *rng)
{
    return amount + amount / 1000 * ((long) rng_below(rng, 2 * JITTER + 1) - JITTER);
}

/* A byte comes back after a while. */
static int begin_input(long us)
{
    int ends[2];
    pid_t child;
    char byte;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || (child = fork()) < 0)
        fail("no input: %s", strerror(errno));
    if (child) {
        close(ends[1]);
        return ends[0];
    }
    close(ends[0]);
    while (read(ends[1], &byte, 1) == 1) {
        usleep((useconds_t) us); /* patient: a disk */
        if (write(ends[1], &byte, 1) != 1)
            break;
    }
    _exit(0);
}

static const volatile char *begin_pages(const char *path, size_t *ret_npages)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const volatile char *pages;

    if (fd < 0 || fstat(fd, &st) < 0)
        fail("no %s: %s", path, strerror(errno));
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* they are to be this process's */
    pages = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (pages == MAP_FAILED)
        fail("no mapping of %s", path);
    madvise((void *) pages, (size_t) st.st_size, MADV_RANDOM);
    *ret_npages = (size_t) st.st_size / PAGE_NBYTES;
    return pages;
}

static void read_pages(const volatile char *pages, size_t npages, long count, struct rng *rng)
{
    static volatile char sum;

    for (long i = 0; i < count; i++)
        sum = (char) (sum + pages[rng_below(rng, npages) * PAGE_NBYTES]);
}

/* One row for each 1,000 of the work. */
static int gather(long amount)
{
    static float mine[ROWS_MAX * ROW_COUNT];
    int64_t rows = amount / 1000 < ROWS_MAX ? amount / 1000 + 1 : ROWS_MAX;
    reigen_handle handle;
    int r = reigen_allgather_async("rows", mine, REIGEN_FLOAT32, (int64_t[]){ rows, ROW_COUNT }, 2,
                                   NULL, &handle);

    if (r == 0)
        r = reigen_wait(handle, -1);
    reigen_release(handle);
    return r;
}

int main(int argc, char **argv)
{
    const char *cause = argc > 5 ? argv[1] : "";
    long culprit = argument(argc, argv, 2, 0), amount = argument(argc, argv, 3, 1000);
    long extra = argument(argc, argv, 4, 0), nbytes = argument(argc, argv, 5, 4);
    float *data = allocate((size_t) nbytes + sizeof(float));
    const volatile char *pages = NULL;
    struct rng turns = { 1 }, rng = { (uint64_t) getpid() };
    size_t npages = 0;
    int input = -1;
    char byte;

    begin();
    bool hindered = reigen_rank() == culprit, bytes = strcmp(cause, "bytes") == 0;
    if (hindered && strcmp(cause, "input") == 0)
        input = begin_input(extra);
    if (hindered && strcmp(cause, "pages") == 0)
        pages = begin_pages(argc > 6 ? argv[6] : "", &npages);
    for (;;) {
        bool turn = rng_below(&turns, (uint64_t) reigen_size()) == (uint64_t) reigen_rank();
        bool more = strcmp(cause, "turns") == 0
                        ? turn : hindered && (bytes || strcmp(cause, "compute") == 0);
        work(vary(more ? amount + extra : amount, &rng));
        if (input >= 0 && (write(input, "", 1) != 1 || read(input, &byte, 1) != 1))
            return 4;
        if (pages)
            read_pages(pages, npages, extra, &rng);
        if (bytes && gather(more ? amount + extra : amount) != 0)
            return 3;
        if (reigen_allreduce("x", data, data, REIGEN_FLOAT32,
                             (int64_t[]){ nbytes / (long) sizeof(float) }, 1, NULL) != 0)
            return 3;
        reigen_step();
    }
}
