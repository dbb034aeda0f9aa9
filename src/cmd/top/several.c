/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs come and go while they are looked at. One that has ended keeps its row, so that nobody has
 * to guess what became of it. */
#include "cmd/top/several.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "base/time.h"
#include "cmd/jobs/jobs.h"
#include "head/console/words.h"

#define ID_MIN 8
#define ID_MAX 32
#define WIDE 110 /* columns from which on there is room for more of them */
#define BOLD "\033[1m"
#define REVERSE "\033[7m"
#define RED "\033[31m"

/* --- which there are -------------------------------------------------------------------------- */

static void on_changed(void *arg)
{
    const struct rg_top_jobs *jobs = arg;

    if (jobs->changed)
        jobs->changed(jobs->arg);
}

int rg_top_jobs_add(struct rg_top_jobs *jobs, struct rg_registry_job *take_job)
{
    struct rg_top_watch *watch = NULL;
    int r = rg_top_watch_create(jobs->loop, take_job, on_changed, jobs, &watch);

    if (r == 0)
        r = rg_grow(&jobs->watches, &jobs->room, jobs->count + 1);
    if (r < 0)
        rg_top_watch_destroy(watch);
    else
        jobs->watches[jobs->count++] = watch;
    return r;
}

static bool is_watched(const struct rg_top_jobs *jobs, const char *id)
{
    for (size_t i = 0; i < jobs->count; i++) {
        if (strcmp(jobs->watches[i]->job.id, id) == 0)
            return true;
    }
    return false;
}

/* What a platform runs for us as a job that was submitted is listed as that. */
static bool is_submitted(const struct rg_registry_job *job, const struct rg_submitted_list *list)
{
    for (size_t i = 0; job->within && i < list->count; i++) {
        if (list->jobs[i].platform == job->within && strcmp(list->jobs[i].id, job->within_id) == 0)
            return true;
    }
    return false;
}

/* Only those that are elsewhere stay in the list. */
static int sort_out(struct rg_top_jobs *jobs, struct rg_registry *registry)
{
    size_t kept = 0;
    int r = 0;

    for (size_t i = 0; i < registry->count; i++) {
        struct rg_registry_job job = registry->jobs[i];
        enum rg_registry_state state = rg_registry_state(&job);
        registry->jobs[i] = (struct rg_registry_job){ 0 };
        bool submitted = is_submitted(&job, &jobs->submitted);
        if (r == 0 && state == RG_JOB_RUNS && !submitted && !is_watched(jobs, job.id))
            r = rg_top_jobs_add(jobs, &job);
        else if (state == RG_JOB_ELSEWHERE && !submitted)
            registry->jobs[kept++] = job;
        else
            rg_registry_job_fini(&job);
    }
    registry->count = kept;
    return r;
}

int rg_top_jobs_find(struct rg_top_jobs *jobs)
{
    struct rg_registry registry = { 0 };

    if (jobs->fixed)
        return 0;
    int r = rg_registry_list(&registry);
    if (r < 0)
        return r;
    r = sort_out(jobs, &registry);
    rg_registry_fini(&jobs->elsewhere);
    jobs->elsewhere = registry;
    return r;
}

void rg_top_jobs_ask(struct rg_top_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        rg_top_watch_ask(jobs->watches[i]);
}

bool rg_top_jobs_are_over(const struct rg_top_jobs *jobs)
{
    bool over = true;

    for (size_t i = 0; i < jobs->count; i++)
        over &= jobs->watches[i]->over;
    return over;
}

static bool is_there(const struct rg_submitted_job *job)
{
    return job->state != RG_SUBMITTED_ENDED && job->exit_code < 0;
}

size_t rg_top_jobs_others(const struct rg_top_jobs *jobs)
{
    size_t count = jobs->elsewhere.count;

    for (size_t i = 0; i < jobs->submitted.count; i++)
        count += is_there(&jobs->submitted.jobs[i]);
    return count;
}

void rg_top_jobs_fini(struct rg_top_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        rg_top_watch_destroy(jobs->watches[i]);
    free(jobs->watches);
    rg_registry_fini(&jobs->elsewhere);
    rg_submitted_list_fini(&jobs->submitted);
    *jobs = (struct rg_top_jobs){ 0 };
}

/* --- their order ------------------------------------------------------------------------------ */

