/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "job/request/request.h"
#include "platform/kubernetes/door.h"
#include "platform/kubernetes/outside/internal.h"
#include "platform/drivers.h"
#include "unit.h"

/* --- the log ---------------------------------------------------------------------------------- */

static void keep(void *arg, const void *bytes, size_t nbytes)
{
    rg_buf_put(arg, bytes, nbytes);
}

static void take(struct kube_log *log, const char *text, struct rg_buf *told)
{
    kube_log_take(log, text, strlen(text), keep, told);
}

static void keep_text(void *arg, const char *text)
{
    rg_buf_printf(arg, "%s\n", text);
}

static void a_log_that_is_cut_is_read_again_without_loss(void **state)
{
    struct kube_log log = { .newest_ns = 0 };
    rg_autobuf struct rg_buf told = RG_BUF_INIT;
    char since[64];

    (void) state;
    kube_log_cut(&log, since, sizeof(since));
    assert_string_equal(since, "");
    take(&log, "2026-01-31T23:59:58.900000000Z old\n2026-01-31T23:59:59.1Z a\n"
               "2026-02-01T00:00:00.000000001Z b\n2026-01-31T23:59:59.999999999Z late\n"
               "2026-02-01T00:00:00.5Z c\n2026-02-01T00:00:00.5Z d\n"
               "2026-02-01T00:00:00.6Z cut o", &told);
    kube_log_cut(&log, since, sizeof(since));
    assert_string_equal(since, "2026-01-31T23:59:59Z");
    /* From that second on, in the log's own order; what was cut comes whole. */
    take(&log, "2026-01-31T23:59:59.1Z a\n2026-02-01T00:00:00.000000001Z b\n", &told);
    take(&log, "2026-01-31T23:59:59.999999999Z late\n2026-02-01T00:00:00.5Z c\n", &told);
    take(&log, "2026-02-01T00:00:00.5Z d\n2026-02-01T00:00:00.6Z cut off\n", &told);
    take(&log, "2026-02-01T00:00:00.5Z same stamp as others\n", &told);
    assert_string_equal(rg_buf_text(&told),
                        "old\na\nb\nlate\nc\nd\ncut off\nsame stamp as others\n");
    kube_log_fini(&log);
}

static void a_log_that_begins_later_than_it_did_loses_nothing_new(void **state)
{
    struct kube_log log = { .newest_ns = 0 };
    rg_autobuf struct rg_buf told = RG_BUF_INIT;
    char since[64];

    (void) state;
    take(&log, "2026-01-31T10:00:00.1+02:00 a\n2026-01-31T10:00:00.2+02:00 b\n", &told);
    kube_log_cut(&log, since, sizeof(since));
    assert_string_equal(since, "2026-01-31T07:59:59Z");
    take(&log, "2026-01-31T10:00:00.2+02:00 b\n2026-01-31T10:00:00.3+02:00 new\nno stamp\n", &told);
    take(&log, "2026-01-31T10:00:07+02:00 no end", &told);
    kube_log_end(&log, keep, &told);
    assert_string_equal(rg_buf_text(&told), "a\nb\nnew\nno stamp\nno end");
    kube_log_fini(&log);
}

/* --- streams ---------------------------------------------------------------------------------- */

#define AT(s, text) "2026-02-01T00:00:" s "Z " text
#define MARK RG_LOGMARK
#define MISSING(lines, bytes, where)                                                             \
    "reigen: " lines " lines (" bytes " bytes) are missing " where                               \
    ": Kubernetes keeps only a part of a long log\n"

/* Each line is 3 bytes. */
static void what_is_missing_of_a_log_is_counted_in_its_place(void **state)
{
    struct kube_log log = { .hides_news = true };
    rg_autobuf struct rg_buf told = RG_BUF_INIT;

    (void) state;
    take(&log, AT("01", "01\n") AT("01", "02\n") AT("01", MARK "6 2\n"), &told);
    assert_string_equal(rg_buf_text(&told), "01\n02\n");
    take(&log, AT("02", "03\n") AT("02.1", "04\n") AT("09", "07\n") AT("09.1", "08\n"), &told);
    assert_string_equal(rg_buf_text(&told), "01\n02\n");
    take(&log, AT("09.1", MARK "24 8\n") AT("10", "09\n"), &told);
    kube_log_release(&log, keep, &told);
    /* These two are told already when it is known that something is missing. */
    take(&log, AT("11", "12\n"), &told);
    kube_log_release(&log, keep, &told);
    take(&log, AT("11", RG_LOGMARK_NEWS "n\n") AT("11", MARK "39 13\n") AT("12", "14\n"), &told);
    kube_log_close(&log, 45, 15, keep, &told);
    assert_string_equal(rg_buf_text(&told), "01\n02\n03\n04\n" MISSING("2", "6", "here")
                        "07\n08\n09\n12\n" MISSING("2", "6", "among the last 3 lines above")
                        "14\n" MISSING("1", "3", "at the end"));
    kube_log_fini(&log);
}

