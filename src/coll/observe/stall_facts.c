/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes tell each other of a stall, and the report that one makes of it, apart from when. */
#include "coll/observe/stall_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

#define REPLACED '?'
#define NAMES_SHOWN 6
#define SETS_SHOWN 8    /* lines of ranks that owe, and wait in, different operations */
#define DETAILS_SHOWN 4
#define PLACES_SHOWN 8 /* lines of ranks that are at one place */
#define LOOP_TIMES 2   /* what has been done so often is called in a loop */
#define LISTED 16       /* ranks of Horovod's list */
#define DETAILS_NBYTES 8000 /* of a node's answer that speak of its ranks' processes */
#define NBYTES_MAX 24000    /* of that answer; a frame's text must hold it, and what is behind it */

int rg_stall_facts_init(struct rg_stall_facts *facts, int nranks, const int *world_ranks)
{
    *facts = (struct rg_stall_facts){ .nranks = nranks, .world_ranks = world_ranks };
    facts->who = calloc((size_t) nranks + 1, sizeof(*facts->who));
    if (!facts->who)
        facts->nranks = 0;
    return facts->who ? 0 : -ENOMEM;
}

void rg_stall_facts_fini(struct rg_stall_facts *facts)
{
    for (int i = 0; i < facts->nops; i++) {
        free(facts->ops[i].name);
        free(facts->ops[i].states);
    }
    for (int r = 0; facts->who && r < facts->nranks; r++) {
        free(facts->who[r].detail);
        free(facts->who[r].place);
        free(facts->who[r].call);
        free(facts->who[r].unrest);
    }
    free(facts->ops);
    free(facts->who);
    *facts = (struct rg_stall_facts){ 0 };
}

/* Lines and reports are not to be broken by a name, nor the terminal steered. */
static void clean(char *name)
{
    for (const char *end = name + strlen(name); *name;) {
        size_t n = rg_utf8_nbytes(name, (size_t) (end - name));
        bool steers = (unsigned char) *name < ' ' || *name == 0x7f || n == 0 ||
                      rg_shown_steers(name, n);

        n = n ? n : 1;
        if (steers)
            memset(name, REPLACED, n);
        name += n;
    }
}

void rg_stall_facts_place(struct rg_stall_facts *facts, int rank, const char *place,
                          const char *call)
{
    struct rg_stall_who *who = &facts->who[rank];

    free(who->place);
    free(who->call);
    who->place = place[0] ? strdup(place) : NULL;
    who->call = call[0] ? strdup(call) : NULL;
    if (who->place)
        clean(who->place);
    if (who->call)
        clean(who->call);
}

void rg_stall_facts_unrest(struct rg_stall_facts *facts, int rank, const char *unrest)
{
    struct rg_stall_who *who = &facts->who[rank];

    free(who->unrest);
    who->unrest = unrest[0] ? strdup(unrest) : NULL;
    if (who->unrest)
        clean(who->unrest);
}

static struct rg_stall_op *add_op(struct rg_stall_facts *facts, char *name)
{
    size_t nranks = (size_t) facts->nranks;

    if (rg_grow(&facts->ops, &facts->capacity, (size_t) facts->nops + 1) < 0)
        return NULL;
    struct rg_stall_op *op = &facts->ops[facts->nops];

    *op = (struct rg_stall_op){ .name = name, .states = malloc(nranks + 1) };
    if (!op->states)
        return NULL;
    memset(op->states, RG_STALL_UNKNOWN, nranks);
    op->states[nranks] = '\0';
    facts->nops++;
    return op;
}

struct rg_stall_op *rg_stall_facts_op(struct rg_stall_facts *facts, const char *name)
{
    rg_autofree char *copy = strdup(name);
    struct rg_stall_op *op;

    if (!copy)
        return NULL;
    clean(copy);
    for (int i = 0; i < facts->nops; i++) {
        if (strcmp(facts->ops[i].name, copy) == 0)
            return &facts->ops[i];
    }
    op = add_op(facts, copy);
    if (op)
        rg_steal_ptr(&copy);
    return op;
}

bool rg_stall_op_is_over(const struct rg_stall_op *op, int here, int nmissing)
{
    return nmissing == 0 && op->states[here] == RG_STALL_UNKNOWN &&
           !strchr(op->states, RG_STALL_OWES) && !strchr(op->name, REPLACED);
}

