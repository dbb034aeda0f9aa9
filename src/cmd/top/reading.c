/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers come from another process, which may be of another version or odd: each is looked at
 * before it is shown. */
#include "cmd/top/reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define RANKS_MAX (1 << 20)

/* --- pages ------------------------------------------------------------------------------------ */

/* These ranks are on the host of this index. */
static int note_run(struct rg_top_reading *reading, json_int_t first, json_int_t count, int host)
{
    size_t before = reading->host_of_room;

    if (first < 0 || count < 0 || first > RANKS_MAX || count > RANKS_MAX - first)
        return -EBADMSG;
    int r = rg_grow(&reading->host_of, &reading->host_of_room, (size_t) (first + count));
    for (size_t i = before; r == 0 && i < reading->host_of_room; i++)
        reading->host_of[i] = -1;
    for (json_int_t rank = first; r == 0 && rank < first + count; rank++)
        reading->host_of[rank] = host;
    return r;
}

/* ["a",0,4,8,1]: ranks 0 to 3 and 8 are on a. */
static int take_place(struct rg_top_reading *reading, const json_t *place)
{
    const char *name = json_string_value(json_array_get(place, 0));
    int r = rg_grow(&reading->hosts, &reading->hosts_room, reading->nhosts + 1);
    char *copy = r == 0 ? strdup(name ? name : "?") : NULL;

    if (!copy)
        return -ENOMEM;
    int host = (int) reading->nhosts++;
    reading->hosts[host] = (struct rg_top_host){ .name = copy, .worst = -1 };
    for (size_t i = 1; r == 0 && i + 1 < json_array_size(place); i += 2)
        r = note_run(reading, json_integer_value(json_array_get(place, i)),
                     json_integer_value(json_array_get(place, i + 1)), host);
    return r;
}

/* The value of a row's column, which is no less than 0. */
static double value_of(const json_t *columns, const json_t *row, const char *name)
{
    const json_t *column;
    size_t i;

    json_array_foreach(columns, i, column) {
        const char *text = json_string_value(column);
        if (text && strcmp(text, name) == 0)
            return fmax(json_number_value(json_array_get(row, i)), 0);
    }
    return 0;
}

static void take_row(struct rg_top_rank *rank, const json_t *columns, const json_t *row)
{
    struct rg_top_numbers *n = &rank->n;
    double waiting = value_of(columns, row, "waiting"), age_s = value_of(columns, row, "age_s");

    rank->rank = (int) fmin(value_of(columns, row, "rank"), RANKS_MAX);
    rank->host = -1;
    *n = (struct rg_top_numbers){
        .steps = value_of(columns, row, "steps"),
        .step_s = value_of(columns, row, "step_s"),
        .resident = value_of(columns, row, "resident_bytes"),
        .age_s = age_s,
        .rated = age_s < RG_TOP_SILENT_S,
    };
    if (!n->rated)
        return;
    n->steps_per_s = value_of(columns, row, "steps_per_s");
    n->communication = fmin(fmax(value_of(columns, row, "blocked"), waiting), 1);
    n->waiting = fmin(waiting, 1);
    n->causing = value_of(columns, row, "causing");
    n->bytes_per_s = value_of(columns, row, "bytes_per_s");
    n->operations_per_s = value_of(columns, row, "operations_per_s");
    n->cpu = value_of(columns, row, "cpu");
}

/* Numbers are of the other process; names of hosts are kept as they come. */
static int take_diagnosis(struct rg_top_reading *reading, const json_t *told)
{
    struct rg_top_why *why = &reading->why;
    const char *host = json_string_value(json_object_get(told, "host"));
    const char *to = json_string_value(json_object_get(told, "to"));
    const char *cause = json_string_value(json_object_get(told, "cause"));
    const json_t *rank = json_object_get(told, "rank");

    why->diagnosis = (struct rg_lateness){
        .cause = rg_cause_find(cause ? cause : ""),
        .late = { .rank = json_is_integer(rank) ? (int) json_integer_value(rank) : -1,
                  .host = -1 },
        .to = to ? 0 : -1,
        .share = json_number_value(json_object_get(told, "share")),
        .value = json_number_value(json_object_get(told, "value")),
        .usual = json_number_value(json_object_get(told, "usual")),
    };
    free(why->host);
    free(why->to);
    why->host = host ? strdup(host) : NULL;
    why->to = to ? strdup(to) : NULL;
    return (host && !why->host) || (to && !why->to) ? -ENOMEM : 0;
}

