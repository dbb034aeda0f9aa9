/* SPDX-License-Identifier: Apache-2.0 */
/* The platform has started the hosts and says nothing of them in here: who calls is there, and
 * whose link has ended is gone. */
#include "platform/common/callers.h"

#include <limits.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "platform/local/door.h"

struct pod_host {
    bool own;   /* this process is on it */
    bool heard; /* it has called with the key */
};

struct pods {
    const struct rg_pods_kind *kind;
    struct rg_driver_options o;
    struct pod_host *hosts;
    struct rg_plan own; /* the plan, as the driver of this computer has it; borrows all */
    void *local;        /* rg_driver_local's state; NULL: none of the hosts is here so far */
    struct rg_listener *listener;
};

/* --- others ----------------------------------------------------------------------------------- */

/* It is shorter than any socket's buffer, which holds nothing yet. */
static bool send_order(const struct pods *pods, int fd)
{
    char cwd[PATH_MAX];

    if (!getcwd(cwd, sizeof(cwd)) || strchr(cwd, '\n'))
        strcpy(cwd, "/");
    rg_autofree char *line = rg_strf("%s %s\n", pods->o.plan->job_id, cwd);
    ssize_t n = line ? (ssize_t) strlen(line) : 0;
    return n && send(fd, line, (size_t) n, MSG_NOSIGNAL) == n;
}

/* -1: it is none of them. One that was there before is an older host of the same name. */
static int find_host(const struct pods *pods, const char *place)
{
    const struct rg_plan *plan = pods->o.plan;
    int host = plan->nhosts - 1;

    while (host >= 0 && (pods->hosts[host].own || !pods->kind->is_place(place, plan, host)))
        host--;
    return host;
}

/* A second call is for the session to judge: the host may have been replaced. */
static void on_called(void *arg, const char *place, int take_fd)
{
    struct pods *pods = arg;
    int host = find_host(pods, place);

    if (host < 0 || (pods->kind->orders && !send_order(pods, take_fd))) {
        close(take_fd);
        return;
    }
    pods->hosts[host].heard = true;
    pods->o.events->on_connected(pods->o.arg, host, take_fd, take_fd);
}

/* Whether the key is not any more that with which this job began. */
static bool is_outdated(const struct pods *pods)
{
    uint8_t *key = pods->kind->key ? rg_key_hold(NULL) : NULL;
    bool other = key && pods->kind->key(key, NULL) == 0 &&
                 sodium_memcmp(key, pods->o.key, RG_KEY_NBYTES) != 0;

    rg_key_drop(key);
    return other;
}

/* What a stranger says is not to hide what a host has done. */
static void on_refused(void *arg, const char *place)
{
    struct pods *pods = arg;
    int host = find_host(pods, place);

    if (host < 0 || pods->hosts[host].heard)
        return;
    pods->o.events->on_phase(pods->o.arg, host, RG_PHASE_PENDING, RG_POD_WRONG_KEY);
    if (is_outdated(pods)) {
        struct rg_error err = RG_ERROR_INIT;
        rg_error_set_exit(&err, EKEYREJECTED, RG_EXIT_UNAVAILABLE,
                          "the hosts have got another key since this job began to wait for them; "
                          "run it again, and it takes that one");
        pods->hosts[host].heard = true;
        pods->o.events->on_gone(pods->o.arg, host, &err);
    }
}

static int listen_for_others(struct pods *pods, struct rg_error *err)
{
    struct rg_listener_options listening = {
        .loop = pods->o.loop, .key = pods->o.key, .only = true, .on_linked = on_called,
        .on_refused = on_refused, .arg = pods,
    };
    int port, r = pods->kind->port(&port, err);

    if (r < 0)
        return r;
    listening.ports = (struct rg_ports){ port, port };
    r = rg_listener_open(&listening, &pods->listener, NULL);
    return r == 0 ? 0 : pods->kind->port_taken(port, -r, err);
}

/* --- all of them ------------------------------------------------------------------------------ */

/* The driver of this computer starts what it is told to, of what there is. */
static int add_own(struct pods *pods, int host, struct rg_error *err)
{
    struct rg_driver_options own = pods->o;
    int r = 0;

    pods->own = *pods->o.plan;
    if (!pods->local) {
        own.plan = &pods->own;
        pods->own.nhosts = 0;
        r = rg_driver_local.start(&own, &pods->local, err);
        pods->own.nhosts = pods->o.plan->nhosts;
    }
    return r < 0 ? r : rg_driver_local.add(pods->local, host, err);
}

int rg_pods_add(void *state, int host, struct rg_error *err)
{
    struct pods *pods = state;

    pods->hosts[host].own = pods->kind->is_own(pods->o.plan, host);
    if (pods->hosts[host].own)
        return add_own(pods, host, err);
    pods->o.events->on_phase(pods->o.arg, host, RG_PHASE_PENDING, pods->kind->pending);
    return 0;
}

static bool is_alone(const struct pods *pods)
{
    const struct rg_plan *plan = pods->o.plan;

    return plan->room_hosts == plan->nhosts && plan->nhosts == 1 && pods->kind->is_own(plan, 0);
}

int rg_pods_start(const struct rg_pods_kind *kind, const struct rg_driver_options *options,
                  void **ret_state, struct rg_error *err)
{
    struct pods *pods = calloc(1, sizeof(*pods));
    int r = 0;

    if (!pods)
        return rg_error_memory(err);
    pods->kind = kind;
    pods->o = *options;
    pods->hosts = calloc((size_t) options->plan->room_hosts + 1, sizeof(*pods->hosts));
    if (!pods->hosts)
        r = rg_error_memory(err);
    else if (!is_alone(pods))
        r = listen_for_others(pods, err);
    for (int i = 0; r == 0 && i < options->plan->nhosts; i++)
        r = rg_pods_add(pods, i, err);
    if (r < 0)
        rg_pods_destroy(pods);
    else
        *ret_state = pods;
    return r;
}

const char *rg_pods_stopping(void *state, bool by_root)
{
    const struct pods *pods = state;

    (void) by_root;
    return pods->kind->stopping;
}

const char *rg_pods_unseen(void *state, int host)
{
    const struct pods *pods = state;

    return pods->hosts[host].own ? NULL : pods->kind->unseen;
}

void rg_pods_stop(void *state, int host)
{
    struct pods *pods = state;
    struct rg_error err = RG_ERROR_INIT;

    if (pods->hosts[host].own) {
        rg_driver_local.stop(pods->local, host);
        return;
    }
    rg_error_set(&err, ECANCELED, "%s", pods->kind->given_up);
    pods->o.events->on_gone(pods->o.arg, host, &err);
}

void rg_pods_destroy(void *state)
{
    struct pods *pods = state;

    rg_listener_close(pods->listener);
    if (pods->local)
        rg_driver_local.destroy(pods->local);
    free(pods->hosts);
    free(pods);
}
