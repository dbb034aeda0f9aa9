/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/far/far.h"
#include "coll/sockets.h"

enum { NIDS = 12, NUSES = 12, COUNT_MAX = 8192, HELD = NIDS - 1 };

/* One number at one leader. */
struct job {
    struct rg_far_op op;
    double in[COUNT_MAX], out[COUNT_MAX];
    bool busy;
    int uses; /* done */
};

struct leader {
    struct place *place;
    struct rg_far *far;
    struct job *jobs; /* by number */
    bool lends_zeros; /* to what others begin */
    int nearly, nbad;
};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16 & 0x7fff;
}

/* ------------------------------------------------------------ values */

static double part(int leader, uint32_t id, uint32_t seq, size_t i)
{
    return (double) ((leader * 7 + (int) id * 3 + (int) seq + (int) (i % 5)) % 4 + 1);
}

static double expected(const struct rg_far_op *op, int n, int without, size_t i)
{
    double value = 0;

    for (int r = 0; r < n; r++) {
        double x = r == without ? 0 : part(r, op->id, op->seq, i);

        if (r == 0)
            value = x;
        else if (op->op == REIGEN_SUM)
            value += x;
        else if (op->op == REIGEN_PRODUCT)
            value *= x;
        else if ((op->op == REIGEN_MIN) == (x < value))
            value = x;
    }
    return value * op->scale.post;
}

static double get(const void *at, int dtype, size_t i)
{
    switch (dtype) {
    case REIGEN_FLOAT32:
        return ((const float *) at)[i];
    case REIGEN_FLOAT64:
        return ((const double *) at)[i];
    case REIGEN_INT64:
        return (double) ((const int64_t *) at)[i];
    default:
        return ((const int32_t *) at)[i];
    }
}

static void set(void *at, int dtype, size_t i, double value)
{
    switch (dtype) {
    case REIGEN_FLOAT32:
        ((float *) at)[i] = (float) value;
        break;
    case REIGEN_FLOAT64:
        ((double *) at)[i] = value;
        break;
    case REIGEN_INT64:
        ((int64_t *) at)[i] = (int64_t) value;
        break;
    default:
        ((int32_t *) at)[i] = (int32_t) value;
        break;
    }
}

static const int dtypes[] = { REIGEN_FLOAT32, REIGEN_FLOAT64, REIGEN_INT32, REIGEN_INT64 };
static const int kinds[] = { REIGEN_SUM, REIGEN_MIN, REIGEN_MAX, REIGEN_PRODUCT };
static const size_t counts[] = { 1, 0, 3, 1000, COUNT_MAX };

/* ------------------------------------------------------------ a leader */

/* Each number goes each way among some number of leaders. */
static uint8_t way_of(int n, uint32_t id)
{
    return (uint8_t) (RG_DIRECT_DOUBLING + ((int) id / 2 + n + 1) % 3);
}

static int without(const struct leader *leader)
{
    return leader->place->arg ? *(const int *) leader->place->arg : -1;
}

static void on_done(void *arg, struct rg_far_op *op)
{
    struct leader *leader = arg;
    struct job *job = &leader->jobs[op->id];
    int absent = without(leader);

    if (op != &job->op)
        return; /* of a test that looks for itself */

    for (size_t i = 0; i < op->count && leader->place->me != absent; i++)
        leader->nbad += get(op->out, op->dtype, i) != expected(op, leader->place->n, absent, i);
    job->busy = false;
    job->uses++;
}

static int begin(struct leader *leader, uint32_t id, bool zeros)
{
    struct job *job = &leader->jobs[id];
    bool in_place = id % 2;

    job->op = (struct rg_far_op){ .id = id, .seq = (uint32_t) job->uses + 1,
                                  .dtype = (uint8_t) dtypes[id % 4],
                                  .op = (uint8_t) kinds[id / 4 % 4],
                                  .count = counts[id % 5], .out = job->out,
                                  .scale = { 1.0, id % 3 ? 1.0 : 2.0, 1 } };
    job->op.in = zeros ? NULL : in_place ? job->out : job->in;
    for (size_t i = 0; i < job->op.count && !zeros; i++)
        set((void *) (uintptr_t) job->op.in, job->op.dtype, i,
            part(leader->place->me, id, job->op.seq, i));
    job->busy = true;
    return rg_far_post(leader->far, &job->op);
}

