/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One running job, from plan to verdict: the state machine that starts agents through a driver,
 * waits until all are ready, has the ranks started, carries input and output, notices every death,
 * and ends everything.
 *
 * core/session_core.h draws the machine. Any failure before RUNNING leads to ENDING with its cause.
 * When a host cannot be started, the others have 12 s to come or to fail, so that one cause names
 * all that fail (the doctor waits until it is known of all). A rank that ends with a code other
 * than 0 or by a signal leads to ENDING. Ranks that use our runtime have been told of the failure
 * by then, as an error of what they were doing, and have 2 s to report and to save what they can;
 * then comes SIGTERM and, after the grace time, SIGKILL. It prints nothing: what happens is
 * reported through rg_session_ops.
 *
 * Thread rule: all of it runs in the loop's thread; callbacks come from the loop and may call any
 * rg_session_* function except rg_session_destroy, which is called after on_ended returned.
 */
#ifndef RG_LAUNCH_SESSION_SESSION_H
#define RG_LAUNCH_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/diagnosis/diagnosis.h"
#include "launch/session/core/session_options.h"
#include "launch/verdict/tail.h"
#include "wire/numbers.h"

/* Begin. 0 and the session runs in the loop; or -errno with err, exit_code set (69 when the
 * platform is not available, ...). */
int rg_session_create(const struct rg_session_options *options, struct rg_session **ret_session,
                      struct rg_error *err);
void rg_session_destroy(struct rg_session *session); /* NULL is fine; ends what still runs, hard */

/* Why this host could not be started; NULL: it could, or it is not known. Borrowed. */
const char *rg_session_unstarted(const struct rg_session *session, int host);

/* Bytes for the ranks that get standard input; NULL and 0: end of file. Returns the bytes taken
 * (fewer, even 0, when buffers are full: on_input_ready tells when to come again) or -EPIPE when
 * nobody reads any more. */
int rg_session_input(struct rg_session *session, const void *data, size_t nbytes);

/* Forward a signal to every rank's process group (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,
 * SIGTSTP, SIGCONT, SIGWINCH). SIGINT and SIGTERM also begin the end: SIGKILL after the grace time.
 * SIGTSTP stops the ranks and pauses the lease; SIGCONT resumes both. */
void rg_session_signal(struct rg_session *session, int signo);
/* The same with SIGTERM, and in the cause these words for who has sent it. */
void rg_session_stop(struct rg_session *session, const char *by);
/* To be called before that for a SIGTERM that the platform has sent us: whether it ends jobs so.
 * Then that is the cause, unless one is known. */
bool rg_session_evict(struct rg_session *session);
/* End now: SIGKILL. cause is kept for the verdict. */
void rg_session_kill(struct rg_session *session, const char *cause);
/* rows and columns of the rank's terminal (--pty). */
void rg_session_resize(struct rg_session *session, int rows, int columns);
/* Back-pressure: stop taking output from agents, or go on. No output is lost: ranks block
 * instead. */
void rg_session_pause_output(struct rg_session *session, bool pause);
/* Output could not be written (full disk): noted once; the job goes on, exit code 74 if all else is
 * well. */
void rg_session_output_lost(struct rg_session *session, const char *cause);

/* Waiting: it has not started. Spare: of an elastic job, its process waits for a number. */
enum rg_ranks_state {
    RG_RANKS_WAITING, RG_RANKS_RUNNING, RG_RANKS_SUCCEEDED, RG_RANKS_FAILED, RG_RANKS_SPARE,
    RG_RANKS_STATES
};

struct rg_session_counts {
    uint32_t epoch;             /* of an elastic job; 0: none has begun */
    int ranks[RG_RANKS_STATES]; /* of an elastic job, those of its epoch, and spare ones */
    int hosts[RG_PHASE_LOST + 1]; /* by enum rg_host_phase */
};

struct rg_session_rank {
    struct rg_numbers numbers; /* the last ones */
    uint64_t age_ns;           /* of them */
    int host;                  /* which of the plan's it runs on */
    bool ended;                /* no more will come */
};

void rg_session_count(const struct rg_session *session, struct rg_session_counts *ret_counts);
/* What is known of the rank in this place of the plan. False: it is no rank now, or nothing was
 * heard of it since it became one. */
bool rg_session_numbers(const struct rg_session *session, int place,
                        struct rg_session_rank *ret_rank);
/* The number that who is in this place has as a rank now; -1: none. */
int rg_session_number(const struct rg_session *session, int place);
/* The last lines that it wrote, as rg_tail_lines gives them: borrowed until the session goes on. */
size_t rg_session_last_lines(const struct rg_session *session, int place,
                             const char *ret_lines[RG_TAIL_LINES]);
/* Who is waited for now, and why; ranks are numbers, hosts the plan's. False: nobody has an
 * effect. */
bool rg_session_diagnose(const struct rg_session *session, struct rg_lateness *ret_diagnosis);
/* And for most of the time since the job, or its epoch, began. */
bool rg_session_slowed(const struct rg_session *session, struct rg_lateness *ret_diagnosis);

#endif
