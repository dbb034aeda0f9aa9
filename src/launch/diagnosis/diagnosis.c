/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule has a margin on both sides: between "this explains it" and "this does not" nothing is
 * said. */
#include "launch/diagnosis/diagnosis.h"

#include <math.h>

#define MOST 0.6          /* share of the lateness that one part explains, where it is the cause */
#define BY_TURNS 0.6      /* share of all waits: whoever causes less is not the one that is late */
#define TURNS_MOST 0.75   /* the same, where few steps leave more to chance */
#define MOST_BESIDES 0.75 /* share of waits that something else than steps' lengths may make */
#define DELAY_S 0.01      /* a processor's others have it for less at a time */
#define WAITS_MIN 3.0     /* fewer waits are no habit ... */
#define WAITS_LEAST 1.5   /* ... but where steps are long, more than one */
#define STEPS_FEW 20.0
#define MORE_WORK 1.25    /* times what others compute */
#define MORE_CROWDED 0.3  /* and more by this, where others have the processors as often */
#define BYTES_MORE 1.25   /* times what others give to operations */
#define FAULTS_MIN 20.0   /* pages in a second; fewer are the begin of something */
#define FAULTS_MORE 3.0   /* times those of others */
#define COMPUTING_MIN 0.02 /* less tells nothing of how often a thread is delayed */
#define COMPUTING_LEAST 0.002
#define CROWDED_MORE 1.5   /* times as long for the same computing as with other ranks */
#define AGAIN_MUCH 0.3     /* of the pages that it waits for have been there before ... */
#define AGAIN_LITTLE 0.1   /* ... or have not: it reads a mapped file */
#define OWN_THREADS 0.85  /* of the processors that it may use: it has filled them itself */
#define BESIDES_MAX 0.25  /* share of the lateness that other threads of its process compute */
#define APART_MIN 0.2     /* of the time in operations, for links to matter */
#define SENDING_MIN 0.15  /* of the time, on a link that is slow */
#define BUSY 0.4          /* of the time in operations: less is not what they wait for */
#define OTHER_WORK 1.25   /* times the operations of others: these are not the same ones ... */
#define OPERATIONS_FEW 2.0 /* ... unless that is only when the seconds begin and end */
#define SLOWER 3.0        /* times as long for a byte as on links that are not busy */
#define AS_SLOW 1.5       /* times the slowest one's speed: faster is not slow by itself */
#define SLOWER_ALONE 1.75 /* times as long, where all others may look slower than they are */

/* Means of some ranks. */
struct sum {
    size_t n;
    bool timed; /* of all of them */
    double blocked, waiting, causing, computing, delayed, idle, throttled, cpu, cpus, faults,
        refaults, operations, nbytes, seconds, steps, squares;
    double wanted; /* a processor, and had none: in operations as well */
};

/* Outside of operations: a thread that sleeps in one is delayed as well when it wakes. */
static double delayed_of(const struct rg_load *load)
{
    return fmax(fmin(load->delayed, 1 - load->blocked - load->computing), 0);
}

/* Its thread neither computes nor could, and is in no operation. */
static double idle_of(const struct rg_load *load)
{
    return fmax(1 - load->blocked - load->computing - load->delayed, 0);
}

static void add(struct sum *sum, const struct rg_load *load)
{
    sum->timed = (sum->n == 0 || sum->timed) && load->timed;
    sum->n++;
    sum->blocked += load->blocked;
    sum->waiting += load->waiting;
    sum->causing += load->causing; /* stays a sum */
    sum->computing += load->computing;
    sum->wanted += load->delayed;
    sum->delayed += delayed_of(load);
    sum->idle += idle_of(load);
    sum->throttled += fmin(load->throttled, 1);
    sum->cpu += load->cpu;
    sum->cpus += load->cpus;
    sum->faults += load->faults;
    sum->refaults += load->refaults;
    sum->operations += load->operations;
    sum->nbytes += load->nbytes;
    sum->seconds += load->seconds;
    sum->steps += load->steps;
    sum->squares += load->squares;
}

static void divide(struct sum *sum)
{
    double *const values[] = { &sum->blocked, &sum->waiting, &sum->computing, &sum->delayed,
                               &sum->idle, &sum->wanted, &sum->throttled, &sum->cpu, &sum->cpus,
                               &sum->faults, &sum->refaults, &sum->operations, &sum->nbytes,
                               &sum->seconds, &sum->steps, &sum->squares };

    for (size_t i = 0; sum->n && i < sizeof(values) / sizeof(values[0]); i++)
        *values[i] /= (double) sum->n;
}

