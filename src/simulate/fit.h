/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of the cost model that explain what operations have taken: the model turned
 * around. Times span many powers of ten, so what counts is the ratio of predicted and measured, and
 * a parameter that the measurements say little of stays near to where it was.
 *
 * Thread rule: functions of their arguments alone; none blocks. A fit of 100 samples takes less
 * than a second.
 */
#ifndef RG_SIMULATE_FIT_H
#define RG_SIMULATE_FIT_H

#include <stddef.h>

#include "model/model.h"

struct rg_fit_sample {
    struct rg_model_task task;
    double ns; /* measured; above 0 */
};

/* What the model says of it, at least 1 ns. */
double rg_fit_predict(const struct rg_model *model, const struct rg_model_task *task);

/* The square root of the mean square of ln(predicted / measured): 0.1 is some 10 %. */
double rg_fit_error(const struct rg_model *model, const struct rg_fit_sample *samples, size_t n);

/* Move *model to where it explains the samples best; where it was is what is assumed otherwise.
 * Parameters that no sample depends on stay as they are, and so does crowding_pct. No parameter
 * leaves the range that a file may have (model/model.h). n at least 1.
 * Returns rg_fit_error of the result, which is at most what it was before. */
double rg_fit(struct rg_model *model, const struct rg_fit_sample *samples, size_t n);

#endif
