/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, frames that come, and recursive doubling: many operations at once, each as far as its
 * frames have come. */
#include "coll/far/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "base/time.h"
#include "coll/far/far_inside.h"
#include "coll/net/listener.h"
#include "coll/reduce/reduce.h"

#define EARLY_NBYTES_MAX (UINT64_C(1) << 30) /* kept of what comes before its use begins here */
#define MUCH_NBYTES 65536
#define TURNS_MAX 8 /* receives of one socket before the next is looked at */

static int level_out(const struct rg_far *far)
{
    return far->doubling.nsteps + 1;
}

/* The link to a leader; there is a new one where there was none. */
static int link_to(struct rg_far *far, int node)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].node == node)
            return i;
    rg_far_link_init(&far->links[far->nlinks], node);
    return far->nlinks++;
}

/* Where its frames come from, by level. */
static void lay_out_doubling(struct rg_far *far)
{
    const struct rg_doubling *doubling = &far->doubling;

    for (int level = 0; level < RG_FAR_LEVELS_MAX + 2; level++)
        far->by_level[level] = -1;
    if (doubling->is_folded) {
        far->by_level[level_out(far)] = link_to(far, doubling->neighbour);
        return;
    }
    if (doubling->has_folded)
        far->by_level[RG_FAR_LEVEL_IN] = link_to(far, doubling->neighbour);
    for (int step = 0; step < doubling->nsteps; step++)
        far->by_level[step + 1] = link_to(far, rg_doubling_partner(doubling, step));
}

int rg_far_create(const struct rg_team *team, const struct rg_far_events *events,
                  struct rg_far **ret_far)
{
    size_t nlinks = RG_FAR_LEVELS_MAX + 1 > RG_DIRECT_SHOTS_MAX ? RG_FAR_LEVELS_MAX + 1
                                                             : RG_DIRECT_SHOTS_MAX;
    struct rg_far *far = calloc(1, sizeof(*far) + nlinks * sizeof(struct rg_far_link));

    if (!far)
        return -ENOMEM;
    far->team = team;
    far->dialling = rg_far_links_of(team);
    far->events = *events;
    far->n = team->nnodes;
    far->me = team->node;
    far->doubling = rg_doubling_of(far->n, far->me);
    for (int node = 0; node < far->n && rg_far_shoots(far); node++)
        if (node != far->me)
            link_to(far, node);
    lay_out_doubling(far);
    *ret_far = far;
    return 0;
}

/* ------------------------------------------------------------ numbers */

static struct rg_far_use *get_use(struct rg_far *far, uint32_t id)
{
    if (rg_grow(&far->uses, &far->uses_capacity, (size_t) id + 1) < 0)
        return NULL;
    if (!far->uses[id])
        far->uses[id] = calloc(1, sizeof(*far->uses[id]));
    return far->uses[id];
}

static void drop_below(struct rg_far *far, struct rg_far_use *use, uint32_t seq)
{
    struct rg_far_early **link = &use->early;

    while (*link)
        if ((*link)->frame.seq >= seq)
            link = &(*link)->next;
        else
            free(rg_far_take_out(far, link));
}

int rg_far_expect(struct rg_far *far, uint32_t id, uint32_t seq, uint8_t way)
{
    struct rg_far_use *use = get_use(far, id);

    if (way > RG_DIRECT_DOUBLING && !rg_far_shoots(far))
        return -EINVAL;
    if (!use)
        return -ENOMEM;
    use->next = seq;
    use->way = way == RG_DIRECT_NOT ? RG_DIRECT_DOUBLING : way;
    drop_below(far, use, seq);
    return 0;
}

/* ------------------------------------------------------------ one operation */

/* What has been reduced so far, to whom the level says. */
static void put(struct rg_far *far, struct rg_far_op *op, int level)
{
    rg_far_put(op, &far->links[far->by_level[op->level]], level, op->now, op->nbytes);
}

/* Who is folded into this leader gets what this one has. */
static void finish(struct rg_far *far, struct rg_far_op *op)
{
    if (far->doubling.has_folded)
        rg_far_put(op, &far->links[far->by_level[RG_FAR_LEVEL_IN]], level_out(far), op->now,
                   op->nbytes);
    rg_far_finish(far, op);
}

/* What came is the result, or is added. The lower leader's is the first operand. */
static void combine(struct rg_far *far, struct rg_far_op *op, const void *payload)
{
    const struct rg_scale plain = { 1.0, 1.0, 1 };
    const struct rg_far_link *link = &far->links[far->by_level[op->level]];
    bool first = far->me < link->node;
    const void *sources[2] = { first ? op->now : payload, first ? payload : op->now };

    rg_far_settle(far, op);
    if (op->nbytes && far->doubling.is_folded)
        memcpy(op->out, payload, op->nbytes);
    else if (op->nbytes)
        rg_reduce(op->dtype, op->op, op->out, sources, 2, op->count, &plain);
    op->now = op->out;
}

