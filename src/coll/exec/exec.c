/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation becomes up to three steps, each a plane's operation over one group or a local pass
 * over memory. On one node it is one step. Across nodes an allreduce is: reduce inside the node
 * into the leader's `target` (or, where a node is one rank, a local pass that gathers and scales),
 * allreduce of target among the leaders, broadcast inside the node. A node of one rank needs no
 * local pass, before or after, where there is nothing to scale before and the leaders' plane takes
 * several tensors.
 *
 * A large one is cut into pieces, and the leaders exchange one piece while their nodes reduce the
 * next one and broadcast the one before. So there are two lanes, inside and between, each with one
 * step at a time in the order of the list:
 *
 *      inside      reduce 0   reduce 1              broadcast 0   reduce 2   broadcast 1 ...
 *      between                allreduce 0 .......   allreduce 1 ...........
 */
#include "coll/exec/exec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/ground/config.h"
#include "coll/planes/common.h"
#include "coll/reduce/reduce.h"
#include "coll/team/team.h"

/* Below, a piece more costs as much as it gains. */
enum { NPIECES = 4, PIECES_FROM_NBYTES = 32 << 20 };
enum lane { LANE_INSIDE, LANE_BETWEEN, NLANES };
enum { NSTEPS_MAX = 3 * NPIECES, NKINDS = RG_COLL_REDUCESCATTERV + 1, ACTIVITY_MAX = 40 };

struct step {
    enum lane lane;
    int needs;               /* how many steps of the other lane come before */
    bool local;              /* a local pass, rg_reduce of one source, by no plane */
    struct rg_opened *wires; /* what it gathers is for this plane; NULL: it is no gathering */
    struct rg_opened *plane; /* NULL else: none takes it */
    struct rg_group *group;
    struct rg_coll *colls;   /* in exec->colls */
    int ncolls, nposted;
};

struct rg_exec {
    const struct rg_team *team;
    const struct rg_config *config; /* NULL: none, in tests */
    struct rg_scopes scopes;

    struct step steps[NSTEPS_MAX];
    int nsteps;
    int at[NLANES], ndone[NLANES]; /* by lane: the step it is at, and how many it has done */
    bool watches;        /* some plane that is wired up has a watch */
    bool active;
    bool posted[NLANES]; /* the step's plane has an operation of ours in progress */
    struct rg_coll *colls; /* of all steps, owned */
    size_t colls_capacity, ncolls;
    struct rg_store wiring;  /* counts, this member's bytes, all members' bytes */
    struct rg_store staging; /* a fused allreduce's tensors end to end */
    /* "REIGEN_SHM_ALLREDUCE"; the first is of local passes, the others by place in the table */
    char activities[1 + RG_NPLANES_MAX][NKINDS][ACTIVITY_MAX];
};

/* ------------------------------------------------------------ life */

static void name_activities(struct rg_exec *exec, int row, const char *plane)
{
    for (int kind = 0; kind < NKINDS; kind++) {
        char *name = exec->activities[row][kind];

        snprintf(name, ACTIVITY_MAX, "REIGEN_%.12s_%s", plane,
                 rg_coll_name((enum rg_coll_kind) kind));
        for (; *name; name++)
            *name = (char) toupper((unsigned char) *name);
    }
}

int rg_exec_create(const struct rg_planes_options *options, struct rg_exec **ret_exec,
                   struct rg_error *err)
{
    struct rg_exec *exec = calloc(1, sizeof(*exec));
    int r;

    if (!exec)
        return rg_error_set(err, ENOMEM, "out of memory");
    exec->team = options->team;
    exec->config = options->config;
    r = rg_scopes_open(&exec->scopes, options, err);
    if (r < 0) {
        rg_exec_destroy(exec, 0);
        return r;
    }
    name_activities(exec, 0, "local");
    for (int i = 0; exec->scopes.planes.table[i]; i++)
        name_activities(exec, i + 1, exec->scopes.planes.table[i]->name);
    *ret_exec = exec;
    return 0;
}

