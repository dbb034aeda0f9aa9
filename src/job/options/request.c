/* SPDX-License-Identifier: Apache-2.0 */
/* reigen run's command line: the walk along it, and the rules over several of its options. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "job/options/apply.h"
#include "job/options/jobfile.h"
#include "job/options/launchers.h"
#include "job/options/discovery.h"
#include "job/options/mpijob.h"
#include "job/options/options.h"
#include "job/options/programs.h"
#include "job/options/roles.h"
#include "job/hostlist.h"
#include "job/platform.h"

#define NAME_MAX_LEN 64

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
    free(request->write_plan);
    free(request->discovery);
    free(request->programs);
    rg_strv_fini(&request->first_env);
    free(request->first_cwd);
    *request = (struct rg_request){ 0 };
}

/* Where a walk along the command line stands. */
struct walk {
    int argc;
    char *const *argv;
    int next;                       /* the argument to look at */
    const struct rg_option *option; /* what was found there, or */
    const struct rg_foreign *foreign;
    const char *value, *second;
    char what[NAME_MAX_LEN + 4];    /* the option as the user wrote it */
    const char *unknown;            /* the argument that is no option */
    bool exact;                     /* what follows is one command, whatever is in it */
};

static int unknown_option(const char *arg, const char *name, struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    size_t count;
    const struct rg_option *all = rg_options(&count);

    for (size_t i = 0; i < count; i++)
        if (rg_option_names(all[i].name, all[i].aliases, &words) < 0)
            return rg_error_memory(err);
    const char *near = rg_str_nearest(name, (const char *const *) words.v);

    /* A beginning that only one option has is as good a guess. */
    for (size_t i = 0, hits = 0; !near && strlen(name) > 2 && i <= count; i++) {
        if (i < count && rg_str_starts(all[i].name, name))
            hits++;
        else if (i == count && hits == 1)
            for (size_t k = 0; k < count && !near; k++)
                near = rg_str_starts(all[k].name, name) ? all[k].name : NULL;
    }
    if (near)
        return rg_error_set(err, EINVAL, "unknown option %.80s; did you mean %s%s?", arg,
                            strlen(near) > 2 ? "--" : "-", near);
    return rg_error_set(err, EINVAL,
                        "unknown option %.80s; put -- in front of a command that begins "
                        "with a dash",
                        arg);
}

static int too_few(const struct walk *walk, int nvalues, struct rg_error *err)
{
    const struct rg_option *o = walk->option;

    return rg_error_set(err, EINVAL, "%s needs %s: %s %s%s", walk->what,
                        nvalues == 2 ? "two values" : "a value", walk->what,
                        o ? o->arg : nvalues == 2 ? "NAME" : "VALUE", nvalues == 2 ? " VALUE" : "");
}

static int take_value(struct walk *walk, const char *inline_value, struct rg_error *err)
{
    const struct rg_option *o = walk->option;
    int nvalues = !o ? walk->foreign->nvalues : o->arg != NULL;

    if (!nvalues && inline_value)
        return rg_error_set(err, EINVAL, "%s=%.80s: %s takes no value", walk->what, inline_value,
                            walk->what);
    walk->value = o ? "true" : inline_value;
    if (nvalues <= 0)
        return 0;
    const char *first = inline_value ? inline_value
                                     : walk->next < walk->argc ? walk->argv[walk->next] : "";

    nvalues = nvalues == 2 && strchr(first, '=') ? 1 : nvalues;
    int wanted = nvalues - (inline_value ? 1 : 0);

    if (walk->next + wanted > walk->argc)
        return too_few(walk, nvalues, err);
    walk->value = inline_value ? inline_value : walk->argv[walk->next];
    walk->second = nvalues == 2 ? walk->argv[walk->next + wanted - 1] : NULL;
    walk->next += wanted;
    return 0;
}

/* Take what was found at walk->next. 1 or -EINVAL. */
static int take_flag(struct walk *walk, const struct rg_flag *flag, struct rg_error *err)
{
    bool pair = rg_flag_is_env_pair(walk->argc, walk->argv, walk->next);
    const char *arg = walk->argv[walk->next++];
    struct rg_flag genv;

    if (pair && rg_flag_find("-genv", &genv))
        flag = &genv;
    walk->option = flag->option;
    walk->foreign = flag->foreign;
    snprintf(walk->what, sizeof walk->what, "%.*s", (int) flag->name_nbytes, arg);
    /* What is refused is refused whatever follows it. */
    if (flag->foreign && !flag->foreign->option && !flag->foreign->apply)
        return rg_foreign_apply(NULL, flag->foreign, walk->what, NULL, NULL, err);
    int rc = take_value(walk, flag->attached, err);

    return rc < 0 ? rc : 1;
}