static void await(struct rg_far *far, struct rg_far_op *op, int level)
{
    op->level = level;
    far->links[far->by_level[level]].nawaited++;
    if (level == RG_FAR_LEVEL_IN)
        DL_APPEND(far->folding, op);
}

static void await_no_more(struct rg_far *far, struct rg_far_op *op)
{
    far->links[far->by_level[op->level]].nawaited--;
    if (op->level == RG_FAR_LEVEL_IN)
        DL_DELETE(far->folding, op);
}

/* Who is folded sends first, and hears of nothing before. */
static void call(struct rg_far *far, struct rg_far_op *op)
{
    const struct rg_far_frame frame = { .id = op->id, .seq = op->seq, .level = RG_FAR_LEVEL_CALL,
                                        .round = op->round };

    op->called = true;
    rg_far_link_put(&far->links[far->by_level[RG_FAR_LEVEL_IN]], &frame, NULL, &op->nunsent);
}

static void call_all(struct rg_far *far)
{
    struct rg_far_op *op;

    DL_FOREACH(far->folding, op)
        if (!op->called)
            call(far, op);
}

/* Its frame has been combined: send what comes next, and wait for the next one. False: that was the
 * last. */
static bool go_to_next_level(struct rg_far *far, struct rg_far_op *op)
{
    await_no_more(far, op);
    if (far->doubling.is_folded || op->level == far->doubling.nsteps)
        return false;
    await(far, op, op->level + 1);
    put(far, op, op->level);
    return true;
}

/* Take in what has come early. The operation may be done afterwards. -EPROTO: a size differs. */
static int catch_up(struct rg_far *far, struct rg_far_op *op)
{
    struct rg_far_early *early;

    while (far->nearly && (early = rg_far_take_early(far, op, op->level)) != NULL) {
        bool fits = early->frame.nbytes == op->nbytes, more = false;

        if (fits) {
            combine(far, op, early->payload);
            more = go_to_next_level(far, op);
        }
        free(early);
        if (!fits)
            return -EPROTO;
        if (!more) {
            finish(far, op);
            return 0;
        }
    }
    return 0;
}

/* Send what comes first. */
static int begin_doubling(struct rg_far *far, struct rg_far_op *op)
{
    if (far->doubling.is_folded) {
        await(far, op, level_out(far));
        put(far, op, RG_FAR_LEVEL_IN);
    } else {
        await(far, op, far->doubling.has_folded ? RG_FAR_LEVEL_IN : 1);
        if (op->level != RG_FAR_LEVEL_IN)
            put(far, op, op->level);
    }
    if (op->level == RG_FAR_LEVEL_IN && !op->in)
        call(far, op);
    return catch_up(far, op);
}

int rg_far_post(struct rg_far *far, struct rg_far_op *op)
{
    struct rg_far_use *use = get_use(far, op->id);
    int r;

    if (!use)
        return -ENOMEM;
    op->way = use->way;
    op->nbytes = op->count * rg_dtype_nbytes(op->dtype);
    op->now = op->in;
    op->nunsent = 0;
    op->called = false;
    op->active = true;
    use->op = op;
    use->next = op->seq;
    far->nops++;
    free(rg_far_take_early(far, op, RG_FAR_LEVEL_CALL)); /* it has been followed */
    if (op->way == RG_DIRECT_DOUBLING)
        return begin_doubling(far, op);
    r = rg_far_shots_begin(far, op);
    return r < 0 ? r : 0;
}

void rg_far_drop(struct rg_far *far, struct rg_far_op *op)
{
    struct rg_far_use *use = rg_far_use_of(far, op->id);

    if (!op->active)
        return;
    rg_far_settle(far, op);
    if (op->shots)
        rg_far_shots_drop(far, op);
    else if (op->way == RG_DIRECT_DOUBLING)
        await_no_more(far, op);
    op->active = false;
    far->nops--;
    use->op = NULL;
}

static void drop_all(struct rg_far *far)
{
    rg_far_flush(far);
    for (uint32_t id = 0; id < far->uses_capacity; id++)
        if (far->uses[id] && far->uses[id]->op)
            rg_far_drop(far, far->uses[id]->op);
}

void rg_far_abort(struct rg_far *far)
{
    drop_all(far);
    far->dead = true;
    for (int i = 0; i < far->nlinks; i++)
        rg_far_link_fini(&far->links[i]);
}

