/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over an encrypted stream, without any I/O of its own: bytes go in and out of buffers, so
 * that loops, threads and fuzzers can drive it. */
#include "wire/link.h"

#include <string.h>

#include "wire/crypto/crypto.h"
#include "wire/codec.h"
#include "wire/crypto/noise.h"

#define MAGIC "reigen" /* without its NUL */
#define MAGIC_NBYTES 6
#define GREETING_NBYTES (MAGIC_NBYTES + 2)                   /* magic, u16 version */
#define OPENING_NBYTES (GREETING_NBYTES + RG_NOISE_OVERHEAD) /* greeting, handshake message */
#define RECORD_HEADER_NBYTES 2
#define RECORD_PLAIN_MAX (RG_NOISE_MESSAGE_MAX - RG_NOISE_TAG_NBYTES)
#define RECEIVE_CHUNK (64u << 10)  /* of the caller's bytes looked at in one go */
#define KEEP_CAPACITY (256u << 10) /* an empty buffer larger than this is given back */
#define QUOTE_MAX 48               /* of the text of a peer that is not ours, in an error */

enum state {
    HANDSHAKE,
    CONFIRMING, /* responder only: the peer has still to show that it is no recording */
    OPEN,
    DEAD,
};

/* In locked memory. */
struct secrets {
    struct rg_noise noise;
    struct rg_noise_cipher send, receive;
};

struct rg_link {
    struct rg_link_options options; /* key, job_id and role are not kept */
    enum state state;
    struct secrets *secrets;
    struct rg_buf in;     /* sealed bytes from the peer, less than a record between calls */
    struct rg_buf plain;  /* opened bytes, less than a frame between calls */
    struct rg_buf out;    /* sealed bytes for the peer */
    struct rg_buf queue;  /* frames that wait for the handshake, in clear */
};

/* Frames may hold secrets, so what held them in clear is wiped when it is given back. */
static void give_back_if_large(struct rg_buf *buf)
{
    if (rg_buf_nbytes(buf) == 0 && buf->capacity > KEEP_CAPACITY)
        rg_buf_wipe(buf);
}

static void put_greeting(struct rg_buf *buf)
{
    rg_buf_put(buf, MAGIC, MAGIC_NBYTES);
    rg_buf_put_u16(buf, RG_PROTOCOL_VERSION);
}

/* Write our message of the handshake behind a greeting. 0, -ENOMEM or -EBADMSG. */
static int put_opening(struct rg_link *link)
{
    put_greeting(&link->out);
    uint8_t *message = rg_buf_reserve(&link->out, RG_NOISE_OVERHEAD);

    if (!message)
        return -ENOMEM;
    int rc = rg_noise_write(&link->secrets->noise, "", 0, message);

    if (rc == 0)
        rg_buf_commit(&link->out, RG_NOISE_OVERHEAD);
    return rc;
}

static int start_noise(struct rg_link *link, const struct rg_link_options *options)
{
    rg_autobuf struct rg_buf prologue = RG_BUF_INIT;

    put_greeting(&prologue);
    rg_buf_put_str(&prologue, options->job_id);
    rg_buf_put_str(&prologue, options->role);
    if (rg_buf_status(&prologue) < 0)
        return -ENOMEM;
    int rc = rg_noise_start(&link->secrets->noise, options->initiator, options->key,
                            rg_buf_bytes(&prologue), rg_buf_nbytes(&prologue));

    if (rc == 0 && options->initiator)
        rc = put_opening(link);
    return rc;
}

static bool options_are_good(const struct rg_link_options *options)
{
    return options->key && options->job_id && options->role && options->on_frame &&
           strlen(options->job_id) <= RG_JOB_ID_MAX && strlen(options->role) <= RG_ROLE_MAX;
}

int rg_link_create(const struct rg_link_options *options, struct rg_link **ret_link)
{
    if (!options_are_good(options))
        return -EINVAL;
    int rc = rg_crypto_init();

    if (rc < 0)
        return rc;
    struct rg_link *link = calloc(1, sizeof(*link));

    if (!link)
        return -ENOMEM;
    link->options = *options;
    link->options.key = NULL;
    link->options.job_id = link->options.role = NULL;
    /* Memory that cannot be locked, because of a limit, is still guarded and wiped. */
    link->secrets = sodium_malloc(sizeof(*link->secrets));
    rc = link->secrets ? start_noise(link, options) : -ENOMEM;
    if (rc < 0) {
        rg_link_destroy(link);
        return rc;
    }
    *ret_link = link;
    return 0;
}

