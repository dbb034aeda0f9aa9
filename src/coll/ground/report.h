/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime has to say by itself: whole lines on standard error, each record one write(2),
 * in front the rank and a word for the level: "reigen[2]: warning: ...". Used for stalls and,
 * with REIGEN_LOG_LEVEL, for a log.
 *
 * Thread rule: any thread; blocks only as standard error does.
 */
#ifndef RG_COLL_GROUND_REPORT_H
#define RG_COLL_GROUND_REPORT_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/say.h"

/* Set the rank's name, the highest level that is written, and whether the time of day (UTC) stands
 * in front. By reigen_init. */
void rg_report_open(int rank, enum rg_log_level level, bool time);

/* Write one record; lines after the first are indented. */
void rg_report(enum rg_log_level level, const char *fmt, ...) rg_printf(2, 3);

#endif
