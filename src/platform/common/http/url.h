/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of HTTP. Thread rule: any thread; nothing blocks. */
#ifndef RG_PLATFORM_COMMON_HTTP_URL_H
#define RG_PLATFORM_COMMON_HTTP_URL_H

#include <stdbool.h>

#include "base/buf.h"

/* Whether what is sent to one URL may be sent to another one, with its authorization: the same
 * host, and the same port, or https in the place of http. */
bool rg_http_same_origin(const char *from, const char *to);
/* text as it may stand in a path or behind a "=". */
void rg_http_put_escaped(struct rg_buf *url, const char *text);

#endif
