/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several programs in one job, as mpirun and mpiexec have them: `-n 1 loader : -n 4 trainer`, or
 * one line for each in a file (--app, -configfile). Each says how many ranks run it; ranks are
 * numbered in the order of the programs. In front of a program may stand options of its own: the
 * number of ranks, variables, a directory, hosts.
 *
 * The job's command becomes one for all ranks, which chooses by the rank. It is a POSIX shell's, so
 * the ranks' system has to have sh, and env where a program has variables of its own.
 *
 * Thread rule: a request belongs to one thread. rg_programs_read blocks on the file.
 */
#ifndef RG_JOB_REQUEST_PROGRAMS_H
#define RG_JOB_REQUEST_PROGRAMS_H

#include "job/options/options.h"

#define RG_PROGRAMS_MAX 1024

/* Whether these words are several programs, if no "--" stands in front of them. */
bool rg_programs_are(int nwords, char *const *words);
/* Whether this option of ours, in front of the first of several programs, is its alone; option may
 * be NULL. Then keep what it is given: second is the value of a pair, or NULL; what names the
 * option in errors. 0 or -errno. */
bool rg_programs_has_own(const char *option);
int rg_programs_keep(struct rg_request *request, const char *option, const char *what,
                     const char *value, const char *second, struct rg_error *err);
/* There are no several programs after all, as mpirun is the command: what was kept counts for the
 * job. 0 or -errno. */
int rg_programs_give_back(struct rg_request *request, struct rg_error *err);

/* Where a word of the job's command is ":", take the command apart and put the one for all ranks,
 * and the number of ranks, in its place. Where mpirun or a script of the user's is what runs, the
 * word is theirs, and nothing changes. 0; -EINVAL: a program without a number of ranks, an option
 * that is not one program's, hosts that do not fit, ...; -ENOMEM. */
int rg_programs_settle(struct rg_request *request, struct rg_error *err);

/* The job's command, which is empty, from the file of --app or -configfile: a program and its
 * options on each line, as a shell takes it apart; what begins with '#' is a remark. Then as
 * rg_programs_settle. what names the option. 0 or -errno with err, exit_code 2. */
int rg_programs_read(struct rg_request *request, const char *what, const char *path,
                     struct rg_error *err);

#endif
