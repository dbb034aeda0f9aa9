/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of one piece or several. */
#include "coll/planes/tcp/tcp_area.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"

int rg_tcp_area_clear(struct rg_tcp_area *area, int n)
{
    area->npieces = 0;
    area->nbytes = 0;
    return rg_grow(&area->pieces, &area->capacity, (size_t) n);
}

void rg_tcp_area_add(struct rg_tcp_area *area, char *at, size_t nbytes)
{
    if (nbytes == 0)
        return;
    area->pieces[area->npieces++] = (struct rg_tcp_piece){ at, area->nbytes };
    area->nbytes += nbytes;
}

void rg_tcp_area_fini(struct rg_tcp_area *area)
{
    free(area->pieces);
    *area = (struct rg_tcp_area){ 0 };
}

/* The piece that has this byte. */
static int find(const struct rg_tcp_area *area, size_t offset)
{
    int low = 0, high = area->npieces - 1;

    while (low < high) {
        int middle = low + (high - low + 1) / 2;

        if (area->pieces[middle].offset <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static size_t end_of(const struct rg_tcp_area *area, int piece)
{
    return piece + 1 < area->npieces ? area->pieces[piece + 1].offset : area->nbytes;
}

char *rg_tcp_area_at(const struct rg_tcp_place *place, size_t *ret_nbytes)
{
    const struct rg_tcp_area *area = place->area;
    int i = find(area, place->offset);
    size_t left = end_of(area, i) - place->offset;

    *ret_nbytes = left < *ret_nbytes ? left : *ret_nbytes;
    return area->pieces[i].at + (place->offset - area->pieces[i].offset);
}

int rg_tcp_area_cut(const struct rg_tcp_place *place, size_t nbytes, int n, struct iovec *ret_iov)
{
    const struct rg_tcp_area *area = place->area;
    size_t from = place->offset, to = from + nbytes;
    int count = 0;

    for (int i = find(area, from); from < to && count < n; i++) {
        size_t end = end_of(area, i) < to ? end_of(area, i) : to;

        ret_iov[count++] = (struct iovec){ area->pieces[i].at + (from - area->pieces[i].offset),
                                           end - from };
        from = end;
    }
    return count;
}
