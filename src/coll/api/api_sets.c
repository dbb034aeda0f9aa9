/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process sets, as users see them.
 */
#include "coll/api/api.h"
#include "base/time.h"
#include "coll/boot/meet/meet.h"
#include "coll/ground/report.h"

struct rg_progress *rg_api_progress(struct rg_runtime *rt, int kind,
                                const struct reigen_options *options, struct rg_set **ret_set,
                                struct rg_error *err)
{
    struct rg_progress *progress = NULL;
    struct rg_set *set;
    bool member = false;
    int number = options && options->process_set ? options->process_set : atomic_load(&rt->apart);

    *ret_set = NULL;
    if (number == 0)
        return rt->progress;
    pthread_mutex_lock(&rt->sets.lock);
    set = rg_sets_find(&rt->sets, number);
    if (set) {
        member = set->me >= 0;
        progress = rg_set_use(set);
    }
    pthread_mutex_unlock(&rt->sets.lock);
    if (progress)
        *ret_set = set;
    else if (set && !member)
        rg_error_set(err, EINVAL,
                     "%s: Rank %d is not a member of the provided process set. (process set %d)",
                     rg_kind_name(kind), rt->team->rank, number);
    else
        rg_error_set(err, EINVAL,
                     "%s: Process set provided does not exist, or has not been registered. "
                     "(process set %d)", rg_kind_name(kind), number);
    return progress;
}

REIGEN_API int reigen_apart(int process_set)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    const struct rg_set *set;
    bool fits;

    if (!rt)
        return rg_api_uninitialised();
    pthread_mutex_lock(&rt->sets.lock);
    set = rg_sets_find(&rt->sets, process_set);
    fits = process_set == 0 || (set && set->me >= 0 && set->nranks == 1);
    if (fits)
        atomic_store(&rt->apart, process_set);
    pthread_mutex_unlock(&rt->sets.lock);
    return fits ? 0 : rg_api_failf(EINVAL, "process set %d is not of this rank alone",
                                   process_set);
}

REIGEN_API int reigen_process_set_add(const int *ranks, int nranks, int *ret_id)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    int r;

    if (!rt)
        return rg_api_uninitialised();
    if (!ret_id || (nranks > 0 && !ranks))
        return rg_api_failf(EINVAL, "ranks or ret_id is NULL");
    r = rg_sets_add(&rt->sets, rt->progress, rt->boot, ranks, nranks, ret_id, &err);
    if (r == 0 && rg_api_describe(rt) < 0)
        rg_report(RG_LOG_WARN, "out of memory: reigen_describe lacks process set %d", *ret_id);
    return r < 0 ? rg_api_fail(&err) : 0;
}

REIGEN_API int reigen_process_set_meet(const struct reigen_meeting *meeting, const int *ranks,
                                       int timeout_ms, int *ret_id)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    uint64_t deadline;
    int r = rg_meet_check(meeting, &err);

    if (!rt)
        return rg_api_uninitialised();
    if (r < 0)
        return rg_api_fail(&err);
    if (!ret_id || !ranks)
        return rg_api_failf(EINVAL, "ranks or ret_id is NULL");
    deadline = rg_api_deadline(timeout_ms > 0 ? timeout_ms : RG_SET_CONNECT_MS);
    r = rg_sets_meet(&rt->sets, rt->progress, rt->boot, meeting, ranks, deadline, ret_id, &err);
    if (r == 0 && rg_api_describe(rt) < 0)
        rg_report(RG_LOG_WARN, "out of memory: reigen_describe lacks process set %d", *ret_id);
    return r < 0 ? rg_api_fail(&err) : 0;
}

REIGEN_API int reigen_process_set_remove(int id)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    int r;

    if (!rt)
        return rg_api_uninitialised();
    r = id >= RG_SETS_MET ? rg_sets_forget(&rt->sets, rt->progress, id, &err)
                          : rg_sets_remove(&rt->sets, rt->progress, id, &err);
    if (r == 0 && rg_api_describe(rt) < 0)
        rg_report(RG_LOG_WARN, "out of memory: reigen_describe still lists process set %d", id);
    return r < 0 ? rg_api_fail(&err) : 0;
}

/* What is asked of a set. */
enum question { RANK, SIZE, INCLUDED, RANKS };

/* Of a set, or of all ranks: a set without a list. */
static int answer(const struct rg_set *set, enum question what, int *ret_ranks, int max)
{
    if (what == RANK)
        return set->me >= 0 ? set->me : -ENXIO;
    if (what == INCLUDED)
        return set->me >= 0;
    for (int i = 0; what == RANKS && i < set->nranks && i < max; i++)
        ret_ranks[i] = set->ranks ? set->ranks[i] : i;
    return set->nranks;
}

static int ask(int id, enum question what, int *ret_ranks, int max)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    const struct rg_set *set;
    int r = -ENOENT;

    if (!rt)
        return rg_api_uninitialised();
    if (id == 0)
        return answer(&(struct rg_set){ .nranks = rt->team->size, .me = rt->team->rank }, what,
                      ret_ranks, max);
    pthread_mutex_lock(&rt->sets.lock);
    set = rg_sets_find(&rt->sets, id);
    if (set)
        r = answer(set, what, ret_ranks, max);
    pthread_mutex_unlock(&rt->sets.lock);
    if (r == -ENOENT)
        rg_api_failf(ENOENT, "process set %d does not exist", id);
    else if (r == -ENXIO)
        rg_api_failf(ENXIO, "Rank %d is not a member of the provided process set. (process set %d)",
                     rt->team->rank, id);
    return r;
}

REIGEN_API int reigen_process_set_rank(int id)
{
    return ask(id, RANK, NULL, 0);
}

REIGEN_API int reigen_process_set_size(int id)
{
    return ask(id, SIZE, NULL, 0);
}

REIGEN_API int reigen_process_set_included(int id)
{
    return ask(id, INCLUDED, NULL, 0);
}

REIGEN_API int reigen_process_set_ranks(int id, int *ret_ranks, int max)
{
    return ask(id, RANKS, ret_ranks, max);
}

REIGEN_API int reigen_process_set_ids(int *ret_ids, int max)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    int n;

    if (!rt)
        return rg_api_uninitialised();
    if (max > 0)
        ret_ids[0] = 0;
    pthread_mutex_lock(&rt->sets.lock);
    n = rt->sets.nalive;
    for (int i = 0; i < n && i + 1 < max; i++)
        ret_ids[i + 1] = rt->sets.alive[i]->id;
    pthread_mutex_unlock(&rt->sets.lock);
    return n + 1;
}
