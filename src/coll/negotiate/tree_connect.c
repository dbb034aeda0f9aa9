/* SPDX-License-Identifier: Apache-2.0 */
/* How leaders come together: each dials its parent and lets its children in, at the same time, and
 * says READY when it has heard that of all of them; then the coordinator says START. Meanwhile
 * those who are connected hear that the others live, and a wait in vain ends at once, for all: with
 * the names of all that are missing, for which the coordinator calls the roll. */
#include "coll/negotiate/tree_state.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "coll/links/links.h"
#include "coll/net/listener.h"
#include "coll/team/liveness.h"

#define PURPOSE_ORDER 0x7264726fu /* "ordr" */
#define RETRY_MS 50
#define ROLL_CALL_NS RG_NS_PER_S /* so long names may be on their way */
#define IN_VAIN_NS (3 * RG_NS_PER_S) /* beyond the deadline, for the coordinator's word */
#define FDS_MAX (RG_LISTENER_WAIT_FDS_MAX + 2)

#define FIREWALL_TEXT "; does a firewall forbid it? REIGEN_NETWORK_INTERFACE chooses the network"

struct rg_meeting {
    uint64_t deadline_ns;
    bool started;
    bool ready;               /* it was said */
    uint64_t called_ns;       /* the roll, or that time is over; 0: not */
    bool *is_ready;           /* by child, from 1 on */
    bool *absent;             /* coordinator: by node, at other leaders */
    struct rg_links links;    /* of one socket: */
    struct rg_socket up;      /* to the parent, until it has let us in */
};

/* What people call the leader of a node, and where it runs. */
static int shown(const struct rg_order *order, int node)
{
    return rg_team_world_rank(order->team, order->team->leaders[node]);
}

static const char *host_of(const struct rg_order *order, int node)
{
    return order->team->peers[order->team->leaders[node]].host;
}

static const char *address_of(const struct rg_order *order, int node)
{
    return order->team->addresses[order->team->leaders[node]];
}

static pid_t pid_of(const struct rg_order *order, int peer)
{
    return order->team->peers[order->team->leaders[rg_tree_node(order, peer)]].pid;
}

/* A child that has left already was there. */
static bool has_come(const struct rg_order *order, int peer)
{
    return rg_peers_here(order->peers, peer) || rg_peers_left(order->peers, peer);
}

static bool has_parent(const struct rg_order *order)
{
    return order->team->node > 0;
}

/* ---- those who are missing */

static void list_missing(const struct rg_order *order, struct rg_buf *text)
{
    const bool *absent = order->meeting->absent;

    for (int i = 1; i <= order->nchildren; i++) {
        int node = rg_tree_node(order, i);

        if (!has_come(order, i))
            rg_buf_printf(text, "%s%d on %s", rg_buf_nbytes(text) ? ", " : "", shown(order, node),
                          host_of(order, node));
    }
    for (int node = 0; node < order->team->nnodes; node++) {
        int parent = rg_tree_parent(order->degree, node);

        if (absent[node])
            rg_buf_printf(text, "%s%d on %s (to rank %d at %s)", rg_buf_nbytes(text) ? ", " : "",
                          shown(order, node), host_of(order, node), shown(order, parent),
                          address_of(order, parent));
    }
}

static int name_missing(struct rg_order *order, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    list_missing(order, &text);
    if (rg_buf_nbytes(&text) == 0)
        return rg_error_set(err, ETIMEDOUT, "not all ranks connected to each other in time: rank "
                            "%d at %s was, and waits for others", shown(order, order->team->node),
                            order->team->address);
    return rg_error_set(err, ETIMEDOUT, "these ranks did not connect to rank %d at %s in time: "
                        "%s" FIREWALL_TEXT, shown(order, order->team->node), order->team->address,
                        rg_buf_text(&text));
}

static void say_absent(struct rg_order *order)
{
    for (int i = 1; i <= order->nchildren; i++) {
        struct rg_order_frame frame = { .type = RG_ORDER_ABSENT,
                                        .node = (uint32_t) rg_tree_node(order, i) };

        if (!has_come(order, i))
            rg_peers_say(order->peers, RG_TREE_PARENT, &frame);
    }
}

/* The coordinator asks everybody; another leader asks it to. */
static void call_roll(struct rg_order *order)
{
    struct rg_order_frame frame = { .type = RG_ORDER_ROLL_CALL };

    if (order->meeting->called_ns)
        return;
    order->meeting->called_ns = rg_now_ns();
    if (has_parent(order))
        rg_peers_say(order->peers, RG_TREE_PARENT, &frame);
    else
        rg_peers_say_all(order->peers, -1, &frame);
}

