/* SPDX-License-Identifier: Apache-2.0 */
/* horovodrun's command line is read as Python's argparse reads it. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "job/horovodrun/horovodrun.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/request/launchers.h"
#include "job/request/discovery.h"
#include "job/request/mpijob.h"
#include "job/request/programs.h"
#include "job/request/request.h"
#include "job/request/settle.h"
#include "job/request/walk.h"

#define ATTACHED "Hpi" /* short flags that take their value attached */

void rg_horovodrun_init(struct rg_horovodrun *run)
{
    *run = (struct rg_horovodrun){
        .elastic = { .reset_limit = -1 },
    };
    rg_request_init(&run->request);
    run->request.job.tag = RG_TAG_HOROVOD;
}

void rg_horovodrun_fini(struct rg_horovodrun *run)
{
    if (!run)
        return;
    rg_request_fini(&run->request);
    free(run->interfaces);
    *run = (struct rg_horovodrun){ 0 };
}

/* A walk along the command line; at.option and at.foreign are not used. */
struct walk {
    struct rg_walk at;
    struct rg_request *request;         /* for flags that are not horovodrun's; NULL: only look */
    const struct rg_hvd_option *option; /* what was found there; NULL: no flag of horovodrun's */
    char *pair;                         /* owned: two values as one */
};

/* The one flag whose long name begins so. 0 without one, -EINVAL when there are several. */
static int find_shortened(const char *arg, const char *name,
                          const struct rg_hvd_option **ret_option,
                          struct rg_error *err)
{
    size_t count;
    const struct rg_hvd_option *all = rg_hvd_options(&count), *found = NULL;
    rg_autofree char *first = NULL;

    for (size_t i = 0; *name && i < count; i++) {
        rg_autostrv struct rg_strv names = RG_STRV_INIT;
        size_t k = 0;
        if (rg_option_names(all[i].name, all[i].aliases, &names) < 0)
            return rg_error_memory(err);
        while (k < names.count && !rg_str_starts(names.v[k], name))
            k++;
        if (k == names.count)
            continue;
        if (found)
            return rg_error_set(err, EINVAL, "%.80s: may be --%s or --%s; write it in full", arg,
                                first ? first : "", names.v[k]);
        found = &all[i];
        first = strdup(names.v[k]);
    }
    *ret_option = found;
    return 0;
}

static int unknown_flag(const char *arg, struct rg_error *err)
{
    rg_autofree char *name = strdup(arg + 1 + (arg[1] == '-'));
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    size_t count, nours;
    const struct rg_hvd_option *all = rg_hvd_options(&count);
    const struct rg_option *ours = rg_options(&nours);
    int rc = name ? 0 : -ENOMEM;

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = rg_option_names(all[i].name, all[i].aliases, &words);
    /* Of equal distance Horovod's own comes first. */
    for (size_t i = 0; rc == 0 && i < nours; i++)
        rc = rg_strv_add(&words, ours[i].name);
    if (rc < 0)
        return rg_error_memory(err);
    name[strcspn(name, "=")] = '\0';
    const char *near = rg_str_nearest(name, (const char *const *) words.v);

    if (near)
        return rg_error_set(err, EINVAL, "unknown flag %.80s; did you mean %s%s?", arg,
                            strlen(near) > 2 ? "--" : "-", near);
    return rg_error_set(err, EINVAL, "unknown flag %.80s", arg);
}

static int take_value(struct walk *walk, const char *attached, struct rg_error *err)
{
    const struct rg_hvd_option *o = walk->option;
    int wanted = !o->arg ? 0 : o->kind == RG_HVD_PAIR ? 2 : 1;
    int rc = rg_walk_values(&walk->at, wanted, attached, o->arg, err);

    if (rc < 0)
        return rc;
    if (!wanted)
        walk->at.value = o->kind == RG_HVD_OFF ? "0" : "1";
    if (wanted == 2) {
        free(walk->pair);
        walk->at.value = walk->pair = rg_strf("%s %s", walk->at.value, walk->at.second);
    }
    return walk->at.value ? 0 : rg_error_memory(err);
}

/* The flag in arg: by its name, its beginning, or as -p22. 0 or -EINVAL. */
static int find_flag(struct walk *walk, const char *arg, const char **ret_attached,
                     struct rg_error *err)
{
    const char *text = arg + (arg[1] == '-' ? 2 : 1);
    size_t n = strcspn(text, "=");
    char name[RG_WALK_NAME_MAX] = "";
    int rc = 0;

