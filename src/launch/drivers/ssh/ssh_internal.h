/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ssh driver share. Nothing outside src/launch/drivers/ssh*.c includes it,
 * but tests.
 *
 *   ssh.c          the driver: hosts, the queue, stopping
 *   ssh_host.c     one host, from its process to its link, and that one's end
 *   ssh_command.c  ssh's command line, and the scripts that run on hosts
 *   ssh_config.c   what the user's ssh configuration speaks of
 *   ssh_explain.c  what ssh's messages mean, and what to do about them
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_DRIVERS_SSH_SSH_INTERNAL_H
#define RG_LAUNCH_DRIVERS_SSH_SSH_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/str.h"
#include "launch/host/driver.h"
#include "launch/host/agentfile.h"
#include "launch/host/leftover.h"
#include "launch/plan/plan.h"
#include "launch/host/preamble.h"

#define SSH_MACHINES 2 /* kinds of machines that there are agents for */

enum ssh_state {
    SSH_QUEUED,   /* waits for its turn */
    SSH_STARTING, /* its process runs; takes part in the window */
    SSH_WAITING,  /* sshd was busy: another try comes */
    SSH_LINKED,   /* the session has the link; the process runs */
    SSH_GONE,     /* the session knows, or is just about to */
};

struct ssh_host {
    struct ssh *ssh;
    int index;             /* in the plan */
    const char *name, *user; /* borrowed; user may be NULL */
    bool direct;           /* this computer: no ssh */
    enum ssh_state state;
    pid_t pid;             /* 0: no process */
    struct rg_child child;
    int fd;                /* our end of its standard input and output; -1 once linked */
    int err_fd;            /* its standard error */
    struct rg_io reader, writer, err_reader;
    struct rg_timer timer; /* another try, or patience with its end */
    struct rg_timer step;  /* until something of the start has to move */
    struct rg_timer sweeper;
    uint64_t sweep_deadline_ns;
    struct rg_preamble *preamble; /* while there is a process */
    struct rg_preamble *err_lines;
    struct rg_buf out;     /* for its standard input */
    bool said_ready, got_agent, got_bundle, said_error;
    bool stopped;          /* by us */
    unsigned tries;
    struct rg_error err;   /* for on_gone */
};

struct ssh {
    struct rg_driver_options o;
    struct ssh_host *hosts;
    int next;              /* the first that may be queued */
    int nstarting;
    bool advancing;        /* ssh_advance is on the stack */
    struct rg_leftover leftover;
    struct rg_agent_file agents[SSH_MACHINES];
    char agent_path[PATH_MAX]; /* for hosts that are this computer */
    struct rlimit nofile;  /* of our children: before we raised our own */
    char cwd[PATH_MAX];    /* ours, where ranks run where it is there */
    struct rg_strv notes;  /* that were shown */
    int connect_s;         /* ConnectTimeout for ssh; 0: the user's configuration says it */
    struct rg_strv env;    /* of our children: the caller's, without what is shared as a secret */
};

/* --- ssh.c ------------------------------------------------------------------------------------ */

/* A host left the window: start the next ones. */
void ssh_advance(struct ssh *ssh);

/* --- ssh_host.c ------------------------------------------------------------------------------- */

/* Start its process. 0 or -errno: this host can never be started. */
int ssh_host_start(struct ssh_host *host, struct rg_error *err);
/* What ssh and the host said last, while an agent is waited for; into buf, which is returned. */
const char *ssh_host_said(const struct ssh_host *host, char *buf, size_t nbytes);
/* End it, by force; tell_gone follows. */
void ssh_host_stop(struct ssh_host *host);
/* Let go of everything; a process that still runs is ended. No event follows. */
void ssh_host_fini(struct ssh_host *host);

/* --- ssh_command.c ---------------------------------------------------------------------------- */

/* ssh's argument list for this host. 0 or -ENOMEM. */
int ssh_command_make(const struct ssh_host *host, struct rg_strv *argv);
/* What the remote login shell is to run: no quote, backslash, newline or '!' stands in it where
 * a Bourne shell, csh or fish would read it differently. Appended to text. */
void ssh_command_bootstrap(const struct ssh_host *host, struct rg_buf *text);
/* The answer to `need agent`: a line of script that takes the agent's bytes, which follow. */
void ssh_command_installer(const struct ssh_host *host, struct rg_buf *text);

/* --- ssh_config.c ----------------------------------------------------------------------------- */

/* Whether these options for ssh, or else its configuration files (the user's and the system's, or
 * that of an option -F), set this keyword for any host. Blocks: reads the files. */
bool ssh_config_says(const struct rg_strv *options, const char *keyword);

/* --- ssh_explain.c ---------------------------------------------------------------------------- */

enum ssh_retry { SSH_RETRY_NO, SSH_RETRY_FEW, SSH_RETRY_ON };

struct ssh_explanation {
    int exit_code;
    enum ssh_retry retry;
    char text[RG_ERROR_TEXT_MAX]; /* cause and remedy */
};

/* What a connection that brought no agent failed of. said: ssh's first and last lines, and the
 * host's, joined by "; "; how: "exit code 255". */
void ssh_explain(const char *host, int port, const char *said, const char *how,
                 struct ssh_explanation *ret_explanation);

#endif
