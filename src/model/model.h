/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long an operation among hosts takes, by arithmetic: the runtime chooses its algorithms by
 * this, `reigen simulate` predicts jobs of any size, `reigen bench --fit` finds the parameters.
 * Nothing in here knows sockets or measures time.
 *
 * A message of m bytes costs alpha + m * beta, as in Hockney, "The communication challenge for MPP"
 * (1994), and a byte that is reduced costs gamma. The formulas per algorithm follow Thakur,
 * Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005),
 * Rabenseifner, "Optimization of Collective Reduction Operations" (2004) and, for any number of
 * members, Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for All-to-All
 * Communications in Multiport Message-Passing Systems" (1997) and Traeff, "Optimal, Non-pipelined
 * Reduce-scatter and Allreduce Algorithms" (2024). What is added to them is how the tcp plane works
 * (coll/planes/tcp/tcp_steps.c): data go in chunks, a chunk is passed on while the next one comes,
 * and the processor's time counts where it is longer than the line's:
 *
 *      t(c) = max(c * beta, crowding * (message + c * (copy + gamma)))    a chunk in a pipe
 *      k = the least number with 2^k >= n; b = nbytes / n in s = b / c chunks; g = what is left to
 *      do with the last chunk when it has come
 *
 *      algorithm   for                        time among n members
 *      doubling    allreduce                  log2 n exchanges of all, each alpha + t(nbytes) + g;
 *                                             up to two more where n is no power of two
 *      halving     allreduce, allgather,      per phase k levels of min(2^i, n - 2^i) blocks; a
 *                  reducescatter              level takes its blocks' time, or alpha + t(c) + g
 *                                             where that is more
 *      ring        the same                   per phase n - 1 steps, each s * t(c), or
 *                                             alpha + t(c) + g where that is more
 *      tree        broadcast, reduce          log2 n * alpha (rounded down) + k * t(nbytes)
 *      chain       broadcast, reduce          (nbytes / c + n - 2) * t(c) + (n - 1) * (alpha + g)
 *      scatter     broadcast                  the root sends all blocks, then halving's allgather
 *      pairwise    alltoall                   alpha + (n - 1) * t(block)
 *
 * Leaders of hosts that know an allreduce already exchange it without agreeing first (coll/far).
 * Frames go as a whole, so a byte is copied once more, and reduced when all of it is there:
 *
 *      d(m) = t(m) + crowding * m * copy / 2          a frame of m bytes
 *
 *      direct      time among n hosts
 *      doubling    log2 n * (alpha + d(nbytes) + nbytes * gamma); two more where n is no power of
 *                  two
 *      one shot    alpha + (n - 1) * (d(nbytes) + nbytes * gamma)
 *      two shots   2 * alpha + (n - 1) * (2 * d(b) + b * gamma)
 *      agreed      an agreement (rg_model_agreement_ns), and the quickest algorithm above
 *
 * All is integer arithmetic (nanoseconds; picoseconds per byte), so that every host, whatever its
 * processor, comes to the same choice from the same parameters.
 *
 * Thread rule: functions of their arguments alone; none blocks but rg_model_read.
 */
#ifndef RG_MODEL_MODEL_H
#define RG_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rg_buf;

/* Between two processes. */
struct rg_model_path {
    uint32_t alpha_ns;   /* a message's way; half a ping-pong of one byte is alpha + message */
    uint32_t beta_ps;    /* per byte of a stream, in one direction; both are used at once */
    uint32_t message_ns; /* the processor's time for a message, sent and received */
    uint32_t copy_ps;    /* the processor's time per byte, sent and received */
};

struct rg_model {
    struct rg_model_path net;  /* between hosts */
    struct rg_model_path node; /* inside a host, through shared memory, all ranks at once */
    uint32_t gamma_ps;         /* per byte of two operands that become one */
    uint32_t crowding_pct;     /* what multiplies the processor's times: 100; more where several
                                * hosts are simulated on the same cores */
};

/* What is assumed before anything is known: 10 Gb/s, and a processor of these years. */
extern const struct rg_model rg_model_assumed;

/* In the order of enum rg_coll_kind. */
enum rg_model_kind {
    RG_MODEL_ALLREDUCE,
    RG_MODEL_REDUCE,
    RG_MODEL_BROADCAST,
    RG_MODEL_ALLGATHER,
    RG_MODEL_ALLTOALL,
    RG_MODEL_REDUCESCATTER,
    RG_MODEL_NKINDS
};

enum rg_algorithm {
    RG_ALGORITHM_AUTO, /* the quickest */
    RG_ALGORITHM_DOUBLING,
    RG_ALGORITHM_HALVING,
    RG_ALGORITHM_RING,
    RG_ALGORITHM_TREE,
    RG_ALGORITHM_CHAIN,
    RG_ALGORITHM_SCATTER,
    RG_ALGORITHM_PAIRWISE,
    RG_NALGORITHMS
};

#define RG_MODEL_NEVER UINT64_MAX /* longer than anything */

/* An operation. nbytes: of the whole tensor; of allgather, alltoall and reducescatter all members'
 * parts together. Members are counted host by host, as many on each. */
struct rg_model_task {
    enum rg_model_kind kind;
    int nhosts;          /* 1 or more */
    int ranks_per_host;  /* 1: among one rank of each host */
    size_t nbytes;
};

struct rg_model_choice {
    enum rg_algorithm algorithm;
    uint32_t chunk_nbytes; /* what is passed on at a time */
    uint64_t ns;           /* predicted */
};

enum { RG_MODEL_CHUNK_MIN = 32 * 1024, RG_MODEL_CHUNK_MAX = 1024 * 1024 };

