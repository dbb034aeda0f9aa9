/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever connects may be slow, silent or hostile: nothing here waits for him, and he has no more
 * of the head than one of a few places, for a while. */
#include "head/metrics/server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"
#include "head/metrics/request.h"

#define BACKLOG 64
#define LINGER_MS 2000 /* for what a client may still send, so that it does not lose the answer */
#define HEADER_MAX 512
#define NUMBER_MAX 64 /* an address in digits */

/* One text that several clients may be taking. */
struct page {
    int users;
    uint64_t made_ns;
    struct rg_buf text;
};

struct client {
    struct rg_server *server;
    int fd; /* -1: the place is free */
    struct rg_io io;
    struct rg_timer timer;
    uint64_t came; /* so many came before it */
    char asked[RG_REQUEST_MAX];
    size_t nasked;
    char header[HEADER_MAX];
    size_t nheader, nsent; /* sent: of header and page together */
    struct page *page;     /* NULL: no body */
};

struct rg_server {
    struct rg_loop *loop;
    int fd;
    struct rg_io io;
    struct rg_timer pause;
    struct rg_acceptor acceptor;
    rg_server_page *page;
    void *arg;
    uint64_t ncame;
    char url[NUMBER_MAX + sizeof("http://[]:65535/metrics")];
    struct page *latest[RG_METRICS_FORMATS]; /* or NULL */
    struct client clients[RG_SERVER_CLIENTS_MAX];
};

/* --- the page --------------------------------------------------------------------------------- */

static void release(struct page *page)
{
    if (!page || --page->users > 0)
        return;
    rg_buf_fini(&page->text);
    free(page);
}

/* The caller's to release. NULL: no memory. */
static struct page *take_page(struct rg_server *server, enum rg_metrics_format format)
{
    struct page **latest = &server->latest[format];

    if (!*latest || rg_now_ns() - (*latest)->made_ns >= RG_SERVER_FRESH_MS * RG_NS_PER_MS) {
        struct page *made = calloc(1, sizeof(*made));
        if (!made)
            return NULL;
        made->users = 1;
        server->page(server->arg, format, &made->text);
        made->made_ns = rg_now_ns(); /* however long it took, something else has its turn now */
        if (rg_buf_status(&made->text) < 0) {
            release(made);
            return NULL;
        }
        release(*latest);
        *latest = made;
    }
    (*latest)->users++;
    return *latest;
}

/* --- a client --------------------------------------------------------------------------------- */

static void drop(struct client *client)
{
    rg_io_stop(&client->io);
    rg_timer_stop(&client->timer);
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    release(client->page);
    client->page = NULL;
}

static void too_slow(void *arg)
{
    drop(arg);
}

/* Closing at once would throw away what the client has not read, if it has sent more than we have
 * looked at. */
static void on_rest(void *arg, int events)
{
    struct client *client = arg;
    ssize_t n = recv(client->fd, client->asked, sizeof(client->asked), MSG_DONTWAIT);

    (void) events;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        drop(client);
}

static void linger(struct client *client)
{
    struct rg_loop *loop = client->server->loop;

    shutdown(client->fd, SHUT_WR);
    rg_timer_start(&client->timer, loop, LINGER_MS, 0, too_slow, client);
    rg_io_start(&client->io, loop, client->fd, RG_IO_READ, on_rest, client);
}

/* One piece, so that a large page does not hold up the job. */
static ssize_t send_piece(struct client *client)
{
    size_t at = client->nsent, npage = client->page ? rg_buf_nbytes(&client->page->text) : 0;
    int more = MSG_DONTWAIT | MSG_NOSIGNAL;

    if (at < client->nheader)
        return send(client->fd, client->header + at, client->nheader - at,
                    npage ? more | MSG_MORE : more);
    at -= client->nheader;
    return send(client->fd, rg_buf_bytes(&client->page->text) + at, npage - at, more);
}

static void on_answer(void *arg, int events)
{
    struct client *client = arg;
    size_t all = client->nheader + (client->page ? rg_buf_nbytes(&client->page->text) : 0);
    ssize_t n = send_piece(client);

    (void) events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        drop(client);
        return;
    }
    client->nsent += (size_t) n;
    if (client->nsent == all)
        linger(client);
}

