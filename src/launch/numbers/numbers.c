/* SPDX-License-Identifier: Apache-2.0 */
/* Rates come from two samples: the last one, and one that is some seconds older. */
#include "launch/numbers/numbers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9
#define SILENT_NS UINT64_C(5000000000) /* what is older says nothing of now */
#define TIMED_PART 0.6 /* of the time, of which a thread's must be known */
#define LEAST_S 0.5 /* two samples that are nearer to each other say nothing of a second */

struct sample {
    uint64_t at_ns; /* 0: there is none */
    struct rg_numbers numbers;
};

/* Each is older than the one before it. All ranks' move on at the same times, so that what is
 * compared is of the same seconds. */
struct known {
    struct sample last, old, older;
};

struct rg_numbers_store {
    uint32_t epoch, limit;
    size_t count;         /* ranks that there is room for */
    struct known *ranks;
};

int rg_numbers_store_create(uint32_t ranks, struct rg_numbers_store **ret_store)
{
    struct rg_numbers_store *store = calloc(1, sizeof(*store));

    if (!store)
        return -ENOMEM;
    store->limit = ranks;
    *ret_store = store;
    return 0;
}

void rg_numbers_store_destroy(struct rg_numbers_store *store)
{
    if (store)
        free(store->ranks);
    free(store);
}

/* Where it has not counted its processor time before, it did not count for a second yet. */
static bool begins_anew(const struct rg_numbers *before, const struct rg_numbers *now)
{
    return (!before->cpu_ns && now->cpu_ns) || (!before->at_ns && now->at_ns) ||
           now->cpu_ns < before->cpu_ns || now->operations < before->operations ||
           now->steps < before->steps || now->nbytes < before->nbytes ||
           now->blocked_ns < before->blocked_ns || now->waited_ns < before->waited_ns ||
           now->caused_ns < before->caused_ns;
}

int rg_numbers_store_add(struct rg_numbers_store *store, uint32_t epoch, uint64_t now_ns,
                         const struct rg_numbers *numbers)
{
    struct sample sample = { now_ns, *numbers };

    if (numbers->rank >= store->limit)
        return -EBADMSG;
    if (epoch < store->epoch)
        return 0;
    if (epoch > store->epoch && store->ranks)
        memset(store->ranks, 0, store->count * sizeof(*store->ranks));
    store->epoch = epoch;
    int r = rg_grow(&store->ranks, &store->count, (size_t) numbers->rank + 1);
    if (r < 0)
        return r;
    struct known *known = &store->ranks[numbers->rank];
    if (known->last.at_ns == 0 || begins_anew(&known->last.numbers, numbers))
        *known = (struct known){ .old = sample, .older = sample };
    else if (now_ns / RG_NUMBERS_OVER_NS != known->old.at_ns / RG_NUMBERS_OVER_NS) {
        known->older = known->old;
        known->old = sample;
    }
    known->last = sample;
    return 0;
}

uint32_t rg_numbers_store_epoch(const struct rg_numbers_store *store)
{
    return store->epoch;
}

/* For how long the sums have grown: a rank may have told its numbers up to a second before they are
 * sent, and its clock runs as this one does. Of waits for each other it is as they come. */
static double seconds_of(const struct known *known)
{
    uint64_t now_ns = known->last.numbers.at_ns, before_ns = known->older.numbers.at_ns;
    double s = (double) (known->last.at_ns - known->older.at_ns) / NS;

    return now_ns > before_ns && before_ns ? (double) (now_ns - before_ns) / NS : s;
}

static struct rg_rates rates_of(const struct known *known)
{
    const struct rg_numbers *a = &known->older.numbers, *b = &known->last.numbers;
    double come_s = (double) (known->last.at_ns - known->older.at_ns) / NS, s = seconds_of(known);

    if (fmin(come_s, s) < LEAST_S)
        return (struct rg_rates){ 0 };
    return (struct rg_rates){
        .operations = (double) (b->operations - a->operations) / s,
        .nbytes = (double) (b->nbytes - a->nbytes) / s,
        .steps = (double) (b->steps - a->steps) / s,
        .blocked = (double) (b->blocked_ns - a->blocked_ns) / NS / s,
        .waiting = (double) (b->waited_ns - a->waited_ns) / NS / come_s,
        .causing = (double) (b->caused_ns - a->caused_ns) / NS / come_s,
        .cpu = (double) (b->cpu_ns - a->cpu_ns) / NS / s,
    };
}

bool rg_numbers_store_get(const struct rg_numbers_store *store, uint32_t rank, uint64_t now_ns,
                          struct rg_numbers *ret_numbers, struct rg_rates *ret_rates,
                          uint64_t *ret_age_ns)
{
    const struct known *known = rank < store->count ? &store->ranks[rank] : NULL;

    if (!known || known->last.at_ns == 0)
        return false;
    *ret_numbers = known->last.numbers;
    *ret_rates = rates_of(known);
    *ret_age_ns = now_ns > known->last.at_ns ? now_ns - known->last.at_ns : 0;
    return true;
}

static double grown(uint64_t now, uint64_t before)
{
    return now > before ? (double) (now - before) : 0;
}

