/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler that XLA calls for a collective on a CUDA device.
 *
 * XLA's thread goes through a program ahead of the GPU, and each handler puts work on a stream.
 * Ours submits the operation to that stream, waits until all ranks have come to it, so that it is
 * on a stream of the runtime's, has XLA's stream wait for that, and returns: the host has not
 * waited for the GPU. Until then it holds XLA's thread, which is not to be helped: XLA goes on with
 * the program once the handler has returned, and a future (as handler.c uses) it would wait for
 * before it goes on. So the ranks must come to their operations in one order. XLA runs one program
 * in one order, and where the ranks' programs differ, tokens among the arguments keep the
 * operations of a program in the order in which they were traced (reigen/jax/_primitive.py).
 * Programs of one device are put on its stream one after the other, in the order of their calls.
 *
 * XLA may record a program's work as a CUDA graph, and would then call no handler in later runs. It
 * does so with handlers only that have said that they allow it, and ours does not.
 */
#include <errno.h>
#include <stdlib.h>

#include "call.h"

REIGEN_API struct xla_error *reigen_jax_collective_cuda(struct xla_frame *frame);

/* What a thread says of its tensors; before the handler too, for it may be the user's own. */
struct device {
    int number;
    void *stream;
};

/* The address of some array; NULL: all are empty. */
static const void *find_address(const struct xla_list *list)
{
    for (int64_t i = 0; i < list->size; i++) {
        const struct xla_buffer *buffer = list->types[i] == XLA_BUFFER ? list->items[i] : NULL;

        if (buffer && buffer->data)
            return buffer->data;
    }
    return NULL;
}

/* By the driver's number of the device. XLA's own number, which counts the devices that JAX was
 * told to use (jax_cuda_visible_devices), is all there is where all arrays are empty. */
static struct xla_error *find_device(const struct xla_frame *frame, int *ret_number)
{
    struct xla_device_get_args device = { sizeof(device), NULL, frame->context, -1 };
    const void *at = find_address(&frame->args);
    struct xla_error *error = NULL;
    int rc = 0, number = -1;

    if (!at)
        at = find_address(&frame->results);
    if (at) {
        rc = reigen_device_of(at, &number);
    } else if (XLA_HAS(frame->api, device_get)) {
        error = frame->api->device_get(&device);
        number = device.device;
    }
    if (rc < 0)
        error = call_error(frame->api, rc, reigen_last_error());
    else if (!error && number < 0)
        error = call_error(frame->api, -EINVAL, "the arrays of a program for GPUs are on none");
    *ret_number = number;
    return error;
}

static struct xla_error *ask_xla(const struct xla_frame *frame, struct device *ret_device)
{
    struct xla_stream_get_args stream = { sizeof(stream), NULL, frame->context, NULL };
    struct xla_error *error = frame->api->stream_get(&stream);

    ret_device->stream = stream.stream;
    return error ? error : find_device(frame, &ret_device->number);
}

struct xla_error *reigen_jax_collective_cuda(struct xla_frame *frame)
{
    struct device device = { -1, NULL }, before;
    struct xla_error *error;
    struct call *call;
    size_t nbytes;
    int rc;

    if (call_is_metadata(frame) || frame->stage != XLA_STAGE_EXECUTE)
        return NULL;
    error = ask_xla(frame, &device);
    if (error)
        return error;
    before.number = reigen_used_device(&before.stream);
    rc = reigen_use_device(device.number, device.stream);
    if (rc < 0)
        return call_error(frame->api, rc, reigen_last_error());
    call = call_begin(frame, &nbytes, &error);
    if (call)
        error = call_finish(call, true);
    free(call);
    reigen_use_device(before.number, before.stream);
    return error;
}
