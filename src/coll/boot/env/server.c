/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 as the meeting point of a job that has no launcher of ours: anybody can connect to it. */
#include "coll/boot/env/server.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/peer.h"
#include "coll/net/listener.h"
#include "coll/ground/report.h"
#include "coll/net/sock.h"

#define RUNS_MAX 8
#define CLOSE_MS 500
/* What the other ranks' blobs may have together: there is room for rank 0's own beside them. */
#define KEPT_NBYTES_MAX (RG_FENCE_NBYTES_MAX - RG_RANKMSG_BLOB_MAX - sizeof(uint32_t))
/* So long the ranks that are still to come find rank 0, and hear from it who has died. */
#define LINGER_MS 5000

/* A connection: a rank from HELLO on. */
struct guest {
    struct rg_server *server;
    struct rg_conn conn;
    int rank;              /* -1: no HELLO yet */
    uint64_t give_up_ns;   /* while there was no HELLO */
    bool leaving;          /* refused: goes once its answer is out */
    bool goodbye;
    bool arrived;          /* its part of the fence is here */
    char *note;            /* why it is about to fail, or NULL */
    bool cut_off;          /* it said that this is another rank's doing, whom note names */
    struct rg_span blob;
    struct guest *next;
};

struct rg_server {
    struct rg_env_job job;
    int listen_fd, npending;
    struct rg_acceptor acceptor;
    bool refusal_told;
    struct guest *guests;
    struct guest **ranks;   /* by rank; [0] is always NULL */
    bool *came;             /* by rank: it was here once */
    uint32_t generation;    /* of fences complete */
    uint64_t deadline_ns;   /* of the fence in progress */
    uint64_t began_ns;
    int lost_rank;          /* the first rank that was lost, or -1, and how */
    char lost_text[RG_ERROR_TEXT_MAX];
    uint64_t lost_ns;
    bool told;              /* to the others: why this start fails */
    size_t kept_nbytes;     /* of all guests' blobs, as they lie in an answer */
    bool overfull;          /* there was one for which that left no room */
    int left_rank;          /* one that has shut down after the first fence, or -1 */
};

void rg_ranks_format(const bool *missing, int size, struct rg_buf *text)
{
    int total = 0, told = 0, runs = 0;

    for (int r = 0; r < size; r++)
        total += missing[r];
    rg_buf_printf(text, "rank%s", total == 1 ? "" : "s");
    for (int r = 0; r < size && runs < RUNS_MAX; r++) {
        int last = r;

        if (!missing[r])
            continue;
        while (last + 1 < size && missing[last + 1])
            last++;
        rg_buf_printf(text, last > r ? "%s%d-%d" : "%s%d", runs++ > 0 ? ", " : " ", r, last);
        told += last - r + 1;
        r = last;
    }
    if (told < total)
        rg_buf_printf(text, " and %d more", total - told);
}

/* Of a blob in an answer. */
static size_t span_nbytes(size_t nbytes)
{
    return sizeof(uint32_t) + nbytes;
}

static void forget_blob(struct guest *guest)
{
    if (guest->arrived)
        guest->server->kept_nbytes -= span_nbytes(guest->blob.nbytes);
    free(guest->blob.data);
    guest->blob = (struct rg_span) { 0 };
    guest->arrived = false;
}

static void guest_free(struct guest *guest)
{
    struct rg_server *server = guest->server;

    for (struct guest **at = &server->guests; *at; at = &(*at)->next)
        if (*at == guest) {
            *at = guest->next;
            break;
        }
    if (guest->rank >= 0 && server->ranks[guest->rank] == guest)
        server->ranks[guest->rank] = NULL;
    if (guest->rank < 0)
        server->npending--;
    rg_conn_fini(&guest->conn);
    forget_blob(guest);
    free(guest->note);
    free(guest);
}

static int refuse(struct guest *guest, int errnum, const char *text)
{
    struct rg_rankmsg_fence_failed failed = { 0, (uint32_t) errnum, (char *) (uintptr_t) text,
                                              0 };

    guest->leaving = true;
    return rg_conn_send(&guest->conn, RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields,
                        &failed);
}

