/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl in the loop. What it brings is kept until it has returned, since nobody may free its
 * handles from inside. It follows no redirect by itself: it would take the body, and a method that
 * it was told, to whoever asks for them.
 */
#include "platform/common/http/http.h"
#include "platform/common/http/url.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/str.h"
#include "base/time.h"
#include "platform/common/http/curl_library.h"

#define CONNECT_MS 10000
#define SOCKETS_MAX 8
#define UNASKED_MAX 4096 /* of a request */
/* A server that is gone without a word is noticed so. */
#define QUIET_S 15
#define PROBE_S 5
#define LOST_MS 30000

struct http_socket {
    struct rg_http *http;
    struct rg_io io;
    int fd;
    bool used;
};

struct rg_http {
    struct rg_loop *loop;
    const struct rg_curl_library *curl;
    struct rg_http_options options;
    struct rg_http_request request; /* the one that goes on; method and body change by redirects */
    char *url;                      /* where it goes now */
    uint64_t deadline_ns;           /* 0: none */
    int nhops;
    void *multi, *easy;
    struct rg_curl_list *headers;
    char cause[RG_CURL_ERROR_MAX];
    struct rg_buf body;
    struct rg_http_reply reply;
    struct rg_timer curl_timer;
    struct http_socket sockets[SOCKETS_MAX];
    bool authorized; /* the first of the headers says who asks */
    bool added, too_large;
};

_Static_assert(RG_HTTP_CAUSE_MAX >= RG_CURL_ERROR_MAX, "libcurl's words are not cut");

static void pump(struct rg_http *http);

/* --- libcurl in the loop ---------------------------------------------------------------------- */

static void on_ready(void *arg, int events)
{
    struct http_socket *socket = arg;
    struct rg_http *http = socket->http;
    int running, theirs = (events & RG_IO_READ ? RG_CURL_CSELECT_IN : 0) |
                          (events & RG_IO_WRITE ? RG_CURL_CSELECT_OUT : 0);

    http->curl->multi_socket_action(http->multi, socket->fd, theirs, &running);
    pump(http);
}

static void on_curl_timer(void *arg)
{
    struct rg_http *http = arg;
    int running;

    http->curl->multi_socket_action(http->multi, RG_CURL_SOCKET_TIMEOUT, 0, &running);
    pump(http);
}

static int set_timer(void *multi, long timeout_ms, void *arg)
{
    struct rg_http *http = arg;

    (void) multi;
    if (timeout_ms < 0)
        rg_timer_stop(&http->curl_timer);
    else
        rg_timer_start(&http->curl_timer, http->loop, (uint64_t) timeout_ms, 0, on_curl_timer,
                       http);
    return 0;
}

/* The one of this descriptor, or a free one; NULL: there are too many. */
static struct http_socket *find_socket(struct rg_http *http, int fd)
{
    struct http_socket *unused = NULL;

    for (int i = 0; i < SOCKETS_MAX; i++) {
        struct http_socket *socket = &http->sockets[i];
        if (socket->used && socket->fd == fd)
            return socket;
        if (!socket->used)
            unused = socket;
    }
    return unused;
}

static int set_socket(void *easy, int fd, int what, void *arg, void *of_socket)
{
    struct rg_http *http = arg;
    struct http_socket *socket = find_socket(http, fd);
    int events = (what & RG_CURL_POLL_IN ? RG_IO_READ : 0) |
                 (what & RG_CURL_POLL_OUT ? RG_IO_WRITE : 0);

    (void) easy, (void) of_socket;
    if (!socket)
        return -1;
    rg_io_stop(&socket->io);
    socket->http = http;
    socket->fd = fd;
    socket->used = what != RG_CURL_POLL_REMOVE;
    if (socket->used && events)
        rg_io_start(&socket->io, http->loop, fd, events, on_ready, socket);
    return 0;
}

/* An answer may be quiet for hours; a server that is gone is not to look like that. */
static int tune_socket(void *arg, int fd, int purpose)
{
    const struct { int level, name, value; } settings[] = {
        { SOL_SOCKET, SO_KEEPALIVE, 1 },        { IPPROTO_TCP, TCP_KEEPIDLE, QUIET_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S }, { IPPROTO_TCP, TCP_USER_TIMEOUT, LOST_MS },
    };

    (void) arg, (void) purpose;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    for (size_t i = 0; i < rg_array_len(settings); i++)
        setsockopt(fd, settings[i].level, settings[i].name, &settings[i].value, sizeof(int));
    return 0;
}