    if (n < sizeof name)
        memcpy(name, text, n);
    *ret_attached = text[n] ? text + n + 1 : NULL;
    walk->option = rg_hvd_option_find(name);
    if (!walk->option && arg[1] == '-')
        rc = find_shortened(arg, name, &walk->option, err);
    /* -ppn2 is no port. */
    bool port = arg[1] == 'p' && arg[2] && !strchr("0123456789", arg[2]);
    if (rc == 0 && !walk->option && arg[1] != '-' && strchr(ATTACHED, arg[1]) && !port) {
        walk->option = rg_hvd_option_find((char[]){ arg[1], '\0' });
        *ret_attached = arg + 2;
        n = 1;
    }
    snprintf(walk->at.what, sizeof walk->at.what, "%.*s", (int) (text + n - arg), arg);
    return rc;
}

/* 1 and walk's flag and value; 0 where the command begins; -EINVAL. */
static int next_flag(struct walk *walk, struct rg_error *err)
{
    const char *attached, *arg = rg_walk_look(&walk->at);

    if (!arg)
        return 0;
    walk->at.next++;
    int rc = find_flag(walk, arg, &attached, err);

    if (rc == 0 && !walk->option) {
        walk->at.next--;
        rc = rg_request_take_flag(walk->request, walk->at.argc, walk->at.argv, &walk->at.next,
                                  err);
        return rc ? rc : unknown_flag(arg, err);
    }
    rc = rc < 0 ? rc : take_value(walk, attached, err);
    return rc < 0 ? rc : 1;
}

static bool is_early(const struct rg_hvd_option *option)
{
    return rg_str_has_word("config-file help version check-build", option->name);
}

/* Apply what counts before anything else, or all the rest. */
static int walk_flags(struct rg_horovodrun *run, bool early, struct walk *walk,
                      struct rg_error *err)
{
    int rc;

