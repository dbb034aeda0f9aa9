/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cores near a GPU: those of the processor that its bus hangs on. Memory that the GPU copies from
 * and threads that feed it are best there.
 *
 * Thread rule: any thread. Blocks for a few small files of the kernel's.
 */
#ifndef RG_COLL_GPU_NEAR_H
#define RG_COLL_GPU_NEAR_H

#include "base/error.h"

/* The variable that asks for it: "gpu" (reigen run --bind-to gpu). */
#define RG_NEAR_VARIABLE "REIGEN_BIND_TO"

/* Leave all threads of the process, and those that they start, only the cores near the device at
 * this PCI address ("0000:3B:00.0", in any case), of those that each may use already; a thread that
 * may use none of them keeps what it has. sysfs: "/sys". How many cores are near, -errno with err:
 * the kernel does not tell. */
int rg_near_bind(const char *sysfs, const char *bus_id, struct rg_error *err);

/* The process works with this device from now on: at the first call of the process, if the variable
 * asks for it, bind, or say why not. */
void rg_near_use(int device);

#endif