/* ------------------------------------------------------------ what comes */

/* For later: its use has not begun here, or is not that far. */
static int keep(struct rg_far *far, struct rg_far_use *use, const struct rg_far_link *link,
                const struct rg_far_frame *frame, const uint8_t *payload)
{
    bool begun = use->op && use->op->seq == frame->seq;
    struct rg_far_early *early;

    for (early = use->early; early; early = early->next)
        if (early->frame.seq == frame->seq && early->frame.level == frame->level &&
            early->node == link->node)
            return -EPROTO;
    if (far->early_nbytes + rg_far_early_nbytes(frame) > EARLY_NBYTES_MAX)
        return -ENOBUFS;
    early = rg_far_copy(frame, link->node, payload);
    if (!early)
        return -ENOMEM;
    early->next = use->early;
    use->early = early;
    far->early_nbytes += rg_far_early_nbytes(frame);
    far->nearly++;
    if (!begun && use->next && frame->seq == use->next)
        far->events.on_early(far->events.arg, frame->id, frame->seq, frame->round);
    return 0;
}

/* Whether frames of this level come by this link. */
static bool may_come(const struct rg_far *far, const struct rg_far_link *link,
                     const struct rg_far_frame *frame)
{
    int level = frame->level == RG_FAR_LEVEL_CALL ? level_out(far) : frame->level;

    if (level == RG_FAR_LEVEL_PART || level == RG_FAR_LEVEL_RESULT)
        return rg_far_shoots(far);
    if (frame->level == RG_FAR_LEVEL_CALL && (!far->doubling.is_folded || frame->nbytes))
        return false;
    return level <= level_out(far) && far->by_level[level] >= 0 &&
           &far->links[far->by_level[level]] == link;
}

static int take_doubling(struct rg_far *far, struct rg_far_op *op, const struct rg_far_link *link,
                         const struct rg_far_frame *frame, const uint8_t *payload)
{
    if (frame->level == RG_FAR_LEVEL_CALL)
        return 0;
    if (frame->nbytes != op->nbytes || frame->level < op->level ||
        frame->level >= RG_FAR_LEVEL_PART)
        return -EPROTO;
    if (frame->level > op->level)
        return keep(far, rg_far_use_of(far, op->id), link, frame, payload);
    combine(far, op, payload);
    if (go_to_next_level(far, op))
        return catch_up(far, op);
    finish(far, op);
    return 0;
}

static int take(struct rg_far *far, const struct rg_far_link *link,
                const struct rg_far_frame *frame, const uint8_t *payload)
{
    struct rg_far_use *use = get_use(far, frame->id);
    struct rg_far_op *op;
    int r;

    if (!use)
        return -ENOMEM;
    if (!may_come(far, link, frame))
        return -EPROTO;
    if (use->next && frame->seq < use->next)
        return 0; /* void */
    op = use->op;
    if (!op || op->seq != frame->seq)
        return keep(far, use, link, frame, payload);
    if (op->way == RG_DIRECT_DOUBLING)
        return take_doubling(far, op, link, frame, payload);
    r = rg_far_shots_take(far, op, link, frame, payload);
    return r < 0 ? r : 0;
}

static int receive(struct rg_far *far, struct rg_far_link *link, bool *moved)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        size_t n = rg_far_link_receive(link);
        struct rg_far_frame frame;
        const uint8_t *payload = NULL;
        int r = 0;

        if (n == 0)
            return 0;
        *moved = true;
        while ((r = rg_far_link_next(link, &frame, &payload)) == 1) {
            r = take(far, link, &frame, payload);
            if (r < 0)
                return r;
        }
        if (r < 0)
            return r;
        if (n < MUCH_NBYTES)
            return 0; /* there is not likely more, and asking costs a system call */
    }
    return 0;
}

static int fail(const struct rg_far *far, const struct rg_far_link *link, int r,
                struct rg_error *err)
{
    int rank = far->team->leaders[link->node];

    if (r == -ENOMEM)
        return rg_error_set(err, ENOMEM, "out of memory");
    if (r == -ENOBUFS)
        return rg_error_set(err, ENOMEM, "ranks of other hosts, the last of them rank %d on %s, "
                            "have sent %llu MiB of small allreduces that this host has not begun; "
                            "wait for some of them before you start more",
                            rg_team_world_rank(far->team, rank), far->team->peers[rank].host,
                            (unsigned long long) (EARLY_NBYTES_MAX >> 20));
    return rg_error_set(err, EPROTO, "what rank %d on %s sent cannot be understood",
                        rg_team_world_rank(far->team, rank), far->team->peers[rank].host);
}

