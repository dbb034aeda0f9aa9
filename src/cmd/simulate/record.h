/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's steps, recorded: it is run on this computer, as `reigen run` does, until it has taken
 * enough of them, and is ended then.
 *
 * Thread rule: main thread. Blocks as long as the program takes. SIGINT, SIGTERM and SIGHUP end the
 * program first; what they did before is restored.
 */
#ifndef RG_CMD_SIMULATE_RECORD_H
#define RG_CMD_SIMULATE_RECORD_H

#include "base/str.h"
#include "cmd/simulate/modelfile.h"

struct rg_simulate_recording {
    const char *script;         /* NULL: the command has all */
    char *const *command;       /* NULL-terminated: the script's arguments, or the command */
    int nranks, nsteps;
};

/* 0 and *ret_file. Otherwise it was told why, and this is the exit code: the program's own where
 * it failed, 1 where it has taken no steps that are alike, 128 + n after signal n, or that of what
 * could not be done. */
int rg_simulate_record(const struct rg_simulate_recording *recording,
                       struct rg_modelfile *ret_file);

#endif
