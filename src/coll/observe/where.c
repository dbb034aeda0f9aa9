/* SPDX-License-Identifier: Apache-2.0 */
/* Asking and answering, through the node's shared memory. */
#include "coll/observe/where.h"

#include <stdio.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/boot/boot.h"
#include "coll/observe/process.h"
#include "coll/observe/stacks.h"
#include "coll/progress/progress.h"

void rg_where_ask(struct rg_progress *progress, struct rg_where_question *ret_question)
{
    ret_question->number = atomic_fetch_add(&progress->view.shared->where_asked, 1) + 1;
    ret_question->deadline_ns = rg_now_ns() + RG_WHERE_MS * RG_NS_PER_MS;
    rg_wake_ring_all(&progress->wake, true);
}

bool rg_where_is_over(const struct rg_progress *progress, struct rg_where_question *question)
{
    const struct rg_view *view = &progress->view;
    bool over = question->deadline_ns != 0;

    for (int r = 0; over && r < view->n; r++)
        over = atomic_load(&view->wheres[r].told) >= question->number;
    over = over || (question->deadline_ns && rg_now_ns() >= question->deadline_ns);
    if (over)
        *question = (struct rg_where_question){ 0, 0 };
    return over;
}

/* A thread that keeps the rank from rest, and what it does. */
static void describe_thread(const struct rg_rest *rest, char *ret_text, size_t nbytes)
{
    char name[RG_PROC_NAME_MAX], call[96];
    bool is_main = rest->thread == getpid();

    rg_proc_name_read(rest->thread, name);
    rg_proc_call_read(rest->thread, call, sizeof(call));
    snprintf(ret_text, nbytes, "has %s, %s (%d)%s, %s%s", is_main ? "its main thread" : "a thread",
             name, (int) rest->thread,
             is_main || rest->why != RG_UNREST_CALLER ? "" : ", which calls operations",
             call[0] ? "in " : "at work", call);
}

/* What a rank does that keeps it from rest, behind its number. */
static void describe_unrest(const struct rg_rest *rest, char *ret_text, size_t nbytes)
{
    static const char *const words[] = {
        [RG_UNREST_NONE] = "", [RG_UNREST_CALLER] = "", [RG_UNREST_THREAD] = "",
        [RG_UNREST_BUSY] = "uses a processor",
        [RG_UNREST_CALLS] = "still calls operations",
        [RG_UNREST_TOLD] = "is in a function that is told of an operation's end",
        [RG_UNREST_DEBUGGER] = "has a debugger attached",
        [RG_UNREST_TIMER] = "has a timer set, by setitimer or timer_create",
        [RG_UNREST_CHANGES] = "has threads that come and go, or run",
        [RG_UNREST_UNKNOWN] = "has no /proc that tells what it does",
    };

    if (rest->why == RG_UNREST_CALLER || rest->why == RG_UNREST_THREAD)
        describe_thread(rest, ret_text, nbytes);
    else
        snprintf(ret_text, nbytes, "%s", words[rest->why]);
}

/* In C: where the main thread is, if it does not wait here for others; that is told anyway. */
void rg_where_answer(struct rg_progress *progress, const struct rg_rest *rest)
{
    const struct rg_view *view = &progress->view;
    uint64_t asked = atomic_load(&view->shared->where_asked);
    struct rg_where *mine = &view->wheres[view->me];
    bool waits = atomic_load(&view->rows[view->me].waits_ns) != 0, is_main;

    if (atomic_load_explicit(&mine->told, memory_order_relaxed) == asked)
        return;
    is_main = rg_stacks_place(atomic_load(&progress->counters.submitter), mine->place,
                              sizeof(mine->place));
    mine->call[0] = '\0';
    if (!waits && is_main)
        rg_proc_call_read(getpid(), mine->call, sizeof(mine->call));
    describe_unrest(rest, mine->unrest, sizeof(mine->unrest));
    atomic_store(&mine->told, asked);
}

void rg_where_tell(struct rg_progress *progress)
{
    char place[sizeof(((struct rg_where *) NULL)->place)];

    if (!progress->boot || !rg_boot_asks_where(progress->boot))
        return;
    rg_stacks_place(atomic_load(&progress->counters.submitter), place, sizeof(place));
    rg_boot_tell_where(progress->boot, place);
}

const struct rg_where *rg_where_of(const struct rg_progress *progress, int r)
{
    const struct rg_view *view = &progress->view;
    const struct rg_where *where = &view->wheres[r];

    return atomic_load(&where->told) == atomic_load(&view->shared->where_asked) &&
                   atomic_load(&where->told)
               ? where
               : NULL;
}
