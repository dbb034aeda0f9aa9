/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories of random jobs. REIGEN_SIM_HISTORIES says how many, REIGEN_SIM_SEED which one is
 * the first: with one history, its events are printed. */
#include "unit.h"
#include "world.h"

#define SECOND 1000000000ull
#define MOVES_MAX 20000

static uint64_t rng_state;

static uint32_t rng(void)
{
    rng_state += 0x9e3779b97f4a7c15ull;
    uint64_t z = rng_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t) ((z ^ (z >> 31)) >> 32);
}

static int upto(int most)
{
    return (int) (rng() % (uint32_t) (most + 1));
}

static struct habits random_habits(void)
{
    struct habits h = { .ticks = true };
    struct rg_membership_rules *r = &h.rules;

    r->elastic = true;
    r->way = (enum rg_membership_way) upto(2);
    h.knows = r->way == RG_MEMBERSHIP_IN_PLACE || (r->way == RG_MEMBERSHIP_BY_RANKS && rng() % 2);
    h.safe = rng() % 4 == 0;
    r->min_np = 1 + upto(h.safe ? 1 : 2);
    r->np = r->min_np + upto(h.safe ? 0 : 1);
    r->max_np = rng() % 2 ? 0 : r->np + upto(3);
    r->spares = r->max_np && rng() % 2 ? 1 + upto(1) : 0;
    r->room_hosts = HOSTS;
    r->room_places = PLACES;
    r->timeout_ns = r->leave_ns = r->join_ns = 600 * SECOND;
    r->gather_ns = 5 * SECOND;
    r->settle_ns = 30 * SECOND;
    r->grace_ns = 5 * SECOND;
    r->reset_limit = h.safe || rng() % 8 ? -1 : upto(3);
    r->tries = 1 + upto(1);
    r->cooldown_min_ns = rng() % 2 ? 0 : 10 * SECOND;
    r->cooldown_max_ns = r->cooldown_min_ns ? 100 * SECOND : 0;
    h.nnames = 2 + upto(2);
    h.losses = upto(3);
    h.deaths = upto(3);
    h.changes = 1 + upto(3);
    h.early = !h.safe && rng() % 8 == 0;
    h.slow = h.safe ? 0 : upto(2);
    h.drains = rng() % 4 ? 0 : upto(3);
    h.target = 1 + upto(6);
    return h;
}

/* Where nothing may fail, nobody is so slow that the long deadlines pass. */
static bool is_soon(const struct play *play)
{
    uint64_t deadline = rg_membership_deadline_ns(play->membership);

    return !play->habits.safe || deadline - play->world.now_ns < 60 * SECOND;
}

static const char *run_history(uint64_t seed, bool tells, int *ret_cause)
{
    struct play play;
    const char *broken;
    int moves = 0;

    rng_state = seed * 0x2545f4914f6cdd1dull + 1;
    struct habits habits = random_habits();
    play_begin(&play, &habits);
    play.tells = tells;
    while (!play.world.ended && !play.world.broken && moves++ < MOVES_MAX) {
        int n = play_count(&play);
        if (n == 0 && !play_tick(&play))
            play.world.broken = "it waits for ever";
        else if (n > 0 && rng() % 64 == 0 && is_soon(&play))
            play_tick(&play);
        else if (n > 0)
            play_move(&play, upto(n - 1), rng());
    }
    broken = play.world.broken;
    if (!broken && !play.world.ended)
        broken = "it never comes to an end";
    *ret_cause = play.world.cause;
    play_end(&play);
    return broken;
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_histories_keep_what_always_holds(void **state)
{
    (void) state;
    uint64_t n = from_env("REIGEN_SIM_HISTORIES", 100000), first = from_env("REIGEN_SIM_SEED", 1);
    int causes[16] = { 0 }, cause;

    for (uint64_t seed = first; seed < first + n; seed++) {
        const char *broken = run_history(seed, n == 1, &cause);
        causes[cause]++;
        if (broken) {
            run_history(seed, true, &cause);
            fail_msg("REIGEN_SIM_HISTORIES=1 REIGEN_SIM_SEED=%llu: %s", (unsigned long long) seed,
                     broken);
        }
    }
    for (int i = 0; i <= RG_MEMBERSHIP_NO_ROOM; i++)
        print_message("cause %d: %d\n", i, causes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_keep_what_always_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