static int send_death(struct guest *guest, int rank, const char *text)
{
    struct rg_rankmsg_peer_died died = { .rank = (uint32_t) rank, .end = RG_DEATH_REPORTED,
                                         .text = (char *) (uintptr_t) text };

    return rg_conn_send(&guest->conn, RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields, &died);
}

static int on_hello(void *arg, void *message)
{
    struct guest *guest = arg;
    struct rg_server *server = guest->server;
    const struct rg_rankmsg_hello *hello = message;
    struct rg_rankmsg_welcome welcome = { .size = (uint32_t) server->job.me.size };

    if (guest->rank >= 0)
        return -EBADMSG;
    if (hello->version != RG_PROTOCOL_VERSION)
        return refuse(guest, EPROTO, "rank 0 runs another version of Reigen");
    if (hello->token.nbytes != sizeof(server->job.facts) ||
        memcmp(hello->token.data, server->job.facts, hello->token.nbytes) != 0)
        return refuse(guest, EXDEV, "another job listens there");
    if (hello->rank < 1 || hello->rank >= (uint32_t) server->job.me.size)
        return refuse(guest, EINVAL, "there is no such rank in the job of that rank 0");
    if (server->ranks[hello->rank])
        return refuse(guest, EEXIST, "this rank has already come");
    guest->rank = (int) hello->rank;
    server->ranks[guest->rank] = guest;
    server->came[guest->rank] = true;
    server->npending--;
    if (server->job.trust == RG_TRUST_USER) /* else they have it */
        welcome.key = (struct rg_span) { server->job.me.key, RG_KEY_NBYTES };
    int s = rg_conn_send(&guest->conn, RG_RANKMSG_WELCOME, rg_rankmsg_welcome_fields, &welcome);

    return s < 0 || server->lost_rank < 0 ? s : send_death(guest, server->lost_rank,
                                                           server->lost_text);
}

static int on_fence(void *arg, void *message)
{
    struct guest *guest = arg;
    struct rg_server *server = guest->server;
    struct rg_rankmsg_fence *fence = message;

    if (guest->rank < 0 || guest->arrived || fence->generation != server->generation + 1 ||
        fence->blob.nbytes > RG_RANKMSG_BLOB_MAX)
        return -EBADMSG;
    uint64_t theirs_ns = rg_now_ns() + fence->timeout_ms * RG_NS_PER_MS;

    if (theirs_ns < server->deadline_ns)
        server->deadline_ns = theirs_ns;
    if (server->kept_nbytes + span_nbytes(fence->blob.nbytes) > KEPT_NBYTES_MAX) {
        server->overfull = true;
        return 0;
    }
    guest->arrived = true;
    guest->blob = fence->blob;
    fence->blob = (struct rg_span) { 0 };
    server->kept_nbytes += span_nbytes(guest->blob.nbytes);
    return 0;
}

/* The first one is the cause, and a CUT_OFF before it is about it. */
static int on_note(void *arg, void *message)
{
    struct guest *guest = arg;
    struct rg_rankmsg_note *note = message;

    if (note->level == 0 && !guest->note)
        guest->note = rg_steal_ptr(&note->text);
    return 0;
}

static int on_cut_off(void *arg, void *message)
{
    struct guest *guest = arg;
    const struct rg_rankmsg_cut_off *cut_off = message;

    guest->cut_off |= !guest->note;
    return cut_off->rank < (uint32_t) guest->server->job.me.size ? 0 : -EBADMSG;
}

