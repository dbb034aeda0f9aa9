/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of a process, for reports.
 *
 * Thread rule: any thread; reads two files of /proc, or three.
 */
#ifndef RG_COLL_OBSERVE_PROCESS_H
#define RG_COLL_OBSERVE_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

#define RG_PROC_NAME_MAX 16 /* as the kernel has it, with the end */

struct rg_proc_state {
    char state;       /* the letter of /proc/PID/stat; 'X': gone */
    const char *word; /* for people */
    char where[64];   /* in the kernel, or "" */
};
void rg_proc_state_read(pid_t pid, struct rg_proc_state *ret_process);

/* The system call that this thread of this process waits in, as C has it: "read(/data/part-3)",
 * "futex()". "" when it computes, or the kernel does not say. */
void rg_proc_call_read(pid_t thread, char *ret_text, size_t nbytes);
/* The thread's name, as it may be shown; "" when it is gone. */
void rg_proc_name_read(pid_t thread, char ret_name[RG_PROC_NAME_MAX]);

#endif
