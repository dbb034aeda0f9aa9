/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenPAI's client, for tests/behaviour/test_pai_client.py: one call, or several of a log, each
 * told as a line of JSON. Where the server is and who asks stands in the environment.
 *
 *   pai-client find|look NAME|config NAME|stop NAME|delete NAME|list [NAME]
 *   pai-client submit NAME VERSION < FILE
 *   pai-client log URL            one call for each line of the input, and so
 *   pai-client joblog NAME        of the first task of a job
 *   pai-client both NAME OTHER    two looks at once, in one loop
 *   pai-client wait NAME MS       a look that may take so long
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "platform/openpai/server/server.h"

static const struct { const char *name; enum pai_verb verb; } verbs[] = {
    { "find", PAI_FIND }, { "look", PAI_LOOK },     { "config", PAI_CONFIG }, { "stop", PAI_STOP },
    { "list", PAI_LIST }, { "delete", PAI_DELETE }, { "submit", PAI_SUBMIT }, { "log", PAI_LOG },
    { "wait", PAI_LOOK },
};

static json_t *job_json(int version, const struct pai_job *job)
{
    json_t *tasks = json_array();

    for (size_t i = 0; i < job->ntasks; i++) {
        const struct pai_task *task = &job->tasks[i];
        json_array_append_new(tasks, json_pack("{s:s,s:i,s:s,s:o,s:s,s:i,s:s}", "role", task->role,
                                               "index", task->index, "state",
                                               pai_state_name(task->state), "exit",
                                               task->has_exit ? json_integer(task->exit_code)
                                                              : json_null(),
                                               "ip", task->ip, "ssh", pai_task_port(task, "ssh"),
                                               "log", task->log));
    }
    return json_pack("{s:s,s:s,s:s,s:i,s:o}", "user", job->user, "name", job->name, "state",
                     pai_state_name(job->state), "exit",
                     pai_state_is_end(job->state) ? pai_job_exit(version, job) : -1, "tasks",
                     tasks);
}

static void tell(const struct pai_server *server, const struct pai_refusal *refusal,
                 struct pai_answer *answer, const struct rg_error *err)
{
    int version = pai_server_version(server);
    json_t *jobs = json_array();

    for (size_t i = 0; i < answer->jobs.count; i++)
        json_array_append_new(jobs, job_json(version, &answer->jobs.v[i]));
    json_t *value = json_pack("{s:i,s:i,s:s,s:s,s:i,s:s,s:i,s:s,s:s,s:b,s:b,s:o,s:o,s:s}", "why",
                              refusal->why, "status", refusal->status, "code", refusal->code,
                              "said", refusal->text, "exit_code", err->exit_code, "error",
                              err->text, "version", version, "user", pai_server_user(server),
                              "url", pai_server_url(server), "was_there", answer->was_there,
                              "skipped", answer->skipped, "job",
                              answer->job.name ? job_json(version, &answer->job) : json_null(),
                              "jobs", jobs, "text", rg_buf_text(&answer->text));
    if (!value)
        abort();
    json_dumpf(value, stdout, JSON_COMPACT);
    printf("\n");
    fflush(stdout);
    json_decref(value);
}

static void ask(struct pai_server *server, const struct pai_request *request)
{
    struct pai_answer answer = { .was_there = false };
    struct pai_refusal refusal;
    struct rg_error err = RG_ERROR_INIT;

    pai_ask(server, request, &answer, &refusal, &err);
    tell(server, &refusal, &answer, &err);
    pai_answer_fini(&answer);
}

/* --- two at once ------------------------------------------------------------------------------ */

struct both {
    struct pai_server *server;
    struct rg_loop *loop;
    struct rg_timer timer;
    int nleft, nturns;
};

static void on_turn(void *arg)
{
    struct both *both = arg;

    both->nturns++;
}

static void on_end(void *arg, struct pai_call *call)
{
    struct both *both = arg;
    struct rg_error err = RG_ERROR_INIT;

    tell(both->server, pai_call_refusal(call), pai_call_answer(call), &err);
    pai_call_stop(call);
    if (--both->nleft == 0)
        rg_loop_stop(both->loop);
}

static int ask_both(struct pai_server *server, char **names)
{
    struct both both = { .server = server };
    struct pai_call *call;

    if (rg_loop_create(&both.loop) < 0)
        return 1;
    rg_timer_start(&both.timer, both.loop, 10, 10, on_turn, &both);
    for (both.nleft = 0; both.nleft < 2; both.nleft++) {
        const struct pai_request request = { .verb = PAI_LOOK, .name = names[both.nleft] };
        if (pai_call_start(&call, server, both.loop, &request, on_end, &both) < 0)
            return 1;
    }
    rg_loop_run(both.loop);
    rg_timer_stop(&both.timer);
    rg_loop_destroy(both.loop);
    printf("%d\n", both.nturns);
    return 0;
}

/* --- one call --------------------------------------------------------------------------------- */

static char *read_input(size_t *ret_nbytes)
{
    char *text = malloc(1 << 20);

    *ret_nbytes = text ? fread(text, 1, 1 << 20, stdin) : 0;
    return text;
}

static void ask_log(struct pai_server *server, const char *url, const char *places)
{
    struct pai_log log = { .offset = 0 };
    const struct pai_request request = { .verb = PAI_LOG, .url = url, .places = places,
                                         .log = &log };
    char line[64];

    while (fgets(line, sizeof(line), stdin))
        ask(server, &request);
    pai_log_fini(&log);
}

static int ask_job_log(struct pai_server *server, const char *name)
{
    const struct pai_request look = { .verb = PAI_LOOK, .name = name };
    struct pai_answer answer = { .was_there = false };
    int r = pai_ask(server, &look, &answer, NULL, NULL);

    if (r == 0 && answer.job.ntasks)
        ask_log(server, answer.job.tasks[0].log, answer.job.tasks[0].places);
    pai_answer_fini(&answer);
    return r;
}

static void ask_one(struct pai_server *server, enum pai_verb verb, int argc, char **argv)
{
    struct pai_request request = { .verb = verb, .name = argc > 2 ? argv[2] : NULL };
    rg_autofree char *text = NULL;

    if (verb == PAI_SUBMIT) {
        text = read_input(&request.nbytes);
        request.text = text;
        request.version = atoi(argv[3]);
    } else if (verb == PAI_LOOK && argc > 3) {
        request.ms = (uint64_t) atoi(argv[3]);
    }
    ask(server, &request);
}

int main(int argc, char **argv)
{
    const struct pai_access access = { .url = NULL };
    struct pai_server *server;
    struct rg_error err = RG_ERROR_INIT;
    int r = 0;

    if (argc < 2)
        return 2;
    if (pai_server_open(&access, &server, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return err.exit_code ? err.exit_code : 2; /* as head/console/exit.h has it */
    }
    if (strcmp(argv[1], "both") == 0)
        r = ask_both(server, argv + 2);
    if (strcmp(argv[1], "joblog") == 0)
        r = ask_job_log(server, argv[2]);
    for (size_t i = 0; i < rg_array_len(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        if (verbs[i].verb == PAI_LOG)
            ask_log(server, argv[2], NULL);
        else
            ask_one(server, verbs[i].verb, argc, argv);
    }
    pai_server_close(server);
    return r;
}
