/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the one runtime of a process: init, shutdown, fork, and who is inside meanwhile. */
#include "coll/api/api.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/boot/find/find.h"
#include "coll/boot/meet/meet.h"
#include "coll/exec/exec.h"
#include "coll/ground/report.h"

static _Atomic(struct rg_runtime *) the_runtime;
static _Atomic bool ending;       /* shutdown is at it */
static struct rg_runtime *spare;  /* the one there was before */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* held by init and shutdown */
static uint64_t generations;
static struct rg_boots boots; /* what the ways of being started keep until the process ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local char last_error[RG_ERROR_TEXT_MAX];

/* Counted first, then looked at again: either this sees that shutdown has taken the runtime away,
 * or shutdown sees the count. */
struct rg_runtime *rg_api_enter(void)
{
    struct rg_runtime *rt;

    while ((rt = atomic_load(&the_runtime)) != NULL) {
        atomic_fetch_add(&rt->users, 1);
        if (atomic_load(&the_runtime) == rt)
            break;
        atomic_fetch_sub(&rt->users, 1);
    }
    return rt;
}

void rg_api_leave(struct rg_runtime *rt)
{
    if (rt)
        atomic_fetch_sub(&rt->users, 1);
}

int rg_api_over(uint64_t deadline_ns)
{
    while (atomic_load(&ending) && !rg_notify_calls()) {
        if (rg_now_ns() >= deadline_ns)
            return -EAGAIN;
        rg_sleep_ms(1);
    }
    return rg_api_uninitialised();
}

int rg_api_fail(const struct rg_error *err)
{
    memcpy(last_error, err->text, sizeof(last_error));
    return -err->errnum;
}

int rg_api_failf(int errnum, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(last_error, sizeof(last_error), fmt, ap);
    va_end(ap);
    return -errnum;
}

int rg_api_uninitialised(void)
{
    return rg_api_failf(ENOTCONN, "Horovod has not been initialized; use hvd.init(). "
                                  "(reigen_init has not been called, or not in this process)");
}

uint64_t rg_api_deadline(int timeout_ms)
{
    if (timeout_ms < 0)
        return RG_NEVER_NS;
    return timeout_ms == 0 ? 0 : rg_now_ns() + (uint64_t) timeout_ms * RG_NS_PER_MS;
}

/* ---- life cycle */

/* In a forked child: let go of everything without freeing, as any lock may be held by a thread
 * that is not there. */
static void after_fork(void)
{
    struct rg_runtime *rt = atomic_exchange(&the_runtime, NULL);

    /* Another thread may have been at it. */
    pthread_mutex_init(&life, NULL);
    spare = NULL;
    atomic_store(&ending, false);
    rg_api_observe_after_fork();
    if (!rt)
        return;
    rg_sets_after_fork(&rt->sets);
    rg_progress_after_fork(rt->progress);
    rg_team_after_fork(rt->team);
    rg_boot_after_fork(rt->boot);
}

static void leave_boots(void)
{
    rg_boots_leave(&boots);
}

static void register_hooks(void)
{
    pthread_atfork(NULL, NULL, after_fork);
    atexit(leave_boots);
}

static struct rg_runtime *runtime_new(void)
{
    struct rg_runtime *rt = spare;
    size_t start = offsetof(struct rg_runtime, config);

    spare = NULL;
    if (rt) {
        rg_handles_fini(&rt->handles);
        free(rt->describe);
        while (rt->nold_describes > 0)
            free(rt->old_describes[--rt->nold_describes]);
        free(rt->old_describes);
        memset((char *) rt + start, 0, sizeof(*rt) - start);
    } else {
        rt = aligned_alloc(_Alignof(struct rg_runtime), sizeof(*rt));
        if (!rt)
            return NULL;
        memset(rt, 0, sizeof(*rt));
    }
    rg_sets_init(&rt->sets);
    rg_handles_init(&rt->handles);
    return rt;
}

/* Calls that wait inside are told that it is over, here and on the other ranks; once that is late
 * they do not wait for other ranks any more. */
static void wait_for_users(struct rg_runtime *rt, uint64_t until_ns)
{
    if (atomic_load(&rt->users) == 0)
        return;
    rg_progress_leave(rt->progress);
    while (atomic_load(&rt->users) > 0) {
        bool late = rg_progress_is_late(rt->progress, until_ns);

        rg_sets_hurry(&rt->sets, late);
        rg_progress_hurry(rt->progress, late);
        rg_sleep_ms(1);
    }
}

