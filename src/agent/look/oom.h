/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Did the kernel's out-of-memory killer end a process of ours? Told by the counters of our own
 * control group: oom_kill in memory.events (version 2, Documentation/admin-guide/cgroup-v2.rst) or
 * in memory.oom_control (version 1). Best effort: where no counter can be read, the answer is no.
 *
 * Thread rule: one thread. Reads one small file.
 */
#ifndef RG_AGENT_LOOK_OOM_H
#define RG_AGENT_LOOK_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_OOM_TEXT_MAX 640 /* bytes of what rg_oom_limit writes */

struct rg_oom {
    char path[512];  /* the file with the counter, or "" */
    size_t nmount;   /* length of its part that is the mount's */
    uint64_t nkills; /* when we last looked */
};

/* Find the counter of this process' control group. cgroup_file and mount are "/proc/self/cgroup"
 * and "/sys/fs/cgroup"; tests give others. */
void rg_oom_init(struct rg_oom *oom, const char *cgroup_file, const char *mount);

/* What the limit is, into text: "limit 2 GiB of the control group /job_7"; where none is set,
 * that all of the host's memory was in use. */
void rg_oom_limit(const struct rg_oom *oom, char *text, size_t nbytes);

/* True when the counter has grown since rg_oom_init or the last call that returned true; it is then
 * counted down by one, so that each kill explains one death. */
bool rg_oom_happened(struct rg_oom *oom);

#endif
