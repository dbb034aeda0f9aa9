/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline from anywhere: what is read of it holds together, and a step that is found in it can
 * be simulated. */
#include <errno.h>
#include <math.h>

#include "fuzz.h"
#include "simulate/profile.h"
#include "simulate/simulate.h"

static void check_traced(const struct rg_traced *traced)
{
    for (size_t i = 0; i < traced->nops; i++) {
        const struct rg_traced_op *op = &traced->ops[i];
        must(op->first + op->narrivals <= traced->narrivals);
        must(isfinite(op->all_s) && isfinite(op->end_s));
        must(strlen(op->kind) < RG_TRACED_WORD && strlen(op->type) < RG_TRACED_WORD);
    }
    for (size_t i = 1; i < traced->nwaits; i++)
        must(traced->waits[i] >= traced->waits[i - 1]);
}

static void check_profile(const struct rg_profile *profile)
{
    struct rg_workload workload;
    struct rg_simulated simulated;

    must(profile->nops > 0 && profile->nops <= RG_PROFILE_OPS_MAX && profile->ops[0].waits);
    must(profile->nsteps >= 1 && profile->nsteps <= 20);
    must(isfinite(profile->compute_s) && profile->compute_s >= 0);
    for (size_t i = 0; i < profile->nops; i++)
        must(profile->ops[i].compute_s >= 0);
    rg_workload_of_profile("fuzz", profile, &workload);
    const struct rg_simulation simulation = {
        .model = &rg_model_assumed, .workload = &workload, .nhosts = 4, .ranks_per_host = 2,
        .element_nbytes = 4, .fusion_nbytes = 1 << 20, .compute_s = profile->compute_s,
        .fan_out = 16,
    };
    must(rg_simulate(&simulation, &simulated) == 0);
    must(simulated.step_s >= profile->compute_s * (1 - 1e-9));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_traced traced;
    struct rg_profile profile;

    must(rg_traced_parse((const char *) data, nbytes, &traced) == 0);
    check_traced(&traced);
    int r = rg_profile_make(&traced, 0, 20, &profile);
    must(r == 0 || r == -EAGAIN);
    if (r == 0) {
        check_profile(&profile);
        rg_profile_fini(&profile);
    }
    rg_traced_fini(&traced);
    return 0;
}
