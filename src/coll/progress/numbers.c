/* SPDX-License-Identifier: Apache-2.0 */
/* A row is written by many, but rarely: a quick operation passes nothing of this file. */
#include "coll/progress/numbers.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/boot/boot.h"
#include "coll/progress/spent.h"

#define TELL_NS (RG_NS_PER_S / 2) /* a wait that lasts is accounted for as it goes */
#define STATM_MAX 256
#define WAIT_US_MAX UINT64_C(2000000000) /* its square fits into 64 bits, as do some of them */

/* ---- who is waited for */

/* The row of a process set's rank is the one that it has among all ranks. */
static struct rg_numbers_row *row_of(struct rg_progress *progress, int r)
{
    const struct rg_view *view = progress->world ? &progress->world->view : &progress->view;
    int rank = rg_view_shown_rank(&progress->view, r);

    if (!progress->world)
        return &view->numbers[r];
    for (int i = 0; i < view->n; i++) {
        if (rg_view_shown_rank(view, i) == rank)
            return &view->numbers[i];
    }
    return &view->numbers[view->me];
}

/* Until now the waiter has waited for the one that was missing. */
static void charge(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns)
{
    uint64_t ns = now_ns > blame->since_ns ? now_ns - blame->since_ns : 0;

    blame->since_ns = now_ns;
    if (blame->missing == progress->view.me)
        return;
    rg_count(&row_of(progress, progress->view.me)->waited_ns, ns);
    rg_count(&row_of(progress, blame->missing)->caused_ns, ns);
}

static bool is_posted(const struct rg_op *op)
{
    int state = atomic_load_explicit(&op->state, memory_order_acquire);

    return (state == RG_OP_POSTED || state == RG_OP_CLAIMED) && op->record;
}

/* The first one from there on. */
static int find_missing(const struct rg_view *view, int from, uint32_t id, uint64_t epoch)
{
    for (int r = from; r < view->n; r++) {
        if (rg_view_owes(view, r, id, epoch))
            return r;
    }
    return -1;
}

/* Who sleeps does not see each of them come; a stream's last one leaves its name, and then says
 * that all have arrived. */
static void name_last(const struct rg_view *view, const struct rg_op *op, int *missing)
{
    const struct rg_entry *entry = op->record->entry;

    if (atomic_load(&entry->ready_epoch) >= op->epoch)
        *missing = (int) (atomic_load_explicit(&entry->last, memory_order_relaxed) %
                          (uint32_t) view->n);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t) used.tv_sec * RG_NS_PER_S + (uint64_t) used.tv_nsec;
}

void rg_blame_before_sleep(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns)
{
    const struct rg_view *view = &progress->view;
    const struct rg_op *op = blame->op;
    int missing = blame->missing;

    if (!blame->cpu_ns)
        blame->cpu_ns = thread_cpu_ns();
    if (!is_posted(op))
        return;
    /* Those before it had come when it was found. */
    if (missing < 0 || !rg_view_owes(view, missing, op->record->id, op->epoch))
        missing = find_missing(view, missing + 1, op->record->id, op->epoch);
    if (missing < 0) {
        blame->until_ns = now_ns;
        if (blame->missing >= 0 && op->mode != RG_ENTRY_INLINE)
            name_last(view, op, &blame->missing);
        return;
    }
    blame->missing = missing;
    if (now_ns >= blame->since_ns + TELL_NS &&
        find_missing(view, missing + 1, op->record->id, op->epoch) < 0)
        charge(progress, blame, now_ns);
}

void rg_blame_look(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns)
{
    if (!blame->until_ns && now_ns >= blame->since_ns + RG_BLAME_MIN_NS)
        rg_blame_before_sleep(progress, blame, now_ns);
}

void rg_blame_end(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns,
                  uint64_t wait_ns)
{
    uint64_t us = wait_ns / 1000 < WAIT_US_MAX ? wait_ns / 1000 : WAIT_US_MAX;

    if (wait_ns < RG_BLAME_MIN_NS)
        return;
    struct rg_numbers_row *row = row_of(progress, progress->view.me);
    rg_count(&row->squares_us2, us * us);
    if (blame->cpu_ns)
        rg_count(&row->spun_ns, thread_cpu_ns() - blame->cpu_ns);
    if (blame->missing >= 0)
        charge(progress, blame, blame->until_ns ? blame->until_ns : now_ns);
}

/* ---- whose time it is */

/* Which thread of the process this is; asked of the kernel once. */
static int this_thread(void)
{
    static _Thread_local int tid;

    if (!tid)
        tid = (int) syscall(SYS_gettid);
    return tid;
}

void rg_numbers_waiter(struct rg_progress *progress)
{
    struct rg_progress *world = progress->world ? progress->world : progress;
    int tid = this_thread();
    int before = atomic_load_explicit(&world->counters.waiter, memory_order_relaxed);

    if (before != tid)
        atomic_store_explicit(&world->counters.waiter, before ? -1 : tid, memory_order_relaxed);
}

/* ---- once a second */

void rg_numbers_step(struct rg_progress *progress)
{
    rg_count(&row_of(progress, progress->view.me)->steps_told, 1);
}

static uint64_t resident_nbytes(void)
{
    rg_autofree char *text = NULL;
    char *end = NULL;

    if (rg_read_file("/proc/self/statm", STATM_MAX, &text, NULL) < 0)
        return 0;
    strtoull(text, &end, 10);
    return strtoull(end, NULL, 10) * (uint64_t) sysconf(_SC_PAGESIZE);
}

