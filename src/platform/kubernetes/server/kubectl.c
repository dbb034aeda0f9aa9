/* SPDX-License-Identifier: Apache-2.0 */
/* On a user's computer all goes through kubectl, so that contexts, proxies and plug-ins that log in
 * stay the user's. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/kubernetes/server/transport.h"

#define CHUNK 65536
#define SAID_MAX (64u << 10)
#define CONFIG_MS 30000

/* What one verb alone has. Finding fields that the server does not know takes kubectl time. */
static void add_of_verb(const struct kube_request *q, struct rg_strv *argv)
{
    switch (q->verb) {
    case KUBE_CREATE:
        rg_strv_add(argv, q->strict ? "--validate=strict" : "--validate=false");
        if (q->dry_run)
            rg_strv_add(argv, "--dry-run=server");
        rg_strv_add(argv, "--filename=-");
        rg_strv_add(argv, q->whole ? "--output=json" : "--output=jsonpath={.metadata.uid}");
        break;
    case KUBE_PATCH:
        rg_strv_add(argv, "--type=merge");
        rg_strv_add(argv, "--patch-file=/dev/stdin");
        break;
    case KUBE_DELETE:
        rg_strv_add(argv, "--ignore-not-found");
        if (q->wait)
            rg_strv_addf(argv, "--cascade=foreground");
        rg_strv_add(argv, q->wait ? "--wait=true" : "--wait=false");
        if (q->wait)
            rg_strv_addf(argv, "--timeout=%ds", KUBE_GONE_MS / 1000);
        break;
    case KUBE_WATCH:
        rg_strv_add(argv, "--watch");
        rg_strv_add(argv, "--output-watch-events");
        rg_strv_add(argv, "--output=json");
        break;
    case KUBE_GET:
        if (q->path)
            rg_strv_addf(argv, "--raw=%s", q->path);
        else
            rg_strv_add(argv, "--output=json");
        break;
    case KUBE_LOG:
        rg_strv_addf(argv, "--container=%s", q->container);
        if (q->follow)
            rg_strv_add(argv, "--follow");
        if (q->stamps)
            rg_strv_add(argv, "--timestamps");
        if (q->since)
            rg_strv_addf(argv, "--since-time=%s", q->since);
        if (q->ntail)
            rg_strv_addf(argv, "--tail=%d", q->ntail);
    }
}

void kubectl_words(const struct kube_place *place, const struct kube_request *request,
                   struct rg_strv *argv)
{
    const struct kube_request *q = request;
    static const char *const verbs[] = {
        [KUBE_CREATE] = "create", [KUBE_GET] = "get", [KUBE_PATCH] = "patch",
        [KUBE_DELETE] = "delete", [KUBE_WATCH] = "get", [KUBE_LOG] = "logs",
    };

    rg_strv_add(argv, "kubectl");
    if (place->context)
        rg_strv_addf(argv, "--context=%s", place->context);
    if (place->ns)
        rg_strv_addf(argv, "--namespace=%s", place->ns);
    rg_strv_add(argv, verbs[q->verb]);
    if (q->kind && q->name) /* "job NAME", as people say it */
        rg_strv_addf(argv, "%.*s", (int) strlen(q->kind) - 1, q->kind);
    else if (q->kind)
        rg_strv_add(argv, q->kind);
    if (q->name)
        rg_strv_add(argv, q->name);
    if (q->selector)
        rg_strv_addf(argv, "--selector=%s", q->selector);
    if (q->fields)
        rg_strv_addf(argv, "--field-selector=%s", q->fields);
    if (q->cluster && q->verb == KUBE_GET)
        rg_strv_add(argv, "--all-namespaces");
    if (q->ms)
        rg_strv_addf(argv, "--request-timeout=%llus", (unsigned long long) (q->ms + 999) / 1000);
    add_of_verb(q, argv);
}

/* --- questions -------------------------------------------------------------------------------- */

