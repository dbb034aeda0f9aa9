/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each event changes by itself; then whatever can go on goes on. In ENDING an event counts for
 * the time after it.
 *
 *  state         what it is                                            it ends
 *  GATHER        no rank runs; hosts are awaited                       with an epoch, or at the
 *                                                                      timeout
 *  RUN           members work; when one is lost or comes to meet,      with a restart, or the job
 *                all others are awaited, and the next epoch begins
 *  ENDING        all ranks are being ended, to be started again        in GATHER
 *  OVER          the job has ended                                     never
 *
 *  event         GATHER                     RUN                               ENDING
 *  WANTED        new machines get hosts,    the same, but unwanted places     as in GATHER
 *                unwanted are released      become leavers, the last first
 *  HOST_READY    its slots count            in place: its ranks are joiners;  as in GATHER
 *                                           restart: its slots count
 *  HOST_LOST     a failed one sets its      the same; its members are lost    as in GATHER
 *                machine aside; another
 *                is replaced
 *  HOST_GOES     its machine is not wanted  its places become leavers, too    as in GATHER
 *                until it is lost
 *  RANK_ENDED    -                          well: the job is finishing;       one less is awaited
 *                                           badly: a member is lost, its
 *                                           machine set aside
 *  RANK_ELASTIC  -                          the job goes on in place          the same
 *  RANK_MEETS    -                          in place: it waits for the next   -
 *                                           epoch; restart: if its epoch
 *                                           failed, all are started again
 *  DRAIN         the machine is not wanted  the same; who is still there at   the same
 *                any more                   its deadline is lost, but has
 *                                           not failed
 *  TICK          deadlines are looked at    the same                          the same
 *  STOP          the state is OVER          the same                          the same
 */
#include "launch/membership/epoch.h"
#include "launch/membership/hosts.h"

#define VAIN_MAX 3 /* hosts of a machine that the platform takes away before they were of any use */
#define VAIN_NS (600 * RG_NS_PER_S) /* none of them later than this behind the one before */

/* --- events ----------------------------------------------------------------------------------- */

/* Where all are ended, they may end by the first failure: nobody else pays for it. */
static void blame(struct rg_membership *m, struct place *place, enum rg_membership_why why,
                  bool faulty)
{
    if (m->change.blamed && !rg_membership_in_place(m))
        return;
    m->change.blamed = true;
    membership_fail(m, place->host, place, why, faulty);
}

static void empty(struct rg_membership *m, struct place *place)
{
    *place = (struct place){ .number = place->number, .host = place->host,
                             .rank = place->rank, .accuses = place->accuses,
                             .done = place->done };
    m->nalive--;
}

/* The agent would take another process there for the rank that this one was: its slot is to be had
 * again as another place. */
static void retire(struct rg_membership *m, struct place *place)
{
    place->done = true;
    place->host->ndone++;
    m->dirty = true;
}

static void end_well(struct rg_membership *m, struct place *place, bool member)
{
    place->done |= !member;
    if (!member || m->phase != PHASE_RUN)
        return;
    m->finishing = true;
    m->last_bad = false;
}

static void end_badly(struct rg_membership *m, struct place *place, bool member,
                      const struct rg_membership_event *event)
{
    int cut_by = event->cut_by;

    if (member)
        membership_lose(m, place->host, place);
    if (!m->rules.elastic) {
        membership_end(m, RG_MEMBERSHIP_ONE_FAILED, 0, 0);
    } else if (cut_by >= 0 && cut_by < m->nplaces && cut_by != place->number) {
        place->accuses = &m->places[cut_by];
        m->naccusers++;
    } else {
        blame(m, place, RG_MEMBERSHIP_RANK_FAILED, event->faulty);
    }
}

static void on_ended(struct rg_membership *m, const struct rg_membership_event *event,
                     struct place *place)
{
    bool member = place->member, told = place->told;

    if (!place->live)
        return;
    empty(m, place);
    place->bad = !event->ok && !event->asked;
    m->change.left |= member;
    if (member && m->phase == PHASE_RUN && rg_membership_in_place(m))
        retire(m, place);
    if (event->ok && !told)
        end_well(m, place, member);
    else if (!event->ok && (!told || (m->phase == PHASE_ENDING && place->bad && !m->change.blamed)))
        end_badly(m, place, member, event);
}

