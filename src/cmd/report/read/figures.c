/* SPDX-License-Identifier: Apache-2.0 */
/* Sums are compared only within one life of a rank, and never where they fell. */
#include "cmd/report/read/figures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/top/reading.h"

#define LEAST_S 0.2  /* what is nearer says nothing of a second */
#define WINDOW_S 4.5 /* what a rank tells of others is up to a second older than what it tells of
                      * itself, so rates are of no less than this, where there is so much */

typedef const struct rg_recorded_sample sample_t;
typedef const struct rg_recorded_row row_t;

/* --- two samples ------------------------------------------------------------------------------ */

static bool same_life(sample_t *a, sample_t *b)
{
    return a->start == b->start && a->epoch == b->epoch;
}

/* The time over which the one became the other; 0: it says nothing. */
static double time_between(row_t *a, row_t *b)
{
    double s = b->at_s - a->at_s;

    if (s < LEAST_S || b->steps < a->steps || b->nbytes < a->nbytes ||
        b->blocked_s < a->blocked_s || b->waited_s < a->waited_s || b->caused_s < a->caused_s ||
        b->operations < a->operations || b->cpu_s < a->cpu_s)
        return 0;
    return s;
}

/* What waits on another thread is blocked, but several threads are no more than all of the time. */
static double communication_of(row_t *a, row_t *b, double s)
{
    double blocked = b->blocked_s - a->blocked_s, waited = b->waited_s - a->waited_s;

    return fmin(fmax(blocked, waited) / s, 1);
}

static void take(struct rg_figure *figure, double value, size_t n)
{
    figure->mean += value;
    figure->min = n ? fmin(figure->min, value) : value;
    figure->max = n ? fmax(figure->max, value) : value;
}

/* Go on to the next rank that both have. */
static bool meet(sample_t *a, sample_t *b, size_t *i, size_t *k)
{
    while (*i < a->nrows && *k < b->nrows && a->rows[*i].rank != b->rows[*k].rank) {
        if (a->rows[*i].rank < b->rows[*k].rank)
            ++*i;
        else
            ++*k;
    }
    return *i < a->nrows && *k < b->nrows;
}

/* How many ranks it is of. */
static size_t fill_point(sample_t *a, sample_t *b, struct rg_figures_point *point)
{
    size_t n = 0;

    for (size_t i = 0, k = 0; meet(a, b, &i, &k); i++, k++) {
        row_t *from = &a->rows[i], *to = &b->rows[k];
        double s = time_between(from, to);
        if (s <= 0)
            continue;
        take(&point->steps, (to->steps - from->steps) / s, n);
        take(&point->communication, communication_of(from, to, s), n);
        point->nbytes_per_s += (to->nbytes - from->nbytes) / s;
        point->cpu += (to->cpu_s - from->cpu_s) / s;
        point->resident += to->resident;
        n++;
    }
    if (n > 0) {
        point->steps.mean /= (double) n;
        point->communication.mean /= (double) n;
    }
    return n;
}

double rg_figures_causing(sample_t *a, sample_t *b, int rank)
{
    for (size_t i = 0, k = 0; meet(a, b, &i, &k); i++, k++) {
        double s = a->rows[i].rank == rank ? time_between(&a->rows[i], &b->rows[k]) : 0;
        if (s > 0)
            return (b->rows[k].caused_s - a->rows[i].caused_s) / s;
    }
    return -1;
}

/* --- over time -------------------------------------------------------------------------------- */

/* Samples of the same life around the two, where they are near to each other. */
static void widen(const struct rg_recorded *record, size_t *a, size_t *b)
{
    sample_t *v = record->samples;
    bool grown = true;

    while (grown && v[*b].at_s - v[*a].at_s < WINDOW_S) {
        grown = false;
        if (*b + 1 < record->nsamples && same_life(&v[*b], &v[*b + 1]))
            grown = ++*b;
        if (*a > 0 && same_life(&v[*a], &v[*a - 1]) && v[*b].at_s - v[*a].at_s < WINDOW_S)
            grown = (*a)--;
    }
}