/* Share of all ranks' time that is waited for others. */
static double waited(const struct rg_top_watch *watch)
{
    size_t nranks = watch->reading.nranks;

    return nranks && !watch->over ? watch->reading.all.causing / (double) nranks : 0;
}

static int compare(const void *a, const void *b)
{
    const struct rg_top_watch *x = *(struct rg_top_watch *const *) a;
    const struct rg_top_watch *y = *(struct rg_top_watch *const *) b;
    double p = waited(x), q = waited(y);

    if (x->over != y->over)
        return x->over ? 1 : -1;
    if (p > q || p < q)
        return p > q ? -1 : 1;
    return strcmp(x->job.id, y->job.id);
}

struct rg_top_watch **rg_top_jobs_sorted(const struct rg_top_jobs *jobs)
{
    struct rg_top_watch **sorted = calloc(jobs->count + 1, sizeof(*sorted));

    if (sorted && jobs->count) {
        memcpy(sorted, jobs->watches, jobs->count * sizeof(*sorted));
        qsort(sorted, jobs->count, sizeof(*sorted), compare);
    }
    return sorted;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* What stands in a row; NULL: nothing is known of it. */
struct cells {
    const char *id, *time;
    size_t nranks;
    const struct rg_top_numbers *n;
    const char *why;
};

/* Wide as the longest id; what an id has above that is cut. */
static int id_width(const struct rg_top_jobs *jobs)
{
    int width = ID_MIN;

    for (size_t i = 0; i < jobs->count; i++) {
        int n = rg_width(jobs->watches[i]->job.id);
        width = n > width ? n : width;
    }
    for (size_t i = 0; i < jobs->elsewhere.count; i++) {
        int n = rg_width(jobs->elsewhere.jobs[i].id);
        width = n > width ? n : width;
    }
    for (size_t i = 0; i < jobs->submitted.count; i++) {
        int n = is_there(&jobs->submitted.jobs[i]) ? rg_width(jobs->submitted.jobs[i].id) : 0;
        width = n > width ? n : width;
    }
    return width > ID_MAX ? ID_MAX : width;
}

static void put_padded(struct rg_buf *line, const char *words, int width)
{
    rg_autobuf struct rg_buf cell = RG_BUF_INIT;

    rg_put_cut(&cell, words, width, 0);
    rg_shown_printf(line, "%s%*s", rg_buf_text(&cell), width - rg_width(rg_buf_text(&cell)), "");
}

static void put_heading(int width, const struct rg_top_look *look, struct rg_buf *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    rg_shown_printf(&line, "%s", look->cursor ? "  " : "");
    put_padded(&line, "JOB", width);
    rg_shown_printf(&line, " %8s %5s %6s %5s", "TIME", "RANKS", "STEP/S", "COMM");
    if (look->columns >= WIDE)
        rg_shown_printf(&line, " %7s %6s %6s", "BYTES/S", "CPU", "MEMORY");
    rg_shown_printf(&line, "  WAITED FOR");
    rg_top_put_line(rg_buf_text(&line), BOLD, look, text);
}

static void put_row(const struct cells *cells, int width, const char *mark, const char *style,
                    const struct rg_top_look *look, struct rg_buf *text)
{
    static const struct rg_top_numbers none;
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    const struct rg_top_numbers *n = cells->n ? cells->n : &none;
    char cell[RG_TOP_CELL], ranks[24] = "-"; /* any size_t */

    if (cells->nranks)
        snprintf(ranks, sizeof(ranks), "%zu", cells->nranks);
    rg_shown_printf(&line, "%s", look->cursor ? mark : "");
    put_padded(&line, cells->id, width);
    rg_shown_printf(&line, " %8s %5s", cells->time, ranks);
    rg_shown_printf(&line, " %6s", rg_top_number(n->steps_per_s, n->rated, cell));
    rg_shown_printf(&line, " %5s", rg_top_percent(n->communication, n->rated, cell));
    if (look->columns >= WIDE) {
        rg_shown_printf(&line, " %7s", rg_top_amount(n->bytes_per_s, n->rated, cell));
        rg_shown_printf(&line, " %6s", rg_top_number(n->cpu, n->rated, cell));
        rg_shown_printf(&line, " %6s", rg_top_amount(n->resident, n->resident > 0, cell));
    }
    rg_shown_printf(&line, "  ");
    rg_shown_line(&line, cells->why);
    rg_top_put_line(rg_buf_text(&line), style, look, text);
}

static void put_why(const struct rg_top_watch *watch, struct rg_buf *why)
{
    bool late = watch->reading.late_rank >= 0 || watch->reading.late_host >= 0;

    rg_top_watch_trouble(watch, why);
    if (watch->over && watch->job.exit_code >= 0)
        rg_shown_printf(why, "exit %d", watch->job.exit_code);
    else if (watch->over)
        rg_shown_printf(why, "its launcher was killed");
    else if (rg_buf_nbytes(why) == 0 && watch->read_ns && !watch->reading.nranks)
        rg_shown_printf(why, "no rank has called init yet");
    else if (rg_buf_nbytes(why) == 0 && late)
        rg_top_put_culprit(&watch->reading, why);
    else if (rg_buf_nbytes(why) == 0 && watch->read_ns)
        rg_shown_printf(why, "nobody in particular");
}

static void put_watched(const struct rg_top_watch *watch, int width, bool chosen,
                        const struct rg_top_look *look, struct rg_buf *text)
{
    rg_autobuf struct rg_buf why = RG_BUF_INIT;
    bool late = watch->reading.late_rank >= 0 || watch->reading.late_host >= 0;
    uint64_t now_s = watch->job.ended ? watch->job.touched_ns / RG_NS_PER_S
                                      : rg_wall_ns() / RG_NS_PER_S;
    uint64_t began_s = watch->job.began_s;
    char elapsed[32];

    put_why(watch, &why);
    const struct cells cells = {
        .id = watch->job.id,
        .time = rg_jobs_elapsed(now_s > began_s ? now_s - began_s : 0, elapsed),
        .nranks = watch->reading.nranks ? watch->reading.nranks : (size_t) watch->job.nranks,
        .n = watch->over || !watch->reading.nranks ? NULL : &watch->reading.all,
        .why = rg_buf_text(&why),
    };
    put_row(&cells, width, chosen ? "> " : "  ",
            chosen ? REVERSE : late && !watch->over ? RED : "", look, text);
}

static void put_submitted(const struct rg_submitted_job *job, int width,
                          const struct rg_top_look *look, struct rg_buf *text)
{
    rg_autobuf struct rg_buf why = RG_BUF_INIT;
    bool waits = job->state == RG_SUBMITTED_WAITS;

    rg_shown_printf(&why, "%s: %s", job->platform->title,
                    job->word && *job->word ? job->word : "it does not answer");
    if (waits && job->reason && *job->reason)
        rg_shown_printf(&why, ", %s", job->reason);
    else if (!waits)
        rg_shown_printf(&why, job->platform->leads ? "; reigen top %s shows its numbers"
                                                   : "; its numbers do not come here", job->id);
    const struct cells cells = { .id = job->id,
                                 .time = job->elapsed && *job->elapsed ? job->elapsed : "-",
                                 .why = rg_buf_text(&why) };
    put_row(&cells, width, "  ", "", look, text);
}

static void put_elsewhere(const struct rg_registry_job *job, int width,
                          const struct rg_top_look *look, struct rg_buf *text)
{
    rg_autobuf struct rg_buf why = RG_BUF_INIT;

    rg_shown_printf(&why, "its launcher is on %.*s, or in a container: look there",
                    (int) strcspn(job->launcher, ":"), job->launcher);
    const struct cells cells = { .id = job->id, .time = "-", .nranks = (size_t) job->nranks,
                                 .why = rg_buf_text(&why) };
    put_row(&cells, width, "  ", "", look, text);
}

void rg_top_put_jobs(const struct rg_top_jobs *jobs, struct rg_top_watch *const *sorted,
                     size_t chosen, size_t nlines, const struct rg_top_look *look,
                     struct rg_buf *text)
{
    int width = id_width(jobs);
    size_t room = nlines > 1 ? nlines - 1 : 1, first = chosen >= room ? chosen - room + 1 : 0;

    put_heading(width, look, text);
    for (size_t i = first; i < jobs->count && room; i++, room--)
        put_watched(sorted[i], width, look->cursor && i == chosen, look, text);
    for (size_t i = 0; i < jobs->submitted.count && room; i++) {
        if (!is_there(&jobs->submitted.jobs[i]))
            continue;
        put_submitted(&jobs->submitted.jobs[i], width, look, text);
        room--;
    }
    for (size_t i = 0; i < jobs->elsewhere.count && room; i++, room--)
        put_elsewhere(&jobs->elsewhere.jobs[i], width, look, text);
}
