/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of planes: what may be used, what ranks tell each other, and that a plane is one file
 * (plane_dummy.c) and one line.
 */
#include "unit.h"

#include <sys/mman.h>

#include "base/buf.h"
#include "coll/boot/find/find.h"
#include "coll/plane_ranks.h"
#include "coll/planes/plane_dummy.h"

extern const struct rg_plane_ops rg_plane_shm, rg_plane_tcp, rg_plane_mpi;

static rg_plane_table table = {
    &rg_plane_shm,
    &rg_plane_tcp,
    &rg_plane_dummy, /* the one line */
    NULL,
};

/* ------------------------------------------------------------ what may be used */

/* Bits 1, 2 and 4; another plane in Reigen's own table changes nothing here. */
static rg_plane_table shipped = { &rg_plane_shm, &rg_plane_tcp, &rg_plane_mpi, NULL };

static unsigned allowed_with(const char *name, const char *value, bool insisted)
{
    struct rg_config config;
    struct rg_plane_choice choice;

    setenv(name, value, 1);
    assert_int_equal(rg_config_read(&config, NULL), 0);
    assert_int_equal(rg_planes_choose(shipped, config.planes, &choice, NULL), 0);
    assert_int_equal(choice.insisted >> 2 & 1, insisted);
    unsetenv(name);
    return choice.allowed;
}

static void mpi_is_used_where_it_is_asked_for(void **state)
{
    (void) state;
    assert_int_equal(allowed_with("HOROVOD_CONTROLLER", "gloo", false), 1 | 2);
    assert_int_equal(allowed_with("REIGEN_MPI", "1", true), 1 | 2 | 4);
    assert_int_equal(allowed_with("REIGEN_MPI", "libmpi.so.40", true), 1 | 2 | 4);
    assert_int_equal(allowed_with("HOROVOD_CPU_OPERATIONS", "MPI", false), 1 | 2 | 4);
    assert_int_equal(allowed_with("HOROVOD_CONTROLLER", "mpi", false), 1 | 2 | 4);
    assert_int_equal(allowed_with("REIGEN_PLANES", "mpi,tcp", true), 2 | 4);
    setenv("HOROVOD_CPU_OPERATIONS", "MPI", 1);
    assert_int_equal(allowed_with("REIGEN_MPI", "0", false), 1 | 2);
    assert_int_equal(allowed_with("REIGEN_PLANES", "tcp", false), 2);
    unsetenv("HOROVOD_CPU_OPERATIONS");
}

static void a_plane_that_is_not_there_is_named(void **state)
{
    static const char *const broken[][2] = { { "infiniband", "infiniband" }, { "mpi,ib", "ib" },
                                             { "shm,", "" }, { "sh", "sh" }, { "shm2", "shm2" } };
    struct rg_plane_choice choice = { .allowed = 77 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(broken); i++) {
        struct rg_error err = RG_ERROR_INIT;
        char want[64];

        snprintf(want, sizeof(want), "\"%s\" is no plane; give some of shm, tcp and mpi, ",
                 broken[i][1]);
        assert_int_equal(rg_planes_choose(shipped, broken[i][0], &choice, &err), -EINVAL);
        assert_contains(err.text, broken[i][0]);
        assert_contains(err.text, want);
    }
    setenv("REIGEN_MPI", "yes", 1);
    struct rg_error err = RG_ERROR_INIT;

    assert_int_equal(rg_planes_choose(shipped, "shm", &choice, &err), -EINVAL);
    assert_contains(err.text, "REIGEN_MPI=yes");
    unsetenv("REIGEN_MPI");
    assert_int_equal(choice.allowed, 77);
    assert_int_equal(rg_planes_choose(table, "dummy,shm", &choice, NULL), 0);
    assert_int_equal(choice.allowed, 1 | 4);
}

