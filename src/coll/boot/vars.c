/* SPDX-License-Identifier: Apache-2.0 */
/* Strict reading of variables that other programs set. */
#include "coll/boot/vars.h"

#include "base/str.h"
#include "reigen/reigen.h"

const char *rg_var(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] ? text : NULL;
}

int rg_var_int(const char *name, int64_t min, int64_t max, int64_t *ret_n, struct rg_error *err)
{
    const char *text = rg_var(name);
    int r = text ? rg_parse_int(name, text, min, max, ret_n, err) : 0;

    return r < 0 ? r : text != NULL;
}

int rg_var_optional(const char *name, int64_t min, int64_t max, int *ret_n, struct rg_error *err)
{
    int64_t n;
    int r = rg_var_int(name, min, max, &n, err);

    if (r == 1)
        *ret_n = (int) n;
    return r < 0 ? r : 0;
}

int rg_var_rank_size(const char *rank_name, const char *size_name, int *ret_rank, int *ret_size,
                     struct rg_error *err)
{
    int64_t rank = 0, size = 0;
    int has_rank = rg_var_int(rank_name, 0, REIGEN_SIZE_MAX - 1, &rank, err);
    int has_size = has_rank < 0 ? 0 : rg_var_int(size_name, 1, REIGEN_SIZE_MAX, &size, err);

    if (has_rank < 0 || has_size < 0)
        return has_rank < 0 ? has_rank : has_size;
    if (has_rank != has_size)
        return rg_error_set(err, EINVAL, "%s is set and %s is not: set both, or neither to run "
                            "alone", has_rank ? rank_name : size_name,
                            has_rank ? size_name : rank_name);
    if (!has_rank)
        return 0;
    if (rank >= size)
        return rg_error_set(err, EINVAL, "%s=%d: with %s=%d ranks are 0 to %d", rank_name,
                            (int) rank, size_name, (int) size, (int) size - 1);
    *ret_rank = (int) rank;
    *ret_size = (int) size;
    return 1;
}
