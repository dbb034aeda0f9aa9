/* SPDX-License-Identifier: Apache-2.0 */
/* Every driver that reaches hosts by somebody else's program (ssh, srun) speaks with what it has
 * started there by the same words. Only how the answers travel differs, which is the driver's. */
#include "launch/host/dialogue.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/plan/plan.h"
#include "wire/link.h"

#define NOTES_MAX 64
#define CWD_MAX 1023 /* what an agent takes */

/* Not every installation has an agent for each. */
static const char *const machines[RG_DIALOGUE_MACHINES] = { "x86_64", "aarch64" };

/* --- what all hosts of a job have in common --------------------------------------------------- */

static int load_agents(struct rg_dialogue_shared *shared, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    int nfound = 0;

    for (size_t i = 0; i < RG_DIALOGUE_MACHINES; i++)
        nfound += rg_agent_file_load(machines[i], &shared->agents[i], &cause) == 0;
    if (nfound)
        return 0;
    if (err)
        *err = cause;
    return -cause.errnum;
}

/* Where hosts may lack the directory, they are told another one before their ranks start. */
static bool comes_later(const struct rg_job *job)
{
#ifdef RG_AGENT
    (void) job;
    return false;
#else
    return job->sync;
#endif
}

int rg_dialogue_shared_init(struct rg_dialogue_shared *shared,
                            const struct rg_driver_options *options, bool load,
                            struct rg_error *err)
{
    struct rlimit limit;

    *shared = (struct rg_dialogue_shared){ .o = *options };
    if (!getcwd(shared->cwd, sizeof(shared->cwd)) || comes_later(options->job))
        shared->cwd[0] = '\0';
    getrlimit(RLIMIT_NOFILE, &shared->nofile);
    limit = shared->nofile;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int r = rg_agent_file_find(shared->agent_path, err);
    return r == 0 && load ? load_agents(shared, err) : r;
}

void rg_dialogue_shared_fini(struct rg_dialogue_shared *shared)
{
    for (size_t i = 0; i < RG_DIALOGUE_MACHINES; i++)
        rg_agent_file_fini(&shared->agents[i]);
    rg_strv_fini(&shared->notes);
}

void rg_dialogue_put_machines(const struct rg_dialogue_shared *shared, struct rg_buf *text)
{
    rg_buf_printf(text, "m=$(uname -m); case $m in ");
    for (size_t i = 0; i < RG_DIALOGUE_MACHINES; i++) {
        const struct rg_agent_file *agent = &shared->agents[i];
        if (!agent->data)
            continue;
        /* Other systems than Linux have names of their own for the same machines. */
        rg_buf_printf(text, "%s%s) m=%s n=%zu k=%s;; ", agent->machine,
                      strcmp(agent->machine, "aarch64") == 0  ? "|arm64"
                      : strcmp(agent->machine, "x86_64") == 0 ? "|amd64" : "",
                      agent->machine, agent->nbytes, agent->name);
    }
    rg_buf_printf(text, "*) echo \"reigen-boot error 69 it is a machine of the kind $m, for which "
                        "this installation of Reigen has no agent; it has:");
    for (size_t i = 0; i < RG_DIALOGUE_MACHINES; i++) {
        if (shared->agents[i].data)
            rg_buf_printf(text, " %s", shared->agents[i].machine);
    }
    rg_buf_printf(text, "\"; exit 69;; esac; ");
}

int rg_dialogue_put_boot(const struct rg_driver_options *options,
                         const struct rg_dialogue_boot *boot, struct rg_buf *out)
{
    struct rg_container container = options->job->container;
    char key[2 * RG_KEY_NBYTES + 1];

    rg_buf_printf(out, "reigen-agent %d\njob %s\n%s", RG_PROTOCOL_VERSION, options->plan->job_id,
                  boot->lines);
    if (boot->cwd && *boot->cwd == '/' && strlen(boot->cwd) <= CWD_MAX &&
        !strpbrk(boot->cwd, "\r\n"))
        rg_buf_printf(out, "cwd %s\n", boot->cwd);
    container.place.host_index = boot->host;
    container.place.one_host = options->plan->nhosts == 1;
    if (boot->contain && rg_container_format(&container, out) < 0)
        return -E2BIG;
    /* Last, and into room that is there: a buffer that grows would leave a copy of it behind. */
    rg_buf_reserve(out, sizeof(key) + sizeof("key \n\n"));
    rg_key_format(options->key, key);
    rg_buf_printf(out, "key %s\n\n", key);
    explicit_bzero(key, sizeof(key));
    return 0;
}

/* --- one host --------------------------------------------------------------------------------- */

