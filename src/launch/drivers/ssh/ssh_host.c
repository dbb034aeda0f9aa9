/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "base/time.h"
#include "launch/drivers/ssh/ssh_internal.h"
#include "base/exitcode.h"
#include "launch/plan/place.h"
#include "wire/link.h"

#define FEW_TRIES 4
#define NOTES_MAX 64
#define RETRY_MS 200            /* doubled each time, and moved by chance */
#define RETRY_MAX_MS 5000
#define TERM_MS 500             /* for ssh to end its own children */
#define CONTAIN_TERM_MS 8000    /* for contain to remove its container */
#define CWD_MAX 1023            /* what an agent takes */
#define ERROR_MS 10000          /* for a host to end after it said that it cannot start */
#define STEP_SHARE 4            /* of --start-timeout: for one step of a start */
#define STEP_MIN_MS 10000
#define STEP_SAID_MAX 300
#define STEP_MAX_MS 120000
#define STEP_MS 75000           /* without --start-timeout */

static void drain(struct ssh_host *host);

static void set_phase(struct ssh_host *host, int phase, const char *reason)
{
    host->ssh->o.events->on_phase(host->ssh->o.arg, host->index, phase, reason);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void close_streams(struct ssh_host *host)
{
    rg_io_stop(&host->reader);
    rg_io_stop(&host->writer);
    rg_io_stop(&host->err_reader);
    if (host->fd >= 0)
        close(host->fd);
    if (host->err_fd >= 0)
        close(host->err_fd);
    host->fd = host->err_fd = -1;
    rg_buf_wipe(&host->out); /* the key may be in it */
}

static void leave_window(struct ssh_host *host, enum ssh_state state)
{
    bool was = host->state == SSH_STARTING;

    host->state = state;
    if (was) {
        host->ssh->nstarting--;
        ssh_advance(host->ssh);
    }
}

static void tell_gone(void *arg)
{
    struct ssh_host *host = arg;

    rg_timer_stop(&host->timer);
    rg_timer_stop(&host->step);
    rg_timer_stop(&host->sweeper);
    leave_window(host, SSH_GONE);
    host->ssh->o.events->on_gone(host->ssh->o.arg, host->index, &host->err);
}

static size_t kill_left_behind(struct ssh *ssh)
{
    size_t n = (size_t) ssh->o.plan->nhosts;
    rg_autofree pid_t *alive = calloc(n, sizeof(*alive));

    if (!alive)
        return 0;
    for (size_t i = 0; i < n; i++)
        alive[i] = ssh->hosts[i].pid;
    return rg_leftover_kill(&ssh->leftover, alive, n);
}

static void sweep(void *arg)
{
    struct ssh_host *host = arg;

    if (kill_left_behind(host->ssh) == 0 || rg_now_ns() > host->sweep_deadline_ns)
        tell_gone(host);
}

/* An agent on this computer may have left processes to us. */
static void sweep_and_tell(struct ssh_host *host, int status)
{
    if (!host->direct || status == 0 || kill_left_behind(host->ssh) == 0) {
        tell_gone(host);
        return;
    }
    host->sweep_deadline_ns = rg_now_ns() + RG_LEFTOVER_LIMIT_MS * RG_NS_PER_MS;
    rg_timer_start(&host->sweeper, host->ssh->o.loop, RG_LEFTOVER_REPEAT_MS, RG_LEFTOVER_REPEAT_MS,
                   sweep, host);
}

static void try_again(void *arg)
{
    struct ssh_host *host = arg;

    host->state = SSH_QUEUED;
    if (host->index < host->ssh->next)
        host->ssh->next = host->index;
    ssh_advance(host->ssh);
}

/* Many hosts behind one busy sshd must not come back all at once. */
static void wait_for_another_try(struct ssh_host *host, const char *why)
{
    uint64_t delay_ms = (uint64_t) RETRY_MS << (host->tries < 6 ? host->tries - 1 : 5);
    uint32_t random = 0;

    if (delay_ms > RETRY_MAX_MS)
        delay_ms = RETRY_MAX_MS;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = (uint32_t) host->index * 2654435761u;
    delay_ms = delay_ms / 2 + random % delay_ms;
    set_phase(host, RG_PHASE_STARTING, why);
    rg_timer_start(&host->timer, host->ssh->o.loop, delay_ms, 0, try_again, host);
    leave_window(host, SSH_WAITING);
}

/* What ssh and the host said: first, and last. */
static const char *quote_all(const struct ssh_host *host, char *buf, size_t nbytes)
{
    char more[RG_PREAMBLE_QUOTE_MAX];

    rg_preamble_quote_all(host->err_lines, buf, nbytes);
    size_t n = strlen(buf);
    rg_preamble_quote_all(host->preamble, more, sizeof(more));
    if (*more && n < nbytes)
        snprintf(buf + n, nbytes - n, "%s%s", n ? "; " : "", more);
    return buf;
}

const char *ssh_host_said(const struct ssh_host *host, char *buf, size_t nbytes)
{
    char said[2 * RG_PREAMBLE_QUOTE_MAX] = "";

    if (host->preamble && host->err_lines)
        quote_all(host, said, sizeof(said));
    size_t length = strlen(said);
    snprintf(buf, nbytes, "%s", length < nbytes ? said : said + length - (nbytes - 1));
    return buf;
}

/* It is our own child that was killed, and no word of the other host's. */
static void explain_killed_client(struct ssh_host *host, const char *how, const char *when,
                                  const char *said)
{
    rg_error_set_exit(&host->err, ECHILD, RG_EXIT_UNAVAILABLE,
                      "the ssh client that led to it (process %d, on this computer) ended%s: "
                      "%s%s%s%.600s", (int) host->pid, when, how,
                      host->stopped ? ", sent by reigen" : "", *said ? ": " : "", said);
}

static void explain_start(struct ssh_host *host, int status, const char *how,
                          enum ssh_retry *ret_retry)
{
    char said[2 * RG_PREAMBLE_QUOTE_MAX];
    struct ssh_explanation e;

    quote_all(host, said, sizeof(said));
    if (host->direct) {
        rg_error_set_exit(&host->err, ECHILD, RG_EXIT_UNAVAILABLE,
                          "reigen-agent ended before it was ready: %s%s%.600s", how,
                          *said ? ": " : "", said);
        return;
    }
    if (WIFSIGNALED(status)) {
        explain_killed_client(host, how, " before an agent was there", said);
        return;
    }
    ssh_explain(host->name, host->ssh->o.job->ssh_port, said, how, &e);
    rg_error_set_exit(&host->err, EHOSTUNREACH, e.exit_code, "%s", e.text);
    *ret_retry = e.retry;
}

static void explain_end(struct ssh_host *host, int status, const char *how)
{
    char said[RG_PREAMBLE_NOISE_MAX + 4];
    /* What its host was told to run. */
    const char *ours = host->ssh->o.job->container.image ? "the program that holds its container"
                                                         : "its agent";

    rg_preamble_quote(host->err_lines, said, sizeof(said));
    const char *guard = strstr(said, "reigen-guard: "); /* agent/start/guard.h */
    if (guard && !host->stopped)
        rg_error_set(&host->err, ECHILD, "%.*s", (int) strcspn(guard + 14, ";"), guard + 14);
    else if (host->direct)
        rg_error_set(&host->err, ECHILD, "%s%s (process %d) ended: %s%s", ours,
                     WIFSIGNALED(status) && !host->ssh->o.job->container.image ? "'s guard" : "",
                     (int) host->pid, how, host->stopped ? ", sent by reigen" : "");
    else if (host->stopped)
        rg_error_set(&host->err, ECHILD, "its connection was closed by reigen");
    else if (WIFSIGNALED(status))
        explain_killed_client(host, how, "", said);
    else if (rg_status_code(status) == 255 && !*said) /* it tells of connections that break */
        rg_error_set(&host->err, ECHILD, "%s was killed there, or its connection was lost (ssh: "
                     "%s, without a word)", ours, how);
    else if (rg_status_code(status) == 255)
        rg_error_set(&host->err, ECHILD, "its connection was lost (ssh: %s)%s%s", how,
                     *said ? ": " : "", said);
    else
        rg_error_set(&host->err, ECHILD, "its agent ended: %s%s%s", how, *said ? ": " : "", said);
}

static void process_ended(void *arg, pid_t pid, int status)
{
    struct ssh_host *host = arg;
    bool linked = host->state == SSH_LINKED;
    enum ssh_retry retry = SSH_RETRY_NO;
    char how[64];

    (void) pid;
    drain(host);
    linked |= host->state == SSH_LINKED;
    rg_status_text(status, how, sizeof(how));
    if (linked)
        explain_end(host, status, how);
    else if (!host->said_error && !host->err.errnum)
        explain_start(host, status, how, &retry);
    host->pid = 0;
    close_streams(host);
    rg_timer_stop(&host->timer);
    rg_timer_stop(&host->step);
    if (!host->stopped && (retry == SSH_RETRY_ON ||
                           (retry == SSH_RETRY_FEW && host->tries < FEW_TRIES))) {
        char why[RG_ERROR_TEXT_MAX + 16];
        snprintf(why, sizeof(why), "trying again: %s", host->err.text);
        host->err = (struct rg_error) RG_ERROR_INIT;
        wait_for_another_try(host, why);
        return;
    }
    sweep_and_tell(host, status);
}

/* To its whole group: ssh leaves a proxy command behind that does not look at its input, such as
 * the ssh to a jump host that does not answer. */
static void send_signal(const struct ssh_host *host, int signo)
{
    if (host->pid)
        kill(-host->pid, signo);
}

static void force(void *arg)
{
    send_signal(arg, SIGKILL);
}

void ssh_host_stop(struct ssh_host *host)
{
    bool contains = host->direct && host->ssh->o.job->container.image;

    if (host->state == SSH_GONE || host->stopped)
        return;
    host->stopped = true;
    rg_timer_stop(&host->step);
    if (!host->pid) {
        if (!rg_timer_active(&host->sweeper)) {
            if (!host->err.errnum)
                rg_error_set(&host->err, ECANCELED, "it was not connected any more");
            rg_timer_start(&host->timer, host->ssh->o.loop, 0, 0, tell_gone, host);
            leave_window(host, SSH_GONE);
        }
        return;
    }
    if (host->direct && !contains) {
        send_signal(host, SIGKILL);
        return;
    }
    send_signal(host, SIGTERM);
    rg_timer_start(&host->timer, host->ssh->o.loop, contains ? CONTAIN_TERM_MS : TERM_MS, 0, force,
                   host);
}

void ssh_host_fini(struct ssh_host *host)
{
    bool contains = host->direct && host->ssh->o.job->container.image;

    rg_child_stop(&host->child);
    rg_timer_stop(&host->timer);
    rg_timer_stop(&host->step);
    rg_timer_stop(&host->sweeper);
    close_streams(host);
    if (host->pid) {
        send_signal(host, contains ? SIGTERM : SIGKILL);
        while (!contains && waitpid(host->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        host->pid = 0;
    }
    free(host->preamble);
    free(host->err_lines);
}

/* The start cannot succeed: the process has no further use. */
static void fail(struct ssh_host *host, int errnum, const char *text)
{
    if (!host->err.errnum)
        rg_error_set_exit(&host->err, errnum, RG_EXIT_UNAVAILABLE, "%s", text);
    rg_io_stop(&host->reader);
    send_signal(host, SIGKILL);
}

/* --- patience with each step ------------------------------------------------------------------ */

static uint64_t step_ms(const struct ssh_host *host)
{
    uint64_t ms = host->ssh->o.job->start_timeout_ms / STEP_SHARE;

    if (!host->ssh->o.job->start_timeout_ms)
        return STEP_MS;
    return ms < STEP_MIN_MS ? STEP_MIN_MS : ms > STEP_MAX_MS ? STEP_MAX_MS : ms;
}

/* Somebody may be typing a password. */
static bool asks(const struct ssh_host *host)
{
    const struct rg_strv *options = &host->ssh->o.job->ssh_options;

    for (size_t i = 0; i < options->count; i++) {
        if (strcasecmp(options->v[i], "BatchMode=no") == 0)
            return true;
    }
    return false;
}

static void step_due(void *arg)
{
    struct ssh_host *host = arg;
    char said[STEP_SAID_MAX];
    const char *step = "connecting by ssh", *remedy = "";

    if (host->said_ready) {
        step = "starting the agent";
    } else if (host->got_agent) {
        step = rg_buf_nbytes(&host->out) ? "sending the agent" : "installing the agent";
    } else {
        remedy = ". Does a start file of its login shell wait, or read its input? ssh HOST true "
                 "must end by itself";
    }
    ssh_host_said(host, said, sizeof(said));
    rg_error_set_exit(&host->err, ETIMEDOUT, RG_EXIT_TIMEOUT,
                      "%s: nothing moved for %.6g s%s%s%s", step, (double) step_ms(host) / 1000.0,
                      *said ? "; what it said last: " : "; it has said nothing", said, remedy);
    fail(host, ETIMEDOUT, host->err.text);
}

/* A step has begun, or gone on. What start files write is no step. A container's image may have to
 * be fetched, which takes as long as it takes. */
static void moved(struct ssh_host *host)
{
    bool contains = host->ssh->o.job->container.image && host->said_ready;

    if (host->state != SSH_STARTING || contains || host->err.errnum || host->stopped ||
        (asks(host) && !host->got_agent && !host->said_ready))
        rg_timer_stop(&host->step);
    else
        rg_timer_start(&host->step, host->ssh->o.loop, step_ms(host), 0, step_due, host);
}

/* --- what we send ----------------------------------------------------------------------------- */

static void on_writable(void *arg, int events)
{
    struct ssh_host *host = arg;

    (void) events;
    while (rg_buf_nbytes(&host->out) > 0) {
        ssize_t n = send(host->fd, rg_buf_bytes(&host->out), rg_buf_nbytes(&host->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!rg_io_active(&host->writer))
                rg_io_start(&host->writer, host->ssh->o.loop, host->fd, RG_IO_WRITE, on_writable,
                            host);
            return;
        }
        if (n < 0) { /* nobody reads any more; the process's end will tell */
            rg_buf_wipe(&host->out);
            break;
        }
        explicit_bzero((uint8_t *) rg_buf_bytes(&host->out), (size_t) n);
        rg_buf_consume(&host->out, (size_t) n);
        moved(host);
    }
    rg_io_stop(&host->writer);
}

static void send_out(struct ssh_host *host)
{
    if (rg_buf_status(&host->out) < 0)
        fail(host, ENOMEM, "out of memory");
    else
        on_writable(host, RG_IO_WRITE);
}

/* The container's lines; what depends on the host is put in here. */
static int put_container(struct ssh_host *host)
{
    const struct rg_job *job = host->ssh->o.job;
    struct rg_container container = job->container;

    if (!container.image)
        return 0;
    container.place.host_index = host->index;
    container.place.one_host = host->ssh->o.plan->nhosts == 1;
    return rg_container_format(&container, &host->out);
}

/* What only an agent on a bare host behind ssh needs. */
static void put_bare(struct ssh_host *host)
{
    const char *cwd = host->ssh->cwd;

    if (*cwd == '/' && strlen(cwd) <= CWD_MAX && !strpbrk(cwd, "\r\n"))
        rg_buf_printf(&host->out, "cwd %s\n", cwd);
}

/* Reigen's Python packages, for containers whose image has none. */
static void send_bundle(struct ssh_host *host)
{
    const struct rg_container_place *place = &host->ssh->o.job->container.place;
    struct rg_error err = RG_ERROR_INIT;

    if (!place->bundle_digest || !host->said_ready || host->got_bundle) {
        fail(host, EPROTO, "it asked for a bundle that there is not");
        return;
    }
    host->got_bundle = true;
    set_phase(host, RG_PHASE_STARTING, "sending Reigen's Python packages");
    if (rg_place_pack_bundle(place, &host->out, &err) < 0)
        fail(host, err.errnum, err.text);
    else
        send_out(host);
}

/* agent/start/lines.h */
static void send_boot(struct ssh_host *host)
{
    char key[2 * RG_KEY_NBYTES + 1];

    rg_buf_printf(&host->out, "reigen-agent %d\njob %s\nlink stdio\n", RG_PROTOCOL_VERSION,
                  host->ssh->o.plan->job_id);
    if (!host->ssh->o.job->container.image)
        rg_buf_printf(&host->out, "guard on\n");
    if (!host->direct && !host->ssh->o.job->container.image)
        put_bare(host);
    if (put_container(host) < 0) {
        fail(host, E2BIG, "the container's description is too long");
        return;
    }
    /* Last, and into room that is there: a buffer that grows would leave a copy of it behind. */
    rg_buf_reserve(&host->out, sizeof(key) + sizeof("key \n\n"));
    rg_key_format(host->ssh->o.key, key);
    rg_buf_printf(&host->out, "key %s\n\n", key);
    explicit_bzero(key, sizeof(key));
    send_out(host);
}

static void send_agent(struct ssh_host *host, const char *machine)
{
    const struct rg_agent_file *agent = NULL;

    for (size_t i = 0; i < SSH_MACHINES; i++) {
        if (host->ssh->agents[i].data && strcmp(host->ssh->agents[i].machine, machine) == 0)
            agent = &host->ssh->agents[i];
    }
    if (!agent || host->got_agent || host->said_ready) {
        fail(host, EPROTO, "it asked for an agent that there is not");
        return;
    }
    host->got_agent = true;
    set_phase(host, RG_PHASE_STARTING, "sending the agent");
    ssh_command_installer(host, &host->out);
    rg_buf_put(&host->out, agent->data, agent->nbytes);
    send_out(host);
}

/* --- what it says ----------------------------------------------------------------------------- */

/* Many hosts have the same to say: once is enough. */
static void take_note(struct ssh_host *host, const char *text)
{
    struct ssh *ssh = host->ssh;

    for (size_t i = 0; i < ssh->notes.count; i++) {
        if (strcmp(ssh->notes.v[i], text) == 0)
            return;
    }
    if (ssh->notes.count < NOTES_MAX && rg_strv_add(&ssh->notes, text) == 0)
        ssh->o.events->on_note(ssh->o.arg, host->index, text);
}

static void take_error(struct ssh_host *host, const struct rg_preamble_line *line)
{
    host->said_error = true;
    rg_error_set_exit(&host->err, ECHILD, line->exit_code, "%s", line->text);
    rg_timer_start(&host->timer, host->ssh->o.loop, ERROR_MS, 0, force, host);
}

static void take_link(struct ssh_host *host)
{
    if (!host->said_ready || rg_buf_nbytes(&host->out)) {
        fail(host, EPROTO, "it offered a link before an agent was there");
        return;
    }
    rg_io_stop(&host->reader);
    rg_timer_stop(&host->step);
    leave_window(host, SSH_LINKED);
    int fd = rg_steal_fd(&host->fd);
    host->ssh->o.events->on_connected(host->ssh->o.arg, host->index, fd, fd);
}

static void take_line(struct ssh_host *host, const struct rg_preamble_line *line)
{
    if (host->said_error) /* whatever it says now, we have given it up */
        return;
    switch (line->kind) {
    case RG_PREAMBLE_NOISE: break;
    case RG_PREAMBLE_NEED_AGENT: send_agent(host, line->text); break;
    case RG_PREAMBLE_NEED_BUNDLE: send_bundle(host); break;
    case RG_PREAMBLE_READY:
        if (host->said_ready) {
            fail(host, EPROTO, "it was ready twice");
            break;
        }
        host->said_ready = true;
        set_phase(host, RG_PHASE_STARTING, "starting the agent");
        send_boot(host);
        break;
    case RG_PREAMBLE_PHASE: set_phase(host, line->phase, line->text); break;
    case RG_PREAMBLE_NOTE: take_note(host, line->text); break;
    case RG_PREAMBLE_ERROR: take_error(host, line); break;
    case RG_PREAMBLE_LINK: take_link(host); break;
    }
}

/* Look first, so that nothing behind the line `link` is taken from the link. */
static bool read_some(struct ssh_host *host)
{
    char bytes[RG_PREAMBLE_LINE_MAX];
    struct rg_preamble_line line;
    ssize_t n = recv(host->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            rg_io_stop(&host->reader);
        return false;
    }
    n = recv(host->fd, bytes, rg_preamble_peek(bytes, (size_t) n), MSG_DONTWAIT);
    if (n <= 0)
        return false;
    int r = rg_preamble_feed(host->preamble, bytes, (size_t) n, &line);
    if (r > 0) {
        take_line(host, &line);
        if (line.kind != RG_PREAMBLE_NOISE)
            moved(host);
    }
    else if (r == -EMSGSIZE)
        fail(host, EMSGSIZE, "it says much, but no agent of ours is to be heard; do its login "
                             "shell's start files write to standard output?");
    else if (r < 0)
        fail(host, EPROTO, "its first words are of another version of Reigen, or damaged");
    return r >= 0 && host->fd >= 0 && (!host->err.errnum || host->said_error);
}

static void on_output(void *arg, int events)
{
    struct ssh_host *host = arg;

    (void) events;
    while (host->fd >= 0 && read_some(host))
        ;
}

/* Standard error: ssh's own words, and the agent's. The latter are for the user. */
static void take_error_line(struct ssh_host *host, const char *text)
{
    if (host->state == SSH_LINKED && rg_str_starts(text, "reigen-agent: ") && !host->stopped)
        host->ssh->o.events->on_note(host->ssh->o.arg, host->index, text);
}

static bool read_errors(struct ssh_host *host)
{
    char bytes[1024];
    ssize_t n = read(host->err_fd, bytes, sizeof(bytes));

    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            rg_io_stop(&host->err_reader);
        return false;
    }
    for (char *p = bytes, *end = bytes + n; p < end;) {
        struct rg_preamble_line line;
        size_t length = rg_preamble_peek(p, (size_t) (end - p));
        host->err_lines->nbytes = 0; /* no limit for the whole of a job */
        int r = rg_preamble_feed(host->err_lines, p, length, &line);
        if (r > 0 && line.kind == RG_PREAMBLE_NOISE)
            take_error_line(host, line.text);
        p += length;
    }
    return true;
}

static void on_errors(void *arg, int events)
{
    struct ssh_host *host = arg;

    (void) events;
    read_errors(host);
}

/* The process has ended: what it wrote before counts. */
static void drain(struct ssh_host *host)
{
    while (host->err_fd >= 0 && read_errors(host))
        ;
    if (host->fd >= 0 && host->state == SSH_STARTING && !host->err.errnum)
        on_output(host, RG_IO_READ);
}

/* --- the start -------------------------------------------------------------------------------- */

static int make_argv(const struct ssh_host *host, struct rg_strv *argv)
{
    if (!host->direct)
        return ssh_command_make(host, argv);
    int r = rg_strv_add(argv, host->ssh->agent_path);
    return r < 0 ? r : rg_strv_add(argv, host->ssh->o.job->container.image ? "contain" : "agent");
}

static int spawn(struct ssh_host *host, int stdio_fd, int stderr_fd, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;

    if (make_argv(host, &argv) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    struct rg_spawn spec = {
        .argv = argv.v,
        .envp = host->ssh->env.v,
        .fds = { stdio_fd, stdio_fd, stderr_fd },
        .new_session = true,
        .nofile = &host->ssh->nofile,
        /* A direct agent sees its link's end, and then clears up. */
        .death_signal = host->direct ? 0 : SIGTERM,
    };
    int r = rg_spawn(&spec, &host->pid, err);
    if (r < 0 && err) {
        err->exit_code = RG_EXIT_UNAVAILABLE;
        if (!host->direct && r == -ENOENT)
            rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                              "the program %s is not there: install an ssh client (package "
                              "openssh-client), or name one by REIGEN_SSH", argv.v[0]);
    }
    return r;
}

static int open_streams(struct ssh_host *host, int *ret_stdio, int *ret_stderr)
{
    int pair[2], errors[2];
    int r = rg_socketpair(pair);

    if (r < 0)
        return r;
    if ((r = rg_pipe(errors)) < 0) {
        close(pair[0]);
        close(pair[1]);
        return r;
    }
    host->fd = pair[0];
    host->err_fd = errors[0];
    *ret_stdio = pair[1];
    *ret_stderr = errors[1];
    return rg_fd_set_nonblock(host->err_fd, true);
}

static int reset(struct ssh_host *host)
{
    if (!host->preamble)
        host->preamble = malloc(sizeof(*host->preamble));
    if (!host->err_lines)
        host->err_lines = malloc(sizeof(*host->err_lines));
    if (!host->preamble || !host->err_lines)
        return -ENOMEM;
    memset(host->preamble, 0, sizeof(*host->preamble));
    memset(host->err_lines, 0, sizeof(*host->err_lines));
    host->said_ready = host->got_agent = host->got_bundle = host->said_error = false;
    host->tries++;
    return 0;
}

int ssh_host_start(struct ssh_host *host, struct rg_error *err)
{
    struct rg_loop *loop = host->ssh->o.loop;
    rg_autoclose int stdio_fd = -1, stderr_fd = -1;
    int r = reset(host);

    if (r == 0)
        r = open_streams(host, &stdio_fd, &stderr_fd);
    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE, "no pipes for it: %s",
                                 strerror(-r));
    if (host->tries == 1) /* later why it is tried again says more */
        set_phase(host, RG_PHASE_STARTING, host->direct ? "" : "connecting by ssh");
    r = spawn(host, stdio_fd, stderr_fd, err);
    if (r < 0) {
        close_streams(host);
        return r;
    }
    rg_child_start(&host->child, loop, host->pid, process_ended, host);
    rg_io_start(&host->reader, loop, host->fd, RG_IO_READ, on_output, host);
    rg_io_start(&host->err_reader, loop, host->err_fd, RG_IO_READ, on_errors, host);
    moved(host);
    if (host->direct) {
        host->said_ready = true; /* it reads its lines, and nothing stands between */
        send_boot(host);
    }
    return 0;
}
