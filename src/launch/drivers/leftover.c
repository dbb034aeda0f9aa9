/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/drivers/leftover.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/proctree.h"

void rg_leftover_init(struct rg_leftover *leftover, const char *job_id)
{
    leftover->had_children = rg_process_has_children();
    snprintf(leftover->job_entry, sizeof(leftover->job_entry), "REIGEN_JOB_ID=%s", job_id);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static bool in_list(const struct rg_process *list, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].pid == pid)
            return true;
    }
    return false;
}

/* Take what is spared out of the list. Returns its new length. */
static size_t spare(const pid_t *spared, size_t nspared, struct rg_process *list, size_t count)
{
    for (size_t i = 0; i < nspared; i++) {
        rg_autofree struct rg_process *theirs = NULL;
        size_t ntheirs = 0, nleft = 0;
        if (!spared[i] || rg_proctree_descendants(spared[i], &theirs, &ntheirs) < 0)
            continue;
        for (size_t k = 0; k < count; k++) {
            if (list[k].pid != spared[i] && !in_list(theirs, ntheirs, list[k].pid))
                list[nleft++] = list[k];
        }
        count = nleft;
    }
    return count;
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
