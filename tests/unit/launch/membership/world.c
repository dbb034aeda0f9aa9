/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound to a move that is tried: counts down to it. */
struct turn {
    struct play *play;
    int left;
    uint32_t pick;
    bool done;
};

static void put(struct play *play, struct queue *queue, struct message message)
{
    if (queue->n == QUEUE)
        play->world.broken = "a queue is full";
    else
        queue->at[queue->n++] = message;
}

static struct message take(struct queue *queue)
{
    struct message first = queue->at[0];

    queue->n--;
    memmove(queue->at, queue->at + 1, queue->n * sizeof(first));
    memset(&queue->at[queue->n], 0, sizeof(first));
    return first;
}

static bool expect(struct play *play, bool holds, const char *what)
{
    if (!holds && !play->world.broken)
        play->world.broken = what;
    return holds;
}

static struct agent *agent_of(struct play *play, int place)
{
    return &play->world.agents[rg_membership_host(play->membership, place)];
}

/* --- epochs as the ranks see them ------------------------------------------------------------- */

static struct session *session_of(struct world *w, int number)
{
    for (int i = 0; i < EPOCHS; i++) {
        if (number && w->sessions[i].number == number)
            return &w->sessions[i];
    }
    return NULL;
}

static int rank_in(const struct session *s, int place)
{
    for (int i = 0; s && i < s->size; i++) {
        if (s->place[i] == place)
            return i;
    }
    return -1;
}

static void leave_session(struct world *w, int place)
{
    struct session *s = session_of(w, w->processes[place].epoch);
    int rank = rank_in(s, place);

    if (rank >= 0)
        s->gone[rank] = true;
}

/* Of any epoch: its process is no more, or never was. */
static void leave_all(struct world *w, int place)
{
    for (int i = 0; i < EPOCHS; i++) {
        int rank = rank_in(&w->sessions[i], place);
        if (rank >= 0)
            w->sessions[i].gone[rank] = true;
    }
}

/* A rank that gets as far as done can go on: all are that far, or have been farther. */
static bool can_go_on(const struct session *s, int done)
{
    for (int i = 0; i < s->size; i++) {
        if (s->done[i] < done + s->gone[i])
            return false;
    }
    return true;
}

static bool cannot_ever(const struct session *s, int done)
{
    for (int i = 0; i < s->size; i++) {
        if (s->gone[i] && s->done[i] <= done)
            return true;
    }
    return false;
}

static void join(struct play *play, int place, int number)
{
    struct world *w = &play->world;
    struct session *s = session_of(w, number);
    struct process *p = &w->processes[place];
    int rank = rank_in(s, place);

    if (!expect(play, rank >= 0, "a rank joins without a seat"))
        return;
    p->state = RANK_WORKS;
    p->epoch = (uint8_t) number;
    p->notice = false;
    s->done[rank] = s->sync ? 1 : 2;
    s->gone[rank] = false;
    if (rank == 0) {
        s->base = p->value;
        s->based = true;
    }
    if (play->habits.knows && !p->said) {
        p->said = true;
        put(play, &agent_of(play, place)->up,
            (struct message){ RG_MEMBERSHIP_RANK_ELASTIC, (uint8_t) place, 0, 0 });
    }
}

static void forget_sessions(struct world *w)
{
    for (int i = 0; i < EPOCHS; i++) {
        struct session *s = &w->sessions[i];
        bool used = s->number == w->epoch;
        for (int h = 0; h < HOSTS; h++) {
            used |= w->agents[h].epoch == s->number && w->agents[h].state == AGENT_READY;
            for (int k = 0; k < w->agents[h].down.n; k++)
                used |= w->agents[h].down.at[k].type == RG_MEMBERSHIP_PUBLISH &&
                        w->agents[h].down.at[k].value == s->number;
        }
        for (int k = 0; k < PLACES; k++)
            used |= w->processes[k].state && w->processes[k].epoch == s->number;
        if (!used)
            memset(s, 0, sizeof(*s));
    }
}

/* --- the launcher: carry out what a step returns, and check it -------------------------------- */

static bool state_is_lost(const struct world *w, const struct rg_membership_epoch *epoch)
{
    const struct process *first = &w->processes[epoch->places[0]];

    for (int i = 0; i < PLACES; i++) {
        const struct process *p = &w->processes[i];
        if (p->seen && p->state && !p->told && p->has &&
            (!first->has || p->value > first->value + 1))
            return true;
    }
    return false;
}

