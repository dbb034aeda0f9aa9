/* SPDX-License-Identifier: Apache-2.0 */
/* The bundle (container/bundle.h) for hosts that are used without an image, and lack it. */
#include "launch/head/start/session_bundle.h"

#include <stdio.h>

#include "launch/plan/place.h"

struct bundle_host {
    bool wanted; /* it has not said yet that it needs no more */
    size_t sent; /* bytes of it */
};

struct session_bundle {
    struct rg_buf archive; /* empty before the first host wanted it */
    int nwanted;           /* hosts */
    struct bundle_host hosts[];
};

int session_bundle_create(struct rg_session *session)
{
    size_t nhosts = (size_t) session->o.plan->nhosts;

    session->bundle = calloc(1, sizeof(*session->bundle) +
                                nhosts * sizeof(session->bundle->hosts[0]));
    return session->bundle ? 0 : -ENOMEM;
}

void session_bundle_destroy(struct rg_session *session)
{
    if (session->bundle)
        rg_buf_fini(&session->bundle->archive);
    free(session->bundle);
}

void session_bundle_begin(struct rg_session *session)
{
    struct session_bundle *bundle = session->bundle;

    bundle->nwanted = rg_place_sends_bundle(session->o.job) ? session->o.plan->nhosts : 0;
    for (int i = 0; i < bundle->nwanted; i++)
        bundle->hosts[i].wanted = true;
}

bool session_bundle_is_done(const struct rg_session *session)
{
    return session->bundle->nwanted == 0;
}

bool session_bundle_is_wanted(const struct session_host *host)
{
    return host->session->bundle->hosts[host->index].wanted;
}

/* Packed once, for the first host that lacks it. Without it the job goes on: the ranks that would
 * need it say why it is not there. */
static bool pack(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct rg_buf *archive = &session->bundle->archive;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_buf_nbytes(archive) == 0 &&
        rg_place_pack_bundle(&session->o.job->container.place, archive, &err) < 0) {
        rg_buf_fini(archive);
        session_remark(session, -1, err.text);
        return false;
    }
    return true;
}

static void send_up_to(struct session_host *host, size_t nbytes)
{
    const struct rg_buf *archive = &host->session->bundle->archive;
    size_t *sent = &host->session->bundle->hosts[host->index].sent;

    while (*sent < nbytes) {
        size_t n = nbytes - *sent;
        struct rg_msg_data msg = { { (uint8_t *) rg_buf_bytes(archive) + *sent,
                                     n < RG_MSG_CHUNK_MAX ? n : RG_MSG_CHUNK_MAX } };
        if (session_send(host, RG_MSG_BUNDLE, &msg) < 0)
            return; /* its link tells */
        *sent += msg.data.nbytes;
    }
}

int session_on_bundle_wanted(struct session_host *host, uint64_t nbytes)
{
    struct rg_session *session = host->session;
    struct session_bundle *bundle = session->bundle;

    if (!session_bundle_is_wanted(host))
        return -EBADMSG;
    if (nbytes > 0) {
        snprintf(host->reason, sizeof(host->reason), "Reigen's Python packages are being sent");
        if (session->state != STATE_STARTING)
            return 0;
        if (!pack(host)) {
            session_send(host, RG_MSG_BUNDLE, &(struct rg_msg_data){ { NULL, 0 } });
            return 0;
        }
        size_t all = rg_buf_nbytes(&bundle->archive);
        send_up_to(host, nbytes < all ? (size_t) nbytes : all);
        return 0;
    }
    bundle->hosts[host->index].wanted = false;
    *host->reason = '\0';
    if (--bundle->nwanted == 0)
        rg_buf_fini(&bundle->archive);
    return 0;
}
