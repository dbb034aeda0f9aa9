/* SPDX-License-Identifier: Apache-2.0 */
/* The one observer: it hands each event to whom it concerns. */
#include "coll/observe/observe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "coll/negotiate/order.h"
#include "coll/observe/diagnose.h"
#include "coll/observe/stall.h"
#include "coll/observe/timeline.h"
#include "coll/observe/timeline_hooks.h"

struct observed {
    struct rg_observer base;
    struct rg_stall *stall;
    struct rg_diagnoses diagnoses;
};

static struct observed *observed_of(const struct rg_progress *progress)
{
    return (struct observed *) progress->observer;
}

static void tick(struct rg_progress *progress, uint64_t now_ns, uint64_t longest_ms, bool reporter)
{
    rg_stall_tick(progress, observed_of(progress)->stall, now_ns, longest_ms, reporter);
}

static void drive(struct rg_progress *progress)
{
    struct observed *observed = observed_of(progress);

    rg_diagnose_drive(progress, &observed->diagnoses);
    rg_stall_drive(progress, observed->stall);
}

static void asked(struct rg_progress *progress)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    rg_stall_answer(progress, observed_of(progress)->stall, &out);
    rg_diagnose_answer(progress, &out);
    rg_order_stall_reply(rg_multi_order(progress), rg_buf_text(&out));
}

static void heard(struct rg_progress *progress, int node, const char *text)
{
    struct observed *observed = observed_of(progress);
    const char *mark = strchr(text, RG_DIAGNOSE_MARK);

    if (mark)
        rg_diagnose_heard(progress, &observed->diagnoses, node, mark + 1);
    rg_stall_heard(progress, observed->stall, node, text,
                   mark ? (size_t) (mark - text) : strlen(text));
}

static void detach(struct rg_progress *progress)
{
    struct observed *observed = observed_of(progress);

    rg_timeline_detach(&progress->view);
    rg_stall_destroy(observed->stall);
    free(observed);
}

static const struct rg_observer_ops ops = {
    .submitted = rg_timeline_submitted,
    .queued = rg_timeline_queued,
    .arrived = rg_timeline_arrived,
    .finished = rg_timeline_finished,
    .run = rg_timeline_run,
    .activity = rg_timeline_activity,
    .offered = rg_timeline_offered,
    .tick = tick,
    .drive = drive,
    .asked = asked,
    .heard = heard,
    .detach = detach,
};

int rg_observe(struct rg_progress *progress, struct rg_observer **ret_observer)
{
    struct observed *observed = calloc(1, sizeof(*observed));
    struct observed *world = progress->world ? observed_of(progress->world) : NULL;

    if (!observed)
        return -ENOMEM;
    if (rg_stall_create(world ? world->stall : NULL, &observed->stall) < 0) {
        free(observed);
        return -ENOMEM;
    }
    observed->base.ops = &ops;
    rg_timeline_attach(&progress->view);
    *ret_observer = &observed->base;
    return 0;
}

int rg_observe_diagnosis(struct rg_progress *progress, uint64_t deadline_ns, char **ret_json)
{
    return rg_diagnose(progress, &observed_of(progress)->diagnoses, deadline_ns, ret_json);
}
