/* SPDX-License-Identifier: Apache-2.0 */
/* What there is, is counted; then it is decided whether that is enough for an epoch. */
#include "launch/membership/epoch.h"

#include <limits.h>

#include "launch/membership/hosts.h"

/* What there is to make an epoch of. */
struct census {
    int members, met;  /* that stay, and that have met */
    int kept;          /* could be ranks of the next epoch: members whose machine stays, and joiners
                        * of hosts that are complete, as far as there are seats */
    int joiners;       /* those */
    int startable;     /* places without a process */
    bool on_the_way;   /* a host or joiner is */
    bool all_elastic;  /* the members */
};

static bool is_startable(const struct place *place)
{
    return !place->live && !place->done && !place->accuses && is_kept(place) &&
           place->host->stay == STAY_READY;
}

static void count_host(const struct host *host, struct census *c)
{
    int met = 0, joiners = 0;

    c->on_the_way |= host->stay == STAY_STARTS && host->keep > 0;
    EACH_PLACE_OF(host, place) {
        bool kept = is_kept(place);
        c->startable += is_startable(place);
        if (!is_staying(place))
            continue;
        if (place->member) {
            c->members++;
            c->met += place->meets;
            c->kept += kept;
            c->all_elastic &= place->elastic;
        } else if (kept) {
            joiners++;
            met += place->meets;
        }
    }
    c->on_the_way |= met < joiners;
    if (met == joiners) {
        c->joiners += joiners;
        c->kept += joiners;
    }
}

/* With so many ranks an epoch takes no more. */
static bool has_no_seat(const struct rg_membership *m, int n)
{
    return m->rules.max_np && n >= m->rules.max_np;
}

static struct census count(const struct rg_membership *m)
{
    struct census c = { .all_elastic = true };

    for (struct host *host = m->live; host; host = host->next)
        count_host(host, &c);
    for (; c.joiners > 0 && has_no_seat(m, c.kept - 1); c.joiners--)
        c.kept--;
    return c;
}

/* Places without a process that would have a seat. */
static int count_seats(const struct rg_membership *m, const struct census *c)
{
    int free = m->rules.max_np - c->kept;

    return m->rules.max_np && free < c->startable ? free : c->startable;
}

/* --- an epoch --------------------------------------------------------------------------------- */

/* Whoever has had the state for longer comes first, then the older host. 0 is never. */
static uint64_t key_of(const struct place *place)
{
    return (uint64_t) (place->since - 1) << 32 | (place->host->since - 1);
}

/* Hosts and places come in their order already, but for those that were started later. */
static void insert(struct place **next, int n, struct place *place)
{
    for (; n > 0 && key_of(place) < key_of(next[n - 1]); n--)
        next[n] = next[n - 1];
    next[n] = place;
}

enum wanted { WANT_MET, WANT_ALL };

/* Put the places of the next epoch into next; who: those that have met, or all that live or could
 * be started. Of those that leave only as many stay for once as it takes to have min_np, or to have
 * one with the state. Returns how many. */
static int choose(struct rg_membership *m, enum wanted who)
{
    int n = 0, nkept = 0, nchosen = 0, room = m->rules.max_np ? m->rules.max_np : INT_MAX;
    bool has = false;
    EACH_PLACE(m, place) {
        bool kept = m->finishing || is_kept(place);
        if (!(is_staying(place) && (place->meets || who == WANT_ALL)) &&
            !(who == WANT_ALL && is_startable(place)))
            continue;
        insert(m->next, n++, place);
        nkept += kept;
        has |= kept && place->since;
    }
    int stay = m->rules.min_np - nkept;
    if (stay < 1 && !has)
        stay = 1;
    for (int i = 0; i < n; i++) {
        struct place *place = m->next[i];
        if (m->finishing || (is_kept(place) ? room-- > 0 : place->since && stay-- > 0))
            m->next[nchosen++] = place;
    }
    return nchosen;
}

static void seat(struct rg_membership *m, struct place *place, int rank)
{
    struct host *host = place->host;

    m->order[rank] = place->number;
    m->epoch.sync |= !place->since || place->met_failed;
    place->rank = rank + 1;
    place->member = true;
    place->meets = place->met_failed = false;
    if (!place->since)
        place->since = m->epoch.number;
    if (!host->since)
        host->since = m->epoch.number;
    host->machine->vain = 0;
}

/* Who is no rank, and will not be one, ends. */
static void dismiss(struct rg_membership *m)
{
    EACH_PLACE(m, place) {
        if (!place->member && (m->finishing || !is_kept(place)))
            membership_tell(m, place);
    }
}

