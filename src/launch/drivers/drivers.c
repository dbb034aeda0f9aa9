/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all drivers, and nothing else, so that another program can have another table:
 * reigen-agent's is drivers_agent.c, and a test's program has its own. */
#include <stddef.h>

#include "launch/drivers/kubernetes/kubernetes.h"
#include "launch/drivers/kubernetes/workers.h"
#include "launch/drivers/local/local.h"
#include "launch/drivers/openpai/openpai.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/ssh/ssh.h"
#include "launch/drivers/tasks/tasks_driver.h"
#include "launch/drivers/drivers.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
    &rg_driver_ssh,
    &rg_driver_slurm,
    &rg_driver_kubernetes,
    &rg_driver_pods,
    &rg_driver_openpai,
    &rg_driver_openpai_tasks,
    NULL,
};