static bool all_equal(const struct world *w, const struct rg_membership_epoch *epoch)
{
    for (int i = 0; i < epoch->size; i++) {
        const struct process *p = &w->processes[epoch->places[i]];
        if (!p->has || p->value != w->processes[epoch->places[0]].value)
            return false;
    }
    return true;
}

static void check_numbers(struct play *play, const struct rg_membership_epoch *epoch)
{
    const struct rg_membership_rules *rules = &play->habits.rules;
    bool taken[PLACES] = { false };
    int nranks = 0;

    for (int i = 0; i < epoch->size; i++) {
        int place = epoch->places[i];
        expect(play, !taken[place], "a place has two ranks");
        taken[place] = true;
        expect(play, rg_membership_rank(play->membership, place) == i, "rank and place disagree");
        expect(play, !play->world.processes[place].told, "a rank has been told to end");
        expect(play, rg_membership_starts(play->membership, place) ==
               !play->world.processes[place].seen, "a rank neither lives nor starts");
    }
    for (int i = 0; i < rg_membership_nplaces(play->membership); i++)
        nranks += rg_membership_rank(play->membership, i) >= 0;
    expect(play, nranks == epoch->size, "ranks of an older epoch are left");
    expect(play, epoch->size >= (play->world.finishing ? 1 : rules->min_np), "fewer than min-np");
    expect(play, !rules->max_np || epoch->size <= rules->max_np + 1, "more than max-np");
}

static bool is_over(const struct play *play, int place)
{
    const struct process *p = &play->world.processes[place];

    return !p->seen || p->told || p->met;
}

/* Though the launcher does not know that yet. */
static bool is_dead(struct play *play, int place)
{
    const struct process *p = &play->world.processes[place];

    return (p->seen && !p->state) || agent_of(play, place)->lost;
}

/* Once there is a new epoch nobody waits who could have a seat. */
static void check_spares(struct play *play)
{
    const struct rg_membership_rules *rules = &play->habits.rules;
    int size = rg_membership_epoch(play->membership).size;

    for (int i = 0; i < PLACES && !play->world.finishing; i++) {
        const struct process *p = &play->world.processes[i];
        if (p->seen && p->met && !p->told && rg_membership_rank(play->membership, i) < 0)
            expect(play, rules->max_np && size >= rules->max_np,
                   "a spare waits beside a free seat");
    }
}

