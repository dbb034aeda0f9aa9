/* SPDX-License-Identifier: Apache-2.0 */
/* A pod of Kubernetes: what it is to do lies in files, and its head has a Service. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/inside/pods.h"

#define PLAN "/reigen/job/plan"
#define RUN "/reigen/run"
#define READY RUN "/ready"
#define WORDS "/dev/termination-log"
#define INDEX "JOB_COMPLETION_INDEX"
#define SERVICE_MAX 63 /* characters of a Service's name */
#define UNHEARD_MAX 2 /* pods, one after the other, for which a Service may be too young */

/* The Service's address with the port: Kubernetes gives it to each pod that starts later than the
 * Service, as a variable. */
static int find_head(char ret_address[RG_POD_ADDRESS_MAX], struct rg_error *err)
{
    char name[SERVICE_MAX + sizeof("_SERVICE_HOST")];
    const char *service = getenv(RG_POD_SERVICE);
    size_t n = service ? strlen(service) : 0;
    int port, r = rg_kubernetes_port(&port, err);

    if (r < 0)
        return r;
    if (!n || n > SERVICE_MAX)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 RG_POD_SERVICE " is not set, or no Service's name");
    for (size_t i = 0; i < n; i++)
        name[i] = service[i] == '-' ? '_' : (char) toupper((unsigned char) service[i]);
    strcpy(name + n, "_SERVICE_HOST");
    const char *host = getenv(name);
    /* A busy node may start a pod before it has heard of the Service; one of the next has it. */
    bool again = rg_kubernetes_losses() < UNHEARD_MAX;
    if (!host || !*host)
        return rg_error_set_exit(err, ENOENT, again ? RG_EXIT_PREEMPTED : RG_EXIT_UNAVAILABLE,
                                 "%s is not set, so the head's address is not known: the Service "
                                 "%s was deleted, or was not there yet when the pod was started, "
                                 "or the pod has enableServiceLinks: false", name, service);
    snprintf(ret_address, RG_POD_ADDRESS_MAX, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return 0;
}

/* "NAME.MARK", or the name alone. */
static int find_place(struct rg_pod *pod, struct rg_error *err)
{
    const char *name = getenv(RG_POD_NAME), *mark = getenv(RG_POD_MARK);
    int n = snprintf(pod->place, sizeof(pod->place), "%s%s%s", name ? name : "",
                     mark && *mark ? "." : "", mark ? mark : "");

    return !name || !*name || n >= (int) sizeof(pod->place)
               ? rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                   "neither " INDEX " nor a pod's name in " RG_POD_NAME " is set")
               : 0;
}

/* In the place of a head that was lost, the others are there, and can call this one only where the
 * Service is. */
static int read_plan(struct rg_planned *planned, struct rg_error *err)
{
    static char address[RG_POD_ADDRESS_MAX]; /* for nobody */
    int r = rg_planned_read(PLAN, planned, err);

    return r == 0 && planned->plan.nhosts > 1 && rg_kubernetes_losses() ? find_head(address, err)
                                                                        : r;
}

static bool here(void)
{
    return getenv(INDEX) || getenv(RG_POD_SERVICE);
}

static int find(struct rg_pod *pod, struct rg_error *err)
{
    const char *index = getenv(INDEX);
    int64_t n = 1;
    int r = 0;

    *pod = (struct rg_pod){
        .planned = index != NULL,
        .itself = "this pod",
        .head = "the pod of index 0",
        .doubt = "does its pod run, and does a network policy let the job's pods reach it?",
        .words = WORDS,
        .ready = READY,
        .known_as = getenv(RG_POD_SERVICE),
        .run = RUN,
        .backoff_ms = rg_kubernetes_backoff_ms,
        .log = true,
        .nstarts = rg_kubernetes_losses(),
        .key = rg_kubernetes_key,
        .plan = read_plan,
    };
    if (index) {
        r = rg_parse_int(INDEX, index, 0, RG_JOB_HOSTS_MAX, &n, err);
        if (r < 0)
            err->exit_code = RG_EXIT_USAGE;
        snprintf(pod->place, sizeof(pod->place), "%s", index);
    }
    pod->leads = n == 0;
    if (r == 0 && !pod->leads)
        r = find_head(pod->address, err);
    return r < 0 || index ? r : find_place(pod, err);
}

const struct rg_pod_platform rg_pod_kubernetes = { .here = here, .find = find };

bool rg_kubernetes_is_ready(void)
{
    return access(READY, F_OK) == 0;
}
