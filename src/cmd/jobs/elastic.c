/* SPDX-License-Identifier: Apache-2.0 */
/* An elastic job's file says with what it began; what it is now its launcher says. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "cmd/jobs/jobs.h"
#include "launch/control/control.h"

json_t *rg_jobs_ask(const char *id, const struct rg_control_request *request)
{
    static char silent[256]; /* the job that has not answered, as those do that are paused */
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (strcmp(id, silent) == 0)
        return NULL;
    int r = rg_control_ask(id, request, RG_JOBS_ASK_MS, &text);
    if (r == -ETIMEDOUT)
        snprintf(silent, sizeof(silent), "%s", id);
    if (r < 0)
        return NULL;
    return json_loadb((const char *) rg_buf_bytes(&text), rg_buf_nbytes(&text), 0, NULL);
}

json_t *rg_jobs_ask_elastic(const struct rg_registry_job *job, const char *host)
{
    struct rg_control_request request = { .question = RG_CONTROL_STATUS };

    snprintf(request.host, sizeof(request.host), "%s", host);
    json_t *answer = rg_registry_state(job) == RG_JOB_RUNS
                         ? rg_jobs_ask(rg_registry_id_now(job), &request) : NULL;

    if (json_is_integer(json_object_get(answer, "epoch")))
        return answer;
    json_decref(answer);
    return NULL;
}

/* --- for people ------------------------------------------------------------------------------- */

static int number(const json_t *object, const char *name)
{
    return (int) json_integer_value(json_object_get(object, name));
}

static const char *string(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* "ranks 0-3, 8": they are in their order. */
static void put_ranks(const json_t *ranks, struct rg_buf *text)
{
    size_t count = json_array_size(ranks);

    for (size_t i = 0, last; i < count; i = last + 1) {
        long long first = json_integer_value(json_array_get(ranks, i));
        for (last = i; last + 1 < count; last++) {
            if (json_integer_value(json_array_get(ranks, last + 1)) !=
                first + (long long) (last + 1 - i))
                break;
        }
        rg_shown_printf(text, "%s%lld", i ? ", " : count > 1 ? "ranks " : "rank ", first);
        if (last > i)
            rg_shown_printf(text, "-%lld", first + (long long) (last - i));
    }
}

static void put_host(const json_t *host, struct rg_buf *text)
{
    const json_t *ranks = json_object_get(host, "ranks");
    const char *state = string(host, "state");
    int waiting = number(host, "waiting");
    bool ready = strcmp(state, "ready") == 0, some = json_array_size(ranks) > 0;

    rg_shown_printf(text, "  host %s: ", string(host, "host"));
    put_ranks(ranks, text);
    if (waiting)
        rg_shown_printf(text, "%s%d spare", some ? ", " : "", waiting);
    some |= waiting > 0;
    if (!ready || !some)
        rg_shown_printf(text, "%s%s", some ? ", " : "", ready ? "no rank yet" : state);
    rg_shown_printf(text, "\n");
}

static void put_aside(const json_t *aside, struct rg_buf *text)
{
    const json_t *left = json_object_get(aside, "left_s");
    const char *why = string(aside, "why");

    rg_shown_printf(text, "  host %s: ", string(aside, "host"));
    if (strcmp(why, "drained") == 0) {
        rg_shown_printf(text, "drained\n");
        return;
    }
    if (json_is_number(left))
        rg_shown_printf(text, "set aside for %.0f s more", json_number_value(left));
    else
        rg_shown_printf(text, "set aside for the rest of the job");
    rg_shown_printf(text, ": ");
    rg_shown_line(text, string(aside, "reason"));
    rg_shown_printf(text, "%s\n", strcmp(why, "never-met") == 0
                                      ? " (it did not come to meet the others)" : "");
}

void rg_jobs_describe_elastic(const json_t *elastic, struct rg_buf *text)
{
    const json_t *one;
    size_t i;
    int size = number(elastic, "size");
    char elapsed[32];
    double seconds = json_number_value(json_object_get(elastic, "epoch_s"));

    if (number(elastic, "epoch"))
        rg_shown_printf(text, "  epoch %d: %d rank%s, for %s\n", number(elastic, "epoch"), size,
                        size == 1 ? "" : "s", rg_jobs_elapsed((uint64_t) seconds, elapsed));
    else
        rg_shown_printf(text, "  no rank yet\n");
    json_array_foreach(json_object_get(elastic, "hosts"), i, one)
        put_host(one, text);
    json_array_foreach(json_object_get(elastic, "aside"), i, one)
        put_aside(one, text);
    if (number(elastic, "restarts"))
        rg_shown_printf(text, "  restarts: %d\n", number(elastic, "restarts"));
}
