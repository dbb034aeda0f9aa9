/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/planes/plane_dummy.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "coll/planes/planes.h"
#include "coll/reduce/reduce.h"
#include "coll/boot/boot.h"

enum { MEMBERS_MAX = 8, NAME_MAX_NBYTES = 64 };

int dummy_count;
ptrdiff_t dummy_device;

/* One member's operand of one operation. */
struct message {
    uint32_t number, member;
    char data[DUMMY_MAX_NBYTES];
};

struct dummy {
    int fd, n, me;
    struct sockaddr_un addresses[MEMBERS_MAX];
    bool active, dead;
    struct rg_coll coll;
    uint32_t number;             /* of the operation */
    unsigned sent;               /* bits: members that have my operand */
    /* By parity of the number: who has finished this one may be one ahead. */
    struct message came[2][MEMBERS_MAX];
};

/* ---- what is told out of band: a name that nobody else has */

static int offer(const struct rg_config *config, int rank, int size, bool allowed,
                 struct rg_buf *text, struct rg_error *err)
{
    static int nteams;

    (void) config, (void) allowed, (void) err;
    if (size > 1)
        rg_buf_printf(text, "dummy-%d-%d-%d", (int) getpid(), rank, nteams++);
    return 0;
}

/* A name for each group: one rank is in several. */
static int find_address(const struct rg_plane_options *options, int member,
                        struct sockaddr_un *ret_address)
{
    const struct rg_blob *whole = &options->offers[rg_group_rank(&options->group, member)];
    struct rg_blob name;

    if (rg_planes_find_offer(whole, "dummy", &name) < 0 || name.nbytes > NAME_MAX_NBYTES)
        return -EBADMSG;
    *ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1, "%.*s-%d",
             (int) name.nbytes, (const char *) name.data, (int) options->group.scope);
    return 0;
}

static int open_dummy(const struct rg_plane_options *options, void **ret_state,
                      struct rg_error *err)
{
    struct dummy *dummy = calloc(1, sizeof(*dummy));
    int r = dummy ? 0 : -ENOMEM;

    if (options->group.nmembers > MEMBERS_MAX) {
        free(dummy);
        return -ENOTSUP;
    }
    for (int i = 0; r == 0 && i < options->group.nmembers; i++)
        r = find_address(options, i, &dummy->addresses[i]);
    if (r == 0) {
        dummy->n = options->group.nmembers;
        dummy->me = options->group.me;
        dummy->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (dummy->fd < 0 || bind(dummy->fd, (struct sockaddr *) &dummy->addresses[dummy->me],
                                  sizeof(dummy->addresses[0])) < 0)
            r = -errno;
    }
    if (r < 0) {
        free(dummy);
        return rg_error_set(err, -r, "the dummy plane: %s", strerror(-r));
    }
    *ret_state = dummy;
    return 0;
}

static int score(const void *state, const struct rg_plane_task *task)
{
    (void) state;
    return task->kind == RG_COLL_ALLREDUCE && task->nbytes <= DUMMY_MAX_NBYTES &&
                   task->dtype == REIGEN_FLOAT32 ? DUMMY_SCORE : -1;
}

/* ---- one operation */

static char *readable(const struct rg_coll *coll, const void *at)
{
    return (char *) (uintptr_t) at + (coll->memory == RG_MEMORY_HOST ? 0 : dummy_device);
}

static void begin(struct dummy *dummy)
{
    const struct rg_coll *coll = &dummy->coll;
    struct message *mine;

    dummy->number++;
    mine = &dummy->came[dummy->number & 1][dummy->me];
    mine->number = dummy->number;
    mine->member = (uint32_t) dummy->me;
    memset(mine->data, 0, coll->count * sizeof(float));
    if (coll->in)
        memcpy(mine->data, readable(coll, coll->in), coll->count * sizeof(float));
    dummy->sent = 1u << dummy->me;
}