unsigned rg_top_reading_add(struct rg_top_reading *reading, const json_t *page)
{
    const json_t *columns = json_object_get(page, "columns"), *rows = json_object_get(page, "rows");
    const json_t *one;
    json_int_t next = json_integer_value(json_object_get(page, "next"));
    size_t i, nranks = reading->nranks + json_array_size(rows);

    if (json_object_get(page, "diagnosis"))
        reading->sound &= take_diagnosis(reading, json_object_get(page, "diagnosis")) == 0;
    json_array_foreach(json_object_get(page, "places"), i, one)
        reading->sound &= take_place(reading, one) == 0;
    if (!json_is_array(rows) || nranks > RANKS_MAX ||
        rg_grow(&reading->ranks, &reading->ranks_room, nranks) < 0) {
        reading->sound = false;
        return 0;
    }
    json_array_foreach(rows, i, one)
        take_row(&reading->ranks[reading->nranks++], columns, one);
    return next > 0 && next < RANKS_MAX ? (unsigned) next : 0;
}

void rg_top_reading_fini(struct rg_top_reading *reading)
{
    for (size_t i = 0; i < reading->nhosts; i++)
        free(reading->hosts[i].name);
    free(reading->why.host);
    free(reading->why.to);
    free(reading->hosts);
    free(reading->ranks);
    free(reading->host_of);
    *reading = (struct rg_top_reading) RG_TOP_READING_INIT;
}

/* --- several together ------------------------------------------------------------------------- */

/* Means are sums until they are divided. */
static void join(struct rg_top_numbers *all, const struct rg_top_numbers *one, bool first)
{
    all->steps = first || one->steps < all->steps ? one->steps : all->steps;
    all->age_s = fmax(all->age_s, one->age_s);
    all->steps_per_s += one->steps_per_s;
    all->step_s = fmax(all->step_s, one->step_s);
    all->communication += one->communication;
    all->waiting += one->waiting;
    all->causing += one->causing;
    all->bytes_per_s += one->bytes_per_s;
    all->operations_per_s += one->operations_per_s;
    all->cpu += one->cpu;
    all->resident += one->resident;
    all->rated |= one->rated;
}

static void divide(struct rg_top_numbers *all, size_t nrated)
{
    double n = nrated ? (double) nrated : 1;

    all->steps_per_s /= n;
    all->communication /= n;
    all->waiting /= n;
}

static struct rg_top_host *host_of(const struct rg_top_reading *reading,
                                   const struct rg_top_rank *rank)
{
    return rank->host < 0 ? NULL : &reading->hosts[rank->host];
}

static void sum_up(struct rg_top_reading *reading, size_t *nrated_of)
{
    size_t nrated = 0;

    for (size_t i = 0; i < reading->nranks; i++) {
        const struct rg_top_rank *rank = &reading->ranks[i];
        struct rg_top_host *host = host_of(reading, rank);
        join(&reading->all, &rank->n, i == 0);
        nrated += rank->n.rated;
        if (!host)
            continue;
        join(&host->n, &rank->n, host->nranks++ == 0);
        nrated_of[rank->host] += rank->n.rated;
        if (host->worst < 0 || rank->n.causing > reading->ranks[host->worst].n.causing)
            host->worst = (int) i;
    }
    divide(&reading->all, nrated);
    for (size_t h = 0; h < reading->nhosts; h++)
        divide(&reading->hosts[h].n, nrated_of[h]);
}

/* --- who is waited for ------------------------------------------------------------------------ */

static struct rg_load load_of(const struct rg_top_rank *rank)
{
    return (struct rg_load){
        .host = rank->host, .rated = rank->n.rated, .blocked = rank->n.communication,
        .waiting = rank->n.waiting, .causing = rank->n.causing, .sent_to = -1,
    };
}

static void find_late(struct rg_top_reading *reading)
{
    rg_autofree struct rg_load *loads = calloc(reading->nranks + 1, sizeof(*loads));
    rg_autofree struct rg_load_host *hosts = calloc(reading->nhosts + 1, sizeof(*hosts));
    struct rg_late late;

    if (!loads || !hosts) {
        reading->sound = false;
        return;
    }
    for (size_t i = 0; i < reading->nranks; i++)
        loads[i] = load_of(&reading->ranks[i]);
    rg_late_find(loads, reading->nranks, hosts, reading->nhosts, &late);
    for (size_t i = 0; i < reading->nranks; i++)
        reading->ranks[i].n.causing = loads[i].causing;
    reading->late_rank = late.rank;
    reading->late_host = late.host;
    reading->late_causing = late.causing;
}

void rg_top_reading_settle(struct rg_top_reading *reading)
{
    rg_autofree size_t *nrated_of = calloc(reading->nhosts + 1, sizeof(*nrated_of));

    if (!nrated_of) {
        reading->sound = false;
        return;
    }
    for (size_t i = 0; i < reading->nranks; i++) {
        struct rg_top_rank *rank = &reading->ranks[i];
        if ((size_t) rank->rank < reading->host_of_room)
            rank->host = reading->host_of[rank->rank];
    }
    find_late(reading);
    sum_up(reading, nrated_of);
}
