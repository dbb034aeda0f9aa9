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

struct pods {
    const struct rg_pods_kind *kind;
    struct rg_driver_options o;
    int head;           /* which host this process is on; -1: none */
    struct rg_plan own; /* the plan as if that were all of it; borrows all */
    void *local;        /* rg_driver_local's state for that; NULL: there is none */
    struct rg_listener *listener;
    bool *heard;        /* which hosts have called with the key; owned */
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

/* The number of hosts: it is none of them. */
static int find_host(const struct pods *pods, const char *place)
{
    const struct rg_plan *plan = pods->o.plan;
    int host = 0;

    while (host < plan->nhosts &&
           (host == pods->head || !pods->kind->is_place(place, plan, host)))
        host++;
    return host;
}

/* A second call is for the session to judge: the host may have been replaced. */
static void on_called(void *arg, const char *place, int take_fd)
{
    struct pods *pods = arg;
    int host = find_host(pods, place);

    if (host == pods->o.plan->nhosts || (pods->kind->orders && !send_order(pods, take_fd))) {
        close(take_fd);
        return;
    }
    pods->heard[host] = true;
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

    if (host == pods->o.plan->nhosts || pods->heard[host])
        return;
    pods->o.events->on_phase(pods->o.arg, host, RG_PHASE_PENDING, RG_POD_WRONG_KEY);
    if (is_outdated(pods)) {
        struct rg_error err = RG_ERROR_INIT;
        rg_error_set_exit(&err, EKEYREJECTED, RG_EXIT_UNAVAILABLE,
                          "the hosts have got another key since this job began to wait for them; "
                          "run it again, and it takes that one");
        pods->heard[host] = true;
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

/* --- the own host, which is host 0 to the driver of this computer ----------------------------- */

static void own_connected(void *arg, int host, int take_read_fd, int take_write_fd)
{
    const struct pods *pods = arg;

    (void) host;
    pods->o.events->on_connected(pods->o.arg, pods->head, take_read_fd, take_write_fd);
}

static void own_phase(void *arg, int host, int phase, const char *reason)
{
    const struct pods *pods = arg;

    (void) host;
    pods->o.events->on_phase(pods->o.arg, pods->head, phase, reason);
}

static void own_note(void *arg, int host, const char *text)
{
    const struct pods *pods = arg;

    (void) host;
    pods->o.events->on_note(pods->o.arg, pods->head, text);
}

static void own_gone(void *arg, int host, const struct rg_error *err)
{
    const struct pods *pods = arg;

    (void) host;
    pods->o.events->on_gone(pods->o.arg, pods->head, err);
}

static int start_own(struct pods *pods, struct rg_error *err)
{
    static const struct rg_driver_events events = {
        .on_connected = own_connected, .on_phase = own_phase, .on_note = own_note,
        .on_gone = own_gone,
    };
    struct rg_driver_options own = pods->o;

    if (pods->head < 0)
        return 0;
    pods->own = *pods->o.plan;
    pods->own.hosts += pods->head;
    pods->own.nhosts = 1;
    own.plan = &pods->own;
    own.events = &events;
    own.arg = pods;
    return rg_driver_local.start(&own, &pods->local, err);
}

/* --- all of them ------------------------------------------------------------------------------ */

int rg_pods_start(const struct rg_pods_kind *kind, const struct rg_driver_options *options,
                  void **ret_state, struct rg_error *err)
{
    struct pods *pods = calloc(1, sizeof(*pods));
    const struct rg_plan *plan = options->plan;
    int r = 0;

    if (!pods)
        return rg_error_memory(err);
    pods->kind = kind;
    pods->o = *options;
    pods->head = -1;
    pods->heard = calloc((size_t) plan->nhosts + 1, sizeof(*pods->heard));
    if (!pods->heard)
        r = rg_error_memory(err);
    for (int i = 0; i < plan->nhosts && pods->head < 0; i++) {
        if (kind->is_own(plan, i))
            pods->head = i;
    }
    if (r == 0 && plan->nhosts > (pods->head >= 0))
        r = listen_for_others(pods, err);
    for (int i = 0; r == 0 && i < plan->nhosts; i++) {
        if (i != pods->head)
            options->events->on_phase(options->arg, i, RG_PHASE_PENDING, kind->pending);
    }
    if (r == 0)
        r = start_own(pods, err);
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

    return host == pods->head ? NULL : pods->kind->unseen;
}

void rg_pods_stop(void *state, int host)
{
    struct pods *pods = state;
    struct rg_error err = RG_ERROR_INIT;

    if (host == pods->head) {
        rg_driver_local.stop(pods->local, 0);
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
    free(pods->heard);
    free(pods);
}
