/* SPDX-License-Identifier: Apache-2.0 */
/* Whether srun, somewhere, is still there; see srundocker_task.h. */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cmd/compat/srundocker_task.h"

#define LOOK_MS 1000
#define AGAIN_MS 2000   /* from the first SIGTERM to the second, which kills */
#define CONNECT_MS 2000
#define SILENCES_MAX 10 /* calls without an answer, one after the other: its computer is gone */
#define BLIND_LOOKS 30  /* without a connection to watch, srun is called so seldom */
#define TABLE_MAX (8u << 20)
#define LINKS_MAX 64
#define ESTABLISHED 0x1
#define LISTENING 0xa

/* A line of /proc/net/tcp: addresses stand there as the kernel has them in memory, in
 * hexadecimal. */
struct line {
    char local[40], remote[40];
    unsigned local_port, remote_port, state, uid;
};

struct watch {
    struct sockaddr_storage address; /* srun's port */
    socklen_t address_size;
    char text[2][40];                /* its address as in tcp, and in tcp6 */
    unsigned port;
    bool here;                       /* it is on this computer */
    unsigned links[LINKS_MAX][2];    /* local and remote port of connections to srun's computer */
    int nlinks;
};

/* A process is one task of one srun: what its thread watches until the end. */
static struct watch watch;
static atomic_bool gone;

/* Call fn for each line of both tables until it returns true. Whether it did. */
static bool each_line(bool (*fn)(const struct line *line, void *arg), void *arg)
{
    static const char *const paths[] = { "/proc/net/tcp", "/proc/net/tcp6" };

    for (size_t i = 0; i < rg_array_len(paths); i++) {
        rg_autofree char *text = NULL;
        struct line line;
        if (rg_read_file(paths[i], TABLE_MAX, &text, NULL) < 0)
            continue;
        for (char *rest = text, *row; (row = strsep(&rest, "\n"));)
            if (sscanf(row, " %*[^:]: %39[0-9A-F]:%x %39[0-9A-F]:%x %x %*s %*s %*s %u",
                       line.local, &line.local_port, line.remote, &line.remote_port, &line.state,
                       &line.uid) == 6 &&
                fn(&line, arg))
                return true;
    }
    return false;
}

static bool is_sruns(const char *address)
{
    return strcmp(address, watch.text[0]) == 0 || strcmp(address, watch.text[1]) == 0;
}

static bool listens(const struct line *line, void *arg)
{
    (void) arg;
    return line->state == LISTENING && line->local_port == watch.port;
}

/* slurmstepd connects with the user's rights. */
static bool add_link(const struct line *line, void *arg)
{
    (void) arg;
    if (line->state == ESTABLISHED && is_sruns(line->remote) && line->uid == getuid() &&
        watch.nlinks < LINKS_MAX) {
        watch.links[watch.nlinks][0] = line->local_port;
        watch.links[watch.nlinks++][1] = line->remote_port;
    }
    return false;
}

static bool is_link(const struct line *line, void *arg)
{
    const unsigned *ports = arg;

    return line->state == ESTABLISHED && is_sruns(line->remote) && line->local_port == ports[0] &&
           line->remote_port == ports[1];
}

enum answer { ANSWERS, REFUSES, SILENT };

/* srun complains of a caller who says nothing, so it is called only when there is reason to. */
static enum answer call_srun(void)
{
    rg_autoclose int fd = socket(watch.address.ss_family,
                                 SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd out = { fd, POLLOUT, 0 };
    int error = 0;
    socklen_t n = sizeof error;

    if (fd < 0 || connect(fd, (struct sockaddr *) &watch.address, watch.address_size) == 0)
        return ANSWERS;
    if (errno != EINPROGRESS)
        return errno == ECONNREFUSED ? REFUSES : SILENT;
    if (poll(&out, 1, CONNECT_MS) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        return SILENT;
    return error == 0 ? ANSWERS : error == ECONNREFUSED ? REFUSES : SILENT;
}

/* Forget connections that have ended. How many did. */
static int drop_links(void)
{
    int kept = 0, before = watch.nlinks;

    for (int i = 0; i < before; i++) {
        if (each_line(is_link, watch.links[i])) {
            memmove(watch.links[kept], watch.links[i], sizeof watch.links[i]);
            kept++;
        }
    }
    watch.nlinks = kept;
    return before - kept;
}

/* Whether there is reason to doubt that srun is there. Short connections of Slurm's own may have
 * been among the first ones. */
static bool has_doubt(int look)
{
    if (watch.here)
        return !each_line(listens, NULL);
    int dropped = drop_links();

    if (!watch.nlinks)
        return dropped || look % BLIND_LOOKS == 0;
    return dropped && look > 1;
}

static void *look_after_srun(void *arg)
{
    int silences = 0;

    (void) arg;
    for (int look = 1;; look++) {
        poll(NULL, 0, LOOK_MS);
        enum answer answer = has_doubt(look) || silences ? call_srun() : ANSWERS;
        silences = answer == SILENT ? silences + 1 : 0;
        if (answer == REFUSES || silences == SILENCES_MAX)
            break;
    }
    gone = true;
    kill(getpid(), SIGTERM);
    poll(NULL, 0, AGAIN_MS);
    kill(getpid(), SIGTERM);
    return NULL;
}

bool rg_srun_is_gone(void)
{
    return gone;
}

/* The address as /proc/net has it. */
static void print_words(char *text, const uint32_t *words, int count)
{
    for (int i = 0; i < count; i++)
        snprintf(text + 8 * i, 9, "%08X", words[i]);
}

static bool find_srun(void)
{
    const char *host = getenv("SLURM_SRUN_COMM_HOST"), *port = getenv("SLURM_SRUN_COMM_PORT");
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *found;
    uint32_t words[4] = { 0, 0, htonl(0xffff), 0 };

    if (!host || !port || getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    memcpy(&watch.address, found->ai_addr, found->ai_addrlen);
    watch.address_size = found->ai_addrlen;
    freeaddrinfo(found);
    watch.port = (unsigned) atoi(port);
    if (watch.address.ss_family == AF_INET) {
        words[3] = ((struct sockaddr_in *) &watch.address)->sin_addr.s_addr;
        print_words(watch.text[0], &words[3], 1);
    } else {
        memcpy(words, &((struct sockaddr_in6 *) &watch.address)->sin6_addr, sizeof words);
    }
    print_words(watch.text[1], words, 4);
    return true;
}

/* Ours when we could listen there. */
static bool is_here(void)
{
    struct sockaddr_storage any = watch.address;
    rg_autoclose int fd = socket(any.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (any.ss_family == AF_INET)
        ((struct sockaddr_in *) &any)->sin_port = 0;
    else
        ((struct sockaddr_in6 *) &any)->sin6_port = 0;
    return fd >= 0 && bind(fd, (struct sockaddr *) &any, watch.address_size) == 0;
}

void rg_srun_watch_start(void)
{
    sigset_t all, before;
    pthread_t thread;

    if (!find_srun())
        return;
    watch.here = is_here() && each_line(listens, NULL);
    if (!watch.here)
        each_line(add_link, NULL);
    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, look_after_srun, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
