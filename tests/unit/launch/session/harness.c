/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/session/harness.h"

#include <ctype.h>
#include <dirent.h>

#include "base/fd.h"
#include "platform/drivers.h"
#include "base/time.h"

#define LIMIT_S unit_limit_s(20)

static void too_late(void *arg)
{
    (void) arg;
    fail_msg("the job did not end within %u s", LIMIT_S);
}

struct harness *harness_make(int np, const char *script)
{
    struct harness *h = calloc(1, sizeof(*h));
    char path[4096];

    assert_non_null(h);
    if (!getenv("REIGEN_AGENT")) {
        snprintf(path, sizeof(path), "%s/src/programs/agent/reigen-agent",
                 getenv("REIGEN_TEST_BUILD"));
        setenv("REIGEN_AGENT", path, 1);
    }
    rg_job_init(&h->job);
    h->job.np = np;
    h->job.stdin_mode = RG_STDIN_NONE;
    if (script) {
        assert_int_equal(rg_strv_add(&h->job.command, "/bin/sh"), 0);
        assert_int_equal(rg_strv_add(&h->job.command, "-c"), 0);
        assert_int_equal(rg_strv_add(&h->job.command, script), 0);
    }
    return h;
}

void harness_free(struct harness *h)
{
    for (int i = 0; i < HARNESS_RANKS_MAX; i++) {
        rg_buf_fini(&h->out[i][0]);
        rg_buf_fini(&h->out[i][1]);
    }
    rg_plan_fini(&h->plan);
    rg_job_fini(&h->job);
    free(h);
}

/* --- what the session reports ----------------------------------------------------------------- */

static void on_phase(void *arg, int host, enum rg_host_phase phase, const char *reason)
{
    struct harness *h = arg;
    size_t used = strlen(h->phases);

    (void) reason;
    snprintf(h->phases + used, sizeof(h->phases) - used, "%d:%d ", host, phase);
}

static void on_running(void *arg)
{
    struct harness *h = arg;

    if (h->on_running)
        h->on_running(h);
}

static void on_rank_started(void *arg, int rank, int pid, const char *cpus)
{
    struct harness *h = arg;

    (void) cpus;
    assert_in_range(rank, 0, h->plan.nranks - 1);
    h->pids[rank] = pid;
    if (h->on_started)
        h->on_started(h, rank);
}

static void on_output(void *arg, int rank, int stream, const uint8_t *data, size_t nbytes)
{
    struct harness *h = arg;

    assert_in_range(stream, 1, 2);
    assert_int_equal(h->nends[rank][stream - 1], 0); /* nothing after a stream's end */
    if (!nbytes)
        h->nends[rank][stream - 1]++;
    if (nbytes && !h->discard)
        rg_buf_put(&h->out[rank][stream - 1], data, nbytes);
    h->nbytes_out += nbytes;
    if (h->on_output)
        h->on_output(h, rank, stream, nbytes);
}

static void on_input_ready(void *arg)
{
    struct harness *h = arg;

    if (h->on_input_ready)
        h->on_input_ready(h);
}

static void on_note(void *arg, int rank, const char *text)
{
    struct harness *h = arg;
    size_t used = strlen(h->notes);

    snprintf(h->notes + used, sizeof(h->notes) - used, "%d:%s\n", rank, text);
}

static void on_ended(void *arg, const struct rg_verdict *verdict)
{
    struct harness *h = arg;

    h->ended = true;
    h->verdict = *verdict;
    snprintf(h->cause, sizeof(h->cause), "%s", verdict->cause);
    h->first = verdict->first ? verdict->first->rank : -1;
    h->nlines = verdict->nlast_lines;
    for (size_t i = 0; i < h->nlines; i++)
        snprintf(h->lines[i], sizeof(h->lines[i]), "%s", verdict->last_lines[i]);
    for (int i = 0; i < h->plan.nranks; i++)
        h->ends[i] = verdict->ends[i];
    rg_loop_stop(h->loop);
}

static const struct rg_session_ops ops = {
    .on_phase = on_phase,
    .on_running = on_running,
    .on_rank_started = on_rank_started,
    .on_output = on_output,
    .on_input_ready = on_input_ready,
    .on_note = on_note,
    .on_ended = on_ended,
};

void run_job(struct harness *h)
{
    const struct rg_driver_ops *driver = rg_driver_find("local");
    struct rg_error err = RG_ERROR_INIT;

    assert_non_null(driver);
    assert_int_equal(rg_loop_create(&h->loop), 0);
    assert_int_equal(driver->discover(NULL, &h->job, &err), 0);
    if (rg_plan_make(&h->job, &h->plan, &err) < 0)
        fail_msg("%s", err.text);
    struct rg_session_options options = {
        .loop = h->loop, .job = &h->job, .plan = &h->plan, .driver = driver, .ops = &ops, .arg = h,
    };
    h->create_result = rg_session_create(&options, &h->session, &h->create_err);
    if (h->create_result == 0) {
        rg_timer_start(&h->watchdog, h->loop, LIMIT_S * 1000, 0, too_late, h);
        rg_loop_run(h->loop);
        rg_timer_stop(&h->watchdog);
        rg_timer_stop(&h->timer);
        assert_true(h->ended);
        rg_session_destroy(h->session);
    }
    rg_loop_destroy(h->loop);
}

const char *output_of(struct harness *h, int rank, int stream)
{
    return rg_buf_text(&h->out[rank][stream - 1]);
}

/* --- processes -------------------------------------------------------------------------------- */

static bool has_text(const char *pid, const char *text)
{
    char path[64];
    rg_autofree char *line = NULL;
    size_t nbytes = 0;

    snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    return rg_read_file(path, 1u << 20, &line, &nbytes) == 0 &&
           memmem(line, nbytes, text, strlen(text));
}

int count_with(const char *text)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += isdigit((unsigned char) e->d_name[0]) && has_text(e->d_name, text);
    closedir(dir);
    return count;
}

bool all_gone(const char *text)
{
    return unit_until(count_with(text) == 0, text);
}

const char *unique_text(void)
{
    static char text[64];
    static int n;

    snprintf(text, sizeof(text), "reigen-test-%d-%d", (int) getpid(), n++);
    return text;
}