void rg_link_destroy(struct rg_link *link)
{
    if (!link)
        return;
    sodium_free(link->secrets);
    rg_buf_wipe(&link->plain);
    rg_buf_wipe(&link->queue);
    rg_buf_fini(&link->in);
    rg_buf_fini(&link->out);
    free(link);
}

/* Nothing leaves a dead link: its buffers are dropped. */
static void kill_link(struct rg_link *link)
{
    link->state = DEAD;
    sodium_memzero(link->secrets, sizeof(*link->secrets));
    rg_buf_wipe(&link->plain);
    rg_buf_wipe(&link->queue);
    rg_buf_fini(&link->in);
    rg_buf_fini(&link->out);
}

/* Bytes of out that hold the records of nbytes in clear. */
static size_t sealed_size(size_t nbytes)
{
    size_t records = nbytes / RECORD_PLAIN_MAX + (nbytes % RECORD_PLAIN_MAX != 0);

    return nbytes + records * (RECORD_HEADER_NBYTES + RG_NOISE_TAG_NBYTES);
}

/* Seal one record in place at *to: the header and what was copied behind it. 0 or -errno. */
static int seal_record(struct rg_link *link, uint8_t **to, size_t nbytes)
{
    uint8_t *body = *to + RECORD_HEADER_NBYTES;
    size_t sealed = nbytes + RG_NOISE_TAG_NBYTES;
    int rc = rg_noise_seal(&link->secrets->send, body, nbytes, body);

    (*to)[0] = (uint8_t) sealed;
    (*to)[1] = (uint8_t) (sealed >> 8);
    *to = body + sealed;
    return rc;
}

/* Append head and then body to out, cut into records. Nothing is appended on failure. */
static int seal(struct rg_link *link, const void *head, size_t head_nbytes, const void *body,
                size_t body_nbytes)
{
    size_t total = sealed_size(head_nbytes + body_nbytes);
    uint8_t *start = rg_buf_reserve(&link->out, total);
    uint8_t *to = start;
    const uint8_t *rest = body;
    int rc = 0;

    if (!start) {
        link->out.status = 0; /* what is in it already is whole */
        return -ENOMEM;
    }
    while (rc == 0 && head_nbytes + body_nbytes > 0) {
        size_t room = RECORD_PLAIN_MAX - head_nbytes;
        size_t part = body_nbytes < room ? body_nbytes : room;
        uint8_t *plain = to + RECORD_HEADER_NBYTES;

        if (head_nbytes > 0)
            memcpy(plain, head, head_nbytes);
        if (part > 0)
            memcpy(plain + head_nbytes, rest, part);
        rc = seal_record(link, &to, head_nbytes + part);
        rest += part;
        body_nbytes -= part;
        head_nbytes = 0;
    }
    if (rc == 0)
        rg_buf_commit(&link->out, total);
    return rc;
}

int rg_link_send(struct rg_link *link, uint16_t type, const void *payload, size_t nbytes)
{
    uint8_t head[RG_FRAME_HEAD_NBYTES] = { (uint8_t) nbytes,         (uint8_t) (nbytes >> 8),
                                          (uint8_t) (nbytes >> 16), (uint8_t) (nbytes >> 24),
                                          (uint8_t) type,           (uint8_t) (type >> 8) };

    if (nbytes > RG_FRAME_MAX)
        return -EMSGSIZE;
    if (link->state == DEAD)
        return -ENOTCONN;
    if (link->state == OPEN)
        return seal(link, head, sizeof(head), payload, nbytes);
    rg_frame_put(&link->queue, type, payload, nbytes);
    int r = rg_buf_status(&link->queue);

    link->queue.status = 0;
    return r;
}

/* The handshake is over: let out what waited for it. */
static int open_link(struct rg_link *link)
{
    sodium_memzero(&link->secrets->noise, sizeof(link->secrets->noise));
    link->state = OPEN;
    int rc = seal(link, NULL, 0, rg_buf_bytes(&link->queue), rg_buf_nbytes(&link->queue));

    rg_buf_wipe(&link->queue);
    if (rc == 0 && link->options.on_open)
        link->options.on_open(link->options.arg);
    return rc;
}

