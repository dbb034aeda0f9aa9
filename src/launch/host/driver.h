/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch driver: its duty is to get the agent running at these places, to say when one dies, and
 * to stop them; and, where the platform has a queue, to hand jobs to it, and to say what has
 * become of them. Ranks, signals, output, readiness and teardown are the session's and equal for
 * all.
 *
 * docs/drivers.md says how to add one. There is no registration by side effect.
 *
 * Thread rule: all calls and callbacks in the loop's thread; nothing blocks for longer than a fork,
 * but where it says so.
 */
#ifndef RG_LAUNCH_HOST_DRIVER_H
#define RG_LAUNCH_HOST_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "launch/jobs/submitted.h"
#include "spec/job/job.h"
#include "spec/job/platform.h"

#define RG_DRIVER_REMARK_MAX 512

struct rg_plan;

/* How far a host is. A driver tells the first four; the rest is for the session to know. */
enum rg_host_phase {
    RG_PHASE_PENDING, RG_PHASE_STARTING, RG_PHASE_PULLING, RG_PHASE_CONNECTING, RG_PHASE_READY,
    RG_PHASE_RUNNING, RG_PHASE_ENDED, RG_PHASE_LOST
};

/* What the driver tells the session. host: index into plan->hosts. */
struct rg_driver_events {
    /* An agent can be talked to over these descriptors (taken by the session; may be equal). The
     * session runs the link's handshake; initiator tells which side the agent takes. */
    void (*on_connected)(void *arg, int host, int take_read_fd, int take_write_fd);
    /* A remark while starting: phase is one of enum rg_host_phase. */
    void (*on_phase)(void *arg, int host, int phase, const char *reason);
    /* A remark of the host's or its agent's for the user. */
    void (*on_note)(void *arg, int host, const char *text);
    /* The agent is gone, or never came: err says why. Called at most once per host. */
    void (*on_gone)(void *arg, int host, const struct rg_error *err);
};

/* How what the job is to run on is got. */
struct rg_acquire_options {
    struct rg_loop *loop;     /* used until on_done */
    const struct rg_job *job; /* dry_run: nothing is asked for, what is there is looked at */
    /* A remark for the user, such as what is waited for. */
    void (*on_say)(void *arg, const char *text);
    /* Once, but not from within acquire. err: why it cannot be had, with exit_code; NULL: it is
     * there. */
    void (*on_done)(void *arg, const struct rg_error *err);
    void *arg;
};

struct rg_driver_options {
    struct rg_loop *loop;
    const struct rg_job *job;
    const struct rg_plan *plan;
    void *held;         /* what acquire made; NULL: nothing */
    const uint8_t *key; /* the job's key, RG_KEY_NBYTES: reaches agents over standard input or the
                           like, never by argv or environment */
    const struct rg_driver_events *events;
    void *arg;
};

/* A part of the vtable of a driver that reigen-agent has too (drivers_agent.c), but for which its
 * head has no use and no room. */
#ifdef RG_AGENT
#define RG_LAUNCHER_ONLY(part) NULL
#else
#define RG_LAUNCHER_ONLY(part) part
#endif

struct rg_driver_ops {
    const struct rg_platform platform; /* its name, its options, and what is true of it */
    /* NULL, or: begin to get what the job is to run on, which may take as long as a queue is. 0,
     * and on_done follows; or -errno with exit_code. */
    int (*acquire)(const struct rg_acquire_options *options, void **ret_held,
                   struct rg_error *err);
    /* Give it back, at any time after acquire and once: on_done, if it has not come, does not come.
     * A session that uses it was destroyed before. May block for seconds. Frees held. */
    void (*release)(void *held);
    /* Fill in what the platform knows: hosts when the job names none, slots and cores. held: what
     * acquire has got, or NULL. Does not block. 0 or -errno with exit_code 69 or 77. */
    int (*discover)(void *held, struct rg_job *job, struct rg_error *err);
    /* Begin starting agents for all hosts of the plan; outcomes come as events. 0 or -errno. */
    int (*start)(const struct rg_driver_options *options, void **ret_state, struct rg_error *err);
    /* NULL, or: an agent was told to stop, not by us; what that means here. Borrowed until
     * destroy. by_root: the launcher itself was told to, by root; NULL: that means nothing here. */
    const char *(*stopping)(void *state, bool by_root);
    /* NULL, or: at the end of a job whose ranks were killed, or an agent or the launcher told to
     * stop: whether the platform did it, why, and the exit code for that; NULL: it did not, or
     * nobody knows. Blocks for 3 s at most. Borrowed until destroy. */
    const char *(*ending)(void *state, int *ret_exit_code);
    /* NULL, or: what a host whose agent is not there yet has said last, for a message; "" when it
     * was nothing. Into buf, which is returned. */
    const char *(*said)(void *state, int host, char *buf, size_t nbytes);
    /* Make sure that this host's agent ends, hard, if it has not by itself. on_gone follows. */
    void (*stop)(void *state, int host);
    /* Free everything; agents that still run are ended, hard. No event follows. */
    void (*destroy)(void *state);
    /* NULL, or: whether there is something to say of a job that is not this platform's, but could
     * be: into buf, of RG_DRIVER_REMARK_MAX bytes. Main thread; does not block. */
    bool (*remark)(const struct rg_job *job, char *buf, size_t nbytes);

    /* Jobs that the platform runs when it can; all of them NULL where platform.queues is false.
     * They need no session and no state. They block while the platform's programs answer, for at
     * most some 10 s each. An error that has no exit code counts as 69. */

    /* Hand `reigen ARGV...` over, ARGV being "head", "--plan" and a file: it, or `reigen-agent
     * ARGV...` where that has this driver, is to run, and to add `exit CODE` to its file, and
     * `begin` before where a job may run again (launch/jobs/submitted.h). ret_job has its platform;
     * set its id, log (allocated) and, if need be, cluster. 0 or -errno. */
    int (*submit)(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                  struct rg_error *err);
    /* Fill in what the platform says of those whose state is RG_SUBMITTED_UNKNOWN, with as few
     * questions as it takes. 0; -errno: of some it is still unknown, and err says why. */
    int (*status)(struct rg_submitted_job *jobs, size_t count, struct rg_error *err);
    /* NULL: the output is the file `log`, which is there or will be. Or: write what there is of the
     * output to fd, with `follow` also what comes until the job's end. 0 or -errno. */
    int (*logs)(const struct rg_submitted_job *job, bool follow, int fd, struct rg_error *err);
    /* End it, and wait until it has ended, for at most a minute. 0 or -errno. */
    int (*cancel)(struct rg_submitted_job *job, struct rg_error *err);
};

#endif