void rg_exec_abort(struct rg_exec *exec)
{
    struct rg_opened *plane;

    for (int i = 0; (plane = rg_scopes_next(&exec->scopes, &i));)
        plane->ops->abort(plane->state);
}

void rg_exec_destroy(struct rg_exec *exec, int timeout_ms)
{
    if (!exec)
        return;
    rg_scopes_close(&exec->scopes, timeout_ms);
    free(exec->colls);
    free(exec->staging.at);
    free(exec->wiring.at);
    free(exec);
}

void rg_exec_after_fork(struct rg_exec *exec)
{
    struct rg_opened *plane;

    for (int i = 0; (plane = rg_scopes_next(&exec->scopes, &i));)
        if (plane->ops->after_fork)
            plane->ops->after_fork(plane->state);
}

int rg_exec_wait_fds(struct rg_exec *exec, int *ret_fds, unsigned *ret_events, int max)
{
    struct rg_opened *plane;
    int n = 0;

    for (int i = 0; n < max && (plane = rg_scopes_next(&exec->scopes, &i));)
        if (plane->ops->wait_fds)
            n += plane->ops->wait_fds(plane->state, ret_fds + n, ret_events + n, max - n);
    return n;
}

int rg_exec_watch(struct rg_exec *exec, struct rg_error *err)
{
    struct rg_opened *plane;
    int r = 0;

    for (int i = 0; exec->watches && r == 0 && (plane = rg_scopes_next(&exec->scopes, &i));)
        if (plane->ops->watch)
            r = plane->ops->watch(plane->state, err);
    return r;
}

unsigned rg_exec_poll_us(struct rg_exec *exec)
{
    struct rg_opened *plane;
    unsigned least = 0;

    for (int i = 0; (plane = rg_scopes_next(&exec->scopes, &i));) {
        unsigned us = plane->ops->poll_us ? plane->ops->poll_us(plane->state) : 0;

        if (us && (!least || us < least))
            least = us;
    }
    return least;
}

struct rg_scopes *rg_exec_scopes(struct rg_exec *exec)
{
    return &exec->scopes;
}

/* ------------------------------------------------------------ the choice */

/* Elements of n operations of one kind over a group, as all members count them. */
static size_t total_count(const struct rg_coll *colls, int n, const struct rg_group *group)
{
    bool by_counts = rg_coll_has_counts(colls->kind);
    int nparts = by_counts ? group->nmembers : n;
    size_t count = 0;

    if (colls->kind == RG_COLL_ALLTOALLV)
        return colls->total;
    for (int i = 0; i < nparts; i++)
        count += by_counts ? colls->counts[i] : colls[i].count;
    return count;
}

static struct rg_plane_task task_of(const struct rg_coll *colls, int n,
                                    const struct rg_group *group)
{
    return (struct rg_plane_task){ .kind = colls->kind,
                                   .dtype = colls->dtype,
                                   .op = colls->op,
                                   .memory = colls->memory,
                                   .nbytes = total_count(colls, n, group) *
                                             rg_dtype_nbytes(colls->dtype),
                                   .group = group,
                                   .scale = rg_coll_reduces(colls->kind) ? &colls->scale : NULL };
}

bool rg_exec_takes_shortcut(struct rg_exec *exec, const struct rg_coll *coll)
{
    struct rg_scope *scope = &exec->scopes.scopes[RG_SCOPE_NODE];
    struct rg_plane_task task = task_of(coll, 1, &scope->group);
    int mine, best;

    if (!exec->scopes.shortcut || exec->team->nnodes > 1 || coll->stream)
        return false;
    mine = exec->scopes.shortcut->score(&task);
    rg_scope_best(scope, &task, false, &best);
    return mine >= 0 && mine >= best;
}

