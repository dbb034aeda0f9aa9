/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a platform would make of a job, before anything of it is made: facts for `reigen plan`.
 *
 * Ownership: embedded, zeroed at first; owns all it points to. Thread rule: belongs to one thread.
 * Nothing blocks.
 */
#ifndef RG_LAUNCH_HOST_OUTLOOK_H
#define RG_LAUNCH_HOST_OUTLOOK_H

#include <stddef.h>

#include "base/buf.h"

/* The worse comes later. */
enum rg_outlook_level {
    RG_OUTLOOK_OK,      /* it stands in nobody's way */
    RG_OUTLOOK_UNKNOWN, /* it could not be looked at */
    RG_OUTLOOK_WAITS,   /* the job would wait for it; it may come right by itself */
    RG_OUTLOOK_REFUSED  /* the job would not run before somebody changes something */
};

/* One thing that was looked at. */
struct rg_outlook_check {
    const char *about; /* "quota"; constant */
    enum rg_outlook_level level;
    int exit_code;     /* of one that is refused; else 0 */
    char *text;        /* what was found, and what to do where it is not well */
};

/* A node, and how many of the job's hosts it takes. */
struct rg_outlook_node {
    char *name;
    int nnow, nempty; /* now, and if nothing else ran there; at most as many as the job has */
    char *why;        /* why not more: "" where it takes all of them */
};

struct rg_outlook {
    char *place;      /* where: "namespace train, context prod" */
    struct rg_outlook_check *checks;
    size_t nchecks;
    struct rg_outlook_node *nodes;
    size_t nnodes;    /* 0: they could not be looked at, or there are none */
    int errnum;       /* 0, or ENOMEM */
};

/* Add a check. Out of memory shows in errnum. */
void rg_outlook_add(struct rg_outlook *outlook, const char *about, enum rg_outlook_level level,
                    int exit_code, const char *fmt, ...) rg_printf(5, 6);
/* Add a node. take_why may be NULL: there was no memory. */
void rg_outlook_add_node(struct rg_outlook *outlook, const char *name, int nnow, int nempty,
                         char *take_why);
/* The nodes that take most come first; of equal ones they keep their order. */
void rg_outlook_sort(struct rg_outlook *outlook);
/* The worst check, which decides; of equally bad ones the first. NULL: there is none. */
const struct rg_outlook_check *rg_outlook_worst(const struct rg_outlook *outlook);
/* "ok", "unknown", "waits", "refused". Constant. */
const char *rg_outlook_level_name(enum rg_outlook_level level);
void rg_outlook_fini(struct rg_outlook *outlook);

#endif
