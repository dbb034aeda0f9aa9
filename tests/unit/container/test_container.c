/* SPDX-License-Identifier: Apache-2.0 */
#include "container/container.h"
#include "unit.h"

static void parse_all(struct rg_container *container, struct rg_buf *text)
{
    struct rg_error err = RG_ERROR_INIT;
    rg_autofree char *copy = strdup(rg_buf_text(text));
    char *rest;

    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        assert_memory_equal(line, RG_CONTAINER_LINE, strlen(RG_CONTAINER_LINE));
        if (rg_container_parse(container, line + strlen(RG_CONTAINER_LINE), &err) < 0)
            fail_msg("%s: %s", line, err.text);
    }
}

static void what_is_formatted_is_parsed_to_the_same(void **state)
{
    rg_cleanup(rg_container_fini) struct rg_container a = { 0 }, b = { 0 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT, again = RG_BUF_INIT;

    (void) state;
    a.image = strdup("registry:5000/a b/%41:1");
    a.runtime = strdup("podman");
    rg_strv_add(&a.mounts, "/data:/data:ro");
    rg_strv_add(&a.mounts, "/with\nnewline and \xc3\xa4");
    rg_strv_add(&a.options, "");
    a.shm_nbytes = 1ull << 40;
    a.gpus = strdup("0,1");
    a.network = strdup("host");
    a.user = strdup("1:2");
    a.pull = RG_PULL_NEVER;
    a.inject = RG_INJECT_NO;
    a.privileged = a.ibdevices = true;
    a.place.host_index = 63;
    a.place.one_host = true;
    a.place.cwd = strdup("/scratch/my job");
    a.place.launcher = strdup("h:1:2");
    a.place.term = strdup("xterm");
    a.place.bundle_digest = strdup("x86_64-ab");
    a.place.bundle_nbytes = 77;
    assert_int_equal(rg_container_format(&a, &text), 0);
    parse_all(&b, &text);
    assert_string_equal(b.image, a.image);
    assert_string_equal(b.mounts.v[1], a.mounts.v[1]);
    assert_int_equal(b.options.count, 1);
    assert_int_equal(b.pull, RG_PULL_NEVER);
    assert_int_equal(b.place.host_index, 63);
    assert_int_equal(rg_container_format(&b, &again), 0);
    assert_string_equal(rg_buf_text(&again), rg_buf_text(&text));
}

static void defaults_take_no_line(void **state)
{
    rg_cleanup(rg_container_fini) struct rg_container container = { 0 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_container_format(&container, &text), 0);
    assert_string_equal(rg_buf_text(&text), "");
}

static void bad_lines_are_refused(void **state)
{
    static const char *const lines[] = { "", "image", "nosuch x", "image %", "image %4",
                                         "image %00", "image %zz", "pull 3", "pull -1",
                                         "privileged 2", "shm x", "host 1048577" };
    rg_cleanup(rg_container_fini) struct rg_container container = { 0 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(lines); i++) {
        struct rg_error err = RG_ERROR_INIT;
        int r = rg_container_parse(&container, lines[i], &err);
        if (r != -EINVAL && r != -ERANGE)
            fail_msg("'%s': %d", lines[i], r);
        assert_true(*err.text);
    }
    assert_null(container.image);
}

static void too_much_is_refused_on_both_sides(void **state)
{
    rg_cleanup(rg_container_fini) struct rg_container container = { 0 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;
    int r = 0;

    (void) state;
    for (int i = 0; r == 0 && i < RG_CONTAINER_LISTED_MAX + 1; i++)
        r = rg_container_parse(&container, "option --x", &err);
    assert_int_equal(r, -E2BIG);
    assert_int_equal(container.options.count, RG_CONTAINER_LISTED_MAX);
    rg_strv_add(&container.options, "one more");
    assert_int_equal(rg_container_format(&container, &text), -E2BIG);
}

static void mounts_are_taken_apart(void **state)
{
    static const struct {
        const char *mount, *source, *target;
        bool read_only;
    } good[] = {
        { "/a", "/a", "/a", false },
        { "/a:/b", "/a", "/b", false },
        { "/a:/b:ro", "/a", "/b", true },
        { "/a:/b:rw", "/a", "/b", false },
        { "volume:/b", "volume", "/b", false },
    };
    static const char *const bad[] = { "", ":", "/a:", ":/b", "/a:b", "/a:/b:x", "a", "/a:/b:" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(good); i++) {
        rg_autofree char *source = NULL, *target = NULL;
        bool read_only = !good[i].read_only;
        assert_int_equal(rg_container_split_mount(good[i].mount, &source, &target, &read_only,
                                                  NULL), 0);
        assert_string_equal(source, good[i].source);
        assert_string_equal(target, good[i].target);
        assert_int_equal(read_only, good[i].read_only);
    }
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        char *source = NULL, *target = NULL;
        bool read_only;
        struct rg_error err = RG_ERROR_INIT;
        if (rg_container_split_mount(bad[i], &source, &target, &read_only, &err) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
        assert_null(source);
        assert_contains(err.text, bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_formatted_is_parsed_to_the_same),
        cmocka_unit_test(defaults_take_no_line),
        cmocka_unit_test(bad_lines_are_refused),
        cmocka_unit_test(too_much_is_refused_on_both_sides),
        cmocka_unit_test(mounts_are_taken_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
