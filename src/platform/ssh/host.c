/* SPDX-License-Identifier: Apache-2.0 */
/* One host, from its process (ssh, or an agent of this computer) to its link, and that one's end:
 * what may go wrong on the way is told by the host, by ssh, or by silence. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/ssh/internal.h"
#include "base/exitcode.h"
#include "launch/plan/place.h"

#define FEW_TRIES 4
#define RETRY_MS 200            /* doubled each time, and moved by chance */
#define RETRY_MAX_MS 5000
#define TERM_MS 500             /* for ssh to end its own children */
#define CONTAIN_TERM_MS 30000   /* for contain to remove its container (agent/contain) */
#define ERROR_MS 10000          /* for a host to end after it said that it cannot start */
#define STEP_SHARE 4            /* of --start-timeout: for one step of a start */
#define STEP_MIN_MS 10000
#define STEP_SAID_MAX 300
#define STEP_MAX_MS 120000
#define STEP_MS 75000           /* without --start-timeout */
#define HINT_MS 5000            /* without a word, until the user reads what may be the matter */

enum state {
    QUEUED,   /* waits for its turn */
    STARTING, /* its process runs; takes part in the window */
    WAITING,  /* sshd was busy: another try comes */
    LINKED,   /* the session has the link; the process runs */
    GONE,     /* the session knows, or is just about to */
};

struct ssh_host {
    struct ssh *ssh;
    int index;             /* in the plan */
    bool direct;           /* this computer: no ssh */
    bool contains;         /* what it is to run is `contain` */
    enum state state;
    pid_t pid;             /* 0: no process */
    struct rg_child child;
    struct rg_sender in;   /* fd: our end of its standard input and output; -1 once linked */
    struct rg_io reader;
    struct rg_error_stream errors;
    struct rg_dialogue dialogue;
    struct rg_timer timer; /* another try, or patience with its end */
    struct rg_timer step;  /* until something of the start has to move */
    struct rg_timer hint;  /* until somebody wonders about it */
    struct rg_sweep sweep;
    bool stopped;          /* by us */
    unsigned tries;
    struct rg_error err;   /* for on_gone */
};

static void drain(struct ssh_host *host);

static const struct rg_driver_options *options_of(const struct ssh_host *host)
{
    return &host->ssh->shared.o;
}