/* Nobody is inside. */
static void runtime_end(struct rg_runtime *rt, bool goodbye, uint64_t until)
{
    rg_sets_leave(&rt->sets, until);
    rg_progress_destroy(rt->progress, until, NULL);
    rg_sets_fini(&rt->sets);
    rg_api_timeline_close();
    rg_team_destroy(rt->team);
    if (rt->boot)
        rg_boot_close(rt->boot, goodbye);
    spare = rt;
}

static void describe_set(const struct rg_set *set, struct rg_buf *text)
{
    rg_buf_printf(text, "process set %d: ranks [", set->id);
    for (int i = 0; i < set->nranks; i++)
        rg_buf_printf(text, "%s%d", i ? ", " : "", set->ranks[i]);
    rg_buf_printf(text, "]\n");
}

static char *describe(struct rg_runtime *rt)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "boot: %s\n", rg_boot_way(rt->boot)->name);
    rg_buf_printf(&text, "ranks: %d on %d node%s\n", rt->team->size, rt->team->nnodes,
                  rt->team->nnodes == 1 ? "" : "s");
    rg_scopes_describe(rg_exec_scopes(rt->progress->exec), &text);
    rg_buf_printf(&text, "waiting: %s\n",
                  rt->team->oversubscribed ? "more ranks than cores, by yielding" : "by spinning");
    pthread_mutex_lock(&rt->sets.lock);
    for (int i = 0; i < rt->sets.nalive; i++)
        describe_set(rt->sets.alive[i], &text);
    pthread_mutex_unlock(&rt->sets.lock);
    return strdup(rg_buf_text(&text));
}

/* Keep what was said before; the caller frees what it gets. */
static char *replace(struct rg_runtime *rt, char *text)
{
    char **old;

    if (!rt->describe || strcmp(rt->describe, text) == 0) {
        char *before = rt->describe;

        rt->describe = text;
        return before;
    }
    old = realloc(rt->old_describes, (size_t) (rt->nold_describes + 1) * sizeof(*old));
    if (!old)
        return text;
    rt->old_describes = old;
    old[rt->nold_describes++] = rt->describe;
    rt->describe = text;
    return NULL;
}

int rg_api_describe(struct rg_runtime *rt)
{
    char *text = describe(rt), *unused;
    int r;

    if (!text)
        return -ENOMEM;
    pthread_mutex_lock(&rt->sets.lock);
    rt->mpi = (int) rg_scopes_mpi(rg_exec_scopes(rt->progress->exec)) |
              (rg_boot_way(rt->boot)->of_mpi ? REIGEN_MPI_STARTED : 0);
    unused = replace(rt, text);
    r = unused == text ? -ENOMEM : 0;
    pthread_mutex_unlock(&rt->sets.lock);
    free(unused);
    return r;
}

/* Once per job; ranks that all agree need not all say so. */
static void remark_on_planes(const struct rg_runtime *rt)
{
    const struct rg_scopes *scopes = rg_exec_scopes(rt->progress->exec);
    const char *name = scopes->planes.table[scopes->remarked]->name;
    bool insisted = scopes->planes.insisted >> scopes->remarked & 1;
    char shown[16] = "";

    if (rt->team->rank != 0 || !scopes->remark.text[0])
        return;
    for (size_t i = 0; name[i] && i + 1 < sizeof(shown); i++)
        shown[i] = (char) toupper((unsigned char) name[i]);
    rg_report(insisted ? RG_LOG_WARN : RG_LOG_INFO,
              "%s is asked for and not used to move data: %s", shown, scopes->remark.text);
}

/* The ranks of the job find each other: by the caller's means, or by ours. */
static int find_ranks(struct rg_runtime *rt, const struct reigen_init_options *options,
                      const struct reigen_meeting *meeting, uint64_t deadline,
                      struct rg_error *err)
{
    int r;

    if (meeting)
        return rg_meet_world(meeting, &rt->config, deadline, &rt->boot, err);
    r = rg_boot_open(&boots, &rt->config, deadline, &rt->boot, err);
    if (r == 0 && options && options->ranks)
        r = rg_boot_comm(&rt->boot, options->ranks, options->nranks, deadline, err);
    return r;
}

