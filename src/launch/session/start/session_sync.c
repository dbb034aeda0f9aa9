/* SPDX-License-Identifier: Apache-2.0 */
/* --sync: each host is asked whether it has the user's directory, and sent what it lacks, as fast
 * as it reads. What a host takes at a time becomes less the more hosts there are. */
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>

#include "job/engine.h"
#include "launch/session/core/session_end.h"
#include "launch/session/start/start.h"
#include "launch/sync/sync.h"

#define WINDOWS_NBYTES (64u << 20) /* of all hosts together */
#define NAMED_MAX 4
#define WORDS_MAX 5 /* of a command, among which its script is: python -u -O train.py */
#define LACKS_TOLD_MAX 3

enum stage { NOT_ASKED, ASKED, LISTING, CHOOSING, SENDING, SENT, HAS, FAILED };

struct sync_host {
    enum stage stage;
    bool marked;     /* the marker is there for it, too */
    bool in_place;
    uint64_t sent, taken; /* bytes of the stream */
    size_t list_at;       /* bytes of the list that have been sent */
    uint8_t *wanted;      /* owned: a bit for each entry */
    uint32_t entry;       /* the next one to look at, and how much of it has been sent */
    uint64_t offset;
    uint64_t done, all;   /* bytes of contents */
    unsigned told_percent;
};

struct session_sync {
    int nwanted;
    bool told;
    int nlacking; /* hosts that lack the script */
    int nkept;    /* hosts where ranks wrote files */
    struct sync_host hosts[];
};

static void fini(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (session->sync->hosts[i].marked)
            rg_sync_unmark(session->o.sync);
        free(session->sync->hosts[i].wanted);
    }
}

const struct session_part session_sync_part = {
    SESSION_PART(sync), .nbytes_per_host = sizeof(struct sync_host), .fini = fini,
};

static struct sync_host *of(const struct session_host *host)
{
    return &host->session->sync->hosts[host->index];
}

bool session_sync_is_on(const struct rg_session *session)
{
    return session->o.sync != NULL;
}

bool session_sync_is_done(const struct rg_session *session)
{
    return session->sync->nwanted == 0;
}

bool session_sync_is_wanted(const struct session_host *host)
{
    enum stage stage = of(host)->stage;

    return stage > NOT_ASKED && stage < HAS;
}

static void unmark(struct session_host *host)
{
    if (of(host)->marked)
        rg_sync_unmark(host->session->o.sync);
    of(host)->marked = false;
}

static void end(struct session_host *host, enum stage stage);

void session_sync_lost(struct session_host *host)
{
    if (host->session->sync && session_sync_is_wanted(host))
        end(host, FAILED);
}

/* --- without it: a hint ----------------------------------------------------------------------- */

/* An engine's command, mpirun or a script, runs on the first host alone. */
static bool runs_command(const struct session_host *host)
{
    const struct rg_job *job = host->session->o.job;

    return !job->nroles && (host->index == 0 || !rg_job_has_engine(job));
}

const char *session_sync_script(const struct session_host *host)
{
    const struct rg_session *session = host->session;
    const struct rg_strv *command = &session->o.job->command;
    const char *cwd = session->o.job->cwd;
    struct stat st;

    if (session->o.sync || session->o.driver->platform.here || !runs_command(host))
        return "";
    for (size_t i = 0; i < command->count && i < WORDS_MAX; i++) {
        const char *word = command->v[i];
        if (*word == '-' || *word == '/' || (i == 0 && !strchr(word, '/')))
            continue;
        rg_autofree char *path = rg_strf("%s/%s", cwd ? cwd : ".", word);
        if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            return word;
    }
    return "";
}

/* What helps where: --sync is not for all jobs (check_sync of job/request/settle.c). */
static const char *remedy(const struct rg_session *session)
{
    const struct rg_job *job = session->o.job;

    return session->o.driver->platform.away ? "put it into the image, or on a volume that all pods "
                                              "mount"
           : job->submit || rg_job_has_engine(job)
               ? "take a directory that all hosts share"
               : "--sync sends the directory, or take one that all hosts share";
}

