/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a job have done and do now, as their hosts tell the launcher once a second
 * (wire/numbers.h): of each rank the last numbers, and how they grow over the last seconds. In an
 * elastic job all of it is of the newest epoch.
 *
 * As JSON it is one page of rows, and compact, as a job may have thousands of ranks:
 *
 *     {"columns":["rank","age_s",...],"rows":[[0,0.4,...],[1,0.4,...]],"next":1000}
 *
 * A rank of which nothing was heard has no row. "next" is the rank to go on with; without it this
 * was the last page. docs/jobs.md says what each column means, and its unit.
 *
 * Thread rule: a store belongs to one thread; nothing blocks and nothing reads a clock.
 */
#ifndef RG_LAUNCH_NUMBERS_NUMBERS_H
#define RG_LAUNCH_NUMBERS_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "launch/diagnosis/diagnosis.h"
#include "wire/numbers.h"

#define RG_NUMBERS_PAGE 1000 /* ranks of a page: 300 KB at most */

struct rg_numbers_store;

/* What a rank does per second, over at least RG_NUMBERS_OVER_NS where it is known for so long. */
#define RG_NUMBERS_OVER_NS UINT64_C(5000000000)

struct rg_rates {
    double operations, nbytes, steps;
    double blocked, waiting, causing; /* seconds in a second */
    double cpu;              /* processors that its process keeps busy */
};

/* For ranks below `ranks`. 0 or -ENOMEM. */
int rg_numbers_store_create(uint32_t ranks, struct rg_numbers_store **ret_store);
void rg_numbers_store_destroy(struct rg_numbers_store *store); /* NULL is fine */

/* A rank's numbers have come, of this epoch (0: the job has none). Those of an older one are
 * dropped, and the first of a newer one ends all that there is. Where a sum has become smaller it
 * is another process, which begins anew. 0; -EBADMSG: there is no such rank; -ENOMEM. */
int rg_numbers_store_add(struct rg_numbers_store *store, uint32_t epoch, uint64_t now_ns,
                         const struct rg_numbers *numbers);
/* The epoch that all of them are of. */
uint32_t rg_numbers_store_epoch(const struct rg_numbers_store *store);
/* A rank's last numbers, the rates, which are 0 until it was heard of twice in more than half a
 * second, and the age of all this. False: nothing was heard. */
bool rg_numbers_store_get(const struct rg_numbers_store *store, uint32_t rank, uint64_t now_ns,
                          struct rg_numbers *ret_numbers, struct rg_rates *ret_rates,
                          uint64_t *ret_age_ns);
/* The same seconds, for launch/diagnosis: host is left at -1, and sent_to is a rank. False, and
 * rated is: nothing is known of them now. */
bool rg_numbers_store_load(const struct rg_numbers_store *store, uint32_t rank, uint64_t now_ns,
                           struct rg_load *ret_load);
/* Append the page that begins with this rank. */
void rg_numbers_store_put(const struct rg_numbers_store *store, uint32_t from, uint64_t now_ns,
                          struct rg_buf *json);

#endif
