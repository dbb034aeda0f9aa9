/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How `reigen doctor` tries the GPUs of a host: a program for the host's python3, which prints the
 * facts gpu-copy, gpu-peers and gpu-bad of agent/look/doctor.h, and "gpu-tried N" at its end. It
 * needs the driver's library and nothing else, and takes 32 MiB of each GPU and of the host.
 */
#ifndef RG_CMD_DOCTOR_GPUS_H
#define RG_CMD_DOCTOR_GPUS_H

/* The variable by which the agents get it (agent/look/doctor.h). */
#define RG_DOCTOR_GPUS_SCRIPT "REIGEN_DOCTOR_GPUS"

extern const char rg_doctor_gpus_script[];

#endif
