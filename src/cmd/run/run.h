/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a job that some command line described (cmd/head/head.h): `reigen run` and `reigen
 * horovodrun` read different ones.
 *
 * Main thread; blocks until the job has ended. Once per process.
 */
#ifndef RG_CMD_RUN_RUN_H
#define RG_CMD_RUN_RUN_H

#include <stdbool.h>

#include "spec/options/options.h"

/* As struct rg_command says of run. */
int rg_cmd_run(int argc, char **argv);

/* As rg_request_parse; and what is a flag of horovodrun's is called that. */
int rg_run_parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err);

/* Say, on standard error, that the job does not use a platform as it could (a driver's remark),
 * where that is so and the request is not to be quiet. Before rg_run_request. */
void rg_run_say_remarks(const struct rg_request *request);

struct rg_run_as {
    const char *command; /* "run": the command whose --help usage errors name */
    bool horovod;        /* after the verdict, say Horovod's words for a failed job, too */
    bool stdin_open;     /* standard input was open when the program started */
};

/* Plan and run the job, show what it writes, print the verdict. take_request is emptied. Returns
 * the exit code (base/exitcode.h). */
int rg_run_request(struct rg_request *take_request, const struct rg_run_as *as);

#endif
