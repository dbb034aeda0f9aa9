/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are cut as rg_tail cuts them, since that is what they are compared with. */
#include "cmd/show/shown.h"

#include <string.h>

void rg_shown_fini(struct rg_shown *shown)
{
    rg_tail_fini(&shown->raw);
}

void rg_shown_line(struct rg_shown *shown, int rank, const void *data, size_t nbytes)
{
    size_t n = nbytes < RG_TAIL_LINE_MAX ? nbytes : RG_TAIL_LINE_MAX;
    char *text = shown->lines[shown->next].text;

    if (n)
        memcpy(text, data, n);
    while (n && text[n - 1] == '\r')
        n--;
    shown->lines[shown->next].rank = rank;
    shown->lines[shown->next].nbytes = n;
    shown->next = (shown->next + 1) % RG_SHOWN_LINES;
    shown->count += shown->count < RG_SHOWN_LINES;
}

void rg_shown_raw(struct rg_shown *shown, int rank, int stream, const void *data, size_t nbytes)
{
    shown->raw_rank = rank;
    rg_tail_put(&shown->raw, stream, data, nbytes);
}

static bool has(const struct rg_shown *shown, int rank, const char *line)
{
    size_t n = strlen(line), nraw = 0;
    const char *raw[RG_TAIL_LINES];

    for (unsigned i = 0; i < shown->count; i++) {
        if (shown->lines[i].rank == rank && shown->lines[i].nbytes == n &&
            memcmp(shown->lines[i].text, line, n) == 0)
            return true;
    }
    if (rank == shown->raw_rank)
        nraw = rg_tail_lines(&shown->raw, raw);
    for (size_t i = 0; i < nraw; i++) {
        if (strcmp(raw[i], line) == 0)
            return true;
    }
    return false;
}

size_t rg_shown_count(const struct rg_shown *shown, int rank, const char *const *lines,
                      size_t nlines)
{
    size_t seen, written = nlines;

    while (written && !*lines[written - 1])
        written--;
    /* An empty line is no evidence: there may be many. */
    for (seen = written; seen && (!*lines[seen - 1] || !has(shown, rank, lines[seen - 1]));)
        seen--;
    return seen == written ? nlines : seen;
}

void rg_shown_note(const struct rg_shown *shown, const char *note, struct rg_buf *text)
{
    rg_autobuf struct rg_buf rest = RG_BUF_INIT;
    size_t n = strcspn(note, "\n");
    bool known = false;

    rg_buf_put(text, note, n);
    for (const char *at = note + n; *at; at += n) {
        rg_autobuf struct rg_buf line = RG_BUF_INIT;

        n = strcspn(++at, "\n");
        rg_buf_printf(&line, "  %.*s", (int) n, at);
        if (has(shown, RG_SHOWN_OWN, rg_buf_text(&line)))
            known = true;
        else
            rg_buf_printf(&rest, "\n%.*s", (int) n, at);
    }
    rg_buf_printf(text, "%s%s", known ? " The report above has the rest." : "",
                  rg_buf_text(&rest));
}