/* --- as text ---------------------------------------------------------------------------------- */

void rg_stall_facts_put(const struct rg_stall_facts *facts, const int *ranks, int n,
                        struct rg_buf *out)
{
    for (int k = 0; k < n; k++) {
        const struct rg_stall_who *who = &facts->who[ranks[k]];

        bool room = rg_buf_nbytes(out) < DETAILS_NBYTES;

        rg_buf_printf(out, "rank %c %s\n",
                      who->fails ? 'f' : who->rests ? 'r' : who->blocked ? 'b' : '-',
                      who->detail && room ? who->detail : "");
        if (room && (who->place || who->call))
            rg_buf_printf(out, "at %s\t%s\n", who->place ? who->place : "",
                          who->call ? who->call : "");
        if (room && who->unrest && who->blocked && !who->rests)
            rg_buf_printf(out, "unrest %s\n", who->unrest);
    }
    for (int i = 0; i < facts->nops && rg_buf_nbytes(out) < NBYTES_MAX; i++) {
        rg_buf_printf(out, "op %llu ", (unsigned long long) facts->ops[i].age_ms);
        for (int k = 0; k < n; k++)
            rg_buf_put(out, &facts->ops[i].states[ranks[k]], 1);
        rg_buf_printf(out, " %s\n", facts->ops[i].name);
        if (facts->ops[i].times)
            rg_buf_printf(out, "times %llu %s\n", (unsigned long long) facts->ops[i].times,
                          facts->ops[i].name);
    }
}

static void take_op(struct rg_stall_facts *facts, const int *ranks, int n, const char *line)
{
    unsigned long long age_ms;
    int at = 0;

    if (sscanf(line, "%llu %n", &age_ms, &at) != 1 || strlen(line + at) < (size_t) n + 2 ||
        line[at + n] != ' ')
        return;
    struct rg_stall_op *op = rg_stall_facts_op(facts, line + at + n + 1);

    if (!op)
        return;
    if (age_ms > op->age_ms)
        op->age_ms = age_ms;
    for (int k = 0; k < n; k++)
        op->states[ranks[k]] = line[at + k];
}

static void take_times(struct rg_stall_facts *facts, const char *line)
{
    unsigned long long times;
    int at = 0;
    struct rg_stall_op *op = NULL;

    if (sscanf(line, "%llu%n", &times, &at) == 1 && line[at] == ' ' && line[at + 1])
        op = rg_stall_facts_op(facts, line + at + 1);
    if (op && times > op->times)
        op->times = times;
}

void rg_stall_facts_take(struct rg_stall_facts *facts, const int *ranks, int n, const char *text)
{
    rg_autofree char *copy = strdup(text);
    char *rest = NULL;
    int k = 0;

    for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "op ", 3) == 0) {
            take_op(facts, ranks, n, line + 3);
        } else if (strncmp(line, "times ", 6) == 0) {
            take_times(facts, line + 6);
        } else if (strncmp(line, "rank ", 5) == 0 && strlen(line) >= 7 && k < n) {
            struct rg_stall_who *who = &facts->who[ranks[k++]];

            who->fails = line[5] == 'f';
            who->rests = line[5] == 'r';
            who->blocked = who->rests || line[5] == 'b';
            free(who->detail);
            who->detail = line[7] ? strdup(line + 7) : NULL;
            if (who->detail)
                clean(who->detail);
        } else if (strncmp(line, "at ", 3) == 0 && k > 0 && strchr(line, '\t')) {
            char *call = strchr(line, '\t');

            *call = '\0';
            rg_stall_facts_place(facts, ranks[k - 1], line + 3, call + 1);
        } else if (strncmp(line, "unrest ", 7) == 0 && k > 0) {
            rg_stall_facts_unrest(facts, ranks[k - 1], line + 7);
        }
    }
}

/* --- for people ------------------------------------------------------------------------------- */

static int shown(const struct rg_stall_facts *facts, int r)
{
    return facts->world_ranks ? facts->world_ranks[r] : r;
}

/* Where the name of a group, "allreduce.2.bias+3:ebd1a9cbc3180515", ends; NULL: it is none. */
static const char *find_group(const char *key)
{
    const char *plus = strrchr(key, '+');
    size_t digits = plus ? strspn(plus + 1, "0123456789") : 0;
    const char *hash = digits && plus[1 + digits] == ':' ? plus + 2 + digits : "";

    return *hash && hash[strspn(hash, "0123456789abcdef")] == '\0' ? plus : NULL;
}

