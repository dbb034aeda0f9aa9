/* SPDX-License-Identifier: Apache-2.0 */
/* A command that is too long would fail on each host, late and in the kernel's words. */
#include "launch/plan/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "wire/codec.h"

#define IN_A_FILE "put them into a file, and let the program read that"

/* name: NULL, or whose it is, to the first "="; then number tells. */
static int check_length(const char *what, size_t number, const char *name, size_t nbytes,
                        struct rg_error *err)
{
    char which[80];

    if (nbytes <= RG_SIZES_WORD_MAX)
        return 0;
    if (name)
        snprintf(which, sizeof(which), "%.*s", (int) strcspn(name, "="), name);
    else
        snprintf(which, sizeof(which), "number %zu", number);
    return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "%s: %s has %zu bytes; a program can be "
                             "given at most %u in one piece", what, which, nbytes,
                             RG_SIZES_WORD_MAX);
}

/* Words, or variables: of these NAME alone takes its value from the environment. */
static int check_list(const char *what, const struct rg_strv *list, bool variables, size_t *total,
                      struct rg_error *err)
{
    int r = 0;

    if (list->count > RG_CODEC_STRV_MAX)
        return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "%s: %zu are too many, at most %u can "
                                 "be carried to the hosts; " IN_A_FILE,
                                 what, list->count, RG_CODEC_STRV_MAX);
    for (size_t i = 0; r == 0 && i < list->count; i++) {
        const char *text = list->v[i];
        const char *value = variables && !strchr(text, '=') ? getenv(text) : NULL;
        size_t nbytes = strlen(text) + (value ? 1 + strlen(value) : 0);

        r = check_length(what, i + 1, variables ? text : NULL, nbytes, err);
        *total += nbytes + 1;
    }
    return r;
}

int rg_sizes_check(const struct rg_job *job, struct rg_error *err)
{
    size_t total = 0;
    int r = check_list("the command's words", &job->command, false, &total, err);

    if (r == 0)
        r = check_list("the options of the engine", &job->engine_options, false, &total, err);
    if (r == 0)
        r = check_list("--env", &job->env, true, &total, err);
    if (r == 0)
        r = check_list("--share-env", &job->share_env, true, &total, err);
    if (r < 0 || total <= RG_SIZES_ALL_MAX)
        return r;
    return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "the command and the variables have %zu "
                             "bytes, and a program can be given at most %u; " IN_A_FILE, total,
                             RG_SIZES_ALL_MAX);
}

/* "NAME:RANKS" of each host, as the agent lists them for a script. */
static size_t hostlist_nbytes(const struct rg_plan *plan)
{
    size_t nbytes = strlen("hostlist=");

    for (int i = 0; i < plan->nhosts; i++)
        nbytes += (size_t) snprintf(NULL, 0, "%s:%d,", plan->hosts[i].name,
                                    plan->hosts[i].nplanned);
    return nbytes;
}

int rg_sizes_check_plan(const struct rg_plan *plan, const struct rg_job *job,
                         struct rg_error *err)
{
    static const char what[] = "what each rank is to be told of the job";
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    int r = plan->nranks ? rg_plan_rank_env(plan, job, 0, NULL, &env) : 0;

    if (r < 0)
        return rg_error_set(err, -r, "out of memory");
    for (size_t i = 0; r == 0 && i < env.count; i++)
        r = check_length(what, 0, env.v[i], strlen(env.v[i]), err);
    if (r == 0 && job->engine == RG_ENGINE_SCRIPT)
        r = check_length(what, 0, "hostlist", hostlist_nbytes(plan), err);
    return r;
}
