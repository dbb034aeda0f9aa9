/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Slurm driver share. Nothing outside src/platform/slurm includes it,
 * but tests.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_PLATFORM_SLURM_INTERNAL_H
#define RG_PLATFORM_SLURM_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/str.h"
#include "launch/host/dialogue.h"
#include "launch/host/listener.h"
#include "launch/plan/plan.h"
#include "job/slurm.h"
#include "job/options/options.h"

#define SLURM_ID_MAX 64  /* "1234_7.0" */

struct slurm;
struct slurm_srun;
struct slurm_step;

struct slurm_host {
    struct slurm *slurm;
    struct slurm_step *step;
    int index;            /* in the plan */
    const char *name;     /* borrowed: Slurm's name for the node */
    int task;             /* its number in the step; -1: has not been heard of */
    bool linked;          /* the session has its link */
    bool ended;           /* its agent has ended */
    bool killed;          /* by SIGKILL, which Slurm may have sent */
    bool stopped;         /* by us */
    bool gone;            /* the session knows, or is just about to */
    bool taken;           /* its node is not the job's any more, and has not failed */
    bool asked;           /* whether its node still is, Slurm */
    struct rg_dialogue dialogue;
    struct rg_error err;  /* for on_gone */
    struct rg_timer timer;
};

/* Nodes that one srun is for. */
struct slurm_step {
    struct slurm *slurm;
    int group;                  /* component of a heterogeneous job; -1: it is none */
    int ngpus;                  /* of each of its nodes; -1: Slurm knows best */
    int nhosts;
    struct slurm_srun *srun;    /* step.c's; owned */
};

/* One of Slurm's programs that runs. Zeroed at first. */
struct slurm_question {
    pid_t pid; /* 0: none */
    int fd;    /* what it has said; owned while there is an on_answer */
    struct rg_child child;
    struct rg_timer timer;
    void (*on_answer)(void *arg, char *text);
    void *arg;
};

struct slurm {
    struct rg_dialogue_shared shared;
    struct rg_slurm_allocation allocation;
    struct slurm_host *hosts;   /* room for all that can ever be */
    struct slurm_step *steps;   /* likewise */
    int nsteps, nstarted;       /* those from nstarted on have no srun yet */
    struct rg_timer launch;
    struct slurm_question question; /* which nodes the job has */
    void (*on_missed)(void *arg); /* slurm_miss, of an elastic job; NULL: the host (arg) is gone */
    struct rg_listener *listener;
    struct rg_strv env;         /* srun's */
    char ending[256];           /* why Slurm ends the job, when it said so */
    int ending_code;            /* what we end with then */
};

/* --- events.c --------------------------------------------------------------------------------- */

void slurm_phase(struct slurm_host *host, int phase, const char *reason);
/* Once per host, with its err; from the loop. */
void slurm_host_gone(struct slurm_host *host);
/* Tell the session that the host (arg) is gone. */
void slurm_tell_gone(void *arg);
/* A line of srun's or slurmstepd's; and what scontrol shows of the job, as one line. Keep the cause
 * in slurm->ending if that is one; the first stands. */
void slurm_ending_said(struct slurm *slurm, const char *text);
void slurm_ending_noted(struct slurm *slurm, const char *shown);

/* --- slurm.c ---------------------------------------------------------------------------------- */

/* The agent of this place has proven itself; takes the socket. arg: the driver. */
void slurm_linked(void *arg, const char *place, int take_fd);
/* Listen for the agents, on a port that --port-range, REIGEN_SLURM_PORTS or Slurm's SrunPortRange
 * names, else on any. */
int slurm_listen(struct slurm *slurm, struct rg_error *err);

/* --- nodes.c ---------------------------------------------------------------------------------- */

/* Where the allocation has this node; -1: nowhere. */
int slurm_find_node(const struct rg_slurm_allocation *allocation, const char *name);
/* A host of the plan gets its node, and a step that has not begun. 0; -EINVAL: the allocation has
 * no such node. */
