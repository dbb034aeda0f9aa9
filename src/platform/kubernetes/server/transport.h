/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to a cluster's API: make objects, read, change, delete and watch them, read logs.
 * Two transports do it, and who asks need not know which:
 *
 *   kubectl.c   a kubectl in PATH: contexts, proxies and plug-ins that log in stay the user's
 *   api.c       where there is none, in a pod: libcurl, with the token of the pod's service
 *               account; and to make a job by one kubectl instead of three (gate.h)
 *
 * A request says what is wanted; what the API refuses comes back as fields. Nothing outside
 * src/platform/kubernetes includes this, but tests.
 *
 * Thread rule: the loop's thread. kube_ask and its like block, for at most as long as they are
 * told; a stream does not.
 */
#ifndef RG_PLATFORM_KUBERNETES_SERVER_TRANSPORT_H
#define RG_PLATFORM_KUBERNETES_SERVER_TRANSPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

#define KUBE_REFUSAL_MAX 4096
#define KUBE_OBJECT_MAX (16u << 20)
#define KUBE_ANSWER_MAX (256u << 20)
#define KUBE_GONE_MS 60000 /* so long a deletion that is waited for may take */

/* Where a job is; NULL: what kubectl's configuration, or the pod's service account, says.
 * Borrowed. */
struct kube_place {
    const char *context, *ns;
    const char *gate; /* the socket of a `kubectl proxy` (gate.h), with both above; NULL: none */
};

enum kube_verb { KUBE_CREATE, KUBE_GET, KUBE_PATCH, KUBE_DELETE, KUBE_WATCH, KUBE_LOG };

/* Borrowed while the call, or the stream, goes on. */
struct kube_request {
    enum kube_verb verb;
    const char *kind;     /* of all verbs but CREATE: "jobs", "pods", "events"; GET: "jobs,pods" */
    const char *version;  /* of the kind, "batch/v1"; NULL: v1, if api_request.c knows no other one.
                             kubectl finds it by itself */
    const char *path;     /* GET, in place of a kind: what the server has there, "/apis/batch/v1" */
    const char *name;     /* NULL (GET and WATCH): all that the selector fits */
    const char *selector; /* labels, "a=b,c=d"; NULL: all */
    const char *fields;   /* fields, likewise: "reason!=a" */
    const json_t *object; /* CREATE: an object, or a List; PATCH: what a merge patch changes */
    bool strict;          /* CREATE: refuse fields that the server does not know */
    bool dry_run;         /* CREATE: the server does all but keep it */
    bool whole;           /* CREATE: the answer is not the uid but all that was made, as JSON, one
                             object after the other */
    bool each;            /* CREATE of a List: all are tried, where some are refused, too; the
                             refusal's text then has a line for each that is */
    bool cluster;         /* CREATE, GET: not in a namespace, or in all of them */
    bool wait;            /* DELETE: what it owns first, and until all is gone, for KUBE_GONE_MS */
    const char *container, *since; /* LOG; since: "2026-01-31T23:59:59Z", or NULL */
    bool follow, stamps;           /* LOG: what comes, too; with a time stamp before each line */
    int ntail;            /* LOG: no more than its last lines; 0: all */
    uint64_t ms;          /* the whole answer must come within; 0: no limit, or kube_ask's */
};

/* Why it was not done. */
enum kube_refused {
    KUBE_FINE,
    KUBE_AWAY,      /* no answer at all: the API server, or the way to it, is away */
    KUBE_BUSY,      /* 429: not now */
    KUBE_MISSING,   /* 404: what was asked for is not there */
    KUBE_DENIED,    /* 401: it does not know who asks */
    KUBE_FORBIDDEN, /* 403: who asks may not */
    KUBE_EXISTS,    /* 409: the name is in use */
    KUBE_INVALID,   /* 400, 422: the object is not as it must be */
    KUBE_UNTRUSTED, /* who answers does not prove to be the API server */
    KUBE_UNSET,     /* kubectl's own configuration is what fails: nobody was asked */
    KUBE_FAILED,    /* all else, 5xx for one */
};

