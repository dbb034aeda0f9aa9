/* SPDX-License-Identifier: Apache-2.0 */
/* A head that has just begun does not listen yet, so nobody gives up here: who asks does. */
#include "head/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "launch/control/control.h"

#define ANSWER_MS 5000

/* The next line's beginning, which holds every rank's number; false at the end. */
static bool next_line(char *line, int nbytes)
{
    if (!fgets(line, nbytes, stdin))
        return false;
    for (int c = strchr(line, '\n') ? '\n' : 0; c != '\n' && c != EOF;)
        c = getchar();
    return true;
}

int rg_head_ask_main(const char *id)
{
    char line[32];

    while (next_line(line, sizeof(line))) {
        const struct rg_control_request request = { .question = RG_CONTROL_NUMBERS,
                                                    .from = (uint32_t) strtoul(line, NULL, 10) };
        rg_autobuf struct rg_buf answer = RG_BUF_INIT;
        int r = rg_control_ask(id, &request, ANSWER_MS, &answer);

        if (r < 0)
            printf("{\"error\":\"%s\"}\n", strerror(-r));
        else
            printf("%.*s\n", (int) rg_buf_nbytes(&answer), rg_buf_text(&answer));
        if (fflush(stdout) != 0)
            return RG_EXIT_OUTPUT_LOST;
    }
    return RG_EXIT_OK;
}
