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
#define NOTABLE 0.05 /* share of all ranks' time, below which nobody in particular is waited for */
#define MOSTLY 0.6   /* share of its host's part that makes a rank the one that is late */

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

unsigned rg_top_reading_add(struct rg_top_reading *reading, const json_t *page)
{
    const json_t *columns = json_object_get(page, "columns"), *rows = json_object_get(page, "rows");
    const json_t *one;
    json_int_t next = json_integer_value(json_object_get(page, "next"));
    size_t i, nranks = reading->nranks + json_array_size(rows);

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

/* Of a host's ranks: how many have rates, the share of time that they spend in operations without
 * waits for each other, and what they cause, as they have seen it themselves. */
struct part {
    size_t nrated;
    double apart, within, between;
};

static struct part *part_hosts(const struct rg_top_reading *reading)
{
    struct part *parts = calloc(reading->nhosts + 1, sizeof(*parts));

    for (size_t i = 0; parts && i < reading->nranks; i++) {
        const struct rg_top_rank *rank = &reading->ranks[i];
        if (rank->host < 0 || !rank->n.rated)
            continue;
        struct part *part = &parts[rank->host];
        part->nrated++;
        part->apart += rank->n.communication - rank->n.waiting;
        part->within += rank->n.causing;
    }
    for (size_t h = 0; parts && h < reading->nhosts; h++)
        parts[h].apart /= parts[h].nrated ? (double) parts[h].nrated : 1;
    return parts;
}

static void compare_hosts(struct part *parts, size_t nhosts)
{
    for (size_t h = 0; h < nhosts; h++) {
        for (size_t o = 0; parts[h].nrated && o < nhosts; o++) {
            double more = parts[o].apart - parts[h].apart;
            if (parts[o].nrated && more > RG_TOP_NOISE)
                parts[h].between += more * (double) parts[o].nrated;
        }
    }
}

/* What its host causes beyond the host, by the rank's part in what is caused within. */
static double share_of(const struct rg_top_rank *rank, const struct part *part)
{
    bool alike = part->within < RG_TOP_NOISE * (double) part->nrated;

    return part->between * (alike ? 1 / (double) part->nrated : rank->n.causing / part->within);
}

static void blame_hosts(struct rg_top_reading *reading)
{
    rg_autofree struct part *parts = part_hosts(reading);
    double most = reading->nranks ? (double) reading->nranks - 1 : 0;

    if (!parts) {
        reading->sound = false;
        return;
    }
    compare_hosts(parts, reading->nhosts);
    for (size_t i = 0; i < reading->nranks; i++) {
        struct rg_top_rank *rank = &reading->ranks[i];
        if (rank->host >= 0 && rank->n.rated)
            rank->n.causing += share_of(rank, &parts[rank->host]);
        rank->n.causing = fmin(rank->n.causing, most);
    }
}

/* The host that causes most, and the rank of it that does; or the rank, where hosts are unknown. On
 * one host alone it is always a rank. */
static void find_late(struct rg_top_reading *reading)
{
    int host = -1, rank = -1, nhosts = 0;

    for (size_t h = 0; h < reading->nhosts; h++) {
        nhosts += reading->hosts[h].worst >= 0;
        if (reading->hosts[h].worst >= 0 &&
            (host < 0 || reading->hosts[h].n.causing > reading->hosts[host].n.causing))
            host = (int) h;
    }
    for (size_t i = 0; i < reading->nranks; i++) {
        if (reading->ranks[i].host == host &&
            (rank < 0 || reading->ranks[i].n.causing > reading->ranks[rank].n.causing))
            rank = (int) i;
    }
    if (rank < 0)
        return;
    double causing = reading->ranks[rank].n.causing;
    double together = nhosts < 2 ? causing : reading->hosts[host].n.causing;
    bool alike = causing < MOSTLY * together;
    double late = alike ? together : causing;
    if (late < NOTABLE * (double) reading->nranks)
        return;
    reading->late_host = host;
    reading->late_rank = alike ? -1 : rank;
    reading->late_causing = late;
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
    blame_hosts(reading);
    sum_up(reading, nrated_of);
    find_late(reading);
}
