/* SPDX-License-Identifier: Apache-2.0 */
/* bench --check knows every right result by itself: a peer may be wrong in the same way. */
#include "cmd/bench/measure/values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "reigen/reigen.h"
#include "cmd/bench/measure/ops.h"

/* A new operation of the runtime gets a line here. */
const struct rg_bench_op_info rg_bench_ops[RG_BENCH_NOPS] = {
    [RG_BENCH_ALLREDUCE] = { "allreduce", true, true, false, true },
    [RG_BENCH_ALLGATHER] = { "allgather", true, false, true, false },
    [RG_BENCH_BROADCAST] = { "broadcast", true, false, false, true },
    [RG_BENCH_ALLTOALL] = { "alltoall", true, false, true, false },
    [RG_BENCH_REDUCESCATTER] = { "reducescatter", true, true, true, false },
    [RG_BENCH_ALLGATHER_INTO] = { "allgather-into", true, false, true, true },
    [RG_BENCH_REDUCESCATTER_INTO] = { "reducescatter-into", true, true, true, false },
    [RG_BENCH_BARRIER] = { "barrier", false, false, false, false },
    [RG_BENCH_JOIN] = { "join", false, false, false, false },
};

const struct rg_bench_type_info rg_bench_types[] = {
    [REIGEN_UINT8] = { "uint8", 1 },     [REIGEN_INT8] = { "int8", 1 },
    [REIGEN_UINT16] = { "uint16", 2 },   [REIGEN_INT16] = { "int16", 2 },
    [REIGEN_INT32] = { "int32", 4 },     [REIGEN_INT64] = { "int64", 8 },
    [REIGEN_FLOAT16] = { "float16", 2 }, [REIGEN_FLOAT32] = { "float32", 4 },
    [REIGEN_FLOAT64] = { "float64", 8 }, [REIGEN_BOOL] = { "bool", 1 },
    [REIGEN_BFLOAT16] = { "bfloat16", 2 },
};
_Static_assert(rg_array_len(rg_bench_types) == REIGEN_NDTYPES, "a row for each type");

const char *const rg_bench_reductions[] = {
    [REIGEN_AVERAGE] = "average", [REIGEN_SUM] = "sum", [REIGEN_ADASUM] = "adasum",
    [REIGEN_MIN] = "min",         [REIGEN_MAX] = "max", [REIGEN_PRODUCT] = "product", NULL
};

#define HALF_EXACT 2048.0    /* whole numbers up to here are exact in float16, ... */
#define BFLOAT_EXACT 256.0   /* ... and in bfloat16, ... */
#define FLOAT_EXACT 16777216.0
#define TOLERANCE_MAX 0.05

/* IEEE 754 binary16, of which no infinities and no NaNs are expected: they become huge. */
static double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? HUGE_VAL
                                    : ldexp(fraction + 1024, exponent - 25);

    return bits >> 15 ? -value : value;
}

/* Whole numbers up to 65504 and 0; others are rounded to eleven bits. */
static uint16_t to_half(double value)
{
    double size = fabs(value);
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;

    if (size < ldexp(1, -14))
        return sign | (uint16_t) lrint(ldexp(size, 24));
    double fraction = frexp(size, &exponent); /* 0.5 to 1 */
    long rounded = lrint(ldexp(fraction, 11));
    if (rounded == 2048) {
        rounded = 1024;
        exponent++;
    }
    return exponent > 16 ? sign | 0x7c00
                         : sign | (uint16_t) ((exponent + 14) << 10) |
                               (uint16_t) (rounded - 1024);
}

static double from_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t) bits << 16;
    float value;

    memcpy(&value, &wide, sizeof(value));
    return (double) value;
}

