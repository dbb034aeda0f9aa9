/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all parts of the session share: its state, its hosts and its ranks. Each part keeps what is
 * its own in a private struct, behind one of the pointers at the end of struct rg_session.
 *
 *   session/      session.c (limits, orders), session_agent.c (a host's link), session_rank.c (the
 *                 ranks' ends)
 *     meet/       where ranks meet
 *     elastic/    who belongs to the job, and as which rank
 *     start/      from the first HELLO to START: network, set-up, bundle, the user's directory, a
 *                 look at the hosts;
 *                 hosts that cannot be started
 *     chaos/      faults that the user asked for
 *     remote/     remote commands, and the engines that use them
 *     core/       this; how a session ends; output and input
 *
 * When ranks start, and whether a failure ends the job, the membership says (elastic/).
 *
 * The session's state. A cause is whatever ends the job before its ranks have ended by themselves.
 *
 *   STARTING --all hosts are fit--> RUNNING --all has ended----------------------------.
 *      |                               |                                               |
 *      +----------- a cause -----------+                                               |
 *                      v                                                               v
 *                   ENDING --ranks are signalled--> STOPPING --grace is over--> KILLING -> ENDED
 *                      |                               |                           |   ^
 *                      '------- the owner wants the end at once (also before) -----'   |
 *                                              v                                       |
 *                                          ABANDONED ----------------------------------'
 *
 * A state is only ever followed by a later one. From ENDING on every state becomes ENDED as soon as
 * all hosts are done or lost, and their output is delivered.
 *
 * A host's state:
 *
 *   AWAITED --HELLO--> READY --BYE--> DONE
 *      |                 |
 *      '-----------------+-- its link or its agent has failed --> LOST
 *
 * Beside it the driver tells when the agent's process is gone.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_CORE_SESSION_CORE_H
#define RG_LAUNCH_SESSION_CORE_SESSION_CORE_H

#include "launch/session/core/session_options.h"
#include "wire/msg.h"

enum session_state {
    STATE_STARTING,  /* agents are on their way */
    STATE_RUNNING,   /* ranks were told to start */
    STATE_ENDING,    /* a cause is known; ranks that can may still make use of the news */
    STATE_STOPPING,  /* ranks were signalled to end: the grace time runs */
    STATE_KILLING,   /* KILL was sent */
    STATE_ABANDONED, /* the same by the owner: undelivered output no longer counts */
    STATE_ENDED,     /* the verdict was given */
};

enum session_host_state { HOST_AWAITED, HOST_READY, HOST_DONE, HOST_LOST };

struct session_host {
    struct rg_session *session;
    int index;
    enum session_host_state state;
    bool gone;                    /* the driver said so, or it will not any more */
    bool taken;                   /* lost by the platform, which puts another one in its place */
    struct rg_error gone_err;
    enum rg_host_phase phase;
    char reason[256];             /* of the phase, for the list of who never came */
    struct rg_channel *channel;   /* NULL before it is connected, and once it is closed */
    struct rg_timer patience;     /* for the rest of the link's end or the agent's */
    uint64_t silent_ms;           /* nothing has come from its agent for so long */
    bool silent_told;             /* the user knows */
    bool twin;                    /* another host is the same machine */
    char *unstarted;              /* why it could not be started; else NULL */
    struct rg_msg_hello hello;    /* zeroed before it came */
};

struct session_pauses {
    uint64_t at_ns, ns; /* the last time; and for how long before */
};

struct rg_session {
    struct rg_session_options o;
    void *driver_state;
    uint8_t *key; /* rg_key_hold */
    enum session_state state;
    bool paused;  /* Ctrl-Z */
    struct session_pauses pauses;
    bool open;    /* elastic, and not over: more hosts may come when all are gone */
    void (*on_fit)(struct rg_session *session); /* all hosts of a fixed job can start its ranks */
    uint64_t start_ns;
    uint64_t began_ns; /* since then the ranks run; of an elastic job, those of its epoch */
    const struct rg_failure *twice; /* as struct rg_verdict has it; its owner's */
    struct session_host *hosts;
    struct rg_fact *facts; /* by rank */
    int nended;            /* ranks */

    /* The parts, each in a file of its own. */
    struct session_end *end;
    struct session_output *output;
    struct session_input *input;
    struct session_setup *setup;
    struct session_network *network;
    struct session_starting *starting;
    struct session_engine *engine;
    struct session_versions *versions;
    struct session_remotes *remotes;
    struct session_ranks *ranks;
    struct session_fences *fences;
    struct session_elastic *elastic;
    struct session_limits *limits;
#ifndef RG_AGENT
    struct session_sync *sync;
    struct session_chaos *chaos;
#endif
};

/* The job is elastic, and not over. */
static inline bool session_is_open(const struct rg_session *session)
{
    return session->open;
}

/* Whether its machine is a name for one pod after the other. An agent that is a head asks its
 * driver (session_host_unseen). */
static inline bool session_host_returns(const struct session_host *host)
{
#ifdef RG_AGENT
    (void) host;
    return false;
#else
    return host->session->o.job->hosts_come == RG_HOSTS_RETURN;
#endif
}

/* A part's own state: a struct, with an array behind it of which each host, or each rank, that
 * there can ever be has an element. All of it begins zeroed. */
struct session_part {
    size_t at;                                /* of the pointer to it in struct rg_session */
    size_t nbytes;                            /* of the struct, */
    size_t nbytes_per_host, nbytes_per_rank;  /* and of an element */
    int (*init)(struct rg_session *session);  /* 0 or -ENOMEM; NULL: zeroes will do */
    void (*fini)(struct rg_session *session); /* also if init has failed; NULL: it holds nothing */
};

#define SESSION_PART(name) \
    .at = offsetof(struct rg_session, name), .nbytes = sizeof(struct session_##name)

/* 0 or -ENOMEM; destroy it in either case. */
int session_part_create(struct rg_session *session, const struct session_part *part);
/* One that was never created is fine. */
void session_part_destroy(struct rg_session *session, const struct session_part *part);

/* The plan has more hosts and ranks now, from these on. */
void session_added(struct rg_session *session, int first_host, int first_rank);
/* It may be sent messages. */
bool session_host_listens(const struct session_host *host);
/* Is rank one of this host's? Everything an agent says of a rank is checked by it. */
bool session_host_has_rank(const struct session_host *host, uint32_t rank);
/* Its name in the plan. */
const char *session_host_name(const struct session_host *host);
void session_host_set_phase(struct session_host *host, enum rg_host_phase phase,
                            const char *reason);

/* NULL, or: of its agent nothing but the link tells, and these words are for its end (driver.h). */
const char *session_host_unseen(const struct session_host *host);

/* As rg_msg_send. */
int session_send(const struct session_host *host, enum rg_msg_type type, const void *object);
/* Send to every agent that is ready. */
void session_broadcast(struct rg_session *session, enum rg_msg_type type, const void *object);
/* The job's only rank is a script. */
bool session_is_script(const struct rg_session *session);
uint64_t session_elapsed_ns(const struct rg_session *session);
/* A remark for the user, of the job or of its rank. */
void session_remark(struct rg_session *session, int rank, const char *text);

#endif
