/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a rank's runtime and its agent: a unix stream socket, named by REIGEN_AGENT_SOCKET (a
 * path, or "@name" for the abstract name space), whose peer's uid both sides check (SO_PEERCRED).
 * Frames: u32 length of the payload, u16 type, payload; little-endian; no encryption, as it never
 * leaves the host.
 *
 * Life: the rank connects and says HELLO with its token (REIGEN_RANK_TOKEN, so that a stray process
 * with a stale environment is refused); the agent answers WELCOME or closes. Then, any number of
 * times, a FENCE: every rank of the job sends FENCE(generation, blob) and gets the blobs of all
 * ranks, in order of rank and in as many FENCE_DONE as they need, when the last has sent its own.
 * FENCE_FAILED ends the wait (a rank died, the start timed out, ranks are missing). The agent may
 * send PEER_DIED at any time. NOTE carries a line for the verdict or for the user; CUT_OFF says
 * whose end may become this rank's. Closing the socket without GOODBYE while the process lives
 * means nothing (fork, exec): death is the agent's to see (pidfd, SIGCHLD).
 *
 * In an elastic job WELCOME says so, and the rank, whose number in HELLO only names its place, says
 * MEET and waits until EPOCH tells who it is among those that have come. Each EPOCH begins with
 * generation 1. A rank that has left one (its peers have died, or hosts have come) connects anew,
 * and meets again. UPDATE says that it is time for that; ELASTIC, that its program can do so.
 *
 * The connection is made by the process that calls reigen_init, usually the agent's child or a
 * descendant of it (python under a shell). A rank's place can be taken once: while a process that
 * has said HELLO lives and has not said GOODBYE, another process gets TAKEN. A new HELLO of the
 * same process (after exec, or a new start) replaces its old connection.
 *
 * The same socket serves reigen rsh, which needs no token, as any process of the user may start
 * commands: REMOTE comes first; DATA and CREDIT go both ways, a sender having RG_MSG_REMOTE_WINDOW
 * bytes (wire/msg.h) of each stream under way at most; EXIT is the end. When the client closes
 * before that, its command is hung up.
 */
#ifndef RG_WIRE_RANKMSG_H
#define RG_WIRE_RANKMSG_H

#include <stdint.h>

#include "wire/codec.h"

#define RG_RANKMSG_PAYLOAD_MAX (4u << 20)
#define RG_RANKMSG_BLOB_MAX (64u << 10) /* of one rank in a fence */
#define RG_FENCE_NBYTES_MAX (128u << 20) /* of all blobs of a fence */
#define RG_FENCE_PART_MAX (1u << 20)    /* of them in one FENCE_DONE */
/* In the place of REMOTE's host: the launcher is asked whether an event of --chaos is to happen now
 * to the rank that asks. command is "EVENT RANK", decimal; EXIT's status is 0 for yes. */
#define RG_RANKMSG_CHAOS "@chaos"
#define RG_RANK_TOKEN_NBYTES 16         /* of either token; the variables hold hexadecimal text */
#define RG_RANK_TOKEN_TEXT (2 * RG_RANK_TOKEN_NBYTES + 1)

enum rg_rankmsg_type {
    RG_RANKMSG_HELLO = 1,       /* rank -> agent */
    RG_RANKMSG_WELCOME = 2,     /* agent -> rank */
    RG_RANKMSG_FENCE = 3,       /* rank -> agent */
    RG_RANKMSG_FENCE_DONE = 4,  /* agent -> rank */
    RG_RANKMSG_FENCE_FAILED = 5,/* agent -> rank */
    RG_RANKMSG_PEER_DIED = 6,   /* agent -> rank */
    RG_RANKMSG_NOTE = 7,        /* rank -> agent */
    RG_RANKMSG_GOODBYE = 8,     /* rank -> agent: reigen_shutdown was called */
    RG_RANKMSG_REMOTE = 9,      /* reigen rsh -> agent, instead of HELLO */
    RG_RANKMSG_DATA = 10,       /* both: of a remote command's stream */
    RG_RANKMSG_CREDIT = 11,     /* both */
    RG_RANKMSG_EXIT = 12,       /* agent -> reigen rsh: the last frame */
    RG_RANKMSG_CUT_OFF = 13,    /* rank -> agent */
    RG_RANKMSG_TAKEN = 14,      /* agent -> rank, instead of WELCOME */
    RG_RANKMSG_MEET = 15,       /* rank -> agent, in an elastic job: after WELCOME */
    RG_RANKMSG_EPOCH = 16,      /* agent -> rank: the answer */
    RG_RANKMSG_UPDATE = 17,     /* agent -> rank: hosts have come or gone, or the job stops */
    RG_RANKMSG_ELASTIC = 18,    /* rank -> agent */
    RG_RANKMSG_NUMBERS = 19,    /* rank -> agent: of all ranks that share memory with it */
};

