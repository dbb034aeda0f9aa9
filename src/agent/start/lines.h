/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an agent learns whom to serve: a few lines on its standard input, so that the job's key never
 * stands in an argument list, an environment or a file.
 *
 *     reigen-agent 4             the protocol's version
 *     job j-3f9c01               the job's id
 *     key <64 hexadecimal digits>
 *     link fd 3                  an inherited, connected stream socket; or
 *     link stdio                 standard input and output, as ssh gives them. The agent then first
 *                                writes the line "reigen-boot link" (launch/host/preamble.h); or
 *     link socket                the socket that is both standard input and output; or
 *     link dial A:PORT,B:PORT    a connection that the agent makes itself, see dial.h
 *     announce NAME              optional: hold the abstract unix socket NAME
 *     place $SLURMD_NODENAME     with `link dial`: who is calling; the value of a variable, or text
 *     cwd /data/mnist            optional: be in this directory, if it is here (the launcher's)
 *     guard on                   optional: leave a parent behind, see guard.h; or
 *     guard report               one that reports on standard input, which is a socket
 *     tracked on                 optional: started by Slurm, which may signal all processes itself
 *     dir /reigen/run            optional: the directory for the job's files (jobdir.h), made by
 *                                whoever made the container
 *                                (an empty line or the end of the input closes the list)
 *
 * With `link stdio` the sender writes nothing between the empty line and the agent's first word, so
 * that no byte of the link can be read with the lines.
 *
 * Thread rule: main thread. rg_agent_lines_read blocks until the lines are there.
 */
#ifndef RG_AGENT_START_LINES_H
#define RG_AGENT_START_LINES_H

#include <stdbool.h>

#include "agent/start/dial.h"
#include "agent/start/guard.h"
#include "base/error.h"
#include "wire/link.h"

#define RG_AGENT_LINES_MAX 4096 /* bytes of all lines */
#define RG_AGENT_LINES_DIR_MAX 200
#define RG_AGENT_LINES_CWD_MAX 1023
#define RG_AGENT_LINES_DIAL_MAX 511
#define RG_AGENT_LINES_ANNOUNCE_MAX 100

struct rg_agent_lines {
    char job_id[RG_JOB_ID_MAX + 1];
    uint8_t key[RG_KEY_NBYTES];
    char job_dir[RG_AGENT_LINES_DIR_MAX + 1]; /* "": none is given */
    char cwd[RG_AGENT_LINES_CWD_MAX + 1];     /* "": where it was started */
    char dial[RG_AGENT_LINES_DIAL_MAX + 1];   /* link dial: where to; then link_fd is -1 */
    char place[RG_AUTH_PLACE_MAX + 1];
    char announce[RG_AGENT_LINES_ANNOUNCE_MAX + 1]; /* "": nothing is held */
    enum rg_guard guard;
    pid_t guard_pid;   /* not of the lines: the guard, once there is one; else 0 */
    bool tracked;      /* who signals the agent may have signalled its ranks, too (ranks/once.h) */
    bool waits;        /* not of the lines: for VERDICT after BYE; and before START it may end, and
                        * be run again (agent/pod/pod.h) */
    bool ends_alike;   /* likewise: it ends with the exit code of VERDICT, and not with 75 */
    bool silent;       /* link socket: nothing comes before the link */
    int link_fd;       /* read from here */
    int link_write_fd; /* and written to here: the same, or 1 when link_fd is 0 (link stdio) */
    int keeper_fd;     /* in a container: its end is the end of `contain`; -1 elsewhere */
};

/* Judge the text of these lines. 0 or -EINVAL; err names the line. text is not changed. */
int rg_agent_lines_parse(const char *text, struct rg_agent_lines *ret_boot, struct rg_error *err);

/* Read them from fd and parse them. 0; -EINVAL; -EMSGSIZE beyond RG_AGENT_LINES_MAX; -EPIPE when
 * the input ends before a line came; another -errno of read. What was read is wiped. */
int rg_agent_lines_read(int fd, struct rg_agent_lines *ret_boot, struct rg_error *err);

#endif
