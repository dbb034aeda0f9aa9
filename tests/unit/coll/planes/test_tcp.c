/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/ground/blob.h"
#include "coll/planes/plane.h"
#include "coll/planes/plane_checks.h"

extern const struct rg_plane_ops rg_plane_tcp;

/* What the next planes are opened with. */
static enum rg_algorithm wanted;
/* Whether members dawdle, each in its own way. */
static bool dawdles;

static void dawdle(struct place *place, unsigned *state)
{
    *state = *state * 1103515245u + 12345u + (unsigned) place->me;
    if (*state >> 16 & 1)
        usleep(*state >> 20 & 255);
}

/* Sleeps on the plane's descriptors as the progress engine does: a missing one makes the test
 * time out. */
static int finish(struct place *place, void *state, struct rg_error *err)
{
    unsigned random = (unsigned) place->me * 7919;
    int quiet = 0;

    for (;;) {
        int fds[64], r, n;
        unsigned events[64];
        struct pollfd pfds[64];
        bool moved = false;

        if (dawdles)
            dawdle(place, &random);
        r = rg_plane_tcp.progress(state, &moved, err);
        if (r != 0)
            return r < 0 ? r : 0;
        if (moved)
            continue;
        n = rg_plane_tcp.wait_fds(state, fds, events, 64);
        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd) { fds[i], (short) events[i], 0 };
        /* With a lost socket there is nothing to wait for but the clock. */
        if (n == 0 && ++quiet < 40) {
            rg_sleep_ms(100);
            continue;
        }
        if (n == 0 || poll(pfds, (nfds_t) n, 20000) <= 0)
            return sockets_fail(place, __LINE__, "something to wait for");
    }
}

static int run(struct place *place, void *state, const struct rg_coll *coll)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_plane_tcp.post(state, coll);

    if (r == 0)
        r = finish(place, state, &err);
    if (r != 0)
        fprintf(stderr, "rank %d: %s\n", place->me, err.text);
    return r;
}

static void *open_plane(struct place *place)
{
    struct rg_plane_options options = { .team = &place->team, .config = &place->config,
                                        .group = { .nmembers = place->n, .me = place->me } };
    void *state = NULL;

    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        place->config.algorithms[kind] = wanted;
    rg_plane_tcp.open(&options, &state, NULL);
    return state;
}

static void close_plane(void *state)
{
    rg_plane_tcp.close(state, 2000);
}

const struct plane_bundle plane_bundle = { open_plane, run, close_plane };

static void all_ranks_get_the_same_bits(void **unused)
{
    (void) unused;
    for (int algorithm = 0; algorithm <= RG_ALGORITHM_RING; algorithm++)
        for (size_t count = 0; count < 2; count++)
            for (int n = 2; n <= SOCKETS_MAX; n++) {
                wanted = (enum rg_algorithm) algorithm;
                assert_int_equal(sockets_run(n, plane_check_bits, &count), 0);
                for (int i = 1; i < n; i++)
                    assert_memory_equal(plane_bits[0], plane_bits[i],
                                        count ? PLANE_BITS_NBYTES : 20);
            }
    wanted = RG_ALGORITHM_AUTO;
}

/* Every algorithm for all that it does, among as many members as there may be, who dawdle. */
static void every_algorithm_matches_the_reference(void **unused)
{
    (void) unused;
    dawdles = true;
    for (int a = RG_ALGORITHM_DOUBLING; a < RG_NALGORITHMS; a++)
        for (int n = 1; n <= SOCKETS_MAX; n++) {
            wanted = (enum rg_algorithm) a;
            if (rg_algorithm_does(wanted, RG_MODEL_ALLREDUCE))
                assert_int_equal(sockets_run(n, plane_check_allreduce, NULL), 0);
            if (rg_algorithm_does(wanted, RG_MODEL_ALLREDUCE) && n > 1)
                assert_int_equal(sockets_run(n, plane_check_scaled, NULL), 0);
            if (rg_algorithm_does(wanted, RG_MODEL_BROADCAST))
                assert_int_equal(sockets_run(n, plane_check_rooted, NULL), 0);
            if (rg_algorithm_does(wanted, RG_MODEL_ALLGATHER) ||
                rg_algorithm_does(wanted, RG_MODEL_ALLTOALL))
                assert_int_equal(sockets_run(n, plane_check_counted, NULL), 0);
        }
    wanted = RG_ALGORITHM_AUTO;
    dawdles = false;
}

