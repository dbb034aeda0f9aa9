/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor says of a host's GPUs, by the lines that agents send. */
#include "base/buf.h"
#include "launch/doctor/doctor_facts.h"
#include "unit.h"

#define TWO "gpu 2\ngpu-name GPU 0: NVIDIA H200 (UUID: GPU-a)\n"         \
            "gpu-name GPU 1: NVIDIA H200 (UUID: GPU-b)\ngpu-name \n"
#define STATE "gpu-state 0, 550.54.14, Disabled, 0\ngpu-state 1, 550.54.14, Disabled, 0\n"
#define TOPO "gpu-topo \t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m\n"  \
             "gpu-topo GPU0\t X \tNV18\tPIX\t0-47\n"                      \
             "gpu-topo GPU1\tNV18\t X \tSYS\t48-95\n"                     \
             "gpu-topo NIC0\tPIX\tSYS\t X \n"                             \
             "gpu-topo   SYS  = Connection traversing PCIe\n"
#define NCCL "package nccl 2.27.5\n"

static struct rg_buf said;

static void take(void *arg, const char *check, enum rg_finding_level level, const char *remedy,
                 const char *value)
{
    assert_ptr_equal(arg, &said);
    assert_true(level == RG_FINDING_OK || *remedy);
    rg_buf_printf(&said, "%s %s: %s\n", level == RG_FINDING_OK ? "ok" : "warn", check, value);
}

static const char *judge(const char *facts)
{
    rg_buf_clear(&said);
    assert_int_equal(rg_doctor_gpus(facts, "nobody knows", take, &said), 0);
    return rg_buf_text(&said);
}

static void a_good_host_is_told_in_full(void **state)
{
    (void) state;
    assert_string_equal(judge(TWO STATE TOPO NCCL),
                        "ok gpu: GPU 0: NVIDIA H200 (UUID: GPU-a)\n"
                        "ok gpu: GPU 1: NVIDIA H200 (UUID: GPU-b)\n"
                        "ok gpu-driver: 550.54.14\n"
                        "ok nccl: 2.27.5, of Python's packages\n"
                        "ok gpu-links: among 2 GPUs: NV18\n"
                        "ok gpu-network: NCCL takes TCP: no RDMA device is up\n");
}

static void without_gpus_little_is_said(void **state)
{
    (void) state;
    assert_string_equal(judge(""), "ok gpu: nobody knows\n");
    assert_string_equal(judge("gpu 0\n" NCCL), "ok gpu: none\n");
    assert_contains(judge("gpu 2\n"), "warn gpu: 2 device files\n");
    assert_contains(judge("gpu 0\ngpu-trouble failed\n"), "ok gpu: 0 device files");
    assert_contains(judge("gpu 2\ngpu-trouble late\n"), "warn gpu: 2 device files: nvidia-smi does "
                    "not come to its end\n");
}

