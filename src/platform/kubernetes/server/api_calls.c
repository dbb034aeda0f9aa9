/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of a pod without kubectl, and of a gate: HTTP in the loop (platform/common/http).
 * A call is one or more transfers, one after the other: a List is made object by object, and what
 * is deleted is asked after until it is gone.
 *
 * A question that blocks is the same in a loop of its own.
 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"
#include "platform/kubernetes/server/api.h"
#include "platform/common/http/http.h"

#define GONE_PAUSE_MS 200     /* between looks whether it is gone */
#define BUSY_TRIES 10         /* what the server asks us to try again later is tried so often */
#define BUSY_MAX_S 30         /* and after so long at most */
#define ACCOUNT_MAX (1u << 20) /* of each of its files */
#define JSON_MAX (64u << 20)
#define PROXY "kubectl proxy: " /* what fails of a gate */

struct call {
    struct kube_stream *stream;
    struct rg_http *http;
    struct kube_request q;        /* its texts are gone: only numbers count */
    json_t *object, *items;       /* what is created or changes; a List that is answered */
    struct rg_strv urls;          /* of the transfers, in order */
    size_t at;                    /* the one that goes on */
    struct rg_buf upload;         /* what is sent */
    struct kube_refusal refused;  /* of a List whose objects are all tried: the first one's, with a
                                     line for each */
    struct rg_timer pause_timer;
    int tries;
    bool gate;                    /* a kubectl knows who asks, and whom */
    bool streams;                 /* what comes is told at once */
    bool looking;                 /* it is deleted; is it gone? */
    uint64_t gone_by_ns;
};

static void begin_transfer(void *arg);

/* --- a transfer ------------------------------------------------------------------------------- */

static void refuse(struct call *call, enum kube_refused why, const char *text)
{
    struct kube_refusal refusal = { .why = why, .in_pod = true };

    snprintf(refusal.text, sizeof(refusal.text), "%s", text);
    kube_stream_end(call->stream, &refusal);
}

static void succeed(struct call *call)
{
    struct kube_refusal refused = call->refused; /* the call is gone after that */

    refused.in_pod = true;
    kube_stream_end(call->stream, &refused);
}

/* A file of the service account, in one line without its end. */
static char *read_account(const char *name)
{
    rg_autofree char *path = rg_strf(API_ACCOUNT "/%s", name);
    char *text = NULL;

    if (path && rg_read_file(path, ACCOUNT_MAX, &text, NULL) == 0)
        text[strcspn(text, "\r\n")] = '\0';
    return text;
}

/* Of what was made the uid is enough, and a ConfigMap has a mebibyte. */
static const char *accepts(const struct call *call)
{
    return call->q.verb > KUBE_CREATE || call->q.whole
               ? "Accept: application/json, */*"
               : "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, "
                 "application/json";
}

/* The object that the transfer makes; NULL: it makes none. */
static const json_t *object_now(const struct call *call)
{
    json_t *items = json_object_get(call->object, "items");

    if (call->q.verb != KUBE_CREATE)
        return NULL;
    return items ? json_array_get(items, call->at) : call->object;
}

static const char *method_of(const struct call *call)
{
    static const char *const methods[] = { [KUBE_CREATE] = "POST", [KUBE_PATCH] = "PATCH",
                                           [KUBE_DELETE] = "DELETE" };
    const char *method = call->looking || call->q.verb > KUBE_DELETE ? NULL
                                                                     : methods[call->q.verb];

    return method ? method : "GET";
}

/* What goes with it, into call->upload. */
static int put_upload(struct call *call)
{
    const json_t *object = call->q.verb == KUBE_PATCH ? call->object : object_now(call);

    rg_buf_clear(&call->upload);
    return object ? kube_dump(object, &call->upload) : 0;
}

static int send_request(struct call *call, const char *authorization)
{
    const char *const headers[] = {
        call->q.verb == KUBE_PATCH ? "Content-Type: application/merge-patch+json"
                                   : "Content-Type: application/json",
        accepts(call), NULL,
    };
    const struct rg_http_request request = {
        .method = method_of(call), .url = call->urls.v[call->at], .authorization = authorization,
        .headers = headers, .body = rg_buf_bytes(&call->upload),
        .nbytes = rg_buf_nbytes(&call->upload), .max_nbytes = JSON_MAX, .ms = call->q.ms,
    };

    return rg_http_send(call->http, &request);
}

