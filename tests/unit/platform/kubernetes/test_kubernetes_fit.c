/* SPDX-License-Identifier: Apache-2.0 */
/* How many pods the nodes take, against answers of the API server that are written down here. */
#include <stdio.h>
#include <string.h>

#include "platform/kubernetes/outside/fit.h"
#include "unit.h"

static json_t *load(const char *text)
{
    json_error_t at;
    json_t *value = json_loads(text, 0, &at);

    if (!value)
        fail_msg("%s at %d: %s", at.text, at.column, text);
    return value;
}

static void quantities_are_whole_thousandths(void **state)
{
    static const struct {
        const char *text;
        int64_t milli;
    } cases[] = {
        { "1", 1000 }, { "0.1", 100 }, { "500m", 500 }, { "1.5", 1500 }, { "100n", 1 },
        { "250u", 1 }, { "2k", 2000000 }, { "1Ki", 1024000 }, { "8Gi", 8589934592000 },
        { "1e3", 1000000 }, { "1M", 1000000000 }, { "24479284Ki", 25066786816000 },
        { "16Ei", KUBE_MILLI_MAX }, { "", 0 }, { "x", 0 }, { "-1", 0 },
    };
    char text[40];

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        if (kube_milli(cases[i].text) != cases[i].milli)
            fail_msg("%s: %lld", cases[i].text, (long long) kube_milli(cases[i].text));
    }
    assert_string_equal(kube_amount("cpu", 1500, text, sizeof(text)), "1500m");
    assert_string_equal(kube_amount("cpu", 2000, text, sizeof(text)), "2");
    assert_string_equal(kube_amount("memory", 8589934592000, text, sizeof(text)), "8Gi");
    assert_string_equal(kube_amount("memory", 1610612736000, text, sizeof(text)), "1.5Gi");
    assert_string_equal(kube_amount("nvidia.com/gpu", 4000, text, sizeof(text)), "4");
}

static void check_amount(const char *spec, const char *part, const char *expected)
{
    KUBE_AUTO_JSON json_t *pod = load(spec), *want = load(expected);
    KUBE_AUTO_JSON json_t *have = kube_pod_amounts(pod, part);

    if (!json_equal(have, want)) {
        rg_autofree char *text = json_dumps(have, JSON_SORT_KEYS);
        fail_msg("%s of %s: %s", part, spec, text);
    }
}

static void a_pod_asks_for_what_its_containers_and_the_largest_before_them_ask(void **state)
{
    (void) state;
    check_amount("{\"containers\": [{\"resources\": {\"limits\": {\"cpu\": \"2\"}}},"
                 "{\"resources\": {\"requests\": {\"cpu\": \"500m\", \"memory\": \"1k\"}}}]}",
                 "requests", "{\"cpu\": 2500, \"memory\": 1000000}");
    check_amount("{\"containers\": [{\"resources\": {\"limits\": {\"cpu\": \"2\"},"
                 "\"requests\": {\"cpu\": 1}}}]}", "limits", "{\"cpu\": 2000}");
    /* One that stays counts beside all that come after it; the others one at a time. */
    check_amount("{\"initContainers\": ["
                 "{\"restartPolicy\": \"Always\", \"resources\": {\"requests\": {\"cpu\": 1}}},"
                 "{\"resources\": {\"requests\": {\"cpu\": 4}}}],"
                 "\"containers\": [{\"resources\": {\"requests\": {\"cpu\": 2}}}],"
                 "\"overhead\": {\"cpu\": \"250m\"}}", "requests", "{\"cpu\": 5250}");
    check_amount("{\"resources\": {\"requests\": {\"cpu\": 3}},"
                 "\"containers\": [{\"resources\": {\"requests\": {\"cpu\": 2}}}]}", "requests",
                 "{\"cpu\": 3000}");
    check_amount("{\"containers\": [{}]}", "requests", "{}");
}