int slurm_assign(struct slurm *slurm, int host, struct rg_error *err);
/* Start the steps (arg: the driver) that have no srun yet. */
void slurm_launch(void *arg);
/* driver.h. Those that are added in one turn of the loop get one step. */
int slurm_add(void *state, int host, struct rg_error *err);
/* The agent of this host (arg), which it has in an elastic job, has ended by no fault of ours, or
 * will not come. If its node is still the job's, it is gone, or tried again where another host's
 * node is what its step ended for. */
void slurm_miss(void *arg);

/* --- step.c ----------------------------------------------------------------------------------- */

/* What its hosts and we say to each other: arg is the host. */
extern const struct rg_dialogue_ops slurm_dialogue_ops;
/* Be able to take what tasks say. 0 or -ENOMEM. */
int slurm_step_prepare(struct slurm_step *step);
/* Start its srun, for all hosts whose step it is. 0 or -errno. */
int slurm_step_start(struct slurm_step *step, struct rg_error *err);
/* Once all of its hosts that are not gone have an agent, they are told what it is to do. */
void slurm_step_check(struct slurm_step *step);
/* The host is gone (slurm_host_gone); in an elastic job the others of its step, which may have
 * waited for it, go on. */
void slurm_step_lose(struct slurm_host *host);
/* The host is to belong to another step: what it had of this one is forgotten. */
void slurm_step_leave(struct slurm_host *host);
/* Why this host is gone, into its err, unless that is known. */
void slurm_step_explain(struct slurm_host *host);
/* End it, each call by other means: no more input, a signal to srun, scancel and SIGKILL. False:
 * there is no srun. */
bool slurm_step_end(struct slurm_step *step);
/* Take bytes of its standard output; of a line that is too long the end counts. */
void slurm_step_take(struct slurm_step *step, const char *bytes, size_t nbytes);
/* The same, of its standard error: its own words and those of tasks. */
void slurm_step_take_errors(struct slurm_step *step, const char *bytes, size_t nbytes);
/* Of a step whose agents were killed: read its standard error until that says why Slurm ends it,
 * srun is over, or it is that late (rg_now_ns). Blocks. Nothing where we have signalled srun. */
void slurm_step_await_cause(struct slurm_step *step, uint64_t until_ns);
/* Let go of everything; a step that still runs is ended. No event follows. */
void slurm_step_fini(struct slurm_step *step);

/* --- acquire.c -------------------------------------------------------------------------------- */

/* What the driver's acquire has got: an allocation, of ours or the one that we are in, and what is
 * known of it. */
struct slurm_held;

/* driver.h. Outside an allocation one is asked for; its variables are then in our environment. */
int slurm_acquire(const struct rg_acquire_options *options, void **ret_held, struct rg_error *err);
void slurm_release(void *held);
/* What was got, with all that Slurm's programs tell. Borrowed until release. */
const struct rg_slurm_allocation *slurm_held_allocation(const struct slurm_held *held,
                                                        enum rg_slurm_scope *ret_scope);
/* job->notice_ms there, in the launcher; 0: nobody knows. */
uint64_t slurm_held_notice_ms(const struct slurm_held *held);
/* The allocation as the agents have it, whose step has all GPUs of its nodes. 0 or -errno. */
int slurm_held_read_whole(const struct slurm_held *held,
                          struct rg_slurm_allocation *ret_allocation, struct rg_error *err);

/* --- salloc.c: in the launcher alone ---------------------------------------------------------- */

struct slurm_salloc;

/* Ask for an allocation. on_got follows once: its variables are in our environment, or err says why
 * there is none. 0; -errno, and nothing follows. */
int slurm_salloc_start(const struct rg_acquire_options *options,
                       void (*on_got)(void *arg, const struct rg_error *err), void *arg,
                       struct slurm_salloc **ret_salloc, struct rg_error *err);
/* Give it back, or take the request back: no event follows. May block for seconds. Frees. */
void slurm_salloc_end(struct slurm_salloc *salloc);
/* salloc's and sbatch's options for what the user wants. 0 or -ENOMEM. */
int slurm_wish_add(const struct rg_job *job, struct rg_strv *argv);

/* --- ask.c ------------------------------------------------------------------------------------ */

/* Of what one of Slurm's programs said, the last line that tells an error, else the last one: into
 * buf, cut to fit, which is returned. */
