/* SPDX-License-Identifier: Apache-2.0 */
/* The progress engine's parts by themselves: handles, the log, blocks of memory, the variables. */
#include "unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "coll/ground/config.h"
#include "coll/ground/report.h"
#include "coll/node/runlog.h"
#include "coll/node/shared.h"
#include "coll/node/signature.h"
#include "coll/node/table.h"
#include "coll/ops/handle.h"
#include "coll/ops/op.h"

static void handles_are_never_given_out_twice(void **state)
{
    struct rg_handles handles, later;
    reigen_handle before = 0, h = 0, old[300];
    struct rg_op *op = calloc(1, sizeof(*op));

    (void) state;
    assert_non_null(op);
    atomic_store(&op->refs, 301); /* one is ours */
    rg_handles_init(&handles);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(rg_handles_add(&handles, op, i, &old[i]), 0);
        assert_int_equal(rg_handles_find(&handles, old[i])->tensor, i);
    }
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(rg_handles_add(&handles, op, 0, &h), 0);
        assert_true(h > before);
        rg_handles_remove(&handles, rg_handles_find(&handles, h));
        assert_null(rg_handles_find(&handles, h));
        before = h;
    }
    assert_int_equal(rg_handles_find(&handles, old[299])->tensor, 299);
    assert_null(rg_handles_find(&handles, 0));
    assert_null(rg_handles_find(&handles, -1));
    rg_handles_fini(&handles);
    assert_int_equal(atomic_load(&op->refs), 1);
    /* As after shutdown and init. */
    rg_handles_init(&later);
    assert_int_equal(rg_handles_add(&later, op, 0, &h), 0);
    assert_true(h > before);
    assert_null(rg_handles_find(&later, old[0]));
    rg_handles_fini(&later); /* with the last reference */
}

/* A view of node rank `me` of n. */
static void open_view(struct rg_view *view, void *memory, struct rg_team *team, int *ranks, int me,
                      int n)
{
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    *team = (struct rg_team){ .rank = me, .size = n, .node_rank = me, .node_size = n,
                              .node_ranks = ranks, .nnodes = 1 };
    assert_int_equal(rg_view_open(view, memory, team), 0);
}

/* A page that nobody may read kills the rank in the midst of it, as SIGKILL might. */
static void a_rank_that_dies_while_it_ends_all_hinders_nobody(void **state)
{
    size_t nbytes = rg_view_nbytes(2);
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const char *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rg_view view;
    struct rg_team team;
    int ranks[2], status = 0;
    pid_t pid;

    (void) state;
    assert_true(memory != MAP_FAILED && unreadable != MAP_FAILED);
    open_view(&view, memory, &team, ranks, 0, 2);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        open_view(&view, memory, &team, ranks, 1, 2);
        rg_view_abort(&view, EIO, 0, unreadable);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(rg_view_aborted(&view), 0);
    assert_true(rg_view_abort(&view, ECONNRESET, 1, "rank 1 died"));
    assert_int_equal(rg_view_aborted(&view), ECONNRESET);
    assert_int_equal(rg_view_abort_rank(&view), 1);
    assert_string_equal(rg_view_abort_text(&view), "rank 1 died");
    assert_true(atomic_load(&view.shared->attention) & RG_ATTENTION_ABORTED);
    /* The first cause stands. */
    assert_false(rg_view_abort(&view, EIO, -1, "another"));
    assert_int_equal(rg_view_aborted(&view), ECONNRESET);
    assert_string_equal(rg_view_abort_text(&view), "rank 1 died");
    munmap(memory, nbytes);
}

static uint64_t slowest_of(void *arg)
{
    return *(uint64_t *) arg;
}

static uint64_t far_ahead(void *arg)
{
    (void) arg;
    return UINT64_MAX - 1;
}

static void the_log_goes_round_and_keeps_its_order(void **state)
{
    void *memory = calloc(1, rg_runlog_nbytes());
    struct rg_runlog log;
    struct rg_run_item item;
    uint64_t read = 0;

    (void) state;
    assert_non_null(memory);
    rg_runlog_open(&log, memory);
    assert_false(rg_runlog_read(&log, 0, &item));
    for (uint32_t i = 0; i < 3 * RG_RUNLOG_SLOTS; i++) {
        struct rg_run_item two[] = { { 2 * i, 0, i }, { 2 * i + 1, RG_RUN_MORE, i } };

        assert_int_equal(rg_runlog_append(&log, two, 2, i % 2 ? slowest_of : far_ahead, &read), 0);
        for (uint32_t k = 0; k < 2; k++) {
            assert_true(rg_runlog_read(&log, read, &item));
            assert_int_equal(item.id, 2 * i + k);
            read++;
        }
        assert_false(rg_runlog_read(&log, read, &item));
    }
    free(memory);
}

