/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command that lists hosts has printed.
 *
 * Thread rule: any. Does not block.
 */
#ifndef RG_JOB_DISCOVERED_H
#define RG_JOB_DISCOVERED_H

#include "job/job.h"

/* Into hosts, of which only these are used. Lines are those of a host file: HOST, HOST:SLOTS or
 * HOST slots=SLOTS, with comments, blanks and a byte order mark; a host without a number has
 * nslots. As in Horovod a host that is named again is one host, and its last line counts; where its
 * lines differ, notes gets a sentence. said is changed. what: the command, for texts. 0, also where
 * there is no host; -EINVAL: a line is no host; -E2BIG; -ENOMEM. */
int rg_discovered_parse(const char *what, char *said, int nslots, struct rg_job *hosts,
                        struct rg_strv *notes, struct rg_error *err);

#endif
