/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "launch/driver.h"
#include "launch/drivers/local.h"

const struct rg_driver_ops *const rg_drivers[] = {
    &rg_driver_local,
    NULL,
};

const struct rg_driver_ops *rg_driver_find(const char *name)
{
    for (size_t i = 0; rg_drivers[i]; i++) {
        if (strcmp(rg_drivers[i]->name, name) == 0)
            return rg_drivers[i];
    }
    return NULL;
}