static bool is_late(const struct rg_load *loads, size_t i, const struct rg_late *late)
{
    return late->rank >= 0 ? (size_t) late->rank == i
                           : late->host >= 0 && loads[i].host == late->host;
}

/* It happens again and again: not once, as for a checkpoint. The squares of waits that make up this
 * share of the time tell how many they are at least. */
static bool is_habit(const struct sum *others, double share)
{
    double waited_s = share * others->seconds;
    double least = others->steps > 0 && others->steps <= STEPS_FEW ? WAITS_LEAST : WAITS_MIN;

    return waited_s * waited_s >= least * others->squares;
}

/* Share of all waits that nobody causes by chance, where each rank is late in turn. */
static double alone_from(const struct sum *others)
{
    return fmin(BY_TURNS + 1 / sqrt(fmax(others->steps, 1)), 0.9);
}

/* --- a rank, or a host's ranks ---------------------------------------------------------------- */

static void say(struct rg_lateness *diagnosis, enum rg_cause cause, double value, double usual)
{
    diagnosis->cause = cause;
    diagnosis->value = value;
    diagnosis->usual = usual;
}

/* It waits for pages more often than others do. */
static bool has_faults(const struct sum *one, const struct sum *others)
{
    return one->faults >= FAULTS_MIN && one->faults >= FAULTS_MORE * others->faults;
}

/* Whether pages are read again, and how surely: 1, -1: no; 0: who knows. */
static int is_swapping(const struct sum *one, const struct sum *others)
{
    if (!has_faults(one, others))
        return -1;
    return one->refaults >= AGAIN_MUCH * one->faults    ? 1
           : one->refaults < AGAIN_LITTLE * one->faults ? -1
                                                        : 0;
}

static void explain_idle(const struct sum *one, const struct sum *others,
                         struct rg_lateness *diagnosis)
{
    double besides = one->cpu - one->computing;

    if (besides <= BESIDES_MAX * (one->idle - others->idle))
        say(diagnosis, RG_CAUSE_SLOW_INPUT, one->idle, others->idle);
}

/* To take pages in costs computing, and each that comes its turn on a processor: these say nothing
 * then. */
static void explain_faults(const struct sum *one, const struct sum *others, bool waits, bool idles,
                           struct rg_lateness *diagnosis)
{
    int swapping = is_swapping(one, others);

    if (swapping > 0 && waits)
        say(diagnosis, RG_CAUSE_SWAPPING, one->faults, others->faults);
    else if (swapping < 0 && idles)
        explain_idle(one, others, diagnosis);
}

static void explain_computing(const struct sum *one, const struct sum *others,
                              bool alone, struct rg_lateness *diagnosis)
{
    if (!alone)
        return;
    if (others->nbytes > 0 && one->nbytes >= BYTES_MORE * others->nbytes)
        say(diagnosis, RG_CAUSE_IMBALANCE, one->nbytes, others->nbytes);
    else
        say(diagnosis, RG_CAUSE_SLOW_RANK, one->computing, others->computing);
}

/* For how long it is kept from its processor, for what it computes. */
static double crowding_of(const struct sum *ranks)
{
    return ranks->wanted / fmax(ranks->computing, COMPUTING_LEAST);
}

/* More than what a processor makes of the same work, for which others fill the caches: the more
 * often they have it, the more. */
static bool has_more(const struct sum *one, const struct sum *others)
{
    double crowded = sqrt(fmax(crowding_of(one), crowding_of(others)));

    return one->computing >
           (MORE_WORK + MORE_CROWDED * crowded) * others->computing + COMPUTING_MIN;
}

/* Who has more to compute is kept from its processor for longer as well, where others are: that
 * much of the delay is for its computing. */
static double delay_of_more(const struct sum *one, const struct sum *others)
{
    double more = one->computing - others->computing;
    double each = others->delayed / fmax(others->computing, COMPUTING_MIN);

    return has_more(one, others) ? fmax(fmin(more * each, one->delayed - others->delayed), 0) : 0;
}

/* Others have its processor more often than those of other ranks, also while these wait, and not
 * just as often for more work; it has no more to compute than they, and its own threads do not fill
 * what it may use. */
static bool has_neighbours(const struct sum *one, const struct sum *others, double lateness)
{
    return one->wanted - others->wanted >= lateness / 2 && one->cpus > 0 &&
           one->cpu < OWN_THREADS * one->cpus && !has_more(one, others) &&
           crowding_of(one) >= CROWDED_MORE * crowding_of(others);
}

/* They take part in other operations than it does, by process sets: what it spends in them and
 * outside cannot be compared then. */
static bool has_other_work(const struct sum *one, const struct sum *others)
{
    double least = fmin(one->operations, others->operations);
    double most = fmax(one->operations, others->operations);

    return most > OTHER_WORK * least && (most - least) * others->seconds > OPERATIONS_FEW;
}

