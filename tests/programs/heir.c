/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: heir child|orphan|after
 * A process that has a rank's variables wants to be that rank too: a child of the rank, or (orphan)
 * one whose parent has ended. It says "heir 0 rank R of N" or "heir NUMBER TEXT"; the rank goes on.
 * With `after` the rank has shut down before, so that the child takes its place.
 */
#include "program.h"

#include <sys/wait.h>

static int inherit(void)
{
    int r = reigen_init(NULL);

    if (r < 0)
        say("heir %d %s", r, reigen_last_error());
    else
        say("heir 0 rank %d of %d", reigen_rank(), reigen_size());
    if (r == 0)
        goes_on();
    return r < 0 ? 0 : reigen_shutdown();
}

/* Begin the heir, and wait until it has ended: it alone holds the other end of a pipe. */
static void have_heir(bool orphan)
{
    int ends[2], status;
    char byte;

    if (pipe(ends) < 0)
        fail("pipe: %s", strerror(errno));
    pid_t pid = fork();

    if (pid == 0) {
        close(ends[0]);
        if (orphan && fork() > 0)
            _exit(0);
        execl("/proc/self/exe", "heir", "heir", NULL);
        _exit(127);
    }
    close(ends[1]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        fail("no heir");
    if (read(ends[0], &byte, 1) != 0)
        fail("the heir's pipe");
    close(ends[0]);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    bool after = strcmp(how, "after") == 0;

    if (strcmp(how, "heir") == 0)
        return inherit();
    begin();
    goes_on();
    if (after)
        expect(reigen_shutdown(), 0, "shutdown");
    have_heir(strcmp(how, "orphan") == 0);
    if (!after) {
        goes_on();
        expect(reigen_shutdown(), 0, "shutdown");
    }
    return 0;
}
