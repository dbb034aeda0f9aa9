/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of the tests: docs/drivers.md says what a driver has to have. */
#ifndef DRIVER_DUMMY_H
#define DRIVER_DUMMY_H

#include "launch/host/driver.h"

extern const struct rg_driver_ops rg_driver_dummy;

#endif
