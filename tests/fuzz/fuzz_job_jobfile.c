/* SPDX-License-Identifier: Apache-2.0 */
/* The job file. --hostfile within one reads files: those inputs are left out. */
#include "fuzz.h"
#include "platform/drivers.h"
#include "job/request/jobfile.h"
#include "job/request/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_request request;
    char buf[4096];
    const char *text = text_of(data, nbytes, buf, sizeof(buf));

    rg_drivers_init();
    if (strstr(text, "hostfile"))
        return 0;
    rg_request_init(&request);
    if (rg_jobfile_parse(&request, "job.yaml", text, strlen(text), &err) < 0)
        must(err.errnum > 0 && (err.errnum == ENOMEM || rg_str_starts(err.text, "job.yaml:")));
    else
        must(request.job.np >= 0 && request.job.np <= RG_JOB_RANKS_MAX);
    must(request.source == RG_FROM_LINE);
    rg_request_fini(&request);
    return 0;
}