static void what_is_no_offer_is_refused(void **state)
{
    static uint8_t bytes[] = { 3, 0, 0, 0, 't', 'o', 'y', 2, 0, 0, 0, 'a', 'b', 9 };
    struct rg_blob whole = { bytes, sizeof(bytes) - 1 }, part;

    (void) state;
    assert_int_equal(rg_planes_find_offer(&whole, "toy", &part), 0);
    assert_int_equal(part.nbytes, 2);
    assert_memory_equal(part.data, "ab", 2);
    assert_int_equal(rg_planes_find_offer(&whole, "to", &part), 0);
    assert_int_equal(part.nbytes, 0);
    for (size_t n = 1; n <= sizeof(bytes); n++) {
        whole.nbytes = n;
        if (n != sizeof(bytes) - 1)
            assert_int_equal(rg_planes_find_offer(&whole, "toy", &part), -EBADMSG);
    }
}

/* ------------------------------------------------------------ ranks with the dummy plane */

/* *arg: REIGEN_PLANES. */
static int check_carries(struct rank *rank)
{
    struct plane_ranks ranks = { 0 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int bad = ranks_check(rank, plane_ranks_open(rank, table, rank->arg, &ranks) == 0);

    if (bad)
        return bad;
    rg_scopes_describe(rg_exec_scopes(ranks.progress->exec), &text);
    rg_scopes_print(rg_exec_scopes(ranks.progress->exec), &text);
    bad |= ranks_check(rank, strstr(rg_buf_text(&text), "plane dummy: ") != NULL);
    bad |= ranks_check(rank, strstr(rg_buf_text(&text), "4  dummy 1000") != NULL);
    for (int i = 0; i < 20 && !bad; i++)
        bad |= plane_ranks_check_sum(rank, &ranks, "small", 1 + i * 25);
    bad |= ranks_check(rank, dummy_count == 20);
    bad |= plane_ranks_check_sum(rank, &ranks, "larger", DUMMY_MAX_NBYTES / 4 + 1);
    bad |= ranks_check(rank, dummy_count == 20);
    plane_ranks_close(&ranks);
    return bad;
}

static void a_plane_is_one_file_and_one_line(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), check_carries, "shm,dummy"), 0);
    assert_int_equal(ranks_run(3, ranks_port(), check_carries, ""), 0);
    assert_int_equal(ranks_run(2, ranks_port(), check_carries, "tcp,dummy"), 0);
}

static struct rg_exec *make_exec(struct rank *rank, struct plane_ranks *ranks)
{
    struct rg_planes_options options = { .team = ranks->team, .config = &rank->config,
                                         .planes = &ranks->planes };
    struct rg_exec *exec = NULL;

    options.region = (char *) ranks->team->segment + ranks->team->segment_start;
    return rg_exec_create(&options, &exec, NULL) == 0 ? exec : NULL;
}

static int drive(struct rg_exec *exec, struct rg_error *err)
{
    bool moved;
    int r;

    while ((r = rg_exec_progress(exec, &moved, err)) == 0)
        ;
    return r;
}

/* Four floats of the "device": the host's access to what is returned is a fault. */
static float *device_floats(void)
{
    int fd = memfd_create("device", MFD_CLOEXEC);

    if (ftruncate(fd, 4096) < 0)
        return NULL;
    char *device = mmap(NULL, 4096, PROT_NONE, MAP_SHARED, fd, 0);
    char *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    dummy_device = host - device;
    return (float *) (void *) device;
}

static float *host_view(float *device)
{
    return (float *) (void *) ((char *) device + dummy_device);
}

static struct rg_coll device_coll(float *device, void *stream)
{
    return (struct rg_coll){ .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                             .count = 4, .in = device, .out = device, .scale = { 1.0, 1.0, 1 },
                             .memory = RG_MEMORY_CUDA, .stream = stream };
}