/* A remark of this host's, unless another one has made it. */
static void show_note(struct rg_dialogue *dialogue, const char *text)
{
    struct rg_dialogue_shared *shared = dialogue->shared;

    if (shared->notes.count < NOTES_MAX && !rg_strv_has(&shared->notes, text) &&
        rg_strv_add(&shared->notes, text) == 0)
        shared->o.events->on_note(shared->o.arg, dialogue->host, text);
}

static void set_phase(struct rg_dialogue *dialogue, int phase, const char *reason)
{
    const struct rg_driver_options *o = &dialogue->shared->o;

    o->events->on_phase(o->arg, dialogue->host, phase, reason);
}

static int end(struct rg_dialogue *dialogue, int errnum, int exit_code, bool said, const char *text)
{
    struct rg_error err = RG_ERROR_INIT;

    dialogue->state = RG_DIALOGUE_OVER;
    rg_error_set_exit(&err, errnum, exit_code, "%s", text);
    dialogue->ops->on_error(dialogue->arg, &err, said);
    return said ? 1 : -errnum;
}

static int break_off(struct rg_dialogue *dialogue, int errnum, const char *text)
{
    return end(dialogue, errnum, RG_EXIT_UNAVAILABLE, false, text);
}

static int send_agent(struct rg_dialogue *dialogue, const char *machine)
{
    const struct rg_agent_file *agent = NULL;

    for (size_t i = 0; i < RG_DIALOGUE_MACHINES; i++) {
        const struct rg_agent_file *each = &dialogue->shared->agents[i];
        if (each->data && strcmp(each->machine, machine) == 0)
            agent = each;
    }
    if (!agent || dialogue->state != RG_DIALOGUE_ASKING)
        return break_off(dialogue, EPROTO, "it asked for an agent that there is not");
    dialogue->state = RG_DIALOGUE_INSTALLING;
    set_phase(dialogue, RG_PHASE_STARTING, "sending the agent");
    dialogue->ops->send_agent(dialogue->arg, agent);
    return 1;
}

static int send_bundle(struct rg_dialogue *dialogue)
{
    if (!dialogue->shared->o.job->container.place.bundle_digest || dialogue->got_bundle ||
        dialogue->state != RG_DIALOGUE_READY)
        return break_off(dialogue, EPROTO, "it asked for a bundle that there is not");
    dialogue->got_bundle = true;
    set_phase(dialogue, RG_PHASE_STARTING, "sending Reigen's Python packages");
    dialogue->ops->send_bundle(dialogue->arg);
    return 1;
}

static int be_ready(struct rg_dialogue *dialogue)
{
    if (dialogue->state == RG_DIALOGUE_READY)
        return break_off(dialogue, EPROTO, "it was ready twice");
    dialogue->state = RG_DIALOGUE_READY;
    set_phase(dialogue, RG_PHASE_STARTING, "starting the agent");
    dialogue->ops->send_boot(dialogue->arg);
    return 1;
}

static int be_linked(struct rg_dialogue *dialogue)
{
    if (!dialogue->ops->on_link)
        return 1;
    if (dialogue->state != RG_DIALOGUE_READY)
        return break_off(dialogue, EPROTO, "it offered a link before an agent was there");
    dialogue->state = RG_DIALOGUE_LINKED;
    dialogue->ops->on_link(dialogue->arg);
    return 1;
}

static int take_line(struct rg_dialogue *dialogue, const struct rg_preamble_line *line)
{
    switch (line->kind) {
    case RG_PREAMBLE_NOISE: break;
    case RG_PREAMBLE_NEED_AGENT: return send_agent(dialogue, line->text);
    case RG_PREAMBLE_NEED_BUNDLE: return send_bundle(dialogue);
    case RG_PREAMBLE_READY: return be_ready(dialogue);
    case RG_PREAMBLE_PHASE: set_phase(dialogue, line->phase, line->text); return 1;
    case RG_PREAMBLE_NOTE: show_note(dialogue, line->text); return 1;
    case RG_PREAMBLE_ERROR: return end(dialogue, ECHILD, line->exit_code, true, line->text);
    case RG_PREAMBLE_LINK: return be_linked(dialogue);
    }
    return 0;
}

int rg_dialogue_feed(struct rg_dialogue *dialogue, const void *bytes, size_t nbytes)
{
    struct rg_preamble_line line;
    int r = rg_preamble_feed(&dialogue->said, bytes, nbytes, &line);

    if (r == 0 || dialogue->state >= RG_DIALOGUE_LINKED)
        return 0;
    if (r == -EMSGSIZE)
        return break_off(dialogue, EMSGSIZE,
                         "it says much, but no agent of ours is to be heard; do its login shell's "
                         "start files write to standard output?");
    if (r < 0)
        return break_off(dialogue, EPROTO,
                         "its first words are of another version of Reigen, or damaged");
    return take_line(dialogue, &line);
}

