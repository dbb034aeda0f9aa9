/* SPDX-License-Identifier: Apache-2.0 */
/* A head that has just begun does not listen yet, so nobody gives up here: who asks does. */
#include "head/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "head/record/files.h"
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

/* --- its record ------------------------------------------------------------------------------- */

/* As long as it is now, however it grows meanwhile. One that is not there yet is left out. */
static void give(const char *folder, const char *name)
{
    rg_autofree char *path = rg_strf("%s/%s", folder, name);
    rg_autoclose int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char bytes[4096];
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    printf("%s %lld\n", name, (long long) st.st_size);
    for (off_t left = st.st_size; left > 0; left -= n) {
        n = read(fd, bytes, left < (off_t) sizeof(bytes) ? (size_t) left : sizeof(bytes));
        if (n <= 0 || fwrite(bytes, 1, (size_t) n, stdout) != (size_t) n)
            return;
    }
}

/* What an answer that is no path means. An older head takes the question for one about epochs. */
static const char *why_none(const char *answer)
{
    return strstr(answer, "\"unrecorded\"") ? "it has no record, or its folder is not there any "
                                              "more; start it with --record DIR"
                                            : "its head is of another version of Reigen";
}

int rg_head_record_main(const char *id)
{
    const struct rg_control_request request = { .question = RG_CONTROL_RECORD };
    rg_autobuf struct rg_buf folder = RG_BUF_INIT;
    int r = rg_control_ask(id, &request, ANSWER_MS, &folder);
    bool there = r == 0 && rg_buf_nbytes(&folder) && *rg_buf_text(&folder) == '/';

    if (there) {
        printf(RG_HEAD_RECORD);
        give(rg_buf_text(&folder), RG_RECORD_EVENTS);
        give(rg_buf_text(&folder), RG_RECORD_SAMPLES);
        give(rg_buf_text(&folder), RG_RECORD_TAILS);
        printf(RG_HEAD_RECORD_END);
    } else if (r < 0) {
        printf(RG_HEAD_RECORD_NONE "its head does not answer: %s\n", strerror(-r));
    } else {
        printf(RG_HEAD_RECORD_NONE "%s\n", why_none(rg_buf_text(&folder)));
    }
    return fflush(stdout) != 0 ? RG_EXIT_OUTPUT_LOST : there ? RG_EXIT_OK : RG_EXIT_UNAVAILABLE;
}
