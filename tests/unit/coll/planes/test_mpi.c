/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sched.h>

#include "base/time.h"
#include "base/buf.h"
#include "coll/planes/mpi.h"
#include "coll/planes/planes.h"
#include "coll/team/team.h"
#include "coll/planes/fake_mpi.h"
#include "coll/planes/plane_checks.h"

/* Small, so that every way has many rounds and pieces; equal on all members. */
static struct rg_mpi_limits limits;
static const struct rg_mpi_limits small = { 2048, 32 * 1024, 10000 };

static int finish(void *state, struct rg_error *err)
{
    uint64_t until_ns = rg_now_ns() + unit_limit_s(20) * RG_NS_PER_S;

    for (;;) {
        bool moved = false;
        int r = rg_plane_mpi.progress(state, &moved, err);

        if (r != 0)
            return r < 0 ? r : 0;
        if (!moved && rg_plane_mpi.poll_us(state) == 0)
            return -EDEADLK; /* the driver would sleep for ever */
        if (rg_now_ns() > until_ns)
            return -ETIMEDOUT;
        sched_yield();
    }
}

static int run(struct place *place, void *state, const struct rg_coll *coll)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_plane_mpi.post(state, coll);

    if (r == 0)
        r = finish(state, &err);
    if (r != 0)
        fprintf(stderr, "rank %d: %d: %s\n", place->me, r, err.text);
    return r;
}

static void *open_plane(struct place *place)
{
    struct rg_mpi_comm comm = fake_mpi_comm(place->me);
    struct rg_mpi *mpi = NULL;

    rg_mpi_plane_make(&fake_mpi_ops, &comm, &limits, &mpi);
    return mpi;
}

static void close_plane(void *state)
{
    rg_plane_mpi.close(state, 0);
}

const struct plane_bundle plane_bundle = { open_plane, run, close_plane };

static void run_all(int n, int (*fn)(struct place *place), void *arg)
{
    fake_mpi_start(n);
    assert_int_equal(sockets_run(n, fn, arg), 0);
    assert_int_equal(fake_mpi_stop(), 0);
}

static void for_all_sizes(int (*fn)(struct place *place))
{
    for (int n = 1; n <= 5; n++)
        run_all(n, fn, NULL);
}

static void allreduce_matches_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_allreduce);
}

static void scales_and_joined_ranks_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_scaled);
}

static void broadcast_and_reduce_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_rooted);
}

static void allgather_alltoall_reducescatter_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_counted);
}

static void all_ranks_get_the_same_bits(void **unused)
{
    (void) unused;
    for (size_t count = 0; count < 2; count++)
        for (int n = 2; n <= 5; n++) {
            run_all(n, plane_check_bits, &count);
            for (int i = 1; i < n; i++)
                assert_memory_equal(plane_bits[0], plane_bits[i], count ? PLANE_BITS_NBYTES : 20);
        }
}

/* Of 20 bytes and of 280000 in chunks of 4 MiB. */
static void a_small_allreduce_is_one_call_and_a_large_one_two(void **unused)
{
    size_t count = 0;

    (void) unused;
    limits = (struct rg_mpi_limits){ RG_MPI_SMALL_NBYTES, RG_MPI_CHUNK_NBYTES,
                                     RG_MPI_PIECE_NBYTES };
    run_all(3, plane_check_bits, &count);
    assert_int_equal(fake_mpi_calls().iallgather, 3);
    assert_int_equal(fake_mpi_calls().isend, 0);
    count = 1;
    run_all(3, plane_check_bits, &count);
    assert_int_equal(fake_mpi_calls().iallgather, 0);
    assert_int_equal(fake_mpi_calls().isend, 3 * 2);
    assert_int_equal(fake_mpi_calls().iallgatherv, 3);
    limits = small;
}

static void no_call_moves_more_than_a_piece(void **unused)
{
    (void) unused;
    run_all(3, plane_check_counted, NULL);
    assert_true(fake_mpi_calls().ibcast > 3 * 100);
    assert_true(fake_mpi_calls().largest_nbytes <= 12000);
}

