/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of HTTP/1 asks for, as far as it matters to one that has a single page (RFC 9112):
 * the request line, and of the fields only Host and Accept.
 *
 * Thread rule: any; nothing blocks, and nothing is kept.
 */
#ifndef RG_HEAD_METRICS_REQUEST_H
#define RG_HEAD_METRICS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define RG_REQUEST_MAX 8192 /* bytes of a request line and all fields; Prometheus sends 500 */

enum rg_request_status {
    RG_REQUEST_MORE = 0, /* it is not whole yet */
    RG_REQUEST_OK = 200,
    RG_REQUEST_BAD = 400,
    RG_REQUEST_NOT_FOUND = 404,
    RG_REQUEST_METHOD = 405,
    RG_REQUEST_TOO_LARGE = 431,
    RG_REQUEST_VERSION = 505,
};

struct rg_http_asked {
    bool head;        /* no body is wanted */
    bool openmetrics; /* this format is accepted */
};

/* What has come so far of a request. At RG_REQUEST_MAX bytes it is no longer MORE. */
enum rg_request_status rg_request_read(const char *bytes, size_t nbytes,
                                       struct rg_http_asked *ret_asked);

#endif
