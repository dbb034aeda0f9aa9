/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's formulas against the tcp plane's own lists of transfers: these are worked off in
 * virtual time, with a message that takes the model's alpha and t, and both must come to nearly the
 * same. It also tests which way a direct allreduce takes by the model. No socket is opened.
 */
#include "unit.h"

#include <limits.h>

#include "base/buf.h"
#include "coll/planes/tcp/tcp_op.h"
#include "coll/team/team.h"

/* A member: when its lists have got so far. */
struct member {
    struct rg_tcp_op op;
    uint64_t *sent, *came; /* by transfer: it has left, it is reduced; 0: not yet */
    size_t nsent, ncame;
    uint64_t line_ns, in_ns; /* the line out is free, that in */
    uint64_t cpu_ns;         /* the receiver is free */
};

enum { MEMBERS_MAX = 16 };

static const struct rg_model *model;
static struct member members[MEMBERS_MAX];

static uint64_t of_bytes(uint64_t nbytes, uint32_t ps)
{
    return nbytes * ps / 1000;
}

/* The transfer among a member's sends that brings its receive i: both lists name each other's
 * transfers in one order per pair. */
static bool find_send(int from, int to, size_t nth, size_t *ret_i)
{
    const struct rg_tcp_op *op = &members[from].op;

    for (size_t i = 0; i < op->nsends; i++) {
        struct rg_tcp_send send;

        op->send_step(op, i, &send);
        if (send.peer == to && send.nbytes > 0 && nth-- == 0) {
            *ret_i = i;
            return true;
        }
    }
    return false;
}

static bool step_send(int me)
{
    struct member *m = &members[me];
    struct rg_tcp_send send;
    uint64_t from = m->line_ns;

    if (m->nsent == m->op.nsends)
        return false;
    m->op.send_step(&m->op, m->nsent, &send);
    if (send.needs > m->ncame)
        return false;
    if (send.needs > 0 && m->came[send.needs - 1] > from)
        from = m->came[send.needs - 1];
    if (send.nbytes > 0)
        m->line_ns = from + of_bytes(send.nbytes, model->net.beta_ps);
    m->sent[m->nsent++] = send.nbytes > 0 ? m->line_ns : from;
    return true;
}

static bool step_recv(int me, size_t nth_of[MEMBERS_MAX])
{
    struct member *m = &members[me];
    struct rg_tcp_recv recv;
    uint64_t at = m->cpu_ns;
    size_t i = 0;

    if (m->ncame == m->op.nrecvs)
        return false;
    m->op.recv_step(&m->op, m->ncame, &recv);
    if (recv.nbytes > 0) {
        assert_true(find_send(recv.peer, me, nth_of[recv.peer], &i));
        if (i >= members[recv.peer].nsent || recv.needs > m->nsent)
            return false;
        nth_of[recv.peer]++;
        m->in_ns += of_bytes(recv.nbytes, model->net.beta_ps);
        if (members[recv.peer].sent[i] + model->net.alpha_ns > m->in_ns)
            m->in_ns = members[recv.peer].sent[i] + model->net.alpha_ns;
        at = m->in_ns > at ? m->in_ns : at;
        if (recv.needs > 0 && m->sent[recv.needs - 1] > at)
            at = m->sent[recv.needs - 1];
        if (recv.with.area)
            at += of_bytes(recv.nbytes, model->gamma_ps);
    }
    m->came[m->ncame++] = m->cpu_ns = at;
    return true;
}

static uint64_t play(const struct rg_coll *coll, enum rg_algorithm algorithm, int n)
{
    struct rg_tcp_way way = { .model = *model, .nhosts = n, .ranks_per_host = 1 };
    size_t nth_of[MEMBERS_MAX][MEMBERS_MAX] = { { 0 } };
    uint64_t last = 0;
    bool moved = true;

    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        way.wanted[kind] = algorithm;
    for (int i = 0; i < n; i++) {
        members[i] = (struct member){ 0 };
        assert_int_equal(rg_tcp_op_begin(&members[i].op, coll, 1, &way, n, i), 0);
        members[i].sent = calloc(members[i].op.nsends + 1, sizeof(uint64_t));
        members[i].came = calloc(members[i].op.nrecvs + 1, sizeof(uint64_t));
    }
    while (moved) {
        moved = false;
        for (int i = 0; i < n; i++)
            while (step_send(i) || step_recv(i, nth_of[i]))
                moved = true;
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(members[i].nsent, members[i].op.nsends);
        assert_int_equal(members[i].ncame, members[i].op.nrecvs);
        last = members[i].cpu_ns > last ? members[i].cpu_ns : last;
        last = members[i].line_ns > last ? members[i].line_ns : last;
        free(members[i].sent);
        free(members[i].came);
        rg_tcp_op_fini(&members[i].op);
    }
    return last;
}