static int make_points(const struct rg_recorded *record, struct rg_figures *figures)
{
    size_t stride = record->nsamples / RG_FIGURES_POINTS + 1, i = 0;
    bool begins = true;

    figures->points = calloc(record->nsamples + 1, sizeof(*figures->points));
    if (!figures->points)
        return -ENOMEM;
    while (i + 1 < record->nsamples) {
        sample_t *a = &record->samples[i];
        size_t k = i;
        while (k < i + stride && k + 1 < record->nsamples && same_life(a, a + (k + 1 - i)))
            k++;
        struct rg_figures_point point = { .from_s = a->at_s - record->began_s,
                                          .to_s = record->samples[k].at_s - record->began_s,
                                          .begins = begins, .first = i, .last = k };
        widen(record, &point.first, &point.last);
        if (k > i && fill_point(&record->samples[point.first], &record->samples[point.last],
                                &point) > 0) {
            figures->points[figures->npoints++] = point;
            begins = false;
        }
        begins |= k == i;
        i = k > i ? k : i + 1;
    }
    return 0;
}

/* --- rank by rank ----------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    return ((const struct rg_figures_rank *) a)->rank - ((const struct rg_figures_rank *) b)->rank;
}

static struct rg_figures_rank *find(const struct rg_figures *figures, int rank)
{
    const struct rg_figures_rank key = { .rank = rank };

    return figures->nranks ? bsearch(&key, figures->ranks, figures->nranks, sizeof(key), by_number)
                           : NULL;
}

/* All numbers that there are, once each. */
static int collect(const struct rg_recorded *record, struct rg_figures *figures)
{
    size_t room = 0, before;

    for (size_t s = 0; s < record->nsamples; s++) {
        sample_t *sample = &record->samples[s];
        before = figures->nranks;
        for (size_t i = 0; i < sample->nrows; i++) {
            int rank = sample->rows[i].rank;
            const struct rg_figures_rank key = { .rank = rank };
            if (before && bsearch(&key, figures->ranks, before, sizeof(key), by_number))
                continue;
            if (figures->nranks > before && figures->ranks[figures->nranks - 1].rank == rank)
                continue;
            if (rg_grow(&figures->ranks, &room, figures->nranks + 1) < 0)
                return -ENOMEM;
            figures->ranks[figures->nranks++] = (struct rg_figures_rank){ .rank = rank,
                                                                          .host = -1 };
        }
        if (figures->nranks > before)
            qsort(figures->ranks, figures->nranks, sizeof(*figures->ranks), by_number);
    }
    return 0;
}

/* The rows of one rank between which its sums only grow. A rank may be heard of later than others,
 * or call init again, within the samples of one start and epoch. */
struct life {
    sample_t *sample; /* the last one that it is in */
    row_t *first, *last;
};

static void add_sums(struct rg_figures_rank *rank, row_t *last)
{
    rank->host = last->host;
    rank->steps += last->steps;
    rank->nbytes += last->nbytes;
    rank->operations += last->operations;
}

static void add_rates(struct rg_figures_rank *rank, row_t *from, row_t *to)
{
    double s = time_between(from, to);

    if (s <= 0)
        return;
    rank->seen_s += s;
    rank->steps_per_s += to->steps - from->steps;
    rank->nbytes_per_s += to->nbytes - from->nbytes;
    rank->communication += communication_of(from, to, s) * s;
    rank->waiting += fmin(to->waited_s - from->waited_s, s);
    rank->cpu += to->cpu_s - from->cpu_s;
    rank->causing += to->caused_s - from->caused_s;
}

static void end_life(struct rg_figures_rank *rank, struct life *life)
{
    if (life->sample) {
        add_sums(rank, life->last);
        add_rates(rank, life->first, life->last);
    }
    *life = (struct life){ NULL };
}

static bool is_anew(const struct life *life, sample_t *now, row_t *row)
{
    row_t *last = life->last;

    return life->sample && (!same_life(life->sample, now) || row->steps < last->steps ||
                            row->operations < last->operations || row->nbytes < last->nbytes);
}

static void divide(struct rg_figures_rank *rank)
{
    double s = rank->seen_s > 0 ? rank->seen_s : 1;

    rank->steps_per_s /= s;
    rank->nbytes_per_s /= s;
    rank->communication /= s;
    rank->waiting /= s;
    rank->cpu /= s;
    rank->causing /= s;
}

static void add_sample(const struct rg_figures *figures, struct life *lives, sample_t *now)
{
    for (size_t i = 0; i < now->nrows; i++) {
        row_t *row = &now->rows[i];
        struct rg_figures_rank *rank = find(figures, row->rank);
        struct life *life = &lives[rank - figures->ranks];

        rank->resident = fmax(rank->resident, row->resident);
        if (is_anew(life, now, row))
            end_life(rank, life);
        *life = (struct life){ now, life->first ? life->first : row, row };
    }
}