/* READY and ROLL_CALL of a child, ABSENT of one below it, START and ROLL_CALL of the parent. 0 or
 * -ENOMEM. */
static int hear(struct rg_order *order, int peer, const struct rg_order_frame *frame)
{
    struct rg_meeting *meeting = order->meeting;

    if (frame->type == RG_ORDER_READY) {
        meeting->is_ready[peer] = true;
    } else if (frame->type == RG_ORDER_START) {
        meeting->started = true;
    } else if (frame->type == RG_ORDER_ABSENT) {
        if (has_parent(order))
            return rg_peers_say(order->peers, RG_TREE_PARENT, frame);
        meeting->absent[frame->node] = true;
    } else if (peer == RG_TREE_PARENT) {
        say_absent(order);
    } else {
        call_roll(order);
    }
    return 0;
}

/* ---- coming */

static int add_peer(struct rg_order *order, int peer, int take_fd)
{
    return rg_peers_add(order->peers, peer, take_fd, pid_of(order, peer));
}

/* Take a leader in that has dialled; one that dials again has given its first socket up. 1: one
 * came, 0: none is there, or -errno. */
static int admit(struct rg_order *order)
{
    int rank = -1, fd = rg_listener_claim_any(order->team->listener, PURPOSE_ORDER, &rank);
    int node = fd < 0 ? -1 : order->team->peers[rank].node;

    if (fd < 0)
        return 0;
    if (node == 0 || order->team->leaders[node] != rank ||
        rg_tree_parent(order->degree, node) != order->team->node) {
        close(fd);
        return 1;
    }
    int peer = node - order->first_child + 1, r = add_peer(order, peer, fd);

    order->meeting->is_ready[peer] = false;
    return r < 0 ? r : 1;
}

static int admit_all(struct rg_order *order, struct rg_error *err)
{
    int r = 1;

    rg_listener_progress(order->team->listener);
    while (r == 1)
        r = admit(order);
    return r < 0 ? rg_error_set(err, -r, "epoll: %s", strerror(-r)) : 0;
}

/* Those who are here learn why this start fails. */
static int tell_failure(struct rg_order *order, int r, int rank, const struct rg_error *err)
{
    struct rg_error ignored = RG_ERROR_INIT;

    admit_all(order, &ignored);
    rg_order_announce_death(order, rank < 0 ? order->team->rank : rank, err->text);
    return r;
}

static int fail_to_dial(struct rg_order *order, int r, struct rg_error *err)
{
    int parent = rg_tree_node(order, RG_TREE_PARENT);

    rg_error_set(err, -r, "connecting to rank %d on %s at %s: %s%s", shown(order, parent),
                 host_of(order, parent), address_of(order, parent),
                 r == -EACCES ? "it has another key" : strerror(-r),
                 r == -ETIMEDOUT || r == -EHOSTUNREACH || r == -ENETUNREACH ? FIREWALL_TEXT : "");
    return tell_failure(order, r, -1, err);
}

/* One step towards the parent: 1 it has let us in, 0 later, or -errno: never. */
static int dial(struct rg_order *order)
{
    struct rg_meeting *meeting = order->meeting;
    int parent = order->team->leaders[rg_tree_node(order, RG_TREE_PARENT)];
    bool moved = false;
    int r = rg_links_dial(&meeting->links, parent, 0, &meeting->up, &moved);

    if (r != 1)
        return r;
    r = add_peer(order, RG_TREE_PARENT, rg_links_take(&meeting->up));
    return r < 0 ? r : 1;
}

static int come(struct rg_order *order, struct rg_error *err)
{
    int r = has_parent(order) && !has_come(order, RG_TREE_PARENT) ? dial(order) : 0;

    return r < 0 ? fail_to_dial(order, r, err) : 0;
}

/* ---- waiting */

/* READY, or START at the coordinator, when it is time. */
static void say_ready(struct rg_order *order)
{
    struct rg_meeting *meeting = order->meeting;
    struct rg_order_frame ready = { .type = RG_ORDER_READY }, start = { .type = RG_ORDER_START };

    if (meeting->ready || (has_parent(order) && !rg_peers_here(order->peers, RG_TREE_PARENT)))
        return;
    for (int i = 1; i <= order->nchildren; i++)
        if (!rg_peers_left(order->peers, i) && !meeting->is_ready[i])
            return;
    meeting->ready = true;
    if (has_parent(order)) {
        rg_peers_say(order->peers, RG_TREE_PARENT, &ready);
    } else {
        rg_peers_say_all(order->peers, -1, &start);
        meeting->started = true;
    }
    rg_peers_flush(order->peers);
}