static void a_log_with_marks_is_taken_up_by_them(void **state)
{
    struct kube_log log = { .newest_ns = 0 };
    rg_autobuf struct rg_buf told = RG_BUF_INIT;
    char since[64];

    (void) state;
    take(&log, AT("01", MARK "0 0\n") AT("01", "01\n") AT("01", MARK "3 1\n") AT("02", "02\n")
               AT("09", "0"), &told);
    kube_log_release(&log, keep, &told);
    /* The file ended in a line, and stamps of the next one are older. */
    kube_log_cut(&log, since, sizeof(since));
    assert_string_equal(since, "");
    take(&log, AT("02", "3\n") AT("02", "04\n") AT("02", MARK "12 4\n") AT("03", "05\n"), &told);
    kube_log_release(&log, keep, &told);
    kube_log_cut(&log, since, sizeof(since));
    take(&log, AT("02", "3\n") AT("02", "04\n") AT("02", MARK "12 4\n") AT("03", "05\n")
               AT("03", "06\n") AT("03", MARK "18 6\n"), &told);
    kube_log_close(&log, 18, 6, keep, &told);
    assert_string_equal(rg_buf_text(&told), "01\n02\n03\n04\n05\n06\n");
    kube_log_fini(&log);
}

static void a_log_that_is_read_once_says_what_is_missing_in_front(void **state)
{
    struct kube_log log = { .once = true };
    rg_autobuf struct rg_buf told = RG_BUF_INIT;

    (void) state;
    take(&log, AT("02", "3\n") AT("02", "04\n") AT("02", MARK "12 4\n") AT("03", "05\n"), &told);
    kube_log_end(&log, keep, &told);
    assert_string_equal(rg_buf_text(&told), MISSING("2", "7", "here") "3\n04\n05\n");
    kube_log_fini(&log);
}

static void a_pod_that_is_lost_is_waited_for_as_kubernetes_does(void **state)
{
    struct kube_host hosts[5] = { 0 };
    rg_autobuf struct rg_buf said = RG_BUF_INIT;

    (void) state;
    for (int i = 0; i < 5; i++) {
        hosts[i].pod = (struct kube_pod){ .index = i, .running = true, .exit_code = -1 };
        snprintf(hosts[i].pod.name, sizeof(hosts[i].pod.name), "job-%d-a", i);
        snprintf(hosts[i].pod.node, sizeof(hosts[i].pod.node), "n%d", i);
    }
    assert_int_equal(kube_host_say_lost(hosts, 5, keep_text, &said), 0);
    hosts[1].pod.ended = true;
    assert_int_equal(kube_host_say_lost(hosts, 5, keep_text, &said), 10000);
    assert_int_equal(kube_host_say_lost(hosts, 5, keep_text, &said), 10000);
    hosts[3].pod.ended = hosts[4].pod.ended = true;
    hosts[4].pod.nlost = 2;
    snprintf(hosts[3].pod.why, sizeof(hosts[3].pod.why), "Gone: why");
    assert_int_equal(kube_host_say_lost(hosts, 5, keep_text, &said), 40000);
    assert_string_equal(rg_buf_text(&said),
                        "pod job-1-a on n1 has ended; Kubernetes waits 10 s before it makes "
                        "another one\n2 pods have ended (job-3-a on n3, job-4-a on n4): Gone: why; "
                        "Kubernetes waits 40 s before it makes new ones\n");
    assert_int_equal(rg_kubernetes_backoff_ms(0), 0);
    assert_int_equal(rg_kubernetes_backoff_ms(1000), 600000);
}

static void count_object(void *arg, const json_t *object)
{
    rg_buf_printf(arg, "%s;", kube_text(object, "a.b"));
}

