/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits, and who is waited for, on one node. */
#include "unit.h"

#include "base/time.h"
#include "coll/api/api.h"
#include "coll/members.h"
#include "coll/planes/shm.h"
#include "coll/progress/spent.h"

#define N 3
#define LATE 1
#define STREAM 100000 /* elements: more than goes by slots */

static const struct rg_config config = {
    .cache_capacity = 64, .spin_us = -1, .fusion_nbytes = 1 << 20, .silence_ms = 30000,
};

static rg_plane_table table = { &rg_plane_shm, NULL };
static const struct rg_plane_choice shm = { table, 1, 0 };

static struct rg_progress *open_progress(struct member *member)
{
    struct rg_progress_options options = { .team = &member->team, .config = &config,
                                           .planes = &shm, .observe = rg_api_observe };
    struct rg_progress *progress = NULL;
    struct rg_error err = RG_ERROR_INIT;

    member->team.segment = member->region;
    member->team.segment_nbytes = rg_progress_nbytes(&shm, member->n);
    member->team.oversubscribed = true;
    if (rg_progress_create(&options, &progress, &err) < 0) {
        fprintf(stderr, "member %d: %s\n", member->me, err.text);
        abort();
    }
    return progress;
}

static int reduce(struct rg_progress *progress, float *data, int64_t count)
{
    const char *name = count > 1 ? "stream" : "slots";
    const void *in = data;
    void *out = data;
    const int64_t *shape = &count;
    int ndim = 1, r;
    struct rg_op *op = NULL;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_call call = { .kind = REIGEN_ALLREDUCE, .n = 1, .names = &name, .ins = &in,
                            .outs = &out, .dtype = REIGEN_FLOAT32, .shapes = &shape,
                            .ndims = &ndim };

    r = rg_call_submit(progress, &call, NULL, &op, &err);
    if (r < 0)
        return r;
    r = rg_progress_wait(progress, op, rg_now_ns() + unit_limit_s(30) * RG_NS_PER_S);
    rg_op_unref(op);
    return r;
}

static uint64_t waited_ns(const struct rg_progress *progress, int r)
{
    return atomic_load(&progress->view.numbers[r].waited_ns);
}

static uint64_t caused_ns(const struct rg_progress *progress, int r)
{
    return atomic_load(&progress->view.numbers[r].caused_ns);
}

/* The late one comes when both others have told that they wait, as they do while it lasts. */
static int late(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    int64_t counts[] = { 1, STREAM };
    float *data = calloc(STREAM, sizeof(float));
    int bad = data == NULL;

    for (int i = 0; i < 2 && !bad; i++) {
        uint64_t before[N];

        bad = reduce(progress, data, 1) < 0;
        for (int r = 0; r < N; r++)
            before[r] = waited_ns(progress, r);
        bad = bad || reduce(progress, data, 1) < 0; /* all have looked */
        for (int r = 0; r < N && member->me == LATE; r++)
            unit_until(r == LATE || waited_ns(progress, r) >= before[r] + RG_NS_PER_S / 2,
                       "the others to wait");
        bad = bad || reduce(progress, data, counts[i]) < 0;
    }
    bad = bad || reduce(progress, data, 1) < 0;
    if (member->me == 0 && caused_ns(progress, LATE) < 2 * RG_NS_PER_S) {
        fprintf(stderr, "the late one is said to have caused %llu ns only\n",
                (unsigned long long) caused_ns(progress, LATE));
        bad = 1;
    }
    for (int r = 0; r < N; r++) {
        if (r != LATE && caused_ns(progress, r) > caused_ns(progress, LATE) / 2)
            bad = fprintf(stderr, "member %d is blamed\n", r);
    }
    bad = bad || reduce(progress, data, 1) < 0; /* nobody waits before all have looked */
    rg_progress_destroy(progress, 0, NULL);
    free(data);
    return bad;
}

static void who_comes_late_has_caused_the_waiting(void **state)
{
    (void) state;
    assert_int_equal(members_run(N, rg_progress_nbytes(&shm, N), late, NULL), 0);
}

/* Ten steps, told once a second if nobody calls that: here it is the test. */
static int steps(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    struct rg_numbers_row *row = &progress->view.numbers[member->me];
    float x = 1;
    int bad = 0;

    for (int i = 0; i < 10 && !bad; i++) {
        bad = reduce(progress, &x, 1) < 0;
        rg_numbers_step(progress);
    }
    unit_until(atomic_load(&row->steps) == 10 && atomic_load(&row->operations) >= 10 &&
                   atomic_load(&row->resident_nbytes) > 0 && atomic_load(&row->cpu_ns) > 0 &&
                   atomic_load(&row->timed_ns) > 0 && atomic_load(&row->cpus) > 0,
               "the communication thread to count");
    bad = bad || atomic_load(&row->nbytes) != 10 * sizeof(float);
    bad = reduce(progress, &x, 1) < 0 || bad; /* nobody leaves before all have looked */
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void rows_are_brought_up_to_date(void **state)
{
    (void) state;
    assert_int_equal(members_run(2, rg_progress_nbytes(&shm, 2), steps, NULL), 0);
}

static void files_of_a_gpu_are_known(void **state)
{
    static const char *const gpus[] = { "/dev/nvidia0", "/dev/nvidia12", "/dev/kfd",
                                        "/dev/dri/renderD128", "/dev/accel/accel0" };
    static const char *const others[] = { "", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd2",
                                          "/dev/dri/card", "dev/nvidia0", "/dev/null" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(gpus); i++)
        assert_true(rg_spent_is_gpu(gpus[i]));
    for (size_t i = 0; i < rg_array_len(others); i++)
        assert_false(rg_spent_is_gpu(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_late_has_caused_the_waiting),
        cmocka_unit_test(rows_are_brought_up_to_date),
        cmocka_unit_test(files_of_a_gpu_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