/* Rank 1 wants another algorithm: both are told which. */
static int check_other_way(struct place *place)
{
    float data[4] = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    struct rg_plane_options options = { .team = &place->team, .config = &place->config,
                                        .group = { .nmembers = place->n, .me = place->me } };
    void *state = NULL;

    place->config.algorithms[RG_MODEL_ALLREDUCE] =
        place->me == 1 ? RG_ALGORITHM_RING : RG_ALGORITHM_DOUBLING;
    rg_plane_tcp.open(&options, &state, NULL);
    int bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);

    bad |= sockets_check(place, finish(place, state, &err) == -EPROTO);
    bad |= sockets_check(place, strstr(err.text, "by ring") && strstr(err.text, "by doubling"));
    rg_plane_tcp.close(state, 1000);
    return bad;
}

/* What members show to people after 20 operations of 2 MiB. */
static char shown[SOCKETS_MAX][4096];

static int check_surveys(struct place *place)
{
    size_t count = 1 << 19;
    float *data = calloc(count, sizeof(*data));
    void *state = open_plane(place);
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = count, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    int bad = 0;

    for (int i = 0; i < 20 && !bad; i++)
        bad |= sockets_check(place, run(place, state, &coll) == 0);
    rg_plane_tcp.print(state, &text);
    snprintf(shown[place->me], sizeof(shown[0]), "%s", rg_buf_text(&text));
    rg_plane_tcp.close(state, 1000);
    free(data);
    return bad;
}

static int check_learned(struct place *place)
{
    place->config.model.net.alpha_ns = 500000000;
    return check_surveys(place);
}

static int check_given(struct place *place)
{
    place->config.model_given = true;
    place->config.model.net.alpha_ns = 7000000;
    return check_surveys(place);
}

/* Ranks 0 and 1 want the same, rank 2 does not. */
static void ranks_that_want_different_algorithms_are_named(void **unused)
{
    struct rg_buf offers[3] = { RG_BUF_INIT, RG_BUF_INIT, RG_BUF_INIT };
    struct rg_blob blobs[3];
    struct rg_team team = { .size = 3 };
    struct rg_plane_options options = { .team = &team, .group = { .nmembers = 2 },
                                        .offers = blobs };
    struct rg_error err = RG_ERROR_INIT;

    (void) unused;
    for (int i = 0; i < 3; i++) {
        struct rg_config config = { .model = rg_model_assumed };
        rg_autobuf struct rg_buf part = RG_BUF_INIT;

        config.algorithms[RG_MODEL_ALLREDUCE] = i < 2 ? RG_ALGORITHM_RING : RG_ALGORITHM_AUTO;
        assert_int_equal(rg_plane_tcp.offer(&config, i, 3, true, &part, &err), 0);
        assert_true((rg_buf_nbytes(&part) > 0) == (i < 2));
        rg_buf_put_str(&offers[i], "tcp");
        rg_buf_put_span(&offers[i], rg_buf_bytes(&part), rg_buf_nbytes(&part));
        blobs[i] = (struct rg_blob){ (uint8_t *) (uintptr_t) rg_buf_bytes(&offers[i]),
                                     rg_buf_nbytes(&offers[i]) };
    }
    assert_int_equal(rg_plane_tcp.agree(&options, &err), 0);
    options.group.nmembers = 3;
    assert_int_equal(rg_plane_tcp.agree(&options, &err), -EINVAL);
    assert_contains(err.text, "ranks 0 and 2 differ in REIGEN_ALGORITHM");
    for (int i = 0; i < 3; i++)
        rg_buf_fini(&offers[i]);
}

static void members_learn_about_their_network_alike(void **unused)
{
    (void) unused;
    for (int n = 2; n <= 5; n++) {
        assert_int_equal(sockets_run(n, check_learned, NULL), 0);
        /* Before operations 2, 4 and 16. */
        assert_contains(shown[0], "; agreed 3 times");
        assert_null(strstr(shown[0], "alpha 500000.0 us"));
        for (int i = 1; i < n; i++)
            assert_string_equal(shown[i], shown[0]);
    }
    wanted = RG_ALGORITHM_TREE;
    assert_int_equal(sockets_run(3, check_given, NULL), 0);
    wanted = RG_ALGORITHM_AUTO;
    assert_contains(shown[2], "alpha 7000.0 us");
    assert_contains(shown[2], "given by REIGEN_MODEL");
    assert_null(strstr(shown[2], "by REIGEN_ALGORITHM\nallreduce"));
    assert_contains(shown[2], "by REIGEN_ALGORITHM\nbroadcast");
}