/* An empty record, by which the initiator shows that it is alive and has the key. */
static int put_confirmation(struct rg_link *link)
{
    size_t nbytes = RECORD_HEADER_NBYTES + RG_NOISE_TAG_NBYTES;
    uint8_t *to = rg_buf_reserve(&link->out, nbytes);

    if (!to)
        return -ENOMEM;
    int rc = seal_record(link, &to, 0);

    if (rc == 0)
        rg_buf_commit(&link->out, nbytes);
    return rc;
}

/* What a peer says that is no link of ours is often a shell's complaint, and worth reading. */
static int refuse_stranger(const uint8_t *bytes, size_t nbytes, struct rg_error *err)
{
    char quote[QUOTE_MAX + 1];
    size_t n = 0;

    for (; n < nbytes && n < QUOTE_MAX && bytes[n] != '\n'; n++)
        quote[n] = bytes[n] >= 0x20 && bytes[n] < 0x7F ? (char) bytes[n] : '?';
    quote[n] = '\0';
    return rg_error_set(err, EBADMSG,
                        "the peer is not Reigen: its first bytes are \"%s\"; something else "
                        "listens there, or a login script prints",
                        quote);
}

/* 0, or 1 when more bytes are needed, or -EBADMSG. */
static int check_greeting(const uint8_t *bytes, size_t nbytes, struct rg_error *err)
{
    size_t magic = nbytes < MAGIC_NBYTES ? nbytes : MAGIC_NBYTES;

    if (memcmp(bytes, MAGIC, magic) != 0)
        return refuse_stranger(bytes, nbytes, err);
    if (nbytes < GREETING_NBYTES)
        return 1;
    unsigned version = bytes[MAGIC_NBYTES] | (unsigned) bytes[MAGIC_NBYTES + 1] << 8;

    if (version != RG_PROTOCOL_VERSION)
        return rg_error_set(err, EBADMSG,
                            "the peer speaks version %u of the protocol, we speak %d; use the same "
                            "version of Reigen on both sides",
                            version, RG_PROTOCOL_VERSION);
    return nbytes < OPENING_NBYTES;
}

/* Our answer as responder, or our confirmation as initiator. 0 or -errno. */
static int answer_opening(struct rg_link *link)
{
    struct secrets *s = link->secrets;
    int rc = link->options.initiator ? 0 : put_opening(link);

    if (rc == 0)
        rc = rg_noise_split(&s->noise, &s->send, &s->receive);
    if (rc < 0)
        return rc;
    if (!link->options.initiator) {
        link->state = CONFIRMING;
        return 0;
    }
    rc = put_confirmation(link);
    return rc < 0 ? rc : open_link(link);
}

/* The peer's part of the handshake. 0 when it is done, 1 when more bytes are needed, or -errno. */
static int take_opening(struct rg_link *link, struct rg_error *err)
{
    const uint8_t *bytes = rg_buf_bytes(&link->in);
    uint8_t nothing[1];
    int rc = check_greeting(bytes, rg_buf_nbytes(&link->in), err);

    if (rc != 0)
        return rc;
    rc = rg_noise_read(&link->secrets->noise, bytes + GREETING_NBYTES, RG_NOISE_OVERHEAD, nothing);
    if (rc < 0)
        return rg_error_set(err, EBADMSG, "wrong key: the peer's first message is not from a "
                            "process of this job");
    rg_buf_consume(&link->in, OPENING_NBYTES);
    rc = answer_opening(link);
    return rc < 0 ? rg_error_set(err, -rc, "cannot answer the peer's handshake") : 0;
}

/* Hand over the frames that are whole. 0 or -EBADMSG. */
static int deliver_frames(struct rg_link *link, struct rg_error *err)
{
    struct rg_frame frame;

    while (rg_frame_peek(&link->plain, &frame)) {
        if (frame.nbytes > RG_FRAME_MAX)
            return rg_error_set(err, EBADMSG, "a frame of %u bytes; %u are allowed",
                                (unsigned) frame.nbytes, RG_FRAME_MAX);
        if (!frame.payload)
            return 0;
        link->options.on_frame(link->options.arg, frame.type, frame.payload, frame.nbytes);
        rg_frame_drop(&link->plain, &frame);
    }
    give_back_if_large(&link->plain);
    return 0;
}

