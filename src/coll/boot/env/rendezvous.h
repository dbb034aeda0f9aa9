/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rendezvous.c reads that others have written: the answers of Horovod's key-value store, which
 * speaks as much of HTTP/1.0 (RFC 1945) as one request and one answer of bounded size need, and the
 * place where rank 0 waits.
 *
 * Thread rule: nothing is shared, nothing blocks.
 */
#ifndef RG_COLL_BOOT_ENV_RENDEZVOUS_H
#define RG_COLL_BOOT_ENV_RENDEZVOUS_H

#include "coll/net/sock.h"

#define RG_HTTP_ANSWER_MAX (64u << 10) /* bytes of an answer, headers and body */

struct rg_http_answer {
    int status;         /* 100 to 599 */
    size_t body;        /* where the body begins */
    size_t body_nbytes;
};

/* Look at what has been received. ended: the server has closed the connection. 1: a whole answer;
 * 0: more is needed; -ENOMEM; -EBADMSG: it is none, its body has a coding that we do not know, it
 * ended too early, or is longer than RG_HTTP_ANSWER_MAX. */
int rg_http_parse(const char *bytes, size_t nbytes, bool ended, struct rg_http_answer *ret_answer);

/* Where rank 0 waits, as it says so in the key-value store of Horovod's launcher (rendezvous.c):
 *
 *      reigen1 ADDRESS PORT NONCE
 *
 * PORT is the first of RG_ENV_PORTS that it tried; NONCE, 32 hexadecimal digits, tells its job from
 * others on the same ports. */
#define RG_ENDPOINT_MAX 256 /* bytes of the line */
#define RG_ENDPOINT_NONCE_MAX 33

struct rg_endpoint {
    char address[RG_SOCK_ADDRESS_MAX]; /* numeric, without a port */
    int port;
    char nonce[RG_ENDPOINT_NONCE_MAX];
};

/* 0, or -EBADMSG when it is not such a line. */
int rg_endpoint_parse(const char *text, size_t nbytes, struct rg_endpoint *ret_place);
void rg_endpoint_format(const struct rg_endpoint *place, char ret_text[RG_ENDPOINT_MAX]);

#endif