static int on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    static const struct rg_rank_handler handlers[] = {
        [RG_RANKMSG_HELLO] = { rg_rankmsg_hello_fields, on_hello },
        [RG_RANKMSG_FENCE] = { rg_rankmsg_fence_fields, on_fence },
        [RG_RANKMSG_NOTE] = { rg_rankmsg_note_fields, on_note },
        [RG_RANKMSG_CUT_OFF] = { rg_rankmsg_cut_off_fields, on_cut_off },
    };
    struct guest *guest = arg;

    guest->goodbye |= type == RG_RANKMSG_GOODBYE;
    if (guest->leaving || type == RG_RANKMSG_GOODBYE)
        return 0;
    return rg_rank_dispatch(handlers, rg_array_len(handlers), guest, type, payload, nbytes);
}

static size_t frame_max(void *arg, uint16_t type)
{
    (void) arg;
    (void) type;
    return RG_RANKMSG_BLOB_MAX + 1024;
}

static const struct rg_conn_ops conn_ops = { on_frame, frame_max, .secret = true };

int rg_server_create(const struct rg_env_job *job, int take_listen_fd,
                     struct rg_server **ret_server)
{
    struct rg_server *server = calloc(1, sizeof(*server));
    struct guest **ranks = calloc((size_t) job->me.size, sizeof(struct guest *));
    bool *came = calloc((size_t) job->me.size, sizeof(bool));

    if (!server || !ranks || !came) {
        free(server);
        free(ranks);
        free(came);
        close(take_listen_fd);
        return -ENOMEM;
    }
    server->listen_fd = take_listen_fd;
    server->job = *job;
    server->ranks = ranks;
    server->came = came;
    server->lost_rank = server->left_rank = -1;
    *ret_server = server;
    return 0;
}

static void drop_oldest_pending(struct rg_server *server)
{
    struct guest *oldest = NULL;

    for (struct guest *g = server->guests; g; g = g->next)
        if (g->rank < 0 && (!oldest || g->give_up_ns < oldest->give_up_ns))
            oldest = g;
    if (oldest)
        guest_free(oldest);
}

static void add_guest(struct rg_server *server, int take_fd)
{
    struct rg_link_options options = { .key = server->job.link_key, .job_id = RG_ENV_LINK_JOB,
                                       .role = "rank", .initiator = false };
    bool plain = server->job.trust == RG_TRUST_USER;
    struct guest *guest = calloc(1, sizeof(*guest));

    if (!guest) {
        close(take_fd);
        return;
    }
    guest->server = server;
    guest->rank = -1;
    guest->give_up_ns = rg_now_ns() + RG_SERVER_HALF_OPEN_MS * RG_NS_PER_MS;
    if (rg_conn_init(&guest->conn, take_fd, &conn_ops, guest, plain ? NULL : &options) < 0) {
        free(guest);
        return;
    }
    guest->next = server->guests;
    server->guests = guest;
    if (++server->npending > RG_SERVER_PENDING_MAX)
        drop_oldest_pending(server);
}

static bool is_welcome(struct rg_server *server, int fd)
{
    struct rg_error err = RG_ERROR_INIT;

    if (server->job.trust != RG_TRUST_USER || rg_peer_check(fd, &err) == 0)
        return true;
    if (!server->refusal_told && err.errnum != ESRCH)
        rg_report(RG_LOG_WARN, "%s came to the place where the ranks meet and was sent away; if it "
                  "is a rank, give all ranks a REIGEN_KEY_FILE", err.text);
    server->refusal_told |= err.errnum != ESRCH;
    return false;
}

static void accept_all(struct rg_server *server)
{
    for (;;) {
        bool tell;
        int fd = rg_accept(&server->acceptor, server->listen_fd, &tell);

        if (tell)
            rg_report(RG_LOG_WARN, RG_LISTENER_FULL_TEXT);
        if (fd < 0)
            return;
        if (!is_welcome(server, fd)) {
            close(fd);
            continue;
        }
        if (server->job.trust != RG_TRUST_USER)
            rg_sock_tune_tcp(fd);
        add_guest(server, fd);
    }
}

/* Why rank fails, into ret_text: a note of another rank names that one itself. */
static void tell_cause(int rank, bool of_other, const char *note, char ret_text[RG_ERROR_TEXT_MAX])
{
    if (of_other)
        snprintf(ret_text, RG_ERROR_TEXT_MAX, "%s", note);
    else
        snprintf(ret_text, RG_ERROR_TEXT_MAX, "rank %d: %s", rank, note);
}

