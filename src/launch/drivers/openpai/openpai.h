/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of OpenPAI. What users see is in docs/openpai.md. */
#ifndef RG_LAUNCH_DRIVERS_OPENPAI_OPENPAI_H
#define RG_LAUNCH_DRIVERS_OPENPAI_OPENPAI_H

#include "launch/host/driver.h"

extern const struct rg_driver_ops rg_driver_openpai;

#endif
