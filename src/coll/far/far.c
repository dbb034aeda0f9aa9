/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive doubling, many operations at once, each as far as its frames have come. */
#include "coll/far/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "base/time.h"
#include "coll/far/far_links.h"
#include "coll/net/listener.h"
#include "coll/reduce/reduce.h"

#define EARLY_NBYTES_MAX (UINT64_C(1) << 30) /* kept of what comes before its use begins here */
#define LEVELS_MAX 18                        /* of REIGEN_SIZE_MAX leaders */
#define TURNS_MAX 8 /* receives of one socket before the next is looked at */

enum { LEVEL_CALL = 255 };
enum { LEVEL_IN = 0 }; /* then one for each step of the doubling, then the result's */

/* A frame that came before it was waited for. */
struct early {
    struct early *next;
    struct rg_far_frame frame;
    uint8_t payload[];
};

/* What is known of a number. */
struct use {
    uint32_t next;          /* 0: nothing yet */
    struct rg_far_op *op;   /* in flight, or NULL */
    struct early *early;
};

struct rg_far {
    const struct rg_team *team;
    struct rg_far_events events;
    int n, me;
    int nsteps;             /* of the doubling */
    bool is_folded, has_folded;
    struct use **uses;      /* by number; owned */
    size_t uses_capacity;
    uint64_t early_nbytes;
    int nearly;             /* frames */
    int nops;               /* in flight */
    struct rg_far_op *folding; /* that wait for who is folded into this one */
    bool dead, connects;
    int nlinks;
    int by_level[LEVELS_MAX + 2]; /* the link on which frames of this level come; -1: they do not */
    struct rg_far_link links[];
};

/* The doubling is among as many leaders as the greatest power of two; of the first ones so many are
 * folded, in pairs, that no more take part. */
static int npairs(const struct rg_far *far)
{
    return far->n - (1 << far->nsteps);
}

static int partner(const struct rg_far *far, int step)
{
    int pairs = npairs(far), number = far->me < 2 * pairs ? far->me / 2 : far->me - pairs;
    int other = number ^ (1 << step);

    return other < pairs ? other * 2 : other + pairs;
}

static int level_out(const struct rg_far *far)
{
    return far->nsteps + 1;
}

static void add_link(struct rg_far *far, int level, int node)
{
    rg_far_link_init(&far->links[far->nlinks], node);
    far->by_level[level] = far->nlinks++;
}

int rg_far_create(const struct rg_team *team, const struct rg_far_events *events,
                  struct rg_far **ret_far)
{
    struct rg_far *far =
        calloc(1, sizeof(*far) + (LEVELS_MAX + 1) * sizeof(struct rg_far_link));

    if (!far)
        return -ENOMEM;
    far->team = team;
    far->events = *events;
    far->n = team->nnodes;
    far->me = team->node;
    far->nsteps = 31 - __builtin_clz((unsigned) far->n);
    far->is_folded = far->me < 2 * npairs(far) && far->me % 2 == 1;
    far->has_folded = far->me < 2 * npairs(far) && far->me % 2 == 0;
    for (int level = 0; level < LEVELS_MAX + 2; level++)
        far->by_level[level] = -1;
    if (far->is_folded) {
        add_link(far, level_out(far), far->me - 1);
    } else {
        if (far->has_folded)
            add_link(far, LEVEL_IN, far->me + 1);
        for (int step = 0; step < far->nsteps; step++)
            add_link(far, step + 1, partner(far, step));
    }
    *ret_far = far;
    return 0;
}

/* ------------------------------------------------------------ numbers */

static struct use *use_of(const struct rg_far *far, uint32_t id)
{
    return id < far->uses_capacity ? far->uses[id] : NULL;
}

static struct use *get_use(struct rg_far *far, uint32_t id)
{
    if (rg_grow(&far->uses, &far->uses_capacity, (size_t) id + 1) < 0)
        return NULL;
    if (!far->uses[id])
        far->uses[id] = calloc(1, sizeof(*far->uses[id]));
    return far->uses[id];
}

static void free_early(struct rg_far *far, struct early *early)
{
    far->early_nbytes -= early->frame.nbytes;
    far->nearly--;
    free(early);
}

