/* SPDX-License-Identifier: Apache-2.0 */
/* Who is waited for, and why: jobs of which the truth is known, drawn by seed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch/diagnosis/diagnosis.h"
#include "unit.h"

#define RANKS 16
#define HOSTS 4
#define SECONDS 6.0
#define STEPS_MAX 2000

/* --- a job, step by step ---------------------------------------------------------------------- */

struct world {
    uint64_t seed;
    int nranks, nhosts, culprit;  /* a rank, or for a link the host that sends */
    enum rg_cause cause;          /* UNKNOWN: it is healthy */
    bool by_turns, once;
    double step_s, moved_s;       /* computing and moving of a healthy step */
    double noise;                 /* of computing: a share */
    double load;                  /* times it, for which others have each processor meanwhile */
    double extra;                 /* times the step that the culprit needs more */
    struct rg_load loads[RANKS];
    double squares[RANKS];
    struct rg_load_host hosts[HOSTS + 1];
    struct rg_late late;
    struct rg_lateness found;
};

/* In [0, 1); a linear congruential generator's upper bits. */
static double draw(struct world *world)
{
    world->seed = world->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double) (world->seed >> 11) / (double) (UINT64_C(1) << 53);
}

static double between(struct world *world, double from, double to)
{
    return from + (to - from) * draw(world);
}

/* What a rank does in a step before the operation; its parts in seconds. */
struct spent {
    double computing, delayed, idle, throttled;
};

static double length(const struct spent *spent)
{
    return spent->computing + spent->delayed + spent->idle;
}

/* What slows one rank down. */
static void inject(struct world *world, struct spent *spent)
{
    double s = world->extra * world->step_s;

    switch (world->cause) {
    case RG_CAUSE_SLOW_RANK:
    case RG_CAUSE_IMBALANCE: spent->computing += s; break;
    case RG_CAUSE_NEIGHBOUR: spent->delayed += s; break;
    case RG_CAUSE_THROTTLED: /* the kernel's versions differ in what they count it as */
        spent->throttled += s * between(world, 0.8, 1.5);
        *(world->seed & 64 ? &spent->idle : &spent->delayed) += s;
        break;
    case RG_CAUSE_SWAPPING:
        spent->computing += s * 0.2;
        spent->idle += s * 0.8;
        break;
    case RG_CAUSE_SLOW_INPUT: spent->idle += s; break;
    default: break;
    }
}

static struct spent spend(struct world *world, int rank, int turn)
{
    struct spent spent = { .computing = world->step_s * between(world, 1 - world->noise,
                                                                1 + world->noise) };

    if (draw(world) < 0.02) /* somebody else has the processor for a moment */
        spent.delayed += between(world, 0, 0.001);
    spent.idle += world->step_s * between(world, 0, 0.01);
    if (rank == (world->by_turns ? turn : world->culprit) && world->cause != RG_CAUSE_SLOW_LINK)
        inject(world, &spent);
    spent.delayed += spent.computing * world->load * between(world, 0.7, 1.3);
    return spent;
}

static void count(struct world *world, int rank, const struct spent *spent, double waited,
                  double blocked)
{
    struct rg_load *load = &world->loads[rank];

    load->computing += spent->computing;
    load->delayed += spent->delayed;
    load->throttled += spent->throttled;
    load->waiting += waited;
    load->blocked += blocked;
    load->steps += 1;
    world->squares[rank] += blocked * blocked;
}

/* One step; how long it takes. */
static double step(struct world *world, double moved_s)
{
    struct spent spent[RANKS];
    double last = 0, last_of[HOSTS] = { 0 };
    int who[HOSTS] = { 0 }, turn = (int) (draw(world) * world->nranks);

    for (int r = 0; r < world->nranks; r++) {
        int host = world->loads[r].host;
        spent[r] = spend(world, r, turn);
        if (length(&spent[r]) >= last_of[host]) {
            last_of[host] = length(&spent[r]);
            who[host] = r;
        }
        last = fmax(last, length(&spent[r]));
    }
    for (int r = 0; r < world->nranks; r++) {
        int host = world->loads[r].host;
        double waited = last_of[host] - length(&spent[r]);
        if (r != who[host])
            world->loads[who[host]].causing += waited > 20e-6 ? waited : 0;
        count(world, r, &spent[r], waited > 20e-6 ? waited : 0,
              last - length(&spent[r]) + moved_s);
    }
    return last + moved_s;
}

