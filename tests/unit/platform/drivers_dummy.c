/* SPDX-License-Identifier: Apache-2.0 */
/* A table of its own in the place of src/platform/drivers.c: some drivers of src, and one more. */
#include <stddef.h>

#include "driver_dummy.h"
#include "platform/drivers.h"
#include "platform/local/door.h"
#include "platform/slurm/door.h"
#include "platform/ssh/door.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
    &rg_driver_ssh,
    &rg_driver_slurm,
    &rg_driver_dummy,
    NULL,
};
