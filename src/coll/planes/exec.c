/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation becomes up to three steps, each a plane's operation over one group or a local pass
 * over memory. On one node it is one step. Across nodes an allreduce is: reduce inside the node
 * into the leader's `target` (or, where a node is one rank, a local pass that gathers and scales),
 * allreduce of target among the leaders, broadcast inside the node.
 */
#include "coll/planes/exec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "coll/planes/planes.h"
#include "coll/reduce/reduce.h"

enum { NSTEPS_MAX = 3 };

struct opened {
    const struct rg_plane_ops *ops; /* NULL: not open */
    void *state;
};

struct step {
    struct opened *plane;  /* NULL: a local pass, rg_reduce of one source */
    struct rg_coll *colls; /* in exec->colls */
    int ncolls, nposted;
};

struct rg_exec {
    struct rg_team *team;
    struct opened planes[RG_NSCOPES][RG_NPLANES];

    struct step steps[NSTEPS_MAX];
    int nsteps, at;
    bool active, posted; /* posted: the step's plane has an operation of ours in progress */
    struct rg_coll *colls; /* of all steps, owned */
    size_t colls_capacity, ncolls;
    char *staging;         /* owned; a fused allreduce's tensors end to end */
    size_t staging_nbytes;
};

size_t rg_exec_region_nbytes(int node_size)
{
    return rg_plane_shm.region_nbytes(node_size);
}

/* ------------------------------------------------------------ life */

/* The group of a scope, as this rank sees it; one without it is not a member. */
static bool scope_group(const struct rg_team *team, enum rg_plane_scope scope,
                        struct rg_group *ret_group)
{
    switch (scope) {
    case RG_SCOPE_NODE:
        *ret_group = (struct rg_group){ team->node_ranks, team->node_size, team->node_rank };
        return team->node_size > 1 || team->nnodes == 1;
    case RG_SCOPE_LEADERS:
        *ret_group = (struct rg_group){ team->leaders, team->nnodes, team->node };
        return team->nnodes > 1 && team->node_rank == 0;
    default:
        *ret_group = (struct rg_group){ NULL, team->size, team->rank };
        return team->nnodes > 1;
    }
}

static int open_scope(struct rg_exec *exec, enum rg_plane_scope scope,
                      const struct rg_config *config, void *region, struct rg_error *err)
{
    struct rg_plane_options options = { .team = exec->team, .config = config };
    bool any = false;

    if (!scope_group(exec->team, scope, &options.group))
        return 0;
    for (int i = 0; i < RG_NPLANES; i++) {
        const struct rg_plane_entry *entry = &rg_planes[i];
        struct opened *opened = &exec->planes[scope][i];
        int rc;

        if (!(entry->scopes & 1u << scope) ||
            (options.group.nmembers > 1 && !(config->planes & entry->flag)))
            continue;
        options.region = entry->ops == &rg_plane_shm ? region : NULL;
        rc = entry->ops->open(&options, &opened->state, err);
        if (rc == -ENOTSUP)
            continue;
        if (rc < 0)
            return rc;
        opened->ops = entry->ops;
        any = true;
    }
    return any ? 0
               : rg_error_set(err, EINVAL, "REIGEN_PLANES allows no plane between %d %s%s%s",
                              options.group.nmembers,
                              scope == RG_SCOPE_NODE ? "ranks of one host" : "hosts",
                              exec->team->mpi_remark[0] ? "; mpi cannot be used: " : "",
                              exec->team->mpi_remark);
}

int rg_exec_create(struct rg_team *team, const struct rg_config *config, void *region,
                   struct rg_exec **ret_exec, struct rg_error *err)
{
    struct rg_exec *exec = calloc(1, sizeof(*exec));

    if (!exec)
        return rg_error_set(err, ENOMEM, "out of memory");
    exec->team = team;
    for (int scope = 0; scope < RG_NSCOPES; scope++) {
        int rc = open_scope(exec, (enum rg_plane_scope) scope, config, region, err);

        if (rc < 0) {
            rg_exec_destroy(exec, 0);
            return rc;
        }
    }
    *ret_exec = exec;
    return 0;
}

/* Iterates over the open planes: NULL at the end. */
static struct opened *next_plane(struct rg_exec *exec, int *index)
{
    while (*index < RG_NSCOPES * RG_NPLANES) {
        struct opened *opened = &exec->planes[*index / RG_NPLANES][*index % RG_NPLANES];

        ++*index;
        if (opened->ops)
            return opened;
    }
    return NULL;
}

void rg_exec_abort(struct rg_exec *exec)
{
    struct opened *plane;

    for (int i = 0; (plane = next_plane(exec, &i));)
        plane->ops->abort(plane->state);
}