static int add_lives(const struct rg_recorded *record, struct rg_figures *figures)
{
    rg_autofree struct life *lives = calloc(figures->nranks + 1, sizeof(*lives));

    if (!lives)
        return -ENOMEM;
    for (size_t s = 0; s < record->nsamples; s++)
        add_sample(figures, lives, &record->samples[s]);
    for (size_t i = 0; i < figures->nranks; i++) {
        end_life(&figures->ranks[i], &lives[i]);
        divide(&figures->ranks[i]);
    }
    return 0;
}

/* --- who was waited for: as reigen top finds it ----------------------------------------------- */

static json_t *page_of(const struct rg_recorded *record, const struct rg_figures *figures)
{
    json_t *places = json_array(), *rows = json_array();

    for (size_t h = 0; h < record->nhosts; h++)
        json_array_append_new(places, json_pack("[s]", record->hosts[h].name));
    for (size_t i = 0; i < figures->nranks; i++) {
        const struct rg_figures_rank *rank = &figures->ranks[i];
        json_t *place = rank->host < 0 ? NULL : json_array_get(places, (size_t) rank->host);
        json_array_append_new(place, json_integer(rank->rank));
        json_array_append_new(place, json_integer(1));
        if (rank->seen_s > 0)
            json_array_append_new(rows, json_pack("[i,f,f,f]", rank->rank, rank->communication,
                                                  rank->waiting, rank->causing));
    }
    return json_pack("{s:o, s:[s,s,s,s], s:o}", "places", places, "columns", "rank", "blocked",
                     "waiting", "causing", "rows", rows);
}

static int find_late(const struct rg_recorded *record, struct rg_figures *figures)
{
    rg_cleanup(rg_top_reading_fini) struct rg_top_reading reading = RG_TOP_READING_INIT;
    json_t *page = page_of(record, figures);

    if (page)
        rg_top_reading_add(&reading, page);
    json_decref(page);
    rg_top_reading_settle(&reading);
    if (!page || !reading.sound)
        return -ENOMEM;
    for (size_t i = 0; i < reading.nranks; i++) {
        struct rg_figures_rank *rank = find(figures, reading.ranks[i].rank);
        if (rank)
            rank->causing = reading.ranks[i].n.causing;
    }
    figures->late_host = reading.late_host;
    figures->late_rank = reading.late_rank < 0 ? -1 : reading.ranks[reading.late_rank].rank;
    figures->late_causing = reading.late_causing;
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void sum_up(const struct rg_recorded *record, struct rg_figures *figures)
{
    const struct rg_recorded_start *start = record->nstarts ? &record->starts[record->nstarts - 1]
                                                            : NULL;

    figures->elapsed_s = record->last_s - record->began_s;
    if (start && start->running_s > 0)
        figures->start_s = fmax(start->running_s - start->at_s, 0);
    for (size_t i = 0; i < figures->nranks; i++) {
        const struct rg_figures_rank *rank = &figures->ranks[i];
        figures->steps = !i ? rank->steps : record->elastic ? fmax(figures->steps, rank->steps)
                                                            : fmin(figures->steps, rank->steps);
        figures->resident += rank->resident;
        if (rank->seen_s <= 0)
            continue;
        figures->nrated++;
        figures->steps_per_s += rank->steps_per_s;
        figures->communication += rank->communication;
        figures->nbytes_per_s += rank->nbytes_per_s;
        figures->cpu += rank->cpu;
    }
    if (figures->nrated) {
        figures->steps_per_s /= (double) figures->nrated;
        figures->communication /= (double) figures->nrated;
    }
}

int rg_figures_make(const struct rg_recorded *record, struct rg_figures *ret_figures)
{
    struct rg_figures figures = { .late_rank = -1, .late_host = -1 };
    int r = make_points(record, &figures);

    r = r == 0 ? collect(record, &figures) : r;
    r = r == 0 ? add_lives(record, &figures) : r;
    r = r == 0 ? find_late(record, &figures) : r;
    if (r == 0)
        sum_up(record, &figures);
    if (r < 0)
        rg_figures_fini(&figures);
    else
        *ret_figures = figures;
    return r;
}

void rg_figures_fini(struct rg_figures *figures)
{
    free(figures->points);
    free(figures->ranks);
    *figures = (struct rg_figures){ 0 };
}
