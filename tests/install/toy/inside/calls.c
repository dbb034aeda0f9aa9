/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The toy from the inside: hosts that somebody else has started by `reigen-agent pod`, with
 *
 *     TOY_HEAD    where the head listens: ADDRESS:PORT
 *     TOY_NAME    what the host is called at the head
 *     TOY_KEY     the key's file; the head has this and TOY_HEAD, too
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/plan/plan.h"
#include "platform/common/callers.h"
#include "platform/common/pod.h"
#include "platform/local/door.h"

#define KEY_MAX 200

static int take_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err)
{
    const char *path = getenv("TOY_KEY");
    rg_autofree char *text = NULL;
    int r = rg_read_named("key file", path ? path : "", KEY_MAX, &text, NULL, err);

    return r == 0 && rg_key_parse(text, ret_key) < 0
               ? rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "TOY_KEY: %s has no key", path) : r;
}

/* --- a host ----------------------------------------------------------------------------------- */

#ifdef RG_AGENT
static bool here(void)
{
    return getenv("TOY_HEAD");
}

static int find(struct rg_pod *pod, struct rg_error *err)
{
    const char *name = getenv("TOY_NAME");

    *pod = (struct rg_pod){ .itself = "this host", .head = "the head", .doubt = "is it up?",
                            .key = take_key };
    if (!name)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "TOY_NAME is not set");
    snprintf(pod->place, sizeof(pod->place), "%s", name);
    snprintf(pod->address, sizeof(pod->address), "%s", getenv("TOY_HEAD"));
    return 0;
}

static const struct rg_pod_platform pod = { .here = here, .find = find };
#endif

/* --- the head --------------------------------------------------------------------------------- */

static int find_port(int *ret_port, struct rg_error *err)
{
    const char *text = getenv("TOY_HEAD"), *colon = text ? strrchr(text, ':') : NULL;
    int64_t port = 0;
    int r = rg_parse_int("TOY_HEAD", colon ? colon + 1 : "", 1, UINT16_MAX, &port, err);

    *ret_port = (int) port;
    return r;
}

static int port_taken(int port, int errnum, struct rg_error *err)
{
    return rg_error_set_exit(err, errnum, RG_EXIT_UNAVAILABLE, "the port %d of TOY_HEAD: %s", port,
                             strerror(errnum));
}

static bool is_own(const struct rg_plan *plan, int host)
{
    return rg_local_is_here(plan->hosts[host].name);
}

static bool is_place(const char *place, const struct rg_plan *plan, int host)
{
    return strcmp(place, plan->hosts[host].name) == 0;
}

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    (void) held;
    for (size_t i = 0; i < job->nhosts; i++)
        job->hosts[i].nslots += !job->hosts[i].nslots;
    return job->nhosts ? 0 : rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "name hosts by -H");
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    static const struct rg_pods_kind kind = {
        .pending = "it has not called yet",
        .stopping = "somebody ends the host",
        .unseen = "it is gone without a word",
        .given_up = "it was not waited for any more",
        .orders = true,
        .port = find_port,
        .port_taken = port_taken,
        .is_own = is_own,
        .is_place = is_place,
    };

    return rg_pods_start(&kind, options, ret_state, err);
}

const struct rg_driver_ops rg_driver_toy_calls = {
    .platform = { .name = "toy-calls", .title = "toys that call", .about = ", toys that call",
                  .own_cpus = true, .clears_up = true },
    .discover = discover,
    .pod = RG_AGENT_ONLY(&pod),
    .key = take_key,
    .start = start,
    .stopping = rg_pods_stopping,
    .unseen = rg_pods_unseen,
    .stop = rg_pods_stop,
    .destroy = rg_pods_destroy,
};
