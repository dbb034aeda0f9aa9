/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's knobs, read once from the environment by reigen_init. REIGEN_* wins over HOROVOD_*.
 * Constant afterwards; any thread may read.
 */
#ifndef RG_COLL_GROUND_CONFIG_H
#define RG_COLL_GROUND_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define RG_CORE_MAX 1023     /* the highest number of a core */
#define RG_AFFINITY_MAX 256 /* ranks of a host in a list of cores */
#define RG_SILENCE_MIN_MS 3000 /* heartbeats come every second */

struct rg_config {
    uint64_t start_timeout_ms;   /* REIGEN_START_TIMEOUT, HOROVOD_START_TIMEOUT, else
    * HOROVOD_GLOO_TIMEOUT_SECONDS (s): 300 s */
    /* REIGEN_STALL_SECONDS, HOROVOD_STALL_CHECK_TIME_SECONDS: 10 s; 0: no check */
    uint64_t stall_ms;
    /* REIGEN_STALL_SHUTDOWN_SECONDS, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: 0, never */
    uint64_t stall_shutdown_ms;
    bool stall_shutdown_ignored; /* it was given, and less than stall_ms */
    /* REIGEN_SILENCE_SECONDS: 30 s; a leader of another host that says nothing for so long is
     * dead */
    uint64_t silence_ms;
    size_t fusion_nbytes;        /* REIGEN_FUSION_THRESHOLD, HOROVOD_FUSION_THRESHOLD: 128 MiB */
    /* REIGEN_CACHE_CAPACITY, HOROVOD_CACHE_CAPACITY: 4096 ids kept when idle */
    int cache_capacity;
    bool autotune_ignored;       /* HOROVOD_AUTOTUNE is 1: nothing is tuned while a job runs */
    char planes[64];             /* REIGEN_PLANES: names of planes, with commas; "": not set */
    /* REIGEN_SPIN_US: how long a waiter stays awake; -1: chosen by cores and ranks */
    int spin_us;
    int log_level;               /* REIGEN_LOG_LEVEL, HOROVOD_LOG_LEVEL: enum rg_log_level */
    /* HOROVOD_LOG_HIDE_TIME=0 or HOROVOD_LOG_TIMESTAMP=1: the time of day in front of records */
    bool log_time;
    bool insecure;               /* REIGEN_INSECURE=1 */
    /* REIGEN_TIMELINE, HOROVOD_TIMELINE: a path; "" when unset or "DYNAMIC" */
    char timeline[4096];
    bool timeline_marks_cycles;  /* REIGEN_TIMELINE_MARK_CYCLES, HOROVOD_TIMELINE_MARK_CYCLES */
    bool timeline_all_ranks;     /* REIGEN_TIMELINE_ALL_RANKS, HOROVOD_TIMELINE_ALL_RANKS */
    /* REIGEN_THREAD_AFFINITY, HOROVOD_THREAD_AFFINITY: cores by local rank, or one for all */
    int affinity[RG_AFFINITY_MAX];
    int naffinity;               /* 0: not set */
    int master_port;             /* REIGEN_MASTER_PORT; 0: by MASTER_PORT + 1 ... + 16 */
    struct rg_ports ports;       /* REIGEN_PORT_RANGE: where ranks listen; first 0: anywhere */
    char key_file[4096];         /* REIGEN_KEY_FILE or "" */
    char boot[16];               /* REIGEN_BOOT: the boot to take, or "" */
    char interface[64];          /* REIGEN_NETWORK_INTERFACE, HOROVOD_GLOO_IFACE (name or CIDR) */
};

/* 0, or -EINVAL with the variable, its value and what is allowed. */
int rg_config_read(struct rg_config *ret_config, struct rg_error *err);

#endif