/* node is what n1 has beside its name; there is a node n2, too, with room for a hundred. */
static void check_node(const char *pod, const char *pods, const char *node, int nnow, int nempty,
                       const char *why)
{
    rg_autofree char *first =
        rg_strf("{\"metadata\": {\"name\": \"n1\", \"labels\": {\"zone\": \"a\", \"gen\": \"7\"}},"
                "\"status\": {\"allocatable\": {\"cpu\": \"4\", \"memory\": \"8Gi\", "
                "\"pods\": \"110\"}}, \"spec\": %s}", node);
    rg_autofree char *all =
        rg_strf("[%s, {\"metadata\": {\"name\": \"n2\", \"labels\": {\"zone\": \"a\"}}, \"status\":"
                "{\"allocatable\": {\"cpu\": \"100\", \"pods\": 100}}}]", first);
    KUBE_AUTO_JSON json_t *one = load(pod), *nodes = load(all), *there = load(pods);
    rg_cleanup(rg_outlook_fini) struct rg_outlook outlook = { .place = NULL };
    const struct kube_fit fit = { one, 3, nodes, there };

    kube_fit_nodes(&fit, &outlook);
    assert_int_equal(outlook.nnodes, 2);
    const struct rg_outlook_node *found = &outlook.nodes[strcmp(outlook.nodes[0].name, "n1") != 0];
    if (found->nnow != nnow || found->nempty != nempty || strcmp(found->why, why) != 0)
        fail_msg("%s: %d now, %d if empty, %s", pod, found->nnow, found->nempty, found->why);
}

#define WANTS(cpu, more) \
    "{\"metadata\": {\"labels\": {\"app\": \"x\"}}, \"spec\": {\"containers\": [{\"resources\": " \
    "{\"requests\": {\"cpu\": \"" cpu "\"}}}]" more "}}"
#define RUNS(cpu, phase, more) \
    "[{\"metadata\": {" more "}, \"status\": {\"phase\": \"" phase "\"}, \"spec\": {" \
    "\"nodeName\": \"n1\", \"containers\": [{\"resources\": {\"requests\": {\"cpu\": \"" \
    cpu "\"}}}]}}]"

static void nodes_take_what_is_left_of_them(void **state)
{
    (void) state;
    check_node(WANTS("1", ""), "[]", "{}", 3, 3, "");
    check_node(WANTS("2", ""), "[]", "{}", 2, 2, "cpu: 4 of 4 free");
    check_node(WANTS("1", ""), RUNS("2500m", "Running", ""), "{}", 1, 3, "cpu: 1500m of 4 free");
    check_node(WANTS("2", ""), RUNS("3", "Pending", ""), "{}", 0, 2,
               "cpu: 1 of 4 free, a pod wants 2");
    check_node(WANTS("1", ""), RUNS("4", "Succeeded", ""), "{}", 3, 3, "");
    /* Those of a DaemonSet are there on an empty node, too. */
    check_node(WANTS("1", ""), RUNS("2", "Running", "\"ownerReferences\": [{\"kind\": "
               "\"DaemonSet\"}]"), "{}", 2, 2, "cpu: 2 of 4 free");
    check_node("{\"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpu\": 1}}}"
               "]}}", "[]", "{}", 0, 0, "it has no nvidia.com/gpu");
    check_node("{\"spec\": {\"containers\": [{\"ports\": [{\"hostPort\": 22}]}]}}", "[]", "{}", 1,
               1, "one pod can have the host's port");
    check_node("{\"spec\": {\"containers\": [{\"ports\": [{\"hostPort\": 22}]}]}}",
               "[{\"spec\": {\"nodeName\": \"n1\", \"containers\": [{\"ports\": [{\"hostPort\": 22}"
               "]}]}}]", "{}", 0, 1, "a pod there has the host's port");
}

