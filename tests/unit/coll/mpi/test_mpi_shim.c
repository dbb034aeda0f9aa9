/* SPDX-License-Identifier: Apache-2.0 */
/* Which ABI an MPI is taken for, and what the shim of the standard one gives it (pretend_mpi.c).
 * The real MPIs are tried by tests/hosts/test_mpi_plane.py. */
#include "unit.h"

#include <sys/wait.h>

#include "coll/mpi/mpi_shim.h"

/* As assert_true, in a child of the test. */
#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)

/* In a process that has this library, as a process has one MPI only. */
static void in_child(const char *library, const char *text, const char *abi, void (*body)(void))
{
    char path[4096];
    int status = -1;

    snprintf(path, sizeof(path), "%s/tests/unit/coll/%s", getenv("REIGEN_TEST_BUILD"), library);
    pid_t child = fork();

    if (child == 0) {
        setenv("REIGEN_MPI", path, 1);
        setenv("PRETEND_MPI", text, 1);
        setenv("PRETEND_ABI", abi, 1);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static const struct rg_mpi_shim_ops *shim(const char *abi)
{
    const struct rg_mpi_shim_ops *ops = NULL;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_mpi_shim_load(&ops, &err) != 0)
        fprintf(stderr, "%s\n", err.text);
    CHECK(ops && strcmp(ops->abi, abi) == 0);
    return ops;
}

static void refuse(const char *why)
{
    const struct rg_mpi_shim_ops *ops;
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_mpi_shim_load(&ops, &err);

    if (!strstr(err.text, why))
        fprintf(stderr, "\"%s\" lacks \"%s\"\n", err.text, why);
    CHECK(r == -ENOTSUP && strstr(err.text, why));
}

static void finish(const struct rg_mpi_shim_ops *ops, int code, struct rg_mpi_request *request)
{
    bool done = false;

    CHECK(code == 0);
    CHECK(ops->test(request, &done) == 0 && done);
}

static void use_standard(void)
{
    const struct rg_mpi_shim_ops *ops = shim("standard");
    struct rg_mpi_comm world, comm, other;
    struct rg_mpi_request request;
    struct rg_error err = RG_ERROR_INIT;
    const int zero = 0, eight = 8;
    char data[8], all[8], text[RG_MPI_ERROR_MAX];
    int level = -1;

    CHECK(!rg_mpi_is_openmpi() && !ops->initialized() && !ops->finalized());
    CHECK(ops->init(&level) == 0 && level == RG_MPI_MULTIPLE);
    CHECK(ops->initialized() && rg_mpi_usable(ops, &err) == 0);
    CHECK(ops->world(&world) == 0 && world.rank == 0 && world.size == 1);
    CHECK(ops->dup(&world, &comm) == 0);
    CHECK(ops->subset(&world, &zero, 1, 5, &other) == 0);
    CHECK(ops->local(&world, &other) == 0);
    ops->nudge(&comm);
    finish(ops, ops->isend(&comm, data, 8, 0, 3, &request), &request);
    finish(ops, ops->irecv(&comm, data, 8, 0, 3, &request), &request);
    finish(ops, ops->ibcast(&comm, data, 8, 0, &request), &request);
    finish(ops, ops->iallgather(&comm, data, all, 8, &request), &request);
    finish(ops, ops->iallgatherv(&comm, NULL, all, &eight, &zero, &request), &request);
    CHECK(ops->irecv(&comm, data, 8, 0, 3, &request) == 0 && ops->cancel(&request) == 0);
    CHECK(ops->ibcast(&comm, data, 8, 1, &request) > 0);
    ops->describe(13, text, sizeof(text));
    CHECK(strlen(text) == 511 && text[510] == 'e');
    ops->free(&comm);
}

static void test_the_standard_abi_is_given_its_own_handles_and_numbers(void **state)
{
    (void) state;
    in_child("libmpi_abi-pretend.so", "Pretended MPI 1", "1", use_standard);
}

static void try_levels(void)
{
    static const char *const values[] = { "0", "1024", "2048", "4096" };
    const struct rg_mpi_shim_ops *ops = shim("standard");
    struct rg_error err = RG_ERROR_INIT;

    for (int want = RG_MPI_SINGLE; want <= RG_MPI_MULTIPLE; want++) {
        int level = -1;

        setenv("PRETEND_LEVEL", values[want], 1);
        CHECK(ops->init(&level) == 0 && level == want);
        CHECK(rg_mpi_usable(ops, &err) == (want >= RG_MPI_SERIALIZED ? 0 : -EPERM));
    }
    CHECK(strstr(err.text, "MPI_THREAD_FUNNELED"));
}

static void test_its_thread_levels_are_understood(void **state)
{
    (void) state;
    in_child("libmpi_abi-pretend.so", "Pretended MPI 1", "1", try_levels);
}

/* It belongs to Open MPI's launchers, though its ABI is not Open MPI's. */
static void find_openmpi(void)
{
    unsetenv("PMIX_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    shim("standard");
    CHECK(rg_mpi_is_openmpi() && !rg_mpi_launched());
    setenv("PMI_SIZE", "2", 1);
    CHECK(!rg_mpi_launched());
    setenv("PMIX_RANK", "0", 1);
    CHECK(rg_mpi_launched());
}

static void test_an_open_mpi_of_the_standard_abi_keeps_its_launchers(void **state)
{
    (void) state;
    in_child("libmpi_abi-pretend.so", "Open MPI v6.0.0, package: pretended", "1", find_openmpi);
}

static void find_mpich(void)
{
    shim("mpich");
    CHECK(!rg_mpi_is_openmpi());
}

static void test_a_library_that_denies_the_standard_abi_has_its_own(void **state)
{
    (void) state;
    in_child("libmpi-pretend.so", "MPICH Version:      5.0.2", "-1", find_mpich);
}

static void find_draft(void)
{
    refuse("a draft of the standard ABI");
}

static void find_later(void)
{
    refuse("version 2 of the standard ABI");
}

static void find_neither(void)
{
    refuse("\"Pretended MPI\", is not Open MPI, and its ABI is neither MPICH's nor the standard");
}

static void test_drafts_later_versions_and_unknown_abis_are_refused(void **state)
{
    (void) state;
    in_child("libmpi_abi-draft.so", "MPICH Version:      4.3.0", "1", find_draft);
    in_child("libmpi_abi-pretend.so", "MPICH Version:      9.0", "2", find_later);
    in_child("libmpi-pretend.so", "Pretended MPI\nsecond line", "-1", find_neither);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_standard_abi_is_given_its_own_handles_and_numbers),
        cmocka_unit_test(test_its_thread_levels_are_understood),
        cmocka_unit_test(test_an_open_mpi_of_the_standard_abi_keeps_its_launchers),
        cmocka_unit_test(test_a_library_that_denies_the_standard_abi_has_its_own),
        cmocka_unit_test(test_drafts_later_versions_and_unknown_abis_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