static int check_device(struct rank *rank)
{
    struct plane_ranks ranks = { 0 };
    float *device = device_floats();
    struct rg_coll coll = device_coll(device, NULL);
    struct rg_error err = RG_ERROR_INIT;
    struct rg_exec *exec;
    int bad = ranks_check(rank, plane_ranks_team(rank, table, "shm,tcp,dummy", &ranks) == 0);

    exec = bad ? NULL : make_exec(rank, &ranks);
    if (ranks_check(rank, exec != NULL))
        return 1;
    host_view(device)[3] = (float) (1 + rank->me);
    bad |= ranks_check(rank, rg_exec_post(exec, &coll) == 0);
    bad |= ranks_check(rank, drive(exec, &err) == 1);
    bad |= ranks_check(rank, host_view(device)[3] == 3.0f && dummy_count == 1);
    /* Too large for the dummy, and the planes of the host must keep away from it. */
    coll.count = DUMMY_MAX_NBYTES;
    bad |= ranks_check(rank, !rg_exec_takes_shortcut(exec, &coll));
    bad |= ranks_check(rank, rg_exec_post(exec, &coll) == 0);
    bad |= ranks_check(rank, drive(exec, &err) == -ENOTSUP);
    bad |= ranks_check(rank, strcmp(err.text, "no plane between 2 ranks can do this: allreduce "
                                              "(sum) of float32 in cuda memory; "
                                              "REIGEN_PLANES=shm,tcp,dummy") == 0);
    rg_exec_destroy(exec, 0);
    plane_ranks_close(&ranks);
    return bad;
}

static void device_memory_goes_to_planes_that_take_it_and_to_no_other(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), check_device, NULL), 0);
}

static int sum(struct plane_ranks *ranks, const char *name, float *data, int64_t count, int memory,
               char ret_text[RG_ERROR_TEXT_MAX])
{
    return plane_ranks_allreduce(ranks, name, REIGEN_SUM, data, count, memory, ret_text);
}

/* From the submission on: the one-shot way must not read it, ranks must agree about it, and where
 * no plane takes it the job ends with the reason. */
static int check_submits_device(struct rank *rank)
{
    struct plane_ranks ranks = { 0 };
    float *device = device_floats(), data[4] = { 0 };
    char text[RG_ERROR_TEXT_MAX];
    int bad = ranks_check(rank, plane_ranks_open(rank, table, "shm,dummy", &ranks) == 0);

    if (bad)
        return bad;
    host_view(device)[3] = (float) (1 + rank->me);
    bad |= ranks_check(rank, sum(&ranks, "d", device, 4, RG_MEMORY_CUDA, text) == 0);
    bad |= ranks_check(rank, host_view(device)[3] == 3.0f && dummy_count == 1);
    bad |= ranks_check(rank, sum(&ranks, "e", rank->me ? device : data, 4,
                                 rank->me ? RG_MEMORY_CUDA : RG_MEMORY_HOST, text) ==
                                 -EINVAL);
    bad |= ranks_check(rank, strstr(text, "Mismatched ALLREDUCE CPU/GPU device selection: ") !=
                                 NULL);
    bad |= ranks_check(rank, sum(&ranks, "f", device, DUMMY_MAX_NBYTES, RG_MEMORY_CUDA,
                                 text) == -ENOTSUP);
    bad |= ranks_check(rank, strstr(text, "no plane between 2 ranks can do this") != NULL);
    plane_ranks_close(&ranks);
    return bad;
}

static void a_submitted_device_tensor_is_not_read_by_the_host(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), check_submits_device, NULL), 0);
}

/* "Backward" on the stream makes what is to be reduced. */
static void fill(void *arg)
{
    for (int i = 0; i < 4; i++)
        host_view(arg)[i] = (float) (getenv("RANK")[0] - '0' + 1);
}

static void add_one(void *arg)
{
    for (int i = 0; i < 4; i++)
        host_view(arg)[i] += 1;
}

