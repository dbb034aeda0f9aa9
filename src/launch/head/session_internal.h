/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the session share. Nothing outside src/launch/session*.c includes it.
 *
 *   session.c         life: creation, states, limits, signals, the end
 *   session_agent.c   one host's agent: its link and what it says
 *   session_start.c   hosts that cannot be started, all in one message
 *   session_network.c which network connects the hosts; what they are like
 *   session_bundle.c     our Python packages for hosts that lack them
 *   session_rank.c    ranks: set-up, ends, fences
 *   session_output.c  output: delivery, credit, back-pressure
 *   session_input.c   standard input
 *   session_remote.c  remote commands (reigen rsh); session_names.c: which host is meant
 *   session_engine.c  whether those that are an engine's daemons end as they should
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_SESSION_INTERNAL_H
#define RG_LAUNCH_HEAD_SESSION_INTERNAL_H

#include "launch/head/fence.h"
#include "launch/net/network.h"
#include "launch/head/session.h"
#include "launch/head/tail.h"
#include "launch/head/verdict.h"
#include "wire/msg.h"

struct session_remote;

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
    char *unstarted;              /* why it could not be started; else NULL */
    struct rg_timer patience;     /* for the rest of the link's end or the agent's */
    uint64_t silent_ms;
    uint64_t npings, npongs;      /* sent, and answered */
    uint64_t proof;               /* this many answers mean that it lives; see session_network.c */
    struct rg_strv addresses;     /* of its HELLO: "ADDRESS/PREFIX INTERFACE" */
    char *boot_id;
    uint64_t netns, instance;
    uint32_t probe_port, free_port;
    bool listening;               /* LISTENING came */
    uint64_t asked_ns, asked_realtime_ns; /* when INSPECT was sent; 0: it was not */
    char *facts;                  /* of INSPECTED; NULL before it came */
    int64_t clock_ns;             /* its clock minus ours, plus or minus the bound */
    uint64_t clock_bound_ns;
    uint64_t outstanding;         /* bytes of output that came and were not acknowledged */
    uint64_t uncredited;          /* the part of them that was delivered */
    char *hostname;               /* of its HELLO */
    char version[160];            /* of its engine, as far as it was asked for */
    size_t nversion;
    struct session_remote **clients; /* remote commands that were asked for there, by number */
    uint32_t nclients;            /* slots */
    bool wants_bundle;               /* it has not said yet that it needs no more */
    size_t bundle_sent;              /* bytes of it */
    bool takes_input, input_closed;
    uint64_t input_credit;
    bool input_eof_sent;
};

struct session_rank {
    struct rg_tail tail;
    struct rg_tail errors; /* of its standard error alone */
    char *note;          /* the runtime's last; end.note points here */
    char *text;          /* why it could not be started */
    char *memory;        /* end.memory */
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
    uint8_t *key; /* rg_key_hold */
    enum session_state state;
    uint64_t start_ns;
    struct rg_strv env, secret_env; /* NAME=VALUE of --env and --share-env */
    struct rg_strv host_list;       /* NAME:RANKS of each; empty before the first was sent it */

    struct session_host *hosts;
    struct session_rank *ranks;
    struct rg_fact *facts;     /* by rank */
    struct rg_rank_end *ends;  /* the verdict's copy */
    int nstarted, nended, nawaited;

    char own_cause[RG_CAUSE_MAX];
    int own_exit_code;
    bool own_first, own_is_signal;
    size_t nstopped;           /* bytes of own_cause in front of why the platform stops it; or 0 */
    bool some_failed;
    int unstarted_exit_code;   /* of the first host that could not be started; 0: none */
    bool runtime_used;         /* the ranks have met: their runtimes hear of deaths */
    int user_signo;            /* SIGINT or SIGTERM that reigen got, or 0 */
    bool stopping;             /* ranks were signalled to end: the grace time runs */
    bool killing;              /* KILL was sent */
    bool abandoned;            /* killed by the owner: undelivered output no longer counts */
    bool paused;               /* Ctrl-Z */
    char output_lost[RG_CAUSE_MAX];