#define TAINT(key, effect) "{\"taints\": [{\"key\": \"" key "\", \"value\": \"v\", \"effect\": \"" \
                           effect "\"}]}"
#define BEARS(text) WANTS("1", ", \"tolerations\": [{" text "}]")

static void taints_keep_away_those_who_do_not_tolerate_them(void **state)
{
    (void) state;
    check_node(WANTS("1", ""), "[]", TAINT("k", "NoSchedule"), 0, 0, "taint k=v:NoSchedule");
    check_node(WANTS("1", ""), "[]", TAINT("k", "PreferNoSchedule"), 3, 3, "");
    check_node(BEARS("\"operator\": \"Exists\""), "[]", TAINT("k", "NoExecute"), 3, 3, "");
    check_node(BEARS("\"key\": \"k\", \"value\": \"v\""), "[]", TAINT("k", "NoExecute"), 3, 3, "");
    check_node(BEARS("\"key\": \"k\", \"value\": \"w\""), "[]", TAINT("k", "NoExecute"), 0, 0,
               "taint k=v:NoExecute");
    check_node(BEARS("\"key\": \"k\", \"operator\": \"Exists\", \"effect\": \"NoSchedule\""), "[]",
               TAINT("k", "NoExecute"), 0, 0, "taint k=v:NoExecute");
    check_node(WANTS("1", ""), "[]", TAINT("node.kubernetes.io/unreachable", "NoSchedule"), 0, 3,
               "it is not ready");
    check_node(WANTS("2", ""), "[]", TAINT("node.kubernetes.io/disk-pressure", "NoSchedule"), 0, 2,
               "it is short of disk space");
    check_node(WANTS("1", ""), "[]", TAINT("node.kubernetes.io/unschedulable", "NoSchedule"), 0, 3,
               "it is cordoned");
}

#define AFFINITY(expression) \
    WANTS("1", ", \"affinity\": {\"nodeAffinity\": {\"requiredDuringSchedulingIgnoredDuring" \
          "Execution\": {\"nodeSelectorTerms\": [{}, {\"matchExpressions\": [{" expression \
          "}]}]}}}")
#define APART(label) \
    WANTS("1", ", \"affinity\": {\"podAntiAffinity\": {\"requiredDuringSchedulingIgnoredDuring" \
          "Execution\": [{\"topologyKey\": \"" label "\", \"labelSelector\": {\"matchLabels\": " \
          "{\"app\": \"x\"}}}]}}")

static void selectors_and_required_affinity_are_obeyed(void **state)
{
    static const char other[] = "the affinity asks for another one";

    (void) state;
    check_node(WANTS("1", ", \"nodeSelector\": {\"zone\": \"a\"}"), "[]", "{}", 3, 3, "");
    check_node(WANTS("1", ", \"nodeSelector\": {\"zone\": \"b\"}"), "[]", "{}", 0, 0,
               "no label zone=b");
    check_node(AFFINITY("\"key\": \"gen\", \"operator\": \"Gt\", \"values\": [\"6\"]"), "[]", "{}",
               3, 3, "");
    check_node(AFFINITY("\"key\": \"gen\", \"operator\": \"Lt\", \"values\": [\"7\"]"), "[]", "{}",
               0, 0, other);
    check_node(AFFINITY("\"key\": \"zone\", \"operator\": \"NotIn\", \"values\": [\"a\", \"b\"]"),
               "[]", "{}", 0, 0, other);
    check_node(AFFINITY("\"key\": \"zone\", \"operator\": \"In\", \"values\": [\"a\", \"b\"]"),
               "[]", "{}", 3, 3, "");
    check_node(AFFINITY("\"key\": \"zone\", \"operator\": \"DoesNotExist\""), "[]", "{}", 0, 0,
               other);
    check_node(WANTS("1", ", \"nodeName\": \"n2\""), "[]", "{}", 0, 0, "the pods want node n2");
    check_node(APART("gen"), "[]", "{}", 1, 1, "the affinity allows one pod for each gen");
}

