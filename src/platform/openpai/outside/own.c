/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job file of OpenPAI's (--config) is submitted as it is. What the server would refuse, or what
 * would fail there, is repaired as `reigen pai convert` does, and so is the other version's way to
 * write it. Its tasks are the hosts, so that they can be followed as those of any job.
 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/outside/internal.h"
#include "platform/openpai/jobfile/pai.h"
#include "platform/openpai/jobfile/prologue.h"

#define WHERE "the job file" /* in errors: its reader has named it before */

static int read_own(const struct rg_job *wish, struct rg_pai *job, struct rg_pai_findings *found,
                    struct rg_error *err)
{
    int r = rg_pai_read(WHERE, wish->file_text, strlen(wish->file_text), job, found, err);

    if (r == 0 && (found->nfatal || !job->nroles || !job->name))
        r = rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, WHERE " has errors; reigen pai check "
                              "shows them");
    return r;
}

/* --- before it is planned --------------------------------------------------------------------- */

/* By its name the job is found again, and its note is a file of that name. */
static int take_name(struct rg_job *wish, const char *name, struct rg_error *err)
{
    if (pai_option(wish, "name"))
        return 0;
    if (!rg_submitted_is_id(name))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 WHERE " calls the job %.80s: Reigen finds jobs again by names of "
                                 "at most %d letters, digits, - and _: give another one with "
                                 "--name", name, RG_SUBMITTED_ID_MAX - 1);
    return rg_env_set(&wish->settings, "name", name) < 0 ? rg_error_memory(err) : 0;
}

static int add_host(struct rg_job *wish, const struct rg_pai_role *role, int64_t i,
                    struct rg_error *err)
{
    char name[PAI_HOST_MAX];

    snprintf(name, sizeof(name), "%s-%lld", role->name, (long long) i);
    return rg_job_add_host(wish, name, 1, err);
}

int pai_own_discover(struct rg_job *wish, struct rg_error *err)
{
    rg_cleanup(rg_pai_fini) struct rg_pai job = RG_PAI_INIT;
    rg_cleanup(rg_pai_findings_fini) struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    int r = read_own(wish, &job, &found, err);
    const struct rg_pai_role *head = job.roles;

    r = r < 0 ? r : take_name(wish, job.name, err);
    for (size_t i = 0; i < job.nroles; i++) {
        if (strcmp(job.roles[i].name, PAI_MASTER) == 0)
            head = &job.roles[i];
    }
    r = r < 0 ? r : add_host(wish, head, 0, err);
    for (size_t i = 0; r == 0 && i < job.nroles; i++) {
        const struct rg_pai_role *role = &job.roles[i];
        for (int64_t k = role == head; r == 0 && k < role->tasks; k++)
            r = add_host(wish, role, k, err);
    }
    return r;
}

/* --- the file --------------------------------------------------------------------------------- */

static int set_text(char **text, const char *value, bool *changed)
{
    if (!value || (*text && strcmp(*text, value) == 0))
        return 0;
    free(*text);
    *text = strdup(value);
    *changed = true;
    return *text ? 0 : -ENOMEM;
}

/* What the command line says in its place. */
static int take_options(const struct rg_job *wish, struct rg_pai *job, bool *changed,
                        struct rg_error *err)
{
    int64_t retries = job->retries < 0 ? 0
                      : job->retries > RG_JOB_RESTARTS_MAX ? RG_JOB_RESTARTS_MAX : job->retries;

    if (retries != wish->max_restarts) {
        job->retries = wish->max_restarts;
        *changed = true;
    }
    return set_text(&job->name, pai_option(wish, "name"), changed) < 0 ||
                   set_text(&job->cluster, pai_option(wish, "virtual-cluster"), changed) < 0
               ? rg_error_memory(err) : 0;
}

static int mask(json_t *object, const char *key, bool *changed)
{
    *changed = true;
    return json_object_set_new(object, key, json_string(RG_PAI_MASK));
}

/* For eyes. A template of a secret is none. */
static int mask_secrets(struct rg_pai *job, bool *changed)
{
    json_t *secrets = json_object_get(job->rest, "secrets"), *item, *value;
    const char *key;
    size_t i;
    int r = 0;

    json_object_foreach(secrets, key, value)
        r |= mask(secrets, key, changed);
    json_array_foreach(json_object_get(job->rest, "prerequisites"), i, item) {
        json_t *auth = json_object_get(item, "auth");
        const char *password = json_string_value(json_object_get(auth, "password"));
        if (password && !strstr(password, "<%"))
            r |= mask(auth, "password", changed);
    }
    return r;
}

static int repair(const struct rg_job *wish, const struct rg_pai *job, struct rg_pai *to,
                  struct rg_strv *words, struct rg_error *err)
{
    const struct rg_pai_agent_source source = { .path = pai_option(wish, "agent-path"),
                                                .url = pai_option(wish, "agent-url") };
    enum rg_pai_wait wait = source.path || source.url ? RG_PAI_WAIT_AGENT : RG_PAI_WAIT_SHELL;
    int r = rg_pai_convert(job, to->version, to, words, err);

    if (r == 0 && rg_pai_mend_waits(job, to, wait, &source, words) < 0)
        r = rg_error_memory(err);
    return r;
}

int pai_own_put(const struct rg_job *wish, int version, bool secrets, struct rg_buf *text,
                struct rg_strv *words, struct rg_error *err)
{
    rg_cleanup(rg_pai_fini) struct rg_pai job = RG_PAI_INIT, to = RG_PAI_INIT;
    rg_cleanup(rg_pai_findings_fini) struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    size_t nwords = words->count;
    int r = read_own(wish, &job, &found, err);
    bool changed = job.version != version || found.nerrors, masked = false;

    to.version = version;
    r = r < 0 ? r : take_options(wish, &job, &changed, err);
    r = r < 0 ? r : repair(wish, &job, &to, words, err);
    if (r == 0 && !secrets && mask_secrets(&to, &masked) < 0)
        r = rg_error_memory(err);
    if (r < 0)
        return r;
    if (masked && version == 2)
        rg_buf_printf(text, "# In the place of secrets stands " RG_PAI_MASK ".\n");
    if (!changed && !masked && words->count == nwords)
        rg_buf_put(text, wish->file_text, strlen(wish->file_text));
    else
        rg_pai_write(&to, text);
    return rg_buf_status(text) < 0 ? rg_error_memory(err) : 0;
}
