/* SPDX-License-Identifier: Apache-2.0 */
/* Packets, not a stream: a question is whole when it is there, and an answer leaves at once. */
#include "launch/control/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"

#define VERSION 3
#define QUESTION_MAX 1024
#define CLIENTS_MAX 8 /* who says nothing makes room for the next but seven */
#define BACKLOG 64
#define LOOK_MS 20 /* between two looks at a queue that is full */

struct client {
    struct rg_control *control;
    struct rg_io io;
    int fd; /* -1: none */
};

struct rg_control {
    struct rg_loop *loop;
    struct rg_io io;
    struct rg_timer pause;
    struct rg_acceptor acceptor;
    int fd;
    rg_control_answer *answer;
    void *arg;
    struct client clients[CLIENTS_MAX];
    unsigned next;
};

static socklen_t address_of(const char *job_id, struct sockaddr_un *ret_address)
{
    char name[sizeof(ret_address->sun_path) + 1];

    snprintf(name, sizeof(name), "@reigen-job-%s", job_id);
    return rg_unix_address(name, ret_address);
}

/* A process of this user that can be seen from here. One without a number here is in a container or
 * pod beside this one, which may have the host's network and any user's number. */
static bool is_own(int fd)
{
    struct ucred peer;
    socklen_t nbytes = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &nbytes) == 0 && peer.pid > 0 &&
           peer.uid == geteuid();
}

/* --- the launcher's side ---------------------------------------------------------------------- */

