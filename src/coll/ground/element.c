/* SPDX-License-Identifier: Apache-2.0 */
/* Types are few, and are never taken away: so a list that only grows needs no lock. */
#include "coll/ground/element.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct added {
    struct rg_element element;
    char name[REIGEN_TYPE_NAME_MAX + 1];
};

static _Atomic(struct added *) list[REIGEN_TYPES_MAX];

const struct rg_element *rg_element_find(int dtype)
{
    static const struct rg_element own[REIGEN_NDTYPES] = {
        [REIGEN_UINT8] = { REIGEN_UINT8, 1, false, "uint8" },
        [REIGEN_INT8] = { REIGEN_INT8, 1, false, "int8" },
        [REIGEN_UINT16] = { REIGEN_UINT16, 1, false, "uint16" },
        [REIGEN_INT16] = { REIGEN_INT16, 1, false, "int16" },
        [REIGEN_INT32] = { REIGEN_INT32, 1, false, "int32" },
        [REIGEN_INT64] = { REIGEN_INT64, 1, false, "int64" },
        [REIGEN_FLOAT16] = { REIGEN_FLOAT16, 1, false, "float16" },
        [REIGEN_FLOAT32] = { REIGEN_FLOAT32, 1, false, "float32" },
        [REIGEN_FLOAT64] = { REIGEN_FLOAT64, 1, false, "float64" },
        [REIGEN_BOOL] = { REIGEN_BOOL, 1, false, "bool" },
        [REIGEN_BFLOAT16] = { REIGEN_BFLOAT16, 1, false, "bfloat16" },
    };
    int place = dtype - REIGEN_TYPE_ADDED;
    const struct added *added;

    if (dtype >= 0 && dtype < REIGEN_NDTYPES)
        return &own[dtype];
    if (place < 0 || place >= REIGEN_TYPES_MAX)
        return NULL;
    added = atomic_load(&list[place]);
    return added ? &added->element : NULL;
}

static int check(const char *name, size_t nbytes, int parts, struct rg_error *err)
{
    size_t length = name ? strlen(name) : 0;

    if (length == 0 || length > REIGEN_TYPE_NAME_MAX)
        return rg_error_set(err, EINVAL, "the name of an element type has %zu bytes; give 1 to %d",
                            length, REIGEN_TYPE_NAME_MAX);
    for (const char *c = name; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            return rg_error_set(err, EINVAL, "the name of an element type has the byte 0x%02x; "
                                "give printable ASCII without quotes and backslashes",
                                (uint8_t) *c);
    if (nbytes == 0 || nbytes > REIGEN_TYPE_NBYTES_MAX)
        return rg_error_set(err, EINVAL, "%s has elements of %zu bytes; give 1 to %d", name, nbytes,
                            REIGEN_TYPE_NBYTES_MAX);
    if (parts >= REIGEN_NDTYPES || (parts >= 0 && nbytes % rg_dtype_nbytes(parts) != 0))
        return rg_error_set(err, EINVAL, "%s: elements of %zu bytes do not consist of type %d",
                            name, nbytes, parts);
    return 0;
}

static bool is_same(const struct rg_element *a, const struct rg_element *b)
{
    return a->dtype == b->dtype && a->nparts == b->nparts && a->moves_only == b->moves_only &&
           strcmp(a->name, b->name) == 0;
}

int rg_element_add(const char *name, size_t nbytes, int parts, int *ret_dtype,
                   struct rg_error *err)
{
    uint8_t dtype = (uint8_t) (parts < 0 ? REIGEN_UINT8 : parts);
    rg_autofree struct added *mine = NULL;
    int r = check(name, nbytes, parts, err);

    if (r < 0)
        return r;
    mine = calloc(1, sizeof(*mine));
    if (!mine)
        return rg_error_set(err, ENOMEM, "out of memory");
    memcpy(mine->name, name, strlen(name));
    mine->element = (struct rg_element){ dtype, (uint32_t) (nbytes / rg_dtype_nbytes(dtype)),
                                         parts < 0, mine->name };
    for (int i = 0; i < REIGEN_TYPES_MAX; i++) {
        struct added *there = NULL;

        if (atomic_compare_exchange_strong(&list[i], &there, mine))
            (void) rg_steal_ptr(&mine);
        else if (!is_same(&there->element, &mine->element))
            continue;
        *ret_dtype = REIGEN_TYPE_ADDED + i;
        return 0;
    }
    return rg_error_set(err, ENOSPC, "%s is one element type more than %d", name, REIGEN_TYPES_MAX);
}
