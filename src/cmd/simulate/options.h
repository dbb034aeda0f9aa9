/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `reigen simulate`: its table of options, from which --help, the man page and
 * completion are made.
 *
 * Thread rule: constant tables; a struct belongs to one thread.
 */
#ifndef RG_CMD_SIMULATE_OPTIONS_H
#define RG_CMD_SIMULATE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/model.h"
#include "job/options/member.h"

#define RG_SIMULATE_ROWS_MAX 64

/* Words are borrowed from argv. */
struct rg_simulate_options {
    const char *workload;     /* a name of simulate/workload.h's, or a file; NULL: by others */
    const char *from;         /* a script to be recorded; NULL: none */
    char *const *command;     /* what follows "--": its arguments, or a program to be recorded;
                               * NULL: none */
    int nranks, nsteps;       /* how it is recorded */
    const char *save;         /* the file that what was recorded goes to; NULL: none */
    uint64_t nparameters;     /* 0: not given */
    int nlayers;
    int hosts[RG_SIMULATE_ROWS_MAX]; /* a row for each */
    int nrows;
    int ranks_per_host;
    uint64_t bits_per_s;      /* of the network; 0: as the parameters have it */
    uint64_t latency_ns;      /* likewise */
    bool has_latency;
    const char *parameters;   /* a file of the cost model's parameters; NULL: the assumed ones */
    double step_ms;           /* one rank's step alone; 0: by the published rate */
    unsigned element_nbytes;
    const char *type;         /* the name of the type that has so many */
    bool has_type;
    uint64_t fusion_nbytes;
    double jitter;            /* of the step's time, as a part of it */
    int fan_out;
    const char *json;         /* "-": standard output */
    bool help;
};

extern const struct rg_script_option rg_simulate_option_table[];

void rg_simulate_options_init(struct rg_simulate_options *options);
/* Whether a program is to be run for it. */
static inline bool rg_simulate_options_record(const struct rg_simulate_options *options)
{
    return options->from || options->command;
}
/* Read argv (argv[0] is skipped). 0; -EINVAL, -ERANGE, -ENOMEM with err, which names value, cause
 * and remedy. */
int rg_simulate_options_parse(char **argv, struct rg_simulate_options *options,
                              struct rg_error *err);
/* The parameters: those that are assumed, with the file's and the options' in their place. 0, or
 * -errno with err. */
int rg_simulate_options_model(const struct rg_simulate_options *options,
                              struct rg_model *ret_model, struct rg_error *err);

#endif
