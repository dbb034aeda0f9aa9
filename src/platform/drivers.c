/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all drivers (table.inc), and nothing else, so that a test's program can have its
 * own. It is compiled for the launcher and for the agent. */
#include <stddef.h>

#include "platform/drivers.h"

#define IN_BOTH(driver) driver,
#ifdef RG_AGENT
#define IN_LAUNCHER(driver)
#define IN_AGENT(driver) driver,
#else
#define IN_LAUNCHER(driver) driver,
#define IN_AGENT(driver)
#endif

#define RG_DRIVER(folder, driver, place) extern const struct rg_driver_ops driver;
#include "platform/table.inc"
#undef RG_DRIVER

#define RG_DRIVER(folder, driver, place) place(&driver)
const struct rg_driver_ops *const rg_drivers[] = {
#include "platform/table.inc"
    NULL,
};

_Static_assert(sizeof(rg_drivers) / sizeof(rg_drivers[0]) <= RG_DRIVERS_MAX + 1, "RG_DRIVERS_MAX");