static void begin_transfer(void *arg)
{
    struct call *call = arg;
    rg_autofree char *token = call->gate ? NULL : read_account("token");
    rg_autofree char *bearer = token ? rg_strf("Bearer %s", token) : NULL;

    if (!call->gate && !bearer)
        refuse(call, KUBE_DENIED, "the token " API_ACCOUNT "/token cannot be read");
    else if (put_upload(call) < 0 || send_request(call, bearer) < 0)
        refuse(call, KUBE_FAILED, strerror(ENOMEM));
}

static void begin_later(struct call *call, uint64_t ms)
{
    rg_timer_start(&call->pause_timer, call->stream->loop, ms, 0, begin_transfer, call);
}

/* --- answers ---------------------------------------------------------------------------------- */

static json_t *body_json(struct call *call)
{
    const struct rg_buf *body = rg_http_body(call->http);

    return json_loadb((const char *) rg_buf_bytes(body), rg_buf_nbytes(body), 0, NULL);
}

/* All that came. */
static int take_body(struct call *call)
{
    const struct rg_buf *body = rg_http_body(call->http);

    return kube_stream_take(call->stream, rg_buf_bytes(body), rg_buf_nbytes(body));
}

/* What a List has of a kind: its own items say no kind, as kubectl's do. */
static int add_items(struct call *call)
{
    KUBE_AUTO_JSON json_t *list = body_json(call);
    const char *kind = kube_text(list, "kind");
    size_t n = strlen(kind), i;
    json_t *item;

    if (n <= strlen("List") || strcmp(kind + n - strlen("List"), "List") != 0)
        return -EPROTO;
    json_array_foreach(json_object_get(list, "items"), i, item) {
        json_object_set_new(item, "kind", json_stringn(kind, n - strlen("List")));
        if (json_array_append(call->items, item) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int tell_list(struct call *call)
{
    KUBE_AUTO_JSON json_t *list = json_pack("{s:s,s:O}", "kind", "List", "items", call->items);

    rg_buf_clear(rg_http_body(call->http));
    int r = list ? kube_dump(list, rg_http_body(call->http)) : -ENOMEM;
    return r < 0 ? r : take_body(call);
}

static void tell_made(struct call *call)
{
    if (call->q.whole) {
        take_body(call);
        return;
    }
    KUBE_AUTO_JSON json_t *made = body_json(call);
    const char *uid = kube_text(made, "metadata.uid");

    kube_stream_take(call->stream, uid, strlen(uid));
}

/* Another one may have the name by now. */
static bool is_gone(struct call *call, long code)
{
    KUBE_AUTO_JSON json_t *object = body_json(call);

    return code == 404 || (object && !*kube_text(object, "metadata.deletionTimestamp"));
}

/* It is not gone yet, or nobody could say. */
static void look_again(struct call *call)
{
    if (rg_now_ns() >= call->gone_by_ns) {
        refuse(call, KUBE_FAILED, "it was deleted, and is not gone after 60 s");
        return;
    }
    call->looking = true;
    begin_later(call, GONE_PAUSE_MS);
}

/* To the next transfer, if there is one. */
static void go_on(struct call *call)
{
    if (call->at + 1 == call->urls.count) {
        succeed(call);
        return;
    }
    call->at++;
    call->tries = 0;
    begin_later(call, 0);
}

static void on_success(struct call *call)
{
    bool last = call->at + 1 == call->urls.count;
    int r = 0;

    if (call->q.verb == KUBE_CREATE && (last || call->q.whole))
        tell_made(call);
    else if (call->items)
        r = add_items(call);
    else if (!call->streams && call->q.verb == KUBE_GET)
        r = take_body(call);
    if (r == 0 && call->items && last)
        r = tell_list(call);
    if (r < 0)
        refuse(call, KUBE_FAILED, "the API server's answer is none that Reigen understands");
    else if (call->q.verb == KUBE_DELETE && call->q.wait)
        look_again(call);
    else
        go_on(call);
}

/* An object of those that are all tried is refused. */
static void on_refused(struct call *call, const struct kube_refusal *refusal)
{
    struct kube_refusal *all = &call->refused;
    size_t n = strlen(all->text);

    if (all->why == KUBE_FINE)
        all->why = refusal->why;
    snprintf(all->text + n, sizeof(all->text) - n, "%s%s", n ? "\n" : "", refusal->text);
    go_on(call);
}

/* 429 and 5xx may say when to try again, and then it was not done. */
static bool tries_later(struct call *call, const struct rg_http_reply *reply)
{
    int64_t seconds = reply->retry_after_s;

    if ((reply->status != 429 && reply->status < 500) || call->tries >= BUSY_TRIES || seconds <= 0)
        return false;
    call->tries++;
    begin_later(call, (uint64_t) (seconds < BUSY_MAX_S ? seconds : BUSY_MAX_S) * 1000);
    return true;
}

static void on_failure(struct call *call, const struct rg_http_reply *reply)
{
    char text[RG_HTTP_CAUSE_MAX + sizeof(PROXY)];

    snprintf(text, sizeof(text), "%s%s", call->gate ? PROXY : "", reply->cause);
    if (call->looking)
        look_again(call);
    else if (reply->result == RG_HTTP_TOO_LARGE)
        refuse(call, KUBE_FAILED, "the API server's answer is larger than 64 MiB");
    else if (reply->result == RG_HTTP_UNTRUSTED)
        refuse(call, KUBE_UNTRUSTED, text);
    else
        refuse(call, KUBE_AWAY, text);
}

/* A request has ended. */
static void on_transferred(void *arg)
{
    struct call *call = arg;
    const struct rg_http_reply *reply = rg_http_reply(call->http);
    const struct rg_buf *body = rg_http_body(call->http);
    struct kube_refusal refusal;

    if (reply->result != RG_HTTP_DONE) {
        on_failure(call, reply);
    } else if (call->looking) {
        if (is_gone(call, reply->status))
            succeed(call);
        else
            look_again(call);
    } else if (reply->status < 300) {
        on_success(call);
    } else if (call->q.verb == KUBE_DELETE && reply->status == 404) {
        succeed(call);
    } else if (!tries_later(call, reply)) {
        api_refusal(reply->status, (const char *) rg_buf_bytes(body), rg_buf_nbytes(body),
                    object_now(call), &refusal);
        if (call->q.each && refusal.why != KUBE_AWAY && refusal.why != KUBE_DENIED)
            on_refused(call, &refusal);
        else
            kube_stream_end(call->stream, &refusal);
    }
}

/* More has come of what streams. */
static int on_bytes(void *arg)
{
    struct call *call = arg;

    if (!call->streams || rg_http_reply(call->http)->status >= 300)
        return 0;
    call->tries = 0;
    int r = take_body(call);
    if (r < 0)
        kube_stream_end(call->stream, &call->stream->refusal);
    else
        rg_buf_clear(rg_http_body(call->http));
    return r;
}

/* --- the transport ---------------------------------------------------------------------------- */

static void stop(struct kube_stream *stream)
{
    struct call *call = stream->state;

    rg_timer_stop(&call->pause_timer);
    rg_http_destroy(call->http);
    rg_buf_wipe(&call->upload); /* a Secret may be in it */
    rg_strv_fini(&call->urls);
    json_decref(call->object);
    json_decref(call->items);
    free(call);
}

static int add_url(struct call *call, const struct kube_request *request, const char *ns,
                   const char *kind, const json_t *object)
{
    rg_autobuf struct rg_buf url = RG_BUF_INIT;
    int r = api_url(request, call->gate, ns, kind, object, &url);

    return r < 0 ? r : rg_strv_add(&call->urls, rg_buf_text(&url));
}

/* One for each object, or for each of "jobs,pods". */
static int add_urls(struct call *call, const struct kube_request *request, const char *ns)
{
    json_t *items = json_object_get(request->object, "items"), *item;
    const char *p = request->verb == KUBE_LOG ? "pods" : request->kind;
    char kind[64];
    size_t i;
    int r = 0;

    if (request->path)
        return add_url(call, request, ns, NULL, NULL);
    if (request->verb == KUBE_CREATE && !items)
        return add_url(call, request, ns, NULL, request->object);
    if (request->verb == KUBE_CREATE) {
        json_array_foreach(items, i, item)
            r = r < 0 ? r : add_url(call, request, ns, NULL, item);
        return r;
    }
    for (; *p && r == 0; p += strcspn(p, ","), p += *p == ',') {
        snprintf(kind, sizeof(kind), "%.*s", (int) strcspn(p, ","), p);
        r = add_url(call, request, ns, kind, NULL);
    }
    return r;
}

static int set_up(struct call *call, const struct kube_place *place, struct rg_error *err)
{
    const struct rg_http_options options = {
        .socket = place->gate, .ca_file = place->gate ? NULL : API_ACCOUNT "/ca.crt",
        .direct = true, .on_bytes = on_bytes, .on_end = on_transferred, .arg = call,
    };
    int r = rg_http_create(call->stream->loop, &options, &call->http, err);

    return r == -ENOENT
               ? rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                   "there is no kubectl in PATH here, and no libcurl.so.4, by "
                                   "which Reigen would ask the cluster with this pod's service "
                                   "account: install libcurl (Debian and Ubuntu: libcurl4, Alpine "
                                   "and Fedora: libcurl), or kubectl")
               : r;
}

static int start(struct kube_stream *stream, const struct kube_place *place,
                 const struct kube_request *request, struct rg_error *err)
{
    rg_autofree char *own = place->ns ? NULL : read_account("namespace");
    struct call *call = calloc(1, sizeof(*call));

    if (!call)
        return rg_error_memory(err);
    call->stream = stream;
    call->q = *request;
    call->gate = place->gate;
    call->object = json_incref((json_t *) request->object);
    call->streams = request->verb == KUBE_WATCH || request->verb == KUBE_LOG;
    call->items = request->verb == KUBE_GET && !request->path && !request->name ? json_array()
                                                                                : NULL;
    call->gone_by_ns = rg_now_ns() + (uint64_t) KUBE_GONE_MS * RG_NS_PER_MS;
    stream->state = call;
    int r = add_urls(call, request, place->ns ? place->ns : own && *own ? own : "default");
    r = r < 0 ? rg_error_memory(err) : set_up(call, place, err);
    if (r < 0) {
        stop(stream);
        return r;
    }
    begin_later(call, 0);
    return 0;
}

/* --- questions -------------------------------------------------------------------------------- */

struct question {
    struct kube_stream stream;
    struct rg_loop *loop;
    struct rg_timer timer;
    struct rg_buf *answer;
    bool late, too_large;
};

static void take_answer(void *arg, const void *bytes, size_t nbytes)
{
    struct question *question = arg;

    if (question->answer && rg_buf_nbytes(question->answer) + nbytes <= KUBE_ANSWER_MAX)
        rg_buf_put(question->answer, bytes, nbytes);
    else
        question->too_large |= question->answer != NULL;
}

static void on_answered(void *arg)
{
    struct question *question = arg;

    rg_loop_stop(question->loop);
}

static void on_late(void *arg)
{
    struct question *question = arg;

    question->late = true;
    rg_loop_stop(question->loop);
}

static int ask(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
               struct rg_buf *answer, struct kube_refusal *ret_refusal, struct rg_error *err)
{
    struct question question = { .answer = answer };
    const struct kube_listener listener = { .on_bytes = take_answer, .on_end = on_answered,
                                            .arg = &question };

    if (rg_loop_create(&question.loop) < 0)
        return rg_error_memory(err);
    int r = kube_stream_start_by(&kube_api, &question.stream, question.loop, place, request,
                                 &listener, err);
    if (r == 0) {
        rg_timer_start(&question.timer, question.loop, ms, 0, on_late, &question);
        rg_loop_run(question.loop);
        rg_timer_stop(&question.timer);
        kube_stream_stop(&question.stream);
        *ret_refusal = question.stream.refusal;
        ret_refusal->in_pod &= !place->gate;
    }
    rg_loop_destroy(question.loop);
    if (question.late)
        return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_UNAVAILABLE,
                                 "the cluster's API server has not answered within %llu s",
                                 (unsigned long long) ms / 1000);
    if (question.too_large)
        return rg_error_set_exit(err, EFBIG, RG_EXIT_UNAVAILABLE,
                                 "the cluster's answer is larger than %u MiB",
                                 KUBE_ANSWER_MAX >> 20);
    return r < 0 ? r : answer && rg_buf_status(answer) < 0 ? rg_error_memory(err) : 0;
}

static void where(const struct kube_place *place, char **ret_ns, char **ret_context)
{
    *ret_ns = place->ns ? NULL : read_account("namespace");
    *ret_context = NULL;
}

const struct kube_transport kube_api = {
    .start = start, .stop = stop, .ask = ask, .where = where,
};
