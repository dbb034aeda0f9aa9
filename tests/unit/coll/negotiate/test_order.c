/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/time.h"
#include "coll/negotiate/order.h"
#include "coll/negotiate/order_frames.h"
#include "coll/negotiate/peers.h"
#include "coll/sockets.h"
#include "help/clock.h"
#include "wire/codec.h"

/* Built twice: with leaders in a star, and with more of them in a tree. */
#ifdef IN_A_TREE
enum { DEGREE = 2, LEADERS_MIN = 6, LEADERS_MAX = 8, LEADERS_OF_3 = 7 };
#else
enum { DEGREE = 0, LEADERS_MIN = 2, LEADERS_MAX = 5, LEADERS_OF_3 = 3 };
#endif
enum { LEAF = LEADERS_OF_3 - 1, INNER = 1, STEP_MS = 100 };

/* ------------------------------------------------------------ helpers */

static struct rg_signature allreduce_of(int64_t count)
{
    return (struct rg_signature) { .kind = REIGEN_ALLREDUCE, .dtype = REIGEN_FLOAT32,
                                   .op = REIGEN_SUM, .ndim = 1, .prescale = 1.0,
                                   .postscale = 1.0, .shape = { count } };
}

static unsigned shuffle_state;

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16 & 0x7fff;
}

static void shuffle(int *values, int n, unsigned *state)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int) (next_random(state) % (unsigned) (i + 1)), kept = values[i];

        values[i] = values[j];
        values[j] = kept;
    }
}

/* ------------------------------------------------------------ leaders over sockets */

enum { NNAMES = 40, NROUNDS = 30, STREAM_MAX = NNAMES * NROUNDS + 8 };

struct stream {
    struct place *place;
    char names[STREAM_MAX][24];
    bool more[STREAM_MAX];
    int count, joined, shut, queries, replies;
    int dead_rank;
    char dead_text[256];
};

static struct stream streams[LEADERS_MAX];

static void on_decided(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool more, uint8_t way)
{
    struct stream *stream = arg;

    (void) sig, (void) way;
    snprintf(stream->names[stream->count], sizeof(stream->names[0]), "%s%s", name,
             error ? "!" : "");
    stream->more[stream->count++] = more;
}

static void on_joined(void *arg, int last_rank)
{
    ((struct stream *) arg)->joined = 1 + last_rank;
}

static void on_died(void *arg, int rank, const char *text)
{
    struct stream *stream = arg;

    if (stream->dead_rank >= 0)
        return;
    stream->dead_rank = rank;
    snprintf(stream->dead_text, sizeof(stream->dead_text), "%s", text);
}

static void on_shutdown(void *arg, int rank)
{
    ((struct stream *) arg)->shut = 1 + rank;
}

static void on_stall_query(void *arg)
{
    ((struct stream *) arg)->queries++;
}

static void on_stall_reply(void *arg, int node, const char *text)
{
    struct stream *stream = arg;

    if (node > 0 && strcmp(text, "I wait for x") == 0)
        stream->replies++;
}

static struct rg_order *open_order(struct place *place, struct stream *stream)
{
    struct rg_order_events events = { .on_decided = on_decided,
                                      .on_joined = on_joined,
                                      .on_died = on_died,
                                      .on_shutdown = on_shutdown,
                                      .on_stall_query = on_stall_query,
                                      .on_stall_reply = on_stall_reply,
                                      .arg = stream };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_order *order = NULL;

    memset(stream, 0, sizeof(*stream));
    stream->dead_rank = -1;
    if (place->config.silence_ms == 0)
        place->config.silence_ms = RG_SILENCE_MIN_MS;
    place->config.cache_capacity = 16;
    place->config.tree_degree = DEGREE;
    if (rg_order_create(&place->team, &place->config, &events, place->deadline_ns, &order,
                        &err) < 0)
        fprintf(stderr, "rank %d: %s\n", place->me, err.text);
    return order;
}

/* Sleeps on the order's descriptors, at most 200 ms as the progress engine does. */
static void turn(struct rg_order *order)
{
    unsigned events;
    int fd;

    if (rg_order_progress(order))
        return;
    assert_int_equal(rg_order_wait_fds(order, &fd, &events, 1), 1);
    struct pollfd pfd = { fd, (short) events, 0 };

    poll(&pfd, 1, 200);
}

