/* SPDX-License-Identifier: Apache-2.0 */
/* reigen run's command line: read, applied and judged. */
#include "job/request/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "job/config/config.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/options/effect.h"
#include "job/platform.h"
#include "job/request/blame.h"
#include "job/request/comma.h"
#include "job/request/discovery.h"
#include "job/request/jobfile.h"
#include "job/request/launchers.h"
#include "job/request/mpijob.h"
#include "job/request/programs.h"
#include "job/request/roles.h"
#include "job/request/settle.h"
#include "job/request/walk.h"

void rg_request_init(struct rg_request *request)
{
    *request = (struct rg_request){ 0 };
    rg_job_init(&request->job);
}

void rg_request_fini(struct rg_request *request)
{
    if (!request)
        return;
    rg_job_fini(&request->job);
    rg_strv_fini(&request->notes);
    free(request->share.image);
    free(request->share.only_there);
    free(request->config);
    free(request->profile);
    free(request->denied);
    rg_strv_fini(&request->given);
    rg_strv_fini(&request->usual);
    rg_strv_fini(&request->usual_places);
    rg_strv_fini(&request->usual_hosts);
    free(request->write_plan);
    free(request->discovery);
    free(request->programs);
    rg_strv_fini(&request->first_env);
    free(request->first_cwd);
    *request = (struct rg_request){ 0 };
}

static int apply(struct rg_request *request, const struct rg_walk *walk, struct rg_error *err)
{
    bool pair = walk->foreign && strcmp(walk->what, "-env") == 0; /* taken for -genv */
    const char *name = walk->option ? walk->option->name : pair ? "env" : walk->foreign->option;

    if (request->several && rg_programs_has_own(name))
        return rg_programs_keep(request, name, walk->what, walk->value, walk->second, err);
    return rg_walk_apply(walk, request, err);
}

int rg_request_take_flag(struct rg_request *request, int argc, char *const *argv, int *next,
                         struct rg_error *err)
{
    struct rg_walk walk = { .argc = argc, .argv = argv, .next = *next };
    struct rg_flag flag;

    if (!rg_flag_find(argv[*next], &flag))
        return 0;
    if (flag.option && strcmp(flag.option->name, "profile") == 0)
        return rg_error_set(err, EINVAL, "--profile: only reigen run, plan, doctor and bench read "
                            "the configuration");
    int rc = rg_walk_take(&walk, &flag, err);

    *next = walk.next;
    if (rc == 0 && request)
        rc = apply(request, &walk, err);
    return rc < 0 ? rc : 1;
}

/* Apply those that name files (then everything else is only looked at), or all others. */
static int walk_options(struct rg_request *request, bool files_only, struct rg_walk *walk,
                        struct rg_error *err)
{
    int rc;

    while ((rc = rg_walk_next(walk, err)) > 0) {
        const struct rg_option *o = walk->option;
        if ((o && rg_str_has_word("config profile help version", o->name)) != files_only)
            continue;
        rc = apply(request, walk, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* Hosts that the user has named once: for --on ssh by the variable, as for -H, or a host file's
 * path; else by the configuration. */
static int take_usual_hosts(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    static const char name[] = "REIGEN_HOSTS";
    const char *hosts = getenv(name);

    if (job->nhosts || request->discovery)
        return 0;
    if (!rg_platform_of(job)->any_host || !hosts || !*hosts)
        return rg_config_take_hosts(request, err);
    rg_request_drop_hosts(request);
    if (!strchr(hosts, '/'))
        return rg_hostlist_parse(job, name, hosts, err);
    int rc = rg_hostfile_read(job, hosts, err);
    return rc < 0 ? rg_error_prepend(err, "%s", name) : 0;
}

static int finish(struct rg_request *request, struct rg_walk *walk, struct rg_error *err)
{
    struct rg_job *job = &request->job;

    int nwords = walk->argc - walk->next;

    if (request->stand_in && job->nroles && nwords == 1)
        nwords = 0;
    int rc = job->nroles ? rg_roles_settle(request, nwords, err) : 0;

    rc = rc < 0 ? rc : rg_comma_check(job, walk, err);
    if (rc < 0)
        return rc;
    if (nwords > 0) {
        rg_strv_fini(&job->command);
        if (rg_strv_add_all(&job->command, walk->argv + walk->next) < 0)
            return rg_error_memory(err);
    }
    rg_request_settle_usual(request);
    rc = rg_request_settle_programs(request, nwords, walk->exact, err);
    rc = rc < 0 ? rc : rg_request_settle_debug(request, err);
    if (rc < 0)
        return rc;
    /* Who names no hosts but a number of ranks means that number; unless each shall have a core. */
    bool others = rg_platform_of(job)->finds_hosts;

    /* The user's own, before those of a pod. */
    rc = take_usual_hosts(request, err);
    rc = rc < 0 ? rc : rg_discovery_settle(request, rg_mpijob_slots(request), false, err);
    rc = rc < 0 ? rc : rg_mpijob_settle(request, err);
    rc = rc < 0 ? rc : rg_foreign_settle(request, err);
    if (rc < 0)
        return rc;
    if (job->np && !job->nhosts && !others && !job->ranks_per_host && job->bind != RG_BIND_CORE)
        job->oversubscribe = true;
    rc = rg_request_check_caller_env(request, err);
    if (rc == 0)
        rc = rg_request_settle_container(request, err);
    if (rc == 0)
        rc = rg_request_settle_platform(request, err);
    if (rc == 0)
        rc = rg_request_settle_shared(request, err);
    if (rc == 0)
        rc = rg_effect_settle(request, err);
    return rc < 0 ? rc : rg_job_check(job, err);
}

static int parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err)
{
    struct rg_walk early = { .argc = argc, .argv = argv, .next = 1 };
    struct rg_walk walk = early;
    int rc = walk_options(request, true, &early, err);

    request->unknown = early.unknown;
    if (request->help || request->version)
        return 0;
    request->several = rc >= 0 && !early.exact && rg_programs_are(argc - early.next,
                                                                  argv + early.next);
    if (rc >= 0)
        rc = request->config ? rg_jobfile_read(request, request->config, err)
                             : rg_request_configure(request, err);
    if (rc >= 0)
        rc = walk_options(request, false, &walk, err);
    if (rc < 0)
        return rc;
    if (request->denied && request->job.verbose &&
        rg_request_note(request, "%s: not for you to read, and left out", request->denied) < 0)
        return rg_error_memory(err);
    rc = finish(request, &walk, err);
    return rc < 0 ? rg_request_blame(request, rc, err) : rc;
}

int rg_request_parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err)
{
    int rc = parse(request, argc, argv, err);

    if (rc < 0 && err && !err->exit_code && rc != -ENOMEM)
        err->exit_code = RG_EXIT_USAGE;
    return rc;
}
