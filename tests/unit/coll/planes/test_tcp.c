/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/ground/blob.h"
#include "coll/planes/plane.h"
#include "coll/planes/plane_checks.h"
#include "coll/planes/tcp/tcp_link.h"

extern const struct rg_plane_ops rg_plane_tcp;

/* What the next planes are opened with. */
static enum rg_algorithm wanted;
static int nsockets; /* 0: auto */
/* Whether members dawdle, each in its own way. */
static bool dawdles;

static void dawdle(struct place *place, unsigned *state)
{
    *state = *state * 1103515245u + 12345u + (unsigned) place->me;
    if (*state >> 16 & 1)
        usleep(*state >> 20 & 255); /* patient: it dawdles */
}

/* Sleeps on the plane's descriptors as the progress engine does: a missing one makes the test
 * time out. */
static int finish(struct place *place, void *state, struct rg_error *err)
{
    unsigned random = (unsigned) place->me * 7919;
    struct unit_wait lost = { .what = "the end of a lost socket", .condition = "progress",
                              .file = __FILE__, .line = __LINE__ };

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
        if (n == 0 && unit_wait_more(&lost))
            continue;
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
    place->config.sockets_per_pair = nsockets;
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

/* Ranks 0 and 1 want the same, rank 2 has the other's values. */
static void check_differ(const struct rg_config *mine, const struct rg_config *other)
{
    struct rg_buf offers[3] = { RG_BUF_INIT, RG_BUF_INIT, RG_BUF_INIT };
    struct rg_blob blobs[3];
    struct rg_team team = { .size = 3 };
    struct rg_plane_options options = { .team = &team, .group = { .nmembers = 2 },
                                        .offers = blobs };
    struct rg_error err = RG_ERROR_INIT;

    for (int i = 0; i < 3; i++) {
        rg_autobuf struct rg_buf part = RG_BUF_INIT;

        assert_int_equal(rg_plane_tcp.offer(i < 2 ? mine : other, i, 3, true, &part, &err), 0);
        assert_true((rg_buf_nbytes(&part) > 0) == (i < 2));
        rg_buf_put_str(&offers[i], "tcp");
        rg_buf_put_span(&offers[i], rg_buf_bytes(&part), rg_buf_nbytes(&part));
        blobs[i] = (struct rg_blob){ (uint8_t *) (uintptr_t) rg_buf_bytes(&offers[i]),
                                     rg_buf_nbytes(&offers[i]) };
    }
    assert_int_equal(rg_plane_tcp.agree(&options, &err), 0);
    options.group.nmembers = 3;
    assert_int_equal(rg_plane_tcp.agree(&options, &err), -EINVAL);
    assert_contains(err.text, "ranks 0 and 2 differ in REIGEN_ALGORITHM, in REIGEN_SOCKETS_PER");
    for (int i = 0; i < 3; i++)
        rg_buf_fini(&offers[i]);
}

static void ranks_that_want_different_things_are_named(void **unused)
{
    const struct rg_config plain = { .model = rg_model_assumed };
    struct rg_config ring = plain, sockets = plain;

    (void) unused;
    ring.algorithms[RG_MODEL_ALLREDUCE] = RG_ALGORITHM_RING;
    check_differ(&ring, &plain);
    sockets.sockets_per_pair = 2;
    check_differ(&sockets, &plain);
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

/* ------------------------------------------------------------ several sockets per pair */

/* Every kind of operation, with members that dawdle, among two and among more. */
static void several_sockets_carry_every_operation(void **unused)
{
    static const int numbers[] = { 2, 3, RG_TCP_SOCKETS_MAX };

    (void) unused;
    dawdles = true;
    for (size_t i = 0; i < rg_array_len(numbers); i++)
        for (int n = 2; n <= 5; n += n == 2 ? 1 : 2) {
            nsockets = numbers[i];
            assert_int_equal(sockets_run(n, plane_check_allreduce, NULL), 0);
            assert_int_equal(sockets_run(n, plane_check_scaled, NULL), 0);
            assert_int_equal(sockets_run(n, plane_check_rooted, NULL), 0);
            assert_int_equal(sockets_run(n, plane_check_counted, NULL), 0);
        }
    dawdles = false;
    nsockets = 0;
}

/* The connected sockets of this process: those of all ranks. Returns one of the last ones opened
 * in ret_fd. */
static int count_connected(int *ret_fd)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    *ret_fd = -1;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct sockaddr_in peer;
        socklen_t length = sizeof(peer);
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] == '.' || getpeername(fd, (struct sockaddr *) &peer, &length) < 0 ||
            peer.sin_family != AF_INET)
            continue;
        count++;
        *ret_fd = fd > *ret_fd ? fd : *ret_fd;
    }
    closedir(dir);
    return count;
}

