/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link fed with the input behind its first byte, which chooses: a stranger's bytes before the
 * handshake, for the initiator (0) or the responder (1); or, sealed under the right keys after it,
 * what an authenticated peer gone mad would say (2).
 */
#include "fuzz.h"
#include "wire/link.h"
#include "wire/crypto/noise.h"

#define GREETING_NBYTES 8
#define OPENING_NBYTES (GREETING_NBYTES + RG_NOISE_OVERHEAD)
#define RECORD_MAX 512 /* in clear */

static const uint8_t key[RG_KEY_NBYTES] = { 9, 8, 7 };

struct seen {
    bool open;
    size_t frames;
    size_t nbytes;
};

static void on_open(void *arg)
{
    ((struct seen *) arg)->open = true;
}

static void on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct seen *seen = arg;

    must(seen->open && nbytes <= RG_FRAME_MAX);
    (void) type;
    seen->frames++;
    for (size_t i = 0; i < nbytes; i += 64)
        seen->nbytes += payload[i] != 0; /* the bytes can be read */
}

static struct rg_link *make(bool initiator, struct seen *seen)
{
    struct rg_link_options options = { .key = key, .job_id = "j", .role = "r",
                                       .initiator = initiator, .on_open = on_open,
                                       .on_frame = on_frame, .arg = seen };
    struct rg_link *link;

    must(rg_link_create(&options, &link) == 0);
    return link;
}

static void feed_stranger(bool initiator, const uint8_t *data, size_t nbytes)
{
    struct seen seen = { 0 };
    struct rg_link *link = make(initiator, &seen);
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_link_receive(link, data, nbytes, &err);

    must(rc == 0 || (rc == -EBADMSG && err.text[0]));
    must(!seen.open && seen.frames == 0 && !rg_link_open(link));
    if (!initiator) {
        size_t n;

        rg_link_output(link, &n);
        must(n == 0); /* a stranger gets no answer */
    }
    rg_link_destroy(link);
}

/* Do the initiator's part by hand, so that any bytes can be sealed. */
static void handshake(struct rg_link *link, struct rg_noise_cipher *ret_send)
{
    static const char prologue[] = {
        'r', 'e', 'i', 'g', 'e', 'n', RG_PROTOCOL_VERSION, 0, 1, 0, 0, 0, 'j', 1, 0, 0, 0, 'r',
    };
    static const uint8_t secret[RG_NOISE_KEY_NBYTES] = { 5 };
    struct rg_noise noise;
    struct rg_noise_cipher receive;
    uint8_t opening[OPENING_NBYTES];
    uint8_t nothing[1];
    size_t nbytes;

    memcpy(opening, prologue, GREETING_NBYTES);
    rg_noise_start_fixed(&noise, true, key, prologue, sizeof(prologue), secret);
    must(rg_noise_write(&noise, "", 0, opening + GREETING_NBYTES) == 0);
    must(rg_link_receive(link, opening, sizeof(opening), NULL) == 0);
    const uint8_t *answer = rg_link_output(link, &nbytes);

    must(nbytes == OPENING_NBYTES);
    must(rg_noise_read(&noise, answer + GREETING_NBYTES, RG_NOISE_OVERHEAD, nothing) == 0);
    must(rg_noise_split(&noise, ret_send, &receive) == 0);
    rg_link_sent(link, nbytes);
}

static void feed_peer(const uint8_t *data, size_t nbytes)
{
    struct seen seen = { 0 };
    struct rg_link *link = make(false, &seen);
    struct rg_noise_cipher send;
    uint8_t record[2 + RECORD_MAX + RG_NOISE_TAG_NBYTES];
    int rc = 0;

    handshake(link, &send);
    must(!seen.open);
    while (rc == 0 && nbytes > 0) {
        size_t part = nbytes < RECORD_MAX ? nbytes : RECORD_MAX;
        size_t sealed = part + RG_NOISE_TAG_NBYTES;

        must(rg_noise_seal(&send, data, part, record + 2) == 0);
        record[0] = (uint8_t) sealed;
        record[1] = (uint8_t) (sealed >> 8);
        rc = rg_link_receive(link, record, 2 + sealed, NULL);
        must((rc == 0 || rc == -EBADMSG) && seen.open);
        data += part;
        nbytes -= part;
    }
    rg_link_destroy(link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    if (data[0] % 3 == 2)
        feed_peer(data + 1, nbytes - 1);
    else
        feed_stranger(data[0] % 3 == 0, data + 1, nbytes - 1);
    return 0;
}
