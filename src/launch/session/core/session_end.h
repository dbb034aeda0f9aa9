/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session ends: its own cause, the signals to the ranks with the times between them, and the
 * verdict once nothing is left.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_CORE_SESSION_END_H
#define RG_LAUNCH_SESSION_CORE_SESSION_END_H

#include "launch/session/core/session_core.h"

extern const struct session_part session_end_part;

/* Keep the cause, unless there is one; exit_code belongs to it. Whether it is kept. */
bool session_set_cause(struct rg_session *session, int exit_code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Of a cause that was just kept: somebody has sent the signal to an agent, or to us
 * (RG_EXIT_PREEMPTED). why: the platform's words, which the end may better; NULL: it has none. */
void session_cause_is_stop(struct rg_session *session, int signo, const char *why);
/* It is a signal that reigen got, or handed on: after it a good end of all ranks is one. */
void session_cause_is_signal(struct rg_session *session);
/* It came before any rank failed, though we hear of it later. */
void session_cause_was_first(struct rg_session *session);
bool session_has_cause(const struct rg_session *session);

/* Begin the end, whose cause was set: ranks get SIGTERM, then KILL after the grace time. */
void session_begin_end(struct rg_session *session);
/* The same, where ranks may save their work: if one has asked for that, all are told first, and get
 * SIGTERM when three quarters of the time are over. That is within_ms, until SIGKILL; 0: the grace
 * time, or after session_cause_is_stop what the platform leaves. Ranks that have met are asked
 * where their programs are before they get SIGTERM, and have WHERE_MS for the answer. */
void session_begin_stop(struct rg_session *session, uint64_t within_ms);
/* A rank has asked for that. */
void session_wants_notice(struct rg_session *session);
/* All ranks have met: who was not connected when the others were told hears of it now. */
void session_end_met(struct rg_session *session);
/* A rank has said where it is, which they are asked at the beginning of a stop. */
void session_end_told_where(struct rg_session *session);
/* The same as session_begin_end, for this cause unless there is one. */
void session_end_by_error(struct rg_session *session, const struct rg_error *err);
/* The same by this signal that the user has sent: as session_begin_stop by SIGTERM. A later one is
 * handed on, but not while the ranks save their work: it may be the same, by another way. */
void session_end_by_user(struct rg_session *session, int signo);
/* Of a job whose ranks meet again, in the same processes, when some are lost (or do not): from
 * session_begin_stop on all goes on as if nothing was, but the ranks are told. So those that are
 * about to meet do so, and save as well. That is so while it is noticed, until a rank has ended by
 * itself, or the time is over. */
void session_goes_on(struct rg_session *session, bool meets);
bool session_is_noticed(const struct rg_session *session);
void session_notice_over(struct rg_session *session);
/* The user has sent one that ends jobs. */
bool session_was_signalled(const struct rg_session *session);
/* Now, by KILL: the owner wants it, for this cause unless there is one. */
void session_abandon(struct rg_session *session, const char *cause);
/* Send a signal to all ranks. */
void session_send_signal(struct rg_session *session, int signo);
/* The job is stopped (Ctrl-Z), or goes on. */
void session_pause(struct rg_session *session, bool pause);

/* A rank failed. When their runtimes were told of it, the others get TELL_MS to say what they lost
 * and to save what they can: their call has returned with the error already. Else they get SAME_MS
 * after an exit code, to fail by the same error. */
void session_end_after_failure(struct rg_session *session, bool told);
/* Enough tasks have succeeded: end the others; the job has ended well however they end. */
void session_end_well(struct rg_session *session);
/* A rank that was cut off by this one's end has failed: before the ranks are stopped, this one gets
 * LEAVE_MS to end by itself, as its exit code may be the cause; and when it has. */
void session_await(struct rg_session *session, int rank);
void session_awaited_ended(struct rg_session *session);

/* Output could not be written: exit code 74 if all else is well. */
void session_lost_output(struct rg_session *session, const char *cause);
/* The verdict, from the loop, once nothing is left. */
void session_check_end(struct rg_session *session);

#endif