void rg_stall_key_print(const char *key, struct rg_buf *out)
{
    const char *plus = find_group(key), *dot = strchr(key, '.');

    if (!plus || !dot || dot > plus)
        rg_buf_printf(out, "%s", key);
    else if (atoi(plus + 1) == 0)
        rg_buf_printf(out, "%.*s", (int) (plus - key), key);
    else
        rg_buf_printf(out, "%.*s of %.*s and %d more", (int) (dot - key), key,
                      (int) (plus - dot - 1), dot + 1, atoi(plus + 1));
}

/* Has anybody waited so long for it? */
static bool counts(const struct rg_stall_facts *facts, int i, uint64_t than_ms)
{
    return facts->ops[i].age_ms >= than_ms && strchr(facts->ops[i].states, RG_STALL_OWES) != NULL;
}

static bool is_missing(const struct rg_stall_facts *facts, int r, uint64_t than_ms)
{
    for (int i = 0; i < facts->nops; i++) {
        if (counts(facts, i, than_ms) && facts->ops[i].states[r] == RG_STALL_OWES)
            return true;
    }
    return false;
}

static bool alike(const struct rg_stall_facts *facts, int a, int b, uint64_t than_ms)
{
    for (int i = 0; i < facts->nops; i++) {
        if (counts(facts, i, than_ms) && facts->ops[i].states[a] != facts->ops[i].states[b])
            return false;
    }
    return facts->who[a].blocked == facts->who[b].blocked;
}

/* "Rank 4" or "Ranks 1-3, 7"; how many. */
static int put_ranks(const struct rg_stall_facts *facts, const bool *in, bool capital,
                     struct rg_buf *out)
{
    int count = 0, put = 0;

    for (int r = 0; r < facts->nranks; r++)
        count += in[r];
    rg_buf_printf(out, "%c%s ", capital ? 'R' : 'r', count == 1 ? "ank" : "anks");
    for (int r = 0; r < facts->nranks; r++) {
        int last = r;

        if (!in[r])
            continue;
        while (last + 1 < facts->nranks && in[last + 1] &&
               shown(facts, last + 1) == shown(facts, last) + 1)
            last++;
        rg_buf_printf(out, "%s%d", !put++ ? "" : count == 2 ? " and " : ", ", shown(facts, r));
        if (last > r)
            rg_buf_printf(out, "%s%d", last > r + 1 ? "-" : count == 2 ? " and " : ", ",
                          shown(facts, last));
        r = last;
    }
    return count;
}

static void put_raw(const char *key, struct rg_buf *out)
{
    rg_buf_printf(out, "%s", key);
}

/* "allreduce.a, allreduce.b": what the rank is in this state with; r < 0: all. How many. */
static int put_names(const struct rg_stall_facts *facts, int r, enum rg_stall_state state,
                     uint64_t than_ms, void (*put)(const char *key, struct rg_buf *out),
                     struct rg_buf *out)
{
    int n = 0;

    for (int i = 0; i < facts->nops; i++) {
        if (!counts(facts, i, than_ms) || (r >= 0 && facts->ops[i].states[r] != (char) state))
            continue;
        if (n++ < NAMES_SHOWN) {
            rg_buf_printf(out, "%s", n > 1 ? ", " : "");
            put(facts->ops[i].name, out);
        }
    }
    if (n > NAMES_SHOWN)
        rg_buf_printf(out, " ...");
    return n;
}

void rg_stall_facts_name(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out)
{
    put_names(facts, -1, RG_STALL_UNKNOWN, than_ms, rg_stall_key_print, out);
}

static void tell_set(const struct rg_stall_facts *facts, int r, const bool *in, uint64_t than_ms,
                     struct rg_buf *out)
{
    rg_autobuf struct rg_buf called = RG_BUF_INIT;
    int count = put_ranks(facts, in, true, out);

    rg_buf_printf(out, count == 1 ? " has not called " : " have not called ");
    put_names(facts, r, RG_STALL_OWES, than_ms, rg_stall_key_print, out);
    if (put_names(facts, r, RG_STALL_CALLED, than_ms, rg_stall_key_print, &called)) {
        if (facts->who[r].blocked)
            rg_buf_printf(out, count == 1 ? "; it waits in " : "; they wait in ");
        else
            rg_buf_printf(out, count == 1 ? "; it has called " : "; they have called ");
        rg_buf_printf(out, "%s", rg_buf_text(&called));
    }
    rg_buf_printf(out, ".\n");
}