/* Of rank 0 to the others. */
static int broadcast(struct place *place, void *state, size_t nbytes)
{
    uint8_t *data = malloc(nbytes);
    struct rg_coll coll = { .kind = RG_COLL_BROADCAST, .dtype = REIGEN_UINT8, .count = nbytes,
                            .in = place->me == 0 ? data : NULL, .out = data,
                            .scale = { 1.0, 1.0, 1 } };
    int bad;

    for (size_t i = 0; i < nbytes; i++)
        data[i] = place->me == 0 ? (uint8_t) (i * 31 + i / 255) : 0;
    bad = sockets_check(place, run(place, state, &coll) == 0);
    for (size_t i = 0; i < nbytes && !bad; i++)
        bad |= sockets_check(place, data[i] == (uint8_t) (i * 31 + i / 255));
    free(data);
    return bad;
}

static pthread_barrier_t together;

/* One broadcast of *arg bytes, whose stream has a header, too, opens no more sockets than it
 * needs. */
static int check_one_stream(struct place *place)
{
    size_t nbytes = *(const size_t *) place->arg;
    bool one = nbytes + 16 <= RG_TCP_STRIPE_NBYTES;
    void *state = open_plane(place);
    int fd, bad = broadcast(place, state, nbytes);

    pthread_barrier_wait(&together);
    bad |= sockets_check(place, count_connected(&fd) == 2 * (one ? 1 : nsockets));
    pthread_barrier_wait(&together);
    /* The next operation's stream begins with socket 0 again. */
    bad |= broadcast(place, state, 5);
    bad |= broadcast(place, state, nbytes + 1);
    rg_plane_tcp.close(state, 1000);
    return bad;
}

static void streams_of_every_length_round_a_stripe_arrive(void **unused)
{
    (void) unused;
    pthread_barrier_init(&together, NULL, 2);
    wanted = RG_ALGORITHM_TREE;
    for (nsockets = 1; nsockets <= 3; nsockets++)
        for (int stripe = 1; stripe <= nsockets + 2; stripe++)
            for (int more = -1; more <= 1; more++) {
                size_t nbytes = (size_t) (stripe * RG_TCP_STRIPE_NBYTES - 16 + more);

                if (nsockets > 1)
                    assert_int_equal(sockets_run(2, check_one_stream, &nbytes), 0);
            }
    wanted = RG_ALGORITHM_AUTO;
    nsockets = 0;
    pthread_barrier_destroy(&together);
}

/* All bytes of a stream are dealt out in turn, in stripes of one length. */
static void every_byte_has_one_socket(void **unused)
{
    (void) unused;
    for (int n = 1; n <= RG_TCP_SOCKETS_MAX; n++) {
        uint64_t shares[RG_TCP_SOCKETS_MAX] = { 0 }, at = 0;
        const uint64_t all = (uint64_t) RG_TCP_STRIPE_NBYTES * 3 * (uint64_t) n;

        while (at < all) {
            size_t left = rg_tcp_stripe_left(at, n);
            /* As a socket may take less than a stripe. */
            uint64_t step = n == 1 ? all : left > 1000 ? left - 1000 : left;

            assert_true(n == 1 || (left >= 1 && left <= RG_TCP_STRIPE_NBYTES));
            shares[rg_tcp_socket_of(at, n)] += step;
            assert_int_equal(rg_tcp_socket_of(at, n), rg_tcp_socket_of(at + step - 1, n));
            at += step;
        }
        for (int i = 0; i < n; i++)
            assert_int_equal(shares[i], all / (uint64_t) n);
    }
}