static void objects_are_told_as_they_are_complete(void **state)
{
    static const char text[] = "{\"a\":{\"b\":\"}{\\\"\"}}\n\n "
                               "{\"a\": {\"b\": \"two\"}}junk{\"a\":7}{";
    rg_autobuf struct rg_buf told = RG_BUF_INIT;
    struct kube_splitter splitter = { .at = 0 };

    (void) state;
    for (size_t i = 0; i < strlen(text); i++)
        assert_int_equal(kube_split(&splitter, &text[i], 1, count_object, &told), 0);
    assert_string_equal(rg_buf_text(&told), "}{\";two;;");
    kube_splitter_fini(&splitter);
}

/* --- pods ------------------------------------------------------------------------------------- */

static struct kube_pod read_pod(const char *text)
{
    KUBE_AUTO_JSON json_t *object = json_loads(text, 0, NULL);
    struct kube_pod pod;

    assert_non_null(object);
    kube_pod_read(object, &pod);
    return pod;
}

#define POD(spec, status) "{\"metadata\":{\"name\":\"j-1-x\",\"labels\":{" \
    "\"batch.kubernetes.io/job-completion-index\":\"1\"}},\"spec\":{" spec "},"                \
    "\"status\":{" status "}}"
#define CONTAINER(what) "\"containerStatuses\":[{\"name\":\"side\",\"state\":{\"running\":{}}}," \
    "{\"name\":\"reigen\",\"state\":{" what "}}]"
#define ON_NODE "\"nodeName\":\"node1\""

static void a_pod_that_starts_says_what_it_waits_for(void **state)
{
    (void) state;
    struct kube_pod pod = read_pod(
        POD("", "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
                "\"Unschedulable\",\"message\":\"0/3\"}]"));
    assert_int_equal(pod.index, 1);
    assert_int_equal(pod.phase, RG_PHASE_PENDING);
    assert_string_equal(pod.reason, "Unschedulable: 0/3");
    pod = read_pod(POD(ON_NODE, CONTAINER("\"waiting\":{\"reason\":\"ContainerCreating\"}")));
    assert_int_equal(pod.phase, RG_PHASE_STARTING);
    assert_string_equal(pod.reason, "");
    pod = read_pod(POD(ON_NODE, CONTAINER("\"waiting\":{\"reason\":\"ImagePullBackOff\","
                                          "\"message\":\"Back-off\"}")));
    assert_int_equal(pod.phase, RG_PHASE_PULLING);
    assert_string_equal(pod.reason, "ImagePullBackOff: Back-off");
    pod = read_pod(POD(ON_NODE, CONTAINER("\"waiting\":{\"reason\":\"CreateContainerConfigError\","
                                          "\"message\":\"secret \\\"x\\\" not found\"}")));
    pod = read_pod(POD(ON_NODE, CONTAINER("\"running\":{}")));
    assert_int_equal(pod.phase, RG_PHASE_CONNECTING);
    assert_true(pod.running && !pod.ended && !pod.silent);
    pod = read_pod(POD(ON_NODE, "\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"},"
                                "{\"type\":\"ContainersReady\",\"status\":\"True\"}],"
                                CONTAINER("\"running\":{}")));
    assert_true(pod.running && pod.silent);
    assert_string_equal(pod.reason, "its node does not answer: node1");
    assert_int_equal(read_pod("{}").index, -1);
}

