/* SPDX-License-Identifier: Apache-2.0 */
/* A task's log, bit by bit. A server may know ranges of bytes, or tell all each time, or the end
 * alone; and it may show what it has on a page, behind a link. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "platform/openpai/server/server_internal.h"
#include "platform/common/http/http.h"

void pai_log_fini(struct pai_log *log)
{
    free(log->file);
    *log = (struct pai_log){ .offset = 0 };
}

/* --- what is new ------------------------------------------------------------------------------ */

/* These were told. */
static void move_on(struct pai_log *log, const char *bytes, size_t nbytes)
{
    size_t room = sizeof(log->tail);

    log->offset += nbytes;
    if (nbytes >= room) {
        memcpy(log->tail, bytes + nbytes - room, room);
        log->ntail = room;
        return;
    }
    size_t keep = log->ntail + nbytes > room ? room - nbytes : log->ntail;
    memmove(log->tail, log->tail + log->ntail - keep, keep);
    memcpy(log->tail + keep, bytes, nbytes);
    log->ntail = keep + nbytes;
}

#define OVERLAP_MIN 8 /* fewer bytes may be the same by chance */

/* Behind the last place where what was told last stands, or where the end of that begins the text;
 * NULL: it is not there. */
static const char *behind_tail(const struct pai_log *log, const char *bytes, size_t nbytes)
{
    for (size_t at = nbytes; at >= log->ntail; at--) {
        if (memcmp(bytes + at - log->ntail, log->tail, log->ntail) == 0)
            return bytes + at;
    }
    for (size_t n = log->ntail < nbytes ? log->ntail : nbytes; n >= OVERLAP_MIN; n--) {
        if (memcmp(bytes, log->tail + log->ntail - n, n) == 0)
            return bytes + n;
    }
    return NULL;
}

int pai_log_take(struct pai_log *log, const char *bytes, size_t nbytes, bool whole,
                 struct rg_buf *text, bool *ret_skipped)
{
    const char *from = bytes;

    *ret_skipped = false;
    if (!nbytes)
        return 0;
    if (whole && log->ntail) {
        bool fits = nbytes >= log->offset &&
                    memcmp(bytes + log->offset - log->ntail, log->tail, log->ntail) == 0;
        from = fits ? bytes + log->offset : behind_tail(log, bytes, nbytes);
        *ret_skipped = !from;
        from = from ? from : bytes;
    }
    size_t n = (size_t) (bytes + nbytes - from);
    rg_buf_put(text, from, n);
    int r = rg_buf_status(text);
    if (r == 0)
        move_on(log, from, n);
    return r;
}

/* --- pages ------------------------------------------------------------------------------------ */

char *pai_url_join(const char *url, const char *ref, size_t nbytes)
{
    const char *host = strstr(url, "://");
    int n = (int) nbytes;

    if (!host || !nbytes || nbytes > 4096)
        return NULL;
    host += 3;
    if (memmem(ref, nbytes, "://", 3))
        return rg_str_starts(ref, "http://") || rg_str_starts(ref, "https://")
                   ? strndup(ref, nbytes) : NULL;
    if (nbytes > 1 && ref[0] == '/' && ref[1] == '/')
        return rg_strf("%.*s%.*s", (int) (strstr(url, "//") - url), url, n, ref);
    if (ref[0] == '/')
        return rg_strf("%.*s%.*s", (int) (host - url + (int) strcspn(host, "/?#")), url, n, ref);
    size_t path = strcspn(host, "?#");
    const char *slash = memrchr(host, '/', path);
    return slash ? rg_strf("%.*s%.*s", (int) (slash + 1 - url), url, n, ref)
                 : rg_strf("%.*s/%.*s", (int) (host - url + (int) path), url, n, ref);
}

/* How good it is to read: what the user's program wrote, both ways, first. 0: it is no log. */
static int rank_of(const char *link, size_t nbytes)
{
    static const char *const names[] = { "stderr", "stdout", "user.pai.stdout", "user.pai.all",
                                         "/all" };
    int best = 0;

    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (memmem(link, nbytes, names[i], strlen(names[i])))
            best = (int) i + 1;
    }
    return nbytes == 3 && memcmp(link, "all", 3) == 0 ? (int) rg_array_len(names) : best;
}

/* Hadoop's pages show the last 4 KiB unless they are asked for all. */
static char *whole_file(char *take_url)
{
    char *start = take_url ? strstr(take_url, "start=-") : NULL;

    if (start) {
        size_t n = strcspn(start, "&#");
        start += strlen("start=");
        *start = '0';
        n -= strlen("start=");
        memmove(start + 1, start + n, strlen(start + n) + 1);
    }
    return take_url;
}

