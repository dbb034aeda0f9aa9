/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens planes over groups, asks them for their scores, and shows both to people. No plane is known
 * by name here.
 */
#include "coll/planes/scopes.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "coll/reduce/reduce.h"
#include "coll/team/team.h"

/* ------------------------------------------------------------ life */

/* The groups, as this rank sees them. */
static void find_groups(struct rg_scope *scopes, const struct rg_team *team)
{
    bool several = team->nnodes > 1;

    scopes[RG_SCOPE_NODE] = (struct rg_scope){
        .group = { team->node_ranks, team->node_size, team->node_rank, RG_SCOPE_NODE },
        .member = team->node_size > 1 || !several };
    scopes[RG_SCOPE_LEADERS] = (struct rg_scope){
        .group = { team->leaders, team->nnodes, team->node, RG_SCOPE_LEADERS },
        .member = several && team->node_rank == 0 };
    scopes[RG_SCOPE_ALL] = (struct rg_scope){
        .group = { NULL, team->size, team->rank, RG_SCOPE_ALL }, .member = several };
}

/* One plane over one group. 1; 0 where it is not for these members; -errno. */
static int open_plane(struct rg_scope *scope, const struct rg_plane_ops *ops, int number,
                      const struct rg_plane_options *options, struct rg_error *err)
{
    struct rg_opened opened = { .ops = ops, .number = number };
    struct rg_error why = RG_ERROR_INIT;
    int r = ops->open(options, &opened.state, &why);

    if (r == 0)
        scope->opened[scope->nopened++] = opened;
    else if (r != -ENOTSUP && err)
        *err = why;
    return r == -ENOTSUP ? 0 : r < 0 ? r : 1;
}

static int open_scope(struct rg_scopes *scopes, enum rg_plane_scope which, unsigned usable,
                      const struct rg_planes_options *options, struct rg_error *err)
{
    struct rg_scope *scope = &scopes->scopes[which];
    struct rg_plane_options mine = { .team = options->team, .config = options->config,
                                     .group = scope->group, .offers = options->team->offers };
    char *region = which == RG_SCOPE_NODE ? options->region : NULL;
    bool remarked = scopes->remark.text[0], host = false;

    for (int i = 0; scopes->planes.table[i] && scope->member; i++) {
        const struct rg_plane_ops *ops = scopes->planes.table[i];
        size_t nbytes;
        int r;

        /* Each plane has its own part of the node's shared memory, used or not. */
        nbytes = rg_plane_region_nbytes(ops, scope->group.nmembers);
        mine.region = nbytes > 0 ? region : NULL;
        region += region ? nbytes : 0;
        if (!(ops->scopes & 1u << which))
            continue;
        /* A rank alone takes what there is, but not what looks for a device. */
        if (!(usable >> i & 1) &&
            (scope->group.nmembers > 1 || !(ops->memories & 1u << RG_MEMORY_HOST)))
            continue;
        r = open_plane(scope, ops, i, &mine, err);
        if (r < 0)
            return r;
        /* What ranks tell each other besides tensors is in the host's memory. */
        host = host || (r > 0 && ops->memories & 1u << RG_MEMORY_HOST);
    }
    if (host || !scope->member)
        return 0;
    return rg_error_set(err, EINVAL, "REIGEN_PLANES allows no plane between %d %s%s%s%s%s",
                        scope->group.nmembers,
                        which == RG_SCOPE_NODE ? "ranks of one host" : "hosts",
                        remarked ? "; " : "",
                        remarked ? scopes->planes.table[scopes->remarked]->name : "",
                        remarked ? " cannot be used: " : "", scopes->remark.text);
}

/* Whether the ranks agree to use a plane. 1, 0 or -errno. */
static int ask(struct rg_scopes *scopes, int number, const struct rg_planes_options *options,
               struct rg_error *err)
{
    const struct rg_team *team = options->team;
    struct rg_plane_options all = { .team = options->team, .config = options->config,
                                    .group = { NULL, team->size, team->rank, RG_SCOPE_ALL },
                                    .offers = team->offers };
    struct rg_error why = RG_ERROR_INIT;
    const struct rg_plane_ops *ops = scopes->planes.table[number];
    int r = ops->agree ? ops->agree(&all, &why) : 0;

    if (r < 0 && r != -ENOTSUP) {
        if (err)
            *err = why;
        return r;
    }
    if (r < 0 && why.text[0] && !scopes->remark.text[0]) {
        scopes->remark = why;
        scopes->remarked = number;
    }
    return r == 0;
}

