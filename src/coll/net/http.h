/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of HTTP/1.0 (RFC 1945) as a key-value server needs: one request and one answer of bounded
 * size per connection.
 *
 * Thread rule: nothing is shared. rg_http_exchange blocks until its deadline.
 */
#ifndef RG_COLL_NET_HTTP_H
#define RG_COLL_NET_HTTP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "coll/net/sock.h"

#define RG_HTTP_ANSWER_MAX (64u << 10) /* bytes of an answer, headers and body */

struct rg_http_answer {
    int status;         /* 100 to 599 */
    size_t body;        /* where the body begins */
    size_t body_nbytes;
};

/* Look at what has been received. ended: the server has closed the connection. 1: a whole answer;
 * 0: more is needed; -ENOMEM; -EBADMSG: it is none, its body has a coding that we do not know, it ended too
 * early, or is longer than RG_HTTP_ANSWER_MAX. */
int rg_http_parse(const char *bytes, size_t nbytes, bool ended, struct rg_http_answer *ret_answer);

/* Ask server for path (GET; PUT with a body where body is given). 0, the status, and the answer's
 * body appended to ret_body; -ECONNREFUSED and other -errno of connecting, -ETIMEDOUT, -EBADMSG. */
int rg_http_exchange(const struct rg_sockaddr *server, const char *path, const char *body,
                     uint64_t deadline_ns, int *ret_status, struct rg_buf *ret_body,
                     struct rg_error *err);

#endif
