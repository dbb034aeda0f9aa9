/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "launch/host/driver.h"
#include "launch/drivers/local/local.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/ssh/ssh.h"
#include "spec/job/hostlist.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
    &rg_driver_ssh,
    &rg_driver_slurm,
    NULL,
};

const struct rg_driver_ops *rg_driver_find(const char *name)
{
    for (size_t i = 0; rg_drivers[i]; i++) {
        if (strcmp(rg_drivers[i]->name, name) == 0)
            return rg_drivers[i];
    }
    return NULL;
}

const struct rg_driver_ops *rg_driver_choose(const struct rg_job *job)
{
    /* Containers are the ssh driver's, also on this computer. */
    bool needs_ssh = job->container.image != NULL;

    if (job->on && strcmp(job->on, "local") != 0)
        return rg_driver_find(job->on);
    for (size_t i = 0; i < job->nhosts && !job->on; i++)
        needs_ssh |= job->hosts[i].user || !rg_host_is_local(job->hosts[i].name);
    return rg_driver_find(needs_ssh ? "ssh" : job->on ? job->on : "local");
}
