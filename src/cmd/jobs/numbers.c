/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of rows, which are short on the way, become one object for each rank. */
#include "cmd/jobs/jobs.h"
#include "launch/control/control.h"

/* Append the page's ranks to the list. The rank to go on with; 0: this was the last page. */
static uint32_t take_page(const json_t *page, json_t *list)
{
    const json_t *columns = json_object_get(page, "columns"), *row;
    size_t i, k;
    json_t *value;

    json_array_foreach(json_object_get(page, "rows"), i, row) {
        json_t *rank = json_object();

        json_array_foreach(row, k, value)
            json_object_set(rank, json_string_value(json_array_get(columns, k)), value);
        json_array_append_new(list, rank);
    }
    return (uint32_t) json_integer_value(json_object_get(page, "next"));
}

json_t *rg_jobs_ask_numbers(const struct rg_registry_job *job)
{
    struct rg_control_request request = { .question = RG_CONTROL_NUMBERS };
    json_t *list = NULL, *page;
    uint32_t next = 0;

    if (rg_registry_state(job) != RG_JOB_RUNS)
        return json_null();
    do {
        request.from = next;
        page = rg_jobs_ask(rg_registry_id_now(job), &request);
        if (!list && json_is_array(json_object_get(page, "rows")))
            list = json_array();
        if (next && !page) { /* a part of the ranks would look like all of them */
            json_decref(list);
            list = NULL;
        }
        next = take_page(page, list);
        json_decref(page);
    } while (next > request.from);
    return list ? list : json_null();
}
