/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen bench`: how long the runtime's operations take, by size. Every rank of a job runs it,
 * whoever has started them; with options of reigen run it starts them itself. The launcher's part
 * is small: reigen-bench, a program of its own, measures.
 *
 * Main thread; the functions block until all is measured. Once per process.
 */
#ifndef RG_CMD_BENCH_BENCH_H
#define RG_CMD_BENCH_BENCH_H

#include "base/error.h"
#include "head/console/command.h"

struct rg_bench_options; /* options.h */

extern const struct rg_script rg_script_bench;

/* As struct rg_command says of run. It may become reigen-bench, and then does not return. */
int rg_cmd_bench(int argc, char **argv);

/* In reigen-bench: join the job and measure, with the other ranks. Returns the exit code. */
int rg_bench_measure(const struct rg_bench_options *options);

/* The end by an error that all ranks have alike, as one of their command line: rank 0 alone says
 * it. Returns the exit code. */
int rg_bench_fail(const struct rg_error *err);

#endif