const char *slurm_complaint(const char *said, char *buf, size_t nbytes);
/* What to do about it; "" where that is not known. */
const char *slurm_remedy(const char *complaint);
/* That of the first whose pattern is in it; the last has none, and is for all the others. */
struct slurm_known {
    const char *pattern, *remedy;
};
const char *slurm_find_remedy(const struct slurm_known *known, const char *complaint);
/* What one of them has written to this file in memory, cut to fit. */
void slurm_take_answer(int fd, char *ret_text, size_t nbytes);
/* As rg_slurm_ask, for at most so long. */
int slurm_ask_within(char *const *argv, char *ret_text, size_t nbytes, uint64_t ms);

/* --- pending.c -------------------------------------------------------------------------------- */

/* Add what squeue's reason means for a job that waits, and what helps, as the end of a sentence;
 * nothing where time alone does. undo: how the request is taken back, such as "press Ctrl-C". */
void slurm_put_pending(struct rg_buf *text, const char *reason, const char *undo);

/* --- queue.c; driver.h ------------------------------------------------------------------------ */

int slurm_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                 struct rg_error *err);
uint64_t slurm_notice_ms(void);
int slurm_status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err);
int slurm_cancel(struct rg_submitted_job *job, struct rg_error *err);

/* --- beside.c --------------------------------------------------------------------------------- */

/* driver.h. */
int slurm_beside(const struct rg_submitted_job *job, char *const *argv, struct rg_strv *words,
                 struct rg_error *err);

/* --- options.c -------------------------------------------------------------------------------- */

extern const struct rg_option slurm_options[];
bool slurm_remark(const struct rg_job *job, char *buf, size_t nbytes);

#define SLURM_ANSWER_MAX (1u << 20) /* of a job on 10,000 nodes */

/* As rg_slurm_ask, but by the loop: on_answer gets what it has said, which is NULL unless it ended
 * well; it may start the next one. 0 or -errno. */
int slurm_question_start(struct slurm_question *question, struct rg_loop *loop, char *const *argv,
                         void (*on_answer)(void *arg, char *text), void *arg);
/* No answer is wanted any more. A zeroed one is fine. */
void slurm_question_stop(struct slurm_question *question);

/* What Slurm's variables do not tell of an allocation: the questions, one after the other. */
struct slurm_facts {
    struct rg_strv env;  /* what the allocation was read from; borrowed */
    struct rg_slurm_allocation *allocation; /* takes the answers; borrowed */
    enum rg_slurm_scope scope;
    size_t nasked;
    int ngpus;           /* that nvidia-smi finds here */
    char *details;       /* what scontrol shows of the job; NULL: nothing. Owned */
    bool wants_config;   /* Slurm is to be asked for */
    int kill_wait_s;     /* what it has between SIGTERM and SIGKILL; 0: nobody knows */
    char *argv[8], job[SLURM_ID_MAX + 8];
};

/* The next command that is to be asked, borrowed until the next call; NULL: all were. */
char *const *slurm_facts_next(struct slurm_facts *facts);
/* What it has said; NULL: nothing. */
void slurm_facts_take(struct slurm_facts *facts, const char *text);

/* --- command.c -------------------------------------------------------------------------------- */

/* Whether it begins with one of these; the last is NULL. */
bool slurm_starts_with_one(const char *entry, const char *const *prefixes);
/* srun's environment: the caller's, without what would be options of srun, and without secrets. 0
 * or -ENOMEM. */
int slurm_command_env(const struct rg_job *job, struct rg_strv *env);
/* Whether our agent makes the containers; else there are none, or pyxis makes them. */
bool slurm_contains(const struct rg_job *job);
/* srun's argument list. 0 or -ENOMEM. */
int slurm_command_make(const struct slurm_step *step, struct rg_strv *argv);
/* What each task runs, for a Bourne shell: one line, the first one of its standard input. Appended
 * to text. */
void slurm_command_script(const struct slurm *slurm, struct rg_buf *text);
/* A word for a Bourne shell, in single quotes. Appended to text. */
void slurm_put_quoted(struct rg_buf *text, const char *word);
/* argv[0] is not there. */
int slurm_command_missing(const char *program, struct rg_error *err);

#endif
