/* SPDX-License-Identifier: Apache-2.0 */
/* A job's file: whatever stands in it, what is taken names a launcher. */
#include "fuzz.h"
#include "platform/drivers.h"
#include "launch/jobs/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static char text[8192];
    struct rg_registry_job job = { 0 };

    rg_drivers_init();
    if (rg_registry_parse(text_of(data, nbytes, text, sizeof(text)), &job) < 0) {
        must(!job.launcher && !job.hosts.count);
        return 0;
    }
    must(job.launcher != NULL);
    must(rg_registry_launcher(&job) >= -1);
    rg_registry_job_fini(&job);
    return 0;
}
