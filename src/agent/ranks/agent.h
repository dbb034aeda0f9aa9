/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: beside every group of ranks, it starts them, carries their input and output, hands on
 * signals, sees each death, and leaves nothing behind. It knows nothing of drivers or plans: the
 * launcher's messages (wire/msg.h) say all it does.
 *
 *      WAITING (SETUP, RANKs) --START--> RUNNING --last rank reaped--> SWEEPING --no child left-->
 *      GONE --output sent--> BYE
 *
 * A resident agent (SETUP) stays RUNNING without ranks until RELEASE, for remote commands. That of
 * an elastic job is resident: while RUNNING it may get RANKs and START again, for new places, and
 * for those whose process has ended.
 *
 * When the link closes or the launcher is silent for the lease, whatever the state, everything is
 * killed and the process ends.
 *
 * This header is internal to src/agent: what its files share. Thread rule: one thread, the loop's.
 */
#ifndef RG_AGENT_RANKS_AGENT_H
#define RG_AGENT_RANKS_AGENT_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "agent/start/lines.h"
#include "agent/store/jobdir.h"
#include "agent/ranks/once.h"
#include "agent/look/oom.h"
#include "base/loop.h"
#include "wire/msg.h"
#include "wire/rankmsg.h"

struct rg_agent;
struct rg_inspect;
struct rg_prober;
struct rg_rankserver;
struct rg_rankconn;
struct rg_remote;
struct rg_remote_clients;

/* Those that come by several ways: SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2. */
#define RG_AGENT_SIGNALS 5
#define RG_AGENT_SWEEP_LIMIT_S 4 /* then the kernel does not let processes go that were killed */
extern const int rg_agent_signals[RG_AGENT_SIGNALS];

/* One stream of a rank's or a remote command's output, on its way to the launcher. */
struct rg_pump {
    struct rg_agent *agent;
    void *owner;      /* a struct rg_task or rg_remote */
    uint8_t stream;   /* 1 or 2 */
    int fd;           /* -1: at its end */
    struct rg_io io;
    bool last;        /* its writer has ended: when nothing is there, it is at its end */
    uint64_t *credit; /* bytes that may still be sent */
    void (*send)(struct rg_pump *pump, uint8_t *data, size_t nbytes); /* none: the end */
    void (*ended)(void *owner); /* found by the loop, after send; it may free the pump */
};

/* One rank; in an elastic job, one place and the process that is there now. */
struct rg_task {
    struct rg_agent *agent;
    struct rg_msg_rank spec; /* owned */
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    cpu_set_t cpus;          /* bound to these, ncpus of them; 0: not bound */
    int ncpus;
    char *cpus_text;         /* the same for people, "0-3,8"; NULL: not bound */
    char *gpus;              /* owned: what CUDA is to see, "0,1"; NULL: what all ranks see */
    pid_t pid;               /* 0: never started */
    bool ended;              /* reaped, or could not be started */
    uint32_t signalled;      /* the last signal that we sent it for the launcher */
    struct rg_pump pumps[2];
    int input_fd;            /* -1: takes none, or none any more; the terminal's with pty */
    struct rg_io input_io;
    uint64_t input_at;       /* bytes of the input's whole stream that it has been given */
    bool input_eof_sent;     /* pty: the end-of-file character was written */
    struct rg_rankconn *conn;/* its runtime's connection, or NULL; the server's */
    bool in_runtime;         /* said HELLO and not yet GOODBYE */
    bool met, waits;         /* MEET was said on this connection; and has not been answered */
    bool elastic;            /* ELASTIC was said by this process */
    uint32_t over_epoch;     /* the newest one when the place's last process ended */
    uint32_t met_epoch;      /* a newer one than this is wanted */
    uint32_t epoch, number;  /* the epoch that it was told last, 0: none; its rank therein */
    uint32_t cut_by;         /* by its runtime's word: of CUT_OFF, or RG_MSG_NO_RANK */
    uint32_t fence;          /* the generation of the fence it waits in; 0: none */
};

