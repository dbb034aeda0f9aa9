/* SPDX-License-Identifier: Apache-2.0 */
#include "job/slurm.h"
#include "platform/drivers.h"
#include "unit.h"

static void check_nodes(const char *text, const char *expected)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    char line[512] = "";

    assert_int_equal(rg_slurm_nodes("NODES", text, &names, NULL), 0);
    for (size_t i = 0; i < names.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? " " : "",
                 names.v[i]);
    assert_string_equal(line, expected);
}

static void node_lists_unfold_in_order_with_their_zeros(void **state)
{
    (void) state;
    check_nodes("n1", "n1");
    check_nodes("node[1-3,7],x-[01-04]",
                "node1 node2 node3 node7 x-01 x-02 x-03 x-04");
    check_nodes("a[8-11]", "a8 a9 a10 a11");
    check_nodes("a[098-101]", "a098 a099 a100 a101");
    check_nodes("rack[0-1]n[1-2]", "rack0n1 rack0n2 rack1n1 rack1n2");
    check_nodes("n[1-2]-ib.cluster,gpu-b.x_y", "n1-ib.cluster n2-ib.cluster gpu-b.x_y");
    check_nodes("b,a,b", "b a b");
}

static void broken_node_lists_are_refused_with_an_example(void **state)
{
    static const char *const broken[] = { "", ",", "n1,", ",n1", "n[", "n[]", "n[1", "n[1-]",
                                          "n[-1]", "n[3-1]", "n[1,]", "n[a-b]", "n]", "n[1]]",
                                          "n[1-2-3]", "n 1", "n;reboot", "-n", "n[0000000001]",
                                          "n[1[2]]", "n1\n" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(broken); i++) {
        rg_autostrv struct rg_strv names = RG_STRV_INIT;
        struct rg_error err = RG_ERROR_INIT;
        if (rg_slurm_nodes("SLURM_NODELIST", broken[i], &names, &err) != -EINVAL)
            fail_msg("\"%s\" was taken", broken[i]);
        assert_contains(err.text, "SLURM_NODELIST: \"");
        assert_contains(err.text, "write for example n1,n[3-5,08]");
    }
}

static void node_lists_that_unfold_beyond_all_bounds_are_refused(void **state)
{
    static const char *const huge[] = { "n[1-999999999]", "a[1-1000]b[1-1000]c[1-1000]",
                                        "a[1-16000],b[1-16000]" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(huge); i++) {
        rg_autostrv struct rg_strv names = RG_STRV_INIT;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_slurm_nodes("X", huge[i], &names, &err), -E2BIG);
        assert_contains(err.text, "more than 16384 nodes");
    }
}

static void layouts_unfold_to_one_number_a_node(void **state)
{
    int counts[4] = { 0 };

    (void) state;
    assert_int_equal(rg_slurm_counts("T", "4,1(x2)", 3, counts, NULL), 0);
    assert_int_equal(counts[0], 4);
    assert_int_equal(counts[1], 1);
    assert_int_equal(counts[2], 1);
    assert_int_equal(rg_slurm_counts("T", "2(x2),3,1", 4, counts, NULL), 0);
    assert_int_equal(counts[1], 2);
    assert_int_equal(counts[2], 3);
    assert_int_equal(rg_slurm_counts("T", "7", 4, counts, NULL), 0);
    assert_int_equal(counts[3], 7);
}

static void broken_layouts_are_refused_and_change_nothing(void **state)
{
    static const char *const broken[] = { "", "4,", ",4", "4(x", "4(x2", "4(x0)", "0", "x",
                                          "4(x3),1", "1,1,1,1", "1,1", "-1", "4 1 1", "1(x3)2",
                                          "99999999(x3)" };
    int counts[3] = { 5, 5, 5 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(broken); i++) {
        struct rg_error err = RG_ERROR_INIT;
        if (rg_slurm_counts("TASKS", broken[i], 3, counts, &err) != -EINVAL)
            fail_msg("\"%s\" was taken", broken[i]);
        assert_contains(err.text, "TASKS: \"");
    }
    assert_int_equal(counts[0] + counts[1] + counts[2], 15);
}

/* The environment that several lines make. */
static struct rg_strv env_of(const char *const *lines)
{
    struct rg_strv env = RG_STRV_INIT;

    for (; *lines; lines++)
        assert_int_equal(rg_strv_add(&env, *lines), 0);
    return env;
}

#define ENV(...) env_of((const char *const[]){ __VA_ARGS__, NULL })