static pthread_barrier_t together;

/* All who take part look at what has come, and then so much time passes for all. The sum of what
 * they say is the answer. */
static int pass_together(struct rg_order *order, unsigned ms, const struct stream *stream)
{
    static _Atomic int nheard;
    int sum;

    while (rg_order_progress(order))
        ;
    atomic_fetch_add(&nheard, stream->dead_rank >= 0);
    pthread_barrier_wait(&together);
    sum = atomic_load(&nheard);
    if (pthread_barrier_wait(&together) == PTHREAD_BARRIER_SERIAL_THREAD) {
        unit_clock_pass(ms);
        atomic_store(&nheard, 0);
    }
    pthread_barrier_wait(&together);
    return sum;
}

static bool late(const struct place *place)
{
    return rg_now_ns() > place->deadline_ns;
}

static int run_rounds(struct place *place)
{
    struct stream *stream = &streams[place->me];
    struct rg_order *order = open_order(place, stream);
    unsigned seed = shuffle_state + (unsigned) place->me * 7919u;
    int list[NNAMES], bad = sockets_check(place, order != NULL);

    for (int round = 0; round < NROUNDS && !bad; round++) {
        for (int i = 0; i < NNAMES; i++)
            list[i] = i;
        shuffle(list, NNAMES, &seed);
        for (int i = 0; i < NNAMES && !bad; i++) {
            struct rg_signature sig = allreduce_of(list[i] % 3 ? 10 : 70000 + list[i]);
            char name[24];

            /* Some names come again, others never. */
            snprintf(name, sizeof(name), list[i] % 2 ? "allreduce.%d" : "allreduce.%d.%d",
                     list[i], round);
            if (list[i] == 5 && place->me == 1)
                sig.op = REIGEN_MAX;
            bad |= sockets_check(place, rg_order_offer(order, name, &sig, NULL) == 0);
            if (next_random(&seed) % 4 == 0)
                rg_order_progress(order);
        }
        while (stream->count < (round + 1) * NNAMES && !late(place))
            turn(order);
        bad |= sockets_check(place, stream->count == (round + 1) * NNAMES);
    }
    rg_order_announce_shutdown(order, place->me);
    while (!stream->shut && !late(place))
        turn(order);
    bad |= sockets_check(place, stream->dead_rank < 0 && stream->shut > 0);
    rg_order_destroy(order, 2000);
    return bad;
}

static void all_leaders_see_the_same_stream_whatever_the_order_of_arrival(void **state)
{
    (void) state;
    for (int n = LEADERS_MIN; n <= LEADERS_MAX; n++) {
        int fused = 0;

        shuffle_state = (unsigned) n * 31u;
        assert_int_equal(sockets_run(n, run_rounds, NULL), 0);
        for (int i = 0; i < NNAMES * NROUNDS; i++) {
            fused += streams[0].more[i];
            for (int r = 1; r < n; r++) {
                assert_string_equal(streams[r].names[i], streams[0].names[i]);
                assert_int_equal(streams[r].more[i], streams[0].more[i]);
            }
        }
        assert_true(fused > 0);
    }
}

static int run_join(struct place *place)
{
    struct stream *stream = &streams[place->me];
    struct rg_order *order = open_order(place, stream);
    struct rg_signature sig = allreduce_of(4);
    int bad = sockets_check(place, order != NULL);

    if (bad)
        return bad;
    if (place->me == 1)
        rg_order_offer_join(order, 1);
    else
        rg_order_offer(order, "allreduce.a", &sig, NULL);
    while (stream->count < 1 && !late(place))
        turn(order);
    bad |= sockets_check(place, strcmp(stream->names[0], "allreduce.a") == 0);
    if (place->me != 1)
        rg_order_offer_join(order, place->me);
    while (!stream->joined && !late(place))
        turn(order);
    bad |= sockets_check(place, stream->joined > 0 && stream->joined != 2);
    /* Nobody closes before all have seen it: closing is leaving. */
    if (place->me == 0)
        rg_order_stall_query(order);
    while (place->me == 0 ? stream->replies < place->n - 1 : stream->queries < 1) {
        turn(order);
        if (late(place))
            break;
    }
    rg_order_stall_reply(order, "I wait for x");
    while (place->me == 0 && stream->replies < place->n - 1 && !late(place))
        turn(order);
    if (place->me == 0)
        bad |= sockets_check(place, stream->replies == place->n - 1 && stream->queries == 0);
    if (place->me == 0)
        rg_order_announce_shutdown(order, 0);
    while (!stream->shut && !late(place))
        turn(order);
    bad |= sockets_check(place, stream->shut == 1 && stream->dead_rank < 0);
    rg_order_destroy(order, 2000);
    return bad;
}

