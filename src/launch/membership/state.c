/* SPDX-License-Identifier: Apache-2.0 */
/* A membership's memory, its time, and what can be asked about it. */
#include "launch/membership/state.h"

#include <errno.h>
#include <stdlib.h>

/* --- life ------------------------------------------------------------------------------------- */

static bool is_sound(const struct rg_membership_rules *rules)
{
    int most = rules->max_np ? rules->max_np : rules->room_places;

    return rules->min_np >= 1 && rules->np >= rules->min_np && most >= rules->np &&
           rules->room_places >= rules->np && rules->room_hosts >= 1 &&
           rules->reset_limit >= -1 && rules->spares >= 0 && (rules->max_np || !rules->spares) &&
           rules->tries >= (rules->way == RG_MEMBERSHIP_RESTART ? 0 : 1);
}

int rg_membership_create(const struct rg_membership_rules *rules, uint64_t now_ns,
                         struct rg_membership **ret_membership)
{
    if (!is_sound(rules))
        return -EINVAL;
    size_t nhosts = (size_t) rules->room_hosts, nplaces = (size_t) rules->room_places;
    size_t nactions = nplaces + 5 * nhosts + 4;
    struct rg_membership *m =
        calloc(1, sizeof(*m) + nactions * sizeof(*m->actions) +
                      nplaces * (sizeof(*m->places) + sizeof(*m->next) + sizeof(int)) +
                      nhosts * (sizeof(*m->machines) + sizeof(*m->hosts)));

    if (!m)
        return -ENOMEM;
    m->rules = *rules;
    m->change.wait_ns = now_ns;
    m->actions = (void *) (m + 1);
    m->machines = (void *) (m->actions + nactions);
    m->places = (void *) (m->machines + nhosts);
    m->hosts = (void *) (m->places + nplaces);
    m->next = (void *) (m->hosts + nhosts);
    m->order = (void *) (m->next + nplaces);
    m->epoch.places = m->order;
    m->deadline_ns = membership_after(now_ns, rules->timeout_ns);
    *ret_membership = m;
    return 0;
}

void rg_membership_destroy(struct rg_membership *membership)
{
    free(membership);
}

uint64_t membership_after(uint64_t since_ns, uint64_t after_ns)
{
    return since_ns && after_ns && after_ns < RG_NEVER_NS - since_ns ? since_ns + after_ns :
                                                                       RG_NEVER_NS;
}

bool membership_passed(struct rg_membership *m, uint64_t when_ns)
{
    if (when_ns <= m->now_ns)
        return true;
    if (when_ns < m->deadline_ns)
        m->deadline_ns = when_ns;
    return false;
}

struct place *membership_each(const struct rg_membership *m, const struct place *place)
{
    const struct host *host = m->live;

    if (place) {
        host = place->host;
        if (++place < host->places + host->nslots)
            return (struct place *) place;
        host = host->next;
    }
    return host ? host->places : NULL;
}

struct rg_membership_action *membership_act(struct rg_membership *m,
                                            enum rg_membership_action_type type,
                                            const struct host *host, const struct place *place)
{
    struct rg_membership_action *action = &m->actions[m->nactions++];

    *action = (struct rg_membership_action){
        .type = type, .host = host ? host->number : -1, .place = place ? place->number : -1
    };
    return action;
}

struct rg_membership_action *membership_end(struct rg_membership *m, enum rg_membership_cause cause,
                                            int has, int needs)
{
    struct rg_membership_action *action =
        membership_act(m, RG_MEMBERSHIP_END, m->change.host, m->change.place);

    action->cause = cause;
    action->has = has;
    action->needs = needs;
    m->phase = PHASE_OVER;
    return action;
}

/* --- questions -------------------------------------------------------------------------------- */

uint64_t rg_membership_deadline_ns(const struct rg_membership *membership)
{
    return membership->deadline_ns;
}

struct rg_membership_epoch rg_membership_epoch(const struct rg_membership *membership)
{
    return membership->epoch;
}

int rg_membership_rank(const struct rg_membership *membership, int place)
{
    return membership->places[place].rank - 1;
}