void rg_exec_destroy(struct rg_exec *exec, int timeout_ms)
{
    struct opened *plane;

    if (!exec)
        return;
    for (int i = 0; (plane = next_plane(exec, &i));)
        plane->ops->close(plane->state, timeout_ms);
    free(exec->colls);
    free(exec->staging);
    free(exec);
}

void rg_exec_after_fork(struct rg_exec *exec)
{
    struct opened *plane;

    for (int i = 0; (plane = next_plane(exec, &i));)
        plane->ops->after_fork(plane->state);
}

int rg_exec_wait_fds(struct rg_exec *exec, int *ret_fds, unsigned *ret_events, int max)
{
    struct opened *plane;
    int n = 0;

    for (int i = 0; n < max && (plane = next_plane(exec, &i));)
        n += plane->ops->wait_fds(plane->state, ret_fds + n, ret_events + n, max - n);
    return n;
}

unsigned rg_exec_poll_us(struct rg_exec *exec)
{
    struct opened *plane;
    unsigned least = 0;

    for (int i = 0; (plane = next_plane(exec, &i));) {
        unsigned us = plane->ops->poll_us ? plane->ops->poll_us(plane->state) : 0;

        if (us && (!least || us < least))
            least = us;
    }
    return least;
}

unsigned rg_exec_planes(const struct rg_exec *exec)
{
    struct rg_group group;
    unsigned found = 0;

    for (int scope = 0; scope < RG_NSCOPES; scope++) {
        for (int i = 0; i < RG_NPLANES; i++) {
            if (exec->planes[scope][i].ops &&
                scope_group(exec->team, (enum rg_plane_scope) scope, &group))
                found |= rg_planes[i].flag;
        }
    }
    return found;
}

void rg_exec_describe(const struct rg_exec *exec, struct rg_buf *text)
{
    static const char *const members[RG_NSCOPES] = { "ranks of this host", "hosts", "ranks" };

    for (int scope = 0; scope < RG_NSCOPES; scope++) {
        for (int i = 0; i < RG_NPLANES; i++) {
            struct rg_group group = { NULL, 0, 0 };

            if (exec->planes[scope][i].ops &&
                scope_group(exec->team, (enum rg_plane_scope) scope, &group))
                rg_buf_printf(text, "plane %s: %d %s\n", rg_planes[i].ops->name, group.nmembers,
                              members[scope]);
        }
    }
    rg_buf_printf(text, "reduction: %s\n", rg_reduce_variant());
}

/* ------------------------------------------------------------ the score table */

enum { SCORES_MAX = 128 };

/* "shm 100, tcp 10": the scores of a group's planes, the chosen one first. */
static void format_scores(const struct rg_exec *exec, enum rg_plane_scope scope,
                          enum rg_coll_kind kind, int dtype, size_t nbytes, char text[SCORES_MAX])
{
    bool taken[RG_NPLANES] = { false };
    size_t used = 0;

    for (int n = 0; n < RG_NPLANES; n++) {
        int best = -1, best_score = -1;

        for (int i = 0; i < RG_NPLANES; i++) {
            const struct opened *opened = &exec->planes[scope][i];
            int score = opened->ops && !taken[i]
                            ? opened->ops->score(opened->state, kind, dtype, nbytes) : -1;

            if (score > best_score) {
                best = i;
                best_score = score;
            }
        }
        if (best < 0)
            break;
        taken[best] = true;
        used += (size_t) snprintf(text + used, SCORES_MAX - used, "%s%s %d", used ? ", " : "",
                                  rg_planes[best].ops->name, best_score);
        if (used >= SCORES_MAX)
            break;
    }
    if (!used)
        snprintf(text, SCORES_MAX, "none");
}

/* One row where type and size do not matter, else one for each of both that differs from the row
 * before it. */
static void print_kind(const struct rg_exec *exec, enum rg_plane_scope scope, const char *group,
                       enum rg_coll_kind kind, struct rg_buf *text)
{
    static const char *const names[] = { "allreduce", "reduce", "broadcast", "allgather",
                                         "alltoall", "reducescatter" };
    static const size_t sizes[] = { 4, 4u << 10, 64u << 10, 1u << 20, 64u << 20 };
    char scores[SCORES_MAX], first[SCORES_MAX] = "", last[SCORES_MAX] = "";
    bool alike = true;

    for (int pass = 0; pass < (alike ? 1 : 2); pass++)
        for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++)
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                format_scores(exec, scope, kind, dtype, sizes[s], scores);
                if (!first[0])
                    strcpy(first, scores);
                alike = alike && strcmp(first, scores) == 0;
                if (pass == 1 && (s == 0 || strcmp(last, scores) != 0))
                    rg_buf_printf(text, "%-20s %-14s %-9s %-7s %8zu  %s\n", group, names[kind],
                                  rg_dtype_name(dtype), "host", sizes[s], scores);
                strcpy(last, scores);
            }
    if (alike)
        rg_buf_printf(text, "%-20s %-14s %-9s %-7s %8s  %s\n", group, names[kind], "any", "host",
                      "any", first);
}

