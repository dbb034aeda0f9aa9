/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole request: a command line, and the job file that it names, judged option by option
 * (job/options/options.h) and then together. The other headers of this folder are its steps, which
 * horovodrun's command line takes one by one.
 *
 * Syntax: an option has one dash or two; its value follows as the next argument or after '='
 * (`-np 4`, `--np 4`, `-np=4`). What is no option may be a flag of another launcher
 * (job/request/launchers.h). Names are never abbreviated, so that a new option cannot change
 * what an old script means; what is almost a name is answered with "did you mean". This is what
 * getopt_long_only would parse, without its abbreviations and its global state. Parsing stops at
 * `--` or at the first argument that is no option: there the command begins.
 *
 * Thread rule: a request belongs to one thread. rg_request_parse blocks on reading --config and
 * --hostfile, and on --host-discovery-script.
 */
#ifndef RG_JOB_REQUEST_REQUEST_H
#define RG_JOB_REQUEST_REQUEST_H

#include "job/options/options.h"

void rg_request_init(struct rg_request *request);
void rg_request_fini(struct rg_request *request);

/* Read a command line: argv[0] is skipped. The job file of --config is read first, wherever
 * --config stands, so that options override it. Then the rules over several fields are checked
 * (rg_job_check). With
 * --help or --version nothing is checked. 0; -EINVAL and others with err, exit_code 2 unless set.
 */
int rg_request_parse(struct rg_request *request, int argc, char *const *argv,
                     struct rg_error *err);

/* For other command lines that take these options, too: argv[*next], which begins with a dash, is
 * an option of ours or a flag of another launcher. 1: it is, *next is behind it and its values,
 * and the request, unless it is NULL, has it; 0: it is neither. -errno with err. */
int rg_request_take_flag(struct rg_request *request, int argc, char *const *argv, int *next,
                         struct rg_error *err);

#endif