/* A rank is lost without which the job cannot start, or at which it fails. */
static void lose(struct rg_server *server, const struct guest *guest)
{
    if (server->lost_rank >= 0)
        return;
    server->lost_rank = guest->rank;
    server->lost_ns = rg_now_ns();
    if (guest->note)
        tell_cause(guest->rank, guest->cut_off, guest->note, server->lost_text);
    else
        snprintf(server->lost_text, RG_ERROR_TEXT_MAX, RG_BOOT_DIED_TEXT, guest->rank);
}

/* Move what can be moved; free whoever is over. */
static void serve_guest(struct guest *guest, uint64_t now_ns)
{
    struct rg_server *server = guest->server;
    int r = rg_conn_pump(&guest->conn, NULL);
    bool stale = guest->rank < 0 && now_ns > guest->give_up_ns;
    bool answered = guest->leaving && !(rg_conn_events(&guest->conn) & POLLOUT);

    if (r == 0 && !stale && !answered)
        return;
    if (guest->rank >= 0 && !guest->leaving && !guest->goodbye)
        lose(server, guest);
    else if (guest->rank >= 0 && server->generation > 0)
        server->left_rank = guest->rank;
    guest_free(guest);
}

static void serve(struct rg_server *server)
{
    uint64_t now_ns = rg_now_ns();
    struct guest *next;

    if (server->listen_fd >= 0)
        accept_all(server);
    for (struct guest *g = server->guests; g; g = next) {
        next = g->next;
        serve_guest(g, now_ns);
    }
}

static int wait_for_work(struct rg_server *server)
{
    int nfds = 0, room = server->job.me.size + RG_SERVER_PENDING_MAX + 8;
    uint64_t now_ns = rg_now_ns();
    rg_autofree struct pollfd *fds = calloc((size_t) room, sizeof(*fds));

    if (!fds)
        return -ENOMEM;
    bool pauses = rg_accept_pauses(&server->acceptor);

    if (server->listen_fd >= 0 && !pauses)
        fds[nfds++] = (struct pollfd) { server->listen_fd, POLLIN, 0 };
    for (struct guest *g = server->guests; g && nfds < room; g = g->next)
        fds[nfds++] = (struct pollfd) { g->conn.fd, rg_conn_events(&g->conn), 0 };
    uint64_t left_ms = server->deadline_ns > now_ns
                           ? (server->deadline_ns - now_ns) / RG_NS_PER_MS + 1 : 0;

    /* Half-open connections are looked after once a second. */
    if (server->npending > 0 && left_ms > 1000)
        left_ms = 1000;
    if (pauses && left_ms > RG_ACCEPT_PAUSE_MS)
        left_ms = RG_ACCEPT_PAUSE_MS;
    if (poll(fds, (nfds_t) nfds, left_ms > INT_MAX ? INT_MAX : (int) left_ms) < 0 &&
        errno != EINTR)
        return -errno;
    return 0;
}

static bool all_arrived(const struct rg_server *server)
{
    for (int r = 1; r < server->job.me.size; r++)
        if (!server->ranks[r] || !server->ranks[r]->arrived)
            return false;
    return true;
}

static void fail_all(struct rg_server *server, int errnum, const char *text)
{
    struct rg_rankmsg_fence_failed failed = { server->generation + 1, (uint32_t) errnum,
                                              (char *) (uintptr_t) text, 0 };

    server->told = true;
    for (int r = 1; r < server->job.me.size; r++) {
        struct guest *guest = server->ranks[r];

        if (guest && rg_conn_send(&guest->conn, RG_RANKMSG_FENCE_FAILED,
                                  rg_rankmsg_fence_failed_fields, &failed) == 0)
            rg_conn_drain(&guest->conn, rg_now_ns() + CLOSE_MS * RG_NS_PER_MS);
    }
}

