/* SPDX-License-Identifier: Apache-2.0 */
/* Of a port without a host others mean all addresses of the computer. Here it is this computer
 * alone: who wants more says so. */
#include "job/options/metrics.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define LOOPBACK "127.0.0.1"

static int refuse(const char *what, const char *value, struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%s %s: give a file, or an address as HOST:PORT, "
                        "[ADDRESS]:PORT or :PORT, with a port of 1 to 65535, or 0 for any", what,
                        *value ? value : "(empty)");
}

/* The host in front of this colon, without brackets: *ret_host and so many bytes of it. */
static bool find_host(const char *value, const char *colon, const char **ret_host,
                      size_t *ret_nbytes)
{
    size_t nbytes = (size_t) (colon - value);
    bool brackets = nbytes > 2 && *value == '[' && value[nbytes - 1] == ']';

    *ret_host = nbytes ? value + brackets : LOOPBACK;
    *ret_nbytes = nbytes ? nbytes - 2 * brackets : strlen(LOOPBACK);
    return brackets || !memchr(value, ':', nbytes);
}

int rg_metrics_split(const char *what, const char *value, char **ret_host, int *ret_port,
                     struct rg_error *err)
{
    const char *colon = strrchr(value, ':'), *host;
    size_t nbytes;
    int64_t port;

    if (value[strspn(value, "0123456789")] == '\0') /* a port, or a file? */
        return refuse(what, value, err);
    if (!colon || strchr(value, '/'))
        return 0;
    if (!find_host(value, colon, &host, &nbytes) ||
        rg_parse_int(what, colon + 1, 0, UINT16_MAX, &port, NULL) < 0)
        return refuse(what, value, err);
    char *copy = strndup(host, nbytes);
    if (!copy)
        return rg_error_memory(err);
    *ret_host = copy;
    *ret_port = (int) port;
    return 1;
}