    while ((rc = next_flag(walk, err)) > 0) {
        if (!walk->option || is_early(walk->option) != early)
            continue;
        rc = rg_hvd_apply(run, walk->option, walk->at.what, walk->at.value, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* Variables that horovodrun reads where the flag is not given. */
static int read_environment(struct rg_horovodrun *run, struct rg_error *err)
{
    static const struct { const char *variable, *flag; } known[] = {
        { "HOROVOD_START_TIMEOUT", "start-timeout" },
        { "HOROVOD_ELASTIC_TIMEOUT", "elastic-timeout" },
    };
    const bool given[] = { run->has_start_timeout, run->elastic.timeout_s > 0 };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < rg_array_len(known); i++) {
        const char *value = getenv(known[i].variable);
        if (value && *value && !given[i])
            rc = rg_hvd_apply(run, rg_hvd_option_find(known[i].flag), known[i].variable, value,
                              err);
    }
    return rc;
}

static void take_elastic(struct rg_horovodrun *run)
{
    const struct rg_hvd_elastic *asked = &run->elastic;
    struct rg_elastic *e = &run->request.job.elastic;

    e->min_np = asked->min_np;
    e->max_np = asked->max_np;
    if (asked->reset_limit >= 0)
        e->reset_limit = asked->reset_limit;
    if (asked->timeout_s)
        e->timeout_ms = 1000 * (uint64_t) asked->timeout_s;
    e->cooldown_min_ms = 1000 * (uint64_t) asked->cooldown_min_s;
    e->cooldown_max_ms = 1000 * (uint64_t) asked->cooldown_max_s;
}

/* --- other hosts ------------------------------------------------------------------------------ */

/* Variables that say where or who one is; those of the other host are right there. */
static const char *const own[] = {
    "HOME",   "USER",     "LOGNAME", "SHELL", "PWD",     "OLDPWD",   "SHLVL",
    "_",      "HOSTNAME", "TERM",    "TTY",   "DISPLAY", "WINDOWID", "MAIL",
    "TMPDIR", "LS_COLORS", "K_MPI_JOB_ROLE",
};
static const char *const own_prefixes[] = {
    "SSH_", "XDG_", "DBUS_", "BASH_FUNC_", "REIGEN_", "TMUX", "SUDO_",
};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < rg_array_len(own); i++) {
        if (strcmp(name, own[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < rg_array_len(own_prefixes); i++) {
        if (rg_str_starts(name, own_prefixes[i]))
            return true;
    }
    return false;
}

static bool is_named(const struct rg_job *job, const char *name)
{
    return rg_strv_has(&job->env, name) || rg_env_get(&job->env, name);
}

static int hand_on(struct rg_job *job, const char *entry)
{
    size_t n = strcspn(entry, "=");
    rg_autofree char *name = strndup(entry, n);

    if (!name)
        return -ENOMEM;
    if (!n || is_own(name) || is_named(job, name))
        return 0;
    return rg_strv_add(&job->env, name);
}

/* Where a host is not this computer, ranks there get the caller's environment, as with Horovod, but
 * for what belongs to a host or a login; and ssh takes the key of a host that it sees for the first
 * time. */
static int finish_remote(struct rg_horovodrun *run, struct rg_error *err)
{
    struct rg_job *job = &run->request.job;
    bool remote = false;
    int rc = 0;

    for (size_t i = 0; i < job->nhosts; i++)
        remote |= job->hosts[i].user || !rg_host_is_local(job->hosts[i].name);
    if (!remote)
        return 0;
    for (char **entry = environ; rc == 0 && *entry; entry++)
        rc = hand_on(job, *entry);
    if (rc == 0 && job->hosts_come != RG_HOSTS_RETURN) /* of these its driver knows more */
        rc = rg_strv_add(&job->ssh_options, "StrictHostKeyChecking=accept-new");
    return rc < 0 ? rg_error_memory(err) : 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int finish(struct rg_horovodrun *run, struct walk *walk, struct rg_error *err)
{
    struct rg_job *job = &run->request.job;

    int nwords = walk->at.argc - walk->at.next;

    if (nwords <= 0 && !run->request.programs)
        return rg_error_set(err, EINVAL, "no command: say what to run, for example horovodrun "
                            "-np 4 python train.py");
    if (nwords > 0 && rg_strv_add_all(&job->command, walk->at.argv + walk->at.next) < 0)
        return rg_error_memory(err);
    int rc = rg_request_settle_programs(&run->request, nwords, walk->at.exact, err);

    rc = rc < 0 ? rc : rg_request_settle_debug(&run->request, err);
    rc = rc < 0 ? rc : read_environment(run, err);

    take_elastic(run);
    rc = rc < 0 ? rc
                : rg_discovery_settle(&run->request, rg_mpijob_slots(&run->request), true, err);
    rc = rc < 0 ? rc : rg_mpijob_settle(&run->request, err);
    rc = rc < 0 ? rc : rg_foreign_settle(&run->request, err);
    rc = rc < 0 ? rc : rg_request_check_caller_env(&run->request, err);
    rc = rc < 0 ? rc : finish_remote(run, err);
    if (rc == 0 && !job->np && !job->nhosts && !job->ranks_per_host)
        return rg_error_set(err, EINVAL, "-np is missing: say how many ranks to run, for example "
                            "horovodrun -np 4 python train.py");
    /* Who names no hosts but a number of ranks means that number. */
    if (job->np && !job->nhosts && !job->ranks_per_host)
        job->oversubscribe = true;
    rc = rc < 0 ? rc : rg_request_settle_platform(&run->request, err);
    return rc < 0 ? rc : rg_job_check(job, err);
}

static int parse(struct rg_horovodrun *run, struct walk *early, struct walk *walk,
                 struct rg_error *err)
{
    struct rg_request *request = &run->request;
    int rc = walk_flags(run, true, early, err);

    if (request->help || request->version || run->check_build)
        return 0;
    request->several = rc >= 0 && !early->at.exact &&
                       rg_programs_are(early->at.argc - early->at.next,
                                       early->at.argv + early->at.next);
    if (rc >= 0 && request->config)
        rc = rg_hvd_file_read(run, request->config, err);
    if (rc >= 0)
        rc = walk_flags(run, false, walk, err);
    return rc < 0 ? rc : finish(run, walk, err);
}

int rg_horovodrun_parse(struct rg_horovodrun *run, int argc, char *const *argv,
                        struct rg_error *err)
{
    struct walk early = { .at = { .argc = argc, .argv = argv, .next = 1 } };
    struct walk walk = early;

    walk.request = &run->request;
    int rc = parse(run, &early, &walk, err);

    free(early.pair);
    free(walk.pair);
    if (rc < 0 && err && !err->exit_code && rc != -ENOMEM)
        err->exit_code = RG_EXIT_USAGE;
    return rc;
}
