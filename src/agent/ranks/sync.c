/* SPDX-License-Identifier: Apache-2.0 */
/* Files of hundreds of megabytes are compared, copied and received while the launcher goes on
 * hearing from us. */
#include "agent/ranks/agent.h"

#include <string.h>
#include <unistd.h>

#include "agent/store/worktree.h"

#define WINDOW (1u << 20) /* bytes that may be under way */

static void tell(struct rg_agent *agent, uint64_t nbytes, bool with_missing, const char *error)
{
    struct rg_msg_sync_wanted msg = { .nbytes = nbytes, .error = (char *) error };

    if (with_missing)
        msg.missing.data = (uint8_t *) rg_worktree_missing(agent->packages.sync.tree,
                                                           &msg.missing.nbytes);
    rg_agent_send(agent, RG_MSG_SYNC_WANTED, &msg);
}

static void give_up(struct rg_agent *agent, const char *error)
{
    rg_sync_fini(&agent->packages.sync);
    tell(agent, 0, false, error);
}

static void want_more(struct rg_agent *agent, bool with_missing)
{
    struct rg_sync *sync = &agent->packages.sync;
    uint64_t lacks = rg_worktree_lacks(sync->tree);

    if (sync->have + WINDOW / 2 < sync->wanted)
        return;
    sync->wanted = sync->have + (lacks < WINDOW ? lacks : WINDOW);
    tell(agent, sync->wanted, with_missing, "");
}

static void settle(struct rg_agent *agent)
{
    struct rg_msg_setup *setup = &agent->setup;
    const char *path = rg_worktree_path(agent->packages.sync.tree);
    char *cwd = rg_strf("%s%s%s", path, *setup->sync_cwd ? "/" : "", setup->sync_cwd);

    if (!cwd || (*setup->sync_cwd && !rg_filelist_is_path(setup->sync_cwd))) {
        free(cwd);
        give_up(agent, "no memory for the path");
        return;
    }
    free(setup->cwd);
    setup->cwd = cwd;
    agent->packages.sync.over = true;
    tell(agent, 0, false, "");
}

static void look(void *arg)
{
    struct rg_agent *agent = arg;
    struct rg_sync *sync = &agent->packages.sync;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_worktree_step(sync->tree, &err) < 0) {
        give_up(agent, err.text);
        return;
    }
    switch (rg_worktree_state(sync->tree)) {
    case RG_WORKTREE_READY: settle(agent); return;
    case RG_WORKTREE_FILLING:
        sync->have = sync->wanted = 0;
        want_more(agent, true);
        return;
    default: rg_timer_start(&sync->timer, agent->loop, 0, 0, look, agent);
    }
}

void rg_sync_setup(struct rg_agent *agent)
{
    const struct rg_msg_setup *setup = &agent->setup;

    if (!*setup->sync)
        return;
    if (rg_worktree_create(setup->sync, setup->sync_nbytes,
                           *agent->jobdir.path ? agent->jobdir.path : NULL,
                           &agent->packages.sync.tree) < 0)
        give_up(agent, "no memory for its list");
    else
        want_more(agent, false);
}

int rg_sync_data(struct rg_agent *agent, const struct rg_span *data)
{
    struct rg_sync *sync = &agent->packages.sync;
    struct rg_error err = RG_ERROR_INIT;

    /* It was under way when the job ended, or when it could not be used any more. */
    if (sync->over && *agent->setup.sync)
        return 0;
    if (!sync->tree || !data->nbytes || data->nbytes > sync->wanted - sync->have)
        return -EBADMSG;
    sync->have += data->nbytes;
    if (rg_worktree_feed(sync->tree, data->data, data->nbytes, &err) < 0) {
        give_up(agent, err.text);
        return 0;
    }
    switch (rg_worktree_state(sync->tree)) {
    case RG_WORKTREE_READY: settle(agent); return 0;
    case RG_WORKTREE_LOOKING:
        rg_timer_start(&sync->timer, agent->loop, 0, 0, look, agent);
        return 0;
    default: want_more(agent, false); return 0;
    }
}

bool rg_sync_is_due(const struct rg_agent *agent)
{
    return *agent->setup.sync && !agent->packages.sync.over;
}

const char *rg_sync_lacks(const struct rg_agent *agent)
{
    const char *cwd = agent->setup.cwd;

    for (size_t i = 0; i < agent->setup.files.count; i++) {
        const char *file = agent->setup.files.v[i];
        bool below = *cwd && *file != '/';
        rg_autofree char *path = rg_strf("%s%s%s", below ? cwd : "", below ? "/" : "", file);
        if (path && access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
            return file;
    }
    return "";
}

void rg_sync_fini(struct rg_sync *sync)
{
    rg_timer_stop(&sync->timer);
    rg_worktree_destroy(rg_steal_ptr(&sync->tree));
    sync->over = true;
}
