/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many leaders, each a thread with sockets of its own, agree in a tree. With arguments, the program
 * measures: LEADERS DEGREE STEPS OPERATIONS, and prints a line.
 */
#include "unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <time.h>

#include "base/time.h"
#include "coll/negotiate/tree_state.h"
#include "coll/sockets.h"

enum { NOPS_MAX = 512, NOBODY = -1 };

static struct {
    int degree, nops, nsteps;
    int odd;                    /* the leader that does otherwise; or NOBODY */
    uint64_t deadline_ms;       /* of coming together; 0: the place's */
} task;

static struct leader {
    struct place *place;
    struct rg_order *order;
    int ndecided, joined, shut, queries, replies, dead;
    uint64_t stream;            /* a digest of it */
    char error[256];
    struct rg_peers_count count; /* of the steps */
    uint64_t cpu_ns;
} leaders[SOCKETS_MANY];

static atomic_int nwaiting;     /* at barriers, all together */

/* ------------------------------------------------------------ helpers */

static struct rg_signature allreduce_of(int64_t count)
{
    return (struct rg_signature) { .kind = REIGEN_ALLREDUCE, .dtype = REIGEN_FLOAT32,
                                   .op = REIGEN_SUM, .ndim = 1, .prescale = 1.0,
                                   .postscale = 1.0, .shape = { count } };
}

static void on_decided(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool more, uint8_t way)
{
    struct leader *leader = arg;

    (void) sig, (void) way;
    leader->ndecided++;
    for (; *name; name++)
        leader->stream = (leader->stream ^ (uint64_t) *name) * UINT64_C(1099511628211);
    leader->stream += more;
    if (error)
        snprintf(leader->error, sizeof(leader->error), "%s", error);
}

static void on_joined(void *arg, int last_rank)
{
    (void) last_rank;
    ((struct leader *) arg)->joined++;
}

static void on_died(void *arg, int rank, const char *text)
{
    struct leader *leader = arg;

    if (leader->dead != NOBODY)
        return;
    leader->dead = rank;
    snprintf(leader->error, sizeof(leader->error), "%s", text);
}

static void on_shutdown(void *arg, int rank)
{
    ((struct leader *) arg)->shut = 1 + rank;
}

static void on_stall_query(void *arg)
{
    ((struct leader *) arg)->queries++;
}

static void on_stall_reply(void *arg, int node, const char *text)
{
    char expected[24];

    snprintf(expected, sizeof(expected), "I am %d", node);
    ((struct leader *) arg)->replies += strcmp(text, expected) == 0;
}

static int open_order(struct place *place, struct rg_error *err)
{
    struct leader *leader = &leaders[place->me];
    struct rg_order_events events = { .on_decided = on_decided, .on_joined = on_joined,
                                      .on_died = on_died, .on_shutdown = on_shutdown,
                                      .on_stall_query = on_stall_query,
                                      .on_stall_reply = on_stall_reply, .arg = leader };

    *leader = (struct leader) { .place = place, .dead = NOBODY };
    place->config.silence_ms = 600000; /* a thousand threads share a core or two */
    place->config.cache_capacity = 1000;
    place->config.tree_degree = task.degree;
    return rg_order_create(&place->team, &place->config, &events,
                           task.deadline_ms ? rg_now_ns() + task.deadline_ms * RG_NS_PER_MS
                                            : place->deadline_ns,
                           &leader->order, err);
}

static struct leader *come(struct place *place)
{
    struct rg_error err = RG_ERROR_INIT;

    if (open_order(place, &err) < 0)
        fprintf(stderr, "rank %d: %s\n", place->me, err.text);
    return &leaders[place->me];
}

static bool late(const struct leader *leader)
{
    return rg_now_ns() > leader->place->deadline_ns;
}

static void turn(struct leader *leader)
{
    unsigned events;
    int fd;

    if (rg_order_progress(leader->order))
        return;
    rg_order_wait_fds(leader->order, &fd, &events, 1);
    poll(&(struct pollfd) { fd, (short) events, 0 }, 1, 50);
}

