/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a job that some command line described (head/head.h): `reigen run` and `reigen
 * horovodrun` read different ones.
 *
 * Main thread; blocks until the job has ended. Once per process.
 */
#ifndef RG_CMD_RUN_RUN_H
#define RG_CMD_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "job/request/request.h"

struct rg_planned; /* launch/plan/plan_file.h */

/* As struct rg_command says of run. */
int rg_cmd_run(int argc, char **argv);
/* The same, of a job whose command is this program, with RG_RUN_SELF as its first word. Ranks run
 * this file; in containers, in which it is not, the one of this name that they find. */
int rg_run_self(int argc, char **argv);
#define RG_RUN_SELF "reigen"
int rg_cmd_plan(int argc, char **argv);

/* As rg_request_parse; and what is a flag of horovodrun's is called that. */
int rg_run_parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err);

/* Move from the request what a plan has. */
void rg_run_take(struct rg_request *request, struct rg_planned *ret_planned);

/* Say, on standard error, that the job does not use a platform as it could (a driver's remark),
 * where that is so and the request is not to be quiet. Before rg_run_request. */
void rg_run_say_remarks(const struct rg_request *request);

/* A request's tell: on standard error. */
void rg_run_tell(const char *sentence);

/* Plan and run the job, show what it writes, print the verdict. take_request is emptied. command,
 * horovod, stdin_open: as in struct rg_head_as. Returns the exit code (base/exitcode.h). */
int rg_run_request(struct rg_request *take_request, const char *command, bool horovod,
                   bool stdin_open);

#endif
