/* SPDX-License-Identifier: Apache-2.0 */
/* A program beside the head of a job in Slurm's queue: a step of the same job, on its first node,
 * where the job's script runs. */
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "launch/host/agentfile.h"
#include "platform/slurm/door.h"
#include "platform/slurm/internal.h"

int slurm_beside(const struct rg_submitted_job *job, char *const *argv, struct rg_strv *words,
                 struct rg_error *err)
{
    /* It takes nothing from the job, neither cores nor memory nor GPUs, and waits for nothing. */
    static const char *const fixed[] = { "--overlap", "--nodes=1", "--ntasks=1", "--relative=0",
                                         "--mem=0", "--gres=none", "--mpi=none",
                                         "--cpu-bind=none", "--quiet", "--job-name=reigen-ask" };
    char path[PATH_MAX];
    int r = rg_agent_file_find(path, err);
    rg_autofree char *program = r == 0 ? realpath(path, NULL) : NULL;

    if (!program)
        return r < 0 ? r : rg_error_set(err, errno, "%s: %s", path, strerror(errno));
    rg_strv_add(words, "srun");
    rg_strv_addf(words, "--jobid=%s", job->id);
    if (job->cluster)
        rg_strv_addf(words, "--clusters=%s", job->cluster);
    for (size_t i = 0; i < rg_array_len(fixed); i++)
        rg_strv_add(words, fixed[i]);
    rg_strv_add(words, program);
    rg_strv_add_all(words, argv);
    return rg_strv_status(words) < 0 ? rg_error_memory(err) : 0;
}