static void an_allocation_is_read_with_its_uneven_layout(void **state)
{
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=12", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=4,1(x2)",
            "SLURM_JOB_CPUS_PER_NODE=4,2(x2)", "SLURM_NTASKS=6");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };

    (void) state;
    assert_true(rg_slurm_in_job(&env));
    assert_false(rg_slurm_in_step(&env));
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_JOB, &a, NULL), 0);
    assert_string_equal(a.job_id, "12");
    assert_null(a.step_id);
    assert_int_equal(a.nnodes, 3);
    assert_string_equal(a.nodes[2].name, "n3");
    assert_int_equal(a.nodes[0].ntasks, 4);
    assert_int_equal(a.nodes[0].ncpus, 4);
    assert_int_equal(a.nodes[2].ncpus, 2);
    assert_int_equal(a.procid, -1);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_JOB, 0), 4);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_JOB, 1), 1);
}

static void a_step_is_read_with_its_own_nodes_and_the_jobs_cpus(void **state)
{
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=12", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_JOB_CPUS_PER_NODE=4,6,8",
            "SLURM_STEP_ID=3", "SLURM_STEP_NODELIST=n[2-3]", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
            "SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS=2", "SLURM_PROCID=1", "SLURM_NODEID=1",
            "SLURM_LOCALID=0", "SLURMD_NODENAME=n3", "SLURM_CPUS_PER_TASK=2");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };

    (void) state;
    assert_true(rg_slurm_in_step(&env));
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_STEP, &a, NULL), 0);
    assert_string_equal(a.step_id, "3");
    assert_string_equal(a.node, "n3");
    assert_int_equal(a.nnodes, 2);
    assert_int_equal(a.nodes[1].ncpus, 8);
    assert_int_equal(a.procid, 1);
    assert_int_equal(a.localid, 0);
    assert_int_equal(a.nodeid, 1);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_STEP, 0), 3);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_STEP, 1), 4);
}

static void gpus_of_the_allocation_give_the_slots_unless_tasks_were_asked_for(void **state)
{
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=1(x2)",
            "SLURM_JOB_CPUS_PER_NODE=16(x2)", "SLURM_JOB_GPUS=4,5,7", "CUDA_VISIBLE_DEVICES=0,1,2");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 }, b = { 0 };

    (void) state;
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_JOB, &a, NULL), 0);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_JOB, 1), 3);
    assert_string_equal(a.gpus.v[2], "7");
    assert_int_equal(rg_env_set(&env, "SLURM_NTASKS_PER_NODE", "1"), 0);
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_JOB, &b, NULL), 0);
    assert_int_equal(rg_slurm_slots(&b, RG_SLURM_JOB, 1), 1);
}

static void gpus_of_the_whole_job_are_counted_on_each_node(void **state)
{
    static const char said[] =
        "JobId=12 JobName=x\n   TresPerNode=gres:nic:1\n   JOB_GRES=gpu:a:6,gpu:b:1\n"
        "     Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:a:3(IDX:0,1,2)\n"
        "     Nodes=n3 CPU_IDs=0 Mem=0 GRES=gpu:b:1(IDX:0),nic:1(IDX:0)\n     NodeList=n[1-3]\n";
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=12", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_JOB_CPUS_PER_NODE=8(x3)");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };
    rg_autofree char *whole = rg_strf("%s   TresPerJob=gres:gpu:7\n", said);
    rg_autofree char *by_task = rg_strf("   TresPerTask=cpu=1,gres/gpu=1\n%s", said);
    rg_autofree char *cut = strdup(whole);

    (void) state;
    strstr(cut, "Nodes=n3")[0] = 'X';
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_JOB, &a, NULL), 0);
    assert_false(rg_slurm_spread_gpus(&a, said)); /* by the node */
    assert_false(rg_slurm_spread_gpus(&a, cut));
    assert_false(rg_slurm_spread_gpus(&a, ""));
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_JOB, 0), 8);
    assert_true(rg_slurm_spread_gpus(&a, by_task));
    assert_true(rg_slurm_spread_gpus(&a, whole));
    assert_true(a.gpus_by_node && a.nodes[0].ngpus == 3 && a.nodes[1].ngpus == 3);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_JOB, 1), 3);
    assert_int_equal(rg_slurm_slots(&a, RG_SLURM_JOB, 2), 1);
}