uint8_t rg_exec_direct_way(struct rg_exec *exec, const struct rg_coll *coll,
                           uint64_t round_trip_ns)
{
    struct rg_scope *scope = &exec->scopes.scopes[RG_SCOPE_LEADERS];
    struct rg_plane_task task = task_of(coll, 1, &scope->group);
    struct rg_opened *best;

    if (exec->team->nnodes == 1 || coll->stream || coll->memory != RG_MEMORY_HOST)
        return RG_DIRECT_NOT;
    best = rg_scope_best(scope, &task, false, NULL);
    return best && best->ops->advice
               ? best->ops->advice->direct_way(best->state, task.nbytes, round_trip_ns)
               : RG_DIRECT_NOT;
}

/* ------------------------------------------------------------ composition */

/* Room for the steps of n tensors. */
static int reserve(struct rg_exec *exec, size_t n)
{
    size_t wanted = n * NSTEPS_MAX;

    if (wanted > exec->colls_capacity) {
        struct rg_coll *colls = realloc(exec->colls, wanted * sizeof(*colls));

        if (!colls)
            return -ENOMEM;
        exec->colls = colls;
        exec->colls_capacity = wanted;
    }
    exec->ncolls = 0;
    exec->nsteps = 0;
    for (int lane = 0; lane < NLANES; lane++) {
        exec->at[lane] = exec->ndone[lane] = 0;
        exec->posted[lane] = false;
    }
    return 0;
}

/* Steps of this lane so far. */
static int count_steps(const struct rg_exec *exec, enum lane lane)
{
    int n = 0;

    for (int i = 0; i < exec->nsteps; i++)
        n += exec->steps[i].lane == lane;
    return n;
}

/* A step of n copies of these, after all that were added before; the caller changes them. */
static struct rg_coll *add_step(struct rg_exec *exec, enum rg_plane_scope which, bool local,
                                enum rg_coll_kind kind, const struct rg_coll *colls, int n)
{
    struct rg_scope *scope = &exec->scopes.scopes[which];
    struct step *step = &exec->steps[exec->nsteps++];
    struct rg_plane_task task;

    step->lane = which == RG_SCOPE_LEADERS ? LANE_BETWEEN : LANE_INSIDE;
    step->needs = count_steps(exec, step->lane == LANE_INSIDE ? LANE_BETWEEN : LANE_INSIDE);
    step->group = &scope->group;
    step->local = local;
    step->wires = NULL;
    step->plane = NULL;
    step->colls = exec->colls + exec->ncolls;
    step->ncolls = n;
    step->nposted = 0;
    exec->ncolls += (size_t) n;
    memcpy(step->colls, colls, (size_t) n * sizeof(*colls));
    for (int i = 0; i < n; i++)
        step->colls[i].kind = kind;
    if (local)
        return step->colls;
    task = task_of(step->colls, n, step->group);
    step->plane = rg_scope_best(scope, &task, colls->stream != NULL, NULL);
    return step->colls;
}

/* Where this rank has the data in between: its output where that will do, else the staging buffer.
 * Only leaders need any. */
static int choose_target(struct rg_exec *exec, const struct rg_coll *colls, int n,
                         char **ret_target)
{
    size_t nbytes = total_count(colls, n, NULL) * rg_dtype_nbytes(colls->dtype);
    int rc = 0;

    if (exec->team->node_rank != 0)
        *ret_target = NULL;
    else if (n == 1 && colls->out)
        *ret_target = colls->out;
    else if ((rc = rg_store_reserve(&exec->staging, nbytes)) == 0)
        *ret_target = exec->staging.at;
    return rc;
}

/* Inside the node: before the leaders (a reduce) into target, scaled; after them (a broadcast) from
 * target to where the caller wants it. */
static void allreduce_inside(struct rg_exec *exec, enum rg_coll_kind kind,
                             const struct rg_coll *colls, int n, char *target)
{
    bool local = exec->team->node_size == 1;
    struct rg_coll *step = add_step(exec, RG_SCOPE_NODE, local, kind, colls, n);

    for (int i = 0; i < n; i++) {
        step[i].root = 0;
        step[i].scale.post = 1.0;
        step[i].scale.divisor = 1;
        if (kind == RG_COLL_REDUCE) {
            step[i].out = target;
        } else {
            step[i].in = target;
            step[i].scale.pre = 1.0;
        }
        target = target ? target + colls[i].count * rg_dtype_nbytes(colls[i].dtype) : NULL;
    }
}

