/* SPDX-License-Identifier: Apache-2.0 */
/* The table of process sets, and how all ranks come to the same one. */
#include "coll/api/sets.h"

#include <string.h>

#include "base/time.h"
#include "coll/api/api.h"
#include "coll/api/rounds.h"
#include "coll/team/team.h"

#define LIST_SHOWN 64 /* ranks in a message */

/* ---- the table */

void rg_sets_init(struct rg_sets *sets)
{
    *sets = (struct rg_sets){ .last_id = 0 };
    pthread_mutex_init(&sets->lock, NULL);
    pthread_mutex_init(&sets->turn, NULL);
}

struct rg_set *rg_sets_find(const struct rg_sets *sets, int id)
{
    int low = 0, high = sets->nalive;

    while (low < high) {
        int middle = (low + high) / 2;

        if (sets->alive[middle]->id == id)
            return sets->alive[middle];
        if (sets->alive[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct rg_progress *rg_set_use(struct rg_set *set)
{
    atomic_fetch_add(&set->users, 1);
    if (!atomic_load(&set->gone) && set->progress)
        return set->progress;
    atomic_fetch_sub(&set->users, 1);
    return NULL;
}

void rg_set_leave(struct rg_set *set)
{
    if (set)
        atomic_fetch_sub(&set->users, 1);
}

int rg_sets_make_room(struct rg_sets *sets)
{
    size_t n = (size_t) (sets->nalive + sets->npast) + 1;
    struct rg_set **alive, **past;

    pthread_mutex_lock(&sets->lock); /* others read the table */
    past = realloc(sets->past, n * sizeof(*past));
    if (past)
        sets->past = past;
    alive = past ? realloc(sets->alive, n * sizeof(*alive)) : NULL;
    if (alive)
        sets->alive = alive;
    pthread_mutex_unlock(&sets->lock);
    return alive ? 0 : -ENOMEM;
}

int rg_sets_take(struct rg_sets *sets, struct rg_set *take_set, int r, int *ret_id)
{
    int at;

    if (r < 0) {
        if (take_set->progress)
            atomic_store(&take_set->progress->leaving, true);
        rg_set_free(take_set);
        return r;
    }
    *ret_id = take_set->id;
    pthread_mutex_lock(&sets->lock);
    at = sets->nalive++;
    for (; at > 0 && sets->alive[at - 1]->id > take_set->id; at--)
        sets->alive[at] = sets->alive[at - 1];
    sets->alive[at] = take_set;
    pthread_mutex_unlock(&sets->lock);
    return 0;
}

void rg_set_end(struct rg_set *set, uint64_t until_ns)
{
    atomic_store(&set->gone, true);
    rg_progress_destroy(set->progress, until_ns, &set->users);
    rg_team_destroy(set->team);
    rg_boot_close(set->boot, true);
    set->progress = NULL;
    set->team = NULL;
    set->boot = NULL;
}

void rg_set_free(struct rg_set *set)
{
    if (!set)
        return;
    rg_set_end(set, 0);
    free(set);
}

void rg_sets_hurry(struct rg_sets *sets, bool late)
{
    pthread_mutex_lock(&sets->lock);
    for (int i = 0; i < sets->nalive; i++) {
        struct rg_progress *progress = sets->alive[i]->progress;

        if (!progress)
            continue;
        if (!atomic_exchange(&progress->leaving, true))
            rg_progress_leave(progress);
        rg_progress_hurry(progress, late);
    }
    pthread_mutex_unlock(&sets->lock);
}

void rg_sets_leave(struct rg_sets *sets, uint64_t until_ns)
{
    for (int i = 0; i < sets->nalive; i++)
        rg_set_end(sets->alive[i], until_ns);
}

void rg_sets_fini(struct rg_sets *sets)
{
    for (int i = 0; i < sets->nalive; i++)
        rg_set_free(sets->alive[i]);
    for (int i = 0; i < sets->npast; i++)
        rg_set_free(sets->past[i]);
    free(sets->alive);
    free(sets->past);
    pthread_mutex_destroy(&sets->lock);
    pthread_mutex_destroy(&sets->turn);
}

void rg_sets_after_fork(struct rg_sets *sets)
{
    for (int i = 0; i < sets->nalive; i++) {
        const struct rg_set *set = sets->alive[i];

        if (!set->progress)
            continue;
        rg_progress_after_fork(set->progress);
        rg_team_after_fork(set->team);
    }
}

/* ---- adding */

static int compare_ints(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

/* 0, or why these ranks, which are sorted, are no set. */
static int check_ranks(const int *ranks, int nranks, int size, struct rg_error *err)
{
    if (nranks < 1)
        return rg_error_set(err, EINVAL, "a process set needs at least one rank");
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= size)
            return rg_error_set(err, EINVAL,
                                "Tried to register process set with invalid rank: %d (ranks are 0 "
                                "to %d)", ranks[i], size - 1);
        if (i > 0 && ranks[i] == ranks[i - 1])
            return rg_error_set(err, EINVAL,
                                "Tried to register process set with duplicate rank: %d", ranks[i]);
    }
    return 0;
}

/* As ranks lie in a word: not aligned. */
static void tell_ranks(struct rg_buf *out, const void *ranks, size_t n)
{
    rg_buf_printf(out, "[");
    for (size_t i = 0; i < n && i < LIST_SHOWN; i++) {
        int rank;

        memcpy(&rank, (const char *) ranks + i * sizeof(rank), sizeof(rank));
        rg_buf_printf(out, "%s%d", i ? ", " : "", rank);
    }
    rg_buf_printf(out, n > LIST_SHOWN ? ", ...]" : "]");
}

static int differ(const struct rg_set_word *a, int rank_a, const struct rg_set_word *b, int rank_b,
                  struct rg_error *err)
{
    rg_autobuf struct rg_buf left = RG_BUF_INIT, right = RG_BUF_INIT;

    tell_ranks(&left, a->data, a->nbytes / sizeof(int));
    tell_ranks(&right, b->data, b->nbytes / sizeof(int));
    return rg_error_set(err, EINVAL,
                        "Attempted to register process set with mismatching %s on different ranks "
                        "(rank %d: %s, rank %d: %s)",
                        a->nbytes != b->nbytes ? "size" : "values", rank_a, rg_buf_text(&left),
                        rank_b, rg_buf_text(&right));
}

/* The first rank that is elsewhere, failed, or said something else than rank 0; 0 when all
 * agree. */
static int compare_words(struct rg_set_word *words, int size, enum rg_set_verb verb,
                         struct rg_error *err)
{
    for (int i = 0; i < size; i++)
        if (words[i].verb != verb)
            return rg_error_set(err, EINVAL,
                                "ranks add and remove process sets in different orders (rank %d)",
                                i);
    for (int i = 0; i < size; i++)
        if (words[i].status < 0)
            return rg_error_set(err, -words[i].status, "rank %d: %s", i, words[i].text);
    for (int i = 1; i < size; i++)
        if (words[i].nbytes != words[0].nbytes ||
            memcmp(words[i].data, words[0].data, words[0].nbytes) != 0)
            return verb == RG_SET_ADD
                       ? differ(&words[0], 0, &words[i], i, err)
                       : rg_error_set(err, EINVAL,
                                      "ranks 0 and %d remove different process sets", i);
    return 0;
}

/* All ranks say this and agree; a failure of the caller's own, in mine, has been said and is
 * returned. until: rounds until the members of this set say the same too; NULL: one round. */
static int agree(struct rg_progress *world, const struct rg_set_word *mine,
                 const struct rg_set *until, struct rg_error *err)
{
    struct rg_error theirs = RG_ERROR_INIT;
    size_t size = (size_t) world->team->size;
    rg_autofree struct rg_set_word *words = calloc(size, sizeof(*words));
    bool done = false;
    int r = words ? 0 : rg_error_set(&theirs, ENOMEM, "out of memory");

    while (r == 0 && !done) {
        void *memory = NULL;

        r = rg_sets_round(world, mine, words, &memory, &theirs);
        done = true;
        for (int i = 0; r == 0 && until && i < until->nranks; i++)
            done = done && words[until->ranks[i]].verb == mine->verb;
        if (r == 0 && done)
            r = compare_words(words, (int) size, mine->verb, &theirs);
        free(memory);
    }
    if (mine->status < 0)
        return mine->status; /* err has it */
    return r < 0 ? rg_error_set(err, -r, "%s", theirs.text) : 0;
}

int rg_set_wire_up(struct rg_set *set, struct rg_progress *world, struct rg_boot *boot,
                   uint64_t deadline, struct rg_error *err)
{
    const struct rg_plane_choice *planes = &rg_exec_scopes(world->exec)->planes;
    struct rg_progress_options options = { .config = world->config, .planes = planes, .boot = boot,
                                         .process_set = set->id, .world = world,
                                         .handles = world->handles,
                                         .observe = rg_api_observe,
                                         .deadline_ns = deadline };
    int r = rg_progress_team(set->boot, world->config, planes, deadline, &set->team, err);

    if (r < 0)
        return r;
    rg_team_close_fds(set->team);
    set->team->oversubscribed = world->team->oversubscribed;
    options.team = set->team;
    return rg_progress_create(&options, &set->progress, err);
}

/* Over a boot whose fences are rounds. */
static int wire_up(struct rg_set *set, struct rg_progress *world, struct rg_boot *boot,
                   struct rg_error *err)
{
    int r;

    if (set->me < 0)
        return 0;
    r = rg_set_boot(world, set->id, set->ranks, set->nranks, set->me, &set->boot, err);
    return r < 0 ? r : rg_set_wire_up(set, world, boot, rg_now_ns() + RG_SET_CONNECT_MS *
                                      RG_NS_PER_MS, err);
}

struct rg_set *rg_set_new(int id, const int *ranks, int nranks, int rank)
{
    struct rg_set *set = calloc(1, sizeof(*set) + (size_t) nranks * sizeof(int));

    if (!set)
        return NULL;
    set->ranks = (int *) (set + 1);
    memcpy(set->ranks, ranks, (size_t) nranks * sizeof(int));
    set->id = id;
    set->nranks = nranks;
    set->me = -1;
    for (int i = 0; i < nranks; i++)
        if (ranks[i] == rank)
            set->me = i;
    return set;
}

/* Those that all ranks have made, which come first: of the others not all ranks know. */
static int nadded(const struct rg_sets *sets)
{
    int n = 0;

    while (n < sets->nalive && sets->alive[n]->id < RG_SETS_MET)
        n++;
    return n;
}

/* A set of these ranks that exists; 0, or -EEXIST. All ranks come to the same. */
static int check_new(const struct rg_sets *sets, const int *ranks, int nranks, int size,
                     struct rg_error *err)
{
    if (nranks == size)
        return rg_error_set(err, EEXIST, "process set 0 has these ranks");
    for (int i = 0; i < nadded(sets); i++) {
        const struct rg_set *set = sets->alive[i];

        if (set->nranks == nranks &&
            memcmp(set->ranks, ranks, (size_t) nranks * sizeof(int)) == 0)
            return rg_error_set(err, EEXIST, "process set %d has these ranks", set->id);
    }
    if (nadded(sets) >= RG_SETS_MAX)
        return rg_error_set(err, ENOSPC, "more than %d process sets", RG_SETS_MAX);
    return 0;
}

/* With `turn` held and sorted ranks. */
static int add(struct rg_sets *sets, struct rg_progress *world, struct rg_boot *boot,
               const int *ranks, int nranks, int *ret_id, struct rg_error *err)
{
    int size = world->team->size, r = check_ranks(ranks, nranks, size, err);
    struct rg_set *set = r < 0 ? NULL : rg_set_new(sets->last_id + 1, ranks, nranks,
                                                world->team->rank);
    struct rg_set_word mine = { .verb = RG_SET_ADD, .text = err->text, .data = ranks };

    if (r == 0 && (!set || rg_sets_make_room(sets) < 0))
        r = rg_error_set(err, ENOMEM, "out of memory");
    mine.status = r;
    mine.nbytes = r < 0 ? 0 : (size_t) nranks * sizeof(int);
    r = agree(world, &mine, NULL, err);
    if (r == 0)
        r = check_new(sets, ranks, nranks, size, err);
    if (r < 0) {
        rg_set_free(set);
        return r;
    }
    /* From here on every rank goes on to the last round. The number is used up in any case. */
    sets->last_id++;
    mine = (struct rg_set_word){ .verb = RG_SET_DONE, .text = err->text };
    mine.status = wire_up(set, world, boot, err);
    r = agree(world, &mine, set, err);
    return rg_sets_take(sets, set, r, ret_id);
}

int rg_sets_add(struct rg_sets *sets, struct rg_progress *world, struct rg_boot *boot,
                const int *ranks, int nranks, int *ret_id, struct rg_error *err)
{
    size_t n = nranks > 0 && nranks <= REIGEN_SIZE_MAX ? (size_t) nranks : 0;
    rg_autofree int *sorted = malloc((n + 1) * sizeof(int));
    int r;

    if (!sorted)
        return rg_error_set(err, ENOMEM, "out of memory");
    if (n)
        memcpy(sorted, ranks, n * sizeof(int));
    qsort(sorted, n, sizeof(int), compare_ints);
    pthread_mutex_lock(&sets->turn);
    r = add(sets, world, boot, sorted, (int) n, ret_id, err);
    pthread_mutex_unlock(&sets->turn);
    return r;
}

/* ---- removing */

void rg_sets_unlink(struct rg_sets *sets, struct rg_set *set)
{
    int at = 0;

    pthread_mutex_lock(&sets->lock);
    while (sets->alive[at] != set)
        at++;
    memmove(&sets->alive[at], &sets->alive[at + 1],
            (size_t) (--sets->nalive - at) * sizeof(struct rg_set *));
    sets->past[sets->npast++] = set;
    if (set->progress)
        rg_progress_add_stats(set->progress, &sets->stats);
    pthread_mutex_unlock(&sets->lock);
}

int rg_sets_remove(struct rg_sets *sets, struct rg_progress *world, int id, struct rg_error *err)
{
    struct rg_set_word mine = { .verb = RG_SET_REMOVE, .data = &id, .nbytes = sizeof(id) };
    struct rg_set *set;
    int r;

    pthread_mutex_lock(&sets->turn);
    set = rg_sets_find(sets, id);
    /* Before any rank begins to close its sockets: that is no death. */
    if (set && set->progress)
        atomic_store(&set->progress->leaving, true);
    r = agree(world, &mine, NULL, err);
    if (r == 0 && !set)
        r = rg_error_set(err, ENOENT, id == 0 ? "process set %d, all ranks, cannot be removed"
                                             : "process set %d does not exist", id);
    if (r < 0 && set && set->progress)
        atomic_store(&set->progress->leaving, false);
    if (r == 0) {
        rg_sets_unlink(sets, set);
        if (set->progress)
            atomic_store(&set->progress->removed, true);
    }
    pthread_mutex_unlock(&sets->turn);
    /* Nobody else ends it, and reigen_on_done's functions are called without a lock. */
    if (r == 0)
        rg_set_end(set, 0);
    return r;
}