static void members_that_choose_differently_fail(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_other_way, NULL), 0);
}

/* Rank 1 leaves in the middle: the others hear of it by name, and do not hang. */
static int check_leaver(struct place *place)
{
    size_t count = 1 << 20;
    float *data = calloc(count, sizeof(*data));
    struct rg_error err = RG_ERROR_INIT;
    void *state = open_plane(place);
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    int bad = sockets_check(place, run(place, state, &coll) == 0);

    coll.count = count;
    if (place->me != 1 && !bad) {
        bad |= sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
        bad |= sockets_check(place, finish(place, state, &err) == -ECONNRESET);
        bad |= sockets_check(place, strstr(err.text, "connection to rank 1 on here") != NULL);
    }
    rg_plane_tcp.close(state, 0);
    free(data);
    return bad;
}

static void a_member_that_leaves_is_named(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_leaver, NULL), 0);
}

/* Rank 1 posts something else: both are told what each is doing. */
static int check_lost_step(struct place *place)
{
    float data[8] = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    void *state = open_plane(place);
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = place->me == 1 ? 8 : 4, .in = data, .out = data,
                            .scale = { 1.0, 1.0, 1 } };
    int bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);

    bad |= sockets_check(place, finish(place, state, &err) == -EPROTO);
    bad |= sockets_check(place, strstr(err.text, "allreduce of 32 bytes") != NULL);
    bad |= sockets_check(place, strstr(err.text, "allreduce of 16 bytes") != NULL);
    rg_plane_tcp.close(state, 1000);
    return bad;
}

static void members_that_lost_step_fail_instead_of_mixing_data(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_lost_step, NULL), 0);
}

static int check_wrong_key(struct place *place)
{
    float data[4] = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    void *state = open_plane(place);
    int bad;

    if (place->me == 1) {
        uint64_t until_ns = rg_now_ns() + RG_NS_PER_S;
        bool moved = false;

        bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
        while (rg_now_ns() < until_ns && !bad)
            bad |= sockets_check(place, rg_plane_tcp.progress(state, &moved, &err) == 0);
    } else {
        memset(place->team.data_key, 8, RG_KEY_NBYTES);
        bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
        bad |= sockets_check(place, finish(place, state, &err) == -EACCES);
        bad |= sockets_check(place, strstr(err.text, "rank 1 on here has another key") != NULL);
    }
    rg_plane_tcp.close(state, 0);
    return bad;
}

static void a_wrong_key_opens_no_connection(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_wrong_key, NULL), 0);
}

static void for_all_sizes(int (*fn)(struct place *place), int least)
{
    for (int n = least; n <= 5; n++)
        assert_int_equal(sockets_run(n, fn, NULL), 0);
}

static void allreduce_matches_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_allreduce, 1);
}

static void scales_and_joined_ranks_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_scaled, 1);
}

static void broadcast_and_reduce_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_rooted, 1);
}

static void allgather_alltoall_reducescatter_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(plane_check_counted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_matches_the_reference),
        cmocka_unit_test(scales_and_joined_ranks_match_the_reference),
        cmocka_unit_test(broadcast_and_reduce_match_the_reference),
        cmocka_unit_test(allgather_alltoall_reducescatter_match_the_reference),
        cmocka_unit_test(every_algorithm_matches_the_reference),
        cmocka_unit_test(all_ranks_get_the_same_bits),
        cmocka_unit_test(a_member_that_leaves_is_named),
        cmocka_unit_test(members_that_lost_step_fail_instead_of_mixing_data),
        cmocka_unit_test(ranks_that_want_different_algorithms_are_named),
        cmocka_unit_test(members_learn_about_their_network_alike),
        cmocka_unit_test(members_that_choose_differently_fail),
        cmocka_unit_test(a_wrong_key_opens_no_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
