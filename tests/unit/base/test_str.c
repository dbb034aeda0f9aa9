/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "unit.h"

static void list_grows_and_stays_terminated(void **state)
{
    rg_autostrv struct rg_strv list = RG_STRV_INIT;

    (void) state;
    for (int i = 0; i < 300; i++) {
        assert_int_equal(rg_strv_addf(&list, "%d", i), 0);
        assert_int_equal(list.count, i + 1);
        assert_null(list.v[i + 1]);
    }
    for (int i = 0; i < 300; i++)
        assert_int_equal(atoi(list.v[i]), i);
}

static void list_takes_and_copies(void **state)
{
    rg_autostrv struct rg_strv list = RG_STRV_INIT;
    char text[] = "copy";
    char *more[] = { (char *) "x", (char *) "y", NULL };

    (void) state;
    assert_int_equal(rg_strv_add(&list, text), 0);
    text[0] = 'X';
    assert_string_equal(list.v[0], "copy");
    assert_int_equal(rg_strv_take(&list, strdup("own")), 0);
    assert_int_equal(rg_strv_add_all(&list, more), 0);
    assert_int_equal(list.count, 4);
    assert_string_equal(list.v[3], "y");
    assert_true(rg_strv_has(&list, "y"));
    assert_false(rg_strv_has(&list, "z"));
    assert_int_equal(rg_strv_status(&list), 0);
    assert_int_equal(rg_strv_take(&list, NULL), -ENOMEM); /* a list with a gap is no list */
    assert_int_equal(rg_strv_add(&list, "behind it"), -ENOMEM);
    assert_int_equal(rg_strv_status(&list), -ENOMEM);
    assert_int_equal(list.count, 4);
    rg_strv_fini(&list);
    assert_int_equal(rg_strv_status(&list), 0);
    assert_false(rg_strv_has(&list, "y"));
    rg_strv_fini(&list);
    rg_strv_fini(NULL);
    assert_null(list.v);
}

static void env_set_replaces_and_appends(void **state)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_env_set(&env, "PATH", "/bin"), 0);
    assert_int_equal(rg_env_set(&env, "PATHS", "no"), 0);
    assert_int_equal(rg_env_setf(&env, "RANK", "%d", 3), 0);
    assert_int_equal(rg_env_set(&env, "PATH", rg_env_get(&env, "PATH")), 0);
    assert_int_equal(rg_env_setf(&env, "PATH", "%s:/usr/bin", rg_env_get(&env, "PATH")), 0);
    assert_int_equal(env.count, 3);
    assert_string_equal(rg_env_get(&env, "PATH"), "/bin:/usr/bin");
    assert_string_equal(rg_env_get(&env, "PATHS"), "no");
    assert_string_equal(rg_env_get(&env, "RANK"), "3");
    assert_null(rg_env_get(&env, "PAT"));
    assert_null(rg_env_get(&env, "MISSING"));
}

/* Every size on the way up and down again, so that the array's growth meets every count. */
static void env_unset_keeps_the_rest(void **state)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    char name[32];

    (void) state;
    for (int size = 1; size < 40; size++) {
        for (int i = (int) env.count; i < size; i++) {
            snprintf(name, sizeof(name), "N%d", i);
            assert_int_equal(rg_env_set(&env, name, "v"), 0);
        }
        while (env.count > (size_t) size / 3) {
            snprintf(name, sizeof(name), "N%zu", env.count - 1);
            rg_env_unset(&env, name);
        }
        rg_env_unset(&env, "ABSENT");
        assert_null(env.v[env.count]);
        if (env.count > 0)
            assert_string_equal(rg_env_get(&env, "N0"), "v");
    }
}

static void env_unset_removes_doubles_and_the_middle(void **state)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    rg_strv_add(&env, "A=1");
    rg_strv_add(&env, "B=1");
    rg_strv_add(&env, "A=2");
    rg_strv_add(&env, "C=1");
    rg_env_unset(&env, "A");
    assert_int_equal(env.count, 2);
    assert_string_equal(env.v[0], "B=1");
    assert_string_equal(env.v[1], "C=1");
    assert_null(env.v[2]);
}