static int apply(struct rg_request *request, const struct walk *walk, struct rg_error *err)
{
    bool pair = walk->foreign && strcmp(walk->what, "-env") == 0; /* taken for -genv */
    const char *name = walk->option ? walk->option->name : pair ? "env" : walk->foreign->option;

    if (request->several && rg_programs_has_own(name))
        return rg_programs_keep(request, name, walk->what, walk->value, walk->second, err);
    if (walk->option)
        return rg_option_apply(walk->option, request, walk->what, walk->value, err);
    return rg_foreign_apply(request, walk->foreign, walk->what, walk->value, walk->second, err);
}

/* 1 and walk's option and value; 0 where the command begins; -EINVAL. */
static int next_option(struct walk *walk, struct rg_error *err)
{
    if (walk->next >= walk->argc)
        return 0;
    const char *arg = walk->argv[walk->next];

    if (strcmp(arg, "--") == 0) {
        walk->next++;
        walk->exact = true;
        return 0;
    }
    if (arg[0] != '-' || !arg[1])
        return 0;
    struct rg_flag flag;

    if (rg_flag_find(arg, &flag))
        return take_flag(walk, &flag, err);
    const char *text = arg + (arg[1] == '-' ? 2 : 1);
    size_t n = strcspn(text, "=");
    char name[NAME_MAX_LEN] = "";

    if (n < sizeof name)
        memcpy(name, text, n);
    walk->unknown = arg;
    return unknown_option(arg, name, err);
}

int rg_request_take_flag(struct rg_request *request, int argc, char *const *argv, int *next,
                         struct rg_error *err)
{
    struct walk walk = { .argc = argc, .argv = argv, .next = *next };
    struct rg_flag flag;

    if (!rg_flag_find(argv[*next], &flag))
        return 0;
    int rc = take_flag(&walk, &flag, err);

    *next = walk.next;
    if (rc > 0 && request)
        rc = apply(request, &walk, err);
    return rc < 0 ? rc : 1;
}

/* Apply --config alone (then everything else is only looked at), or all but --config. */
static int walk_options(struct rg_request *request, bool config_only, struct walk *walk,
                        struct rg_error *err)
{
    const struct rg_option *config = rg_option_find("config");
    int rc;

