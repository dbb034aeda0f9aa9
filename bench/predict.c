/* SPDX-License-Identifier: Apache-2.0 */
/* What the model predicts for allreduces that come again, for predicted.py.
 *
 * Reads lines of nine numbers: alpha_ns, beta_ps, message_ns and copy_ps of the network, gamma_ps,
 * crowding_pct, hosts, ranks per host, bytes. Answers each with nanoseconds. */
#include <inttypes.h>
#include <stdio.h>

#include "model/model.h"

int main(void)
{
    struct rg_model model = rg_model_assumed;
    struct rg_model_task task = { .kind = RG_MODEL_ALLREDUCE };

    while (scanf("%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%d%d%zu",
                 &model.net.alpha_ns, &model.net.beta_ps, &model.net.message_ns,
                 &model.net.copy_ps, &model.gamma_ps, &model.crowding_pct, &task.nhosts,
                 &task.ranks_per_host, &task.nbytes) == 9) {
        enum rg_model_direct way = rg_model_direct(&model, &task);

        printf("%" PRIu64 "\n", rg_model_direct_ns(&model, &task, way));
    }
    return 0;
}
