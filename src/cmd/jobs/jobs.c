/* SPDX-License-Identifier: Apache-2.0 */
/* reigen jobs and reigen status: what runs, wherever it was started. */
#include "cmd/jobs/jobs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/common/terminal.h"

static int fail_memory(const char *command)
{
    return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, command);
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* What a platform runs for us as a job that was submitted is listed as that. */
static bool is_submitted(const struct rg_registry_job *job, const struct rg_submitted_list *list)
{
    for (size_t i = 0; job->within && i < list->count; i++) {
        if (list->jobs[i].platform == job->within && strcmp(list->jobs[i].id, job->within_id) == 0)
            return true;
    }
    return false;
}

static int add_registered(struct rg_jobs_table *table, const struct rg_submitted_list *submitted,
                          bool ended)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    int r = ended ? rg_registry_list_ended(&registry) : rg_registry_list(&registry);

    for (size_t i = 0; r == 0 && i < registry.count; i++) {
        if (!is_submitted(&registry.jobs[i], submitted))
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
    rg_cleanup(rg_submitted_list_fini) struct rg_submitted_list submitted = { NULL, 0 };
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
    int code = rg_print(rg_buf_text(&text));
    for (size_t i = 0; i < table->count; i++)
        ndead += strcmp(table->rows[i].state, "dead") == 0;
    size_t nswept = rg_jobs_sweep();
    if (nswept)
        fprintf(stderr, "reigen: %zu of the dead left nothing but an entry here, which is removed "
                        "now\n", nswept);
    if (ndead > nswept)
        fprintf(stderr, "reigen: reigen doctor --clean removes what the dead ones have left\n");
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
        return fail_memory("jobs");
    if (!json)
        return print_jobs(&table, all);
    int code = rg_jobs_print_json(table.json ? json_incref(table.json) : json_array());
    rg_jobs_sweep();
    return code;
}

/* --- status ----------------------------------------------------------------------------------- */

int rg_cmd_status(int argc, char **argv)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    rg_cleanup(rg_jobs_table_fini) struct rg_jobs_table table = { NULL, 0, NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    bool json = false;
    const struct rg_arg args[] = { { .name = "json", .flag = &json }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage("status", "status: give a job's id, or its beginning; reigen jobs "
                                       "--all lists them");
    const struct rg_driver_ops *driver = rg_jobs_find_submitted(argv[1], &submitted);
    if (driver)
        return rg_jobs_print_submitted(driver, &submitted, json);
    int code = rg_jobs_find("status", argv[1], &job);
    if (code)
        return code;
    if (json && rg_jobs_add(&table, &job) < 0)
        return fail_memory("status");
    if (json)
        return rg_jobs_print_json(json_incref(json_array_get(table.json, 0)));
    rg_jobs_describe(&job, &text);
    rg_jobs_sweep();
    return rg_print(rg_buf_text(&text));
}
