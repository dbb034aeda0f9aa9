/* SPDX-License-Identifier: Apache-2.0 */
/* Which driver of the table a job has. */
#include <stddef.h>
#include <string.h>

#include "platform/drivers.h"
#include "job/hostlist.h"

void rg_drivers_init(void)
{
    static const struct rg_platform *platforms[RG_DRIVERS_MAX + 1];

    for (size_t i = 0; rg_drivers[i] && i < RG_DRIVERS_MAX; i++)
        platforms[i] = &rg_drivers[i]->platform;
    rg_platforms_use(platforms);
}

const struct rg_driver_ops *rg_driver_find(const char *name)
{
    for (size_t i = 0; rg_drivers[i]; i++) {
        if (strcmp(rg_drivers[i]->platform.name, name) == 0)
            return rg_drivers[i];
    }
    return NULL;
}

const struct rg_driver_ops *rg_driver_choose(const struct rg_job *job)
{
    bool here = !job->container.image && !job->elastic.discovery; /* which may name any host */

    /* Who has no containers leaves them to the one that has; which hosts may be named stays. */
    if (job->on && (here || !rg_platform_of(job)->here))
        return rg_driver_find(job->on);
    for (size_t i = 0; i < job->nhosts; i++)
        here &= !job->hosts[i].user && rg_host_is_local(job->hosts[i].name);
    for (size_t i = 0; rg_drivers[i]; i++) {
        const struct rg_driver_ops *driver = rg_drivers[i];
        bool finds = !job->nhosts && driver->platform.finds_hosts;
        if (driver->calls && (!here || finds) && driver->calls())
            return driver;
    }
    for (size_t i = 0; rg_drivers[i]; i++) {
        if (here ? rg_drivers[i]->platform.here : rg_drivers[i]->platform.any_host)
            return rg_drivers[i];
    }
    return NULL;
}
