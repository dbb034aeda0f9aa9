/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/spawn.h"
#include "base/time.h"
#include "launch/drivers/slurm/slurm_internal.h"
#include "base/exitcode.h"
#include "launch/plan/place.h"
#include "spec/job/hostlist.h"
#include "spec/job/slurm.h"

#define LABEL_MAX 16 /* of srun: "12: " */
#define OURS "reigen-slurm " /* slurm_command.c */
#define FORCE_MS 1500
#define CWD_MAX 1023
#define KILLER_MS 300        /* from an agent's end by SIGKILL to Slurm's word that it was Slurm */

static void force(void *arg);

static struct slurm_host *next_host(const struct slurm_step *step, int *at)
{
    struct slurm *slurm = step->slurm;

    while (*at < slurm->o.plan->nhosts) {
        struct slurm_host *host = &slurm->hosts[(*at)++];
        if (host->step == step)
            return host;
    }
    return NULL;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_input(struct slurm_step *step)
{
    rg_io_stop(&step->writer);
    close_fd(&step->in_fd);
    rg_buf_wipe(&step->out); /* the key may be in it */
}

static void close_streams(struct slurm_step *step)
{
    close_input(step);
    rg_io_stop(&step->reader);
    rg_io_stop(&step->err_reader);
    close_fd(&step->out_fd);
    close_fd(&step->err_fd);
}

/* Whatever becomes of it, it is not waited for. */
static void cancel(const struct slurm_step *step, const char *signal)
{
    char *argv[] = { (char *) "scancel", (char *) signal, (char *) step->step_id, NULL };
    const struct rg_spawn spawn = { .argv = argv, .envp = step->slurm->env.v, .fds = { -1, -1, -1 },
                                    .new_session = true };
    pid_t pid;

    if (*step->step_id)
        rg_spawn(&spawn, &pid, NULL);
}

void slurm_step_end(struct slurm_step *step)
{
    if (!step->pid)
        return;
    switch (step->force++) {
    case 0: close_input(step); break;
    case 1: kill(step->pid, SIGTERM); break; /* srun kills its tasks, and waits for their end */
    default:
        cancel(step, "--signal=KILL");
        kill(step->pid, SIGKILL);
        return;
    }
    rg_timer_start(&step->timer, step->slurm->o.loop, FORCE_MS, 0, force, step);
}

static void force(void *arg)
{
    slurm_step_end(arg);
}

/* The last line that speaks of this word; NULL. */
static const char *find_said(const struct slurm_step *step, const char *word, char *buf, size_t n)
{
    const char *found = NULL;

    for (const char *line = step->err_lines.noise; *line;) {
        size_t length = strcspn(line, "\n");
        snprintf(buf, n, "%.*s", (int) length, line);
        if (strstr(buf, word) && strstr(buf, "error"))
            found = line;
        line += length + (line[length] == '\n');
    }
    if (found)
        snprintf(buf, n, "%.*s", (int) strcspn(found, "\n"), found);
    return found ? buf : NULL;
}

static const struct {
    const char *pattern, *remedy;
} known[] = {
    { "Expired or invalid job", "the allocation is over; ask for a new one" },
    { "Invalid job id", "the allocation is over, or not yours; ask for a new one" },
    { "unrecognized option '--container-image", "this cluster's Slurm has no pyxis; leave "
      "--container-runtime pyxis out" },
    { "Invalid node name", "the allocation has no such node" },
    { "Requested node configuration is not available",
      "the allocation does not have these nodes, or not what --slurm-option asks for" },
    { "Insufficient GRES", "another step has the GPUs, or Slurm has spread them over the nodes as "
      "it does not give them to a step; ask for them by the node (--gpus-per-node)" },
    { "Access/permission denied", "Slurm does not let you use this allocation" },
    { "Unable to contact slurm controller", "slurmctld does not answer; sinfo tells more" },
    { "Socket timed out", "slurmctld or a node does not answer in time; sinfo tells more" },
    { "Protocol authentication error", "munge is not running here, or its key is another one" },
    { "Job/step already completing or completed", "the allocation is over" },
    { "No such file or directory", "sh is not to be found on a node" },
};

static void explain(const struct slurm_step *step, struct slurm_host *host, const char *how)
{
    char said[RG_PREAMBLE_NOISE_MAX + 1], line[RG_PREAMBLE_NOISE_MAX + 1];
    const char *remedy = "", *colon = "";

    if (*step->slurm->ending && (!host->err.errnum || host->killed))
        rg_error_set_exit(&host->err, ECHILD, step->slurm->ending_code, "%s", step->slurm->ending);
    if (host->err.errnum)
        return;
    /* Of a step that ran, only what it calls an error tells of its end. */
    if (!find_said(step, host->name, line, sizeof(line)) &&
        !find_said(step, "srun: ", line, sizeof(line)))
        rg_preamble_quote(&step->err_lines, line, host->linked ? 1 : sizeof(line));
    rg_preamble_quote(host->preamble, said, sizeof(said));
    for (size_t i = 0; i < rg_array_len(known) && !*remedy; i++) {
        if (strstr(line, known[i].pattern))
            remedy = known[i].remedy, colon = ": ";
    }
    if (host->linked)
        rg_error_set(&host->err, ECHILD, "its step of srun is over (%s)%s%s", how,
                     *line ? ": " : "", line);
    else
        rg_error_set_exit(&host->err, ECHILD, RG_EXIT_UNAVAILABLE,
                          "srun did not start its agent (%s): %s%s%s%s%s", how, line, colon, remedy,
                          *said ? "; it said: " : "", said);
}

static void drain(struct slurm_step *step);

static void process_ended(void *arg, pid_t pid, int status)
{
    struct slurm_step *step = arg;
    struct slurm_host *host;
    char how[64], text[96];

    (void) pid;
    drain(step);
    close_streams(step);
    rg_timer_stop(&step->timer);
    rg_status_text(status, how, sizeof(how));
    snprintf(text, sizeof(text), "srun: %s%s", how, step->force ? ", ended by reigen" : "");
    step->pid = 0;
    step->orphaned = WIFSIGNALED(status) && !step->force;
    for (int at = 0; (host = next_host(step, &at));) {
        if (host->gone)
            continue;
        explain(step, host, text);
        slurm_host_gone(host);
    }
}

/* --- what we send ----------------------------------------------------------------------------- */

static void on_writable(void *arg, int events)
{
    struct slurm_step *step = arg;

    (void) events;
    while (step->in_fd >= 0 && rg_buf_nbytes(&step->out) > 0) {
        ssize_t n = send(step->in_fd, rg_buf_bytes(&step->out), rg_buf_nbytes(&step->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!rg_io_active(&step->writer))
                rg_io_start(&step->writer, step->slurm->o.loop, step->in_fd, RG_IO_WRITE,
                            on_writable, step);
            return;
        }
        if (n < 0) { /* nobody reads any more; srun's end will tell */
            rg_buf_wipe(&step->out);
            break;
        }
        explicit_bzero((uint8_t *) rg_buf_bytes(&step->out), (size_t) n);
        rg_buf_consume(&step->out, (size_t) n);
    }
    rg_io_stop(&step->writer);
}

static void fail_all(struct slurm_step *step, int errnum, const char *text)
{
    struct slurm_host *host;

    for (int at = 0; (host = next_host(step, &at));) {
        if (!host->err.errnum)
            rg_error_set_exit(&host->err, errnum, RG_EXIT_UNAVAILABLE, "%s", text);
    }
    slurm_step_end(step);
}

static void send_out(struct slurm_step *step)
{
    if (rg_buf_status(&step->out) < 0)
        fail_all(step, ENOMEM, "out of memory");
    else
        on_writable(step, RG_IO_WRITE);
}

/* agent/start/lines.h; the same lines for all. */
static void send_boot(struct slurm_step *step)
{
    const struct slurm *slurm = step->slurm;
    struct rg_container container = slurm->o.job->container;
    char key[2 * RG_KEY_NBYTES + 1];
    bool bare = !slurm_contains(slurm->o.job);

    step->sent_boot = true;
    rg_buf_printf(&step->out, "boot\nreigen-agent %d\njob %s\nplace $SLURMD_NODENAME\n",
                  RG_PROTOCOL_VERSION, slurm->o.plan->job_id);
    if (slurm->o.job->slurm.announce)
        rg_buf_printf(&step->out, "announce %s\n", slurm->o.job->slurm.announce);
    rg_buf_printf(&step->out, "link dial ");
    slurm_listener_addresses(slurm, &step->out);
    rg_buf_printf(&step->out, "\n");
    if (bare)
        rg_buf_printf(&step->out, "guard on\n");
    if (bare && *slurm->cwd == '/' && strlen(slurm->cwd) <= CWD_MAX &&
        !strpbrk(slurm->cwd, "\r\n"))
        rg_buf_printf(&step->out, "cwd %s\n", slurm->cwd);
    container.place.one_host = slurm->o.plan->nhosts == 1;
    if (!bare && rg_container_format(&container, &step->out) < 0) {
        fail_all(step, E2BIG, "the container's description is too long");
        return;
    }
    /* Last, and into room that is there: a buffer that grows would leave a copy of it behind. */
    rg_buf_reserve(&step->out, sizeof(key) + sizeof("key \n\n"));
    rg_key_format(slurm->o.key, key);
    rg_buf_printf(&step->out, "key %s\n\n", key);
    explicit_bzero(key, sizeof(key));
    send_out(step);
}

/* All have an agent: now they can be told what it is to do. */
static void check_ready(struct slurm_step *step)
{
    struct slurm_host *host;

    for (int at = 0; (host = next_host(step, &at));) {
        if (!host->said_ready && !host->gone && !host->err.errnum)
            return;
    }
    if (!step->sent_boot && step->in_fd >= 0)
        send_boot(step);
}

static void send_agent(struct slurm_step *step, struct slurm_host *host, const char *machine)
{
    struct slurm *slurm = step->slurm;

    slurm_phase(host, RG_PHASE_STARTING, "sending the agent");
    for (size_t i = 0; i < SLURM_MACHINES; i++) {
        const struct rg_agent_file *agent = &slurm->agents[i];
        if (!agent->data || strcmp(agent->machine, machine) != 0)
            continue;
        if (step->sent_agents[i] || step->sent_boot)
            return; /* all of its kind have got it */
        step->sent_agents[i] = true;
        rg_buf_printf(&step->out, "take %s %zu\n", agent->machine, agent->nbytes);
        rg_buf_put(&step->out, agent->data, agent->nbytes);
        send_out(step);
        return;
    }
    rg_error_set_exit(&host->err, EPROTO, RG_EXIT_UNAVAILABLE,
                      "it asked for an agent that there is not");
}

/* Reigen's Python packages, for containers whose image has none: once for all that need them. */
static void send_bundle(struct slurm_step *step, struct slurm_host *host)
{
    const struct rg_container_place *place = &step->slurm->o.job->container.place;
    struct rg_error err = RG_ERROR_INIT;

    slurm_phase(host, RG_PHASE_STARTING, "sending Reigen's Python packages");
    if (step->sent_bundle || !step->sent_boot || !place->bundle_digest)
        return;
    step->sent_bundle = true;
    if (rg_place_pack_bundle(place, &step->out, &err) < 0)
        fail_all(step, err.errnum, err.text);
    else
        send_out(step);
}

/* --- what tasks say --------------------------------------------------------------------------- */

/* "at NODE JOB.STEP" */
static void take_at(struct slurm_step *step, int task, const char *text)
{
    char name[RG_HOST_NAME_MAX + 1] = "", id[SLURM_ID_MAX] = "";
    struct slurm_host *host;

    if (sscanf(text, "%253s %63s", name, id) < 1 || step->tasks[task])
        return;
    if (strspn(id, "0123456789._+") == strlen(id))
        strcpy(step->step_id, id);
    for (int at = 0; (host = next_host(step, &at));) {
        if (strcmp(host->name, name) != 0 || host->task >= 0)
            continue;
        host->task = task;
        step->tasks[task] = host;
        return;
    }
}

static void was_killed(void *arg)
{
    struct slurm_host *host = arg;

    explain(host->step, host, "");
    slurm_host_gone(host);
}

/* "end STATUS", of a shell: 128 + n for a signal. */
static void take_end(struct slurm_host *host, const char *text)
{
    int64_t code = 0;
    char how[64];

    if (host->ended || rg_parse_int("status", text, 0, 255, &code, NULL) < 0)
        return;
    host->ended = true;
    if (code > 128)
        snprintf(how, sizeof(how), "signal %d (%s)", (int) code - 128, strsignal((int) code - 128));
    else
        snprintf(how, sizeof(how), "exit code %d", (int) code);
    if (!host->err.errnum)
        rg_error_set_exit(&host->err, ECHILD, host->linked ? 0 : RG_EXIT_UNAVAILABLE,
                          "its agent ended%s: %s", host->linked ? "" : " before it was ready", how);
    host->killed = code == 128 + SIGKILL;
    if (host->killed)
        rg_timer_start(&host->timer, host->slurm->o.loop, KILLER_MS, 0, was_killed, host);
    else
        slurm_host_gone(host);
}

static void take_line(struct slurm_step *step, struct slurm_host *host,
                      const struct rg_preamble_line *line)
{
    switch (line->kind) {
    case RG_PREAMBLE_NOISE: break;
    case RG_PREAMBLE_NEED_AGENT: send_agent(step, host, line->text); break;
    case RG_PREAMBLE_NEED_BUNDLE: send_bundle(step, host); break;
    case RG_PREAMBLE_READY:
        if (!host->said_ready)
            slurm_phase(host, RG_PHASE_STARTING, "starting the agent");
        host->said_ready = true;
        check_ready(step);
        break;
    case RG_PREAMBLE_PHASE: slurm_phase(host, line->phase, line->text); break;
    case RG_PREAMBLE_NOTE: slurm_note(host, line->text); break;
    case RG_PREAMBLE_ERROR:
        if (!host->err.errnum)
            rg_error_set_exit(&host->err, ECHILD, line->exit_code, "%s", line->text);
        slurm_host_gone(host);
        break;
    case RG_PREAMBLE_LINK: break; /* it calls instead */
    }
}

/* What stands behind these words of ours in the line, which then ends there; what a task's prolog
 * wrote without a newline may stand before them. NULL: it does not have them. */
static char *find_ours(char *text, size_t length, const char *words)
{
    char *at = memmem(text, length, words, strlen(words));

    if (at)
        text[length - 1] = '\0';
    return at ? at + strlen(words) : NULL;
}

/* "12: TEXT", with its newline. */
static void take_task_line(struct slurm_step *step, char *text, size_t length)
{
    struct rg_preamble_line line;
    char *end, *words;
    long task = strtol(text, &end, 10);

    if (end == text || end[0] != ':' || end[1] != ' ' || task < 0 || task >= step->nhosts)
        return;
    end += 2;
    length -= (size_t) (end - text);
    if ((words = find_ours(end, length, OURS "at "))) {
        take_at(step, (int) task, words);
        return;
    }
    struct slurm_host *host = step->tasks[task];
    if (!host || host->gone)
        return;
    if ((words = find_ours(end, length, OURS "end "))) {
        take_end(host, words);
        return;
    }
    int r = rg_preamble_feed(host->preamble, end, length, &line);
    if (r > 0)
        take_line(step, host, &line);
}

/* The line is full: half of it goes, but srun's label at its beginning. What we wait for stands at
 * its end, and is short. */
static void make_room(struct slurm_step *step)
{
    const char *colon = memchr(step->line, ':', LABEL_MAX);
    size_t label = colon ? (size_t) (colon - step->line) + 2 : 0;

    step->nline -= sizeof(step->line) / 2;
    memmove(step->line + label, step->line + label + sizeof(step->line) / 2, step->nline - label);
}

void slurm_step_take(struct slurm_step *step, const char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (step->nline == sizeof(step->line) - 1)
            make_room(step);
        step->line[step->nline++] = bytes[i];
        if (bytes[i] != '\n')
            continue;
        step->line[step->nline - 1] = '\n';
        step->line[step->nline] = '\0';
        take_task_line(step, step->line, step->nline);
        step->nline = 0;
    }
}

