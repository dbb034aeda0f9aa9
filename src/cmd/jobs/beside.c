/* SPDX-License-Identifier: Apache-2.0 */
/* One program for all questions, as starting one takes a platform up to seconds. */
#include "cmd/jobs/beside.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "launch/control/control.h"

#define SAID_MAX 512
#define CHUNK 65536

struct rg_jobs_beside {
    struct rg_child child;
    struct rg_io saying;
    uint64_t end_ms;
    pid_t pid;           /* 0: it has ended */
    int in_fd, out_fd;   /* its input, and its output */
    int said_fd;         /* its standard error */
    char said[SAID_MAX]; /* how that begins; NUL-terminated */
    struct rg_buf text;  /* of an answer that is not whole */
};

static void on_ended(void *arg, pid_t pid, int status)
{
    struct rg_jobs_beside *beside = arg;

    (void) pid, (void) status;
    beside->pid = 0;
}

/* Some of what is there by now; all but the beginning is read to make room. One that writes without
 * an end must not keep the loop. */
static void listen_to(struct rg_jobs_beside *beside)
{
    char more[CHUNK / 16];
    ssize_t n = read(beside->said_fd, more, sizeof(more));

    if (n > 0) {
        size_t has = strlen(beside->said), room = sizeof(beside->said) - 1 - has;
        size_t nbytes = strnlen(more, (size_t) n);
        memcpy(beside->said + has, more, nbytes < room ? nbytes : room);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        rg_io_stop(&beside->saying);
    }
}

static void on_said(void *arg, int events)
{
    (void) events;
    listen_to(arg);
}

/* A pipe, of which the other end is the program's. */
static int open_pipe(int ours, int *ret_ours, int *ret_theirs, struct rg_error *err)
{
    int ends[2], r = rg_pipe(ends);

    if (r < 0)
        return rg_error_set(err, -r, "a pipe: %s", strerror(-r));
    *ret_ours = ends[ours];
    *ret_theirs = ends[1 - ours];
    rg_fd_set_nonblock(*ret_ours, true);
    return 0;
}

static int start(struct rg_jobs_beside *beside, const struct rg_strv *words, struct rg_error *err)
{
    rg_autoclose int in = -1, out = -1, said = -1;
    int r = open_pipe(1, &beside->in_fd, &in, err);

    if (r == 0)
        r = open_pipe(0, &beside->out_fd, &out, err);
    if (r == 0)
        r = open_pipe(0, &beside->said_fd, &said, err);
    if (r < 0)
        return r;
    /* A session of its own: Ctrl-C is for us. */
    const struct rg_spawn spawn = { .argv = words->v, .death_signal = SIGTERM, .new_session = true,
                                    .fds = { in, out, said } };
    return rg_spawn(&spawn, &beside->pid, err);
}

int rg_jobs_beside_create(struct rg_loop *loop, const struct rg_strv *words, uint64_t end_ms,
                          struct rg_jobs_beside **ret_beside, struct rg_error *err)
{
    struct rg_jobs_beside *beside = calloc(1, sizeof(*beside));

    if (!beside)
        return rg_error_memory(err);
    *beside = (struct rg_jobs_beside){ .end_ms = end_ms, .in_fd = -1, .out_fd = -1,
                                       .said_fd = -1 };
    signal(SIGPIPE, SIG_IGN); /* its end is told by its output */
    int r = start(beside, words, err);
    if (r < 0) {
        beside->pid = 0;
        rg_jobs_beside_destroy(beside);
        return r;
    }
    rg_child_start(&beside->child, loop, beside->pid, on_ended, beside);
    rg_io_start(&beside->saying, loop, beside->said_fd, RG_IO_READ, on_said, beside);
    *ret_beside = beside;
    return 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* It has no input any more, and closes its output when it ends. One that hangs, or writes on, is
 * ended. */
static void end(struct rg_jobs_beside *beside)
{
    uint64_t until_ns = rg_now_ns() + beside->end_ms * RG_NS_PER_MS;
    char rest[CHUNK / 16];
    ssize_t n;

    do
        n = read(beside->out_fd, rest, sizeof(rest));
    while (n != 0 && rg_now_ns() < until_ns &&
           rg_fd_wait(beside->out_fd, POLLIN, until_ns) == 0);
    if (n != 0)
        kill(beside->pid, SIGTERM);
    rg_spawn_wait(beside->pid, beside->end_ms);
}

void rg_jobs_beside_destroy(struct rg_jobs_beside *beside)
{
    if (!beside)
        return;
    rg_child_stop(&beside->child);
    close_one(&beside->in_fd);
    rg_io_stop(&beside->saying);
    close_one(&beside->said_fd);
    if (beside->pid > 0)
        end(beside);
    close_one(&beside->out_fd);
    rg_buf_fini(&beside->text);
    free(beside);
}

int rg_jobs_beside_ask(struct rg_jobs_beside *beside, unsigned from)
{
    char line[16];
    int n = snprintf(line, sizeof(line), "%u\n", from);

    /* So few bytes have room, unless nobody reads them: then the output says so. */
    if (write(beside->in_fd, line, (size_t) n) < 0 && errno != EPIPE)
        return -errno;
    return beside->out_fd;
}

static int take_line(struct rg_jobs_beside *beside, struct rg_buf *answer)
{
    const uint8_t *bytes = rg_buf_bytes(&beside->text);
    const uint8_t *end = memchr(bytes, '\n', rg_buf_nbytes(&beside->text));

    if (!end)
        return rg_buf_nbytes(&beside->text) > RG_CONTROL_ANSWER_MAX ? -EMSGSIZE : -EAGAIN;
    rg_buf_put(answer, bytes, (size_t) (end - bytes));
    rg_buf_consume(&beside->text, (size_t) (end - bytes) + 1);
    return rg_buf_status(answer);
}

int rg_jobs_beside_take(struct rg_jobs_beside *beside, struct rg_buf *answer)
{
    uint8_t *room = rg_buf_reserve(&beside->text, CHUNK);
    ssize_t n = room ? read(beside->out_fd, room, CHUNK) : -1;

    if (!room)
        return -ENOMEM;
    if (n <= 0)
        return n < 0 ? -errno : -ECONNRESET;
    rg_buf_commit(&beside->text, (size_t) n);
    return take_line(beside, answer);
}

char *rg_jobs_beside_verdict(struct rg_jobs_beside *beside, const char *id)
{
    const char *said = beside->said;

    listen_to(beside);
    return rg_strf("job %s: its head is not reached any more; reigen status %s says how the job "
                   "does%s%.*s%s", id, id, *said ? " (" : "", (int) strcspn(said, "\n"), said,
                   *said ? ")" : "");
}