static void on_publish(struct play *play)
{
    struct world *w = &play->world;
    struct rg_membership_epoch epoch = rg_membership_epoch(play->membership);
    struct session *old = session_of(w, w->epoch), *s = NULL;

    expect(play, epoch.number == w->epoch + 1u, "epochs are not numbered in a row");
    check_numbers(play, &epoch);
    for (int i = 0; old && i < old->size; i++)
        expect(play, is_over(play, old->place[i]), "a member neither met nor was told to end");
    expect(play, !state_is_lost(w, &epoch), "rank 0 lacks the state that another one has");
    expect(play, epoch.sync || all_equal(w, &epoch), "no sync, though states differ");
    w->epoch = (uint8_t) epoch.number;
    w->updated = false;
    forget_sessions(w);
    for (int i = 0; i < EPOCHS && !s; i++)
        s = w->sessions[i].number ? NULL : &w->sessions[i];
    if (!expect(play, s != NULL, "too many epochs are in use"))
        return;
    *s = (struct session){ .number = w->epoch, .size = (uint8_t) epoch.size, .sync = epoch.sync };
    for (int i = 0; i < epoch.size; i++) {
        s->place[i] = (uint8_t) epoch.places[i];
        w->processes[epoch.places[i]].met = false;
        s->gone[i] = is_dead(play, epoch.places[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        if (w->agents[i].state == AGENT_READY)
            put(play, &w->agents[i].down,
                (struct message){ RG_MEMBERSHIP_PUBLISH, 0, w->epoch, 0 });
    }
}

static void on_add(struct play *play, const struct rg_membership_action *action)
{
    struct agent *agent = &play->world.agents[action->host];

    expect(play, agent->state == AGENT_NONE && action->slots >= 1, "a host is added twice");
    expect(play, !play->world.drained[action->name], "a drained machine is added");
    expect(play, !play->world.goes[action->name], "a machine that goes is added");
    expect(play, play->world.slots[action->name] > 0, "a machine is added that is not wanted");
    *agent = (struct agent){ .state = AGENT_STARTS, .name = (uint8_t) action->name,
                             .first = (uint8_t) action->place, .nslots = (uint8_t) action->slots };
}

static void on_start(struct play *play, const struct rg_membership_action *action)
{
    struct agent *agent = &play->world.agents[action->host];
    int n = 0;

    for (int i = agent->first; i < agent->first + agent->nslots; i++) {
        struct process *p = &play->world.processes[i];
        if (!rg_membership_starts(play->membership, i))
            continue;
        n++;
        struct rg_membership_seat seat = rg_membership_seat(play->membership, i);
        expect(play, seat.rank >= 0 && seat.rank < seat.size && seat.local_rank < seat.local_size,
               "a rank starts without a seat");
        expect(play, !p->seen, "a place gets a second process");
        struct session *s = session_of(&play->world, play->world.epoch);
        int rank = rank_in(s, i);
        expect(play, rank < 0 || agent->lost || (!s->gone[rank] && !s->done[rank]),
               "a process starts where an older one has been in this epoch");
        p->seen = true;
        put(play, &agent->down,
            (struct message){ RG_MEMBERSHIP_START_RANKS, (uint8_t) i, 0, 0 });
    }
    expect(play, n > 0, "nothing is to start there");
}

static void on_end_rank(struct play *play, const struct rg_membership_action *action)
{
    struct process *p = &play->world.processes[action->place];

    expect(play, p->seen && p->told == action->hard && !p->hard, "a rank is told to end wrongly");
    p->told = true;
    p->hard = action->hard;
    put(play, &play->world.agents[action->host].down,
        (struct message){ RG_MEMBERSHIP_END_RANK, (uint8_t) action->place, 0,
                          action->hard ? FLAG_HARD : 0 });
}

static void on_release(struct play *play, const struct rg_membership_action *action)
{
    struct agent *agent = &play->world.agents[action->host];

    for (int i = agent->first; i < agent->first + agent->nslots; i++)
        expect(play, !play->world.processes[i].seen, "a host is released that has ranks");
    expect(play, agent->state == AGENT_READY || !agent->released, "a host is released twice");
    agent->released = true;
    put(play, &agent->down, (struct message){ RG_MEMBERSHIP_RELEASE, 0, 0, 0 });
}

static void on_update(struct play *play)
{
    struct world *w = &play->world;

    expect(play, !w->updated, "a second update in an epoch");
    w->updated = true;
    for (int i = 0; i < HOSTS; i++) {
        if (w->agents[i].state == AGENT_READY)
            put(play, &w->agents[i].down, (struct message){ RG_MEMBERSHIP_UPDATE, 0, 0, 0 });
    }
}

static void on_end(struct play *play, const struct rg_membership_action *action)
{
    struct world *w = &play->world;

    w->ended = true;
    w->cause = (uint8_t) action->cause;
    w->has = action->has;
    w->needs = action->needs;
    if (play->habits.safe)
        expect(play, action->cause == RG_MEMBERSHIP_ALL_DONE || w->finishing,
               "min-np slots were there all the time, but it did not get to the end");
    if (action->cause == RG_MEMBERSHIP_ALL_DONE)
        expect(play, w->finishing, "done, though nobody has finished");
}

static const char *const ACTIONS[] = { "ADD_HOST", "START_RANKS", "END_RANK", "RELEASE", "PUBLISH",
                                       "UPDATE", "RESTARTS", "ASIDE", "BACK", "END" };
static const char *const EVENTS[] = { "WANTED", "HOST_READY", "HOST_LOST", "HOST_GOES",
                                      "RANK_ENDED", "RANK_ELASTIC", "RANK_MEETS", "DRAIN", "TICK",
                                      "STOP" };

static void tell(const struct rg_membership_action *action, struct play *play)
{
    struct rg_membership_epoch epoch = rg_membership_epoch(play->membership);

    printf("    -> %s host %d place %d name %d", ACTIONS[action->type], action->host,
           action->place, action->name);
    if (action->type == RG_MEMBERSHIP_PUBLISH) {
        printf(" epoch %u sync %d:", epoch.number, epoch.sync);
        for (int i = 0; i < epoch.size; i++)
            printf(" %d", epoch.places[i]);
    }
    if (action->type == RG_MEMBERSHIP_END)
        printf(" cause %d", action->cause);
    printf("%s\n", action->hard ? " hard" : "");
}

static void carry_out(struct play *play, const struct rg_membership_action *action)
{
    if (play->tells)
        tell(action, play);
    expect(play, !play->world.ended, "an action after the end");
    switch (action->type) {
    case RG_MEMBERSHIP_ADD_HOST: on_add(play, action); break;
    case RG_MEMBERSHIP_START_RANKS: on_start(play, action); break;
    case RG_MEMBERSHIP_END_RANK: on_end_rank(play, action); break;
    case RG_MEMBERSHIP_RELEASE: on_release(play, action); break;
    case RG_MEMBERSHIP_PUBLISH: on_publish(play); break;
    case RG_MEMBERSHIP_UPDATE: on_update(play); break;
    case RG_MEMBERSHIP_END: on_end(play, action); break;
    default: break;
    }
}

/* Nobody outlives the deadline of a drain without being told to end. */
static void check_drains(struct play *play)
{
    struct world *w = &play->world;

    for (int i = 0; i < rg_membership_nplaces(play->membership) && !w->ended; i++) {
        uint64_t drain_ns = w->drain_ns[agent_of(play, i)->name];
        expect(play, !drain_ns || drain_ns > w->now_ns || !w->processes[i].seen ||
                         w->processes[i].told, "a rank outlives the drain of its machine");
    }
}

static void hear(struct play *play);
static void come(struct play *play, int place, bool failed);

static void step(struct play *play, struct rg_membership_event *event)
{
    const struct rg_membership_action *actions;

    int epoch = play->world.epoch;

    event->now_ns = play->world.now_ns;
    if (play->tells)
        printf("%s host %d place %d name %d epoch %u%s%s%s%s%s\n", EVENTS[event->type], event->host,
               event->place, event->name, event->epoch, event->ok ? " ok" : "",
               event->asked ? " asked" : "", event->failed ? " failed" : "",
               event->lacks ? " lacks" : "", event->faulty ? " faulty" : "");
    size_t n = rg_membership_step(play->membership, event, &actions);
    /* A rank's end is known before what follows from it. */
    for (size_t i = 0; i < n; i++)
        carry_out(play, &actions[i]);
    uint64_t deadline = rg_membership_deadline_ns(play->membership);
    expect(play, deadline > play->world.now_ns, "a deadline that has passed already");
    check_drains(play);
    if (play->world.epoch != epoch)
        check_spares(play);
    if (play->habits.eager)
        hear(play);
}

/* --- messages arrive -------------------------------------------------------------------------- */

static void forget(struct process *p)
{
    *p = (struct process){ .has = false };
}

static void launcher_loses(struct play *play, const struct agent *agent)
{
    for (int i = agent->first; i < agent->first + agent->nslots; i++)
        forget(&play->world.processes[i]);
}

static void deliver_up(struct play *play, int host)
{
    struct world *w = &play->world;
    struct agent *agent = &w->agents[host];
    struct message msg = take(&agent->up);
    struct process *p = &w->processes[msg.place];
    struct rg_membership_event event = {
        .type = msg.type, .host = host, .place = msg.place, .epoch = msg.value,
        .ok = msg.flags & FLAG_OK, .asked = msg.flags & FLAG_ASKED, .cut_by = -1,
        .failed = msg.flags & FLAG_FAILED, .lacks = msg.flags & FLAG_LACKS,
        .faulty = msg.flags & FLAG_FAULTY,
    };

    if (msg.type == RG_MEMBERSHIP_RANK_ENDED && !event.ok && msg.value)
        event.cut_by = msg.value - 1;
    if (msg.type == RG_MEMBERSHIP_RANK_ENDED) {
        w->finishing |= event.ok && !p->told && rank_in(session_of(w, w->epoch), msg.place) >= 0 &&
                        p->epoch == w->epoch;
        forget(p);
    } else if (msg.type == RG_MEMBERSHIP_RANK_MEETS) {
        p->met |= !p->told && (rank_in(session_of(w, w->epoch), msg.place) < 0 ||
                               msg.value == w->epoch);
    } else if (msg.type == RG_MEMBERSHIP_HOST_LOST) {
        agent->state = AGENT_GONE;
        w->drain_ns[agent->name] *= !w->goes[agent->name];
        w->goes[agent->name] = false;
        memset(&agent->down, 0, sizeof(agent->down));
        launcher_loses(play, agent);
    }
    if (msg.type == RG_MEMBERSHIP_HOST_GOES && !agent->released) {
        event.until_ns = msg.value ? w->now_ns + msg.value * 1000000000ull : 0;
        if (event.until_ns - 1 < w->drain_ns[agent->name] - 1)
            w->drain_ns[agent->name] = event.until_ns;
        w->goes[agent->name] = true;
    }
    step(play, &event);
}

static void die(struct play *play, int place, int flags, int cut_by)
{
    struct process *p = &play->world.processes[place];

    leave_all(&play->world, place);
    p->state = RANK_NONE;
    put(play, &agent_of(play, place)->up,
        (struct message){ RG_MEMBERSHIP_RANK_ENDED, (uint8_t) place, (uint8_t) (cut_by + 1),
                          (uint8_t) flags });
}

static void agent_hears_epoch(struct play *play, struct agent *agent, int number)
{
    struct world *w = &play->world;

    agent->epoch = (uint8_t) number;
    for (int i = agent->first; i < agent->first + agent->nslots; i++) {
        if (w->processes[i].state == RANK_WAITS && w->processes[i].epoch < number &&
            rank_in(session_of(w, number), i) >= 0)
            join(play, i, number);
    }
}

static void deliver_down(struct play *play, int host, uint32_t pick)
{
    struct world *w = &play->world;
    struct agent *agent = &w->agents[host];
    struct message msg = take(&agent->down);
    struct process *p = &w->processes[msg.place];

    if (msg.type == RG_MEMBERSHIP_START_RANKS) {
        p->state = RANK_IMPORTS;
        if (w->slow < play->habits.slow && pick % 4 == 0) {
            p->slow = true;
            w->slow++;
        }
    } else if (msg.type == RG_MEMBERSHIP_END_RANK) {
        if (p->state)
            p->term = msg.flags & FLAG_HARD ? 2 : 1;
    } else if (msg.type == RG_MEMBERSHIP_PUBLISH) {
        agent_hears_epoch(play, agent, msg.value);
    } else if (msg.type == RG_MEMBERSHIP_UPDATE) {
        for (int i = agent->first; i < agent->first + agent->nslots; i++)
            w->processes[i].notice |= w->processes[i].state == RANK_WORKS;
    } else {
        if (agent->gone)
            return;
        agent->gone = true;
        put(play, &agent->up, (struct message){ RG_MEMBERSHIP_HOST_LOST, 0, 0, 0 });
    }
}

/* All agents hear, and do, what the launcher has said. */
static void hear(struct play *play)
{
    for (int i = 0; i < play->membership->nhosts; i++) {
        struct agent *agent = &play->world.agents[i];
        if (agent->state == AGENT_STARTS && !agent->lost && !agent->released) {
            agent->state = AGENT_READY;
            put(play, &agent->up, (struct message){ RG_MEMBERSHIP_HOST_READY, 0, 0, 0 });
        }
        while (agent->down.n > 0 && !agent->lost)
            deliver_down(play, i, 1);
    }
    for (int i = 0; i < play->membership->nplaces; i++) {
        if (play->world.processes[i].state == RANK_IMPORTS)
            come(play, i, false);
    }
}

/* --- what ranks do by themselves -------------------------------------------------------------- */

static void come(struct play *play, int place, bool failed)
{
    struct world *w = &play->world;
    struct process *p = &w->processes[place];
    struct agent *agent = agent_of(play, place);

    leave_session(w, place);
    if (agent->epoch > p->epoch && rank_in(session_of(w, agent->epoch), place) >= 0) {
        join(play, place, agent->epoch);
        return;
    }
    p->state = RANK_WAITS;
    put(play, &agent->up,
        (struct message){ RG_MEMBERSHIP_RANK_MEETS, (uint8_t) place, p->epoch,
                          (uint8_t) ((failed ? FLAG_FAILED : 0) | (p->has ? 0 : FLAG_LACKS)) });
}

/* One collective operation further: the sync, or a step with its commit. */
static void go_on(struct play *play, int place)
{
    struct world *w = &play->world;
    struct process *p = &w->processes[place];
    struct session *s = session_of(w, p->epoch);
    int rank = rank_in(s, place), done = ++s->done[rank];

    if (done > s->most) {
        s->most = (uint8_t) done;
        expect(play, s->number >= w->computed, "two epochs compute at once");
        w->computed = s->number;
        if (!s->stop && w->processes[s->place[0]].notice && done > 2)
            s->stop = (uint8_t) done;
    }
    if (done == 2)
        p->value = s->base;
    else
        p->value++;
    expect(play, p->value == s->base + done - 2 || !s->based, "a step is counted twice, or not");
    p->has = true;
    if (s->stop == done)
        come(play, place, false);
}

/* By whose end a rank of no elastic program ends: it knows, or does not. */
static void fail_too(struct play *play, int place, uint32_t pick)
{
    const struct process *p = &play->world.processes[place];
    const struct session *s = session_of(&play->world, p->epoch);
    int cut_by = -1;

    for (int i = 0; i < s->size; i++) {
        if (s->gone[i] && s->place[i] != place)
            cut_by = s->place[i];
    }
    die(play, place, p->term ? FLAG_ASKED : 0, play->habits.safe || pick & 1 ? cut_by : -1);
}

/* --- moves ------------------------------------------------------------------------------------ */

static bool is_turn(struct turn *turn, bool possible)
{
    if (!possible || turn->done)
        return false;
    turn->done = turn->left-- == 0;
    return turn->done;
}

static void move_working(struct turn *turn, int place)
{
    struct play *play = turn->play;
    struct world *w = &play->world;
    struct process *p = &w->processes[place];
    struct session *s = session_of(w, p->epoch);
    int done = s->done[rank_in(s, place)];
    bool slow = p->slow && play->habits.knows && !w->finishing && w->epoch > 1;
    bool finished = p->has && done >= 2 && p->value >= play->habits.target;

    if (is_turn(turn, finished))
        die(play, place, FLAG_OK, -1);
    if (is_turn(turn, !finished && can_go_on(s, done)))
        go_on(play, place);
    if (is_turn(turn, !finished && cannot_ever(s, done) && !slow)) {
        if (play->habits.knows)
            come(play, place, true);
        else
            fail_too(play, place, turn->pick);
    }
    if (is_turn(turn, w->early < play->habits.early && w->agents[0].state)) {
        w->early++;
        die(play, place, FLAG_OK, -1);
    }
}

static void move_rank(struct turn *turn, int place)
{
    struct play *play = turn->play;
    struct world *w = &play->world;
    struct process *p = &w->processes[place];
    bool safe = play->habits.safe && agent_of(play, place)->name == 0;

    if (!p->state)
        return;
    if (is_turn(turn, p->term > (p->slow ? 1 : 0)))
        die(play, place, FLAG_ASKED, -1);
    if (is_turn(turn, w->deaths < play->habits.deaths && !safe)) {
        w->deaths++;
        die(play, place, p->term ? FLAG_ASKED : turn->pick & 2 ? FLAG_FAULTY : 0, -1);
    }
    if (p->state == RANK_IMPORTS) {
        bool joiner = rank_in(session_of(w, w->epoch), place) < 0;
        if (is_turn(turn, !(p->slow && joiner && play->habits.ticks)))
            come(play, place, false);
    } else if (p->state == RANK_WORKS) {
        move_working(turn, place);
    }
}

/* taken: by the platform, which may have said so before. */
static void lose_host(struct play *play, int host, bool taken)
{
    struct world *w = &play->world;
    struct agent *agent = &w->agents[host];

    w->losses++;
    for (int i = agent->first; i < agent->first + agent->nslots; i++) {
        leave_all(w, i);
        w->processes[i].state = RANK_NONE;
    }
    memset(&agent->down, 0, sizeof(agent->down));
    agent->lost = true;
    put(play, &agent->up, (struct message){ RG_MEMBERSHIP_HOST_LOST, 0, 0,
                                            taken ? 0 : FLAG_FAILED });
}

static void move_host(struct turn *turn, int host)
{
    struct play *play = turn->play;
    struct world *w = &play->world;
    struct agent *agent = &w->agents[host];
    bool starts = agent->state == AGENT_STARTS && !agent->lost && !agent->released;

    if (is_turn(turn, starts)) {
        agent->state = AGENT_READY;
        put(play, &agent->up, (struct message){ RG_MEMBERSHIP_HOST_READY, 0, 0, 0 });
    }
    if (is_turn(turn, agent->up.n > 0))
        deliver_up(play, host);
    if (is_turn(turn, !agent->lost && agent->down.n > 0 &&
                          (agent->state == AGENT_READY || agent->released)))
        deliver_down(play, host, turn->pick);
    if (is_turn(turn, w->losses < play->habits.losses && !agent->lost && !agent->gone &&
                          (agent->state == AGENT_READY || starts) &&
                          !(play->habits.safe && agent->name == 0)))
        lose_host(play, host, agent->goes || turn->pick % 2);
    if (is_turn(turn, w->drains < play->habits.drains && agent->state == AGENT_READY &&
                          !agent->lost && !agent->gone && !agent->goes &&
                          !(play->habits.safe && agent->name == 0))) {
        w->drains++;
        agent->goes = true;
        put(play, &agent->up, (struct message){ RG_MEMBERSHIP_HOST_GOES, 0,
                                                (uint8_t) (turn->pick >> 9 & 31), 0 });
    }
}

static void say_wanted(struct play *play, uint32_t pick)
{
    struct world *w = &play->world;
    struct rg_membership_machine list[16];
    struct rg_membership_event event = { .type = RG_MEMBERSHIP_WANTED, .wanted = list };

    for (int i = 0; i < play->habits.nnames; i++) {
        int name = (i + (int) (pick >> 20)) % play->habits.nnames;
        int slots = (int) (pick >> 2 * name & 3);
        if (play->habits.safe && name == 0)
            slots = play->habits.rules.min_np;
        w->slots[name] = (uint8_t) (slots == 3 ? 2 : slots);
        for (int k = 0; k < (slots > 0) + (slots == 3); k++) /* 3: twice in the list */
            list[event.nwanted++] = (struct rg_membership_machine){ name, slots == 3 ? 1 : slots };
    }
    if (play->tells)
        for (size_t i = 0; i < event.nwanted; i++)
            printf("  machine %d: %d\n", list[i].name, list[i].slots);
    w->wanted_said = true;
    step(play, &event);
}

static void drain(struct play *play, uint32_t pick)
{
    int name = (int) (pick % (uint32_t) play->habits.nnames);
    struct rg_membership_event event = { .type = RG_MEMBERSHIP_DRAIN, .name = name };

    play->world.drains++;
    if (play->habits.safe && name == 0)
        return;
    play->world.drained[name] = true;
    if (pick & 1 << 8)
        event.until_ns = play->world.now_ns + (1 + (pick >> 9) % 60) * 1000000000ull;
    play->world.drain_ns[name] = event.until_ns;
    step(play, &event);
}

static int play_all(struct play *play, int move, uint32_t pick)
{
    struct turn turn = { play, move, pick, false };
    struct world *w = &play->world;

    if (w->ended || w->broken)
        return 0;
    for (int i = 0; i < rg_membership_nhosts(play->membership); i++)
        move_host(&turn, i);
    for (int i = 0; i < rg_membership_nplaces(play->membership); i++)
        move_rank(&turn, i);
    if (is_turn(&turn, w->changes < play->habits.changes)) {
        uint32_t list = play->habits.lists ? play->habits.lists[w->changes] : pick;
        w->changes++;
        say_wanted(play, list);
    }
    if (is_turn(&turn, w->drains < play->habits.drains))
        drain(play, pick);
    return move - turn.left;
}

int play_count(struct play *play)
{
    return play_all(play, 1 << 20, 0);
}

void play_move(struct play *play, int move, uint32_t pick)
{
    play_all(play, move, pick);
}

bool play_tick(struct play *play)
{
    struct rg_membership_event event = { .type = RG_MEMBERSHIP_TICK };
    uint64_t deadline = rg_membership_deadline_ns(play->membership);

    if (play->world.ended || deadline == RG_NEVER_NS)
        return false;
    play->world.now_ns = deadline;
    step(play, &event);
    return true;
}

void play_begin(struct play *play, const struct habits *habits)
{
    memset(play, 0, sizeof(*play));
    play->habits = *habits;
    play->world.now_ns = 1;
    if (rg_membership_create(&habits->rules, 1, &play->membership) != 0)
        abort();
}

void play_end(struct play *play)
{
    rg_membership_destroy(play->membership);
}
