/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences by which a job ends: who failed first, with what, and who died of it. */
#include "head/show/verdict.h"

#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "head/show/twice.h"

#define BOLD_RED "\033[1;31m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"
#define PLACES_MAX 16 /* lines about where ranks were */

void rg_rank_end_print(const struct rg_rank_end *end, struct rg_buf *text)
{
    switch (end->end) {
    case RG_END_EXIT:
        rg_shown_printf(text, "exit code %d%s", end->value,
                        end->value == 0 && end->in_runtime ? ", without reigen_shutdown" : "");
        break;
    case RG_END_SIGNAL:
        rg_shown_printf(text, "signal %d (%s)", end->value, strsignal(end->value));
        break;
    case RG_END_NOT_STARTED:
        if (end->consequence)
            rg_shown_printf(text, "not started any more");
        else
            rg_shown_printf(text, "could not be started: %s", strerror(end->value));
        break;
    case RG_END_LOST:
        rg_shown_printf(text, "lost with its host");
        break;
    }
    if (end->oom && end->end == RG_END_EXIT)
        rg_shown_printf(text, ", after one of its processes was killed because memory ran out");
    else if (end->oom)
        rg_shown_printf(text, ", because memory ran out");
    if (end->oom && end->memory && *end->memory)
        rg_shown_printf(text, " (%s)", end->memory);
}

void rg_verdict_indent(const char *lines, struct rg_buf *text)
{
    for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
        n = strcspn(lines, "\n");
        rg_shown_printf(text, lines[n] ? "%.*s\n  " : "%.*s", (int) n, lines);
    }
}

static bool is_ok(const struct rg_rank_end *end)
{
    return end->end == RG_END_EXIT && end->value == 0;
}

/* All else is put as a terminal may get it. */
static void put_colour(struct rg_buf *text, const struct rg_verdict_style *style,
                       const char *sequence)
{
    if (style->colour)
        rg_buf_put(text, sequence, strlen(sequence));
}

static void print_cause(const struct rg_verdict *v, const struct rg_verdict_style *style,
                        struct rg_buf *text)
{
    rg_shown_printf(text, "reigen: ");
    put_colour(text, style, BOLD_RED);
    rg_shown_printf(text, "%s", v->cause);
    put_colour(text, style, PLAIN);
    rg_shown_printf(text, "\n");
}

/* This package or a module in it, and none whose name begins so. */
static bool misses(const char *line, const char *package)
{
    static const char says[] = "No module named '";
    const char *at = strstr(line, says);
    size_t n = strlen(package);

    at = at ? at + strlen(says) : "";
    return strncmp(at, package, n) == 0 && (at[n] == '\'' || at[n] == '.');
}

/* Of a Python to which nobody has brought our packages. */
static void print_missing_packages(const struct rg_verdict *v, struct rg_buf *text)
{
    for (size_t i = 0; i < v->nlast_lines; i++) {
        if (misses(v->last_lines[i], "horovod") || misses(v->last_lines[i], "reigen")) {
            rg_shown_printf(text, "  that Python has no Horovod of Reigen's: install Reigen for "
                                  "it, or start the job by reigen run --inject-runtime\n");
            return;
        }
    }
}

int rg_verdict_put_ranks(const bool *in, int nranks, struct rg_buf *text)
{
    rg_autobuf struct rg_buf set = RG_BUF_INIT;
    int count = 0;

    for (int r = 0; r < nranks; r++) {
        int last = r;
        if (!in[r])
            continue;
        while (last + 1 < nranks && in[last + 1])
            last++;
        rg_shown_printf(&set, last > r ? "%s%d-%d" : "%s%d", count ? ", " : "", r, last);
        count += last - r + 1;
        r = last;
    }
    rg_shown_printf(text, "rank%s %s", count == 1 ? "" : "s", rg_buf_text(&set));
    return count;
}

/* Tasks of roles by their names. As rg_verdict_put_ranks. */
static int put_who(const struct rg_verdict *v, const bool *in, int nranks, struct rg_buf *text)
{
    int count = 0;

    if (!nranks || !v->ends[0].engine)
        return rg_verdict_put_ranks(in, nranks, text);
    for (int r = 0; r < nranks; r++) {
        if (in[r])
            rg_shown_printf(text, "%s%s", count++ ? ", " : "", v->ends[r].engine);
    }
    return count;
}

