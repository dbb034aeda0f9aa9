/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rsh/rshargs.h"
#include "unit.h"

#define WORDS_MAX 12

struct form {
    const char *words[WORDS_MAX]; /* behind the program's name */
    const char *host, *command, *user;
    bool no_input;
};

static int parse(const char *const *words, struct rg_rsh_args *args, struct rg_error *err)
{
    char *argv[WORDS_MAX + 2] = { (char *) "rsh" };
    int argc = 1;

    for (; argc <= WORDS_MAX && words[argc - 1]; argc++)
        argv[argc] = (char *) words[argc - 1];
    return rg_rsh_parse(argc, argv, args, err);
}

/* What MPI engines, pdsh and people write. */
static const struct form forms[] = {
    { { "b", "true" }, "b", "true", NULL, false },
    /* Open MPI 4 and 5, MPICH, Intel MPI */
    { { "b", " orted", "-mca", "ess", "\"env\"", "orte_hnp_uri", "\"1.0;tcp://10.0.0.1:3\"" },
      "b", " orted -mca ess \"env\" orte_hnp_uri \"1.0;tcp://10.0.0.1:3\"", NULL, false },
    { { "-x", "-p", "12345", "b", "prted --prtemca ess \"env\"" },
      "b", "prted --prtemca ess \"env\"", NULL, false },
    { { "-x", "bob@b", "\"/usr/bin/hydra_pmi_proxy\"", "--control-port", "a:1" },
      "b", "\"/usr/bin/hydra_pmi_proxy\" --control-port a:1", "bob", false },
    { { "-q", "-x", "b", "/p/bin//hydra_bstrap_proxy", "--upstream-host", "a" },
      "b", "/p/bin//hydra_bstrap_proxy --upstream-host a", NULL, false },
    /* pdsh */
    { { "-oConnectTimeout=10", "-2", "-a", "-x", "-lbob", "b", "whole command" },
      "b", "whole command", "bob", false },
    { { "-2", "-a", "-x", "-l", "bob", "b", "c" }, "b", "c", "bob", false },
    /* people */
    { { "-o", "BatchMode=yes", "-i", "key", "-p12345", "b", "c" }, "b", "c", NULL, false },
    { { "-qxTp", "22", "b", "c" }, "b", "c", NULL, false },
    { { "-qxTnoX=y", "b", "c" }, "b", "c", NULL, true },
    { { "-4", "-6", "-A", "-C", "-k", "-K", "-M", "-t", "-tt", "-v", "-X", "b" },
      "b", "", NULL, false },
    { { "-n", "b", "c" }, "b", "c", NULL, true },
    { { "--", "b", "-c" }, "b", "-c", NULL, false },
    { { "b", "--", "c", "-x" }, "b", "c -x", NULL, false },
    { { "b", "-p", "22", "-n", "c", "-l" }, "b", "c -l", NULL, true },
    { { "-l", "al", "bob@b", "c" }, "b", "c", "bob", false },
    { { "a@dom@b", "c" }, "b", "c", "a@dom", false },
    { { "fe80::1%eth0", "c", "" }, "fe80::1%eth0", "c ", NULL, false },
};

static void every_form_that_engines_use_is_understood(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(forms); i++) {
        struct rg_rsh_args args = RG_RSH_ARGS_INIT;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(parse(forms[i].words, &args, &err), 0);
        assert_string_equal(args.host, forms[i].host);
        assert_string_equal(args.command, forms[i].command);
        if (forms[i].user)
            assert_string_equal(args.user, forms[i].user);
        else
            assert_null(args.user);
        assert_int_equal(args.no_input, forms[i].no_input);
        assert_false(args.version || args.background);
        rg_rsh_args_fini(&args);
    }
}

static void what_cannot_be_done_is_refused_by_name(void **state)
{
    static const struct {
        const char *words[WORDS_MAX], *says;
    } cases[] = {
        { { NULL }, "no host" },
        { { "-x" }, "no host" },
        { { "--" }, "no host" },
        { { "bob@" }, "names no host" },
        { { "-p" }, "-p needs a value" },
        { { "b", "-l" }, "-l needs a value" },
        { { "-Z", "b" }, "-Z is no option" },
        { { "-x3", "b" }, "-3 is no option" },
        { { "--help" }, "-- is no option" },
        { { "-L", "1:b:2", "b" }, "-L" },
        { { "-xN", "b" }, "-N" },
        { { "-G", "b" }, "-G" },
        { { "b", "-s", "sftp" }, "-s" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_rsh_args args = RG_RSH_ARGS_INIT;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(parse(cases[i].words, &args, &err), -EINVAL);
        assert_contains(err.text, cases[i].says);
        assert_null(args.command);
    }
}

static void version_and_background_are_flags(void **state)
{
    struct rg_rsh_args args = RG_RSH_ARGS_INIT;

    (void) state;
    assert_int_equal(parse((const char *const[]){ "-V", NULL }, &args, NULL), 0);
    assert_true(args.version);
    rg_rsh_args_fini(&args);
    assert_int_equal(parse((const char *const[]){ "-f", "b", "c", NULL }, &args, NULL), 0);
    assert_true(args.background && args.no_input);
    rg_rsh_args_fini(&args);
}

static void simple_commands_are_split_as_a_shell_would(void **state)
{
    static const struct {
        const char *command, *words[5]; /* none: a shell is needed */
    } cases[] = {
        { "a b", { "a", "b" } },
        { "  a\t b ", { "a", "b" } },
        { "\"/usr/bin/p\" --x 'y z'", { "/usr/bin/p", "--x", "y z" } },
        { "a \"\" ''", { "a", "", "" } },
        { "a b\\ c \"d\\\"e\" \"f\\g\"", { "a", "b c", "d\"e", "f\\g" } },
        { "a x=1 '*;$'", { "a", "x=1", "*;$" } },
        { "a'b'\"c\"d", { "abcd" } },
        { "", { NULL } },
        { "   ", { NULL } },
        { "a; b", { NULL } },
        { "a $HOME", { NULL } },
        { "a \"$HOME\"", { NULL } },
        { "a `b`", { NULL } },
        { "a > b", { NULL } },
        { "a *", { NULL } },
        { "a 'b", { NULL } },
        { "a \"b", { NULL } },
        { "a \\", { NULL } },
        { "X=1 a", { NULL } },
        { "a\nb", { NULL } },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autostrv struct rg_strv words = RG_STRV_INIT;
        int r = rg_rsh_split(cases[i].command, &words);
        size_t n = 0;
        for (; cases[i].words[n]; n++) {
            assert_true(n < words.count);
            assert_string_equal(words.v[n], cases[i].words[n]);
        }
        assert_int_equal(r, n ? 0 : -EINVAL);
        assert_int_equal(words.count, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_that_engines_use_is_understood),
        cmocka_unit_test(what_cannot_be_done_is_refused_by_name),
        cmocka_unit_test(version_and_background_are_flags),
        cmocka_unit_test(simple_commands_are_split_as_a_shell_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