static int bring_up(struct rg_runtime *rt, const struct reigen_init_options *options,
                    const struct reigen_meeting *meeting, struct rg_error *err)
{
    uint64_t timeout_ms, deadline;
    struct rg_plane_choice planes;
    struct rg_progress_options progress = { .planes = &planes };
    int r = rg_config_read(&rt->config, err);

    if (r == 0)
        r = rg_planes_choose(rg_planes, rt->config.planes, &planes, err);
    if (r < 0)
        return r;
    timeout_ms = options && options->timeout_ms > 0 ? (uint64_t) options->timeout_ms
                                                    : rt->config.start_timeout_ms;
    deadline = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    rg_planes_prepare(&planes);
    r = find_ranks(rt, options, meeting, deadline, err);
    if (r < 0)
        return r;
    /* Those of an elastic job may have waited long for a host. */
    if (rg_boot_identity(rt->boot)->epoch)
        deadline = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    rg_report_open(rg_boot_identity(rt->boot)->rank, (enum rg_log_level) rt->config.log.level,
                   rt->config.log.time);
    if (rg_boot_identity(rt->boot)->warning[0])
        rg_report(RG_LOG_WARN, "%s", rg_boot_identity(rt->boot)->warning);
    if (rt->config.stall_shutdown_ignored)
        rg_report(RG_LOG_WARN, "the stall shutdown time is less than the stall check time; it is "
                               "ignored");
    if (rt->config.autotune_ignored && rg_boot_identity(rt->boot)->rank == 0)
        rg_report(RG_LOG_WARN, "HOROVOD_AUTOTUNE has no effect: nothing is tuned while a job "
                               "runs");
    r = rg_api_timeline_open(&rt->config, rg_boot_identity(rt->boot)->rank, err);
    if (r < 0)
        return r;
    r = rg_progress_team(rt->boot, &rt->config, &planes, deadline, &rt->team, err);
    if (r < 0)
        return r;
    progress.team = rt->team;
    progress.config = &rt->config;
    progress.boot = rt->boot;
    progress.handles = &rt->handles;
    progress.observe = rg_api_observe;
    progress.deadline_ns = deadline;
    r = rg_progress_create(&progress, &rt->progress, err);
    if (r < 0)
        return r;
    remark_on_planes(rt);
    return rg_api_describe(rt) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

static int start(const struct reigen_init_options *options, const struct reigen_meeting *meeting)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_runtime *rt;
    bool again; /* of an elastic job's ranks one has died before all were there */
    int r;

    if (atomic_load(&the_runtime))
        return meeting ? rg_api_failf(EALREADY, "the runtime is initialised already") : 0;
    pthread_once(&once, register_hooks);
    do {
        err = (struct rg_error) RG_ERROR_INIT;
        rt = runtime_new();
        if (!rt)
            return rg_api_failf(ENOMEM, "out of memory");
        r = bring_up(rt, options, meeting, &err);
        again = r == -ECONNRESET && rt->boot && rg_boot_identity(rt->boot)->epoch;
        if (r < 0 && rt->boot && !again)
            rg_boot_note(rt->boot, 0, err.text);
        if (r < 0)
            runtime_end(rt, false, rg_progress_leave_until(&rt->config));
    } while (again);
    if (r < 0) {
        rg_api_fail(&err);
        return r;
    }
    rt->generation = ++generations;
    atomic_store(&the_runtime, rt);
    return 0;
}

static int start_once(const struct reigen_init_options *options,
                      const struct reigen_meeting *meeting)
{
    int r;

    if (rg_notify_calls())
        return rg_api_failf(EDEADLK, "reigen_init in a function that reigen_on_done calls");
    pthread_mutex_lock(&life);
    r = start(options, meeting);
    pthread_mutex_unlock(&life);
    return r;
}

REIGEN_API int reigen_init(const struct reigen_init_options *options)
{
    if (atomic_load(&the_runtime))
        return 0;
    if (options && (options->nranks < 0 || (options->ranks == NULL) != (options->nranks == 0)))
        return rg_api_failf(EINVAL, "init: ranks and nranks must both be given or neither");
    return start_once(options, NULL);
}

REIGEN_API int reigen_init_meeting(const struct reigen_meeting *meeting, int timeout_ms)
{
    struct reigen_init_options options = { .timeout_ms = timeout_ms };
    struct rg_error err = RG_ERROR_INIT;

    if (rg_meet_check(meeting, &err) < 0)
        return rg_api_fail(&err);
    if (atomic_load(&the_runtime))
        return rg_api_failf(EALREADY, "the runtime is initialised already");
    return start_once(&options, meeting);
}

