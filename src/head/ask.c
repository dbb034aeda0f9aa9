/* SPDX-License-Identifier: Apache-2.0 */
/* A head that has just begun does not listen yet, so nobody gives up here: who asks does. */
#include "head/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "launch/control/control.h"

#define ANSWER_MS 5000

int rg_head_ask_main(const char *id)
{
    char line[32];

    while (fgets(line, sizeof(line), stdin)) {
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
