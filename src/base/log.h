/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs' log. Libraries return errors and never call this; the runtime reports through its
 * own reporter (coll/ground/report.h).
 *
 * Levels: error (cannot go on), warn (went on, and says what it ignored), info (milestones of the
 * job), debug (per object), trace (per message).
 *
 * Thread rule: rg_log may be called from any thread; a record is one write(2) of whole lines.
 * rg_log_open belongs to the main thread, before others exist.
 */
#ifndef RG_BASE_LOG_H
#define RG_BASE_LOG_H

#include <stdbool.h>

#include "base/cleanup.h"

enum rg_log_level { RG_LOG_ERROR, RG_LOG_WARN, RG_LOG_INFO, RG_LOG_DEBUG, RG_LOG_TRACE };

struct rg_log_options {
    enum rg_log_level level; /* records above this level are dropped */
    int fd;                  /* where to, borrowed for the life of the process; usually 2 */
    const char *name;        /* the program's name in front of each record, borrowed */
    bool colour;             /* SGR colours for warn and error; the caller checks isatty */
    bool timestamps;         /* seconds since rg_log_open in front, for --verbose */
};

/* Set where records go. Without it: level warn, descriptor 2, name "reigen". Cannot fail. */
void rg_log_open(const struct rg_log_options *options);

/* Write one record; a newline is added. Lines after the first are indented under it. Write errors
 * are ignored: there is no better place to report them. */
void rg_log(enum rg_log_level level, const char *fmt, ...) rg_printf(2, 3);

/* True when a record of this level would be written: guards costly arguments. */
bool rg_log_enabled(enum rg_log_level level);

#endif
