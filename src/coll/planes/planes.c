/* SPDX-License-Identifier: Apache-2.0 */
/* The table of planes, and what is done with all of them before the ranks know each other. */
#include "coll/planes/planes.h"

#include <string.h>

#include "base/buf.h"
#include "coll/ground/blob.h"

/* One line for each plane: rg_plane_<name>. */
#define PLANES(line) \
    line(shm)        \
    line(tcp)        \
    line(mpi)        \
    line(nccl)

#define DECLARE(name) extern const struct rg_plane_ops rg_plane_##name;
#define POINT(name) &rg_plane_##name,

PLANES(DECLARE)

rg_plane_table rg_planes = { PLANES(POINT) NULL };

/* "shm, tcp and mpi" */
static void list_names(const struct rg_plane_ops *const *table, struct rg_buf *text)
{
    for (int i = 0; table[i]; i++)
        rg_buf_printf(text, "%s%s", i == 0 ? "" : table[i + 1] ? ", " : " and ", table[i]->name);
}

static int take_names(const struct rg_plane_ops *const *table, const char *names,
                      struct rg_plane_choice *choice, struct rg_error *err)
{
    for (const char *word = names; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        size_t length = strcspn(word, ",");
        int i = 0;

        while (table[i] && (strlen(table[i]->name) != length ||
                            strncmp(table[i]->name, word, length) != 0))
            i++;
        if (!table[i]) {
            rg_autobuf struct rg_buf known = RG_BUF_INIT;

            list_names(table, &known);
            return rg_error_set(err, EINVAL, "REIGEN_PLANES=%s: \"%.*s\" is no plane; give some of "
                                "%s, with commas between", names, (int) length, word,
                                rg_buf_text(&known));
        }
        choice->allowed |= 1u << i;
    }
    choice->insisted = choice->allowed;
    return 0;
}

int rg_planes_choose(const struct rg_plane_ops *const *table, const char *names,
                     struct rg_plane_choice *ret_choice, struct rg_error *err)
{
    struct rg_plane_choice choice = { .table = table };
    int r = 0;

    /* What a plane says of its variables is heard in any case: they may be wrong. */
    for (int i = 0; table[i] && r >= 0; i++) {
        r = table[i]->asked ? table[i]->asked(err) : RG_PLANE_HINTED;
        choice.allowed |= r > RG_PLANE_NOT_ASKED ? 1u << i : 0;
        choice.insisted |= r == RG_PLANE_ASKED ? 1u << i : 0;
    }
    if (r < 0)
        return r;
    if (names[0]) {
        choice.allowed = choice.insisted = 0;
        r = take_names(table, names, &choice, err);
        if (r < 0)
            return r;
    }
    *ret_choice = choice;
    return 0;
}

bool rg_planes_serve_nodes(const struct rg_plane_choice *choice)
{
    for (int i = 0; choice->table[i]; i++)
        if (choice->allowed >> i & 1 && choice->table[i]->scopes & 1u << RG_SCOPE_NODE &&
            choice->table[i]->memories & 1u << RG_MEMORY_HOST)
            return true;
    return false;
}

void rg_planes_prepare(const struct rg_plane_choice *choice)
{
    for (int i = 0; choice->table[i]; i++)
        if (choice->allowed >> i & 1 && choice->table[i]->prepare)
            choice->table[i]->prepare(choice->insisted >> i & 1);
}

int rg_planes_offer(const struct rg_plane_choice *choice, const struct rg_config *config, int rank,
                    int size, struct rg_buf *offer, struct rg_error *err)
{
    for (int i = 0; choice->table[i]; i++) {
        const struct rg_plane_ops *ops = choice->table[i];
        rg_autobuf struct rg_buf part = RG_BUF_INIT;
        int r;

        if (!ops->offer)
            continue;
        r = ops->offer(config, rank, size, choice->allowed >> i & 1, &part, err);
        if (r < 0)
            return r;
        if (rg_buf_nbytes(&part) > RG_OFFER_MAX)
            return rg_error_set(err, EMSGSIZE, "plane %s offers more than %d bytes", ops->name,
                                RG_OFFER_MAX);
        rg_buf_put_str(offer, ops->name);
        rg_buf_put_span(offer, rg_buf_bytes(&part), rg_buf_nbytes(&part));
        if (rg_buf_status(&part) < 0 || rg_buf_status(offer) < 0)
            return rg_error_set(err, ENOMEM, "out of memory");
    }
    return 0;
}

size_t rg_plane_region_nbytes(const struct rg_plane_ops *ops, int node_size)
{
    size_t nbytes = ops->region_nbytes ? ops->region_nbytes(node_size) : 0;

    return (nbytes + RG_REGION_ALIGN - 1) / RG_REGION_ALIGN * RG_REGION_ALIGN;
}

size_t rg_planes_region_nbytes(const struct rg_plane_ops *const *table, int node_size)
{
    size_t total = 0;

    for (int i = 0; table[i]; i++)
        total += rg_plane_region_nbytes(table[i], node_size);
    return total;
}

int rg_planes_find_offer(const struct rg_blob *offer, const char *name, struct rg_blob *ret_part)
{
    struct rg_reader reader = rg_reader_make(offer->data, offer->nbytes);

    *ret_part = (struct rg_blob){ NULL, 0 };
    while (!reader.bad && rg_reader_done(&reader) < 0) {
        size_t length, nbytes;
        const uint8_t *which = rg_reader_span(&reader, RG_OFFER_MAX, &length);
        const uint8_t *part = rg_reader_span(&reader, RG_OFFER_MAX, &nbytes);

        if (!reader.bad && length == strlen(name) && memcmp(which, name, length) == 0)
            *ret_part = (struct rg_blob){ (uint8_t *) (uintptr_t) part, nbytes };
    }
    return reader.bad ? -EBADMSG : 0;
}
