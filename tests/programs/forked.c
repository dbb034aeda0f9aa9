/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: forked
 * A child of a rank counts as not initialised and holds none of the runtime's descriptors; the
 * rank goes on, also with an operation in flight across the fork.
 */
#include "program.h"

#include <sys/wait.h>

#define FDS_MAX 256

static char before[FDS_MAX][128];

static void read_fds(char fds[FDS_MAX][128])
{
    char path[64];

    for (int fd = 0; fd < FDS_MAX; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, fds[fd], sizeof(fds[fd]) - 1);

        fds[fd][n > 0 ? n : 0] = 0;
    }
}

static void child(void)
{
    static char now[FDS_MAX][128];
    struct reigen_stats stats;
    reigen_handle handle;
    float x = 0;

    read_fds(now);
    for (int fd = 0; fd < FDS_MAX; fd++)
        if (strcmp(now[fd], before[fd]) != 0)
            fail("descriptor %d is %s in the child, and was %s", fd, now[fd], before[fd]);
    expect(reigen_is_initialized(), 0, "is_initialized");
    expect(reigen_rank(), -ENOTCONN, "rank");
    expect(reigen_barrier_async(NULL, &handle), -ENOTCONN, "barrier");
    expect(reigen_allreduce("x", &x, &x, REIGEN_FLOAT32, NULL, 0, NULL), -ENOTCONN, "allreduce");
    expect(reigen_get_stats(&stats), -ENOTCONN, "stats");
    expect(reigen_shutdown(), 0, "shutdown");
    if (fork() == 0)
        _exit(reigen_is_initialized());
    int status;

    wait(&status);
    expect(status, 0, "grandchild");
    _exit(0);
}

int main(void)
{
    static float in[1 << 20], out[1 << 20];
    int64_t shape[] = { 1 << 20 };
    reigen_handle handle;
    int status;

    read_fds(before);
    begin();
    goes_on();
    for (int i = 0; i < 4; i++) {
        for (size_t k = 0; k < COUNT_OF(in); k++)
            in[k] = 1;
        expect(reigen_allreduce_async("flight", in, out, REIGEN_FLOAT32, shape, 1, NULL, &handle),
               0, "flight");
        pid_t pid = fork();

        if (pid == 0)
            child();
        if (waitpid(pid, &status, 0) != pid || status != 0)
            fail("the child ended with status %d", status);
        finish(handle, 0, "flight");
        for (size_t k = 0; k < COUNT_OF(out); k++)
            if (out[k] != (float) reigen_size())
                fail("flight: element %zu is %g", k, (double) out[k]);
        goes_on();
    }
    expect(reigen_shutdown(), 0, "shutdown");
    say("forked");
    return 0;
}