/* How many connected sockets of this process have both ends at this address. */
static int count_at(const char *host)
{
    int last, count = 0;

    count_connected(&last);
    for (int fd = 0; fd <= last; fd++) {
        struct sockaddr_in ends[2];
        socklen_t lengths[2] = { sizeof(ends[0]), sizeof(ends[1]) };

        if (getpeername(fd, (struct sockaddr *) &ends[0], &lengths[0]) < 0 ||
            getsockname(fd, (struct sockaddr *) &ends[1], &lengths[1]) < 0 ||
            ends[0].sin_family != AF_INET)
            continue;
        count += ends[0].sin_addr.s_addr == inet_addr(host) &&
                 ends[1].sin_addr.s_addr == inet_addr(host);
    }
    return count;
}

/* Five sockets in three networks. */
static int check_rails(struct place *place)
{
    static const int expected[] = { 2, 2, 1 };
    void *state = open_plane(place);
    int bad = broadcast(place, state, 2000000);

    pthread_barrier_wait(&together);
    for (int rail = 0; rail < 3; rail++) {
        char host[16];

        snprintf(host, sizeof(host), "127.0.0.%d", 1 + rail);
        bad |= sockets_check(place, count_at(host) == 2 * expected[rail]);
    }
    pthread_barrier_wait(&together);
    bad |= broadcast(place, state, 3000001);
    rg_plane_tcp.close(state, 1000);
    return bad;
}

static void sockets_are_spread_over_all_networks(void **unused)
{
    (void) unused;
    pthread_barrier_init(&together, NULL, 2);
    sockets_rails = 2;
    nsockets = 5;
    assert_int_equal(sockets_run(2, check_rails, NULL), 0);
    nsockets = 0; /* one for each network */
    assert_int_equal(sockets_run(3, plane_check_allreduce, NULL), 0);
    assert_int_equal(sockets_run(2, check_surveys, NULL), 0);
    assert_contains(shown[0], "; 3 sockets per pair; agreed");
    sockets_rails = 0;
    pthread_barrier_destroy(&together);
}

/* All four sockets of each pair go by the first network; the operations that follow, too. */
static int check_first_rail(struct place *place)
{
    void *state = open_plane(place);
    int bad = broadcast(place, state, 2000000);

    pthread_barrier_wait(&together);
    bad |= sockets_check(place, count_at("127.0.0.1") == 2 * nsockets);
    bad |= sockets_check(place, count_at("127.0.0.2") == 0);
    pthread_barrier_wait(&together);
    bad |= broadcast(place, state, 3000001);
    rg_plane_tcp.close(state, 1000);
    return bad;
}

/* Nobody listens there; the way out of loopback does not lead there; it has another family. */
static void a_network_that_does_not_connect_is_left_out(void **unused)
{
    static const char *const claims[][2] = { { "127.0.0.2:1", "127.0.0.2:1" },
                                             { "127.0.0.2:1", "192.0.2.1:9" },
                                             { "127.0.0.2:1", "[::1]:9" } };

    (void) unused;
    pthread_barrier_init(&together, NULL, 2);
    sockets_rails = 1;
    nsockets = 4;
    for (size_t i = 0; i < rg_array_len(claims); i++) {
        sockets_claims = claims[i];
        assert_int_equal(sockets_run(2, check_first_rail, NULL), 0);
    }
    sockets_claims = NULL;
    sockets_rails = nsockets = 0;
    pthread_barrier_destroy(&together);
}

/* One of the pair's sockets breaks between two operations. */
static int check_one_breaks(struct place *place)
{
    size_t count = 1 << 19;
    float *data = calloc(count, sizeof(*data));
    struct rg_error err = RG_ERROR_INIT;
    void *state = open_plane(place);
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = count, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    int fd, bad = sockets_check(place, run(place, state, &coll) == 0);

    pthread_barrier_wait(&together);
    if (place->me == 1) {
        bad |= sockets_check(place, count_connected(&fd) == 2 * nsockets);
        bad |= sockets_check(place, shutdown(fd, SHUT_RDWR) == 0);
    }
    pthread_barrier_wait(&together);
    bad |= sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
    bad |= sockets_check(place, finish(place, state, &err) == -ECONNRESET);
    bad |= sockets_check(place, strstr(err.text, "the connection to rank ") != NULL);
    rg_plane_tcp.abort(state);
    pthread_barrier_wait(&together);
    bad |= sockets_check(place, place->me == 1 || count_connected(&fd) == 0);
    rg_plane_tcp.close(state, 0);
    free(data);
    return bad;
}

