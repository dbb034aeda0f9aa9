/* SPDX-License-Identifier: Apache-2.0 */
/* Every byte here is from anybody who reaches the port. Nothing is copied: a piece is a part of
 * what was received, and none ends in a NUL. */
#include "head/metrics/request.h"

#include <string.h>
#include <strings.h>

#define PAGE "/metrics"

struct piece {
    const char *at;
    size_t nbytes;
};

static bool is(struct piece piece, const char *word)
{
    return piece.nbytes == strlen(word) && memcmp(piece.at, word, piece.nbytes) == 0;
}

static bool begins(struct piece piece, const char *word)
{
    return piece.nbytes >= strlen(word) && strncasecmp(piece.at, word, strlen(word)) == 0;
}

/* What stands in front of the first such byte, or all; text is what stands behind it. */
static struct piece cut(struct piece *text, char end)
{
    const char *found = memchr(text->at, end, text->nbytes);
    struct piece front = { text->at, found ? (size_t) (found - text->at) : text->nbytes };
    size_t gone = front.nbytes + (found != NULL);

    *text = (struct piece){ text->at + gone, text->nbytes - gone };
    return front;
}

/* A line, which may end in a newline alone. */
static struct piece cut_line(struct piece *text)
{
    struct piece line = cut(text, '\n');

    if (line.nbytes && line.at[line.nbytes - 1] == '\r')
        line.nbytes--;
    return line;
}

static struct piece trim(struct piece text)
{
    while (text.nbytes && (*text.at == ' ' || *text.at == '\t'))
        text.at++, text.nbytes--;
    while (text.nbytes && strchr(" \t", text.at[text.nbytes - 1]) && text.at[text.nbytes - 1])
        text.nbytes--;
    return text;
}

/* Whether an empty line ends what is there. */
static bool is_whole(struct piece text)
{
    while (memchr(text.at, '\n', text.nbytes)) {
        if (cut_line(&text).nbytes == 0)
            return true;
    }
    return false;
}

/* "/metrics", "/metrics?a=b", or the same behind "http://HOST", as proxies get it. */
static bool is_page(struct piece target)
{
    if (begins(target, "http://")) {
        target.at += strlen("http://");
        target.nbytes -= strlen("http://");
        size_t host = cut(&(struct piece){ target.at, target.nbytes }, '/').nbytes;
        target.at += host;
        target.nbytes -= host;
    }
    return is(cut(&target, '?'), PAGE);
}

/* *ret_one: it is HTTP/1.1, or one that is like it. */
static enum rg_request_status read_line(struct piece line, bool *ret_head, bool *ret_one)
{
    struct piece method = cut(&line, ' '), target = cut(&line, ' ');

    if (!method.nbytes || !target.nbytes || !line.nbytes)
        return RG_REQUEST_BAD;
    if (!begins(line, "HTTP/") || line.nbytes != strlen("HTTP/1.1"))
        return RG_REQUEST_BAD;
    if (memcmp(line.at, "HTTP/1.", strlen("HTTP/1.")) != 0)
        return RG_REQUEST_VERSION;
    *ret_one = !is(line, "HTTP/1.0");
    *ret_head = is(method, "HEAD");
    if (!*ret_head && !is(method, "GET"))
        return RG_REQUEST_METHOD;
    return is_page(target) ? RG_REQUEST_OK : RG_REQUEST_NOT_FOUND;
}

/* One of the types that are accepted, each of which may have parameters, is this format. With q=0
 * it would be none; nobody writes that of a type whose name he knows. */
static bool accepts(struct piece value)
{
    while (value.nbytes) {
        struct piece type = cut(&value, ',');
        type = trim(cut(&type, ';'));
        if (type.nbytes == strlen("application/openmetrics-text") &&
            begins(type, "application/openmetrics-text"))
            return true;
    }
    return false;
}

enum rg_request_status rg_request_read(const char *bytes, size_t nbytes,
                                       struct rg_http_asked *ret_asked)
{
    struct piece text = { bytes, nbytes };
    struct rg_http_asked asked = { false, false };
    int nhosts = 0;
    bool one = false;

    if (!is_whole(text))
        return nbytes < RG_REQUEST_MAX ? RG_REQUEST_MORE : RG_REQUEST_TOO_LARGE;
    enum rg_request_status status = read_line(cut_line(&text), &asked.head, &one);
    if (status == RG_REQUEST_BAD || status == RG_REQUEST_VERSION)
        return status;
    for (struct piece line; (line = cut_line(&text)).nbytes > 0;) {
        struct piece name = cut(&line, ':');
        if (!name.nbytes || memchr(name.at, ' ', name.nbytes))
            return RG_REQUEST_BAD;
        nhosts += name.nbytes == strlen("Host") && begins(name, "Host");
        if (name.nbytes == strlen("Accept") && begins(name, "Accept"))
            asked.openmetrics |= accepts(line);
    }
    if (nhosts > 1 || (one && !nhosts))
        return RG_REQUEST_BAD;
    *ret_asked = asked;
    return status;
}
