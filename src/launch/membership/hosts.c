/* SPDX-License-Identifier: Apache-2.0 */
/* Each list of machines, each failure and each host that goes has the slots dealt anew. */
#include "launch/membership/hosts.h"

#include <limits.h>

static int least(int a, int b)
{
    return a < b ? a : b;
}

void membership_want(struct rg_membership *m, const struct rg_membership_machine *wanted,
                     size_t nwanted)
{
    struct machine **at = &m->wanted;

    for (struct machine *machine = m->wanted; machine; machine = machine->next)
        machine->slots = machine->left = 0;
    for (size_t i = 0; i < nwanted; i++) {
        int name = wanted[i].name, slots = least(wanted[i].slots, m->rules.room_places);
        if (name < 0 || slots <= 0)
            continue;
        if (name >= m->rules.room_hosts) {
            m->no_room = true;
            continue;
        }
        struct machine *machine = &m->machines[name];
        if (!machine->slots) {
            machine->name = name;
            *at = machine;
            at = &machine->next;
        }
        machine->slots = least(machine->slots + slots, m->rules.room_places);
    }
    *at = NULL;
    m->dirty = true;
}

/* --- slots ------------------------------------------------------------------------------------ */

static void add_host(struct rg_membership *m, struct machine *machine, int slots)
{
    const struct rg_membership_rules *rules = &m->rules;
    int nslots = least(slots, rules->room_places - m->nplaces);
    struct host **at = &m->live;

    m->no_room |= m->nhosts == rules->room_hosts || nslots < slots;
    if (m->nhosts == rules->room_hosts || nslots == 0)
        return;
    struct host *host = &m->hosts[m->nhosts];
    *host = (struct host){ .number = m->nhosts, .machine = machine, .nslots = nslots,
                            .places = m->places + m->nplaces, .keep = nslots };
    EACH_PLACE_OF(host, place)
        *place = (struct place){ .host = host, .number = m->nplaces++ };
    while (*at)
        at = &(*at)->next;
    *at = host;
    struct rg_membership_action *action =
        membership_act(m, RG_MEMBERSHIP_ADD_HOST, host, host->places);
    m->nhosts++;
    action->name = machine->name;
    action->slots = host->nslots;
}

void membership_drop_host(struct rg_membership *m, struct host *host, enum stay stay)
{
    struct host **at = &m->live;

    if (host->stay < STAY_FREE) {
        while (*at != host)
            at = &(*at)->next;
        *at = host->next;
        m->dirty = true;
    }
    host->stay = stay;
    host->keep = 0;
}

/* The first n of its places that are of use, and what lies between. */
static int first_of(const struct host *host, int n)
{
    int i = 0;

    for (; n > 0 && i < host->nslots; i++)
        n -= !host->places[i].done;
    return i;
}

/* Hosts that are there keep what they have, the oldest first; then come new ones. A failed one's
 * slots are not free before it is. */
static void deal(struct rg_membership *m)
{
    int left = m->rules.max_np ? m->rules.max_np + m->rules.spares : INT_MAX;

    for (struct machine *machine = m->wanted; machine; machine = machine->next)
        machine->left = may_be_used(machine) ? machine->slots : 0;
    for (struct host *host = m->live; host; host = host->next) {
        int mine = least(host->nslots - host->ndone, host->machine->left);
        int keep = host->failed ? 0 : least(mine, left);
        host->keep = first_of(host, keep);
        left -= keep;
        host->machine->left -= mine;
    }
    for (struct machine *machine = m->wanted; machine; machine = machine->next) {
        int slots = least(machine->left, left);
        left -= slots;
        if (slots > 0)
            add_host(m, machine, slots);
    }
}

static bool is_in_use(const struct host *host)
{
    EACH_PLACE_OF(host, place) {
        if (place->live || place->accuses)
            return true;
    }
    return host->keep > 0;
}

static void release(struct rg_membership *m)
{
    for (struct host *host = m->live; host; host = host->next) {
        if (is_in_use(host))
            continue;
        membership_drop_host(m, host, STAY_FREE);
        membership_act(m, RG_MEMBERSHIP_RELEASE, host, NULL);
    }
}

void membership_deal(struct rg_membership *m)
{
    do {
        if (m->dirty && !m->finishing)
            deal(m);
        m->dirty = false;
        release(m);
    } while (m->dirty);
}

/* --- failures --------------------------------------------------------------------------------- */

void membership_lose(struct rg_membership *m, const struct host *host, const struct place *place)
{
    if (m->phase != PHASE_RUN)
        return;
    m->last_bad = true;
    if (!m->change.lost) {
        m->change.host = host;
        m->change.place = place;
    }
    m->change.lost = true;
}

void membership_tell(struct rg_membership *m, struct place *place)
{
    if (!is_staying(place))
        return;
    place->told = true;
    place->due_ns = m->now_ns + m->rules.grace_ns + !m->rules.grace_ns;
    membership_passed(m, place->due_ns);
    membership_act(m, RG_MEMBERSHIP_END_RANK, place->host, place);
}

static uint64_t cooldown_ns(const struct rg_membership *m, int failures)
{
    uint64_t ns = m->rules.cooldown_min_ns, max = m->rules.cooldown_max_ns;

    for (; failures > m->rules.tries && failures > 1 && ns < max; failures--)
        ns *= 2;
    return ns < max ? ns : max;
}

static void set_aside(struct rg_membership *m, struct host *host, const struct place *place,
                      enum rg_membership_why why)
{
    struct machine *machine = host->machine;

    host->failed = true;
    host->keep = 0;
    m->dirty = true;
    EACH_PLACE_OF(host, other) {
        if (is_staying(other) && other->member)
            membership_lose(m, host, place);
        membership_tell(m, other);
    }
    machine->until_ns = membership_after(m->now_ns, cooldown_ns(m, machine->failures));
    machine->why = why;
    struct rg_membership_action *action = membership_act(m, RG_MEMBERSHIP_ASIDE, host, place);
    action->name = machine->name;
    action->why = why;
    action->until_ns = machine->until_ns;
    machine->host = action->host;
    machine->place = action->place;
}

/* What leaves anyway has not failed. */
void membership_fail(struct rg_membership *m, struct host *host, const struct place *place,
                     enum rg_membership_why why, bool faulty)
{
    if (place ? !is_kept(place) : host->keep == 0)
        return;
    int failures = ++host->machine->failures;
    if (!place || faulty || (m->rules.tries && failures >= m->rules.tries))
        set_aside(m, host, place, why);
}

void membership_forgive(struct rg_membership *m)
{
    for (struct machine *machine = m->wanted; machine; machine = machine->next) {
        if (!machine->until_ns || !membership_passed(m, machine->until_ns))
            continue;
        machine->until_ns = 0;
        m->dirty = true;
        membership_act(m, RG_MEMBERSHIP_BACK, NULL, NULL)->name = machine->name;
    }
}