static void on_early(void *arg, uint32_t id, uint32_t seq, uint8_t round)
{
    struct leader *leader = arg;

    leader->nearly++;
    if (leader->lends_zeros && seq == (uint32_t) leader->jobs[id].uses + 1 && round == 0)
        leader->nbad += begin(leader, id, true) < 0;
}

static int open_leader(struct place *place, struct leader *leader)
{
    struct rg_far_events events = { on_done, on_early, leader };
    int bad = 0;

    *leader = (struct leader){ .place = place, .jobs = calloc(NIDS, sizeof(struct job)) };
    bad |= sockets_check(place, rg_far_create(&place->team, &events, &leader->far) == 0);
    for (uint32_t id = 0; id < NIDS && !bad; id++)
        bad |= sockets_check(place, rg_far_expect(leader->far, id, 1, way_of(place->n, id)) == 0);
    if (place->me % 2 || place->me == without(leader))
        rg_far_connect(leader->far, place->n % 2 ? RG_DIRECT_DOUBLING : RG_DIRECT_TWO_SHOT);
    return bad;
}

static void close_leader(struct leader *leader)
{
    rg_far_destroy(leader->far, 5000);
    free(leader->jobs);
}

static int turn(struct leader *leader, bool all)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved = false;
    int r = rg_far_progress(leader->far, all, &moved, &err);

    if (r < 0)
        fprintf(stderr, "leader %d: %s\n", leader->place->me, err.text);
    if (!moved && r == 0 && all) {
        struct pollfd pfds[16];
        unsigned events[16];
        int fds[16], n = rg_far_wait_fds(leader->far, fds, events, 16);

        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd){ fds[i], (short) events[i], 0 };
        poll(pfds, (nfds_t) n, 1);
    }
    return r;
}

static bool late(const struct place *place)
{
    return rg_now_ns() > place->deadline_ns;
}

static bool finished(const struct leader *leader)
{
    for (int id = 0; id < NIDS; id++)
        if (leader->jobs[id].uses < NUSES)
            return false;
    return true;
}

/* Every leader begins what it likes next, of what is idle; or nothing at all, and lends zeros. */
static int run_random(struct place *place)
{
    struct leader leader;
    unsigned seed = (unsigned) (place->me * 7919 + place->n);
    int bad = open_leader(place, &leader);

    leader.lends_zeros = place->me == without(&leader);
    while (!bad && !finished(&leader)) {
        uint32_t id = next_random(&seed) % NIDS;
        struct job *job = &leader.jobs[id];

        if (!leader.lends_zeros && !job->busy && job->uses < NUSES)
            bad |= sockets_check(place, begin(&leader, id, false) == 0);
        bad |= sockets_check(place, turn(&leader, next_random(&seed) % 4 == 0) == 0);
        bad |= sockets_check(place, !late(place) && leader.nbad == 0);
    }
    if (leader.lends_zeros)
        bad |= sockets_check(place, leader.nearly > 0);
    close_leader(&leader);
    return bad;
}

static void every_leader_has_the_result_whatever_the_order(void **state)
{
    (void) state;
    for (int n = 2; n <= SOCKETS_MAX; n++)
        assert_int_equal(sockets_run(n, run_random, NULL), 0);
}

static void who_has_joined_lends_zeros_to_what_others_begin(void **state)
{
    (void) state;
    for (int n = 2; n <= 6; n++)
        for (int absent = 0; absent < n; absent++)
            assert_int_equal(sockets_run(n, run_random, &absent), 0);
}

static atomic_int nhere;

/* As an agreement would: nobody begins a later use before all are through with this one. */
static void meet(const struct place *place, int round)
{
    atomic_fetch_add(&nhere, 1);
    unit_until(atomic_load(&nhere) >= place->n * (round + 1), "all leaders");
}

/* All but the last leader begin a use that it refuses: they give it up and begin the next one, and
 * what is still under way of the void one is skipped. */
