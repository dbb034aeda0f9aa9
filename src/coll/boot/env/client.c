/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says and hears while it boots, the same to an agent as to rank 0. */
#include "coll/boot/env/client.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/sock.h"
#include "reigen/reigen.h"

#define GOODBYE_MS 1000

int rg_rank_dispatch(const struct rg_rank_handler *handlers, size_t nhandlers, void *arg,
                     uint16_t type, const uint8_t *payload, size_t nbytes)
{
    union {
        struct rg_rankmsg_hello hello;
        struct rg_rankmsg_welcome welcome;
        struct rg_rankmsg_fence fence;
        struct rg_rankmsg_fence_done done;
        struct rg_rankmsg_fence_failed failed;
        struct rg_rankmsg_peer_died died;
        struct rg_rankmsg_note note;
        struct rg_rankmsg_cut_off cut_off;
        struct rg_rankmsg_taken taken;
        struct rg_rankmsg_epoch epoch;
        struct rg_rankmsg_update update;
    } message;

    if (type >= nhandlers || !handlers[type].fields)
        return -EBADMSG;
    memset(&message, 0, sizeof(message));
    int r = rg_codec_decode(handlers[type].fields, payload, nbytes, &message);

    if (r == 0)
        r = handlers[type].on(arg, &message);
    rg_codec_clear(handlers[type].fields, &message);
    return r;
}

/* Out of a message, where it is wiped. 0, or -EBADMSG. */
static int take_key(struct rg_client *client, const struct rg_span *key)
{
    if (key->nbytes != 0 && key->nbytes != RG_KEY_NBYTES)
        return -EBADMSG;
    client->has_key = key->nbytes > 0;
    if (client->has_key) {
        memcpy(client->key, key->data, RG_KEY_NBYTES);
        explicit_bzero(key->data, key->nbytes);
    }
    return 0;
}

static int on_welcome(void *arg, void *message)
{
    struct rg_client *client = arg;
    struct rg_rankmsg_welcome *welcome = message;

    if (take_key(client, &welcome->key) < 0)
        return -EBADMSG;
    if (welcome->elastic != (client->size == 0)) {
        rg_error_set(&client->failure, EINVAL, "%s says that the job is %selastic, and "
                     "REIGEN_ELASTIC says otherwise: the environment was changed after the agent "
                     "made it", client->server, welcome->elastic ? "" : "not ");
        client->failed = true;
    } else if (welcome->size != (uint32_t) client->size) {
        rg_error_set(&client->failure, EINVAL, "this rank believes that the job has %d ranks, %s "
                     "says %u", client->size, client->server, welcome->size);
        client->failed = true;
    }
    client->local_size = (int) welcome->local_size;
    client->welcomed = true;
    return 0;
}

static int on_taken(void *arg, void *message)
{
    struct rg_client *client = arg;
    const struct rg_rankmsg_taken *taken = message;
    char who[32] = "another process";

    if (client->welcomed)
        return -EBADMSG;
    if (taken->pid)
        snprintf(who, sizeof(who), "process %u", taken->pid);
    rg_error_set(&client->failure, EBUSY, RG_BOOT_TAKEN_TEXT, who);
    client->failed = true;
    return 0;
}

static int on_done(void *arg, void *message)
{
    struct rg_client *client = arg;
    const struct rg_rankmsg_fence_done *done = message;

    if (done->epoch != client->seat.epoch || done->generation != client->generation + 1 ||
        client->done)
        return 0;
    rg_buf_put(&client->blobs, done->blobs.data, done->blobs.nbytes);
    if (rg_buf_nbytes(&client->blobs) + done->left > RG_FENCE_NBYTES_MAX)
        return -EBADMSG;
    client->done = done->left == 0;
    return rg_buf_status(&client->blobs);
}

static int on_failed(void *arg, void *message)
{
    struct rg_client *client = arg;
    const struct rg_rankmsg_fence_failed *failed = message;

    if (failed->epoch != client->seat.epoch)
        return 0;
    if (!client->failed)
        rg_error_set(&client->failure, failed->errnum > 0 && failed->errnum < 4096
                                           ? (int) failed->errnum : ECONNRESET,
                     "%s", failed->text);
    client->failed = true;
    return 0;
}

static int on_died(void *arg, void *message)
{
    struct rg_client *client = arg;
    const struct rg_rankmsg_peer_died *died = message;
    char text[RG_ERROR_TEXT_MAX];

    if (died->rank >= (uint32_t) client->size)
        return -EBADMSG;
    if (client->ndeaths == RG_CLIENT_DEATHS_MAX)
        return 0;
    client->dead_rank[client->ndeaths] = (int) died->rank;
    client->dead_text[client->ndeaths++] = strdup(rg_death_text(died, text, sizeof(text)));
    return 0;
}

static int on_epoch(void *arg, void *message)
{
    struct rg_client *client = arg;
    const struct rg_rankmsg_epoch *seat = message;

    if (client->size != 0 || seat->epoch == 0 || seat->size < 1 || seat->size > REIGEN_SIZE_MAX ||
        seat->rank >= seat->size || take_key(client, &seat->key) < 0)
        return -EBADMSG;
    client->seat = *seat;
    client->seat.key = (struct rg_span) { NULL, 0 };
    client->rank = (int) seat->rank;
    client->size = (int) seat->size;
    client->seated = true;
    return 0;
}

