/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that launcher and agent say to each other: one table, rg_msgs, of type, name,
 * direction and fields. docs/protocol.md has the same table for people.
 *
 *      agent                                   launcher
 *        HELLO            ------------------>             once, when the link is open
 *                         <------------------  LISTEN     several hosts: open a port for probes
 *        LISTENING        ------------------>
 *                         <------------------  PROBE      several hosts: who reaches whom
 *        PROBED           ------------------>             per target
 *                         <------------------  SETUP      what all ranks of this host share
 *                         <------------------  RANK       one per rank of this host
 *        BUNDLE_WANTED    ------------------>             SETUP spoke of a bundle: what lacks
 *                         <------------------  BUNDLE     where it was wanted
 *                         <------------------  SYNC       SETUP spoke of a directory
 *        SYNC_SAID        ------------------>             its part of wire/sync.h, to the end
 *                         <------------------  START      when every agent of the job is ready
 *        STARTED, OUTPUT  ------------------>             per rank; or NOT_STARTED
 *                         <------------------  CREDIT     so many bytes of output were consumed
 *        EXITED           ------------------>             per rank, as soon as it was reaped
 *        NUMBERS          ------------------>             once a second, of ranks in the runtime
 *        OUTPUT (empty)   ------------------>             the end of a stream
 *        BYE              ------------------>             all ranks, orphans and output are gone
 *
 * In an elastic job agents come and go. Each gets SETUP, its RANKs and START by itself; further
 * RANKs and another START may follow, for places that were empty or whose process has ended. Then:
 *
 *        ELASTIC          ------------------>             its program can go on with other ranks
 *        MEET             ------------------>             a rank has come to join the others
 *                         <------------------  EPOCH      who those of this host are, to all agents
 *                         <------------------  UPDATE     hosts have come or gone: meet again
 *                         <------------------  SIGNAL_RANK to one rank
 *                         <------------------  RELEASE    no more ranks will be started here
 *
 * Flow control: the agent sends at most SETUP's output_window bytes of output more than CREDIT has
 * acknowledged, and the launcher at most INPUT_CREDIT's bytes of input. Whoever runs out of credit
 * stops reading, so that the writing process blocks in its pipe: memory is bounded and no byte is
 * lost.
 *
 * Heartbeats: PING each second, answered by PONG. An agent that hears nothing for the lease ends
 * its ranks.
 *
 * Address: each payload begins with the index of the host that the message is for or comes from,
 * so that whoever passes it on need not know its fields. RG_MSG_ANY_HOST is for all agents, or from
 * one that has no SETUP yet.
 *
 * Thread rule: the table is constant; a union rg_msg belongs to one thread. Nothing blocks.
 */
#ifndef RG_WIRE_MSG_H
#define RG_WIRE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/codec.h"
#include "wire/loop_link.h"
#include "wire/rankmsg.h"

#define RG_MSG_CHUNK_MAX (64u << 10)       /* bytes of one OUTPUT or INPUT */
#define RG_MSG_OUTPUT_WINDOW (1u << 20)    /* bytes of output under way, per agent */
#define RG_MSG_INPUT_WINDOW (4u << 20)     /* bytes of input that an agent holds */
#define RG_MSG_INPUT_STEP (64u << 10)      /* taken bytes that are acknowledged together */
#define RG_MSG_REMOTE_WINDOW (128u << 10)  /* bytes under way in a remote command's stream */
#define RG_MSG_REMOTES_MAX 4096            /* remote commands of a job at a time */
#define RG_MSG_COMMAND_MAX (128u << 10)    /* bytes of one; the kernel takes no longer argument */
#define RG_MSG_HOST_ALIAS "reigen-host-"   /* and host_index behind it: a name for any host */
#define RG_MSG_HEARTBEAT_MS 1000           /* between PINGs */
#define RG_MSG_ANY_HOST UINT32_MAX         /* an address: all agents, or one that was not told */
#define RG_MSG_NO_RANK UINT32_MAX          /* NOTE: of the host; EXITED: of nobody */
#define RG_MSG_TEXT_MAX 4096               /* bytes of a NOTE's or a death's text that are kept */

