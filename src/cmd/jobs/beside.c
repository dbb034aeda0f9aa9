/* SPDX-License-Identifier: Apache-2.0 */
/* One program for all questions, as starting one takes a platform up to seconds. */
#include "cmd/jobs/beside.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "launch/control/control.h"

#define SAID_MAX 512
#define CHUNK 65536
#define END_MS 3000 /* for the program, when it is asked nothing more */

struct rg_jobs_beside {
    struct rg_child child;
    pid_t pid;          /* 0: it has ended */
    int in_fd, out_fd;  /* its input, and its output */
    int said_fd;        /* a file in memory: its standard error */
    struct rg_buf text; /* of an answer that is not whole */
};

static void on_ended(void *arg, pid_t pid, int status)
{
    struct rg_jobs_beside *beside = arg;

    (void) pid, (void) status;
    beside->pid = 0;
}

static int start(struct rg_jobs_beside *beside, const struct rg_strv *words, struct rg_error *err)
{
    int in[2], out[2], r = rg_pipe(in);

    if (r < 0)
        return rg_error_set(err, -r, "a pipe: %s", strerror(-r));
    rg_autoclose int their_in = in[0];
    beside->in_fd = in[1];
    r = rg_pipe(out);
    if (r < 0)
        return rg_error_set(err, -r, "a pipe: %s", strerror(-r));
    rg_autoclose int their_out = out[1];
    beside->out_fd = out[0];
    rg_fd_set_nonblock(beside->in_fd, true);
    rg_fd_set_nonblock(beside->out_fd, true);
    beside->said_fd = memfd_create("said", MFD_CLOEXEC);
    /* A session of its own: Ctrl-C is for us. */
    const struct rg_spawn spawn = { .argv = words->v, .death_signal = SIGTERM, .new_session = true,
                                    .fds = { their_in, their_out, beside->said_fd } };
    return rg_spawn(&spawn, &beside->pid, err);
}

int rg_jobs_beside_create(struct rg_loop *loop, const struct rg_strv *words,
                         struct rg_jobs_beside **ret_beside, struct rg_error *err)
{
    struct rg_jobs_beside *beside = calloc(1, sizeof(*beside));

    if (!beside)
        return rg_error_memory(err);
    *beside = (struct rg_jobs_beside){ .in_fd = -1, .out_fd = -1, .said_fd = -1 };
    signal(SIGPIPE, SIG_IGN); /* its end is told by its output */
    int r = start(beside, words, err);
    if (r < 0) {
        beside->pid = 0;
        rg_jobs_beside_destroy(beside);
        return r;
    }
    rg_child_start(&beside->child, loop, beside->pid, on_ended, beside);
    *ret_beside = beside;
    return 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void rg_jobs_beside_destroy(struct rg_jobs_beside *beside)
{
    if (!beside)
        return;
    rg_child_stop(&beside->child);
    close_one(&beside->in_fd);
    if (beside->pid > 0)
        rg_spawn_wait(beside->pid, END_MS);
    close_one(&beside->out_fd);
    close_one(&beside->said_fd);
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

char *rg_jobs_beside_verdict(const struct rg_jobs_beside *beside, const char *id)
{
    char said[SAID_MAX];
    ssize_t n = pread(beside->said_fd, said, sizeof(said) - 1, 0);

    said[n > 0 ? n : 0] = '\0';
    return rg_strf("job %s: its head is not reached any more; reigen status %s says how the job "
                   "does%s%.*s%s", id, id, *said ? " (" : "", (int) strcspn(said, "\n"), said,
                   *said ? ")" : "");
}