char *pai_log_link(const char *url, const char *html, size_t nbytes)
{
    const char *end = html + nbytes, *best = NULL;
    size_t nbest = 0;
    int rank = 0;

    for (const char *p = html; p && p < end;) {
        p = memmem(p, (size_t) (end - p), "href=", 5);
        if (!p || end - p < 7)
            break;
        char quote = p[5];
        p += 6;
        const char *close = quote == '"' || quote == '\'' ? memchr(p, quote, (size_t) (end - p))
                                                          : NULL;
        if (!close)
            continue;
        int its = rank_of(p, (size_t) (close - p));
        if (its > rank) {
            rank = its;
            best = p;
            nbest = (size_t) (close - p);
        }
        p = close;
    }
    return best ? whole_file(pai_url_join(url, best, nbest)) : NULL;
}

#define MANAGER "/log-manager/"
#define TAIL "/log-manager/tail/"
#define BLOCK 8192u /* the newer manager of logs writes so many bytes, and a line end */

char *pai_log_url(const struct pai_log *log, const char *url, bool all, bool *ret_part)
{
    const char *tail = strstr(url, TAIL), *start = strstr(url, "start=0");
    size_t n = strlen(url);

    *ret_part = false;
    if (tail) {
        const char *rest = tail + strlen(TAIL);
        bool full = all || (!log->ntail && !log->too_long);
        return rg_strf("%.*s" MANAGER "%s/%s%s", (int) (tail - url), url, full ? "full" : "tail",
                       rest, url[n - 1] == '/' ? "user.pai.all" : "");
    }
    if (!start || all || !strchr("&#", start[strlen("start=0")]))
        return strdup(url);
    *ret_part = true;
    return rg_strf("%.*sstart=%llu&end=%llu%s", (int) (start - url), url,
                   (unsigned long long) (log->offset - log->ntail),
                   (unsigned long long) (log->offset + PAI_LOG_MAX), start + strlen("start=0"));
}

/* Whether there is a line end after each block, and one at the end. */
static bool has_blocks(const char *bytes, size_t nbytes)
{
    for (size_t at = BLOCK; at < nbytes; at += BLOCK + 1) {
        if (bytes[at] != '\n')
            return false;
    }
    return nbytes && bytes[nbytes - 1] == '\n';
}

int pai_log_clean(const char *url, const char *bytes, size_t nbytes, bool once,
                  struct rg_buf *text)
{
    const char *manager = strstr(url, MANAGER);
    bool newer = manager && strstr(manager, "/api/v1/logs/") && has_blocks(bytes, nbytes);
    bool older = manager && !newer && !once && nbytes && bytes[nbytes - 1] == '\n';
    static const char none[] = "No such file!";
    size_t n = strlen(none);

    if (manager && nbytes >= n && nbytes <= n + 1 && memcmp(bytes, none, n) == 0)
        return -ENOENT;
    if (newer) {
        for (size_t at = 0; at < nbytes; at += BLOCK + 1) {
            size_t left = nbytes - 1 - at;
            rg_buf_put(text, bytes + at, left < BLOCK ? left : BLOCK);
        }
    } else {
        rg_buf_put(text, bytes, nbytes - older);
    }
    return rg_buf_status(text);
}

/* One character of HTML at p, of which nbytes are left, into buf. How many bytes it was. */
static size_t put_character(const char *p, size_t nbytes, struct rg_buf *text)
{
    static const struct {
        const char *name, *is;
    } names[] = { { "&lt;", "<" }, { "&gt;", ">" }, { "&amp;", "&" }, { "&quot;", "\"" },
                  { "&#39;", "'" }, { "&#x27;", "'" }, { "&#x2F;", "/" }, { "&#47;", "/" },
                  { "&apos;", "'" }, { "&nbsp;", " " } };

    for (size_t i = 0; *p == '&' && i < rg_array_len(names); i++) {
        size_t n = strlen(names[i].name);
        if (n <= nbytes && strncasecmp(p, names[i].name, n) == 0) {
            rg_buf_put(text, names[i].is, 1);
            return n;
        }
    }
    if (*p == '<') { /* a mark */
        const char *close = memchr(p, '>', nbytes);
        return close ? (size_t) (close - p) + 1 : nbytes;
    }
    rg_buf_put(text, p, 1);
    return 1;
}

bool pai_log_shown(const char *html, size_t nbytes, struct rg_buf *text)
{
    const char *end = html + nbytes;
    const char *p = nbytes ? memmem(html, nbytes, "<pre", 4) : NULL;
    const char *begin = p ? memchr(p, '>', (size_t) (end - p)) : NULL;
    const char *close = begin ? memmem(begin, (size_t) (end - begin), "</pre", 5) : NULL;

    if (!close)
        return false;
    for (p = begin + 1; p < close;)
        p += put_character(p, (size_t) (close - p), text);
    return true;
}
