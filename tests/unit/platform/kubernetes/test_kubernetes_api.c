/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "platform/kubernetes/server/api.h"
#include "platform/kubernetes/outside/internal.h"
#include "unit.h"

/* --- one request, both ways ------------------------------------------------------------------- */

#define BASE "https://10.0.0.1:443"

static void a_request_is_the_same_by_kubectl_and_by_http(void **state)
{
    KUBE_AUTO_JSON json_t *job = json_pack("{s:s,s:s}", "apiVersion", "batch/v1", "kind", "Job");
    KUBE_AUTO_JSON json_t *group = json_pack("{s:s,s:s}", "apiVersion", "scheduling.x-k8s.io/v1",
                                             "kind", "PodGroup");
    KUBE_AUTO_JSON json_t *review = json_pack("{s:s,s:s}", "apiVersion", "authorization.k8s.io/v1",
                                              "kind", "SelfSubjectRulesReview");
    const struct {
        struct kube_request request;
        const char *words, *url;
        const json_t *object;
    } cases[] = {
        { { .verb = KUBE_CREATE, .object = job, .strict = true, .dry_run = true },
          "create --validate=strict --dry-run=server --filename=- "
          "--output=jsonpath={.metadata.uid}",
          "/apis/batch/v1/namespaces/a%2Fb/jobs?fieldValidation=Strict&dryRun=All"
          "&fieldManager=reigen", job },
        { { .verb = KUBE_CREATE, .object = group },
          "create --validate=false --filename=- --output=jsonpath={.metadata.uid}",
          "/apis/scheduling.x-k8s.io/v1/namespaces/a%2Fb/podgroups?fieldValidation=Ignore"
          "&fieldManager=reigen", group },
        { { .verb = KUBE_CREATE, .object = review, .cluster = true, .whole = true },
          "create --validate=false --filename=- --output=json",
          "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews?fieldValidation=Ignore"
          "&fieldManager=reigen", review },
        { { .verb = KUBE_GET, .kind = "nodes", .cluster = true },
          "get nodes --all-namespaces --output=json", "/api/v1/nodes", NULL },
        { { .verb = KUBE_GET, .kind = "localqueues", .name = "q", .version = "k.io/v2" },
          "get localqueue q --output=json", "/apis/k.io/v2/namespaces/a%2Fb/localqueues/q", NULL },
        { { .verb = KUBE_GET, .path = "/apis/k.io/v2" }, "get --raw=/apis/k.io/v2",
          "/apis/k.io/v2", NULL },
        { { .verb = KUBE_GET, .kind = "pods", .selector = "a=b,c=d", .ms = 9500 },
          "get pods --selector=a=b,c=d --request-timeout=10s --output=json",
          "/api/v1/namespaces/a%2Fb/pods?labelSelector=a%3Db%2Cc%3Dd", NULL },
        { { .verb = KUBE_GET, .kind = "jobs", .name = "j" }, "get job j --output=json",
          "/apis/batch/v1/namespaces/a%2Fb/jobs/j", NULL },
        { { .verb = KUBE_PATCH, .kind = "jobs", .name = "j", .object = job },
          "patch job j --type=merge --patch-file=/dev/stdin",
          "/apis/batch/v1/namespaces/a%2Fb/jobs/j?fieldManager=reigen", NULL },
        { { .verb = KUBE_DELETE, .kind = "jobs", .name = "j" },
          "delete job j --ignore-not-found --wait=false",
          "/apis/batch/v1/namespaces/a%2Fb/jobs/j?propagationPolicy=Background", NULL },
        { { .verb = KUBE_DELETE, .kind = "jobs", .name = "j", .wait = true },
          "delete job j --ignore-not-found --cascade=foreground --wait=true --timeout=60s",
          "/apis/batch/v1/namespaces/a%2Fb/jobs/j?propagationPolicy=Foreground", NULL },
        { { .verb = KUBE_WATCH, .kind = "events", .fields = "a!=b,c=d" },
          "get events --field-selector=a!=b,c=d --watch --output-watch-events --output=json",
          "/api/v1/namespaces/a%2Fb/events?fieldSelector=a%21%3Db%2Cc%3Dd&watch=true", NULL },
        { { .verb = KUBE_LOG, .name = "p", .container = "c", .ntail = 7 },
          "logs p --container=c --tail=7",
          "/api/v1/namespaces/a%2Fb/pods/p/log?container=c&tailLines=7", NULL },
        { { .verb = KUBE_LOG, .name = "p", .container = "reigen", .follow = true, .stamps = true,
            .since = "2026-01-31T23:59:59Z" },
          "logs p --container=reigen --follow --timestamps --since-time=2026-01-31T23:59:59Z",
          "/api/v1/namespaces/a%2Fb/pods/p/log?container=reigen&follow=true&timestamps=true"
          "&sinceTime=2026-01-31T23%3A59%3A59Z", NULL },
    };
    const struct kube_place place = { .context = "c", .ns = "a/b" };

    (void) state;
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autostrv struct rg_strv argv = RG_STRV_INIT;
        rg_autobuf struct rg_buf words = RG_BUF_INIT, url = RG_BUF_INIT;
        const char *kind = cases[i].request.kind ? cases[i].request.kind : "pods";

        kubectl_words(&place, &cases[i].request, &argv);
        for (size_t k = 3; k < argv.count; k++)
            rg_buf_printf(&words, "%s%s", k > 3 ? " " : "", argv.v[k]);
        assert_string_equal(rg_buf_text(&words), cases[i].words);
        assert_string_equal(argv.v[1], "--context=c");
        assert_string_equal(argv.v[2], "--namespace=a/b");
        assert_int_equal(api_url(&cases[i].request, false, "a/b", kind, cases[i].object, &url), 0);
        assert_true(rg_str_starts(rg_buf_text(&url), BASE));
        assert_string_equal(rg_buf_text(&url) + strlen(BASE), cases[i].url);
    }
}