/* alone: what all ranks together cause is mostly its. */
static void explain(const struct sum *one, const struct sum *others, bool alone,
                    struct rg_lateness *diagnosis)
{
    double computing = one->computing - others->computing, delayed = one->delayed - others->delayed;
    double idle = one->idle - others->idle, throttled = one->throttled - others->throttled;
    double of_more = delay_of_more(one, others), alone_computing = computing;
    computing += of_more;
    delayed -= of_more;
    double parts = fmax(computing, 0) + fmax(delayed, 0) + fmax(idle, 0);
    double net = others->blocked - one->blocked, lateness = fmax(net, parts);
    double most = MOST * lateness, largest = fmax(computing, fmax(delayed, idle));
    int swapping = is_swapping(one, others);
    bool limited = throttled >= lateness / 2;

    if (net < RG_CAUSE_NOTABLE || /* they are late in turn */
        !is_habit(others, limited || swapping > 0 ? parts : largest))
        return;
    if (limited && delayed + idle >= most)
        say(diagnosis, RG_CAUSE_THROTTLED, one->throttled, others->throttled);
    else if (has_faults(one, others))
        explain_faults(one, others, alone_computing < most, idle >= most, diagnosis);
    else if (computing >= most && has_more(one, others))
        explain_computing(one, others, alone, diagnosis);
    else if (one->throttled >= lateness / 5)
        return;
    else if (delayed >= most && has_neighbours(one, others, lateness))
        say(diagnosis, RG_CAUSE_NEIGHBOUR, one->wanted, others->wanted);
    else if (idle >= most)
        explain_idle(one, others, diagnosis);
}

/* --- each in turn ----------------------------------------------------------------------------- */

static bool takes_turns(const struct rg_load *loads, size_t n, const struct sum *all)
{
    double least = INFINITY, most = 0, causing = 0, first = 0, second = 0;

    for (size_t i = 0; i < n; i++) {
        if (!loads[i].rated)
            continue;
        least = fmin(least, loads[i].computing);
        most = fmax(most, loads[i].computing);
        causing += loads[i].causing;
        second = fmax(second, fmin(first, loads[i].causing));
        first = fmax(first, loads[i].causing);
    }
    double alone = fmin(BY_TURNS + 0.5 / sqrt(fmax(all->steps, 1)), TURNS_MOST);
    return first > 0 && first <= alone * causing && second >= first / 3 &&
           most - least <= all->waiting / 2;
}

/* A rank is kept from its processor for a few milliseconds at a time. Where that happens many times
 * between two operations, it is for nearly as long on all ranks: a sum of chances differs by its
 * root. 1: it may be for all of it on one rank, and not at all on others. */
static double part_by_chance(const struct sum *all)
{
    double each_s = all->operations > 0 ? all->wanted / all->operations : 0;

    return each_s > DELAY_S ? sqrt(DELAY_S / each_s) : 1;
}

/* The longest that ranks may have waited for each other without a difference in computing: all
 * others wait while one is kept from its processor, or waits for something. That counts in an
 * operation as well, as who wakes late begins the next step late. */
static double waits_besides(const struct sum *all)
{
    double wanted = all->wanted * part_by_chance(all);

    return (all->idle + wanted + all->throttled) * (double) (all->n - 1);
}

/* All compute as much on the whole, and yet they wait for each other. */
static bool is_uneven(const struct rg_load *loads, size_t n, const struct sum *all)
{
    double waiting = all->waiting;

    return all->timed && waiting >= RG_CAUSE_NOTABLE && all->computing >= waiting / 4 &&
           waits_besides(all) <= MOST_BESIDES * waiting && is_habit(all, waiting) &&
           takes_turns(loads, n, all);
}

/* --- links ------------------------------------------------------------------------------------ */

/* Bytes in a second while some are on their way. */
static double speed_of(const struct rg_load_host *host)
{
    return host->sent / fmax(host->sending, 1e-6);
}

/* For most of the time that operations take, bytes are on their way. */
static bool is_busy(const struct rg_load_host *host, double apart)
{
    return host->sent > 0 && host->longest >= fmax(SENDING_MIN, apart * BUSY);
}

/* The busy one that is slowest; -1: there is none. */
static int find_slowest(const struct rg_load_host *hosts, size_t nhosts, double apart)
{
    int from = -1;

    for (size_t h = 0; h < nhosts; h++) {
        if (is_busy(&hosts[h], apart) &&
            (from < 0 || speed_of(&hosts[h]) < speed_of(&hosts[from])))
            from = (int) h;
    }
    return from;
}