/* How many pieces: equal on all ranks, as it depends on nothing else. What is fused is not cut: how
 * many tensors that are, a node that has joined may not know. */
static int pieces_of(const struct rg_exec *exec, const struct rg_coll *coll, bool fused)
{
    size_t nbytes = coll->count * rg_dtype_nbytes(coll->dtype);
    bool inside = exec->team->size > exec->team->nnodes;

    return !fused && inside && nbytes >= PIECES_FROM_NBYTES ? NPIECES : 1;
}

/* Elements from this one on, and of the target. */
static struct rg_coll piece_of(const struct rg_coll *whole, int i, int npieces, char **target)
{
    size_t each = whole->count / (size_t) npieces, from = each * (size_t) i;
    size_t offset = from * rg_dtype_nbytes(whole->dtype);
    struct rg_coll piece = *whole;

    piece.count = i + 1 < npieces ? each : whole->count - from;
    piece.in = whole->in ? (const char *) whole->in + offset : NULL;
    piece.out = whole->out ? (char *) whole->out + offset : NULL;
    *target = *target ? *target + offset : NULL;
    return piece;
}

/* False: there is nothing to do before the leaders come. */
static bool reduce_inside(struct rg_exec *exec, const struct rg_coll *colls, int n, char *target)
{
    /* A factor before the reduction is always applied here, as nodes of one rank and of several
     * must agree. */
    bool needed = n > 1 || exec->team->node_size > 1 || colls->scale.pre != 1.0 || !colls->in;

    if (needed) {
        allreduce_inside(exec, RG_COLL_REDUCE, colls, n, target);
        exec->steps[exec->nsteps - 1].needs = 0;
    }
    return needed;
}

/* Among the leaders. reduced: what the node gives is in the target. */
static void exchange(struct rg_exec *exec, const struct rg_coll *colls, int n, bool reduced,
                     char *target)
{
    struct rg_coll whole = colls[0], *step;

    if (exec->team->node_rank != 0)
        return;
    whole.count = total_count(colls, n, NULL);
    step = add_step(exec, RG_SCOPE_LEADERS, false, RG_COLL_ALLREDUCE, &whole, 1);
    step->in = reduced ? target : colls->in;
    step->out = target;
    step->scale.pre = 1.0;
}

/* When so many exchanges are over. */
static void share_inside(struct rg_exec *exec, const struct rg_coll *colls, int n, char *target,
                         int nexchanged)
{
    if (exec->team->node_size == 1 && target == colls->out)
        return;
    allreduce_inside(exec, RG_COLL_BROADCAST, colls, n, target);
    exec->steps[exec->nsteps - 1].needs = exec->team->node_rank == 0 ? nexchanged : 0;
}

/* A node of one rank: its tensors go to the others as they lie, where the plane takes several. What
 * other nodes do does not matter, as all that leaders see is the sum of the counts; but a factor
 * before the reduction is applied by each node, as reduce_inside says. */
static bool exchange_in_place(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    struct rg_scope *scope = &exec->scopes.scopes[RG_SCOPE_LEADERS];
    struct rg_plane_task task;
    struct rg_opened *best;

    if (n == 1 || exec->team->node_size > 1 || colls->scale.pre != 1.0)
        return false;
    task = task_of(colls, n, &scope->group);
    best = rg_scope_best(scope, &task, false, NULL);
    if (!best || !best->ops->post_fused)
        return false;
    add_step(exec, RG_SCOPE_LEADERS, false, RG_COLL_ALLREDUCE, colls, n);
    return true;
}

