/* SPDX-License-Identifier: Apache-2.0 */
/* A reading is printed when every launcher has answered, or has had the time to. */
#include "cmd/top/batch.h"

#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "cmd/jobs/jobs.h"
#include "cmd/top/json.h"
#include "cmd/top/page.h"
#include "head/console/exit.h"
#include "head/console/json.h"

#define READ_MS 1000 /* between two readings */
#define LOOK_MS 50   /* between two looks whether a launcher listens already */

struct batch {
    struct rg_top_jobs *jobs;
    bool one, json, first;
    int64_t left;
    uint64_t began_ns, due_ns; /* this reading; the next one */
    struct rg_timer timer;
    int code;
};

/* Whether nothing more is to come of it: one that has answered before is not waited for again. */
static bool is_read(const struct batch *batch, const struct rg_top_watch *watch)
{
    bool late = rg_now_ns() - batch->began_ns > RG_JOBS_ASK_MS * RG_NS_PER_MS;

    return watch->over || late || (watch->tried && watch->read_ns);
}

static bool all_read(const struct batch *batch)
{
    for (size_t i = 0; i < batch->jobs->count; i++) {
        if (!is_read(batch, batch->jobs->watches[i]))
            return false;
    }
    return true;
}

static void put_text(const struct batch *batch, struct rg_buf *text)
{
    const struct rg_top_look look = { .columns = RG_TOP_WIDE };
    const struct rg_top_view view = { .fold = RG_TOP_UNFOLD };
    rg_autofree struct rg_top_watch **sorted = rg_top_jobs_sorted(batch->jobs);

    if (!batch->first)
        rg_buf_printf(text, "\n");
    if (batch->one)
        rg_top_put_job(batch->jobs->watches[0], &view, SIZE_MAX, &look, text);
    else if (sorted)
        rg_top_put_jobs(batch->jobs, sorted, 0, SIZE_MAX, &look, text);
}

static void put_json(const struct batch *batch, struct rg_buf *text)
{
    for (size_t i = 0; i < batch->jobs->count; i++)
        rg_json_put(text, rg_top_json(batch->jobs->watches[i]),
                    JSON_COMPACT | JSON_REAL_PRECISION(6));
}

static void print(struct batch *batch)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (batch->json)
        put_json(batch, &text);
    else
        put_text(batch, &text);
    batch->code = rg_buf_status(&text) < 0 ? rg_jobs_fail_memory("top")
                                           : rg_print_exact(rg_buf_text(&text));
    batch->first = false;
    batch->left--;
}

/* Of one job that cannot be read there is nothing to print. */
static bool is_mute(const struct batch *batch)
{
    const struct rg_top_watch *watch = batch->one ? batch->jobs->watches[0] : NULL;

    return watch && !watch->read_ns && (!watch->over || watch->beside);
}

static void fail_mute(struct batch *batch)
{
    rg_autobuf struct rg_buf why = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    const struct rg_top_watch *watch = batch->jobs->watches[0];

    rg_top_watch_trouble(watch, &why);
    if (watch->verdict)
        rg_error_set_exit(&err, ECONNRESET, RG_EXIT_UNAVAILABLE, "%s", watch->verdict);
    else
        rg_error_set_exit(&err, ETIMEDOUT, RG_EXIT_UNAVAILABLE, "job %s: %s", watch->job.id,
                          rg_buf_text(&why));
    batch->code = rg_fail(&err, "top");
}

static void on_timer(void *arg)
{
    struct batch *batch = arg;

    if (batch->due_ns && rg_now_ns() >= batch->due_ns) {
        batch->began_ns = rg_now_ns();
        batch->due_ns = 0;
        rg_top_jobs_find(batch->jobs);
        rg_top_jobs_ask(batch->jobs);
    }
    if (batch->due_ns)
        return;
    if (!all_read(batch)) {
        for (size_t i = 0; i < batch->jobs->count; i++) {
            if (!is_read(batch, batch->jobs->watches[i]))
                rg_top_watch_ask(batch->jobs->watches[i]);
        }
        return;
    }
    if (is_mute(batch))
        fail_mute(batch);
    else
        print(batch);
    batch->due_ns = batch->began_ns + READ_MS * RG_NS_PER_MS;
    if (batch->code || batch->left <= 0 || rg_top_jobs_are_over(batch->jobs))
        rg_loop_stop(batch->jobs->loop);
}

int rg_top_batch(struct rg_top_jobs *jobs, bool one, int64_t readings, bool json)
{
    struct batch batch = { .jobs = jobs, .one = one, .json = json, .first = true, .left = readings,
                           .began_ns = rg_now_ns() };

    rg_top_jobs_ask(jobs);
    rg_timer_start(&batch.timer, jobs->loop, 0, LOOK_MS, on_timer, &batch);
    rg_loop_run(jobs->loop);
    rg_timer_stop(&batch.timer);
    return batch.code;
}
