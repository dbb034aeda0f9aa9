/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of a process, for reports.
 *
 * Thread rule: any thread; reads two files of /proc.
 */
#ifndef RG_COLL_OBSERVE_PROCESS_H
#define RG_COLL_OBSERVE_PROCESS_H

#include <sys/types.h>

struct rg_proc_state {
    char state;       /* the letter of /proc/PID/stat; 'X': gone */
    const char *word; /* for people */
    char where[64];   /* in the kernel, or "" */
};
void rg_proc_state_read(pid_t pid, struct rg_proc_state *ret_process);

#endif
