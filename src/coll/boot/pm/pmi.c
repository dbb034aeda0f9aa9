/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation with a process manager, over the descriptor that it has given us. */
#include "coll/boot/pm/pmi.h"

#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/fd.h"
#include "coll/net/sock.h"

#define READ_NBYTES 4096
#define REQUEST_MAX 1024 /* bytes: Slurm reads no longer line */
#define VALUE_LIMIT_MAX (1 << 20)
#define BASE64 sodium_base64_VARIANT_URLSAFE_NO_PADDING /* no "=", no blank, no ";" */

/* ---- the two languages, as text, where a test can speak them */

static int scan_line(const char *bytes, size_t nbytes, size_t *ret_begin, size_t *ret_total)
{
    const char *end = memchr(bytes, '\n', nbytes);

    if (!end)
        return nbytes > RG_PMI_MESSAGE_MAX ? -EBADMSG : 0;
    if (end - bytes >= RG_PMI_MESSAGE_MAX)
        return -EBADMSG;
    *ret_begin = 0;
    *ret_total = (size_t) (end - bytes) + 1;
    return 1;
}

/* The number may stand at either end of its six characters. */
static int scan_length(const char *bytes, size_t nbytes, size_t *ret_begin, size_t *ret_total)
{
    size_t i = 0, length = 0;

    if (nbytes < RG_PMI_LENGTH_NBYTES)
        return 0;
    while (i < RG_PMI_LENGTH_NBYTES && bytes[i] == ' ')
        i++;
    if (i == RG_PMI_LENGTH_NBYTES)
        return -EBADMSG;
    while (i < RG_PMI_LENGTH_NBYTES && bytes[i] >= '0' && bytes[i] <= '9')
        length = length * 10 + (size_t) (bytes[i++] - '0');
    while (i < RG_PMI_LENGTH_NBYTES && bytes[i] == ' ')
        i++;
    if (i < RG_PMI_LENGTH_NBYTES || length == 0 || length > RG_PMI_MESSAGE_MAX)
        return -EBADMSG;
    if (nbytes - RG_PMI_LENGTH_NBYTES < length)
        return 0;
    *ret_begin = RG_PMI_LENGTH_NBYTES;
    *ret_total = RG_PMI_LENGTH_NBYTES + length;
    return 1;
}

int rg_pmi_scan(enum rg_pmi_version version, const char *bytes, size_t nbytes, size_t *ret_begin,
                size_t *ret_total)
{
    if (nbytes == 0)
        return 0;
    return version == RG_PMI_2 ? scan_length(bytes, nbytes, ret_begin, ret_total)
                               : scan_line(bytes, nbytes, ret_begin, ret_total);
}

/* End the word that begins at text, and return where the next one begins. In PMI-2 a doubled
 * separator stands for itself. */
static char *end_word(enum rg_pmi_version version, char *text)
{
    char *to = text;

    for (;; text++) {
        if (version == RG_PMI_2 && text[0] == ';' && text[1] == ';')
            text++;
        else if (*text == '\0' || *text == (version == RG_PMI_2 ? ';' : ' '))
            break;
        *to++ = *text;
    }
    char *next = *text ? text + 1 : text;

    *to = '\0';
    return next;
}

int rg_pmi_parse(enum rg_pmi_version version, char *text, size_t nbytes,
                 struct rg_pmi_message *ret_message)
{
    struct rg_pmi_message message;
    char *end = text + nbytes;

    message.npairs = 0;
    if (memchr(text, '\0', nbytes))
        return -EBADMSG;
    if (version == RG_PMI_1 && nbytes > 0 && end[-1] == '\n')
        end--;
    *end = '\0';
    while (*text) {
        char *word = text, *equals;

        text = end_word(version, word);
        if (!*word)
            continue; /* two blanks, or one at the end */
        equals = strchr(word, '=');
        if (!equals || message.npairs == RG_PMI_PAIRS_MAX)
            return -EBADMSG;
        *equals = '\0';
        message.pairs[message.npairs].key = word;
        message.pairs[message.npairs++].value = equals + 1;
    }
    if (message.npairs == 0 || strcmp(message.pairs[0].key, "cmd") != 0)
        return -EBADMSG;
    *ret_message = message;
    return 0;
}