static bool have_come(struct leader *leader, int n)
{
    rg_order_progress(leader->order);
    return atomic_load(&nwaiting) >= n;
}

/* All leaders come to the i-th barrier, counted from 1. Nothing of theirs is in flight then. */
static void meet(struct leader *leader, int i)
{
    atomic_fetch_add(&nwaiting, 1);
    unit_until(have_come(leader, i * leader->place->n), "all leaders");
}

static void decided(struct leader *leader, int n)
{
    while (leader->ndecided < n && leader->dead == NOBODY && !late(leader))
        turn(leader);
}

/* One leader ends the job when all have come to the i-th barrier. */
static int leave(struct leader *leader, int i)
{
    struct place *place = leader->place;
    int bad;

    meet(leader, i);
    if (place->me == place->n - 1)
        rg_order_announce_shutdown(leader->order, place->me);
    while (!leader->shut && leader->dead == NOBODY && !late(leader))
        turn(leader);
    bad = sockets_check(place, leader->shut == place->n && leader->dead == NOBODY);
    rg_order_destroy(leader->order, 2000);
    return bad;
}

static int run(int n, int degree, int odd, int (*fn)(struct place *place))
{
    task.degree = degree;
    task.odd = odd;
    atomic_store(&nwaiting, 0);
    return sockets_run(n, fn, NULL);
}

static int offer(struct leader *leader, const char *name, const struct rg_signature *sig)
{
    return sockets_check(leader->place, rg_order_offer(leader->order, name, sig, NULL) == 0);
}

/* ------------------------------------------------------------ steps */

static int offer_all(struct leader *leader, unsigned *seed)
{
    struct rg_signature sig = allreduce_of(4);
    int list[NOPS_MAX], bad = 0;

    for (int i = 0; i < task.nops; i++) {
        int j = rand_r(seed) % (i + 1);

        list[i] = list[j];
        list[j] = i;
    }
    for (int i = 0; i < task.nops && !bad; i++) {
        char name[32];

        snprintf(name, sizeof(name), "allreduce.%d", list[i]);
        bad = offer(leader, name, &sig);
    }
    return bad;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t) ts.tv_sec * RG_NS_PER_S + (uint64_t) ts.tv_nsec;
}

static uint64_t steps_ns;

static int run_steps(struct place *place)
{
    struct leader *leader = come(place);
    unsigned seed = (unsigned) place->me + 1;
    int bad = sockets_check(place, leader->order != NULL);
    uint64_t began_ns;

    if (bad)
        return bad;
    /* The first time everything has a name. */
    bad = offer_all(leader, &seed);
    decided(leader, task.nops);
    meet(leader, 1);
    struct rg_peers_count before = rg_peers_count(leader->order->peers);

    leader->cpu_ns = cpu_ns();
    began_ns = rg_now_ns();
    for (int step = 1; step <= task.nsteps && !bad; step++) {
        bad = offer_all(leader, &seed);
        decided(leader, (step + 1) * task.nops);
    }
    leader->count = rg_peers_count(leader->order->peers);
    leader->cpu_ns = cpu_ns() - leader->cpu_ns;
    if (place->me == 0)
        steps_ns = rg_now_ns() - began_ns;
    leader->count.said -= before.said;
    leader->count.heard -= before.heard;
    bad |= sockets_check(place, leader->ndecided == (task.nsteps + 1) * task.nops);
    return leave(leader, 2) | bad;
}

/* A leader hears of each neighbour once in a step, and says so much, unless the step takes so long
 * that what waits goes up by itself. So the bound is twice that. */
static bool frames_are_few(int n, int degree)
{
    bool few = true;

#ifdef __SANITIZE_THREAD__
    return few; /* each step takes that long */
#endif
    for (int i = 0; i < n; i++) {
        int first, neighbours = rg_tree_children(degree, n, i, &first) + (i > 0);
        uint64_t bound = 2 * (uint64_t) neighbours * (uint64_t) task.nsteps;

        few &= leaders[i].count.said <= bound && leaders[i].count.heard <= bound;
    }
    return few;
}

