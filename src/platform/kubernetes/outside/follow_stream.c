/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of the cluster as long as a job is stayed with, and taken up again after a cut. */
#include "base/exitcode.h"
#include "base/time.h"
#include "platform/kubernetes/outside/followed.h"

#define RETRY_MS 500      /* after a cut, and */
#define RETRY_MAX_MS 5000 /* later */
#define LASTING_MS 10000  /* a stream that has lasted so long was a good one */

/* The place and what is asked are the stream's while it goes on. */
int follow_start_stream(struct follow *f, struct kube_stream *stream,
                        const struct kube_request *request, struct kube_listener listener,
                        struct rg_error *err)
{
    listener.arg = f;
    return kube_stream_start(stream, f->us.o.loop, &f->place, request, &listener, err);
}

/* A stream was cut. Whether to go on: what is refused once is refused again. */
bool follow_may_retry(struct follow *f, struct watched *watched)
{
    const struct kube_stream *stream = &watched->stream;
    struct rg_error cause = RG_ERROR_INIT;

    kube_explain_refusal(&stream->refusal, &cause);
    bool stays = cause.exit_code == RG_EXIT_NO_PERMISSION || cause.exit_code == RG_EXIT_USAGE;
    if (stream->refusal.why != KUBE_AWAY && !*stream->refusal.text)
        return true;
    return rg_follower_bears(&f->us, stream->refusal.why == KUBE_AWAY ? RG_TROUBLE_PASSES
                                     : stays ? RG_TROUBLE_STAYS : RG_TROUBLE_ODD,
                             &watched->ncomplaints, &cause);
}

/* Streams that are cut at once are not begun at once each time. */
void follow_try_again(struct watched *watched, struct follow *f, void (*start)(void *arg))
{
    if (!watched->pause_ms || rg_now_ns() - watched->since_ns > LASTING_MS * RG_NS_PER_MS)
        watched->pause_ms = RETRY_MS;
    rg_timer_start(&watched->timer, f->us.o.loop, watched->pause_ms, 0, start, f);
    watched->pause_ms *= 2;
    if (watched->pause_ms > RETRY_MAX_MS)
        watched->pause_ms = RETRY_MAX_MS;
}