    struct rg_network *network;    /* NULL before all have said HELLO */
    struct rg_error network_err;   /* why none connects the hosts */
    struct rg_timer network_timer;
    size_t nprobes;                /* tries whose outcome is not known */
    int nbundles; /* hosts that have not said that they need no more of the bundle */
    struct rg_buf bundle;             /* empty before the first host wanted it */
    bool network_hurry, network_done;
    bool network_refusing;         /* none connects the hosts, if all of them still live */
    struct session_remote **remotes; /* by number; NULL: free */
    uint32_t nremotes;         /* slots */
    bool released;             /* RELEASE was sent */
    uint64_t released_ns;      /* and when */
    char engine_trouble[RG_CAUSE_MAX]; /* how an engine's daemon failed first, or "" */
    struct rg_timer engine_timer;
    char engine_program[200];  /* whose version hosts can be asked for; "" before a daemon came */
    bool engine_asked;         /* all hosts were asked for their engine's version */
    int engine_nasked;         /* those that have not answered */

    struct rg_fence *fence;
    struct rg_timer fence_timer, start_timer, job_timer, grace_timer, hard_timer, tick_timer,
        end_timer, others_timer;
    uint64_t tick_ms;

    struct session_chunk *chunks, **chunks_end;
    bool output_paused, delivering, discarding;
    bool input_eof;
    bool input_waits; /* the owner had more bytes than there was room for */
    int rows, columns;
    const char *last_lines[RG_TAIL_LINES];
    char cause[RG_CAUSE_MAX];
};

/* --- session.c -------------------------------------------------------------------------------- */

/* What runs is a user's script, by which engines start the ranks. */
bool session_is_script(const struct rg_session *session);
/* Remember why the session itself ends the job, unless a reason is known already. */
void session_set_cause(struct rg_session *session, int exit_code, const char *fmt, ...)
    rg_printf(3, 4);
/* SIGTERM to all that runs, SIGKILL after the grace time; hosts that are not ready are stopped. */
void session_begin_end(struct rg_session *session);
/* The same because a rank failed. Ranks whose runtimes have been told of it first get TELL_MS to
 * say what they lost and to save what they can: their call has returned with the error already.
 * Others get SAME_MS after an exit code, to fail by the same error. */
void session_end_after_failure(struct rg_session *session);
/* A rank that was cut off by this one's end has failed: before the ranks are stopped, this one gets
 * LEAVE_MS to end by itself, as its exit code may be the cause; and when it has. */
void session_await(struct rg_session *session, int rank);
void session_awaited_ended(struct rg_session *session);
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
/* When a host could not be started, and no other one can still turn out so soon: end the job. */
void session_settle_start(struct rg_session *session);
/* All agents are ready and fit: the ranks are told to start. */
void session_start_ranks(struct rg_session *session);
/* The heartbeat of all hosts. */
void session_tick(void *arg);
/* True when its agent has come and its link stands; else its loss is told soon. */
bool session_is_linked(const struct session_host *host);

/* --- session_start.c -------------------------------------------------------------------------- */

/* Make all hosts that could not be started the job's cause, one line each, and say what is known of
 * the others. */
void session_blame_unstarted(struct rg_session *session);

/* --- session_network.c ------------------------------------------------------------------------ */

/* Keep what network and doctor need of a HELLO. */
void session_keep_hello(struct session_host *host, struct rg_msg_hello *take_hello);
/* When all hosts have said HELLO: let them find out which network connects them, send SETUP, look
 * at the hosts where that is wanted, and start the ranks; or end the job with the reason. One
 * host needs no round trip for it. */
void session_find_network(struct rg_session *session);
int session_on_listening(struct session_host *host, const struct rg_msg_listening *msg);
int session_on_probed(struct session_host *host, const struct rg_msg_probed *msg);
/* An agent has answered PING. */
void session_on_pong(struct session_host *host);
void session_on_clock(struct session_host *host, const struct rg_msg_clock *msg);
int session_on_inspected(struct session_host *host, struct rg_msg_inspected *take_msg);
/* All hosts have SETUP, and the bundle where they want it: go on. Else nothing happens. */
void session_set_up(struct rg_session *session);
/* For SETUP; "": not known. */
const char *session_network_cidr(const struct rg_session *session);
const char *session_network_interface(const struct session_host *host);