/* One rank does something for long, once. */
static double pause_once(struct world *world)
{
    double s = between(world, 0.5, 3);

    for (int r = 0; r < world->nranks; r++) {
        if (r == 0)
            continue;
        bool same = world->loads[r].host == world->loads[0].host;
        count(world, r, &(struct spent){ 0 }, same ? s : 0, s);
        world->loads[r].steps -= 1;
        world->loads[0].causing += same ? s : 0;
    }
    return s;
}

static void rate(struct world *world, double elapsed_s)
{
    for (int r = 0; r < world->nranks; r++) {
        struct rg_load *load = &world->loads[r];
        load->seconds = elapsed_s;
        load->squares = world->squares[r];
        load->blocked = fmin(load->blocked / elapsed_s * between(world, 0.99, 1.01), 1);
        load->waiting = fmin(load->waiting / elapsed_s, load->blocked);
        load->causing /= elapsed_s;
        load->computing = load->computing / elapsed_s * between(world, 0.98, 1.02);
        load->delayed /= elapsed_s;
        load->throttled /= elapsed_s;
        load->cpu = load->computing * between(world, 1, 1.05) +
                    load->blocked * between(world, 0, 0.3);
        load->cpus = world->cause == RG_CAUSE_NEIGHBOUR ? 1 : 2;
        load->nbytes = 1e6;
        load->faults = draw(world) < 0.1 ? between(world, 0, 5) : 0;
        load->refaults = draw(world) < 0.1 ? between(world, 0, 1000) : 0;
    }
}

/* Hosts send to the next one; it is busy while tensors are moved. */
static void send_around(struct world *world, double share)
{
    for (int r = 0; world->nhosts > 1 && r < world->nranks; r++) {
        struct rg_load *load = &world->loads[r];
        bool slow = world->cause == RG_CAUSE_SLOW_LINK && load->host == world->culprit;
        load->sent = 50e6;
        load->sent_to = (load->host + 1) % world->nhosts;
        bool behind = world->cause == RG_CAUSE_SLOW_LINK && world->nhosts > 2 &&
                      load->sent_to == world->culprit;
        load->sending = share * (slow     ? between(world, 0.9, 1)
                                 : behind ? between(world, 0.1, 0.5) /* its acknowledgements */
                                          : between(world, 0.02, 0.15));
        if (world->cause != RG_CAUSE_SLOW_LINK)
            load->sending = share * between(world, 0.5, 0.9);
    }
}

static void mark_culprit(struct world *world)
{
    if (world->culprit < 0)
        return;
    struct rg_load *load = &world->loads[world->culprit];

    if (world->cause == RG_CAUSE_IMBALANCE && !world->by_turns)
        load->nbytes *= 1 + world->extra;
    if (world->cause == RG_CAUSE_SWAPPING) {
        load->faults = between(world, 50, 5000);
        for (int r = 0; r < world->nranks; r++) {
            if (world->loads[r].host == load->host)
                world->loads[r].refaults = load->faults * between(world, 0.6, 20);
        }
    }
}