/* MPI fails: the cause is told after the others' last words, and the plane is dead after that. */
static int check_failure(struct place *place)
{
    float data[4] = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_coll coll = { .kind = RG_COLL_BROADCAST, .dtype = REIGEN_FLOAT32, .count = 4,
                            .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    void *state = open_plane(place);
    uint64_t started_ns = rg_now_ns();
    int bad = sockets_check(place, rg_plane_mpi.post(state, &coll) == 0);

    bad |= sockets_check(place, finish(state, &err) == -ECONNRESET);
    bad |= sockets_check(place, strstr(err.text, "failure 17 of the fake") != NULL);
    bad |= sockets_check(place, rg_now_ns() >= started_ns + RG_LAST_WORDS_MS * RG_NS_PER_MS);
    rg_plane_mpi.abort(state);
    bad |= sockets_check(place, rg_plane_mpi.post(state, &coll) == -ECONNRESET);
    bad |= sockets_check(place, rg_plane_mpi.poll_us(state) == 0);
    /* MPI might still write: the state is left to it, but a test cleans up. */
    ((struct rg_mpi *) state)->op.active = false;
    rg_plane_mpi.close(state, 0);
    return bad;
}

static void a_failure_of_mpi_is_told_with_its_words(void **unused)
{
    (void) unused;
    fake_mpi_start(2);
    fake_mpi_fail_after(1);
    assert_int_equal(sockets_run(2, check_failure, NULL), 0);
    fake_mpi_stop();
}

/* Given up in the middle: what has not come is not written any more. */
static int check_abort(struct place *place)
{
    size_t count = 100000;
    float *data = calloc(count, sizeof(*data));
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = count, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    void *state = open_plane(place);
    bool moved = false;
    int bad = sockets_check(place, rg_plane_mpi.post(state, &coll) == 0);

    bad |= sockets_check(place, rg_plane_mpi.progress(state, &moved, NULL) == 0);
    bad |= sockets_check(place, moved);
    rg_plane_mpi.abort(state);
    bad |= sockets_check(place, rg_plane_mpi.progress(state, &moved, NULL) == -ECONNRESET);
    ((struct rg_mpi *) state)->op.active = false;
    rg_plane_mpi.close(state, 0);
    free(data);
    return bad;
}

static void an_aborted_operation_leaves_no_receive_behind(void **unused)
{
    (void) unused;
    fake_mpi_start(2);
    assert_int_equal(sockets_run(1, check_abort, NULL), 0);
    assert_int_equal(fake_mpi_stop(), 0);
}

/* While an operation waits for others the naps grow, to a limit; between operations MPI is looked
 * after now and then. */
static int check_naps(struct place *place)
{
    float data[4] = { 0 };
    struct rg_coll coll = { .kind = RG_COLL_BROADCAST, .dtype = REIGEN_FLOAT32, .count = 4,
                            .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    struct rg_mpi *mpi = open_plane(place);
    unsigned nap, before = 0;
    bool moved = false;
    int bad = sockets_check(place, rg_plane_mpi.poll_us(mpi) == 0);

    bad |= sockets_check(place, rg_plane_mpi.post(mpi, &coll) == 0);
    bad |= sockets_check(place, rg_plane_mpi.progress(mpi, &moved, NULL) == 0);
    for (int i = 0; i < 10; i++, before = nap) {
        mpi->moved_ns = rg_now_ns(); /* not late, however slow this machine is */
        nap = rg_plane_mpi.poll_us(mpi);
        bad |= sockets_check(place, nap > before || nap == RG_MPI_NAP_MAX_US);
    }
    mpi->moved_ns = rg_now_ns() - (RG_MPI_LATE_MS + 1) * RG_NS_PER_MS;
    bad |= sockets_check(place, rg_plane_mpi.poll_us(mpi) == RG_MPI_NAP_LONG_US);
    bad |= sockets_check(place, finish(mpi, NULL) == 0);
    mpi->moved_ns = rg_now_ns() - (RG_MPI_IDLE_SOON_MS + 1) * RG_NS_PER_MS;
    bad |= sockets_check(place, rg_plane_mpi.poll_us(mpi) == RG_MPI_IDLE_US);
    close_plane(mpi);
    return bad;
}

static void naps_grow_while_others_are_late(void **unused)
{
    (void) unused;
    run_all(1, check_naps, NULL);
}

/* ---- whether the team uses MPI */

struct said {
    bool wanted;
    int rank, size;
    const char *why;
};

/* What ranks that say this agree upon, and the remark of it. */
static int agree(const struct said *all, int size, struct rg_error *err)
{
    struct rg_buf bufs[3] = { RG_BUF_INIT, RG_BUF_INIT, RG_BUF_INIT };
    struct rg_blob offers[3];
    struct rg_team team = { .size = size };
    struct rg_plane_options options = { .team = &team, .offers = offers };
    int r;

    for (int i = 0; i < size; i++) {
        rg_autobuf struct rg_buf part = RG_BUF_INIT;

        rg_buf_put_u8(&part, all[i].wanted);
        rg_buf_put_u32(&part, (uint32_t) all[i].rank);
        rg_buf_put_u32(&part, (uint32_t) all[i].size);
        rg_buf_put_str(&part, all[i].why);
        rg_buf_put_str(&bufs[i], "mpi");
        rg_buf_put_span(&bufs[i], rg_buf_bytes(&part), rg_buf_nbytes(&part));
        offers[i] = (struct rg_blob){ bufs[i].data, rg_buf_nbytes(&bufs[i]) };
    }
    *err = (struct rg_error) RG_ERROR_INIT;
    r = rg_mpi_world_agree(&options, err);
    for (int i = 0; i < size; i++)
        rg_buf_fini(&bufs[i]);
    return r;
}

static void ranks_of_one_world_use_mpi_in_any_order(void **unused)
{
    const struct said all[3] = { { true, 4, 5, "" }, { true, 0, 5, "" }, { true, 2, 5, "" } };
    struct rg_error err;

    (void) unused;
    assert_int_equal(agree(all, 3, &err), 0);
    assert_string_equal(err.text, "");
}

static void what_does_not_fit_is_named(void **unused)
{
    const struct said singles[2] = { { true, 0, 1, "" }, { true, 0, 1, "" } };
    const struct said worlds[2] = { { true, 0, 2, "" }, { true, 1, 3, "" } };
    const struct said lacks[2] = { { true, 0, 2, "" }, { false, -1, 0, "it has none" } };
    const struct said nobody[2] = { { false, -1, 0, "it does not ask" },
                                    { false, -1, 0, "it does not ask" } };
    const struct said broken[2] = { { true, 0, 2, "" }, { true, 1, -5, "" } };
    struct rg_error err;

    (void) unused;
    assert_int_equal(agree(singles, 2, &err), -ENOTSUP);
    assert_contains(err.text, "rank 1 is rank 0 of 1 of MPI");
    assert_int_equal(agree(worlds, 2, &err), -ENOTSUP);
    assert_contains(err.text, "rank 1 is rank 1 of 3 of MPI");
    assert_int_equal(agree(lacks, 2, &err), -ENOTSUP);
    assert_string_equal(err.text, "rank 1: it has none");
    assert_int_equal(agree(nobody, 2, &err), -ENOTSUP);
    assert_string_equal(err.text, "");
    assert_int_equal(agree(broken, 2, &err), -EBADMSG);
    assert_contains(err.text, "rank 1");
}

static void without_an_mpi_the_offer_says_so(void **unused)
{
    (void) unused;
    for (int allowed = 0; allowed < 2; allowed++) {
        rg_autobuf struct rg_buf offer = RG_BUF_INIT;
        rg_autofree char *why = NULL;
        struct rg_reader reader;

        assert_int_equal(rg_mpi_world_offer(NULL, 0, 2, allowed, &offer, NULL), 0);
        reader = rg_reader_make(rg_buf_bytes(&offer), rg_buf_nbytes(&offer));
        assert_int_equal(rg_reader_u8(&reader), allowed);
        assert_int_equal((int) rg_reader_u32(&reader), -1);
        rg_reader_u32(&reader);
        why = rg_reader_str(&reader, 255);
        assert_contains(why, allowed ? "has no MPI" : "does not ask for MPI");
        assert_int_equal(rg_reader_done(&reader), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_mpi_the_offer_says_so), /* before an abort forbids MPI */
        cmocka_unit_test(allreduce_matches_the_reference),
        cmocka_unit_test(scales_and_joined_ranks_match_the_reference),
        cmocka_unit_test(broadcast_and_reduce_match_the_reference),
        cmocka_unit_test(allgather_alltoall_reducescatter_match_the_reference),
        cmocka_unit_test(all_ranks_get_the_same_bits),
        cmocka_unit_test(a_small_allreduce_is_one_call_and_a_large_one_two),
        cmocka_unit_test(no_call_moves_more_than_a_piece),
        cmocka_unit_test(a_failure_of_mpi_is_told_with_its_words),
        cmocka_unit_test(an_aborted_operation_leaves_no_receive_behind),
        cmocka_unit_test(naps_grow_while_others_are_late),
        cmocka_unit_test(ranks_of_one_world_use_mpi_in_any_order),
        cmocka_unit_test(what_does_not_fit_is_named),
    };

    limits = small;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
