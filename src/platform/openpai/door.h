/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of OpenPAI. What users see is in docs/openpai.md. */
#ifndef RG_PLATFORM_OPENPAI_DOOR_H
#define RG_PLATFORM_OPENPAI_DOOR_H

#include "launch/host/driver.h"

extern const struct rg_driver_ops rg_driver_openpai;

#endif