int rg_scopes_open(struct rg_scopes *scopes, const struct rg_planes_options *options,
                   struct rg_error *err)
{
    unsigned usable = 0;
    int r = 0;

    scopes->planes = *options->planes;
    scopes->shortcut = options->shortcut;
    for (int i = 0; scopes->planes.table[i] && r >= 0; i++) {
        if (i == RG_NPLANES_MAX)
            return rg_error_set(err, EINVAL, "more than %d planes", RG_NPLANES_MAX);
        r = ask(scopes, i, options, err);
        usable |= r > 0 ? scopes->planes.allowed & 1u << i : 0;
    }
    find_groups(scopes->scopes, options->team);
    for (int which = 0; which < RG_NSCOPES && r >= 0; which++)
        r = open_scope(scopes, (enum rg_plane_scope) which, usable, options, err);
    return r < 0 ? r : 0;
}

struct rg_opened *rg_scopes_next(struct rg_scopes *scopes, int *index)
{
    int left = (*index)++;

    for (int which = 0; which < RG_NSCOPES; left -= scopes->scopes[which++].nopened)
        if (left < scopes->scopes[which].nopened)
            return &scopes->scopes[which].opened[left];
    return NULL;
}

void rg_scopes_close(struct rg_scopes *scopes, int timeout_ms)
{
    struct rg_opened *plane;

    for (int i = 0; (plane = rg_scopes_next(scopes, &i));)
        plane->ops->close(plane->state, timeout_ms);
}

/* ------------------------------------------------------------ the score table */

static int score_of(const struct rg_opened *opened, const struct rg_plane_task *task,
                    bool on_stream)
{
    const struct rg_plane_ops *ops = opened->ops;

    if (opened->refused || !(ops->memories >> task->memory & 1) ||
        (on_stream && !ops->takes_streams))
        return -1;
    return ops->score(opened->state, task);
}

struct rg_opened *rg_scope_best(struct rg_scope *scope, const struct rg_plane_task *task,
                                bool on_stream, int *ret_score)
{
    struct rg_opened *best = NULL;
    int best_score = -1;

    for (int i = 0; i < scope->nopened; i++) {
        int score = score_of(&scope->opened[i], task, on_stream);

        if (score > best_score) {
            best = &scope->opened[i];
            best_score = score;
        }
    }
    if (ret_score)
        *ret_score = best_score;
    return best;
}

/* ------------------------------------------------------------ for people */

void rg_scopes_describe(const struct rg_scopes *scopes, struct rg_buf *text)
{
    static const char *const members[RG_NSCOPES] = { "ranks of this host", "hosts", "ranks" };

    for (int which = 0; which < RG_NSCOPES; which++) {
        const struct rg_scope *scope = &scopes->scopes[which];

        for (int i = 0; i < scope->nopened; i++)
            if (rg_opened_ready(&scope->opened[i]))
                rg_buf_printf(text, "plane %s: %d %s\n", scope->opened[i].ops->name,
                              scope->group.nmembers, members[which]);
    }
    rg_buf_printf(text, "reduction: %s\n", rg_reduce_variant());
    for (int i = 0; scopes->planes.table[i]; i++)
        if (scopes->planes.table[i]->library)
            scopes->planes.table[i]->library->describe(text);
}

static bool is_open(const struct rg_scopes *scopes, const struct rg_plane_ops *ops)
{
    for (int which = 0; which < RG_NSCOPES; which++)
        for (int i = 0; i < scopes->scopes[which].nopened; i++)
            if (scopes->scopes[which].opened[i].ops == ops)
                return true;
    return false;
}

unsigned rg_scopes_mpi(const struct rg_scopes *scopes)
{
    unsigned bits = 0;

    for (int i = 0; scopes->planes.table[i]; i++) {
        const struct rg_plane_ops *ops = scopes->planes.table[i];

        bits |= ops->library ? ops->library->mpi(is_open(scopes, ops)) : 0;
    }
    return bits;
}

enum { SCORES_MAX = 256 };

