/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a stall, and its words: which ranks have called each operation that does not
 * come to its end, which have not, and what those are at instead. A node's leader collects it of
 * its own ranks and sends it as text; the coordinator puts the nodes together, and speaks for the
 * job.
 *
 * The text has a line for each operation, "op AGE STATES NAME" (milliseconds; one letter of enum
 * rg_stall_state for each rank of the node, in order), and one for each rank of the node, "rank
 * FLAG DETAIL" ('b': a thread waits, and nothing is submitted; 'r': and it rests; 'f': it ends by
 * an error; '-': else). Behind an operation may stand "times N NAME": all have done it so often
 * before. Behind a rank may stand "at PLACE<tab>CALL": where it is in its own language, and in C;
 * and "unrest WHAT": what keeps it from rest.
 *
 * Thread rule: pure functions over the caller's data; nothing blocks.
 */
#ifndef RG_COLL_OBSERVE_STALL_FACTS_H
#define RG_COLL_OBSERVE_STALL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum rg_stall_state {
    RG_STALL_UNKNOWN = '?',
    RG_STALL_CALLED = 'w', /* and waits for the others, or will */
    RG_STALL_OWES = 'o',
    RG_STALL_JOINED = 'j',
};

struct rg_stall_op {
    char *name;
    uint64_t age_ms; /* of the longest wait that is known */
    uint64_t times;  /* so often all ranks have done it before, as far as is known */
    char *states;    /* by rank */
};

struct rg_stall_who {
    bool blocked;
    bool rests;   /* blocked, and nothing else in its process is at work (ground/rest.h) */
    bool fails;   /* it ends by an error of its own */
    char *detail; /* where the rank is and what its process does; NULL: not known */
    char *place;  /* "train.py:41 in load_batch"; NULL: not known */
    char *call;   /* "read(/data/part-3)"; NULL: not known, or it waits for others */
    char *unrest; /* "uses a processor": why it does not rest; NULL: not known */
};

/* All owned, but world_ranks. */
struct rg_stall_facts {
    int nranks;
    const int *world_ranks; /* what people call them; NULL: as they are counted */
    struct rg_stall_who *who;
    struct rg_stall_op *ops;
    int nops;
    size_t capacity;
};

/* 0 or -ENOMEM; to be ended by rg_stall_facts_fini either way. */
int rg_stall_facts_init(struct rg_stall_facts *facts, int nranks, const int *world_ranks);
void rg_stall_facts_fini(struct rg_stall_facts *facts);
/* The operation of this name, made when it is new (states: RG_STALL_UNKNOWN); NULL: no memory. The
 * pointer holds until the next call. */
struct rg_stall_op *rg_stall_facts_op(struct rg_stall_facts *facts, const char *name);

/* What is known of these n ranks, as text; and the way back. Broken lines are left out. */
void rg_stall_facts_put(const struct rg_stall_facts *facts, const int *ranks, int n,
                        struct rg_buf *out);
void rg_stall_facts_take(struct rg_stall_facts *facts, const int *ranks, int n, const char *text);

/* Whether the operation has got done since nodes have told of it: no rank owes it, `here`, a rank
 * of the node that knows what was offered, is not in it, and of the nodes none (nmissing) lacks it.
 * A name in which a character was replaced is not found there: false. */
bool rg_stall_op_is_over(const struct rg_stall_op *op, int here, int nmissing);

/* For people, of operations that have waited so long: "Rank 0 has not called allgather.acc; it
 * waits in allreduce.loss.", a line for each kind of rank; a line that says "deadlock" where ranks
 * wait for each other; lines about the processes of missing ranks that do not wait; and where ranks
 * are, those of one place in one line. Nothing: nobody is missing. */
void rg_stall_facts_tell(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out);
/* All who are missing end by errors of their own, which will be told when they have: append one
 * line that says so. False, and nothing: it is not so. */
bool rg_stall_facts_tell_failing(const struct rg_stall_facts *facts, uint64_t than_ms,
                                 unsigned long long seconds, struct rg_buf *out);
/* Some wait for each other, as far as is known; at_rest: and all ranks rest, as far as they
 * can tell. */
bool rg_stall_facts_is_deadlock(const struct rg_stall_facts *facts, uint64_t than_ms, bool at_rest);
/* The first of these lines, who is missing, and where the first of them is. */
void rg_stall_facts_sum_up(const struct rg_stall_facts *facts, uint64_t than_ms,
                           struct rg_buf *out);
/* Whether more is to be told than before: a rank is missing that was not, or for something else
 * first, or some are known to wait for each other. told: what has been told, a number for each rank
 * and one more, zeroed at first; it is brought up to date. Who comes and goes, as under load, is
 * told of once; so is what ranks owe besides. */
bool rg_stall_facts_is_news(const struct rg_stall_facts *facts, uint64_t than_ms, uint64_t *told);
/* The rank is there; texts without lines of their own. */
void rg_stall_facts_place(struct rg_stall_facts *facts, int rank, const char *place,
                          const char *call);
/* The rank does this, and does not rest. */
void rg_stall_facts_unrest(struct rg_stall_facts *facts, int rank, const char *unrest);
/* "rank 1 uses a processor": the first of those that do not rest, and how many more do not.
 * Nothing: it is not known of any. */
void rg_stall_facts_tell_unrest(const struct rg_stall_facts *facts, struct rg_buf *out);
/* The names of those operations. */
void rg_stall_facts_name(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out);
/* An operation's name for people: a group's, "allreduce.2.bias+3:ebd1a9cbc3180515", is "allreduce
 * of 2.bias and 3 more". */
void rg_stall_key_print(const char *key, struct rg_buf *out);
/* For programs, as Horovod writes it: "\n0: [allgather.acc]" for each missing rank. */
void rg_stall_facts_list(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out);

#endif