/* On a busy machine a few steps take that long, but not in each of these runs. */
static void frames_of_a_step_do_not_grow_with_leaders_or_operations(void **state)
{
    (void) state;
    task.nsteps = 10;
    task.nops = 100;
    for (int degree = 4; degree <= 16; degree *= 4) {
        bool few = false;

        for (int turn = 0; turn < 5 && !few; turn++) {
            assert_int_equal(run(64, degree, NOBODY, run_steps), 0);
            for (int i = 0; i < 64; i++) {
                assert_true(leaders[i].stream == leaders[0].stream);
                assert_string_equal(leaders[i].error, "");
            }
            few = frames_are_few(64, degree);
        }
        assert_true(few);
    }
}

/* ------------------------------------------------------------ joins */

/* Half of the leaders join one after the other, while the others go on; at last all do. Then all
 * begin again. */
static int run_joins(struct place *place)
{
    struct leader *leader = come(place);
    struct rg_signature sig = allreduce_of(4);
    unsigned seed = (unsigned) place->me * 7 + 1;
    int bad = sockets_check(place, leader->order != NULL);
    int stays = place->me % 2 ? rand_r(&seed) % task.nsteps : task.nsteps;

    if (bad)
        return bad;
    for (int step = 0; step < stays && !bad; step++) {
        char name[32];

        snprintf(name, sizeof(name), step % 3 ? "allreduce.a" : "allreduce.%d", step);
        bad |= offer(leader, name, &sig);
        /* The last offer of who joins is on its way yet. */
        if (step < stays - 1 || place->me % 4 != 1)
            decided(leader, step + 1);
    }
    bad |= sockets_check(place, rg_order_offer_join(leader->order, place->me) == 0);
    while (!leader->joined && leader->dead == NOBODY && !late(leader))
        turn(leader);
    bad |= sockets_check(place, leader->joined == 1 && leader->ndecided == task.nsteps);
    bad |= offer(leader, "allreduce.a", &sig);
    decided(leader, task.nsteps + 1);
    bad |= sockets_check(place, leader->ndecided == task.nsteps + 1);
    return leave(leader, 1) | bad;
}

static void who_has_joined_is_not_waited_for(void **state)
{
    (void) state;
    task.nsteps = 12;
    assert_int_equal(run(22, 3, NOBODY, run_joins), 0);
    for (int i = 0; i < 22; i++)
        assert_true(leaders[i].stream == leaders[0].stream && !leaders[i].error[0]);
}

/* ------------------------------------------------------------ stalls and mismatches */

static int count_missing(struct leader *leader, const char *name, bool *missing)
{
    return rg_order_missing(leader->order, name, missing);
}

static int run_stall(struct place *place)
{
    struct leader *leader = come(place);
    struct rg_signature sig = allreduce_of(4);
    int bad = sockets_check(place, leader->order != NULL);
    bool missing[32] = { false };
    char text[24];

    if (bad)
        return bad;
    bad = offer(leader, "allreduce.a", &sig);
    decided(leader, 1);
    if (place->me != task.odd)
        bad |= offer(leader, "allreduce.a", &sig) | offer(leader, "allreduce.b", &sig);
    for (const char *name = "allreduce.a"; place->me == 0 && name;
         name = name[10] == 'a' ? "allreduce.b" : NULL) {
        while (count_missing(leader, name, missing) != 1 && !late(leader))
            turn(leader);
        bad |= sockets_check(place, missing[task.odd]);
    }
    if (place->me == 0)
        rg_order_stall_query(leader->order);
    while (place->me && !leader->queries && !late(leader))
        turn(leader);
    snprintf(text, sizeof(text), "I am %d", place->me);
    rg_order_stall_reply(leader->order, text);
    while (place->me == 0 && leader->replies < place->n - 1 && !late(leader))
        turn(leader);
    meet(leader, 1);
    bad |= sockets_check(place, leader->ndecided == 1);
    meet(leader, 2); /* all have looked */
    if (place->me == task.odd)
        bad |= offer(leader, "allreduce.a", &sig) | offer(leader, "allreduce.b", &sig);
    decided(leader, 3);
    bad |= sockets_check(place, leader->ndecided == 3 && !leader->error[0]);
    return leave(leader, 3) | bad;
}

