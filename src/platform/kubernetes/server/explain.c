/* SPDX-License-Identifier: Apache-2.0 */
/* What kubectl and the API server complain of, as cause and remedy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/server/transport.h"

#define DIALING "error dialing backend" /* the API server does, a kubelet does not answer */

static const char *const away[] = {
    "connection refused", "was refused", "no route to host", "network is unreachable",
    "i/o timeout", "TLS handshake timeout", "Client.Timeout", "connection reset",
    "context deadline exceeded", "unexpected EOF", "http2: client connection lost",
    "Unable to connect to the server", "the server is currently unable", "ServiceUnavailable",
    "etcdserver:", "request timed out", "Timeout exceeded", "server has asked for the client to",
    DIALING, "connection lost", "use of closed network connection", "dial tcp",
};

#define COMPLAINT_MAX 512

/* The first complaint that fits counts; those that are more special come first. */
static const struct {
    const char *needle, *too; /* both are in it; NULL: one is enough */
    int exit_code;
    const char *remedy;
} known[] = {
    { "exceeded quota", NULL, RG_EXIT_UNAVAILABLE,
      "ask for less (--cpu, --memory, --gpus, -np), or wait until others have ended" },
    { "violates PodSecurity", NULL, RG_EXIT_USAGE, KUBE_RESTRICTED },
    { "looking up service account", NULL, RG_EXIT_USAGE,
      "kubectl get serviceaccounts lists those that there are" },
    { "no PriorityClass with name", NULL, RG_EXIT_USAGE,
      "kubectl get priorityclasses lists those that there are" },
    { "because it is being terminated", NULL, RG_EXIT_USAGE,
      "the namespace is being deleted: name another one with --namespace" },
    { "cannot create resource", NULL, RG_EXIT_NO_PERMISSION,
      "ask the cluster's administrator for a role that may create this here; docs/kubernetes.md "
      "has it" },
    { "cannot get resource", NULL, RG_EXIT_NO_PERMISSION,
      "ask the cluster's administrator for a role that may read this here; docs/kubernetes.md has "
      "it" },
    { "cannot list resource", NULL, RG_EXIT_NO_PERMISSION,
      "ask the cluster's administrator for a role that may read this here; docs/kubernetes.md has "
      "it" },
    { "is forbidden", NULL, RG_EXIT_NO_PERMISSION,
      "ask the cluster's administrator; docs/kubernetes.md has the role that is needed" },
    { "Unauthorized", NULL, RG_EXIT_NO_PERMISSION, "log in to the cluster again" },
    { "must be logged in", NULL, RG_EXIT_NO_PERMISSION, "log in to the cluster again" },
    { "getting credentials", NULL, RG_EXIT_NO_PERMISSION, "log in to the cluster again" },
    { "EOF", NULL, RG_EXIT_NO_PERMISSION,
      "kubectl asks for a name and a password, since its configuration has none for this cluster: "
      "log in to the cluster" },
    { "error loading config file", NULL, RG_EXIT_UNAVAILABLE,
      "correct that file, or name another one in KUBECONFIG" },
    { "jobs.batch", "already exists", RG_EXIT_USAGE,
      "the name is in use: give the job another one with --name, or end the one that has it "
      "(reigen stop NAME, or kubectl delete job NAME)" },
    { "already exists", NULL, RG_EXIT_USAGE,
      "something else has this name: give the job another one with --name" },
    { "namespaces \"", NULL, RG_EXIT_USAGE, "name one that is there with --namespace" },
    { "context \"", NULL, RG_EXIT_USAGE, "kubectl config get-contexts lists those that there are" },
    { "context was not found", NULL, RG_EXIT_USAGE,
      "kubectl config get-contexts lists those that there are" },
    { "no matches for kind \"PodGroup\"", NULL, RG_EXIT_USAGE,
      "the cluster has no such pod groups: leave --gang out, or name another one" },
    { "unknown field", NULL, RG_EXIT_USAGE, "correct the --pod-template, or the --affinity" },
    { "decoding error", NULL, RG_EXIT_USAGE, "correct the --pod-template, or the --affinity" },
    { "cannot be handled as a", NULL, RG_EXIT_USAGE,
      "correct the --pod-template, or the --affinity" },
    { "is invalid", NULL, RG_EXIT_USAGE, "correct that value" },
    { "Too long", NULL, RG_EXIT_USAGE, "give shorter lists" },
    { "unknown flag", NULL, RG_EXIT_UNAVAILABLE,
      "this kubectl is too old: install one that is at most one version older than the cluster" },
    { "executable", NULL, RG_EXIT_UNAVAILABLE,
      "kubectl's configuration names a program to log in with that is not here" },
};

/* It is not there, or not any more. */
static const char *const missing[] = { "NotFound", "not found", "No resources found",
                                       "doesn't have a resource type" };
/* kubectl itself knows no way. */
static const char *const local[] = { "context \"", "context was not found", "localhost:8080",
                                     "getting credentials" };
/* How `kubectl proxy` begins where it does not get as far as the server. */
static const char *const unsent[] = { "dial tcp", "tls: ", "x509: ", "getting credentials" };
static const char *const quota = "exceeded quota";
/* What kind of objects may not be made, in quotes behind it. */
static const char *const denied = "cannot create resource \"";
/* How a line begins that tells an error, and what of it is kubectl's own. */
static const char *const tells[] = { "Error", "error", "The ", "Unable" };
static const char *const begins[] = { "Error from server", "error: ", "Error: " };
static const char *const creating = "error when creating \"STDIN\": ";