int rg_membership_host(const struct rg_membership *membership, int place)
{
    return membership->places[place].host->number;
}

bool rg_membership_waits(const struct rg_membership *membership, int place)
{
    const struct place *own = &membership->places[place];

    return is_staying(own) && own->meets && !own->member;
}

enum rg_membership_meeting rg_membership_meeting(const struct rg_membership *membership, int place)
{
    const struct place *own = &membership->places[place];

    if (!is_staying(own) || !own->member)
        return own->live && !own->meets ? RG_MEMBERSHIP_BUSY : RG_MEMBERSHIP_ELSEWHERE;
    return own->meets ? RG_MEMBERSHIP_COME : RG_MEMBERSHIP_AWAITED;
}

bool rg_membership_starts(const struct rg_membership *membership, int place)
{
    return membership->places[place].started == membership->step;
}

/* Its rank as it is, or as it will be; plus 1. */
static int seat_of(const struct place *place)
{
    return place->member || !place->live ? place->rank : place->forecast;
}

struct rg_membership_seat rg_membership_seat(const struct rg_membership *membership, int place)
{
    const struct rg_membership *m = membership;
    const struct place *own = &m->places[place];
    bool now = own->member || !own->live;
    struct rg_membership_seat ret = { m->epoch.number + !now, seat_of(own) - 1,
                                      now ? m->epoch.size : m->nforecast, 0, 0 };

    EACH_PLACE_OF(own->host, other) {
        int rank = seat_of(other);
        ret.local_size += rank > 0;
        ret.local_rank += rank > 0 && (other < own ? rank <= seat_of(own) : rank < seat_of(own));
    }
    return ret;
}

bool rg_membership_in_place(const struct rg_membership *membership)
{
    enum rg_membership_way way = membership->rules.way;

    return way == RG_MEMBERSHIP_IN_PLACE ||
           (way == RG_MEMBERSHIP_BY_RANKS && membership->said_elastic);
}

int rg_membership_restarts(const struct rg_membership *membership)
{
    return membership->restarts;
}

bool rg_membership_finishing(const struct rg_membership *membership)
{
    return membership->finishing;
}

int rg_membership_nhosts(const struct rg_membership *membership)
{
    return membership->nhosts;
}

int rg_membership_nplaces(const struct rg_membership *membership)
{
    return membership->nplaces;
}

enum rg_membership_host_state rg_membership_host_state(const struct rg_membership *membership,
                                                       int host)
{
    const struct host *h = &membership->hosts[host];

    if (h->stay == STAY_FREE)
        return RG_MEMBERSHIP_HOST_IS_FREE;
    if (h->stay == STAY_GONE)
        return RG_MEMBERSHIP_HOST_IS_GONE;
    if (h->keep == 0)
        return RG_MEMBERSHIP_HOST_LEAVES;
    return h->stay == STAY_READY ? RG_MEMBERSHIP_HOST_IS_READY : RG_MEMBERSHIP_HOST_STARTS;
}

static bool has_name(const int *names, size_t count, int name)
{
    while (count > 0 && names[count - 1] != name)
        count--;
    return count > 0;
}

int rg_membership_without(const struct rg_membership *membership, const int *names, size_t count)
{
    int max_np = membership->rules.max_np, n = 0;

    for (const struct machine *machine = membership->wanted; machine; machine = machine->next) {
        if (may_be_used(machine) && !has_name(names, count, machine->name))
            n += machine->slots;
    }
    return max_np && n > max_np ? max_np : n;
}

bool rg_membership_aside(const struct rg_membership *membership, int name,
                         struct rg_membership_aside *ret_aside)
{
    const struct machine *machine = &membership->machines[name];

    if (!machine->until_ns && !machine->drained)
        return false;
    *ret_aside = (struct rg_membership_aside){ machine->until_ns, machine->why, machine->host,
                                               machine->place, machine->failures };
    if (machine->drained) {
        ret_aside->until_ns = RG_NEVER_NS;
        ret_aside->why = RG_MEMBERSHIP_DRAINED;
        ret_aside->host = ret_aside->place = -1;
    }
    return true;
}
