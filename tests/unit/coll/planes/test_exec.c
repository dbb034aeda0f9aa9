/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composition over nodes. The members of the test are ranks of pretended nodes, and the plane
 * between nodes is the shm plane over memory of its own, under the name of the tcp plane, so that
 * only the composition is on trial.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "coll/planes/exec.h"
#include "coll/members.h"

enum { NFUSED = 5, AREAS = MEMBERS_MAX + 2 };

/* How the ranks lie on nodes. */
struct layout {
    int nranks;
    int node[MEMBERS_MAX];
};

static _Thread_local char *between; /* memory of the plane between nodes */

static size_t area_nbytes(void)
{
    return rg_plane_shm.region_nbytes(MEMBERS_MAX);
}

/* One area for the leaders, one for all ranks. Bells of a group that is not a node's are not rung:
 * nobody sleeps. */
static int fake_open(const struct rg_plane_options *options, void **ret_state,
                     struct rg_error *err)
{
    static _Thread_local struct rg_team team;
    struct rg_plane_options changed = *options;
    int area = options->group.ranks ? 0 : 1;

    team = *options->team;
    team.bells.nmembers = 0;
    changed.team = &team;
    changed.region = between + (size_t) area * area_nbytes();
    return rg_plane_shm.open(&changed, ret_state, err);
}

static int fake_score(void *state, enum rg_coll_kind kind, int dtype, size_t nbytes)
{
    return rg_plane_shm.score(state, kind, dtype, nbytes) / 10;
}

static int fake_post(void *state, const struct rg_coll *coll)
{
    return rg_plane_shm.post(state, coll);
}

static int fake_progress(void *state, bool *ret_moved, struct rg_error *err)
{
    return rg_plane_shm.progress(state, ret_moved, err);
}

static int fake_wait_fds(void *state, int *ret_fds, unsigned *ret_events, int max)
{
    return rg_plane_shm.wait_fds(state, ret_fds, ret_events, max);
}

static void fake_abort(void *state)
{
    rg_plane_shm.abort(state);
}

static void fake_close(void *state, int timeout_ms)
{
    rg_plane_shm.close(state, timeout_ms);
}

static void fake_after_fork(void *state)
{
    rg_plane_shm.after_fork(state);
}

const struct rg_plane_ops rg_plane_tcp = {
    .name = "tcp",
    .open = fake_open,
    .score = fake_score,
    .post = fake_post,
    .progress = fake_progress,
    .wait_fds = fake_wait_fds,
    .abort = fake_abort,
    .close = fake_close,
    .after_fork = fake_after_fork,
};

/* ------------------------------------------------------------ a rank of a layout */

struct rank {
    struct member *member;
    struct rg_exec *exec;
    int nodes_ranks[MEMBERS_MAX], leaders[MEMBERS_MAX];
};

static const struct rg_config CONFIG = { .planes = RG_PLANE_SHM | RG_PLANE_TCP };

static void place(struct rank *rank, const struct layout *layout)
{
    struct rg_team *team = &rank->member->team;

    team->node = layout->node[team->rank];
    team->nnodes = 0;
    team->node_size = 0;
    for (int r = 0; r < layout->nranks; r++) {
        struct rg_team_peer *peer = &rank->member->peers[r];

        peer->node = layout->node[r];
        peer->node_rank = 0;
        for (int q = 0; q < r; q++)
            peer->node_rank += layout->node[q] == layout->node[r];
        if (peer->node_rank == 0)
            rank->leaders[team->nnodes++] = r;
        if (peer->node == team->node)
            rank->nodes_ranks[team->node_size++] = r;
    }
    team->node_rank = team->peers[team->rank].node_rank;
    team->node_ranks = rank->nodes_ranks;
    team->leaders = rank->leaders;
    /* Nobody sleeps here, so all nodes may ring the same bells. */
    team->bells.me = team->node_rank;
    team->bells.nmembers = team->node_size;
}

static int rank_open(struct rank *rank, struct member *member)
{
    const struct layout *layout = member->arg;
    char *region = member->region;

    memset(rank, 0, sizeof(*rank));
    rank->member = member;
    between = region;
    region += 2 * area_nbytes();
    place(rank, layout);
    return rg_exec_create(&member->team, &CONFIG,
                          region + (size_t) layout->node[member->me] * area_nbytes(),
                          &rank->exec, NULL);
}