static bool read_lines(struct slurm_step *step)
{
    char bytes[4096];
    ssize_t n = step->out_fd < 0 ? 0 : read(step->out_fd, bytes, sizeof(bytes));

    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            rg_io_stop(&step->reader);
        return false;
    }
    slurm_step_take(step, bytes, (size_t) n);
    return true;
}

static void on_output(void *arg, int events)
{
    (void) events;
    while (read_lines(arg))
        ;
}

/* --- what srun says, and the tasks' standard error -------------------------------------------- */

/* "Task launch for StepId=3.0 failed on node n[1-2]: Communication connection failure": the other
 * tasks are cancelled for it, which is then not the cause. */
static void take_launch_failure(struct slurm_step *step, const char *text)
{
    static const char mark[] = " failed on node ";
    static const struct {
        const char *pattern, *remedy;
    } reasons[] = {
        { "Communication", "the node or its slurmd is down, or a firewall is before it" },
        { "timed out", "the node or its slurmd is down, or a firewall is before it" },
        { "credential", "its clock differs from the others', or its munge has another key" },
        { "User not found", "you have no account there" },
    };
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *at = strstr(text, mark), *remedy = "sinfo -R tells more";
    struct slurm_host *host;

    if (!rg_str_starts(text, "srun: error: Task launch for ") || !at)
        return;
    at += strlen(mark);
    size_t length = strcspn(at, ":");
    rg_autofree char *list = strndup(at, length);
    if (!list || rg_slurm_nodes("srun", list, &names, NULL) < 0)
        return;
    for (size_t i = 0; i < rg_array_len(reasons); i++) {
        if (strstr(at + length, reasons[i].pattern))
            remedy = reasons[i].remedy;
    }
    for (int i = 0; (host = next_host(step, &i));) {
        if (host->linked || host->gone || !rg_strv_has(&names, host->name))
            continue;
        if (!host->err.errnum)
            rg_error_set_exit(&host->err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                              "srun cannot start its agent%.200s; %s", at + length, remedy);
        slurm_host_gone(host);
    }
}