/* Standard input on its way to the ranks: held once, however many ranks take it. */
struct rg_task_input {
    struct rg_buf buf;
    uint64_t buf_at;   /* position in the whole stream of the buffer's first byte */
    uint64_t uncredited; /* bytes that all have got and the launcher has not heard of */
    bool eof;
    bool in_line;      /* the last byte was no newline */
    bool closed_told;  /* INPUT_CLOSED was sent */
};

/* How long the launcher may be silent until the ranks here are ended. It is counted in ticks that
 * this process itself has lived through, so that a computer that slept, or a paused job, has not
 * been silent. */
struct rg_lease {
    struct rg_timer timer;
    uint64_t limit_ms, tick_ms, silent_ms;
    bool paused; /* no time counts */
};

/* Ends, and what is left behind; reap.c's. */
struct rg_reaper {
    struct rg_child child;
    struct rg_oom oom;
    struct rg_timer timer; /* until nothing is left */
    uint64_t deadline_ns;
    uint32_t nleft; /* how many processes could not be ended, once that is over */
};

/* Remote commands that run here; remote.c's. */
struct rg_remotes {
    struct rg_remote *first; /* NULL: of all of them EXIT has been sent */
    bool released;         /* nobody asks for more of them */
    bool over;             /* and their time to end is over */
    struct rg_timer timer; /* of that time */
};

/* The Python packages of ours that ranks here get; packages.c's. */
struct rg_packages {
    char *bundle;       /* owned: the cache's directory with the packages; NULL: none */
    char *dir;       /* owned: JOBDIR/py-packages; NULL: there is none */
    uint8_t *data;   /* owned: of the archive, what has come; NULL: none is under way */
    size_t have;
    uint64_t wanted; /* bytes in all that the launcher may have sent by now */
};

/* The copy of the user's directory that ranks here run in, and the child that makes it, or tidies
 * it up; copy.c's. */
struct rg_copy {
    bool awaited;          /* no rank may start before it is there */
    char *folder;          /* owned: agent/sync/sync.h; NULL: there is none */
    int lock_fd;           /* of the folder, while there is one */
    pid_t pid;             /* of the child; 0: none */
    int in_fd, out_fd;     /* -1: closed */
    struct rg_io in_io, out_io;
    struct rg_buf in, out; /* on the way to it, and from it */
    struct rg_timer limit; /* for tidying */
    bool tidies;           /* that is what the child does */
    /* The launcher is gone, from rg_copy_start on: begin to leave; and, as no rank lives any more,
     * have the copy removed, which blocks. */
    void (*leave)(struct rg_agent *agent, bool ranks_gone);
};

/* What only elastic jobs have. */
struct rg_agent_epochs {
    bool start_due;             /* a START came, and some have not been started yet */
    struct rg_msg_epoch newest; /* owned; number 0: none has come */
    struct rg_rankmsg_update update; /* what was said since then; stamp 0: nothing */
};

/* A signal that Slurm may send to the ranks itself waits so long. */
struct rg_late {
    struct rg_timer timer;
    int signo;
};

enum rg_agent_state { RG_AGENT_WAITING, RG_AGENT_RUNNING, RG_AGENT_SWEEPING, RG_AGENT_GONE,
                      RG_AGENT_DONE };

struct rg_agent {
    struct rg_loop *loop;
    struct rg_channel *channel;
    struct rg_agent_lines boot;
    enum rg_agent_state state;
    int exit_code;
    /* What run.c does when files below it have done their part: go on to GONE and BYE as soon as
     * nothing keeps us; and leave, as the link is gone. */
    void (*advance)(struct rg_agent *agent);
    void (*on_lost)(struct rg_agent *agent);

    struct rg_msg_setup setup; /* owned once has_setup */
    bool has_setup;
    struct rg_task **tasks;    /* in order of local rank; each owned */
    size_t ntasks;
    struct rg_agent_epochs epochs;