static int exec_progress(void *state, bool *ret_moved, struct rg_error *err)
{
    return rg_exec_progress(state, ret_moved, err);
}

/* Another node's leader does not ring here, so this never sleeps. */
static int rank_wait(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved;
    int done;

    while ((done = exec_progress(rank->exec, &moved, &err)) == 0)
        sched_yield();
    return done == 1 ? 0 : done;
}

static float value(int rank, size_t i)
{
    return (float) ((i * 7 + (size_t) rank * 3) % 11);
}

/* ------------------------------------------------------------ members */

static int check_sum(const float *out, size_t count, const struct layout *layout, float scale,
                     int without)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;

        for (int r = 0; r < layout->nranks; r++)
            sum += r == without ? 0 : value(r, i);
        if (out[i] != sum * scale)
            return 1;
    }
    return 0;
}

/* One allreduce; in place on odd ranks, without input on rank `without`, dropped by rank
 * `dropped`. */
static int do_allreduce(struct rank *rank, size_t count, struct rg_scale scale, int without,
                        int dropped)
{
    int me = rank->member->me, result;
    float *in = malloc(count * 4 + 4), *out = malloc(count * 4 + 4);
    struct rg_coll coll = { RG_COLL_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 0, count, NULL, NULL,
                            me % 2 ? out : in, out, scale };

    for (size_t i = 0; i < count; i++)
        in[i] = out[i] = value(me, i);
    if (me == without)
        coll.in = NULL;
    if (me == dropped)
        coll.out = NULL;
    result = rg_exec_post(rank->exec, &coll) != 0 || rank_wait(rank) != 0;
    if (!result && me != dropped)
        result = check_sum(out, count, rank->member->arg, (float) (scale.pre * scale.post),
                           without);
    free(in);
    free(out);
    return result;
}

static int member_allreduces(struct member *member)
{
    static const struct rg_scale plain = { 1.0, 1.0, 1 }, scaled = { 2.0, 0.25, 1 };
    struct rank rank;
    int result = rank_open(&rank, member) != 0 || do_allreduce(&rank, 0, plain, -1, -1) ||
                 do_allreduce(&rank, 1, scaled, -1, -1) ||
                 do_allreduce(&rank, 1000, plain, 0, -1) ||
                 do_allreduce(&rank, 300001, scaled, 1, 0);

    rg_exec_destroy(rank.exec, 0);
    return result;
}

static int member_fuses(struct member *member)
{
    const struct layout *layout = member->arg;
    struct rg_coll colls[NFUSED];
    struct rank rank;
    int result = rank_open(&rank, member);

    for (int i = 0; i < NFUSED; i++) {
        size_t count = (size_t) (i * 40000);
        float *x = malloc(count * 4 + 4);

        for (size_t k = 0; k < count; k++)
            x[k] = value(member->me, k);
        colls[i] = (struct rg_coll){ RG_COLL_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 0, count,
                                     NULL, NULL, x, x, { 0.5, 4.0, 1 } };
    }
    result = result || rg_exec_post_fused(rank.exec, colls, NFUSED) != 0 || rank_wait(&rank) != 0;
    for (int i = 0; i < NFUSED; i++) {
        result = result || check_sum(colls[i].out, colls[i].count, layout, 2.0f, -1);
        free(colls[i].out);
    }
    rg_exec_destroy(rank.exec, 0);
    return result;
}

static int do_broadcast(struct rank *rank, int root, size_t count)
{
    int me = rank->member->me, result;
    float *x = calloc(count + 1, 4);
    struct rg_coll coll = { RG_COLL_BROADCAST, REIGEN_FLOAT32, 0, root, count, NULL, NULL,
                            me == root ? x : NULL, x, { 1.0, 1.0, 1 } };

    for (size_t i = 0; i < count; i++)
        x[i] = me == root ? value(root, i) : -1;
    result = rg_exec_post(rank->exec, &coll) != 0 || rank_wait(rank) != 0;
    for (size_t i = 0; i < count && !result; i++)
        result = x[i] != value(root, i);
    free(x);
    return result;
}

