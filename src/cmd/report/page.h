/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of one record.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_PAGE_H
#define RG_CMD_REPORT_PAGE_H

#include "cmd/report/parts.h"

void rg_report_page(struct rg_buf *page, const struct rg_report_run *run);

#endif