void rg_exec_scores(const struct rg_exec *exec, struct rg_buf *text)
{
    static const char *const groups[RG_NSCOPES] = { "ranks of one host", "one rank per host",
                                                    "all ranks" };
    struct rg_group group;

    rg_buf_printf(text, "%-20s %-14s %-9s %-7s %8s  %s\n", "among", "operation", "type", "memory",
                  "bytes", "planes by score, the first is taken");
    for (int scope = 0; scope < RG_NSCOPES; scope++) {
        if (!scope_group(exec->team, (enum rg_plane_scope) scope, &group))
            continue;
        for (int kind = RG_COLL_ALLREDUCE; kind <= RG_COLL_REDUCESCATTERV; kind++)
            print_kind(exec, (enum rg_plane_scope) scope, groups[scope], (enum rg_coll_kind) kind,
                       text);
    }
}

/* ------------------------------------------------------------ composition */

static struct opened *best_plane(struct rg_exec *exec, enum rg_plane_scope scope,
                                 const struct rg_coll *coll)
{
    size_t nbytes = coll->count * rg_dtype_nbytes(coll->dtype);
    struct opened *best = NULL;
    int best_score = -1;

    for (int i = 0; i < RG_NPLANES; i++) {
        struct opened *opened = &exec->planes[scope][i];
        int score = opened->ops
                        ? opened->ops->score(opened->state, coll->kind, coll->dtype, nbytes)
                        : -1;

        if (score > best_score) {
            best = opened;
            best_score = score;
        }
    }
    return best;
}

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
    exec->at = 0;
    exec->posted = false;
    return 0;
}

/* Memory for the tensors end to end; a buffer grown for one great operation is kept for the
 * next. */
static int reserve_staging(struct rg_exec *exec, size_t nbytes)
{
    if (nbytes > exec->staging_nbytes) {
        char *staging = malloc(nbytes);

        if (!staging)
            return -ENOMEM;
        free(exec->staging);
        exec->staging = staging;
        exec->staging_nbytes = nbytes;
    }
    return 0;
}

/* A step of n copies of these; the caller changes them. */
static struct rg_coll *add_step(struct rg_exec *exec, enum rg_plane_scope scope, bool local,
                                enum rg_coll_kind kind, const struct rg_coll *colls, int n)
{
    struct step *step = &exec->steps[exec->nsteps++];

    step->colls = exec->colls + exec->ncolls;
    step->ncolls = n;
    step->nposted = 0;
    exec->ncolls += (size_t) n;
    memcpy(step->colls, colls, (size_t) n * sizeof(*colls));
    for (int i = 0; i < n; i++)
        step->colls[i].kind = kind;
    step->plane = local ? NULL : best_plane(exec, scope, &step->colls[0]);
    return step->colls;
}

static size_t coll_nbytes(const struct rg_coll *coll)
{
    return coll->count * rg_dtype_nbytes(coll->dtype);
}

static size_t total_count(const struct rg_coll *colls, int n)
{
    size_t count = 0;

    for (int i = 0; i < n; i++)
        count += colls[i].count;
    return count;
}

/* Where this rank has the data in between: its output where that will do, else the staging buffer.
 * Only leaders need any. */
static int choose_target(struct rg_exec *exec, const struct rg_coll *colls, int n,
                         char **ret_target)
{
    size_t nbytes = total_count(colls, n) * rg_dtype_nbytes(colls->dtype);
    int rc = 0;

    if (exec->team->node_rank != 0)
        *ret_target = NULL;
    else if (n == 1 && colls->out)
        *ret_target = colls->out;
    else if ((rc = reserve_staging(exec, nbytes)) == 0)
        *ret_target = exec->staging;
    return rc;
}

/* Before the leaders: into target, scaled. */
static void allreduce_gather(struct rg_exec *exec, const struct rg_coll *colls, int n,
                             char *target)
{
    bool local = exec->team->node_size == 1;
    struct rg_coll *step = add_step(exec, RG_SCOPE_NODE, local, RG_COLL_REDUCE, colls, n);

    for (int i = 0; i < n; i++) {
        step[i].root = 0;
        step[i].out = target;
        step[i].scale.post = 1.0;
        step[i].scale.divisor = 1;
        target = target ? target + coll_nbytes(&colls[i]) : NULL;
    }
}

/* After the leaders: from target to where the caller wants it. */
static void allreduce_scatter(struct rg_exec *exec, const struct rg_coll *colls, int n,
                              char *target)
{
    bool local = exec->team->node_size == 1;
    struct rg_coll *step;

    if (local && target == colls->out)
        return;
    step = add_step(exec, RG_SCOPE_NODE, local, RG_COLL_BROADCAST, colls, n);
    for (int i = 0; i < n; i++) {
        step[i].root = 0;
        step[i].in = target;
        step[i].scale = (struct rg_scale){ 1.0, 1.0, 1 };
        target = target ? target + coll_nbytes(&colls[i]) : NULL;
    }
}