enum rg_msg_type {
    /* agent -> launcher */
    RG_MSG_HELLO = 1,
    RG_MSG_STARTED = 2,
    RG_MSG_NOT_STARTED = 3,
    RG_MSG_OUTPUT = 4,
    RG_MSG_INPUT_CREDIT = 5,
    RG_MSG_INPUT_CLOSED = 6,
    RG_MSG_EXITED = 7,
    RG_MSG_FENCE = 8,
    RG_MSG_NOTE = 9,
    RG_MSG_STOPPING = 10,
    RG_MSG_PONG = 11,
    RG_MSG_BYE = 12,
    RG_MSG_PROBED = 24,
    RG_MSG_CLOCK = 25,
    RG_MSG_INSPECTED = 26,
    RG_MSG_LISTENING = 27,
    RG_MSG_BUNDLE_WANTED = 28,
    RG_MSG_MEET = 29,
    RG_MSG_ELASTIC = 30,
    RG_MSG_NUMBERS = 31,
    RG_MSG_SYNC_SAID = 18,
    RG_MSG_REMOTE_OPEN = 13,   /* as the client's side: run this on that host */
    RG_MSG_REMOTE_DATA = 14,   /* either side */
    RG_MSG_REMOTE_CREDIT = 15, /* either side */
    RG_MSG_REMOTE_CLOSE = 16,  /* as the client's side: it is gone */
    RG_MSG_REMOTE_EXIT = 17,   /* as the command's side */
    /* launcher -> agent */
    RG_MSG_SETUP = 32,
    RG_MSG_RANK = 33,
    RG_MSG_START = 34,
    RG_MSG_CREDIT = 35,
    RG_MSG_INPUT = 36,
    RG_MSG_INPUT_EOF = 37,
    RG_MSG_SIGNAL = 38,
    RG_MSG_KILL = 39,
    RG_MSG_RESIZE = 40,
    RG_MSG_PAUSE = 41,
    RG_MSG_RESUME = 42,
    RG_MSG_PING = 43,
    RG_MSG_FENCE_DONE = 44,
    RG_MSG_FENCE_FAILED = 45,
    RG_MSG_PEER_DIED = 46,
    RG_MSG_PROBE = 56,
    RG_MSG_INSPECT = 57,
    RG_MSG_LISTEN = 58,
    RG_MSG_BUNDLE = 59,
    RG_MSG_VERDICT = 60,
    RG_MSG_EPOCH = 61,
    RG_MSG_UPDATE = 62,
    RG_MSG_SIGNAL_RANK = 63,
    RG_MSG_SYNC = 53,
    RG_MSG_RELEASE = 47,
    RG_MSG_REMOTE_START = 48,  /* to the command's side: run this */
    RG_MSG_REMOTE_PUT = 49,    /* DATA, to either side */
    RG_MSG_REMOTE_GRANT = 50,  /* CREDIT, to either side */
    RG_MSG_REMOTE_HANGUP = 51, /* CLOSE, to the command's side */
    RG_MSG_REMOTE_ENDED = 52,  /* EXIT, to the client's side */
};

enum rg_msg_bind { RG_MSG_BIND_NONE, RG_MSG_BIND_CORE, RG_MSG_BIND_SOCKET };

/* Who the agent is. */
struct rg_msg_hello {
    char *version;           /* of Reigen, for people; the protocol's is in the handshake */
    uint32_t pid, uid;       /* as the agent sees them */
    uint32_t ncores;         /* that its affinity allows */
    char *hostname;
    char *boot_id;           /* of the kernel; "" when it cannot be read */
    struct rg_strv addresses;/* "ADDRESS/PREFIX INTERFACE", of those that are up; loopback last */
    uint64_t netns;          /* of its network name space, unique on its kernel; 0: not known */
    uint64_t instance;       /* a random number: which agent answers a probe */
    uint32_t free_port;      /* TCP, that nobody used a moment ago; 0: not known */
};