static void a_closed_log_takes_nothing_and_ends(void **state)
{
    void *memory = calloc(1, rg_runlog_nbytes());
    struct rg_runlog log;
    struct rg_run_item item = { 7, 0, 1 };
    uint64_t read = 0;

    (void) state;
    rg_runlog_open(&log, memory);
    assert_int_equal(rg_runlog_append(&log, &item, 1, slowest_of, &read), 0);
    assert_false(rg_runlog_ended(&log, 0));
    rg_runlog_close(&log);
    assert_int_equal(rg_runlog_append(&log, &item, 1, slowest_of, &read), -ECANCELED);
    assert_false(rg_runlog_ended(&log, 0));
    assert_true(rg_runlog_read(&log, 0, &item));
    assert_true(rg_runlog_ended(&log, 1));
    free(memory);
}

static void blocks_come_back_and_do_not_overlap(void **state)
{
    enum { NBYTES = 1 << 20, N = 60 };
    char *base = calloc(1, NBYTES);
    struct rg_pool pool = { .used = 64, .capacity = NBYTES };
    uint64_t at[N], used;

    (void) state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            uint64_t nbytes = (uint64_t) (i * i + 1);

            assert_int_equal(rg_pool_take(&pool, base, nbytes, &at[i]), 0);
            assert_true(at[i] % 64 == 0 && at[i] + nbytes <= NBYTES);
            for (int k = 0; k < i; k++)
                assert_true(at[k] + (uint64_t) (k * k + 1) <= at[i] || at[i] + nbytes <= at[k]);
        }
        for (int i = 0; i < N; i++)
            rg_pool_give(&pool, base, at[i], (uint64_t) (i * i + 1));
        if (round == 0)
            used = pool.used;
        assert_int_equal(pool.used, used);
    }
    assert_int_equal(rg_pool_take(&pool, base, NBYTES, &at[0]), -ENOMEM);
    free(base);
}

static void variables_are_read_with_reigens_spelling_first(void **state)
{
    struct rg_config config;

    (void) state;
    assert_int_equal(rg_config_read(&config, NULL), 0);
    assert_int_equal(config.stall_ms, 6000);
    assert_int_equal(config.start_timeout_ms, 300000);
    assert_int_equal(config.fusion_nbytes, 128 << 20);
    assert_string_equal(config.planes, "");
    assert_int_equal(config.algorithms[RG_MODEL_ALLREDUCE], RG_ALGORITHM_AUTO);
    assert_false(config.model_given);
    setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "60", 1);
    assert_int_equal(rg_config_read(&config, NULL), 0);
    assert_int_equal(config.stall_ms, 60000);
    setenv("REIGEN_STALL_SECONDS", "3", 1);
    setenv("REIGEN_PLANES", "tcp", 1);
    assert_int_equal(rg_config_read(&config, NULL), 0);
    assert_int_equal(config.stall_ms, 3000);
    assert_string_equal(config.planes, "tcp");
    setenv("HOROVOD_STALL_CHECK_DISABLE", "1", 1);
    assert_int_equal(rg_config_read(&config, NULL), 0);
    assert_int_equal(config.stall_ms, 0);
    unsetenv("HOROVOD_STALL_CHECK_TIME_SECONDS");
    unsetenv("REIGEN_STALL_SECONDS");
    unsetenv("REIGEN_PLANES");
    unsetenv("HOROVOD_STALL_CHECK_DISABLE");
}