static int run_void(struct place *place)
{
    struct leader leader;
    int bad = open_leader(place, &leader);
    bool refuses = place->me == place->n - 1;
    struct job *job = &leader.jobs[HELD];

    for (int round = 0; round < 20 && !bad; round++) {
        uint32_t seq = (uint32_t) job->uses + 1;
        uint8_t way = (uint8_t) (RG_DIRECT_DOUBLING + (round + place->n) % 3);

        if (!refuses) {
            bad |= sockets_check(place, begin(&leader, HELD, false) == 0);
            for (int i = 0; i < 3 && !bad; i++)
                bad |= sockets_check(place, turn(&leader, true) == 0);
            bad |= sockets_check(place, (uint32_t) job->uses + 1 == seq);
            rg_far_drop(leader.far, &job->op);
            /* What goes by shots is still there, to be submitted once more. */
            for (size_t i = 0; i < job->op.count && job->op.way != RG_DIRECT_DOUBLING; i++)
                leader.nbad += get(job->op.in, job->op.dtype, i) != part(place->me, HELD, seq, i);
        }
        job->uses++;
        meet(place, round);
        bad |= sockets_check(place, rg_far_expect(leader.far, HELD, seq + 1, way) == 0);
        bad |= sockets_check(place, begin(&leader, HELD, false) == 0);
        while (job->busy && !bad) {
            bad |= sockets_check(place, turn(&leader, true) == 0);
            bad |= sockets_check(place, !late(place) && leader.nbad == 0);
        }
    }
    close_leader(&leader);
    return bad;
}

static void a_void_use_leaves_no_trace(void **state)
{
    (void) state;
    for (int n = 2; n <= 5; n++) {
        atomic_store(&nhere, 0);
        assert_int_equal(sockets_run(n, run_void, NULL), 0);
    }
}

/* Sums that depend on the order of their operands. */
enum { NBITS = 1003 };

static struct bits {
    float sums[RG_NDIRECT_WAYS][NBITS];
} bits[SOCKETS_MAX];

static int run_bits(struct place *place)
{
    struct bits *mine = &bits[place->me];
    struct rg_far_op op = { .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM, .count = NBITS,
                            .scale = { 1.0, 1.0 / 3, 1 } };
    struct leader leader;
    int bad = open_leader(place, &leader);

    for (uint8_t way = RG_DIRECT_DOUBLING; way < RG_NDIRECT_WAYS && !bad; way++) {
        unsigned seed = (unsigned) place->me * 31 + 7;

        op.id = op.seq = way;
        op.in = op.out = mine->sums[way];
        for (int i = 0; i < NBITS; i++)
            mine->sums[way][i] = (float) next_random(&seed) / (float) (1 + next_random(&seed));
        leader.jobs[way].busy = true;
        bad |= sockets_check(place, rg_far_expect(leader.far, way, op.seq, way) == 0);
        bad |= sockets_check(place, rg_far_post(leader.far, &op) == 0);
        while (op.active && !bad) {
            bad |= sockets_check(place, turn(&leader, true) == 0);
            bad |= sockets_check(place, !late(place));
        }
    }
    close_leader(&leader);
    return bad;
}

static void all_ways_come_to_the_same_bits_everywhere(void **state)
{
    (void) state;
    for (int n = 2; n <= SOCKETS_MAX; n++) {
        assert_int_equal(sockets_run(n, run_bits, NULL), 0);
        for (int i = 0; i < n; i++)
            for (int way = RG_DIRECT_DOUBLING; way < RG_NDIRECT_WAYS; way++)
                assert_memory_equal(bits[i].sums[way], bits[0].sums[RG_DIRECT_DOUBLING],
                                    sizeof(bits[0].sums[0]));
    }
}

