/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen-agent ask JOB`, which other commands of the user's start beside a head that is an agent,
 * where they cannot reach it themselves (launch/host/driver.h: beside). Each line of standard input
 * asks for the page of the ranks' numbers that begins with this rank (launch/control), and gets a
 * line of standard output: the page, or {"error":TEXT} where the head does not answer.
 *
 * `reigen-agent record JOB` gives a copy of what that head has recorded by now: the line
 * RG_HEAD_RECORD; for each of its files (record/files.h) a line with its name and length, a space
 * between, and so many bytes; and the line RG_HEAD_RECORD_END. Where there is nothing to give, it
 * is a line of RG_HEAD_RECORD_NONE and why, for the user.
 *
 * Thread rule: main thread of a process that does nothing else. It blocks.
 */
#ifndef RG_HEAD_ASK_H
#define RG_HEAD_ASK_H

/* Answer until standard input ends. id: the job's, or what its platform calls it. The exit code. */
int rg_head_ask_main(const char *id);

#define RG_HEAD_RECORD "reigen-record 1\n"
#define RG_HEAD_RECORD_NONE "reigen-record none: "
#define RG_HEAD_RECORD_END "reigen-record-end\n"

/* Give that. id: as above. The exit code. */
int rg_head_record_main(const char *id);

#endif