static int compose_allreduce(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    const struct rg_team *team = exec->team;
    char *target = NULL;
    int rc = choose_target(exec, colls, n, &target);

    if (rc < 0)
        return rc;
    /* A factor before the reduction is always applied here, as nodes of one rank and of several
     * must agree. */
    if (n > 1 || team->node_size > 1 || colls->scale.pre != 1.0 || !colls->in)
        allreduce_gather(exec, colls, n, target);
    if (team->node_rank == 0) {
        struct rg_coll whole = colls[0], *step;

        whole.count = total_count(colls, n);
        step = add_step(exec, RG_SCOPE_LEADERS, false, RG_COLL_ALLREDUCE, &whole, 1);
        step->in = exec->nsteps == 1 ? colls->in : target;
        step->out = target;
        step->scale.pre = 1.0;
    }
    allreduce_scatter(exec, colls, n, target);
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

int rg_exec_post_fused(struct rg_exec *exec, const struct rg_coll *colls, int n)
{
    const struct rg_team *team = exec->team;
    enum rg_coll_kind kind = colls[0].kind;
    int rc = reserve(exec, (size_t) n);

    if (rc == 0 && team->nnodes == 1)
        add_step(exec, RG_SCOPE_NODE, false, kind, colls, n);
    else if (rc == 0 && kind == RG_COLL_ALLREDUCE)
        rc = compose_allreduce(exec, colls, n);
    else if (rc == 0 && kind == RG_COLL_BROADCAST)
        rc = compose_broadcast(exec, colls);
    else if (rc == 0)
        add_step(exec, RG_SCOPE_ALL, false, kind, colls, n);
    exec->active = rc == 0;
    return rc;
}

int rg_exec_post(struct rg_exec *exec, const struct rg_coll *coll)
{
    return rg_exec_post_fused(exec, coll, 1);
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

/* 1 when the step is done. */
static int progress_step(struct rg_exec *exec, struct step *step, bool *ret_moved,
                         struct rg_error *err)
{
    bool moved = false;
    int rc = 0;

    if (!step->plane) {
        run_local(step);
        *ret_moved = true;
        return 1;
    }
    if (!exec->posted) {
        rc = post_step(step);
        if (rc < 0)
            return rg_error_set(err, -rc, "plane %s refused an operation: %s",
                                step->plane->ops->name, strerror(-rc));
        exec->posted = true;
    }
    rc = step->plane->ops->progress(step->plane->state, &moved, err);
    *ret_moved |= moved || rc == 1;
    if (rc != 1)
        return rc;
    exec->posted = false;
    return step->nposted == step->ncolls;
}

#define ACTIVITIES(plane)                                                                   \
    {                                                                                       \
        [RG_COLL_ALLREDUCE] = "REIGEN_" plane "_ALLREDUCE",                                 \
        [RG_COLL_REDUCE] = "REIGEN_" plane "_REDUCE",                                       \
        [RG_COLL_BROADCAST] = "REIGEN_" plane "_BROADCAST",                                 \
        [RG_COLL_ALLGATHERV] = "REIGEN_" plane "_ALLGATHER",                                \
        [RG_COLL_ALLTOALLV] = "REIGEN_" plane "_ALLTOALL",                                  \
        [RG_COLL_REDUCESCATTERV] = "REIGEN_" plane "_REDUCESCATTER",                        \
    }

const char *rg_exec_activity(const struct rg_exec *exec)
{
    static const char *const names[1 + RG_NPLANES][RG_COLL_REDUCESCATTERV + 1] = {
        ACTIVITIES("LOCAL"), ACTIVITIES("SHM"), ACTIVITIES("TCP"), ACTIVITIES("MPI")
    };
    const struct step *step;
    int i = 0;

    if (exec->nsteps == 0)
        return "REIGEN_LOCAL";
    step = &exec->steps[exec->at < exec->nsteps ? exec->at : exec->nsteps - 1];
    while (step->plane && i < RG_NPLANES && rg_planes[i++].ops != step->plane->ops)
        ;
    return names[i][step->colls[0].kind];
}

int rg_exec_progress(struct rg_exec *exec, bool *ret_moved, struct rg_error *err)
{
    *ret_moved = false;
    while (exec->active && exec->at < exec->nsteps) {
        int rc = progress_step(exec, &exec->steps[exec->at], ret_moved, err);

        if (rc < 0) {
            exec->active = false;
            return rc;
        }
        if (rc == 0)
            return 0;
        exec->at++;
    }
    exec->active = false;
    return 1;
}