static int on_lacks(struct session_host *host)
{
    struct session_sync *sync = host->session->sync;
    char text[RG_ERROR_TEXT_MAX];
    int n = sync->nlacking++;

    snprintf(text, sizeof(text), "%.300s is here, but not on %s%s: %s", session_sync_script(host),
             session_host_name(host), n == LACKS_TOLD_MAX ? " and more hosts" : "",
             remedy(host->session));
    if (n <= LACKS_TOLD_MAX)
        session_remark(host->session, -1, text);
    return 0;
}

/* --- sending ---------------------------------------------------------------------------------- */

static uint64_t window_of(const struct session_host *host)
{
    uint64_t share = WINDOWS_NBYTES / (unsigned) (host->session->o.plan->nhosts + 1);

    return share > RG_SYNC_WINDOW_MAX   ? RG_SYNC_WINDOW_MAX
           : share < RG_SYNC_WINDOW_MIN ? RG_SYNC_WINDOW_MIN
                                        : share;
}

static void send_bytes(struct session_host *host, const void *bytes, size_t nbytes)
{
    struct rg_msg_data msg = { { (uint8_t *) bytes, nbytes } };

    of(host)->sent += nbytes;
    session_send(host, RG_MSG_SYNC, &msg); /* of a failure its link tells */
}

static void send_list(struct session_host *host)
{
    const struct rg_buf *list = rg_sync_list(host->session->o.sync);
    struct sync_host *h = of(host);
    size_t left = rg_buf_nbytes(list) - h->list_at;
    size_t n = left < RG_SYNC_FRAME_MAX ? left : RG_SYNC_FRAME_MAX;

    send_bytes(host, rg_buf_bytes(list) + h->list_at, n);
    h->list_at += n;
    if (h->list_at == rg_buf_nbytes(list))
        h->stage = CHOOSING;
}

static bool wants(const struct sync_host *h, uint32_t i)
{
    return h->wanted[i / 8] >> i % 8 & 1;
}

static void tell_progress(struct session_host *host)
{
    struct sync_host *h = of(host);
    unsigned percent = h->all ? (unsigned) (100 * h->done / h->all) : 100;
    char text[128], done[32], all[32];

    if (percent < h->told_percent + 5 && h->done)
        return;
    h->told_percent = percent;
    snprintf(text, sizeof(text), "the directory is being sent: %s of %s",
             rg_size_text(h->done, done, sizeof(done)), rg_size_text(h->all, all, sizeof(all)));
    session_host_set_phase(host, RG_PHASE_CONNECTING, text);
}

/* From this entry on. */
static void find_wanted(struct session_host *host, uint32_t entry)
{
    uint32_t count = rg_sync_count(host->session->o.sync);
    struct sync_host *h = of(host);

    while (entry < count && !wants(h, entry))
        entry++;
    h->entry = entry;
    h->offset = 0;
    h->stage = entry < count ? SENDING : SENT;
}

static int send_data(struct session_host *host, struct rg_error *err)
{
    const struct rg_sync *sync = host->session->o.sync;
    rg_autobuf struct rg_buf frame = RG_BUF_INIT;
    struct sync_host *h = of(host);
    int n = rg_sync_put_data(sync, h->entry, h->offset, &frame, err);
    if (n < 0)
        return n;
    send_bytes(host, rg_buf_bytes(&frame), rg_buf_nbytes(&frame));
    h->done += (unsigned) n;
    h->offset += (unsigned) n;
    if (h->offset == rg_sync_entry_nbytes(sync, h->entry))
        find_wanted(host, h->entry + 1);
    tell_progress(host);
    return 0;
}