static void components_of_a_heterogeneous_job_stand_one_after_the_other(void **state)
{
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=20", "SLURM_HET_SIZE=2", "SLURM_JOB_ID_HET_GROUP_0=20",
            "SLURM_JOB_ID_HET_GROUP_1=21", "SLURM_JOB_NODELIST_HET_GROUP_0=n1",
            "SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3]", "SLURM_TASKS_PER_NODE_HET_GROUP_0=1",
            "SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2)", "SLURM_JOB_NODELIST=n1");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };

    (void) state;
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_JOB, &a, NULL), 0);
    assert_int_equal(a.nnodes, 3);
    assert_int_equal(a.group_ids.count, 2);
    assert_string_equal(a.group_ids.v[1], "21");
    assert_int_equal(a.nodes[0].group, 0);
    assert_int_equal(a.nodes[2].group, 1);
    assert_int_equal(a.nodes[2].ntasks, 2);
}

static void a_step_of_several_components_knows_which_node_is_whose(void **state)
{
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=20", "SLURM_HET_SIZE=2", "SLURM_JOB_ID_HET_GROUP_0=20",
            "SLURM_JOB_ID_HET_GROUP_1=21", "SLURM_JOB_NODELIST_HET_GROUP_0=n1",
            "SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3]", "SLURM_JOB_NODELIST=n[1-3]",
            "SLURM_JOB_CPUS_PER_NODE=1(x3)", "SLURM_STEP_ID=0", "SLURM_PROCID=0",
            "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=1(x2)");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };

    (void) state;
    assert_int_equal(rg_slurm_allocation_read(&env, RG_SLURM_STEP, &a, NULL), 0);
    assert_int_equal(a.nnodes, 2);
    assert_int_equal(a.group_ids.count, 2);
    assert_string_equal(a.group_ids.v[1], "21");
    assert_int_equal(a.nodes[0].group, 0);
    assert_int_equal(a.nodes[1].group, 1);
}

static void what_is_no_allocation_or_step_is_told_with_a_remedy(void **state)
{
    rg_autostrv struct rg_strv none = ENV("HOME=/home/a");
    rg_autostrv struct rg_strv batch = ENV("SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n1");
    rg_autostrv struct rg_strv shell = ENV("SLURM_JOB_ID=1", "SLURM_STEP_ID=4294967290",
                                           "SLURM_PROCID=0", "SLURM_STEP_NODELIST=n1");
    rg_autostrv struct rg_strv empty = ENV("SLURM_JOB_ID=1");
    rg_autostrv struct rg_strv other = ENV("SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n[1-2]",
                                           "SLURM_TASKS_PER_NODE=1(x3)");
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_slurm_allocation_read(&none, RG_SLURM_JOB, &a, &err), -ENOENT);
    assert_contains(err.text, "salloc -N 2");
    assert_int_equal(rg_slurm_allocation_read(&batch, RG_SLURM_STEP, &a, &err), -ENOENT);
    assert_contains(err.text, "put srun before it");
    assert_int_equal(rg_slurm_allocation_read(&shell, RG_SLURM_STEP, &a, &err), -ENOENT);
    assert_int_equal(rg_slurm_allocation_read(&empty, RG_SLURM_JOB, &a, &err), -EINVAL);
    assert_contains(err.text, "NODELIST is not set");
    assert_int_equal(rg_slurm_allocation_read(&other, RG_SLURM_JOB, &a, &err), -EINVAL);
    assert_contains(err.text, "SLURM_TASKS_PER_NODE: \"1(x3)\" is not for 2 nodes");
}

static void check_gpus(struct rg_strv env, const char *expected, bool expected_told)
{
    rg_autostrv struct rg_strv take = env, gpus = RG_STRV_INIT;
    char line[256] = "";
    bool told = !expected_told;

    assert_int_equal(rg_slurm_gpus(&take, &gpus, &told, NULL), 0);
    for (size_t i = 0; i < gpus.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? "," : "", gpus.v[i]);
    assert_string_equal(line, expected);
    assert_int_equal(told, expected_told);
}

