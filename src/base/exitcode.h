/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of exit codes: what reigen ends with, why, and what to do. `reigen explain`, the
 * man page and docs/exit-codes.md are made from it. Constant data; any thread.
 */
#ifndef RG_BASE_EXITCODE_H
#define RG_BASE_EXITCODE_H

#include <stdbool.h>
#include <stddef.h>

enum rg_exit {
    RG_EXIT_OK = 0,
    RG_EXIT_USAGE = 2,         /* wrong options or a broken file */
    RG_EXIT_UNAVAILABLE = 69,  /* platform or host unavailable before the start */
    RG_EXIT_INTERNAL = 70,     /* a fault of ours */
    RG_EXIT_OUTPUT_LOST = 74,  /* output could not be written */
    RG_EXIT_PREEMPTED = 75,    /* ended from outside: cancelled, out of time, preempted */
    RG_EXIT_HOST_LOST = 76,    /* a host or its agent was lost: try again */
    RG_EXIT_NO_PERMISSION = 77,
    RG_EXIT_RESET_LIMIT = 78,  /* hosts came or went more often than --reset-limit permits */
    RG_EXIT_DEADLOCK = 79,     /* all ranks wait for each other, and nothing else runs */
    RG_EXIT_TIMEOUT = 124,     /* not ready in time, or --timeout */
    RG_EXIT_CONTAINER = 125,   /* the container runtime failed */
    RG_EXIT_NOT_EXECUTABLE = 126,
    RG_EXIT_NOT_FOUND = 127,
    RG_EXIT_SIGNAL = 128,      /* + n: ended by signal n */
};

struct rg_exit_info {
    int code;            /* 128 stands for all of 129 to 192 */
    const char *meaning; /* one line */
    const char *remedy;  /* one or more sentences */
    bool retry;          /* trying again, unchanged, may help */
};

/* The table, in order of code; *ret_count entries. */
const struct rg_exit_info *rg_exit_table(size_t *ret_count);
/* The entry for a code 0 to 255; a rank's own codes share one entry, signals another. */
const struct rg_exit_info *rg_exit_find(int code);

/* The name of what such a code stands for: "usage". */
const char *rg_exit_name(int code);

#endif
