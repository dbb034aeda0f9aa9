/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the session share. Nothing outside src/launch/session*.c includes it.
 *
 *   session.c         life: creation, states, limits, signals, the end
 *   session_agent.c   one host's agent: its link and what it says
 *   session_rank.c    ranks: set-up, ends, fences
 *   session_output.c  output: delivery, credit, back-pressure
 *   session_input.c   standard input
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_INTERNAL_H
#define RG_LAUNCH_SESSION_INTERNAL_H

#include "launch/fence.h"
#include "launch/session.h"
#include "launch/tail.h"
#include "launch/verdict.h"
#include "wire/msg.h"

enum session_state {
    STATE_STARTING, /* agents are on their way */
    STATE_RUNNING,  /* ranks were told to start */
    STATE_ENDING,   /* a cause is known; everything is being stopped */
    STATE_ENDED,    /* the verdict was given */
};

struct session_host {
    struct rg_session *session;
    int index;
    enum rg_host_phase phase;
    char reason[256];             /* of the phase, for the list of who never came */
    struct rg_channel *channel;   /* NULL before it is connected, and once it is closed */
    bool ready;                   /* said HELLO */
    bool bye;                     /* said BYE: all of its ranks and output are over */
    bool gone;                    /* the driver said so, or it will not any more */
    bool lost;                    /* gone, without BYE */
    struct rg_error gone_err;
    struct rg_timer patience;     /* for the rest of the link's end or the agent's */
    uint64_t silent_ms;
    uint64_t outstanding;         /* bytes of output that came and were not acknowledged */
    uint64_t uncredited;          /* the part of them that was delivered */
    bool takes_input, input_closed;
    uint64_t input_credit;
    bool input_eof_sent;
};

struct session_rank {
    struct rg_tail tail;
    char *note;          /* the runtime's last; end.note points here */
    char *text;          /* why it could not be started */
    bool started;        /* STARTED or NOT_STARTED came */
    bool stream_ended[2];
    uint32_t signalled;  /* the last signal that we asked its agent to send */
};

/* Output that came while the consumer wanted none. At most the hosts' windows. */
struct session_chunk {
    struct session_chunk *next;
    int host, rank, stream;
    uint8_t *data;
    size_t nbytes;
};

struct rg_session {
    struct rg_session_options o;
    const struct rg_session_ops *ops;
    void *driver_state;
    uint8_t key[RG_KEY_NBYTES];
    enum session_state state;
    uint64_t start_ns;
    struct rg_strv env, secret_env; /* NAME=VALUE of --env and --share-env */

    struct session_host *hosts;
    struct session_rank *ranks;
    struct rg_fact *facts;     /* by rank */
    struct rg_rank_end *ends;  /* the verdict's copy */
    int nstarted, nended;

    char own_cause[RG_CAUSE_MAX];
    int own_exit_code;
    bool own_first, own_is_signal;
    bool some_failed;
    bool runtime_used;         /* the ranks have met: their runtimes hear of deaths */
    int user_signo;            /* SIGINT or SIGTERM that reigen got, or 0 */
    bool stopping;             /* ranks were signalled to end: the grace time runs */
    bool killing;              /* KILL was sent */
    bool abandoned;            /* killed by the owner: undelivered output no longer counts */
    bool paused;               /* Ctrl-Z */
    char output_lost[RG_CAUSE_MAX];

    struct rg_fence *fence;
    struct rg_timer fence_timer, start_timer, job_timer, grace_timer, hard_timer, tick_timer,
        end_timer;
    uint64_t tick_ms;

    struct session_chunk *chunks, **chunks_end;
    bool output_paused, delivering, discarding;
    bool input_eof;
    int rows, columns;
    const char *last_lines[RG_TAIL_LINES];
    char cause[RG_CAUSE_MAX];
};

/* --- session.c -------------------------------------------------------------------------------- */

/* Remember why the session itself ends the job, unless a reason is known already. */
void session_set_cause(struct rg_session *session, int exit_code, const char *fmt, ...)
    rg_printf(3, 4);
/* SIGTERM to all that runs, SIGKILL after the grace time; hosts that are not ready are stopped. */
void session_begin_end(struct rg_session *session);
/* The same because a rank failed. Ranks whose runtimes have been told of it first get TELL_MS to
 * say what they lost and to save what they can: their call has returned with the error already. */
void session_end_after_failure(struct rg_session *session);
/* The verdict, from the loop, once nothing is left. */
void session_check_end(struct rg_session *session);
/* Send to every agent that is ready. */
void session_broadcast(struct rg_session *session, enum rg_msg_type type, const void *object);
void session_set_phase(struct session_host *host, enum rg_host_phase phase, const char *reason);
uint64_t session_elapsed_ns(const struct rg_session *session);

/* --- session_agent.c -------------------------------------------------------------------------- */

extern const struct rg_driver_events session_driver_events;
/* Its ranks and output are over, one way or the other: close the link, let the driver clear up. */
void session_host_finish(struct session_host *host);
void session_host_fini(struct session_host *host);
/* The heartbeat of all hosts. */
void session_tick(void *arg);

/* --- session_rank.c --------------------------------------------------------------------------- */

/* SETUP and RANKs for a host that has said HELLO. */
void session_send_setup(struct session_host *host);
void session_on_started(struct session_host *host, const struct rg_msg_started *msg);
void session_on_not_started(struct session_host *host, const struct rg_msg_not_started *msg);
void session_on_exited(struct session_host *host, const struct rg_msg_exited *msg);
void session_on_note(struct session_host *host, const struct rg_msg_note *msg);
void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg);
/* All ranks of a lost host that have not ended are lost. */
void session_lose_ranks(struct session_host *host);
/* Is rank one of this host's? Everything an agent says of a rank is checked by it. */
bool session_host_has_rank(const struct session_host *host, uint32_t rank);

/* --- session_output.c ------------------------------------------------------------------------- */

/* Output came: deliver or keep. Takes the data. -ENOMEM. */
int session_on_output(struct session_host *host, int rank, int stream, struct rg_span *take_data);
/* The ends of this host's streams that have not come. */
void session_end_streams(struct session_host *host);
/* Forget what was not delivered. */
void session_drop_output(struct rg_session *session);

/* --- session_input.c -------------------------------------------------------------------------- */

void session_input_init(struct rg_session *session);
/* The ranks have been told to start. */
void session_input_start(struct rg_session *session);

#endif
