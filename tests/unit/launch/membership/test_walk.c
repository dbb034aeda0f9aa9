/* SPDX-License-Identifier: Apache-2.0 */
/* All that can happen to a small job, in every order: four machines of one slot, of which two come
 * later, a host that is lost, and a rank that dies. */
#include <malloc.h>

#include "unit.h"
#include "world.h"

#define SEEN_BITS 24
#define DEPTH_MAX 400

static uint64_t *seen;
static size_t nseen, nends;
static struct play play;
static size_t block_nbytes;

static uint64_t hash_of(uint64_t hash, const void *bytes, size_t nbytes)
{
    const uint8_t *at = bytes;
    uint64_t word = 0;

    for (; nbytes > 0; at += nbytes < 8 ? nbytes : 8, nbytes -= nbytes < 8 ? nbytes : 8) {
        memcpy(&word, at, nbytes < 8 ? nbytes : 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t hash_queue(uint64_t hash, const struct queue *queue)
{
    return hash_of(hash_of(hash, &queue->n, 1), queue->at, queue->n * sizeof(queue->at[0]));
}

static uint64_t hash_membership(uint64_t hash, const struct rg_membership *m)
{
    struct rg_membership copy = *m;

    copy.step = 0;
    copy.nactions = 0;
    hash = hash_of(hash, &copy, sizeof(copy));
    hash = hash_of(hash, m->machines, (size_t) m->rules.room_hosts * sizeof(*m->machines));
    hash = hash_of(hash, m->hosts, (size_t) m->nhosts * sizeof(*m->hosts));
    hash = hash_of(hash, m->order, (size_t) m->epoch.size * sizeof(int));
    for (int i = 0; i < m->nplaces; i++) {
        struct place place = m->places[i];
        place.started = 0;
        place.forecast = 0;
        hash = hash_of(hash, &place, sizeof(place));
    }
    return hash;
}

/* All that decides what can happen from here on. */
static uint64_t hash_play(const struct play *all)
{
    const struct world *w = &all->world;
    uint64_t hash = hash_membership(1, all->membership);

    hash = hash_of(hash, w, offsetof(struct world, agents));
    for (int i = 0; i < all->membership->nhosts; i++) {
        hash = hash_of(hash, &w->agents[i], offsetof(struct agent, up));
        hash = hash_queue(hash_queue(hash, &w->agents[i].up), &w->agents[i].down);
    }
    hash = hash_of(hash, w->processes,
                   (size_t) all->membership->nplaces * sizeof(w->processes[0]));
    return hash_of(hash, w->sessions, sizeof(w->sessions));
}

/* false: it was there already. */
static bool put_down(uint64_t hash)
{
    size_t mask = ((size_t) 1 << SEEN_BITS) - 1;
    size_t i = hash & mask;

    hash += hash == 0;
    while (seen[i] && seen[i] != hash)
        i = (i + 1) & mask;
    if (seen[i] == hash)
        return false;
    assert_true(++nseen < mask / 4 * 3);
    seen[i] = hash;
    return true;
}

struct snapshot {
    struct world world;
    char block[];
};

static void restore(const struct snapshot *from)
{
    play.world = from->world;
    memcpy(play.membership, from->block, block_nbytes);
}

static bool walk(int depth)
{
    static struct snapshot *stack[DEPTH_MAX];

    if (play.world.broken || depth == DEPTH_MAX)
        return false;
    if (play.world.ended) {
        nends++;
        return true;
    }
    if (!put_down(hash_play(&play)))
        return true;
    int n = play_count(&play);
    if (n == 0) { /* time passes only if nothing else can happen */
        if (play_tick(&play))
            return walk(depth + 1);
        play.world.broken = "it waits for ever";
        return false;
    }
    if (!stack[depth])
        stack[depth] = malloc(sizeof(struct snapshot) + block_nbytes);
    stack[depth]->world = play.world;
    memcpy(stack[depth]->block, play.membership, block_nbytes);
    for (int i = 0; i < n; i++) {
        play_move(&play, i, 0);
        if (!walk(depth + 1)) {
            print_message("%d: move %d\n", depth, i);
            return false;
        }
        restore(stack[depth]);
    }
    return true;
}

static void walk_all(const struct habits *habits)
{
    nseen = nends = 0;
    seen = calloc((size_t) 1 << SEEN_BITS, sizeof(*seen));
    play_begin(&play, habits);
    block_nbytes = malloc_usable_size(play.membership);
    if (!walk(0))
        fail_msg("%s", play.world.broken);
    print_message("%zu states, %zu ends\n", nseen, nends);
    play_end(&play);
    free(seen);
}

static const uint32_t LISTS[] = { 0x05, 0x15, 0x55 };

static struct habits habits_of(enum rg_membership_way way)
{
    return (struct habits){
        .rules = { .elastic = true, .way = way, .np = 2, .min_np = 1, .room_hosts = 6,
                   .room_places = 6, .timeout_ns = 600, .leave_ns = 600, .join_ns = 600,
                   .reset_limit = -1, .tries = 1 },
        .eager = true,
        .nnames = 4, .changes = 3, .lists = LISTS, .target = 1,
        .knows = way != RG_MEMBERSHIP_RESTART,
    };
}

static void in_place_every_order_keeps_what_always_holds(void **state)
{
    (void) state;
    struct habits habits = habits_of(RG_MEMBERSHIP_IN_PLACE);

    habits.losses = habits.deaths = 1;
    walk_all(&habits);
}

static void with_a_spare_every_order_keeps_what_always_holds(void **state)
{
    (void) state;
    struct habits habits = habits_of(RG_MEMBERSHIP_IN_PLACE);

    habits.rules.max_np = 2;
    habits.rules.spares = 1;
    habits.losses = habits.deaths = 1;
    walk_all(&habits);
}

static void with_restarts_every_order_keeps_what_always_holds(void **state)
{
    (void) state;
    struct habits habits = habits_of(RG_MEMBERSHIP_RESTART);

    habits.losses = habits.deaths = 1;
    habits.changes = 2; /* each starts all again: with both arrivals there are 20 times as many */
    walk_all(&habits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place_every_order_keeps_what_always_holds),
        cmocka_unit_test(with_a_spare_every_order_keeps_what_always_holds),
        cmocka_unit_test(with_restarts_every_order_keeps_what_always_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
