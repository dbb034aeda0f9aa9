/* SPDX-License-Identifier: Apache-2.0 */
/* What must be known of URLs to follow a redirect safely; libcurl reads them for all else. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "platform/common/http/url.h"

#define HOST_MAX 256

struct origin {
    bool tls;
    char host[HOST_MAX];
    long port;
};

/* False: it is none of http or https, or what stands for the host is longer than a name may be. */
static bool read_origin(const char *url, struct origin *origin)
{
    size_t scheme = strncasecmp(url, "https://", 8) == 0  ? 8
                    : strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
    const char *authority = url + scheme;
    size_t nbytes = strcspn(authority, "/?#\\");
    const char *at = memrchr(authority, '@', nbytes);
    const char *host = at ? at + 1 : authority;

    nbytes -= (size_t) (host - authority);
    const char *bracket = memchr(host, ']', nbytes);
    const char *colon = bracket ? memchr(bracket, ':', nbytes - (size_t) (bracket - host))
                                : memchr(host, ':', nbytes);
    size_t nname = colon ? (size_t) (colon - host) : nbytes;
    if (!scheme || !nname || nname >= sizeof(origin->host))
        return false;
    origin->tls = scheme == 8;
    snprintf(origin->host, sizeof(origin->host), "%.*s", (int) nname, host);
    origin->port = colon && nname + 1 < nbytes ? strtol(colon + 1, NULL, 10)
                   : origin->tls               ? 443 : 80;
    return true;
}

bool rg_http_same_origin(const char *from, const char *to)
{
    struct origin a, b;

    if (!read_origin(from, &a) || !read_origin(to, &b) || strcasecmp(a.host, b.host) != 0)
        return false;
    return a.tls == b.tls ? a.port == b.port : b.tls;
}

void rg_http_put_escaped(struct rg_buf *url, const char *text)
{
    for (; *text; text++) {
        if (isalnum((unsigned char) *text) || strchr("-._~", *text))
            rg_buf_printf(url, "%c", *text);
        else
            rg_buf_printf(url, "%%%02X", (unsigned char) *text);
    }
}
