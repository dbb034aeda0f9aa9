/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gradients the ranks have in a graph, compared before they are sent.
 *
 * A graph is fixed when it is traced: a gradient that it lacks, or that is sparse in it, stays so.
 * Where another rank has it in another form, its operation would wait for ever. So each rank votes,
 * in an allreduce by Max: for each gradient there are three places, one per form, and the rank puts
 * its own number + 1 into the one that is its own. Where more than one place is taken, the ranks
 * differ, and all of them know a rank for each form. One that has joined votes for nothing.
 *
 * Gradients are known by their places. Behind the votes two digests of the variables' names follow,
 * one of which does not depend on their order, each with its difference from the greatest number:
 * the greatest of both tell whether all are equal. Names may differ, as frameworks number them; but
 * the same ones in another order would mix the gradients.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define NAMED_MAX 4       /* gradients named in an error */
#define NAME_WIDTH_MAX 120

#define NDIGESTS 4

enum form { NONE, DENSE, SPARSE, NFORMS };

static const char *const has[NFORMS] = { "has none", "has a dense one", "has a sparse one" };

struct agreement {
    int n;
    char *names;  /* a line each, all of it one text */
    char forms[]; /* n of '-', 'd' and 's' */
};

/* ---- attributes */

static bool good(const TF_Status *status)
{
    return TF_GetCode(status) == TF_OK;
}

static int nbytes_of(TF_OpKernelConstruction *ctx, const char *name, TF_Status *status)
{
    int32_t list = 0, total = 0;

    if (good(status))
        TF_OpKernelConstruction_GetAttrSize(ctx, name, &list, &total, status);
    return good(status) && total > 0 ? total : 0;
}

static void read_text(TF_OpKernelConstruction *ctx, const char *name, char *ret, int nbytes,
                      TF_Status *status)
{
    if (nbytes && good(status))
        TF_OpKernelConstruction_GetAttrString(ctx, name, ret, (size_t) nbytes, status);
}

struct agreement *rg_tf_agree_create(TF_OpKernelConstruction *ctx, TF_Status *status)
{
    int n = nbytes_of(ctx, "forms", status), text = nbytes_of(ctx, "names", status);
    struct agreement *found = calloc(1, sizeof(*found) + (size_t) n + (size_t) text + 1);

    if (!found) {
        TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    found->n = n;
    found->names = found->forms + n;
    read_text(ctx, "forms", found->forms, n, status);
    read_text(ctx, "names", found->names, text, status);
    return found;
}

void rg_tf_agree_free(struct agreement *agreement)
{
    free(agreement);
}

/* ---- votes */

static enum form form_of(char letter)
{
    return letter == 'd' ? DENSE : letter == 's' ? SPARSE : NONE;
}

/* Of each line by itself FNV-1a (Fowler, Noll, Vo): their sum, and what depends on their order. */
static void put_digests(const char *names, int32_t ret[NDIGESTS])
{
    uint32_t any = 0, ordered = 0;

    while (*names) {
        uint32_t line = UINT32_C(0x811c9dc5);

        for (; *names && *names != '\n'; names++)
            line = (line ^ (uint8_t) *names) * UINT32_C(0x01000193);
        names += *names == '\n';
        any += line;
        ordered = (ordered ^ line) * UINT32_C(0x01000193);
    }
    ret[0] = (int32_t) (any >> 1);
    ret[1] = INT32_MAX - ret[0];
    ret[2] = (int32_t) (ordered >> 1);
    ret[3] = INT32_MAX - ret[2];
}

int32_t *rg_tf_agree_vote(const struct agreement *agreement, int *ret_n)
{
    int32_t *votes = calloc((size_t) agreement->n * NFORMS + NDIGESTS, sizeof(*votes));

    *ret_n = agreement->n * NFORMS + NDIGESTS;
    if (!votes)
        return NULL;
    for (int i = 0; i < agreement->n; i++)
        votes[i * NFORMS + (int) form_of(agreement->forms[i])] = reigen_rank() + 1;
    put_digests(agreement->names, votes + agreement->n * NFORMS);
    return votes;
}

static bool are_mixed(const int32_t *digests)
{
    return digests[0] == INT32_MAX - digests[1] && digests[2] != INT32_MAX - digests[3];
}

static int nforms_taken(const int32_t *votes)
{
    return (votes[NONE] > 0) + (votes[DENSE] > 0) + (votes[SPARSE] > 0);
}

/* ---- words */

struct text {
    char *at;
    size_t room;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->at, text->room, format, args);
    va_end(args);
    if (n > 0) {
        size_t used = (size_t) n < text->room ? (size_t) n : text->room - 1;

        text->at += used;
        text->room -= used;
    }
}

/* How many bytes of a line to show: at most NAME_WIDTH_MAX, in whole characters of UTF-8. */
static int width_of(const char *name)
{
    size_t n = strcspn(name, "\n");

    if (n <= NAME_WIDTH_MAX)
        return (int) n;
    for (n = NAME_WIDTH_MAX; n > 0 && ((uint8_t) name[n] & 0xc0) == 0x80;)
        n--;
    return (int) n;
}

/* "dense/kernel (rank 0 has a dense one, rank 1 has none)" */
static void add_gradient(struct text *text, const char *name, const int32_t *votes)
{
    static const enum form order[] = { DENSE, SPARSE, NONE };
    const char *between = "";

    add(text, "%.*s (", width_of(name), name);
    for (int k = 0; k < NFORMS; k++) {
        if (votes[order[k]] > 0) {
            add(text, "%srank %d %s", between, votes[order[k]] - 1, has[order[k]]);
            between = ", ";
        }
    }
    add(text, ")");
}

static void add_remedies(struct text *text, bool lacks, bool sparse)
{
    add(text, ". What a graph has is fixed when it is traced, so it has to be the same on all "
              "ranks.");
    if (lacks)
        add(text, " To send zeros for a missing gradient, set REIGEN_MISSING_GRADIENTS=zeros, or "
                  "give tape.gradient() "
                  "unconnected_gradients=tf.UnconnectedGradients.ZERO.");
    if (sparse)
        add(text, " To make sparse gradients dense, pass sparse_as_dense=True.");
}

bool rg_tf_agree_check(const struct agreement *agreement, const int32_t *votes, char *ret_text,
                       size_t room)
{
    struct text text = { ret_text, room };
    const char *name = agreement->names;
    bool lacks = false, sparse = false;
    int differ = 0;

    if (are_mixed(votes + agreement->n * NFORMS)) {
        add(&text, "the ranks list the same variables in different orders, which would mix their "
                   "gradients: give them in one order on all ranks (a set has none)");
        return false;
    }
    for (int i = 0; i < agreement->n; i++, votes += NFORMS) {
        if (nforms_taken(votes) > 1) {
            add(&text, "%s", differ ? "" : "the ranks have different gradients: ");
            if (differ++ < NAMED_MAX) {
                add(&text, "%s", differ > 1 ? ", " : "");
                add_gradient(&text, name, votes);
            }
            lacks |= votes[NONE] > 0;
            sparse |= votes[SPARSE] > 0;
        }
        name += strcspn(name, "\n");
        name += *name == '\n';
    }
    if (differ > NAMED_MAX)
        add(&text, " and %d more", differ - NAMED_MAX);
    if (differ)
        add_remedies(&text, lacks, sparse);
    return !differ;
}