static bool begins_with_one(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rg_str_starts(text, words[i]))
            return true;
    }
    return false;
}

static bool has_one(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(text, words[i]))
            return true;
    }
    return false;
}

/* The line that tells an error, without what kubectl puts before the server's words. */
static void complaint(const char *said, char *line, size_t nbytes)
{
    const char *best = "", *p = said, *found;

    for (; *p && !begins_with_one(p, tells, rg_array_len(tells)); p += strcspn(p, "\n"),
           p += *p == '\n') {
        if (*p != '\n' && !*best)
            best = p;
    }
    best = *p ? p : best;
    const char *end = best + strcspn(best, "\n");
    if (begins_with_one(best, begins, rg_array_len(begins)) && (found = strstr(best, ": ")) &&
        found < end)
        best = found + 2;
    if ((found = strstr(best, creating)) && found < end)
        best = found + strlen(creating);
    snprintf(line, nbytes, "%.*s", (int) (end - best), best);
}

bool kube_is_quota(const char *said)
{
    return strstr(said, quota);
}

bool kube_is_denied(const char *said, char *ret_kind, size_t nbytes)
{
    const char *found = strstr(said, denied);

    if (!found)
        return false;
    found += strlen(denied);
    snprintf(ret_kind, nbytes, "%.*s", (int) strcspn(found, "\""), found);
    return true;
}

bool kube_is_away(const char *said)
{
    return has_one(said, away, rg_array_len(away));
}

bool kube_was_not_sent(const char *said)
{
    return strstr(said, "unable to recognize") ||
           begins_with_one(said, unsent, rg_array_len(unsent));
}

static int fail_away(const char *said, const char *line, struct rg_error *err)
{
    return rg_error_set_exit(err, kube_was_not_sent(said) ? ENOTCONN : EHOSTUNREACH,
                             RG_EXIT_UNAVAILABLE,
                             "the cluster's API server does not answer: %s; look at kubectl "
                             "cluster-info, or name another --context", line);
}

int kube_explain(const char *said, struct rg_error *err)
{
    char line[COMPLAINT_MAX];

    complaint(said, line, sizeof(line));
    if (strstr(said, "localhost:8080"))
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "kubectl knows no cluster here; name its configuration in "
                                 "KUBECONFIG, or put it into ~/.kube/config");
    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (!kube_is_away(said) && strstr(said, known[i].needle) &&
            (!known[i].too || strstr(said, known[i].too)))
            return rg_error_set_exit(err, known[i].exit_code == RG_EXIT_NO_PERMISSION ? EACCES
                                                                                     : EINVAL,
                                     known[i].exit_code, "Kubernetes: %s; %s", line,
                                     known[i].remedy);
    }
    if (strstr(said, DIALING))
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_HOST_LOST,
                                 "the node of the job's first pod does not answer: %s; kubectl get "
                                 "nodes shows how it is", line);
    if (kube_is_away(said))
        return fail_away(said, line, err);
    return rg_error_set_exit(err, EIO, RG_EXIT_UNAVAILABLE, "Kubernetes: %s",
                             *line ? line : "it failed and does not say why");
}

void kube_refusal_said(const char *said, struct kube_refusal *ret_refusal)
{
    size_t n = strlen(said), at = n < KUBE_REFUSAL_MAX ? 0 : n - KUBE_REFUSAL_MAX + 1;

    *ret_refusal = (struct kube_refusal){ .why = KUBE_FAILED };
    if (kube_is_away(said))
        ret_refusal->why = KUBE_AWAY;
    else if (has_one(said, local, rg_array_len(local)))
        ret_refusal->why = KUBE_UNSET;
    else if (has_one(said, missing, rg_array_len(missing)))
        ret_refusal->why = KUBE_MISSING;
    snprintf(ret_refusal->text, sizeof(ret_refusal->text), "%s", said + at);
}

/* What the API has told a pod's service account, where that is not what it tells everybody. */
static int explain_in_pod(const struct kube_refusal *refusal, struct rg_error *err)
{
    const char *text = refusal->text;

    if (strstr(text, DIALING))
        return kube_explain(text, err);
    switch (refusal->why) {
    case KUBE_AWAY:
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                 "the cluster's API server does not answer: %s; may this pod "
                                 "connect to it (network policies)?", text);
    case KUBE_BUSY:
        return rg_error_set_exit(err, EBUSY, RG_EXIT_UNAVAILABLE,
                                 "the cluster's API server has too much to do: %s; try again "
                                 "later", text);
    case KUBE_DENIED:
        return rg_error_set_exit(err, EACCES, RG_EXIT_NO_PERMISSION,
                                 "Kubernetes: %s: it does not take the token of this pod's service "
                                 "account, which has expired, or was removed; start this pod "
                                 "again", text);
    case KUBE_UNTRUSTED:
        return rg_error_set_exit(err, EACCES, RG_EXIT_NO_PERMISSION,
                                 "who answers for the cluster's API server is not it: %s; the "
                                 "ca.crt of this pod's service account does not fit, or something "
                                 "stands between", text);
    default:
        return kube_explain(text, err);
    }
}

int kube_explain_refusal(const struct kube_refusal *refusal, struct rg_error *err)
{
    char line[COMPLAINT_MAX];

    if (refusal->in_pod)
        return explain_in_pod(refusal, err);
    if (refusal->why != KUBE_AWAY || kube_is_away(refusal->text))
        return kube_explain(refusal->text, err);
    complaint(refusal->text, line, sizeof(line)); /* libcurl's, or a proxy's, and not kubectl's */
    return fail_away(refusal->text, line, err);
}
