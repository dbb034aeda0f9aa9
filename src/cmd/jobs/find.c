/* SPDX-License-Identifier: Apache-2.0 */
/* Which job a command means. People give the beginning of an id, or Slurm's number; several jobs
 * may fit. */
#include "cmd/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "head/console/exit.h"

#define NAMED_MAX 4
#define LISTED_MAX 10 /* with their commands */

int rg_jobs_fail_memory(const char *command)
{
    return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, command);
}

static bool is_meant(const struct rg_registry_job *job, const char *id)
{
    for (size_t i = 0; i < job->restarts.count; i++) {
        if (rg_str_starts(job->restarts.v[i], id))
            return true;
    }
    return rg_str_starts(job->id, id) || (job->within && strcmp(job->within_id, id) == 0);
}

/* How many are meant; of those *ret_index is the last. One whose whole id it is wins. */
static int count_meant(const struct rg_registry *registry, const char *id, size_t *ret_index)
{
    int count = 0;

    for (size_t i = 0; i < registry->count; i++) {
        if (!is_meant(&registry->jobs[i], id))
            continue;
        *ret_index = i;
        count++;
        if (strcmp(registry->jobs[i].id, id) == 0)
            return 1;
    }
    return count;
}

static int fail_ambiguous(const char *command, const char *id, const struct rg_registry *registry,
                          int count)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    int named = 0;

    for (size_t i = 0; i < registry->count; i++) {
        if (is_meant(&registry->jobs[i], id) && named++ < NAMED_MAX)
            rg_buf_printf(&names, "%s%s", named > 1 ? ", " : "", registry->jobs[i].id);
    }
    return rg_fail_usage(command, "%s %s: %d jobs begin so: %s%s; give more of its id", command, id,
                         count, rg_buf_text(&names), count > NAMED_MAX ? ", ..." : "");
}

int rg_jobs_look(const char *command, const char *id, struct rg_registry_job *ret_job)
{
    for (int ended = 0; ended < 2 && *id; ended++) {
        rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
        size_t at = 0;
        int r = ended ? rg_registry_list_ended(&registry) : rg_registry_list(&registry);
        if (r < 0)
            return rg_jobs_fail_memory(command);
        int count = count_meant(&registry, id, &at);
        if (count > 1)
            return fail_ambiguous(command, id, &registry, count);
        if (count == 0)
            continue;
        *ret_job = registry.jobs[at];
        registry.jobs[at] = (struct rg_registry_job){ 0 };
        return 0;
    }
    *ret_job = (struct rg_registry_job){ 0 };
    return 0;
}

int rg_jobs_find(const char *command, const char *id, struct rg_registry_job *ret_job)
{
    int code = rg_jobs_look(command, id, ret_job);

    if (code || ret_job->id)
        return code;
    return rg_fail_usage(command, "%s %.80s: no such job; reigen jobs --all lists them, "
                         "--namespace NAME finds others' on Kubernetes, and --pai-server URL on "
                         "OpenPAI", command, id);
}

const struct rg_driver_ops *rg_jobs_find_submitted(const char *id, struct rg_submitted_job *ret_job)
{
    for (size_t i = 0; rg_drivers[i]; i++) {
        if (rg_drivers[i]->platform.queues &&
            rg_submitted_read(&rg_drivers[i]->platform, id, ret_job) == 0)
            return rg_drivers[i];
    }
    return NULL;
}

/* --- jobs that a platform runs when it can ---------------------------------------------------- */

static const char *const place_names[RG_JOBS_PLACES] = {
    [RG_JOBS_NAMESPACE] = "namespace",
    [RG_JOBS_CONTEXT] = "context",
    [RG_JOBS_PAI_SERVER] = "pai-server",
    [RG_JOBS_PAI_USER] = "pai-user",
};

/* What was given by this option of a platform's; NULL: nothing, or it has none. */
static const char *place_value(const struct rg_jobs_place *place, const char *name)
{
    for (int i = 0; name && i < RG_JOBS_PLACES; i++) {
        if (strcmp(place_names[i], name) == 0)
            return place->value[i];
    }
    return NULL;
}

bool rg_jobs_names_place(const struct rg_jobs_place *place)
{
    bool any = false;

    for (int i = 0; i < RG_JOBS_PLACES; i++)
        any |= place->value[i] != NULL;
    return any;
}

int rg_jobs_choose_finder(const char *command, const struct rg_jobs_place *place,
                          const struct rg_driver_ops **ret_driver)
{
    const struct rg_driver_ops *found = NULL;

    for (size_t i = 0; rg_drivers[i]; i++) {
        const char *const *names = rg_drivers[i]->platform.places;
        bool named = place_value(place, names[0]) || place_value(place, names[1]);
        if (!rg_drivers[i]->away || !named)
            continue;
        if (found)
            return rg_fail_usage(command, "%s --%s: a job is on %s or on %s, not on both; leave "
                                 "the options of one of them out", command, names[0],
                                 found->platform.title, rg_drivers[i]->platform.title);
        found = rg_drivers[i];
    }
    *ret_driver = found;
    return 0;
}

int rg_jobs_ask_place(const struct rg_driver_ops *driver, const struct rg_jobs_place *place,
                      struct rg_submitted_job *job, struct rg_strv *hosts, struct rg_error *err)
{
    const char *const *names = driver->platform.places;

    return driver->away->find(job, place_value(place, names[0]), place_value(place, names[1]),
                              hosts, err);
}