/* What a file may say at most: times, picoseconds per byte (8 Mb/s), and the processor's crowding.
 * Both alphas are at least 1. */
enum {
    RG_MODEL_ALPHA_MAX_NS = 2000000000,
    RG_MODEL_RATE_MAX_PS = 1000000,
    RG_MODEL_CROWDED_PCT = 300, /* three hosts and more to a core, which is busy before a line is */
    RG_MODEL_CROWDING_MAX_PCT = 100000
};

/* Whether this algorithm does this kind of operation. */
bool rg_algorithm_does(enum rg_algorithm algorithm, enum rg_model_kind kind);
/* One operation over one group by one algorithm, with chunks of that size. RG_MODEL_NEVER where the
 * algorithm does not do it, or is AUTO. One member: 0. */
uint64_t rg_model_ns(const struct rg_model *model, const struct rg_model_task *task,
                     enum rg_algorithm algorithm, size_t chunk_nbytes);
/* The quickest way, or (wanted is not AUTO, and does it) that one with its best chunks. A ring or
 * a chain is taken if with the largest chunks it takes no more than a sixteenth longer, since its
 * streams are steady; and so are large chunks in general, as they cost less of the processor. Among
 * more than two, halving is taken for doubling if it takes no more than half as long again, since
 * it sends fewer bytes. */
struct rg_model_choice rg_model_choose(const struct rg_model *model,
                                       const struct rg_model_task *task, enum rg_algorithm wanted);
/* All of an operation of a job, as coll/exec/exec.c composes it: an allreduce and a broadcast go
 * inside the hosts, among one rank of each, and inside the hosts again; the other kinds over all
 * ranks. Without what ranks agree on beforehand. ret_between, if not NULL: the choice among hosts;
 * of one host its time is 0. */
uint64_t rg_model_job_ns(const struct rg_model *model, const struct rg_model_task *task,
                         struct rg_model_choice *ret_between);

/* ---- without an agreement (coll/far); in the order of enum rg_direct_way */
enum rg_model_direct {
    RG_MODEL_AGREED,
    RG_MODEL_DIRECT_DOUBLING,
    RG_MODEL_DIRECT_ONE_SHOT,
    RG_MODEL_DIRECT_TWO_SHOT,
    RG_MODEL_NDIRECT
};

enum {
    RG_MODEL_DIRECT_SMALL = 32 * 1024,   /* up to here an allreduce never goes agreed on */
    RG_MODEL_DIRECT_MIDDLE = 128 * 1024, /* up to here also among hosts that are near */
    RG_MODEL_DIRECT_MAX = 512 * 1024,    /* and beyond this always */
    RG_MODEL_FAN_OUT = 16,               /* RG_TREE_DEGREE of coll/ground/config.h */
    RG_MODEL_SHOTS_MAX = 16              /* hosts among which there are one and two shots */
};

/* The messages by which leaders of so many hosts agree, in a tree where fan_out (at least 1) stand
 * below each one: on each level one's way there and back, and what its parent does for all. */
uint64_t rg_model_agreement_ns(const struct rg_model *model, int nhosts, int fan_out);
/* An allreduce of a job (task->kind is not looked at) whose ranks' hosts know it: all of its time,
 * also inside the hosts, where one rank of each reduces what the others have. AGREED: with the
 * messages of the agreement. One host: 0; RG_MODEL_NEVER: not among so many. */
uint64_t rg_model_direct_ns(const struct rg_model *model, const struct rg_model_task *task,
                            enum rg_model_direct way);
/* The quickest way. What is small goes directly at least by doubling; shots must save 0.15 ms
 * there, times the crowding, as each of their frames wakes a rank, which perhaps shares its cores.
 * Where three hosts and more share a core they must save it for larger tensors, too. Those go by
 * ways that send no more bytes than they must, as several operations may be on the line at once:
 * doubling between two hosts, two shots among more, or either where three hosts and more share a
 * core, which is busy long before a line is; and if it saves a tenth of the time, as the prediction
 * is not better than that. Beyond the middle size it does so only among hosts that are 0.05 ms or
 * more apart. */
enum rg_model_direct rg_model_direct(const struct rg_model *model,
                                     const struct rg_model_task *task);

/* ---- model_text.c: for people, and for files */
const char *rg_algorithm_name(enum rg_algorithm algorithm); /* "halving"; "?" when unknown */
const char *rg_model_kind_name(enum rg_model_kind kind);    /* "allreduce" */
const char *rg_model_direct_name(enum rg_model_direct way); /* "two shots" */
/* "auto", "ring", ... for all kinds, or "allreduce=ring,broadcast=tree": into wanted, by kind. What
 * the text does not name stays. what names the value in the error. 0, or -EINVAL with what is
 * allowed. */
int rg_algorithms_parse(const char *what, const char *text,
                        enum rg_algorithm wanted[RG_MODEL_NKINDS], struct rg_error *err);
/* One "name value" a line, and "#" before a remark; what a file does not name stays as *model has
 * it. what names the file in the error. 0, or -EINVAL with its line; *model is then as it was. */
int rg_model_parse(const char *what, const char *text, struct rg_model *model,
                   struct rg_error *err);
/* The same of a file, of at most RG_MODEL_FILE_MAX bytes, which a user has named. 0; -EINVAL;
 * -errno with the cause: -ENOENT, -EFBIG, ...; *model is then as it was. Blocks for the disk. */
int rg_model_read(const char *path, struct rg_model *model, struct rg_error *err);
#define RG_MODEL_FILE_MAX 65536
/* The same, written; the buffer has its own status. */
void rg_model_format(const struct rg_model *model, struct rg_buf *text);

#endif