static void joins_stall_questions_and_shutdown_reach_all(void **state)
{
    (void) state;
    assert_int_equal(sockets_run(LEADERS_OF_3 + 1, run_join, NULL), 0);
}

static struct rg_order *abandoned[LEADERS_MAX]; /* kept in sight of the leak checker */
static atomic_int nopen;

/* What a process that is killed leaves behind: a closed socket and no word. */
static int run_death(struct place *place)
{
    struct stream *stream = &streams[place->me];

    place->config.silence_ms = 3600 * 1000; /* silence is not what tells of it */
    struct rg_order *order = open_order(place, stream);
    int victim = *(int *) place->arg, bad = sockets_check(place, order != NULL);

    if (bad)
        return bad;
    atomic_fetch_add(&nopen, 1);
    bad |= sockets_check(place, unit_until(atomic_load(&nopen) % LEADERS_OF_3 == 0, "all"));
    if (place->me == victim) {
        rg_order_after_fork(order);
        abandoned[victim] = order;
        return 0;
    }
    while (stream->dead_rank < 0 && !late(place))
        turn(order);
    bad |= sockets_check(place, stream->dead_rank == victim);
    bad |= sockets_check(place, strstr(stream->dead_text, "on host here is gone") != NULL);
    rg_order_destroy(order, 100);
    return bad;
}

static void a_closed_socket_without_goodbye_is_a_death_told_to_all(void **state)
{
    (void) state;
    for (int victim = 0; victim < LEADERS_OF_3; victim++)
        if (victim == 0 || victim == INNER || victim == LEAF)
            assert_int_equal(sockets_run(LEADERS_OF_3, run_death, &victim), 0);
}

/* Rank 1 says nothing, and is there until the others have heard of its death. */
static int run_silence(struct place *place)
{
    struct stream *stream = &streams[place->me];
    struct rg_order *order = open_order(place, stream);
    int steps = 0, bad = sockets_check(place, order != NULL);
    uint64_t began_ns = rg_now_ns();

    if (bad)
        return bad;
    while (place->me != 1 && steps < 100 &&
           pass_together(order, STEP_MS, stream) < LEADERS_OF_3 - 1)
        steps++;
    if (place->me != 1) {
        bad |= sockets_check(place, stream->dead_rank == 1);
        bad |= sockets_check(place, rg_now_ns() >= began_ns + 2 * RG_NS_PER_S);
        bad |= sockets_check(place, strstr(stream->dead_text, "nothing was heard of it for 3 s") !=
                                        NULL);
    }
    atomic_fetch_add(&nopen, 1);
    bad |= sockets_check(place, unit_until(atomic_load(&nopen) % LEADERS_OF_3 == 0, "all"));
    rg_order_destroy(order, 100);
    return bad;
}

static void silence_that_lasts_is_a_death(void **state)
{
    (void) state;
    pthread_barrier_init(&together, NULL, LEADERS_OF_3 - 1);
    atomic_store(&nopen, 0);
    assert_int_equal(sockets_run(LEADERS_OF_3, run_silence, NULL), 0);
    pthread_barrier_destroy(&together);
}

/* Rank 2 comes late, so that rank 1 hears nothing but heartbeats of rank 0, which is still in init.
 * Where the kernel sees it, as a thread of this process, rank 1 is silent for as long then. */
