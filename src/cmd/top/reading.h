/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of what the ranks of a job do: the pages of numbers that its launcher has answered
 * with (launch/numbers/numbers.h, session_numbers.h), and what follows from them.
 *
 * Rates are the launcher's, of the last 5 to 10 seconds, in which a process that has begun anew, or
 * another epoch, counts from its begin. They are kept within what is possible: a long wait that
 * ends is told at once and would look like more than all of the time. A rank of which nothing was
 * heard for RG_TOP_SILENT_S has no rates: those it had say nothing of now.
 *
 * Who is waited for follows from the columns (launch/diagnosis/diagnosis.h); why is known to the
 * launcher alone, which says so in the first page.
 *
 * Thread rule: pure functions on one thread's objects. Nothing blocks or reads a clock.
 */
#ifndef RG_CMD_TOP_READING_H
#define RG_CMD_TOP_READING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "launch/diagnosis/diagnosis.h"

#define RG_TOP_SILENT_S 5.0

/* Of a rank, or of several together: then rates of steps, and shares, are means of those that have
 * rates, steps are the fewest, age is the greatest, and all else is a sum. */
struct rg_top_numbers {
    double steps, steps_per_s;
    double step_s;        /* seconds that the last steps took on average; 0: not known */
    double communication; /* share of the time in which it waits for operations, 0 to 1 */
    double waiting;       /* of that, for ranks of its own host; 0 to 1 */
    double causing;       /* seconds in a second for which others wait for it, together */
    double bytes_per_s, operations_per_s;
    double cpu;           /* processors that are kept busy */
    double resident;      /* bytes of memory; 0: not known */
    double age_s;         /* since something was heard */
    bool rated;           /* the rates are known */
};

struct rg_top_rank {
    int rank;
    int host; /* index into hosts; -1: not known */
    struct rg_top_numbers n;
};

struct rg_top_host {
    char *name;
    size_t nranks; /* that have numbers */
    int worst;     /* index of the rank that causes most; -1: it has none */
    struct rg_top_numbers n;
};

/* Why somebody is waited for. The diagnosis has no indices of hosts: their names are here. */
struct rg_top_why {
    struct rg_lateness diagnosis; /* its rank is a number; cause UNKNOWN: it is not known */
    char *host, *to;               /* NULL: none */
};

struct rg_top_reading {
    struct rg_top_rank *ranks; /* in their order */
    size_t nranks;
    struct rg_top_host *hosts;
    size_t nhosts;
    struct rg_top_numbers all;
    int late_rank, late_host; /* indices of who is waited for; -1: nobody in particular. The rank is
                               * -1 where its host's are late alike */
    double late_causing;      /* what that one causes */
    struct rg_top_why why;
    int *host_of;             /* by rank, as the pages say; -1: not said */
    size_t ranks_room, hosts_room, host_of_room;
    bool sound;               /* false: memory was short, or a page was none */
};

#define RG_TOP_READING_INIT { .late_rank = -1, .late_host = -1, .sound = true }

/* Take a page in. The rank to go on with; 0: this was the last one. */
unsigned rg_top_reading_add(struct rg_top_reading *reading, const json_t *page);
/* All pages are there: work out the rest. */
void rg_top_reading_settle(struct rg_top_reading *reading);
void rg_top_reading_fini(struct rg_top_reading *reading);

#endif
