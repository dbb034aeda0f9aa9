/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all drivers, and nothing else: a test's program that has another table has this one
 * in its place. The head in reigen-agent runs where a platform has put it, and needs no ssh. */
#include <stddef.h>

#include "launch/drivers/local/local.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/ssh/ssh.h"
#include "launch/drivers/drivers.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
#ifndef RG_AGENT
    &rg_driver_ssh,
#endif
    &rg_driver_slurm,
    NULL,
};
