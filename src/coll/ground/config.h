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
#include "model/model.h"

#define RG_CORE_MAX 1023     /* the highest number of a core */
#define RG_AFFINITY_MAX 256 /* ranks of a host in a list of cores */
#define RG_SOCKETS_PER_PAIR_MAX 8
#define RG_SILENCE_MIN_MS 3000 /* heartbeats come every second */
/* A leader's frames of a step grow with it, and the time of a step with the tree's depth
 * (docs/architecture.md, "Agreement in a tree", has what was measured). */
#define RG_TREE_DEGREE 16

struct rg_config_timeline {
    char path[4096]; /* "" when unset or "DYNAMIC" */
    bool marks_cycles, all_ranks;
};

struct rg_config_log {
    int level;  /* enum rg_log_level */
    bool asked; /* it was set */
    bool time;  /* the time of day in front of records */
};

/* Which variables they are, the table in config.c says. */
struct rg_config {
    uint64_t start_timeout_ms;   /* 300 s */
    uint64_t stall_ms;           /* 6 s; 0: no check */
    bool stall_learns;           /* nobody has set it: it is for jobs without a step so far */
    uint64_t stall_shutdown_ms;  /* 0: never */
    bool stall_shutdown_ignored; /* it was given, and less than stall_ms */
    uint64_t deadlock_ms;        /* 0: ranks that wait for each other end no job */
    uint64_t silence_ms;         /* 30 s: a leader of another host that says nothing is dead */
    size_t fusion_nbytes;        /* 128 MiB */
    int cache_capacity;          /* 4096 ids kept when idle */
    int tree_degree;             /* of the leaders' tree (negotiate/tree_shape.h); 0: not set,
                                  * see rg_config_tree_degree */
    bool huge_pages;             /* asked for where large results go */
    bool deterministic;          /* the same bits in each run, of all reductions */
    bool autotune_ignored;       /* it is asked for: nothing is tuned while a job runs */
    char planes[64];             /* names of planes, with commas; "": not set */
    int spin_us;                 /* how long a waiter stays awake; -1: chosen by cores and ranks */
    struct rg_config_log log;
    bool insecure;
    struct rg_config_timeline timeline;
    int affinity[RG_AFFINITY_MAX]; /* cores by local rank, or one for all */
    int naffinity;               /* 0: not set */
    int master_port;             /* 0: by MASTER_PORT + 1 ... + 16 */
    struct rg_ports ports;       /* where ranks listen; first 0: anywhere */
    char key_file[4096];         /* or "" */
    char boot[16];               /* the boot to take, or "" */
    char interface[512];         /* names or CIDRs with commas between, or "" */
    enum rg_algorithm algorithms[RG_MODEL_NKINDS]; /* of the tcp plane; AUTO: by the model */
    struct rg_model model;       /* what is assumed, or the file's that was given */
    bool model_given;            /* then nothing is measured */
    int sockets_per_pair;        /* of the tcp plane, at most ..._MAX; 0: auto, by the network */
    bool keeps_congestion;       /* sockets to near hosts have the host's congestion control */
};

static inline int rg_config_tree_degree(const struct rg_config *config)
{
    return config->tree_degree > 0 ? config->tree_degree : RG_TREE_DEGREE;
}

/* 0, or -EINVAL with the variable, its value and what is allowed. */
int rg_config_read(struct rg_config *ret_config, struct rg_error *err);

#endif