static void task_is_over(void *arg)
{
    struct slurm_host *host = arg;

    if (host->linked || host->gone)
        return;
    explain(host->step, host, "its task has ended");
    slurm_host_gone(host);
}

/* "srun: error: n[1-2]: tasks 0-1: Killed": a task that was killed before its agent was there has
 * said nothing, and srun waits for the others. One that could speak gets the time for it. */
static void take_task_end(struct slurm_step *step, const char *text)
{
    static const char mark[] = "srun: error: ";
    const char *names_at = text + sizeof(mark) - 1, *end = strstr(text, ": task");
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    struct slurm_host *host;

    if (!rg_str_starts(text, mark) || !end || end <= names_at)
        return;
    rg_autofree char *list = strndup(names_at, (size_t) (end - names_at));
    if (!list || rg_slurm_nodes("srun", list, &names, NULL) < 0)
        return;
    for (int i = 0; (host = next_host(step, &i));) {
        if (!host->linked && !host->gone && !host->stopped && rg_strv_has(&names, host->name))
            rg_timer_start(&host->timer, step->slurm->o.loop, KILLER_MS, 0, task_is_over, host);
    }
}

static void take_error_line(struct slurm_step *step, const char *text)
{
    char *end;
    long task = strtol(text, &end, 10);
    bool labelled = end != text && end[0] == ':' && end[1] == ' ';
    struct slurm_host *host = labelled && task >= 0 && task < step->nhosts ? step->tasks[task]
                                                                           : NULL;

    if (!step->force)
        slurm_ending_said(step->slurm, text);
    take_launch_failure(step, text);
    take_task_end(step, text);
    if (host && rg_str_starts(end + 2, "reigen-agent: ") && host->linked && !host->stopped) {
        step->slurm->o.events->on_note(step->slurm->o.arg, host->index, end + 2);
        return;
    }
    if (strstr(text, "temporarily disabled") && !step->pausing) {
        step->pausing = true;
        for (int at = 0; (host = next_host(step, &at));)
            slurm_phase(host, RG_PHASE_PENDING, text);
    }
}

