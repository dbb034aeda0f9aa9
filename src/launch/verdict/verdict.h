/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who failed first, and what that means: the rules by which a job's end is judged, as a pure
 * function of what the session has seen. Times are those at which the launcher heard of an end, so
 * that one clock orders all.
 *
 *   1. A rank failed when it ended other than by exit code 0, and is not excused: a job with roles
 *      may bear that some tasks fail, and does not need all once enough have succeeded.
 *   2. A failure is a consequence when the session had signalled the rank to stop before, or had
 *      told its runtime of another rank's failure; when its host was lost; when it was not started
 *      because another could not be; or when its runtime said that what it was at was cut off by
 *      the end of another rank, and that one failed too, or deserted it.
 *   3. A rank deserts when it ends with exit code 0, and another one that was cut off by its end
 *      then ends with a code other than 0. That code is the job's.
 *   4. First is the earliest failure or desertion that is no consequence. When ranks name each
 *      other in a circle, it is the earliest of those. Nobody is first whom the loss of a host cut
 *      off, directly or through others, however late that loss was heard of.
 *   5. Ranks that ended by themselves soon after the first, with its exit code and its last words,
 *      had the same error: they are no consequences. So had ranks that were signalled as they were
 *      still about to end by it, which a traceback equal to the first's shows, and nothing else.
 *      Whoever says that it was cut off is never one of them; nor who had heard of an end and wrote
 *      nothing on standard error.
 *   6. A cause of the session's own (a limit, a lost host, a signal to reigen) that came before any
 *      rank failed wins; there is no first rank then.
 *   7. A signal to reigen after which all ranks ended with 0 is a good end; every other own cause
 *      is not. If they ended with 75, as they have saved their work, that is the job's code.
 *   8. Lost output makes 74 of an end that is good otherwise.
 *
 * Thread rule: any.
 */
#ifndef RG_LAUNCH_VERDICT_VERDICT_H
#define RG_LAUNCH_VERDICT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rg_end { RG_END_EXIT, RG_END_SIGNAL, RG_END_NOT_STARTED, RG_END_LOST };

struct rg_failure;

/* How one rank ended. */
struct rg_rank_end {
    int rank;
    const char *host;     /* borrowed from the plan */
    const char *engine;   /* what the rank really is, such as "mpirun" or, of a job with roles,
                           * "worker-0"; borrowed. NULL: a rank */
    enum rg_end end;
    int value;            /* exit code, signal number, or errno for NOT_STARTED */
    bool oom;             /* the kernel's out-of-memory killer did it, or ended a process of it */
    char *memory;         /* ... and which limit that was; "" or NULL: not known */
    char *sshd_host;      /* a script that could not begin, as its sshd failed there; NULL: none */
    int sshd_port;
    bool consequence;     /* it died because of another rank or of us (stopped by the session) */
    bool borne;           /* it failed by itself, which the rules of its role allow */
    bool same;            /* in a verdict: it had the first's error by itself, or is that first */
    bool in_runtime;      /* its runtime had not been shut down */
    /* last report of the rank's runtime ("mismatch ..."), or "" */
    const char *note;
    /* where its program was when the end began, "train.py:41 in load_batch"; "" or NULL: nobody
     * has asked, or it is not known */
    const char *place;
    uint64_t at_ns;       /* since the session's start, launcher's clock */
};

/* The end of the job. Strings are borrowed from the session. */
struct rg_verdict {
    int exit_code;                  /* by the documented table */
    bool ok;                        /* all ranks ended with 0 and nothing was lost */
    const char *cause;              /* "rank 2 on localhost: exit code 7"; "" when ok; of hosts
                                     * that could not be started one line each, without an end */
    /* who failed first, or NULL (a host, a limit, a signal to reigen); exit code 0: it left while
     * others waited for it, and so made them fail */
    const struct rg_rank_end *first;
    const struct rg_rank_end *code_of; /* whose end exit_code tells: first, or one it made fail */
    const char *const *last_lines;  /* first's last lines of output, oldest first */
    size_t nlast_lines;
    const struct rg_rank_end *ends; /* of all ranks that were to run, by rank; plan->nranks */
    int nends;
    uint64_t elapsed_ns;
    const struct rg_failure *failure; /* first's, where it may be compared with another
                                       * attempt's; or NULL */
    const struct rg_failure *twice;   /* two of them that are the same, the job having got no
                                       * further: it is not started again for that; or NULL */
};

/* What is known of one rank's end. */
struct rg_fact {
    struct rg_rank_end end; /* consequence: filled in by judging */
    bool ended;
    uint32_t signalled;     /* the last signal that the session sent it before its end, or 0 */
    bool told;              /* its runtime had been told of another rank's end before */
    int cut_by;             /* 1 + the rank whose end its runtime said it was cut off by, or for
                             * which it waited in vain where the ranks meet; 0: none */
    bool awaited;           /* one that it cut off has failed: its end is waited for */
    bool excused;           /* its failure is none of the job's, by the rules of its role */
    uint64_t lines, error;  /* rg_tail_hash, rg_tail_hash_error of its standard error */
    bool traceback;         /* that error is one */
    int exit_code;          /* NOT_STARTED: of its table */
    char *text;             /* NOT_STARTED: why; else NULL */
};

struct rg_facts {
    struct rg_fact *ranks;
    int nranks;
    const char *own_cause;   /* "" while the session has none */
    int own_exit_code;
    bool own_first;          /* the own cause came before any rank failed */
    bool own_is_signal;      /* it is a signal to reigen */
    bool script;             /* the only rank is a script, which may handle that signal: then its
                              * exit code counts */
    const char *output_lost; /* "" or why */
};

#define RG_CAUSE_MAX 4096 /* of the hosts that cannot be started, each has a line */

/* Whether it is exit code 0. */
bool rg_end_is_good(const struct rg_rank_end *end);

/* True when this rank's end is a consequence, as far as is known now. */
bool rg_verdict_is_consequence(const struct rg_facts *facts, int rank);

/* Mark consequences and who had the same error, and judge. cause: room for the text. Fills
 * exit_code, ok, cause, first and code_of of *ret_verdict (both point into facts); the rest is the
 * session's. */
void rg_verdict_judge(struct rg_facts *facts, char cause[RG_CAUSE_MAX],
                      struct rg_verdict *ret_verdict);

/* "exit code 7" */
void rg_verdict_describe_end(const struct rg_fact *fact, char *text, size_t nbytes);

#endif
