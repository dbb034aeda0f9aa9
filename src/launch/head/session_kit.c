/* SPDX-License-Identifier: Apache-2.0 */
/* The kit (container/kit.h) for hosts that are used without an image, and lack it. */
#include <stdio.h>

#include "launch/plan/place.h"
#include "launch/head/session_internal.h"

bool session_has_kit(const struct rg_session *session)
{
    const struct rg_container *container = &session->o.job->container;

    return container->place.kit_digest && (!container->image || rg_container_by_slurm(container));
}

void session_kit_begin(struct rg_session *session)
{
    session->nkits = session_has_kit(session) ? session->o.plan->nhosts : 0;
    for (int i = 0; i < session->nkits; i++)
        session->hosts[i].wants_kit = true;
}

/* Packed once, for the first host that lacks it. Without it the job goes on: the ranks that would
 * need it say why it is not there. */
static bool pack(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_buf_nbytes(&session->kit) == 0 &&
        rg_place_pack_kit(&session->o.job->container.place, &session->kit, &err) < 0) {
        rg_buf_fini(&session->kit);
        if (session->ops->on_note)
            session->ops->on_note(session->o.arg, -1, err.text);
        return false;
    }
    return true;
}

static void send_up_to(struct session_host *host, size_t nbytes)
{
    const struct rg_buf *kit = &host->session->kit;

    while (host->kit_sent < nbytes) {
        size_t n = nbytes - host->kit_sent;
        struct rg_msg_data msg = { { (uint8_t *) rg_buf_bytes(kit) + host->kit_sent,
                                     n < RG_MSG_CHUNK_MAX ? n : RG_MSG_CHUNK_MAX } };
        if (rg_msg_send(host->channel, RG_MSG_KIT, &msg) < 0)
            return; /* its link tells */
        host->kit_sent += msg.data.nbytes;
    }
}

int session_on_kit_wanted(struct session_host *host, uint64_t nbytes)
{
    struct rg_session *session = host->session;

    if (!host->wants_kit)
        return -EBADMSG;
    if (nbytes > 0) {
        snprintf(host->reason, sizeof(host->reason), "Reigen's Python packages are being sent");
        if (session->state != STATE_STARTING)
            return 0;
        if (!pack(host)) {
            rg_msg_send(host->channel, RG_MSG_KIT, &(struct rg_msg_data){ { NULL, 0 } });
            return 0;
        }
        size_t all = rg_buf_nbytes(&session->kit);
        send_up_to(host, nbytes < all ? (size_t) nbytes : all);
        return 0;
    }
    host->wants_kit = false;
    *host->reason = '\0';
    if (--session->nkits == 0) {
        rg_buf_fini(&session->kit);
        session_set_up(session);
    }
    return 0;
}
