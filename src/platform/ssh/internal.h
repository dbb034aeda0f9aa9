/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ssh driver share. Nothing outside src/platform/ssh includes it, but
 * tests.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_PLATFORM_SSH_INTERNAL_H
#define RG_PLATFORM_SSH_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "launch/host/dialogue.h"
#include "launch/host/leftover.h"
#include "launch/plan/plan.h"

#define RG_SSH_WINDOW 64 /* hosts that are being connected at once */

struct ssh_host;

/* What all hosts share. */
struct ssh {
    struct rg_dialogue_shared shared;
    struct ssh_host **hosts; /* as in the plan */
    int next;              /* the first that may be queued */
    int nstarting;         /* hosts in the window */
    bool advancing;        /* ssh_advance is on the stack */
    struct rg_leftover leftover;
    int connect_s;         /* ConnectTimeout for ssh; 0: the user's configuration says it */
    bool accepts_new;      /* keys of hosts that nobody can have seen before, */
    bool forgets;          /* or only under names that other hosts have had */
    const char *exec;      /* in the place of ssh (RG_JOB_EXEC); borrowed, or NULL */
    struct rg_strv env;    /* of our children: the caller's, without what is shared as a secret */
};

/* --- ssh.c ------------------------------------------------------------------------------------ */

/* A host left the window: start the next ones. */
void ssh_advance(struct ssh *ssh);

/* --- host.c ----------------------------------------------------------------------------------- */

/* Host number index of the plan, queued. direct: it is this computer. NULL: out of memory. */
struct ssh_host *ssh_host_create(struct ssh *ssh, int index, bool direct);
bool ssh_host_is_direct(const struct ssh_host *host);
/* If it is queued, start its process: it then takes part in the window. */
void ssh_host_start(struct ssh_host *host);
/* driver.h; state: struct ssh. */
const char *ssh_said(void *state, int host, char *buf, size_t nbytes);
void ssh_stop(void *state, int host);
/* Let go of everything; a process that still runs is ended. No event follows. True where an agent
 * on this computer was ended so, and may have left processes to us. NULL is fine. */
bool ssh_host_destroy(struct ssh_host *host);

/* --- command.c -------------------------------------------------------------------------------- */

/* ssh's argument list for this host of the plan. 0 or -ENOMEM. */
int ssh_command_make(const struct ssh *ssh, int host, struct rg_strv *argv);
/* What the remote login shell is to run: no quote, backslash, newline or '!' stands in it where
 * a Bourne shell, csh or fish would read it differently. Appended to text. */
void ssh_command_bootstrap(const struct ssh *ssh, struct rg_buf *text);
/* The answer to `need agent`: a line of script that takes the agent's bytes, which follow. */
void ssh_command_installer(const struct ssh *ssh, int host, struct rg_buf *text);

/* Whether these options for ssh, or else its configuration files (the user's and the system's, or
 * that of an option -F), set this keyword for any host. Blocks: reads the files. */
bool ssh_config_says(const struct rg_strv *options, const char *keyword);

/* --- explain.c -------------------------------------------------------------------------------- */

/* COMING: only where hosts may not be there yet (rg_job.hosts_come), as FEW is then without end. */
enum ssh_retry { SSH_RETRY_NO, SSH_RETRY_COMING, SSH_RETRY_FEW, SSH_RETRY_ON };

struct ssh_explanation {
    int exit_code;
    enum ssh_retry retry;
    char text[RG_ERROR_TEXT_MAX]; /* cause and remedy */
};

/* What a connection that brought no agent failed of. said: ssh's first and last lines, and the
 * host's, joined by "; "; how: "exit code 255". */
void ssh_explain(const char *host, int port, const char *said, const char *how,
                 struct ssh_explanation *ret_explanation);
/* The same of kubectl exec. */
void ssh_explain_exec(const char *said, const char *how, struct ssh_explanation *ret_explanation);
/* Whether kubectl exec ends so when all of the container has, or is out of reach. */
bool ssh_exec_is_cut(int exit_code, const char *said);

#endif