static int push(struct session_host *host, struct rg_error *err)
{
    struct sync_host *h = of(host);
    int r = 0;

    while (r == 0 && (h->stage == LISTING || h->stage == SENDING) &&
           h->sent + RG_SYNC_FRAME_MAX <= h->taken + window_of(host)) {
        if (h->stage == LISTING)
            send_list(host);
        else
            r = send_data(host, err);
    }
    return r;
}

void session_sync_begin(struct session_host *host)
{
    struct rg_session *session = host->session;
    rg_autobuf struct rg_buf head = RG_BUF_INIT;
    struct sync_host *h = of(host);

    if (!session->o.sync || h->stage != NOT_ASKED)
        return;
    session->sync->nwanted++;
    h->stage = ASKED;
    if (rg_sync_put_head(session->o.sync, session_host_name(host),
                         session->o.job->container.image != NULL, &head, &h->marked) == 0)
        send_bytes(host, rg_buf_bytes(&head), rg_buf_nbytes(&head));
}

/* --- what hosts say --------------------------------------------------------------------------- */

/* "a, b and 3 more" of those that use the directory itself, or a copy. */
static int put_names(const struct rg_session *session, bool in_place, struct rg_buf *text)
{
    int count = 0;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct sync_host *h = &session->sync->hosts[i];
        if (h->stage != HAS || h->in_place != in_place)
            continue;
        if (count++ < NAMED_MAX)
            rg_buf_printf(text, "%s%s", count > 1 ? ", " : "",
                          session_host_name(&session->hosts[i]));
    }
    if (count > NAMED_MAX)
        rg_buf_printf(text, " and %d more", count - NAMED_MAX);
    return count;
}

/* Once, when all have it. */
static void tell(struct rg_session *session)
{
    rg_autobuf struct rg_buf copies = RG_BUF_INIT, others = RG_BUF_INIT, text = RG_BUF_INIT;
    char what[256], size[32];

    if (session->sync->told || session->sync->nwanted)
        return;
    session->sync->told = true;
    int ncopies = put_names(session, false, &copies), nothers = put_names(session, true, &others);
    uint64_t sent = 0;
    if (!ncopies)
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        sent += session->sync->hosts[i].done;
    rg_buf_printf(&text, "--sync: %s %s a copy of %s (%s), for which %s were sent",
                  rg_buf_text(&copies), ncopies == 1 ? "has" : "have",
                  rg_sync_dir(session->o.sync),
                  rg_sync_text(session->o.sync, what, sizeof(what)),
                  rg_size_text(sent, size, sizeof(size)));
    if (nothers)
        rg_buf_printf(&text, "; %s use%s the directory itself", rg_buf_text(&others),
                      nothers == 1 ? "s" : "");
    session_remark(session, -1, rg_buf_text(&text));
}

static void end(struct session_host *host, enum stage stage)
{
    struct sync_host *h = of(host);

    unmark(host);
    h->stage = stage;
    host->session->sync->nwanted--;
    free(rg_steal_ptr(&h->wanted));
    if (stage == HAS && h->told_percent)
        session_host_set_phase(host, RG_PHASE_READY, "");
    if (stage == HAS)
        *host->reason = '\0';
    if (stage == HAS || session_is_open(host->session))
        tell(host->session);
}

static int on_place(struct session_host *host, const struct rg_span *data)
{
    struct sync_host *h = of(host);

    if (h->stage != ASKED || data->nbytes != 1 || data->data[0] > 1)
        return -EBADMSG;
    h->in_place = data->data[0];
    h->stage = h->in_place ? SENT : LISTING;
    unmark(host);
    return rg_sync_decide(host->session->o.sync, session_host_name(host), h->in_place);
}