static void numbers_in_range_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t n;
    } good[] = { { "0", 0 }, { "-0", 0 }, { "007", 7 }, { "-5", -5 },
                 { "9223372036854775807", INT64_MAX }, { "-9223372036854775808", INT64_MIN } };
    int64_t n;

    (void) state;
    for (size_t i = 0; i < rg_array_len(good); i++) {
        assert_int_equal(rg_parse_int("n", good[i].text, INT64_MIN, INT64_MAX, &n, NULL), 0);
        assert_true(n == good[i].n);
    }
}

static void what_is_no_number_is_refused_by_name(void **state)
{
    static const char *const bad[] = { "",   "-",    "+1",  " 1",  "1 ",
                                       "1x", "0x10", "1.5", "--1", "\n" };
    struct rg_error err = RG_ERROR_INIT;
    int64_t n = 42;

    (void) state;
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        assert_int_equal(rg_parse_int("-np", bad[i], 1, 9, &n, &err), -EINVAL);
        assert_contains(err.text, "-np");
        assert_contains(err.text, "1 to 9");
    }
    assert_int_equal(n, 42);
}

static void numbers_out_of_range_are_refused(void **state)
{
    static const char *const bad[] = { "0", "10", "-1", "9223372036854775808",
                                       "18446744073709551617", "-99999999999999999999999" };
    struct rg_error err = RG_ERROR_INIT;
    int64_t n = 42;

    (void) state;
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        assert_int_equal(rg_parse_int("-np", bad[i], 1, 9, &n, &err), -ERANGE);
        assert_contains(err.text, bad[i]);
    }
    assert_int_equal(n, 42);
}

static void durations_take_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = { { "30", 30000 }, { "30s", 30000 },  { "250ms", 250 },
                 { "2m", 120000 }, { "1h", 3600000 }, { "0", 0 } };
    static const char *const bad[] = { "", "s", "-1", "1 s", "1.5s", "1d", "10S", "ms" };
    struct rg_error err = RG_ERROR_INIT;
    uint64_t ms;

    (void) state;
    for (size_t i = 0; i < rg_array_len(good); i++) {
        assert_int_equal(rg_parse_duration_ms("t", good[i].text, &ms, NULL), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        assert_int_equal(rg_parse_duration_ms("--timeout", bad[i], &ms, &err), -EINVAL);
        assert_contains(err.text, "--timeout");
    }
    assert_int_equal(rg_parse_duration_ms("t", "1000000000000ms", &ms, NULL), 0);
    assert_int_equal(rg_parse_duration_ms("t", "1000000000001ms", &ms, &err), -ERANGE);
    assert_int_equal(rg_parse_duration_ms("t", "99999999999999999999h", &ms, &err), -ERANGE);
}

static void nearest_word_forgives_a_slip(void **state)
{
    static const char *const words[] = { "--timeout", "--verbose", "run", "doctor", NULL };

    (void) state;
    assert_string_equal(rg_str_nearest("--timout", words), "--timeout");
    assert_string_equal(rg_str_nearest("--vebrose", words), "--verbose");
    assert_string_equal(rg_str_nearest("dcotor", words), "doctor");
    assert_string_equal(rg_str_nearest("rnu", words), "run");
    assert_null(rg_str_nearest("kubectl", words));
    assert_null(rg_str_nearest("", words));
    char text[200];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_null(rg_str_nearest(text, words));
}

static void starts_compares_the_whole_prefix(void **state)
{
    (void) state;
    assert_true(rg_str_starts("--env=A", "--env"));
    assert_true(rg_str_starts("a", ""));
    assert_false(rg_str_starts("--en", "--env"));
    assert_true(rg_str_has_word("n c num-proc", "c"));
    assert_true(rg_str_has_word("n c num-proc", "num-proc"));
    assert_false(rg_str_has_word("n c num-proc", "num"));
    assert_false(rg_str_has_word(NULL, "n"));
    char word[4];
    assert_string_equal(rg_str_word(" \tabcdef g\n", word, sizeof(word)), " g\n");
    assert_string_equal(word, "abc");
    assert_string_equal(rg_str_word("\n", word, sizeof(word)), "");
    assert_string_equal(word, "");
}

