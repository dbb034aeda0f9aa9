/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composition over nodes. The members of the test are ranks of pretended nodes, and the plane
 * between nodes is the shm plane over memory of its own, so that only the composition is on
 * trial.
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
#include "coll/exec/exec.h"
#include "coll/planes/shm.h"
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
    return (rg_plane_shm.region_nbytes(MEMBERS_MAX) + RG_REGION_ALIGN - 1) / RG_REGION_ALIGN *
           RG_REGION_ALIGN;
}

/* One area for the leaders, one for all ranks. Bells of a group that is not a node's are not rung:
 * nobody sleeps. */
static int fake_open(const struct rg_plane_options *options, void **ret_state,
                     struct rg_error *err)
{
    static _Thread_local struct rg_team team;
    struct rg_plane_options changed = *options;
    int area = options->group.scope == RG_SCOPE_LEADERS ? 0 : 1;

    team = *options->team;
    team.bells.nmembers = 0;
    changed.team = &team;
    changed.region = between + (size_t) area * area_nbytes();
    return rg_plane_shm.open(&changed, ret_state, err);
}

static struct rg_plane_ops between_ops; /* the shm plane's, but for what main sets */
static const struct rg_plane_ops *const table[] = { &rg_plane_shm, &between_ops, NULL };
static const struct rg_plane_choice both = { table, 1 | 2, 0 };

/* ------------------------------------------------------------ a rank of a layout */

struct rank {
    struct member *member;
    struct rg_exec *exec;
    int nodes_ranks[MEMBERS_MAX], leaders[MEMBERS_MAX];
};

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
    struct rg_planes_options options = { .team = &member->team, .planes = &both };
    char *region = member->region;

    memset(rank, 0, sizeof(*rank));
    rank->member = member;
    between = region;
    region += 2 * area_nbytes();
    place(rank, layout);
    options.region = region + (size_t) layout->node[member->me] * area_nbytes();
    return rg_exec_create(&options, &rank->exec, NULL);
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
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = count, .in = me % 2 ? out : in, .out = out,
                            .scale = scale };

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

/* Of so many bytes that they go in pieces. */
static int member_allreduces_much(struct member *member)
{
    static const struct rg_scale plain = { 1.0, 1.0, 1 }, scaled = { 2.0, 0.25, 1 };
    struct rank rank;
    int result = rank_open(&rank, member) != 0 ||
                 do_allreduce(&rank, 8u << 20, scaled, 1, 0) ||
                 do_allreduce(&rank, (8u << 20) + 3, plain, -1, -1);

    rg_exec_destroy(rank.exec, 0);
    return result;
}

static int do_fused(struct rank *rank, struct rg_scale scale)
{
    struct member *member = rank->member;
    const struct layout *layout = member->arg;
    struct rg_coll colls[NFUSED];
    int result;

    for (int i = 0; i < NFUSED; i++) {
        size_t count = (size_t) (i * 40000);
        float *x = malloc(count * 4 + 4);

        for (size_t k = 0; k < count; k++)
            x[k] = value(member->me, k);
        colls[i] = (struct rg_coll){ .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32,
                                     .op = REIGEN_SUM, .count = count, .in = x, .out = x,
                                     .scale = scale };
    }
    result = rg_exec_post_fused(rank->exec, colls, NFUSED) != 0 || rank_wait(rank) != 0;
    for (int i = 0; i < NFUSED; i++) {
        result = result || check_sum(colls[i].out, colls[i].count, layout,
                                     (float) (scale.pre * scale.post), -1);
        free(colls[i].out);
    }
    return result;
}

static int member_fuses(struct member *member)
{
    static const struct rg_scale after = { 1.0, 4.0, 1 }, both_sides = { 0.5, 4.0, 1 };
    struct rank rank;
    int result = rank_open(&rank, member) != 0 || do_fused(&rank, after) ||
                 do_fused(&rank, both_sides);

    rg_exec_destroy(rank.exec, 0);
    return result;
}

/* A group of so many bytes that one tensor would go in pieces. The last rank's node has joined and
 * knows only the sum of the group's elements. */