static void who_owes_an_operation_is_named_wherever_it_is(void **state)
{
    (void) state;
    for (int odd = 1; odd < 13; odd += odd == 1 ? 3 : 4) /* at each depth */
        assert_int_equal(run(13, 2, odd, run_stall), 0);
}

static int run_mismatch(struct place *place)
{
    struct leader *leader = come(place);
    struct rg_signature sig = allreduce_of(4), odd = sig;
    int bad = sockets_check(place, leader->order != NULL);

    if (bad)
        return bad;
    odd.dtype = REIGEN_INT64;
    for (int i = 1; i <= 4; i++) {
        leader->error[0] = '\0';
        bad |= offer(leader, "allreduce.a", place->me == task.odd && i % 2 ? &odd : &sig);
        decided(leader, i);
        bad |= sockets_check(place, !leader->error[0] == !(i % 2));
        if (i % 2)
            bad |= sockets_check(place, strstr(leader->error, "Mismatched data types") &&
                                            strstr(leader->error, " 10: int64"));
    }
    return leave(leader, 1) | bad;
}

static void a_mismatch_is_an_error_everywhere(void **state)
{
    (void) state;
    assert_int_equal(run(13, 2, 10, run_mismatch), 0);
}

/* ------------------------------------------------------------ coming and going */

static int run_absent(struct place *place)
{
    struct rg_error err = RG_ERROR_INIT;
    int r, bad;

    if (place->me == 2 || place->me == 12)
        return 0;
    r = open_order(place, &err);
    bad = sockets_check(place, r == -ETIMEDOUT || r == -ECONNRESET || r == -ECONNREFUSED);
    /* Those who are below an absent one can only say that. */
    if (rg_tree_is_below(task.degree, place->me, 2))
        return bad | sockets_check(place, strstr(err.text, "connecting to rank 2 on here at "));
    if (!strstr(err.text, "2 on here") || !strstr(err.text, "12 on here (to rank 3 at "))
        fprintf(stderr, "%d: %s\n", place->me, err.text);
    return bad | sockets_check(place, strstr(err.text, "did not connect to rank 0 at ")) |
           sockets_check(place, strstr(err.text, " 2 on here")) |
           sockets_check(place, strstr(err.text, "12 on here (to rank 3 at "));
}

static void all_who_do_not_come_are_named_to_all(void **state)
{
    (void) state;
    task.deadline_ms = 1500;
    assert_int_equal(run(13, 3, NOBODY, run_absent), 0);
    task.deadline_ms = 0;
}

static struct rg_order *abandoned[SOCKETS_MANY]; /* kept in sight of the leak checker */

static int run_death(struct place *place)
{
    struct leader *leader = come(place);
    struct rg_signature sig = allreduce_of(4);
    int bad = sockets_check(place, leader->order != NULL);
    char name[32];

    if (bad)
        return bad;
    meet(leader, 1);
    if (place->me == task.odd) {
        rg_order_after_fork(leader->order);
        abandoned[place->me] = leader->order;
        return 0;
    }
    bad = offer(leader, "allreduce.a", &sig);
    decided(leader, 1);
    snprintf(name, sizeof(name), "rank %d on host here is gone", task.odd);
    bad |= sockets_check(place, leader->dead == task.odd && strstr(leader->error, name));
    rg_order_destroy(leader->order, 100);
    return bad;
}

