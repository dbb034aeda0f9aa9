/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reigen/reigen.h"

static void must(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: result %d\n", what, result);
    exit(98);
}

struct standin_stream *device_open(int device)
{
    struct standin_stream *stream;
    void *context;
    int version;

    must(cuInit(0), "cuInit");
    must(ncclGetVersion(&version), "ncclGetVersion"); /* so that it is linked */
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&stream, 1), "cuStreamCreate");
    if (reigen_use_device(device, stream) < 0) {
        fprintf(stderr, "reigen_use_device: %s\n", reigen_last_error());
        exit(97);
    }
    return stream;
}

void *device_alloc(size_t nbytes)
{
    void *at;

    must(cuMemAlloc_v2(&at, nbytes ? nbytes : 1), "cuMemAlloc");
    return at;
}

void device_free(void *at)
{
    must(cuMemFree_v2(at), "cuMemFree");
}

struct copy {
    void *to;
    const void *from;
    size_t nbytes;
    char bytes[];
};

static void do_write(void *arg)
{
    struct copy *copy = arg;

    memcpy(standin_view(copy->to, copy->nbytes), copy->bytes, copy->nbytes);
    free(copy);
}

static void do_read(void *arg)
{
    struct copy *copy = arg;

    memcpy(copy->to, standin_view(copy->from, copy->nbytes), copy->nbytes);
    free(copy);
}

void device_write(struct standin_stream *stream, void *to, const void *from, size_t nbytes)
{
    struct copy *copy = malloc(sizeof(*copy) + nbytes);

    if (nbytes == 0 || !copy) {
        free(copy);
        return;
    }
    *copy = (struct copy){ .to = to, .nbytes = nbytes };
    memcpy(copy->bytes, from, nbytes);
    must(standin_put(stream, do_write, copy), "a write");
}

void device_read(struct standin_stream *stream, void *to, const void *from, size_t nbytes)
{
    struct copy *copy = malloc(sizeof(*copy));

    if (nbytes == 0 || !copy) {
        free(copy);
        return;
    }
    *copy = (struct copy){ .to = to, .from = from, .nbytes = nbytes };
    must(standin_put(stream, do_read, copy), "a read");
}
