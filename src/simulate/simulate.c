/* SPDX-License-Identifier: Apache-2.0 */
/* The step as a handful of clocks: a rank's, the gradients', and the line's. */
#include "simulate/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "simulate/profile.h"

#define FORWARD_SHARE (1.0 / 3)
#define NS 1e9
#define ROUNDING 1e-12 /* of the sum of what is computed */

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

/* A gradient, or another operation: what the rank computes before it, and with whom it may run. */
struct offer {
    double compute_s;
    uint64_t nbytes;
    enum rg_model_kind kind;
    const char *type; /* only the like are fused; NULL: it runs alone */
    bool waits;       /* the rank waits for all before it first */
};

/* The last layer's gradient comes first. */
static void offer_tensors(const struct rg_simulation *s, struct offer *offers)
{
    const struct rg_workload *w = s->workload;
    double forward = s->compute_s * FORWARD_SHARE, left = s->compute_s - forward;
    size_t n = w->ntensors;

    for (size_t i = 0; i < n; i++) {
        const struct rg_workload_tensor *tensor = &w->tensors[n - 1 - i];
        offers[i] = (struct offer){
            .compute_s = w->flops > 0 ? left * tensor->flops / w->flops : left / (double) n,
            .nbytes = tensor->count * s->element_nbytes, .kind = RG_MODEL_ALLREDUCE, .type = "",
        };
    }
    offers[0].compute_s += forward;
}

static void offer_profile(const struct rg_simulation *s, struct offer *offers)
{
    static const struct { const char *name; enum rg_model_kind kind; } kinds[] = {
        { "BROADCAST", RG_MODEL_BROADCAST }, { "ALLGATHER", RG_MODEL_ALLGATHER },
        { "ALLTOALL", RG_MODEL_ALLTOALL }, { "REDUCESCATTER", RG_MODEL_REDUCESCATTER },
    };
    const struct rg_profile *profile = s->workload->profile;
    double scale = profile->compute_s > 0 ? s->compute_s / profile->compute_s : 1;

    for (size_t i = 0; i < profile->nops; i++) {
        const struct rg_profile_op *op = &profile->ops[i];
        bool sums = strcmp(op->kind, "ALLREDUCE") == 0;
        offers[i] = (struct offer){ op->compute_s * scale, op->nbytes, RG_MODEL_ALLREDUCE,
                                    sums ? op->type : NULL, op->waits };
        for (size_t k = 0; k < rg_array_len(kinds); k++) {
            if (strcmp(op->kind, kinds[k].name) == 0)
                offers[i].kind = kinds[k].kind;
        }
    }
}

/* The offers from number i on that run as one, when the line is free; their bytes. */
static size_t take_run(const struct rg_simulation *s, const struct offer *offers,
                       const double *times, size_t i, size_t end, double now, uint64_t *ret_nbytes)
{
    const char *type = offers[i].type;
    uint64_t nbytes = offers[i].nbytes;
    size_t n = 1;

    for (; type && i + n < end && times[i + n] <= now; n++) {
        const struct offer *next = &offers[i + n];
        if (!next->type || strcmp(next->type, type) != 0 ||
            nbytes + next->nbytes > s->fusion_nbytes)
            break;
        nbytes += next->nbytes;
    }
    *ret_nbytes = nbytes;
    return n;
}

/* Those from number i up to end, which are offered at these times, from when the line is free. When
 * it is free again. */
static double send_all(const struct rg_simulation *s, const struct offer *offers,
                       const double *times, size_t i, size_t end, double free_at,
                       struct rg_simulated *result)
{
    while (i < end) {
        struct rg_model_task task = { .kind = offers[i].kind, .nhosts = s->nhosts,
                                      .ranks_per_host = s->ranks_per_host };
        struct rg_model_choice choice;
        double now = free_at > times[i] ? free_at : times[i];
        uint64_t nbytes;
        i += take_run(s, offers, times, i, end, now, &nbytes);
        task.nbytes = nbytes;
        double seconds = (double) rg_model_job_ns(s->model, &task, &choice) / NS;
        if (nbytes > result->largest_nbytes) {
            result->largest_nbytes = nbytes;
            result->largest = choice;
        }
        result->busy_s += seconds;
        result->nruns++;
        free_at = now + seconds;
    }
    return free_at;
}

/* From one wait to the next; slower: than a rank alone. The end of the step. */
static double walk(const struct rg_simulation *s, const struct offer *offers, double *times,
                   double slower, struct rg_simulated *result)
{
    size_t n = s->workload->ntensors;
    double computed_at = 0, free_at = 0;

    for (size_t i = 0; i < n;) {
        size_t end = i;
        if (offers[i].waits && free_at > computed_at)
            computed_at = free_at;
        do {
            computed_at += offers[end].compute_s * slower;
            times[end++] = computed_at + result->agree_s;
        } while (end < n && !offers[end].waits);
        if (s->nhosts * s->ranks_per_host > 1)
            free_at = send_all(s, offers, times, i, end, free_at, result);
        i = end;
    }
    return free_at > computed_at ? free_at : computed_at;
}

int rg_simulate(const struct rg_simulation *simulation, struct rg_simulated *ret_simulated)
{
    const struct rg_simulation *s = simulation;
    size_t n = s->workload->ntensors;
    rg_autofree double *times = calloc(n + 1, sizeof(*times));
    rg_autofree struct offer *offers = calloc(n + 1, sizeof(*offers));
    struct rg_simulated result = { .agree_s = rg_simulate_agreement_s(s->model, s->nhosts,
                                                                      s->fan_out) };
    double slower = 1 + s->jitter * rg_simulate_slowest(s->nhosts * s->ranks_per_host);

    if (!times || !offers)
        return -ENOMEM;
    if (s->workload->profile)
        offer_profile(s, offers);
    else
        offer_tensors(s, offers);
    result.compute_s = s->compute_s * slower;
    result.step_s = walk(s, offers, times, slower, &result);
    if (result.step_s < result.compute_s * (1 + ROUNDING))
        result.step_s = result.compute_s;
    result.efficiency = s->compute_s / result.step_s;
    *ret_simulated = result;
    return 0;
}