/* What it returns, if not all, ends the transfer. */
static size_t take_body(const char *bytes, size_t size, size_t n, void *arg)
{
    struct rg_http *http = arg;
    size_t nbytes = size * n;

    http->too_large = rg_buf_nbytes(&http->body) + nbytes > http->request.max_nbytes;
    if (http->too_large)
        return 0;
    rg_buf_put(&http->body, bytes, nbytes);
    return rg_buf_status(&http->body) < 0 ? 0 : nbytes;
}

/* --- a request -------------------------------------------------------------------------------- */

static void wipe_headers(struct rg_http *http, struct rg_curl_list *headers)
{
    for (struct rg_curl_list *at = headers; at; at = at->next)
        sodium_memzero(at->data, strlen(at->data));
    http->curl->slist_free_all(headers);
}

static void drop_headers(struct rg_http *http)
{
    wipe_headers(http, http->headers);
    http->headers = NULL;
    http->authorized = false;
}

/* It is the first of them. */
static void drop_authorization(struct rg_http *http)
{
    struct rg_curl_list *first = http->headers;

    if (!http->authorized)
        return;
    http->headers = first->next;
    http->authorized = false;
    first->next = NULL;
    wipe_headers(http, first);
}

static int add_header(struct rg_http *http, const char *line)
{
    struct rg_curl_list *list = line ? http->curl->slist_append(http->headers, line) : NULL;

    http->headers = list ? list : http->headers;
    return list ? 0 : -ENOMEM;
}

static int make_headers(struct rg_http *http, const struct rg_http_request *request)
{
    int r = 0;

    drop_headers(http);
    if (request->authorization) {
        rg_autofree char *line = rg_strf("Authorization: %s", request->authorization);
        r = add_header(http, line);
        http->authorized = r == 0;
        if (line)
            sodium_memzero(line, strlen(line));
    }
    for (size_t i = 0; request->headers && request->headers[i] && r == 0; i++)
        r = add_header(http, request->headers[i]);
    /* Who refuses does not read what is sent, and cuts the way on which the refusal comes. So more
     * than fits into buffers is not sent before the server says so. */
    return r < 0 ? r : add_header(http, request->nbytes > UNASKED_MAX ? "Expect: 100-continue"
                                                                      : "Expect:");
}

/* To http->url. */
static int begin(struct rg_http *http)
{
    const struct rg_curl_library *curl = http->curl;
    const struct rg_http_request *request = &http->request;
    uint64_t now_ns = rg_now_ns();
    uint64_t left_ms = !http->deadline_ns                ? 0
                       : http->deadline_ns > now_ns ? (http->deadline_ns - now_ns) / RG_NS_PER_MS
                                                    : 0;

    rg_buf_clear(&http->body);
    http->reply = (struct rg_http_reply){ .status = 0 };
    *http->cause = '\0';
    http->too_large = false;
    curl->easy_setopt(http->easy, RG_CURLOPT_URL, http->url);
    /* 0 would be no limit at all. */
    curl->easy_setopt(http->easy, RG_CURLOPT_TIMEOUT_MS,
                      (long) (http->deadline_ns && !left_ms ? 1 : left_ms));
    curl->easy_setopt(http->easy, RG_CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L);
    curl->easy_setopt(http->easy, RG_CURLOPT_HTTPGET, 1L);
    if (request->nbytes) {
        curl->easy_setopt(http->easy, RG_CURLOPT_POSTFIELDSIZE, (long) request->nbytes);
        curl->easy_setopt(http->easy, RG_CURLOPT_POSTFIELDS, request->body);
    }
    curl->easy_setopt(http->easy, RG_CURLOPT_CUSTOMREQUEST, request->method);
    curl->easy_setopt(http->easy, RG_CURLOPT_HTTPHEADER, http->headers);
    if (curl->multi_add_handle(http->multi, http->easy) != 0)
        return -ENOMEM;
    http->added = true;
    return 0;
}

int rg_http_send(struct rg_http *http, const struct rg_http_request *request)
{
    http->request = *request;
    http->request.headers = NULL; /* what is borrowed is copied now */
    http->request.authorization = NULL;
    http->nhops = 0;
    http->deadline_ns = request->ms ? rg_now_ns() + request->ms * RG_NS_PER_MS : 0;
    free(http->url);
    http->url = strdup(request->url);
    return http->url && make_headers(http, request) == 0 ? begin(http) : -ENOMEM;
}