static void broken_variables_are_named(void **state)
{
    static const char *const broken[][2] = {
        { "REIGEN_CACHE_CAPACITY", "many" },
        { "REIGEN_CACHE_CAPACITY", "-1" },   { "HOROVOD_FUSION_THRESHOLD", "1e9" },
        { "REIGEN_STALL_SECONDS", "soon" },  { "REIGEN_SPIN_US", "-2" },
        { "REIGEN_MASTER_PORT", "65536" },   { "HOROVOD_LOG_LEVEL", "loud" },
        { "REIGEN_SILENCE_SECONDS", "2" },   { "REIGEN_SILENCE_SECONDS", "long" },
        { "REIGEN_ALGORITHM", "quick" },     { "REIGEN_ALGORITHM", "broadcast=ring" },
        { "REIGEN_MODEL", "/no/such/file" }, { "REIGEN_TREE_DEGREE", "1" },
        { "REIGEN_SOCKETS_PER_PAIR", "0" },  { "REIGEN_SOCKETS_PER_PAIR", "9" },
        { "REIGEN_SOCKETS_PER_PAIR", "all" }, { "REIGEN_TCP_CONGESTION", "vegas" },
        { "REIGEN_INSECURE", "yes" },        { "HOROVOD_STALL_CHECK_DISABLE", "2" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(broken); i++) {
        struct rg_config config = { .cache_capacity = -7 };
        struct rg_error err = RG_ERROR_INIT;

        setenv(broken[i][0], broken[i][1], 1);
        assert_int_equal(rg_config_read(&config, &err), -EINVAL);
        assert_contains(err.text, broken[i][0]);
        assert_contains(err.text, broken[i][1]);
        assert_int_equal(config.cache_capacity, -7);
        unsetenv(broken[i][0]);
    }
}

static void times_in_the_log_say_their_zone(void **state)
{
    int fds[2], before = dup(2), used = 0, n[7];
    char got[160] = "";

    (void) state;
    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], 2);
    rg_report_open(0, RG_LOG_INFO, true);
    rg_report(RG_LOG_INFO, "hello");
    rg_report_open(0, RG_LOG_ERROR, false);
    dup2(before, 2);
    assert_true(read(fds[0], got, sizeof(got) - 1) > 0);
    assert_int_equal(sscanf(got, "[%d-%d-%dT%d:%d:%d.%dZ] %n", &n[0], &n[1], &n[2], &n[3], &n[4],
                            &n[5], &n[6], &used), 7);
    assert_true(used > 0 && strstr(got + used, "hello"));
    close(before), close(fds[0]), close(fds[1]);
}

/* ------------------------------------------------------------ what is granted */

/* Two ranks of a node. */
struct node {
    void *memory;
    size_t nbytes;
    struct rg_team teams[2];
    int ranks[2][2];
    struct rg_view views[2];
    struct rg_table tables[2];
    struct rg_signature sig;
};

static enum rg_entry_mode choose_if_granted(void *arg, const struct rg_notice *notice)
{
    (void) arg, (void) notice;
    return RG_ENTRY_IF_GRANTED;
}

