/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started by Horovod's own launcher (horovodrun --gloo), which serves a key-value store over HTTP
 * to its workers. Anyone who can reach it may read and write there, so it carries nothing but the
 * place where rank 0 waits; the ranks meet there by the rules of boot by RANK (env.c): one user on
 * one host, or a REIGEN_KEY_FILE.
 */
#include "coll/boot/env/rendezvous.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "coll/boot/env/env.h"
#include "coll/boot/env/env_job.h"
#include "coll/boot/launchers.h"

#define ADDRESS "HOROVOD_GLOO_RENDEZVOUS_ADDR"
#define PORT "HOROVOD_GLOO_RENDEZVOUS_PORT"
#define WORD "reigen1"
#define FIRST_PORT 20000 /* below the ports that connections get by themselves, mostly */
#define LAST_PORT 32000
#define PAUSE_MS 50
#define ATTEMPT_MS 5000
#define PATH_ROOM 64
#define READ_NBYTES 4096

/* ---- its store, over HTTP */

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
    char *colon = strchr(line, ':'), *value, *end;
    int64_t length;

    if (!colon || colon == line)
        return -EBADMSG;
    *colon = '\0';
    if (strcasecmp(line, "Transfer-Encoding") == 0)
        return -EBADMSG;
    if (strcasecmp(line, "Content-Length") != 0)
        return 0;
    value = colon + 1 + strspn(colon + 1, " \t");
    end = value + strcspn(value, " \t");
    if (*has_length || end[strspn(end, " \t")] != '\0')
        return -EBADMSG;
    *end = '\0';
    if (rg_parse_int("length", value, 0, RG_HTTP_ANSWER_MAX, &length, NULL) < 0)
        return -EBADMSG;
    *has_length = true;
    *ret_length = (size_t) length;
    return 0;
}