static int take_file(int fd, size_t max, struct rg_buf *buf)
{
    off_t nbytes = lseek(fd, 0, SEEK_END);

    if (nbytes < 0 || (uint64_t) nbytes > max)
        return nbytes < 0 ? -errno : -EFBIG;
    uint8_t *room = rg_buf_reserve(buf, (size_t) nbytes + 1);
    if (!room)
        return -ENOMEM;
    ssize_t n = pread(fd, room, (size_t) nbytes, 0);
    if (n < 0)
        return -errno;
    rg_buf_commit(buf, (size_t) n);
    return 0;
}

/* Input and answers are files in memory: nobody waits for room in a pipe. */
static int input_of(const struct kube_request *request, int *ret_fd)
{
    rg_autoclose int fd = memfd_create("input", MFD_CLOEXEC);
    struct rg_buf input = RG_BUF_INIT;

    if (fd < 0)
        return -errno;
    int r = request->object ? kube_dump(request->object, &input) : 0;
    r = r < 0 ? r : rg_write_all(fd, rg_buf_bytes(&input), rg_buf_nbytes(&input));
    rg_buf_wipe(&input); /* a Secret may be in it */
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        *ret_fd = rg_steal_fd(&fd);
    return r;
}

/* It has a process group of its own, so that a terminal's Ctrl-C reaches us, who end it, if it is
 * to end. out, said: as of struct rg_spawn. */
static int spawn(const struct kube_place *place, const struct kube_request *request, int out,
                 int said, pid_t *ret_pid, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autoclose int in = -1;
    int r = input_of(request, &in);

    kubectl_words(place, request, &argv);
    r = r < 0 ? r : rg_strv_status(&argv);
    if (r < 0)
        return rg_error_set(err, -r, "kubectl: %s", strerror(-r));
    const struct rg_spawn spawn = { .argv = argv.v, .fds = { in, out, said }, .new_group = true,
                                    .death_signal = SIGTERM };
    r = rg_spawn(&spawn, ret_pid, err);
    return r < 0 ? rg_error_prepend(err, "kubectl") : 0;
}

/* What it says at its end, of which a failure's last words count. */
static void read_refusal(int said_fd, int status, struct kube_refusal *ret_refusal)
{
    rg_autobuf struct rg_buf said = RG_BUF_INIT;

    *ret_refusal = (struct kube_refusal){ .why = KUBE_FINE };
    if (status == 0)
        return;
    if (take_file(said_fd, SAID_MAX, &said) < 0)
        rg_buf_clear(&said);
    kube_refusal_said(rg_buf_text(&said), ret_refusal);
}

/* Its end, within ms of now, and what it said. */
static int wait_for(pid_t pid, int out, int said, uint64_t ms, struct rg_buf *answer,
                    struct kube_refusal *ret_refusal, struct rg_error *err)
{
    int status = rg_spawn_wait(pid, ms);

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_UNAVAILABLE,
                                 "kubectl has not ended after %llu s, and was killed; does "
                                 "kubectl get pods answer?", (unsigned long long) ms / 1000);
    int r = answer ? take_file(out, KUBE_ANSWER_MAX, answer) : 0;
    if (r < 0)
        return rg_error_set(err, -r, "what kubectl said: %s", strerror(-r));
    read_refusal(said, status, ret_refusal);
    return 0;
}

static int ask(const struct kube_place *place, const struct kube_request *request, uint64_t ms,
               struct rg_buf *answer, struct kube_refusal *ret_refusal, struct rg_error *err)
{
    rg_autoclose int out = memfd_create("answer", MFD_CLOEXEC);
    rg_autoclose int said = memfd_create("complaint", MFD_CLOEXEC);
    pid_t pid;

