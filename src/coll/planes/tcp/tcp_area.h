/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the tcp plane: an operand, in one piece of memory or, where tensors are fused, in one
 * piece for each of them. An algorithm counts bytes from the operand's beginning and need not know
 * where one tensor ends and the next begins:
 *
 *      byte of the area    0 ... 299       300 ... 899     900 ...
 *      piece               tensor 0        tensor 1        tensor 2
 *
 * A piece has whole elements.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_TCP_AREA_H
#define RG_COLL_PLANES_TCP_TCP_AREA_H

#include <stddef.h>
#include <sys/uio.h>

/* Memory from this byte of the area on, up to the next piece's first byte. */
struct rg_tcp_piece {
    char *at; /* the caller's */
    size_t offset;
};

/* Zeroed: nothing is in it. */
struct rg_tcp_area {
    struct rg_tcp_piece *pieces; /* owned */
    int npieces;
    size_t capacity;
    size_t nbytes;
};

/* A byte of an area; area NULL: nowhere. The area stays where it is and as it is meanwhile. */
struct rg_tcp_place {
    const struct rg_tcp_area *area;
    size_t offset; /* bytes */
};

/* Make room for n pieces and have none. 0 or -ENOMEM. */
int rg_tcp_area_clear(struct rg_tcp_area *area, int n);
/* Append a piece, for which there is room. An empty one counts for nothing. */
void rg_tcp_area_add(struct rg_tcp_area *area, char *at, size_t nbytes);
void rg_tcp_area_fini(struct rg_tcp_area *area);

/* The memory there, and how much of it is in one piece: at most *ret_nbytes, which says how many
 * bytes are wanted, all within the area; more than none. */
char *rg_tcp_area_at(const struct rg_tcp_place *place, size_t *ret_nbytes);
/* The next bytes there, at most nbytes and at most n pieces; how many pieces they are. */
int rg_tcp_area_cut(const struct rg_tcp_place *place, size_t nbytes, int n, struct iovec *ret_iov);

#endif