/* This fence has failed, and all hear why. */
static int give_up(struct rg_server *server, int errnum, const char *text, struct rg_error *err)
{
    fail_all(server, errnum, text);
    return rg_error_set_exit(err, errnum, errnum == ETIMEDOUT ? 124 : 0, "%s", text);
}

static int fail_missing(struct rg_server *server, struct rg_error *err)
{
    static const char *const hints[] = {
        [RG_TRUST_USER] = "; if they are on other hosts, give all ranks a REIGEN_KEY_FILE",
        [RG_TRUST_KEY] = "; do they have the same REIGEN_KEY_FILE?",
        [RG_TRUST_NONE] = "",
    };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree bool *missing = calloc((size_t) server->job.me.size, sizeof(bool));
    uint64_t waited_ms = (rg_now_ns() - server->began_ns) / RG_NS_PER_MS;

    if (!missing)
        return -ENOMEM;
    for (int r = 1; r < server->job.me.size; r++)
        missing[r] = !server->ranks[r] || !server->ranks[r]->arrived;
    rg_ranks_format(missing, server->job.me.size, &text);
    rg_buf_printf(&text, " did not come within %.*f s", waited_ms < 10000,
                  (double) waited_ms / 1000);
    rg_buf_printf(&text, "%s", server->generation == 0 ? hints[server->job.trust] : "");
    return give_up(server, ETIMEDOUT, rg_buf_text(&text), err);
}

static int fail_overfull(struct rg_server *server, struct rg_error *err)
{
    char text[RG_ERROR_TEXT_MAX];

    snprintf(text, sizeof(text), "the ranks have more to tell in one fence than the %u bytes that "
             "fit", RG_FENCE_NBYTES_MAX);
    return give_up(server, EMSGSIZE, text, err);
}

static int send_blobs(struct guest *guest, uint32_t generation, const struct rg_buf *blobs)
{
    size_t nbytes = rg_buf_nbytes(blobs), sent = 0;
    int r = 0;

    while (r == 0 && sent < nbytes) {
        size_t n = nbytes - sent < RG_FENCE_PART_MAX ? nbytes - sent : RG_FENCE_PART_MAX;
        struct rg_rankmsg_fence_done done = {
            generation, (uint32_t) (nbytes - sent - n),
            { (uint8_t *) (uintptr_t) rg_buf_bytes(blobs) + sent, n }, 0
        };
        r = rg_conn_send(&guest->conn, RG_RANKMSG_FENCE_DONE, rg_rankmsg_fence_done_fields, &done);
        sent += n;
    }
    return r;
}

static int answer(struct rg_server *server, const void *blob, size_t nbytes,
                  struct rg_blob *ret_blobs)
{
    rg_autobuf struct rg_buf blobs = RG_BUF_INIT;

    rg_buf_put_span(&blobs, blob, nbytes);
    for (int r = 1; r < server->job.me.size; r++)
        rg_buf_put_span(&blobs, server->ranks[r]->blob.data, server->ranks[r]->blob.nbytes);
    int r = rg_buf_status(&blobs);

    for (int i = 1; i < server->job.me.size && r == 0; i++) {
        struct guest *guest = server->ranks[i];

        /* One at a time: all ranks' answers together are the square of one rank's part. */
        r = send_blobs(guest, server->generation + 1, &blobs);
        if (r == 0)
            rg_conn_drain(&guest->conn, server->deadline_ns);
        forget_blob(guest);
    }
    return r < 0 ? r : rg_blobs_split(rg_buf_bytes(&blobs), rg_buf_nbytes(&blobs),
                                      server->job.me.size, RG_RANKMSG_BLOB_MAX, ret_blobs);
}

static bool all_came(const struct rg_server *server)
{
    for (int r = 1; r < server->job.me.size; r++)
        if (!server->came[r])
            return false;
    return true;
}

