/* SPDX-License-Identifier: Apache-2.0 */
/* reigen jobs and reigen status: what runs, wherever it was started. People give the beginning of
 * an id, or Slurm's number; several jobs may fit. */
#include "cmd/jobs/jobs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"

/* --- jobs that a platform runs when it can ---------------------------------------------------- */

static void describe(const struct rg_submitted_job *job, struct rg_buf *text)
{
    const char *word = job->word ? job->word : "", *reason = job->reason ? job->reason : "";
    const char *hint = job->hint ? job->hint : "";
    bool there = job->state == RG_SUBMITTED_WAITS || job->state == RG_SUBMITTED_RUNS ||
                 (job->state == RG_SUBMITTED_UNKNOWN && *word && job->exit_code < 0);
    bool plain = !*word || strcmp(word, "COMPLETED") == 0 || strcmp(word, "FAILED") == 0;

    if (there && !(job->nodes && *job->nodes))
        rg_buf_printf(text, "job %s: %s%s%s%s\n", job->id, word, *reason ? ": " : "", reason,
                      hint);
    else if (there)
        rg_buf_printf(text, "job %s: %s on %s for %s\n", job->id, word, job->nodes, job->elapsed);
    else if (job->exit_code >= 0)
        rg_buf_printf(text, "job %s: ended with exit code %d%s%s%s%s\n", job->id, job->exit_code,
                      plain ? "" : ", for ", plain ? "" : job->platform->title,
                      plain ? "" : ": ", plain ? "" : word);
    else
        rg_buf_printf(text, "job %s: ended by %s before it could say how%s%s%s%s%s\n", job->id,
                      job->platform->title, *word ? ": " : "", word, *hint ? ", " : "",
                      *hint ? reason : "", hint);
    if (*job->command) /* only where it was started it is known */
        rg_buf_printf(text, "  %s\n", job->command);
    rg_buf_printf(text, "  output: %s\n", job->log);
}

static int print_submitted(const struct rg_driver_ops *driver, struct rg_submitted_job *job,
                           bool json)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    if (json && rg_submitted_is_over(job))
        job->state = RG_SUBMITTED_ENDED;
    int r = driver->queue->status(job, 1, &err);
    if (json)
        return rg_jobs_print_json(rg_jobs_submitted_json(job));
    if (r < 0 && job->exit_code < 0)
        return rg_jobs_fail_submitted("status", job, &err);
    describe(job, &text);
    return rg_print(rg_buf_text(&text));
}

/* --- jobs ------------------------------------------------------------------------------------- */

static int add_registered(struct rg_jobs_table *table, const struct rg_submitted_list *submitted,
                          bool ended)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    int r = ended ? rg_registry_list_ended(&registry) : rg_registry_list(&registry);

    rg_jobs_say_remarks(&registry.remarks);
    for (size_t i = 0; r == 0 && i < registry.count; i++) {
        if (!rg_jobs_is_submitted(&registry.jobs[i], submitted))
            r = rg_jobs_add(table, &registry.jobs[i]);
    }
    return r;
}

static int add_submitted(struct rg_jobs_table *table, const struct rg_submitted_list *list,
                         bool ended)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < list->count; i++) {
        if ((list->jobs[i].state == RG_SUBMITTED_ENDED) == ended)
            r = rg_jobs_add_submitted(table, &list->jobs[i]);
    }
    return r;
}

static int fill(struct rg_jobs_table *table, bool all)
{
    rg_cleanup(rg_submitted_list_fini) struct rg_submitted_list submitted = { .count = 0 };
    int r = rg_jobs_list_submitted(&submitted);

    for (int ended = all; r == 0 && ended >= 0; ended--) {
        r = add_registered(table, &submitted, ended);
        if (r == 0)
            r = add_submitted(table, &submitted, ended);
    }
    return r;
}

static int print_jobs(const struct rg_jobs_table *table, bool all)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    size_t ndead = 0;

    if (table->count == 0) {
        rg_jobs_sweep();
        return rg_print(all ? "No job of yours is known here.\n"
                            : "No job of yours runs; reigen jobs --all lists those that ended "
                              "last, too.\n");
    }
    rg_jobs_print_table(table, isatty(1) ? rg_terminal_columns(1) : 0, rg_terminal_colour(1),
                        &text);
    int code = rg_print_exact(rg_buf_text(&text));
    for (size_t i = 0; i < table->count; i++)
        ndead += strcmp(table->rows[i].cell[RG_JOBS_STATE], "dead") == 0;
    size_t nswept = rg_jobs_sweep();
    if (nswept)
        rg_say("%zu of the dead left nothing but an entry here, which is removed now", nswept);
    if (ndead > nswept)
        rg_say("reigen doctor --clean removes what the dead ones have left");
    return code;
}

int rg_cmd_jobs(int argc, char **argv)
{
    rg_cleanup(rg_jobs_table_fini) struct rg_jobs_table table = { NULL, 0, NULL };
    bool all = false, json = false;
    const struct rg_arg args[] = { { .name = "all", .letter = 'a', .flag = &all },
                                   { .name = "json", .flag = &json }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 0);

    if (n < 0)
        return -1 - n;
    if (fill(&table, all) < 0)
        return rg_jobs_fail_memory("jobs");
    if (!json)
        return print_jobs(&table, all);
    int code = rg_jobs_print_json(table.json ? json_incref(table.json) : json_array());
    rg_jobs_sweep();
    return code;
}

/* --- status ----------------------------------------------------------------------------------- */

static int print_job(const struct rg_registry_job *job, bool json)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT, ranks = RG_BUF_INIT;
    json_t *elastic = rg_jobs_ask_elastic(job, "");

    if (json) {
        json_t *value = rg_jobs_json(job);
        json_object_set_new(value, "elastic", elastic ? elastic : json_null());
        json_object_set_new(value, "numbers", rg_jobs_ask_numbers(job));
        return rg_jobs_print_json(value);
    }
    if (elastic)
        rg_jobs_describe_elastic(elastic, &ranks);
    rg_jobs_describe(job, elastic ? rg_buf_text(&ranks) : NULL, &text);
    json_decref(elastic);
    rg_jobs_sweep();
    return rg_print(rg_buf_text(&text));
}

int rg_cmd_status(int argc, char **argv)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    const struct rg_driver_ops *driver;
    struct rg_jobs_place place = { { NULL } };
    bool json = false;
    const struct rg_arg args[] = { { .name = "json", .flag = &json }, RG_JOBS_PLACE_ARGS(place),
                                   { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    rg_autofree char *only = NULL;
    int code = n ? 0 : rg_jobs_find_only("status", &place, &only);
    const char *id = n ? argv[1] : only;
    if (code)
        return code;
    code = rg_jobs_find_at("status", id, &place, &submitted, &driver);
    if (code || driver)
        return code ? code : print_submitted(driver, &submitted, json);
    code = rg_jobs_find("status", id, &job);
    return code ? code : print_job(&job, json);
}