static void drop_below(struct rg_far *far, struct use *use, uint32_t seq)
{
    struct early **link = &use->early;

    while (*link) {
        struct early *early = *link;

        if (early->frame.seq >= seq) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        free_early(far, early);
    }
}

int rg_far_expect(struct rg_far *far, uint32_t id, uint32_t seq)
{
    struct use *use = get_use(far, id);

    if (!use)
        return -ENOMEM;
    use->next = seq;
    drop_below(far, use, seq);
    return 0;
}

/* It has been followed. */
static void drop_call(struct rg_far *far, struct use *use)
{
    struct early **link = &use->early;

    while (*link && (*link)->frame.level != LEVEL_CALL)
        link = &(*link)->next;
    if (*link) {
        struct early *early = *link;

        *link = early->next;
        free_early(far, early);
    }
}

/* ------------------------------------------------------------ one operation */

/* Where nothing was put in, zeros are sent. */
static const uint8_t zeros[RG_FAR_NBYTES_MAX];

static void put(struct rg_far *far, struct rg_far_op *op, struct rg_far_link *link, int level)
{
    struct rg_far_frame frame = { .id = op->id, .seq = op->seq, .nbytes = (uint32_t) op->nbytes,
                                  .level = (uint8_t) level, .round = op->round };

    (void) far;
    rg_far_link_put(link, &frame, op->now ? op->now : zeros, &op->unsent);
}

void rg_far_flush(struct rg_far *far)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].nframes)
            rg_far_link_flush(&far->links[i]);
}

/* Before the operation's memory changes. */
static void settle(struct rg_far *far, struct rg_far_op *op)
{
    if (op->unsent)
        rg_far_flush(far);
}

static void finish(struct rg_far *far, struct rg_far_op *op)
{
    const struct rg_scale after = { 1.0, op->scale.post, op->scale.divisor };
    struct use *use = use_of(far, op->id);

    if (far->has_folded)
        put(far, op, &far->links[far->by_level[LEVEL_IN]], level_out(far));
    if (op->nbytes && (after.post != 1.0 || after.divisor != 1)) {
        settle(far, op);
        rg_reduce(op->dtype, op->op, op->out, &op->now, 1, op->count, &after);
    }
    settle(far, op);
    op->active = false;
    far->nops--;
    use->op = NULL;
    use->next = op->seq + 1;
    far->events.on_done(far->events.arg, op);
}

/* What came is the result, or is added. The lower leader's is the first operand. */
static void combine(struct rg_far *far, struct rg_far_op *op, const void *payload)
{
    const struct rg_scale plain = { 1.0, 1.0, 1 };
    const struct rg_far_link *link = &far->links[far->by_level[op->level]];
    bool first = far->me < link->node;
    const void *sources[2] = { first ? op->now : payload, first ? payload : op->now };

    settle(far, op);
    if (op->nbytes && far->is_folded)
        memcpy(op->out, payload, op->nbytes);
    else if (op->nbytes)
        rg_reduce(op->dtype, op->op, op->out, sources, 2, op->count, &plain);
    op->now = op->out;
}

/* The frame that the operation waits for, where it came early; taken out. */
static struct early *find_early(struct rg_far *far, const struct rg_far_op *op)
{
    struct use *use = use_of(far, op->id);

    for (struct early **link = &use->early; *link; link = &(*link)->next) {
        struct early *early = *link;

        if (early->frame.seq == op->seq && early->frame.level == op->level) {
            *link = early->next;
            return early;
        }
    }
    return NULL;
}

static void await(struct rg_far *far, struct rg_far_op *op, int level)
{
    op->level = level;
    far->links[far->by_level[level]].nawaited++;
    if (level == LEVEL_IN)
        DL_APPEND(far->folding, op);
}

static void await_no_more(struct rg_far *far, struct rg_far_op *op)
{
    far->links[far->by_level[op->level]].nawaited--;
    if (op->level == LEVEL_IN)
        DL_DELETE(far->folding, op);
}