static void a_gpu_that_fails_is_told(void **state)
{
    static const struct { const char *lines, *told; } cases[] = {
        { "gpu-state 0, 550, Disabled, 0\ngpu-state 1, 550, Disabled, 3\n",
          "warn gpu-health: GPU 1: 3 memory errors" },
        { "gpu-state 0, 550, [N/A], [N/A]\ngpu-state 1, 550, Disabled, [GPU requires reset]\n",
          "warn gpu-health: GPU 1 does not answer: [GPU requires reset]" },
        { "gpu-state 1, ERR!, ERR!, ERR!\n", "warn gpu-health: GPU 1 does not answer: ERR!" },
        { "gpu-state 1, 550, Enabled, 0\n", "warn gpu-health: GPU 1 is to be used in parts" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autofree char *facts = rg_strf(TWO NCCL "%s", cases[i].lines);
        assert_contains(judge(facts), cases[i].told);
    }
    assert_null(strstr(judge(TWO "gpu-state 0, 550, [N/A], [N/A]\n" NCCL), "warn"));
    assert_null(strstr(judge(TWO "gpu-state \ngpu-state nonsense\ngpu-state ,,,\n" NCCL), "warn"));
}

static void parts_of_a_gpu_are_listed(void **state)
{
    const char *text = judge(TWO "gpu-name   MIG 1g.18gb     Device  0: (UUID: MIG-c)\n"
                             "gpu-state 1, 550, Enabled, 0\n" NCCL);

    (void) state;
    assert_contains(text, "ok gpu: MIG 1g.18gb     Device  0: (UUID: MIG-c)\n");
    assert_null(strstr(text, "warn"));
}

static void nccl_is_found_and_judged(void **state)
{
    (void) state;
    assert_contains(judge(TWO), "warn nccl: not found\n");
    assert_contains(judge(TWO "nccl libnccl.so.2.21.5\n"), "ok nccl: 2.21.5, of the system\n");
    assert_contains(judge(TWO "nccl libnccl.so.2.17.1\n"), "warn nccl: 2.17.1, of the system\n");
    assert_contains(judge(TWO "nccl libnccl.so.2.17.1\n" NCCL), "ok nccl: 2.27.5");
    assert_contains(judge(TWO "nccl elsewhere\n"), "ok nccl: elsewhere");
}

static void the_network_is_nccls_choice(void **state)
{
    (void) state;
    assert_contains(judge(TWO NCCL "rdma mlx5_0 4: ACTIVE\nrdma mlx5_1 1: DOWN\nrdma-devices 2\n"
                          "peermem 1\n"), "NCCL takes RDMA by mlx5_0; nvidia_peermem is loaded");
    assert_contains(judge(TWO NCCL "rdma a 4: ACTIVE\nrdma b 4: ACTIVE\nrdma-devices 2\n"),
                    "NCCL takes RDMA by a, b; nvidia_peermem is not loaded");
    assert_contains(judge(TWO NCCL "rdma a 4: ACTIVE\nrdma-devices 0\n"), "NCCL takes TCP");
}

static void links_are_told_by_their_kinds(void **state)
{
    (void) state;
    assert_contains(judge(TWO NCCL "gpu-topo GPU0\t X \tSYS\ngpu-topo GPU1\tPHB\t X \n"),
                    "ok gpu-links: among 2 GPUs: SYS, PHB\n");
    assert_null(strstr(judge(TWO NCCL "gpu-topo GPU0\ngpu-topo GPU0\t X \n"), "gpu-links"));
    assert_null(strstr(judge(TWO NCCL "gpu-topo \tGPU0\tGPU1\tCPU Affinity\n"), "gpu-links"));
}

static void what_was_tried_is_told(void **state)
{
    (void) state;
    assert_contains(judge(TWO NCCL "gpu-copy 0 25100 26200\ngpu-copy 1 12700 13100\ngpu-peers 2 2\n"
                          "gpu-tried 2\n"),
                    "ok gpu-copies: GPU 0: 25.1 GB/s to it, 26.2 GB/s from it\n"
                    "ok gpu-copies: GPU 1: 12.7 GB/s to it, 13.1 GB/s from it\n"
                    "ok gpu-peers: 2 of 2 ways from one GPU to another's memory are open\n");
    assert_contains(judge(TWO NCCL "gpu-copy 0 25100 26200\ngpu-copy 1 25000 3100\n"),
                    "warn gpu-copies: GPU 1: 25.0 GB/s to it, 3.1 GB/s from it; another GPU");
    assert_contains(judge(TWO NCCL "gpu-bad 1 CUDA_ERROR_OUT_OF_MEMORY\n"),
                    "warn gpu-health: GPU 1 cannot be used: CUDA_ERROR_OUT_OF_MEMORY\n");
    assert_contains(judge(TWO NCCL "gpu-bad - the driver: CUDA_ERROR_NO_DEVICE\n"),
                    "warn gpu-health: the GPUs cannot be used: the driver: CUDA_ERROR_NO_DEVICE\n");
    assert_contains(judge(TWO NCCL "gpu-copy 0 1 1\ngpu-bad - late\n"),
                    "warn gpu-health: copies to the GPUs do not come to their end\n");
    assert_null(strstr(judge(TWO NCCL "gpu-copy\ngpu-copy x y\ngpu-peers 1\n"), "gpu-copies"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_host_is_told_in_full),
        cmocka_unit_test(without_gpus_little_is_said),
        cmocka_unit_test(a_gpu_that_fails_is_told),
        cmocka_unit_test(parts_of_a_gpu_are_listed),
        cmocka_unit_test(nccl_is_found_and_judged),
        cmocka_unit_test(the_network_is_nccls_choice),
        cmocka_unit_test(links_are_told_by_their_kinds),
        cmocka_unit_test(what_was_tried_is_told),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    rg_buf_fini(&said);
    return r;
}
