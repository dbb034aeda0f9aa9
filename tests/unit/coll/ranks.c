/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "coll/net/sock.h"
#include "help/hang.h"

static const char *const variables[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "REIGEN_RANK", "REIGEN_SIZE", "REIGEN_LOCAL_RANK", "REIGEN_LOCAL_SIZE", "REIGEN_CROSS_RANK",
    "REIGEN_CROSS_SIZE", "REIGEN_AGENT_SOCKET", "REIGEN_RANK_TOKEN", "REIGEN_JOB_ID",
    "REIGEN_HOSTNAME", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK",
    "REIGEN_ELASTIC", "REIGEN_PLACE" };

static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };

#define STALL_SHUTDOWN_S 8

int ranks_port(void)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        struct rg_sockaddr address;
        uint16_t first;
        int fds[18], n = 0;

        rg_sock_parse("127.0.0.1:0", &address);
        if (rg_sock_listen_tcp(&address, &fds[0], &first) < 0)
            continue;
        for (n = 1; n < 18 && first + n < 65536; n++) {
            uint16_t port;

            rg_sock_set_port(&address, (uint16_t) (first + n));
            if (rg_sock_listen_tcp(&address, &fds[n], &port) < 0)
                break;
        }
        for (int i = 0; i < n; i++)
            close(fds[i]);
        if (n == 18)
            return first;
    }
    return 40000;
}

void ranks_setenv(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

void ranks_clearenv(void)
{
    for (size_t i = 0; i < rg_array_len(variables); i++)
        unsetenv(variables[i]);
}

void *ranks_shared(size_t nbytes)
{
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

int ranks_fail(const struct rank *rank, int line, const char *what)
{
    fprintf(stderr, "rank %d of %d, line %d: not so: %s\n", rank->me, rank->n, line, what);
    return 1;
}

static void setenv_int(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void setenv_int_unless_set(const char *name, int value)
{
    if (!getenv(name))
        setenv_int(name, value);
}

static void run_rank(int me, int n, int master_port, int (*fn)(struct rank *), void *arg)
{
    struct rank rank = { .me = me, .n = n, .arg = arg };

    /* What cmocka catches it takes for a test's end, and goes on with the next one, here. */
    for (size_t i = 0; i < rg_array_len(deadly); i++)
        signal(deadly[i], SIG_DFL);
    rank.config.start_timeout_ms = 20000;
    rank.config.fusion_nbytes = 128u << 20;
    rank.config.spin_us = -1;
    rank.config.silence_ms = 30000;
    setenv_int("RANK", me);
    setenv_int("WORLD_SIZE", n);
    /* Ranks that wait for each other for ever end by the runtime's own means, which says who waited
     * where they have no more to do; what hangs otherwise is hang_wait()'s. */
    setenv_int_unless_set("REIGEN_STALL_SHUTDOWN_SECONDS", (int) unit_limit_s(STALL_SHUTDOWN_S));
    if (!getenv("MASTER_ADDR"))
        setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv_int("MASTER_PORT", master_port);
    int result = fn(&rank);

    fflush(NULL);
    _exit(result);
}

int ranks_run(int n, int master_port, int (*fn)(struct rank *rank), void *arg)
{
    static int number;
    pid_t pids[RANKS_MAX];
    int first = 0, status[RANKS_MAX] = { 0 };
    char id[32];

    snprintf(id, sizeof(id), "test-%d-%d", (int) getpid(), number++);
    hang_listen();
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        /* Another run of this test may have found the same port free. */
        if (pids[i] == 0 && !getenv("REIGEN_JOB_ID"))
            setenv("REIGEN_JOB_ID", id, 1);
        if (pids[i] == 0)
            run_rank(i, n, master_port, fn, arg);
    }
    hang_wait(pids, n, unit_limit_s(RANKS_LIMIT_S), "rank", status);
    for (int i = 0; i < n; i++) {
        if (!WIFEXITED(status[i]))
            fprintf(stderr, "rank %d of %d ended by signal %d\n", i, n, WTERMSIG(status[i]));
        int result = WIFEXITED(status[i]) ? WEXITSTATUS(status[i]) : HANG_STATUS;

        if (first == 0)
            first = result;
    }
    return first;
}