static void run(struct world *world)
{
    double elapsed_s = 0, moved_s = world->moved_s, moved = 0;
    struct rg_load loads[RANKS];

    for (int r = 0; r < RANKS; r++)
        world->loads[r] = (struct rg_load){ .host = r * world->nhosts / world->nranks,
                                            .rated = true, .timed = true, .sent_to = -1 };
    memset(world->squares, 0, sizeof(world->squares));
    if (world->cause == RG_CAUSE_SLOW_LINK)
        moved_s += world->extra * world->step_s;
    for (int i = 0; elapsed_s < SECONDS && i < STEPS_MAX; i++) {
        elapsed_s += step(world, moved_s);
        moved += moved_s;
    }
    if (world->once)
        elapsed_s += pause_once(world);
    rate(world, elapsed_s);
    send_around(world, moved / elapsed_s);
    mark_culprit(world);
    memcpy(loads, world->loads, sizeof(loads));
    rg_late_find(loads, (size_t) world->nranks, world->hosts, (size_t) world->nhosts,
                 &world->late);
    rg_late_explain(loads, (size_t) world->nranks, world->hosts, (size_t) world->nhosts,
                    &world->late, &world->found);
}

static struct world world_of(uint64_t seed)
{
    struct world world = { .seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1 };

    draw(&world);
    world.nhosts = 1 + (int) (draw(&world) * HOSTS);
    world.nranks = world.nhosts * (1 + (int) (draw(&world) * RANKS / world.nhosts));
    if (world.nranks < 2)
        world.nranks = 2;
    if (world.nranks > RANKS)
        world.nranks = RANKS;
    world.culprit = (int) (draw(&world) * world.nranks);
    world.step_s = pow(10, between(&world, -2.3, -0.3)); /* 5 to 500 ms */
    world.moved_s = world.step_s * between(&world, 0.01, 1);
    world.noise = between(&world, 0, 0.05);
    world.extra = between(&world, 0.5, 3);
    return world;
}

/* --- what is said of them --------------------------------------------------------------------- */

static void healthy_jobs_have_no_cause(void **state)
{
    (void) state;
    for (uint64_t seed = 0; seed < 100000; seed++) {
        struct world world = world_of(seed);
        world.culprit = -1;
        world.once = seed % 4 == 0;
        world.load = seed % 3 == 0 ? between(&world, 0, 4) : 0;
        world.noise = between(&world, 0, 0.08);
        run(&world);
        bool true_neighbour = world.load > 0 && world.found.cause == RG_CAUSE_NEIGHBOUR;
        if (world.found.cause != RG_CAUSE_UNKNOWN && !true_neighbour)
            fail_msg("seed %llu: %s", (unsigned long long) seed,
                     rg_cause_name(world.found.cause));
    }
}

/* How often each word was said of 2,000 jobs with this cause, by whom. */
static void try_out(enum rg_cause cause, bool by_turns, double load, int *ret_said,
                    int *ret_blamed)
{
    *ret_blamed = 0;
    memset(ret_said, 0, RG_CAUSES * sizeof(*ret_said));
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct world world = world_of(seed + 1000000 * (uint64_t) cause);
        world.cause = cause;
        world.by_turns = by_turns;
        world.load = between(&world, 0, load);
        if (by_turns) { /* between hosts it is not seen, and few steps may be chance */
            world.nhosts = 1;
            world.step_s = fmin(world.step_s, 0.02);
            world.moved_s = fmin(world.moved_s, world.step_s);
            world.nranks = world.nranks < 3 ? 3 : world.nranks;
        }
        if (cause == RG_CAUSE_SLOW_LINK) {
            world.nhosts = world.nhosts < 2 ? 2 : world.nhosts;
            world.nranks = world.nhosts * (RANKS / HOSTS);
            world.culprit = (int) (draw(&world) * world.nhosts);
        }
        run(&world);
        ret_said[world.found.cause]++;
        bool right = cause == RG_CAUSE_SLOW_LINK
                         ? world.found.late.host == world.culprit &&
                               world.found.to == (world.culprit + 1) % world.nhosts
                         : world.found.late.rank == (by_turns ? -1 : world.culprit);
        *ret_blamed += world.found.cause == cause && right;
    }
}

static void injected_causes_have_their_word(void **state)
{
    int said[RG_CAUSES], blamed;

    (void) state;
    for (int i = RG_CAUSE_UNKNOWN + 1; i <= RG_CAUSES; i++) {
        enum rg_cause cause = i == RG_CAUSES ? RG_CAUSE_IMBALANCE : (enum rg_cause) i;
        try_out(cause, i == RG_CAUSES, 0, said, &blamed);
        print_message("%s: %d right, %d nothing of 2000\n", rg_cause_name(cause), blamed,
                      said[RG_CAUSE_UNKNOWN]);
        assert_true(blamed >= 1900);
        assert_int_equal(said[cause] + said[RG_CAUSE_UNKNOWN], 2000);
    }
}