static int run_living(struct place *place)
{
    struct stream *stream = &streams[place->me];

    if (place->me == 2)
        rg_sleep_ms(4500); /* patient: the others wait in system calls meanwhile */
    struct rg_order *order = open_order(place, stream);
    int bad = sockets_check(place, order != NULL);

    if (bad)
        return bad;
    if (place->me == 1 && sockets_seen)
        rg_sleep_ms(4500); /* patient: likewise */
    rg_order_announce_shutdown(order, place->me);
    while (!stream->shut && stream->dead_rank < 0 && !late(place))
        turn(order);
    bad |= sockets_check(place, stream->shut && stream->dead_rank < 0);
    rg_order_destroy(order, 2000);
    return bad;
}

static void who_waits_in_init_is_not_dead(void **state)
{
    (void) state;
    assert_int_equal(sockets_run(LEADERS_OF_3, run_living, NULL), 0);
}

static void who_the_kernel_sees_alive_is_not_dead(void **state)
{
    (void) state;
    sockets_seen = true;
    int bad = sockets_run(LEADERS_OF_3, run_living, NULL);
    sockets_seen = false;
    assert_int_equal(bad, 0);
}

/* All are stopped together, as by Ctrl-Z: nobody has been silent to anybody who listened. */
static int run_pause(struct place *place)
{
    struct stream *stream = &streams[place->me];
    struct rg_order *order = open_order(place, stream);
    struct rg_signature sig = allreduce_of(4);
    int bad = sockets_check(place, order != NULL);

    if (bad)
        return bad;
    pass_together(order, 6000, stream);
    rg_order_offer(order, "allreduce.a", &sig, NULL);
    while (stream->count < 1 && stream->dead_rank < 0 && !late(place))
        turn(order);
    bad |= sockets_check(place, stream->count == 1 && stream->dead_rank < 0);
    rg_order_announce_shutdown(order, place->me);
    while (!stream->shut && !late(place))
        turn(order);
    rg_order_destroy(order, 2000);
    return bad;
}

static void a_pause_of_the_whole_job_kills_nobody(void **state)
{
    (void) state;
    pthread_barrier_init(&together, NULL, 2);
    assert_int_equal(sockets_run(2, run_pause, NULL), 0);
    pthread_barrier_destroy(&together);
}

/* ------------------------------------------------------------ peers */

static int no_frame(void *arg, int node, const struct rg_order_frame *frame)
{
    (void) arg, (void) node, (void) frame;
    return 0;
}

static void count_gone(void *arg, int node, const char *why)
{
    (void) node, (void) why;
    ++*(int *) arg;
}

/* Its death is no news, but nobody reads that socket any more: the driver would never sleep. */
static void garbage_after_goodbye_ends_the_connection_and_nothing_else(void **state)
{
    static const struct rg_peers_ops ops = { no_frame, count_gone };
    struct rg_order_frame goodbye = { .type = RG_ORDER_GOODBYE };
    rg_autobuf struct rg_buf payload = RG_BUF_INIT, bytes = RG_BUF_INIT;
    struct rg_peers *peers;
    int fds[2], ngone = 0;

    (void) state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(rg_peers_create(1, 30 * RG_NS_PER_S, &ops, &ngone, &peers), 0);
    assert_int_equal(rg_peers_add(peers, 0, fds[0], 0), 0);
    rg_order_frame_put(&goodbye, &payload);
    rg_frame_put(&bytes, RG_ORDER_GOODBYE, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
    rg_frame_put(&bytes, UINT16_MAX, "?", 1);
    assert_int_equal(write(fds[1], rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes)),
                     rg_buf_nbytes(&bytes));
    assert_true(rg_peers_poll(peers));
    assert_true(rg_peers_left(peers, 0));
    assert_false(rg_peers_here(peers, 0));
    assert_false(rg_peers_poll(peers));
    assert_int_equal(ngone, 0);
    rg_peers_destroy(peers, 0);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_leaders_see_the_same_stream_whatever_the_order_of_arrival),
        cmocka_unit_test(joins_stall_questions_and_shutdown_reach_all),
        cmocka_unit_test(a_closed_socket_without_goodbye_is_a_death_told_to_all),
        cmocka_unit_test(silence_that_lasts_is_a_death),
        cmocka_unit_test(who_waits_in_init_is_not_dead),
        cmocka_unit_test(who_the_kernel_sees_alive_is_not_dead),
        cmocka_unit_test(a_pause_of_the_whole_job_kills_nobody),
        cmocka_unit_test(garbage_after_goodbye_ends_the_connection_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