/* "ranks 0-2 of 4 failed with the same error: " */
static void put_same(const struct rg_verdict *v, const struct rg_plan *plan, struct rg_buf *text)
{
    rg_autofree bool *in = calloc((size_t) plan->nranks + 1, sizeof *in);
    rg_autobuf struct rg_buf set = RG_BUF_INIT;
    int count = 0;

    for (int r = 0; in && r < plan->nranks; r++)
        in[r] = v->ends[r].same;
    if (in)
        count = put_who(v, in, plan->nranks, &set);
    const char *what = v->ends[0].engine ? "tasks" : "ranks";

    if (count < plan->nranks)
        rg_shown_printf(text, "%s of %d", rg_buf_text(&set), plan->nranks);
    else if (count == 2)
        rg_shown_printf(text, "both %s", what);
    else
        rg_shown_printf(text, "all %d %s", count, what);
    rg_shown_printf(text, " failed with the same error: ");
}

static void print_first(const struct rg_verdict *v, const struct rg_plan *plan,
                        const struct rg_verdict_style *style, struct rg_buf *text)
{
    const struct rg_rank_end *first = v->first;

    /* Why a rank could not be started is said best by who tried. */
    if (first->end == RG_END_NOT_STARTED && *v->cause) {
        print_cause(v, style, text);
        return;
    }
    rg_shown_printf(text, "reigen: ");
    put_colour(text, style, BOLD_RED);
    if (first->sshd_host)
        rg_shown_printf(text, "sshd on %s, port %d, failed, and %s did not begin: ",
                        first->sshd_host, first->sshd_port, first->engine);
    else if (first->same && v->ends)
        put_same(v, plan, text);
    else if (first->engine)
        rg_shown_printf(text, "%s on %s failed: ", first->engine, first->host);
    else
        rg_shown_printf(text, "rank %d on %s %s first: ", first->rank, first->host,
                        is_ok(first) ? "left" : "failed");
    rg_rank_end_print(first, text);
    if (is_ok(first))
        rg_shown_printf(text, ", while others waited for it");
    put_colour(text, style, PLAIN);
    rg_shown_printf(text, ", after %.1f s\n", (double) first->at_ns / 1e9);
    if (is_ok(first) && !first->engine && !first->in_runtime)
        rg_shown_printf(text, "  If it had fewer batches than they: drop_last=True gives all as "
                              "many, and join() behind the loop waits for the others.\n");
    if (first->oom)
        rg_shown_printf(text, "  Let it use less memory (fewer ranks on a host, a smaller batch), "
                              "or give it more: --mem of Slurm, --memory of a container.\n");
    if (first->note && *first->note) {
        rg_shown_printf(text, "  its runtime reported: ");
        rg_verdict_indent(style->note ? style->note : first->note, text);
        rg_shown_printf(text, "\n");
    }
    /* Why an sshd failed was one line, which has just been shown. */
    for (size_t i = style->nshown; i < v->nlast_lines && !style->quiet && !first->sshd_host; i++) {
        if (i == style->nshown)
            rg_shown_printf(text, "  its last lines:\n");
        rg_shown_printf(text, "    ");
        put_colour(text, style, DIM);
        rg_shown_printf(text, "| %s", v->last_lines[i]);
        put_colour(text, style, PLAIN);
        rg_shown_printf(text, "\n");
    }
    print_missing_packages(v, text);
}

static bool same_end(const struct rg_rank_end *a, const struct rg_rank_end *b)
{
    return a->end == b->end && a->value == b->value && a->oom == b->oom &&
           a->consequence == b->consequence;
}

/* By the line about the first. */
static bool is_told(const struct rg_verdict *v, const struct rg_rank_end *end)
{
    return end == v->first || end->same;
}

/* "ranks 0-1, 3": those that ended as ranks[from] did, from there on. */
static void print_group(const struct rg_verdict *v, const struct rg_plan *plan, int from,
                        bool *done, struct rg_buf *text)
{
    rg_autofree bool *in = calloc((size_t) plan->nranks + 1, sizeof *in);

    for (int r = from; in && r < plan->nranks; r++) {
        in[r] = !done[r] && !is_told(v, &v->ends[r]) && same_end(&v->ends[r], &v->ends[from]);
        done[r] |= in[r];
    }
    if (!in)
        return;
    rg_shown_printf(text, v->ends[from].consequence ? "  died of it: " : "  also failed: ");
    put_who(v, in, plan->nranks, text);
    rg_shown_printf(text, ": ");
    rg_rank_end_print(&v->ends[from], text);
    rg_shown_printf(text, "\n");
}

static void print_others(const struct rg_verdict *v, const struct rg_plan *plan,
                         struct rg_buf *text)
{
    rg_autofree bool *done = calloc((size_t) plan->nranks + 1, sizeof *done);

    for (int pass = 0; done && pass < 2; pass++) {
        for (int r = 0; r < plan->nranks; r++) {
            const struct rg_rank_end *end = &v->ends[r];
            if (!done[r] && !is_told(v, end) && !is_ok(end) && end->consequence == (pass == 1))
                print_group(v, plan, r, done, text);
        }
    }
}

static bool has_place(const struct rg_rank_end *end)
{
    bool saved = end->end == RG_END_EXIT && end->value == RG_EXIT_PREEMPTED;

    return end->place && *end->place && !is_ok(end) && !saved;
}

