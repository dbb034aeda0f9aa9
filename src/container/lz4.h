/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LZ4's block format (lz4_Block_format.md of the LZ4 project), for the bundle where it goes through
 * a cluster's API: half the bytes for some 300 bytes of the agent, whose size is limited. A
 * sequence is a token, literals, and a match of at least four bytes in the last 64 KiB.
 *
 * Thread rule: any thread; no state.
 */
#ifndef RG_CONTAINER_LZ4_H
#define RG_CONTAINER_LZ4_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The most bytes that so many become. */
#define RG_LZ4_BOUND(nbytes) ((nbytes) + (nbytes) / 255 + 16)

/* Append data as one block. Some 50 ms for a mebibyte. 0 or -ENOMEM. */
int rg_lz4_pack(const uint8_t *data, size_t nbytes, struct rg_buf *buf);
/* A block into room, which it must fill. 0; -EBADMSG: it is damaged, or of another size; then what
 * is in room is undefined. */
int rg_lz4_unpack(const uint8_t *data, size_t nbytes, uint8_t *ret_data, size_t room);

#endif
