/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "head/show/events.h"
#include "unit.h"

/* The one line in text as an object; checks what every event has. */
static json_t *parse(struct rg_buf *text, const char *event)
{
    const char *line = rg_buf_text(text);
    size_t n = strlen(line);
    json_error_t error;

    assert_true(n > 1 && line[n - 1] == '\n' && strchr(line, '\n') == line + n - 1);
    json_t *o = json_loads(line, 0, &error);
    if (!o)
        fail_msg("%s: %s", line, error.text);
    assert_int_equal(json_integer_value(json_object_get(o, "schema")), 1);
    assert_string_equal(json_string_value(json_object_get(o, "event")), event);
    assert_true(json_real_value(json_object_get(o, "time")) > 1.5e9);
    rg_buf_clear(text);
    return o;
}

static void assert_command(const json_t *o, const char *only)
{
    const json_t *command = json_object_get(o, "command");

    assert_int_equal(json_array_size(command), 1);
    assert_string_equal(json_string_value(json_array_get(command, 0)), only);
}

static void output_is_text_or_base64(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const struct rg_line good = { (const uint8_t *) "h\xc3\xa9\"\n", 5, true, false };
    const struct rg_line bad = { (const uint8_t *) "a\xff\0", 3, false, true };
    const struct rg_line empty = { NULL, 0, true, false };

    (void) state;
    rg_event_output(&text, 3, 2, &good);
    json_t *o = parse(&text, "output");
    assert_string_equal(json_string_value(json_object_get(o, "text")), "h\xc3\xa9\"\n");
    assert_string_equal(json_string_value(json_object_get(o, "stream")), "stderr");
    assert_int_equal(json_integer_value(json_object_get(o, "rank")), 3);
    json_decref(o);
    rg_event_output(&text, 0, 1, &bad);
    o = parse(&text, "output");
    assert_null(json_object_get(o, "text"));
    assert_string_equal(json_string_value(json_object_get(o, "base64")), "Yf8A");
    assert_true(json_is_true(json_object_get(o, "continued")));
    json_decref(o);
    rg_event_output(&text, 0, 1, &empty);
    o = parse(&text, "output");
    assert_string_equal(json_string_value(json_object_get(o, "text")), "");
    json_decref(o);
}

static void every_event_is_one_line_of_json(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_job job;
    struct rg_plan_host host = { .name = (char *) "localhost", .nslots = 4, .nranks = 2 };
    struct rg_plan plan = { .nranks = 2, .np = 2, .hosts = &host, .nhosts = 1, .job_id = "r-1" };
    const struct rg_rank_end ends = {.rank = 1,
                                     .host = "localhost",
                                     .end = RG_END_SIGNAL,
                                     .value = 9,
                                     .note = "bad \xff",
                                     .at_ns = 5};
    const char *const lines[] = { "last" };
    const struct rg_verdict verdict = { .exit_code = 137, .cause = "c", .first = &ends,
                                        .last_lines = lines, .nlast_lines = 1 };

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_strv_add(&job.command, "x"), 0);
    rg_event_plan(&text, "start", &job, &plan);
    json_t *o = parse(&text, "start");
    assert_string_equal(json_string_value(json_object_get(o, "job")), "r-1");
    assert_non_null(json_object_get(o, "version"));
    assert_command(o, "x");
    json_decref(o);
    job.title = strdup("a : -n 2 b");
    rg_event_plan(&text, "start", &job, &plan);
    o = parse(&text, "start");
    assert_command(o, "a : -n 2 b");
    json_decref(o);
    rg_event_host(&text, "localhost", RG_PHASE_PULLING, NULL);
    o = parse(&text, "host");
    assert_string_equal(json_string_value(json_object_get(o, "phase")), "pulling");
    json_decref(o);
    rg_event_running(&text);
    json_decref(parse(&text, "running"));
    rg_event_rank_started(&text, 0, "localhost", 42, "");
    o = parse(&text, "rank-started");
    assert_null(json_object_get(o, "cpus"));
    json_decref(o);
    rg_event_rank_started(&text, 1, "localhost", 43, "0-3,8");
    o = parse(&text, "rank-started");
    assert_string_equal(json_string_value(json_object_get(o, "cpus")), "0-3,8");
    json_decref(o);
    rg_event_rank_ended(&text, &ends);
    o = parse(&text, "rank-ended");
    assert_string_equal(json_string_value(json_object_get(o, "note")), "bad ?");
    assert_string_equal(json_string_value(json_object_get(o, "place")), "");
    json_decref(o);
    rg_event_note(&text, -1, "of a host");
    o = parse(&text, "note");
    assert_true(json_is_null(json_object_get(o, "rank")));
    json_decref(o);
    rg_event_chaos(&text, &(struct rg_chaos_event){ .verb = RG_CHAOS_CUT, .at_ms = 1500 }, -1,
                   "b");
    o = parse(&text, "chaos");
    assert_string_equal(json_string_value(json_object_get(o, "action")), "cut");
    assert_true(json_is_null(json_object_get(o, "rank")));
    assert_string_equal(json_string_value(json_object_get(o, "host")), "b");
    assert_float_equal(json_real_value(json_object_get(o, "at")), 1.5, 1e-9);
    assert_null(json_object_get(o, "step"));
    json_decref(o);
    rg_event_verdict(&text, &verdict);
    o = parse(&text, "verdict");
    assert_int_equal(json_integer_value(json_object_get(o, "first")), 1);
    json_decref(o);
    rg_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_text_or_base64),
        cmocka_unit_test(every_event_is_one_line_of_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