/* Then most have none, and none has another one's. */
static void on_busy_computers_no_word_is_wrong(void **state)
{
    int said[RG_CAUSES], blamed;

    (void) state;
    for (int i = RG_CAUSE_UNKNOWN + 1; i < RG_CAUSES; i++) {
        try_out((enum rg_cause) i, false, 4, said, &blamed);
        print_message("%s, busy: %d right, %d nothing of 2000\n", rg_cause_name((enum rg_cause) i),
                      blamed, said[RG_CAUSE_UNKNOWN]);
        assert_int_equal(said[i] + said[RG_CAUSE_UNKNOWN], 2000);
    }
}

/* --- by hand ---------------------------------------------------------------------------------- */

/* Four ranks on one host, of which rank 2 is late by most of each step. */
static struct world late_by_half(void)
{
    struct world world = { .nranks = 4, .nhosts = 1, .culprit = 2 };

    for (int r = 0; r < world.nranks; r++)
        world.loads[r] = (struct rg_load){
            .rated = true, .timed = true, .blocked = 0.6, .waiting = 0.6, .computing = 0.4,
            .cpu = 0.4, .cpus = 2, .seconds = 5, .steps = 50, .squares = 50 * 0.06 * 0.06,
            .nbytes = 1e6, .sent_to = -1,
        };
    world.loads[2].blocked = world.loads[2].waiting = 0;
    world.loads[2].causing = 1.8;
    return world;
}

static void late_and_cause(struct world *world)
{
    size_t n = (size_t) world->nranks, nhosts = (size_t) world->nhosts;

    rg_late_find(world->loads, n, world->hosts, nhosts, &world->late);
    rg_late_explain(world->loads, n, world->hosts, nhosts, &world->late, &world->found);
}

static enum rg_cause cause_of(struct world *world)
{
    late_and_cause(world);
    assert_int_equal(world->late.rank, 2);
    return world->found.cause;
}

static void parts_that_fit_two_causes_have_none(void **state)
{
    struct world world = late_by_half();
    struct rg_load *load = &world.loads[2];

    (void) state;
    assert_int_equal(cause_of(&world), RG_CAUSE_SLOW_INPUT); /* 0.6 of 1 is neither */
    assert_true(fabs(world.found.share - 0.6) < 1e-9 && fabs(world.found.value - 0.6) < 1e-9);
    world = late_by_half();
    load->computing = 0.7; /* half of it computes, half waits */
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    load->cpu = 0.9; /* its main thread waits for one of its own */
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    load->delayed = 0.6;
    assert_int_equal(cause_of(&world), RG_CAUSE_NEIGHBOUR);
    world = late_by_half();
    for (int r = 0; r < 4; r++) { /* all have neighbours, and it has more to compute */
        world.loads[r].computing = r == 2 ? 0.03 : 0.015;
        world.loads[r].delayed = r == 2 ? 0.95 : 0.45;
        world.loads[r].cpu = world.loads[r].computing;
    }
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    load->delayed = 0.6;
    load->cpu = 1.9; /* its own threads have both processors */
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    for (int r = 0; r < 4; r++)
        world.loads[r].throttled = 0.5; /* all are in one cgroup: it may be that, and may not */
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    load->faults = 500; /* pages of a mapped file: its input */
    assert_int_equal(cause_of(&world), RG_CAUSE_SLOW_INPUT);
    world = late_by_half();
    load->faults = 500;
    load->refaults = 100;
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
}

/* Who is kept from a processor now and then keeps the others, whoever it is: that looks like steps
 * that differ, also where all are in operations when it happens. */