/* The longest frames, several of them at once on each socket. */
static int run_large(struct place *place)
{
    enum { COUNT = RG_FAR_NBYTES_MAX / 4, NLARGE = 6 };
    int32_t *data = malloc(NLARGE * COUNT * sizeof(*data));
    struct rg_far_op ops[NLARGE];
    struct leader leader;
    int bad = open_leader(place, &leader), nactive = NLARGE;

    for (int k = 0; k < NLARGE && !bad; k++) {
        ops[k] = (struct rg_far_op){ .id = (uint32_t) k, .seq = 1, .dtype = REIGEN_INT32,
                                     .op = REIGEN_SUM, .count = COUNT, .in = data + k * COUNT,
                                     .out = data + k * COUNT, .scale = { 1.0, 1.0, 1 } };
        for (int i = 0; i < COUNT; i++)
            data[k * COUNT + i] = i * (place->me + 1) + k;
        bad |= sockets_check(place, rg_far_post(leader.far, &ops[k]) == 0);
    }
    while (nactive > 0 && !bad) {
        bad |= sockets_check(place, turn(&leader, true) == 0);
        bad |= sockets_check(place, !late(place));
        nactive = 0;
        for (int k = 0; k < NLARGE; k++)
            nactive += ops[k].active;
    }
    for (int i = 0; i < NLARGE * COUNT && !bad; i++)
        bad |= sockets_check(place, data[i] == i % COUNT * place->n * (place->n + 1) / 2 +
                                                   i / COUNT * place->n);
    close_leader(&leader);
    free(data);
    return bad;
}

static void the_longest_frames_find_room(void **state)
{
    (void) state;
    for (int n = 2; n <= 4; n++)
        assert_int_equal(sockets_run(n, run_large, NULL), 0);
}

static int run_loss(struct place *place)
{
    struct leader leader;
    struct rg_error err = RG_ERROR_INIT;
    bool moved = false;
    int r = 0, bad = open_leader(place, &leader);

    for (int use = 0; use < 2 - place->me && !bad; use++) {
        bad |= sockets_check(place, begin(&leader, 3, false) == 0);
        while (leader.jobs[3].busy && !bad && r == 0) {
            r = rg_far_progress(leader.far, true, &moved, &err);
            bad |= sockets_check(place, !late(place));
        }
    }
    if (place->me == 1) {
        rg_far_abort(leader.far);
    } else {
        bad |= sockets_check(place, r == -ECONNRESET);
        /* "it was closed", or reset, where a frame of ours had come that was not read. */
        bad |= sockets_check(place, strncmp(err.text, "the connection to rank 1 on here is lost: ",
                                            42) == 0);
        rg_far_abort(leader.far);
        bad |= sockets_check(place, rg_far_progress(leader.far, true, &moved, &err) == 0);
    }
    close_leader(&leader);
    return bad;
}

/* The part of leader 1 is sent all the same, or is not: the result of leader 0 or its error. */
static int run_close(struct place *place)
{
    struct leader leader;
    int bad = open_leader(place, &leader);

    bad |= sockets_check(place, rg_far_expect(leader.far, 4, 1, RG_DIRECT_DOUBLING) == 0);
    bad |= sockets_check(place, begin(&leader, 4, false) == 0);
    while (place->me == 0 && leader.jobs[4].busy && !bad) {
        bad |= sockets_check(place, turn(&leader, true) == 0);
        bad |= sockets_check(place, !late(place));
    }
    close_leader(&leader);
    return bad;
}

static void a_leader_that_is_lost_is_named(void **state)
{
    (void) state;
    assert_int_equal(sockets_run(2, run_loss, NULL), 0);
}

static void what_was_begun_is_sent_before_closing(void **state)
{
    (void) state;
    assert_int_equal(sockets_run(2, run_close, NULL), 0);
}

/* ------------------------------------------------------------ two ends by hand */

struct pair {
    struct rg_team teams[2];
    struct rg_team_peer peers[3];
    int ranks[3];
    struct place places[2];
    struct leader leaders[2];
};

static void open_pair(struct pair *pair, int n)
{
    memset(pair, 0, sizeof(*pair));
    for (int i = 0; i < 3; i++) {
        pair->ranks[i] = i;
        strcpy(pair->peers[i].host, "here");
    }
    for (int i = 0; i < 2; i++) {
        pair->places[i].me = i;
        pair->places[i].n = n;
        pair->places[i].team = (struct rg_team){ .rank = i, .node = i, .nnodes = n, .size = n,
                                                 .leaders = pair->ranks, .peers = pair->peers };
        assert_int_equal(open_leader(&pair->places[i], &pair->leaders[i]), 0);
    }
}

