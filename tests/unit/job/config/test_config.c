/* SPDX-License-Identifier: Apache-2.0 */
#include "job/config/config.h"
#include "job/request/request.h"
#include "platform/drivers.h"
#include "unit.h"

static void must_parse(struct rg_config *config, const char *text)
{
    struct rg_error err = RG_ERROR_INIT;

    *config = (struct rg_config) RG_CONFIG_INIT;
    config->path = strdup("config");
    config->found = true;
    if (rg_config_parse(config, "config", text, strlen(text), &err) < 0)
        fail_msg("%s", err.text);
}

static void entries_have_their_line_and_profile(void **state)
{
    RG_AUTO_CONFIG struct rg_config config;

    (void) state;
    must_parse(&config, "# usual\n[defaults]\n timeout = 2h \r\n\n[profile a.b-1]\nenv=A=1 # no\n"
                        "env = B\n; more\n[ profile  c ]\nssh-option = -o x = y");
    assert_int_equal(config.count, 4);
    assert_int_equal(config.profiles.count, 2);
    assert_string_equal(config.profiles.v[0], "a.b-1");
    assert_string_equal(config.entries[0].value, "2h");
    assert_int_equal(config.entries[0].line, 3);
    assert_int_equal(config.entries[0].profile, RG_CONFIG_DEFAULTS);
    assert_string_equal(config.entries[1].value, "A=1 # no");
    assert_string_equal(config.entries[3].value, "-o x = y");
    assert_int_equal(config.entries[3].profile, 1);
}

static const struct {
    const char *text, *error;
} wrong[] = {
    { "timeout = 1", "c:1: timeout stands above the first section; write [defaults]" },
    { "[defaults]\ntimout = 1", "c:2: unknown key \"timout\"; did you mean timeout?" },
    { "[defaults]\n--timeout = 1", "c:2: unknown key \"--timeout\"; here it is called timeout" },
    { "[defaults]\nx = A", "c:2: unknown key \"x\"; here it is called env" },
    { "[defaults]\nconfig = a", "c:2: \"config\" stands on the command line only" },
    { "[defaults]\nqqqqqq = a", "reigen run --help all lists the options" },
    { "[defaults]\nnp = 1\nnp = 2", "c:3: np stands in this section twice, first in line 2" },
    { "[defaults]\nnp", "c:2: \"np\": write OPTION = VALUE" },
    { "[defaults]\nnp =", "c:2: np: the value is missing; write np = N" },
    { "[defaults]\npty =", "c:2: pty: the value is missing; write pty = true" },
    { "[defaults]\npty = yes", "c:2: pty: \"yes\" is neither true nor false" },
    { "[run]", "c:1: unknown section [run]; write [defaults] or [profile NAME]" },
    { "[profile]", "c:1: unknown section [profile]" },
    { "[profile -a]", "c:1: profile \"-a\": a name has up to 64 letters" },
    { "[defaults", "c:1: [defaults: the bracket is not closed" },
    { "[defaults]\n[defaults]", "c:2: [defaults] stands in this file twice" },
    { "[profile a]\n[profile a]", "c:2: profile a stands in this file twice" },
};

static void what_is_wrong_is_named_with_its_line(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(wrong); i++) {
        RG_AUTO_CONFIG struct rg_config config = RG_CONFIG_INIT;
        struct rg_error err = RG_ERROR_INIT;
        const char *text = wrong[i].text;
        assert_int_equal(rg_config_parse(&config, "c", text, strlen(text), &err), -EINVAL);
        assert_contains(err.text, wrong[i].error);
        assert_int_equal(err.exit_code, 2);
    }
    struct rg_error err = RG_ERROR_INIT;
    RG_AUTO_CONFIG struct rg_config config = RG_CONFIG_INIT;
    assert_int_equal(rg_config_parse(&config, "c", "[defaults]\nnp\0= 1", 16, &err), -EINVAL);
    assert_string_equal(err.text, "c:2: a NUL byte stands here");
}

static void a_profile_wins_over_the_defaults(void **state)
{
    RG_AUTO_CONFIG struct rg_config config;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_request request;
    int profile;

    (void) state;
    must_parse(&config, "[defaults]\nhosts = a:2\nhosts = b:2\nnp = 2\nenv = A=1\nenv = B=1\n"
                        "ssh-option = X=1\n[profile p]\nhosts = c:4\nenv = A=2\nssh-option = Y=1\n"
                        "[profile bad]\nnp = many\n");
    rg_request_init(&request);
    assert_int_equal(rg_config_choose(&config, "p", &profile, &err), 0);
    assert_int_equal(rg_config_apply(&config, profile, &request, &err), 0);
    assert_int_equal(request.job.nhosts, 0);
    assert_int_equal(rg_config_take_hosts(&request, &err), 0);
    assert_int_equal(request.job.nhosts, 1);
    assert_string_equal(request.job.hosts[0].name, "c");
    assert_int_equal(request.job.np, 2);
    assert_string_equal(rg_env_get(&request.job.env, "A"), "2");
    assert_string_equal(rg_env_get(&request.job.env, "B"), "1");
    assert_int_equal(request.job.ssh_options.count, 2);
    assert_int_equal(request.source, RG_FROM_LINE);
    /* Both are in one order: what is listed is what is applied. */
    static const bool counts[] = { false, false, true, false, true, true, true, true, true, false };
    assert_int_equal(config.count, rg_array_len(counts));
    for (size_t i = 0; i < config.count; i++)
        assert_int_equal(rg_config_counts(&config, &config.entries[i], profile, &request),
                         counts[i]);
    rg_request_fini(&request);

    rg_request_init(&request);
    assert_int_equal(rg_config_choose(&config, "bda", &profile, &err), -EINVAL);
    assert_contains(err.text, "--profile bda: no such profile in config, which has p, bad; did "
                              "you mean bad?");
    assert_int_equal(rg_config_apply(&config, 1, &request, &err), -EINVAL);
    assert_contains(err.text, "config:13: np many: ");
    rg_request_fini(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_have_their_line_and_profile),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(a_profile_wins_over_the_defaults),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
