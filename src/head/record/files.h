/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a record consists of: the names of its files, and their version. docs/report.md has all
 * fields. Constants; any thread.
 */
#ifndef RG_HEAD_RECORD_FILES_H
#define RG_HEAD_RECORD_FILES_H

#define RG_RECORD_VERSION 1 /* fields may be added within one */
#define RG_RECORD_EVENTS "events.jsonl"
#define RG_RECORD_SAMPLES "samples.jsonl"
#define RG_RECORD_TAILS "tails.jsonl"
#define RG_RECORD_PAGE "report.html" /* what reigen report makes there */

#endif