struct rg_rankmsg_hello {
    uint32_t version;      /* RG_PROTOCOL_VERSION */
    uint32_t rank;
    uint32_t pid;          /* in the sender's pid name space */
    struct rg_span token;  /* RG_RANK_TOKEN_NBYTES */
};

struct rg_rankmsg_welcome {
    uint32_t size;
    uint32_t local_size;
    /* RG_KEY_NBYTES: derived from the job's key, purpose "data": for the sockets between ranks */
    struct rg_span key;
    uint8_t elastic;       /* 1: size and local_size are 0, and EPOCH tells them */
};

enum rg_meet_failed { /* its last epoch */
    RG_MEET_FINE,
    RG_MEET_FAILED,        /* it ended by an error */
    RG_MEET_LACKS,         /* and this process has never had the state of the others */
};

struct rg_rankmsg_meet {
    uint32_t epoch;        /* the last one that this process was in; 0: none */
    uint8_t failed;        /* enum rg_meet_failed */
};

struct rg_rankmsg_epoch {
    uint32_t epoch;        /* from 1 */
    uint32_t rank, size, local_rank, local_size, cross_rank, cross_size;
    uint8_t sync;          /* 1: all ranks begin with the state of rank 0; 0: all have it */
    struct rg_span key;    /* as in WELCOME, for this epoch only */
};

enum rg_update {
    RG_UPDATE_GONE = 1,    /* hosts have gone, or are about to */
    RG_UPDATE_COME = 2,
    RG_UPDATE_STOPS = 4,   /* the job is told to stop: SIGTERM follows soon. Only after a NOTE of
                            * level RG_NOTE_PREEMPTIBLE, also in jobs that are not elastic */
    RG_UPDATE_AT_RISK = 8, /* a host is about to go, and too few ranks are left without it */
    RG_UPDATE_WHERE = 16,  /* the rank is to say where its program is, by a NOTE of level
                            * RG_NOTE_WHERE; stamp is 0 */
};

/* Larger stamps are newer. */
struct rg_rankmsg_update {
    uint64_t stamp;        /* ms of the wall clock, never the same twice; 0 with STOPS */
    uint32_t result;       /* bits of enum rg_update */
};

struct rg_rankmsg_fence {
    uint32_t generation;   /* 1 for the first fence of this rank's life, then 2, ... */
    uint32_t timeout_ms;
    struct rg_span blob;   /* at most RG_RANKMSG_BLOB_MAX */
    uint32_t epoch;        /* 0: the job is not elastic */
};

struct rg_rankmsg_fence_done {
    uint32_t generation;
    uint32_t left;         /* bytes that follow in further ones; 0: this is the last */
    struct rg_span blobs;  /* the next part, cut anywhere, of: for each rank u32 length, bytes */
    uint32_t epoch;
};

struct rg_rankmsg_fence_failed {
    uint32_t generation;
    uint32_t errnum;       /* ETIMEDOUT, ECONNRESET, ECANCELED */
    char *text;
    uint32_t epoch;
};

enum rg_death_end {
    RG_DEATH_EXIT,         /* value: its exit code; 0: it had not shut the runtime down */
    RG_DEATH_SIGNAL,       /* value: the signal */
    RG_DEATH_NOT_STARTED,  /* value: errno */
    RG_DEATH_LOST,         /* with its host */
    RG_DEATH_REPORTED,     /* where there are no agents: text says all that is known */
};

struct rg_rankmsg_peer_died {
    uint32_t rank;
    char *host;            /* "" for REPORTED */
    uint8_t end;           /* enum rg_death_end */
    int32_t value;
    uint8_t oom;           /* memory ran out */
    char *text;            /* of REPORTED; else "" */
};

