/* SPDX-License-Identifier: Apache-2.0 */
/* The bundle (container/bundle.h) for hosts that are used without an image, and lack it. */
#include <stdio.h>

#include "launch/plan/place.h"
#include "launch/head/session_internal.h"

bool session_has_bundle(const struct rg_session *session)
{
    const struct rg_container *container = &session->o.job->container;

    return container->place.bundle_digest &&
           (!container->image || rg_container_by_slurm(container));
}

void session_bundle_begin(struct rg_session *session)
{
    session->nbundles = session_has_bundle(session) ? session->o.plan->nhosts : 0;
    for (int i = 0; i < session->nbundles; i++)
        session->hosts[i].wants_bundle = true;
}

/* Packed once, for the first host that lacks it. Without it the job goes on: the ranks that would
 * need it say why it is not there. */
static bool pack(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_buf_nbytes(&session->bundle) == 0 &&
        rg_place_pack_bundle(&session->o.job->container.place, &session->bundle, &err) < 0) {
        rg_buf_fini(&session->bundle);
        if (session->ops->on_note)
            session->ops->on_note(session->o.arg, -1, err.text);
        return false;
    }
    return true;
}

static void send_up_to(struct session_host *host, size_t nbytes)
{
    const struct rg_buf *bundle = &host->session->bundle;

    while (host->bundle_sent < nbytes) {
        size_t n = nbytes - host->bundle_sent;
        struct rg_msg_data msg = { { (uint8_t *) rg_buf_bytes(bundle) + host->bundle_sent,
                                     n < RG_MSG_CHUNK_MAX ? n : RG_MSG_CHUNK_MAX } };
        if (rg_msg_send(host->channel, RG_MSG_BUNDLE, &msg) < 0)
            return; /* its link tells */
        host->bundle_sent += msg.data.nbytes;
    }
}

int session_on_bundle_wanted(struct session_host *host, uint64_t nbytes)
{
    struct rg_session *session = host->session;

    if (!host->wants_bundle)
        return -EBADMSG;
    if (nbytes > 0) {
        snprintf(host->reason, sizeof(host->reason), "Reigen's Python packages are being sent");
        if (session->state != STATE_STARTING)
            return 0;
        if (!pack(host)) {
            rg_msg_send(host->channel, RG_MSG_BUNDLE, &(struct rg_msg_data){ { NULL, 0 } });
            return 0;
        }
        size_t all = rg_buf_nbytes(&session->bundle);
        send_up_to(host, nbytes < all ? (size_t) nbytes : all);
        return 0;
    }
    host->wants_bundle = false;
    *host->reason = '\0';
    if (--session->nbundles == 0) {
        rg_buf_fini(&session->bundle);
        session_set_up(session);
    }
    return 0;
}