/* Whether a wait for another leader is in vain: then those who are here are told, too. */
static int look_around(struct rg_order *order, struct rg_error *err)
{
    int rank = -1;
    int r = order->events.on_waiting ? order->events.on_waiting(order->events.arg, &rank, err) : 0;

    for (int i = has_parent(order) ? 0 : 1; i <= order->nchildren && r == 0; i++) {
        int node = rg_tree_node(order, i);

        if (has_come(order, i) || !rg_process_ended(pid_of(order, i)))
            continue;
        /* A parent that has let us in may have left already. */
        if (i == RG_TREE_PARENT && dial(order) == 1)
            continue;
        rank = order->team->leaders[node];
        r = rg_error_set(err, ECONNRESET, "rank %d on host %s died while the job started",
                         shown(order, node), host_of(order, node));
    }
    return r < 0 ? tell_failure(order, r, rank, err) : 0;
}

/* The coordinator knows of all that are missing without asking. */
static bool knows_missing(const struct rg_order *order)
{
    for (int i = 1; i <= order->nchildren; i++)
        if (has_come(order, i) && !rg_peers_left(order->peers, i) && !order->meeting->is_ready[i])
            return false;
    return true;
}

/* 0, or it takes too long. */
static int look_at_clock(struct rg_order *order, struct rg_error *err)
{
    struct rg_meeting *meeting = order->meeting;
    uint64_t now_ns = rg_now_ns();

    if (now_ns < meeting->deadline_ns && (has_parent(order) || !meeting->called_ns))
        return 0;
    if (has_parent(order) && !has_come(order, RG_TREE_PARENT))
        return fail_to_dial(order, meeting->up.cause && meeting->up.fd < 0 ? meeting->up.cause
                                                                           : -ETIMEDOUT, err);
    call_roll(order);
    if (has_parent(order) ? now_ns < meeting->deadline_ns + IN_VAIN_NS
                          : !knows_missing(order) && now_ns < meeting->called_ns + ROLL_CALL_NS)
        return 0;
    return tell_failure(order, name_missing(order, err), -1, err);
}

static int watch(struct rg_order *order, struct pollfd *pfds)
{
    int fds[FDS_MAX], n;
    unsigned events[FDS_MAX];

    n = rg_listener_wait_fds(order->team->listener, fds, events, RG_LISTENER_WAIT_FDS_MAX);
    for (int i = 0; i < n; i++)
        pfds[i] = (struct pollfd) { fds[i], (short) events[i], 0 };
    pfds[n++] = (struct pollfd) { rg_peers_fd(order->peers), POLLIN, 0 };
    if (order->meeting->up.fd >= 0)
        pfds[n++] = (struct pollfd) { order->meeting->up.fd,
                                      (short) rg_links_events(&order->meeting->up), 0 };
    return n;
}

/* Until something comes, or it is time to look again. */
static int wait_a_moment(struct rg_order *order, struct rg_error *err)
{
    struct rg_meeting *meeting = order->meeting;
    uint64_t now_ns = rg_now_ns(), until_ns = now_ns + RG_PEERS_CHECK_NS;
    struct pollfd pfds[FDS_MAX];
    nfds_t n = (nfds_t) watch(order, pfds);

    if (now_ns < meeting->deadline_ns && meeting->deadline_ns < until_ns)
        until_ns = meeting->deadline_ns;
    if (has_parent(order) && !has_come(order, RG_TREE_PARENT) && meeting->up.fd < 0 &&
        meeting->up.again_ns < until_ns)
        until_ns = meeting->up.again_ns > now_ns ? meeting->up.again_ns : now_ns;
    if (poll(pfds, n, (int) ((until_ns - now_ns) / RG_NS_PER_MS + 1)) < 0 && errno != EINTR)
        return rg_error_set(err, errno, "poll: %s", strerror(errno));
    return 0;
}

/* What others have said of this start: 1 it is time to go on, 0, or -errno. */
static int take_word(struct rg_order *order, struct rg_error *err)
{
    int parent;

    if (order->died.errnum != 0) {
        *err = order->died;
        return -err->errnum;
    }
    if (order->meeting->started)
        return 1;
    if (!has_parent(order) || !rg_peers_left(order->peers, RG_TREE_PARENT))
        return 0;
    parent = rg_tree_node(order, RG_TREE_PARENT);
    return rg_error_set(err, ECONNRESET, "rank %d on host %s left while the job started",
                        shown(order, parent), host_of(order, parent));
}