/* How long the steps since the last look have taken: since one was last seen to end. */
static void note_steps(struct rg_progress *progress, struct rg_numbers_row *row, uint64_t now_ns,
                       uint64_t nsteps)
{
    struct rg_published *published = &progress->counters.published;
    uint64_t told = atomic_load(&row->steps_told), before = published->nsteps;

    nsteps = told ? told : nsteps;
    if (nsteps == before)
        return;
    if (published->stepped_ns && nsteps > before)
        atomic_store(&row->step_ns, (now_ns - published->stepped_ns) / (nsteps - before));
    published->nsteps = nsteps;
    published->stepped_ns = now_ns;
    atomic_store(&row->steps, nsteps);
}

static struct rg_numbers numbers_of(const struct rg_view *view, int r)
{
    struct rg_numbers_row *row = &view->numbers[r];

    return (struct rg_numbers){
        .rank = (uint32_t) view->ranks[r],
        .operations = atomic_load(&row->operations),
        .nbytes = atomic_load(&row->nbytes),
        .steps = atomic_load(&row->steps),
        .step_ns = atomic_load(&row->step_ns),
        .blocked_ns = atomic_load(&row->blocked_ns),
        .waited_ns = atomic_load(&row->waited_ns),
        .caused_ns = atomic_load(&row->caused_ns),
        .cpu_ns = atomic_load(&row->cpu_ns),
        .resident_nbytes = atomic_load(&row->resident_nbytes),
        .squares_us2 = atomic_load(&row->squares_us2),
        .timed_ns = atomic_load(&row->timed_ns),
        .computed_ns = atomic_load(&row->computed_ns),
        .delayed_ns = atomic_load(&row->delayed_ns),
        .throttled_ns = atomic_load(&row->throttled_ns),
        .faults = atomic_load(&row->faults),
        .refaults = atomic_load(&row->refaults),
        .sent_nbytes = atomic_load(&row->sent_nbytes),
        .sending_ns = atomic_load(&row->sending_ns),
        .sent_to = atomic_load(&row->sent_to) - 1, /* 0 becomes RG_NUMBERS_NO_RANK */
        .cpus = atomic_load(&row->cpus),
        .at_ns = atomic_load(&row->at_ns),
    };
}

/* A rank has its own alone; the others' are in their rows. */
static void count_traffic(struct rg_progress *progress, struct rg_numbers_row *row)
{
    struct rg_team_traffic *traffic = progress->team->between.traffic;
    int to = traffic ? atomic_load(&traffic->sent_to) - 1 : -1;

    if (!traffic)
        return;
    atomic_store(&row->sent_nbytes, atomic_load(&traffic->sent_nbytes));
    atomic_store(&row->sending_ns, atomic_load(&traffic->sending_us) * 1000);
    atomic_store(&row->sent_to, (uint32_t) (to + 1));
}

static void tell(struct rg_progress *progress)
{
    const struct rg_view *view = &progress->view;
    rg_autofree struct rg_numbers *numbers = calloc((size_t) view->n, sizeof(*numbers));

    for (int r = 0; numbers && r < view->n; r++)
        numbers[r] = numbers_of(view, r);
    if (numbers)
        rg_boot_numbers(progress->boot, numbers, view->n);
}

static void publish(struct rg_numbers_row *row, const struct rg_spent *spent)
{
    atomic_store(&row->timed_ns, spent->timed_ns);
    atomic_store(&row->computed_ns, spent->computed_ns);
    atomic_store(&row->delayed_ns, spent->delayed_ns);
    atomic_store(&row->throttled_ns, spent->throttled_ns);
    atomic_store(&row->faults, spent->faults);
    atomic_store(&row->refaults, spent->refaults);
    atomic_store(&row->cpus, spent->cpus);
}

/* Another rank may read the row meanwhile: what takes long is done before anything is written, so
 * that all of it is of the same seconds. Who waits may have begun before, and says so when it is
 * over. */
void rg_numbers_tick(struct rg_progress *progress, struct rg_spent *spent, uint64_t now_ns,
                     uint64_t cpu_ns, uint64_t nsteps, bool reporter)
{
    struct rg_numbers_row *row = row_of(progress, progress->view.me);
    struct rg_published *published = &progress->counters.published;
    uint64_t noperations, nbytes, wait_ns, resident = 0;

    if (!progress->world) {
        resident = resident_nbytes();
        rg_spent_look(spent, atomic_exchange(&progress->counters.waiter, 0),
                      atomic_load(&row->spun_ns), now_ns);
    }
    noperations = atomic_load(&progress->counters.noperations);
    nbytes = atomic_load(&progress->counters.nbytes);
    wait_ns = atomic_load(&progress->counters.wait_ns);
    rg_count(&row->operations, noperations - published->noperations);
    rg_count(&row->nbytes, nbytes - published->nbytes);
    published->noperations = noperations;
    rg_count(&row->blocked_ns, wait_ns - published->wait_ns);
    published->nbytes = nbytes;
    published->wait_ns = wait_ns;
    if (progress->world)
        return;
    note_steps(progress, row, now_ns, nsteps);
    atomic_store(&row->cpu_ns, cpu_ns);
    atomic_store(&row->resident_nbytes, resident);
    publish(row, spent);
    count_traffic(progress, row);
    atomic_store(&row->at_ns, now_ns);
    if (reporter && progress->boot)
        tell(progress);
}
