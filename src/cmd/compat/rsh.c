/* SPDX-License-Identifier: Apache-2.0 */
/* `reigen rsh`: the agent's program does it, which is there even where reigen is not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "cmd/compat/compat.h"

#define EXIT_NO_COMMAND 255 /* as ssh's, whose place it takes */

int rg_cmd_rsh(int argc, char **argv)
{
    const char *program = getenv("REIGEN_RSH");

    (void) argc;
    if (!program || !*program) {
        rg_say("reigen rsh runs commands on the hosts of a job, from within it; REIGEN_RSH is not "
               "set here. To start a job: reigen run -H HOST -- COMMAND");
        return EXIT_NO_COMMAND;
    }
    execv(program, argv);
    rg_say("REIGEN_RSH is %s: %s; is the job over?", program, strerror(errno));
    return EXIT_NO_COMMAND;
}
