/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has died? Told by the launcher (through boot) with the cause, and seen on the pidfds of
 * this node's ranks.
 */
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/engine/engine.h"
#include "coll/observe/stall.h"

#define CAUSE_WAIT_MS 300 /* for the launcher to say how it died */
#define LEAVE_WAIT_MS 2000 /* for who has left to end */

static void abort_for(struct rg_engine *engine, int rank, const char *text)
{
    rg_view_abort(&engine->view, ECONNRESET, rank, text);
    rg_engine_ring_all(engine, true);
}

/* One that is still leaving may not die yet: others may wait for its part of what is in the log. */
static bool has_left(const struct rg_view *view, int r)
{
    return atomic_load(&view->rows[r].left) == RG_LEFT_DONE;
}

static bool left(const struct rg_engine *engine, int rank)
{
    for (int r = 0; r < engine->view.n; r++) {
        if (engine->view.ranks[r] == rank)
            return has_left(&engine->view, r);
    }
    return false;
}

/* What the launcher says. True when a death was told, or its own was found. */
static bool listen_by(struct rg_engine *engine,
                      int (*poll_boot)(struct rg_boot *, int *, struct rg_error *))
{
    struct rg_error err = RG_ERROR_INIT;
    int rank = -1, r;

    if (!engine->boot || engine->boot_lost)
        return false;
    while ((r = poll_boot(engine->boot, &rank, &err)) == 1) {
        if (left(engine, rank))
            continue;
        abort_for(engine, rank, err.text);
        return true;
    }
    engine->boot_lost = r < 0;
    if (r == -EHOSTDOWN)
        abort_for(engine, -1, err.text);
    return r == -EHOSTDOWN;
}

static bool listen_to_boot(struct rg_engine *engine)
{
    return listen_by(engine, rg_boot_poll);
}

static void seen_dead(struct rg_engine *engine, int rank)
{
    const char *host = engine->team->peers[rank].host;
    char text[512];

    for (uint64_t deadline = rg_now_ns() + CAUSE_WAIT_MS * RG_NS_PER_MS;
         engine->boot && rg_boot_poll_fd(engine->boot) >= 0 && rg_now_ns() < deadline;) {
        struct pollfd pfd = { rg_boot_poll_fd(engine->boot), POLLIN, 0 };

        if (poll(&pfd, 1, 50) > 0 && (listen_to_boot(engine) || engine->boot_lost))
            break;
    }
    snprintf(text, sizeof(text), "rank %d on %s died; what was in flight cannot be completed", rank,
             host[0] ? host : "this host");
    abort_for(engine, rank, text);
}

static void look_at_pidfds(struct rg_engine *engine)
{
    const struct rg_view *view = &engine->view;

    for (int r = 0; r < view->n; r++) {
        struct pollfd pfd = { engine->team->peers[view->ranks[r]].pidfd, POLLIN, 0 };

        if (r == view->me || pfd.fd < 0 || has_left(view, r))
            continue;
        if (poll(&pfd, 1, 0) > 0 && (pfd.revents & POLLIN) && !has_left(view, r))
            seen_dead(engine, view->ranks[r]);
    }
}

static bool is_there(int pidfd)
{
#ifdef SYS_pidfd_send_signal
    return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
#else
    return false;
#endif
}

void rg_watch_let_leave(struct rg_engine *engine)
{
    int rank = atomic_load(&engine->cut_by) - 1;
    int pidfd = rank < 0 ? -1 : engine->team->peers[rank].pidfd;
    uint64_t deadline_ns = rg_now_ns() + LEAVE_WAIT_MS * RG_NS_PER_MS;

    if (pidfd < 0 || !engine->boot || rg_boot_hears_cut_off(engine->boot))
        return;
    /* Until its parent has taken note of its end: no signal finds it then, not even as a zombie. */
    while (rg_now_ns() < deadline_ns && is_there(pidfd))
        rg_sleep_ms(1);
}

void rg_watch_follow(struct rg_engine *engine)
{
    struct rg_engine *world = engine->world;
    const struct rg_view *all = &world->view, *own = &engine->view;

    if (rg_view_aborted(all)) {
        if (!rg_view_aborted(own) &&
            rg_view_abort(&engine->view, rg_view_aborted(all), -1, rg_view_abort_text(all)))
            rg_engine_ring_all(engine, true);
    } else if (rg_view_aborted(own) && !atomic_load(&own->shared->closed_by) &&
               !atomic_load(&engine->leaving)) {
        rg_view_abort(&world->view, rg_view_aborted(own),
                      rg_team_world_rank(engine->team, rg_view_abort_rank(own)),
                      rg_view_abort_text(own));
        rg_engine_ring_all(world, true);
    }
}

void rg_watch_start(struct rg_engine *engine)
{
    if (engine->world)
        rg_watch_follow(engine);
    if (engine->world || atomic_load(&engine->view.shared->aborted))
        return;
    if (!listen_by(engine, rg_boot_poll_start))
        look_at_pidfds(engine);
}

void rg_watch_tick(struct rg_engine *engine)
{
    if (engine->world)
        rg_watch_follow(engine);
    if (atomic_load(&engine->view.shared->aborted))
        return;
    if (!engine->world)
        listen_to_boot(engine);
    if (!engine->world && !atomic_load(&engine->view.shared->aborted))
        look_at_pidfds(engine);
    if (!atomic_load(&engine->view.shared->closed_by))
        rg_stall_tick(engine);
}