static void on_meets(struct rg_membership *m, const struct rg_membership_event *event,
                     struct place *place)
{
    if (!is_staying(place) || m->phase != PHASE_RUN || !m->rules.elastic ||
        (place->member && event->epoch != m->epoch.number))
        return;
    if (!rg_membership_in_place(m)) {
        if (event->failed)
            membership_lose(m, place->host, place);
        return;
    }
    m->change.left |= place->member;
    place->host->machine->vain = 0;
    place->meets = true;
    place->met_failed = event->failed;
    if (event->lacks)
        place->since = 0;
}

static void on_elastic(struct rg_membership *m, struct place *place)
{
    if (!place->live)
        return;
    place->elastic = true;
    m->said_elastic = true;
}

/* A machine whose hosts the platform takes away again and again, before any rank of them has come
 * to meet the others, is of no use. A spare one may wait for days, and be lost as often. */
static bool is_vain(struct rg_membership *m, struct host *host)
{
    struct machine *machine = host->machine;

    if (host->stay >= STAY_FREE || host->since)
        return false;
    if (m->now_ns - machine->vain_ns > VAIN_NS)
        machine->vain = 0;
    machine->vain_ns = m->now_ns;
    return ++machine->vain == VAIN_MAX;
}

/* All its processes are gone with it. */
static void on_host_lost(struct rg_membership *m, struct host *host, bool failed)
{
    bool came = host->stay == STAY_READY, some = false;

    failed |= is_vain(m, host);
    if (failed)
        host->machine->vain = 0;
    if (host->machine->goes) {
        m->dirty = true;
        host->machine->goes = false;
        host->machine->drain_ns = 0;
    }
    EACH_PLACE_OF(host, place) {
        some |= place->member;
        m->naccusers -= place->accuses != NULL;
        place->accuses = NULL;
        if (place->live)
            empty(m, place);
        place->bad |= failed;
    }
    if (some) {
        membership_lose(m, host, NULL);
        m->change.left = m->change.blamed = true;
    }
    if (!m->rules.elastic && (failed || some))
        membership_end(m, RG_MEMBERSHIP_ONE_FAILED, 0, 0)->host = host->number;
    else if (failed)
        membership_fail(m, host, NULL,
                        came ? RG_MEMBERSHIP_AGENT_LOST : RG_MEMBERSHIP_NEVER_CAME, false);
    membership_drop_host(m, host, STAY_GONE);
}

static void on_place(struct rg_membership *m, const struct rg_membership_event *event)
{
    struct place *place = &m->places[event->place];

    if (event->place < 0 || event->place >= m->nplaces)
        return;
    if (event->type == RG_MEMBERSHIP_RANK_ENDED)
        on_ended(m, event, place);
    else if (event->type == RG_MEMBERSHIP_RANK_MEETS)
        on_meets(m, event, place);
    else
        on_elastic(m, place);
}

/* The earlier one counts of two times, of which 0 is the latest. */
static void take_deadline(struct machine *machine, uint64_t until_ns)
{
    if (until_ns && until_ns - 1 < machine->drain_ns - 1)
        machine->drain_ns = until_ns;
}

static void on_host_goes(struct rg_membership *m, struct host *host, uint64_t until_ns)
{
    if (host->stay >= STAY_FREE)
        return;
    host->machine->goes = m->dirty = true;
    take_deadline(host->machine, until_ns);
}

static void on_host(struct rg_membership *m, const struct rg_membership_event *event)
{
    struct host *host = &m->hosts[event->host];

    if (event->host < 0 || event->host >= m->nhosts)
        return;
    if (event->type == RG_MEMBERSHIP_HOST_LOST)
        on_host_lost(m, host, event->failed);
    else if (event->type == RG_MEMBERSHIP_HOST_GOES)
        on_host_goes(m, host, event->until_ns);
    else if (host->stay == STAY_STARTS)
        host->stay = STAY_READY;
    else if (host->stay == STAY_FREE)
        membership_act(m, RG_MEMBERSHIP_RELEASE, host, NULL);
}