void slurm_step_take_errors(struct slurm_step *step, const char *bytes, size_t nbytes)
{
    for (const char *p = bytes, *end = bytes + nbytes; p < end;) {
        struct rg_preamble_line line;
        size_t length = rg_preamble_peek(p, (size_t) (end - p));
        step->err_lines.nbytes = 0; /* no limit for the whole of a job */
        int r = rg_preamble_feed(&step->err_lines, p, length, &line);
        if (r > 0 && line.kind == RG_PREAMBLE_NOISE)
            take_error_line(step, line.text);
        p += length;
    }
}

static bool read_errors(struct slurm_step *step)
{
    char bytes[1024];
    ssize_t n = step->err_fd < 0 ? 0 : read(step->err_fd, bytes, sizeof(bytes));

    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            rg_io_stop(&step->err_reader);
        return false;
    }
    slurm_step_take_errors(step, bytes, (size_t) n);
    return true;
}

static void on_errors(void *arg, int events)
{
    (void) events;
    while (read_errors(arg))
        ;
}

static void drain(struct slurm_step *step)
{
    on_errors(step, RG_IO_READ);
    on_output(step, RG_IO_READ);
}

/* --- the start -------------------------------------------------------------------------------- */

static int open_streams(struct slurm_step *step, int theirs[3])
{
    int pairs[3][2];
    int r = rg_socketpair(pairs[0]); /* so that a write to a dead srun raises no signal */

    if (r == 0 && (r = rg_pipe(pairs[1])) < 0) {
        close(pairs[0][0]);
        close(pairs[0][1]);
    }
    if (r < 0)
        return r;
    if ((r = rg_pipe(pairs[2])) < 0) {
        for (int i = 0; i < 4; i++)
            close(pairs[i / 2][i % 2]);
        return r;
    }
    step->in_fd = pairs[0][0];
    step->out_fd = pairs[1][0];
    step->err_fd = pairs[2][0];
    for (int i = 0; i < 3; i++)
        theirs[i] = pairs[i][1];
    rg_fd_set_nonblock(step->out_fd, true);
    return rg_fd_set_nonblock(step->err_fd, true);
}

