/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster sends as long as it is asked to, whichever transport brings it: objects, one after
 * the other, or bytes. */
#include <stdio.h>
#include <string.h>

#include "platform/kubernetes/server/transport.h"

#define CODE_GONE 410

int kube_stream_start_by(const struct kube_transport *by, struct kube_stream *stream,
                         struct rg_loop *loop, const struct kube_place *place,
                         const struct kube_request *request, const struct kube_listener *listener,
                         struct rg_error *err)
{
    *stream = (struct kube_stream){ .by = by, .loop = loop, .on_object = listener->on_object,
                                    .on_bytes = listener->on_bytes, .on_end = listener->on_end,
                                    .arg = listener->arg,
                                    .watches = request->verb == KUBE_WATCH };
    int r = by->start(stream, place, request, err);

    stream->started = r == 0;
    return r;
}

void kube_stream_stop(struct kube_stream *stream)
{
    if (!stream->started)
        return;
    stream->started = false;
    stream->by->stop(stream);
    kube_splitter_fini(&stream->splitter);
}

/* An error ends a watch, and that it is too old (410) only that it is to be begun again. */
static void tell_object(void *arg, const json_t *object)
{
    struct kube_stream *stream = arg;

    if (!stream->watches || strcmp(kube_text(object, "type"), "ERROR") != 0) {
        stream->on_object(stream->arg, object);
        return;
    }
    if (json_integer_value(kube_at(object, "object.code")) == CODE_GONE)
        return;
    stream->refusal = (struct kube_refusal){ .why = KUBE_FAILED, .in_pod = true };
    snprintf(stream->refusal.text, sizeof(stream->refusal.text), "%s",
             kube_text(object, "object.message"));
}

int kube_stream_take(struct kube_stream *stream, const void *bytes, size_t nbytes)
{
    int r = 0;

    if (stream->on_bytes)
        stream->on_bytes(stream->arg, bytes, nbytes);
    else if (stream->on_object)
        r = kube_split(&stream->splitter, bytes, nbytes, tell_object, stream);
    if (r == 0)
        return stream->refusal.why == KUBE_FINE ? 0 : -EIO;
    stream->refusal = (struct kube_refusal){ .why = KUBE_FAILED, .in_pod = true };
    if (r == -EMSGSIZE)
        snprintf(stream->refusal.text, sizeof(stream->refusal.text),
                 "an object of the API is larger than %u MiB", KUBE_OBJECT_MAX >> 20);
    else
        snprintf(stream->refusal.text, sizeof(stream->refusal.text), "%s", strerror(-r));
    return r;
}

void kube_stream_end(struct kube_stream *stream, const struct kube_refusal *refusal)
{
    if (stream->refusal.why == KUBE_FINE)
        stream->refusal = *refusal;
    kube_stream_stop(stream);
    stream->on_end(stream->arg);
}

/* --- objects in a stream ---------------------------------------------------------------------- */

/* Whether an object ends with this byte. */
static bool ends_object(struct kube_splitter *splitter, char c)
{
    if (splitter->escaped) {
        splitter->escaped = false;
    } else if (splitter->in_string) {
        splitter->escaped = c == '\\';
        splitter->in_string = c != '"';
    } else if (c == '"') {
        splitter->in_string = splitter->depth > 0;
    } else if (c == '{') {
        splitter->start = splitter->depth++ ? splitter->start : splitter->at - 1;
    } else if (c == '}' && splitter->depth > 0) {
        return --splitter->depth == 0;
    }
    return false;
}

int kube_split(struct kube_splitter *splitter, const char *bytes, size_t nbytes,
               void (*on_object)(void *arg, const json_t *object), void *arg)
{
    rg_buf_put(&splitter->text, bytes, nbytes);
    while (splitter->at < rg_buf_nbytes(&splitter->text)) {
        const char *text = (const char *) rg_buf_bytes(&splitter->text);
        if (!ends_object(splitter, text[splitter->at++]))
            continue;
        json_t *object = json_loadb(text + splitter->start, splitter->at - splitter->start, 0,
                                    NULL);
        rg_buf_consume(&splitter->text, splitter->at);
        splitter->at = 0;
        if (object)
            on_object(arg, object);
        json_decref(object);
    }
    if (rg_buf_nbytes(&splitter->text) > KUBE_OBJECT_MAX)
        return -EMSGSIZE;
    return rg_buf_status(&splitter->text);
}

void kube_splitter_fini(struct kube_splitter *splitter)
{
    rg_buf_fini(&splitter->text);
    *splitter = (struct kube_splitter){ .at = 0 };
}
