/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen-agent ask JOB`, which other commands of the user's start beside a head that is an agent,
 * where they cannot reach it themselves (launch/host/driver.h: beside). Each line of standard input
 * asks for the page of the ranks' numbers that begins with this rank (launch/control), and gets a
 * line of standard output: the page, or {"error":TEXT} where the head does not answer.
 *
 * Thread rule: main thread of a process that does nothing else. It blocks.
 */
#ifndef RG_HEAD_ASK_H
#define RG_HEAD_ASK_H

/* Answer until standard input ends. id: the job's, or what its platform calls it. The exit code. */
int rg_head_ask_main(const char *id);

#endif