/* Ranks that have not come yet would look for rank 0 until their time is over. */
static void linger(struct rg_server *server)
{
    uint64_t until_ns = server->lost_ns + LINGER_MS * RG_NS_PER_MS;

    server->deadline_ns = until_ns < server->deadline_ns ? until_ns : server->deadline_ns;
    while (server->generation == 0 && !all_came(server) && rg_now_ns() < server->deadline_ns &&
           wait_for_work(server) == 0)
        serve(server);
    for (struct guest *g = server->guests; g; g = g->next)
        rg_conn_drain(&g->conn, rg_now_ns() + CLOSE_MS * RG_NS_PER_MS);
}

static void wipe_keys(struct rg_server *server)
{
    explicit_bzero(server->job.link_key, sizeof(server->job.link_key));
    explicit_bzero(server->job.me.key, sizeof(server->job.me.key));
}

int rg_server_fence(struct rg_server *server, const void *blob, size_t nbytes,
                    uint64_t deadline_ns, struct rg_blob *ret_blobs, struct rg_error *err)
{
    int r = 0;

    if (nbytes > RG_RANKMSG_BLOB_MAX)
        return rg_error_set(err, EMSGSIZE, "a rank's part of a fence may have %u bytes, not %zu",
                            RG_RANKMSG_BLOB_MAX, nbytes);
    server->deadline_ns = deadline_ns;
    server->began_ns = rg_now_ns();
    for (;;) {
        serve(server);
        if (server->lost_rank < 0 && server->left_rank >= 0) {
            server->lost_rank = server->left_rank;
            snprintf(server->lost_text, RG_ERROR_TEXT_MAX, "rank %d has left", server->lost_rank);
        }
        if (server->lost_rank >= 0) {
            fail_all(server, ECONNRESET, server->lost_text);
            linger(server);
            return rg_error_set(err, ECONNRESET, "%s", server->lost_text);
        }
        if (server->overfull)
            return fail_overfull(server, err);
        if (all_arrived(server))
            break;
        if (rg_now_ns() >= server->deadline_ns)
            return fail_missing(server, err);
        r = wait_for_work(server);
        if (r < 0)
            return rg_error_set(err, -r, "waiting for the other ranks: %s", strerror(-r));
    }
    server->deadline_ns = deadline_ns;
    r = answer(server, blob, nbytes, ret_blobs);
    if (r < 0)
        return rg_error_set(err, -r, "answering the other ranks: %s", strerror(-r));
    server->generation++;
    /* All are here: none else is let in, so that a later job on this port finds its own rank 0. */
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    server->listen_fd = -1;
    wipe_keys(server);
    return 0;
}

/* By PEER_DIED, where no fence waits. */
static void tell_all(struct rg_server *server, int rank, const char *text)
{
    if (server->told)
        return;
    server->told = true;
    for (int r = 1; r < server->job.me.size; r++) {
        struct guest *guest = server->ranks[r];

        if (guest && send_death(guest, rank, text) == 0)
            rg_conn_drain(&guest->conn, rg_now_ns() + CLOSE_MS * RG_NS_PER_MS);
    }
}

void rg_server_tell(struct rg_server *server, bool of_other, const char *text)
{
    char cause[RG_ERROR_TEXT_MAX];

    tell_cause(0, of_other, text, cause);
    tell_all(server, 0, cause);
}

int rg_server_poll(struct rg_server *server, int *ret_rank, struct rg_error *err)
{
    serve(server);
    if (server->lost_rank < 0)
        return 0;
    tell_all(server, server->lost_rank, server->lost_text);
    *ret_rank = server->lost_rank;
    rg_error_set(err, ECONNRESET, "%s", server->lost_text);
    return 1;
}

void rg_server_destroy(struct rg_server *server)
{
    if (!server)
        return;
    while (server->guests)
        guest_free(server->guests);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    wipe_keys(server);
    free(server->ranks);
    free(server->came);
    free(server);
}

void rg_server_after_fork(struct rg_server *server)
{
    for (struct guest *g = server->guests; g; g = g->next)
        close(g->conn.fd);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
}
