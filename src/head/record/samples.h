/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of a record, which never become more than some: each time there are too many, every
 * second one goes, and from then on they are taken half as often. Sums stay true, as each sample
 * has them as they were. The last one before a start or an epoch ended stays, while there is room.
 *
 * This header is internal to src/head/record. Thread rule: the loop's thread.
 */
#ifndef RG_HEAD_RECORD_SAMPLES_H
#define RG_HEAD_RECORD_SAMPLES_H

#include "head/metrics/metrics.h"
#include "head/record/folder.h"

#define RG_RECORD_SAMPLE_MS 1000 /* between the first ones; docs/report.md says it, too */

struct rg_record_sample {
    struct rg_buf line;
    uint32_t epoch;
    int start;
};

struct rg_record_samples {
    struct rg_record_sample *v;
    size_t count, room;
    uint64_t every_ms; /* between two */
    bool behind;       /* the file lacks some, as it could not be written */
};

/* Take one, and write it. 0; 1: from now on they are every_ms apart, which has grown; -errno. */
int rg_record_samples_take(struct rg_record_samples *samples, struct rg_record_folder *folder,
                           const struct rg_metrics_state *state);
/* The same of one that was taken, of so many ranks. */
int rg_record_samples_add(struct rg_record_samples *samples, struct rg_record_folder *folder,
                          int nranks, struct rg_record_sample *take_sample);
/* How many are kept of a job with so many ranks. */
size_t rg_record_samples_max(int nranks);
void rg_record_samples_fini(struct rg_record_samples *samples);

#endif
