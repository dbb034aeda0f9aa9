/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: victim WHAT [WORKERS]
 * The last rank comes to harm while the ranks do WHAT; every rank says "ready PID", and each that
 * gets an error "error NUMBER MILLISECONDS TEXT", the time being that of its last call. WHAT:
 *      small, large, many  endless allreduces, of 4 bytes, of 64 MiB, or many at once
 *      wait                the last rank never comes; the others wait for it
 *      idle                nobody calls anything until a line comes on standard input
 *      exit, return        the last rank ends without a shutdown while the others wait
 *      shutdown            the last rank shuts down while the others wait
 * WORKERS children are forked by the last rank and live on: "worker PID".
 */
#include "program.h"

#define LARGE_COUNT (16 << 20)
#define MANY 64

static bool last(void)
{
    return reigen_rank() == reigen_size() - 1;
}

static int report(int r, uint64_t since_ms)
{
    say("error %d %llu %s", r, (unsigned long long) (now_ms() - since_ms), reigen_last_error());
    reigen_shutdown();
    expect(reigen_is_initialized(), 0, "is_initialized");
    return 0;
}

static int endless(int64_t count)
{
    float *data = allocate((size_t) count * sizeof(*data));
    int r = 0;
    uint64_t since_ms = 0;

    memset(data, 0, (size_t) count * sizeof(*data));
    while (r == 0) {
        since_ms = now_ms();
        r = reigen_allreduce("endless", data, data, REIGEN_FLOAT32, &count, 1, NULL);
    }
    r = report(r, since_ms);
    free(data);
    return r;
}

static int endless_many(void)
{
    static float data[MANY][4096];
    int64_t shape[] = { 4096 };
    reigen_handle handles[MANY];
    char name[32];

    for (;;) {
        int r = 0;
        uint64_t since_ms = now_ms();

        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof(name), "many%d", i);
            r = reigen_allreduce_async(name, data[i], data[i], REIGEN_FLOAT32, shape, 1, NULL,
                                       &handles[i]);
            if (r < 0)
                return report(r, since_ms);
        }
        for (int i = 0; i < MANY; i++) {
            int s = reigen_wait(handles[i], -1);

            if (r < 0 && s == 0)
                say("done after an error: %d", i);
            r = s < 0 ? s : r;
            reigen_release(handles[i]);
        }
        if (r < 0)
            return report(r, since_ms);
    }
}

static int wait_for_last(void)
{
    float x = 0;
    uint64_t since_ms = now_ms();

    return report(reigen_allreduce("late", &x, &x, REIGEN_FLOAT32, NULL, 0, NULL), since_ms);
}

static int idle(void)
{
    char line[16];

    if (!fgets(line, sizeof(line), stdin))
        fail("no line");
    return wait_for_last();
}

static void fork_workers(int nworkers)
{
    for (int i = 0; i < nworkers; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            for (;;)
                pause();
        }
        say("worker %d", (int) pid);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    begin();
    goes_on();
    if (last())
        fork_workers((int) argument(argc, argv, 2, 0));
    say("ready %d", (int) getpid());
    if (!strcmp(what, "small"))
        return endless(1);
    if (!strcmp(what, "large"))
        return endless(LARGE_COUNT);
    if (!strcmp(what, "many"))
        return endless_many();
    if (!strcmp(what, "idle"))
        return idle();
    if (!last())
        return wait_for_last();
    sleep_ms(300); /* patient: in the middle of the work */
    if (!strcmp(what, "exit"))
        _exit(9);
    if (!strcmp(what, "return"))
        return 0;
    if (!strcmp(what, "shutdown"))
        return reigen_shutdown();
    sleep_ms(60000); /* patient: waits to be killed */
    return 0;
}
