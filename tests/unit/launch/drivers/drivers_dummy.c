/* SPDX-License-Identifier: Apache-2.0 */
/* The table of src/launch/drivers/drivers.c, and one line. */
#include <stddef.h>

#include "driver_dummy.h"
#include "launch/drivers/drivers.h"
#include "launch/drivers/local/local.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/ssh/ssh.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
    &rg_driver_ssh,
    &rg_driver_slurm,
    &rg_driver_dummy,
    NULL,
};
