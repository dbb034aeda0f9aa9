/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First of alpha, beta and gamma alone, since times do not tell a slow line from a slow processor;
 * then of all, where that explains more.
 *
 * A pattern search (Hooke, Jeeves, "Direct search solution of numerical and statistical problems",
 * 1961) over the logarithms of the parameters: the model has maxima and choices in it, so nothing
 * that needs derivatives would do.
 */
#include "simulate/fit.h"

#include <math.h>

#include "base/cleanup.h"

#define STAY 0.01      /* what leaving the first value costs, beside a sample's error */
#define SWEEPS_MAX 60  /* with each step */

#define NFIRST 5 /* of them in the first search */

/* What is searched, within what a file of the model may say. */
static const struct {
    size_t at;
    double least, most;
} parameters[] = {
    { offsetof(struct rg_model, net.alpha_ns), 1, RG_MODEL_ALPHA_MAX_NS },
    { offsetof(struct rg_model, net.beta_ps), 0, RG_MODEL_RATE_MAX_PS },
    { offsetof(struct rg_model, node.alpha_ns), 1, RG_MODEL_ALPHA_MAX_NS },
    { offsetof(struct rg_model, node.beta_ps), 0, RG_MODEL_RATE_MAX_PS },
    { offsetof(struct rg_model, gamma_ps), 0, RG_MODEL_RATE_MAX_PS },
    { offsetof(struct rg_model, net.message_ns), 0, RG_MODEL_ALPHA_MAX_NS },
    { offsetof(struct rg_model, net.copy_ps), 0, RG_MODEL_RATE_MAX_PS },
    { offsetof(struct rg_model, node.message_ns), 0, RG_MODEL_ALPHA_MAX_NS },
    { offsetof(struct rg_model, node.copy_ps), 0, RG_MODEL_RATE_MAX_PS },
};

static uint32_t *parameter(struct rg_model *model, size_t i)
{
    return (uint32_t *) (void *) ((char *) model + parameters[i].at);
}

double rg_fit_predict(const struct rg_model *model, const struct rg_model_task *task)
{
    uint64_t ns = rg_model_job_ns(model, task, NULL);

    return ns > 0 ? (double) ns : 1;
}

double rg_fit_error(const struct rg_model *model, const struct rg_fit_sample *samples, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        double ratio = log(rg_fit_predict(model, &samples[i].task) / samples[i].ns);
        sum += ratio * ratio;
    }
    return sqrt(sum / (double) n);
}

/* The error's square, and how far the parameters have gone. */
static double cost(struct rg_model *model, struct rg_model *first,
                   const struct rg_fit_sample *samples, size_t n)
{
    double error = rg_fit_error(model, samples, n), away = 0;

    for (size_t i = 0; i < rg_array_len(parameters); i++) {
        double ratio = log((*parameter(model, i) + 1.0) / (*parameter(first, i) + 1.0));
        away += ratio * ratio;
    }
    return error * error + STAY * away / (double) n;
}

/* Try a parameter's value; keep it where that costs less. */
static bool try_value(struct rg_model *model, size_t i, double value, struct rg_model *first,
                      const struct rg_fit_sample *samples, size_t n, double *least)
{
    uint32_t before = *parameter(model, i);

    if (value < parameters[i].least || value > parameters[i].most || (uint32_t) value == before)
        return false;
    *parameter(model, i) = (uint32_t) value;
    double now = cost(model, first, samples, n);
    if (now < *least) {
        *least = now;
        return true;
    }
    *parameter(model, i) = before;
    return false;
}

/* Among the first so many parameters. */
static void search(struct rg_model *model, size_t nparameters, struct rg_model *first,
                   const struct rg_fit_sample *samples, size_t n)
{
    static const double steps[] = { 4, 2, 1.4, 1.2, 1.1, 1.05, 1.02 };
    double least = cost(model, first, samples, n);

    for (size_t k = 0; k < rg_array_len(steps); k++) {
        bool better = true;
        for (int sweep = 0; better && sweep < SWEEPS_MAX; sweep++) {
            better = false;
            for (size_t i = 0; i < nparameters; i++) {
                double value = *parameter(model, i);
                better |= try_value(model, i, value * steps[k] + 1, first, samples, n, &least) ||
                          try_value(model, i, value / steps[k], first, samples, n, &least);
            }
        }
    }
}

double rg_fit(struct rg_model *model, const struct rg_fit_sample *samples, size_t n)
{
    struct rg_model first = *model;

    search(model, NFIRST, &first, samples, n);
    search(model, rg_array_len(parameters), &first, samples, n);
    double error = rg_fit_error(model, samples, n), before = rg_fit_error(&first, samples, n);

    if (error <= before)
        return error;
    *model = first;
    return before;
}
