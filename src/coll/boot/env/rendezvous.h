/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rank 0 waits, as it says so in the key-value store of Horovod's launcher: one line,
 *
 *      reigen1 ADDRESS PORT NONCE
 *
 * PORT is the first of RG_ENV_PORTS that it tried; NONCE, 32 hexadecimal digits, tells its job from
 * others on the same ports.
 *
 * Thread rule: nothing is shared, nothing blocks.
 */
#ifndef RG_COLL_BOOT_ENV_RENDEZVOUS_H
#define RG_COLL_BOOT_ENV_RENDEZVOUS_H

#include <stddef.h>

#include "coll/net/sock.h"

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
