/* SPDX-License-Identifier: Apache-2.0 */
/* Steps are found by what is submitted, and not by when: a slow step is one as well. */
#include "simulate/profile.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define NONAME ".noname."

/* What the rank has submitted. */
struct item {
    const struct rg_traced_op *op;
    double at_s;
    double compute_s;  /* before it */
    bool waits;
    uint64_t key;      /* alike in all steps */
    uint64_t keys;     /* the sum of all before it */
};

/* The steps: `count` parts of `length` items, of which the last ends before item `end`. */
struct steps {
    size_t length, end;
    int count;
};

/* --- what was submitted ----------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    double x = ((const struct item *) a)->at_s, y = ((const struct item *) b)->at_s;

    return (x > y) - (x < y);
}

static size_t list_items(const struct rg_traced *traced, int rank, struct item *items)
{
    size_t n = 0;

    for (size_t i = 0; i < traced->nops; i++) {
        double at_s = rg_traced_came(traced, &traced->ops[i], rank);
        if (at_s >= 0 && !traced->ops[i].failed)
            items[n++] = (struct item){ .op = &traced->ops[i], .at_s = at_s };
    }
    if (n)
        qsort(items, n, sizeof(*items), by_time);
    return n;
}

/* Whether the program has begun to wait between two submissions, and how long it computed there:
 * what it waited for was over before it went on. */
static void find_computing(const struct rg_traced *traced, struct item *items, size_t n)
{
    double ended_s = 0; /* the latest end before this item */
    size_t wait = 0, done = 0;

    for (size_t i = 1; i < n; i++) {
        while (wait < traced->nwaits && traced->waits[wait] < items[i - 1].at_s)
            wait++;
        for (; done < traced->nops && traced->ops[done].end_s < items[i].at_s; done++)
            ended_s = fmax(ended_s, traced->ops[done].end_s);
        items[i].waits = wait < traced->nwaits && traced->waits[wait] < items[i].at_s;
        items[i].compute_s = items[i].at_s - items[i - 1].at_s;
        if (items[i].waits)
            items[i].compute_s -= fmax(ended_s - traced->waits[wait], 0);
    }
}

/* --- what comes again ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const char *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ (unsigned char) text[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

/* Names that the runtime has made count on from step to step. */
static uint64_t key_of(const struct rg_traced *traced, const struct item *item)
{
    const struct rg_traced_op *op = item->op;
    const char *name = op->lane < traced->nnames ? traced->names[op->lane] : NULL;
    const char *made = name ? strstr(name, NONAME) : NULL;
    size_t length = made ? (size_t) (made - name) : name ? strlen(name) : 0;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = mix(hash, op->kind, strlen(op->kind));
    hash = mix(hash, op->type, strlen(op->type));
    hash = mix(hash, (const char *) &op->nbytes, sizeof(op->nbytes));
    hash = mix(hash, item->waits ? "w" : "", item->waits);
    return mix(hash, name ? name : "", length);
}

static uint64_t sum_of(const struct item *items, size_t from, size_t until)
{
    return items[until].keys - items[from].keys;
}

/* How many parts of that length are alike, up to there, and in the same order. */
static int count_ordered(const struct item *items, size_t length, size_t end)
{
    size_t n = 0;

    if (length > end)
        return 0;
    while (n + length < end && items[end - 1 - n].key == items[end - 1 - n - length].key)
        n++;
    return 1 + (int) (n / length);
}

/* In whatever order each of them is. */
static int count_mixed(const struct item *items, size_t length, size_t end)
{
    uint64_t sum;
    int count = 0;

    if (length > end)
        return 0;
    sum = sum_of(items, end - length, end);
    for (; end >= length && sum_of(items, end - length, end) == sum; end -= length)
        count++;
    return count;
}

typedef int count_fn(const struct item *items, size_t length, size_t end);

static bool any_waits(const struct item *items, size_t from, size_t until)
{
    for (size_t i = from; i < until; i++) {
        if (items[i].waits)
            return true;
    }
    return false;
}

/* The last part may be unfinished, so the end is sought as well. */
static int find_alike(const struct item *items, size_t n, count_fn *count_alike,
                      struct steps *ret_steps)
{
    bool waits = any_waits(items, 0, n);
    size_t most = n / RG_PROFILE_STEPS_MIN;

    for (size_t length = 1; length <= most && length <= RG_PROFILE_OPS_MAX; length++) {
        for (size_t end = n; end + length > n && end >= RG_PROFILE_STEPS_MIN * length; end--) {
            int count = count_alike(items, length, end);
            if (count < RG_PROFILE_STEPS_MIN || 2 * length * (size_t) count < n ||
                (waits && !any_waits(items, end - length, end)))
                continue;
            *ret_steps = (struct steps){ length, end, count };
            return 0;
        }
    }
    return -EAGAIN;
}

