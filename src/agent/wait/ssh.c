/* SPDX-License-Identifier: Apache-2.0 */
/* Whether mpirun's own ssh will work is best known by trying it. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "agent/wait/internal.h"

#define AT_ONCE 64
#define CONNECT_S "5"
#define ATTEMPT_MS 15000
#define PAUSE_MIN_MS 200 /* after an attempt; then a half longer each time, up to */
#define PAUSE_MAX_MS 2000
#define REST_READS_MAX 80 /* of 1 KiB: a pipe holds 64 */

static void attempt(void *arg);

bool rg_wait_has_ssh(void)
{
    char path[PATH_MAX];

    return rg_path_find(getenv("PATH"), "ssh", strlen("ssh"), path);
}

/* The last line that is not empty is kept. A pipe that is full would stop ssh, whose banner may be
 * longer than that. True while there may be more to read. */
static bool hear(struct rg_wait_host *host)
{
    char text[1024];
    ssize_t n = read(host->errors_fd, text, sizeof(text));

    if (n == 0)
        rg_io_stop(&host->errors);
    for (ssize_t i = 0; i < n; i++) {
        if (strchr("\r\n", text[i])) {
            host->said_over = true;
            continue;
        }
        if (host->said_over)
            host->nsaid = 0;
        host->said_over = false;
        if (host->nsaid < sizeof(host->said) - 1)
            host->said[host->nsaid++] = text[i];
    }
    return n > 0;
}

static void on_said(void *arg, int events)
{
    (void) events;
    hear(arg);
}

/* All that an ended ssh has left in the pipe; what it started may have the pipe still, and write on
 * for ever. */
static void hear_the_rest(struct rg_wait_host *host)
{
    for (int i = 0; i < REST_READS_MAX && hear(host); i++)
        ;
}

static void stop_listening(struct rg_wait_host *host)
{
    rg_io_stop(&host->errors);
    close(host->errors_fd);
}

static void next(struct rg_wait *wait)
{
    for (size_t i = 0; i < wait->nhosts && wait->nssh < AT_ONCE; i++) {
        struct rg_wait_host *host = &wait->hosts[i];
        if (!host->ready && !host->pid && !rg_timer_active(&host->timer))
            attempt(host);
    }
}

static void on_ended(void *arg, pid_t pid, int status)
{
    struct rg_wait_host *host = arg;
    struct rg_wait *wait = host->wait;
    char why[RG_WAIT_WHY_MAX], words[64];

    (void) pid;
    rg_timer_stop(&host->timer);
    host->pid = 0;
    wait->nssh--;
    hear_the_rest(host);
    stop_listening(host);
    if (host->nsaid)
        snprintf(why, sizeof(why), "%.*s", (int) host->nsaid, host->said);
    else
        snprintf(why, sizeof(why), "ssh: %s", rg_status_text(status, words, sizeof(words)));
    if (status == 0) {
        rg_wait_ready(host);
    } else {
        rg_wait_not_ready(host, why);
        rg_timer_start(&host->timer, wait->loop, host->pause_ms, 0, attempt, host);
        host->pause_ms += host->pause_ms / 2;
        host->pause_ms = host->pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : host->pause_ms;
    }
    next(wait);
}

static void too_long(void *arg)
{
    struct rg_wait_host *host = arg;

    kill(host->pid, SIGKILL);
}

static void attempt(void *arg)
{
    struct rg_wait_host *host = arg;
    struct rg_wait *wait = host->wait;
    char *argv[10] = { "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" CONNECT_S };
    size_t n = 5;
    struct rg_error err = RG_ERROR_INIT;
    int fds[2];

    if (wait->nssh == AT_ONCE)
        return;
    if (host->user) {
        argv[n++] = "-l";
        argv[n++] = (char *) host->user;
    }
    argv[n++] = (char *) host->name;
    argv[n] = "true";
    int r = rg_pipe(fds);
    if (r == 0) {
        const struct rg_spawn spec = { .argv = argv, .fds = { -1, -1, fds[1] },
                                       .death_signal = SIGKILL };
        r = rg_spawn(&spec, &host->pid, &err);
        close(fds[1]);
        if (r < 0)
            close(fds[0]);
    }
    if (r < 0) {
        rg_wait_not_ready(host, *err.text ? err.text : strerror(-r));
        rg_timer_start(&host->timer, wait->loop, PAUSE_MAX_MS, 0, attempt, host);
        return;
    }
    host->errors_fd = fds[0];
    rg_fd_set_nonblock(host->errors_fd, true);
    host->nsaid = 0;
    rg_io_start(&host->errors, wait->loop, host->errors_fd, RG_IO_READ, on_said, host);
    wait->nssh++;
    rg_child_start(&host->child, wait->loop, host->pid, on_ended, host);
    rg_timer_start(&host->timer, wait->loop, ATTEMPT_MS, 0, too_long, host);
}

void rg_wait_ssh_start(struct rg_wait *wait)
{
    for (size_t i = 0; i < wait->nhosts; i++)
        wait->hosts[i].pause_ms = PAUSE_MIN_MS;
    next(wait);
}

void rg_wait_ssh_stop(struct rg_wait *wait)
{
    for (size_t i = 0; i < wait->nhosts; i++) {
        struct rg_wait_host *host = &wait->hosts[i];
        rg_timer_stop(&host->timer);
        if (!host->pid)
            continue;
        rg_child_stop(&host->child);
        stop_listening(host);
        kill(host->pid, SIGKILL);
        rg_spawn_wait(host->pid, 1000);
    }
}
