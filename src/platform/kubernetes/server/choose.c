/* SPDX-License-Identifier: Apache-2.0 */
/* What both transports have in common, and which one it is. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "platform/kubernetes/server/api.h"

/* --- which one -------------------------------------------------------------------------------- */

const struct kube_transport *kube_transport_choose(const struct kube_place *place,
                                                   struct rg_error *err)
{
    char path[PATH_MAX];
    const char *without = api_why_not();

    if (place->gate)
        return &kube_api;
    if (rg_path_find(getenv("PATH"), "kubectl", strlen("kubectl"), path))
        return &kube_kubectl;
    if (without) {
        rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                          "there is no kubectl in PATH here, by which --on kubernetes does all "
                          "that it does; install it, and log in to the cluster (inside a pod the "
                          "token of a service account does as well; %s)", without);
        return NULL;
    }
    if (!place->context)
        return &kube_api;
    rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                      "--context %s: there is no kubectl in PATH here, whose configuration has "
                      "contexts; leave it out, and this pod's own cluster is used by its service "
                      "account, or install kubectl", place->context);
    return NULL;
}

/* --- questions -------------------------------------------------------------------------------- */

int kube_try(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
             struct rg_buf *answer, struct kube_refusal *ret_refusal, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    const struct kube_transport *by = kube_transport_choose(place, &cause);

    *ret_refusal = (struct kube_refusal){ .why = KUBE_FINE };
    int r = by ? by->ask(place, request, ms, answer, ret_refusal, &cause) : -cause.errnum;
    if (r < 0 && err)
        *err = cause;
    return r;
}

int kube_ask(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
             struct rg_buf *answer, struct rg_error *err)
{
    struct kube_refusal refusal;
    int r = kube_try(place, request, ms, answer, &refusal, err);

    return r < 0 || refusal.why == KUBE_FINE ? r : kube_explain_refusal(&refusal, err);
}

int kube_get(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
             json_t **ret_value, struct rg_error *err)
{
    rg_autobuf struct rg_buf answer = RG_BUF_INIT;
    json_error_t at;
    int r = kube_ask(place, request, ms, &answer, err);

    if (r < 0)
        return r;
    json_t *value = json_loadb((const char *) rg_buf_bytes(&answer), rg_buf_nbytes(&answer), 0,
                               &at);
    if (!value)
        return rg_error_set_exit(err, EPROTO, RG_EXIT_UNAVAILABLE,
                                 "the cluster answers with what is no JSON (%s)", at.text);
    *ret_value = value;
    return 0;
}

/* Whether a version of a group has a resource: 1, 0 or -errno with err. */
static int has_resource(const struct kube_place *place, const char *path, const char *resource,
                        uint64_t ms, struct rg_error *err)
{
    const struct kube_request request = { .verb = KUBE_GET, .path = path, .ms = ms };
    rg_autobuf struct rg_buf answer = RG_BUF_INIT;
    struct kube_refusal refusal;
    const json_t *item;
    size_t i;
    int r = kube_try(place, &request, ms, &answer, &refusal, err);

    if (r < 0 || refusal.why == KUBE_MISSING)
        return r;
    if (refusal.why != KUBE_FINE)
        return kube_explain_refusal(&refusal, err);
    KUBE_AUTO_JSON json_t *list = json_loads(rg_buf_text(&answer), 0, NULL);
    json_array_foreach(json_object_get(list, "resources"), i, item) {
        if (strcmp(kube_text(item, "name"), resource) == 0)
            return 1;
    }
    return 0;
}

int kube_find_version(const struct kube_place *place, const char *resource,
                      const char *const *versions, uint64_t ms, const char **ret_version,
                      struct rg_error *err)
{
    int r = 0;

    for (; *versions; versions++) {
        rg_autofree char *path = rg_strf("/apis/%s", *versions);
        r = path ? has_resource(place, path, resource, ms, err) : rg_error_memory(err);
        if (r != 0)
            break;
    }
    if (r >= 0)
        *ret_version = *versions;
    return r < 0 ? r : 0;
}

char *kube_place_name(const struct kube_place *place)
{
    const struct kube_transport *by = kube_transport_choose(place, NULL);
    rg_autofree char *ns = NULL, *context = NULL;

    if (by && !(place->ns && place->context))
        by->where(place, &ns, &context);
    return rg_strf("%s@%s", place->ns ? place->ns : ns && *ns ? ns : "default",
                   place->context ? place->context : context ? context : "");
}

/* --- streams ---------------------------------------------------------------------------------- */

int kube_stream_start(struct kube_stream *stream, struct rg_loop *loop,
                      const struct kube_place *place, const struct kube_request *request,
                      const struct kube_listener *listener, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    const struct kube_transport *by = kube_transport_choose(place, &cause);
    int r = by ? kube_stream_start_by(by, stream, loop, place, request, listener, &cause)
               : -cause.errnum;

    if (r < 0 && err)
        *err = cause;
    return r;
}
