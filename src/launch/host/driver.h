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

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "launch/jobs/submitted.h"
#include "job/job.h"
#include "job/platform.h"
#include "wire/link.h"

#define RG_DRIVER_REMARK_MAX 512

struct rg_plan;
struct rg_planned; /* launch/plan/plan_file.h */
struct rg_outlook; /* launch/host/outlook.h */
struct rg_pod_platform; /* platform/common/pod.h */

/* How far a host is. A driver tells the first four; the rest is for the session to know. */
enum rg_host_phase {
    RG_PHASE_PENDING, RG_PHASE_STARTING, RG_PHASE_PULLING, RG_PHASE_CONNECTING, RG_PHASE_READY,
    RG_PHASE_RUNNING, RG_PHASE_ENDED, RG_PHASE_LOST
};

/* What the driver tells the session. host: index into plan->hosts. */
struct rg_driver_events {
    /* An agent can be talked to over these descriptors (taken by the session; may be equal). The
     * session runs the link's handshake; initiator tells which side the agent takes. Once for a
     * host, but for one that is `unseen`. */
    void (*on_connected)(void *arg, int host, int take_read_fd, int take_write_fd);
    /* A remark while starting: phase is one of enum rg_host_phase. */
    void (*on_phase)(void *arg, int host, int phase, const char *reason);
    /* A remark of the host's or its agent's for the user. */
    void (*on_note)(void *arg, int host, const char *text);
    /* The agent is gone, or never came: err says why; with errnum ECONNRESET all of its host may
     * be gone. Called at most once per host. */
    void (*on_gone)(void *arg, int host, const struct rg_error *err);
    /* The platform takes this host, of an elastic job, away for good: it is not to be added again.
     * Before its on_gone, which follows: in order, so that it has not failed. */
    void (*on_taken)(void *arg, int host);
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

#define RG_FOLLOW_LEFT -2

/* How somebody stays with a job that runs elsewhere. */
struct rg_follow_options {
    struct rg_loop *loop;
    const struct rg_submitted_job *submitted; /* borrowed until unfollow */
    const struct rg_job *job; /* while it starts: as submitted, borrowed likewise; NULL: its start
                                 is not looked after */
    int nhosts;               /* the plan's; 0: of those nothing is told */
    int nlast;                /* of what was written before, tell so many lines; 0: all */
    /* As in struct rg_driver_events. */
    void (*on_phase)(void *arg, int host, int phase, const char *reason);
    /* All hosts run; on_phase comes no more, unless the job is started again. NULL: nobody wants to
     * know. */
    void (*on_running)(void *arg);
    /* What the job writes, whole lines, each once. */
    void (*on_output)(void *arg, const void *bytes, size_t nbytes);
    /* A remark for the user. */
    void (*on_say)(void *arg, const char *text);
    /* Once: it is over, and nothing of it is left to be waited for. exit_code: the head's; -1: it
     * could not say one; RG_FOLLOW_LEFT: the job goes on, but nobody can stay with it, or end it.
     * err: what is to be said of the end that the job itself has not said, or why it is left, with
     * exit_code; NULL: nothing. */
    void (*on_done)(void *arg, int exit_code, const struct rg_error *err);
    void *arg;
};

/* A part of a driver that reigen-agent has too (platform/table.inc), but for which its head has no
 * use and no room; and one for which only the agent has use. */
#ifdef RG_AGENT
#define RG_LAUNCHER_ONLY(part) NULL
#define RG_AGENT_ONLY(part) part
#else
#define RG_LAUNCHER_ONLY(part) part
#define RG_AGENT_ONLY(part) NULL
#endif

/* The queue of a platform that has one (platform.queues): jobs that it runs when it can. They need
 * no session and no state. They block while the platform's programs answer, for at most some 10 s
 * each. An error that has no exit code counts as 69. */
struct rg_queue_ops {
    /* Hand `reigen ARGV...` over, ARGV being "head", "--plan" and a file: it, or `reigen-agent
     * ARGV...` where that has this driver, is to run, and to add `exit CODE` to its file, and
     * `begin` before where a job may run again (launch/jobs/submitted.h). ret_job has its platform;
     * set its id, log (allocated) and, if need be, cluster and remarks. 0 or -errno. Where nobody
     * can say whether the platform has the job, that is an error, too, with all of these set. */
    int (*submit)(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                  struct rg_error *err);
    /* NULL, or: job->notice_ms of what is handed over, where the platform alone knows it; 0: it
     * does not say. */
    uint64_t (*notice_ms)(void);
    /* Fill in what the platform says of those whose state is RG_SUBMITTED_UNKNOWN, with as few
     * questions as it takes. 0; -errno: of some it is still unknown, and err says why. */
    int (*status)(struct rg_submitted_job *jobs, size_t count, struct rg_error *err);
    /* NULL: the output is the file `log`, which is there or will be. Or: write what there is of the
     * output to fd, with `follow` also what comes until the job's end. on_say: as follow's, for
     * what the output does not have, also why the platform has ended the job. 0 or -errno. */
    int (*logs)(const struct rg_submitted_job *job, bool follow, int fd,
                void (*on_say)(void *arg, const char *text), struct rg_error *err);
    /* NULL: there is no way. Or: the words of a program that runs `reigen-agent ARGV...` beside the
     * head of a job that runs, where that is, with our own standard input and output: appended to
     * words. 0 or -errno. */
    int (*beside)(const struct rg_submitted_job *job, char *const *argv, struct rg_strv *words,
                  struct rg_error *err);
    /* End it, and wait until it has ended, for at most a minute. 0 or -errno. */
    int (*cancel)(struct rg_submitted_job *job, struct rg_error *err);
};

/* Of a platform that is away (platform.away), where reigen run submits the job and stays with it.
 * The plan has its hosts already, by discover. */
struct rg_away_ops {
    /* What submit would hand over, as the platform's own program takes it, for --dry-run: appended
     * to text. No secret is in it. What the user is to know of it is added to planned->notes. 0 or
     * -errno. */
    int (*describe)(struct rg_planned *planned, struct rg_buf *text, struct rg_error *err);
    /* What would become of the job if it were submitted now, for `reigen plan`. Nothing is made.
     * outlook is zeroed at first. Blocks while the platform's programs answer. 0; -errno with err:
     * nobody could be asked. */
    int (*outlook)(const struct rg_planned *planned, struct rg_outlook *outlook,
                   struct rg_error *err);
    /* Look a job up that may have been submitted from another computer. job has its platform and
     * id; its cluster, log and command are set, unless it has them. where, which: what the caller
     * has said by the two options of platform.places; NULL: the default. The names of its hosts
     * are appended. 0; -ENOENT: there is no such job; other -errno; with err. */
    int (*find)(struct rg_submitted_job *job, const char *where, const char *which,
                struct rg_strv *hosts, struct rg_error *err);
    /* Begin to stay with a job. Does not block. 0 and what the next two take, or -errno. */
    int (*follow)(const struct rg_follow_options *options, void **ret_state, struct rg_error *err);
    /* Begin to end the job; on_done follows when it is gone. Twice is fine. */
    void (*end)(void *state);
    /* Let go of it, whatever it does. No event follows. Frees state. */
    void (*unfollow)(void *state);
};

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
    /* NULL, or: without --on a job on other hosts than this computer is this platform's, as this
     * process's environment says. */
    bool (*calls)(void);
    /* NULL, or: how an agent finds out that it is in a pod, or task, of this platform's, where
     * nobody tells it what to do. */
    const struct rg_pod_platform *pod;
    /* NULL, or: the key that the agents have already. 0; -errno with exit_code. NULL: one is made
     * for each job. */
    int (*key)(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err);
    /* From here to destroy, NULL where platform.away is true and the head has another driver.
     * Begin starting agents for all hosts of the plan; outcomes come as events. 0 or -errno. */
    int (*start)(const struct rg_driver_options *options, void **ret_state, struct rg_error *err);
    /* NULL: a job keeps the hosts that it began with. Or: the plan has one more, the last; start
     * its agent as well. 0 or -errno: that host cannot be started. */
    int (*add)(void *state, int host, struct rg_error *err);
    /* NULL, or: an agent was told to stop, not by us; what that means here. Borrowed until
     * destroy. by_root: the launcher itself was told to, by root; NULL: that means nothing here. */
    const char *(*stopping)(void *state, bool by_root);
    /* NULL, or: at the end of a job whose ranks were killed, or an agent or the launcher told to
     * stop: whether the platform did it, why, and the exit code for that; NULL: it did not, or
     * nobody knows. Blocks for 15 s at most. Borrowed until destroy. */
    const char *(*ending)(void *state, int *ret_exit_code);
    /* NULL, or: what a host whose agent is not there yet has said last, for a message; "" when it
     * was nothing. Into buf, which is returned. */
    const char *(*said)(void *state, int host, char *buf, size_t nbytes);
    /* NULL, or: of this host's agent nothing but its link tells. Nobody sees it end, which these
     * words are for, borrowed until destroy; before all are there another one may connect in its
     * place; and it waits for the VERDICT. NULL for a host that is not such a one. */
    const char *(*unseen)(void *state, int host);
    /* Make sure that this host's agent ends, hard, if it has not by itself. on_gone follows. */
    void (*stop)(void *state, int host);
    /* Free everything; agents that still run are ended, hard. No event follows. */
    void (*destroy)(void *state);
    /* NULL, or: whether there is something to say of a job before it runs, also of one that is not
     * this platform's, but could be: into buf, of RG_DRIVER_REMARK_MAX bytes. Main thread; does not
     * block. */
    bool (*remark)(const struct rg_job *job, char *buf, size_t nbytes);
    /* NULL where platform.queues, and platform.away, is false, and in the agent. */
    const struct rg_queue_ops *queue;
    const struct rg_away_ops *away;
};

#endif
