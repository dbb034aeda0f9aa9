/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_reduce.h"

#include <stdbool.h>
#include <string.h>

size_t standin_size(int type)
{
    static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

    return sizes[type];
}

static float to_float(uint16_t bits, bool brain)
{
    uint32_t wide = (uint32_t) bits << 16;
    float value;

    if (!brain) {
        uint32_t sign = (uint32_t) (bits >> 15) << 31, e = bits >> 10 & 31, m = bits & 1023;

        if (e == 0) {
            value = (float) m / 16777216.0f;
            return sign ? -value : value;
        }
        wide = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    }
    memcpy(&value, &wide, sizeof(value));
    return value;
}

/* Rounded to nearest even. */
static uint16_t from_float(float value, bool brain)
{
    uint32_t wide, sign, rest;
    int drop = brain ? 16 : 13;

    memcpy(&wide, &value, sizeof(wide));
    if (!brain) {
        sign = wide >> 16 & 0x8000;
        rest = wide & 0x7fffffff;
        if (rest >= 0x7f800000)
            return (uint16_t) (sign | 0x7c00 | (rest > 0x7f800000 ? 512 : 0));
        if (rest < 0x38800000) { /* below the smallest normal one */
            float scaled = (value < 0 ? -value : value) * 16777216.0f;

            return (uint16_t) (sign | (uint32_t) (scaled + 0.5f));
        }
        rest += 0xfff + (rest >> drop & 1);
        rest = (rest >> drop) - (112u << 10);
        return (uint16_t) (sign | (rest > 0x7c00 ? 0x7c00 : rest));
    }
    return (uint16_t) ((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

static double get(const char *at, int type, size_t i)
{
    switch (type) {
    case 0: return ((const int8_t *) at)[i];
    case 1: return ((const uint8_t *) at)[i];
    case 2: return ((const int32_t *) (const void *) at)[i];
    case 3: return ((const uint32_t *) (const void *) at)[i];
    case 6: return (double) to_float(((const uint16_t *) (const void *) at)[i], false);
    case 7: return (double) ((const float *) (const void *) at)[i];
    case 8: return ((const double *) (const void *) at)[i];
    default: return (double) to_float(((const uint16_t *) (const void *) at)[i], true);
    }
}

static void set(char *at, int type, size_t i, double value)
{
    switch (type) {
    case 0: ((int8_t *) at)[i] = (int8_t) (int64_t) value; break;
    case 1: ((uint8_t *) at)[i] = (uint8_t) (int64_t) value; break;
    case 2: ((int32_t *) (void *) at)[i] = (int32_t) (int64_t) value; break;
    case 3: ((uint32_t *) (void *) at)[i] = (uint32_t) (int64_t) value; break;
    case 6: ((uint16_t *) (void *) at)[i] = from_float((float) value, false); break;
    case 7: ((float *) (void *) at)[i] = (float) value; break;
    case 8: ((double *) (void *) at)[i] = value; break;
    default: ((uint16_t *) (void *) at)[i] = from_float((float) value, true); break;
    }
}

static double combine(int op, double a, double b)
{
    if (op == STANDIN_PROD)
        return a * b;
    if (op == STANDIN_MAX)
        return a > b ? a : b;
    if (op == STANDIN_MIN)
        return a < b ? a : b;
    return a + b;
}

/* 64 bits do not fit into a double. */
static void reduce_long(int op, int64_t *into, const int64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t a = (uint64_t) into[i], b = (uint64_t) from[i];

        if (op == STANDIN_PROD)
            into[i] = (int64_t) (a * b);
        else if (op == STANDIN_MAX || op == STANDIN_MIN)
            into[i] = (op == STANDIN_MAX) == (into[i] > from[i]) ? into[i] : from[i];
        else
            into[i] = (int64_t) (a + b);
    }
}

double standin_number(const void *at, int type)
{
    return get(at, type, 0);
}

void standin_reduce(int op, int type, double factor, char *operands, size_t count, int n)
{
    size_t nbytes = count * standin_size(type);

    if (type == 4 || type == 5) {
        for (int k = 1; k < n; k++)
            reduce_long(op, (int64_t *) (void *) operands,
                        (int64_t *) (void *) (operands + (size_t) k * nbytes), count);
        return;
    }
    if (op < STANDIN_OPS)
        factor = 1.0;
    for (size_t i = 0; i < count; i++) {
        double value = get(operands, type, i) * factor;

        for (int k = 1; k < n; k++)
            value = combine(op, value, get(operands + (size_t) k * nbytes, type, i) * factor);
        set(operands, type, i, op == STANDIN_AVG ? value / n : value);
    }
}
