/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of what was found, which a driver fills and a command prints. */
#include "launch/host/outlook.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rg_outlook_add(struct rg_outlook *outlook, const char *about, enum rg_outlook_level level,
                    int exit_code, const char *fmt, ...)
{
    struct rg_outlook_check *more =
        realloc(outlook->checks, (outlook->nchecks + 1) * sizeof(*more));
    char *text = NULL;
    va_list args;

    if (more)
        outlook->checks = more;
    va_start(args, fmt);
    if (!more || vasprintf(&text, fmt, args) < 0)
        outlook->errnum = ENOMEM;
    else
        more[outlook->nchecks++] = (struct rg_outlook_check){ about, level, exit_code, text };
    va_end(args);
}

void rg_outlook_add_node(struct rg_outlook *outlook, const char *name, int nnow, int nempty,
                         char *take_why)
{
    struct rg_outlook_node *more = realloc(outlook->nodes, (outlook->nnodes + 1) * sizeof(*more));
    struct rg_outlook_node node = { strdup(name), nnow, nempty, take_why };

    if (more)
        outlook->nodes = more;
    if (more && node.name && node.why) {
        more[outlook->nnodes++] = node;
        return;
    }
    outlook->errnum = ENOMEM;
    free(node.name);
    free(node.why);
}

/* By hand, as qsort does not keep the order of equal ones; lists are short, and mostly sorted. */
void rg_outlook_sort(struct rg_outlook *outlook)
{
    for (size_t i = 1; i < outlook->nnodes; i++) {
        struct rg_outlook_node node = outlook->nodes[i];
        size_t at = i;
        for (; at > 0 && outlook->nodes[at - 1].nnow < node.nnow; at--)
            outlook->nodes[at] = outlook->nodes[at - 1];
        outlook->nodes[at] = node;
    }
}

const struct rg_outlook_check *rg_outlook_worst(const struct rg_outlook *outlook)
{
    const struct rg_outlook_check *worst = NULL;

    for (size_t i = 0; i < outlook->nchecks; i++) {
        if (!worst || outlook->checks[i].level > worst->level)
            worst = &outlook->checks[i];
    }
    return worst;
}

const char *rg_outlook_level_name(enum rg_outlook_level level)
{
    static const char *const names[] = { "ok", "unknown", "waits", "refused" };

    return names[level];
}

void rg_outlook_fini(struct rg_outlook *outlook)
{
    for (size_t i = 0; i < outlook->nchecks; i++)
        free(outlook->checks[i].text);
    for (size_t i = 0; i < outlook->nnodes; i++) {
        free(outlook->nodes[i].name);
        free(outlook->nodes[i].why);
    }
    free(outlook->checks);
    free(outlook->nodes);
    free(outlook->place);
    *outlook = (struct rg_outlook){ .place = NULL };
}