static void a_busy_computer_is_no_imbalance(void **state)
{
    struct world world = late_by_half();

    (void) state;
    for (int r = 0; r < 4; r++) {
        world.loads[r].blocked = world.loads[r].waiting = world.loads[r].causing = 0.5;
        world.loads[r].computing = 0.5;
    }
    late_and_cause(&world);
    assert_int_equal(world.found.cause, RG_CAUSE_IMBALANCE);
    assert_int_equal(world.found.late.rank, -1);
    for (int r = 0; r < 4; r++)
        world.loads[r].delayed = 0.2; /* three wait meanwhile: 0.6 of 0.5 */
    late_and_cause(&world);
    assert_int_equal(world.found.cause, RG_CAUSE_UNKNOWN);
    for (int r = 0; r < 4; r++)
        world.loads[r].operations = 2; /* many delays between two: all have nearly as many */
    late_and_cause(&world);
    assert_int_equal(world.found.cause, RG_CAUSE_IMBALANCE);
    for (int r = 0; r < 4; r++) { /* as measured of equal ranks, beside builds and tests */
        world.loads[r].delayed = 0.73;
        world.loads[r].computing = 0.18;
        world.loads[r].operations = 6.3;
        world.loads[r].blocked = world.loads[r].waiting = world.loads[r].causing = 0.1;
    }
    late_and_cause(&world);
    assert_int_equal(world.found.cause, RG_CAUSE_UNKNOWN);
}

/* The processor's caches are the others' as well: the same work took 1.46 times as long. */
static void crowded_processors_make_no_slow_rank(void **state)
{
    struct world world = late_by_half();

    (void) state;
    for (int r = 0; r < 4; r++) {
        struct rg_load *load = &world.loads[r];
        load->computing = r == 2 ? 0.203 : 0.137;
        load->delayed = r == 2 ? 0.758 : 0.533;
        load->blocked = load->waiting = r == 2 ? 0.052 : 0.355;
        load->causing = r == 2 ? 3 * 0.355 : 0.017;
        load->squares = 0.346;
    }
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world.loads[2].computing = 0.29;
    assert_int_equal(cause_of(&world), RG_CAUSE_SLOW_RANK);
}

/* Three hosts in a ring; each number is the share of the time that bytes are on their way. */
static enum rg_cause cause_of_ring(double first, double second, double third, int to,
                                   struct rg_lateness *ret_found)
{
    const double sending[] = { first, second, third };
    struct world world = { .nranks = 3, .nhosts = 3 };

    for (int r = 0; r < 3; r++)
        world.loads[r] = (struct rg_load){
            .host = r, .rated = true, .timed = true, .blocked = 0.95, .computing = 0.02,
            .cpus = 2, .seconds = 7, .steps = 50, .squares = 1, .operations = 7,
            .sent = 20e6, .sending = sending[r], .sent_to = r == 1 ? to : (r + 1) % 3,
        };
    late_and_cause(&world);
    *ret_found = world.found;
    return world.found.cause;
}

/* What goes to the slow link's host is acknowledged late. These were measured. */
static void acknowledgements_that_wait_hide_no_slow_link(void **state)
{
    struct rg_lateness found;

    (void) state;
    assert_int_equal(cause_of_ring(0.99, 0.14, 0.38, 2, &found), RG_CAUSE_SLOW_LINK);
    assert_true(found.late.host == 0 && found.to == 1);
    assert_int_equal(cause_of_ring(0.41, 0.97, 0.16, 2, &found), RG_CAUSE_SLOW_LINK);
    assert_true(found.late.host == 1 && found.to == 2);
    assert_int_equal(cause_of_ring(1.00, 0.47, 0.46, 0, &found), RG_CAUSE_SLOW_LINK);
    assert_true(found.late.host == 0 && found.to == 1);
    assert_int_equal(cause_of_ring(0.95, 0.90, 0.10, 2, &found), RG_CAUSE_SLOW_LINK);
    assert_true(found.late.host == 1 && found.to == -1); /* its cable, both ways */
    assert_int_equal(cause_of_ring(0.84, 0.79, 0.78, 2, &found), RG_CAUSE_UNKNOWN);
    assert_int_equal(cause_of_ring(0.74, 0.60, 0.50, 0, &found), RG_CAUSE_UNKNOWN);
}