struct kube_refusal {
    enum kube_refused why;
    bool in_pod; /* the pod's service account asked, and no kubectl */
    char text[KUBE_REFUSAL_MAX]; /* the API's own words, or kubectl's, with more lines than are
                                    needed; may be "" */
};

/* --- JSON ------------------------------------------------------------------------------------- */

static inline void kube_json_free(json_t **value)
{
    json_decref(*value);
}
#define KUBE_AUTO_JSON rg_cleanup(kube_json_free)

/* A text, borrowed, at a path of keys that dots separate; "" where there is none. */
const char *kube_text(const json_t *value, const char *path);
const json_t *kube_at(const json_t *value, const char *path);
/* The value as text, in one line. 0 or -ENOMEM. */
int kube_dump(const json_t *value, struct rg_buf *buf);

/* --- questions -------------------------------------------------------------------------------- */

/* Ask, and wait for the answer, ms at most: GET's is JSON (a List where it has no name), LOG's the
 * log; other verbs have none, and answer may be NULL. 0, or -errno with err, which says cause and
 * remedy and has an exit code. DELETE of what is not there is fine. */
int kube_ask(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
             struct rg_buf *answer, struct rg_error *err);
/* The same, but what is refused is no error: ret_refusal says why. -errno with err where nobody
 * could be asked. */
int kube_try(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
             struct rg_buf *answer, struct kube_refusal *ret_refusal, struct rg_error *err);
/* GET, or CREATE of a whole object, as a tree. */
int kube_get(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
             json_t **ret_value, struct rg_error *err);
/* The first of these versions, "kueue.x-k8s.io/v1beta2", NULL behind the last, in which the server
 * has a resource, "localqueues". Whoever is logged in may ask that. Each question takes ms at most.
 * ret_version: NULL where none has it. 0, or -errno with err: nobody has answered. */
int kube_find_version(const struct kube_place *place, const char *resource,
                      const char *const *versions, uint64_t ms, const char **ret_version,
                      struct rg_error *err);
/* What this place is called, whatever the configuration says one day: "NAMESPACE@CONTEXT", in a pod
 * "NAMESPACE@". The caller's; NULL: no memory. Blocks for kubectl. */
char *kube_place_name(const struct kube_place *place);

/* --- refusals --------------------------------------------------------------------------------- */

/* The remedy where pods are not as restricted as their namespace wants. */
#define KUBE_RESTRICTED                                                                           \
    "this namespace wants restricted pods: say --user UID with a number that is not 0, and leave "\
    "out --privileged, --host-network, --rdma and directories of nodes"

/* What kubectl's or the API server's complaint means: cause and remedy, with an exit code. Returns
 * -errno. */
int kube_explain(const char *said, struct rg_error *err);
/* What a refusal means, likewise. */
int kube_explain_refusal(const struct kube_refusal *refusal, struct rg_error *err);
/* What kubectl has said, as fields. */
void kube_refusal_said(const char *said, struct kube_refusal *ret_refusal);
/* Whether it says that the API server, or the way to it, is away for now. */
bool kube_is_away(const char *said);
/* Whether it says that the request was not sent at all: it is safe to send it again. */
bool kube_was_not_sent(const char *said);
/* Whether a quota refuses it. */
bool kube_is_quota(const char *said);
/* Whether the user may not make such an object; the kind, "jobs", goes into ret_kind. */
bool kube_is_denied(const char *said, char *ret_kind, size_t nbytes);

/* --- streams ---------------------------------------------------------------------------------- */

/* JSON objects, one after the other. Zeroed at first. */
struct kube_splitter {
    struct rg_buf text;
    size_t at, start; /* in text: what was looked at, and where the object begins */
    int depth;
    bool in_string, escaped;
};

/* Take bytes, and tell of each object that they complete, which is borrowed. What is no JSON is
 * left out. 0; -EMSGSIZE: an object is too large, -ENOMEM. */