static void check_quota(const char *hard, const char *used, enum rg_outlook_level level,
                        const char *text)
{
    rg_autofree char *quotas = rg_strf("[{\"metadata\": {\"name\": \"q\"}, \"spec\": {\"hard\": %s}"
                                       ", \"status\": {\"used\": %s}}]", hard, used);
    KUBE_AUTO_JSON json_t *list = load(quotas), *pod = load(WANTS("2", ""));
    KUBE_AUTO_JSON json_t *counts = load("{\"pods\": 3, \"count/jobs.batch\": 1}");
    rg_cleanup(rg_outlook_fini) struct rg_outlook outlook = { .place = NULL };
    const struct kube_fit fit = { pod, 3, NULL, NULL };

    kube_fit_quotas(&fit, list, counts, &outlook);
    assert_int_equal(outlook.nchecks, 1);
    if (outlook.checks[0].level != level || !strstr(outlook.checks[0].text, text))
        fail_msg("%s: %s", hard, outlook.checks[0].text);
}

static void quotas_are_for_all_pods_together(void **state)
{
    (void) state;
    check_quota("{\"requests.cpu\": \"6\"}", "{}", RG_OUTLOOK_OK, "within 1 quota");
    check_quota("{\"cpu\": \"6\"}", "{\"cpu\": \"1m\"}", RG_OUTLOOK_WAITS,
                "q allows cpu 6, of which 1m is in use, and the job wants 6");
    check_quota("{\"cpu\": \"5999m\"}", "{}", RG_OUTLOOK_REFUSED, "the job wants 6; ask for less");
    check_quota("{\"pods\": \"4\"}", "{\"pods\": \"2\"}", RG_OUTLOOK_WAITS, "the job wants 3");
    check_quota("{\"count/jobs.batch\": \"0\"}", "{}", RG_OUTLOOK_REFUSED, "the job wants 1");
    check_quota("{\"requests.nvidia.com/gpu\": \"0\"}", "{}", RG_OUTLOOK_OK, "within");
    check_quota("{\"cpu\": \"0\"}, \"scopes\": [\"BestEffort\"], \"x\": {}", "{}",
                RG_OUTLOOK_UNKNOWN, "not looked at");
}

static void the_worst_decides_and_the_roomiest_come_first(void **state)
{
    rg_cleanup(rg_outlook_fini) struct rg_outlook outlook = { .place = NULL };

    (void) state;
    assert_null(rg_outlook_worst(&outlook));
    rg_outlook_add(&outlook, "a", RG_OUTLOOK_OK, 0, "fine");
    rg_outlook_add(&outlook, "b", RG_OUTLOOK_WAITS, 0, "%d", 1);
    rg_outlook_add(&outlook, "c", RG_OUTLOOK_WAITS, 0, "2");
    assert_string_equal(rg_outlook_worst(&outlook)->about, "b");
    for (int i = 0; i < 4; i++)
        rg_outlook_add_node(&outlook, i % 2 ? "odd" : "even", i / 2, 9, strdup(""));
    rg_outlook_sort(&outlook);
    assert_string_equal(outlook.nodes[0].name, "even");
    assert_int_equal(outlook.nodes[0].nnow, 1);
    assert_string_equal(outlook.nodes[1].name, "odd");
    assert_int_equal(outlook.nodes[3].nnow, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_whole_thousandths),
        cmocka_unit_test(a_pod_asks_for_what_its_containers_and_the_largest_before_them_ask),
        cmocka_unit_test(nodes_take_what_is_left_of_them),
        cmocka_unit_test(taints_keep_away_those_who_do_not_tolerate_them),
        cmocka_unit_test(selectors_and_required_affinity_are_obeyed),
        cmocka_unit_test(quotas_are_for_all_pods_together),
        cmocka_unit_test(the_worst_decides_and_the_roomiest_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
