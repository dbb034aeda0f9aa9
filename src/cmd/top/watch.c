/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher may be paused, gone, or of another version; its job may have been started again under
 * another id. What was read last stays until there is something better. */
#include "cmd/top/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "base/time.h"
#include "cmd/jobs/jobs.h"
#include "launch/control/control.h"

#define STALE_NS (5 * RG_NS_PER_S / 2)

int rg_top_watch_create(struct rg_loop *loop, struct rg_registry_job *take_job,
                        void (*changed)(void *arg), void *arg, struct rg_top_watch **ret_watch)
{
    struct rg_top_watch *watch = calloc(1, sizeof(*watch));

    if (!watch) {
        rg_registry_job_fini(take_job);
        return -ENOMEM;
    }
    *watch = (struct rg_top_watch){
        .job = *take_job, .reading = RG_TOP_READING_INIT, .coming = RG_TOP_READING_INIT,
        .loop = loop, .fd = -1, .changed = changed, .arg = arg,
    };
    *take_job = (struct rg_registry_job){ 0 };
    *ret_watch = watch;
    return 0;
}

static void hang_up(struct rg_top_watch *watch)
{
    rg_io_stop(&watch->io);
    if (watch->fd >= 0 && !watch->beside)
        close(watch->fd);
    watch->fd = -1;
}

void rg_top_watch_by(struct rg_top_watch *watch, struct rg_jobs_beside *take_beside)
{
    watch->beside = take_beside;
}

void rg_top_watch_destroy(struct rg_top_watch *watch)
{
    if (!watch)
        return;
    hang_up(watch);
    rg_jobs_beside_destroy(watch->beside);
    rg_top_reading_fini(&watch->reading);
    rg_top_reading_fini(&watch->coming);
    rg_registry_job_fini(&watch->job);
    free(watch->verdict);
    free(watch);
}

/* --- how it ended ----------------------------------------------------------------------------- */

/* The job of this id, taken out of the list; of no id: there is none. */
static struct rg_registry_job take(struct rg_registry *registry, const char *id)
{
    struct rg_registry_job job = { 0 };

    for (size_t i = 0; !job.id && i < registry->count; i++) {
        if (strcmp(registry->jobs[i].id, id) != 0)
            continue;
        job = registry->jobs[i];
        registry->jobs[i] = (struct rg_registry_job){ 0 };
    }
    return job;
}

/* As it is now: it may have been started again, or have ended. */
static void look_up(struct rg_top_watch *watch, bool ended)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    int r = ended ? rg_registry_list_ended(&registry) : rg_registry_list(&registry);
    struct rg_registry_job job = { 0 };

    if (r == 0)
        job = take(&registry, watch->job.id);
    if (!job.id)
        return;
    rg_registry_job_fini(&watch->job);
    watch->job = job;
}

static void end(struct rg_top_watch *watch)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    watch->over = true;
    hang_up(watch);
    if (watch->beside) {
        watch->verdict = rg_jobs_beside_verdict(watch->beside, watch->job.id);
        return;
    }
    look_up(watch, true);
    rg_jobs_describe(&watch->job, NULL, &text);
    const char *line = rg_buf_text(&text);
    int n = (int) strcspn(line, "\n"), code = watch->job.exit_code;

    watch->verdict = watch->job.ended && code > 0
                         ? rg_strf("%.*s: %s", n, line, rg_exit_find(code)->meaning)
                         : rg_strf("%.*s", n, line);
}

/* --- questions -------------------------------------------------------------------------------- */

static void settle(struct rg_top_watch *watch, bool whole)
{
    watch->tried = true;
    if (whole)
        rg_top_reading_settle(&watch->coming);
    if (whole && watch->coming.sound) {
        rg_top_reading_fini(&watch->reading);
        watch->reading = watch->coming;
        watch->coming = (struct rg_top_reading) RG_TOP_READING_INIT;
        watch->read_ns = rg_now_ns();
    }
    rg_top_reading_fini(&watch->coming);
    watch->changed(watch->arg);
}