/* What all ranks of this host share. */
struct rg_msg_setup {
    char *host;                /* the name that the job has for this host */
    uint32_t size;             /* ranks of the job */
    struct rg_strv command;    /* argv */
    char *cwd;                 /* "": the agent's own */
    uint8_t inherit_env;       /* 1: ranks start from the agent's own environment */
    struct rg_strv env;        /* NAME=VALUE, after that */
    struct rg_strv secret_env; /* the same, of --share-env: never printed or logged */
    uint64_t lease_ms;
    uint32_t output_window;
    uint32_t host_index;       /* of this host among hosts */
    struct rg_strv hosts;      /* NAME:RANKS of every host of the job, in the plan's order */
    struct rg_strv tasks;      /* NAME:1 of each, where the job has roles: so engines call hosts */
    char *engine;              /* "native", "openmpi", "hydra" or "script" */
    struct rg_strv engine_options;
    uint32_t np;               /* ranks that the engine is to start; size for native */
    char *network;             /* CIDR that all hosts reach each other by; "": not known */
    char *interface;           /* this host's interface in it; "": not known */
    uint8_t resident;          /* 1: with no task of its own left, stay until RELEASE */
    uint8_t bind;              /* RG_MSG_BIND_*: each rank to a core or socket, by local rank */
    uint8_t oversubscribe;     /* 1: more ranks than cores are not bound; 0: not started */
    char *bundle;              /* the archive of our Python packages, MACHINE-DIGEST; "": none */
    uint64_t bundle_nbytes;    /* of that archive (container/bundle.h) */
    char *bundle_error;        /* why there is none, though one was looked for; else "" */
    uint8_t bundle_first;      /* 1: before the host's own packages; 0: where it has none */
    uint8_t elastic;           /* 1: ranks are places, whose numbers come with EPOCH; size is how
                                * many there can ever be */
    char *script;              /* a file of the command's that is where the launcher was started:
                                * is it here? "": there is none to look for */
    uint8_t sync;              /* 1: START waits for a copy of the user's directory, see SYNC */
};

/* One rank of this host; in order of local rank. */
struct rg_msg_rank {
    uint32_t rank;
    struct rg_strv env;     /* NAME=VALUE, after the common ones */
    uint8_t takes_input;    /* reads the launcher's standard input; else /dev/null */
    uint8_t pty;            /* its 0, 1 and 2 are a terminal, its output is stream 1 */
    uint32_t rows, columns; /* of that terminal; 0: unknown */
};

struct rg_msg_started {
    uint32_t rank, pid; /* of its process, process group and session, in the agent's name space */
    char *cpus;         /* bound to these, "0-3,8"; "": not bound */
};

struct rg_msg_not_started {
    uint32_t rank, errnum;
    uint32_t exit_code; /* 126, 127, ... */
    char *text;
};

struct rg_msg_output {
    uint32_t rank;
    uint8_t stream;      /* 1 or 2 */
    struct rg_span data; /* empty: the end of this stream */
};

struct rg_msg_bytes { /* INPUT_CREDIT, CREDIT: so many more */
    uint64_t nbytes;  /* BUNDLE_WANTED: so many in all, 0: done */
};

struct rg_msg_data { /* INPUT: to all ranks that take input. BUNDLE: the archive's next bytes.
                      * SYNC: the next ones of what wire/sync.h describes */
    struct rg_span data;
};

struct rg_msg_sync_said { /* a frame of wire/sync.h */
    uint32_t type;
    struct rg_span data;
};

