/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --record: what became of a job, in a folder, for `reigen report` and for programs. docs/report.md
 * has all fields.
 *
 *     events.jsonl   --json's events without output, each as it happens; its first line says what
 *                    wrote it, and for which job
 *     samples.jsonl  the ranks' numbers, once a second at first, less often the longer it lasts
 *     tails.jsonl    the last lines of each rank
 *
 * The files are the user's alone, bounded in size, and whole lines but for the last one of a
 * launcher that was killed. Once the job runs, nothing that goes wrong here ends it.
 *
 * Where an agent is the job's head, the folder is there, too.
 *
 * Thread rule: the loop's thread. Writing takes as long as its file system does.
 */
#ifndef RG_HEAD_RECORD_RECORD_H
#define RG_HEAD_RECORD_RECORD_H

#include "base/error.h"
#include "base/loop.h"
#include "head/metrics/metrics.h"
#include "head/record/files.h"
#include "head/show/presenter.h"

struct rg_record;

/* Make the folder, which may be there when it is empty or holds a record, and begin: what it held
 * before goes. 0; -errno with err: exit_code 2 where the value will not do, 69 where another job is
 * recorded there, 74 for a full disk, 77 without permission. dir NULL: nothing is wanted, and
 * *ret_record is NULL, which is fine below. */
int rg_record_open(const char *dir, struct rg_record **ret_record, struct rg_error *err);
/* A start of the job begins: what shown is told is recorded from now on, too, and so are the ranks'
 * numbers. look tells of the session. */
void rg_record_follow(struct rg_record *record, struct rg_presenter *shown, rg_metrics_look *look,
                      void *arg);
/* The job could not be started, or not again: there is no session that would say so. */
void rg_record_fail(struct rg_record *record, const struct rg_verdict *verdict);
/* The job has ended by this code. Frees it. */
void rg_record_close(struct rg_record *record, int exit_code);

#endif