/* 1 done, 0 not yet. */
static int step(struct dummy *dummy, bool *ret_moved)
{
    const struct rg_coll *coll = &dummy->coll;
    const struct message *mine = &dummy->came[dummy->number & 1][dummy->me];
    const void *sources[MEMBERS_MAX];
    struct message message;

    for (int i = 0; i < dummy->n; i++)
        if (!(dummy->sent >> i & 1) &&
            sendto(dummy->fd, mine, sizeof(*mine), MSG_NOSIGNAL,
                   (struct sockaddr *) &dummy->addresses[i], sizeof(dummy->addresses[i])) > 0) {
            dummy->sent |= 1u << i;
            *ret_moved = true;
        }
    while (recv(dummy->fd, &message, sizeof(message), 0) == sizeof(message)) {
        dummy->came[message.number & 1][message.member] = message;
        *ret_moved = true;
    }
    for (int i = 0; i < dummy->n; i++) {
        sources[i] = dummy->came[dummy->number & 1][i].data;
        if (dummy->came[dummy->number & 1][i].number != dummy->number || !(dummy->sent >> i & 1))
            return 0;
    }
    if (coll->out)
        rg_reduce(coll->dtype, coll->op, readable(coll, coll->out), sources, dummy->n,
                  coll->count, &coll->scale);
    return 1;
}

/* ---- a stream */

void dummy_stream_put(struct dummy_stream *stream, void (*fn)(void *), void *arg)
{
    stream->works[stream->nworks++] = (struct dummy_work){ fn, arg };
}

void dummy_stream_run(struct dummy_stream *stream)
{
    for (int i = 0; i < stream->nworks; i++)
        stream->works[i].fn(stream->works[i].arg);
    stream->nworks = 0;
}

static void carry_out(void *arg)
{
    struct dummy *dummy = arg;
    bool moved;

    begin(dummy);
    while (step(dummy, &moved) == 0)
        sched_yield();
}

/* ---- the vtable */

static int post(void *state, const struct rg_coll *coll)
{
    struct dummy *dummy = state;

    if (dummy->dead)
        return -ECONNRESET;
    dummy->coll = *coll;
    dummy_count++;
    if (coll->stream) {
        dummy_stream_put(coll->stream, carry_out, dummy); /* one at a time is enough for a toy */
        return 0;
    }
    begin(dummy);
    dummy->active = true;
    return 0;
}

static int progress(void *state, bool *ret_moved, struct rg_error *err)
{
    struct dummy *dummy = state;

    if (dummy->dead)
        return rg_error_set(err, ECONNRESET, "the dummy plane was given up");
    if (dummy->active && step(dummy, ret_moved) == 0)
        return 0;
    dummy->active = false;
    return 1;
}

static int wait_fds(void *state, int *ret_fds, unsigned *ret_events, int max)
{
    struct dummy *dummy = state;

    if (!dummy->active || max < 1)
        return 0;
    ret_fds[0] = dummy->fd;
    ret_events[0] = EPOLLIN;
    return 1;
}

/* On one node the driver does not look at descriptors, and a full or missing socket has none. */
static unsigned poll_us(void *state)
{
    struct dummy *dummy = state;

    return dummy->active ? 200 : 0;
}

static void abort_dummy(void *state)
{
    struct dummy *dummy = state;

    dummy->dead = true;
}

static void close_dummy(void *state, int timeout_ms)
{
    struct dummy *dummy = state;

    (void) timeout_ms;
    close(dummy->fd);
    free(dummy);
}

static void after_fork(void *state)
{
    struct dummy *dummy = state;

    close(dummy->fd);
}

const struct rg_plane_ops rg_plane_dummy = {
    .name = "dummy",
    .scopes = 1u << RG_SCOPE_NODE | 1u << RG_SCOPE_LEADERS | 1u << RG_SCOPE_ALL,
    .memories = 1u << RG_MEMORY_HOST | 1u << RG_MEMORY_CUDA,
    .takes_streams = true,
    .offer = offer,
    .open = open_dummy,
    .score = score,
    .post = post,
    .progress = progress,
    .wait_fds = wait_fds,
    .poll_us = poll_us,
    .abort = abort_dummy,
    .close = close_dummy,
    .after_fork = after_fork,
};