/* "shm 100, tcp 10": the scores of a group's planes and of the shortcut, the chosen one first. */
static void format_scores(const struct rg_scopes *scopes, const struct rg_plane_task *task,
                          char text[SCORES_MAX])
{
    const struct rg_scope *scope = &scopes->scopes[task->group->scope];
    const struct rg_shortcut *shortcut =
        task->group->scope == RG_SCOPE_NODE ? scopes->shortcut : NULL;
    int scores[RG_NPLANES_MAX + 1];
    size_t used = 0;

    /* The shortcut is taken where a plane is as good. */
    scores[0] = shortcut ? shortcut->score(task) : -1;
    for (int i = 0; i < scope->nopened; i++)
        scores[i + 1] = score_of(&scope->opened[i], task, false);
    snprintf(text, SCORES_MAX, "none");
    for (;;) {
        int best = 0;

        for (int i = 1; i <= scope->nopened; i++)
            best = scores[i] > scores[best] ? i : best;
        if (scores[best] < 0 || used >= SCORES_MAX)
            return;
        used += (size_t) snprintf(text + used, SCORES_MAX - used, "%s%s %d", used ? ", " : "",
                                  best ? scope->opened[best - 1].ops->name : shortcut->name,
                                  scores[best]);
        scores[best] = -1;
    }
}

static const size_t sizes[] = { 4, 4u << 10, 64u << 10, 1u << 20, 64u << 20 };

/* Rows of one operation and memory: those of one type, or of all types that are alike (`type` below
 * 0); sizes that are like the one before are left out. */
static void print_rows(const struct rg_scopes *scopes, const char *group,
                       struct rg_plane_task *task, int type, struct rg_buf *text)
{
    char scores[rg_array_len(sizes)][SCORES_MAX], bytes[24] = "any";
    bool alike = true;

    task->dtype = (uint8_t) (type < 0 ? 0 : type);
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        task->nbytes = sizes[s];
        format_scores(scopes, task, scores[s]);
        alike = alike && strcmp(scores[0], scores[s]) == 0;
    }
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        if (s > 0 && strcmp(scores[s - 1], scores[s]) == 0)
            continue;
        if (!alike)
            snprintf(bytes, sizeof(bytes), "%zu", sizes[s]);
        rg_buf_printf(text, "%-20s %-14s %-9s %-7s %8s  %s\n", group, rg_coll_name(task->kind),
                      type < 0 ? "any" : rg_dtype_name(type), rg_memory_name(task->memory), bytes,
                      scores[s]);
    }
}

static bool types_are_alike(const struct rg_scopes *scopes, struct rg_plane_task *task)
{
    char first[SCORES_MAX], scores[SCORES_MAX];

    for (size_t s = 0; s < rg_array_len(sizes); s++)
        for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
            task->nbytes = sizes[s];
            task->dtype = (uint8_t) dtype;
            format_scores(scopes, task, dtype == 0 ? first : scores);
            if (dtype > 0 && strcmp(first, scores) != 0)
                return false;
        }
    return true;
}

/* Other memory than the host's is shown where some plane takes it. */
static bool takes(const struct rg_scope *scope, int memory)
{
    bool any = memory == RG_MEMORY_HOST;

    for (int i = 0; i < scope->nopened; i++)
        any = any || (rg_opened_ready(&scope->opened[i]) &&
                      scope->opened[i].ops->memories >> memory & 1);
    return any;
}

void rg_scopes_print(struct rg_scopes *scopes, struct rg_buf *text)
{
    static const char *const groups[RG_NSCOPES] = { "ranks of one host", "one rank per host",
                                                    "all ranks" };
    const struct rg_opened *plane;

    rg_buf_printf(text, "%-20s %-14s %-9s %-7s %8s  %s\n", "among", "operation", "type", "memory",
                  "bytes", "planes by score, the first is taken");
    for (int i = 0; i < RG_NSCOPES * (RG_COLL_REDUCESCATTERV + 1) * RG_NMEMORIES; i++) {
        int which = i / RG_NMEMORIES / (RG_COLL_REDUCESCATTERV + 1);
        const struct rg_scope *scope = &scopes->scopes[which];
        struct rg_plane_task task = {
            .kind = (enum rg_coll_kind)(i / RG_NMEMORIES % (RG_COLL_REDUCESCATTERV + 1)),
            .op = REIGEN_SUM, .memory = (uint8_t) (i % RG_NMEMORIES), .group = &scope->group };
        bool alike = types_are_alike(scopes, &task);

        if (!scope->member || !takes(scope, task.memory))
            continue;
        for (int type = alike ? -1 : 0; type < (alike ? 0 : REIGEN_NDTYPES); type++)
            print_rows(scopes, groups[which], &task, type, text);
    }
    for (int i = 0; (plane = rg_scopes_next(scopes, &i));)
        if (plane->ops->print)
            plane->ops->print(plane->state, text);
}