REIGEN_API int reigen_shutdown(void)
{
    struct rg_runtime *rt;

    if (rg_notify_calls())
        return rg_api_failf(EDEADLK, "reigen_shutdown in a function that reigen_on_done calls");
    pthread_mutex_lock(&life);
    atomic_store(&ending, true);
    rt = atomic_exchange(&the_runtime, NULL);
    if (rt) {
        uint64_t until = rg_progress_leave_until(&rt->config);

        wait_for_users(rt, until);
        runtime_end(rt, true, until);
    }
    atomic_store(&ending, false);
    pthread_mutex_unlock(&life);
    return 0;
}

/* A process that ends because another rank left, and has not called reigen_shutdown. */
static __attribute__((destructor)) void end_after_who_left(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (rt)
        rg_progress_let_leave(rt->progress);
}

REIGEN_API int reigen_is_initialized(void)
{
    return atomic_load(&the_runtime) != NULL;
}

/* ---- who am I */

REIGEN_API int reigen_rank(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->rank : rg_api_uninitialised();
}

REIGEN_API int reigen_size(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->size : rg_api_uninitialised();
}

REIGEN_API int reigen_local_rank(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->local_rank : rg_api_uninitialised();
}

REIGEN_API int reigen_local_size(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->local_size : rg_api_uninitialised();
}

REIGEN_API int reigen_cross_rank(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->cross_rank : rg_api_uninitialised();
}

REIGEN_API int reigen_cross_size(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->cross_size : rg_api_uninitialised();
}

REIGEN_API int reigen_is_homogeneous(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->homogeneous : rg_api_uninitialised();
}

/* ---- elastic jobs */

REIGEN_API int reigen_epoch(struct reigen_epoch *ret_epoch)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (!rt)
        return rg_api_uninitialised();
    ret_epoch->number = (int) rg_boot_identity(rt->boot)->epoch;
    ret_epoch->sync = rg_boot_identity(rt->boot)->sync;
    ret_epoch->stamp = rg_boot_update(rt->boot, &ret_epoch->update);
    return 0;
}

REIGEN_API int reigen_elastic(int failed)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (!rt)
        return rg_api_uninitialised();
    if (failed < 0 || failed > 2)
        return rg_api_failf(EINVAL, "reigen_elastic: failed is %d, not 0, 1 or 2", failed);
    rg_boot_elastic(rt->boot, failed);
    return 0;
}

REIGEN_API int reigen_preemptible(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rg_boot_preemptible(rt->boot) : rg_api_uninitialised();
}

/* ---- about the runtime */

REIGEN_API const char *reigen_last_error(void)
{
    return last_error;
}

#define TEXT(x) #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

REIGEN_API const char *reigen_version(void)
{
    return VERSION(REIGEN_VERSION_MAJOR, REIGEN_VERSION_MINOR, REIGEN_VERSION_PATCH);
}

REIGEN_API int reigen_mpi(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->mpi : -ENOTCONN;
}

REIGEN_API const char *reigen_describe(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    const char *text;

    if (!rt)
        return "not initialised\n";
    pthread_mutex_lock(&rt->sets.lock);
    text = rt->describe;
    pthread_mutex_unlock(&rt->sets.lock);
    return text;
}

REIGEN_API int reigen_get_stats(struct reigen_stats *ret_stats)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (!rt)
        return rg_api_uninitialised();
    pthread_mutex_lock(&rt->sets.lock);
    *ret_stats = rt->sets.stats;
    rg_progress_add_stats(rt->progress, ret_stats);
    for (int i = 0; i < rt->sets.nalive; i++)
        if (rt->sets.alive[i]->progress)
            rg_progress_add_stats(rt->sets.alive[i]->progress, ret_stats);
    pthread_mutex_unlock(&rt->sets.lock);
    return 0;
}

REIGEN_API int reigen_planes(char **ret_text)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char *copy;

    if (!rt)
        return rg_api_uninitialised();
    rg_scopes_print(rg_exec_scopes(rt->progress->exec), &text);
    copy = rg_buf_status(&text) < 0 ? NULL : strdup(rg_buf_text(&text));
    if (!copy)
        return rg_api_failf(ENOMEM, "out of memory");
    *ret_text = copy;
    return 0;
}

REIGEN_API void reigen_free(void *memory)
{
    free(memory);
}