static int open_record(struct rg_link *link, const uint8_t *sealed, size_t nbytes,
                       struct rg_error *err)
{
    uint8_t *plain = rg_buf_reserve(&link->plain, nbytes);

    if (!plain)
        return rg_error_set(err, ENOMEM, "out of memory for a message");
    if (rg_noise_open(&link->secrets->receive, sealed, nbytes, plain) < 0)
        return rg_error_set(err, EBADMSG, link->state == CONFIRMING
                                              ? "a replay: the peer repeats the first message of "
                                                "another link"
                                              : "a message was changed, lost or repeated on its "
                                                "way");
    rg_buf_commit(&link->plain, nbytes - RG_NOISE_TAG_NBYTES);
    if (link->state == CONFIRMING) {
        int rc = open_link(link);

        if (rc < 0)
            return rg_error_set(err, -rc, "cannot open the link");
    }
    return deliver_frames(link, err);
}

/* One record. 0 when it is done, 1 when more bytes are needed, or -errno. */
static int take_record(struct rg_link *link, struct rg_error *err)
{
    const uint8_t *bytes = rg_buf_bytes(&link->in);
    size_t held = rg_buf_nbytes(&link->in);

    if (held < RECORD_HEADER_NBYTES)
        return 1;
    size_t nbytes = bytes[0] | (size_t) bytes[1] << 8;

    if (nbytes < RG_NOISE_TAG_NBYTES)
        return rg_error_set(err, EBADMSG, "a message of %zu bytes is too short", nbytes);
    if (held < RECORD_HEADER_NBYTES + nbytes)
        return 1;
    int rc = open_record(link, bytes + RECORD_HEADER_NBYTES, nbytes, err);

    if (rc == 0)
        rg_buf_consume(&link->in, RECORD_HEADER_NBYTES + nbytes);
    return rc;
}

static int take_all(struct rg_link *link, struct rg_error *err)
{
    int rc = 0;

    while (rc == 0 && rg_buf_nbytes(&link->in) > 0)
        rc = link->state == HANDSHAKE ? take_opening(link, err) : take_record(link, err);
    return rc < 0 ? rc : 0;
}

int rg_link_receive(struct rg_link *link, const void *bytes, size_t nbytes, struct rg_error *err)
{
    const uint8_t *p = bytes;
    int rc = 0;

    if (link->state == DEAD)
        return rg_error_set(err, EBADMSG, "the link has failed before");
    while (rc == 0 && nbytes > 0) {
        size_t part = nbytes < RECEIVE_CHUNK ? nbytes : RECEIVE_CHUNK;

        rg_buf_put(&link->in, p, part);
        if (rg_buf_status(&link->in) < 0)
            rc = rg_error_set(err, ENOMEM, "out of memory for a message");
        else
            rc = take_all(link, err);
        p += part;
        nbytes -= part;
    }
    if (rc < 0)
        kill_link(link);
    return rc;
}

int rg_link_finish(struct rg_link *link, struct rg_error *err)
{
    bool in_middle = rg_buf_nbytes(&link->in) > 0 || rg_buf_nbytes(&link->plain) > 0;

    if (link->state == DEAD)
        return rg_error_set(err, EBADMSG, "the link has failed before");
    kill_link(link);
    return in_middle ? rg_error_set(err, EPIPE, "the peer went away in the middle of a message")
                     : 0;
}

const uint8_t *rg_link_output(struct rg_link *link, size_t *ret_nbytes)
{
    *ret_nbytes = rg_buf_nbytes(&link->out);
    return rg_buf_bytes(&link->out);
}

void rg_link_sent(struct rg_link *link, size_t nbytes)
{
    rg_buf_consume(&link->out, nbytes);
    give_back_if_large(&link->out);
}

size_t rg_link_pending(const struct rg_link *link)
{
    return rg_buf_nbytes(&link->out) + rg_buf_nbytes(&link->queue);
}

bool rg_link_congested(const struct rg_link *link)
{
    return rg_link_pending(link) > RG_LINK_BACKLOG;
}

bool rg_link_open(const struct rg_link *link)
{
    return link->state == OPEN;
}
