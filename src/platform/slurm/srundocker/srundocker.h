/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_docker.sh's command line, as a job of Reigen's: a script that runs once, in a container on
 * the first node, with containers on all nodes of a Slurm step.
 *
 * One table holds the options; from it come parsing, --help and --help's list.
 *
 * Syntax, as the original's: `--name=value`; also `--name value`. The last one of a name counts.
 * Whatever else stands on the line goes to the script, in its order and byte by byte: options that
 * are not in the table, other arguments, and all that follows `--`. Names are never abbreviated.
 * An empty value says nothing where the option need not be given: scripts hand variables on.
 *
 * Thread rule: constant tables; a struct rg_srundocker belongs to one thread. Only
 * rg_srundocker_fill blocks: it looks at the script's file.
 */
#ifndef RG_PLATFORM_SLURM_SRUNDOCKER_SRUNDOCKER_H
#define RG_PLATFORM_SLURM_SRUNDOCKER_SRUNDOCKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "job/options/options.h"
#include "job/slurm.h"

#define RG_SRUNDOCKER_SSHD_PORT 12345
#define RG_SRUNDOCKER_START_MS (30u * 60 * 1000) /* nodes may have to fetch a large image */
#define RG_SRUNDOCKER_SSH_DIR "mpisshconfig" /* in the home */

/* What the user asked for. Owns all it points to; NULL and 0: nothing was said. */
struct rg_srundocker {
    char *container;        /* the image */
    char *script;
    char *nodelist;
    char *dockname;
    char *runtime;          /* docker, podman, ... */
    char *sshconfigdir;
    int sshdport;
    int slots_per_node;
    uint64_t start_timeout_ms;
    bool privileged, ibdevices, script_help, help;
    struct rg_strv devices; /* --ibdevices=THESE */
    struct rg_strv datamnts, dockopts, envlist;
    struct rg_strv args;    /* the script's */
    char *slip;             /* the first of them that may have been meant for us */
};

extern const struct rg_script_option rg_srundocker_options[];

void rg_srundocker_init(struct rg_srundocker *s);
void rg_srundocker_fini(struct rg_srundocker *s);

/* Read a command line: argv[0] is skipped. With --help nothing is checked. 0; -EINVAL, -ERANGE with
 * err; -ENOMEM. */
int rg_srundocker_parse(struct rg_srundocker *s, int argc, char *const *argv,
                        struct rg_error *err);

/* Whether the containers are to have an sshd: the user named its directory or its port. */
bool rg_srundocker_has_sshd(const struct rg_srundocker *s);

/* One string of options taken apart as a shell would, without expanding anything: blanks separate,
 * '...', "..." and backslashes keep. Appended to words. 0; -EINVAL (a quote is open), -ENOMEM. */
int rg_srundocker_split(const char *what, const char *text, struct rg_strv *words,
                        struct rg_error *err);
/* The same for options of docker run. Quotes that docker itself wants, as in --gpus '"device=0,1"',
 * may be missing: in scripts one shell takes them away, or none does. */
int rg_srundocker_dockopts(const char *what, const char *text, struct rg_strv *words,
                           struct rg_error *err);

/* Put the defaults in the place of what was not said about the sshd, and the directory's full path.
 * Nothing happens without an sshd. 0; -EINVAL (no home, a port or path that cannot be), -ENOMEM. */
int rg_srundocker_settle_sshd(struct rg_srundocker *s, const char *home, struct rg_error *err);

/* Make the job; the sshd is settled. env: the task's environment, see job/slurm.h; step:
 * what was read from it. The request has been initialized and gets the job and notes for the
 * user. 0; -ENOENT, -EACCES (the script), -EINVAL (nodes, GPUs), ...; all with err. */
int rg_srundocker_fill(const struct rg_srundocker *s, const struct rg_strv *env,
                       const struct rg_slurm_allocation *step, struct rg_request *request,
                       struct rg_error *err);

#endif
