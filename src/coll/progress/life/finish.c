/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of operations, one by one and all at once. */
#include "coll/progress/life/finish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/boot/boot.h"

#define SHUT_DOWN_TEXT                                                                        \
    "Reigen has been shut down. This was caused by an exception on one of the ranks or an "   \
    "attempt to submit an operation after one of the ranks finished execution (rank %d called " \
    "shutdown first)."
#define LEAVE_WAIT_MS 2000 /* for who has left to end */

void rg_line_stir(struct rg_progress *progress)
{
    atomic_store(&progress->line.stirred, true);
    rg_wake_ring(&progress->wake, progress->view.me, true);
}

void rg_members_drop(struct rg_progress *progress, struct rg_record *record)
{
    for (int i = 0; i < record->nmembers; i++)
        rg_record_drop(progress, record->members[i]);
}

void rg_op_drop_name(struct rg_progress *progress, struct rg_op *op)
{
    bool done = rg_op_done(op);

    if (!atomic_load_explicit(&op->name.held, memory_order_relaxed))
        return;
    if (!done) {
        pthread_mutex_lock(&progress->lock);
        op->name.dropped = true;
        done = rg_op_done(op);
        pthread_mutex_unlock(&progress->lock);
    }
    if (done)
        rg_op_seen(op);
}

/* A mismatch is one between the ranks of a process set; a death or a shutdown is everybody's. */
static void set_text(const struct rg_progress *progress, struct rg_op *op, int status,
                     const char *text)
{
    char named[RG_ERROR_TEXT_MAX];

    if (progress->process_set && status == -EINVAL) {
        snprintf(named, sizeof(named), "process set %d: %s", progress->process_set, text);
        text = named;
    }
    free(op->text);
    op->text = strdup(text);
}

void rg_op_finish(struct rg_progress *progress, struct rg_op *op, int status, const char *text)
{
    struct rg_record *record = op->record;

    if (status < 0)
        rg_progress_cut_off(progress, status);
    op->status = status;
    if (__builtin_expect(op->timed_ns != 0, 0))
        progress->observer->ops->finished(progress, op);
    if (status < 0 && text && text[0])
        set_text(progress, op, status, text);
    if (record) {
        if (op->epoch && record->place)
            atomic_store_explicit(&record->place->done, op->epoch, memory_order_release);
        if (__builtin_expect(record->nmembers > 0, 0))
            rg_members_drop(progress, record);
    }
    if (status >= 0) {
        rg_count(&progress->counters.nbytes, op->nbytes);
        /* Who has seen the count sees the results. */
        atomic_fetch_add_explicit(&progress->counters.noperations, (uint64_t) op->n,
                                  memory_order_release);
    }
    /* A persistent operation may be started again the moment its record is free and it is DONE. */
    if (op->persistent) {
        bool wanted;

        atomic_store(&record->op, NULL);
        wanted = atomic_load(&record->in_line) != 0;
        atomic_store_explicit(&op->state, RG_OP_DONE, memory_order_release);
        if (__builtin_expect(wanted, 0))
            rg_line_stir(progress);
        return;
    }
    /* Under the lock a record's operation is there to be looked at. */
    pthread_mutex_lock(&progress->lock);
    if (record)
        rg_record_drop(progress, record);
    if (op->watchers)
        rg_notify_ended(&progress->notify, op);
    atomic_store_explicit(&op->state, RG_OP_DONE, memory_order_release);
    if (op->name.dropped)
        rg_op_seen(op);
    pthread_mutex_unlock(&progress->lock);
    rg_op_unref(op);
}

/* Whose death or leaving is it that operations end with status for? -1: nobody's. */
static int cause_of(const struct rg_progress *progress, int status)
{
    int aborted = rg_view_aborted(&progress->view), rank = -1;

    if (aborted)
        rank = status == -aborted ? rg_view_abort_rank(&progress->view) : -1;
    else if (status == -ECANCELED && !atomic_load(&progress->removed) &&
             !atomic_load(&progress->stopping) && !atomic_load(&progress->abandoned))
        rank = (int) atomic_load(&progress->view.shared->closed_by) - 1;
    if (rank >= 0)
        return rg_team_world_rank(progress->team, rank);
    return aborted && progress->world ? cause_of(progress->world, status) : -1;
}

void rg_progress_cut_off(struct rg_progress *progress, int status)
{
    struct rg_progress *world = progress->world ? progress->world : progress;
    int rank = cause_of(progress, status), nobody = 0;

    if (rank >= 0 && rank != world->team->rank && world->boot &&
        atomic_compare_exchange_strong(&world->told.cut_by, &nobody, 1 + rank))
        rg_boot_cut_off(world->boot, rank);
    /* Whichever rank the verdict names, it has the cause. */
    if (status == -ETIMEDOUT && rg_view_aborted(&progress->view) == ETIMEDOUT && world->boot &&
        !atomic_exchange(&world->told.stall, true))
        rg_boot_note(world->boot, 0, rg_view_abort_text(&progress->view));
}

void rg_progress_abort(struct rg_progress *progress, int errnum, const char *text)
{
    bool own = errnum == EIO || errnum == ENOMEM;

    if (rg_view_abort(&progress->view, errnum, own ? progress->team->rank : -1, text) &&
        progress->boot)
        rg_boot_note(progress->boot, 0, text);
    rg_wake_ring_all(&progress->wake, true);
}

int rg_progress_abort_cause(struct rg_progress *progress, const char **ret_text)
{
    static _Thread_local char text[RG_ERROR_TEXT_MAX];
    struct rg_shared *shared = progress->view.shared;
    int aborted = rg_view_aborted(&progress->view);
    uint32_t by;

    if (aborted) {
        *ret_text = rg_view_abort_text(&progress->view);
        /* Of a stall, the report has the rest. */
        if (aborted == ETIMEDOUT) {
            snprintf(text, sizeof(text), "%.*s", (int) strcspn(*ret_text, "\n"), *ret_text);
            *ret_text = text;
        }
        return -aborted;
    }
    by = atomic_load(&shared->closed_by);
    if (atomic_load(&progress->removed))
        snprintf(text, sizeof(text), "process set %d has been removed", progress->process_set);
    else if (by || atomic_load(&progress->stopping) || atomic_load(&progress->abandoned))
        snprintf(text, sizeof(text), SHUT_DOWN_TEXT,
                 rg_team_world_rank(progress->team, by ? (int) by - 1 : progress->team->rank));
    else
        return 0;
    *ret_text = text;
    return -ECANCELED;
}

static bool is_there(int pidfd)
{
#ifdef SYS_pidfd_send_signal
    return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
#else
    return false;
#endif
}

void rg_progress_let_leave(struct rg_progress *progress)
{
    int rank = atomic_load(&progress->told.cut_by) - 1;
    int pidfd = rank < 0 ? -1 : progress->team->peers[rank].pidfd;
    uint64_t deadline_ns = rg_now_ns() + LEAVE_WAIT_MS * RG_NS_PER_MS;

    if (pidfd < 0 || !progress->boot || rg_boot_way(progress->boot)->judges)
        return;
    /* Until its parent has taken note of its end: no signal finds it then, not even as a zombie. */
    while (rg_now_ns() < deadline_ns && is_there(pidfd))
        rg_sleep_ms(1);
}