/* Within a fifth, and a microsecond for what is rounded. */
static void compare(const struct rg_coll *coll, enum rg_algorithm algorithm, int n, size_t nbytes)
{
    struct rg_model_task task = { (enum rg_model_kind) coll->kind, n, 1, nbytes };
    uint64_t predicted = rg_model_choose(model, &task, algorithm).ns;
    uint64_t played = play(coll, algorithm, n);

    if (predicted > played + played / 5 + 1000 || played > predicted + predicted / 5 + 1000)
        fail_msg("%s by %s of %zu bytes among %d: predicted %llu ns, played %llu ns",
                 rg_model_kind_name(task.kind), rg_algorithm_name(algorithm), nbytes, n,
                 (unsigned long long) predicted, (unsigned long long) played);
}

static void compare_all(int n, size_t nbytes, char *memory)
{
    size_t counts[MEMBERS_MAX], starts[MEMBERS_MAX + 1];
    struct rg_coll coll = { .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM, .count = nbytes / 4,
                            .counts = counts, .recv_counts = counts, .in = memory, .out = memory,
                            .total = nbytes / 4, .scale = { 1.0, 1.0, 1 } };

    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        for (int a = RG_ALGORITHM_DOUBLING; a < RG_NALGORITHMS; a++) {
            size_t parts = (size_t) n * (kind == RG_MODEL_ALLTOALL ? (size_t) n : 1);

            for (int i = 0; i < n; i++)
                counts[i] = nbytes / 4 / parts;
            rg_prefix_sums(counts, n, starts);
            coll.kind = (enum rg_coll_kind) kind;
            if (rg_algorithm_does((enum rg_algorithm) a, (enum rg_model_kind) kind))
                compare(&coll, (enum rg_algorithm) a, n, nbytes);
        }
}

static void schedules_take_what_the_model_says(void **unused)
{
    /* A slow line, a long way, and one where the reduction counts. */
    static const struct rg_model models[] = {
        { .net = { .alpha_ns = 5000, .beta_ps = 8000 }, .gamma_ps = 100, .crowding_pct = 100 },
        { .net = { .alpha_ns = 1000000, .beta_ps = 800 }, .gamma_ps = 100, .crowding_pct = 100 },
        { .net = { .alpha_ns = 20000, .beta_ps = 400 }, .gamma_ps = 200, .crowding_pct = 100 },
    };
    char *memory = calloc(1, 32 << 20);

    (void) unused;
    for (size_t i = 0; i < rg_array_len(models); i++)
        for (int n = 2; n <= MEMBERS_MAX; n++)
            for (size_t nbytes = 16384; nbytes <= 32 << 20; nbytes *= 8) {
                model = &models[i];
                compare_all(n, nbytes, memory);
            }
    free(memory);
}

static void assert_printed(struct rg_tcp_way *way, const char *words)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_tcp_way_print(way, &text);
    assert_non_null(strstr(rg_buf_text(&text), words));
}

/* Leaders that share cores wake each other less by doubling; bytes count where the line is slow. */
static void hosts_that_share_cores_take_doubling(void **unused)
{
    const struct rg_config config = { .model = rg_model_assumed };
    struct rg_team team = { .size = 8, .nnodes = 8, .between = { .crowding_pct = 100 } };
    struct rg_plane_options options = { .team = &team, .config = &config,
                                        .group = { .nmembers = 8 } };
    struct rg_tcp_way way;

    (void) unused;
    rg_tcp_way_init(&way, &options);
    way.knows_rate = true;
    assert_int_equal(rg_tcp_way_direct(&way, 65536, 200000), RG_DIRECT_TWO_SHOT);
    assert_int_equal(rg_tcp_way_direct(&way, 4, 1000000), RG_DIRECT_ONE_SHOT);
    team.between.crowding_pct = 400;
    rg_tcp_way_init(&way, &options);
    assert_int_equal(rg_tcp_way_direct(&way, 65536, 200000), RG_DIRECT_TWO_SHOT);
    way.knows_rate = true;
    assert_int_equal(rg_tcp_way_direct(&way, 65536, 200000), RG_DIRECT_DOUBLING);
    /* What they have learnt may be a core's delay, not the network's. */
    way.nsurveys = 1;
    way.model.net.alpha_ns = 1000000;
    assert_int_equal(rg_tcp_way_direct(&way, 4, 200000), RG_DIRECT_DOUBLING);
    assert_int_equal(rg_tcp_way_direct(&way, 4, 2000000), RG_DIRECT_ONE_SHOT);
    way.scope = RG_SCOPE_LEADERS;
    assert_printed(&way, "goes directly: by one shot up to");
    way.round_trip_ns = 200000;
    assert_printed(&way, "goes directly: by doubling up to");
    way.crowding_pct = 100;
    assert_int_equal(rg_tcp_way_direct(&way, 4, 200000), RG_DIRECT_ONE_SHOT);
    way.crowding_pct = 400;
    way.model.net.alpha_ns = rg_model_assumed.net.alpha_ns;
    way.nsurveys = 0;
    way.given = true; /* the file says what there is */
    assert_int_equal(rg_tcp_way_direct(&way, 65536, 200000), RG_DIRECT_TWO_SHOT);
    team.between.crowding_pct = UINT_MAX;
    rg_tcp_way_init(&way, &options);
    assert_int_equal(way.crowding_pct, RG_MODEL_CROWDING_MAX_PCT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_take_what_the_model_says),
        cmocka_unit_test(hosts_that_share_cores_take_doubling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
