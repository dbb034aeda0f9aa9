/* SPDX-License-Identifier: Apache-2.0 */
#include "job/request/request.h"
#include "platform/drivers.h"
#include "unit.h"

#define ARGV_MAX 64

/* Split at blanks. */
static int parse_line(const char *line, struct rg_request *request, struct rg_error *err)
{
    char copy[512];
    char *argv[ARGV_MAX] = { (char *) "run" }, *save = NULL;
    int argc = 1;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w && argc < ARGV_MAX; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    rg_request_init(request);
    return rg_request_parse(request, argc, argv, err);
}

static void options_fill_the_container(void **state)
{
    struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;
    const struct rg_container *c = &request.job.container;

    (void) state;
    if (parse_line("--image a/b:1 --container-runtime podman --mount /d --volume /e:/f:ro "
                   "--mount vol:/v --container-option --read-only --container-option=--x "
                   "--shm-size 2g --gpus 0,1 --network host --user 1:2 --pull never --privileged "
                   "--ibdevices --inject-runtime x", &request, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(c->image, "a/b:1");
    assert_string_equal(c->runtime, "podman");
    assert_int_equal(c->mounts.count, 3);
    assert_string_equal(c->mounts.v[1], "/e:/f:ro");
    assert_int_equal(c->options.count, 2);
    assert_string_equal(c->options.v[0], "--read-only");
    assert_true(c->shm_nbytes == 2ull << 30);
    assert_string_equal(c->gpus, "0,1");
    assert_string_equal(c->network, "host");
    assert_string_equal(c->user, "1:2");
    assert_int_equal(c->pull, RG_PULL_NEVER);
    assert_int_equal(c->inject, RG_INJECT_YES);
    assert_true(c->privileged && c->ibdevices);
    rg_request_fini(&request);
}

static void sizes_are_powers_of_1024(void **state)
{
    static const struct {
        const char *text;
        uint64_t nbytes;
    } sizes[] = { { "5", 5 },           { "5b", 5 },          { "3k", 3 << 10 },
                  { "64m", 64 << 20 },  { "64M", 64 << 20 },  { "1t", 1ull << 40 } };

    (void) state;
    for (size_t i = 0; i < rg_array_len(sizes); i++) {
        struct rg_request request;
        char line[64];
        snprintf(line, sizeof line, "--image i --shm-size %s x", sizes[i].text);
        assert_int_equal(parse_line(line, &request, NULL), 0);
        assert_true(request.job.container.shm_nbytes == sizes[i].nbytes);
        rg_request_fini(&request);
    }
}

static void paths_of_the_caller_become_absolute(void **state)
{
    struct rg_request request;
    char cwd[4096], expected[4200];

    (void) state;
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(parse_line("--image i --mount ./d:/d x", &request, NULL), 0);
    snprintf(expected, sizeof expected, "%s/./d:/d", cwd);
    assert_string_equal(request.job.container.mounts.v[0], expected);
    rg_request_fini(&request);
}

static void what_cannot_be_is_refused(void **state)
{
    static const char *const cases[][2] = {
        { "--image -x x", "does not begin with" },
        { "--image= x", "empty" },
        { "--image i --container-runtime dokcer x", "did you mean docker?" },
        { "--image i --mount d/e:/f x", "./d/e" },
        { "--image i --mount /d:e x", "absolute" },
        { "--image i --shm-size 0 x", "512m" },
        { "--image i --shm-size 1e x", "512m" },
        { "--image i --shm-size 99999999999t x", "512m" },
        { "--image i --gpus $(id) x", "all" },
        { "--image i --pull sometimes x", "missing, always or never" },
        { "--mount /d x", "--mount: there is no container" },
        { "--on slurm --gpus 2 x", "--gpus: there is no container; name its image with --image, or "
                                   "ask for GPUs of each node: --gres gpu:N" },
        { "--user 1 x", "--user: there is no container" },
        { "--ibdevices x", "--ibdevices: there is no container" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_request request;
        struct rg_error err = RG_ERROR_INIT;
        if (parse_line(cases[i][0], &request, &err) != -EINVAL)
            fail_msg("'%s' was taken", cases[i][0]);
        assert_int_equal(err.exit_code, 2);
        assert_contains(err.text, cases[i][1]);
        rg_request_fini(&request);
    }
}

static void none_leaves_the_image_alone(void **state)
{
    struct rg_request request;

    (void) state;
    assert_int_equal(parse_line("--image i --gpus all --container-runtime none x", &request, NULL),
                     0);
    assert_null(request.job.container.image);
    rg_request_fini(&request);
}

/* On Kubernetes every host is a container; its image may be in --pod-template. */
static void pods_are_containers_without_an_image_too(void **state)
{
    struct rg_request request;

    (void) state;
    assert_int_equal(parse_line("--on kubernetes --user 1 --shm-size 1g --gpus 1 x", &request,
                                NULL), 0);
    assert_string_equal(request.job.container.user, "1");
    rg_request_fini(&request);
}

/* Lists of devices as docker run wants them. */
static void gpus_may_be_said_as_docker_has_it(void **state)
{
    static const char *const cases[][2] = {
        { "\"device=0,1\"", "0,1" }, { "device=0,1", "0,1" }, { "device=1", "1," },
        { "device=GPU-a,GPU-b", "GPU-a,GPU-b" }, { "all", "all" }, { "2", "2" },
        { "all,capabilities=utility", "all,capabilities=utility" },
        { "device=0,capabilities=utility", "device=0,capabilities=utility" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        char *args[] = { "reigen", "--image", "i", "--gpus", (char *) cases[i][0], "x", NULL };
        struct rg_request request;
        rg_request_init(&request);
        assert_int_equal(rg_request_parse(&request, rg_array_len(args) - 1, args, NULL), 0);
        assert_string_equal(request.job.container.gpus, cases[i][1]);
        rg_request_fini(&request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_may_be_said_as_docker_has_it),
        cmocka_unit_test(options_fill_the_container),
        cmocka_unit_test(sizes_are_powers_of_1024),
        cmocka_unit_test(paths_of_the_caller_become_absolute),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(none_leaves_the_image_alone),
        cmocka_unit_test(pods_are_containers_without_an_image_too),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
