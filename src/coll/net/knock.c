/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/net/knock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "coll/net/sock.h"
#include "reigen/reigen.h"

#define TAKEN '!'

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t) (value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t) from[0] | (uint32_t) from[1] << 8 | (uint32_t) from[2] << 16 |
           (uint32_t) from[3] << 24;
}

static void make_label(const struct rg_knock *knock, char label[RG_AUTH_LABEL_MAX])
{
    snprintf(label, RG_AUTH_LABEL_MAX, "%u %d %d", knock->purpose, knock->from, knock->to);
}

int rg_knock_dial(struct rg_knock *knock, int fd, const uint8_t *key, uint32_t purpose, int from,
                  int to)
{
    char label[RG_AUTH_LABEL_MAX];
    size_t nbytes;

    *knock = (struct rg_knock) { .fd = fd, .dialler = true, .connecting = true, .key = key,
                                 .purpose = purpose, .from = from, .to = to,
                                 .in_want = RG_AUTH_ANSWER_NBYTES };
    put_u32(knock->out, RG_KNOCK_MAGIC);
    put_u32(knock->out + 4, purpose);
    put_u32(knock->out + 8, (uint32_t) from);
    put_u32(knock->out + 12, (uint32_t) to);
    make_label(knock, label);
    int r = rg_auth_start(&knock->auth, true, key, label, knock->out + RG_KNOCK_HEAD_NBYTES,
                          &nbytes);

    if (r == 0)
        knock->out_to = RG_KNOCK_HEAD_NBYTES + nbytes;
    return r;
}

void rg_knock_answer(struct rg_knock *knock, int fd, const uint8_t *key, int me)
{
    *knock = (struct rg_knock) { .fd = fd, .key = key, .from = -1, .to = me,
                                 .in_want = RG_KNOCK_HEAD_NBYTES };
}

void rg_knock_fini(struct rg_knock *knock)
{
    rg_auth_wipe(&knock->auth);
    knock->key = NULL;
}

/* The listener has the head: who is it, and does it mean us? */
static int read_head(struct rg_knock *knock)
{
    uint32_t from = get_u32(knock->in + 8);
    char label[RG_AUTH_LABEL_MAX];
    size_t none;

    if (get_u32(knock->in) != RG_KNOCK_MAGIC || from >= REIGEN_SIZE_MAX ||
        get_u32(knock->in + 12) != (uint32_t) knock->to)
        return -EPROTO;
    knock->purpose = get_u32(knock->in + 4);
    knock->from = (int) from;
    make_label(knock, label);
    int r = rg_auth_start(&knock->auth, false, knock->key, label, knock->out, &none);

    knock->in_want = rg_auth_wanted(&knock->auth);
    return r;
}

/* One whole message of the peer lies in knock->in. */
static int take_message(struct rg_knock *knock)
{
    size_t nbytes = 0;
    int r;

    if (!knock->dialler && knock->from < 0)
        return read_head(knock);
    if (knock->dialler && rg_auth_done(&knock->auth)) {
        knock->finished = true;
        knock->in_want = 0;
        return knock->in[0] == TAKEN ? 0 : -EPROTO;
    }
    r = rg_auth_receive(&knock->auth, knock->in, knock->in_want, knock->out, &nbytes);
    if (r < 0)
        return r;
    knock->out_from = 0;
    knock->out_to = nbytes;
    knock->in_want = rg_auth_wanted(&knock->auth);
    if (knock->in_want > 0)
        return 0;
    if (knock->dialler) {
        knock->in_want = 1;
    } else {
        knock->out[knock->out_to++] = TAKEN;
        knock->finished = true;
    }
    return 0;
}

static int receive(struct rg_knock *knock)
{
    ssize_t n = recv(knock->fd, knock->in + knock->in_have, knock->in_want - knock->in_have,
                     MSG_DONTWAIT);

    if (n == 0)
        return -EPIPE;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    knock->in_have += (size_t) n;
    if (knock->in_have < knock->in_want)
        return 1;
    knock->in_have = 0;
    int r = take_message(knock);

    return r < 0 ? r : 1;
}

static int transmit(struct rg_knock *knock)
{
    ssize_t n = send(knock->fd, knock->out + knock->out_from, knock->out_to - knock->out_from,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && knock->connecting && (errno == ENOTCONN || errno == EALREADY))
        return 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    knock->connecting = false;
    knock->out_from += (size_t) n;
    return 1;
}

int rg_knock_step(struct rg_knock *knock)
{
    for (;;) {
        bool writing = knock->out_from < knock->out_to;

        if (!writing && knock->finished)
            return 1;
        int r = writing ? transmit(knock) : receive(knock);

        if (r <= 0)
            return r;
    }
}

short rg_knock_events(const struct rg_knock *knock)
{
    return knock->out_from < knock->out_to ? POLLOUT : POLLIN;
}

int rg_knock_finish(struct rg_knock *knock, uint64_t deadline_ns)
{
    for (;;) {
        int r = rg_knock_step(knock);

        if (r != 0)
            return r < 0 ? r : 0;
        r = rg_sock_wait(knock->fd, rg_knock_events(knock), deadline_ns);
        if (r < 0)
            return r;
    }
}