static void what_is_not_known_has_no_cause(void **state)
{
    struct world world = late_by_half();

    (void) state;
    world.loads[2].timed = false;
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    world.loads[0].timed = false;
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    for (int r = 0; r < 4; r++)
        world.loads[r].operations = r == 2 ? 20 : 100; /* those of a process set, without it */
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    for (int r = 0; r < 4; r++)
        world.loads[r].operations = r == 2 ? 0.4 : 0.7; /* it began and ended between two of few */
    assert_int_equal(cause_of(&world), RG_CAUSE_SLOW_INPUT);
    world = late_by_half();
    for (int r = 0; r < 4; r++)
        world.loads[r].squares = 3 * 3; /* one wait, of 3 s */
    assert_int_equal(cause_of(&world), RG_CAUSE_UNKNOWN);
    world = late_by_half();
    for (int r = 0; r < 4; r++)
        world.loads[r].host = -1;
    assert_int_equal(cause_of(&world), RG_CAUSE_SLOW_INPUT);
    assert_int_equal(world.found.late.host, -1);
    for (int n = 0; n < 2; n++) {
        rg_late_find(world.loads, (size_t) n, world.hosts, 0, &world.late);
        rg_late_explain(world.loads, (size_t) n, world.hosts, 0, &world.late, &world.found);
        assert_int_equal(world.found.cause, RG_CAUSE_UNKNOWN);
    }
}

/* They are sorted for it, and have their places again. */
static void hosts_cause_what_others_spend_more(void **state)
{
    enum { MANY = 60 };
    struct world world = { .seed = 7 };
    struct rg_load loads[MANY];
    struct rg_load_host hosts[MANY + 1];

    (void) state;
    for (int h = 0; h < MANY; h++)
        loads[h] = (struct rg_load){ .host = h, .rated = h % 7 != 3, .sent_to = -1,
                                     .blocked = floor(between(&world, 0, 50)) / 100 };
    rg_late_find(loads, MANY, hosts, MANY, &world.late);
    for (int h = 0; h < MANY; h++) {
        double causing = 0;
        for (int o = 0; o < MANY; o++) {
            double more = loads[o].blocked - loads[h].blocked;
            causing += loads[o].rated && more > RG_LATE_NOISE ? more : 0;
        }
        assert_true(fabs(loads[h].causing - (loads[h].rated ? causing : 0)) < 1e-9);
        assert_int_equal(hosts[h].worst, h);
    }
}

/* --- of a whole job --------------------------------------------------------------------------- */

static struct rg_lateness late_by(int rank, enum rg_cause cause, double share)
{
    return (struct rg_lateness){ .cause = cause, .late = { .rank = rank, .host = 0 }, .to = -1,
                                 .share = share, .value = 0.5, .usual = 0.1 };
}

static void who_is_late_for_most_of_a_job_is_told(void **state)
{
    struct rg_lateness input = late_by(3, RG_CAUSE_SLOW_INPUT, 0.4), found;
    struct rg_lateness unknown = late_by(3, RG_CAUSE_UNKNOWN, 0.2);
    struct rg_tally tally = { .seconds = 0 };

    (void) state;
    for (int i = 0; i < 9; i++)
        rg_tally_add(&tally, &input, 1);
    assert_false(rg_tally_find(&tally, &found)); /* it is too short */
    for (int i = 0; i < 2; i++)
        rg_tally_add(&tally, &unknown, 1);
    assert_true(rg_tally_find(&tally, &found));
    assert_int_equal(found.late.rank, 3);
    assert_int_equal(found.cause, RG_CAUSE_SLOW_INPUT);
    assert_true(fabs(found.share - 4.0 / 11) < 1e-9 && fabs(found.value - 0.5) < 1e-9);
    for (int i = 0; i < 7; i++)
        rg_tally_add(&tally, &unknown, 1);
    assert_true(rg_tally_find(&tally, &found)); /* who, but not why */
    assert_int_equal(found.cause, RG_CAUSE_UNKNOWN);
    for (int i = 0; i < 20; i++) { /* each for a moment: there is not room for all */
        struct rg_lateness other = late_by(10 + i, RG_CAUSE_SLOW_RANK, 0.5);
        rg_tally_add(&tally, &other, 1);
    }
    assert_false(rg_tally_find(&tally, &found));
}

