/* SPDX-License-Identifier: Apache-2.0 */
/* The pods of a job as the head sees them: what of platform/pods is Kubernetes' own. */
#include "platform/kubernetes/inside/pods.h"

#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/plan/plan.h"

#define KEY_FILE_MAX 4096
#define BACKOFF_MS 10000 /* the controller's, for the first failure, */
#define BACKOFF_MAX_MS 600000 /* and for any */

int rg_kubernetes_port(int *ret_port, struct rg_error *err)
{
    const char *text = getenv(RG_POD_PORT);
    int64_t port = RG_POD_PORT_DEFAULT;
    int r = text && *text ? rg_parse_int(RG_POD_PORT, text, 1, UINT16_MAX, &port, err) : 0;

    if (r < 0 && err)
        err->exit_code = RG_EXIT_USAGE;
    *ret_port = (int) port;
    return r;
}

uint64_t rg_kubernetes_backoff_ms(int n)
{
    uint64_t ms = n > 0 ? BACKOFF_MS : 0;

    for (int i = 1; i < n && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

/* The cluster's own number, or nothing. */
static int read_count(const char *name)
{
    const char *text = getenv(name);

    return text ? atoi(text) : 0;
}

int rg_kubernetes_losses(void)
{
    return read_count(RG_POD_FAILURES) + read_count(RG_POD_DISRUPTIONS);
}

int rg_kubernetes_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err)
{
    char *text = NULL;
    int r = rg_read_file(RG_POD_KEY, KEY_FILE_MAX, &text, NULL);

    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_USAGE, "the job's key, " RG_POD_KEY ": %s",
                                 strerror(-r));
    r = rg_key_parse(text, ret_key);
    explicit_bzero(text, strlen(text));
    free(text);
    return r < 0 ? rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "the job's key, " RG_POD_KEY ": not 64 hexadecimal digits")
                 : 0;
}

int rg_kubernetes_port_taken(int port, int errnum, struct rg_error *err)
{
    return rg_error_set_exit(err, errnum, RG_EXIT_UNAVAILABLE,
                             "the pods cannot call the head: port %d of its pod cannot be "
                             "listened on: %s; another job in this pod may have it, or, "
                             "with the host's network, another program; " RG_POD_PORT
                             " names another one",
                             port, strerror(errnum));
}

/* The place is the pod's index, "2", and ends its host's name. */
static bool is_place(const char *place, const struct rg_plan *plan, int host)
{
    const char *dash = strrchr(plan->hosts[host].name, '-');

    return dash && strcmp(dash + 1, place) == 0;
}

static bool is_own(const struct rg_plan *plan, int host)
{
    return is_place("0", plan, host);
}

int rg_kubernetes_start(const struct rg_driver_options *options, void **ret_state,
                        struct rg_error *err)
{
    static const struct rg_pods_kind kind = {
        RG_KUBERNETES_KIND,
        .is_own = is_own,
        .is_place = is_place,
    };

    return rg_pods_start(&kind, options, ret_state, err);
}
