/* SPDX-License-Identifier: Apache-2.0 */
/* The line of those whose names other operations have: nobody passes another one that wants the
 * same name. */
#include "coll/progress/life/finish.h"
#include "coll/progress/life/submit.h"

#include <utlist.h>

bool rg_line_wants(const struct rg_record *record)
{
    bool wants = atomic_load(&record->in_line) != 0;

    for (int i = 0; i < record->nmembers; i++)
        wants = wants || atomic_load(&record->members[i]->in_line) != 0;
    return wants;
}

static void count(struct rg_record *record, int by)
{
    atomic_fetch_add(&record->in_line, by);
    for (int i = 0; i < record->nmembers; i++)
        atomic_fetch_add(&record->members[i]->in_line, by);
}

void rg_line_add(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_line *line = &progress->line;

    atomic_store(&op->state, RG_OP_IN_LINE);
    count(op->record, 1);
    atomic_fetch_add(&line->n, 1);
    DL_APPEND2(line->first, op, name.prev, name.next);
}

static void leave(struct rg_progress *progress, struct rg_op *op)
{
    DL_DELETE2(progress->line.first, op, name.prev, name.next);
    count(op->record, -1);
}

/* Has this look found that somebody before it wants one of its names? */
static bool is_behind(const struct rg_record *record, uint64_t look)
{
    bool behind = record->looked == look;

    for (int i = 0; i < record->nmembers; i++)
        behind = behind || record->members[i]->looked == look;
    return behind;
}

static void mark(struct rg_record *record, uint64_t look)
{
    record->looked = look;
    for (int i = 0; i < record->nmembers; i++)
        record->members[i]->looked = look;
}

/* It has left the line, with its names. */
static void announce(struct rg_progress *progress, struct rg_op *op)
{
    if (atomic_load(&op->name.held))
        rg_op_hold_name(op);
    atomic_store(&op->state, RG_OP_QUEUED);
    rg_op_retry(progress, op);
    /* Perhaps its submitter has gone, and nobody else will look at it. */
    if (!rg_op_done(op))
        rg_polled_later(&progress->polled, op);
}

bool rg_line_drive(struct rg_progress *progress)
{
    struct rg_line *line = &progress->line;
    struct rg_op *op, *next;
    bool moved = false;

    atomic_store(&line->stirred, false);
    pthread_mutex_lock(&progress->lock);
    line->looks++;
    /* Others come while the lock is let go, behind those that are there, and stir again. */
    DL_FOREACH_SAFE2(line->first, op, next, name.next)
    {
        if (is_behind(op->record, line->looks) ||
            rg_names_claim(progress, op->record, op, true) < 0) {
            mark(op->record, line->looks);
            continue;
        }
        leave(progress, op);
        atomic_fetch_add(&op->refs, 1);
        pthread_mutex_unlock(&progress->lock);
        announce(progress, op);
        rg_op_unref(op);
        atomic_fetch_sub(&line->n, 1);
        moved = true;
        pthread_mutex_lock(&progress->lock);
    }
    pthread_mutex_unlock(&progress->lock);
    return moved;
}

static struct rg_op *take_first(struct rg_progress *progress)
{
    struct rg_op *op;

    pthread_mutex_lock(&progress->lock);
    op = progress->line.first;
    if (op) {
        leave(progress, op);
        /* It has no name, and its record is another's. */
        atomic_store(&op->name.held, false);
        op->record = NULL;
        atomic_store(&op->state, RG_OP_CLAIMED);
    }
    pthread_mutex_unlock(&progress->lock);
    return op;
}

void rg_line_end(struct rg_progress *progress, int status, const char *text)
{
    struct rg_op *op;

    while (atomic_load(&progress->line.n) && (op = take_first(progress)) != NULL) {
        rg_op_finish(progress, op, status, text);
        atomic_fetch_sub(&progress->line.n, 1);
    }
}