struct rg_msg_exited {
    uint32_t rank;
    int32_t status;    /* waitpid's */
    uint8_t oom;       /* the kernel's out-of-memory killer ended it, or a process of its group */
    uint32_t signalled;/* the last signal that the launcher sent it before, or 0 */
    uint8_t in_runtime;/* its runtime had not been shut down */
    uint32_t cut_by;   /* its runtime said: cut off by the end of this rank; or RG_MSG_NO_RANK */
    char *memory;      /* with oom: what the limit is; else "" */
    char *sshd_host;   /* a script says: it could not begin for want of its sshd there; else "" */
    uint32_t sshd_port;
};

struct rg_msg_fence { /* as in rankmsg.h, relayed */
    uint32_t rank, generation, timeout_ms;
    struct rg_span blob;
    uint32_t epoch;
};

struct rg_msg_peer_died { /* on another host than the one that hears of it */
    uint32_t rank, host;
    uint8_t end;         /* enum rg_death_end of rankmsg.h; then as there */
    int32_t value;
    uint8_t oom;
    uint32_t epoch;      /* rank is its number in this one */
    char *name;          /* of the host, where SETUP could not list it; else "" */
};

struct rg_msg_meet { /* as in rankmsg.h, relayed */
    uint32_t rank, epoch;
    uint8_t failed;
};

struct rg_msg_rank_id { /* ELASTIC */
    uint32_t rank;
};

#define RG_MSG_SEAT_NBYTES 24

struct rg_msg_epoch {
    uint32_t epoch, size;
    uint8_t sync;
    /* RG_MSG_SEAT_NBYTES for each place of this host that is a rank of it, u32 each: place, rank,
     * local rank, local size, cross rank, cross size */
    struct rg_span seats;
};

struct rg_msg_signal_rank {
    uint32_t rank, signo;
};

struct rg_msg_note {
    uint32_t rank; /* or RG_MSG_NO_RANK */
    uint32_t level;
    char *text;
};

struct rg_msg_signal { /* SIGNAL: to every rank's group; STOPPING: the agent itself got it */
    uint32_t signo;
};

struct rg_msg_resize {
    uint32_t rows, columns;
};

/* Remote commands (reigen rsh). The client's agent numbers them for its side, the launcher for the
 * command's; a number is free again after EXIT, which is always the last word on it. Streams: 0
 * goes to the command, 1 and 2 come from it. */
struct rg_msg_remote_open { /* REMOTE_OPEN; REMOTE_START: host is the rank of the task that is
                             * meant, in decimal, or "" */
    uint32_t id;
    char *host;             /* as the user wrote it, without user@ */
    char *command;          /* for sh -c */
};

struct rg_msg_remote_data { /* REMOTE_DATA, REMOTE_PUT */
    uint32_t id;
    uint8_t stream;
    struct rg_span data;    /* at most RG_MSG_CHUNK_MAX; empty: the stream's end */
};

struct rg_msg_remote_credit { /* REMOTE_CREDIT, REMOTE_GRANT: so many bytes more of a stream */
    uint32_t id;
    uint8_t stream;
    uint32_t nbytes;
};

struct rg_msg_remote_id { /* REMOTE_CLOSE, REMOTE_HANGUP */
    uint32_t id;
};

struct rg_msg_remote_exit { /* REMOTE_EXIT, REMOTE_ENDED */
    uint32_t id;
    int32_t status;         /* waitpid's */
    char *text;             /* for the client's stderr: why there is no command; else "" */
};

#define RG_MSG_TASK_PORTS_MAX 16384

struct rg_msg_listen {
    uint32_t first, last;   /* the ports that it may take; 0 and 0: any */
    uint32_t ntask_ports;   /* how many more to find for the host's tasks; at most
                             * RG_MSG_TASK_PORTS_MAX */
};

struct rg_msg_listening { /* answers LISTEN */
    /* TCP, of all its addresses, until SETUP; 0: it cannot listen, or none of the ports that were
     * named is free */
    uint32_t port;
    struct rg_span task_ports; /* those found, 2 bytes each, little-endian; fewer: no more free */
};

