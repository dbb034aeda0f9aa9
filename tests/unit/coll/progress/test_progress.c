/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress engine over a team that the test makes: members are processes, or threads where the
 * thread sanitizer looks on, which then sees the whole protocol between ranks.
 */
#include "unit.h"

#include "base/time.h"
#include "coll/api/api.h"
#include "coll/api/rounds.h"
#include "coll/members.h"
#include "coll/planes/shm.h"
#include "coll/progress/run.h"
#include "coll/team/liveness.h"

#define check(condition)                                                              \
    ((condition) ? 0                                                                  \
                 : (fprintf(stderr, "member %d, line %d: not so: %s\n", member->me,  \
                            __LINE__, #condition),                                    \
                    bad = 1))

static const struct rg_config config = {
    .cache_capacity = 64,
    .spin_us = -1,
    .fusion_nbytes = 1 << 20,
    .silence_ms = 30000,
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

/* One allreduce of count floats, all of them 1 + i: 0 or its error. */
static int submit(struct rg_progress *progress, const char *name, float *data, int64_t count,
                  struct rg_op **ret_op)
{
    const void *in = data;
    void *out = data;
    const int64_t *shape = &count;
    int ndim = 1;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_call call = { .kind = REIGEN_ALLREDUCE, .n = 1, .names = &name, .ins = &in,
                            .outs = &out, .dtype = REIGEN_FLOAT32, .shapes = &shape,
                            .ndims = &ndim };

    return rg_call_submit(progress, &call, NULL, ret_op, &err);
}

static int finish(struct rg_progress *progress, struct rg_op *op)
{
    int r = rg_progress_wait(progress, op, rg_now_ns() + unit_limit_s(30) * RG_NS_PER_S);

    if (r == 0)
        r = op->status;
    rg_op_unref(op);
    return r;
}

static int reduce(struct rg_progress *progress, const char *name, float *data, int64_t count)
{
    struct rg_op *op = NULL;
    int r = submit(progress, name, data, count, &op);

    return r < 0 ? r : finish(progress, op);
}

static int mixed(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    static const int64_t counts[] = { 1, 4000, 60000, 17, 33000 };
    int bad = 0, n = member->n;

    for (int i = 0; i < 60 && !bad; i++) {
        int64_t count = counts[i % 5];
        float *a = calloc((size_t) count, sizeof(float));
        float *b = calloc((size_t) count, sizeof(float));
        struct rg_op *x = NULL, *y = NULL;
        char name[32];

        snprintf(name, sizeof(name), "n%d", i % 7);
        a[count - 1] = (float) i;
        check(reduce(progress, name, a, count) == 0 && a[count - 1] == (float) (i * n));
        a[0] = b[0] = 1;
        /* Not in the same order everywhere. */
        check(submit(progress, member->me % 2 ? "p" : "q", member->me % 2 ? a : b, count, &x) == 0);
        check(submit(progress, member->me % 2 ? "q" : "p", member->me % 2 ? b : a, count, &y) == 0);
        check(finish(progress, y) == 0 && finish(progress, x) == 0);
        check(a[0] == (float) n && b[0] == (float) n);
        free(a);
        free(b);
    }
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void run(int n, int (*fn)(struct member *))
{
    assert_int_equal(members_run(n, rg_progress_nbytes(&shm, n), fn, NULL), 0);
}

static void operations_of_all_sizes_end_in_any_order(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        run(n, mixed);
}

static int new_names(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    int bad = 0;

    for (int i = 0; i < 600 && !bad; i++) {
        float x[8] = { 0, 0, 1 };
        char name[32];

        snprintf(name, sizeof(name), "new%d", i * 2 / 3);
        check(reduce(progress, name, x, i % 2 ? 3 : 8) == 0 && x[2] == (float) member->n);
    }
    check(progress->table.nrecords <= config.cache_capacity);
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void idle_names_make_room_for_new_ones(void **state)
{
    (void) state;
    run(2, new_names);
    run(3, new_names);
}

static int disagreeing(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    int bad = 0;

    for (int i = 0; i < 40 && !bad; i++) {
        static const int64_t sizes[] = { 3, 50000 };
        int64_t base = sizes[i / 2 % 2];
        float *x = calloc(50001, sizeof(float));
        int odd = i % 2 && member->me == i % member->n;

        check(reduce(progress, "x", x, base + odd) == (i % 2 ? -EINVAL : 0));
        free(x);
    }
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void a_mismatch_fails_on_all_and_the_next_use_works(void **state)
{
    (void) state;
    run(2, disagreeing);
    run(3, disagreeing);
}

static int join(struct rg_progress *progress)
{
    struct rg_op *op = calloc(1, sizeof(*op));
    struct rg_error err = RG_ERROR_INIT;

    op->kind = REIGEN_JOIN;
    op->n = 1;
    op->tensors = &op->one;
    op->sigs = &op->one_sig;
    atomic_store(&op->refs, 2);
    if (rg_join_post(progress, op, &err) < 0)
        return -1;
    return finish(progress, op);
}

/* Operations are still in flight when their ranks join. */
static int joining(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    int bad = 0, n = member->n;

    for (int round = 0; round < 12 && !bad; round++) {
        int mine = (member->me + round) % n + 1;
        float small[16][2], *large = calloc(40000, sizeof(float));
        struct rg_op *ops[16];

        for (int i = 0; i < mine; i++) {
            char name[32];

            snprintf(name, sizeof(name), "s%d", i % 2);
            small[i][0] = 1;
            if (i >= 2)
                check(finish(progress, ops[i - 2]) == 0);
            check(submit(progress, name, small[i], 2, &ops[i]) == 0);
            large[0] = 1;
            check(reduce(progress, "large", large, 40000) == 0 && large[0] == (float) (n - i));
        }
        check(join(progress) >= 1);
        for (int i = mine > 2 ? mine - 2 : 0; i < mine; i++)
            check(finish(progress, ops[i]) == 0);
        for (int i = 0; i < mine; i++)
            check(small[i][0] == (float) (n - i));
        free(large);
    }
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void joined_ranks_finish_what_they_had_in_flight(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        run(n, joining);
}

static int leaving(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    float x[2] = { 1 }, *large = calloc(50000, sizeof(float));
    struct rg_op *a = NULL, *b = NULL;
    int bad = 0;

    check(reduce(progress, "start", x, 1) == 0);
    if (member->me != 0) {
        check(submit(progress, "a", x, 2, &a) == 0);
        check(submit(progress, "b", large, 50000, &b) == 0);
    }
    /* Everybody has started before the first one leaves. */
    check(reduce(progress, "all", x, 1) == 0);
    if (member->me != 0) {
        check(finish(progress, a) == -ECANCELED);
        check(finish(progress, b) == -ECANCELED);
    }
    rg_progress_destroy(progress, 0, NULL);
    free(large);
    return bad;
}

static void a_rank_that_leaves_cancels_what_waits_for_it(void **state)
{
    (void) state;
    run(2, leaving);
    run(4, leaving);
}

/* More than one round of the driver carries out. */
enum { SLOW_OPS = 40, SLOW_COUNT = 20000 };

/* Whether nothing is left to do, or nobody waits for it any more; else does a little. */
static bool has_gone_on(struct rg_progress *progress)
{
    const struct rg_view *view = &progress->view;

    if (atomic_load(&view->rows[view->me].consumed) >= rg_runlog_tail(&view->log) ||
        atomic_load(&view->shared->aborted) || atomic_load(&view->rows[0].left) != RG_LEFT_BEGUN)
        return true;
    rg_progress_drive(progress);
    return false;
}

/* Member 1, whose driver this is, does a little once the other one leaves, and the rest after that
 * one's limit. */
static void go_on_slowly(struct rg_progress *progress)
{
    const struct rg_view *view = &progress->view;

    unit_until(atomic_load(&view->rows[0].left) != RG_LEFT_NOT, "the other's leaving");
    rg_progress_drive(progress);
    rg_sleep_ms(1200); /* patient: longer than the other one's limit */
    unit_until(has_gone_on(progress), "the end of all operations");
}

static int slow(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    float *data = calloc(SLOW_OPS * SLOW_COUNT, sizeof(float));
    struct rg_op *ops[SLOW_OPS] = { NULL };
    uint64_t tail;
    int bad = 0;

    check(reduce(progress, "start", data, SLOW_COUNT) == 0);
    if (member->me == 1)
        pthread_mutex_lock(&progress->drive);
    tail = rg_runlog_tail(&progress->view.log) + SLOW_OPS;
    for (int i = 0; i < SLOW_OPS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "slow%d", i);
        check(submit(progress, name, data + i * SLOW_COUNT, SLOW_COUNT, &ops[i]) == 0);
    }
    check(unit_until(rg_runlog_tail(&progress->view.log) >= tail, "the log"));
    if (member->me == 1) {
        go_on_slowly(progress);
        pthread_mutex_unlock(&progress->drive);
    }
    rg_progress_destroy(progress, rg_now_ns() + RG_NS_PER_S, NULL);
    for (int i = 0; i < SLOW_OPS; i++) {
        check(rg_op_done(ops[i]) && ops[i]->status == 0);
        rg_op_unref(ops[i]);
    }
    free(data);
    return bad;
}

static void who_leaves_waits_for_a_slow_rank_as_long_as_it_goes_on(void **state)
{
    (void) state;
    run(2, slow);
}

/* As if it were asked at this time after the log went on and after it was asked before. */
static bool late_after(struct rg_progress *progress, uint64_t moved_s, uint64_t asked_s)
{
    uint64_t now_ns = rg_now_ns();

    atomic_store(&progress->counters.moved_ns, now_ns - moved_s * RG_NS_PER_S);
    atomic_store(&progress->counters.asked_ns, now_ns - asked_s * RG_NS_PER_S);
    return rg_progress_is_late(progress, now_ns);
}

static int patient(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    int bad = 0;

    check(!late_after(progress, 29, 0));
    check(late_after(progress, 31, 0));
    check(!late_after(progress, 31, 31));
    check(rg_progress_leave_until(&config) > rg_now_ns() + 29 * RG_NS_PER_S);
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void who_leaves_waits_for_ranks_that_stand_still_while_it_runs_itself(void **state)
{
    (void) state;
    run(1, patient);
}

static int aborted(struct member *member)
{
    struct rg_progress *progress = open_progress(member);
    float x[2] = { 1 }, *large = calloc(50000, sizeof(float));
    struct rg_op *a = NULL, *b = NULL;
    int bad = 0;

    check(reduce(progress, "start", x, 1) == 0);
    if (member->me == 0) {
        check(rg_view_abort(&progress->view, ECONNRESET, 7, "rank 7 died"));
        check(!rg_view_abort(&progress->view, EIO, -1, "too late"));
        rg_wake_ring_all(&progress->wake, true);
    } else {
        int r = submit(progress, "a", x, 1, &a);

        check(r == -ECONNRESET || (r == 0 && finish(progress, a) == -ECONNRESET));
        r = submit(progress, "b", large, 50000, &b);
        check(r == -ECONNRESET || (r == 0 && finish(progress, b) == -ECONNRESET));
    }
    rg_progress_destroy(progress, 0, NULL);
    free(large);
    return bad;
}

static void a_death_ends_everything_in_flight(void **state)
{
    (void) state;
    run(3, aborted);
}

/* In vain, for a member of a process set that is being made: why. */
static int look_in_vain(struct member *member, void (*end)(struct rg_progress *progress),
                        int expected, const char *text)
{
    uint8_t key[RG_KEY_NBYTES] = { 1 };
    int ranks[] = { 0 }, bad = 0;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot = NULL;
    struct rg_progress *progress;

    member->team.data_key = key;
    progress = open_progress(member);
    check(rg_set_boot(progress, 1, ranks, 1, 0, &boot, &err) == 0);
    check(rg_liveness_check(&member->team, boot, &err) == 0);
    end(progress);
    check(rg_liveness_check(&member->team, boot, &err) == expected);
    check(err.errnum == -expected && strstr(err.text, text));
    rg_boot_close(boot, true);
    rg_progress_destroy(progress, 0, NULL);
    return bad;
}

static void fail_job(struct rg_progress *progress)
{
    rg_view_abort(&progress->view, EINVAL, -1, "crossed");
}

static int wiring_in_failure(struct member *member)
{
    return look_in_vain(member, fail_job, -EINVAL, "crossed");
}

static int wiring_in_shutdown(struct member *member)
{
    return look_in_vain(member, rg_progress_leave, -ECANCELED, "shut down");
}

static void who_makes_a_process_set_hears_why_there_is_no_job_any_more(void **state)
{
    (void) state;
    run(1, wiring_in_failure);
    run(1, wiring_in_shutdown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_all_sizes_end_in_any_order),
        cmocka_unit_test(idle_names_make_room_for_new_ones),
        cmocka_unit_test(a_mismatch_fails_on_all_and_the_next_use_works),
        cmocka_unit_test(joined_ranks_finish_what_they_had_in_flight),
        cmocka_unit_test(a_rank_that_leaves_cancels_what_waits_for_it),
        cmocka_unit_test(who_leaves_waits_for_a_slow_rank_as_long_as_it_goes_on),
        cmocka_unit_test(who_leaves_waits_for_ranks_that_stand_still_while_it_runs_itself),
        cmocka_unit_test(a_death_ends_everything_in_flight),
        cmocka_unit_test(who_makes_a_process_set_hears_why_there_is_no_job_any_more),
    };

    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
