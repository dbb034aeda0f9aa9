/* SPDX-License-Identifier: Apache-2.0 */
/* The platforms that the layers above know, for those that may not know these. */
#include "job/platform.h"

#include <string.h>

#include "job/job.h"

static const struct rg_platform *const none[] = { NULL };
static const struct rg_platform *const *all = none;

void rg_platforms_use(const struct rg_platform *const *platforms)
{
    all = platforms;
}

const struct rg_platform *const *rg_platforms(void)
{
    return all;
}

const struct rg_platform *rg_platform_find(const char *name)
{
    for (const struct rg_platform *const *p = all; *p; p++) {
        if (strcmp((*p)->name, name) == 0)
            return *p;
    }
    return NULL;
}

const struct rg_platform *rg_platform_of(const struct rg_job *job)
{
    static const struct rg_platform unsaid = { .name = "", .title = "", .about = "" };
    const struct rg_platform *found = job->on ? rg_platform_find(job->on) : NULL;

    return found ? found : &unsaid;
}