static int on_update(void *arg, void *message)
{
    struct rg_client *client = arg;
    const struct rg_rankmsg_update *update = message;

    client->where |= (update->result & RG_UPDATE_WHERE) != 0;
    client->update.result |= update->result & ~(uint32_t) RG_UPDATE_WHERE;
    if (update->stamp > client->update.stamp)
        client->update.stamp = update->stamp;
    return 0;
}

static int on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    static const struct rg_rank_handler handlers[] = {
        [RG_RANKMSG_WELCOME] = { rg_rankmsg_welcome_fields, on_welcome },
        [RG_RANKMSG_FENCE_DONE] = { rg_rankmsg_fence_done_fields, on_done },
        [RG_RANKMSG_FENCE_FAILED] = { rg_rankmsg_fence_failed_fields, on_failed },
        [RG_RANKMSG_PEER_DIED] = { rg_rankmsg_peer_died_fields, on_died },
        [RG_RANKMSG_TAKEN] = { rg_rankmsg_taken_fields, on_taken },
        [RG_RANKMSG_EPOCH] = { rg_rankmsg_epoch_fields, on_epoch },
        [RG_RANKMSG_UPDATE] = { rg_rankmsg_update_fields, on_update },
    };

    return rg_rank_dispatch(handlers, rg_array_len(handlers), arg, type, payload, nbytes);
}

static const struct rg_conn_ops conn_ops = { on_frame, rg_rankmsg_frame_max, .secret = true };

/* Pump until *flag, a failure told by the server, a death (where one matters), or the end of the
 * connection. */
static int wait_for(struct rg_client *client, const bool *flag, int ndeaths, uint64_t deadline_ns,
                    struct rg_error *err)
{
    for (;;) {
        struct rg_error cause = RG_ERROR_INIT;
        int r = rg_conn_pump(&client->conn, &cause);

        /* What fails behind EPOCH is a fence that this rank has not begun. */
        if (*flag && (!client->failed || flag == &client->seated))
            return 0;
        if (client->failed) {
            if (err)
                *err = client->failure;
            return -client->failure.errnum;
        }
        if (client->ndeaths > ndeaths)
            return rg_error_set(err, ECONNRESET, "%s", client->dead_text[ndeaths]);
        if (r < 0)
            return rg_error_set(err, r == -EPIPE ? ECONNRESET : -r, "%s: %s", client->server,
                                cause.text);
        r = rg_fd_wait(client->conn.fd, rg_conn_events(&client->conn), deadline_ns);
        if (r < 0)
            return rg_error_set(err, -r, "%s did not answer in time", client->server);
    }
}

int rg_client_hello(struct rg_client *client, int take_fd,
                    const struct rg_link_options *link_options, const char *server, int rank,
                    int size, const void *token, size_t nbytes, uint64_t deadline_ns,
                    struct rg_error *err)
{
    struct rg_rankmsg_hello hello = { RG_PROTOCOL_VERSION, (uint32_t) rank, (uint32_t) getpid(),
                                      { (uint8_t *) (uintptr_t) token, nbytes } };
    int r;

    *client = (struct rg_client) { .server = server, .rank = rank, .size = size,
                                   .generation = client->generation };
    r = rg_conn_init(&client->conn, take_fd, &conn_ops, client, link_options);

    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", server, strerror(-r));
    r = rg_conn_send(&client->conn, RG_RANKMSG_HELLO, rg_rankmsg_hello_fields, &hello);
    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", server, strerror(-r));
    return wait_for(client, &client->welcomed, RG_CLIENT_DEATHS_MAX, deadline_ns, err);
}

/* A frame without fields; dropped where the connection is gone. */
static void tell(struct rg_client *client, uint16_t type)
{
    if (rg_conn_alive(&client->conn) &&
        rg_conn_send_raw(&client->conn, type, NULL, 0) == 0)
        rg_conn_drain(&client->conn, rg_now_ns() + GOODBYE_MS * RG_NS_PER_MS);
}

void rg_client_elastic(struct rg_client *client)
{
    tell(client, RG_RANKMSG_ELASTIC);
}

int rg_client_meet(struct rg_client *client, bool knows, uint32_t epoch, int failed,
                   struct rg_error *err)
{
    struct rg_rankmsg_meet meet = { epoch, (uint8_t) failed };
    int r;

    if (knows)
        rg_client_elastic(client);
    r = rg_conn_send(&client->conn, RG_RANKMSG_MEET, rg_rankmsg_meet_fields, &meet);
    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", client->server, strerror(-r));
    return wait_for(client, &client->seated, RG_CLIENT_DEATHS_MAX, RG_NEVER_NS, err);
}

