/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections that say how long each host took to be ready, who ran where, and what each rank did;
 * of many hosts or ranks most are folded. Where nothing is known, there is no section.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_PLACES_H
#define RG_CMD_REPORT_PLACES_H

#include "cmd/report/parts.h"

void rg_report_start(struct rg_buf *page, const struct rg_report_run *run);
void rg_report_hosts(struct rg_buf *page, const struct rg_report_run *run);
void rg_report_ranks(struct rg_buf *page, const struct rg_report_run *run);

#endif