static void on_drain(struct rg_membership *m, const struct rg_membership_event *event)
{
    if (event->name < 0 || event->name >= m->rules.room_hosts)
        return;
    m->machines[event->name].drained = m->dirty = true;
    take_deadline(&m->machines[event->name], event->until_ns);
}

static void on_event(struct rg_membership *m, const struct rg_membership_event *event)
{
    switch (event->type) {
    case RG_MEMBERSHIP_WANTED: membership_want(m, event->wanted, event->nwanted); break;
    case RG_MEMBERSHIP_HOST_READY:
    case RG_MEMBERSHIP_HOST_GOES:
    case RG_MEMBERSHIP_HOST_LOST: on_host(m, event); break;
    case RG_MEMBERSHIP_RANK_ENDED:
    case RG_MEMBERSHIP_RANK_ELASTIC:
    case RG_MEMBERSHIP_RANK_MEETS: on_place(m, event); break;
    case RG_MEMBERSHIP_DRAIN:
        on_drain(m, event);
        break;
    case RG_MEMBERSHIP_STOP: m->phase = PHASE_OVER; break;
    case RG_MEMBERSHIP_TICK: break;
    }
}

/* --- what follows ----------------------------------------------------------------------------- */

/* Those that said who was to blame for their end: it is clear once that one has ended, or meets. */
static void judge(struct rg_membership *m)
{
    EACH_PLACE(m, place) {
        const struct place *accused = place->accuses;
        if (!accused)
            continue;
        if (is_staying(accused) ? !accused->meets : accused->live)
            continue;
        place->accuses = NULL;
        m->naccusers--;
        if (accused->live || !accused->bad)
            blame(m, place, RG_MEMBERSHIP_RANK_FAILED, false);
    }
}

/* By when a place that stays has to meet. */
static uint64_t meets_by_ns(const struct rg_membership *m, const struct place *place)
{
    if (place->meets || m->phase != PHASE_RUN || !rg_membership_in_place(m))
        return RG_NEVER_NS;
    if (!place->member)
        return place->due_ns;
    return membership_after(m->change.wait_ns, m->rules.leave_ns);
}

/* Its machine is needed for something else now: who is still there has not failed, but is lost. */
static void evict(struct rg_membership *m, struct place *place)
{
    uint64_t drain_ns = place->host->machine->drain_ns;

    if (!drain_ns || !is_staying(place) || !membership_passed(m, drain_ns))
        return;
    if (place->member)
        membership_lose(m, place->host, place);
    membership_tell(m, place);
}

static void expire(struct rg_membership *m)
{
    membership_forgive(m);
    EACH_PLACE(m, place) {
        evict(m, place);
        if (!place->live || place->hard ||
            !membership_passed(m, place->told ? place->due_ns : meets_by_ns(m, place)))
            continue;
        if (place->told) {
            place->hard = true;
            membership_act(m, RG_MEMBERSHIP_END_RANK, place->host, place)->hard = true;
            continue;
        }
        if (place->member)
            membership_lose(m, place->host, place);
        blame(m, place, RG_MEMBERSHIP_NEVER_MET, false);
        membership_tell(m, place);
    }
}

size_t rg_membership_step(struct rg_membership *membership,
                          const struct rg_membership_event *event,
                          const struct rg_membership_action **ret_actions)
{
    struct rg_membership *m = membership;

    m->nactions = 0;
    m->deadline_ns = RG_NEVER_NS;
    m->now_ns = event->now_ns;
    m->step++;
    if (m->phase != PHASE_OVER)
        on_event(m, event);
    if (m->phase != PHASE_OVER) {
        if (m->naccusers > 0)
            judge(m);
        if (m->rules.elastic)
            expire(m);
        if (m->rules.elastic || m->dirty)
            membership_deal(m);
        membership_advance(m);
    }
    if (m->phase == PHASE_OVER)
        m->deadline_ns = RG_NEVER_NS;
    *ret_actions = m->actions;
    return m->nactions;
}