static void numbers_are_plain_decimal_ones(void **state)
{
    static const char *const none[] = { "", " 1", "0x10", "-0X1", "inf", "nan", "-", ".", "e5",
                                        "1e999" };
    double number = 99;

    (void) state;
    assert_string_equal(rg_str_number("0.5", &number), "");
    assert_true(number == 0.5);
    assert_string_equal(rg_str_number("-1e3ms", &number), "ms");
    assert_true(number == -1000);
    assert_string_equal(rg_str_number(".25s", &number), "s");
    assert_true(number == 0.25);
    for (size_t i = 0; i < rg_array_len(none); i++)
        assert_null(rg_str_number(none[i], &number));
    assert_true(number == 0.25);
}

static void programs_that_head_their_version_are_told_by_it(void **state)
{
    static const struct { const char *text, *line; } cases[] = {
        { "HYDRA build details:\n    Version:                                 4.0.2\n    CC: gcc\n",
          "HYDRA 4.0.2" },
        { "mpirun (Open MPI) 4.1.4\n\nReport bugs\n", "mpirun (Open MPI) 4.1.4" },
        { "Intel(R) MPI Library for Linux* OS, Version 2021.8 Build 1\n",
          "Intel(R) MPI Library for Linux* OS, Version 2021.8 Build 1" },
        { "details:\nnone\n", "details:" }, { "", "" }, { "one", "one" },
        { "\n mpiexec 3.2\r\nCopyright\r\n", "mpiexec 3.2" },
    };
    char line[64];

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_version_line(cases[i].text, line, sizeof(line));
        assert_string_equal(line, cases[i].line);
    }
}

static void ranges_of_ports_are_read_and_walked(void **state)
{
    static const char *const bad[] = { "", "x", "0-5", "5-4", "1-65536", "-5", "5-", "5-6-7",
                                       "5 -6", "99999999999999999999-1" };
    struct rg_ports ports = { 0, 0 };
    struct rg_error err = RG_ERROR_INIT;
    bool seen[3] = { false };

    (void) state;
    assert_int_equal(rg_ports_count(&ports), 1);
    assert_int_equal(rg_ports_nth(&ports, 77, 0), 0);
    assert_int_equal(rg_parse_ports("-p", "65535", &ports, NULL), 0);
    assert_int_equal(rg_ports_count(&ports), 1);
    assert_int_equal(rg_parse_ports("-p", "40-42", &ports, NULL), 0);
    for (int i = 0; i < rg_ports_count(&ports); i++)
        seen[rg_ports_nth(&ports, 0xfffffffe, i) - 40] = true;
    assert_true(seen[0] && seen[1] && seen[2]);
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        assert_int_equal(rg_parse_ports("--port-range", bad[i], &ports, &err), -EINVAL);
        assert_contains(err.text, "--port-range");
    }
    assert_int_equal(ports.first, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_plain_decimal_ones),
        cmocka_unit_test(programs_that_head_their_version_are_told_by_it),
        cmocka_unit_test(ranges_of_ports_are_read_and_walked),
        cmocka_unit_test(list_grows_and_stays_terminated),
        cmocka_unit_test(list_takes_and_copies),
        cmocka_unit_test(env_set_replaces_and_appends),
        cmocka_unit_test(env_unset_keeps_the_rest),
        cmocka_unit_test(env_unset_removes_doubles_and_the_middle),
        cmocka_unit_test(numbers_in_range_are_read),
        cmocka_unit_test(what_is_no_number_is_refused_by_name),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(durations_take_units),
        cmocka_unit_test(nearest_word_forgives_a_slip),
        cmocka_unit_test(starts_compares_the_whole_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
