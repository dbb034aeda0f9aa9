/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP in the loop, by the libcurl.so.4 that is there: requests one after the other, each with
 * limits of time and size, TLS verified, by the proxies that the environment names, and redirected
 * where that is safe. libcurl is looked up at the first use: nothing else needs it.
 *
 * One request goes on at a time for each rg_http, which keeps the connection for the next one.
 *
 * Thread rule: the loop's thread. No function blocks; rg_http_create may read files. Callbacks are
 * called from the loop alone, and may do all of this, rg_http_destroy included.
 */
#ifndef RG_PLATFORM_COMMON_HTTP_HTTP_H
#define RG_PLATFORM_COMMON_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

#define RG_HTTP_CAUSE_MAX 256
#define RG_HTTP_TYPE_MAX 64
#define RG_HTTP_HOPS_MAX 5 /* redirects of one request */

struct rg_http;

/* For all of its requests; borrowed as long as it lives. */
struct rg_http_options {
    const char *socket;  /* the path of a Unix socket, in the place of the URL's host; NULL: none */
    const char *ca_file; /* who may sign the server's certificate; NULL: SSL_CERT_FILE, else whom
                            libcurl trusts */
    bool direct;         /* by no proxy, whatever http_proxy, https_proxy and no_proxy say */
    /* More of the body came: take it from rg_http_body, and clear that. 0; else the request, or
     * all, was stopped. NULL: the body is kept until the end. */
    int (*on_bytes)(void *arg);
    /* The request has ended: rg_http_reply tells how. */
    void (*on_end)(void *arg);
    void *arg;
};

/* Borrowed for rg_http_send alone, but for the body and the method: until the request has ended. */
struct rg_http_request {
    const char *method;         /* "GET" */
    const char *url;            /* begins with http:// or https:// */
    const char *authorization;  /* that header's value, which no other host gets to see; or NULL */
    const char *const *headers; /* "Name: value", NULL at the end; NULL: none */
    const void *body;
    size_t nbytes;              /* of the body; 0: there is none */
    size_t max_nbytes;          /* of the answer's body */
    uint64_t ms;                /* for all of it; 0: no limit */
    bool redirects;             /* follow them, as rg_http_send says */
    bool fresh;                 /* by a new connection. Where one that was kept ends without an
                                   answer, libcurl sends the request again by itself */
};

enum rg_http_result {
    RG_HTTP_DONE,       /* there is a whole answer, of whatever status */
    RG_HTTP_AWAY,       /* nobody was reached: nothing was sent */
    RG_HTTP_LOST,       /* it may have been sent; there is no answer, or half of one */
    RG_HTTP_LATE,       /* likewise, and the time is over */
    RG_HTTP_UNTRUSTED,  /* the server's certificate, or the file of those who may sign it */
    RG_HTTP_TOO_LARGE,
    RG_HTTP_ASTRAY,     /* redirected to where we do not go */
};

struct rg_http_reply {
    enum rg_http_result result;
    long status;                   /* HTTP's; 0: none came */
    int64_t retry_after_s;         /* what the server says; 0: nothing */
    char type[RG_HTTP_TYPE_MAX];   /* "text/html; charset=utf-8"; "": not said */
    char cause[RG_HTTP_CAUSE_MAX]; /* of what is not DONE, in libcurl's words */
};

/* 0 or -errno with err: -ENOENT: there is no libcurl, -ENOTSUP: it lacks what is needed (exit code
 * 69); -ENOMEM. */
int rg_http_create(struct rg_loop *loop, const struct rg_http_options *options,
                   struct rg_http **ret_http, struct rg_error *err);
/* Ends what goes on, without a callback. NULL is fine. */
void rg_http_destroy(struct rg_http *http);

/* Begin a request; none goes on. on_end follows. Where redirects are followed, they lead from http
 * to https or stay with either, at most RG_HTTP_HOPS_MAX times; what has a body goes with it to the
 * same host alone, and not where the answer is 303; the authorization goes to the same host alone,
 * where the port is the same, or http has become https. 0 or -ENOMEM: nothing has begun. */
int rg_http_send(struct rg_http *http, const struct rg_http_request *request);
/* The answer's body. */
struct rg_buf *rg_http_body(struct rg_http *http);
/* Of the request that has ended; of one that goes on, the status alone is known. Borrowed. */
const struct rg_http_reply *rg_http_reply(struct rg_http *http);

/* Whether there is a libcurl that knows Unix sockets: one without would go by TCP. */
bool rg_http_has_sockets(void);

#endif
