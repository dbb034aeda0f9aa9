/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of HTTP/1 with one page, /metrics, in the loop. Each connection has one request, which
 * has to come within RG_SERVER_ASK_MS, and its answer is to be taken within RG_SERVER_ANSWER_MS.
 * There are RG_SERVER_CLIENTS_MAX of them at most, and for one more the oldest goes: so nobody can
 * keep others out by saying nothing. Who asks again within RG_SERVER_FRESH_MS gets the same text,
 * which all that take it share.
 *
 * Thread rule: the loop's thread. Nothing blocks but rg_server_open, which looks up a name.
 */
#ifndef RG_HEAD_METRICS_SERVER_H
#define RG_HEAD_METRICS_SERVER_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "head/metrics/text.h"

#define RG_SERVER_CLIENTS_MAX 16
#define RG_SERVER_ASK_MS 5000
#define RG_SERVER_ANSWER_MS 30000
#define RG_SERVER_FRESH_MS 1000 /* ranks tell theirs once a second */

struct rg_server;

/* Append the page; the buffer tells whether that went well. */
typedef void rg_server_page(void *arg, enum rg_metrics_format format, struct rg_buf *text);

/* Listen there; port 0 is any that is free. From now on clients are kept in the kernel's queue. 0,
 * or -errno with err, which names the place: exit_code 2; 69 where it is taken; 77 without
 * permission. */
int rg_server_open(const char *host, int port, struct rg_server **ret_server,
                   struct rg_error *err);
/* The same at a socket that listens and does not block, which is taken in any case; it has no URL.
 * NULL: no memory. */
struct rg_server *rg_server_create(int take_fd);
void rg_server_start(struct rg_server *server, struct rg_loop *loop, rg_server_page *page,
                     void *arg);
const char *rg_server_url(const struct rg_server *server); /* borrowed */
/* Let all go, whatever they still wait for. NULL is fine. */
void rg_server_close(struct rg_server *server);

#endif
