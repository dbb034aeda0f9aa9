/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: again TIMES [TIMEOUT_MS [KEPT [LEAVE_MS]]]
 * Joins the job and leaves it, again and again, an allreduce in between; leaves no descriptor and
 * no thread behind, with KEPT=1 none but the first time, as connections to the launcher of an MPI
 * are kept until the process ends. Says "rank R of N" each time; when init fails "init NUMBER
 * TEXT". With LEAVE_MS all shutdowns together may take no longer.
 */
#include "program.h"

#include <dirent.h>

#ifdef __SANITIZE_THREAD__
#define TOOL_THREADS 1 /* the sanitizer starts one of its own beside the first of ours */
#else
#define TOOL_THREADS 0
#endif

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    if (!dir)
        fail("%s: %s", path, strerror(errno));
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    struct reigen_init_options options = { .timeout_ms = (int) argument(argc, argv, 2, 0) };
    long times = argument(argc, argv, 1, 1);
    int nfds = entries("/proc/self/fd"), nthreads = entries("/proc/self/task");
    uint64_t most_ms = (uint64_t) argument(argc, argv, 4, 0), left_ms = 0;

    expect(reigen_shutdown(), 0, "shutdown before init");
    for (long i = 0; i < times; i++) {
        int r = reigen_init(&options);

        if (r < 0) {
            say("init %d %s", r, reigen_last_error());
            if (entries("/proc/self/fd") != nfds ||
                entries("/proc/self/task") > nthreads + TOOL_THREADS)
                fail("a failed init has left something behind");
            return 3;
        }
        expect(reigen_init(NULL), 0, "init when initialised");
        say("rank %d of %d", reigen_rank(), reigen_size());
        goes_on();
        left_ms -= now_ms();
        expect(reigen_shutdown(), 0, "shutdown");
        left_ms += now_ms();
        expect(reigen_is_initialized(), 0, "is_initialized");
        expect(reigen_barrier(), -ENOTCONN, "barrier after shutdown");
        if (i == 0 && argument(argc, argv, 3, 0)) {
            nfds = entries("/proc/self/fd");
            nthreads = entries("/proc/self/task");
        }
        if (entries("/proc/self/fd") != nfds)
            fail("%d descriptors, and %d before", entries("/proc/self/fd"), nfds);
        if (entries("/proc/self/task") > nthreads + TOOL_THREADS)
            fail("%d threads, and %d before", entries("/proc/self/task"), nthreads);
    }
    if (most_ms && left_ms > most_ms)
        fail("%ld shutdowns took %llu ms", times, (unsigned long long) left_ms);
    return 0;
}
