/* SPDX-License-Identifier: Apache-2.0 */
/* A head as a program of its own: there is no terminal, and all that it is told is a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "head/head.h"
#include "job/platform.h"

static int usage(void)
{
    fprintf(stderr, "usage: reigen-agent head --plan FILE\n"
                    "It runs the job that reigen run --write-plan FILE has written, in the current "
                    "directory.\n");
    return RG_EXIT_USAGE;
}

/* The number of the platform's job that we run in. */
static const char *find_number(void)
{
    const char *number = NULL;

    for (const struct rg_platform *const *p = rg_platforms(); *p && !number; p++)
        number = (*p)->variable ? getenv((*p)->variable) : NULL;
    return number;
}

int rg_head_main(int argc, char **argv)
{
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    if (argc != 3 || strcmp(argv[1], "--plan") != 0)
        return usage();
    if (rg_planned_read(argv[2], &planned, &err) < 0)
        return rg_fail(&err, "run");
    return rg_head_run(&planned, &(struct rg_head_as){ .command = "run", .stdin_open = open[0],
                                                       .known_as = find_number() });
}
