/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: leave HOW CODE [some]
 * Rank 1 leaves while the others wait for it in a collective; these end with status 5 on the error.
 * HOW: exit      it shuts down, and ends with status CODE
 *      linger    the same, with nobody who is made to hear of another end first; 700 ms later
 *      return    it ends with status CODE without a shutdown
 *      signal    it dies of signal CODE
 * some: rank 0 is a world of its own, and the others are one, with numbers that begin at 0.
 * The launcher is made to hear of the last rank's end first: a rank that has shut down ends after
 * it, and the agent of any other, its parent, is stopped until then.
 */
#include <signal.h>

#include "help/wait.h"
#include "program.h"

static bool is_over(int64_t pid)
{
    char path[64], stat[512] = "";
    FILE *file;
    bool over = true;

    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long) pid);
    file = fopen(path, "r");
    if (file) {
        size_t n = fread(stat, 1, sizeof(stat) - 1, file);
        const char *name_end = n ? strrchr(stat, ')') : NULL;

        over = !name_end || strchr("ZX", name_end[2]);
        fclose(file);
    }
    return over;
}

static void wait_for_end(int64_t pid)
{
    unit_until(is_over(pid), "the end of the last rank");
    sleep_ms(300); /* patient: for the launcher to hear of it, where it can */
}

static _Noreturn void wait_for_rank_1(void)
{
    float x = 0;

    say("error %d %s", reigen_allreduce("late", &x, &x, REIGEN_FLOAT32, NULL, 0, NULL),
        reigen_last_error());
    exit(5);
}

static void stop_agent_until(int64_t pid)
{
    pid_t agent = getppid();

    if (fork() == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        wait_for_end(pid);
        kill(agent, SIGCONT);
        _exit(0);
    }
    kill(agent, SIGSTOP);
}

/* Which rank of its world rank 1 of the job is; -1: of another one. */
static int begin_some(void)
{
    int ranks[RANKS_MAX], n = atoi(getenv("REIGEN_SIZE")) - 1;
    bool alone = !strcmp(getenv("REIGEN_RANK"), "0");

    for (int i = 0; i < n; i++)
        ranks[i] = alone ? 0 : 1 + i;
    struct reigen_init_options options = { 0, ranks, alone ? 1 : n };
    expect(reigen_init(&options), 0, "init");
    return alone ? -1 : 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int code = (int) argument(argc, argv, 2, 0), leaver = 1;
    int64_t last = getpid();
    reigen_handle handle;

    if (argc > 3)
        leaver = begin_some();
    else
        begin();
    if (leaver < 0)
        return reigen_shutdown();
    struct reigen_options options = { .root = reigen_size() - 1 };
    if (reigen_broadcast_async("pid", &last, &last, REIGEN_INT64, NULL, 0, &options, &handle) < 0)
        fail("broadcast: %s", reigen_last_error());
    finish(handle, 0, "broadcast");
    goes_on();
    if (reigen_rank() != leaver)
        wait_for_rank_1();
    sleep_ms(100); /* patient: the others wait by then */
    if (!strcmp(how, "exit")) {
        reigen_shutdown();
        wait_for_end(last);
        exit(code);
    }
    if (!strcmp(how, "linger")) {
        reigen_shutdown();
        sleep_ms(700); /* patient: longer than others may wait */
        exit(code);
    }
    stop_agent_until(last);
    if (!strcmp(how, "signal"))
        kill(getpid(), code);
    _exit(code);
}