/* PROBE: try to reach other agents, each target "INSTANCE ADDRESS PORT" (hexadecimal, numeric,
 * decimal). One PROBED answers each, with its place in the list. */
struct rg_msg_probe {
    uint32_t limit_ms;
    struct rg_strv targets;
};

struct rg_msg_probed {
    uint32_t index;
    uint32_t errnum; /* 0: that agent answered and has proven to be the one; EACCES: another did */
    uint32_t rtt_us; /* of the connection, when errnum is 0 */
};

struct rg_msg_clock { /* at once on INSPECT */
    uint64_t realtime_ns;
};

struct rg_msg_inspect { /* look at this host; after SETUP, before START */
    uint32_t limit_ms;
};

struct rg_msg_inspected { /* what the agent's doctor found: lines, see agent/look/doctor.h */
    char *text;
};

struct rg_msg_bye {
    uint32_t nleft; /* processes that survived SIGKILL (0 but for a hanging kernel) */
};

struct rg_msg_verdict { /* after BYE, to an agent that waits for it (agent/start/lines.h) */
    uint32_t exit_code; /* the job's */
};

union rg_msg {
    struct rg_msg_hello hello;
    struct rg_msg_setup setup;
    struct rg_msg_rank rank;
    struct rg_msg_started started;
    struct rg_msg_not_started not_started;
    struct rg_msg_output output;
    struct rg_msg_bytes bytes;
    struct rg_msg_data data;
    struct rg_msg_sync_said sync_said;
    struct rg_msg_exited exited;
    struct rg_msg_fence fence;
    struct rg_rankmsg_fence_done fence_done;
    struct rg_rankmsg_fence_failed fence_failed;
    struct rg_msg_peer_died peer_died;
    struct rg_msg_note note;
    struct rg_rankmsg_numbers numbers;
    struct rg_msg_signal signal;
    struct rg_msg_meet meet;
    struct rg_msg_rank_id rank_id;
    struct rg_msg_epoch epoch;
    struct rg_rankmsg_update update;
    struct rg_msg_signal_rank signal_rank;
    struct rg_msg_resize resize;
    struct rg_msg_bye bye;
    struct rg_msg_verdict verdict;
    struct rg_msg_listen listen;
    struct rg_msg_listening listening;
    struct rg_msg_probe probe;
    struct rg_msg_probed probed;
    struct rg_msg_clock clock;
    struct rg_msg_inspect inspect;
    struct rg_msg_inspected inspected;
    struct rg_msg_remote_open remote_open;
    struct rg_msg_remote_data remote_data;
    struct rg_msg_remote_credit remote_credit;
    struct rg_msg_remote_id remote_id;
    struct rg_msg_remote_exit remote_exit;
};

struct rg_msg_info {
    enum rg_msg_type type;
    bool from_agent;               /* it stands where it makes the table no larger */
    const char *name;              /* "HELLO" */
    const struct rg_field *fields; /* behind the address */
};

/* The table and its length; and the entry of a type, or NULL. */
extern const struct rg_msg_info rg_msgs[];
extern const size_t rg_msgs_count;
const struct rg_msg_info *rg_msg_find(uint16_t type);

/* Decode a frame that came from the agent (from_agent) or the launcher. 0, its address and
 * *ret_msg, which is cleared by rg_msg_clear of the same type; -EBADMSG: unknown type, wrong
 * direction or payload; -ENOMEM. */
int rg_msg_decode(bool from_agent, uint16_t type, const uint8_t *payload, size_t nbytes,
                  uint32_t *ret_host, union rg_msg *ret_msg);
/* Free what the message owns. */
void rg_msg_clear(uint16_t type, union rg_msg *msg);

/* Encode the struct that belongs to type (NULL for messages without fields) and send it to or from
 * this host. As rg_channel_send, or -ENOMEM. NULL channel: -ENOTCONN. */
int rg_msg_send(struct rg_channel *channel, uint32_t host, enum rg_msg_type type,
                const void *object);

#endif