/* "ranks 0-2 were at train.py:41 in load_batch": of those that had to end. */
static void print_places(const struct rg_verdict *v, struct rg_buf *text)
{
    size_t n = (size_t) v->nends;
    rg_autofree bool *in = calloc(n + 1, sizeof *in), *done = calloc(n + 1, sizeof *done);

    for (int from = 0, nlines = 0; in && done && from < v->nends; from++) {
        const char *place = v->ends[from].place;
        bool last = nlines + 1 == PLACES_MAX;

        if (done[from] || !has_place(&v->ends[from]) || nlines++ == PLACES_MAX)
            continue;
        for (int r = from; r < v->nends; r++) {
            in[r] = !done[r] && has_place(&v->ends[r]) &&
                    (last || strcmp(v->ends[r].place, place) == 0);
            done[r] |= in[r];
        }
        rg_shown_printf(text, "  ");
        int count = put_who(v, in, v->nends, text);
        rg_shown_printf(text, last && count > 1 ? " were elsewhere\n" : " %s at %s\n",
                        count > 1 ? "were" : "was", place);
        memset(in, 0, n);
    }
}

/* What reigen ends with, and whose code that is. */
static void print_code(const struct rg_verdict *v, int code, struct rg_buf *text)
{
    const char *name = rg_exit_name(code);
    const struct rg_rank_end *from = v->first ? v->code_of : NULL;
    bool own = from && from->end == RG_END_EXIT && from->value == code;

    if (own && from != v->first)
        rg_shown_printf(text, "reigen: exit code %d, rank %d's own\n", code, from->rank);
    else if (own && from->same)
        rg_shown_printf(text, "reigen: exit code %d, %s' own\n", code,
                        v->first->engine ? "the tasks" : "the ranks");
    else if (own && !v->first->sshd_host)
        rg_shown_printf(text, "reigen: exit code %d, %s's own\n", code,
                        v->first->engine ? v->first->engine : "the rank");
    else
        rg_shown_printf(text, "reigen: exit code %d (%s); reigen explain %d says more\n", code,
                        name, code);
}

/* A job that ends well may have had tasks that did not. */
static void print_borne(const struct rg_verdict *v, const struct rg_plan *plan,
                        struct rg_buf *text)
{
    rg_autofree bool *in = calloc((size_t) plan->nranks + 1, sizeof *in);
    rg_autofree bool *done = calloc((size_t) plan->nranks + 1, sizeof *done);

    for (int from = 0; in && done && v->ends && from < plan->nranks; from++) {
        const struct rg_rank_end *end = &v->ends[from];
        if (!end->borne || done[from])
            continue;
        for (int r = from; r < plan->nranks; r++) {
            in[r] = v->ends[r].borne && same_end(&v->ends[r], end) && !done[r];
            done[r] |= in[r];
        }
        rg_buf_printf(text, "reigen: failed, as the rules of the roles allow: ");
        put_who(v, in, plan->nranks, text);
        rg_buf_printf(text, ": ");
        rg_rank_end_print(end, text);
        rg_buf_printf(text, "\n");
        memset(in, 0, (size_t) plan->nranks);
    }
}

void rg_verdict_print(const struct rg_verdict *v, const struct rg_plan *plan,
                      const struct rg_verdict_style *style, struct rg_buf *text)
{
    int code = style->exit_code;

    if (v->ok && code == 0) {
        if (!style->quiet)
            print_borne(v, plan, text);
        if (style->verbose)
            rg_shown_printf(text, "reigen: %d rank%s ended well after %.1f s\n", plan->np,
                            plan->np == 1 ? "" : "s", (double) v->elapsed_ns / 1e9);
        return;
    }
    if (v->first)
        print_first(v, plan, style, text);
    else if (*v->cause)
        print_cause(v, style, text);
    if (v->first && v->ends && !style->quiet)
        print_others(v, plan, text);
    if (v->ends && !style->quiet)
        print_places(v, text);
    rg_twice_print(v->twice, text);
    if (!style->again)
        print_code(v, code, text);
}

void rg_verdict_print_horovod(const struct rg_verdict *v, struct rg_buf *text)
{
    /* Who ended with another code than 0. */
    const struct rg_rank_end *first = v->first ? v->code_of : NULL;

    if (v->ok || !first)
        return;
    int code = first->end == RG_END_EXIT     ? first->value
               : first->end == RG_END_SIGNAL ? RG_EXIT_SIGNAL + first->value
                                             : v->exit_code;

    rg_shown_printf(text,
                    "Horovod detected that one or more processes exited with non-zero status, thus "
                    "causing the job to be terminated. The first process to do so was:\n"
                    "Process name: %d\nExit code: %d\n",
                    first->rank, code);
}