static int member_fuses_beside_joined(struct member *member)
{
    const struct layout *layout = member->arg;
    int last = layout->node[layout->nranks - 1];
    bool joined = layout->node[member->me] == last;
    const size_t counts[2] = { 5u << 20, (3u << 20) + 1 };
    struct rg_coll colls[2];
    struct rank rank;
    int result = rank_open(&rank, member);

    for (int i = 0; i < 2; i++) {
        float *x = malloc(counts[i] * 4);

        for (size_t k = 0; k < counts[i]; k++)
            x[k] = value(member->me, k);
        colls[i] = (struct rg_coll){ .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32,
                                     .op = REIGEN_SUM, .count = counts[i], .in = x, .out = x,
                                     .scale = { 1.0, 1.0, 1 } };
    }
    struct rg_coll zeros = colls[0];

    zeros.count = counts[0] + counts[1];
    zeros.in = zeros.out = NULL;
    result = result || rg_exec_post_fused(rank.exec, joined ? &zeros : colls, joined ? 1 : 2) != 0;
    result = result || rank_wait(&rank) != 0;
    for (int i = 0; i < 2; i++) {
        const float *out = colls[i].out;

        for (size_t k = 0; k < counts[i] && !joined && !result; k += 97) {
            float sum = 0;

            for (int r = 0; r < layout->nranks; r++)
                sum += layout->node[r] == last ? 0 : value(r, k);
            result = out[k] != sum;
        }
        free(colls[i].out);
    }
    rg_exec_destroy(rank.exec, 0);
    return result;
}

static int do_broadcast(struct rank *rank, int root, size_t count)
{
    int me = rank->member->me, result;
    float *x = calloc(count + 1, 4);
    struct rg_coll coll = { .kind = RG_COLL_BROADCAST, .dtype = REIGEN_FLOAT32, .root = root,
                            .count = count, .in = me == root ? x : NULL, .out = x,
                            .scale = { 1.0, 1.0, 1 } };

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
    struct rg_coll coll = { .kind = RG_COLL_ALLGATHERV, .dtype = REIGEN_INT32, .counts = counts,
                            .in = in, .out = out, .scale = { 1.0, 1.0, 1 } };

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

    rg_scopes_describe(rg_exec_scopes(rank.exec), &text);
    result = result || !strstr(rg_buf_text(&text), "plane shm: 2 ranks of this host\n") ||
             strstr(rg_buf_text(&text), "between") || !strstr(rg_buf_text(&text), "reduction: ");
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

static void large_tensors_span_nodes_in_pieces(void **state)
{
    (void) state;
    run_layouts(member_allreduces_much);
}

static void fused_tensors_span_nodes(void **state)
{
    (void) state;
    run_layouts(member_fuses);
    /* A node of one rank leaves them where they lie. */
    between_ops.post_fused = rg_plane_shm.post_fused;
    run_layouts(member_fuses);
    between_ops.post_fused = NULL;
}

static void a_node_that_has_joined_need_not_know_what_is_fused(void **state)
{
    struct layout layouts[] = { { 3, { 0, 0, 1 } }, { 3, { 0, 1, 1 } } };

    (void) state;
    for (size_t i = 0; i < 4; i++) {
        between_ops.post_fused = i < 2 ? NULL : rg_plane_shm.post_fused;
        assert_int_equal(members_run(3, AREAS * area_nbytes(), member_fuses_beside_joined,
                                     &layouts[i % 2]), 0);
    }
    between_ops.post_fused = NULL;
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
    const struct rg_plane_choice shm = { table, 1, 0 };
    struct rg_team_peer peers[2] = { { .node = 0 }, { .node = 1 } };
    int node_ranks[] = { 0 }, leaders[] = { 0, 1 };
    struct rg_team team = { .size = 2, .nnodes = 2, .node_size = 1, .node_ranks = node_ranks,
                            .leaders = leaders, .peers = peers };
    struct rg_planes_options options = { .team = &team, .planes = &shm };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_exec *exec = NULL;

    (void) state;
    assert_int_equal(rg_exec_create(&options, &exec, &err), -EINVAL);
    assert_non_null(strstr(err.text, "REIGEN_PLANES"));
    assert_null(exec);
    rg_exec_destroy(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_spans_nodes_of_any_size),
        cmocka_unit_test(large_tensors_span_nodes_in_pieces),
        cmocka_unit_test(fused_tensors_span_nodes),
        cmocka_unit_test(a_node_that_has_joined_need_not_know_what_is_fused),
        cmocka_unit_test(broadcast_reaches_all_from_any_root),
        cmocka_unit_test(other_kinds_go_over_all_ranks),
        cmocka_unit_test(describe_names_planes_and_members),
        cmocka_unit_test(planes_that_are_not_allowed_are_refused),
    };

    between_ops = rg_plane_shm;
    between_ops.name = "between";
    between_ops.scopes = 1u << RG_SCOPE_LEADERS | 1u << RG_SCOPE_ALL;
    between_ops.region_nbytes = NULL;
    between_ops.post_fused = NULL;
    between_ops.open = fake_open;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
