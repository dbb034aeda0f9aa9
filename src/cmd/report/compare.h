/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of two records: what changed from the first to the second.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_COMPARE_H
#define RG_CMD_REPORT_COMPARE_H

#include "cmd/report/parts.h"

void rg_report_compare(struct rg_buf *page, const struct rg_report_run *before,
                       const struct rg_report_run *after);

#endif