static void ask_page(struct rg_top_watch *watch, unsigned from);

static void on_answer(void *arg, int events)
{
    struct rg_top_watch *watch = arg;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    unsigned from = watch->next;

    (void) events;
    int r = watch->beside ? rg_jobs_beside_take(watch->beside, &text)
                          : rg_control_take(watch->fd, &text);
    if (r == -EAGAIN || r == -EINTR)
        return;
    hang_up(watch);
    if (r < 0 && watch->beside)
        end(watch);
    json_t *page = r < 0 ? NULL : json_loadb((const char *) rg_buf_bytes(&text),
                                             rg_buf_nbytes(&text), 0, NULL);
    watch->next = page ? rg_top_reading_add(&watch->coming, page) : 0;
    json_decref(page);
    if (page && watch->next > from)
        ask_page(watch, watch->next);
    else
        settle(watch, page && watch->coming.sound);
}

static void ask_page(struct rg_top_watch *watch, unsigned from)
{
    const struct rg_control_request request = { .question = RG_CONTROL_NUMBERS, .from = from };
    int fd = watch->beside ? rg_jobs_beside_ask(watch->beside, from)
                           : rg_control_begin(rg_registry_id_now(&watch->job), &request);

    watch->next = from;
    if (fd == -ECONNREFUSED && !watch->beside)
        look_up(watch, false);
    if (fd < 0) {
        settle(watch, false);
        return;
    }
    watch->fd = fd;
    rg_io_start(&watch->io, watch->loop, fd, RG_IO_READ, on_answer, watch);
}

void rg_top_watch_ask(struct rg_top_watch *watch)
{
    if (watch->over)
        return;
    if (!watch->beside && rg_registry_is_over(&watch->job)) {
        end(watch);
        watch->tried = true;
        watch->changed(watch->arg);
    } else if (watch->fd < 0) {
        watch->tried = false;
        ask_page(watch, 0);
    }
}

bool rg_top_watch_is_stale(const struct rg_top_watch *watch)
{
    return watch->read_ns && rg_now_ns() > watch->read_ns + STALE_NS;
}

/* --- words ------------------------------------------------------------------------------------ */

void rg_top_watch_title(const struct rg_top_watch *watch, struct rg_buf *text)
{
    const struct rg_registry_job *job = &watch->job;
    uint64_t now_s = rg_wall_ns() / RG_NS_PER_S;
    size_t nhosts = watch->reading.nhosts ? watch->reading.nhosts : job->hosts.count;
    size_t nranks = watch->reading.nranks ? watch->reading.nranks : (size_t) job->nranks;
    char elapsed[32];

    if (watch->verdict)
        rg_shown_printf(text, "%s", watch->verdict);
    else
        rg_shown_printf(text, "job %s: %s for %s, %zu rank%s on %zu host%s: ", job->id,
                        rg_registry_starts(job) ? "starting" : "running",
                        rg_jobs_elapsed(now_s > job->began_s ? now_s - job->began_s : 0, elapsed),
                        nranks, nranks == 1 ? "" : "s", nhosts, nhosts == 1 ? "" : "s");
    if (!watch->verdict)
        rg_shown_line(text, job->command ? job->command : "");
}

void rg_top_watch_trouble(const struct rg_top_watch *watch, struct rg_buf *text)
{
    if (watch->over)
        return;
    if (rg_top_watch_is_stale(watch))
        rg_shown_printf(text, "its launcher does not answer, and may be paused: this is %.0f s old",
                        (double) (rg_now_ns() - watch->read_ns) / (double) RG_NS_PER_S);
    else if (!watch->read_ns && watch->fd >= 0)
        rg_shown_printf(text, "its launcher has not answered yet, and may be paused");
    else if (!watch->read_ns && watch->tried)
        rg_shown_printf(text, "its launcher does not answer: it has just begun, or is of another "
                              "version");
}
