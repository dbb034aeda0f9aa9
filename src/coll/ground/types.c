/* SPDX-License-Identifier: Apache-2.0 */
/* The names that people know the parts of an operation by. */
#include "coll/ground/types.h"

#include "base/cleanup.h"

const char *rg_dtype_name(int dtype)
{
    static const char *const names[REIGEN_NDTYPES] = {
        "uint8",   "int8",    "uint16",  "int16", "int32",   "int64",
        "float16", "float32", "float64", "bool",  "bfloat16",
    };

    return dtype >= 0 && dtype < REIGEN_NDTYPES ? names[dtype] : "?";
}

const char *rg_kind_name(int kind)
{
    static const char *const names[] = {
        "allreduce", "allgather", "broadcast", "join",
        "adasum",    "alltoall",  "barrier",   "reducescatter",
    };

    return kind >= 0 && kind < (int) rg_array_len(names) ? names[kind] : "?";
}

const char *rg_op_name(int op)
{
    static const char *const names[] = { "average", "sum", "adasum", "min", "max", "product" };

    return op >= 0 && op < (int) rg_array_len(names) ? names[op] : "?";
}

const char *rg_memory_name(int memory)
{
    static const char *const names[RG_NMEMORIES] = { "host", "cuda" };

    return memory >= 0 && memory < RG_NMEMORIES ? names[memory] : "?";
}

const char *rg_coll_name(enum rg_coll_kind kind)
{
    static const char *const names[] = { "allreduce", "reduce",   "broadcast",
                                         "allgather", "alltoall", "reducescatter" };

    return kind < rg_array_len(names) ? names[kind] : "?";
}
