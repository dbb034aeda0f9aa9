/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `reigen doctor` prints, in three forms. All append to text, whose status tells of memory.
 *
 * plain: one line per finding, fields separated by tabs: ok, warn or fail; the host or "-"; the
 * check; the value; the remedy, empty when ok. Stable, for scripts.
 *
 * json: one object; docs/doctor.md describes it.
 *
 * table: for people, in colour where that is wanted, wrapped to the terminal's columns: if all is
 * wanted, what is well host by host; then host by host what is not, with its remedy below; then the
 * summary.
 *
 * summary: "20 ok, 1 warning, 0 failures" and the end of a line; hint: how to see what is well.
 *
 * Main thread.
 */
#ifndef RG_CMD_DOCTOR_DOCTOR_PRINT_H
#define RG_CMD_DOCTOR_DOCTOR_PRINT_H

#include "base/buf.h"
#include "launch/doctor/doctor.h"

#define RG_DOCTOR_SCHEMA 1

void rg_doctor_print_plain(const struct rg_doctor_input *found, const struct rg_findings *findings,
                           struct rg_buf *text);
void rg_doctor_print_json(const struct rg_doctor_input *found, const struct rg_findings *findings,
                          struct rg_buf *text);
void rg_doctor_print_table(const struct rg_doctor_input *found, const struct rg_findings *findings,
                           bool all, bool colour, int columns, struct rg_buf *text);
void rg_doctor_print_summary(const struct rg_findings *findings, bool hint, struct rg_buf *text);

#endif