    uint64_t credit;           /* bytes of output that we may still send */
    uint8_t *scratch;          /* RG_MSG_CHUNK_MAX bytes, for reading */
    struct rg_task_input input;
    struct rg_rankserver *server;
    struct rg_prober *prober;   /* until START */
    struct rg_inspect *inspect; /* NULL: none under way */
    struct rg_jobdir jobdir;   /* from SETUP on */
    struct rg_packages packages; /* likewise */
    struct rg_copy copy;         /* likewise */
    struct rg_remotes remotes;
    struct rg_remote_clients *clients; /* remote commands whose client is here; remote.h */
    struct rg_reaper reaper;
    struct rlimit nofile;      /* as we found it: the ranks get it back */

    struct rg_lease lease;
    struct rg_io keeper;       /* see keeper_fd of start/lines.h */
    struct rg_signal signals[RG_AGENT_SIGNALS];
    struct rg_heard heard[RG_AGENT_SIGNALS];
    struct rg_late late;
};

/* By rank, or NULL. */
static inline struct rg_task *rg_agent_find_task(const struct rg_agent *agent, uint32_t rank)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        if (agent->tasks[i]->spec.rank == rank)
            return agent->tasks[i];
    }
    return NULL;
}

/* Run an agent for boot, whose key is wiped, until the launcher is done with it or gone. Returns
 * the exit code. With boot->waits that is 0 only when the job has ended well, and else 75, but
 * RG_AGENT_UNSTARTED where the link ended before START: nothing is left then, and the caller may
 * call again. */
#define RG_AGENT_UNSTARTED (-1)
int rg_agent_run(struct rg_agent_lines *boot);

/* --- send.c ----------------------------------------------------------------------------------- */

/* Send a message to the launcher. A failure ends everything: without the link there is no job. */
void rg_agent_send(struct rg_agent *agent, enum rg_msg_type type, const void *object);
/* A remark for the user, of this host. */
void rg_agent_note(struct rg_agent *agent, const char *fmt, ...) rg_printf(2, 3);
/* The launcher is gone: kill all, wait for them (at most 4 s), leave the process. */
_Noreturn void rg_agent_abandon(struct rg_agent *agent);
/* Whether who keeps this process is gone: its guard, or what runs it in a container. */
bool rg_agent_is_orphan(const struct rg_agent *agent);
/* SIGKILL to everything that descends from us. Returns how many processes there were. */
size_t rg_agent_kill(struct rg_agent *agent);

/* --- lost.c ---------------------------------------------------------------------------------- */

/* The launcher is gone: as rg_agent_abandon, but under Slurm ranks that it tells to end have their
 * time before. */
_Noreturn void rg_agent_lose_launcher(struct rg_agent *agent);
/* By signal: whether the last one was from a root process that is not our parent, as Slurm's are;
 * and whether SIGTERM has come at all. The handler sets them. */
extern volatile sig_atomic_t rg_agent_directly[NSIG], rg_agent_told_to_end;

/* --- run.c, hello.c --------------------------------------------------------------------------- */

/* Say HELLO; arg: the agent. hello.c */
void rg_agent_say_hello(void *arg);

/* --- tasks.c: starting ranks ------------------------------------------------------------------ */

/* What every process that we start here has: our own environment where that is wanted, what the job
 * gives, and where the job's network is, unless somebody has said that. remote: the command of
 * another host that is to be started, or NULL. Appended. 0 or -ENOMEM. */
int rg_agent_common_env(const struct rg_agent *agent, const char *remote, struct rg_strv *env);
/* Set what entries have, NAME=VALUE each. 0 or -ENOMEM. */
int rg_agent_set_entries(struct rg_strv *env, const struct rg_strv *entries);
/* Add a rank, or put a new process in the place of one that has ended, of which nothing lives: what
 * that one wrote is sent before the new one starts. Takes what spec owns. 0 or -ENOMEM, -EINVAL (a
 * rank beyond the job's size), -EBADMSG (one that has not ended). */
