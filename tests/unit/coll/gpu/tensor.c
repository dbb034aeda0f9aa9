/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/gpu/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "help/unwatched.h"

enum { ESIZE_MAX = 8 };

int tensor_check(const struct rank *rank, bool good, int line, const char *what)
{
    if (good)
        return 0;
    fprintf(stderr, "last error: %s\n", reigen_last_error());
    return ranks_fail(rank, line, what);
}

const int tensor_esizes[REIGEN_NDTYPES] = { 1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2 };

UNIT_UNWATCHED void tensor_put(void *at, int dtype, size_t i, double value)
{
    float single = (float) value;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    switch (dtype) {
    case REIGEN_UINT8: ((uint8_t *) at)[i] = (uint8_t) value; break;
    case REIGEN_INT8: ((int8_t *) at)[i] = (int8_t) value; break;
    case REIGEN_UINT16: ((uint16_t *) at)[i] = (uint16_t) value; break;
    case REIGEN_INT16: ((int16_t *) at)[i] = (int16_t) value; break;
    case REIGEN_INT32: ((int32_t *) at)[i] = (int32_t) value; break;
    case REIGEN_INT64: ((int64_t *) at)[i] = (int64_t) value; break;
    case REIGEN_FLOAT32: ((float *) at)[i] = single; break;
    case REIGEN_FLOAT64: ((double *) at)[i] = value; break;
    case REIGEN_BOOL: ((uint8_t *) at)[i] = value != 0; break;
    case REIGEN_BFLOAT16: ((uint16_t *) at)[i] = (uint16_t) (bits >> 16); break;
    default: /* float16 */
        ((uint16_t *) at)[i] = value == 0 ? 0 : (uint16_t) ((bits >> 31) << 15 |
                               (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
    }
}

UNIT_UNWATCHED double tensor_value(int rank, size_t i)
{
    return (double) ((i * 7 + (size_t) rank * 3) % 4);
}

static UNIT_UNWATCHED void put_all(char *bytes, int dtype, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        tensor_put(bytes, dtype, i, tensor_value(rank, i));
}

struct tensor tensor_make(struct standin_stream *stream, int dtype, size_t count, int rank)
{
    struct tensor t = { dtype, count, NULL };
    char *bytes = malloc(count * ESIZE_MAX + 1);

    if (count > 0)
        t.at = device_alloc(count * (size_t) tensor_esizes[dtype]);
    put_all(bytes, dtype, count, rank);
    device_write(stream, t.at, bytes, count * (size_t) tensor_esizes[dtype]);
    free(bytes);
    return t;
}

void tensor_drop(struct tensor *t)
{
    if (t->at)
        device_free(t->at);
}

/* `want` is private to this thread; what is compared with it, device_read() has copied. */
static UNIT_UNWATCHED void expect_all(char *want, int dtype, size_t count,
                                      double (*expected)(size_t i, const int *arg), const int *arg)
{
    for (size_t i = 0; i < count; i++)
        tensor_put(want, dtype, i, expected(i, arg));
}

/* Names the first of these elements that differs. */
static void tell_wrong(const char *seen, const char *want, int dtype, size_t count)
{
    size_t each = (size_t) tensor_esizes[dtype], i = 0;

    while (i < count && memcmp(seen + i * each, want + i * each, each) == 0)
        i++;
    fprintf(stderr, "type %d: element %zu of %zu is wrong\n", dtype, i, count);
}

int tensor_compare(struct standin_stream *stream, const void *at, int dtype, size_t count,
                   double (*expected)(size_t i, const int *arg), const int *arg)
{
    size_t each = (size_t) tensor_esizes[dtype], nbytes = count * each;
    char *seen = calloc(1, nbytes + 1), *want = calloc(count + 1, ESIZE_MAX);
    int bad;

    device_read(stream, seen, at, nbytes);
    bad = cuStreamSynchronize(stream) != 0;
    expect_all(want, dtype, count, expected, arg);
    if (!bad && memcmp(seen, want, nbytes) != 0) {
        tell_wrong(seen, want, dtype, count);
        bad = 1;
    }
    free(seen);
    free(want);
    return bad;
}

UNIT_UNWATCHED double tensor_reduced(size_t i, const int *arg)
{
    double value = tensor_value(0, i);
    bool logical = arg[2] == REIGEN_BOOL;

    for (int r = 1; r < arg[1]; r++) {
        double next = tensor_value(r, i);

        if (arg[0] == REIGEN_MIN || (logical && arg[0] == REIGEN_PRODUCT))
            value = logical ? value && next : next < value ? next : value;
        else if (arg[0] == REIGEN_MAX || logical)
            value = logical ? value || next : next > value ? next : value;
        else
            value = arg[0] == REIGEN_PRODUCT ? value * next : value + next;
    }
    return arg[0] == REIGEN_AVERAGE ? value / arg[1] : value;
}

bool tensors_use_nccl(void)
{
    char *planes = NULL;
    bool uses = reigen_planes(&planes) == 0 && strstr(planes, "nccl 300") != NULL;

    reigen_free(planes);
    return uses;
}

struct standin_stream *tensor_stream(const struct rank *rank)
{
    return device_open(getenv("TEST_ONE_DEVICE") ? 0 : rank->me);
}

int tensor_allreduce(struct rank *rank, struct standin_stream *stream, int process_set, int dtype,
                     int op, size_t count, bool in_place)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    struct tensor in = tensor_make(stream, dtype, count, rank->me);
    struct tensor out = tensor_make(stream, dtype, count, 9);
    int64_t shape = (int64_t) count;
    int arg[] = { op, rank->n, dtype }, bad = 0;
    void *to = in_place ? in.at : out.at;
    reigen_handle handle;

    options.op = op;
    options.process_set = process_set;
    bad |= check(reigen_allreduce_async("x", in.at, to, dtype, &shape, 1, &options, &handle) == 0);
    if (!bad)
        bad |= check(reigen_wait(handle, -1) == 0);
    if (!bad)
        bad |= check(tensor_compare(stream, to, dtype, count, tensor_reduced, arg) == 0);
    if (!bad)
        bad |= check(reigen_poll(handle) == 1);
    reigen_release(handle);
    tensor_drop(&in);
    tensor_drop(&out);
    return bad;
}
