/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/dryrun.h"

#include <string.h>

void rg_shell_quote(struct rg_buf *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,@%+";

    if (*word && word[strspn(word, plain)] == '\0') {
        rg_buf_printf(text, "%s", word);
        return;
    }
    rg_buf_put(text, "'", 1);
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            rg_buf_put(text, "'\\''", 4);
        else
            rg_buf_put(text, p, 1);
    }
    rg_buf_put(text, "'", 1);
}

static void put_assignment(struct rg_buf *text, const char *entry)
{
    size_t n = strcspn(entry, "=");

    rg_buf_printf(text, " %.*s=", (int) n, entry);
    rg_shell_quote(text, entry + n + 1);
}

/* The caller's own environment is what the ranks have otherwise. */
static int base_env(struct rg_strv *base)
{
    extern char **environ;

    return rg_strv_add_all(base, environ);
}

static int print_rank(const struct rg_plan *plan, const struct rg_job *job, int rank,
                      const struct rg_strv *base, struct rg_buf *text)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    if (rg_plan_rank_env(plan, job, rank, base, &env) < 0)
        return -ENOMEM;
    rg_buf_printf(text, "# rank %d on %s\n", rank, plan->hosts[plan->ranks[rank].host].name);
    rg_buf_printf(text, "env");
    for (size_t i = 0; i < env.count; i++)
        put_assignment(text, env.v[i]);
    for (size_t i = 0; i < job->env.count; i++) {
        if (strchr(job->env.v[i], '='))
            put_assignment(text, job->env.v[i]);
    }
    for (size_t i = 0; i < job->share_env.count; i++)
        rg_buf_printf(text, " %s=\"$%s\"", job->share_env.v[i], job->share_env.v[i]);
    rg_buf_printf(text, " \\\n   ");
    for (size_t i = 0; i < job->command.count; i++) {
        rg_buf_printf(text, " ");
        rg_shell_quote(text, job->command.v[i]);
    }
    rg_buf_printf(text, " &\n");
    return 0;
}

static void print_map(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autobuf struct rg_buf map = RG_BUF_INIT;

    rg_plan_print(plan, job, &map);
    const char *line = rg_buf_text(&map);

    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        rg_buf_printf(text, "# %.*s\n", (int) n, line);
    }
}

int rg_dryrun_print(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autostrv struct rg_strv base = RG_STRV_INIT;
    int rc = base_env(&base);

    rg_buf_printf(text, "#!/bin/sh\n");
    print_map(plan, job, text);
    if (job->cwd) {
        rg_buf_printf(text, "cd ");
        rg_shell_quote(text, job->cwd);
        rg_buf_printf(text, " || exit\n");
    }
    for (int r = 0; rc == 0 && r < plan->nranks; r++)
        rc = print_rank(plan, job, r, &base, text);
    rg_buf_printf(text, "wait\n");
    return rc < 0 ? rc : rg_buf_status(text);
}