/* Dialling, what a socket did not take, and what comes early. */
static int look_at(struct rg_far *far, struct rg_far_link *link, bool all, bool *moved,
                   struct rg_error *err)
{
    bool wanted = link->wanted || link->nawaited || rg_buf_nbytes(&link->out) > 0;
    int r = 0;

    if (rg_far_link_open(link)) {
        if (rg_buf_nbytes(&link->out) > 0)
            rg_far_link_flush(link);
        if (all || link->nawaited)
            r = receive(far, link, moved);
    } else if (link->lost) {
        if (link->nawaited &&
            rg_now_ns() >= link->lost_ns + RG_FAR_LAST_WORDS_MS * RG_NS_PER_MS)
            return rg_far_link_tell(link, far->team, err);
    } else if (all && wanted) {
        *moved |= rg_far_link_connect(link, &far->dialling);
    }
    return r < 0 ? fail(far, link, r, err) : 0;
}

int rg_far_progress(struct rg_far *far, bool all, bool *ret_moved, struct rg_error *err)
{
    int r = 0;

    if (far->dead)
        return 0;
    if (all)
        call_all(far);
    rg_far_flush(far);
    for (int i = 0; i < far->nlinks && r == 0 && !far->dead; i++)
        r = look_at(far, &far->links[i], all, ret_moved, err);
    rg_far_flush(far);
    return r;
}

bool rg_far_sends(const struct rg_far *far)
{
    for (int i = 0; i < far->nlinks && !far->dead; i++)
        if (rg_buf_nbytes(&far->links[i].out) > 0)
            return true;
    return false;
}

void rg_far_tell_early(struct rg_far *far)
{
    for (uint32_t id = 0; far->nearly && id < far->uses_capacity; id++) {
        const struct rg_far_use *use = far->uses[id];
        const struct rg_far_early *early = use && use->next && !use->op ? use->early : NULL;

        while (early && early->frame.seq != use->next)
            early = early->next;
        if (early)
            far->events.on_early(far->events.arg, id, use->next, early->frame.round);
    }
}

/* ------------------------------------------------------------ life */

void rg_far_connect(struct rg_far *far, uint8_t way)
{
    for (int i = 0; i < far->nlinks && way > RG_DIRECT_DOUBLING; i++)
        far->links[i].wanted = true;
    for (int level = 0; level < RG_FAR_LEVELS_MAX + 2; level++)
        if (far->by_level[level] >= 0)
            far->links[far->by_level[level]].wanted = true;
}

int rg_far_wait_fds(struct rg_far *far, int *ret_fds, unsigned *ret_events, int max)
{
    int n = 0;

    for (int i = 0; i < far->nlinks && n < max && !far->dead; i++) {
        const struct rg_far_link *link = &far->links[i];
        bool listens = link->socket.awaited, sends = rg_buf_nbytes(&link->out) > 0;

        if (link->socket.fd >= 0) {
            ret_fds[n] = link->socket.fd;
            ret_events[n++] = link->socket.state == RG_SOCKET_DIALLING
                                  ? rg_links_events(&link->socket)
                                  : sends ? EPOLLIN | EPOLLOUT : EPOLLIN;
        }
        for (int k = 0; k < i && listens; k++)
            listens = !far->links[k].socket.awaited;
        if (listens && n < max)
            n += rg_listener_wait_fds(far->team->listener, ret_fds + n, ret_events + n, max - n);
    }
    return n;
}

int rg_far_adopt(struct rg_far *far, int node, int take_fd)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].node == node)
            return rg_far_link_adopt(&far->links[i], &far->dialling, take_fd);
    close(take_fd);
    return -EINVAL;
}

void rg_far_destroy(struct rg_far *far, int timeout_ms)
{
    uint64_t deadline_ns;

    if (!far)
        return;
    deadline_ns = rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS;
    drop_all(far);
    for (int i = 0; i < far->nlinks && !far->dead; i++)
        rg_far_link_drain(&far->links[i], &far->dialling, deadline_ns);
    for (int i = 0; i < far->nlinks; i++)
        rg_far_link_fini(&far->links[i]);
    for (uint32_t id = 0; id < far->uses_capacity; id++) {
        struct rg_far_use *use = far->uses[id];

        while (use && use->early) {
            struct rg_far_early *early = use->early;

            use->early = early->next;
            free(early);
        }
        free(use);
    }
    rg_far_shots_fini(far);
    free(far->uses);
    free(far);
}

void rg_far_after_fork(struct rg_far *far)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].socket.fd >= 0)
            close(far->links[i].socket.fd);
}
