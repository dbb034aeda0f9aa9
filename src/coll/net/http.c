/* SPDX-License-Identifier: Apache-2.0 */
/* Just so much of HTTP that the rendezvous of Horovod's launcher can be asked. */
#include "coll/net/http.h"

#include <poll.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"

#define LENGTH_DIGITS_MAX 6 /* of Content-Length: more is beyond RG_HTTP_ANSWER_MAX */
#define READ_NBYTES 4096

static int status_of(const char *line, size_t nbytes)
{
    /* HTTP/1.1 200 OK */
    static const char begin[] = "HTTP/1.";

    if (nbytes < 12 || memcmp(line, begin, 7) != 0 || line[8] != ' ' || line[9] < '1' ||
        line[9] > '5')
        return -EBADMSG;
    for (int i = 9; i < 12; i++)
        if (line[i] < '0' || line[i] > '9')
            return -EBADMSG;
    if (nbytes > 12 && line[12] != ' ')
        return -EBADMSG;
    return (line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0';
}

static int read_length(const char *text, size_t nbytes, size_t *ret_length)
{
    size_t length = 0, digits = 0;

    while (nbytes > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        nbytes--;
    }
    while (nbytes > 0 && (text[nbytes - 1] == ' ' || text[nbytes - 1] == '\t'))
        nbytes--;
    for (; digits < nbytes; digits++) {
        if (text[digits] < '0' || text[digits] > '9' || digits == LENGTH_DIGITS_MAX)
            return -EBADMSG;
        length = length * 10 + (size_t) (text[digits] - '0');
    }
    if (digits == 0)
        return -EBADMSG;
    *ret_length = length;
    return 0;
}

/* One header. *has_length and *ret_length: what Content-Length says. */
static int read_header(const char *line, size_t nbytes, bool *has_length, size_t *ret_length)
{
    const char *colon = memchr(line, ':', nbytes);
    size_t name = colon ? (size_t) (colon - line) : 0;

    if (name == 0)
        return -EBADMSG;
    if (name == 17 && strncasecmp(line, "Transfer-Encoding", 17) == 0)
        return -EBADMSG;
    if (name != 14 || strncasecmp(line, "Content-Length", 14) != 0)
        return 0;
    if (*has_length)
        return -EBADMSG;
    *has_length = true;
    return read_length(colon + 1, nbytes - name - 1, ret_length);
}

/* The lines up to the empty one. 1 and where the body begins, 0 when it is not there yet. */
static int read_head(const char *bytes, size_t nbytes, struct rg_http_answer *answer,
                     bool *ret_has_length)
{
    size_t at = 0;
    const char *end;
    int r = 0;

    for (int line = 0; (end = memchr(bytes + at, '\n', nbytes - at)) != NULL; line++) {
        size_t length = (size_t) (end - (bytes + at)), next = at + length + 1;

        if (length > 0 && end[-1] == '\r')
            length--;
        if (line == 0)
            r = answer->status = status_of(bytes + at, length);
        else if (length == 0) {
            answer->body = next;
            return 1;
        } else
            r = read_header(bytes + at, length, ret_has_length, &answer->body_nbytes);
        if (r < 0)
            return r;
        at = next;
    }
    return 0;
}

int rg_http_parse(const char *bytes, size_t nbytes, bool ended, struct rg_http_answer *ret_answer)
{
    struct rg_http_answer answer = { 0 };
    bool has_length = false;
    int r = nbytes == 0 ? 0 : read_head(bytes, nbytes, &answer, &has_length);

    if (r < 0)
        return r;
    if (r > 0) {
        size_t there = nbytes - answer.body;

        if (!has_length) {
            answer.body_nbytes = there;
            r = ended;
        } else {
            r = there >= answer.body_nbytes;
        }
    }
    if (r > 0 && answer.body + answer.body_nbytes <= RG_HTTP_ANSWER_MAX) {
        *ret_answer = answer;
        return 1;
    }
    return r > 0 || ended || nbytes >= RG_HTTP_ANSWER_MAX ? -EBADMSG : 0;
}

static int read_answer(int fd, uint64_t deadline_ns, struct rg_buf *input,
                       struct rg_http_answer *ret_answer)
{
    bool ended = false;
    int r;

    while ((r = rg_http_parse((const char *) rg_buf_bytes(input), rg_buf_nbytes(input), ended,
                              ret_answer)) == 0) {
        uint8_t *to = rg_buf_reserve(input, READ_NBYTES);
        ssize_t n;

        if (!to)
            return -ENOMEM;
        r = rg_fd_wait(fd, POLLIN, deadline_ns);
        if (r < 0)
            return r;
        n = recv(fd, to, READ_NBYTES, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        ended = n == 0;
        rg_buf_commit(input, n > 0 ? (size_t) n : 0);
    }
    return r;
}

int rg_http_exchange(const struct rg_sockaddr *server, const char *path, const char *body,
                     uint64_t deadline_ns, int *ret_status, struct rg_buf *ret_body,
                     struct rg_error *err)
{
    rg_autobuf struct rg_buf request = RG_BUF_INIT, input = RG_BUF_INIT;
    struct rg_http_answer answer;
    char name[RG_SOCK_ADDRESS_MAX];
    rg_autoclose int fd = -1;
    int r;

    rg_sock_format(server, name);
    rg_buf_printf(&request, "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n%s",
                  body ? "PUT" : "GET", path, name, body ? strlen(body) : 0, body ? body : "");
    r = rg_buf_status(&request);
    if (r == 0)
        r = rg_sock_reach_tcp(server, deadline_ns, &fd);
    if (r == 0)
        r = rg_sock_write(fd, rg_buf_bytes(&request), rg_buf_nbytes(&request), deadline_ns);
    if (r == 0)
        r = read_answer(fd, deadline_ns, &input, &answer);
    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", name,
                            r == -EBADMSG ? "its answer is not that of an HTTP key-value server"
                                          : strerror(-r));
    rg_buf_put(ret_body, rg_buf_bytes(&input) + answer.body, answer.body_nbytes);
    *ret_status = answer.status;
    return rg_buf_status(ret_body) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}
