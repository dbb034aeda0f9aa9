/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One running job, from plan to verdict: the state machine that starts agents through a driver,
 * waits until all are ready, has the ranks started, carries input and output, notices every death,
 * and ends everything.
 *
 *      PLANNED -> STARTING (agents) -> READY (all said hello) -> RUNNING -> ENDING -> ENDED
 *
 * Any failure before RUNNING leads to ENDING with its cause; when a host cannot be started, the
 * others have 12 s to come or to fail, so that one cause names all that fail (the doctor waits
 * until it is known of all). A rank that ends with a code other
 * than 0 or by a signal leads to ENDING: the other ranks get SIGTERM and, after the grace time,
 * SIGKILL. Ranks that use our runtime have been told of the failure by then, as an error of what
 * they were doing, and get 2 s before the SIGTERM to report and save what they can. It is linked
 * into reigen and into reigen-agent's head; it prints nothing: what happens is reported through
 * rg_session_ops.
 *
 * Thread rule: all of it runs in the loop's thread; callbacks come from the loop and may call any
 * rg_session_* function except rg_session_destroy, which is called after on_ended returned.
 */
#ifndef RG_LAUNCH_HEAD_SESSION_H
#define RG_LAUNCH_HEAD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "launch/host/driver.h"
#include "launch/plan/plan.h"
#include "spec/job/job.h"

struct rg_doctor_input;
struct rg_session;

enum rg_end { RG_END_EXIT, RG_END_SIGNAL, RG_END_NOT_STARTED, RG_END_LOST };

/* How one rank ended. */
struct rg_rank_end {
    int rank;
    const char *host;     /* borrowed from the plan */
    const char *engine;   /* what "rank 0" really is, such as "mpirun"; borrowed. NULL: a rank */
    enum rg_end end;
    int value;            /* exit code, signal number, or errno for NOT_STARTED */
    bool oom;             /* the kernel's out-of-memory killer did it, or ended a process of it */
    const char *memory;   /* ... and which limit that was; "" or NULL: not known */
    bool consequence;     /* it died because of another rank or of us (stopped by the session) */
    bool same;            /* in a verdict: it had the first's error by itself, or is that first */
    bool in_runtime;      /* its runtime had not been shut down */
    /* last report of the rank's runtime ("mismatch ..."), or "" */
    const char *note;
    uint64_t at_ns;       /* since the session's start, launcher's clock */
};

/* The end of the job. Strings are borrowed from the session. */
struct rg_verdict {
    int exit_code;                  /* by the documented table */
    bool ok;                        /* all ranks ended with 0 and nothing was lost */
    const char *cause;              /* "rank 2 on localhost: exit code 7"; "" when ok; of hosts
                                     * that could not be started one line each, without an end */
    /* who failed first, or NULL (a host, a limit, a signal to reigen); exit code 0: it left while
     * others waited for it, and so made them fail */
    const struct rg_rank_end *first;
    const struct rg_rank_end *code_of; /* whose end exit_code tells: first, or one it made fail */
    const char *const *last_lines;  /* first's last lines of output, oldest first */
    size_t nlast_lines;
    const struct rg_rank_end *ends; /* of all ranks that were to run, by rank; plan->nranks */
    int nends;
    uint64_t elapsed_ns;
};

struct rg_session_ops {
    /* A host changed phase; reason may be "". */
    void (*on_phase)(void *arg, int host, enum rg_host_phase phase, const char *reason);
    /* All agents are ready and the ranks have been told to start / rank runs as pid on its host. */
    void (*on_running)(void *arg);
    /* cpus: which it is bound to, "0-3,8"; "": not bound. */
    void (*on_rank_started)(void *arg, int rank, int pid, const char *cpus);
    /* Output of a rank as it came; stream 1 or 2; nbytes 0: that stream's end. Return how many
     * bytes more the consumer can take now is not asked: a slow consumer calls
     * rg_session_pause_output. */
    void (*on_output)(void *arg, int rank, int stream, const uint8_t *data, size_t nbytes);
    /* After rg_session_input took less than it was given: now it takes more, or says -EPIPE. It may
     * be called from here. */
    void (*on_input_ready)(void *arg);
    void (*on_rank_ended)(void *arg, const struct rg_rank_end *end);
    /* With options.doctor, instead of on_running: what was found, borrowed for the call. The
     * session ends by itself, nothing was started. */
    void (*on_examined)(void *arg, const struct rg_doctor_input *found);
    /* A remark worth showing: stall reports, warnings of agents. rank -1: of a host. */
    void (*on_note)(void *arg, int rank, const char *text);
    /* Everything is over and gone; called once, last. */
    void (*on_ended)(void *arg, const struct rg_verdict *verdict);
};

struct rg_session_options {
    struct rg_loop *loop;              /* borrowed */
    const struct rg_job *job;          /* borrowed, unchanged until the end */
    struct rg_plan *plan;              /* borrowed; its hosts get their addresses */
    const struct rg_driver_ops *driver;
    void *held;                        /* what its acquire has got, or NULL; borrowed */
    const struct rg_session_ops *ops;  /* borrowed */
    void *arg;
    bool doctor;                       /* look at the hosts, start nothing */
};

/* Begin. 0 and the session runs in the loop; or -errno with err, exit_code set (69 when the
 * platform is not available, ...). */
int rg_session_create(const struct rg_session_options *options, struct rg_session **ret_session,
                      struct rg_error *err);
void rg_session_destroy(struct rg_session *session); /* NULL is fine; ends what still runs, hard */

/* Why this host could not be started; NULL: it could, or it is not known. Borrowed. */
const char *rg_session_unstarted(const struct rg_session *session, int host);

/* Bytes for the ranks that get standard input; NULL and 0: end of file. Returns the bytes taken
 * (fewer, even 0, when buffers are full: on_input_ready tells when to come again) or -EPIPE when
 * nobody reads any more. All hosts together hold at most RG_INPUT_MEMORY of it here and on the way,
 * or RG_INPUT_LEAST each where that is more. */
#define RG_INPUT_MEMORY (64u << 20)
#define RG_INPUT_LEAST (256u << 10)
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
/* rows and columns of rank 0's terminal (--pty). */
void rg_session_resize(struct rg_session *session, int rows, int columns);
/* Back-pressure: stop taking output from agents, or go on. No output is lost: ranks block
 * instead. */
void rg_session_pause_output(struct rg_session *session, bool pause);
/* Output could not be written (full disk): noted once; the job goes on, exit code 74 if all else is
 * well. */
void rg_session_output_lost(struct rg_session *session, const char *cause);

#endif