static int member_broadcasts(struct member *member)
{
    struct rank rank;
    int result = rank_open(&rank, member);

    for (int root = 0; root < member->n; root++) {
        result = result || do_broadcast(&rank, root, 17) || do_broadcast(&rank, root, 200003) ||
                 do_broadcast(&rank, root, 0);
    }
    rg_exec_destroy(rank.exec, 0);
    return result;
}

static int member_gathers(struct member *member)
{
    size_t counts[MEMBERS_MAX], start = 0;
    int32_t in[MEMBERS_MAX * 4], out[MEMBERS_MAX * MEMBERS_MAX] = { 0 };
    struct rank rank;
    int result = rank_open(&rank, member);
    struct rg_coll coll = { RG_COLL_ALLGATHERV, REIGEN_INT32, 0, 0, 0, counts, NULL, in, out,
                            { 1.0, 1.0, 1 } };

    for (int r = 0; r < member->n; r++) {
        counts[r] = (size_t) (r % 3);
        in[r] = member->me;
    }
    result = result || rg_exec_post(rank.exec, &coll) != 0 || rank_wait(&rank) != 0;
    for (int r = 0; r < member->n; r++) {
        for (size_t i = 0; i < counts[r]; i++)
            result = result || out[start++] != r;
    }
    rg_exec_destroy(rank.exec, 0);
    return result;
}

static int member_describes(struct member *member)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rank rank;
    int result = rank_open(&rank, member);

    rg_exec_describe(rank.exec, &text);
    result = result || !strstr(rg_buf_text(&text), "plane shm: 2 ranks of this host\n") ||
             strstr(rg_buf_text(&text), "tcp") || !strstr(rg_buf_text(&text), "reduction: ");
    rg_exec_destroy(rank.exec, 0);
    return result;
}

/* ------------------------------------------------------------ tests */

static struct layout LAYOUTS[] = {
    { 1, { 0 } },          { 3, { 0, 0, 0 } },       { 2, { 0, 1 } },
    { 3, { 0, 0, 1 } },    { 4, { 0, 1, 0, 1 } },    { 5, { 0, 0, 1, 1, 2 } },
};

static void run_layouts(int (*fn)(struct member *))
{
    for (size_t i = 0; i < sizeof(LAYOUTS) / sizeof(LAYOUTS[0]); i++) {
        if (members_are_threads() && LAYOUTS[i].nranks > 3)
            continue;
        assert_int_equal(members_run(LAYOUTS[i].nranks, AREAS * area_nbytes(), fn, &LAYOUTS[i]),
                         0);
    }
}

static void allreduce_spans_nodes_of_any_size(void **state)
{
    (void) state;
    run_layouts(member_allreduces);
}

static void fused_tensors_span_nodes(void **state)
{
    (void) state;
    run_layouts(member_fuses);
}

static void broadcast_reaches_all_from_any_root(void **state)
{
    (void) state;
    run_layouts(member_broadcasts);
}

static void other_kinds_go_over_all_ranks(void **state)
{
    (void) state;
    run_layouts(member_gathers);
}

static void describe_names_planes_and_members(void **state)
{
    struct layout layout = { 2, { 0, 0 } };

    (void) state;
    assert_int_equal(members_run(2, AREAS * area_nbytes(), member_describes, &layout), 0);
}

static void planes_that_are_not_allowed_are_refused(void **state)
{
    const struct rg_config config = { .planes = RG_PLANE_SHM };
    struct rg_team_peer peers[2] = { { .node = 0 }, { .node = 1 } };
    int node_ranks[] = { 0 }, leaders[] = { 0, 1 };
    struct rg_team team = { .size = 2, .nnodes = 2, .node_size = 1, .node_ranks = node_ranks,
                            .leaders = leaders, .peers = peers };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_exec *exec = NULL;

    (void) state;
    assert_int_equal(rg_exec_create(&team, &config, NULL, &exec, &err), -EINVAL);
    assert_non_null(strstr(err.text, "REIGEN_PLANES"));
    assert_null(exec);
    rg_exec_destroy(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_spans_nodes_of_any_size),
        cmocka_unit_test(fused_tensors_span_nodes),
        cmocka_unit_test(broadcast_reaches_all_from_any_root),
        cmocka_unit_test(other_kinds_go_over_all_ranks),
        cmocka_unit_test(describe_names_planes_and_members),
        cmocka_unit_test(planes_that_are_not_allowed_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