/* Frameworks that compute on many threads submit a step's operations in any order. */
static int find_steps(const struct item *items, size_t n, struct steps *ret_steps)
{
    int r = find_alike(items, n, count_ordered, ret_steps);

    return r < 0 ? find_alike(items, n, count_mixed, ret_steps) : r;
}

/* --- what comes in several forms -------------------------------------------------------------- */

/* A part from one item that begins a step to the next one. */
struct part {
    size_t from, length;
    uint64_t sum;
};

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}

/* The key that comes most often, of those before which the program has waited if it waits at all;
 * keys has room for all. */
static uint64_t commonest_key(const struct item *items, size_t n, uint64_t *keys)
{
    bool waits = any_waits(items, 0, n);
    size_t nkeys = 0, most = 0, same = 0;
    uint64_t found = 0;

    for (size_t i = 0; i < n; i++) {
        if (items[i].waits == waits)
            keys[nkeys++] = items[i].key;
    }
    if (nkeys)
        qsort(keys, nkeys, sizeof(*keys), by_key);
    for (size_t i = 0; i < nkeys; i++) {
        same = i && keys[i] == keys[i - 1] ? same + 1 : 1;
        if (same > most) {
            most = same;
            found = keys[i];
        }
    }
    return found;
}

static size_t cut(const struct item *items, size_t n, uint64_t key, struct part *parts)
{
    size_t nparts = 0, from = n;

    for (size_t i = 0; i < n; i++) {
        if (items[i].key != key)
            continue;
        if (from < n)
            parts[nparts++] = (struct part){ from, i - from, sum_of(items, from, i) };
        from = i;
    }
    return nparts;
}

static int by_sum(const void *a, const void *b)
{
    const struct part *x = a, *y = b;

    if (x->sum != y->sum)
        return x->sum < y->sum ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

/* Those alike that are the most: *ret_first is the first one of parts, which are sorted. */
static size_t commonest_part(struct part *parts, size_t nparts, size_t *ret_first)
{
    size_t most = 0, same = 0;

    if (nparts)
        qsort(parts, nparts, sizeof(*parts), by_sum);
    for (size_t i = 0; i < nparts; i++) {
        same = i && parts[i].sum == parts[i - 1].sum && parts[i].length == parts[i - 1].length
                   ? same + 1 : 1;
        if (same > most) {
            most = same;
            *ret_first = i + 1 - same;
        }
    }
    return most;
}

/* The parts one after the other, as if nothing had been between them. */
static size_t join(struct item *items, const struct part *parts, size_t count, struct item *room)
{
    size_t n = 0;
    double now = 0;

    for (size_t k = 0; k < count; k++) {
        const struct part *part = &parts[k];
        double begin = items[part->from].at_s;
        for (size_t i = 0; i < part->length; i++) {
            room[n] = items[part->from + i];
            room[n++].at_s += now - begin;
        }
        now += items[part->from + part->length].at_s - begin;
    }
    memcpy(items, room, n * sizeof(*items));
    return n;
}

/* What is ready by chance goes together, so that a step may come in several forms: the commonest
 * one, of which items has nothing else then. */
static int find_form(struct item *items, size_t n, struct steps *ret_steps)
{
    rg_autofree uint64_t *keys = calloc(n + 1, sizeof(*keys));
    rg_autofree struct part *parts = calloc(n + 1, sizeof(*parts));
    rg_autofree struct item *room = calloc(n + 1, sizeof(*room));
    size_t first = 0;

    if (!keys || !parts || !room)
        return -ENOMEM;
    size_t nparts = cut(items, n, commonest_key(items, n, keys), parts);
    size_t count = commonest_part(parts, nparts, &first);
    if (count < RG_PROFILE_STEPS_MIN || parts[first].length > RG_PROFILE_OPS_MAX ||
        4 * count * parts[first].length < n)
        return -EAGAIN;
    *ret_steps = (struct steps){ parts[first].length, join(items, &parts[first], count, room),
                                 (int) count };
    return 0;
}

/* --- medians ---------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_size);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The item at that place of step number `back` before the last one. */
static const struct item *item_at(const struct item *items, const struct steps *steps, int back,
                                  size_t place)
{
    return &items[steps->end - ((size_t) back + 1) * steps->length + place];
}

static int take_op(const struct rg_traced *traced, const struct item *items,
                   const struct steps *steps, size_t place, double *room,
                   struct rg_profile_op *ret_op)
{
    const struct rg_traced_op *op = item_at(items, steps, 0, place)->op;
    const char *name = op->lane < traced->nnames && traced->names[op->lane]
                           ? traced->names[op->lane] : "";
    int nwaits = 0;

    for (int k = 0; k < steps->count; k++) {
        const struct item *item = item_at(items, steps, k, place);
        room[k] = item->compute_s;
        nwaits += item->waits;
    }
    *ret_op = (struct rg_profile_op){
        .name = strdup(name), .nbytes = op->nbytes, .waits = 2 * nwaits > steps->count,
        .compute_s = median(room, (size_t) steps->count),
    };
    memcpy(ret_op->kind, op->kind, sizeof(op->kind));
    memcpy(ret_op->type, op->type, sizeof(op->type));
    return ret_op->name ? 0 : -ENOMEM;
}

/* A step begins where it computes longest after a wait. Frameworks whose operations nobody waits
 * for wait in their own way, for all of a step, where it computes longest at all. */
static void rotate(struct rg_profile *profile)
{
    struct rg_profile_op *ops = profile->ops, *turned;
    size_t n = profile->nops, first = 0;
    bool waits = false;

    for (size_t i = 0; i < n; i++)
        waits |= ops[i].waits;
    for (size_t i = 0; i < n; i++) {
        if ((ops[i].waits || !waits) &&
            (ops[i].compute_s > ops[first].compute_s || (waits && !ops[first].waits)))
            first = i;
    }
    turned = calloc(n, sizeof(*turned));
    for (size_t i = 0; turned && i < n; i++)
        turned[i] = ops[(first + i) % n];
    if (turned) {
        free(ops);
        profile->ops = turned;
    }
    profile->ops[0].waits = true;
}

/* Of whole steps: how long they compute, as a median, and last. The parts have medians of their
 * own, whose sum is another one where steps differ much: they are made to fit. */
static void judge_steps(const struct item *items, const struct steps *steps, double *room,
                        struct rg_profile *profile)
{
    double sum = 0, squares = 0, parts = 0;
    size_t n = 0;

    for (int k = 0; k < steps->count; k++) {
        room[k] = 0;
        for (size_t place = 0; place < steps->length; place++)
            room[k] += item_at(items, steps, k, place)->compute_s;
        sum += room[k];
        squares += room[k] * room[k];
    }
    double mean = sum / steps->count, variance = squares / steps->count - mean * mean;
    profile->deviation = mean > 0 && variance > 0 ? sqrt(variance) / mean : 0;
    profile->compute_s = median(room, (size_t) steps->count);
    for (size_t i = 0; i < profile->nops; i++)
        parts += profile->ops[i].compute_s;
    for (size_t i = 0; parts > 0 && i < profile->nops; i++)
        profile->ops[i].compute_s *= profile->compute_s / parts;
    for (int k = 0; k + 1 < steps->count; k++)
        room[n++] = item_at(items, steps, k, 0)->at_s - item_at(items, steps, k + 1, 0)->at_s;
    profile->step_s = median(room, n);
}

static int make(const struct rg_traced *traced, const struct item *items,
                const struct steps *steps, struct rg_profile *profile)
{
    rg_autofree double *room = calloc((size_t) steps->count, sizeof(*room));
    int r = room ? 0 : -ENOMEM;

    profile->nsteps = steps->count;
    profile->ops = calloc(steps->length, sizeof(*profile->ops));
    if (!profile->ops)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < steps->length; i++, profile->nops++)
        r = take_op(traced, items, steps, i, room, &profile->ops[i]);
    if (r < 0)
        return r;
    judge_steps(items, steps, room, profile);
    rotate(profile);
    return 0;
}

