/* SPDX-License-Identifier: Apache-2.0 */
/* Which cpus of this host each rank gets. Only here it is known which of them are the job's. */
#include <string.h>

#include "agent/ranks/agent.h"
#include "agent/engine/engine.h"
#include "base/cpus.h"
#include "base/exitcode.h"

static int bind_to(struct rg_task *task, const struct rg_cpus *cpus, bool by_socket, int index)
{
    int count = 0;
    rg_autofree int *picked = rg_cpus_pick(cpus, by_socket, index, &count);

    if (!picked)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        if (picked[i] < CPU_SETSIZE)
            CPU_SET(picked[i], &task->cpus);
    }
    task->ncpus = CPU_COUNT(&task->cpus);
    free(task->cpus_text);
    task->cpus_text = rg_cpus_text(picked, count);
    return task->cpus_text ? 0 : -ENOMEM;
}

int rg_agent_bind(struct rg_agent *agent, struct rg_error *err)
{
    const struct rg_msg_setup *setup = &agent->setup;
    bool by_socket = setup->bind == RG_MSG_BIND_SOCKET;
    int count = (int) agent->ntasks;
    struct rg_cpus cpus;

    if (setup->bind == RG_MSG_BIND_NONE || rg_engine_used(setup) || !count)
        return 0;
    int r = rg_cpus_read(RG_CPUS_ROOT, &cpus);
    if (r < 0)
        return rg_error_set(err, -r, "which cpus there are for ranks: %s", strerror(-r));
    int ncores = cpus.ncores;
    bool crowded = !by_socket && count > ncores;
    for (int i = 0; r == 0 && !crowded && i < count; i++)
        r = bind_to(agent->tasks[i], &cpus, by_socket, i);
    rg_cpus_fini(&cpus);
    if (r < 0)
        return rg_error_set(err, -r, "no memory for the ranks' cpus");
    if (!crowded)
        return 0;
    if (!setup->oversubscribe)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--bind-to core: %d ranks on %s, which has %d core%s for them; "
                                 "run fewer ranks there, or say --bind-to none",
                                 count, setup->host, ncores, ncores == 1 ? "" : "s");
    /* They would fight for the first few. */
    rg_agent_note(agent, "%s: %d ranks on %d core%s are not bound", setup->host, count, ncores,
                  ncores == 1 ? "" : "s");
    return 0;
}
