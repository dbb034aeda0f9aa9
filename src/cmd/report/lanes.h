/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section that draws some seconds of a job's timeline: a row for each rank, with when its
 * operations waited for other ranks, and when their data moved. Of many ranks there are the latest,
 * some in the middle and the earliest, so the picture's size does not depend on the job's.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_LANES_H
#define RG_CMD_REPORT_LANES_H

#include "cmd/report/parts.h"

#define RG_LANES_ALL 24 /* up to so many ranks each has a row */

/* Nothing where the job wrote no timeline. */
void rg_report_lanes(struct rg_buf *page, const struct rg_report_run *run);

#endif