/* --- redirects -------------------------------------------------------------------------------- */

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Where we do not go is told. */
static bool may_go(struct rg_http *http, const char *to)
{
    bool same = rg_http_same_origin(http->url, to);
    const char *why = NULL;

    if (http->nhops >= RG_HTTP_HOPS_MAX)
        why = "it is redirected too often, at last to";
    else if (!rg_str_starts(to, "https://") && !rg_str_starts(to, "http://"))
        why = "it is redirected to what is neither http nor https:";
    else if (rg_str_starts(http->url, "https:") && !rg_str_starts(to, "https:"))
        why = "it is redirected from https to http, which nobody vouches for:";
    else if (http->request.nbytes && !same)
        why = "what is sent is not for another host, to which it is redirected:";
    if (why) {
        http->reply.result = RG_HTTP_ASTRAY;
        snprintf(http->reply.cause, sizeof(http->reply.cause), "%s %s", why, to);
    }
    return !why;
}

/* True: it goes on there. */
static bool follow(struct rg_http *http)
{
    const char *to = NULL;
    long status = http->reply.status;

    if (!http->request.redirects || !is_redirect(status) ||
        http->curl->easy_getinfo(http->easy, RG_CURLINFO_REDIRECT_URL, &to) != RG_CURL_OK || !to ||
        !may_go(http, to))
        return false;
    rg_autofree char *url = strdup(to); /* libcurl's own text goes with the next request */
    if (url && !rg_http_same_origin(http->url, url))
        drop_authorization(http);
    if (status == 303) {
        http->request.method = "GET";
        http->request.nbytes = 0;
    }
    http->nhops++;
    free(http->url);
    http->url = url;
    url = NULL;
    if (http->url && begin(http) == 0)
        return true;
    http->reply = (struct rg_http_reply){ .result = RG_HTTP_AWAY };
    snprintf(http->reply.cause, sizeof(http->reply.cause), "%s", strerror(ENOMEM));
    return false;
}

/* --- answers ---------------------------------------------------------------------------------- */

static enum rg_http_result result_of(const struct rg_http *http, int result)
{
    if (http->too_large)
        return RG_HTTP_TOO_LARGE;
    switch (result) {
    case RG_CURL_OK:
        return RG_HTTP_DONE;
    case RG_CURL_PEER_FAILED_VERIFICATION:
    case RG_CURL_SSL_CACERT_BADFILE:
        return RG_HTTP_UNTRUSTED;
    case RG_CURL_COULDNT_RESOLVE_PROXY:
    case RG_CURL_COULDNT_RESOLVE_HOST:
    case RG_CURL_COULDNT_CONNECT:
    case RG_CURL_SSL_CONNECT_ERROR:
        return RG_HTTP_AWAY;
    case RG_CURL_OPERATION_TIMEDOUT:
        return RG_HTTP_LATE;
    default:
        return RG_HTTP_LOST;
    }
}

static void read_reply(struct rg_http *http, int result)
{
    struct rg_http_reply *reply = &http->reply;
    const char *type = NULL;

    http->curl->easy_getinfo(http->easy, RG_CURLINFO_RESPONSE_CODE, &reply->status);
    http->curl->easy_getinfo(http->easy, RG_CURLINFO_CONTENT_TYPE, &type);
    if (http->curl->easy_getinfo(http->easy, RG_CURLINFO_RETRY_AFTER, &reply->retry_after_s) !=
        RG_CURL_OK)
        reply->retry_after_s = 0;
    snprintf(reply->type, sizeof(reply->type), "%s", type ? type : "");
    reply->result = result_of(http, result);
    if (result != RG_CURL_OK)
        snprintf(reply->cause, sizeof(reply->cause), "%s",
                 *http->cause ? http->cause : http->curl->easy_strerror(result));
}

/* After each step of libcurl's: tell what came, and see to a request that has ended. It may be gone
 * after that. */
static void pump(struct rg_http *http)
{
    struct rg_curl_msg *msg;
    int left;

    if (http->options.on_bytes && rg_buf_nbytes(&http->body) &&
        http->options.on_bytes(http->options.arg) != 0)
        return;
    while ((msg = http->curl->multi_info_read(http->multi, &left))) {
        if (msg->msg != RG_CURLMSG_DONE)
            continue;
        int result = msg->data.result; /* the message goes with the handle */
        http->curl->multi_remove_handle(http->multi, http->easy);
        http->added = false;
        read_reply(http, result);
        if (!follow(http))
            http->options.on_end(http->options.arg);
        return;
    }
}

struct rg_buf *rg_http_body(struct rg_http *http)
{
    return &http->body;
}

const struct rg_http_reply *rg_http_reply(struct rg_http *http)
{
    if (http->added)
        http->curl->easy_getinfo(http->easy, RG_CURLINFO_RESPONSE_CODE, &http->reply.status);
    return &http->reply;
}

/* --- its life --------------------------------------------------------------------------------- */