static void an_address_of_ipv6_has_brackets(void **state)
{
    rg_autobuf struct rg_buf url = RG_BUF_INIT;
    const struct kube_request request = { .verb = KUBE_GET, .kind = "pods" };

    (void) state;
    setenv("KUBERNETES_SERVICE_HOST", "fd00:10:96::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    assert_int_equal(api_url(&request, false, "n", "pods", NULL, &url), 0);
    assert_string_equal(rg_buf_text(&url), "https://[fd00:10:96::1]:443/api/v1/namespaces/n/pods");
}

static void a_proxy_of_kubectl_knows_the_server(void **state)
{
    rg_autobuf struct rg_buf url = RG_BUF_INIT;
    const struct kube_request request = { .verb = KUBE_GET, .kind = "pods" };

    (void) state;
    unsetenv("KUBERNETES_SERVICE_HOST");
    assert_int_equal(api_url(&request, true, "n", "pods", NULL, &url), 0);
    assert_string_equal(rg_buf_text(&url), "http://localhost/api/v1/namespaces/n/pods");
}

/* --- what is refused -------------------------------------------------------------------------- */

static void what_the_api_refuses_is_told_by_fields(void **state)
{
    static const struct {
        long code;
        const char *text;
        enum kube_refused why;
        const char *said;
    } cases[] = {
        { 403, "{\"kind\":\"Status\",\"message\":\"words\"}", KUBE_FORBIDDEN, "words" },
        { 401, "Unauthorized", KUBE_DENIED, "HTTP code 401" },
        { 404, "{\"message\":\"gone\",\"details\":{\"name\":\"x\"}}", KUBE_MISSING, "gone" },
        { 409, "{\"message\":\"is there\"}", KUBE_EXISTS, "is there" },
        { 422, "{\"message\":7}", KUBE_INVALID, "HTTP code 422" },
        { 429, "", KUBE_BUSY, "HTTP code 429" },
        { 503, "[]", KUBE_AWAY, "HTTP code 503" },
        { 500, "dial tcp 10.0.0.1:6443: no\n", KUBE_AWAY, "dial tcp 10.0.0.1:6443: no" },
        { 500, "tls: no", KUBE_FAILED, "tls: no" },
        { 500, "EOF\n", KUBE_AWAY, "EOF" },
        { 502, "", KUBE_AWAY, "HTTP code 502" },
        { 500, "{\"message\":\"boom\"}", KUBE_FAILED, "boom" },
        { 302, "", KUBE_FAILED, "HTTP code 302" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct kube_refusal refusal;
        struct rg_error err = RG_ERROR_INIT;

        api_refusal(cases[i].code, cases[i].text, strlen(cases[i].text), NULL, &refusal);
        assert_int_equal(refusal.why, cases[i].why);
        assert_contains(refusal.text, cases[i].said);
        assert_true(kube_explain_refusal(&refusal, &err) < 0);
        assert_contains(err.text, cases[i].said);
        assert_null(strstr(err.text, "kubectl"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_the_same_by_kubectl_and_by_http),
        cmocka_unit_test(an_address_of_ipv6_has_brackets),
        cmocka_unit_test(a_proxy_of_kubectl_knows_the_server),
        cmocka_unit_test(what_the_api_refuses_is_told_by_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