static int compose_allreduce(struct rg_exec *exec, const struct rg_coll *colls, int n, bool fused)
{
    int npieces = pieces_of(exec, colls, fused);
    struct rg_coll pieces[NPIECES];
    char *target = NULL, *targets[NPIECES];
    int rc;

    if (exchange_in_place(exec, colls, n))
        return 0;
    rc = choose_target(exec, colls, n, &target);
    if (rc < 0)
        return rc;
    if (npieces == 1) {
        exchange(exec, colls, n, reduce_inside(exec, colls, n, target), target);
        share_inside(exec, colls, n, target, 1);
        return 0;
    }
    for (int i = 0; i < npieces; i++) {
        targets[i] = target;
        pieces[i] = piece_of(colls, i, npieces, &targets[i]);
        exchange(exec, &pieces[i], 1, reduce_inside(exec, &pieces[i], 1, targets[i]), targets[i]);
        /* That waits for the network: what comes next is reduced first. */
        if (i > 0)
            share_inside(exec, &pieces[i - 1], 1, targets[i - 1], i);
    }
    share_inside(exec, &pieces[npieces - 1], 1, targets[npieces - 1], npieces);
    return 0;
}

/* Inside the root's node first, among the leaders, inside the other nodes. */
static int compose_broadcast(struct rg_exec *exec, const struct rg_coll *coll)
{
    const struct rg_team *team = exec->team;
    const struct rg_team_peer *root = &team->peers[coll->root];
    bool here = root->node == team->node, spread = team->node_size > 1;
    char *target = NULL;
    struct rg_coll *step;
    int rc = choose_target(exec, coll, 1, &target);

    if (rc < 0)
        return rc;
    if (here && spread) {
        step = add_step(exec, RG_SCOPE_NODE, false, RG_COLL_BROADCAST, coll, 1);
        step->root = root->node_rank;
        step->out = team->node_rank == 0 ? target : coll->out;
    }
    if (team->node_rank == 0) {
        step = add_step(exec, RG_SCOPE_LEADERS, false, RG_COLL_BROADCAST, coll, 1);
        step->root = root->node;
        step->in = here && spread ? target : coll->in;
        step->out = target;
    }
    if (!here && spread) {
        step = add_step(exec, RG_SCOPE_NODE, false, RG_COLL_BROADCAST, coll, 1);
        step->root = 0;
        step->in = target;
    }
    return 0;
}

/* ------------------------------------------------------------ planes that are wired up late */

/* The gathering that a plane needs before its first operation. */
static int add_wiring(struct rg_exec *exec, enum rg_plane_scope which, struct rg_opened *opened,
                      const struct rg_coll *first)
{
    const struct rg_group *group = &exec->scopes.scopes[which].group;
    size_t each = opened->ops->late->nbytes, n = (size_t) group->nmembers;
    struct rg_coll gather = { .kind = RG_COLL_ALLGATHERV, .dtype = REIGEN_UINT8, .op = REIGEN_SUM,
                              .scale = { 1.0, 1.0, 1 } };
    size_t *counts;

    if (rg_store_reserve(&exec->wiring, n * sizeof(*counts) + (n + 1) * each) < 0)
        return -ENOMEM;
    counts = (size_t *) (void *) exec->wiring.at;
    for (size_t i = 0; i < n; i++)
        counts[i] = each;
    gather.counts = counts;
    gather.in = counts + n;
    gather.out = (char *) (counts + n) + each;
    opened->ops->late->offer(opened->state, first, (void *) (uintptr_t) gather.in);
    add_step(exec, which, false, RG_COLL_ALLGATHERV, &gather, 1);
    exec->steps[exec->nsteps - 1].wires = opened;
    return 0;
}

/* Where an operation on a device is done in one step. */
static enum rg_plane_scope whole(const struct rg_exec *exec)
{
    return exec->team->nnodes == 1 ? RG_SCOPE_NODE : RG_SCOPE_ALL;
}

