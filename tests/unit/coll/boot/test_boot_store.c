/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of HTTP servers, the place that rank 0 writes, what launchers' variables claim, and
 * PMIx's layouts. */
#include "unit.h"

#include "coll/boot/launchers.h"
#include "coll/boot/pm/pmix_library.h"
#include "coll/boot/env/rendezvous.h"

#ifdef RG_HAVE_PMIX_H
#include <pmix.h>
#endif

static int parse(const char *text, bool ended, struct rg_http_answer *answer)
{
    return rg_http_parse(text, strlen(text), ended, answer);
}

static void test_an_answer_is_taken_apart(void **state)
{
    const char *text = "HTTP/1.0 200 OK\r\nServer: x\r\ncontent-length:  3 \r\n\r\nabcd";
    struct rg_http_answer answer;

    (void) state;
    assert_int_equal(parse(text, false, &answer), 1);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_nbytes, 3);
    assert_memory_equal(text + answer.body, "abc", 3);
    assert_int_equal(parse("HTTP/1.0 200 OK\r\nContent-Length: 0000000000000003\r\n\r\nabc", false,
                           &answer), 1);
    assert_int_equal(answer.body_nbytes, 3);
    assert_int_equal(parse("HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", false, &answer), 1);
    assert_int_equal(answer.status, 404);
    assert_int_equal(answer.body_nbytes, 0);
}

static void test_a_body_without_length_ends_with_the_connection(void **state)
{
    struct rg_http_answer answer;

    (void) state;
    assert_int_equal(parse("HTTP/1.0 200 OK\n\nabc", false, &answer), 0);
    assert_int_equal(parse("HTTP/1.0 200 OK\n\nabc", true, &answer), 1);
    assert_int_equal(answer.body_nbytes, 3);
}

static void test_what_is_no_answer_is_refused(void **state)
{
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/1.0 2x0 OK\r\n",
        "HTTP/1.0 999 OK\r\n", "HTTP/1.0 2000\r\n", "\r\n",
        "HTTP/1.0 200 OK\r\nno header\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 1 2\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 9999999\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    static char longest[RG_HTTP_ANSWER_MAX + 64] = "HTTP/1.0 200 OK\r\nX: ";
    struct rg_http_answer answer;

    (void) state;
    for (size_t i = 0; i < rg_array_len(bad); i++)
        assert_int_equal(parse(bad[i], false, &answer), -EBADMSG);
    assert_int_equal(parse("", false, &answer), 0);
    assert_int_equal(parse("", true, &answer), -EBADMSG);
    assert_int_equal(parse("HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nabc", true, &answer),
                     -EBADMSG);
    memset(longest + strlen(longest), 'x', sizeof(longest) - strlen(longest) - 1);
    assert_int_equal(parse(longest, false, &answer), -EBADMSG);
}

static void test_a_place_is_read_as_it_was_written(void **state)
{
    struct rg_endpoint place = { "fd00::1", 20001, "0123456789abcdef0123456789abcdef" }, back;
    char text[RG_ENDPOINT_MAX];

    (void) state;
    rg_endpoint_format(&place, text);
    assert_int_equal(rg_endpoint_parse(text, strlen(text), &back), 0);
    assert_string_equal(back.address, place.address);
    assert_string_equal(back.nonce, place.nonce);
    assert_int_equal(back.port, place.port);
}

static void test_what_is_no_place_is_refused(void **state)
{
    static const char *const bad[] = {
        "", "reigen1", "reigen2 10.0.0.1 20001 0123456789abcdef0123456789abcdef",
        "reigen1 host 20001 0123456789abcdef0123456789abcdef",
        "reigen1 10.0.0.1 70000 0123456789abcdef0123456789abcdef",
        "reigen1 10.0.0.1 20001 0123456789abcdef0123456789abcdeg",
        "reigen1 10.0.0.1 20001 0123", "reigen1 10.0.0.1 20001",
        "reigen1 10.0.0.1 20001 0123456789abcdef0123456789abcdef more",
    };
    struct rg_endpoint place;

    (void) state;
    for (size_t i = 0; i < rg_array_len(bad); i++)
        assert_int_equal(rg_endpoint_parse(bad[i], strlen(bad[i]), &place), -EBADMSG);
}

static const char *const variables[] = { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",
                                         "PMI_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
                                         "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID" };

static int forget(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(variables); i++)
        unsetenv(variables[i]);
    return 0;
}

