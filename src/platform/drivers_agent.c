/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers that reigen-agent has in place of drivers.c: its head runs where a platform has put
 * it, so it needs no ssh, and no driver that cannot be what a submitted job runs on. `reigen-agent
 * pod` asks those that have pods in this order; the last one says what is missing. */
#include <stddef.h>

#include "platform/kubernetes/door.h"
#include "platform/local/door.h"
#include "platform/slurm/door.h"
#include "platform/openpai/inside/tasks_driver.h"
#include "platform/drivers.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
    &rg_driver_slurm,
    &rg_driver_openpai_head,
    &rg_driver_kubernetes,
    NULL,
};
