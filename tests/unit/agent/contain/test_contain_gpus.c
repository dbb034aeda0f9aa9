/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs a container gets in Slurm, by Slurm's own numbers and by those that processes see. */
#include <fcntl.h>
#include <sys/stat.h>

#include "agent/contain/contain.h"
#include "base/fd.h"
#include "unit.h"

static struct rg_contain contain;
static int nnotes;

/* contain_host.c's, which writes to standard output. */
void rg_contain_say(const char *fmt, ...)
{
    nnotes += rg_str_starts(fmt, "note ");
}

static int limit(const char *given, const char *seen, const char *wanted, struct rg_error *err)
{
    free(rg_steal_ptr(&contain.container.gpus));
    free(rg_steal_ptr(&contain.own_gpus));
    unsetenv("SLURM_JOB_GPUS");
    unsetenv("NV_GPU");
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    given ? setenv("SLURM_STEP_GPUS", given, 1) : unsetenv("SLURM_STEP_GPUS");
    seen ? setenv("CUDA_VISIBLE_DEVICES", seen, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
    contain.container.gpus = wanted ? strdup(wanted) : NULL;
    return rg_contain_limit_gpus(&contain, err);
}

static void check(const char *gpus, const char *own)
{
    gpus ? assert_string_equal(contain.container.gpus, gpus) : assert_null(contain.container.gpus);
    own ? assert_string_equal(contain.own_gpus, own) : assert_null(contain.own_gpus);
}

static void confined_processes_count_their_gpus_from_0_on(void **state)
{
    (void) state;
    assert_int_equal(limit("4,5,6", "0,1,2", NULL, NULL), 0);
    check("4,5,6", "0,1,2");
    assert_int_equal(limit("4,5,6", "0,1,2", "2", NULL), 0);
    check("4,5", "0,1");
    assert_int_equal(limit("4,5,6", "0,1,2", "6,4", NULL), 0);
    check("6,4", "2,0");
    assert_int_equal(limit("7", "0", NULL, NULL), 0);
    check("7,", "0,"); /* a name, not how many */
    assert_int_equal(limit("2,3", "2,3", NULL, NULL), 0); /* Slurm confines nothing */
    check("2,3", "2,3");
}

static void without_both_lists_nothing_is_renumbered(void **state)
{
    (void) state;
    assert_int_equal(limit("4,5", NULL, NULL, NULL), 0);
    check("4,5", NULL);
    assert_int_equal(limit("4,5", "0", NULL, NULL), 0);
    check("4,5", NULL);
    assert_int_equal(limit("4,5", "GPU garbage", NULL, NULL), 0);
    check("4,5", NULL);
    assert_int_equal(limit(NULL, NULL, "2", NULL), 0); /* Slurm counts no GPUs */
    check("2", NULL);
}

static void what_slurm_did_not_give_is_refused(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(limit("4,5", "0,1", "3", &err), -EPERM);
    assert_int_equal(err.exit_code, 77);
    assert_int_equal(limit("4,5", "0,1", "0,", &err), -EPERM);
    assert_contains(err.text, "has not given the GPU 0");
}

/* A program in another's place, sinfo's or nvidia-smi's: what it says, and how it ends. */
static void make_program(const char *dir, const char *name, const char *says, int code)
{
    char path[128], text[128];
    int n = snprintf(text, sizeof(text), "#!/bin/sh\necho '%s'\nexit %d\n", says, code);

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_int_equal(rg_write_all(fd, text, (size_t) n), 0);
    close(fd);
}

static void a_job_has_no_gpu_where_slurm_counts_them_and_names_none(void **state)
{
    static const struct { const char *says; bool counts; } nodes[] = {
        { "gpu:2(S:0-1)", true }, { "nic:1,gpu:a100:4", true }, { "(null)", false },
        { "sinfo: error: no gpu", false }, { "", false }
    };
    rg_autofree char *path = strdup(getenv("PATH"));
    char dir[] = "/tmp/rg-sinfo-XXXXXX", command[64];

    (void) state;
    assert_non_null(mkdtemp(dir));
    rg_autofree char *fake = rg_strf("%s:%s", dir, path);
    setenv("PATH", fake, 1);
    setenv("SLURMD_NODENAME", "n1", 1);
    for (size_t i = 0; i < rg_array_len(nodes); i++) {
        struct rg_error err = RG_ERROR_INIT;
        make_program(dir, "sinfo", nodes[i].says, 0);
        nnotes = 0;
        contain.host.no_gpus = false;
        assert_int_equal(limit(NULL, NULL, "all", &err), 0);
        check(nodes[i].counts ? NULL : "all", NULL);
        assert_int_equal(contain.host.no_gpus, nodes[i].counts);
        assert_int_equal(nnotes, nodes[i].counts);
        assert_int_equal(limit(NULL, NULL, "1", &err), nodes[i].counts ? -EPERM : 0);
    }
    setenv("PATH", path, 1);
    unsetenv("SLURMD_NODENAME");
    contain.host.no_gpus = false;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void where_slurm_counts_no_gpus_a_job_has_the_nodes(void **state)
{
    static const struct { const char *sinfo, *smi; int code; const char *gets; } nodes[] = {
        { "(null)", "GPU 0: A", 0, "all" }, { "nic:1", "GPU 0: A", 0, "all" },
        { "(null)", "No devices were found", 0, NULL }, { "(null)\ngpu:2", "GPU 0: A", 0, NULL },
        { "", "GPU 0: A", 1, NULL }, { "(null)", "GPU 0: A", 1, NULL } /* no answer */
    };
    rg_autofree char *path = strdup(getenv("PATH"));
    char dir[] = "/tmp/rg-sinfo-XXXXXX", command[64];

    (void) state;
    if (access("/dev/nvidiactl", F_OK) == 0)
        skip(); /* a real one */
    assert_non_null(mkdtemp(dir));
    rg_autofree char *fake = rg_strf("%s:%s", dir, path);
    setenv("PATH", fake, 1);
    for (size_t i = 0; i < rg_array_len(nodes); i++) {
        make_program(dir, "sinfo", nodes[i].sinfo, nodes[i].code);
        make_program(dir, "nvidia-smi", nodes[i].smi, 0);
        assert_int_equal(limit(NULL, NULL, NULL, NULL), 0);
        check(nodes[i].gets, NULL);
        assert_false(contain.host.no_gpus);
    }
    make_program(dir, "sinfo", "(null)", 0);
    assert_int_equal(limit(NULL, NULL, "1", NULL), 0);
    check("1", NULL);
    setenv("PATH", path, 1);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confined_processes_count_their_gpus_from_0_on),
        cmocka_unit_test(without_both_lists_nothing_is_renumbered),
        cmocka_unit_test(what_slurm_did_not_give_is_refused),
        cmocka_unit_test(a_job_has_no_gpu_where_slurm_counts_them_and_names_none),
        cmocka_unit_test(where_slurm_counts_no_gpus_a_job_has_the_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
