/* SPDX-License-Identifier: Apache-2.0 */
/* Pods that were there before the job: what of platform/pods is the chart's own. */
#include "platform/kubernetes/inside/workers.h"

#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/inside/pods.h"
#include "platform/local/door.h"
#include "launch/plan/plan.h"

#define START_TIMEOUT_MAX_S 1000000

static bool is_own(const struct rg_plan *plan, int host)
{
    const char *head = getenv(RG_POD_HEAD), *name = plan->hosts[host].name;

    return (head && strcmp(name, head) == 0) || rg_local_is_here(name);
}

static bool calls(void)
{
    const char *head = getenv(RG_POD_HEAD);

    return head && *head;
}

static int set_start_timeout(struct rg_job *job, struct rg_error *err)
{
    const char *text = getenv(RG_POD_START_TIMEOUT);
    int64_t seconds = 0;

    if (!text || !*text || job->start_timeout_ms != RG_START_TIMEOUT_MS)
        return 0;
    int r = rg_parse_int(RG_POD_START_TIMEOUT, text, 1, START_TIMEOUT_MAX_S, &seconds, err);
    if (r < 0)
        return r;
    job->start_timeout_ms = (uint64_t) seconds * 1000;
    return 0;
}

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    (void) held;
    if (!calls())
        return rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE,
                                 "--on %s is for the master of a release of the Helm chart, whose "
                                 "workers wait for it; this is none, as " RG_POD_HEAD
                                 " is not set here",
                                 rg_driver_pods.platform.name);
    if (!job->nhosts)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--on %s: no host is named; --hostfile "
                                 "/horovod/generated/hostfile names all pods of a release",
                                 rg_driver_pods.platform.name);
    for (size_t i = 0; i < job->nhosts; i++) {
        if (!job->hosts[i].nslots)
            job->hosts[i].nslots = 1;
    }
    if (!job->on && !(job->on = strdup(rg_driver_pods.platform.name)))
        return rg_error_memory(err);
    int r = set_start_timeout(job, err);
    if (r < 0)
        err->exit_code = RG_EXIT_USAGE;
    return r;
}

/* --- the driver ------------------------------------------------------------------------------- */

/* Whether the pod that calls itself so is that host: "mnist-0.9f3c" of mark 9f3c is mnist-0.mnist.
 * Pods of another mark are those that an upgrade is about to replace. */
static bool is_place(const char *place, const struct rg_plan *plan, int host)
{
    const char *mark = getenv(RG_POD_MARK);
    const char *name = plan->hosts[host].name;
    size_t n = strcspn(name, ".");

    if (strncmp(place, name, n) != 0)
        return false;
    return mark && *mark ? place[n] == '.' && strcmp(place + n + 1, mark) == 0 : !place[n];
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    static const struct rg_pods_kind kind = {
        RG_KUBERNETES_KIND,
        .is_own = is_own,
        .is_place = is_place,
        .key = rg_kubernetes_key,
    };

    return rg_pods_start(&kind, options, ret_state, err);
}

const struct rg_driver_ops rg_driver_pods = {
    .platform = {
        .name = "pods",
        .title = "the pods of a Helm chart",
        .about = ", those of the Helm chart that wait for this one",
        .own_cpus = true,
        .clears_up = true,
        .elastic = true,
    },
    .discover = discover,
    .calls = calls,
    .key = rg_kubernetes_key,
    .start = start,
    .add = rg_pods_add,
    .stopping = rg_pods_stopping,
    .unseen = rg_pods_unseen,
    .stop = rg_pods_stop,
    .destroy = rg_pods_destroy,
};