static void set_phase(struct ssh_host *host, int phase, const char *reason)
{
    options_of(host)->events->on_phase(options_of(host)->arg, host->index, phase, reason);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void close_streams(struct ssh_host *host)
{
    rg_io_stop(&host->reader);
    rg_sender_stop(&host->in);
    rg_error_stream_stop(&host->errors);
    if (host->in.fd >= 0)
        close(rg_steal_fd(&host->in.fd));
}

static void leave_window(struct ssh_host *host, enum state state)
{
    bool was = host->state == STARTING;

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
    rg_timer_stop(&host->hint);
    leave_window(host, GONE);
    options_of(host)->events->on_gone(options_of(host)->arg, host->index, &host->err);
}

static void try_again(void *arg)
{
    struct ssh_host *host = arg;

    host->state = QUEUED;
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
    rg_timer_start(&host->timer, options_of(host)->loop, delay_ms, 0, try_again, host);
    leave_window(host, WAITING);
}

/* What ssh and the host said: first, and last. */
static const char *quote_all(const struct ssh_host *host, char *buf, size_t nbytes)
{
    char more[RG_PREAMBLE_QUOTE_MAX];

    rg_preamble_quote_all(&host->errors.said, buf, nbytes);
    size_t n = strlen(buf);
    rg_preamble_quote_all(&host->dialogue.said, more, sizeof(more));
    if (*more && n < nbytes)
        snprintf(buf + n, nbytes - n, "%s%s", n ? "; " : "", more);
    return buf;
}

const char *ssh_said(void *state, int host, char *buf, size_t nbytes)
{
    const struct ssh *ssh = state;
    char said[2 * RG_PREAMBLE_QUOTE_MAX];

    quote_all(ssh->hosts[host], said, sizeof(said));
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
    if (host->ssh->exec)
        ssh_explain_exec(said, how, &e);
    else
        ssh_explain(options_of(host)->plan->hosts[host->index].name,
                    options_of(host)->job->ssh_port, said, how, &e);
    rg_error_set_exit(&host->err, EHOSTUNREACH, e.exit_code, "%s", e.text);
    *ret_retry = e.retry;
}

static void explain_end(struct ssh_host *host, int status, const char *how)
{
    char said[RG_PREAMBLE_NOISE_MAX + 4];
    /* What its host was told to run. */
    const char *ours = host->contains ? "the program that holds its container"
                                                         : "its agent";

    rg_preamble_quote(&host->errors.said, said, sizeof(said));
    int length = 0;
    const char *guard = rg_preamble_guard(said, &length);
    if (guard && !host->stopped)
        rg_error_set(&host->err, ECHILD, "%.*s", length, guard);
    else if (host->direct)
        rg_error_set(&host->err, ECHILD, "%s%s (process %d) ended: %s%s", ours,
                     WIFSIGNALED(status) && !host->contains ? "'s guard" : "",
                     (int) host->pid, how, host->stopped ? ", sent by reigen" : "");
    else if (host->stopped)
        rg_error_set(&host->err, ECHILD, "its connection was closed by reigen");
    else if (WIFSIGNALED(status))
        explain_killed_client(host, how, "", said);
    else if (host->ssh->exec && ssh_exec_is_cut(rg_status_code(status), said))
        rg_error_set(&host->err, ECONNRESET, "its container is gone, or its connection was lost "
                     "(kubectl exec: %s)%s%s", how, *said ? ": " : "", said);
    else if (rg_status_code(status) == 255 && !*said) /* it tells of connections that break */
        rg_error_set(&host->err, ECONNRESET, "%s was killed there, or its connection was lost "
                     "(ssh: %s, without a word)", ours, how);
    else if (rg_status_code(status) == 255)
        rg_error_set(&host->err, ECONNRESET, "its connection was lost (ssh: %s)%s%s", how,
                     *said ? ": " : "", said);
    else
        rg_error_set(&host->err, ECHILD, "its agent ended: %s%s%s", how, *said ? ": " : "", said);
}

static bool tries_again(const struct ssh_host *host, enum ssh_retry retry)
{
    return retry == SSH_RETRY_ON || (retry == SSH_RETRY_FEW && host->tries < FEW_TRIES) ||
           (retry != SSH_RETRY_NO && options_of(host)->job->hosts_come);
}

static void process_ended(void *arg, pid_t pid, int status)
{
    struct ssh_host *host = arg;
    bool linked = host->state == LINKED;
    enum ssh_retry retry = SSH_RETRY_NO;
    char how[64];

    (void) pid;
    drain(host);
    linked |= host->state == LINKED;
    rg_status_text(status, how, sizeof(how));
    if (linked)
        explain_end(host, status, how);
    else if (!host->err.errnum)
        explain_start(host, status, how, &retry);
    host->pid = host->ssh->leftover.spared[host->index] = 0;
    close_streams(host);
    rg_timer_stop(&host->timer);
    rg_timer_stop(&host->step);
    if (!host->stopped && tries_again(host, retry)) {
        char why[RG_ERROR_TEXT_MAX + 16];
        snprintf(why, sizeof(why), "trying again: %s", host->err.text);
        host->err = (struct rg_error) RG_ERROR_INIT;
        wait_for_another_try(host, why);
        return;
    }
    if (host->direct && status != 0) /* it may have left processes to us */
        rg_sweep_start(&host->sweep, &host->ssh->leftover, options_of(host)->loop, tell_gone, host);
    else
        tell_gone(host);
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

static void stop(struct ssh_host *host)
{
    bool contains = host->direct && host->contains;

    if (host->state == GONE || host->stopped)
        return;
    host->stopped = true;
    rg_timer_stop(&host->step);
    if (!host->pid) {
        if (!rg_timer_active(&host->sweep.timer)) {
            if (!host->err.errnum)
                rg_error_set(&host->err, ECANCELED, "it was not connected any more");
            rg_timer_start(&host->timer, options_of(host)->loop, 0, 0, tell_gone, host);
            leave_window(host, GONE);
        }
        return;
    }
    if (host->direct && !contains) {
        send_signal(host, SIGKILL);
        return;
    }
    send_signal(host, SIGTERM);
    rg_timer_start(&host->timer, options_of(host)->loop, contains ? CONTAIN_TERM_MS : TERM_MS, 0,
                   force, host);
}

void ssh_stop(void *state, int host)
{
    stop(((struct ssh *) state)->hosts[host]);
}

bool ssh_host_destroy(struct ssh_host *host)
{
    bool leaves = host && host->direct && host->pid && !host->contains;

    if (!host)
        return false;
    rg_child_stop(&host->child);
    rg_timer_stop(&host->timer);
    rg_timer_stop(&host->step);
    rg_timer_stop(&host->hint);
    rg_timer_stop(&host->sweep.timer);
    close_streams(host);
    if (host->pid) {
        bool contains = host->direct && host->contains;
        send_signal(host, contains ? SIGTERM : SIGKILL);
        while (!contains && waitpid(host->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        host->ssh->leftover.spared[host->index] = 0;
    }
    free(host);
    return leaves;
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
    uint64_t ms = options_of(host)->job->start_timeout_ms / STEP_SHARE;

    if (!options_of(host)->job->start_timeout_ms)
        return STEP_MS;
    return ms < STEP_MIN_MS ? STEP_MIN_MS : ms > STEP_MAX_MS ? STEP_MAX_MS : ms;
}

/* Somebody may be typing a password. */
static bool asks(const struct ssh_host *host)
{
    const struct rg_strv *options = &options_of(host)->job->ssh_options;

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

    if (host->dialogue.state == RG_DIALOGUE_READY) {
        step = "starting the agent";
    } else if (host->dialogue.state == RG_DIALOGUE_INSTALLING) {
        step = rg_buf_nbytes(&host->in.out) ? "sending the agent" : "installing the agent";
    } else {
        remedy = ". Does a start file of its login shell wait, or read its input? ssh HOST true "
                 "must end by itself";
    }
    ssh_said(host->ssh, host->index, said, sizeof(said));
    rg_error_set_exit(&host->err, ETIMEDOUT, RG_EXIT_TIMEOUT,
                      "%s: nothing moved for %.6g s%s%s%s", step, (double) step_ms(host) / 1000.0,
                      *said ? "; what it said last: " : "; it has said nothing", said, remedy);
    fail(host, ETIMEDOUT, host->err.text);
}

/* Before the other side has said anything, ssh and that login shell are alike. */
static void hint_due(void *arg)
{
    struct ssh_host *host = arg;

    if (host->state == STARTING && host->dialogue.state == RG_DIALOGUE_ASKING && !host->stopped)
        set_phase(host, RG_PHASE_STARTING, "connecting by ssh, without a word from there: its sshd "
                  "is slow, or a start file of its login shell waits, such as ~/.bashrc or "
                  "~/.zshenv");
}

/* A step has begun, or gone on. What start files write is no step. A container's image may have to
 * be fetched, which takes as long as it takes. */
static void moved(void *arg)
{
    struct ssh_host *host = arg;
    enum rg_dialogue_state state = host->dialogue.state;

    if (host->state != STARTING || host->err.errnum || host->stopped ||
        (host->contains && state >= RG_DIALOGUE_READY) ||
        (state == RG_DIALOGUE_ASKING && asks(host)))
        rg_timer_stop(&host->step);
    else
        rg_timer_start(&host->step, options_of(host)->loop, step_ms(host), 0, step_due, host);
}

/* --- the dialogue ----------------------------------------------------------------------------- */

static void send_out(struct ssh_host *host)
{
    if (rg_sender_send(&host->in) < 0)
        fail(host, ENOMEM, "out of memory");
}

static void send_agent(void *arg, const struct rg_agent_file *agent)
{
    struct ssh_host *host = arg;

    ssh_command_installer(host->ssh, host->index, &host->in.out);
    rg_buf_put(&host->in.out, agent->data, agent->nbytes);
    send_out(host);
}

static void send_boot(void *arg)
{
    struct ssh_host *host = arg;
    const struct rg_dialogue_boot boot = {
        .lines = host->contains ? "link stdio\n" : "link stdio\nguard on\n",
        .cwd = host->contains || host->direct ? NULL : host->ssh->shared.cwd,
        .contain = host->contains,
        .host = host->index,
    };

    if (rg_dialogue_put_boot(options_of(host), &boot, &host->in.out) < 0)
        fail(host, E2BIG, "the container's description is too long");
    else
        send_out(host);
}

static void send_bundle(void *arg)
{
    struct ssh_host *host = arg;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_place_pack_bundle(&options_of(host)->job->container.place, &host->in.out, &err) < 0)
        fail(host, err.errnum, err.text);
    else
        send_out(host);
}

static void on_error(void *arg, const struct rg_error *err, bool said)
{
    struct ssh_host *host = arg;

    if (!said) {
        fail(host, err->errnum, err->text);
        return;
    }
    host->err = *err;
    rg_timer_start(&host->timer, options_of(host)->loop, ERROR_MS, 0, force, host);
}

static void on_link(void *arg)
{
    struct ssh_host *host = arg;

    if (rg_buf_nbytes(&host->in.out)) {
        fail(host, EPROTO, "it offered a link before an agent was there");
        return;
    }
    rg_io_stop(&host->reader);
    rg_timer_stop(&host->step);
    leave_window(host, LINKED);
    int fd = rg_steal_fd(&host->in.fd);
    options_of(host)->events->on_connected(options_of(host)->arg, host->index, fd, fd);
}

static void on_output(void *arg, int events)
{
    struct ssh_host *host = arg;
    int r = 0;

    (void) events;
    while (host->in.fd >= 0 && r >= 0) {
        r = rg_dialogue_read(&host->dialogue, host->in.fd);
        if (r > 0)
            moved(host);
        else if (r < 0 && r != -EAGAIN)
            rg_io_stop(&host->reader);
    }
}

/* ssh's own words, and the agent's. The latter are for the user. */
static void on_error_line(void *arg, const char *text)
{
    struct ssh_host *host = arg;

    if (host->state == LINKED && rg_preamble_is_remark(text) && !host->stopped)
        options_of(host)->events->on_note(options_of(host)->arg, host->index, text);
}

/* The process has ended: what it wrote before counts. */
static void drain(struct ssh_host *host)
{
    rg_error_stream_drain(&host->errors);
    if (host->state == STARTING && !host->err.errnum)
        on_output(host, RG_IO_READ);
}

static const struct rg_dialogue_ops dialogue_ops = { .send_agent = send_agent,
                                                     .send_boot = send_boot,
                                                     .send_bundle = send_bundle,
                                                     .on_error = on_error,
                                                     .on_link = on_link };

/* --- the start -------------------------------------------------------------------------------- */

static int make_argv(const struct ssh_host *host, struct rg_strv *argv)
{
    if (!host->direct)
        return ssh_command_make(host->ssh, host->index, argv);
    int r = rg_strv_add(argv, host->ssh->shared.agent_path);
    return r < 0 ? r : rg_strv_add(argv, host->contains ? "contain" : "agent");
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
        .nofile = &host->ssh->shared.nofile,
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

static int begin(struct ssh_host *host, struct rg_error *err)
{
    struct rg_loop *loop = options_of(host)->loop;
    int ours[3], theirs[3];
    int r = rg_streams_open(true, ours, theirs);

    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE, "no pipes for it: %s",
                                 strerror(-r));
    host->dialogue = (struct rg_dialogue){ .shared = &host->ssh->shared, .ops = &dialogue_ops,
                                           .arg = host, .host = host->index };
    host->in = (struct rg_sender){ .fd = ours[0], .loop = loop, .on_moved = moved, .arg = host };
    rg_error_stream_start(&host->errors, loop, ours[2], on_error_line, host);
    if (++host->tries == 1) /* later why it is tried again says more */
        set_phase(host, RG_PHASE_STARTING, host->direct ? "" : "connecting by ssh");
    r = spawn(host, theirs[0], theirs[2], err);
    close(theirs[0]);
    close(theirs[2]);
    if (r < 0) {
        close_streams(host);
        return r;
    }
    host->ssh->leftover.spared[host->index] = host->pid;
    rg_child_start(&host->child, loop, host->pid, process_ended, host);
    rg_io_start(&host->reader, loop, host->in.fd, RG_IO_READ, on_output, host);
    if (host->direct) { /* it reads its lines, and nothing stands between */
        host->dialogue.state = RG_DIALOGUE_READY;
        send_boot(host);
    }
    moved(host);
    if (!host->direct)
        rg_timer_start(&host->hint, loop, HINT_MS, 0, hint_due, host);
    return 0;
}

struct ssh_host *ssh_host_create(struct ssh *ssh, int index, bool direct)
{
    struct ssh_host *host = calloc(1, sizeof(*host));

    if (host) {
        host->ssh = ssh;
        host->index = index;
        host->direct = direct;
        host->contains = ssh->shared.o.job->container.image;
        host->in.fd = -1;
    }
    return host;
}

bool ssh_host_is_direct(const struct ssh_host *host)
{
    return host->direct;
}

void ssh_host_start(struct ssh_host *host)
{
    struct rg_error err = RG_ERROR_INIT;

    if (host->state != QUEUED)
        return;
    host->state = STARTING;
    host->ssh->nstarting++;
    if (begin(host, &err) == 0)
        return;
    host->err = err;
    stop(host);
}

/* Also called from within itself, when a host fails at once; the loop then goes on by itself. */
void ssh_advance(struct ssh *ssh)
{
    if (ssh->advancing)
        return;
    ssh->advancing = true;
    while (ssh->nstarting < RG_SSH_WINDOW && ssh->next < ssh->shared.o.plan->nhosts) {
        struct ssh_host *host = ssh->hosts[ssh->next++];
        if (host) /* there was memory for it */
            ssh_host_start(host);
    }
    ssh->advancing = false;
}
