/* SPDX-License-Identifier: Apache-2.0 */
/* What reigen bench asks of the runtime when something goes wrong there. */
#include <errno.h>

#include "cmd/bench/measure/peer.h"
#include "unit.h"

enum { GROUP = 4, FAILS_AT = 2 };

static int nsubmitted, nwaited, nreleased;

static int broadcast_async(const char *name, const void *in, void *out, int dtype,
                           const int64_t *shape, int ndim, const struct reigen_options *options,
                           reigen_handle *ret_handle)
{
    (void) name, (void) in, (void) out, (void) dtype, (void) shape, (void) ndim, (void) options;
    if (nsubmitted == FAILS_AT)
        return -ENOMEM;
    *ret_handle = 100 + nsubmitted++;
    return 0;
}

static int wait_all(int n, const reigen_handle *handles, int timeout_ms)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(handles[i], 100 + i);
    assert_int_equal(timeout_ms, -1);
    nwaited += n;
    return 0;
}

static int release_all(int n, const reigen_handle *handles)
{
    (void) handles;
    assert_int_equal(nwaited, n);
    nreleased += n;
    return 0;
}

static void request_free(struct reigen_request *request)
{
    assert_null(request);
}

static const char *last_error(void)
{
    return "there is no memory";
}

static void what_was_submitted_is_over_before_tensors_are_freed(void **state)
{
    const struct rg_bench_runtime runtime = {
        .broadcast_async = broadcast_async, .wait_all = wait_all, .release_all = release_all,
        .request_free = request_free, .last_error = last_error,
    };
    const struct rg_bench_world world = { .runtime = &runtime, .rank = 0, .size = 2, .nhosts = 1 };
    const struct rg_peer_settings settings = { .group = GROUP };
    const struct rg_bench_case row = { .op = RG_BENCH_BROADCAST, .type = REIGEN_FLOAT32,
                                       .group = GROUP, .count = 8, .part = 8, .nbytes = 32 };
    const struct rg_bench_peer *peer = &rg_bench_peer_reigen;
    struct rg_error err = RG_ERROR_INIT;
    double seconds = 0;
    void *self;

    (void) state;
    assert_int_equal(peer->open(&world, &settings, &self, &err), 0);
    assert_int_equal(peer->begin(self, &row, &err), 0);
    assert_int_equal(peer->run(self, 1, &seconds, &err), -ENOMEM);
    assert_string_equal(err.text, "there is no memory");
    assert_int_equal(nsubmitted, FAILS_AT);
    assert_int_equal(nwaited, FAILS_AT);
    assert_int_equal(nreleased, FAILS_AT);
    peer->end(self);
    peer->close(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_submitted_is_over_before_tensors_are_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
