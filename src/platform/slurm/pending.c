/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job waits in Slurm's queue, or could not be started there, and what helps. */
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "platform/slurm/internal.h"

struct cause {
    const char *pattern; /* in squeue's reason */
    const char *why;     /* what it means; "": it says so itself */
    const char *ask;     /* what to ask for, since time does not help; NULL: it may */
};

static const struct cause causes[] = {
    { "PartitionConfig", " (the partition has or allows less: see sinfo -s)",
      "fewer ranks or --nodes, or less of what they have" },
    { "PartitionNodeLimit", " (the partition allows fewer nodes, or some are down: see sinfo)",
      "fewer --nodes" },
    { "PartitionTimeLimit", " (the partition allows less --time: see sinfo -s)", "less --time" },
    { "PartitionDown", " (the partition is down: take another --partition)", NULL },
    { "PartitionInactive", " (the partition is down: take another --partition)", NULL },
    { "BadConstraints", " (no nodes are like that: see sinfo -N -l)", "what the nodes have" },
    { "AccountNotAllowed", "", "another --account or --partition" },
    { "QOSNotAllowed", "", "another quality of service (--slurm-option=--qos=NAME)" },
    { "QOSTimeLimit", "", "less --time" },
    { "InvalidAccount", "", "another --account" },
    { "InvalidQOS", "", "another quality of service (--slurm-option=--qos=NAME)" },
    { "DependencyNeverSatisfied", "", "another dependency" },
    { "ReqNodeNotAvail", " (nodes are down or reserved: see sinfo -R)", NULL },
    { "DOWN, DRAINED or reserved", " (see sinfo -R)", NULL },
    { "JobHeld", " (somebody holds it: scontrol release)", NULL },
};

/* Limits on what one job may have, by the end of their names: QOSMaxNodePerUserLimit and the like.
 * Those on what all jobs of somebody have together (AssocGrpNodeLimit) pass with time. */
static const struct slurm_known limits[] = {
    { "MaxNode", "fewer --nodes" },
    { "MaxWall", "less --time" },
    { "MaxGRES", "less --gres" },
    { "MaxCpu", "fewer ranks or cores" },
    { "MaxMem", "less memory" },
    { NULL, "less" },
};

static void put(struct rg_buf *text, const char *why, const char *undo, const char *ask)
{
    rg_buf_printf(text, "%s", why);
    if (ask)
        rg_buf_printf(text, "it will not start as things are: %s, and ask for %s", undo, ask);
}

static void put_limit(struct rg_buf *text, const char *reason, const char *undo)
{
    bool is_limit = rg_str_starts(reason, "QOSMax") || rg_str_starts(reason, "AssocMax");

    /* What counts all running jobs of a user, too, may pass. */
    if (!is_limit || strstr(reason, "MaxJobs") || strstr(reason, "MaxSubmit"))
        return;
    if (strstr(reason, "PerUser") || strstr(reason, "PerAccount")) {
        put(text, " (jobs of yours that run count, too: see squeue --me; if there are none, ",
            undo, "less)");
        return;
    }
    put(text, "; ", undo, slurm_find_remedy(limits, reason));
}

void slurm_put_pending(struct rg_buf *text, const char *reason, const char *undo)
{
    for (size_t i = 0; i < rg_array_len(causes); i++) {
        if (!strstr(reason, causes[i].pattern))
            continue;
        rg_buf_printf(text, "%s", causes[i].why);
        put(text, causes[i].ask ? "; " : "", undo, causes[i].ask);
        return;
    }
    put_limit(text, reason, undo);
}
