/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the ranks of a node share, and the descriptors by which they wake and watch each
 * other.
 */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <fcntl.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/handshake.h"
#include "coll/net/listener.h"
#include "coll/team/team_parts.h"
#include "coll/team/liveness.h"

#define PAGE 4096
#define NONCE_NBYTES RG_KEY_NBYTES
#define PURPOSE_NODE 0x65646f6eu /* "node" */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* From the leader to a member, with the memfd. */
struct segment_message {
    uint64_t nbytes;
    uint8_t nonce[NONCE_NBYTES];
};

/* From a member to the leader of itself, and from the leader of each other one: with its event
 * descriptor and its pidfd. */
struct peer_message {
    uint32_t node_rank;
    uint8_t has_pidfd; /* else the second descriptor is the first again */
};

static size_t round_up(size_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* The nonce stands behind the bells. */
static size_t nonce_offset(int node_size)
{
    return (size_t) node_size * sizeof(struct rg_bell);
}

static int make_memfd(size_t nbytes, int *ret_fd, struct rg_error *err)
{
    rg_autoclose int fd =
        memfd_create("reigen", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    struct rlimit limit;

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("reigen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return rg_error_set(err, errno, "shared memory (memfd_create): %s; REIGEN_PLANES=tcp does "
                            "without", strerror(errno));
    /* Beyond this limit ftruncate does not only fail, it also sends SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < nbytes)
        return rg_error_set(err, EFBIG,
                            "shared memory of %zu bytes: files may have %llu bytes at most here; "
                            "raise `ulimit -f`, or set REIGEN_PLANES=tcp",
                            nbytes, (unsigned long long) limit.rlim_cur);
    if (ftruncate(fd, (off_t) nbytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return rg_error_set(err, errno, "shared memory of %zu bytes: %s", nbytes,
                            strerror(errno));
    *ret_fd = rg_steal_fd(&fd);
    return 0;
}

/* fd -1: private memory, for a rank that is alone on its node. */
static int map(struct rg_team *team, int fd, size_t nbytes, struct rg_error *err)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
    void *at = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (at == MAP_FAILED)
        return rg_error_set(err, errno, "mapping %zu bytes of %s memory: %s", nbytes,
                            fd < 0 ? "private" : "shared", strerror(errno));
    /* A forked child (a data loader's worker) must not write here by mistake. */
    madvise(at, nbytes, MADV_DONTFORK);
    team->segment = at;
    team->segment_nbytes = nbytes;
    team->segment_start = round_up(nonce_offset(team->node_size) + NONCE_NBYTES);
    team->bells.bell = at;
    return 0;
}

static int make_bells(struct rg_team *team, struct rg_error *err)
{
    int n = team->node_size;

    team->bells.event_fd = malloc((size_t) n * sizeof(int));
    if (!team->bells.event_fd)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (int i = 0; i < n; i++)
        team->bells.event_fd[i] = -1;
    team->bells.nmembers = n;
    team->bells.me = team->node_rank;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return rg_error_set(err, errno, "eventfd: %s", strerror(errno));
    team->bells.event_fd[team->node_rank] = fd;
    return 0;
}

/* The number of a process in our own pid name space, from what /proc says of a pidfd; 0: not
 * visible. */
static pid_t pid_of(int pidfd)
{
    rg_autofree char *text = NULL;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    if (rg_read_file(path, 4096, &text, NULL) < 0)
        return 0;
    const char *line = strstr(text, "\nPid:");
    long pid = line ? strtol(line + 5, NULL, 10) : 0;

    return pid > 0 ? (pid_t) pid : 0;
}

/* Tell of a member over fd. 0 or -errno. */
static int introduce(const struct rg_team *team, int fd, int who, int pidfd, uint64_t deadline_ns)
{
    int event = team->bells.event_fd[who];
    int fds[2] = { event, pidfd >= 0 ? pidfd : event };
    struct peer_message peer = { .node_rank = (uint32_t) who, .has_pidfd = pidfd >= 0 };

    return rg_sock_send_fds(fd, &peer, sizeof(peer), fds, 2, deadline_ns);
}

/* Hear of the member expected, or of any with -1. 0 or -errno; -EBADMSG: it is known already, or
 * another. */
static int get_to_know(struct rg_team *team, int fd, int expected, uint64_t deadline_ns)
{
    struct peer_message message;
    rg_autoclose int event = -1, pidfd = -1;
    int fds[2], r = rg_sock_recv_fds(fd, &message, sizeof(message), fds, 2, deadline_ns);

    if (r < 0)
        return r;
    event = fds[0];
    pidfd = fds[1];
    if (message.node_rank >= (uint32_t) team->node_size ||
        team->bells.event_fd[message.node_rank] >= 0 ||
        (expected >= 0 && message.node_rank != (uint32_t) expected))
        return -EBADMSG;
    struct rg_team_peer *peer = &team->peers[team->node_ranks[message.node_rank]];

    team->bells.event_fd[message.node_rank] = rg_steal_fd(&event);
    if (message.has_pidfd) {
        pid_t pid = pid_of(pidfd);

        peer->pid = pid > 0 ? pid : peer->pid;
        peer->pidfd = rg_steal_fd(&pidfd);
    }
    return 0;
}

static int fail_with(struct rg_team *team, int peer, int r, struct rg_error *err)
{
    int rank = team->node_ranks[peer];

    r = r == -ECONNRESET ? -EPIPE : r;
    return rg_error_set(err, -r,
                        "sharing memory with rank %d on %s: %s%s",
                        rg_team_world_rank(team, rank), team->peers[rank].host,
                        r == -EPIPE ? "it has gone" : r == -EACCES ? "it has another key"
                                                                  : strerror(-r),
                        r == -EPROTO ? " (too many open files? see ulimit -n)" : "");
}

static int join_leader(struct rg_team *team, int fd, size_t nbytes, uint64_t deadline_ns,
                       struct rg_error *err)
{
    rg_autoclose int own_pidfd = rg_pidfd_open(getpid()), memfd = -1;
    struct segment_message segment;
    struct rg_handshake handshake;
    int r = rg_handshake_dial(&handshake, fd, team->data_key, PURPOSE_NODE, team->rank,
                          team->node_ranks[0]);

    if (r == 0)
        r = rg_handshake_finish(&handshake, deadline_ns);
    rg_handshake_fini(&handshake);
    if (r == 0)
        r = introduce(team, fd, team->node_rank, own_pidfd, deadline_ns);
    if (r == 0)
        r = rg_sock_recv_fds(fd, &segment, sizeof(segment), &memfd, 1, deadline_ns);
    if (r < 0)
        return fail_with(team, 0, r, err);
    if (segment.nbytes != nbytes)
        return rg_error_set(err, EINVAL, "%zu bytes of shared memory are wanted, and the leader, "
                            "rank %d, has %llu: they run different builds or settings", nbytes,
                            rg_team_world_rank(team, team->node_ranks[0]),
                            (unsigned long long) segment.nbytes);
    r = map(team, memfd, nbytes, err);
    if (r < 0)
        return r;
    if (memcmp((uint8_t *) team->segment + nonce_offset(team->node_size), segment.nonce,
               NONCE_NBYTES) != 0)
        return rg_error_set(err, ENOTSUP, "the memory received from rank %d is not shared: set "
                            "REIGEN_PLANES=tcp", rg_team_world_rank(team, team->node_ranks[0]));
    for (int i = 0; i < team->node_size - 1 && r == 0; i++)
        r = get_to_know(team, fd, -1, deadline_ns);
    return r < 0 ? fail_with(team, 0, r, err) : 0;
}

/* Wait a moment for a member to come, unless one never will. 0, -ETIMEDOUT at the deadline, or
 * -errno with err. */
static int await_member(struct rg_team *team, struct rg_boot *boot, struct rg_listener *listener,
                        uint64_t deadline_ns, struct rg_error *err)
{
    uint64_t until_ns = rg_now_ns() + RG_LIVENESS_MS * RG_NS_PER_MS;
    int r = rg_listener_wait(listener, until_ns < deadline_ns ? until_ns : deadline_ns);

    if (r != -ETIMEDOUT || rg_now_ns() >= deadline_ns)
        return r;
    return rg_liveness_check(team, boot, err);
}

/* Let all members in: their sockets by node rank. */
static int gather(struct rg_team *team, struct rg_boot *boot, struct rg_listener *listener,
                  int *sockets, uint64_t deadline_ns, struct rg_error *err)
{
    for (int missing = team->node_size - 1; missing > 0;) {
        int rank = -1, fd = rg_listener_claim_any(listener, PURPOSE_NODE, &rank);

        if (fd < 0) {
            int r = await_member(team, boot, listener, deadline_ns, err);

            if (r == 0)
                continue;
            if (r != -ETIMEDOUT)
                return r;
            for (int i = 1; i < team->node_size; i++)
                if (sockets[i] < 0)
                    return fail_with(team, i, -ETIMEDOUT, err);
        }
        int i = team->peers[rank].node == team->node ? team->peers[rank].node_rank : 0;

        if (i == 0 || sockets[i] >= 0) {
            close(fd);
            continue;
        }
        sockets[i] = fd;
        missing--;
    }
    return 0;
}

static int serve_members(struct rg_team *team, const int *sockets, int memfd,
                         const struct segment_message *segment, uint64_t deadline_ns,
                         struct rg_error *err)
{
    rg_autoclose int own_pidfd = rg_pidfd_open(getpid());

    for (int i = 1; i < team->node_size; i++) {
        int r = get_to_know(team, sockets[i], i, deadline_ns);

        if (r == 0)
            r = rg_sock_send_fds(sockets[i], segment, sizeof(*segment), &memfd, 1, deadline_ns);
        if (r < 0)
            return fail_with(team, i, r, err);
    }
    for (int to = 1; to < team->node_size; to++)
        for (int who = 0; who < team->node_size; who++) {
            int pidfd = who == 0 ? own_pidfd : team->peers[team->node_ranks[who]].pidfd;
            int r = who == to ? 0 : introduce(team, sockets[to], who, pidfd, deadline_ns);

            if (r < 0)
                return fail_with(team, to, r, err);
        }
    return 0;
}

static int lead(struct rg_team *team, struct rg_boot *boot, size_t nbytes, int take_listen_fd,
                uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_listener_options options = { .listen_fds = { take_listen_fd }, .nlisten = 1,
                                        .check_uid = true,
                                        .key = team->data_key, .rank = team->rank,
                                        .size = team->size };
    struct segment_message segment = { .nbytes = nbytes };
    rg_autoclose int memfd = -1;
    struct rg_listener *listener;
    int r = rg_listener_create(&options, &listener);

    if (r < 0)
        return rg_error_set(err, -r, "out of memory");
    int *sockets = malloc((size_t) team->node_size * sizeof(int));

    r = sockets ? 0 : rg_error_set(err, ENOMEM, "out of memory");
    for (int i = 0; sockets && i < team->node_size; i++)
        sockets[i] = -1;
    if (r == 0)
        r = make_memfd(nbytes, &memfd, err);
    if (r == 0)
        r = map(team, memfd, nbytes, err);
    if (r == 0) {
        r = rg_key_generate(segment.nonce);
        memcpy((uint8_t *) team->segment + nonce_offset(team->node_size), segment.nonce,
               NONCE_NBYTES);
        if (r < 0)
            rg_error_set(err, -r, "no randomness: %s", strerror(-r));
    }
    if (r == 0)
        r = gather(team, boot, listener, sockets, deadline_ns, err);
    if (r == 0)
        r = serve_members(team, sockets, memfd, &segment, deadline_ns, err);
    for (int i = 1; sockets && i < team->node_size; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
    free(sockets);
    rg_listener_destroy(listener);
    return r;
}

int rg_segment_share(struct rg_team *team, struct rg_boot *boot, size_t progress_nbytes,
                     int *unix_fd, int leader_fd, uint64_t deadline_ns, struct rg_error *err)
{
    size_t nbytes = round_up(nonce_offset(team->node_size) + NONCE_NBYTES) +
                    round_up(progress_nbytes);
    int r = make_bells(team, err);

    if (r < 0)
        return r;
    if (team->node_size == 1)
        return map(team, -1, nbytes, err);
    if (team->node_rank > 0)
        return join_leader(team, leader_fd, nbytes, deadline_ns, err);
    return lead(team, boot, nbytes, rg_steal_fd(unix_fd), deadline_ns, err);
}
