/* SPDX-License-Identifier: Apache-2.0 */
/* A command that is too long would fail on each host, late and in the kernel's words. */
#include "launch/plan/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "wire/codec.h"

#define IN_A_FILE "put them into a file, and let the program read that"

static int check_count(const char *what, size_t count, struct rg_error *err)
{
    if (count <= RG_CODEC_STRV_MAX)
        return 0;
    return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "%s: %zu are too many, at most %u can be "
                             "carried to the hosts; " IN_A_FILE,
                             what, count, RG_CODEC_STRV_MAX);
}

/* number: of a word; 0: name says which it is. */
static int check_length(const char *what, size_t number, const char *name, size_t nbytes,
                        struct rg_error *err)
{
    char which[80];

    if (nbytes <= RG_SIZES_WORD_MAX)
        return 0;
    if (number)
        snprintf(which, sizeof(which), "number %zu", number);
    else
        snprintf(which, sizeof(which), "%.*s", (int) strcspn(name, "="), name);
    return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "%s: %s has %zu bytes; a program can be "
                             "given at most %u in one piece", what, which, nbytes,
                             RG_SIZES_WORD_MAX);
}

static int check_words(const char *what, const struct rg_strv *words, size_t *total,
                       struct rg_error *err)
{
    int r = check_count(what, words->count, err);

    for (size_t i = 0; r == 0 && i < words->count; i++) {
        size_t nbytes = strlen(words->v[i]);

        r = check_length(what, i + 1, NULL, nbytes, err);
        *total += nbytes + 1;
    }
    return r;
}

/* NAME takes its value from the environment. */
static int check_variables(const char *what, const struct rg_strv *variables, size_t *total,
                           struct rg_error *err)
{
    int r = check_count(what, variables->count, err);

    for (size_t i = 0; r == 0 && i < variables->count; i++) {
        const char *name = variables->v[i];
        const char *value = strchr(name, '=') ? NULL : getenv(name);
        size_t nbytes = strlen(name) + (value ? 1 + strlen(value) : 0);

        r = check_length(what, 0, name, nbytes, err);
        *total += nbytes + 1;
    }
    return r;
}

int rg_sizes_check(const struct rg_job *job, struct rg_error *err)
{
    size_t total = 0;
    int r = check_words("the command's words", &job->command, &total, err);

    if (r == 0)
        r = check_words("the options of the engine", &job->engine_options, &total, err);
    if (r == 0)
        r = check_variables("--env", &job->env, &total, err);
    if (r == 0)
        r = check_variables("--share-env", &job->share_env, &total, err);
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
