/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `reigen bench` is asked to measure: its table of options, from which --help, the man page
 * and completion are made, and the tables of operations, types and reductions by their names.
 *
 * Thread rule: constant tables; a struct belongs to one thread.
 */
#ifndef RG_CMD_BENCH_OPTIONS_H
#define RG_CMD_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "cmd/bench/measure/measure.h"
#include "job/options/member.h"

#define RG_BENCH_GROUP_MAX 4096
#define RG_BENCH_SIZES_MAX 64
#define RG_BENCH_ROUNDS_MAX 1000

/* Words are borrowed from argv. */
struct rg_bench_options {
    bool ops[RG_BENCH_NOPS];
    bool types[32];          /* by enum reigen_dtype */
    struct rg_bench_case row; /* what holds for all rows */
    uint64_t min_nbytes, max_nbytes;
    int factor;              /* from one size to the next */
    uint64_t sizes[RG_BENCH_SIZES_MAX]; /* of tensors, in turn */
    int nsizes;
    struct rg_measure_how how;
    const char *planes;      /* as REIGEN_PLANES; NULL: as it is */
    const struct rg_bench_peer *peers[RG_BENCH_PEERS_MAX]; /* in the order of the command line */
    int npeers;
    struct rg_peer_settings settings;
    const char *json, *html, *fit; /* files; "-": standard output */
    bool help;
};

extern const struct rg_script_option rg_bench_option_table[];

/* Whether the runtime has this operation, with the options' reduction, for this type. Combinations
 * that it has not are left out, as long as any is left. */
bool rg_bench_fits(const struct rg_bench_options *options, int op, int type);

/* Fill in the defaults. */
void rg_bench_options_init(struct rg_bench_options *options);

/*
 * Read argv (argv[0] is skipped). What is no option of ours but one of reigen run's goes, with its
 * value, to run_words (for `reigen bench -np 2`); empty when there was none. 0; -EINVAL, -ERANGE,
 * -ENOMEM with err, which names value, cause and remedy.
 */
int rg_bench_options_parse(char **argv, struct rg_bench_options *options,
                           struct rg_strv *run_words, struct rg_error *err);

#endif
