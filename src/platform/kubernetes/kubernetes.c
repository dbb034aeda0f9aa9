/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: on the user's computer it hands jobs over and stays with them (user.h), and in a pod
 * it is what the head has (pods.h). */
#include "platform/kubernetes/door.h"

#include "base/exitcode.h"
#include "platform/kubernetes/inside/pods.h"
#include "platform/kubernetes/outside/user.h"

#ifdef RG_AGENT
static int kube_discover(void *held, struct rg_job *job, struct rg_error *err)
{
    (void) held;
    (void) job;
    return rg_error_set_exit(err, ENOTSUP, RG_EXIT_USAGE,
                             "a job of Kubernetes is planned before its pods are there");
}
#endif

#ifndef RG_AGENT
static const struct rg_queue_ops queue_ops = {
    .submit = kube_submit,
    .status = kube_status,
    .logs = kube_logs,
    .beside = kube_beside,
    .cancel = kube_cancel,
};

static const struct rg_away_ops away_ops = {
    .describe = kube_describe,
    .outlook = kube_outlook,
    .find = kube_find,
    .follow = kube_follow,
    .end = kube_end,
    .unfollow = kube_unfollow,
};
#endif

const struct rg_driver_ops rg_driver_kubernetes = {
    .platform = {
        .name = "kubernetes",
        .title = "Kubernetes",
        .about = ", pods of a cluster that kubectl knows",
        .options = RG_LAUNCHER_ONLY(kube_options),
        .places = { "namespace", "context" },
        .finds_hosts = true,
        .own_cpus = true,
        .clears_up = true,
        .queues = true,
        .own_containers = true,
        .away = true,
        .leads = true,
        .serves = true,
        .elastic = true,
    },
    .discover = kube_discover,
    .pod = RG_AGENT_ONLY(&rg_pod_kubernetes),
    .start = rg_kubernetes_start,
    .add = rg_pods_add,
    .stopping = rg_pods_stopping,
    .unseen = rg_pods_unseen,
    .stop = rg_pods_stop,
    .destroy = rg_pods_destroy,
    .queue = RG_LAUNCHER_ONLY(&queue_ops),
    .away = RG_LAUNCHER_ONLY(&away_ops),
};