    if (out < 0 || said < 0)
        return rg_error_set(err, errno, "kubectl: %s", strerror(errno));
    int r = spawn(place, request, out, said, &pid, err);
    if (r < 0)
        return r;
    return wait_for(pid, out, said, ms, answer, ret_refusal, err);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* A kubectl that goes on. */
struct process {
    struct kube_stream *stream;
    pid_t pid;
    int fd, said_fd;
    struct rg_io io;
    struct rg_child child;
    bool eof, ended;
    int status;
};

/* It has ended, and all that it wrote was told. */
static void tell_end(struct process *process)
{
    struct kube_refusal refusal;

    if (!process->eof || !process->ended)
        return;
    read_refusal(process->said_fd, process->status, &refusal);
    kube_stream_end(process->stream, &refusal);
}

static void on_ended(void *arg, pid_t pid, int status)
{
    struct process *process = arg;

    (void) pid;
    process->ended = true;
    process->pid = 0;
    process->status = status;
    tell_end(process);
}

static void on_readable(void *arg, int events)
{
    struct process *process = arg;
    static char bytes[CHUNK];
    ssize_t n = read(process->fd, bytes, sizeof(bytes));

    (void) events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        if (kube_stream_take(process->stream, bytes, (size_t) n) < 0)
            kube_stream_end(process->stream, &process->stream->refusal);
        return;
    }
    rg_io_stop(&process->io);
    process->eof = true;
    tell_end(process);
}

static int start(struct kube_stream *stream, const struct kube_place *place,
                 const struct kube_request *request, struct rg_error *err)
{
    struct process *process = calloc(1, sizeof(*process));
    int fds[2], r = process ? rg_pipe(fds) : -ENOMEM;

    if (r < 0) {
        free(process);
        return rg_error_set(err, -r, "kubectl: %s", strerror(-r));
    }
    rg_autoclose int ours = fds[0], theirs = fds[1];
    rg_autoclose int said = memfd_create("said", MFD_CLOEXEC);
    if (said < 0 || (r = rg_fd_set_nonblock(ours, true)) < 0)
        r = rg_error_set(err, errno, "kubectl: %s", strerror(errno));
    else
        r = spawn(place, request, theirs, said, &process->pid, err);
    if (r < 0) {
        free(process);
        return r;
    }
    process->stream = stream;
    process->fd = rg_steal_fd(&ours);
    process->said_fd = rg_steal_fd(&said);
    stream->state = process;
    rg_io_start(&process->io, stream->loop, process->fd, RG_IO_READ, on_readable, process);
    rg_child_start(&process->child, stream->loop, process->pid, on_ended, process);
    return 0;
}

static void stop(struct kube_stream *stream)
{
    struct process *process = stream->state;

    rg_io_stop(&process->io);
    rg_child_stop(&process->child);
    if (process->pid > 0) {
        kill(-process->pid, SIGKILL); /* it only reads */
        waitpid(process->pid, NULL, 0);
    }
    close(process->fd);
    close(process->said_fd);
    free(process);
}

/* --- the configuration ------------------------------------------------------------------------ */

/* One question for both, since each takes kubectl some 50 ms. */
void kubectl_where_words(const struct kube_place *place, struct rg_strv *argv)
{
    rg_strv_add(argv, "kubectl");
    if (place->context)
        rg_strv_addf(argv, "--context=%s", place->context);
    rg_strv_add(argv, "config");
    rg_strv_add(argv, "view");
    rg_strv_add(argv, "--minify");
    rg_strv_add(argv, "--output=jsonpath={.contexts[0].context.namespace}@{.current-context}");
}

void kubectl_where_read(const struct kube_place *place, char *text, char **ret_ns,
                        char **ret_context)
{
    text[strcspn(text, "\n")] = '\0';
    char *at = strchr(text, '@');
    if (at && !place->context)
        *ret_context = strdup(at + 1);
    if (at && !place->ns)
        *ret_ns = strndup(text, (size_t) (at - text));
}

static void where(const struct kube_place *place, char **ret_ns, char **ret_context)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    char *text = NULL;

    *ret_ns = *ret_context = NULL;
    kubectl_where_words(place, &argv);
    if (rg_strv_status(&argv) == 0 && rg_spawn_ask(argv.v, CONFIG_MS, SAID_MAX, &text) == 0)
        kubectl_where_read(place, text, ret_ns, ret_context);
    free(text);
}

const struct kube_transport kube_kubectl = {
    .start = start, .stop = stop, .ask = ask, .where = where,
};