/* Whether https may go by a proxy. */
static bool has_proxy(void)
{
    static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY" };
    bool has = false;

    for (size_t i = 0; i < rg_array_len(names); i++) {
        const char *value = getenv(names[i]);
        has |= value && *value;
    }
    return has;
}

static int set_up(struct rg_http *http)
{
    const struct rg_curl_library *curl = http->curl;
    const char *ca_file = http->options.ca_file, *named = getenv("SSL_CERT_FILE");

    http->multi = curl->multi_init();
    http->easy = curl->easy_init();
    if (!http->multi || !http->easy)
        return -ENOMEM;
    ca_file = ca_file ? ca_file : named && *named ? named : NULL;
    curl->multi_setopt(http->multi, RG_CURLMOPT_SOCKETFUNCTION, set_socket);
    curl->multi_setopt(http->multi, RG_CURLMOPT_SOCKETDATA, http);
    curl->multi_setopt(http->multi, RG_CURLMOPT_TIMERFUNCTION, set_timer);
    curl->multi_setopt(http->multi, RG_CURLMOPT_TIMERDATA, http);
    curl->easy_setopt(http->easy, RG_CURLOPT_NOSIGNAL, 1L);
    if (http->options.direct)
        curl->easy_setopt(http->easy, RG_CURLOPT_PROXY, "");
    if (http->options.socket && curl->easy_setopt(http->easy, RG_CURLOPT_UNIX_SOCKET_PATH,
                                                  http->options.socket) != RG_CURL_OK)
        return -ENOMEM; /* without it, it would go to the URL's host by TCP */
    /* Else who asks would be told to the proxy, too. */
    if (curl->easy_setopt(http->easy, RG_CURLOPT_HEADEROPT, RG_CURL_HEADER_SEPARATE) !=
            RG_CURL_OK && !http->options.direct && !http->options.socket && has_proxy())
        return -ENOTSUP;
    if (ca_file)
        curl->easy_setopt(http->easy, RG_CURLOPT_CAINFO, ca_file);
    curl->easy_setopt(http->easy, RG_CURLOPT_USERAGENT, "reigen/" RG_VERSION);
    curl->easy_setopt(http->easy, RG_CURLOPT_ERRORBUFFER, http->cause);
    curl->easy_setopt(http->easy, RG_CURLOPT_WRITEFUNCTION, take_body);
    curl->easy_setopt(http->easy, RG_CURLOPT_WRITEDATA, http);
    curl->easy_setopt(http->easy, RG_CURLOPT_SOCKOPTFUNCTION, tune_socket);
    curl->easy_setopt(http->easy, RG_CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    return 0;
}

int rg_http_create(struct rg_loop *loop, const struct rg_http_options *options,
                   struct rg_http **ret_http, struct rg_error *err)
{
    const struct rg_curl_library *curl;
    int r = rg_curl_library_load(&curl, err);
    struct rg_http *http = r < 0 ? NULL : calloc(1, sizeof(*http));

    if (!http)
        return r < 0 ? r : rg_error_memory(err);
    http->loop = loop;
    http->curl = curl;
    http->options = *options;
    r = set_up(http);
    if (r < 0) {
        rg_http_destroy(http);
        if (r != -ENOTSUP)
            return rg_error_memory(err);
        return rg_error_set_exit(err, ENOTSUP, RG_EXIT_UNAVAILABLE,
                                 "libcurl here is older than 7.37, and would show who asks to the "
                                 "proxy that https_proxy or all_proxy names: install a newer one, "
                                 "or unset them");
    }
    *ret_http = http;
    return 0;
}

void rg_http_destroy(struct rg_http *http)
{
    if (!http)
        return;
    const struct rg_curl_library *curl = http->curl;
    if (http->added)
        curl->multi_remove_handle(http->multi, http->easy);
    if (http->easy)
        curl->easy_cleanup(http->easy);
    if (http->multi)
        curl->multi_cleanup(http->multi);
    for (int i = 0; i < SOCKETS_MAX; i++)
        rg_io_stop(&http->sockets[i].io);
    rg_timer_stop(&http->curl_timer);
    drop_headers(http);
    rg_buf_wipe(&http->body);
    free(http->url);
    free(http);
}

bool rg_http_has_sockets(void)
{
    const struct rg_curl_library *curl;
    void *easy = rg_curl_library_load(&curl, NULL) < 0 ? NULL : curl->easy_init();
    bool has = easy && curl->easy_setopt(easy, RG_CURLOPT_UNIX_SOCKET_PATH, "/") == RG_CURL_OK;

    if (easy)
        curl->easy_cleanup(easy);
    return has;
}