static void drop(struct client *client)
{
    rg_io_stop(&client->io);
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

/* false: it is none. */
static bool read_question(const uint8_t *bytes, size_t nbytes, struct rg_control_request *request)
{
    struct rg_reader reader = rg_reader_make(bytes, nbytes);
    uint32_t version = rg_reader_u32(&reader);

    *request = (struct rg_control_request){ 0 };
    if (version != VERSION)
        return false;
    request->question = (enum rg_control_question) rg_reader_u32(&reader);
    request->deadline_ms = rg_reader_u64(&reader);
    request->from = rg_reader_u32(&reader);
    request->force = rg_reader_u8(&reader) != 0;
    size_t length = 0;
    const uint8_t *host = rg_reader_span(&reader, sizeof(request->host) - 1, &length);
    if (rg_reader_done(&reader) < 0)
        return false;
    memcpy(request->host, host, length);
    return true;
}

static bool has_left(int fd)
{
    struct pollfd look = { .fd = fd, .events = POLLRDHUP };

    return poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void on_question(void *arg, int events)
{
    struct client *client = arg;
    rg_autobuf struct rg_buf answer = RG_BUF_INIT;
    struct rg_control_request request;
    uint8_t bytes[QUESTION_MAX];
    int room = RG_CONTROL_ANSWER_MAX;

    (void) events;
    ssize_t n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && has_left(client->fd)) { /* it was told that nobody answers: nothing may follow */
        drop(client);
        return;
    }
    if (n > 0 && read_question(bytes, (size_t) n, &request))
        client->control->answer(client->control->arg, &request, &answer);
    else if (n > 0)
        rg_buf_printf(&answer, "{\"error\":\"version\"}");
    setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (rg_buf_nbytes(&answer) > RG_CONTROL_ANSWER_MAX) {
        rg_buf_fini(&answer);
        rg_buf_printf(&answer, "{\"error\":\"too-long\"}");
    }
    if (n > 0 && rg_buf_status(&answer) == 0)
        send(client->fd, rg_buf_bytes(&answer), rg_buf_nbytes(&answer),
             MSG_DONTWAIT | MSG_NOSIGNAL);
    drop(client);
}

static void on_client(void *arg, int events);

static void listen_again(void *arg)
{
    struct rg_control *control = arg;

    rg_io_start(&control->io, control->loop, control->fd, RG_IO_READ, on_client, control);
}

static void on_client(void *arg, int events)
{
    struct rg_control *control = arg;
    bool tell;
    int fd = rg_accept(&control->acceptor, control->fd, &tell);

    (void) events;
    if (fd == -EMFILE) {
        rg_io_stop(&control->io);
        rg_timer_start(&control->pause, control->loop, RG_ACCEPT_PAUSE_MS, 0, listen_again,
                       control);
    }
    if (fd < 0)
        return;
    if (!is_own(fd)) {
        close(fd);
        return;
    }
    struct client *client = &control->clients[control->next++ % CLIENTS_MAX];
    drop(client);
    client->fd = fd;
    rg_io_start(&client->io, control->loop, fd, RG_IO_READ, on_question, client);
}

int rg_control_listen(struct rg_loop *loop, const char *job_id, rg_control_answer *answer,
                      void *arg, struct rg_control **ret_control)
{
    struct sockaddr_un address;
    socklen_t nbytes = address_of(job_id, &address);
    struct rg_control *control = calloc(1, sizeof(*control));

    if (!control)
        return -ENOMEM;
    *control = (struct rg_control){ .loop = loop, .answer = answer, .arg = arg };
    for (int i = 0; i < CLIENTS_MAX; i++)
        control->clients[i] = (struct client){ .control = control, .fd = -1 };
    control->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = nbytes == 0 ? -ENAMETOOLONG : 0;
    if (r == 0 && (control->fd < 0 ||
                   bind(control->fd, (struct sockaddr *) &address, nbytes) < 0 ||
                   listen(control->fd, BACKLOG) < 0))
        r = -errno;
    if (r < 0) {
        rg_control_close(control);
        return r;
    }
    listen_again(control);
    *ret_control = control;
    return 0;
}

void rg_control_close(struct rg_control *control)
{
    if (!control)
        return;
    for (int i = 0; i < CLIENTS_MAX; i++)
        drop(&control->clients[i]);
    rg_timer_stop(&control->pause);
    rg_io_stop(&control->io);
    if (control->fd >= 0)
        close(control->fd);
    free(control);
}

/* --- the other side --------------------------------------------------------------------------- */

/* A launcher that is stopped takes nobody in; its queue may be full. */
static int reach(int fd, const struct sockaddr_un *address, socklen_t nbytes, uint64_t until_ns)
{
    while (connect(fd, (const struct sockaddr *) address, nbytes) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (rg_now_ns() >= until_ns)
            return -ETIMEDOUT;
        rg_sleep_ms(LOOK_MS);
    }
    return 0;
}

static int put_question(int fd, const struct rg_control_request *request)
{
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;

    rg_buf_put_u32(&bytes, VERSION);
    rg_buf_put_u32(&bytes, request->question);
    rg_buf_put_u64(&bytes, request->deadline_ms);
    rg_buf_put_u32(&bytes, request->from);
    rg_buf_put_u8(&bytes, request->force);
    rg_buf_put_str(&bytes, request->host);
    if (rg_buf_status(&bytes) < 0)
        return rg_buf_status(&bytes);
    return send(fd, rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A descriptor on which the answer will come, or -errno. */
static int ask(const char *job_id, const struct rg_control_request *request, uint64_t until_ns)
{
    struct sockaddr_un address;
    socklen_t nbytes = address_of(job_id, &address);
    rg_autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    int r = nbytes == 0 ? -ECONNREFUSED : reach(fd, &address, nbytes, until_ns);
    if (r == 0 && !is_own(fd))
        r = -EPERM;
    if (r == 0)
        r = put_question(fd, request);
    return r < 0 ? r : rg_steal_fd(&fd);
}

int rg_control_begin(const char *job_id, const struct rg_control_request *request)
{
    return ask(job_id, request, 0);
}

int rg_control_take(int fd, struct rg_buf *answer)
{
    uint8_t *room = rg_buf_reserve(answer, RG_CONTROL_ANSWER_MAX);

    if (!room)
        return -ENOMEM;
    ssize_t n = recv(fd, room, RG_CONTROL_ANSWER_MAX, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 ? -errno : -ECONNRESET;
    rg_buf_commit(answer, (size_t) n);
    return 0;
}

int rg_control_ask(const char *job_id, const struct rg_control_request *request,
                   uint64_t timeout_ms, struct rg_buf *answer)
{
    uint64_t until_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    rg_autoclose int fd = ask(job_id, request, until_ns);
    int r = fd < 0 ? fd : rg_fd_wait(fd, POLLIN, until_ns);

    return r < 0 ? r : rg_control_take(fd, answer);
}
