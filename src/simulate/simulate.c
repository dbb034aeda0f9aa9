/* SPDX-License-Identifier: Apache-2.0 */
/* The step as a handful of clocks: a rank's, the gradients', and the line's. */
#include "simulate/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define FORWARD_SHARE (1.0 / 3)
#define NS 1e9

double rg_simulate_agreement_s(const struct rg_model *model, int nhosts, int fan_out)
{
    return (double) rg_model_agreement_ns(model, nhosts, fan_out) / NS;
}

double rg_simulate_slowest(int n)
{
    /* Where the distribution's quantile is 1 - 0.5264^(1/n) (Chen, Tyler, "Accurate approximation
     * to the extreme order statistics of Gaussian samples", 1999), found by halving. */
    double part = pow(0.5264, 1.0 / n), low = -1, high = 40;

    if (n < 2)
        return 0;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2;
        if (1 - erfc(middle / sqrt(2)) / 2 < part)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* When each gradient is agreed on, in the order in which they come: the last layer's first. */
static void find_times(const struct rg_simulation *s, double compute_s, double agree_s,
                       double *ret_times)
{
    const struct rg_workload *w = s->workload;
    double at = compute_s * FORWARD_SHARE, left = compute_s - at;
    size_t n = w->ntensors;

    for (size_t i = 0; i < n; i++) {
        const struct rg_workload_tensor *tensor = &w->tensors[n - 1 - i];
        at += w->flops > 0 ? left * tensor->flops / w->flops : left / (double) n;
        ret_times[i] = at + agree_s;
    }
}

/* The gradients from number i on that run as one, when the line is free; their bytes. */
static size_t take_run(const struct rg_simulation *s, const double *times, size_t i, double now,
                       uint64_t *ret_nbytes)
{
    const struct rg_workload *w = s->workload;
    uint64_t nbytes = 0;
    size_t n = 0;

    for (; i + n < w->ntensors && times[i + n] <= now; n++) {
        uint64_t more = w->tensors[w->ntensors - 1 - i - n].count * s->element_nbytes;
        if (n > 0 && nbytes + more > s->fusion_nbytes)
            break;
        nbytes += more;
    }
    *ret_nbytes = nbytes;
    return n;
}

int rg_simulate(const struct rg_simulation *simulation, struct rg_simulated *ret_simulated)
{
    const struct rg_simulation *s = simulation;
    const struct rg_workload *w = s->workload;
    int nranks = s->nhosts * s->ranks_per_host;
    rg_autofree double *times = calloc(w->ntensors + 1, sizeof(*times));
    struct rg_simulated result = { .agree_s = rg_simulate_agreement_s(s->model, s->nhosts,
                                                                      s->fan_out) };
    double free_at = 0;

    if (!times)
        return -ENOMEM;
    result.compute_s = s->compute_s * (1 + s->jitter * rg_simulate_slowest(nranks));
    find_times(s, result.compute_s, result.agree_s, times);
    for (size_t i = 0; nranks > 1 && i < w->ntensors;) {
        struct rg_model_task task = { .kind = RG_MODEL_ALLREDUCE, .nhosts = s->nhosts,
                                      .ranks_per_host = s->ranks_per_host };
        struct rg_model_choice choice;
        double now = free_at > times[i] ? free_at : times[i];
        uint64_t nbytes;
        i += take_run(s, times, i, now, &nbytes);
        task.nbytes = nbytes;
        double seconds = (double) rg_model_job_ns(s->model, &task, &choice) / NS;
        if (nbytes > result.largest_nbytes) {
            result.largest_nbytes = nbytes;
            result.largest = choice;
        }
        result.busy_s += seconds;
        result.nruns++;
        free_at = now + seconds;
    }
    result.step_s = free_at > result.compute_s ? free_at : result.compute_s;
    result.efficiency = s->compute_s / result.step_s;
    *ret_simulated = result;
    return 0;
}