static void close_pair(struct pair *pair)
{
    for (int i = 0; i < 2; i++)
        close_leader(&pair->leaders[i]);
}

/* Payloads of 64 KiB through sockets that hold 4 KiB. */
static void a_full_socket_delays_nobody(void **state)
{
    struct pair pair;
    int fds[2], small = 4096;

    (void) state;
    open_pair(&pair, 2);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    for (int i = 0; i < 2; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        assert_int_equal(rg_far_adopt(pair.leaders[i].far, 1 - i, fds[i]), 0);
    }
    for (int use = 0; use < 3; use++) {
        for (uint32_t id = 0; id < NIDS; id++)
            for (int i = 0; i < 2; i++)
                assert_int_equal(begin(&pair.leaders[i], id, false), 0);
        for (int round = 0; round < 20000; round++) {
            struct rg_error err = RG_ERROR_INIT;
            bool moved = false;

            assert_int_equal(rg_far_progress(pair.leaders[round % 2].far, round % 5 == 0, &moved,
                                             &err), 0);
        }
        for (uint32_t id = 0; id < NIDS; id++)
            for (int i = 0; i < 2; i++)
                assert_int_equal(pair.leaders[i].jobs[id].uses, use + 1);
    }
    assert_int_equal(pair.leaders[0].nbad + pair.leaders[1].nbad, 0);
    close_pair(&pair);
}

static void refuses(const uint8_t frame[RG_FAR_HEADER_NBYTES], size_t nbytes, int want)
{
    struct rg_error err = RG_ERROR_INIT;
    uint8_t bytes[64] = { 0 };
    struct pair pair;
    bool moved = false;
    int fds[2];

    open_pair(&pair, 2);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(rg_far_adopt(pair.leaders[0].far, 1, fds[0]), 0);
    memcpy(bytes, frame, RG_FAR_HEADER_NBYTES);
    assert_int_equal(write(fds[1], bytes, RG_FAR_HEADER_NBYTES + nbytes),
                     RG_FAR_HEADER_NBYTES + nbytes);
    for (uint32_t id = 0; id < 4; id += 2)
        assert_int_equal(begin(&pair.leaders[0], id, false), 0);
    assert_int_equal(rg_far_progress(pair.leaders[0].far, true, &moved, &err), want);
    if (want == -EPROTO)
        assert_string_equal(err.text, "what rank 1 on here sent cannot be understood");
    rg_far_abort(pair.leaders[0].far);
    close(fds[1]);
    close_pair(&pair);
}

static void what_makes_no_sense_is_an_error(void **state)
{
    (void) state;
    /* number, use, bytes, level, round: the first is what is waited for. */
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1 }, 4, 0);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1 }, 8, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0 }, 4, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2 }, 4, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 255 }, 4, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 8, 0, 1 }, 4, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 255, 1, 0, 0, 0, 4, 0, 0, 0, 1 }, 4, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 1 }, 4, -EPROTO);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 128 }, 4, -EPROTO);
    /* Number 2 goes in one shot. */
    refuses((uint8_t[16]){ 2, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 128 }, 12, 0);
    refuses((uint8_t[16]){ 2, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 128 }, 8, -EPROTO);
    refuses((uint8_t[16]){ 2, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 129 }, 12, -EPROTO);
    refuses((uint8_t[16]){ 2, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1 }, 12, -EPROTO);
    /* A use that is over is skipped, and one that is to come is kept: what tells of it may be later
     * on its own socket. */
    refuses((uint8_t[16]){ 0, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 1 }, 4, 0);
    refuses((uint8_t[16]){ 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1 }, 4, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_leader_has_the_result_whatever_the_order),
        cmocka_unit_test(who_has_joined_lends_zeros_to_what_others_begin),
        cmocka_unit_test(a_void_use_leaves_no_trace),
        cmocka_unit_test(all_ways_come_to_the_same_bits_everywhere),
        cmocka_unit_test(the_longest_frames_find_room),
        cmocka_unit_test(a_leader_that_is_lost_is_named),
        cmocka_unit_test(what_was_begun_is_sent_before_closing),
        cmocka_unit_test(a_full_socket_delays_nobody),
        cmocka_unit_test(what_makes_no_sense_is_an_error),
    };

    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