/* The quota's words are those of a cluster. */
static void what_waiting_does_not_help_is_known(void **state)
{
    static const char pods[] = "FailedCreate: Error creating: pods \"a\" is forbidden: exceeded "
                               "quota: q, requested: pods=1, used: pods=1, limited: pods=2";
    static const char cpu[] = "FailedCreate: Error creating: pods \"a\" is forbidden: exceeded "
                              "quota: q, requested: limits.cpu=600m,pods=1, used: limits.cpu=600m,"
                              "pods=1, limited: limits.cpu=1,pods=9";
    static const struct {
        const char *reason;
        int npods, exit_code; /* 0: it may come right */
    } cases[] = {
        { pods, 2, 0 }, { pods, 3, 69 }, { cpu, 1, 0 }, { cpu, 2, 69 },
        { "FailedCreate: x exceeded quota: q, requested: memory=1Gi, used: memory=0, limited: "
          "memory=1024Mi", 1, 0 },
        { "FailedCreate: x exceeded quota: q, requested: memory=1Gi, used: memory=0, limited: "
          "memory=1000M", 1, 69 },
        { "FailedCreate: x exceeded quota: q, requested: memory", 1, 0 },
        { "FailedCreate: pods \"a\" is forbidden: violates PodSecurity \"restricted\"", 1, 2 },
        { "FailedCreate: failed quota: cpu: must specify limits.cpu", 1, 2 },
        { "FailedCreate: maximum cpu usage per Container is 500m, but limit is 1", 1, 2 },
        { "FailedMount: MountVolume.SetUp failed: secret \"a\" not found", 1, 125 },
        { "FailedMount: failed to sync configmap cache: timed out", 1, 0 },
        { "ErrImagePull: x:1: not found", 1, 125 }, { "ImagePullBackOff: y: not found", 1, 125 },
        { "ErrImagePull: dial tcp: connect: connection refused", 1, 125 },
        { "ErrImagePull: dial tcp: lookup r on 10.0.0.10:53: read udp: i/o timeout", 1, 125 },
        { "ImagePullBackOff: ErrImagePull: lookup r: server misbehaving", 1, 125 },
        { "ErrImagePull: Temporary failure in name resolution", 1, 125 },
        { "ErrImagePull: net/http: TLS handshake timeout", 1, 125 },
        { "ErrImagePull: context deadline exceeded", 1, 125 },
        { "ErrImagePull: 503 Service Unavailable", 1, 0 }, { "ImagePullBackOff: Back-off", 1, 0 },
        { "CreateContainerConfigError: secret \"x\" not found", 1, 125 },
        { "Unschedulable: 0/3 nodes", 1, 0 }, { "", 1, 0 },
        { "Unschedulable: 0/3 nodes: persistentvolumeclaim \"a\" not found.", 1, 125 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct kube_hopeless cause = { .exit_code = 0 };
        bool hopeless = kube_is_hopeless(cases[i].reason, cases[i].npods, &cause);
        assert_int_equal(hopeless, cases[i].exit_code != 0);
        assert_int_equal(cause.exit_code, cases[i].exit_code);
        assert_true(!hopeless || (cause.after_ms && *cause.remedy));
    }
}

#define ENDED(code, reason)                                                                      \
    CONTAINER("\"terminated\":{\"exitCode\":" code ",\"reason\":\"" reason "\"}")
#define DISRUPTED(reason) "\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\"," \
    "\"reason\":\"" reason "\",\"message\":\"words\"}],"

#define TOLD(message)                                                                            \
    CONTAINER("\"terminated\":{\"exitCode\":1,\"reason\":\"Error\",\"message\":\"" message "\"}")
#define KILLED "its container was killed as a whole, or its node was lost for a while"

static void a_pod_that_ended_says_why_in_kubernetes_words(void **state)
{
    static const struct {
        const char *pod, *why;
        int exit_code, why_code;
    } cases[] = {
        { POD(ON_NODE, ENDED("3", "Error")), "", 3, 0 },
        { POD(ON_NODE, ENDED("0", "Completed")), "", 0, 0 },
        { POD(ON_NODE, ENDED("137", "OOMKilled")),
          "OOMKilled: the pod has used more memory than it may; give it more with --memory", 137,
          0 },
        { POD(ON_NODE, ENDED("137", "Error")), "Error: " KILLED, 137, RG_EXIT_HOST_LOST },
        { POD(ON_NODE, ENDED("255", "Unknown")), "Unknown: " KILLED, 255, RG_EXIT_HOST_LOST },
        { POD(ON_NODE, TOLD("{\\\"exit_code\\\": 137}\\n")), "", 137, 0 },
        { POD(ON_NODE, TOLD("{\\\"exit_code\\\": 255, \\\"x\\\": {}}")), "", 255, 0 },
        { POD(ON_NODE, TOLD("{\\\"exit_code\\\": 75}")), "", 75, 0 },
        { POD(ON_NODE, TOLD("the last lines")), "", 1, 0 },
        { POD(ON_NODE, CONTAINER("\"terminated\":{\"exitCode\":128,\"reason\":\"StartError\","
                                 "\"message\":\"no such file\"}")),
          "StartError: no such file", RG_EXIT_CONTAINER, 0 },
        { POD("\"volumes\":[{\"name\":\"reigen-job\",\"configMap\":{}}]",
              ENDED("128", "StartError")),
          "StartError: the cluster has no image volumes; leave out --agent-image", 125, 0 },
        { POD(ON_NODE, DISRUPTED("PreemptionByScheduler") ENDED("75", "Error")),
          "PreemptionByScheduler: words", 75, RG_EXIT_PREEMPTED },
        { POD(ON_NODE, DISRUPTED("EvictionByEvictionAPI") ENDED("137", "Error")),
          "EvictionByEvictionAPI: words", 137, RG_EXIT_PREEMPTED },
        { POD(ON_NODE, DISRUPTED("DeletionByTaintManager") "\"phase\":\"Failed\""),
          "DeletionByTaintManager: words", -1, RG_EXIT_HOST_LOST },
        { POD(ON_NODE, "\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"low on memory\""),
          "Evicted: low on memory", -1, RG_EXIT_PREEMPTED },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct kube_pod pod = read_pod(cases[i].pod);
        assert_true(pod.ended);
        assert_string_equal(pod.why, cases[i].why);
        assert_int_equal(pod.exit_code, cases[i].exit_code);
        assert_int_equal(pod.why_code, cases[i].why_code);
    }
}

/* The Job counts what is killed as a whole, and knows no reasons. */
static void what_a_job_tries_again_is_known(void **state)
{
    static const struct {
        const char *pod;
        bool retried, no_memory;
    } cases[] = {
        { POD(ON_NODE, ENDED("75", "Error")), true, false },
        { POD(ON_NODE, ENDED("76", "Error")), true, false },
        { POD(ON_NODE, ENDED("137", "Error")), true, false },
        { POD(ON_NODE, ENDED("137", "OOMKilled")), true, true },
        { POD(ON_NODE, ENDED("1", "OOMKilled")), false, false }, /* a rank, and the head says so */
        { POD(ON_NODE, TOLD("{\\\"exit_code\\\": 137}")), false, false },
        { POD(ON_NODE, TOLD("{\\\"exit_code\\\": 76}")), false, false }, /* often enough */
        { POD(ON_NODE, ENDED("143", "Error")), false, false },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct kube_pod pod = read_pod(cases[i].pod);
        assert_int_equal(kube_pod_is_retried(&pod), cases[i].retried);
        assert_int_equal(pod.no_memory, cases[i].no_memory);
    }
}

static void devices_that_are_not_well_are_named(void **state)
{
    struct kube_pod pod = read_pod(
        "{\"spec\":{" ON_NODE "},\"status\":{\"containerStatuses\":[{\"name\":\"reigen\","
        "\"allocatedResourcesStatus\":[{\"name\":\"nvidia.com/gpu\",\"resources\":["
        "{\"resourceID\":\"GPU-1\",\"health\":\"Healthy\"},"
        "{\"resourceID\":\"GPU-2\",\"health\":\"Unhealthy\"}]},{\"name\":\"x/y\","
        "\"resources\":[{\"resourceID\":\"0\",\"health\":\"Unknown\"}]}]}]}}");

    (void) state;
    assert_string_equal(pod.health, "nvidia.com/gpu GPU-2 is Unhealthy, x/y 0 is Unknown");
    assert_string_equal(read_pod(POD(ON_NODE, ENDED("3", "Error"))).health, "");
}

/* --- complaints ------------------------------------------------------------------------------- */

static void what_the_server_refuses_has_a_code_and_a_remedy(void **state)
{
    static const struct {
        const char *said, *text;
        int exit_code;
    } cases[] = {
        { "Warning: x\nError from server (AlreadyExists): error when creating \"STDIN\": "
          "jobs.batch \"a\" already exists\n",
          "Kubernetes: jobs.batch \"a\" already exists; the name is in use", 2 },
        { "Error from server (AlreadyExists): error when creating \"STDIN\": services \"a\" "
          "already exists\n", "services \"a\" already exists; something else has this name", 2 },
        { "error: unknown flag: --output-watch-events\nSee 'kubectl get --help'", "too old", 69 },
        { "Error from server: error dialing backend: dial tcp 10.0.0.2:10250: i/o timeout",
          "the node of the job's first pod does not answer", 76 },
        { "Error from server (Forbidden): error when creating \"STDIN\": jobs.batch is forbidden: "
          "User \"u\" cannot create resource \"jobs\"", "Kubernetes: jobs.batch is forbidden: User",
          77 },
        { "Error from server (Forbidden): pods \"a\" is forbidden: exceeded quota: q, requested: "
          "pods=2", "exceeded quota: q, requested: pods=2; ask for less", 69 },
        { "error: You must be logged in to the server (Unauthorized)", "log in", 77 },
        { "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host "
          "or port?", "does not answer", 69 },
        { "", "does not say why", 69 },
        { "error: something new\n", "Kubernetes: something new", 69 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_true(kube_explain(cases[i].said, &err) < 0);
        assert_contains(err.text, cases[i].text);
        assert_int_equal(err.exit_code, cases[i].exit_code);
    }
}

/* --- objects ---------------------------------------------------------------------------------- */

static void parse(struct rg_request *request, ...) __attribute__((sentinel));

static void parse(struct rg_request *request, ...)
{
    const char *argv[64] = { "run", "--on", "kubernetes", "--image", "i:1", "--name", "job" };
    struct rg_error err = RG_ERROR_INIT;
    int argc = 7;
    va_list words;

    va_start(words, request);
    while ((argv[argc] = va_arg(words, const char *)))
        argc++;
    va_end(words);
    argv[argc++] = "--";
    argv[argc++] = "true"; /* the rest is NULL */
    rg_request_init(request);
    int r = rg_request_parse(request, argc, (char *const *) (uintptr_t) argv, &err);
    if (r < 0 || (r = kube_discover(NULL, &request->job, &err)) < 0)
        fail_msg("%s", err.text);
}

/* Compare with the file, or, where REIGEN_TEST_WRITE is set, write it. */
static void check_golden(const char *file, const json_t *value)
{
    rg_autofree char *path = rg_strf("%s/tests/unit/platform/kubernetes/%s",
                                     getenv("REIGEN_TEST_SOURCE"), file);

    if (getenv("REIGEN_TEST_WRITE"))
        assert_int_equal(json_dump_file(value, path, JSON_INDENT(1)), 0);
    KUBE_AUTO_JSON json_t *wanted = json_load_file(path, 0, NULL);
    if (!json_equal(wanted, value)) {
        rg_autofree char *text = json_dumps(value, JSON_INDENT(1));
        fail_msg("%s does not say %s", path, text);
    }
}

static void a_job_and_what_it_owns_are_as_written_down(void **state)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    parse(&request, "-np", "5", "--gpus", "2", "--cpu", "500m", "--memory", "8Gi", "--resource",
          "a/b=3", "--rdma", "rdma/x", "--node-selector", "k=v", "--toleration", "t=1:NoSchedule",
          "--toleration", "*", "--affinity", "spread", "--service-account", "sa",
          "--image-pull-secret", "s1", "--host-network", "--priority-class", "high", "--queue",
          "lq", "--gang", "volcano", "--user", "12345:6", "--volume", "claim:/data:ro",
          "--share-env", "PATH", NULL);
    struct kube_parts parts = { .job = &request.job, .job_id = "r-1", .agent = "agent",
                                .agent_nbytes = 5, .plan = "plan", .plan_nbytes = 4,
                                .bundle = (const uint8_t *) "kit", .bundle_nbytes = 3,
                                .npods = (int) request.job.nhosts, .uid = "u-1",
                                .pod_groups = kube_gang_default(&request.job) };
    assert_int_equal(request.job.nhosts, 3);
    assert_int_equal(request.job.hosts[2].nslots, 2);
    assert_string_equal(request.job.hosts[2].name, "job-2");
    KUBE_AUTO_JSON json_t *job = kube_job_object(&parts, true, &err);
    KUBE_AUTO_JSON json_t *owned = kube_owned_objects(&parts);
    check_golden("kubernetes_job.json", job);
    check_golden("kubernetes_owned.json", owned);
    /* Without Volcano the queue is Kueue's, which wakes the Job. */
    rg_env_set(&request.job.settings, "gang", "kubernetes");
    parts.pod_groups = "scheduling.k8s.io/v1alpha3";
    KUBE_AUTO_JSON json_t *others = kube_owned_objects(&parts);
    const json_t *group = json_array_get(others, json_array_size(others) - 1);
    assert_string_equal(kube_text(group, "apiVersion"), parts.pod_groups);
    assert_int_equal(json_integer_value(kube_at(group, "spec.schedulingPolicy.gang.minCount")), 3);
    KUBE_AUTO_JSON json_t *queued = kube_job_object(&parts, false, &err);
    assert_string_equal(json_string_value(json_object_get(kube_at(queued, "metadata.labels"),
                                                          "kueue.x-k8s.io/queue-name")), "lq");
    assert_true(json_is_true(kube_at(queued, "spec.suspend")));
    const json_t *pod = kube_at(queued, "spec.template");
    assert_string_equal(kube_text(pod, "spec.schedulingGroup.podGroupName"), "job");
    assert_string_equal(kube_text(pod, "spec.schedulerName"), "");
    assert_null(kube_at(pod, "metadata.annotations"));
    KUBE_AUTO_JSON json_t *secret = kube_secret_object(&parts, &err);
    assert_int_equal(strspn(kube_text(secret, "stringData.key"), "0123456789abcdef"), 64);
    assert_string_equal(json_string_value(json_object_get(kube_at(secret, "stringData"),
                                                          "env.PATH")), getenv("PATH"));
}

static void a_template_of_the_users_is_kept_and_judged(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        { "{\"spec\":{\"restartPolicy\":\"Always\"}}", "restartPolicy: Always" },
        { "{\"spec\":{\"enableServiceLinks\":false}}", "enableServiceLinks" },
        { "{\"spec\":{\"volumes\":[{\"name\":\"reigen-x\"}]}}", "volume reigen-x" },
        { "{\"spec\":{\"containers\":[{\"command\":[\"x\"]}]}}",
          "command of the ranks' container" },
        { "{\"spec\":{\"containers\":[{\"volumeMounts\":[{\"mountPath\":\"/reigen/x\"}]}]}}",
          "mountPath: /reigen/x" },
        { "{\"spec\":{\"containers\":7}}", "a list is expected" },
        { "{\"spec\":7}", "spec: a mapping" },
        { "{\"kind\":\"Job\"}", "it is a Job" },
        { "{\"template\":{\"replicas\":1}}", "replicas: it has metadata and spec" },
    };
    rg_cleanup(rg_request_fini) struct rg_request request;

    (void) state;
    parse(&request, "-np", "1", NULL);
    for (size_t i = 0; i < rg_array_len(wrong); i++) {
        struct rg_error err = RG_ERROR_INIT;
        KUBE_AUTO_JSON json_t *file = json_loads(wrong[i].text, 0, NULL);
        assert_null(kube_pod_make(&request.job, file, 0, &err));
        assert_contains(err.text, wrong[i].said);
        assert_int_equal(err.exit_code, RG_EXIT_USAGE);
    }
    KUBE_AUTO_JSON json_t *file = json_loads(
        "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\",\"labels\":{\"mine\":\"1\"}},\"spec\":{"
        "\"containers\":[{\"name\":\"side\",\"image\":\"s\"},{\"name\":\"reigen\",\"image\":"
        "\"mine\",\"env\":[{\"name\":\"A\",\"value\":\"b\"}]}],"
        "\"terminationGracePeriodSeconds\":7}}", 0, NULL);
    KUBE_AUTO_JSON json_t *before = json_deep_copy(file);
    KUBE_AUTO_JSON json_t *pod = kube_pod_make(&request.job, file, 0, NULL);
    assert_true(json_equal(file, before));
    assert_string_equal(kube_text(pod, "metadata.labels.mine"), "1");
    const json_t *ranks = json_array_get(kube_at(pod, "spec.containers"), 1);
    assert_string_equal(kube_text(ranks, "image"), "i:1");
    assert_string_equal(kube_text(json_array_get(kube_at(ranks, "env"), 0), "name"), "A");
    assert_int_equal(json_integer_value(kube_at(pod, "spec.terminationGracePeriodSeconds")), 7);
}