/* next has n places. */
static void publish(struct rg_membership *m, int n)
{
    for (int i = 0; i < m->epoch.size; i++) {
        m->places[m->order[i]].rank = 0;
        m->places[m->order[i]].member = false;
    }
    m->epoch.number += m->rules.elastic;
    m->epoch.size = n;
    m->epoch.sync = false;
    for (int i = 0; i < n; i++)
        seat(m, m->next[i], i);
    m->change = (struct change){ .began_ns = m->now_ns };
    if (m->rules.elastic)
        membership_act(m, RG_MEMBERSHIP_PUBLISH, NULL, NULL);
    dismiss(m);
}

/* --- starting ranks --------------------------------------------------------------------------- */

static bool start_host(struct rg_membership *m, const struct host *host, bool joiners,
                       uint64_t due_ns)
{
    bool some = false;

    EACH_PLACE_OF(host, place) {
        if (!is_startable(place) || place->member == joiners)
            continue;
        place->live = some = true;
        place->bad = false;
        place->due_ns = due_ns;
        place->started = m->step;
        m->nalive++;
    }
    return some;
}

/* Those that have a seat in the epoch, or the others. */
static void start_ranks(struct rg_membership *m, bool joiners, uint64_t due_ns)
{
    membership_passed(m, due_ns);
    for (struct host *host = m->live; host; host = host->next) {
        if (start_host(m, host, joiners, due_ns))
            membership_act(m, RG_MEMBERSHIP_START_RANKS, host, NULL);
    }
}

/* Further ranks, which are to meet the others. Their numbers are a guess. */
static void start_joiners(struct rg_membership *m)
{
    m->nforecast = choose(m, WANT_ALL);
    EACH_PLACE(m, place)
        place->forecast = m->nforecast;
    for (int i = 0; i < m->nforecast; i++)
        m->next[i]->forecast = i + 1;
    start_ranks(m, true, membership_after(m->now_ns, m->rules.join_ns));
}

/* --- waiting for ranks ------------------------------------------------------------------------ */

/* What the machines that there are could ever give. */
static int reachable(const struct rg_membership *m)
{
    int n = 0;

    for (const struct machine *machine = m->wanted; machine; machine = machine->next) {
        if (!machine->drained && machine->until_ns != RG_NEVER_NS)
            n += machine->slots;
    }
    return n;
}

/* There are not enough, has of them, to go on. That ends when it is hopeless, or in time. */
static void wait_for_more(struct rg_membership *m, int has, int needs)
{
    int most = m->wanted ? reachable(m) : needs; /* a list may still come */
    bool none = m->nalive == 0 && most == 0;
    bool hopeless = none || (m->rules.wanted_once && most < needs);

    m->change.ready_ns = 0;
    if (!m->change.wait_ns)
        m->change.wait_ns = m->now_ns;
    if (!hopeless &&
        !membership_passed(m, membership_after(m->change.wait_ns, m->rules.timeout_ns)))
        return;
    /* Without hope it does not wait for places to come up: what counts is what could be. */
    membership_end(m, m->nalive == 0 && m->change.lost ? RG_MEMBERSHIP_ALL_FAILED :
                   none ? RG_MEMBERSHIP_ALL_ASIDE :
                   m->no_room ? RG_MEMBERSHIP_NO_ROOM : RG_MEMBERSHIP_TOO_FEW,
                   hopeless && most > has ? most : has, needs)
        ->waited = !hopeless;
}

/* It could go on now; whether it waits a little for those on their way. */
static bool gathers(struct rg_membership *m, bool on_the_way)
{
    if (!m->change.ready_ns)
        m->change.ready_ns = m->now_ns;
    return on_the_way &&
           !membership_passed(m, membership_after(m->change.ready_ns, m->rules.gather_ns));
}

/* --- the phases ------------------------------------------------------------------------------- */

/* One more change than allowed is none. counts: by a failure, or wherever any change counts. */
static bool is_too_much(struct rg_membership *m, bool counts)
{
    if (!counts || m->rules.reset_limit < 0 || m->resets++ < m->rules.reset_limit)
        return false;
    membership_end(m, RG_MEMBERSHIP_RESET_LIMIT, 0, 0);
    return true;
}