/* Who is folded sends first, and hears of nothing before. */
static void call(struct rg_far *far, struct rg_far_op *op)
{
    const struct rg_far_frame frame = { .id = op->id, .seq = op->seq, .level = LEVEL_CALL,
                                        .round = op->round };

    op->called = true;
    rg_far_link_put(&far->links[far->by_level[LEVEL_IN]], &frame, NULL, &op->unsent);
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
    if (far->is_folded || op->level == far->nsteps)
        return false;
    await(far, op, op->level + 1);
    put(far, op, &far->links[far->by_level[op->level]], op->level);
    return true;
}

/* Take in what has come early. The operation may be done afterwards. -EPROTO: a size differs. */
static int catch_up(struct rg_far *far, struct rg_far_op *op)
{
    struct early *early;

    while (far->nearly && (early = find_early(far, op)) != NULL) {
        bool fits = early->frame.nbytes == op->nbytes, more = false;

        if (fits) {
            combine(far, op, early->payload);
            more = go_to_next_level(far, op);
        }
        free_early(far, early);
        if (!fits)
            return -EPROTO;
        if (!more) {
            finish(far, op);
            return 0;
        }
    }
    return 0;
}

int rg_far_post(struct rg_far *far, struct rg_far_op *op)
{
    struct use *use = get_use(far, op->id);

    if (!use)
        return -ENOMEM;
    op->nbytes = op->count * rg_dtype_nbytes(op->dtype);
    op->now = op->in;
    op->unsent = op->called = false;
    op->active = true;
    use->op = op;
    use->next = op->seq;
    far->nops++;
    if (far->is_folded) {
        await(far, op, level_out(far));
        put(far, op, &far->links[far->by_level[op->level]], LEVEL_IN);
    } else {
        await(far, op, far->has_folded ? LEVEL_IN : 1);
        if (op->level != LEVEL_IN)
            put(far, op, &far->links[far->by_level[op->level]], op->level);
    }
    if (op->level == LEVEL_IN && !op->in)
        call(far, op);
    drop_call(far, use);
    return catch_up(far, op);
}

void rg_far_drop(struct rg_far *far, struct rg_far_op *op)
{
    struct use *use = use_of(far, op->id);

    if (!op->active)
        return;
    settle(far, op);
    await_no_more(far, op);
    op->active = false;
    far->nops--;
    use->op = NULL;
}

void rg_far_abort(struct rg_far *far)
{
    rg_far_flush(far);
    for (uint32_t id = 0; id < far->uses_capacity; id++)
        if (far->uses[id] && far->uses[id]->op)
            rg_far_drop(far, far->uses[id]->op);
    far->dead = true;
    for (int i = 0; i < far->nlinks; i++)
        rg_far_link_fini(&far->links[i]);
}

/* ------------------------------------------------------------ what comes */

/* For later: its use has not begun here, or is not that far. */
static int keep(struct rg_far *far, struct use *use, const struct rg_far_frame *frame,
                const uint8_t *payload)
{
    bool begun = use->op && use->op->seq == frame->seq;
    struct early *early;

    for (early = use->early; early; early = early->next)
        if (early->frame.seq == frame->seq && early->frame.level == frame->level)
            return -EPROTO;
    if (far->early_nbytes + frame->nbytes > EARLY_NBYTES_MAX)
        return -EPROTO;
    early = malloc(sizeof(*early) + frame->nbytes);
    if (!early)
        return -ENOMEM;
    early->frame = *frame;
    if (frame->nbytes)
        memcpy(early->payload, payload, frame->nbytes);
    early->next = use->early;
    use->early = early;
    far->early_nbytes += frame->nbytes;
    far->nearly++;
    if (!begun && use->next && frame->seq == use->next)
        far->events.on_early(far->events.arg, frame->id, frame->seq, frame->round);
    return 0;
}

/* Whether frames of this level come by this link. */
static bool may_come(const struct rg_far *far, const struct rg_far_link *link,
                     const struct rg_far_frame *frame)
{
    int level = frame->level == LEVEL_CALL ? level_out(far) : frame->level;

    if (frame->level == LEVEL_CALL && (!far->is_folded || frame->nbytes))
        return false;
    return level <= level_out(far) && far->by_level[level] >= 0 &&
           &far->links[far->by_level[level]] == link;
}