static struct rg_opened *best_of(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    struct rg_scope *scope = &exec->scopes.scopes[whole(exec)];
    struct rg_plane_task task = task_of(colls, n, &scope->group);

    return rg_scope_best(scope, &task, colls->stream != NULL, NULL);
}

int rg_exec_wire(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    struct rg_opened *best = best_of(exec, colls, n);
    int r;

    if (!best || rg_opened_ready(best))
        return 0;
    r = reserve(exec, 1);
    if (r == 0)
        r = add_wiring(exec, whole(exec), best, colls);
    exec->active = r == 0;
    return r < 0 ? r : 1;
}

bool rg_exec_takes(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    return best_of(exec, colls, n) != NULL;
}

const char *rg_exec_refusal(const struct rg_exec *exec)
{
    return exec->scopes.scopes[whole(exec)].refusal.text;
}

/* All members have given their bytes. */
static int wire_up(struct rg_exec *exec, const struct step *step, struct rg_error *err)
{
    struct rg_opened *opened = step->wires;
    struct rg_scope *scope = &exec->scopes.scopes[step->group->scope];
    struct rg_error why = RG_ERROR_INIT;
    int r = opened->ops->late->wire(opened->state, step->colls[0].out, &why);

    opened->wired = r == 0;
    exec->watches = exec->watches || (r == 0 && opened->ops->watch);
    opened->refused = r == -ENOTSUP;
    if (r == -ENOTSUP)
        rg_error_set(&scope->refusal, ENOTSUP, "%s cannot be used: %s", opened->ops->name,
                     why.text);
    else if (r < 0 && err)
        *err = why;
    return r == -ENOTSUP ? 0 : r;
}

static int compose(struct rg_exec *exec, const struct rg_coll *colls, int n, bool fused)
{
    const struct rg_team *team = exec->team;
    enum rg_coll_kind kind = colls[0].kind;
    /* What goes through memory of the host in between must be there to begin with. */
    bool composed = colls[0].memory == RG_MEMORY_HOST && !colls[0].stream;
    int rc = reserve(exec, (size_t) n);

    if (rc == 0 && team->nnodes == 1)
        add_step(exec, RG_SCOPE_NODE, false, kind, colls, n);
    else if (rc == 0 && kind == RG_COLL_ALLREDUCE && composed)
        rc = compose_allreduce(exec, colls, n, fused);
    else if (rc == 0 && kind == RG_COLL_BROADCAST && composed)
        rc = compose_broadcast(exec, colls);
    else if (rc == 0)
        add_step(exec, RG_SCOPE_ALL, false, kind, colls, n);
    exec->active = rc == 0;
    return rc;
}

int rg_exec_post_fused(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    return compose(exec, colls, n, true);
}

int rg_exec_post(struct rg_exec *exec, const struct rg_coll *coll)
{
    return compose(exec, coll, 1, false);
}

/* ------------------------------------------------------------ progress */

static void run_local(const struct step *step)
{
    for (int i = 0; i < step->ncolls; i++) {
        const struct rg_coll *coll = &step->colls[i];

        if (coll->out)
            rg_reduce(coll->dtype, coll->op, coll->out, &coll->in, 1, coll->count, &coll->scale);
    }
}

/* All of a step's tensors at once where the plane can, else the next one. */
static int post_step(struct step *step)
{
    const struct rg_plane_ops *ops = step->plane->ops;
    bool at_once = step->ncolls > 1 && ops->post_fused;
    int rc = at_once ? ops->post_fused(step->plane->state, step->colls, step->ncolls)
                     : ops->post(step->plane->state, &step->colls[step->nposted]);

    if (rc == 0)
        step->nposted += at_once ? step->ncolls : 1;
    return rc;
}

