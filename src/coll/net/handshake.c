/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a new data socket prove that they are of this job before a byte passes. */
#include "coll/net/handshake.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "reigen/reigen.h"

#define TAKEN '!'

static void make_label(const struct rg_handshake *handshake, char label[RG_AUTH_LABEL_MAX])
{
    snprintf(label, RG_AUTH_LABEL_MAX, "%u %d %d", handshake->purpose, handshake->from,
             handshake->to);
}

int rg_handshake_dial(struct rg_handshake *handshake, int fd, const uint8_t *key, uint32_t purpose,
                      int from, int to)
{
    const uint32_t head[] = { htole32(RG_HANDSHAKE_MAGIC), htole32(purpose),
                              htole32((uint32_t) from), htole32((uint32_t) to) };
    char label[RG_AUTH_LABEL_MAX];
    size_t nbytes;

    _Static_assert(sizeof(head) == RG_HANDSHAKE_HEAD_NBYTES, "as the header says");
    *handshake = (struct rg_handshake) { .fd = fd, .dialler = true, .connecting = true, .key = key,
                                 .purpose = purpose, .from = from, .to = to,
                                 .in_want = RG_AUTH_ANSWER_NBYTES };
    memcpy(handshake->out, head, sizeof(head));
    make_label(handshake, label);
    int r = rg_auth_start(&handshake->auth, true, key, label,
                          handshake->out + RG_HANDSHAKE_HEAD_NBYTES, &nbytes);

    if (r == 0)
        handshake->out_to = RG_HANDSHAKE_HEAD_NBYTES + nbytes;
    return r;
}

void rg_handshake_answer(struct rg_handshake *handshake, int fd, const uint8_t *key, int me)
{
    *handshake = (struct rg_handshake) { .fd = fd, .key = key, .from = -1, .to = me,
                                 .in_want = RG_HANDSHAKE_HEAD_NBYTES };
}

void rg_handshake_fini(struct rg_handshake *handshake)
{
    rg_auth_wipe(&handshake->auth);
    handshake->key = NULL;
}

/* The listener has the head: who is it, and does it mean us? */
static int read_head(struct rg_handshake *handshake)
{
    struct rg_reader head = rg_reader_make(handshake->in, RG_HANDSHAKE_HEAD_NBYTES);
    uint32_t magic = rg_reader_u32(&head), purpose = rg_reader_u32(&head);
    uint32_t from = rg_reader_u32(&head), to = rg_reader_u32(&head);
    char label[RG_AUTH_LABEL_MAX];
    size_t none;

    if (magic != RG_HANDSHAKE_MAGIC || from >= REIGEN_SIZE_MAX || to != (uint32_t) handshake->to)
        return -EPROTO;
    handshake->purpose = purpose;
    handshake->from = (int) from;
    make_label(handshake, label);
    int r = rg_auth_start(&handshake->auth, false, handshake->key, label, handshake->out, &none);

    handshake->in_want = rg_auth_wanted(&handshake->auth);
    return r;
}

/* One whole message of the peer lies in handshake->in. */
static int take_message(struct rg_handshake *handshake)
{
    size_t nbytes = 0;
    int r;

    if (!handshake->dialler && handshake->from < 0)
        return read_head(handshake);
    if (handshake->dialler && rg_auth_done(&handshake->auth)) {
        handshake->finished = true;
        handshake->in_want = 0;
        return handshake->in[0] == TAKEN ? 0 : -EPROTO;
    }
    r = rg_auth_receive(&handshake->auth, handshake->in, handshake->in_want, handshake->out,
                        &nbytes);
    /* A refusal is the first that is sent here, so that there is room. */
    if (r < 0 && nbytes)
        nbytes = (size_t) send(handshake->fd, handshake->out, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (r < 0)
        return r;
    handshake->out_from = 0;
    handshake->out_to = nbytes;
    handshake->in_want = rg_auth_wanted(&handshake->auth);
    if (handshake->in_want > 0)
        return 0;
    if (handshake->dialler) {
        handshake->in_want = 1;
    } else {
        handshake->out[handshake->out_to++] = TAKEN;
        handshake->finished = true;
    }
    return 0;
}

static int receive(struct rg_handshake *handshake)
{
    ssize_t n = recv(handshake->fd, handshake->in + handshake->in_have,
                     handshake->in_want - handshake->in_have, MSG_DONTWAIT);

    if (n == 0)
        return -EPIPE;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    handshake->in_have += (size_t) n;
    if (handshake->in_have < handshake->in_want)
        return 1;
    handshake->in_have = 0;
    int r = take_message(handshake);

    return r < 0 ? r : 1;
}

static int transmit(struct rg_handshake *handshake)
{
    ssize_t n = send(handshake->fd, handshake->out + handshake->out_from,
                     handshake->out_to - handshake->out_from, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && handshake->connecting && (errno == ENOTCONN || errno == EALREADY))
        return 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    handshake->connecting = false;
    handshake->out_from += (size_t) n;
    return 1;
}

int rg_handshake_step(struct rg_handshake *handshake)
{
    for (;;) {
        bool writing = handshake->out_from < handshake->out_to;

        if (!writing && handshake->finished)
            return 1;
        int r = writing ? transmit(handshake) : receive(handshake);

        if (r <= 0)
            return r;
    }
}

short rg_handshake_events(const struct rg_handshake *handshake)
{
    return handshake->out_from < handshake->out_to ? POLLOUT : POLLIN;
}

int rg_handshake_finish(struct rg_handshake *handshake, uint64_t deadline_ns)
{
    for (;;) {
        int r = rg_handshake_step(handshake);

        if (r != 0)
            return r < 0 ? r : 0;
        r = rg_fd_wait(handshake->fd, rg_handshake_events(handshake), deadline_ns);
        if (r < 0)
            return r;
    }
}
