/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a record consists of: the names of its files, and their version. docs/report.md has all
 * fields.
 *
 * Whoever writes a record holds a lock on its events. It is one of an open file description
 * (F_OFD_SETLK of fcntl), since those can be looked at without taking one: a look is never in the
 * way of a job that begins.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_HEAD_RECORD_FILES_H
#define RG_HEAD_RECORD_FILES_H

#include <stdbool.h>

#define RG_RECORD_VERSION 1 /* fields may be added within one */
#define RG_RECORD_EVENTS "events.jsonl"
#define RG_RECORD_SAMPLES "samples.jsonl"
#define RG_RECORD_TAILS "tails.jsonl"
#define RG_RECORD_COPIED "copied" /* the last event of a copy that was made while the job ran */
#define RG_RECORD_PAGE "report.html" /* what reigen report makes there */

/* Take the lock, which goes when the last copy of the descriptor is closed; it is open for writing.
 * 0; -EWOULDBLOCK: another one has it; -errno where the file system has no locks. */
int rg_record_lock(int events_fd);
/* Whether anybody else has it. The descriptor is open for reading. */
bool rg_record_is_locked(int events_fd);

#endif
