/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A membership, told one event at a time. What a step returns is compared as text: a host is added
 * by "+host:name*slots", and an epoch is published as "epoch number/sync: places".
 */
#ifndef RG_TESTS_UNIT_LAUNCH_MEMBERSHIP_RULES_H
#define RG_TESTS_UNIT_LAUNCH_MEMBERSHIP_RULES_H

#include "base/time.h"
#include "launch/membership/membership.h"
#include "unit.h"

#define S RG_NS_PER_S

static struct rg_membership *m;
static struct rg_membership_rules rules;
static uint64_t now;
static char text[4096];

static inline int begin(void **state)
{
    (void) state;
    now = 1000 * S;
    rules = (struct rg_membership_rules){
        .elastic = true, .way = RG_MEMBERSHIP_BY_RANKS, .np = 2, .min_np = 1, .room_hosts = 32,
        .room_places = 64, .timeout_ns = 600 * S, .gather_ns = 5 * S, .settle_ns = 30 * S,
        .grace_ns = 10 * S, .leave_ns = 600 * S, .join_ns = 700 * S,
        .reset_limit = -1, .tries = 1,
    };
    return 0;
}

static inline int end(void **state)
{
    (void) state;
    rg_membership_destroy(m);
    m = NULL;
    return 0;
}

static inline void print_epoch(size_t n)
{
    struct rg_membership_epoch epoch = rg_membership_epoch(m);

    n += (size_t) snprintf(text + n, sizeof(text) - n, "epoch %u/%d:", epoch.number, epoch.sync);
    for (int i = 0; i < epoch.size; i++)
        n += (size_t) snprintf(text + n, sizeof(text) - n, " %d", epoch.places[i]);
}

static inline void print(const struct rg_membership_action *a)
{
    static const char *const CAUSES[] = { "all done", "one failed", "all failed", "all aside",
                                          "too few", "reset limit", "no room" };
    size_t n = strlen(text);

    if (n > 0)
        n += (size_t) snprintf(text + n, sizeof(text) - n, ", ");
    char *at = text + n;
    size_t room = sizeof(text) - n;
    switch (a->type) {
    case RG_MEMBERSHIP_ADD_HOST:
        snprintf(at, room, "+%d:%d*%d", a->host, a->name, a->slots);
        break;
    case RG_MEMBERSHIP_START_RANKS: snprintf(at, room, "start %d", a->host); break;
    case RG_MEMBERSHIP_END_RANK:
        snprintf(at, room, "%s %d", a->hard ? "kill" : "term", a->place);
        break;
    case RG_MEMBERSHIP_RELEASE: snprintf(at, room, "free %d", a->host); break;
    case RG_MEMBERSHIP_PUBLISH: print_epoch(n); break;
    case RG_MEMBERSHIP_UPDATE: snprintf(at, room, "update %u", a->result); break;
    case RG_MEMBERSHIP_RESTARTS: snprintf(at, room, "restart"); break;
    case RG_MEMBERSHIP_ASIDE: snprintf(at, room, "aside %d", a->name); break;
    case RG_MEMBERSHIP_BACK: snprintf(at, room, "back %d", a->name); break;
    case RG_MEMBERSHIP_END: snprintf(at, room, "end %s", CAUSES[a->cause]); break;
    }
}

static inline const char *step(struct rg_membership_event event)
{
    const struct rg_membership_action *actions;

    event.now_ns = now;
    text[0] = '\0';
    size_t n = rg_membership_step(m, &event, &actions);
    for (size_t i = 0; i < n; i++)
        print(&actions[i]);
    return text;
}

#define STEP(...) step((struct rg_membership_event){ __VA_ARGS__ })

/* WANTED: so many slots of machine 0, 1, ... */
static inline const char *wanted(int n, const int *slots)
{
    struct rg_membership_machine list[16];
    size_t nlist = 0;

    if (!m)
        assert_int_equal(rg_membership_create(&rules, now, &m), 0);
    for (int i = 0; i < n; i++) {
        if (slots[i])
            list[nlist++] = (struct rg_membership_machine){ i, slots[i] };
    }
    return STEP(RG_MEMBERSHIP_WANTED, .wanted = list, .nwanted = nlist);
}

#define WANTED(...)                                                                              \
    wanted(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), (const int[]){ __VA_ARGS__ })

static inline const char *ready(int host)
{
    return STEP(RG_MEMBERSHIP_HOST_READY, .host = host);
}

static inline const char *lost(int host, bool failed)
{
    return STEP(RG_MEMBERSHIP_HOST_LOST, .host = host, .failed = failed);
}

static inline const char *fails(int place)
{
    return STEP(RG_MEMBERSHIP_RANK_ENDED, .place = place, .cut_by = -1);
}

static inline const char *ends(int place, bool ok)
{
    return STEP(RG_MEMBERSHIP_RANK_ENDED, .place = place, .cut_by = -1, .ok = ok, .asked = !ok);
}

static inline const char *elastic(int place)
{
    return STEP(RG_MEMBERSHIP_RANK_ELASTIC, .place = place);
}

static inline const char *meets(int place, uint32_t epoch, bool failed)
{
    return STEP(RG_MEMBERSHIP_RANK_MEETS, .place = place, .epoch = epoch, .failed = failed);
}

static inline const char *after(uint64_t ns)
{
    now += ns;
    return STEP(.type = RG_MEMBERSHIP_TICK);
}

/* Machines 0 and 1 with two slots each, all four running and elastic. */
static inline void run_two_by_two(void)
{
    assert_string_equal(WANTED(2, 2), "+0:0*2, +1:1*2");
    assert_string_equal(ready(0), "");
    assert_string_equal(ready(1), "epoch 1/1: 0 1 2 3, start 0, start 1");
    for (int i = 0; i < 4; i++)
        assert_string_equal(elastic(i), "");
}

#define RULE(name) static void name(void **state __attribute__((unused)))

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
