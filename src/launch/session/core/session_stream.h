/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' output on its way to the owner: delivered at once, or kept while the owner takes none,
 * and acknowledged when it was taken. Also the last lines of each rank, for the verdict. Standard
 * input on its way to the hosts whose ranks read it, each under its own credit: the slowest one
 * sets the pace.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_CORE_SESSION_STREAM_H
#define RG_LAUNCH_SESSION_CORE_SESSION_STREAM_H

#include "launch/session/core/session_core.h"

struct rg_mark;

extern const struct session_part session_output_part, session_input_part;

/* Output came: deliver or keep. Takes the data. 0; -EBADMSG: after the stream's end, or more than
 * the window; -ENOMEM. */
int session_on_output(struct session_host *host, int rank, int stream, struct rg_span *take_data);
/* The ends of a rank's streams that have not come. */
void session_output_end(struct session_host *host, int rank);
/* A process of this rank has started, with streams of its own. */
void session_output_begin(struct rg_session *session, int rank);
/* The owner takes no more for now, or again. */
void session_output_pause(struct rg_session *session, bool pause);
/* Forget what was not delivered if the owner, who abandoned the session, takes none. discard: even
 * if it did, and also what still comes. */
void session_output_drop(struct rg_session *session, bool discard);
/* Some of it is not delivered. */
bool session_output_waits(const struct rg_session *session);
/* Fill in what the verdict compares: rg_fact's lines and error, of all ranks. */
void session_output_hash(struct rg_session *session);
/* As rg_tail_lines, of a rank. */
size_t session_output_last_lines(const struct rg_session *session, int rank,
                                 const char **ret_lines);
/* The same of its standard error alone. The launcher has it. */
size_t session_output_last_errors(const struct rg_session *session, int rank,
                                  const char **ret_lines);
/* As rg_marks_take, of a rank of a job that may be started again. */
void session_output_marks(const struct rg_session *session, int rank, struct rg_mark *ret_mark);

/* As rg_session_input. */
int session_input_put(struct rg_session *session, const void *data, size_t nbytes);
/* The ranks have been told to start. */
void session_input_start(struct rg_session *session);
/* A host takes so many bytes more. 0, or -EBADMSG: it broke the rules. */
int session_on_input_credit(struct session_host *host, uint64_t nbytes);
/* Its ranks take no more. */
void session_on_input_closed(struct session_host *host);
/* A host may take no more: tell the owner if it waits for that. */
void session_input_go_on(struct rg_session *session);

#endif
