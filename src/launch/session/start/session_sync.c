/* SPDX-License-Identifier: Apache-2.0 */
/* Each host says what it lacks, so a directory that all share is not sent at all, and of another
 * one only what has changed. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/core/session_end.h"
#include "launch/session/start/sync.h"
#include "launch/sync/snapshot.h"

#define SENDING_MAX 64 /* hosts at a time */
#define SHOWN_EVERY_NS (RG_NS_PER_S / 2)

enum stream { STREAM_LIST, STREAM_FILES };

/* Of one host that needs more, or may. */
struct session_sync {
    bool turn;              /* it is one of those that are sent files */
    enum stream stream;
    uint64_t total, sent, granted; /* bytes of that stream */
    uint8_t *missing;       /* owned; of the files */
    size_t file;            /* which one is being sent, */
    uint64_t at;            /* and how many bytes of it have been */
    uint64_t shown_ns;
};

bool session_sync_is_done(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (session->hosts[i].sync)
            return false;
    }
    return true;
}

bool session_sync_is_wanted(const struct session_host *host)
{
    return host->sync;
}

int session_sync_setup(struct session_host *host, struct rg_msg_setup *msg)
{
    const struct rg_snapshot *snapshot = host->session->o.sync;
    size_t nbytes;

    if (!snapshot)
        return 0;
    host->sync = calloc(1, sizeof(*host->sync));
    if (!host->sync)
        return -ENOMEM;
    rg_snapshot_list(snapshot, &nbytes);
    msg->sync = (char *) rg_snapshot_dir(snapshot);
    msg->sync_cwd = (char *) rg_snapshot_cwd(snapshot);
    msg->sync_nbytes = host->sync->total = nbytes;
    return 0;
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool is_missing(const struct session_sync *to, size_t file)
{
    return to->missing[file / 8] & (1u << file % 8);
}

/* The next bytes of files. How many, or -errno. */
static ssize_t read_files(const struct rg_snapshot *snapshot, struct session_sync *to,
                          uint8_t *piece, size_t max)
{
    while (!is_missing(to, to->file) || to->at == rg_snapshot_nbytes(snapshot, to->file)) {
        to->file++;
        to->at = 0;
    }
    uint64_t left = rg_snapshot_nbytes(snapshot, to->file) - to->at;
    size_t n = left < max ? (size_t) left : max;
    int r = rg_snapshot_read(snapshot, to->file, to->at, piece, n);

    to->at += n;
    return r < 0 ? r : (ssize_t) n;
}

static ssize_t next_piece(const struct rg_snapshot *snapshot, struct session_sync *to,
                          uint8_t *piece, size_t max)
{
    size_t nbytes;

    if (to->stream == STREAM_FILES)
        return read_files(snapshot, to, piece, max);
    memcpy(piece, rg_snapshot_list(snapshot, &nbytes) + to->sent, max);
    return (ssize_t) max;
}

static void show(struct session_host *host)
{
    struct session_sync *to = host->sync;
    char text[96], sent[32], total[32];
    uint64_t now_ns = rg_now_ns();

    if (to->stream == STREAM_LIST || (to->shown_ns && now_ns - to->shown_ns < SHOWN_EVERY_NS))
        return;
    to->shown_ns = now_ns;
    snprintf(text, sizeof(text), "sending files: %s of %s",
             rg_size_text(to->sent, sent, sizeof(sent)),
             rg_size_text(to->total, total, sizeof(total)));
    session_host_set_phase(host, RG_PHASE_STARTING, text);
}

static void send_to(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct session_sync *to = host->sync;
    uint8_t piece[RG_MSG_CHUNK_MAX];

    while (to->sent < to->granted) {
        uint64_t left = to->granted - to->sent;
        ssize_t n = next_piece(session->o.sync, to, piece,
                               left < sizeof(piece) ? (size_t) left : sizeof(piece));
        if (n < 0) {
            session_set_cause(session, RG_EXIT_INTERNAL,
                              "--sync: reading the copy of the files: %s", strerror((int) -n));
            session_begin_end(session);
            return;
        }
        struct rg_msg_data msg = { { piece, (size_t) n } };
        if (session_send(host, RG_MSG_SYNC, &msg) < 0)
            return; /* its link tells */
        to->sent += (uint64_t) n;
    }
    show(host);
}

/* --- whose turn it is ------------------------------------------------------------------------- */

static void give_turns(struct rg_session *session)
{
    int nturns = 0;

    for (int i = 0; i < session->o.plan->nhosts; i++)
        nturns += session->hosts[i].sync && session->hosts[i].sync->turn;
    for (int i = 0; i < session->o.plan->nhosts && nturns < SENDING_MAX &&
                    session->state <= STATE_RUNNING; i++) {
        struct session_sync *to = session->hosts[i].sync;
        if (!to || to->turn || to->stream != STREAM_FILES)
            continue;
        to->turn = true;
        nturns++;
        send_to(&session->hosts[i]);
    }
}

void session_sync_host_gone(struct session_host *host)
{
    struct session_sync *to = rg_steal_ptr(&host->sync);
    bool turn = to && to->turn;

    if (to)
        free(to->missing);
    free(to);
    if (turn)
        give_turns(host->session);
}

/* --- what hosts say --------------------------------------------------------------------------- */

/* The list has been read there. */
static int begin_files(struct session_sync *to, const struct rg_snapshot *snapshot,
                       const struct rg_span *missing)
{
    size_t count = rg_snapshot_count(snapshot);
    uint64_t total = 0;

    if (to->stream != STREAM_LIST || to->sent < to->total || missing->nbytes != (count + 7) / 8)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++)
        total += missing->data[i / 8] & (1u << i % 8) ? rg_snapshot_nbytes(snapshot, i) : 0;
    to->missing = malloc(missing->nbytes);
    if (!to->missing)
        return -ENOMEM;
    memcpy(to->missing, missing->data, missing->nbytes);
    to->stream = STREAM_FILES;
    to->total = total;
    to->sent = to->granted = 0;
    return 0;
}

int session_on_sync_wanted(struct session_host *host, const struct rg_msg_sync_wanted *msg)
{
    struct session_sync *to = host->sync;
    int r = to ? 0 : -EBADMSG;

    if (r == 0 && *msg->error)
        return -ECANCELED;
    if (r == 0 && msg->missing.nbytes)
        r = begin_files(to, host->session->o.sync, &msg->missing);
    if (r < 0)
        return r;
    if (!msg->nbytes) {
        if (host->phase != RG_PHASE_READY)
            session_host_set_phase(host, RG_PHASE_READY, "");
        session_sync_host_gone(host);
        return 0;
    }
    if (msg->nbytes > to->total)
        return -EBADMSG;
    to->granted = msg->nbytes;
    if (host->session->state > STATE_RUNNING)
        return 0;
    if (to->turn || to->stream == STREAM_LIST)
        send_to(host);
    else
        give_turns(host->session);
    return 0;
}
