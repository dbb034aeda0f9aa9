/* SPDX-License-Identifier: Apache-2.0 */
/* Only here it is known which GPUs this host has, and which of them Slurm or a container leaves to
 * the job. A share is a piece of the list's text: the agent has no room for more. */
#include "agent/ranks/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "agent/engine/engine.h"
#include "agent/ranks/agent.h"
#include "base/exitcode.h"
#include "base/process/spawn.h"

#define SMI_MS 10000  /* it may have to wake the driver */
#define SMI_MAX 32768 /* 16 GPUs with 7 parts each take 10 KB */

/* Behind the first of a list's names and its comma; NULL where there is none. Names are numbers,
 * GPU-... or MIG-...; as for CUDA, a list ends before a word such as -1 or NoDevFiles. */
static const char *next(const char *list)
{
    if (!*list || !strchr("0123456789GM", *list))
        return NULL;
    list += strcspn(list, ",");
    return list + (*list == ',');
}

/* Make a list of what nvidia-smi says, in its place. The parts of a GPU follow it; then they can be
 * used, and it cannot. */
static void make_list(char *text)
{
    char *end = text, *last = NULL;

    for (const char *p = text; (p = strstr(p, "UUID:"));) {
        p += 5 + (p[5] == ' ');
        size_t n = strcspn(p, ")\n");
        if (!last || *p != 'M' || *last != 'G')
            last = end;
        memmove(last, p, n);
        last[n] = ',';
        end = last + n + 1;
        p += n;
    }
    *end = '\0';
}

int rg_gpus_divide(struct rg_agent *agent, const struct rg_strv *env, struct rg_error *err)
{
    static const char *const smi[] = { "nvidia-smi", "-L", NULL };
    const char *wanted = rg_env_get(&agent->setup.env, "REIGEN_GPUS_PER_RANK");
    const char *list = rg_env_get(env, RG_GPUS_VISIBLE), *how = RG_GPUS_VISIBLE;
    size_t nranks = agent->ntasks, count = 0;
    char text[SMI_MAX];

    if (!wanted || !nranks || rg_engine_used(&agent->setup) || agent->tasks[nranks - 1]->gpus)
        return 0;
    if (!list && !(list = getenv(RG_GPUS_VISIBLE))) {
        rg_capture(smi, NULL, false, SMI_MS, text, sizeof(text));
        make_list(text);
        list = text;
        how = "nvidia-smi -L";
    }
    for (const char *p = list; (p = next(p));)
        count++;
    size_t share = count / nranks, each = strtoul(wanted, NULL, 10);

    each = each ? each : share;
    if (!each || each > share)
        return rg_error_set_exit(err, ENODEV, RG_EXIT_UNAVAILABLE,
                                 "--gpus-per-rank %s: too few for the ranks on %s (%zu): %s shows "
                                 "%zu; run fewer ranks there, or give each fewer GPUs", wanted,
                                 agent->setup.host, nranks, how, count);
    for (size_t i = 0; i < nranks; i++) {
        const char *first = list;
        for (size_t k = 0; k < each; k++)
            list = next(list);
        free(agent->tasks[i]->gpus);
        agent->tasks[i]->gpus = strndup(first, (size_t) (list - first) - (list[-1] == ','));
        if (!agent->tasks[i]->gpus)
            return rg_error_memory(err);
    }
    return 0;
}