static int check_stream(struct rank *rank)
{
    struct plane_ranks ranks = { 0 };
    struct dummy_stream stream = { .nworks = 0 };
    float *device = device_floats(), data[4] = { 0 };
    struct rg_coll coll = device_coll(device, &stream);
    struct rg_error err = RG_ERROR_INIT;
    struct rg_exec *exec;
    int bad = ranks_check(rank, plane_ranks_team(rank, table, "", &ranks) == 0);

    exec = bad ? NULL : make_exec(rank, &ranks);
    if (ranks_check(rank, exec != NULL))
        return 1;
    dummy_stream_put(&stream, fill, device);
    bad |= ranks_check(rank, rg_exec_post(exec, &coll) == 0);
    bad |= ranks_check(rank, drive(exec, &err) == 1);
    /* Done, which is a place in the stream; the device has not begun. */
    bad |= ranks_check(rank, host_view(device)[0] == 0.0f && stream.nworks == 2);
    dummy_stream_put(&stream, add_one, device);
    dummy_stream_run(&stream);
    for (int i = 0; i < 4; i++)
        bad |= ranks_check(rank, host_view(device)[i] == 4.0f);
    /* No plane of the host's takes what is on a stream. */
    coll = (struct rg_coll){ .kind = RG_COLL_BROADCAST, .dtype = REIGEN_FLOAT32, .count = 4,
                             .in = data, .out = data, .stream = &stream };
    bad |= ranks_check(rank, rg_exec_post(exec, &coll) == 0);
    bad |= ranks_check(rank, drive(exec, &err) == -ENOTSUP);
    bad |= ranks_check(rank, strcmp(err.text, "no plane between 2 ranks can do this: broadcast of "
                                              "float32 in host memory on a stream") == 0);
    rg_exec_destroy(exec, 0);
    plane_ranks_close(&ranks);
    return bad;
}

static void done_on_a_stream_means_in_its_order(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), check_stream, NULL), 0);
}

/* ------------------------------------------------------------ a plane that nothing wakes */

enum { HELD_MS = 300, NAPS_MIN = 8 };

static uint64_t held_until_ns; /* rank 1 does nothing before */
static int naps;               /* looks that came after a sleep */

static int late_progress(void *state, bool *ret_moved, struct rg_error *err)
{
    static uint64_t looked_ns;
    uint64_t now_ns = rg_now_ns();

    naps += looked_ns && now_ns - looked_ns > 100000;
    looked_ns = now_ns;
    return now_ns < held_until_ns ? 0 : rg_plane_dummy.progress(state, ret_moved, err);
}

static int check_naps(struct rank *rank)
{
    static struct rg_plane_ops late;
    static rg_plane_table late_table = { &rg_plane_shm, &late, NULL };
    struct plane_ranks ranks = { 0 };
    int bad;

    late = rg_plane_dummy;
    late.progress = late_progress;
    rank->config.spin_us = 0;
    bad = ranks_check(rank, plane_ranks_open(rank, late_table, "", &ranks) == 0);
    if (bad)
        return bad;
    held_until_ns = rank->me ? rg_now_ns() + HELD_MS * RG_NS_PER_MS : 0;
    bad |= plane_ranks_check_sum(rank, &ranks, "x", 4);
    bad |= ranks_check(rank, naps >= NAPS_MIN);
    plane_ranks_close(&ranks);
    return bad;
}

/* The driver of one node sleeps in a futex, 100 ms at a time where nothing is said. */
static void a_plane_that_nothing_wakes_is_looked_at_as_often_as_it_asks(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), check_naps, NULL), 0);
}

/* ------------------------------------------------------------ who cannot offer anything */

static int no_offer(const struct rg_config *config, int rank, int size, bool allowed,
                    struct rg_buf *offer, struct rg_error *err)
{
    (void) config, (void) size, (void) allowed, (void) offer;
    return rank == 1 ? rg_error_set(err, EIO, "the toy's card is on fire") : 0;
}

