/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as addresses, and what the server refuses as fields: where the API's own conventions
 * are. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "platform/kubernetes/server/api.h"
#include "platform/common/http/http.h"
#include "platform/common/http/url.h"

#define SAID_MAX 500u

const char *api_why_not(void)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");

    if (!host || !*host || !port || !*port)
        return "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
    if (access(API_ACCOUNT "/token", R_OK) < 0)
        return "this pod has none that can be read: " API_ACCOUNT "/token";
    return NULL;
}

/* --- addresses -------------------------------------------------------------------------------- */

/* "?key=value" or "&key=value"; NULL: nothing. */
static void put_parameter(struct rg_buf *url, int *n, const char *key, const char *value)
{
    if (!value)
        return;
    rg_buf_printf(url, "%c%s=", (*n)++ ? '&' : '?', key);
    rg_http_put_escaped(url, value);
}

/* "batch/v1" is where "/apis/batch/v1" leads, and "v1" where "/api/v1" does. */
static void put_group(struct rg_buf *url, const char *version)
{
    rg_buf_printf(url, strchr(version, '/') ? "/apis/%s" : "/api/%s", version);
}

/* The plural of a kind, in lower case: ConfigMap is configmaps. All that we make have such. */
static void put_plural(struct rg_buf *url, const char *kind)
{
    for (; *kind; kind++)
        rg_buf_printf(url, "%c", tolower((unsigned char) *kind));
    rg_buf_printf(url, "s");
}

/* Where kinds that are read, changed or deleted are found. */
static const char *group_of(const struct kube_request *request, const char *kind)
{
    return request->version ? request->version : strcmp(kind, "jobs") == 0 ? "batch/v1" : "v1";
}

static void put_parameters(struct rg_buf *url, const struct kube_request *q)
{
    char ntail[16];
    int n = 0;

    put_parameter(url, &n, "labelSelector", q->selector);
    put_parameter(url, &n, "fieldSelector", q->fields);
    switch (q->verb) {
    case KUBE_CREATE:
        put_parameter(url, &n, "fieldValidation", q->strict ? "Strict" : "Ignore");
        put_parameter(url, &n, "dryRun", q->dry_run ? "All" : NULL);
        /* fall through */
    case KUBE_PATCH:
        put_parameter(url, &n, "fieldManager", "reigen");
        break;
    case KUBE_DELETE:
        put_parameter(url, &n, "propagationPolicy", q->wait ? "Foreground" : "Background");
        break;
    case KUBE_WATCH: /* from no version on: all that there are come first */
        put_parameter(url, &n, "watch", "true");
        break;
    case KUBE_LOG:
        put_parameter(url, &n, "container", q->container);
        put_parameter(url, &n, "follow", q->follow ? "true" : NULL);
        put_parameter(url, &n, "timestamps", q->stamps ? "true" : NULL);
        put_parameter(url, &n, "sinceTime", q->since);
        snprintf(ntail, sizeof(ntail), "%d", q->ntail);
        put_parameter(url, &n, "tailLines", q->ntail ? ntail : NULL);
        break;
    case KUBE_GET:
        break;
    }
}

static void put_server(struct rg_buf *url)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");

    rg_buf_printf(url, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
}

int api_url(const struct kube_request *request, bool gate, const char *ns, const char *kind,
            const json_t *object, struct rg_buf *url)
{
    if (gate)
        rg_buf_printf(url, "http://localhost");
    else
        put_server(url);
    if (request->path) {
        rg_buf_printf(url, "%s", request->path);
        return rg_buf_status(url);
    }
    put_group(url, object ? kube_text(object, "apiVersion") : group_of(request, kind));
    if (!request->cluster) {
        rg_buf_printf(url, "/namespaces/");
        rg_http_put_escaped(url, ns);
    }
    rg_buf_printf(url, "/");
    if (object)
        put_plural(url, kube_text(object, "kind"));
    else
        rg_http_put_escaped(url, kind);
    if (request->name) {
        rg_buf_printf(url, "/");
        rg_http_put_escaped(url, request->name);
    }
    if (request->verb == KUBE_LOG)
        rg_buf_printf(url, "/log");
    put_parameters(url, request);
    return rg_buf_status(url);
}

/* --- refusals --------------------------------------------------------------------------------- */

static enum kube_refused why_of(long code)
{
    static const struct {
        long code;
        enum kube_refused why;
    } known[] = {
        { 400, KUBE_INVALID },   { 401, KUBE_DENIED }, { 403, KUBE_FORBIDDEN },
        { 404, KUBE_MISSING },   { 409, KUBE_EXISTS }, { 422, KUBE_INVALID },
        { 429, KUBE_BUSY },      { 502, KUBE_AWAY },   { 503, KUBE_AWAY },
        { 504, KUBE_AWAY },
    };

    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (known[i].code == code)
            return known[i].why;
    }
    return KUBE_FAILED;
}

void api_refusal(long code, const char *text, size_t nbytes, const json_t *object,
                 struct kube_refusal *ret_refusal)
{
    KUBE_AUTO_JSON json_t *status = json_loadb(text, nbytes, 0, NULL);
    const char *message = kube_text(status, "message");

    *ret_refusal = (struct kube_refusal){ .why = why_of(code), .in_pod = true };
    /* An object's own name is missing only where it is a namespace that is: "namespaces". */
    if (object && code == 404 && !*kube_text(status, "details.name"))
        snprintf(ret_refusal->text, sizeof(ret_refusal->text),
                 "no matches for kind \"%s\" in version \"%s\"", kube_text(object, "kind"),
                 kube_text(object, "apiVersion"));
    else if (*message)
        snprintf(ret_refusal->text, sizeof(ret_refusal->text), "%s", message);
    else if (code >= 500 && nbytes && !status) /* `kubectl proxy` says what is in its way */
        snprintf(ret_refusal->text, sizeof(ret_refusal->text), "%.*s",
                 (int) (nbytes < SAID_MAX ? nbytes : SAID_MAX), text);
    else
        snprintf(ret_refusal->text, sizeof(ret_refusal->text), "HTTP code %ld", code);
    if (code >= 500 && (kube_is_away(ret_refusal->text) || rg_str_starts(ret_refusal->text, "EOF")))
        ret_refusal->why = KUBE_AWAY; /* the kubelet that has the log, for one */
}