static const char *reason_of(enum rg_request_status status)
{
    switch (status) {
    case RG_REQUEST_OK: return "OK";
    case RG_REQUEST_NOT_FOUND: return "Not Found";
    case RG_REQUEST_METHOD: return "Method Not Allowed";
    case RG_REQUEST_TOO_LARGE: return "Request Header Fields Too Large";
    case RG_REQUEST_VERSION: return "HTTP Version Not Supported";
    case RG_REQUEST_BAD:
    case RG_REQUEST_MORE: break;
    }
    return "Bad Request";
}

static void put_header(struct client *client, int status, const char *reason, const char *type,
                       size_t nbytes)
{
    client->nheader = (size_t) snprintf(
        client->header, sizeof(client->header),
        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
        status, reason, type, nbytes, status == RG_REQUEST_METHOD ? "Allow: GET, HEAD\r\n" : "");
}

/* What has no page has a word in its place. */
static void refuse(struct client *client, int status, const char *reason, bool head)
{
    char words[128];
    int n = snprintf(words, sizeof(words), "%s: this is reigen run --metrics, see /metrics\n",
                     reason);

    put_header(client, status, reason, "text/plain; charset=utf-8", (size_t) n);
    if (!head)
        client->nheader += (size_t) snprintf(client->header + client->nheader,
                                             sizeof(client->header) - client->nheader, "%s",
                                             words);
}

static void grant(struct client *client, const struct rg_http_asked *asked)
{
    static const char *const types[] = {
        [RG_METRICS_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
        [RG_METRICS_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    enum rg_metrics_format format = asked->openmetrics ? RG_METRICS_OPENMETRICS
                                                       : RG_METRICS_PROMETHEUS;
    struct page *page = take_page(client->server, format);

    if (!page) {
        refuse(client, 503, "Service Unavailable", asked->head);
        return;
    }
    put_header(client, RG_REQUEST_OK, reason_of(RG_REQUEST_OK), types[format],
               rg_buf_nbytes(&page->text));
    if (asked->head)
        release(page);
    else
        client->page = page;
}

static void on_question(void *arg, int events)
{
    struct client *client = arg;
    struct rg_http_asked asked = { false, false };
    ssize_t n = recv(client->fd, client->asked + client->nasked,
                     sizeof(client->asked) - client->nasked, MSG_DONTWAIT);

    (void) events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(client);
        return;
    }
    client->nasked += (size_t) n;
    enum rg_request_status status = rg_request_read(client->asked, client->nasked, &asked);
    if (status == RG_REQUEST_MORE)
        return;
    if (status == RG_REQUEST_OK)
        grant(client, &asked);
    else
        refuse(client, (int) status, reason_of(status), asked.head);
    rg_timer_start(&client->timer, client->server->loop, RG_SERVER_ANSWER_MS, 0, too_slow, client);
    rg_io_start(&client->io, client->server->loop, client->fd, RG_IO_WRITE, on_answer, client);
}

/* --- letting them in -------------------------------------------------------------------------- */

/* A free place, or that of the oldest. */
static struct client *find_place(struct rg_server *server)
{
    struct client *found = &server->clients[0];

    for (int i = 0; i < RG_SERVER_CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];
        if (client->fd < 0)
            return client;
        if (client->came < found->came)
            found = client;
    }
    return found;
}

static void on_client(void *arg, int events);

static void listen_again(void *arg)
{
    struct rg_server *server = arg;

    rg_io_start(&server->io, server->loop, server->fd, RG_IO_READ, on_client, server);
}

static void on_client(void *arg, int events)
{
    struct rg_server *server = arg;
    bool tell;
    int fd = rg_accept(&server->acceptor, server->fd, &tell);

    (void) events;
    if (fd == -EMFILE) {
        rg_io_stop(&server->io);
        rg_timer_start(&server->pause, server->loop, RG_ACCEPT_PAUSE_MS, 0, listen_again, server);
    }
    if (fd < 0)
        return;
    struct client *client = find_place(server);
    drop(client);
    client->fd = fd;
    client->came = server->ncame++;
    client->nasked = client->nheader = client->nsent = 0;
    rg_timer_start(&client->timer, server->loop, RG_SERVER_ASK_MS, 0, too_slow, client);
    rg_io_start(&client->io, server->loop, fd, RG_IO_READ, on_question, client);
}

/* --- its address ------------------------------------------------------------------------------ */

/* A socket that listens, or -errno. */
static int listen_at(const struct addrinfo *at)
{
    rg_autoclose int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return rg_steal_fd(&fd);
}

/* Where a name has several addresses, the next is tried when this computer has not got one. */
static int listen_among(const struct addrinfo *all)
{
    int fd = -EADDRNOTAVAIL;

    for (const struct addrinfo *at = all;
         at && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT); at = at->ai_next)
        fd = listen_at(at);
    return fd;
}

