/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's file: what is taken is written again as it was, and can be looked at without harm. */
#include "fuzz.h"
#include "launch/plan/plan_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_planned planned = { .quiet = false };
    struct rg_buf again = RG_BUF_INIT, text = RG_BUF_INIT;
    struct rg_strv env = RG_STRV_INIT, none = RG_STRV_INIT;

    if (rg_planned_decode(data, nbytes, &planned, &err) < 0) {
        must(err.text[0] && !planned.job.hosts && !planned.plan.hosts);
        return 0;
    }
    must(rg_planned_encode(&planned, &again, &err) == 0);
    must(rg_buf_nbytes(&again) == nbytes && memcmp(rg_buf_bytes(&again), data, nbytes) == 0);
    rg_job_check(&planned.job, &err);
    if (planned.plan.nhosts) {
        rg_plan_print(&planned.plan, &planned.job, &text);
        rg_plan_rank_env(&planned.plan, &planned.job, planned.plan.nranks - 1, &none, &env);
        if (planned.job.nroles)
            rg_plan_task_env(&planned.plan, &planned.job, planned.plan.nranks - 1, &env);
    }
    rg_strv_fini(&env);
    rg_buf_fini(&text);
    rg_buf_fini(&again);
    rg_planned_fini(&planned);
    return 0;
}
