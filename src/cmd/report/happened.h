/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections that list what happened, one thing after the other, and the last lines of each
 * rank. Where nothing did, or no rank wrote anything, there is no section.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_HAPPENED_H
#define RG_CMD_REPORT_HAPPENED_H

#include "cmd/report/parts.h"

void rg_report_happened(struct rg_buf *page, const struct rg_report_run *run);
void rg_report_tails(struct rg_buf *page, const struct rg_report_run *run);

#endif
