/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank has the text of its latest traceback and of what came after it. Two ranks agree as long
 * as one's text begins with the other's, so a comparison is one memcmp, and nothing is parsed but
 * the line with which a traceback begins. */
#include "head/show/tracebacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "head/show/verdict.h"
#include "launch/verdict/tail.h"

enum state { QUIET, HELD, PATTERN, LEFT_OUT };

struct rg_traceback {
    enum state state;
    bool ended;          /* the stream */
    bool chained;        /* the next traceback belongs to this one */
    struct rg_buf raw;   /* unless QUIET: as the rank wrote it */
    struct rg_buf text;  /* and what is compared: without the prefix */
    size_t nprefix;      /* of rg_tail_prefix, with which raw begins */
    uint64_t since_ns;   /* HELD: its first line */
    int as;              /* LEFT_OUT: as this rank's */
};

int rg_tracebacks_init(struct rg_tracebacks *all, int nranks,
                       void (*show)(void *arg, int rank, const struct rg_line *line), void *arg)
{
    *all = (struct rg_tracebacks){ .nranks = nranks, .show = show, .arg = arg };
    all->ranks = calloc((size_t) nranks + 1, sizeof *all->ranks);
    return all->ranks ? 0 : -ENOMEM;
}

int rg_tracebacks_grow(struct rg_tracebacks *all, int nranks)
{
    struct rg_traceback *ranks =
        all->ranks ? realloc(all->ranks, ((size_t) nranks + 1) * sizeof *ranks) : NULL;

    if (!ranks)
        return all->ranks ? -ENOMEM : 0;
    all->ranks = ranks;
    for (; all->nranks < nranks; all->nranks++)
        ranks[all->nranks] = (struct rg_traceback){ .as = 0 };
    return 0;
}

/* After its prefix. */
static bool is(const struct rg_line *line, size_t nprefix, const char *text)
{
    return line->nbytes - nprefix == strlen(text) &&
           memcmp(line->data + nprefix, text, line->nbytes - nprefix) == 0;
}

static bool begins(const struct rg_line *line, size_t nprefix)
{
    return line->newline && !line->continued &&
           is(line, nprefix, "Traceback (most recent call last):");
}

/* Python's words between the two tracebacks of an error that came of another one. */
static void note_chain(struct rg_traceback *of, const struct rg_line *line, size_t nprefix)
{
    if (line->nbytes > nprefix)
        of->chained =
            is(line, nprefix,
               "During handling of the above exception, another exception occurred:") ||
            is(line, nprefix,
               "The above exception was the direct cause of the following exception:");
}

static void set_state(struct rg_tracebacks *all, struct rg_traceback *of, enum state state)
{
    all->nheld += (state == HELD) - (of->state == HELD);
    all->npatterns += (state == PATTERN) - (of->state == PATTERN);
    of->state = state;
    if (state == QUIET || state == LEFT_OUT) {
        rg_buf_fini(&of->raw);
        rg_buf_fini(&of->text);
    }
}

void rg_tracebacks_fini(struct rg_tracebacks *all)
{
    for (int r = 0; all->ranks && r < all->nranks; r++)
        set_state(all, &all->ranks[r], QUIET);
    free(all->ranks);
    *all = (struct rg_tracebacks){ 0 };
}

static bool agrees(const struct rg_traceback *held, const struct rg_traceback *pattern)
{
    size_t a = rg_buf_nbytes(&held->text), b = rg_buf_nbytes(&pattern->text);

    if (pattern->state != PATTERN || (pattern->ended && a > b) || (held->ended && b > a))
        return false;
    return memcmp(rg_buf_bytes(&held->text), rg_buf_bytes(&pattern->text), a < b ? a : b) == 0;
}

static void show_held(struct rg_tracebacks *all, int rank)
{
    const uint8_t *at = rg_buf_bytes(&all->ranks[rank].raw);
    const uint8_t *end = at + rg_buf_nbytes(&all->ranks[rank].raw);

    while (at < end) {
        const uint8_t *newline = memchr(at, '\n', (size_t) (end - at));
        const struct rg_line line = { .data = at, .newline = true,
                                      .nbytes = (size_t) ((newline ? newline : end) - at) };
        all->show(all->arg, rank, &line);
        at += line.nbytes + 1;
    }
}

/* Nobody's so far: what was held is shown, and others may repeat it, or it is of no more use. */
static void release(struct rg_tracebacks *all, int rank, bool useful)
{
    struct rg_traceback *of = &all->ranks[rank];

    show_held(all, rank);
    set_state(all, of, useful && all->npatterns < RG_TRACEBACKS_PATTERNS ? PATTERN : QUIET);
}