static void an_operation_ends_when_one_of_its_sockets_breaks(void **unused)
{
    (void) unused;
    pthread_barrier_init(&together, NULL, 2);
    nsockets = 4;
    assert_int_equal(sockets_run(2, check_one_breaks, NULL), 0);
    nsockets = 0;
    pthread_barrier_destroy(&together);
}

static void a_member_that_leaves_several_sockets_is_named(void **unused)
{
    (void) unused;
    nsockets = 3;
    assert_int_equal(sockets_run(2, check_leaver, NULL), 0);
    nsockets = 0;
}

static void sockets_are_added_where_their_windows_are_full(void **unused)
{
    const uint64_t window = 4u << 20, ms = RG_NS_PER_MS, mb = 1000000;

    (void) unused;
    /* 1 Gb/s: 12.5 MB are under way in 100 ms, 250 kB in 2 ms. */
    assert_int_equal(rg_tcp_way_sockets(1, 125 * mb, 100 * ms, window), 2);
    assert_int_equal(rg_tcp_way_sockets(2, 125 * mb, 100 * ms, window), 4);
    assert_int_equal(rg_tcp_way_sockets(4, 125 * mb, 100 * ms, window), 8);
    assert_int_equal(rg_tcp_way_sockets(8, 125 * mb, 1000 * ms, window), 8);
    assert_int_equal(rg_tcp_way_sockets(5, 125 * mb, 1000 * ms, window), 8);
    assert_int_equal(rg_tcp_way_sockets(1, 125 * mb, 2 * ms, window), 1);
    /* 10 Gb/s and 0.2 ms; nothing known. */
    assert_int_equal(rg_tcp_way_sockets(1, 1250 * mb, ms / 5, window), 1);
    assert_int_equal(rg_tcp_way_sockets(2, 0, 100 * ms, window), 2);
    assert_int_equal(rg_tcp_way_sockets(2, UINT64_MAX, UINT64_MAX, window), 4);
}

/* Two members' ways, without their network: before which operations there are surveys, and how many
 * sockets there are then. Only the second one's windows are full. */
static void members_add_sockets_alike(void **unused)
{
    static const struct { unsigned operation; int nsockets; } expected[] = {
        { 2, 2 }, { 4, 4 }, { 6, 8 }, { 8, 8 }, { 16, 8 },
    };
    const struct rg_config config = { .model = rg_model_assumed };
    struct rg_team team = { .size = 2, .nnodes = 2 };
    struct rg_plane_options options = { .team = &team, .config = &config,
                                        .group = { .nmembers = 2 } };
    struct rg_tcp_way ways[2], survey;
    size_t nsurveys = 0;

    (void) unused;
    for (int i = 0; i < 2; i++) {
        rg_tcp_way_init(&ways[i], &options);
        assert_int_equal(ways[i].nsockets, 1);
        ways[i].window_nbytes = i == 0 ? 1u << 30 : 1;
    }
    for (unsigned operation = 1; operation <= 63; operation++) {
        bool due = rg_tcp_way_due(&ways[0]);

        assert_int_equal(rg_tcp_way_due(&ways[1]), due);
        if (!due)
            continue;
        for (int i = 0; i < 2; i++)
            rg_tcp_way_survey(&ways[i], 1000000, 1000000, &survey);
        for (int fact = 0; fact < RG_TCP_NFACTS; fact++)
            if (ways[1].facts[fact] > ways[0].facts[fact])
                ways[0].facts[fact] = ways[1].facts[fact];
        memcpy(ways[1].facts, ways[0].facts, sizeof(ways[0].facts));
        for (int i = 0; i < 2; i++) {
            rg_tcp_way_learn(&ways[i]);
            assert_int_equal(ways[i].nsockets, expected[nsurveys].nsockets);
        }
        assert_int_equal(operation, expected[nsurveys++].operation);
    }
    assert_int_equal(nsurveys, rg_array_len(expected));
}