static int on_want(struct session_host *host, const struct rg_span *data)
{
    const struct rg_sync *sync = host->session->o.sync;
    uint32_t count = rg_sync_count(sync);
    struct sync_host *h = of(host);

    if (h->stage != CHOOSING || data->nbytes != (count + 7) / 8)
        return -EBADMSG;
    h->wanted = malloc(data->nbytes + 1);
    if (!h->wanted)
        return -ENOMEM;
    memcpy(h->wanted, data->data, data->nbytes);
    for (uint32_t i = 0; i < count; i++) {
        if (!wants(h, i))
            continue;
        if (!rg_sync_entry_nbytes(sync, i))
            return -EBADMSG;
        h->all += rg_sync_entry_nbytes(sync, i);
    }
    find_wanted(host, 0);
    return 0;
}

static int on_taken(struct session_host *host, const struct rg_span *data)
{
    struct rg_reader reader = rg_reader_make(data->data, data->nbytes);
    uint64_t taken = rg_reader_u64(&reader);
    struct sync_host *h = of(host);

    if (rg_reader_done(&reader) < 0 || taken < h->taken || taken > h->sent)
        return -EBADMSG;
    h->taken = taken;
    return 0;
}

static int on_failed(struct session_host *host, const struct rg_span *data, struct rg_error *err)
{
    struct rg_sync_failed failed = { 0, NULL };
    int r = rg_codec_decode(rg_sync_failed_fields, data->data, data->nbytes, &failed);

    if (r < 0)
        return r;
    if (session_sync_is_wanted(host)) {
        end(host, FAILED);
        r = rg_error_set(err, failed.errnum ? (int) (failed.errnum & 0xfff) : EIO,
                         "--sync: %.900s", failed.text);
    }
    rg_codec_clear(rg_sync_failed_fields, &failed);
    return r;
}

/* What would have been lost is not, for a while. */
static int on_kept(struct session_host *host, const struct rg_span *data)
{
    struct rg_sync_kept kept = { 0, 0, NULL, NULL };
    char text[RG_ERROR_TEXT_MAX + 256], size[32];
    int n = host->session->sync->nkept++;
    int r = rg_codec_decode(rg_sync_kept_fields, data->data, data->nbytes, &kept);

    if (r < 0)
        return r;
    if (n == NAMED_MAX)
        snprintf(text, sizeof(text), "and so they did on more hosts: kept there, likewise");
    else
        snprintf(text, sizeof(text), "%s: ranks wrote %llu file%s (%s) into the copy, %.300s "
                 "first; %s kept in %.600s for %d days", session_host_name(host),
                 (unsigned long long) kept.count, kept.count == 1 ? "" : "s",
                 rg_size_text(kept.nbytes, size, sizeof(size)), kept.first,
                 kept.count == 1 ? "it is" : "they are", kept.folder, RG_SYNC_KEPT_DAYS);
    if (n <= NAMED_MAX)
        session_remark(host->session, -1, text);
    rg_codec_clear(rg_sync_kept_fields, &kept);
    return 0;
}

int session_sync_on_said(struct session_host *host, const struct rg_msg_sync_said *msg,
                         struct rg_error *err)
{
    struct sync_host *h = of(host);
    int r = -EBADMSG;

    if (!host->session->o.sync)
        return msg->type == RG_SYNC_LACKS ? on_lacks(host) : r;
    if (h->stage == NOT_ASKED)
        return r;
    switch (msg->type) {
    case RG_SYNC_PLACE: r = on_place(host, &msg->data); break;
    case RG_SYNC_WANT: r = on_want(host, &msg->data); break;
    case RG_SYNC_TAKEN: r = on_taken(host, &msg->data); break;
    case RG_SYNC_FAILED: return on_failed(host, &msg->data, err);
    case RG_SYNC_KEPT: return on_kept(host, &msg->data);
    case RG_SYNC_DONE:
        if (h->stage != SENT)
            return -EBADMSG;
        end(host, HAS);
        return 0;
    default: break;
    }
    r = r < 0 ? r : push(host, err);
    if (r < 0 && session_sync_is_wanted(host))
        end(host, FAILED);
    return r;
}