static void test_a_launcher_of_many_is_seen(void **state)
{
    struct rg_claim claim;

    (void) state;
    assert_false(rg_claim_find(&claim));
    assert_int_equal(rg_claim_check_alone(NULL), 0);
    for (size_t i = 0; i < rg_array_len(variables); i += 2) {
        struct rg_error err = RG_ERROR_INIT;

        setenv(variables[i], "4", 1);
        assert_false(rg_claim_find(&claim)); /* the size alone may be anything */
        setenv(variables[i + 1], "0", 1);
        assert_true(rg_claim_find(&claim));
        assert_int_equal(claim.size, 4);
        assert_string_equal(claim.variable, variables[i]);
        assert_int_equal(rg_claim_check_alone(&err), -EPROTO);
        assert_contains(err.text, variables[i]);
        assert_contains(err.text, "REIGEN_BOOT=single");
        assert_int_equal(rg_launched_by_mpi(), strncmp(variables[i], "SLURM", 5) != 0);
        forget(NULL);
    }
}

static void test_one_rank_or_a_broken_number_claims_nothing(void **state)
{
    struct rg_claim claim;

    (void) state;
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    assert_false(rg_claim_find(&claim));
    setenv("PMI_SIZE", "four", 1);
    assert_false(rg_claim_find(&claim));
    assert_false(rg_launched_by_mpi());
}

static void test_pmix_has_the_layouts_we_believe_in(void **state)
{
    (void) state;
    assert_int_equal(sizeof(struct rg_pmix_proc), 260);
    assert_int_equal(sizeof(struct rg_pmix_value), 32);
    assert_int_equal(sizeof(struct rg_pmix_info), 552);
#ifdef RG_HAVE_PMIX_H
    assert_int_equal(sizeof(pmix_proc_t), sizeof(struct rg_pmix_proc));
    assert_int_equal(offsetof(pmix_proc_t, rank), offsetof(struct rg_pmix_proc, rank));
    assert_int_equal(sizeof(pmix_value_t), sizeof(struct rg_pmix_value));
    assert_int_equal(offsetof(pmix_value_t, data), offsetof(struct rg_pmix_value, data));
    assert_int_equal(sizeof(pmix_info_t), sizeof(struct rg_pmix_info));
    assert_int_equal(offsetof(pmix_info_t, flags), offsetof(struct rg_pmix_info, flags));
    assert_int_equal(offsetof(pmix_info_t, value), offsetof(struct rg_pmix_info, value));
    assert_int_equal(PMIX_BOOL, RG_PMIX_BOOL);
    assert_int_equal(PMIX_STRING, RG_PMIX_STRING);
    assert_int_equal(PMIX_INT, RG_PMIX_INT);
    assert_int_equal(PMIX_UINT32, RG_PMIX_UINT32);
    assert_int_equal(PMIX_BYTE_OBJECT, RG_PMIX_BYTE_OBJECT);
    assert_int_equal(PMIX_GLOBAL, RG_PMIX_SCOPE_GLOBAL);
    assert_int_equal(PMIX_RANK_WILDCARD, RG_PMIX_RANK_WILDCARD);
    assert_int_equal(PMIX_ERR_TIMEOUT, RG_PMIX_ERR_TIMEOUT);
    assert_int_equal(PMIX_ERR_LOST_CONNECTION, RG_PMIX_ERR_LOST_CONNECTION);
    assert_int_equal(PMIX_EVENT_NO_ACTION_TAKEN, RG_PMIX_EVENT_NO_ACTION_TAKEN);
    assert_string_equal(PMIX_JOB_SIZE, RG_PMIX_JOB_SIZE);
    assert_string_equal(PMIX_LOCAL_PEERS, RG_PMIX_LOCAL_PEERS);
    assert_string_equal(PMIX_COLLECT_DATA, RG_PMIX_COLLECT_DATA);
    assert_string_equal(PMIX_TIMEOUT, RG_PMIX_TIMEOUT);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_is_taken_apart),
        cmocka_unit_test(test_a_body_without_length_ends_with_the_connection),
        cmocka_unit_test(test_what_is_no_answer_is_refused),
        cmocka_unit_test(test_a_place_is_read_as_it_was_written),
        cmocka_unit_test(test_what_is_no_place_is_refused),
        cmocka_unit_test_setup_teardown(test_a_launcher_of_many_is_seen, forget, forget),
        cmocka_unit_test_setup_teardown(test_one_rank_or_a_broken_number_claims_nothing, forget,
                                        forget),
        cmocka_unit_test(test_pmix_has_the_layouts_we_believe_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