static void what_was_found_for_a_moment_does_not_hold(void **state)
{
    struct rg_lateness input = late_by(3, RG_CAUSE_SLOW_INPUT, 0.4);
    struct rg_lateness unknown = late_by(3, RG_CAUSE_UNKNOWN, 0.4);
    struct rg_lateness other = late_by(2, RG_CAUSE_SLOW_INPUT, 0.4);
    struct rg_tally tally = { .seconds = 0 };

    (void) state;
    assert_false(rg_tally_holds(&tally, &input));
    for (int i = 0; i < 3; i++) {
        assert_false(rg_tally_holds(&tally, &input));
        rg_tally_add(&tally, &input, 1);
    }
    assert_true(rg_tally_holds(&tally, &input));
    assert_false(rg_tally_holds(&tally, &other));
    rg_tally_add(&tally, &unknown, 1);
    rg_tally_add(&tally, &input, 1);
    assert_false(rg_tally_holds(&tally, &input));
}

static const char *words_of(struct rg_lateness diagnosis, struct rg_buf *text)
{
    rg_buf_clear(text);
    rg_lateness_put(&diagnosis, "a", "b", text);
    return rg_buf_text(text);
}

static void words_name_the_cause_before_the_evidence(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    for (int i = 0; i < RG_CAUSES; i++)
        assert_int_equal(rg_cause_find(rg_cause_name((enum rg_cause) i)), i);
    assert_int_equal(rg_cause_find("nonsense"), RG_CAUSE_UNKNOWN);
    assert_string_equal(words_of(late_by(1, RG_CAUSE_SLOW_RANK, 1), &text),
                        "slow rank: it computes 0.50 s in a second, others 0.10 s");
    for (int i = RG_CAUSE_SLOW_RANK; i < RG_CAUSES; i++) { /* behind "why: ", a row of 80 */
        struct rg_lateness most = late_by(1, (enum rg_cause) i, 1);
        most.value = i == RG_CAUSE_SWAPPING ? 12345 : most.value;
        most.usual = i == RG_CAUSE_SWAPPING ? 999 : most.usual;
        assert_true(strlen("why: ") + strlen(words_of(most, &text)) <= 80);
    }
    struct rg_lateness link = { .cause = RG_CAUSE_SLOW_LINK, .to = 1, .value = 3 << 20,
                                .usual = 200 << 20 };
    assert_string_equal(words_of(link, &text),
                        "slow link: from a to b go 3 MiB in a second, elsewhere 200 MiB");
    link.to = -1;
    assert_string_equal(words_of(link, &text),
                        "slow link: to and from a go 3 MiB in a second, elsewhere 200 MiB");
    assert_string_equal(words_of(late_by(1, RG_CAUSE_UNKNOWN, 1), &text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_that_fit_two_causes_have_none),
        cmocka_unit_test(a_busy_computer_is_no_imbalance),
        cmocka_unit_test(crowded_processors_make_no_slow_rank),
        cmocka_unit_test(acknowledgements_that_wait_hide_no_slow_link),
        cmocka_unit_test(what_is_not_known_has_no_cause),
        cmocka_unit_test(hosts_cause_what_others_spend_more),
        cmocka_unit_test(healthy_jobs_have_no_cause),
        cmocka_unit_test(injected_causes_have_their_word),
        cmocka_unit_test(who_is_late_for_most_of_a_job_is_told),
        cmocka_unit_test(what_was_found_for_a_moment_does_not_hold),
        cmocka_unit_test(words_name_the_cause_before_the_evidence),
        cmocka_unit_test(on_busy_computers_no_word_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