static void tell_sets(const struct rg_stall_facts *facts, bool *in, bool *done, uint64_t than_ms,
                      struct rg_buf *out)
{
    int nsets = 0;

    for (int r = 0; r < facts->nranks; r++) {
        if (done[r] || !is_missing(facts, r, than_ms))
            continue;
        if (++nsets > SETS_SHOWN) {
            rg_buf_printf(out, "Other ranks have not called theirs either.\n");
            return;
        }
        for (int k = 0; k < facts->nranks; k++) {
            in[k] = k >= r && !done[k] && alike(facts, r, k, than_ms);
            done[k] |= in[k];
        }
        tell_set(facts, r, in, than_ms, out);
    }
}

bool rg_stall_facts_tell_failing(const struct rg_stall_facts *facts, uint64_t than_ms,
                                 unsigned long long seconds, struct rg_buf *out)
{
    rg_autofree bool *in = calloc((size_t) facts->nranks + 1, sizeof(bool));
    bool some = false;

    for (int r = 0; in && r < facts->nranks; r++) {
        in[r] = is_missing(facts, r, than_ms);
        some |= in[r];
        if (in[r] && !facts->who[r].fails)
            return false;
    }
    if (!some)
        return false;
    bool one = put_ranks(facts, in, false, out) == 1;

    rg_buf_printf(out, " %s failed by an error that nobody caught, and %s not ended yet; others "
                       "have waited for %llu s\n", one ? "has" : "have", one ? "has" : "have",
                  seconds);
    return true;
}

/* Does the rank wait for one of these? */
static bool waits_for(const struct rg_stall_facts *facts, int r, const bool *in, uint64_t than_ms)
{
    for (int i = 0; i < facts->nops; i++) {
        const char *states = facts->ops[i].states;

        if (!counts(facts, i, than_ms) || states[r] != RG_STALL_CALLED)
            continue;
        for (int k = 0; k < facts->nranks; k++) {
            if (in[k] && states[k] == RG_STALL_OWES)
                return true;
        }
    }
    return false;
}

/* Who is blocked, waits for one of the others who are, and is waited for by one: what is left when
 * all who do not have been taken away. Whether there is somebody. */
static bool find_deadlock(const struct rg_stall_facts *facts, bool *in, uint64_t than_ms)
{
    bool changed = true, some = false;

    for (int r = 0; r < facts->nranks; r++)
        in[r] = facts->who[r].blocked && is_missing(facts, r, than_ms);
    while (changed) {
        changed = some = false;
        for (int r = 0; r < facts->nranks; r++) {
            if (in[r] && !waits_for(facts, r, in, than_ms)) {
                in[r] = false;
                changed = true;
            }
            some |= in[r];
        }
    }
    return some;
}

bool rg_stall_facts_is_deadlock(const struct rg_stall_facts *facts, uint64_t than_ms, bool at_rest)
{
    rg_autofree bool *in = calloc((size_t) facts->nranks + 1, sizeof(bool));

    for (int r = 0; at_rest && r < facts->nranks; r++) {
        if (!facts->who[r].rests)
            return false;
    }
    return in && find_deadlock(facts, in, than_ms);
}

void rg_stall_facts_tell_unrest(const struct rg_stall_facts *facts, struct rg_buf *out)
{
    int first = -1, nmore = -1;

    for (int r = 0; r < facts->nranks; r++) {
        const struct rg_stall_who *who = &facts->who[r];

        if (who->rests || (who->blocked && !who->unrest))
            continue;
        first = first < 0 ? r : first;
        nmore++;
    }
    if (first < 0)
        return;
    rg_buf_printf(out, "rank %d %s", shown(facts, first),
                  facts->who[first].blocked ? facts->who[first].unrest : "is not seen to wait");
    if (nmore)
        rg_buf_printf(out, ", and %d more do%s not rest either", nmore, nmore == 1 ? "es" : "");
}

/* How often what the rank is in this state with has been done before. */
static uint64_t times_of(const struct rg_stall_facts *facts, int r, enum rg_stall_state state,
                         uint64_t than_ms)
{
    uint64_t times = 0;

    for (int i = 0; i < facts->nops; i++) {
        const struct rg_stall_op *op = &facts->ops[i];

        if (counts(facts, i, than_ms) && op->states[r] == (char) state && op->times > times)
            times = op->times;
    }
    return times;
}