int rg_jobs_find_at(const char *command, const char *id, const struct rg_jobs_place *place,
                    struct rg_submitted_job *ret_job, const struct rg_driver_ops **ret_driver)
{
    rg_autostrv struct rg_strv hosts = RG_STRV_INIT;
    const struct rg_driver_ops *driver;
    struct rg_error err = RG_ERROR_INIT;
    int code = rg_jobs_choose_finder(command, place, &driver);

    if (code)
        return code;
    *ret_driver = driver ? driver : rg_jobs_find_submitted(id, ret_job);
    if (!driver)
        return 0;
    ret_job->platform = &driver->platform;
    snprintf(ret_job->id, sizeof(ret_job->id), "%s", id);
    return rg_jobs_ask_place(driver, place, ret_job, &hosts, &err) < 0 ? rg_fail(&err, command)
                                                                       : 0;
}

int rg_jobs_fail_submitted(const char *command, const struct rg_submitted_job *job,
                           struct rg_error *err)
{
    if (!err->exit_code)
        err->exit_code = RG_EXIT_UNAVAILABLE;
    rg_error_prepend(err, "job %s", job->id);
    return rg_fail(err, command);
}

void rg_jobs_say_remarks(const struct rg_strv *remarks)
{
    for (size_t i = 0; i < remarks->count; i++)
        rg_say("%s; passed over", remarks->v[i]);
}

int rg_jobs_list_submitted(struct rg_submitted_list *list)
{
    int r = 0;

    for (size_t i = 0; r == 0 && rg_drivers[i]; i++) {
        const struct rg_platform *platform = &rg_drivers[i]->platform;
        struct rg_error err = RG_ERROR_INIT;
        size_t first = list->count;
        r = platform->queues ? rg_submitted_list(platform, list) : 0;
        for (size_t k = first; k < list->count; k++) {
            if (rg_submitted_is_over(&list->jobs[k]))
                list->jobs[k].state = RG_SUBMITTED_ENDED;
        }
        if (r == 0 && list->count > first &&
            rg_drivers[i]->queue->status(&list->jobs[first], list->count - first, &err) < 0)
            rg_say("%s does not answer (%s): of jobs that were submitted it is unknown whether "
                   "they run", platform->title, err.text);
    }
    rg_jobs_say_remarks(&list->remarks);
    return r;
}

/* --- the only one ----------------------------------------------------------------------------- */

bool rg_jobs_is_submitted(const struct rg_registry_job *job, const struct rg_submitted_list *list)
{
    for (size_t i = 0; job->within && i < list->count; i++) {
        if (list->jobs[i].platform == job->within && strcmp(list->jobs[i].id, job->within_id) == 0)
            return true;
    }
    return false;
}

/* Jobs that may be meant, as lines for people. */
struct meant {
    struct rg_buf lines;
    char *id; /* of the last; owned */
    int count;
    int nelsewhere; /* more, which may run on other computers that share this home */
};

static void meant_fini(struct meant *meant)
{
    rg_buf_fini(&meant->lines);
    free(meant->id);
}

static int add_meant(struct meant *meant, const char *id, const char *command)
{
    free(meant->id);
    meant->id = strdup(id);
    if (meant->count++ < LISTED_MAX)
        rg_buf_printf(&meant->lines, "\n  %s  %.60s", id, command ? command : "");
    return meant->id ? rg_buf_status(&meant->lines) : -ENOMEM;
}

static int list_meant(struct meant *meant)
{
    rg_cleanup(rg_submitted_list_fini) struct rg_submitted_list submitted = { .count = 0 };
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    int r = rg_jobs_list_submitted(&submitted);

    r = r < 0 ? r : rg_registry_list(&registry);
    for (size_t i = 0; r >= 0 && i < registry.count; i++) {
        const struct rg_registry_job *job = &registry.jobs[i];
        enum rg_registry_state state = rg_registry_state(job);

        if (rg_jobs_is_submitted(job, &submitted))
            continue;
        meant->nelsewhere += state == RG_JOB_ELSEWHERE;
        r = state == RG_JOB_RUNS ? add_meant(meant, job->id, job->command) : 0;
    }
    for (size_t i = 0; r >= 0 && i < submitted.count; i++) {
        if (submitted.jobs[i].state != RG_SUBMITTED_ENDED)
            r = add_meant(meant, submitted.jobs[i].id, submitted.jobs[i].command);
    }
    return r;
}

int rg_jobs_find_only(const char *command, const struct rg_jobs_place *place, char **ret_id)
{
    rg_cleanup(meant_fini) struct meant meant = { .lines = RG_BUF_INIT };

    if (rg_jobs_names_place(place))
        return rg_fail_usage(command, "%s: which job is meant there? give its name", command);
    if (list_meant(&meant) < 0)
        return rg_jobs_fail_memory(command);
    if (meant.count == 0 && meant.nelsewhere)
        return rg_fail_usage(command, "%s: no job of yours runs on this computer, and %d may run "
                             "elsewhere; give the id of one, which reigen jobs lists", command,
                             meant.nelsewhere);
    if (meant.count == 0)
        return rg_fail_usage(command, "%s: no job of yours runs; give the id of one that has "
                             "ended, which reigen jobs --all lists", command);
    if (meant.count > 1)
        return rg_fail_usage(command, "%s: %d jobs of yours run or wait; give the id of one, or "
                             "its beginning:%s%s", command, meant.count, rg_buf_text(&meant.lines),
                             meant.count > LISTED_MAX ? "\n..." : "");
    rg_say("job %s", rg_buf_text(&meant.lines) + strlen("\n  "));
    *ret_id = rg_steal_ptr(&meant.id);
    return 0;
}