    while ((rc = next_option(walk, err)) > 0) {
        const struct rg_option *o = walk->option;
        bool early = o && (o == config || strcmp(o->name, "help") == 0 ||
                           strcmp(o->name, "version") == 0);
        if (early != config_only)
            continue;
        rc = apply(request, walk, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* A variable to hand on that the caller does not have: mpirun warns and goes on, and so do we; a
 * secret that is missing would fail the job later and less clearly. */
int rg_request_check_caller_env(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;

    for (size_t i = job->env.count; i-- > 0;) {
        const char *name = job->env.v[i];
        if (strchr(name, '=') || getenv(name))
            continue;
        if (rg_strv_addf(&request->notes, "--env %s: not set here, so nothing is handed on", name) <
            0)
            return rg_error_memory(err);
        rg_strv_remove(&job->env, i);
    }
    for (size_t i = 0; i < job->share_env.count; i++) {
        if (!getenv(job->share_env.v[i]))
            return rg_error_set(err, EINVAL, "--share-env %s: not set here; export it first",
                                job->share_env.v[i]);
    }
    return 0;
}

/* --- rules over several options --------------------------------------------------------------- */

static int refuse(const char *given, const char *prefix, const struct rg_platform *whose,
                  struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%s%s is for %s; say --on %s, too", prefix, given,
                        whose->title, whose->name);
}

static bool has_option(const struct rg_platform *platform, const char *name)
{
    const struct rg_option *o = platform->options;

    while (o && o->name && strcmp(o->name, name) != 0)
        o++;
    return o && o->name;
}

/* One that is given as an option of another program's is told as that. */
static int check_options(const struct rg_job *job, const struct rg_platform *other,
                         struct rg_error *err)
{
    for (const struct rg_option *o = other->options; o && o->name; o++) {
        const char *value = rg_env_get(&job->settings, o->name);
        if (value && !has_option(rg_platform_of(job), o->name))
            return *value == '-' ? refuse(value, "", other, err)
                                 : refuse(o->name, "--", other, err);
    }
    return 0;
}

static int refuse_submit(struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    for (const struct rg_platform *const *p = rg_platforms(); *p; p++) {
        if ((*p)->queues)
            rg_buf_printf(&names, "%s--on %s", rg_buf_nbytes(&names) ? " or " : "", (*p)->name);
    }
    return rg_error_set(err, EINVAL, "--submit is for %s", rg_buf_text(&names));
}

int rg_request_settle_platform(const struct rg_request *request, struct rg_error *err)
{
    const struct rg_platform *own = rg_platform_of(&request->job);
    int r = 0;

    for (const struct rg_platform *const *p = rg_platforms(); r == 0 && *p; p++) {
        if (*p != own)
            r = check_options(&request->job, *p, err);
    }
    return r == 0 && request->job.submit && !own->queues ? refuse_submit(err) : r;
}

/* Hosts that the user has named once, for --on ssh: as for -H, or a host file's path. */
static int take_usual_hosts(struct rg_job *job, struct rg_error *err)
{
    static const char name[] = "REIGEN_HOSTS";
    const char *hosts = getenv(name);

    if (job->nhosts || !rg_platform_of(job)->any_host || !hosts || !*hosts)
        return 0;
    if (!strchr(hosts, '/'))
        return rg_hostlist_parse(job, name, hosts, err);
    int rc = rg_hostfile_read(job, hosts, err);
    return rc < 0 ? rg_error_prepend(err, "%s", name) : 0;
}

int rg_request_settle_programs(struct rg_request *request, int nwords, bool exact,
                               struct rg_error *err)
{
    if (!request->programs)
        return exact || !nwords ? rg_programs_give_back(request, err)
                                : rg_programs_settle(request, err);
    if (nwords || request->job.nroles)
        return rg_error_set(err, EINVAL, "%s %s: it says what runs, and so does %s; leave one of "
                            "them out", request->programs_what, request->programs,
                            nwords ? "the command line" : request->config);
    return rg_programs_read(request, request->programs_what, request->programs, err);
}

static int finish(struct rg_request *request, struct walk *walk, struct rg_error *err)
{
    struct rg_job *job = &request->job;

    int nwords = walk->argc - walk->next;

    if (request->stand_in && job->nroles && nwords == 1)
        nwords = 0;
    int rc = job->nroles ? rg_roles_settle(request, nwords, err) : 0;

    if (rc < 0)
        return rc;
    if (nwords > 0) {
        rg_strv_fini(&job->command);
        if (rg_strv_add_all(&job->command, walk->argv + walk->next) < 0)
            return rg_error_memory(err);
    }
    rc = rg_request_settle_programs(request, nwords, walk->exact, err);
    if (rc < 0)
        return rc;
    /* Who names no hosts but a number of ranks means that number; unless each shall have a core. */
    bool others = rg_platform_of(job)->finds_hosts;
    rc = rg_discovery_settle(request, rg_mpijob_slots(request), err);

    /* The user's own, before those of a pod. */
    rc = rc < 0 ? rc : take_usual_hosts(job, err);
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
    return rc < 0 ? rc : rg_job_check(job, err);
}

static int parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err)
{
    struct walk early = { .argc = argc, .argv = argv, .next = 1 };
    struct walk walk = early;
    int rc = walk_options(request, true, &early, err);

    request->unknown = early.unknown;
    if (request->help || request->version)
        return 0;
    request->several = rc >= 0 && !early.exact && rg_programs_are(argc - early.next,
                                                                  argv + early.next);
    if (rc >= 0 && request->config)
        rc = rg_jobfile_read(request, request->config, err);
    if (rc >= 0)
        rc = walk_options(request, false, &walk, err);
    return rc < 0 ? rc : finish(request, &walk, err);
}

int rg_request_parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err)
{
    int rc = parse(request, argc, argv, err);

    if (rc < 0 && err && !err->exit_code && rc != -ENOMEM)
        err->exit_code = RG_EXIT_USAGE;
    return rc;
}