/* What comes to the host of the slowest link is acknowledged behind the data that wait there, so it
 * looks slower than it is. Two hosts have no other link to compare with. */
static bool is_behind(const struct rg_load_host *hosts, size_t nhosts, int from, size_t h)
{
    return nhosts > 2 && hosts[h].to == from &&
           speed_of(&hosts[h]) > AS_SLOW * speed_of(&hosts[from]);
}

/* The fastest of those that are busy, and the slowest of those that are not; 0 and INFINITY: there
 * are none. How many are busy. */
static size_t part_links(const struct rg_load_host *hosts, size_t nhosts, double apart, int from,
                         double *ret_busy, double *ret_idle)
{
    size_t nbusy = 0;

    *ret_busy = 0;
    *ret_idle = INFINITY;
    for (size_t h = 0; h < nhosts; h++) {
        if (is_behind(hosts, nhosts, from, h))
            continue;
        if (is_busy(&hosts[h], apart)) {
            nbusy++;
            *ret_busy = fmax(*ret_busy, speed_of(&hosts[h]));
        } else if (hosts[h].sent > 0) {
            *ret_idle = fmin(*ret_idle, speed_of(&hosts[h]));
        }
    }
    return nbusy;
}

/* The slowest of these; INFINITY: there is none. */
static double least_behind(const struct rg_load_host *hosts, size_t nhosts, int from)
{
    double least = INFINITY;

    for (size_t h = 0; h < nhosts; h++) {
        if (is_behind(hosts, nhosts, from, h))
            least = fmin(least, speed_of(&hosts[h]));
    }
    return least;
}

/* The busy links all begin or end at this host. */
static bool is_common(const struct rg_load_host *hosts, size_t nhosts, double apart, int from,
                      int host)
{
    for (size_t h = 0; h < nhosts; h++) {
        if (is_busy(&hosts[h], apart) && !is_behind(hosts, nhosts, from, h) && (int) h != host &&
            hosts[h].to != host)
            return false;
    }
    return true;
}

static void explain_links(const struct rg_load_host *hosts, size_t nhosts, double apart,
                          struct rg_lateness *diagnosis)
{
    double busy, idle, slower = SLOWER;
    int from = find_slowest(hosts, nhosts, apart);

    if (apart < APART_MIN || from < 0)
        return;
    size_t nbusy = part_links(hosts, nhosts, apart, from, &busy, &idle);
    if (idle == INFINITY) {
        idle = least_behind(hosts, nhosts, from);
        slower = SLOWER_ALONE;
    }
    if (idle == INFINITY || busy * slower > idle || (nbusy > 1 && nhosts < 3))
        return;
    int to = hosts[from].to;
    int host = is_common(hosts, nhosts, apart, from, from) ? from : to;
    if (to < 0 || to == from || !is_common(hosts, nhosts, apart, from, host))
        return;
    diagnosis->late = (struct rg_late){ .rank = -1, .host = nbusy > 1 ? host : from };
    diagnosis->to = nbusy > 1 ? -1 : to;
    diagnosis->share = apart;
    say(diagnosis, RG_CAUSE_SLOW_LINK, busy, idle);
}

/* --- all together ----------------------------------------------------------------------------- */

void rg_late_explain(const struct rg_load *loads, size_t n, const struct rg_load_host *hosts,
                 size_t nhosts, const struct rg_late *late, struct rg_lateness *ret_diagnosis)
{
    struct rg_lateness diagnosis = { .late = *late, .to = -1 };
    struct sum one = { 0 }, others = { 0 }, all = { 0 };

    for (size_t i = 0; i < n; i++) {
        if (loads[i].rated)
            add(is_late(loads, i, late) ? &one : &others, &loads[i]);
        if (loads[i].rated)
            add(&all, &loads[i]);
    }
    divide(&one);
    divide(&others);
    divide(&all);
    if (one.n && others.n)
        diagnosis.share = fmin(late->causing / (double) others.n, 1);
    if (is_uneven(loads, n, &all)) {
        diagnosis.late = (struct rg_late){ .rank = -1, .host = -1 };
        diagnosis.share = all.waiting;
        say(&diagnosis, RG_CAUSE_IMBALANCE, 0, 0);
    } else if (one.timed && others.timed && diagnosis.share >= RG_CAUSE_NOTABLE &&
               !has_other_work(&one, &others))
        explain(&one, &others, late->causing >= alone_from(&others) * all.causing, &diagnosis);
    if (diagnosis.cause == RG_CAUSE_UNKNOWN)
        explain_links(hosts, nhosts, all.blocked - all.waiting, &diagnosis);
    *ret_diagnosis = diagnosis;
}