/* The second member has descriptors for three sockets per pair; a number that cannot be is cut. */
static void no_member_gets_more_sockets_than_it_has_room_for(void **unused)
{
    const struct rg_config config = { .model = rg_model_assumed };
    struct rg_team team = { .size = 2, .nnodes = 2 };
    struct rg_plane_options options = { .team = &team, .config = &config,
                                        .group = { .nmembers = 2 } };
    struct rg_tcp_way way;
    struct rlimit limit, few;

    (void) unused;
    getrlimit(RLIMIT_NOFILE, &limit);
    few = limit;
    few.rlim_cur = 6;
    setrlimit(RLIMIT_NOFILE, &few);
    rg_tcp_way_init(&way, &options);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(way.room, 3);
    rg_tcp_way_survey(&way, 0, 0, &(struct rg_tcp_way){ .nsockets = 0 });
    way.facts[RG_TCP_NSOCKETS] = 8;
    rg_tcp_way_learn(&way);
    assert_int_equal(way.nsockets, 3);
    way.facts[RG_TCP_NSOCKETS] = INT64_MAX;
    way.facts[RG_TCP_ROOM] = INT64_MIN + 1;
    rg_tcp_way_learn(&way);
    assert_int_equal(way.nsockets, RG_TCP_SOCKETS_MAX);
    way.facts[RG_TCP_NSOCKETS] = -1;
    rg_tcp_way_learn(&way);
    assert_int_equal(way.nsockets, RG_TCP_SOCKETS_MAX);
}

/* Who gives the model's parameters gets what they say, and who gives a number gets that. */
static void a_number_that_is_given_or_follows_from_the_model_stays(void **unused)
{
    struct rg_config config = { .model = rg_model_assumed, .model_given = true };
    struct rg_team team = { .size = 2, .nnodes = 2 };
    struct rg_plane_options options = { .team = &team, .config = &config,
                                        .group = { .nmembers = 2 } };
    struct rg_tcp_way way;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) unused;
    rg_tcp_way_init(&way, &options);
    assert_int_equal(way.nsockets, 1);
    config.model.net.alpha_ns = 50000000; /* 50 ms, 10 Gb/s */
    rg_tcp_way_init(&way, &options);
    assert_int_equal(way.nsockets, RG_TCP_SOCKETS_MAX);
    config.model_given = false;
    config.sockets_per_pair = 3;
    rg_tcp_way_init(&way, &options);
    way.window_nbytes = 1;
    rg_tcp_way_survey(&way, 1000000, 1000000, &(struct rg_tcp_way){ .nsockets = 0 });
    rg_tcp_way_learn(&way);
    assert_int_equal(way.nsockets, 3);
    rg_tcp_way_print(&way, &text);
    assert_contains(rg_buf_text(&text), "; 3 sockets per pair by REIGEN_SOCKETS_PER_PAIR; agreed");
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
        cmocka_unit_test(ranks_that_want_different_things_are_named),
        cmocka_unit_test(members_learn_about_their_network_alike),
        cmocka_unit_test(members_that_choose_differently_fail),
        cmocka_unit_test(a_wrong_key_opens_no_connection),
        cmocka_unit_test(several_sockets_carry_every_operation),
        cmocka_unit_test(streams_of_every_length_round_a_stripe_arrive),
        cmocka_unit_test(every_byte_has_one_socket),
        cmocka_unit_test(sockets_are_spread_over_all_networks),
        cmocka_unit_test(a_network_that_does_not_connect_is_left_out),
        cmocka_unit_test(an_operation_ends_when_one_of_its_sockets_breaks),
        cmocka_unit_test(a_member_that_leaves_several_sockets_is_named),
        cmocka_unit_test(sockets_are_added_where_their_windows_are_full),
        cmocka_unit_test(members_add_sockets_alike),
        cmocka_unit_test(no_member_gets_more_sockets_than_it_has_room_for),
        cmocka_unit_test(a_number_that_is_given_or_follows_from_the_model_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