static void gpus_are_those_that_slurm_gave_and_the_user_chose_among(void **state)
{
    (void) state;
    check_gpus(ENV("A=1"), "", false);
    check_gpus(ENV("SLURM_STEP_GPUS=1,3", "SLURM_JOB_GPUS=0-3", "CUDA_VISIBLE_DEVICES=0,1"), "1,3",
               true);
    check_gpus(ENV("SLURM_JOB_GPUS=0-3", "NV_GPU=2,3"), "2,3", true);
    check_gpus(ENV("SLURM_JOB_GPUS=0,1", "NVIDIA_VISIBLE_DEVICES=all"), "0,1", true);
    check_gpus(ENV("NV_GPU=2,3", "NVIDIA_VISIBLE_DEVICES=0"), "2,3", true);
    check_gpus(ENV("CUDA_VISIBLE_DEVICES=GPU-8c1b-22,GPU-77"), "GPU-8c1b-22,GPU-77", true);
    check_gpus(ENV("CUDA_VISIBLE_DEVICES="), "", true);
    check_gpus(ENV("SLURM_JOB_GPUS=0,1", "NV_GPU=void"), "", true);
    check_gpus(ENV("NVIDIA_VISIBLE_DEVICES=0:1,2:0"), "0:1,2:0", true);
    check_gpus(ENV("SLURM_STEP_GPUS=2", "NVIDIA_VISIBLE_DEVICES=2:0"), "2:0", true);
    check_gpus(ENV("CUDA_VISIBLE_DEVICES=MIG-GPU-8c1b-22/1/0"), "MIG-GPU-8c1b-22/1/0", true);
    check_gpus(ENV("CUDA_VISIBLE_DEVICES=NoDevFiles"), "", true);
}