static void wrong_values_are_refused_before_anything_is_made(void **state)
{
    static const char *const wrong[][2] = {
        { "--namespace", "A" }, { "--name", "1a" }, { "--cpu", "two" }, { "--memory", "8GB" },
        { "--resource", "x" }, { "--rdma", "=1" }, { "--node-selector", "x" },
        { "--toleration", "k:Never" }, { "--toleration", ":NoSchedule" }, { "--gang", "x" },
        { "--affinity", "/rg-not-there" }, { "--pod-template", "/rg-not-there" },
        { "--ttl", "soon" },
        { "--queue", "Q" }, { "--gpus", "all" }, { "--container-option", "--x" }, { "-H", "a" },
        { "--user", "nobody" }, { "--volume", "claim" }, { "--network", "bridge" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(wrong); i++) {
        const char *argv[] = { "run", "--on", "kubernetes", "--image", "i", wrong[i][0],
                               wrong[i][1], "--", "true", NULL };
        rg_cleanup(rg_request_fini) struct rg_request request;
        struct rg_error err = RG_ERROR_INIT;
        rg_request_init(&request);
        int r = rg_request_parse(&request, rg_array_len(argv) - 1, (char *const *) (uintptr_t) argv,
                                 &err);
        r = r < 0 ? r : kube_discover(NULL, &request.job, &err);
        KUBE_AUTO_JSON json_t *pod = r < 0 ? NULL : kube_pod_template(&request.job, 0, &err);
        if (pod || err.exit_code != RG_EXIT_USAGE)
            fail_msg("%s %s: %s", wrong[i][0], wrong[i][1], err.text);
    }
}

static void ranks_have_the_time_between_a_pods_signals_but_for_five_seconds(void **state)
{
    static const struct {
        const char *grace, *file;
        uint64_t ms;
    } cases[] = {
        { "5", NULL, 25000 }, { "60", NULL, 70000 },
        { "60", "{\"spec\":{\"terminationGracePeriodSeconds\":120}}", 115000 },
        { "60", "{\"spec\":{\"terminationGracePeriodSeconds\":8}}", 4000 },
        { "60", "{\"spec\":{\"terminationGracePeriodSeconds\":0}}", 0 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        char path[] = "/tmp/rg-template-XXXXXX";
        int fd = mkstemp(path);
        rg_cleanup(rg_request_fini) struct rg_request request;
        uint64_t ms = 7;
        assert_true(fd >= 0);
        if (cases[i].file)
            assert_int_equal(rg_write_all(fd, cases[i].file, strlen(cases[i].file)), 0);
        parse(&request, "-np", "1", "--grace", cases[i].grace,
              cases[i].file ? "--pod-template" : NULL, path, NULL);
        assert_int_equal(kube_notice_ms(&request.job, &ms, NULL), 0);
        assert_int_equal(ms, cases[i].ms);
        close(fd);
        unlink(path);
    }
}

static void an_elastic_job_has_pods_for_its_spare_ranks_as_well(void **state)
{
    static const struct { const char *max_np, *spares; size_t npods; } cases[] = {
        { "4", "1", 3 }, { "4", "2", 3 }, { "6", "1", 4 }, { "6", "3", 5 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_cleanup(rg_request_fini) struct rg_request request;
        parse(&request, "-np", "4", "--min-np", "2", "--gpus", "2", "--max-np", cases[i].max_np,
              "--spares", cases[i].spares, NULL);
        assert_int_equal(request.job.nhosts, cases[i].npods);
    }
}

static int prepare(void **state)
{
    (void) state;
    rg_drivers_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_time_between_a_pods_signals_but_for_five_seconds),
        cmocka_unit_test(an_elastic_job_has_pods_for_its_spare_ranks_as_well),
        cmocka_unit_test(a_log_that_is_cut_is_read_again_without_loss),
        cmocka_unit_test(a_log_that_begins_later_than_it_did_loses_nothing_new),
        cmocka_unit_test(what_is_missing_of_a_log_is_counted_in_its_place),
        cmocka_unit_test(a_log_with_marks_is_taken_up_by_them),
        cmocka_unit_test(a_log_that_is_read_once_says_what_is_missing_in_front),
        cmocka_unit_test(a_pod_that_is_lost_is_waited_for_as_kubernetes_does),
        cmocka_unit_test(objects_are_told_as_they_are_complete),
        cmocka_unit_test(a_pod_that_starts_says_what_it_waits_for),
        cmocka_unit_test(what_waiting_does_not_help_is_known),
        cmocka_unit_test(a_pod_that_ended_says_why_in_kubernetes_words),
        cmocka_unit_test(what_a_job_tries_again_is_known),
        cmocka_unit_test(devices_that_are_not_well_are_named),
        cmocka_unit_test(what_the_server_refuses_has_a_code_and_a_remedy),
        cmocka_unit_test(a_job_and_what_it_owns_are_as_written_down),
        cmocka_unit_test(a_template_of_the_users_is_kept_and_judged),
        cmocka_unit_test(wrong_values_are_refused_before_anything_is_made),
    };

    return cmocka_run_group_tests(tests, prepare, NULL);
}