int kube_split(struct kube_splitter *splitter, const char *bytes, size_t nbytes,
               void (*on_object)(void *arg, const json_t *object), void *arg);
void kube_splitter_fini(struct kube_splitter *splitter);

/* A request whose answer comes as it comes, and in the loop. */
struct kube_stream {
    struct rg_loop *loop;
    const struct kube_transport *by;
    void *state;                 /* the transport's */
    bool started, watches;
    struct kube_refusal refusal; /* when on_end is called: why it has ended, if not by itself */
    struct kube_splitter splitter;
    void (*on_object)(void *arg, const json_t *object);
    void (*on_bytes)(void *arg, const void *bytes, size_t nbytes);
    void (*on_end)(void *arg);
    void *arg;
};

/* Who listens. on_object: GET: the answer. WATCH: {"type": "ADDED", "object": {...}}, at first for
 * all that there are; it ends by itself from time to time. on_bytes: a LOG's. NULL: it is not
 * looked at. Neither may stop or start this stream. on_end: it has ended, all was told; it may
 * start it again, or free it. */
struct kube_listener {
    void (*on_object)(void *arg, const json_t *object);
    void (*on_bytes)(void *arg, const void *bytes, size_t nbytes);
    void (*on_end)(void *arg);
    void *arg;
};

/* stream: zeroed at first, or one that has ended. 0 or -errno with err. */
int kube_stream_start(struct kube_stream *stream, struct rg_loop *loop,
                      const struct kube_place *place, const struct kube_request *request,
                      const struct kube_listener *listener, struct rg_error *err);
/* End it; no call follows. A zeroed one is fine, and so is one that has ended. */
void kube_stream_stop(struct kube_stream *stream);

/* --- for the transports ----------------------------------------------------------------------- */

struct kube_transport {
    /* Begin. What comes goes to kube_stream_take, and the end to kube_stream_end. 0 or -errno. */
    int (*start)(struct kube_stream *stream, const struct kube_place *place,
                 const struct kube_request *request, struct rg_error *err);
    /* Free stream->state. */
    void (*stop)(struct kube_stream *stream);
    /* Do it within ms: 0, or -errno with err; ret_refusal says whether it was done. CREATE's answer
     * is the uid, unless the request says `whole`. */
    int (*ask)(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
               struct rg_buf *answer, struct kube_refusal *ret_refusal, struct rg_error *err);
    /* Namespace and context as they are now, for those that place does not name; the caller's, or
     * NULL. */
    void (*where)(const struct kube_place *place, char **ret_ns, char **ret_context);
};

/* As kube_stream_start, by this one. */
int kube_stream_start_by(const struct kube_transport *by, struct kube_stream *stream,
                         struct rg_loop *loop, const struct kube_place *place,
                         const struct kube_request *request, const struct kube_listener *listener,
                         struct rg_error *err);

extern const struct kube_transport kube_kubectl, kube_api;

/* kube_kubectl where PATH has one, else kube_api where a service account's token is; else NULL with
 * err and exit code 69 (2: there is a context, and nobody to read it). */
const struct kube_transport *kube_transport_choose(const struct kube_place *place,
                                                   struct rg_error *err);
/* 0; or -errno: enough, and the stream's refusal says why. */
int kube_stream_take(struct kube_stream *stream, const void *bytes, size_t nbytes);
/* Stop it and call on_end; the stream may be gone after that. */
void kube_stream_end(struct kube_stream *stream, const struct kube_refusal *refusal);

/* kubectl.c: the words for a request. */
void kubectl_words(const struct kube_place *place, const struct kube_request *request,
                   struct rg_strv *argv);
/* The words that ask for namespace and context, and what is said to them, as `where` above. */
void kubectl_where_words(const struct kube_place *place, struct rg_strv *argv);
void kubectl_where_read(const struct kube_place *place, char *text, char **ret_ns,
                        char **ret_context);

#endif
