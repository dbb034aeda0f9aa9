/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a starting host and the launcher say to each other before there is a link
 * (docs/protocol.md, "Before the link"): the host asks for what it lacks, an agent reads its boot
 * lines, and then its stream becomes the link, or it calls (listener.h).
 *
 *     ASKING --need agent--> INSTALLING --ready--> READY --link--> LINKED
 *        |                                           ^
 *        +------------------ready--------------------+         error, or a broken rule --> OVER
 *
 * A driver brings bytes in, and carries answers out as its platform does: to one host (ssh), or to
 * all that share a stream (srun).
 *
 * Ownership: all structs are embedded, zeroed at first. Thread rule: the loop's thread; nothing
 * blocks, but rg_dialogue_shared_init reads files.
 */
#ifndef RG_LAUNCH_HOST_DIALOGUE_H
#define RG_LAUNCH_HOST_DIALOGUE_H

#include <sys/resource.h>

#include "base/buf.h"
#include "launch/host/agentfile.h"
#include "launch/host/driver.h"
#include "launch/host/preamble.h"

#define RG_DIALOGUE_MACHINES 2 /* kinds of machines that there may be agents for */

/* --- what all hosts of a job have in common --------------------------------------------------- */

struct rg_dialogue_shared {
    struct rg_driver_options o;
    struct rg_agent_file agents[RG_DIALOGUE_MACHINES]; /* without data: there is none */
    char agent_path[PATH_MAX]; /* for hosts that are this computer */
    char cwd[PATH_MAX];        /* ours, where ranks run where it is there; "": not known */
    struct rlimit nofile;      /* of our children: before we raised our own, as hosts need many */
    struct rg_strv notes;      /* that were shown */
};

/* load: hosts may ask for an agent, so one must be there. 0; -errno with exit code 69. */
int rg_dialogue_shared_init(struct rg_dialogue_shared *shared,
                            const struct rg_driver_options *options, bool load,
                            struct rg_error *err);
void rg_dialogue_shared_fini(struct rg_dialogue_shared *shared);

/* For a Bourne shell's script: $m, $n and $k become the kind of machine, its agent's size and name;
 * where there is no agent for it the script says so, and ends. Appended to text. */
void rg_dialogue_put_machines(const struct rg_dialogue_shared *shared, struct rg_buf *text);

/* Boot lines (agent/start/lines.h), appended to out. */
struct rg_dialogue_boot {
    const char *lines; /* the driver's own, each with its newline: the link, the guard */
    const char *cwd;   /* optional: where ranks are to run, if it is there */
    bool contain;      /* `reigen-agent contain` reads them: the job's container is told */
    int host;          /* in the plan; 0 where all are told the same */
};

/* 0; -E2BIG: the container's description is too long. out must be wiped: the key is in it. */
int rg_dialogue_put_boot(const struct rg_driver_options *options,
                         const struct rg_dialogue_boot *boot, struct rg_buf *out);

/* --- one host --------------------------------------------------------------------------------- */

enum rg_dialogue_state {
    RG_DIALOGUE_ASKING,     /* nothing of ours is heard of it, but remarks */
    RG_DIALOGUE_INSTALLING, /* the agent was sent */
    RG_DIALOGUE_READY,      /* an agent, or contain, reads what it is to do, or has read it */
    RG_DIALOGUE_LINKED,     /* what follows is the link */
    RG_DIALOGUE_OVER,       /* it cannot start */
};

struct rg_dialogue_ops {
    /* Send it this agent, which takes it and says that it is ready. */
    void (*send_agent)(void *arg, const struct rg_agent_file *agent);
    /* Send it the boot lines: rg_dialogue_put_boot. */
    void (*send_boot)(void *arg);
    /* Send it Reigen's Python packages: rg_place_pack_bundle. */
    void (*send_bundle)(void *arg);
    /* It cannot start: it said so, or it broke the rules. */
    void (*on_error)(void *arg, const struct rg_error *err, bool said);
    /* NULL: it calls instead. Or: its stream is the link, from here on. */
    void (*on_link)(void *arg);
};

struct rg_dialogue {
    struct rg_dialogue_shared *shared; /* borrowed, like ops and arg */
    const struct rg_dialogue_ops *ops;
    void *arg;
    int host; /* in the plan */
    enum rg_dialogue_state state;
    bool got_bundle;
    struct rg_preamble said; /* to be quoted */
};

/* Take these bytes, at most as many as rg_preamble_peek said. 1: they end a line of ours; 0: they
 * do not; -EPROTO, -EMSGSIZE: on_error was told. Nothing is heard after the end. */
int rg_dialogue_feed(struct rg_dialogue *dialogue, const void *bytes, size_t nbytes);
/* The same from a socket, of which nothing behind the line `link` is taken. -EAGAIN: nothing is
 * there; another -errno: nothing more will come. */
int rg_dialogue_read(struct rg_dialogue *dialogue, int fd);

/* --- the streams of what we have started ------------------------------------------------------ */

/* Its standard input. A zeroed one with fd -1 is closed. */
struct rg_sender {
    int fd;             /* a socket, so that a write to what is dead raises no signal; borrowed */
    struct rg_buf out;  /* what is to be sent; wiped as it goes */
    struct rg_loop *loop;
    struct rg_io io;
    void (*on_moved)(void *arg); /* NULL, or: some of it went */
    void *arg;
};

/* Send what out holds, by and by. 0 or -ENOMEM: putting it there has failed. */
int rg_sender_send(struct rg_sender *sender);
void rg_sender_stop(struct rg_sender *sender); /* out is wiped */

/* Its standard error, for as long as a job runs: by lines, of which the first and the last ones are
 * kept. A zeroed one is closed. */
struct rg_error_stream {
    int fd; /* owned */
    bool open;
    struct rg_preamble said; /* to be quoted */
    struct rg_io io;
    void (*on_line)(void *arg, const char *text);
    void *arg;
};

/* Forget what was said, and read this. */
void rg_error_stream_start(struct rg_error_stream *stream, struct rg_loop *loop, int take_fd,
                           void (*on_line)(void *arg, const char *text), void *arg);
/* Take what came another way, or in a test. */
void rg_error_stream_feed(struct rg_error_stream *stream, const char *bytes, size_t nbytes);
/* Take all that is there: what its writer wrote before it ended counts. */
void rg_error_stream_drain(struct rg_error_stream *stream);
void rg_error_stream_stop(struct rg_error_stream *stream);

/* Make a child's streams: a socket for its input, and with `both` for its output too, which is a
 * pipe else; a pipe for its errors. ours[1] is -1 with `both`; those we read do not block. 0 or
 * -errno. */
int rg_streams_open(bool both, int ours[3], int theirs[3]);

#endif