/* Levels. */
#define RG_NOTE_PREEMPTIBLE 3
#define RG_NOTE_DEADLOCK 4
#define RG_NOTE_WHERE 5

struct rg_rankmsg_note {
    /* 0: cause of this rank's coming failure, for the verdict; 1: for the user to see, and 2: about
     * the whole job; 3: without a text: it wants to hear of the job's end before SIGTERM;
     * 4: why the job can never go on, and is to be ended; 5: "train.py:41 in load_batch", where
     * this rank's program is, or "": that is not known */
    uint32_t level;
    char *text;
};

/* What the sender was at has ended because that rank left or died: if the sender fails now, it may
 * be for that. Once at most in a life of the runtime. */
struct rg_rankmsg_cut_off {
    uint32_t rank;
};

/* Once a second, by one rank for itself and those that it shares memory with; at another time it
 * may be another rank. The agent passes it on as it is. */
struct rg_rankmsg_numbers {
    uint32_t epoch;        /* 0: the job is not elastic */
    uint32_t row_nbytes;   /* of each rank, as wire/numbers.h has them where the sender is */
    struct rg_span ranks;  /* at most RG_NUMBERS_RANKS_MAX */
};

/* Another process is this rank already. The connection is good for nothing any more. */
struct rg_rankmsg_taken {
    uint32_t pid;          /* as the agent sees it; 0: not visible from there */
};

struct rg_rankmsg_remote {
    uint32_t version;      /* RG_PROTOCOL_VERSION */
    struct rg_span token;  /* RG_RANK_TOKEN_NBYTES, of REIGEN_AGENT_TOKEN */
    char *host;            /* as the user wrote it, without user@ */
    char *command;         /* at most RG_MSG_COMMAND_MAX bytes */
};

struct rg_rankmsg_data {
    uint8_t stream;        /* 0 from the client, 1 and 2 to it */
    struct rg_span data;   /* empty: the stream's end */
};

struct rg_rankmsg_credit { /* RG_MSG_REMOTE_WINDOW at first, each stream */
    uint8_t stream;        /* 0 to the client, 1 and 2 from it */
    uint32_t nbytes;
};

struct rg_rankmsg_exit {
    int32_t status;        /* waitpid's */
    char *text;            /* why there is no command, or "" */
};

extern const struct rg_field rg_rankmsg_hello_fields[];
extern const struct rg_field rg_rankmsg_welcome_fields[];
extern const struct rg_field rg_rankmsg_meet_fields[];
extern const struct rg_field rg_rankmsg_epoch_fields[];
extern const struct rg_field rg_rankmsg_update_fields[];
extern const struct rg_field rg_rankmsg_fence_fields[];
extern const struct rg_field rg_rankmsg_fence_done_fields[];
extern const struct rg_field rg_rankmsg_fence_failed_fields[];
extern const struct rg_field rg_rankmsg_peer_died_fields[];
extern const struct rg_field rg_rankmsg_note_fields[];
extern const struct rg_field rg_rankmsg_cut_off_fields[];
extern const struct rg_field rg_rankmsg_numbers_fields[];
extern const struct rg_field rg_rankmsg_taken_fields[];
extern const struct rg_field rg_rankmsg_remote_fields[];
extern const struct rg_field rg_rankmsg_data_fields[];
extern const struct rg_field rg_rankmsg_credit_fields[];
extern const struct rg_field rg_rankmsg_exit_fields[];

/* "rank 3 on b: signal 9 (Killed)", for people, into text, which is returned. */
const char *rg_death_text(const struct rg_rankmsg_peer_died *died, char *text, size_t nbytes);

/* A client of the agent's takes any frame that there is: the frame_max of struct rg_conn_ops. */
size_t rg_rankmsg_frame_max(void *arg, uint16_t type);

/* A token as the variable's text and back. ret_text: RG_RANK_TOKEN_TEXT bytes. parse: 0, or -EINVAL
 * when text (or NULL) is no such text; ret_token is untouched then. */
void rg_rank_token_format(const uint8_t token[RG_RANK_TOKEN_NBYTES], char *ret_text);
int rg_rank_token_parse(const char *text, uint8_t ret_token[RG_RANK_TOKEN_NBYTES]);

#endif