static int refuse_address(const char *host, int port, int r, struct rg_error *err)
{
    int code = r == -EADDRINUSE ? RG_EXIT_UNAVAILABLE
               : r == -EACCES   ? RG_EXIT_NO_PERMISSION
                                : RG_EXIT_USAGE;

    return rg_error_set_exit(err, -r, code, "--metrics: cannot listen at port %d of %s: %s%s", port,
                             host, strerror(-r),
                             r == -EADDRINUSE      ? "; name another port, or 0 for any"
                             : r == -EACCES        ? "; name a port above 1023"
                             : r == -EADDRNOTAVAIL ? "; it is no address of this computer" : "");
}

static int look_up(const char *host, int port, struct addrinfo **ret_all, struct rg_error *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    char service[8];

    snprintf(service, sizeof(service), "%d", port);
    int r = getaddrinfo(host, service, &hints, ret_all);

    /* A system or an image without /etc/hosts knows no localhost; everybody knows what it is. */
    if (r != 0 && strcmp(host, "localhost") == 0)
        r = getaddrinfo("127.0.0.1", service, &hints, ret_all);
    return r == 0 ? 0
                  : rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                      "--metrics: %s is no address that is known here: %s", host,
                                      r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
}

static int find_url(struct rg_server *server)
{
    struct sockaddr_storage own;
    socklen_t nbytes = sizeof(own);
    char host[NUMBER_MAX], port[8];

    if (getsockname(server->fd, (struct sockaddr *) &own, &nbytes) < 0)
        return -errno;
    if (getnameinfo((struct sockaddr *) &own, nbytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return -EINVAL;
    snprintf(server->url, sizeof(server->url), strchr(host, ':') ? "http://[%s]:%s/metrics"
                                                                 : "http://%s:%s/metrics",
             host, port);
    return 0;
}

struct rg_server *rg_server_create(int take_fd)
{
    struct rg_server *server = calloc(1, sizeof(*server));

    if (!server) {
        close(take_fd);
        return NULL;
    }
    for (int i = 0; i < RG_SERVER_CLIENTS_MAX; i++)
        server->clients[i] = (struct client){ .server = server, .fd = -1 };
    server->fd = take_fd;
    return server;
}

int rg_server_open(const char *host, int port, struct rg_server **ret_server,
                   struct rg_error *err)
{
    struct addrinfo *all;
    int r = look_up(host, port, &all, err);

    if (r < 0)
        return r;
    int fd = listen_among(all);
    freeaddrinfo(all);
    if (fd < 0)
        return refuse_address(host, port, fd, err);
    struct rg_server *server = rg_server_create(fd);
    if (!server)
        return rg_error_memory(err);
    r = find_url(server);
    if (r < 0) {
        rg_server_close(server);
        return refuse_address(host, port, r, err);
    }
    *ret_server = server;
    return 0;
}

void rg_server_start(struct rg_server *server, struct rg_loop *loop, rg_server_page *page,
                     void *arg)
{
    server->loop = loop;
    server->page = page;
    server->arg = arg;
    listen_again(server);
}

const char *rg_server_url(const struct rg_server *server)
{
    return server->url;
}

void rg_server_close(struct rg_server *server)
{
    if (!server)
        return;
    for (int i = 0; i < RG_SERVER_CLIENTS_MAX; i++)
        drop(&server->clients[i]);
    rg_timer_stop(&server->pause);
    rg_io_stop(&server->io);
    close(server->fd);
    for (int i = 0; i < RG_METRICS_FORMATS; i++)
        release(server->latest[i]);
    free(server);
}
