/* SPDX-License-Identifier: Apache-2.0 */
/* Hearing of deaths, and seeing them. */
#include "coll/progress/life/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/time.h"
#include "coll/boot/boot.h"

#define CAUSE_WAIT_MS 300 /* for the launcher to say how it died */

/* Of the communication thread: the progress engine that it is of. */
static _Thread_local const struct rg_progress *watches;

typedef int poll_fn(struct rg_boot *boot, int *ret_rank, struct rg_error *err);

static void abort_for(struct rg_progress *progress, int rank, const char *text)
{
    rg_view_abort(&progress->view, ECONNRESET, rank, text);
    rg_wake_ring_all(&progress->wake, true);
}

/* One that is still leaving may not die yet: others may wait for its part of what is in the log. */
static bool has_left(const struct rg_view *view, int r)
{
    return atomic_load(&view->rows[r].left) == RG_LEFT_DONE;
}

static bool left(const struct rg_progress *progress, int rank)
{
    for (int r = 0; r < progress->view.n; r++) {
        if (progress->view.ranks[r] == rank)
            return has_left(&progress->view, r);
    }
    return false;
}

/* What the launcher says. True when a death was told, or its own was found. */
static bool listen_to_boot(struct rg_progress *progress, poll_fn *poll_boot)
{
    struct rg_error err = RG_ERROR_INIT;
    int rank = -1, r;

    if (!progress->boot || progress->told.lost)
        return false;
    while ((r = poll_boot(progress->boot, &rank, &err)) == 1) {
        if (left(progress, rank))
            continue;
        abort_for(progress, rank, err.text);
        return true;
    }
    progress->told.lost = r < 0;
    if (r == -EHOSTDOWN)
        abort_for(progress, -1, err.text);
    return r == -EHOSTDOWN;
}

static void seen_dead(struct rg_progress *progress, int rank)
{
    const char *host = progress->team->peers[rank].host;
    char text[512];

    for (uint64_t deadline = rg_now_ns() + CAUSE_WAIT_MS * RG_NS_PER_MS;
         progress->boot && rg_boot_poll_fd(progress->boot) >= 0 && rg_now_ns() < deadline;) {
        struct pollfd pfd = { rg_boot_poll_fd(progress->boot), POLLIN, 0 };

        if (poll(&pfd, 1, 50) > 0 && (listen_to_boot(progress, rg_boot_poll) ||
                                      progress->told.lost))
            break;
    }
    snprintf(text, sizeof(text), "rank %d on %s died; what was in flight cannot be completed", rank,
             host[0] ? host : "this host");
    abort_for(progress, rank, text);
}

static void look_at_pidfds(struct rg_progress *progress)
{
    const struct rg_view *view = &progress->view;

    for (int r = 0; r < view->n; r++) {
        struct pollfd pfd = { progress->team->peers[view->ranks[r]].pidfd, POLLIN, 0 };

        if (r == view->me || pfd.fd < 0 || has_left(view, r))
            continue;
        if (poll(&pfd, 1, 0) > 0 && (pfd.revents & POLLIN) && !has_left(view, r))
            seen_dead(progress, view->ranks[r]);
    }
}

void rg_watch_follow(struct rg_progress *progress)
{
    struct rg_progress *world = progress->world;
    const struct rg_view *all = &world->view, *own = &progress->view;

    if (rg_view_aborted(all)) {
        if (!rg_view_aborted(own) &&
            rg_view_abort(&progress->view, rg_view_aborted(all), -1, rg_view_abort_text(all)))
            rg_wake_ring_all(&progress->wake, true);
    } else if (rg_view_aborted(own) && !atomic_load(&own->shared->closed_by) &&
               !atomic_load(&progress->leaving)) {
        rg_view_abort(&world->view, rg_view_aborted(own),
                      rg_team_world_rank(progress->team, rg_view_abort_rank(own)),
                      rg_view_abort_text(own));
        rg_wake_ring_all(&world->wake, true);
    }
}

static void look_around(struct rg_progress *progress, poll_fn *poll_boot)
{
    if (progress->world)
        rg_watch_follow(progress);
    if (progress->world || atomic_load(&progress->view.shared->aborted))
        return;
    if (!listen_to_boot(progress, poll_boot) && !atomic_load(&progress->view.shared->aborted))
        look_at_pidfds(progress);
}

void rg_watch_start(struct rg_progress *progress)
{
    look_around(progress, rg_boot_poll_start);
}

void rg_watch_glance(struct rg_progress *progress)
{
    if (watches == progress)
        look_around(progress, rg_boot_poll);
    else if (progress->world)
        rg_watch_follow(progress);
}

void rg_watch_begin(const struct rg_progress *progress)
{
    watches = progress;
}

void rg_watch_tick(struct rg_progress *progress)
{
    look_around(progress, rg_boot_poll);
}