static int meet(struct rg_order *order, struct rg_error *err)
{
    uint64_t looked_ns = rg_now_ns();

    for (;;) {
        int r = admit_all(order, err);

        if (r == 0)
            r = come(order, err);
        rg_order_progress(order);
        say_ready(order);
        if (r == 0)
            r = take_word(order, err);
        if (r != 0)
            return r < 0 ? r : 0;
        if (rg_now_ns() >= looked_ns + RG_PEERS_CHECK_NS) {
            r = look_around(order, err);
            looked_ns = rg_now_ns();
        }
        if (r == 0)
            r = look_at_clock(order, err);
        if (r == 0)
            r = wait_a_moment(order, err);
        if (r < 0)
            return r;
    }
}

static int meet_all(struct rg_order *order, uint64_t deadline_ns, struct rg_error *err)
{
    rg_autofree bool *is_ready = calloc((size_t) order->nchildren + 1, sizeof(bool));
    rg_autofree bool *absent = calloc((size_t) order->team->nnodes, sizeof(bool));
    struct rg_meeting meeting = { .deadline_ns = deadline_ns, .is_ready = is_ready,
                                  .absent = absent, .up = RG_SOCKET_INIT,
                                  .links = { .team = order->team, .purpose = PURPOSE_ORDER,
                                             .pause_ms = RETRY_MS, .takes_refusals = true } };
    int r;

    if (!is_ready || !absent)
        return rg_error_set(err, ENOMEM, "out of memory");
    order->meeting = &meeting;
    order->meet = hear;
    r = meet(order, err);
    rg_links_close(&meeting.up);
    order->meeting = NULL;
    order->meet = NULL;
    return r;
}

/* ---- life */

static int make_decider(struct rg_order *order, const struct rg_config *config)
{
    struct rg_decider_options options = { .nnodes = order->team->nnodes,
                                          .leaders = order->team->leaders,
                                          .world_ranks = order->team->world_ranks,
                                          .fusion_nbytes = config->fusion_nbytes,
                                          .capacity = config->cache_capacity,
                                          .direct = order->events.direct,
                                          .on_offered = order->events.on_offered,
                                          .arg = order->events.arg };

    order->batch = calloc(RG_ORDER_NUMBERS_MAX, sizeof(*order->batch));
    return order->batch ? rg_decider_create(&options, &order->decider) : -ENOMEM;
}

static int make_held(struct rg_order *order)
{
    struct rg_held_options options = { .nsources = order->nchildren + 1, .nnodes = order->nbelow,
                                       .tell = rg_tree_tell_held, .arg = order };

    return rg_held_create(&options, &order->held);
}

/* Where this leader stands. 0 or -ENOMEM. */
static int find_place(struct rg_order *order, const struct rg_config *config)
{
    const struct rg_team *team = order->team;

    order->degree = rg_config_tree_degree(config);
    order->nchildren = rg_tree_children(order->degree, team->nnodes, team->node,
                                        &order->first_child);
    order->nbelow = calloc((size_t) order->nchildren + 1, sizeof(*order->nbelow));
    order->scratch = calloc((size_t) team->nnodes, sizeof(*order->scratch));
    if (!order->nbelow || !order->scratch)
        return -ENOMEM;
    order->nbelow[0] = 1;
    for (int i = 1; i <= order->nchildren; i++)
        order->nbelow[i] = rg_tree_below(order->degree, team->nnodes, rg_tree_node(order, i),
                                         NULL);
    return 0;
}

/* 0 or -errno. */
static int prepare(struct rg_order *order, const struct rg_config *config)
{
    int r = find_place(order, config);

    if (r == 0)
        r = rg_peers_create(1 + order->nchildren, config->silence_ms * RG_NS_PER_MS,
                            &rg_tree_peers_ops, order, &order->peers);
    if (r == 0)
        r = rg_known_create(&order->known);
    if (r < 0)
        return r;
    return has_parent(order) ? make_held(order) : make_decider(order, config);
}

int rg_order_create(struct rg_team *team, const struct rg_config *config,
                    const struct rg_order_events *events, uint64_t deadline_ns,
                    struct rg_order **ret_order, struct rg_error *err)
{
    struct rg_order *order = calloc(1, sizeof(*order));
    int r;

    if (!order)
        return rg_error_set(err, ENOMEM, "out of memory");
    order->team = team;
    order->events = *events;
    r = prepare(order, config);
    if (r < 0)
        rg_error_set(err, -r, "%s", strerror(-r));
    else
        r = meet_all(order, deadline_ns, err);
    if (r < 0) {
        rg_order_destroy(order, 0);
        return r;
    }
    *ret_order = order;
    return 0;
}