static uint16_t to_bfloat(double value)
{
    float narrow = (float) value;
    uint32_t wide;

    memcpy(&wide, &narrow, sizeof(wide));
    return (uint16_t) ((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

double rg_value_load(int dtype, const void *data, size_t i)
{
    switch (dtype) {
    case REIGEN_UINT8: return ((const uint8_t *) data)[i];
    case REIGEN_INT8: return ((const int8_t *) data)[i];
    case REIGEN_UINT16: return ((const uint16_t *) data)[i];
    case REIGEN_INT16: return ((const int16_t *) data)[i];
    case REIGEN_INT32: return ((const int32_t *) data)[i];
    case REIGEN_INT64: return (double) ((const int64_t *) data)[i];
    case REIGEN_FLOAT16: return from_half(((const uint16_t *) data)[i]);
    case REIGEN_FLOAT32: return (double) ((const float *) data)[i];
    case REIGEN_FLOAT64: return ((const double *) data)[i];
    case REIGEN_BOOL: return ((const uint8_t *) data)[i];
    default: return from_bfloat(((const uint16_t *) data)[i]);
    }
}

void rg_value_store(int dtype, void *data, size_t i, double value)
{
    switch (dtype) {
    case REIGEN_UINT8: ((uint8_t *) data)[i] = (uint8_t) (int64_t) value; break;
    case REIGEN_INT8: ((int8_t *) data)[i] = (int8_t) (int64_t) value; break;
    case REIGEN_UINT16: ((uint16_t *) data)[i] = (uint16_t) (int64_t) value; break;
    case REIGEN_INT16: ((int16_t *) data)[i] = (int16_t) (int64_t) value; break;
    case REIGEN_INT32: ((int32_t *) data)[i] = (int32_t) (int64_t) value; break;
    case REIGEN_INT64: ((int64_t *) data)[i] = (int64_t) value; break;
    case REIGEN_FLOAT16: ((uint16_t *) data)[i] = to_half(value); break;
    case REIGEN_FLOAT32: ((float *) data)[i] = (float) value; break;
    case REIGEN_FLOAT64: ((double *) data)[i] = value; break;
    case REIGEN_BOOL: ((uint8_t *) data)[i] = value != 0; break;
    default: ((uint16_t *) data)[i] = to_bfloat(value); break;
    }
}

double rg_value_of(int reduction, int rank, size_t i)
{
    size_t k = ((size_t) rank * 3 + i) % RG_VALUES_PERIOD;

    switch (reduction) {
    case REIGEN_ADASUM: return (double) (i % RG_VALUES_PERIOD); /* parallel: their average */
    case REIGEN_PRODUCT: return k == 0 && rank < RG_VALUES_PERIOD ? 2 : 1;
    default: return (double) k;
    }
}

void rg_values_fill(int dtype, int reduction, int rank, size_t first, void *data, size_t count)
{
    double table[RG_VALUES_PERIOD];

    for (size_t k = 0; k < RG_VALUES_PERIOD; k++)
        table[k] = rg_value_of(reduction, rank, k);
    for (size_t i = 0; i < count; i++)
        rg_value_store(dtype, data, i, table[(first + i) % RG_VALUES_PERIOD]);
}

/* One step of a reduction, in numbers that are as exact as any type's. */
static double combine(int reduction, double a, double b)
{
    switch (reduction) {
    case REIGEN_ADASUM: return a;
    case REIGEN_MIN: return a < b ? a : b;
    case REIGEN_MAX: return a > b ? a : b;
    case REIGEN_PRODUCT: return a * b;
    default: return a + b;
    }
}

static bool is_bool_and(int reduction)
{
    return reduction == REIGEN_MIN || reduction == REIGEN_PRODUCT;
}

/* As the type keeps it: integers wrap, bool is 0 or 1. */
static double as_kept(int dtype, double value)
{
    uint64_t room;

    rg_value_store(dtype, &room, 0, value);
    return dtype == REIGEN_FLOAT16 || dtype == REIGEN_BFLOAT16 ? value
                                                               : rg_value_load(dtype, &room, 0);
}

void rg_values_reduced(int dtype, int reduction, int nranks, double ret_table[RG_VALUES_PERIOD])
{
    for (size_t k = 0; k < RG_VALUES_PERIOD; k++) {
        double all = rg_value_of(reduction, 0, k);
        for (int rank = 1; rank < nranks; rank++) {
            double one = rg_value_of(reduction, rank, k);
            all = dtype != REIGEN_BOOL      ? combine(reduction, all, one)
                  : is_bool_and(reduction)  ? (all != 0 && one != 0)
                                            : (all != 0 || one != 0);
        }
        if (reduction == REIGEN_AVERAGE && dtype != REIGEN_BOOL)
            all = as_kept(REIGEN_FLOAT64, all) / nranks;
        ret_table[k] = as_kept(dtype, all);
    }
}

uint64_t rg_values_wrong(int dtype, const void *data, size_t count, size_t first,
                         const double table[RG_VALUES_PERIOD], double tolerance)
{
    uint64_t nwrong = 0;

    for (size_t i = 0; i < count; i++) {
        double right = table[(first + i) % RG_VALUES_PERIOD], found = rg_value_load(dtype, data, i);
        /* Written so that a NaN is wrong, too. */
        nwrong += !(fabs(found - right) <= tolerance * fabs(right));
    }
    return nwrong;
}

double rg_values_tolerance(int dtype, int reduction, int nranks)
{
    double exact = dtype == REIGEN_FLOAT16    ? HALF_EXACT
                   : dtype == REIGEN_BFLOAT16 ? BFLOAT_EXACT
                   : dtype == REIGEN_FLOAT32  ? FLOAT_EXACT
                   : dtype == REIGEN_FLOAT64  ? FLOAT_EXACT * FLOAT_EXACT
                                              : 0;
    double largest = (double) (RG_VALUES_PERIOD - 1) * nranks;

    if (exact == 0 || reduction == REIGEN_MIN || reduction == REIGEN_MAX)
        return 0;
    bool divides = reduction == REIGEN_AVERAGE || reduction == REIGEN_ADASUM;
    if (!divides && largest <= exact)
        return 0;
    /* A hop rounds by half a unit of the last place. */
    double tolerance = (divides ? 4 : 0) / exact + (largest > exact ? nranks / exact : 0);
    return tolerance < TOLERANCE_MAX ? tolerance : TOLERANCE_MAX;
}
