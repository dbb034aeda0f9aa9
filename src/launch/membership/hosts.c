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
    for (int i = 0; i < m->nwanted; i++)
        m->machines[m->wanted[i]].slots = m->machines[m->wanted[i]].left = 0;
    m->nwanted = 0;
    for (size_t i = 0; i < nwanted; i++) {
        int name = wanted[i].name, slots = least(wanted[i].slots, m->rules.room_places);
        if (name < 0 || slots <= 0)
            continue;
        if (name >= m->rules.room_hosts) {
            m->no_room = true;
            continue;
        }
        struct machine *machine = &m->machines[name];
        if (!machine->slots)
            m->wanted[m->nwanted++] = name;
        machine->slots = least(machine->slots + slots, m->rules.room_places);
    }
    m->dirty = true;
}

/* --- slots ------------------------------------------------------------------------------------ */

static void add_host(struct rg_membership *m, int name, int slots)
{
    const struct rg_membership_rules *rules = &m->rules;
    int nslots = least(slots, rules->room_places - m->nplaces);
    struct host **at = &m->live;

    m->no_room |= m->nhosts == rules->room_hosts || nslots < slots;
    if (m->nhosts == rules->room_hosts || nslots == 0)
        return;
    struct host *host = &m->hosts[m->nhosts];
    *host = (struct host){ .number = m->nhosts, .name = name, .first = m->nplaces,
                            .nslots = nslots, .keep = nslots };
    for (; nslots > 0; nslots--, m->nplaces++)
        m->places[m->nplaces] = (struct place){ .number = m->nplaces, .host = m->nhosts };
    while (*at)
        at = &(*at)->next;
    *at = host;
    struct rg_membership_action *action =
        membership_act(m, RG_MEMBERSHIP_ADD_HOST, m->nhosts++, host->first);
    action->name = name;
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
static int first_of(const struct rg_membership *m, const struct host *host, int n)
{
    int i = 0;

    for (; n > 0 && i < host->nslots; i++)
        n -= !m->places[host->first + i].done;
    return i;
}

/* Hosts that are there keep what they have, the oldest first; then come new ones. A failed one's
 * slots are not free before it is. */
static void deal(struct rg_membership *m)
{
    int left = m->rules.max_np ? m->rules.max_np : INT_MAX;

    for (int i = 0; i < m->nwanted; i++) {
        struct machine *machine = &m->machines[m->wanted[i]];
        machine->left = may_be_used(machine) ? machine->slots : 0;
    }
    for (struct host *host = m->live; host; host = host->next) {
        struct machine *machine = &m->machines[host->name];
        int mine = least(host->nslots - host->ndone, machine->left);
        int keep = host->failed ? 0 : least(mine, left);
        host->keep = first_of(m, host, keep);
        left -= keep;
        machine->left -= mine;
    }
    for (int i = 0; i < m->nwanted; i++) {
        int slots = least(m->machines[m->wanted[i]].left, left);
        left -= slots;
        if (slots > 0)
            add_host(m, m->wanted[i], slots);
    }
}

static bool is_in_use(const struct rg_membership *m, const struct host *host)
{
    for (int i = 0; i < host->nslots; i++) {
        const struct place *place = &m->places[host->first + i];
        if (place->live || place->accuses)
            return true;
    }
    return host->keep > 0;
}

static void release(struct rg_membership *m)
{
    for (struct host *host = m->live; host; host = host->next) {
        if (is_in_use(m, host))
            continue;
        membership_drop_host(m, host, STAY_FREE);
        membership_act(m, RG_MEMBERSHIP_RELEASE, host->number, -1);
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

void membership_lose(struct rg_membership *m, int host, int place)
{
    if (m->phase != PHASE_RUN)
        return;
    m->last_bad = true;
    if (!m->change.lost) {
        m->change.host = host + 1;
        m->change.place = place + 1;
    }
    m->change.lost = true;
}

void membership_tell(struct rg_membership *m, struct place *place)
{
    if (!is_staying(place))
        return;
    place->told = true;
    place->due_ns = membership_after(m->now_ns, m->rules.grace_ns);
    membership_passed(m, place->due_ns);
    membership_act(m, RG_MEMBERSHIP_END_RANK, place->host, place->number);
}

static uint64_t cooldown_ns(const struct rg_membership *m, int failures)
{
    uint64_t ns = m->rules.cooldown_min_ns, max = m->rules.cooldown_max_ns;

    for (; failures > m->rules.tries && failures > 1 && ns < max; failures--)
        ns *= 2;
    return ns < max ? ns : max;
}

static void set_aside(struct rg_membership *m, struct host *host, int place,
                      enum rg_membership_why why)
{
    struct machine *machine = &m->machines[host->name];

    host->failed = true;
    host->keep = 0;
    m->dirty = true;
    for (int i = 0; i < host->nslots; i++) {
        struct place *other = &m->places[host->first + i];
        if (is_staying(other) && other->member)
            membership_lose(m, host->number, place);
        membership_tell(m, other);
    }
    machine->until_ns = membership_after(m->now_ns, cooldown_ns(m, machine->failures));
    machine->why = why;
    machine->host = host->number;
    machine->place = place;
    struct rg_membership_action *action =
        membership_act(m, RG_MEMBERSHIP_ASIDE, host->number, place);
    action->name = host->name;
    action->why = why;
    action->until_ns = machine->until_ns;
}

/* What leaves anyway has not failed. */
void membership_fail(struct rg_membership *m, int host_number, int place,
                     enum rg_membership_why why)
{
    struct host *host = &m->hosts[host_number];

    if (host->keep <= (place < 0 ? 0 : place - host->first))
        return;
    int failures = ++m->machines[host->name].failures;
    if (place < 0 || (m->rules.tries && failures >= m->rules.tries))
        set_aside(m, host, place, why);
}

void membership_forgive(struct rg_membership *m)
{
    for (int i = 0; i < m->nwanted; i++) {
        struct machine *machine = &m->machines[m->wanted[i]];
        if (!machine->until_ns || !membership_passed(m, machine->until_ns))
            continue;
        machine->until_ns = 0;
        m->dirty = true;
        membership_act(m, RG_MEMBERSHIP_BACK, -1, -1)->name = m->wanted[i];
    }
}
