/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a job, whatever described it: `reigen run` and `horovodrun` read command lines, and
 * `reigen-agent head` a file that one of them has written. All share everything from there on.
 *
 * Main thread; blocks until the job has ended. Once per process.
 */
#ifndef RG_HEAD_HEAD_H
#define RG_HEAD_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/plan/plan_file.h"

struct rg_head_as {
    const char *command; /* "run": the command whose --help usage errors name */
    bool horovod;        /* after the verdict, say Horovod's words for a failed job, too */
    bool stdin_open;     /* standard input was open when the program started */
    /* NULL, or a pipe to who waits until all ranks have started (--detach): then the job's id is
     * written to it, and it is closed. Taken. Who waits is the parent: its death ends the job. */
    const int *detach_fd;
    /* NULL, or what is done with the plan in the place of running it: an exit code, or -errno with
     * err. here: the ranks would run on this computer. No platform is asked for hosts then. */
    int (*instead)(void *arg, const struct rg_planned *planned, bool here, struct rg_error *err);
    void *arg;
    const uint8_t *key;  /* of the job, which its agents have already; NULL: one is made */
    const char *verdict; /* NULL, or a file that is there: the verdict is written into it, as
                          * --json's event without the last lines */
    const char *known_as; /* NULL, or what the platform calls the job: it is asked by that, too */
    bool known_by_name;   /* that is a name which the user has chosen, no number */
    bool log;            /* standard output is a log that somebody else keeps: logmark.h */
    /* NULL, or: not a rank's failure makes the job start again, but the loss of a host, which a
     * platform replaces; so do the codes 75 and 76. How long it waits before it replaces the nth
     * one, for which --start-timeout is longer. */
    uint64_t (*backoff_ms)(int n);
    int nstarts;         /* with that: how often the job was started before this head */
    bool *ret_stopped;   /* NULL, or set where the head itself was told to end */
};

/* Plan the job, unless that is done, and run it: show what it writes, print the verdict.
 * take_planned is emptied. Returns the exit code (base/exitcode.h). */
int rg_head_run(struct rg_planned *take_planned, const struct rg_head_as *as);

/* `reigen-agent head --plan FILE`: run the plan that is in FILE. argv[0] is "head". The exit
 * code. */
int rg_head_main(int argc, char **argv);

#endif
