/* SPDX-License-Identifier: Apache-2.0 */
/* Each position is found again by a hash of its next four bytes, in a chain from the newest to
 * older ones, of which some are looked at: more of them gain little. A match waits for the next
 * position's, which is taken if it is longer. */
#include "container/lz4.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MATCH_MIN 4
#define WINDOW 65535    /* how far back a match may lie */
#define TAIL_NBYTES 5   /* the format ends with so many literals, */
#define LAST_NBYTES 12  /* and no match begins in so many last bytes */
#define HASH_BITS 15
#define LOOKS 64        /* of a chain */
#define LENGTH_MAX 15   /* of a token's half; more follows it */

struct packer {
    const uint8_t *data;
    size_t nbytes;
    uint32_t heads[1 << HASH_BITS]; /* position + 1; 0: none */
    uint32_t before[WINDOW + 1];    /* by position, modulo: the one before of that hash */
};

static uint32_t read_u32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, sizeof(value));
    return value;
}

/* --- packing ---------------------------------------------------------------------------------- */

static void put_length(struct rg_buf *buf, size_t length)
{
    if (length < LENGTH_MAX)
        return;
    for (length -= LENGTH_MAX; length >= 255; length -= 255)
        rg_buf_put_u8(buf, 255);
    rg_buf_put_u8(buf, (uint8_t) length);
}

/* Literals, and a match, if its length is not 0. */
static void put_sequence(struct rg_buf *buf, const uint8_t *literals, size_t count, size_t offset,
                         size_t length)
{
    size_t rest = length ? length - MATCH_MIN : 0;
    size_t high = count < LENGTH_MAX ? count : LENGTH_MAX,
           low = rest < LENGTH_MAX ? rest : LENGTH_MAX;

    rg_buf_put_u8(buf, (uint8_t) (high << 4 | low));
    put_length(buf, count);
    rg_buf_put(buf, literals, count);
    if (!length)
        return;
    rg_buf_put_u16(buf, (uint16_t) offset);
    put_length(buf, rest);
}

/* Put a position into its chain. What was the newest of it, + 1; 0: none. */
static uint32_t enter(struct packer *packer, size_t at)
{
    uint32_t *head = &packer->heads[read_u32(packer->data + at) * 2654435761u >> (32 - HASH_BITS)];
    uint32_t newest = *head;

    packer->before[at & WINDOW] = newest;
    *head = (uint32_t) at + 1;
    return newest;
}

/* The longest match of a chain; its length, 0 without any. */
static size_t find_match(const struct packer *packer, uint32_t newest, size_t at,
                         size_t *ret_offset)
{
    const uint8_t *data = packer->data;
    size_t best = 0, most = packer->nbytes - TAIL_NBYTES - at;

    for (int i = 0; i < LOOKS && newest && at - (newest - 1) <= WINDOW; i++) {
        size_t from = newest - 1, n = 0;
        while (n < most && data[from + n] == data[at + n])
            n++;
        if (n >= MATCH_MIN && n > best) {
            best = n;
            *ret_offset = at - from;
        }
        newest = packer->before[from & WINDOW];
        if (newest && newest - 1 >= from)
            break; /* its place has a newer one by now */
    }
    return best;
}

int rg_lz4_pack(const uint8_t *data, size_t nbytes, struct rg_buf *buf)
{
    struct packer *packer = calloc(1, sizeof(*packer));
    size_t at = 0, begun = 0, offset = 0, next_offset = 0;

    if (!packer)
        return -ENOMEM;
    packer->data = data;
    packer->nbytes = nbytes;
    while (at + LAST_NBYTES <= nbytes) {
        size_t length = find_match(packer, enter(packer, at), at, &offset);
        if (!length) {
            at++;
            continue;
        }
        while (at + 1 + LAST_NBYTES <= nbytes) {
            size_t next = find_match(packer, enter(packer, at + 1), at + 1, &next_offset);
            if (next <= length)
                break;
            at++;
            length = next;
            offset = next_offset;
        }
        put_sequence(buf, data + begun, at - begun, offset, length);
        size_t end = at + length;
        for (at += 2; at < end && at + MATCH_MIN <= nbytes; at++)
            enter(packer, at);
        begun = at = end;
    }
    put_sequence(buf, data + begun, nbytes - begun, 0, 0);
    free(packer);
    return rg_buf_status(buf);
}

/* --- unpacking -------------------------------------------------------------------------------- */

/* What follows a token's half. SIZE_MAX: the block ends in it. */
static size_t take_length(const uint8_t **p, const uint8_t *end, size_t length)
{
    uint8_t more = 255;

    if (length < LENGTH_MAX)
        return length;
    while (more == 255) {
        if (*p == end)
            return SIZE_MAX;
        length += more = *(*p)++;
    }
    return length;
}

int rg_lz4_unpack(const uint8_t *data, size_t nbytes, uint8_t *ret_data, size_t room)
{
    const uint8_t *p = data, *end = data + nbytes;
    size_t at = 0;

    while (p < end) {
        unsigned token = *p++;
        size_t count = take_length(&p, end, token >> 4);
        if (count > (size_t) (end - p) || count > room - at)
            return -EBADMSG;
        memcpy(ret_data + at, p, count);
        at += count;
        p += count;
        if (p == end)
            return at == room ? 0 : -EBADMSG;
        if (end - p < 2)
            return -EBADMSG;
        size_t offset = p[0] | (size_t) p[1] << 8;
        p += 2;
        size_t length = take_length(&p, end, token & LENGTH_MAX);
        if (!offset || offset > at || length > SIZE_MAX - MATCH_MIN ||
            length + MATCH_MIN > room - at)
            return -EBADMSG;
        for (length += MATCH_MIN; length > 0; length--, at++)
            ret_data[at] = ret_data[at - offset]; /* they may overlap */
    }
    return -EBADMSG;
}
