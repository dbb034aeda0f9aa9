/* SPDX-License-Identifier: Apache-2.0 */
/* What a --host-discovery-script prints. */
#include "fuzz.h"
#include "job/discovered.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char buf[4096];
    char *said = (char *) text_of(data, nbytes, buf, sizeof(buf));
    struct rg_strv notes = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_job job;

    rg_job_init(&job);
    must(rg_discovered_parse("script", said, 3, &job, &notes, &err) == 0 || err.text[0]);
    must(job.nhosts <= RG_JOB_HOSTS_MAX);
    for (size_t i = 0; i < job.nhosts; i++)
        must(job.hosts[i].name[0] && job.hosts[i].nslots >= 1 &&
             job.hosts[i].nslots <= RG_JOB_SLOTS_MAX);
    rg_job_fini(&job);
    rg_strv_fini(&notes);
    return 0;
}