/* Who of these waits in what has been done less often than what others wait for him in: he may have
 * come to the end of a loop before them. Whether there is somebody. */
static bool find_ended(const struct rg_stall_facts *facts, const bool *in, uint64_t than_ms,
                       bool *ret_ended)
{
    bool some = false;

    for (int r = 0; r < facts->nranks; r++) {
        uint64_t owed = times_of(facts, r, RG_STALL_OWES, than_ms);

        ret_ended[r] = in[r] && owed >= LOOP_TIMES &&
                       times_of(facts, r, RG_STALL_CALLED, than_ms) < owed;
        some |= ret_ended[r];
    }
    return some;
}

/* What may be the cause, and what helps. */
static void tell_remedy(const struct rg_stall_facts *facts, const bool *in, uint64_t than_ms,
                        struct rg_buf *out)
{
    rg_autofree bool *ended = calloc((size_t) facts->nranks + 1, sizeof(bool));

    if (!ended || !find_ended(facts, in, than_ms, ended)) {
        rg_buf_printf(out, "All ranks must call the same operations: look for a branch that "
                           "differs between ranks.\n");
        return;
    }
    put_ranks(facts, ended, true, out);
    rg_buf_printf(out, " may have had fewer batches than the others: give all as many "
                       "(drop_last=True), or call join() behind the loop. Else look for a branch "
                       "that differs between ranks.\n");
}

static void tell_deadlock(const struct rg_stall_facts *facts, bool *in, uint64_t than_ms,
                          struct rg_buf *out)
{
    if (!find_deadlock(facts, in, than_ms))
        return;
    rg_buf_printf(out, "This is a deadlock: ");
    put_ranks(facts, in, false, out);
    rg_buf_printf(out, " wait for each other, and none of them can go on. ");
    tell_remedy(facts, in, than_ms, out);
}

static void tell_details(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out)
{
    int n = 0;

    for (int r = 0; r < facts->nranks; r++) {
        if (facts->who[r].fails && is_missing(facts, r, than_ms) && n++ < DETAILS_SHOWN)
            rg_buf_printf(out, "Rank %d failed by an error that nobody caught, and has not ended "
                          "yet.\n", shown(facts, r));
        /* Of one that waits in an operation enough has been said. */
        if (!facts->who[r].detail || facts->who[r].blocked || !is_missing(facts, r, than_ms))
            continue;
        if (n++ < DETAILS_SHOWN)
            rg_buf_printf(out, "Rank %d %s.\n", shown(facts, r), facts->who[r].detail);
    }
}

