/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: device
 * Endless allreduces of tensors in the memory of a GPU that is not there (tests/standin), until one
 * fails: then each rank says "error NUMBER TEXT", and ends with status 5. The rank that VICTIM
 * names (1 by default) has VICTIM_VARIABLE set to VICTIM_VALUE, which tells the stand-ins what is
 * to break there.
 */
#include "program.h"

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **ret_context, int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **ret_stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuMemAlloc_v2(void **ret_at, size_t nbytes);
int ncclGetVersion(int *ret_version); /* so that it is linked */

enum { COUNT = 20000, ROUNDS_MAX = 2000 };

static void open_device(int device, void **ret_stream, void **ret_at)
{
    void *context;
    int version;

    if (cuInit(0) || ncclGetVersion(&version) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxSetCurrent(context) || cuStreamCreate(ret_stream, 1) ||
        cuMemAlloc_v2(ret_at, COUNT * sizeof(float)))
        fail("the stand-in does not work");
}

int main(void)
{
    const char *victim = getenv("VICTIM"), *name = getenv("VICTIM_VARIABLE");
    int64_t shape = COUNT;
    void *stream, *at;
    int r = 0;

    begin();
    if (name && reigen_rank() == (victim ? atoi(victim) : 1))
        setenv(name, getenv("VICTIM_VALUE"), 1);
    open_device(reigen_rank(), &stream, &at);
    expect(reigen_use_device(reigen_rank(), stream), 0, "use_device");
    for (int i = 0; i < ROUNDS_MAX && r == 0; i++) {
        r = reigen_allreduce("x", at, at, REIGEN_FLOAT32, &shape, 1, NULL);
        sleep_ms(5); /* patient: it computes */
    }
    if (r == 0)
        fail("nothing has failed");
    say("error %d %s", r, reigen_last_error());
    cuStreamSynchronize(stream); /* nothing holds it for ever */
    reigen_shutdown();
    return 5;
}