const char *rg_pmi_value(const struct rg_pmi_message *message, const char *key)
{
    for (int i = 0; i < message->npairs; i++)
        if (strcmp(message->pairs[i].key, key) == 0)
            return message->pairs[i].value;
    return NULL;
}

bool rg_pmi_succeeded(const struct rg_pmi_message *message, const char *command)
{
    const char *rc = rg_pmi_value(message, "rc"), *found = rg_pmi_value(message, "found");

    return strcmp(message->pairs[0].value, command) == 0 && (!rc || strcmp(rc, "0") == 0) &&
           (!found || strcasecmp(found, "TRUE") == 0);
}

/* ---- a conversation */

enum verb { INIT, LIMITS, SPACE, FULL_INIT, JOB, PUT, BARRIER, GET, FINALIZE };

/* What a request is called in messages, and the answer to it by version. NULL: none is wanted, or
 * the caller looks at it. */
static const struct {
    const char *name, *answers[3];
} verbs[] = {
    [INIT] = { "init", { NULL } },
    [LIMITS] = { "get_maxes", { [RG_PMI_1] = "maxes" } },
    [SPACE] = { "get_my_kvsname", { [RG_PMI_1] = "my_kvsname" } },
    [FULL_INIT] = { "fullinit", { [RG_PMI_2] = "fullinit-response" } },
    [JOB] = { "job-getid", { [RG_PMI_2] = "job-getid-response" } },
    [PUT] = { "put", { [RG_PMI_1] = "put_result", [RG_PMI_2] = "kvs-put-response" } },
    [BARRIER] = { "barrier", { [RG_PMI_1] = "barrier_out", [RG_PMI_2] = "kvs-fence-response" } },
    [GET] = { "get", { [RG_PMI_1] = "get_result", [RG_PMI_2] = "kvs-get-response" } },
    [FINALIZE] = { "finalize", { NULL } },
};