static bool is_known(const struct rg_stall_who *who)
{
    return who->place || who->call;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool at_one_place(const struct rg_stall_facts *facts, int a, int b, uint64_t than_ms)
{
    const struct rg_stall_who *x = &facts->who[a], *y = &facts->who[b];

    return alike(facts, a, b, than_ms) && same_text(x->place, y->place) &&
           same_text(x->call, y->call);
}

/* "Ranks 0-2 wait in allreduce.grad, at train.py:57 in step."; "Rank 3 is at train.py:41 in
 * load_batch, in read(/data/part-3)." */
static void tell_place(const struct rg_stall_facts *facts, int r, const bool *in, uint64_t than_ms,
                       struct rg_buf *out)
{
    const struct rg_stall_who *who = &facts->who[r];
    rg_autobuf struct rg_buf called = RG_BUF_INIT;
    bool one = put_ranks(facts, in, true, out) == 1;

    if (who->blocked &&
        put_names(facts, r, RG_STALL_CALLED, than_ms, rg_stall_key_print, &called))
        rg_buf_printf(out, "%s %s%s", one ? " waits in" : " wait in", rg_buf_text(&called),
                      who->place ? ", at " : "");
    else
        rg_buf_printf(out, "%s%s", one ? " is" : " are", who->place ? " at " : "");
    rg_buf_printf(out, "%s", who->place ? who->place : "");
    if (who->call && !who->blocked)
        rg_buf_printf(out, "%s in %s", who->place ? "," : "", who->call);
    rg_buf_printf(out, ".\n");
}

static void tell_places(const struct rg_stall_facts *facts, bool *in, bool *done, uint64_t than_ms,
                        struct rg_buf *out)
{
    int nplaces = 0;

    memset(done, 0, (size_t) facts->nranks * sizeof(*done));
    for (int r = 0; r < facts->nranks; r++) {
        if (done[r] || !is_known(&facts->who[r]))
            continue;
        if (++nplaces > PLACES_SHOWN) {
            rg_buf_printf(out, "Other ranks are at other places.\n");
            return;
        }
        for (int k = 0; k < facts->nranks; k++) {
            in[k] = k >= r && !done[k] && at_one_place(facts, r, k, than_ms);
            done[k] |= in[k];
        }
        tell_place(facts, r, in, than_ms, out);
    }
}

void rg_stall_facts_tell(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out)
{
    rg_autofree bool *in = calloc((size_t) facts->nranks + 1, sizeof(bool));
    rg_autofree bool *done = calloc((size_t) facts->nranks + 1, sizeof(bool));

    if (!in || !done)
        return;
    tell_sets(facts, in, done, than_ms, out);
    if (rg_buf_nbytes(out) == 0)
        return;
    tell_deadlock(facts, in, than_ms, out);
    tell_details(facts, than_ms, out);
    tell_places(facts, in, done, than_ms, out);
}

/* What the rank has owed for longest, as a number; 0: nothing. Of one age the first by name. */
static uint64_t mark_of(const struct rg_stall_facts *facts, int r, uint64_t than_ms)
{
    const struct rg_stall_op *oldest = NULL;
    uint64_t mark = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < facts->nops; i++) {
        const struct rg_stall_op *op = &facts->ops[i];

        if (counts(facts, i, than_ms) && op->states[r] == RG_STALL_OWES &&
            (!oldest || op->age_ms > oldest->age_ms ||
             (op->age_ms == oldest->age_ms && strcmp(op->name, oldest->name) < 0)))
            oldest = op;
    }
    for (const char *c = oldest ? oldest->name : ""; *c; c++)
        mark = (mark ^ (uint8_t) *c) * UINT64_C(0x100000001b3);
    return oldest ? mark | 1 : 0;
}

bool rg_stall_facts_is_news(const struct rg_stall_facts *facts, uint64_t than_ms, uint64_t *told)
{
    uint64_t *deadlock = &told[facts->nranks];
    bool is_deadlock = rg_stall_facts_is_deadlock(facts, than_ms, false);
    bool news = is_deadlock && !*deadlock;

    for (int r = 0; r < facts->nranks && !news; r++) {
        uint64_t mark = mark_of(facts, r, than_ms);

        news = mark && mark != told[r];
    }
    for (int r = 0; r < facts->nranks && news; r++)
        told[r] = mark_of(facts, r, than_ms);
    *deadlock = news ? is_deadlock : *deadlock;
    return news;
}

void rg_stall_facts_sum_up(const struct rg_stall_facts *facts, uint64_t than_ms,
                           struct rg_buf *out)
{
    rg_autofree bool *in = calloc((size_t) facts->nranks + 1, sizeof(bool));
    rg_autofree bool *done = calloc((size_t) facts->nranks + 1, sizeof(bool));
    rg_autobuf struct rg_buf all = RG_BUF_INIT;
    const char *text;

    if (in && done)
        tell_sets(facts, in, done, than_ms, &all);
    text = rg_buf_text(&all);
    rg_buf_printf(out, "%.*s", (int) strcspn(text, "\n"), text);
    for (int r = 0; r < facts->nranks; r++) {
        const struct rg_stall_who *who = &facts->who[r];

        if (!is_missing(facts, r, than_ms))
            continue;
        if (who->place && !who->blocked)
            rg_buf_printf(out, " Rank %d is at %s.", shown(facts, r), who->place);
        return;
    }
}

void rg_stall_facts_list(const struct rg_stall_facts *facts, uint64_t than_ms, struct rg_buf *out)
{
    int n = 0;

    for (int r = 0; r < facts->nranks; r++) {
        if (!is_missing(facts, r, than_ms))
            continue;
        if (++n > LISTED) {
            rg_buf_printf(out, "\n...");
            return;
        }
        rg_buf_printf(out, "\n%d: [", shown(facts, r));
        put_names(facts, r, RG_STALL_OWES, than_ms, put_raw, out);
        rg_buf_printf(out, "]");
    }
}