static int check_offer_fails(struct rank *rank)
{
    static struct rg_plane_ops broken;
    static rg_plane_table one = { &broken, NULL };
    struct rg_plane_choice choice = { one, 1, 0 };
    struct rg_error err = RG_ERROR_INIT;
    static struct rg_boots boots;
    struct rg_boot *boot = NULL;
    struct rg_team *team = NULL;
    int r = rg_boot_open(&boots, &rank->config, ranks_deadline(), &boot, NULL);
    int bad = ranks_check(rank, r == 0);

    broken = rg_plane_dummy;
    broken.offer = no_offer;
    if (bad)
        return bad;
    bad |= ranks_check(rank, rg_progress_team(boot, &rank->config, &choice, ranks_deadline(), &team,
                                              &err) == -EIO);
    bad |= ranks_check(rank, strstr(err.text, "the toy's card is on fire") != NULL);
    bad |= ranks_check(rank, rank->me == 1 || strncmp(err.text, "rank 1: ", 8) == 0);
    rg_boot_close(boot, false);
    return bad;
}

static void a_rank_that_cannot_offer_fails_all_with_its_cause(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_offer_fails, NULL), 0);
}

/* ------------------------------------------------------------ bytes that scores see */

static size_t asked_nbytes;

static int note_score(const void *state, const struct rg_plane_task *task)
{
    (void) state;
    asked_nbytes = task->nbytes;
    return -1;
}

static int open_nothing(const struct rg_plane_options *options, void **ret_state,
                        struct rg_error *err)
{
    (void) options, (void) ret_state, (void) err;
    return 0;
}

static void close_nothing(void *state, int timeout_ms)
{
    (void) state, (void) timeout_ms;
}

static const struct rg_plane_ops asked_plane = { .name = "asked", .scopes = 1u << RG_SCOPE_NODE,
                                                 .memories = 1u << RG_MEMORY_HOST,
                                                 .open = open_nothing, .score = note_score,
                                                 .close = close_nothing };

static void scores_are_told_the_bytes_of_the_whole_operation(void **state)
{
    static rg_plane_table one = { &asked_plane, NULL };
    static const size_t counts[] = { 5, 0, 7 };
    int node_ranks[] = { 0, 1, 2 };
    struct rg_blob offers[3] = { { NULL, 0 } };
    struct rg_team team = { .size = 3, .nnodes = 1, .node_size = 3, .node_ranks = node_ranks,
                            .offers = offers };
    struct rg_plane_choice choice = { one, 1, 0 };
    struct rg_planes_options options = { .team = &team, .planes = &choice };
    struct rg_coll coll = { .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM, .count = 100,
                            .counts = counts, .total = 1000 };
    static const size_t want[] = { 400, 400, 400, 48, 4000, 48 };
    struct rg_coll three[3] = { coll, coll, coll };
    struct rg_exec *exec = NULL;

    (void) state;
    assert_int_equal(rg_exec_create(&options, &exec, NULL), 0);
    for (int kind = 0; kind <= RG_COLL_REDUCESCATTERV; kind++) {
        coll.kind = (enum rg_coll_kind) kind;
        assert_int_equal(rg_exec_post(exec, &coll), 0);
        assert_int_equal(asked_nbytes, want[kind]);
    }
    assert_int_equal(rg_exec_post_fused(exec, three, 3), 0);
    assert_int_equal(asked_nbytes, 1200);
    rg_exec_destroy(exec, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpi_is_used_where_it_is_asked_for),
        cmocka_unit_test(a_plane_that_is_not_there_is_named),
        cmocka_unit_test(what_is_no_offer_is_refused),
        cmocka_unit_test(a_plane_is_one_file_and_one_line),
        cmocka_unit_test(device_memory_goes_to_planes_that_take_it_and_to_no_other),
        cmocka_unit_test(a_submitted_device_tensor_is_not_read_by_the_host),
        cmocka_unit_test(done_on_a_stream_means_in_its_order),
        cmocka_unit_test(a_plane_that_nothing_wakes_is_looked_at_as_often_as_it_asks),
        cmocka_unit_test(a_rank_that_cannot_offer_fails_all_with_its_cause),
        cmocka_unit_test(scores_are_told_the_bytes_of_the_whole_operation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
