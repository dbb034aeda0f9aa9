/* SPDX-License-Identifier: Apache-2.0 */
/* A pod calls the head until it answers. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/say.h"
#include "base/time.h"
#include "agent/pod/internal.h"
#include "agent/start/dial.h"

#define PAUSE_MIN_MS 20  /* between calls: a 30th of the time that was waited so far, */
#define PAUSE_MAX_MS 1000 /* between these */
/* A Service whose pod is not there yet refuses some calls, and then says nothing, as kernels refuse
 * no more than one a second. A call that is given up is made anew; one that is waited for, a second
 * later: so do not wait for long at first. */
#define CALL_MIN_MS 100  /* for a connection: an 8th of the time that was waited so far */
#define SAID_MAX 10      /* causes that the log tells at once, and then only after */
#define SAID_PAUSE_MS 60000 /* each: a pod may wait for days */
#define SILENT_S 30    /* then the kernel asks whether the head's is still there, */
#define ASK_S 10       /* so often, */
#define ASKS 3         /* and so many times */

static void watch_peer(int fd)
{
    static const int on = 1, silent_s = SILENT_S, ask_s = ASK_S, asks = ASKS;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &silent_s, sizeof(silent_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &ask_s, sizeof(ask_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &asks, sizeof(asks));
}

struct said {
    char why[RG_DIAL_WHY_MAX];
    uint64_t at_ns;
    int count;
};

/* What is in the way, when that changes. */
static void say(const struct rg_pod *pod, struct said *said, const char *why)
{
    if (strcmp(said->why, why) == 0 ||
        (said->count >= SAID_MAX && rg_now_ns() - said->at_ns < SAID_PAUSE_MS * RG_NS_PER_MS))
        return;
    rg_say("%s waits for a job of the head at %s", pod->itself, strcpy(said->why, why));
    said->at_ns = rg_now_ns();
    said->count++;
}

static unsigned call_ms(uint64_t waited_ms)
{
    uint64_t ms = waited_ms / 8;

    return (unsigned) (ms < CALL_MIN_MS          ? CALL_MIN_MS
                       : ms > RG_DIAL_CONNECT_MS ? RG_DIAL_CONNECT_MS : ms);
}

static bool rest(uint64_t waited_ms, int watched_fd)
{
    struct pollfd watched = { .fd = watched_fd, .events = POLLIN };
    uint64_t ms = waited_ms / 30;

    ms = ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : ms;
    return poll(&watched, 1, (int) ms) <= 0;
}

int rg_pod_call(const struct rg_pod *pod, uint8_t key[RG_KEY_NBYTES], uint64_t begin_ns,
                uint64_t limit_ms, int watched_fd, struct rg_error *err)
{
    char now[RG_DIAL_WHY_MAX],
        why[RG_DIAL_WHY_MAX] = "it hangs up at once, as if this one were not of its job";
    struct said said = { .count = 0 };
    bool answered = false;

    for (;;) {
        uint64_t waited_ms = (rg_now_ns() - begin_ns) / RG_NS_PER_MS;
        if (limit_ms && waited_ms >= limit_ms)
            break;
        unsigned ms = call_ms(waited_ms);
        int fd = rg_agent_dial_once(pod->address, pod->place, key, ms, now);
        if (fd >= 0) {
            watch_peer(fd);
            return fd;
        }
        /* A short silence says less than what was said before. */
        if (fd != -ETIMEDOUT || !answered || ms == RG_DIAL_CONNECT_MS)
            strcpy(why, now);
        answered |= fd != -ETIMEDOUT;
        if (watched_fd < 0 && (!limit_ms || fd == -EACCES))
            say(pod, &said, why);
        if (!rest(waited_ms, watched_fd))
            return -EINTR;
        pod->key(key, NULL); /* the kubelet writes it anew when the Secret changes */
    }
    return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_TIMEOUT,
                             "the head, which is %s, has not answered within %.6g "
                             "s (--start-timeout): %s; %s",
                             pod->head, (double) limit_ms / 1000.0, why, pod->doubt);
}