static void gather(struct rg_membership *m)
{
    int needs = m->epoch.number ? m->rules.min_np : m->rules.np;
    struct census c = count(m);

    if (c.startable < needs) {
        wait_for_more(m, c.startable, needs);
        return;
    }
    if (gathers(m, c.on_the_way && !has_no_seat(m, c.startable)))
        return;
    int n = choose(m, WANT_ALL);
    publish(m, n);
    start_ranks(m, false, RG_NEVER_NS);
    m->phase = PHASE_RUN;
}

static void restart_all(struct rg_membership *m)
{
    m->phase = PHASE_ENDING;
    m->change.wait_ns = m->change.ready_ns = 0;
    m->restarts++;
    m->change.blamed |= m->naccusers == 0; /* who ends from now on ends by this */
    membership_act(m, RG_MEMBERSHIP_RESTARTS, m->change.host, m->change.place);
    EACH_PLACE(m, place)
        membership_tell(m, place);
}

/* Programs that cannot meet: all are ended. */
static void run_apart(struct rg_membership *m)
{
    struct census c;

    if (m->change.lost && m->finishing) {
        membership_end(m, RG_MEMBERSHIP_ONE_FAILED, 0, 0);
        return;
    }
    if (m->change.lost) {
        if (!is_too_much(m, true))
            restart_all(m);
        return;
    }
    c = count(m);
    int seats = count_seats(m, &c);
    if (m->finishing || (c.kept == c.members && seats == 0) ||
        c.kept + seats < m->rules.min_np) {
        m->change.ready_ns = 0;
        return;
    }
    if (m->rules.way == RG_MEMBERSHIP_BY_RANKS &&
        !membership_passed(m, membership_after(m->change.began_ns, m->rules.settle_ns)))
        return;
    if (!gathers(m, c.on_the_way) && !is_too_much(m, m->rules.way != RG_MEMBERSHIP_RESTART))
        restart_all(m);
}

/* All work. Is there a reason to disturb them? */
static void run_on(struct rg_membership *m, const struct census *c)
{
    if (m->change.updated || m->finishing || c->kept < m->rules.min_np ||
        (c->kept == c->members && c->joiners == 0)) {
        m->change.ready_ns = 0;
        return;
    }
    /* Those that have no epoch yet would not hear of it. */
    if (gathers(m, c->on_the_way && !has_no_seat(m, c->kept)) ||
        (!c->all_elastic &&
         !membership_passed(m, membership_after(m->change.began_ns, m->rules.settle_ns))))
        return;
    if (is_too_much(m, true))
        return;
    m->change.updated = true;
    membership_act(m, RG_MEMBERSHIP_UPDATE, NULL, NULL)->result =
        (c->kept - c->joiners < c->members) | (c->joiners > 0) << 1;
}

/* Whoever of the epoch is left has come. Joiners that have come, too, are taken; others are waited
 * for only if it takes them. */
static void meet(struct rg_membership *m, const struct census *c)
{
    int needs = m->finishing ? 1 : m->rules.min_np;
    int n = choose(m, WANT_MET);

    if (n < needs) {
        if (!m->finishing)
            wait_for_more(m, n, needs);
    } else if (c->members >= needs || !gathers(m, c->on_the_way)) {
        publish(m, n);
    }
}

static void run_in_place(struct rg_membership *m)
{
    dismiss(m);
    struct census c = count(m);
    if (c.startable > 0 && !m->finishing) {
        start_joiners(m);
        c = count(m);
    }
    bool moved = m->change.lost || c.met > 0 || c.members == 0;

    if (!moved) {
        run_on(m, &c);
        return;
    }
    if (!m->change.wait_ns) {
        m->change.wait_ns = m->now_ns;
        if (!m->change.updated && !m->finishing && is_too_much(m, true))
            return;
    }
    if (c.met == c.members && m->change.left)
        meet(m, &c);
    else if (c.met < c.members)
        membership_passed(m, membership_after(m->change.wait_ns, m->rules.leave_ns));
}

static void finish(struct rg_membership *m)
{
    if (m->rules.elastic)
        dismiss(m);
    if (m->nalive == 0)
        membership_end(m, m->last_bad ? RG_MEMBERSHIP_ALL_FAILED : RG_MEMBERSHIP_ALL_DONE, 0, 0);
}

void membership_advance(struct rg_membership *m)
{
    if (m->phase == PHASE_RUN && m->finishing)
        finish(m);
    if (m->phase == PHASE_RUN && m->rules.elastic) {
        if (rg_membership_in_place(m))
            run_in_place(m);
        else
            run_apart(m);
    }
    if (m->phase == PHASE_ENDING && m->nalive == 0)
        m->phase = PHASE_GATHER;
    if (m->phase == PHASE_GATHER)
        gather(m);
}
