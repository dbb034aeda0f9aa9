/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's numbers as text, in one of two formats: that of OpenMetrics 1.0, and version 0.0.4 of
 * Prometheus' own, which node_exporter reads from files. They differ in how a counter's family is
 * called, in what they know of units, and in the last line.
 *
 * Thread rule: any; nothing blocks.
 */
#ifndef RG_HEAD_METRICS_TEXT_H
#define RG_HEAD_METRICS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "launch/plan/plan.h"
#include "launch/session/session.h"

/* What the head knows. All is borrowed. */
struct rg_metrics_state {
    const struct rg_plan *plan;       /* NULL: there is none yet */
    const struct rg_session *session; /* NULL: there is none now */
    const char *platform;             /* the name that --on has for it; or NULL */
    uint64_t since_ns;                /* the head has begun: CLOCK_REALTIME */
    int restarts;                     /* of the whole job */
    bool elastic;
    bool ended;                       /* ... by this: */
    int exit_code;
};

enum rg_metrics_format { RG_METRICS_PROMETHEUS, RG_METRICS_OPENMETRICS, RG_METRICS_FORMATS };

/* Append it; the buffer tells whether there was memory for it. */
void rg_metrics_put(const struct rg_metrics_state *state, enum rg_metrics_format format,
                    struct rg_buf *text);

#endif
