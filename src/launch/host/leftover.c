/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/host/leftover.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/proctree.h"

#define MARK "REIGEN_JOB_ID"

void rg_leftover_init(struct rg_leftover *leftover, const char *job_id)
{
    leftover->had_children = rg_process_has_children();
    snprintf(leftover->job_entry, sizeof(leftover->job_entry), MARK "=%s", job_id);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

int rg_leftover_mark(const struct rg_leftover *leftover, struct rg_strv *env)
{
    return rg_env_set(env, MARK, leftover->job_entry + sizeof(MARK));
}

static bool is_in(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == pid)
            return true;
    }
    return false;
}

/* The list has parents before children, so one pass marks whole trees. */
static bool is_kept(const struct rg_process *list, const bool *kept, size_t before, pid_t parent)
{
    for (size_t i = before; i-- > 0;) {
        if (list[i].pid == parent)
            return kept[i];
    }
    /* Below a process that is just going: it will be ours, or its reaper's, at the next look. */
    return parent != getpid();
}

/* Take what is spared, and what descends from it, out of the list. Returns its new length. */
static size_t spare(const pid_t *spared, size_t nspared, struct rg_process *list, size_t count)
{
    rg_autofree bool *kept = calloc(count + 1, sizeof(*kept));
    size_t nleft = 0;

    if (!kept)
        return 0;
    for (size_t i = 0; i < count; i++)
        kept[i] = is_in(spared, nspared, list[i].pid) || is_kept(list, kept, i, list[i].parent);
    for (size_t i = 0; i < count; i++) {
        if (!kept[i])
            list[nleft++] = list[i];
    }
    return nleft;
}

size_t rg_leftover_kill(const struct rg_leftover *leftover, const pid_t *spared, size_t nspared)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0, nkilled = 0;

    if (!rg_process_has_children() || rg_proctree_descendants(getpid(), &list, &count) < 0)
        return 0;
    count = spare(spared, nspared, list, count);
    for (size_t i = 0; i < count; i++) {
        if (leftover->had_children && !rg_process_has_env(list[i].pid, leftover->job_entry))
            continue;
        kill(list[i].pid, SIGKILL);
        nkilled++;
    }
    return nkilled;
}
