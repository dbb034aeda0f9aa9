/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the doctor's measurements are made of. Internal to agent/doctor*.c. Main thread; all block.
 */
#ifndef RG_AGENT_LOOK_DOCTOR_PARTS_H
#define RG_AGENT_LOOK_DOCTOR_PARTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Run a program, found in PATH, for at most RG_DOCTOR_PROGRAM_MS, and keep the beginning of what it
 * writes to standard output, NUL-terminated. Returns the bytes kept; 0 also when it failed;
 * RG_DOCTOR_LATE when it was killed for not ending; RG_DOCTOR_NONE: there is no such program. */
#define RG_DOCTOR_NONE (-1)
#define RG_DOCTOR_LATE (-2)
int rg_doctor_capture(const char *const *argv, char *ret_text, size_t room);

/* Whether PATH has a program of this name; its path. */
bool rg_doctor_find(const char *name, char ret_path[PATH_MAX]);

/* Can a process read the memory of its sibling, as ranks of one host want to? 0, or the errno. */
int rg_doctor_try_cma(void);

#endif