int rg_client_fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                    struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct rg_client *client = state;
    uint64_t now_ns = rg_now_ns();
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / RG_NS_PER_MS : 0;
    struct rg_rankmsg_fence fence = { client->generation + 1,
                                      left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t) left_ms,
                                      { (uint8_t *) (uintptr_t) blob, nbytes },
                                      client->seat.epoch };

    if (nbytes > RG_RANKMSG_BLOB_MAX)
        return rg_error_set(err, EMSGSIZE, "a rank's part of a fence may have %u bytes, not %zu",
                            RG_RANKMSG_BLOB_MAX, nbytes);
    if (!rg_conn_alive(&client->conn))
        return rg_error_set(err, ECONNRESET, "the connection to %s is gone", client->server);
    client->done = client->failed = false;
    rg_buf_clear(&client->blobs);
    client->failure = (struct rg_error) RG_ERROR_INIT;
    int r = rg_conn_send(&client->conn, RG_RANKMSG_FENCE, rg_rankmsg_fence_fields, &fence);

    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", client->server, strerror(-r));
    if (deadline_ns < RG_NEVER_NS - RG_CLIENT_GRACE_MS * RG_NS_PER_MS)
        deadline_ns += RG_CLIENT_GRACE_MS * RG_NS_PER_MS;
    r = wait_for(client, &client->done, client->deaths_told, deadline_ns, err);
    if (r == 0) {
        client->generation++;
        r = rg_blobs_split(rg_buf_bytes(&client->blobs), rg_buf_nbytes(&client->blobs),
                           client->size, RG_RANKMSG_BLOB_MAX, ret_blobs);
        if (r < 0)
            rg_error_set(err, -r, "%s sent a broken fence: %s", client->server, strerror(-r));
    }
    rg_buf_fini(&client->blobs);
    return r;
}

int rg_client_poll_fd(void *state)
{
    struct rg_client *client = state;

    return client->conn.fd;
}

int rg_client_poll(void *state, int *ret_rank, struct rg_error *err)
{
    struct rg_client *client = state;
    struct rg_error cause = RG_ERROR_INIT;
    int r = rg_conn_alive(&client->conn) ? rg_conn_pump(&client->conn, &cause) : -EPIPE;

    if (client->deaths_told < client->ndeaths) {
        int i = client->deaths_told++;

        rg_error_set(err, ECONNRESET, "%s", client->dead_text[i]);
        *ret_rank = client->dead_rank[i];
        return 1;
    }
    if (r == 0)
        return 0;
    rg_conn_fini(&client->conn);
    return rg_error_set(err, r == -EPIPE ? ECONNRESET : -r, "%s: %s", client->server,
                        cause.text[0] ? cause.text : "the connection was closed");
}

/* Send a frame, or drop it where the connection is gone. */
static void say(struct rg_client *client, uint16_t type, const struct rg_field *fields,
                const void *object)
{
    if (rg_conn_alive(&client->conn) && rg_conn_send(&client->conn, type, fields, object) == 0)
        rg_conn_drain(&client->conn, rg_now_ns() + GOODBYE_MS * RG_NS_PER_MS);
}

void rg_client_note(void *state, int level, const char *text)
{
    struct rg_rankmsg_note note = { (uint32_t) level, (char *) (uintptr_t) text };

    say(state, RG_RANKMSG_NOTE, rg_rankmsg_note_fields, &note);
}

void rg_client_cut_off(void *state, int rank)
{
    struct rg_rankmsg_cut_off cut_off = { (uint32_t) rank };

    say(state, RG_RANKMSG_CUT_OFF, rg_rankmsg_cut_off_fields, &cut_off);
}

/* Where the agent has not read the last ones yet, it will get the next ones. */
void rg_client_numbers(void *state, struct rg_numbers *numbers, int n)
{
    struct rg_client *client = state;

    if (!rg_conn_alive(&client->conn) || rg_conn_pending(&client->conn) > 0)
        return;
    for (int i = 0, end; i < n; i = end) {
        rg_autobuf struct rg_buf ranks = RG_BUF_INIT;

        end = n - i > RG_NUMBERS_RANKS_MAX ? i + RG_NUMBERS_RANKS_MAX : n;
        for (int k = i; k < end; k++)
            rg_numbers_put(&ranks, &numbers[k]);
        struct rg_rankmsg_numbers msg = {
            client->seat.epoch, RG_NUMBERS_NBYTES,
            { (uint8_t *) (uintptr_t) rg_buf_bytes(&ranks), rg_buf_nbytes(&ranks) },
        };
        if (rg_buf_status(&ranks) < 0 ||
            rg_conn_send(&client->conn, RG_RANKMSG_NUMBERS, rg_rankmsg_numbers_fields, &msg) < 0)
            return;
    }
    rg_conn_flush(&client->conn);
}

void rg_client_after_fork(void *state)
{
    struct rg_client *client = state;

    if (rg_conn_alive(&client->conn))
        close(client->conn.fd);
}

void rg_client_fini(struct rg_client *client, bool goodbye)
{
    if (goodbye)
        tell(client, RG_RANKMSG_GOODBYE);
    rg_conn_fini(&client->conn);
    rg_buf_fini(&client->blobs);
    for (int i = 0; i < client->ndeaths; i++)
        free(client->dead_text[i]);
    client->ndeaths = client->deaths_told = 0;
    explicit_bzero(client->key, sizeof(client->key));
}
