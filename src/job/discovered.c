/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts print hosts as people write them; what differs from a host file is put right here. */
#include "job/discovered.h"

#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "job/hostlist.h"

#define BLANKS " \t\r\n"

/* How much of a line names the host: "a" of "a:2", "a slots=2" and "a", and all of "::1". */
static size_t name_nbytes(const char *line)
{
    size_t n = strcspn(line, BLANKS), digits = n;

    while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9')
        digits--;
    if (digits == n || digits < 2 || line[digits - 1] != ':')
        return n;
    return line[digits - 2] == ']' || !memchr(line, ':', digits - 1) ? digits - 1 : n;
}

/* As in Horovod a host that is named again is one host still. In a host file it would have the
 * slots of all its lines. */
static int forget_earlier(const char *what, struct rg_strv *lines, const char *line,
                          struct rg_strv *notes)
{
    size_t n = name_nbytes(line);
    int r = 0;

    for (size_t i = 0; *line && r == 0 && i < lines->count; i++) {
        char *old = lines->v[i];
        if (name_nbytes(old) != n || strncmp(old, line, n) != 0)
            continue;
        if (strcmp(old, line) != 0)
            r = rg_strv_addf(notes, "%s: host %.*s is named twice: \"%.80s\" and then \"%.80s\", "
                             "which counts", what, (int) n, line, old, line);
        *old = '\0';
    }
    return r;
}

/* What was printed, without what a host file may not have or means otherwise; each line keeps its
 * number. *ret_any: there is a host. */
static int tidy(const char *what, char *said, struct rg_buf *text, bool *ret_any,
                struct rg_strv *notes)
{
    rg_autostrv struct rg_strv lines = RG_STRV_INIT;
    char *rest = rg_skip_byte_order_mark(said), *line;
    int r = 0;

    while (r == 0 && (line = strsep(&rest, "\n"))) {
        line[strcspn(line, "#")] = '\0';
        line += strspn(line, BLANKS);
        for (size_t n = strlen(line); n > 0 && strchr(BLANKS, line[n - 1]); n--)
            line[n - 1] = '\0';
        r = forget_earlier(what, &lines, line, notes);
        r = r < 0 ? r : rg_strv_add(&lines, line);
        *ret_any |= *line != '\0';
    }
    for (size_t i = 0; i < lines.count; i++)
        rg_buf_printf(text, "%s\n", lines.v[i]);
    return r < 0 ? r : rg_buf_status(text);
}

int rg_discovered_parse(const char *what, char *said, int nslots, struct rg_job *hosts,
                        struct rg_strv *notes, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    bool any = false;

    if (tidy(what, said, &text, &any, notes) < 0)
        return rg_error_memory(err);
    if (!any)
        return 0;
    int r = rg_hostfile_parse(hosts, what, rg_buf_text(&text), rg_buf_nbytes(&text), err);

    for (size_t i = 0; i < hosts->nhosts; i++) {
        if (!hosts->hosts[i].nslots)
            hosts->hosts[i].nslots = nslots;
    }
    return r;
}
