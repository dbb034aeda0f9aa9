/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows of a reading are shown, and in which order: its ranks; or, where they do not fit, its
 * hosts, each with its ranks folded; or the ranks of one host that was opened.
 *
 * Thread rule: pure functions. Nothing blocks.
 */
#ifndef RG_CMD_TOP_ROWS_H
#define RG_CMD_TOP_ROWS_H

#include "cmd/top/reading.h"

/* What is most first; but ranks, names of hosts, and steps upwards, as fewer are worse. */
enum rg_top_key {
    RG_TOP_BY_CAUSING,
    RG_TOP_BY_CPU,
    RG_TOP_BY_MEMORY,
    RG_TOP_BY_STEPS,
    RG_TOP_BY_RANK,
    RG_TOP_KEYS
};

enum rg_top_fold { RG_TOP_FOLD_IF_NEEDED, RG_TOP_FOLD, RG_TOP_UNFOLD };

struct rg_top_view {
    enum rg_top_key key;
    enum rg_top_fold fold;
    const char *host; /* only the ranks of the host of this name; NULL: of all */
};

struct rg_top_rows {
    int *index;   /* into the reading's hosts or ranks */
    size_t count;
    bool hosts;   /* they are hosts */
};

/* "causes", "cpu" and so on. */
const char *rg_top_key_name(enum rg_top_key key);

/* The rows of a settled reading, for a screen with room for so many. Of one host, and of hosts that
 * are not known, ranks are never folded. 0 or -ENOMEM. */
int rg_top_rows_make(const struct rg_top_reading *reading, const struct rg_top_view *view,
                     size_t room, struct rg_top_rows *ret_rows);
void rg_top_rows_fini(struct rg_top_rows *rows);

#endif
