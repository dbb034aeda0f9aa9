/* SPDX-License-Identifier: Apache-2.0 */
/* What is printed is read back by libfyaml, which is strict, and must be the same tree. */
#include "unit.h"

#include "job/yaml/manifest.h"

/* libfyaml keeps 512 bytes of each long text in blocks that it writes as JSON (its
 * fy_atom_is_number). This is LeakSanitizer's hook; nothing else calls it. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));

const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml.so";
}

static json_t *back(const json_t *tree, struct rg_buf *text)
{
    struct rg_error err = RG_ERROR_INIT;
    json_t *value = NULL;

    rg_buf_clear(text);
    assert_int_equal(rg_manifest_put(tree, text), 0);
    const char *yaml = rg_buf_text(text);
    if (rg_manifest_read("made", "a text", yaml, strlen(yaml), &value, &err) < 0)
        fail_msg("%s:\n%s", err.text, yaml);
    return value;
}

static void trees_come_back_as_they_were(void **state)
{
    static const char *const trees[] = {
        "{}", "{\"a\":1}", "{\"a\":{},\"b\":[],\"c\":null,\"d\":true,\"e\":false,\"f\":-2}",
        "{\"a\":[{\"b\":1,\"c\":[1,2,[3,[4]],{}]},[],{\"d\":{\"e\":\"f\"}}]}",
        "{\"yes\":\"no\",\"0555\":\"0555\",\"a b\":\"x: y\",\"\":\"\",\"#\":\"# c\"}",
        "{\"-\":\"- a\"}",
        "{\"script\":\"set -u\\n\\n  if x; then\\n\\ty # z: \\\"q\\\" 'w'\\nfi \\n\"}",
        "{\"a\":[\"one\\ntwo\\n\",{\"b\":\"---\\n...\\n\"}],\"c\":\"last\\n\"}",
        "{\"a\":\" begins\\nso\\n\",\"b\":\"no end\\nhere\"}",
        "{\"c\":\"two ends\\n\\n\",\"d\":\"\\n\"}",
        "{\"a\":\"tab\\there\\n\",\"b\":\"\\u00e9\\u2028\\n\",\"c\":\"\\u0007\\u007f\",\"d\":1.5}",
    };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    for (size_t i = 0; i < rg_array_len(trees); i++) {
        json_t *tree = json_loads(trees[i], 0, NULL), *value;
        assert_non_null(tree);
        value = back(tree, &text);
        if (!json_equal(tree, value))
            fail_msg("%s is not\n%s", trees[i], rg_buf_text(&text));
        json_decref(tree);
        json_decref(value);
    }
}

static void scripts_stand_there_line_by_line(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    json_t *tree = json_pack("{s:{s:s}, s:[{s:s, s:i}]}", "data", "run.sh", "one\n\n  two\n",
                             "items", "key", "k", "mode", 365);

    (void) state;
    assert_int_equal(rg_manifest_put(tree, &text), 0);
    assert_string_equal(rg_buf_text(&text), "data:\n  run.sh: |\n    one\n\n      two\n"
                                            "items:\n- key: \"k\"\n  mode: 365\n");
    json_decref(tree);
}

static void modes_are_octal(void **state)
{
    const char text[] = "{a: 0555, b: [0o400, '0555', 08, 10, 0], c: {d: 0644}}";
    struct rg_error err = RG_ERROR_INIT;
    json_t *value = NULL, *wanted = json_loads(
        "{\"a\":365,\"b\":[256,\"0555\",\"08\",10,0],\"c\":{\"d\":420}}", 0, NULL);

    (void) state;
    assert_int_equal(rg_manifest_read("-", "a text", text, strlen(text), &value, &err), 0);
    assert_true(json_equal(value, wanted));
    json_decref(value);
    json_decref(wanted);
}

static void names_are_judged(void **state)
{
    char long_name[300];

    (void) state;
    memset(long_name, 'a', sizeof(long_name));
    long_name[254] = '\0';
    assert_int_equal(rg_manifest_label("-", "a-1", 63, NULL), 0);
    assert_int_equal(rg_manifest_label("-", "abcd", 3, NULL), -EINVAL);
    static const char *const bad[] = { "", "-a", "a-", "A", "a_b", "a.", ".a", "a..b", "a b" };
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        assert_int_equal(rg_manifest_label("-", bad[i], 63, NULL), -EINVAL);
        assert_int_equal(rg_manifest_object("-", bad[i], NULL), -EINVAL);
    }
    assert_int_equal(rg_manifest_object("-", "a.b-c.1", NULL), 0);
    assert_int_equal(rg_manifest_object("-", long_name, NULL), -EINVAL);
    assert_int_equal(rg_manifest_object("-", long_name + 1, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_come_back_as_they_were),
        cmocka_unit_test(scripts_stand_there_line_by_line),
        cmocka_unit_test(modes_are_octal),
        cmocka_unit_test(names_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
