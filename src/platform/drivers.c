/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all drivers, and nothing else, so that another program can have another table:
 * reigen-agent's is drivers_agent.c, and a test's program has its own. */
#include <stddef.h>

#include "platform/kubernetes/door.h"
#include "platform/kubernetes/inside/workers.h"
#include "platform/local/door.h"
#include "platform/openpai/door.h"
#include "platform/slurm/door.h"
#include "platform/ssh/door.h"
#include "platform/openpai/inside/tasks_driver.h"
#include "platform/drivers.h"

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