/* The lines up to the empty one. 1 and where the body begins, 0 when it is not there yet. */
static int read_head(const char *bytes, size_t nbytes, struct rg_http_answer *answer,
                     bool *ret_has_length)
{
    rg_autofree char *head = malloc(nbytes + 1);
    int r = head ? 0 : -ENOMEM;

    if (head)
        *(char *) mempcpy(head, bytes, nbytes) = '\0';
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

/* Ask server for path (GET; PUT with a body where body is given). 0, the status, and the answer's
 * body appended to ret_body; or -errno. */
static int exchange(const struct rg_sockaddr *server, const char *path, const char *body,
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

/* ---- the place where rank 0 waits */

static bool is_hex(const char *text)
{
    return text[strspn(text, "0123456789abcdef")] == '\0';
}

int rg_endpoint_parse(const char *text, size_t nbytes, struct rg_endpoint *ret_place)
{
    struct rg_endpoint place = { .port = 0 };
    struct rg_sockaddr address;
    char line[RG_ENDPOINT_MAX], word[RG_ENDPOINT_MAX];
    char host[RG_ENDPOINT_MAX], port[RG_ENDPOINT_MAX], nonce[RG_ENDPOINT_MAX], rest;
    int64_t number;

    if (nbytes == 0 || nbytes >= sizeof(line) || memchr(text, '\0', nbytes))
        return -EBADMSG;
    memcpy(line, text, nbytes);
    line[nbytes] = '\0';
    if (sscanf(line, "%255s %255s %255s %255s %c", word, host, port, nonce, &rest) != 4 ||
        strcmp(word, WORD) != 0 || strlen(host) >= sizeof(place.address) ||
        strlen(nonce) != RG_ENDPOINT_NONCE_MAX - 1 || !is_hex(nonce) ||
        rg_parse_int("port", port, 1, 65535, &number, NULL) < 0 ||
        rg_sock_parse_host(host, &address) < 0)
        return -EBADMSG;
    strcpy(place.address, host);
    strcpy(place.nonce, nonce);
    place.port = (int) number;
    *ret_place = place;
    return 0;
}

void rg_endpoint_format(const struct rg_endpoint *place, char ret_text[RG_ENDPOINT_MAX])
{
    snprintf(ret_text, RG_ENDPOINT_MAX, WORD " %s %d %s", place->address, place->port,
             place->nonce);
}

static int detect(struct rg_error *err)
{
    const char *elastic = rg_var("HOROVOD_ELASTIC");
    int rank, size;

    if (!rg_var(ADDRESS) || !rg_var(PORT))
        return 0;
    if (elastic && strcmp(elastic, "0") != 0)
        return rg_error_set(err, ENOTSUP, "HOROVOD_ELASTIC=%s: elastic jobs of Horovod's launcher "
                            "cannot be joined; start a fixed number of ranks with -np", elastic);
    return rg_var_rank_size("HOROVOD_RANK", "HOROVOD_SIZE", &rank, &size, err);
}

static int find_store(struct rg_sockaddr *ret_store, struct rg_error *err)
{
    struct rg_env_job there = { .master_name = ADDRESS };
    const char *name = rg_var(ADDRESS);
    int64_t port = 0;
    int r = rg_var_int(PORT, 1, 65535, &port, err);

    if (r < 0)
        return r;
    if (strlen(name) >= sizeof(there.master))
        return rg_error_set(err, EINVAL, ADDRESS " is longer than a host name can be");
    strcpy(there.master, name);
    r = rg_env_resolve(&there, err);
    if (r < 0)
        return r;
    *ret_store = there.addresses[0];
    rg_sock_set_port(ret_store, (uint16_t) port);
    return 0;
}

static void fill_job(const struct rg_config *config, struct rg_env_job *job,
                     const struct rg_endpoint *place)
{
    char facts[RG_ENDPOINT_NONCE_MAX + 16];
    int n = snprintf(facts, sizeof(facts), "%d %s", job->me.size, place->nonce);

    snprintf(job->master, sizeof(job->master), "%s", place->address);
    job->first_port = place->port;
    job->nports = RG_ENV_PORTS;
    rg_env_fit_ports(&config->ports, job);
    crypto_hash_sha256(job->facts, (const uint8_t *) facts, (size_t) n);
}

static int make_place(const struct rg_config *config, const struct rg_sockaddr *store,
                      struct rg_endpoint *place, struct rg_error *err)
{
    struct rg_env_job tried = { .nports = RG_ENV_PORTS };
    uint8_t random[(RG_ENDPOINT_NONCE_MAX - 1) / 2];
    struct rg_sockaddr mine;
    int r = rg_sock_route(store, &mine);

    if (r < 0)
        return rg_error_set(err, -r, "no route to " ADDRESS "=%s: %s", rg_var(ADDRESS),
                            strerror(-r));
    /* By which the other ranks can come, too. */
    rg_sock_format_host(&mine, place->address);
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(place->nonce, sizeof(place->nonce), random, sizeof(random));
    tried.first_port = FIRST_PORT +
                       (int) randombytes_uniform(LAST_PORT - FIRST_PORT - RG_ENV_PORTS);
    rg_env_fit_ports(&config->ports, &tried);
    place->port = tried.first_port;
    return 0;
}

static int publish(const struct rg_sockaddr *store, const char *path,
                   const struct rg_endpoint *place, uint64_t deadline_ns, struct rg_error *err)
{
    rg_autobuf struct rg_buf body = RG_BUF_INIT;
    char text[RG_ENDPOINT_MAX];
    int status = 0, r;

    rg_endpoint_format(place, text);
    r = exchange(store, path, text, deadline_ns, &status, &body, err);
    if (r == 0 && status / 100 != 2)
        r = rg_error_set(err, EPROTO, "the answer was %d", status);
    return r < 0 ? rg_error_prepend(err, "the rendezvous of Horovod's launcher (" ADDRESS "=%s)",
                                    rg_var(ADDRESS)) : 0;
}

/* Ask until rank 0 has said where it is. */
static int look_up(const struct rg_sockaddr *store, const char *path, uint64_t deadline_ns,
                   struct rg_endpoint *ret_place, struct rg_error *err)
{
    bool answered = false;

    for (;;) {
        rg_autobuf struct rg_buf body = RG_BUF_INIT;
        uint64_t until_ns = rg_now_ns() + ATTEMPT_MS * RG_NS_PER_MS;
        int status = 0;
        int r = exchange(store, path, NULL, until_ns < deadline_ns ? until_ns : deadline_ns,
                         &status, &body, err);

        if (r == 0 && status == 200)
            return rg_endpoint_parse((const char *) rg_buf_bytes(&body), rg_buf_nbytes(&body),
                                  ret_place) == 0
                       ? 0 : rg_error_set(err, EBADMSG, "the rendezvous of Horovod's launcher has "
                                          "under %s what this version of Reigen did not write",
                                          path);
        answered = answered || r == 0;
        if (rg_now_ns() + PAUSE_MS * RG_NS_PER_MS >= deadline_ns)
            return !answered
                       ? rg_error_prepend(err, "the rendezvous of Horovod's launcher (" ADDRESS
                                          "=%s)", rg_var(ADDRESS))
                       : rg_error_set_exit(err, ETIMEDOUT, 124, "rank 0 did not come in time: "
                                           "the rendezvous of Horovod's launcher has no %s yet",
                                             path);
        rg_sleep_ms(PAUSE_MS);
    }
}

static int open_rendezvous(const struct rg_config *config, void **kept, uint64_t deadline_ns,
                           void **ret_state, struct rg_boot_identity *ret_identity,
                           struct rg_error *err)
{
    struct rg_env_job job = { .me = RG_BOOT_IDENTITY_INIT, .master_name = "rank 0's address" };
    struct rg_endpoint place;
    struct rg_sockaddr store;
    unsigned *inits = rg_boot_keep(kept, sizeof(*inits));
    char path[PATH_ROOM];
    int r = sodium_init() < 0 ? rg_error_set(err, ENOSYS, "libsodium cannot start")
            : !inits          ? rg_error_set(err, ENOMEM, "out of memory")
                              : rg_var_identity("HOROVOD", &job.me, err);

    if (r < 0)
        return r;
    /* Every init of the process has a place of its own. */
    snprintf(path, sizeof(path), "/reigen/place.%u", (*inits)++);
    r = job.me.size > 1 ? find_store(&store, err) : 0;
    if (r == 0 && job.me.size > 1)
        r = job.me.rank == 0 ? make_place(config, &store, &place, err)
                             : look_up(&store, path, deadline_ns, &place, err);
    if (r == 0 && job.me.size > 1)
        fill_job(config, &job, &place);
    if (r == 0)
        r = rg_env_meet(config, &job, deadline_ns, ret_state, ret_identity, err);
    if (r == 0 && job.me.size > 1 && job.me.rank == 0) {
        /* It listens already: whoever reads this finds it. */
        r = publish(&store, path, &place, deadline_ns, err);
        if (r < 0)
            rg_env_close(*ret_state, false);
    }
    return r;
}

static const char *const place[] = { ADDRESS, PORT, "HOROVOD_RANK", NULL };

const struct rg_boot_ops rg_boot_rendezvous = {
    .name = "rendezvous",
    .variables = ADDRESS ", " PORT ", HOROVOD_RANK and HOROVOD_SIZE are",
    .place = place,
    .detect = detect,
    .open = open_rendezvous,
    .fence = rg_env_fence,
    .poll_start = rg_env_poll_start,
    .note = rg_env_note,
    .cut_off = rg_env_cut_off,
    .close = rg_env_close,
    .after_fork = rg_env_after_fork,
};
