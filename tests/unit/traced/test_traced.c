/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines that are whole, cut off, and of nobody's making. */
#include <math.h>

#include "base/buf.h"
#include "traced/traced.h"
#include "unit.h"

#define HEAD                                                                                       \
    "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"reigen, rank 0\","  \
    "\"start_time_since_epoch_in_micros\":5000000}},\n"                                            \
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"allreduce.a\"}},\n"
#define BEGIN "{\"name\":\"NEGOTIATE_ALLREDUCE\",\"ph\":\"B\",\"pid\":1,\"tid\":0,\"ts\":100.5},\n"
#define CAME                                                                                       \
    "{\"name\":\"0\",\"ph\":\"i\",\"pid\":1,\"tid\":0,\"ts\":100.500,\"s\":\"t\"},\n"              \
    "{\"name\":\"1\",\"ph\":\"i\",\"pid\":1,\"tid\":0,\"ts\":150.000,\"s\":\"t\"},\n"
#define RUNS                                                                                       \
    "{\"ph\":\"E\",\"pid\":1,\"tid\":0,\"ts\":150},\n"                                             \
    "{\"name\":\"ALLREDUCE\",\"ph\":\"B\",\"pid\":1,\"tid\":0,\"ts\":150,\"args\":{\"bytes\":64,"  \
    "\"tensors\":2,\"dtype\":\"float32\"}},\n"                                                     \
    "{\"name\":\"QUEUE\",\"ph\":\"B\",\"pid\":1,\"tid\":0,\"ts\":150},\n"                          \
    "{\"ph\":\"E\",\"pid\":1,\"tid\":0,\"ts\":180},\n"
#define WAITS "{\"name\":\"WAIT\",\"ph\":\"i\",\"pid\":0,\"tid\":0,\"ts\":160,\"s\":\"p\"},\n"
#define END "{\"ph\":\"E\",\"pid\":1,\"tid\":0,\"ts\":200}\n]\n"

static struct rg_traced parse(const char *text)
{
    struct rg_traced traced;

    assert_int_equal(rg_traced_parse(text, strlen(text), &traced), 0);
    return traced;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void an_operation_has_its_ranks_and_times(void **state)
{
    struct rg_traced traced = parse(HEAD BEGIN CAME RUNS WAITS END);

    (void) state;
    assert_true(traced.nops == 1 && traced.began_s == 5 && traced.nwaits == 1);
    const struct rg_traced_op *op = &traced.ops[0];
    assert_string_equal(op->kind, "ALLREDUCE");
    assert_string_equal(op->type, "float32");
    assert_string_equal(traced.names[op->lane], "allreduce.a");
    assert_true(op->nbytes == 64 && op->ntensors == 2 && !op->failed && op->narrivals == 2);
    assert_true(near(op->all_s, 150e-6) && near(op->end_s, 200e-6));
    assert_true(near(rg_traced_came(&traced, op, 1), 150e-6));
    assert_true(rg_traced_came(&traced, op, 2) < 0);
    assert_true(near(traced.waits[0], 160e-6) && near(traced.last_s, 200e-6));
    rg_traced_fini(&traced);
}

/* What begins or ends in its middle has no operation, and is no error. */
static void any_part_of_a_file_can_be_read(void **state)
{
    static const char whole[] = HEAD BEGIN CAME RUNS WAITS END;

    (void) state;
    for (size_t from = 0; from < sizeof(whole); from += 3) {
        for (size_t n = 0; from + n < sizeof(whole); n += 7) {
            struct rg_traced traced;
            assert_int_equal(rg_traced_parse(whole + from, n, &traced), 0);
            assert_true(traced.nops <= 1);
            rg_traced_fini(&traced);
        }
    }
}

static void what_is_no_timeline_has_no_operations(void **state)
{
    static const char *const odd[] = {
        "", "\n\n", "[]", "{}", "{\"pid\":-1,\"ph\":\"B\"}", "{\"pid\":99999999,\"ph\":\"B\"}",
        "{\"pid\":1,\"ph\":\"E\",\"ts\":1}\n{\"pid\":1,\"ph\":\"E\",\"ts\":-1e999}",
        "{\"pid\":1,\"ph\":\"i\",\"name\":\"99999999999999999999\",\"ts\":1}",
        "{\"pid\":1,\"ph\":7}\n{\"ph\":\"M\",\"pid\":3,\"name\":\"process_name\",\"args\":[]}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct rg_traced traced = parse(odd[i]);
        assert_int_equal(traced.nops, 0);
        rg_traced_fini(&traced);
    }
}

static void a_line_tells_its_time(void **state)
{
    (void) state;
    assert_true(near(rg_traced_time(BEGIN RUNS, strlen(BEGIN RUNS)), 100.5e-6));
    assert_true(rg_traced_time(BEGIN, 10) < 0 && rg_traced_time("]\n", 2) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_has_its_ranks_and_times),
        cmocka_unit_test(any_part_of_a_file_can_be_read),
        cmocka_unit_test(what_is_no_timeline_has_no_operations),
        cmocka_unit_test(a_line_tells_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
