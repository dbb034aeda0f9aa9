/* SPDX-License-Identifier: Apache-2.0 */
/* Just so much of HTTP that the rendezvous of Horovod's launcher can be asked. */
#include "coll/net/http.h"

#include <poll.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"

#define READ_NBYTES 4096

/* "HTTP/1.1 200 OK": the status, or -EBADMSG. */
static int status_of(char *line)
{
    int64_t status;

    if (strlen(line) < 12 || strncmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' ||
        (line[12] != ' ' && line[12] != '\0'))
        return -EBADMSG;
    line[12] = '\0';
    return rg_parse_int("status", line + 9, 100, 599, &status, NULL) < 0 ? -EBADMSG : (int) status;
}

/* One header. *has_length and *ret_length: what Content-Length says. */
static int read_header(char *line, bool *has_length, size_t *ret_length)
{
    char *colon = strchr(line, ':'), word[16];
    int64_t length;

    if (!colon || colon == line)
        return -EBADMSG;
    *colon = '\0';
    if (strcasecmp(line, "Transfer-Encoding") == 0)
        return -EBADMSG;
    if (strcasecmp(line, "Content-Length") != 0)
        return 0;
    const char *rest = rg_str_word(colon + 1, word, sizeof(word));

    if (*has_length || rest[strspn(rest, " \t")] != '\0' ||
        rg_parse_int("length", word, 0, RG_HTTP_ANSWER_MAX, &length, NULL) < 0)
        return -EBADMSG;
    *has_length = true;
    *ret_length = (size_t) length;
    return 0;
}

/* The lines up to the empty one. 1 and where the body begins, 0 when it is not there yet. */
static int read_head(const char *bytes, size_t nbytes, struct rg_http_answer *answer,
                     bool *ret_has_length)
{
    rg_autofree char *head = strndup(bytes, nbytes);
    int r = head ? 0 : -ENOMEM;

    for (char *line = head, *end; r >= 0 && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (end > line && end[-1] == '\r')
            end[-1] = '\0';
        if (line == head) {
            r = answer->status = status_of(line);
        } else if (*line) {
            r = read_header(line, ret_has_length, &answer->body_nbytes);
        } else {
            answer->body = (size_t) (end + 1 - head);
            return 1;
        }
    }
    return r < 0 ? r : 0;
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