static void gpus_are_counted_in_a_list_of_resources(void **state)
{
    static const struct { const char *text; int count; } lists[] = {
        { "gres:gpu:2\n", 2 }, { "gres/gpu:4", 4 }, { "gres:gpu:a100:2(S:0,1),gres:gpu:v100:1", 3 },
        { "gpu", 1 }, { "gres:gpu\n", 1 }, { "gres/gpu:a100", 1 }, { "gres/gpu=3", 3 },
        { "gres:nic:2,gres:gpu:1", 1 }, { "N/A\n", 0 }, { "", 0 }, { "gres:", 0 },
        { "gres:gpus:2", 0 }, { "gres:gpu:99999999999", 1 },
        { "gres:gpu:999999999", RG_JOB_SLOTS_MAX },
        { "gres:gpu:(", 1 }, { "gres:gpu:0", 0 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(lists); i++)
        assert_int_equal(rg_slurm_gres_gpus(lists[i].text), lists[i].count);
}

static void whether_slurm_counts_gpus_and_how_many_there_are_is_read(void **state)
{
    (void) state;
    assert_true(rg_slurm_gres_names_gpus("gpu:2(S:0-1)\n"));
    assert_true(rg_slurm_gres_names_gpus("(null)\nnic:1,gpu:a100:4\n"));
    assert_true(rg_slurm_gres_names_gpus("gpu"));
    assert_false(rg_slurm_gres_names_gpus("(null)\n"));
    assert_false(rg_slurm_gres_names_gpus("nic:gpu\ngpux:2\nno gpu"));
    assert_false(rg_slurm_gres_names_gpus(""));
    assert_int_equal(rg_slurm_smi_gpus("GPU 0: A (UUID: GPU-1)\n  MIG 1g.5gb Device 0\n"
                                       "GPU 1: A\n"), 2);
    assert_int_equal(rg_slurm_smi_gpus("No devices were found\n"), 0);
    assert_int_equal(rg_slurm_smi_gpus(""), 0);
}

/* Slurm's numbers are those of its own list of parts: Docker would take them for whole GPUs. */
static void parts_of_gpus_go_by_their_names(void **state)
{
    (void) state;
    check_gpus(ENV("SLURM_STEP_GPUS=5,6", "CUDA_VISIBLE_DEVICES=MIG-1a-2b,MIG-GPU-3c/7/0"),
               "MIG-1a-2b,MIG-GPU-3c/7/0", true);
    check_gpus(ENV("SLURM_STEP_GPUS=5,6", "CUDA_VISIBLE_DEVICES=MIG-1a-2b,MIG-3c",
                   "NVIDIA_VISIBLE_DEVICES=MIG-3c"), "MIG-3c", true);
    /* Not Slurm's word for what it gave. */
    check_gpus(ENV("SLURM_STEP_GPUS=5,6", "CUDA_VISIBLE_DEVICES=MIG-1a-2b"), "5,6", true);
    check_gpus(ENV("SLURM_STEP_GPUS=5", "CUDA_VISIBLE_DEVICES=GPU-1a-2b"), "5", true);
}

static void a_choice_beyond_what_slurm_gave_is_refused_by_any_name(void **state)
{
    static const char *const choices[] = { "NV_GPU=1", "NV_GPU=GPU-77", "NV_GPU=1:0",
                                           "NVIDIA_VISIBLE_DEVICES=0,MIG-77",
                                           "NVIDIA_VISIBLE_DEVICES=0:", "NV_GPU=0:1/2" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(choices); i++) {
        rg_autostrv struct rg_strv env = ENV("SLURM_STEP_GPUS=0", choices[i]);
        rg_autostrv struct rg_strv gpus = RG_STRV_INIT;
        struct rg_error err = RG_ERROR_INIT;
        bool told;
        assert_int_equal(rg_slurm_gpus(&env, &gpus, &told, &err), -EINVAL);
        assert_int_equal(gpus.count, 0);
        assert_true(*err.text);
    }
}

static void gpus_of_others_are_refused(void **state)
{
    rg_autostrv struct rg_strv env = ENV("SLURM_STEP_GPUS=0", "NV_GPU=0,1");
    rg_autostrv struct rg_strv bad = ENV("NV_GPU=one");
    rg_autostrv struct rg_strv gpus = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    bool told;

    (void) state;
    assert_int_equal(rg_slurm_gpus(&env, &gpus, &told, &err), -EINVAL);
    assert_contains(err.text, "NV_GPU asks for GPU 1, which Slurm did not give this job; "
                    "it gave 1 GPU: ");
    assert_int_equal(rg_slurm_gpus(&bad, &gpus, &told, &err), -EINVAL);
    assert_contains(err.text, "NV_GPU=0,1");
    assert_int_equal(gpus.count, 0);
}

static void sruns_ports_are_found_in_its_configuration(void **state)
{
    struct rg_ports ports = { 7, 7 };

    (void) state;
    assert_int_equal(rg_slurm_conf_ports("ClusterName=c\n# SrunPortRange=1-2\n", &ports), -ENOENT);
    assert_int_equal(ports.first, 7);
    assert_int_equal(rg_slurm_conf_ports("A=b\n  srunportrange = 61000-62900 # firewall\nB=c\n",
                                         &ports), 0);
    assert_int_equal(ports.first, 61000);
    assert_int_equal(ports.last, 62900);
    assert_int_equal(rg_slurm_conf_ports("SrunPortRange=60001", &ports), 0);
    assert_int_equal(ports.first, 60001);
    assert_int_equal(ports.last, 60001);
    static const char *const broken[] = { "", "0", "1-", "-1", "2-1", "1-65536", "1-2-3", "a" };
    for (size_t i = 0; i < rg_array_len(broken); i++) {
        rg_autofree char *text = rg_strf("SrunPortRange=%s", broken[i]);
        assert_int_equal(rg_slurm_conf_ports(text, &ports), -EINVAL);
    }
    assert_int_equal(ports.last, 60001);
}

static void kill_wait_is_found_in_what_scontrol_shows(void **state)
{
    (void) state;
    assert_int_equal(rg_slurm_kill_wait_s("Configuration data\nKillOnBadExit           = 0\n"
                                          "KillWait                = 45 sec\nLaunchType = x\n"),
                     45);
    assert_int_equal(rg_slurm_kill_wait_s("KeepAliveTime = 1 sec\n"), 0);
    assert_int_equal(rg_slurm_kill_wait_s("a\nKillWait = INFINITE\n"), 0);
    assert_int_equal(rg_slurm_kill_wait_s(""), 0);
}

static void check_remark(struct rg_strv *env, const struct rg_job *job, const char *expected)
{
    char text[RG_SLURM_REMARK_MAX];

    assert_int_equal(rg_slurm_remark(env, job, text, sizeof text), expected != NULL);
    if (expected)
        assert_contains(text, expected);
}

static void a_job_that_leaves_the_allocations_nodes_idle_is_remarked_on(void **state)
{
    RG_AUTO_JOB struct rg_job job, on, hosts;
    rg_autostrv struct rg_strv none = ENV("PATH=/bin", "SLURM_NTASKS=2"),
        two = ENV("SLURM_JOB_ID=12", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=1(x2)",
                  "SLURM_JOB_CPUS_PER_NODE=1(x2)", "SLURM_PROCID=0", "SLURMD_NODENAME=n1"),
        one = ENV("SLURM_JOB_ID=12", "SLURM_JOB_NODELIST=no-such-node",
                  "SLURM_TASKS_PER_NODE=4", "SLURM_JOB_CPUS_PER_NODE=4");

    (void) state;
    rg_job_init(&job);
    rg_job_init(&on);
    rg_job_init(&hosts);
    on.on = strdup("local");
    assert_int_equal(rg_job_add_host(&hosts, "n1", 1, NULL), 0);
    check_remark(&none, &job, NULL);
    check_remark(&two, &job, "Slurm job 12 with 2 nodes, and the job runs on this computer only; "
                             "--on slurm uses them");
    check_remark(&two, &on, NULL);
    check_remark(&two, &hosts, NULL);
    /* salloc's shell is on the login node, a script of sbatch's on the only node there is. */
    check_remark(&one, &job, "with 1 node, and the job runs on this computer only; --on slurm "
                             "uses it");
    assert_int_equal(rg_env_set(&one, "SLURMD_NODENAME", "no-such-node"), 0);
    check_remark(&one, &job, NULL);
    /* Inside a job of ours. */
    assert_int_equal(rg_env_set(&two, "REIGEN_RANK", "0"), 0);
    check_remark(&two, &job, NULL);
}

static void one_of_the_tasks_that_each_start_a_job_remarks_on_it(void **state)
{
    RG_AUTO_JOB struct rg_job job, slurm;
    rg_autostrv struct rg_strv env =
        ENV("SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-2]",
            "SLURM_JOB_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS=2",
            "SLURM_JOB_CPUS_PER_NODE=1(x2)", "SLURM_PROCID=0", "SLURMD_NODENAME=n1");

    (void) state;
    rg_job_init(&job);
    rg_job_init(&slurm);
    slurm.on = strdup("slurm");
    check_remark(&env, &job, "srun starts this 2 times, and each is a job of its own; call reigen "
                             "without srun");
    check_remark(&env, &slurm, "call reigen without srun");
    assert_int_equal(rg_env_set(&env, "SLURM_PROCID", "1"), 0);
    check_remark(&env, &job, NULL);
    /* srun --pty sh */
    assert_int_equal(rg_env_set(&env, "SLURM_PROCID", "0"), 0);
    assert_int_equal(rg_env_set(&env, "SLURM_PTY_PORT", "4000"), 0);
    check_remark(&env, &job, "--on slurm uses them");
    check_remark(&env, &slurm, NULL);
    /* srun -n1, wherever it is */
    assert_int_equal(rg_env_set(&env, "SLURM_STEP_NODELIST", "n1"), 0);
    assert_int_equal(rg_env_set(&env, "SLURM_STEP_TASKS_PER_NODE", "1"), 0);
    assert_int_equal(rg_env_set(&env, "SLURM_NTASKS", "1"), 0);
    check_remark(&env, &job, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_lists_unfold_in_order_with_their_zeros),
        cmocka_unit_test(broken_node_lists_are_refused_with_an_example),
        cmocka_unit_test(node_lists_that_unfold_beyond_all_bounds_are_refused),
        cmocka_unit_test(layouts_unfold_to_one_number_a_node),
        cmocka_unit_test(broken_layouts_are_refused_and_change_nothing),
        cmocka_unit_test(an_allocation_is_read_with_its_uneven_layout),
        cmocka_unit_test(a_step_is_read_with_its_own_nodes_and_the_jobs_cpus),
        cmocka_unit_test(gpus_of_the_allocation_give_the_slots_unless_tasks_were_asked_for),
        cmocka_unit_test(components_of_a_heterogeneous_job_stand_one_after_the_other),
        cmocka_unit_test(a_step_of_several_components_knows_which_node_is_whose),
        cmocka_unit_test(what_is_no_allocation_or_step_is_told_with_a_remedy),
        cmocka_unit_test(gpus_are_those_that_slurm_gave_and_the_user_chose_among),
        cmocka_unit_test(gpus_are_counted_in_a_list_of_resources),
        cmocka_unit_test(gpus_of_the_whole_job_are_counted_on_each_node),
        cmocka_unit_test(whether_slurm_counts_gpus_and_how_many_there_are_is_read),
        cmocka_unit_test(parts_of_gpus_go_by_their_names),
        cmocka_unit_test(a_choice_beyond_what_slurm_gave_is_refused_by_any_name),
        cmocka_unit_test(gpus_of_others_are_refused),
        cmocka_unit_test(sruns_ports_are_found_in_its_configuration),
        cmocka_unit_test(kill_wait_is_found_in_what_scontrol_shows),
        cmocka_unit_test(a_job_that_leaves_the_allocations_nodes_idle_is_remarked_on),
        cmocka_unit_test(one_of_the_tasks_that_each_start_a_job_remarks_on_it),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