int rg_agent_add_task(struct rg_agent *agent, struct rg_msg_rank *take_spec);
/* Start those that were not yet, and tell the launcher of each. After the first failure no more are
 * tried. start_due stays where the output of some place's last process has not been sent. */
void rg_agent_start_tasks(struct rg_agent *agent);
/* It will not be started. */
void rg_task_cancel(struct rg_task *task);
void rg_task_destroy(struct rg_task *task);

/* --- streams.c -------------------------------------------------------------------------------- */

/* Take over fd as the source (non-blocking from now on) of a pump whose other fields are set. */
void rg_pump_open(struct rg_pump *pump, int take_fd);
void rg_pump_close(struct rg_pump *pump);
/* Read from the source or leave it, as credit and link allow; once nothing of ours is left that
 * could write, read to the end. ended is not called. */
void rg_pump_flow(struct rg_pump *pump);
/* Read what is there already, as credit and link allow. ended is not called. */
void rg_pump_catch_up(struct rg_pump *pump);
/* True when all streams of the rank, or of all ranks, are at their end. */
bool rg_task_drained(const struct rg_task *task);
bool rg_agent_drained(const struct rg_agent *agent);

/* Bytes, or the end, from the launcher. -EMSGSIZE when it ignored its credit; -ENOMEM. */
int rg_agent_input(struct rg_agent *agent, const uint8_t *data, size_t nbytes);
void rg_agent_input_eof(struct rg_agent *agent);
/* Give ranks what they lack; tell the launcher what was taken, or that nobody reads any more. */
void rg_agent_input_flow(struct rg_agent *agent);
void rg_task_input_close(struct rg_task *task);

/* --- copy.c: --sync --------------------------------------------------------------------------- */

/* Of SETUP: start the child that makes the copy, or look for the script. */
void rg_copy_start(struct rg_agent *agent);
/* Bytes for it. 0, -EBADMSG (there is none, or more than a window of them), -ENOMEM. */
int rg_copy_data(struct rg_agent *agent, const struct rg_span *data);
/* No rank lives any more, or none ever will: have the copy removed, in so many steps as it takes.
 * False: come again when advance is called. */
bool rg_copy_tidied(struct rg_agent *agent);

/* --- inspect.c: INSPECT, the launcher wants to know what this host is like -------------------- */

/* Tell our clock, then run ourselves as `reigen-agent doctor` with the environment that ranks get:
 * a process of its own, because looking at a host may block (a python on a network file system, a
 * hanging nvidia-smi). INSPECTED follows once, with what it writes, RG_INSPECT_TEXT_MAX bytes at
 * most; after the time limit it is killed, and what it wrote until then is sent. -EBADMSG when one
 * is under way. */
int rg_inspect_start(struct rg_agent *agent, uint32_t limit_ms);
#define RG_INSPECT_TEXT_MAX (64u << 10)
/* Kill it; nothing more is sent. Nothing to do when none runs. */
void rg_inspect_stop(struct rg_agent *agent);

/* --- reap.c: signals and ends ----------------------------------------------------------------- */

/* Send signo to every rank's process group; the ranks' ends will name it. Not where it has come by
 * another way already, nor where Slurm has sent it to the ranks itself (once.h); to find that out
 * it may be sent a little later. */
void rg_agent_signal(struct rg_agent *agent, int signo, enum rg_signal_way way);
/* Send it now, whatever has come. */
void rg_agent_deliver(const struct rg_agent *agent, int signo);
/* To one rank's process group, with SIGCONT after those that end a process; where it has ended, to
 * what it left in its session. */
void rg_task_signal(struct rg_task *task, int signo);
/* SIGSTOP or SIGCONT, and the lease's clock with it. */
void rg_agent_pause(struct rg_agent *agent, bool pause);
/* Watch children, from now to rg_reaper_stop. */
void rg_reaper_start(struct rg_agent *agent);
void rg_reaper_stop(struct rg_agent *agent);
/* When the last rank has ended: end what they left behind. */
void rg_agent_sweep(struct rg_agent *agent);

#endif