int rg_profile_make(const struct rg_traced *traced, int rank, int nsteps_max,
                    struct rg_profile *ret_profile)
{
    rg_autofree struct item *items = calloc(traced->nops + 1, sizeof(*items));
    struct rg_profile profile = { 0 };
    struct steps steps;
    int r;

    if (!items)
        return -ENOMEM;
    size_t n = list_items(traced, rank, items);
    find_computing(traced, items, n);
    for (size_t i = 0; i < n; i++) {
        items[i].key = key_of(traced, &items[i]);
        items[i + 1].keys = items[i].keys + items[i].key;
    }
    r = find_steps(items, n, &steps);
    if (r == -EAGAIN)
        r = find_form(items, n, &steps);
    if (r < 0)
        return r;
    /* The first steps warm up, and what came before the first one is not known. */
    steps.count = steps.count > RG_PROFILE_STEPS_MIN ? steps.count - 1 : steps.count;
    steps.count = steps.count < nsteps_max ? steps.count : nsteps_max;
    r = make(traced, items, &steps, &profile);
    if (r < 0)
        rg_profile_fini(&profile);
    else
        *ret_profile = profile;
    return r;
}

void rg_profile_fini(struct rg_profile *profile)
{
    for (size_t i = 0; i < profile->nops; i++)
        free(profile->ops[i].name);
    free(profile->ops);
    *profile = (struct rg_profile){ 0 };
}

unsigned rg_profile_element(const char *type)
{
    static const struct { const char *name; unsigned nbytes; } types[] = {
        { "float32", 4 }, { "float16", 2 }, { "bfloat16", 2 }, { "float64", 8 }, { "int32", 4 },
        { "int64", 8 }, { "uint32", 4 }, { "uint64", 8 }, { "int16", 2 }, { "uint16", 2 },
    };

    for (size_t i = 0; i < rg_array_len(types); i++) {
        if (strcmp(type, types[i].name) == 0)
            return types[i].nbytes;
    }
    return 1;
}