static int take(struct rg_far *far, const struct rg_far_link *link,
                const struct rg_far_frame *frame, const uint8_t *payload)
{
    struct use *use = get_use(far, frame->id);
    struct rg_far_op *op;

    if (!use)
        return -ENOMEM;
    if (!may_come(far, link, frame))
        return -EPROTO;
    if (use->next && frame->seq < use->next)
        return 0; /* void */
    op = use->op;
    if (!op || op->seq != frame->seq)
        return keep(far, use, frame, payload);
    if (frame->level == LEVEL_CALL)
        return 0;
    if (frame->nbytes != op->nbytes || frame->level < op->level)
        return -EPROTO;
    if (frame->level > op->level)
        return keep(far, use, frame, payload);
    combine(far, op, payload);
    if (go_to_next_level(far, op))
        return catch_up(far, op);
    finish(far, op);
    return 0;
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
        if (n < RG_FAR_NBYTES_MAX)
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
    return rg_error_set(err, EPROTO, "what rank %d on %s sent cannot be understood",
                        rg_team_world_rank(far->team, rank), far->team->peers[rank].host);
}

/* Dialling, what a socket did not take, and what comes early. */
static int look_at(struct rg_far *far, struct rg_far_link *link, bool all, bool *moved,
                   struct rg_error *err)
{
    bool wanted = far->connects || link->nawaited || rg_buf_nbytes(&link->out) > 0;
    int r = 0;

    if (link->state == RG_FAR_OPEN) {
        if (rg_buf_nbytes(&link->out) > 0)
            rg_far_link_flush(link);
        if (all || link->nawaited)
            r = receive(far, link, moved);
    } else if (link->state == RG_FAR_LOST) {
        if (link->nawaited &&
            rg_now_ns() >= link->lost_ns + RG_FAR_LAST_WORDS_MS * RG_NS_PER_MS)
            return rg_far_link_tell(link, far->team, err);
    } else if (all && wanted) {
        *moved |= rg_far_link_connect(link, far->team);
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
        const struct use *use = far->uses[id];
        const struct early *early = use && use->next && !use->op ? use->early : NULL;

        while (early && early->frame.seq != use->next)
            early = early->next;
        if (early)
            far->events.on_early(far->events.arg, id, use->next, early->frame.round);
    }
}

/* ------------------------------------------------------------ life */

void rg_far_connect(struct rg_far *far)
{
    far->connects = true;
}

int rg_far_wait_fds(struct rg_far *far, int *ret_fds, unsigned *ret_events, int max)
{
    int n = 0;

    for (int i = 0; i < far->nlinks && n < max && !far->dead; i++) {
        const struct rg_far_link *link = &far->links[i];
        bool listens = link->waits_for_listener;

        if (link->fd >= 0) {
            bool out = link->state == RG_FAR_DIALLING
                           ? rg_handshake_events(link->handshake) & EPOLLOUT
                           : rg_buf_nbytes(&link->out) > 0;

            ret_fds[n] = link->fd;
            ret_events[n++] = out ? EPOLLIN | EPOLLOUT : EPOLLIN;
        }
        for (int k = 0; k < i && listens; k++)
            listens = !far->links[k].waits_for_listener;
        if (listens && n < max)
            n += rg_listener_wait_fds(far->team->listener, ret_fds + n, ret_events + n, max - n);
    }
    return n;
}

int rg_far_adopt(struct rg_far *far, int node, int take_fd)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].node == node)
            return rg_far_link_adopt(&far->links[i], take_fd);
    close(take_fd);
    return -EINVAL;
}

void rg_far_destroy(struct rg_far *far, int timeout_ms)
{
    uint64_t deadline_ns;

    if (!far)
        return;
    deadline_ns = rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS;
    for (int i = 0; i < far->nlinks && !far->dead; i++)
        rg_far_link_drain(&far->links[i], far->team, deadline_ns);
    for (int i = 0; i < far->nlinks; i++)
        rg_far_link_fini(&far->links[i]);
    for (uint32_t id = 0; id < far->uses_capacity; id++) {
        struct use *use = far->uses[id];

        while (use && use->early) {
            struct early *early = use->early;

            use->early = early->next;
            free(early);
        }
        free(use);
    }
    free(far->uses);
    free(far);
}

void rg_far_after_fork(struct rg_far *far)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].fd >= 0)
            close(far->links[i].fd);
}