int slurm_step_start(struct slurm_step *step, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_loop *loop = step->slurm->o.loop;
    int fds[3];

    step->tasks = calloc((size_t) step->nhosts, sizeof(struct slurm_host *));
    int r = step->tasks ? slurm_command_make(step, &argv) : -ENOMEM;
    if (r < 0 || (r = open_streams(step, fds)) < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE, "srun cannot be started: %s",
                                 strerror(-r));
    struct rg_spawn spawn = {
        .argv = argv.v,
        .envp = step->slurm->env.v,
        .fds = { fds[0], fds[1], fds[2] },
        .new_session = true,
        .death_signal = SIGTERM, /* it then ends its tasks */
        .nofile = step->slurm->has_nofile ? &step->slurm->nofile : NULL,
    };
    r = rg_spawn(&spawn, &step->pid, err);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    if (r < 0) {
        close_streams(step);
        if (r == -ENOENT)
            return slurm_command_missing("srun", err);
        if (err)
            err->exit_code = RG_EXIT_UNAVAILABLE;
        return r;
    }
    rg_child_start(&step->child, loop, step->pid, process_ended, step);
    rg_io_start(&step->reader, loop, step->out_fd, RG_IO_READ, on_output, step);
    rg_io_start(&step->err_reader, loop, step->err_fd, RG_IO_READ, on_errors, step);
    slurm_command_script(step->slurm, &step->out);
    send_out(step);
    return 0;
}

void slurm_step_fini(struct slurm_step *step)
{
    rg_child_stop(&step->child);
    rg_timer_stop(&step->timer);
    if (step->pid) {
        if (step->force)
            cancel(step, "--signal=KILL");
        kill(step->pid, SIGTERM);
    }
    /* Agents have lost their links by now, and clear up: that is not to be cut short. */
    if (step->orphaned)
        cancel(step, "--signal=TERM");
    step->pid = 0;
    if (step->slurm) {
        close_streams(step);
        free(step->tasks);
    }
}
