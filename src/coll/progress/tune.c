/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters that change while a job runs, at the same place of the log on all ranks: on one node
 * rank 0 appends them to the log; on several, the coordinator puts them into its stream of
 * decisions, and each leader into its node's log. The item's epoch is fusion_nbytes << 8 | spin.
 */
#include <string.h>

#include "base/time.h"
#include "coll/progress/progress.h"

struct rg_run_item rg_tune_item(const struct rg_tuning *tuning)
{
    return (struct rg_run_item){ 0, RG_RUN_TUNE, tuning->fusion_nbytes << 8 | tuning->spin };
}

void rg_tune_publish(struct rg_progress *progress, const struct rg_tuning *tuning)
{
    struct rg_run_item item = rg_tune_item(tuning);

    if (progress->order) {
        rg_order_tune(progress->order, tuning);
        return;
    }
    rg_runlog_append(&progress->view.log, &item, 1, rg_log_slowest, progress);
    rg_progress_ring_all(progress, true);
}

void rg_tune_apply(struct rg_progress *progress, uint64_t value)
{
    int spin_us;

    progress->tuning = (struct rg_tuning){ value >> 8, (uint8_t) value };
    spin_us = rg_tuning_spin_us(progress->tuning.spin);
    progress->spin_ns = spin_us < 0 ? progress->own_spin_ns : spin_us * 1000;
}

void rg_tune_watch(struct rg_progress *progress, uint32_t id)
{
    struct rg_tuning next;

    if (!rg_autotune_saw(progress->autotune, id,
                         atomic_load_explicit(&progress->nbytes, memory_order_relaxed), rg_now_ns(),
                         &next))
        return;
    rg_tune_publish(progress, &next);
    if (!rg_autotune_done(progress->autotune))
        return;
    rg_report(RG_LOG_INFO, "autotuning is over: fusion threshold %llu bytes, spin %d us",
              (unsigned long long) next.fusion_nbytes, rg_tuning_spin_us(next.spin));
    rg_autotune_destroy(progress->autotune);
    progress->autotune = NULL;
}

void rg_tune_start(struct rg_progress *progress)
{
    const struct rg_config *config = progress->config;
    struct rg_tuning first = { config->fusion_nbytes, 0 };
    struct rg_autotune_options options = {
        .first = first,
        .several_nodes = progress->view.nnodes > 1,
        .fusion_fixed = config->fusion_nbytes != RG_TUNING_FUSION_DEFAULT,
        .spin_fixed = config->spin_us >= 0,
        .warmup_samples = config->autotune_warmup,
        .steps_per_sample = config->autotune_steps,
        .max_samples = config->autotune_samples,
        .log = config->autotune_log,
    };
    int log_errno = 0;

    if (progress->team->rank != 0)
        return;
    /* Between nodes the decider has it already. */
    if (progress->view.nnodes == 1 && first.fusion_nbytes != RG_TUNING_FUSION_DEFAULT)
        rg_tune_publish(progress, &first);
    if (!config->autotune || progress->world || progress->team->size == 1)
        return;
    if (rg_autotune_create(&options, &progress->autotune, &log_errno) < 0)
        rg_report(RG_LOG_WARN, "no memory for autotuning: it is left out");
    if (log_errno)
        rg_report(RG_LOG_WARN, "HOROVOD_AUTOTUNE_LOG=%s cannot be written: %s", options.log,
                  strerror(log_errno));
}
