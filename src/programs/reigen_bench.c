/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen-bench: the program that `reigen bench` becomes. It is one of its own because the runtime,
 * and with it the user's MPI, is loaded into it, and it is linked with no more than it needs.
 */
#include <signal.h>

#include "cmd/bench/bench.h"
#include "cmd/bench/options.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"

int main(int argc, char **argv)
{
    struct rg_bench_options options;
    rg_autostrv struct rg_strv run_words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    signal(SIGPIPE, SIG_IGN);
    rg_bench_options_init(&options);
    int r = argc > 0 ? rg_bench_options_parse(argv, &options, &run_words, &err) : 0;
    if (r == 0 && run_words.count)
        r = rg_error_set(&err, EINVAL, "bench %.80s: an option of reigen run; write: reigen bench",
                         run_words.v[0]);
    if (r == 0 && options.help)
        r = rg_error_set(&err, EINVAL, "reigen bench --help lists the options");
    return r < 0 ? rg_bench_fail(&err) : rg_bench_measure(&options);
}
