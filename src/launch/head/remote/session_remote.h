/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote commands (reigen rsh): a client on one host, the command on another. The session has
 * questions of its own, too.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_REMOTE_SESSION_REMOTE_H
#define RG_LAUNCH_HEAD_REMOTE_SESSION_REMOTE_H

#include "launch/head/core/session_core.h"

/* Who hears of the answer to a command of the session's own. */
struct session_question {
    /* Some of its output, borrowed for the call. */
    void (*on_answer)(struct session_host *host, const uint8_t *text, size_t nbytes);
    /* It has ended, or is lost with its host. */
    void (*on_end)(struct session_host *host);
};

int session_remotes_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_remotes_destroy(struct rg_session *session);

/* A REMOTE_* message of an agent. 0, or -EBADMSG: it broke the rules. */
int session_on_remote(struct session_host *host, uint16_t type, const union rg_msg *msg);
/* It said BYE or is lost: its commands end for their clients, its clients' commands are hung up. */
void session_remote_host_gone(struct session_host *host);
/* Have a command run on a host; the question is borrowed. 0; -EHOSTUNREACH: it is not there, and
 * nothing will come. */
int session_remote_ask(struct session_host *target, const char *command,
                       const struct session_question *question);

#endif