/* --- session_bundle.c
 * ---------------------------------------------------------------------------- */

/* Whether SETUP speaks of a bundle: there is one, and no `contain` that mounts it. */
bool session_has_bundle(const struct rg_session *session);
/* Before SETUP: from here on all hosts are waited for, if there is a bundle. */
void session_bundle_begin(struct rg_session *session);
/* An agent said how much it takes. 0, or -EBADMSG: it broke the rules. */
int session_on_bundle_wanted(struct session_host *host, uint64_t nbytes);

/* --- session_rank.c --------------------------------------------------------------------------- */

/* SETUP and RANKs for a host that has said HELLO. */
void session_send_setup(struct session_host *host);
void session_on_started(struct session_host *host, const struct rg_msg_started *msg);
void session_on_not_started(struct session_host *host, const struct rg_msg_not_started *msg);
void session_on_exited(struct session_host *host, const struct rg_msg_exited *msg);
/* own_cause says that something was told to stop: at the end the platform may know more. */
void session_note_stopped(struct rg_session *session);
void session_on_note(struct session_host *host, const struct rg_msg_note *msg);
void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg);
/* Whoever stops an agent, or us, often signals all processes of the host: whether ranks that failed
 * before we heard of that have just died of the same signal, and so did not fail by themselves. */
bool session_failed_by(const struct rg_session *session, uint32_t signo);
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
/* Credit came, or a host takes no more: tell the owner if it waits for that. */
void session_input_go_on(struct rg_session *session);

/* --- session_remote.c ------------------------------------------------------------------------- */

/* A REMOTE_* message of an agent. 0, or -EBADMSG: it broke the rules. */
int session_on_remote(struct session_host *host, uint16_t type, const union rg_msg *msg);
/* It said BYE or is lost: its commands end for their clients, its clients' commands are hung up. */
void session_remote_host_gone(struct session_host *host);
/* All ranks have ended: agents that stay without ranks (SETUP's resident) may go. */
void session_release(struct rg_session *session);
void session_remotes_fini(struct rg_session *session);
/* Have a command run on a host for session_engine_answer and session_engine_answered. 0; -errno: it
 * is not there, and nothing will come. */
int session_remote_ask(struct session_host *target, const char *command);

/* --- session_engine.c ------------------------------------------------------------------------- */

/* A remote command's exit code when there was no command: unknown host, lost host. */
#define RG_ENGINE_LOST 255
/* The name of the engine's daemon that this command starts, constant; NULL: it starts none. */
const char *session_engine_daemon(const char *command);
/* The command starts that daemon: where the engine is, if it can be told from that. */
void session_engine_started(struct rg_session *session, const char *command, const char *daemon);
/* A daemon ended, though its engine has not hung it up: wait status. What it was killed by or that
 * it is not there becomes the job's cause; of whatever else goes wrong, the engine has the word.
 * One that does not end within 3 s is ended. A script hears of exit codes itself. */
void session_engine_daemon_ended(struct session_host *host, const char *daemon, int status);
/* The engine's process on client asked for a host that the job does not have. */
void session_engine_refused(struct session_host *client, const char *name, const char *command);

/* The engine has failed, and hosts may have different ones: ask them. False: there is nothing to
 * ask (any more). Else session_release is called when they have answered, or after ASK_MS. */
bool session_engine_ask(struct rg_session *session);
void session_engine_answer(struct session_host *host, const uint8_t *text, size_t nbytes);
void session_engine_answered(struct session_host *host);

/* --- session_names.c -------------------------------------------------------------------------- */

/* The host that somebody on host `from` means by name: a name of the plan, its short or full form,
 * a host's own name, or an address of it; loopback is from. NULL when there is none. */
struct session_host *session_find_host(struct session_host *from, const char *name);

#endif