static double share(uint64_t now, uint64_t before, double s)
{
    double part = grown(now, before) / NS / s;

    return part < 1 ? part : 1;
}

/* What a thread computes and waits for is of the time for which that is known. */
static void put_thread(const struct rg_numbers *a, const struct rg_numbers *b, double s,
                       struct rg_load *load)
{
    double timed_s = grown(b->timed_ns, a->timed_ns) / NS, of_s = fmax(timed_s, TIMED_PART * s);

    load->timed = timed_s >= TIMED_PART * s;
    load->computing = share(b->computed_ns, a->computed_ns, of_s);
    load->delayed = share(b->delayed_ns, a->delayed_ns, of_s);
    load->throttled = share(b->throttled_ns, a->throttled_ns, s);
    load->faults = grown(b->faults, a->faults) / s;
    load->refaults = grown(b->refaults, a->refaults) / s;
    load->cpus = b->cpus;
    load->squares = grown(b->squares_us2, a->squares_us2) / 1e12;
    load->sending = share(b->sending_ns, a->sending_ns, s);
    load->sent = grown(b->sent_nbytes, a->sent_nbytes) / s;
}

bool rg_numbers_store_load(const struct rg_numbers_store *store, uint32_t rank, uint64_t now_ns,
                           struct rg_load *ret_load)
{
    const struct known *known = rank < store->count ? &store->ranks[rank] : NULL;
    struct rg_load load = { .host = -1, .sent_to = -1 };

    *ret_load = load;
    if (!known || known->last.at_ns == 0 || now_ns > known->last.at_ns + SILENT_NS)
        return false;
    const struct rg_numbers *a = &known->older.numbers, *b = &known->last.numbers;
    double come_s = (double) (known->last.at_ns - known->older.at_ns) / NS, s = seconds_of(known);
    if (fmin(come_s, s) < LEAST_S)
        return false;
    load.rated = true;
    load.seconds = s;
    load.blocked = share(b->blocked_ns, a->blocked_ns, s);
    load.waiting = fmin(share(b->waited_ns, a->waited_ns, come_s), load.blocked);
    load.causing = grown(b->caused_ns, a->caused_ns) / NS / come_s;
    load.cpu = grown(b->cpu_ns, a->cpu_ns) / NS / s;
    load.operations = grown(b->operations, a->operations) / s;
    load.steps = grown(b->steps, a->steps);
    load.nbytes = load.steps > 0 ? grown(b->nbytes, a->nbytes) / load.steps : 0;
    load.sent_to = b->sent_to <= INT32_MAX ? (int) b->sent_to : -1;
    put_thread(a, b, s, &load);
    *ret_load = load;
    return true;
}

/* --- as JSON ---------------------------------------------------------------------------------- */

/* In the order of put_row. */
static const char columns[] =
    "\"rank\",\"age_s\",\"operations\",\"bytes\",\"steps\",\"step_s\",\"blocked_s\",\"waited_s\","
    "\"caused_s\",\"cpu_s\",\"resident_bytes\",\"operations_per_s\",\"bytes_per_s\","
    "\"steps_per_s\",\"blocked\",\"waiting\",\"causing\",\"cpu\"";

static void put_row(const struct rg_numbers *n, const struct rg_rates *rates, uint64_t age_ns,
                    struct rg_buf *json)
{
    rg_buf_printf(json, "[%u,%.3f,%llu,%llu,%llu,%.6f,%.6f,%.6f,%.6f,%.3f,%llu", n->rank,
                  (double) age_ns / NS, (unsigned long long) n->operations,
                  (unsigned long long) n->nbytes, (unsigned long long) n->steps,
                  (double) n->step_ns / NS, (double) n->blocked_ns / NS,
                  (double) n->waited_ns / NS, (double) n->caused_ns / NS, (double) n->cpu_ns / NS,
                  (unsigned long long) n->resident_nbytes);
    rg_buf_printf(json, ",%.6g,%.6g,%.6g,%.4g,%.4g,%.4g,%.4g]", rates->operations, rates->nbytes,
                  rates->steps, rates->blocked, rates->waiting, rates->causing, rates->cpu);
}

void rg_numbers_store_put(const struct rg_numbers_store *store, uint32_t from, uint64_t now_ns,
                          struct rg_buf *json)
{
    const char *comma = "";
    uint64_t age_ns, end = (uint64_t) from + RG_NUMBERS_PAGE;
    struct rg_numbers numbers;
    struct rg_rates rates;

    rg_buf_printf(json, "{\"columns\":[%s],\"rows\":[", columns);
    for (uint64_t rank = from; rank < end && rank < store->count; rank++) {
        if (!rg_numbers_store_get(store, (uint32_t) rank, now_ns, &numbers, &rates, &age_ns))
            continue;
        rg_buf_printf(json, "%s", comma);
        put_row(&numbers, &rates, age_ns, json);
        comma = ",";
    }
    rg_buf_printf(json, "]");
    if (end < store->count && end < store->limit)
        rg_buf_printf(json, ",\"next\":%llu", (unsigned long long) end);
    rg_buf_printf(json, "}");
}