/* Read until a whole message is there. */
static int read_message(struct rg_pmi *pmi, uint64_t deadline_ns,
                        size_t *ret_begin, size_t *ret_total, struct rg_error *err)
{
    struct rg_buf *input = &pmi->input;
    int r;

    while ((r = rg_pmi_scan(pmi->version, (const char *) rg_buf_bytes(input), rg_buf_nbytes(input),
                            ret_begin, ret_total)) == 0) {
        uint8_t *to = rg_buf_reserve(input, READ_NBYTES);
        ssize_t n;

        if (!to)
            return rg_error_set(err, ENOMEM, "out of memory");
        r = rg_fd_wait(pmi->fd, POLLIN, deadline_ns);
        if (r < 0)
            return rg_error_set_exit(err, -r, r == -ETIMEDOUT ? 124 : 0, "the process manager "
                                     "(PMI_FD=%d) did not answer in time: have all ranks come to "
                                     "init?", pmi->fd);
        n = recv(pmi->fd, to, READ_NBYTES, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return rg_error_set(err, ECONNRESET, "the process manager (PMI_FD=%d) has closed the "
                                "connection: is the launcher still there?", pmi->fd);
        rg_buf_commit(input, n > 0 ? (size_t) n : 0);
    }
    return r;
}

static int receive(struct rg_pmi *pmi, uint64_t deadline_ns, struct rg_pmi_message *ret_message,
                   struct rg_error *err)
{
    size_t begin = 0, total = 0;
    int r = read_message(pmi, deadline_ns, &begin, &total, err);

    if (r < 0 && r != -EBADMSG)
        return r;
    if (r > 0) {
        memcpy(pmi->reply, rg_buf_bytes(&pmi->input) + begin, total - begin);
        rg_buf_consume(&pmi->input, total);
        r = rg_pmi_parse(pmi->version, pmi->reply, total - begin, ret_message);
    }
    return r < 0 ? rg_error_set(err, EPROTO, "the process manager (PMI_FD=%d) sent what is no PMI "
                                "message", pmi->fd)
                 : 0;
}

static int refused(const struct rg_pmi_message *reply, enum verb verb,
                   struct rg_error *err)
{
    const char *message = rg_pmi_value(reply, "msg");

    if (!message)
        message = rg_pmi_value(reply, "errmsg");
    return rg_error_set(err, EPROTO, "the process manager refused PMI's %s (it answered %s%s%s)",
                        verbs[verb].name, reply->pairs[0].value, message ? ": " : "",
                        message ? message : "");
}

/* Send a request, of which format gives all but PMI-2's length, and receive its answer. */
static int ask(struct rg_pmi *pmi, enum verb verb, uint64_t deadline_ns,
               struct rg_pmi_message *ret_reply, struct rg_error *err, const char *format, ...)
    rg_printf(6, 7);

static int ask(struct rg_pmi *pmi, enum verb verb, uint64_t deadline_ns,
               struct rg_pmi_message *ret_reply, struct rg_error *err, const char *format, ...)
{
    const char *answer = verbs[verb].answers[pmi->version];
    char text[REQUEST_MAX + 1];
    size_t head = pmi->version == RG_PMI_2 ? RG_PMI_LENGTH_NBYTES : 0;
    va_list arguments;

    va_start(arguments, format);
    int n = vsnprintf(text + head, sizeof(text) - head, format, arguments);

    va_end(arguments);
    if (n < 0 || (size_t) n >= sizeof(text) - head)
        return rg_error_set(err, EMSGSIZE, "a PMI request of %d bytes is too long", n);
    if (head > 0) {
        char length[RG_PMI_LENGTH_NBYTES + 1];

        snprintf(length, sizeof(length), "%6d", n);
        memcpy(text, length, head);
    }
    int r = rg_sock_write(pmi->fd, text, head + (size_t) n, deadline_ns);

    explicit_bzero(text, sizeof(text));
    if (r < 0)
        return rg_error_set(err, r == -EPIPE ? ECONNRESET : -r, "the process manager (PMI_FD=%d) "
                            "cannot be written to: %s", pmi->fd, strerror(-r));
    r = receive(pmi, deadline_ns, ret_reply, err);
    return r < 0 || !answer || rg_pmi_succeeded(ret_reply, answer) ? r
                                                                   : refused(ret_reply, verb, err);
}

/* The first line is PMI-1's in either version. 1: agreed; 0: it wants another version. */
static int greet(struct rg_pmi *pmi, enum rg_pmi_version version, uint64_t deadline_ns,
                 struct rg_error *err)
{
    struct rg_pmi_message reply;

    pmi->version = RG_PMI_1;
    int r = ask(pmi, INIT, deadline_ns, &reply, err,
                "cmd=init pmi_version=%d pmi_subversion=%d\n", version, version == RG_PMI_1);

    if (r < 0)
        return r;
    if (strcmp(reply.pairs[0].value, "response_to_init") != 0)
        return refused(&reply, INIT, err);
    pmi->version = version;
    return rg_pmi_succeeded(&reply, "response_to_init");
}

static int keep_name(struct rg_pmi *pmi, const char *name, struct rg_error *err)
{
    if (!name || !name[0] || strlen(name) >= sizeof(pmi->name))
        return rg_error_set(err, EPROTO, "the process manager gave no usable name of its key-value "
                            "space");
    strcpy(pmi->name, name);
    return 0;
}

static int begin_1(struct rg_pmi *pmi, uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_pmi_message reply;
    const char *limit;
    int64_t n = 0;
    int r = ask(pmi, LIMITS, deadline_ns, &reply, err, "cmd=get_maxes\n");

    if (r < 0)
        return r;
    limit = rg_pmi_value(&reply, "vallen_max");
    r = limit ? rg_parse_int("vallen_max of the process manager", limit, RG_PMI_VALUE_CHARS_MIN,
                             VALUE_LIMIT_MAX, &n, err)
              : refused(&reply, LIMITS, err);
    if (r < 0)
        return r;
    pmi->value_chars = n - 1 < RG_PMI_VALUE_CHARS_MAX ? (size_t) n - 1 : RG_PMI_VALUE_CHARS_MAX;
    r = ask(pmi, SPACE, deadline_ns, &reply, err, "cmd=get_my_kvsname\n");
    return r < 0 ? r : keep_name(pmi, rg_pmi_value(&reply, "kvsname"), err);
}

static int begin_2(struct rg_pmi *pmi, int rank, uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_pmi_message reply;
    const char *job = getenv("PMI_JOBID");
    int r = ask(pmi, FULL_INIT, deadline_ns, &reply, err,
                "cmd=fullinit;pmijobid=%s;pmirank=%d;threaded=FALSE;", job ? job : "", rank);

    pmi->value_chars = RG_PMI_VALUE_CHARS_MAX;
    if (r == 0)
        r = ask(pmi, JOB, deadline_ns, &reply, err, "cmd=job-getid;");
    return r < 0 ? r : keep_name(pmi, rg_pmi_value(&reply, "jobid"), err);
}

int rg_pmi_open(struct rg_pmi *pmi, int fd, int rank, uint64_t deadline_ns, struct rg_error *err)
{
    int r;

    pmi->fd = fd;
    pmi->input = (struct rg_buf) RG_BUF_INIT;
    r = greet(pmi, RG_PMI_1, deadline_ns, err);
    if (r == 0)
        r = greet(pmi, RG_PMI_2, deadline_ns, err);
    if (r == 0)
        r = rg_error_set(err, EPROTO, "the process manager (PMI_FD=%d) has neither PMI-1 nor PMI-2",
                         fd);
    if (r > 0)
        r = pmi->version == RG_PMI_1 ? begin_1(pmi, deadline_ns, err)
                                     : begin_2(pmi, rank, deadline_ns, err);
    if (r < 0)
        rg_pmi_fini(pmi);
    return r;
}

void rg_pmi_finalize(struct rg_pmi *pmi, uint64_t deadline_ns)
{
    struct rg_pmi_message reply;

    ask(pmi, FINALIZE, deadline_ns, &reply, NULL,
        pmi->version == RG_PMI_1 ? "cmd=finalize\n" : "cmd=finalize;");
}

void rg_pmi_fini(struct rg_pmi *pmi)
{
    rg_buf_fini(&pmi->input);
    explicit_bzero(pmi->reply, sizeof(pmi->reply));
}

/* ---- the key-value space */

size_t rg_pmi_value_nbytes(size_t value_chars)
{
    return value_chars / 4 * 3;
}

static int put(void *state, const char *key, const void *data, size_t nbytes, uint64_t deadline_ns,
               struct rg_error *err)
{
    struct rg_pmi *pmi = state;
    struct rg_pmi_message reply;
    char value[RG_PMI_VALUE_CHARS_MAX + 1];
    int r;

    if (sodium_base64_encoded_len(nbytes, BASE64) > sizeof(value))
        return rg_error_set(err, EMSGSIZE, "%zu bytes do not fit into a value of PMI", nbytes);
    sodium_bin2base64(value, sizeof(value), data, nbytes, BASE64);
    if (pmi->version == RG_PMI_1)
        r = ask(pmi, PUT, deadline_ns, &reply, err, "cmd=put kvsname=%s key=%s value=%s\n",
                pmi->name, key, value);
    else
        r = ask(pmi, PUT, deadline_ns, &reply, err, "cmd=kvs-put;key=%s;value=%s;", key, value);
    explicit_bzero(value, sizeof(value));
    return r;
}

static int synchronise(void *state, uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_pmi *pmi = state;
    struct rg_pmi_message reply;

    return ask(pmi, BARRIER, deadline_ns, &reply, err,
               pmi->version == RG_PMI_1 ? "cmd=barrier_in\n" : "cmd=kvs-fence;");
}

static int get(void *state, int rank, const char *key, uint64_t deadline_ns,
               struct rg_buf *ret_bytes, struct rg_error *err)
{
    struct rg_pmi *pmi = state;
    struct rg_pmi_message reply;
    uint8_t bytes[RG_PMI_MESSAGE_MAX];
    size_t nbytes = 0;
    int r;

    if (pmi->version == RG_PMI_1)
        r = ask(pmi, GET, deadline_ns, &reply, err, "cmd=get kvsname=%s key=%s\n", pmi->name, key);
    else
        r = ask(pmi, GET, deadline_ns, &reply, err, "cmd=kvs-get;jobid=%s;srcid=-1;key=%s;",
                pmi->name, key);
    if (r < 0)
        return r;
    const char *value = rg_pmi_value(&reply, "value");

    if (!value)
        return refused(&reply, GET, err);
    if (sodium_base642bin(bytes, sizeof(bytes), value, strlen(value), NULL, &nbytes, NULL,
                          BASE64) < 0)
        return rg_error_set(err, EBADMSG, "rank %d: what it put under %s is not base64", rank, key);
    rg_buf_put(ret_bytes, bytes, nbytes);
    explicit_bzero(bytes, nbytes);
    return rg_buf_status(ret_bytes) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

const struct rg_kvs_ops rg_pmi_kvs = { .put = put, .sync = synchronise, .get = get };