static int refuse(const struct rg_exec *exec, const struct step *step, struct rg_error *err)
{
    const struct rg_coll *coll = &step->colls[0];
    const char *names = exec->config ? exec->config->planes : "";
    const char *refusal = coll->memory == RG_MEMORY_HOST
                              ? "" : exec->scopes.scopes[step->group->scope].refusal.text;
    bool reduces = rg_coll_reduces(coll->kind);

    return rg_error_set(err, ENOTSUP, "no plane between %d ranks can do this: %s%s%s%s of %s in %s "
                        "memory%s%s%s%s%s", step->group->nmembers, rg_coll_name(coll->kind),
                        reduces ? " (" : "", reduces ? rg_op_name(coll->op) : "",
                        reduces ? ")" : "", rg_dtype_name(coll->dtype),
                        rg_memory_name(coll->memory), coll->stream ? " on a stream" : "",
                        names[0] ? "; REIGEN_PLANES=" : "", names, refusal[0] ? "; " : "",
                        refusal);
}

/* 1 when the step is done. */
static int progress_step(struct rg_exec *exec, struct step *step, bool *ret_moved,
                         struct rg_error *err)
{
    bool moved = false;
    int rc = 0;

    if (step->local) {
        run_local(step);
        *ret_moved = true;
        return 1;
    }
    if (!step->plane)
        return refuse(exec, step, err);
    if (!exec->posted[step->lane]) {
        rc = post_step(step);
        if (rc < 0)
            return rg_error_set(err, -rc, "plane %s refused an operation: %s",
                                step->plane->ops->name, strerror(-rc));
        exec->posted[step->lane] = true;
    }
    rc = step->plane->ops->progress(step->plane->state, &moved, err);
    *ret_moved |= moved || rc == 1;
    if (rc != 1)
        return rc;
    exec->posted[step->lane] = false;
    if (step->wires) {
        rc = wire_up(exec, step, err);
        return rc < 0 ? rc : 1;
    }
    return step->nposted == step->ncolls;
}

/* The step that a lane is at; NULL: it has no more. */
static struct step *step_of(struct rg_exec *exec, enum lane lane)
{
    int *at = &exec->at[lane];

    while (*at < exec->nsteps && exec->steps[*at].lane != lane)
        ++*at;
    return *at < exec->nsteps ? &exec->steps[*at] : NULL;
}

const char *rg_exec_activity(const struct rg_exec *exec)
{
    const struct step *step;
    /* What goes between nodes takes longest. */
    enum lane lane = exec->posted[LANE_BETWEEN] ? LANE_BETWEEN : LANE_INSIDE;

    if (exec->nsteps == 0)
        return "REIGEN_LOCAL";
    step = &exec->steps[exec->posted[lane] ? exec->at[lane] : exec->nsteps - 1];
    return exec->activities[step->plane ? step->plane->number + 1 : 0][step->colls[0].kind];
}

/* As far as the lane can go now. 0, or -errno. */
static int progress_lane(struct rg_exec *exec, enum lane lane, bool *ret_moved,
                         struct rg_error *err)
{
    enum lane other = lane == LANE_INSIDE ? LANE_BETWEEN : LANE_INSIDE;
    struct step *step;

    while ((step = step_of(exec, lane)) != NULL && step->needs <= exec->ndone[other]) {
        int rc = progress_step(exec, step, ret_moved, err);

        if (rc <= 0)
            return rc;
        exec->at[lane]++;
        exec->ndone[lane]++;
    }
    return 0;
}

int rg_exec_progress(struct rg_exec *exec, bool *ret_moved, struct rg_error *err)
{
    int ndone = 0, before = -1;

    *ret_moved = false;
    /* Where one lane has gone on the other one may. */
    while (exec->active && ndone < exec->nsteps && ndone != before) {
        before = exec->ndone[LANE_INSIDE] + exec->ndone[LANE_BETWEEN];
        for (int lane = 0; lane < NLANES; lane++) {
            int rc = progress_lane(exec, (enum lane) lane, ret_moved, err);

            if (rc < 0) {
                exec->active = false;
                return rc;
            }
        }
        ndone = exec->ndone[LANE_INSIDE] + exec->ndone[LANE_BETWEEN];
    }
    if (exec->active && ndone < exec->nsteps)
        return 0;
    exec->active = false;
    return 1;
}