/* Judge one that is held by the patterns there are. */
static void judge(struct rg_tracebacks *all, int rank)
{
    struct rg_traceback *of = &all->ranks[rank];
    bool may_agree = false;

    for (int r = 0; r < all->nranks; r++) {
        if (r == rank || !agrees(of, &all->ranks[r]))
            continue;
        may_agree = true;
        if (of->ended && all->ranks[r].ended) {
            of->as = r;
            set_state(all, of, LEFT_OUT);
            return;
        }
    }
    if (!may_agree)
        release(all, rank, true);
}

/* A pattern has changed. */
static void judge_held(struct rg_tracebacks *all)
{
    for (int r = 0; all->nheld && r < all->nranks; r++) {
        if (all->ranks[r].state == HELD)
            judge(all, r);
    }
}

/* A new traceback: the one before it was not the rank's last. */
static void begin(struct rg_tracebacks *all, int rank, size_t nprefix, uint64_t now_ns)
{
    struct rg_traceback *of = &all->ranks[rank];

    if (of->state == HELD)
        release(all, rank, false);
    set_state(all, of, QUIET);
    set_state(all, of, HELD);
    of->nprefix = nprefix;
    of->since_ns = now_ns;
}

/* Only what the traceback began with: a line about another rank differs by its number. */
static size_t own_prefix(const struct rg_traceback *of, const struct rg_line *line)
{
    bool has = line->nbytes >= of->nprefix &&
               memcmp(line->data, rg_buf_bytes(&of->raw), of->nprefix) == 0;

    return has ? of->nprefix : 0;
}

static void take(struct rg_tracebacks *all, int rank, const struct rg_line *line)
{
    struct rg_traceback *of = &all->ranks[rank];

    rg_buf_put(&of->raw, line->data, line->nbytes);
    rg_buf_put_u8(&of->raw, '\n');
    size_t nprefix = own_prefix(of, line);

    note_chain(of, line, nprefix);
    rg_buf_put(&of->text, line->data + nprefix, line->nbytes - nprefix);
    rg_buf_put_u8(&of->text, '\n');
    if (of->state == HELD)
        judge(all, rank);
    else
        all->show(all->arg, rank, line);
    judge_held(all);
}

/* Whether this line can be kept: whole, and not too much. */
static bool fits(struct rg_traceback *of, const struct rg_line *line)
{
    return line->newline && !line->continued &&
           rg_buf_nbytes(&of->raw) + line->nbytes < RG_TRACEBACKS_MAX_NBYTES &&
           rg_buf_reserve(&of->raw, line->nbytes + 1) &&
           rg_buf_reserve(&of->text, line->nbytes + 1);
}

void rg_tracebacks_line(struct rg_tracebacks *all, int rank, const struct rg_line *line,
                        uint64_t now_ns)
{
    struct rg_traceback *of = all->ranks ? &all->ranks[rank] : NULL;
    size_t nprefix = rg_tail_prefix(line->data, line->nbytes);

    if (of && begins(line, nprefix) && !(of->state != QUIET && of->chained))
        begin(all, rank, nprefix, now_ns);
    if (of && of->state != QUIET && fits(of, line)) {
        take(all, rank, line);
        return;
    }
    if (of && of->state != QUIET) {
        if (of->state == HELD)
            release(all, rank, false);
        set_state(all, of, QUIET);
        judge_held(all);
    }
    all->show(all->arg, rank, line);
}

void rg_tracebacks_end(struct rg_tracebacks *all, int rank)
{
    if (!all->ranks || all->ranks[rank].ended)
        return;
    all->ranks[rank].ended = true;
    judge_held(all);
}

void rg_tracebacks_expire(struct rg_tracebacks *all, uint64_t now_ns)
{
    for (int r = 0; all->nheld && r < all->nranks; r++) {
        struct rg_traceback *of = &all->ranks[r];
        if (of->state == HELD && now_ns - of->since_ns >= RG_TRACEBACKS_HOLD_NS)
            release(all, r, false);
    }
}

int rg_tracebacks_shown_by(const struct rg_tracebacks *all, int rank)
{
    return all->ranks && all->ranks[rank].state == LEFT_OUT ? all->ranks[rank].as : rank;
}

static void tell_one(const struct rg_tracebacks *all, int as, struct rg_buf *text)
{
    rg_autofree bool *in = calloc((size_t) all->nranks, sizeof *in);
    bool any = false;

    for (int r = 0; in && r < all->nranks; r++) {
        in[r] = r != as && rg_tracebacks_shown_by(all, r) == as;
        any |= in[r];
    }
    if (!any)
        return;
    rg_buf_printf(text, "reigen: ");
    rg_verdict_put_ranks(in, all->nranks, text);
    rg_buf_printf(text, ": the same traceback as rank %d's\n", as);
}

void rg_tracebacks_tell(const struct rg_tracebacks *all, struct rg_buf *text)
{
    for (int r = 0; all->ranks && r < all->nranks; r++) {
        if (rg_tracebacks_shown_by(all, r) == r)
            tell_one(all, r, text);
    }
}