static void open_node(struct node *node)
{
    *node = (struct node){ .nbytes = rg_view_nbytes(2),
                           .sig = { .kind = REIGEN_ALLREDUCE, .dtype = REIGEN_FLOAT32, .ndim = 1,
                                    .prescale = 1.0, .postscale = 1.0, .shape = { 131072 } } };
    node->memory = mmap(NULL, node->nbytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(node->memory, MAP_FAILED);
    for (int r = 0; r < 2; r++) {
        open_view(&node->views[r], node->memory, &node->teams[r], node->ranks[r], r, 2);
        node->tables[r] = (struct rg_table){ .view = &node->views[r],
                                             .choose = choose_if_granted, .capacity = 64,
                                             .sweep_at = 64 };
    }
}

static void close_node(struct node *node)
{
    for (int r = 0; r < 2; r++)
        rg_table_fini(&node->tables[r]);
    munmap(node->memory, node->nbytes);
}

/* The rank announces its next epoch of this name, and finishes the one before. */
static struct rg_record *announce_group(struct node *node, int r, const char *key,
                                        const struct rg_signature *sigs, int n)
{
    struct rg_notice notice = { sigs, n, rg_signatures_digest(sigs, n),
                                rg_signature_nbytes(sigs) };
    struct rg_record *record = NULL;
    uint64_t epoch = 0;
    bool hit;

    assert_int_equal(rg_table_record(&node->tables[r], key, &record), 0);
    assert_int_equal(rg_table_announce(&node->tables[r], record, &notice, &epoch, &hit), 0);
    atomic_store(&record->place->done, epoch - 1);
    return record;
}

static struct rg_record *announce(struct node *node, int r, const char *key)
{
    return announce_group(node, r, key, &node->sig, 1);
}

/* Both do, rank r first: the mode that they have in common. */
static int both(struct node *node, int r, const char *key)
{
    struct rg_record *first = announce(node, r, key), *second = announce(node, 1 - r, key);

    assert_int_equal(first->mode, second->mode);
    assert_int_equal(first->slot, second->slot);
    assert_true(first->mode == RG_ENTRY_STREAM || first->slot > 0);
    return first->mode;
}

static void what_is_granted_changes_for_all_ranks_at_one_epoch(void **state)
{
    struct node node;
    struct rg_record *record;

    (void) state;
    open_node(&node);
    assert_int_equal(both(&node, 0, "a"), RG_ENTRY_STREAM);
    record = announce(&node, 0, "a");
    assert_int_equal(announce(&node, 1, "a")->mode, RG_ENTRY_STREAM);
    assert_int_equal(rg_table_grant(&node.views[0], record->id), 0);
    assert_int_equal(both(&node, 1, "a"), RG_ENTRY_DIRECT);
    assert_int_equal(both(&node, 0, "a"), RG_ENTRY_DIRECT);
    /* Too late for who has announced: all wait for the epoch after. */
    assert_int_equal(both(&node, 0, "b"), RG_ENTRY_STREAM);
    record = announce(&node, 0, "b");
    assert_int_equal(rg_table_grant(&node.views[0], record->id), 0);
    assert_int_equal(announce(&node, 1, "b")->mode, RG_ENTRY_STREAM);
    assert_int_equal(both(&node, 1, "b"), RG_ENTRY_DIRECT);
    /* It was granted to this signature. */
    record = announce(&node, 0, "c");
    announce(&node, 1, "c");
    assert_int_equal(rg_table_grant(&node.views[0], record->id), 0);
    node.sig.shape[0]--;
    assert_int_equal(both(&node, 0, "c"), RG_ENTRY_STREAM);
    close_node(&node);
}

static void what_finds_no_room_for_slots_stays_a_stream(void **state)
{
    struct node node;
    int ndirect = 0, nmore = 0;

    (void) state;
    open_node(&node);
    for (int i = 0; i < 40; i++) {
        char key[16];

        snprintf(key, sizeof(key), "%d", i);
        both(&node, 0, key);
        assert_int_equal(rg_table_grant(&node.views[0], announce(&node, 0, key)->id), 0);
        announce(&node, 1, key);
        nmore += both(&node, 1, key) == RG_ENTRY_DIRECT && i > ndirect;
        ndirect += both(&node, 1, key) == RG_ENTRY_DIRECT;
    }
    assert_in_range(ndirect, 20, 32);
    assert_int_equal(nmore, 0);
    close_node(&node);
}

/* Both announce at once, as they did before: each has marked its place when the first one looks. */
static void a_group_that_was_adopted_gets_its_members_again(void **state)
{
    struct node node;
    struct rg_signature sigs[2];
    struct rg_record *record[2];
    struct rg_entry *entry;
    uint64_t epoch;
    uint32_t id;

    (void) state;
    open_node(&node);
    sigs[0] = sigs[1] = node.sig;
    for (int i = 0; i < 2; i++)
        sigs[i].group_size = 2, sigs[i].group_count = 2 * 131072;
    for (int r = 0; r < 2; r++)
        record[r] = announce_group(&node, r, "a", sigs, 2);
    entry = record[0]->entry;
    assert_true(entry->members > 0);
    assert_int_equal(rg_table_adopt(&node.tables[0], "a", sigs, &id, &epoch), 0);
    assert_int_equal(entry->members, 0);
    rg_table_release(&node.views[0], id);
    rg_table_level(&node.views[0]);
    atomic_fetch_add(&record[1]->place->posted, 1);
    announce_group(&node, 0, "a", sigs, 2);
    atomic_fetch_sub(&record[1]->place->posted, 1);
    announce_group(&node, 1, "a", sigs, 2);
    assert_true(entry->members > 0);
    assert_int_equal(record[0]->version, record[1]->version);
    assert_true(record[0]->version > 0);
    close_node(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_was_adopted_gets_its_members_again),
        cmocka_unit_test(what_is_granted_changes_for_all_ranks_at_one_epoch),
        cmocka_unit_test(what_finds_no_room_for_slots_stays_a_stream),
        cmocka_unit_test(handles_are_never_given_out_twice),
        cmocka_unit_test(a_rank_that_dies_while_it_ends_all_hinders_nobody),
        cmocka_unit_test(the_log_goes_round_and_keeps_its_order),
        cmocka_unit_test(a_closed_log_takes_nothing_and_ends),
        cmocka_unit_test(blocks_come_back_and_do_not_overlap),
        cmocka_unit_test(variables_are_read_with_reigens_spelling_first),
        cmocka_unit_test(broken_variables_are_named),
        cmocka_unit_test(times_in_the_log_say_their_zone),
    };

    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