static void the_death_of_a_leader_is_told_above_and_below(void **state)
{
    (void) state;
    assert_int_equal(run(21, 4, 1, run_death), 0);
    assert_int_equal(run(21, 4, 0, run_death), 0);
    assert_int_equal(run(21, 4, 20, run_death), 0);
}

/* It says no more than that it goes. */
static int run_leaver(struct place *place)
{
    struct leader *leader = come(place);
    struct rg_signature sig = allreduce_of(4);
    int bad = sockets_check(place, leader->order != NULL);

    if (bad)
        return bad;
    bad = offer(leader, "allreduce.a", &sig);
    decided(leader, 1);
    meet(leader, 1);
    if (place->me != task.odd)
        offer(leader, "allreduce.a", &sig);
    while (place->me != task.odd && !leader->shut && leader->dead == NOBODY && !late(leader))
        turn(leader);
    bad |= sockets_check(place, (place->me == task.odd || leader->shut == 1 + task.odd) &&
                                    leader->dead == NOBODY);
    rg_order_destroy(leader->order, 2000);
    return bad;
}

static void a_leader_that_leaves_ends_the_job_for_all(void **state)
{
    (void) state;
    assert_int_equal(run(13, 2, 1, run_leaver), 0);
    assert_int_equal(run(13, 2, 0, run_leaver), 0);
    assert_int_equal(run(13, 2, 12, run_leaver), 0);
}

/* An inner leader stands still for a while; others hear nothing of it, and all goes on. */
static int run_pause(struct place *place)
{
    struct leader *leader = come(place);
    struct rg_signature sig = allreduce_of(4);
    int bad = sockets_check(place, leader->order != NULL);

    for (int i = 1; i <= 3 && !bad; i++) {
        if (place->me == task.odd && i == 2)
            rg_sleep_ms(1500); /* patient: it stands still */
        bad |= offer(leader, "allreduce.a", &sig);
        decided(leader, i);
    }
    return bad ? bad : leave(leader, 1) | sockets_check(place, leader->ndecided == 3);
}

static void who_stands_still_for_a_while_holds_up_and_harms_nobody(void **state)
{
    (void) state;
    assert_int_equal(run(13, 2, 1, run_pause), 0);
}

/* ------------------------------------------------------------ figures */

static int measure(char **argv)
{
    int n = atoi(argv[1]), degree = atoi(argv[2]), bad;
    uint64_t frames = 0, busiest_ns = 0;

    task.nsteps = atoi(argv[3]);
    task.nops = atoi(argv[4]);
    bad = run(n, degree, NOBODY, run_steps);
    for (int i = 0; i < n; i++) {
        uint64_t both = leaders[i].count.said + leaders[i].count.heard;

        frames = both > frames ? both : frames;
        busiest_ns = leaders[i].cpu_ns > busiest_ns ? leaders[i].cpu_ns : busiest_ns;
    }
    if (leaders[0].error[0])
        printf("%s\n", leaders[0].error);
    printf("%4d leaders, %4d below each: %9.1f us a step, %8.1f us of the busiest leader's cpu, "
           "%6.1f frames of one leader\n", n, degree, (double) steps_ns / task.nsteps / 1e3,
           (double) busiest_ns / task.nsteps / 1e3, (double) frames / task.nsteps);
    return bad;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_a_step_do_not_grow_with_leaders_or_operations),
        cmocka_unit_test(who_has_joined_is_not_waited_for),
        cmocka_unit_test(who_owes_an_operation_is_named_wherever_it_is),
        cmocka_unit_test(a_mismatch_is_an_error_everywhere),
        cmocka_unit_test(all_who_do_not_come_are_named_to_all),
        cmocka_unit_test(the_death_of_a_leader_is_told_above_and_below),
        cmocka_unit_test(a_leader_that_leaves_ends_the_job_for_all),
        cmocka_unit_test(who_stands_still_for_a_while_holds_up_and_harms_nobody),
    };

    if (argc == 5)
        return measure(argv);
    task.nops = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
