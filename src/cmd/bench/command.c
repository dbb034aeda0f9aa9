/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen bench, as the launcher sees it: it reads the command line, and has reigen-bench measure,
 * in its own place or, by reigen run, in each rank's. The runtime is not for this process: what it
 * loads, such as an MPI, has threads and signal handlers of its own, and the launcher has its own.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/process/self.h"
#include "cmd/bench/bench.h"
#include "cmd/bench/options.h"
#include "head/console/exit.h"
#include "cmd/run/run.h"

#define COMMAND "bench"
#define PROGRAM "reigen-bench"

const struct rg_script rg_script_bench = {
    .name = NULL, .under = "", .usage = "[OPTION...] [-np N] [OPTION OF reigen run...]",
    .summary = "measure the runtime's operations",
    .about = "Measure how long the operations of the runtime take by size, operation and type, and "
             "the bandwidth that this is. Each rank of a job runs this command, whoever starts "
             "them: reigen run, mpirun, srun, or anything that sets RANK, WORLD_SIZE, MASTER_ADDR "
             "and MASTER_PORT. With options of reigen run, such as -np or -H, it starts them by "
             "reigen run. Without any of that it measures one rank alone. Rank 0 prints. A rank's "
             "time is the median, over the rounds, of a round's mean; the table has the median, "
             "the least and the largest of the ranks' times. Bytes are those of the larger of a "
             "tensor's two buffers, and the two bandwidths are as the NCCL tests define them.",
    .status = "0: all was measured. 1: --check found wrong elements. 2: a mistake on the command "
              "line; 69: there is no runtime here, or a peer is missing. Others: reigen explain "
              "tells them.",
    .examples = "reigen bench -np 4\n"
                "reigen bench -np 4 --op all --check --html bench.html\n"
                "reigen bench -H node1:4,node2:4 --max-bytes 64m --fit network.model\n"
                "mpirun -np 4 reigen bench --peer mpi,gloo\n",
    .operands = false, .options = rg_bench_option_table
};

/* --- by reigen run ---------------------------------------------------------------------------- */

/* reigen run RUN_WORDS -- reigen bench OWN: the words that are not reigen run's. */
static int start_by_run(const struct rg_strv *run_words, char **argv)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    size_t next = 0;

    rg_strv_add_all(&words, (char *[]){ "run", "--no-tag-output", NULL });
    rg_strv_add_all(&words, run_words->v);
    rg_strv_add_all(&words, (char *[]){ "--", RG_RUN_SELF, COMMAND, NULL });
    for (int i = 1; argv[i]; i++) {
        if (next < run_words->count && strcmp(argv[i], run_words->v[next]) == 0)
            next++;
        else
            rg_strv_add(&words, argv[i]);
    }
    if (rg_strv_status(&words) < 0)
        return rg_fail((rg_error_memory(&err), &err), COMMAND);
    return rg_run_self((int) words.count, words.v);
}

/* --- in this process's place ------------------------------------------------------------------ */

static int become_program(char **argv, struct rg_error *err)
{
    char path[PATH_MAX];

    if (!rg_self_beside(PROGRAM, path))
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 PROGRAM ": it is not beside this program; install Reigen again");
    execv(path, argv);
    return rg_error_set_exit(err, errno, RG_EXIT_UNAVAILABLE, "%s: %s", path, strerror(errno));
}

int rg_cmd_bench(int argc, char **argv)
{
    struct rg_bench_options options;
    rg_autostrv struct rg_strv run_words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) argc;
    rg_bench_options_init(&options);
    int r = rg_bench_options_parse(argv, &options, &run_words, &err);
    if (r == 0 && options.help)
        return RG_COMMAND_HELP;
    if (r == 0 && run_words.count)
        return start_by_run(&run_words, argv);
    if (r == 0)
        r = become_program(argv, &err);
    return rg_bench_fail(&err);
}
