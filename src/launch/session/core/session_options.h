/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's owner gives it, and is told by it.
 *
 * Thread rule: callbacks come from the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_CORE_SESSION_OPTIONS_H
#define RG_LAUNCH_SESSION_CORE_SESSION_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "launch/host/driver.h"
#include "launch/plan/plan.h"
#include "launch/verdict/verdict.h"
#include "job/chaos/chaos.h"
#include "job/job.h"

struct rg_doctor_input;
struct rg_session;
struct rg_sync;

struct rg_session_ops {
    /* A host changed phase; reason may be "". */
    void (*on_phase)(void *arg, int host, enum rg_host_phase phase, const char *reason);
    /* All agents are ready and the ranks have been told to start / rank runs as pid on its host. */
    void (*on_running)(void *arg);
    /* cpus: which it is bound to, "0-3,8"; "": not bound. */
    void (*on_rank_started)(void *arg, int rank, int pid, const char *cpus);
    /* Output of a rank as it came; stream 1 or 2; nbytes 0: that stream's end. A slow consumer
     * calls rg_session_pause_output. */
    void (*on_output)(void *arg, int rank, int stream, const uint8_t *data, size_t nbytes);
    /* After rg_session_input took less than it was given: now it takes more, or says -EPIPE. It may
     * be called from here. */
    void (*on_input_ready)(void *arg);
    /* Elastic jobs: the plan has more hosts and ranks; and, which of them are ranks now, by what
     * number. rank_of: by place, -1: none; borrowed. on_grown: 0 or -errno, which ends the job. */
    int (*on_grown)(void *arg, struct rg_error *err);
    void (*on_epoch)(void *arg, uint32_t epoch, int size, const int *rank_of);
    void (*on_rank_ended)(void *arg, const struct rg_rank_end *end);
    /* With options.doctor, instead of on_running: what was found, borrowed for the call. The
     * session ends by itself, nothing was started. */
    void (*on_examined)(void *arg, const struct rg_doctor_input *found);
    /* A remark worth showing: stall reports, warnings of agents. rank -1: of a host. */
    void (*on_note)(void *arg, int rank, const char *text);
    /* Everything is over and gone; called once, last. */
    void (*on_ended)(void *arg, const struct rg_verdict *verdict);
#ifndef RG_AGENT /* a job that an agent is the head of has no faults */
    /* An event of options.chaos happens now, on this host; rank -1: to all of its ranks. */
    void (*on_chaos)(void *arg, const struct rg_chaos_event *event, int rank, const char *host);
#endif
};

struct rg_session_options {
    struct rg_loop *loop;              /* borrowed */
    const struct rg_job *job;          /* borrowed, unchanged until the end */
    struct rg_plan *plan;              /* borrowed; its hosts get their addresses */
    const struct rg_driver_ops *driver;
    void *held;                        /* what its acquire has got, or NULL; borrowed */
    const struct rg_session_ops *ops;  /* borrowed */
    void *arg;
    const uint8_t *key;                /* RG_KEY_NBYTES that the agents have already; NULL: a fresh
                                        * one is made. Borrowed for rg_session_create */
    const char *known_as;              /* what else the job is asked by, or NULL. Borrowed */
    bool known_by_name;                /* that is a name which the user has chosen */
    bool doctor;                       /* look at the hosts, start nothing */
    bool numbers;                      /* keep the ranks' numbers: somebody may ask for them */
#ifndef RG_AGENT
    struct rg_sync *sync;              /* what hosts are to have of the user's directory; NULL:
                                        * nothing. Borrowed */
    struct rg_chaos *chaos;            /* faults to make, of which those that have happened are
                                        * noted; NULL: none. Borrowed */
#endif
};

#endif