int rg_dialogue_read(struct rg_dialogue *dialogue, int fd)
{
    char bytes[RG_PREAMBLE_LINE_MAX];
    ssize_t n;

    do
        n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        n = recv(fd, bytes, rg_preamble_peek(bytes, (size_t) n), MSG_DONTWAIT);
    if (n <= 0)
        return n == 0 ? -ECONNRESET : -errno;
    return rg_dialogue_feed(dialogue, bytes, (size_t) n);
}

/* --- the streams of what we have started ------------------------------------------------------ */

static void on_writable(void *arg, int events)
{
    struct rg_sender *sender = arg;

    (void) events;
    while (sender->fd >= 0 && rg_buf_nbytes(&sender->out) > 0) {
        ssize_t n = send(sender->fd, rg_buf_bytes(&sender->out), rg_buf_nbytes(&sender->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!rg_io_active(&sender->io))
                rg_io_start(&sender->io, sender->loop, sender->fd, RG_IO_WRITE, on_writable,
                            sender);
            return;
        }
        if (n < 0) { /* nobody reads any more; the process's end will tell */
            rg_buf_wipe(&sender->out);
            break;
        }
        explicit_bzero((uint8_t *) rg_buf_bytes(&sender->out), (size_t) n);
        rg_buf_consume(&sender->out, (size_t) n);
        if (sender->on_moved)
            sender->on_moved(sender->arg);
    }
    rg_io_stop(&sender->io);
}

int rg_sender_send(struct rg_sender *sender)
{
    if (rg_buf_status(&sender->out) < 0)
        return -ENOMEM;
    on_writable(sender, RG_IO_WRITE);
    return 0;
}

void rg_sender_stop(struct rg_sender *sender)
{
    rg_io_stop(&sender->io);
    rg_buf_wipe(&sender->out); /* the key may be in it */
}

void rg_error_stream_feed(struct rg_error_stream *stream, const char *bytes, size_t nbytes)
{
    for (const char *p = bytes, *end = bytes + nbytes; p < end;) {
        struct rg_preamble_line line;
        size_t length = rg_preamble_peek(p, (size_t) (end - p));
        stream->said.nbytes = 0; /* no limit for the whole of a job */
        int r = rg_preamble_feed(&stream->said, p, length, &line);
        if (r > 0 && line.kind == RG_PREAMBLE_NOISE)
            stream->on_line(stream->arg, line.text);
        p += length;
    }
}

static bool read_errors(struct rg_error_stream *stream)
{
    char bytes[1024];
    ssize_t n = read(stream->fd, bytes, sizeof(bytes));

    if (n < 0 && errno == EINTR)
        return true;
    if (n > 0)
        rg_error_stream_feed(stream, bytes, (size_t) n);
    else if (n == 0 || errno != EAGAIN)
        rg_io_stop(&stream->io);
    return n > 0;
}

static void on_errors(void *arg, int events)
{
    (void) events;
    read_errors(arg);
}

void rg_error_stream_start(struct rg_error_stream *stream, struct rg_loop *loop, int take_fd,
                           void (*on_line)(void *arg, const char *text), void *arg)
{
    rg_error_stream_stop(stream);
    memset(stream, 0, sizeof(*stream));
    stream->fd = take_fd;
    stream->open = true;
    stream->on_line = on_line;
    stream->arg = arg;
    rg_io_start(&stream->io, loop, take_fd, RG_IO_READ, on_errors, stream);
}

void rg_error_stream_drain(struct rg_error_stream *stream)
{
    while (stream->open && read_errors(stream))
        ;
}

void rg_error_stream_stop(struct rg_error_stream *stream)
{
    if (!stream->open)
        return;
    rg_io_stop(&stream->io);
    close(stream->fd);
    stream->open = false;
}

int rg_streams_open(bool both, int ours[3], int theirs[3])
{
    int pairs[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    int r = rg_socketpair(pairs[0]);

    if (r == 0 && !both)
        r = rg_pipe(pairs[1]);
    if (r == 0)
        r = rg_pipe(pairs[2]);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; r < 0 && j < 2; j++) {
            if (pairs[i][j] >= 0)
                close(pairs[i][j]);
        }
        ours[i] = pairs[i][0];
        theirs[i] = pairs[i][1];
        if (r == 0 && i > 0 && ours[i] >= 0)
            rg_fd_set_nonblock(ours[i], true);
    }
    return r;
}
