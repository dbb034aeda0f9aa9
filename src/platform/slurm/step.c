/* SPDX-License-Identifier: Apache-2.0 */
/* One srun, from its start to its end: many tasks speak over one stream, and srun itself over
 * another; who of them has failed, and of what, is told apart here. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/slurm/internal.h"
#include "base/exitcode.h"
#include "launch/plan/place.h"
#include "job/hostlist.h"
#include "job/slurm.h"

#define LABEL_MAX 16 /* of srun: "12: " */
#define OURS "reigen-slurm " /* command.c */
#define FORCE_MS 1500
#define FORCE_SIGNAL 2       /* so far gone, what Slurm says of the step's end is our doing */
#define KILLER_MS 300        /* from an agent's end by SIGKILL to Slurm's word that it was Slurm */

struct slurm_srun {
    char step_id[SLURM_ID_MAX]; /* "12.0"; "" before a task has said so */
    pid_t pid;                  /* 0: no process */
    struct rg_child child;
    struct rg_sender in;        /* its standard input, which it hands to all tasks; owns fd */
    int out_fd;                 /* its standard output */
    struct rg_io reader;
    struct rg_error_stream errors;
    struct rg_timer timer;      /* patience with its end */
    char line[RG_PREAMBLE_LINE_MAX + 64]; /* of its standard output so far */
    size_t nline;
    bool sent_agents[RG_DIALOGUE_MACHINES], sent_boot, sent_bundle;
    bool pausing;               /* it waits for resources, and said so */
    bool orphaned;              /* it was killed, and its tasks go on without it */
    int force;                  /* how far we have gone to end it */
    char how[96];               /* it ended; "" before */
    struct slurm_host *tasks[]; /* by number, nhosts of them; NULL: not known yet */
};

static void force(void *arg);

static struct slurm_host *next_host(const struct slurm_step *step, int *at)
{
    struct slurm *slurm = step->slurm;

    while (*at < slurm->shared.o.plan->nhosts) {
        struct slurm_host *host = &slurm->hosts[(*at)++];
        if (host->step == step)
            return host;
    }
    return NULL;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void close_input(struct slurm_step *step)
{
    rg_sender_stop(&step->srun->in);
    if (step->srun->in.fd >= 0)
        close(rg_steal_fd(&step->srun->in.fd));
}

static void close_streams(struct slurm_step *step)
{
    close_input(step);
    rg_io_stop(&step->srun->reader);
    rg_error_stream_stop(&step->srun->errors);
    if (step->srun->out_fd >= 0)
        close(rg_steal_fd(&step->srun->out_fd));
}

/* Whatever becomes of it, it is not waited for. */
static void cancel(const struct slurm_step *step, const char *signal)
{
    char *argv[] = { (char *) "scancel", (char *) signal, (char *) step->srun->step_id, NULL };
    const struct rg_spawn spawn = { .argv = argv, .envp = step->slurm->env.v, .fds = { -1, -1, -1 },
                                    .new_session = true };
    pid_t pid;

    if (*step->srun->step_id)
        rg_spawn(&spawn, &pid, NULL);
}

bool slurm_step_end(struct slurm_step *step)
{
    if (!step->srun || !step->srun->pid)
        return false;
    switch (step->srun->force++) {
    case 0: close_input(step); break;
    case FORCE_SIGNAL - 1:
        kill(step->srun->pid, SIGTERM); /* it kills its tasks, and waits for them */
        break;
    default:
        cancel(step, "--signal=KILL");
        kill(step->srun->pid, SIGKILL);
        return true;
    }
    rg_timer_start(&step->srun->timer, step->slurm->shared.o.loop, FORCE_MS, 0, force, step);
    return true;
}

static void force(void *arg)
{
    slurm_step_end(arg);
}

/* The last line that speaks of this word; NULL. */
static const char *find_said(const struct slurm_step *step, const char *word, char *buf, size_t n)
{
    const char *found = NULL;

    for (const char *line = step->srun->errors.said.noise; *line;) {
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

static const struct slurm_known known[] = {
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
    { NULL, "" },
};

void slurm_step_explain(struct slurm_host *host)
{
    const struct slurm_step *step = host->step;
    const char *how = *step->srun->how ? step->srun->how : "its task has ended";
    char said[RG_PREAMBLE_NOISE_MAX + 1], line[RG_PREAMBLE_NOISE_MAX + 1];

    if (*step->slurm->ending && (!host->err.errnum || host->killed))
        rg_error_set_exit(&host->err, ECHILD, step->slurm->ending_code, "%s", step->slurm->ending);
    if (host->err.errnum)
        return;
    /* Of a step that ran, only what it calls an error tells of its end. */
    if (!find_said(step, host->name, line, sizeof(line)) &&
        !find_said(step, "srun: ", line, sizeof(line)))
        rg_preamble_quote(&step->srun->errors.said, line, host->linked ? 1 : sizeof(line));
    rg_preamble_quote(&host->dialogue.said, said, sizeof(said));
    const char *remedy = slurm_find_remedy(known, line);
    if (host->linked)
        rg_error_set(&host->err, ECHILD, "its step of srun is over (%s)%s%s", how,
                     *line ? ": " : "", line);
    else
        rg_error_set_exit(&host->err, ECHILD, RG_EXIT_UNAVAILABLE,
                          "srun did not start its agent (%s): %s%s%s%s%s", how, line,
                          *remedy ? ": " : "", remedy,
                          *said ? "; it said: " : "", said);
}

static void task_is_over(void *arg)
{
    struct slurm_host *host = arg;

    if (host->gone || (host->linked && !host->killed && host->step->srun->pid))
        return;
    if (host->slurm->on_missed && !host->stopped) {
        host->slurm->on_missed(host);
    } else {
        slurm_step_explain(host);
        slurm_step_lose(host);
    }
}

static void drain(struct slurm_step *step);

static void process_ended(void *arg, pid_t pid, int status)
{
    struct slurm_step *step = arg;
    struct slurm_host *host;
    char how[64];

    (void) pid;
    drain(step);
    close_streams(step);
    rg_timer_stop(&step->srun->timer);
    rg_status_text(status, how, sizeof(how));
    snprintf(step->srun->how, sizeof(step->srun->how), "srun: %s%s", how,
             step->srun->force ? ", ended by reigen" : "");
    step->srun->pid = 0;
    step->srun->orphaned = WIFSIGNALED(status) && !step->srun->force;
    for (int at = 0; (host = next_host(step, &at));)
        task_is_over(host);
}

/* --- what we send ----------------------------------------------------------------------------- */

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
    if (rg_sender_send(&step->srun->in) < 0)
        fail_all(step, ENOMEM, "out of memory");
}

/* The same for all. */
static void send_boot(struct slurm_step *step)
{
    const struct slurm *slurm = step->slurm;
    const struct rg_driver_options *o = &slurm->shared.o;
    rg_autobuf struct rg_buf lines = RG_BUF_INIT;
    bool contain = slurm_contains(o->job);
    const char *announce = rg_env_get(&o->job->settings, "announce"); /* srun-docker's */

    step->srun->sent_boot = true;
    rg_buf_printf(&lines, "place $SLURMD_NODENAME\n");
    if (announce)
        rg_buf_printf(&lines, "announce %s\n", announce);
    /* The address by which the node's slurmd talks to our srun is known to be one that the node
     * reaches; the others are for where Slurm says nothing of it. */
    rg_buf_printf(&lines, "link dial $SLURM_LAUNCH_NODE_IPADDR:%d",
                  rg_listener_port(slurm->listener));
    rg_listener_addresses(slurm->listener, &lines);
    rg_buf_printf(&lines, contain ? "\n" : "\nguard on\ntracked on\n");
    const struct rg_dialogue_boot boot = { .lines = rg_buf_text(&lines), .contain = contain,
                                           .cwd = contain ? NULL : slurm->shared.cwd };

    rg_buf_printf(&step->srun->in.out, "boot\n");
    if (rg_buf_status(&lines) < 0)
        fail_all(step, ENOMEM, "out of memory");
    else if (rg_dialogue_put_boot(o, &boot, &step->srun->in.out) < 0)
        fail_all(step, E2BIG, "the container's description is too long");
    else
        send_out(step);
}

void slurm_step_check(struct slurm_step *step)
{
    struct slurm_host *host;

    if (!step->srun)
        return;

    for (int at = 0; (host = next_host(step, &at));) {
        if (host->dialogue.state < RG_DIALOGUE_READY && !host->gone && !host->err.errnum)
            return;
    }
    if (!step->srun->sent_boot && step->srun->in.fd >= 0)
        send_boot(step);
}

void slurm_step_lose(struct slurm_host *host)
{
    slurm_host_gone(host);
    if (host->slurm->on_missed)
        slurm_step_check(host->step);
}

static void check_ready(void *arg)
{
    const struct slurm_host *host = arg;

    slurm_step_check(host->step);
}

void slurm_step_leave(struct slurm_host *host)
{
    rg_timer_stop(&host->timer);
    if (host->step->srun && host->task >= 0)
        host->step->srun->tasks[host->task] = NULL;
    host->dialogue.got_bundle = false;
    host->dialogue.said = (struct rg_preamble){ 0 };
}

/* All of its kind get it. */
static void send_agent(void *arg, const struct rg_agent_file *agent)
{
    const struct slurm_host *host = arg;
    struct slurm_step *step = host->step;
    size_t kind = (size_t) (agent - step->slurm->shared.agents);

    if (step->srun->sent_agents[kind] || step->srun->sent_boot)
        return;
    step->srun->sent_agents[kind] = true;
    rg_buf_printf(&step->srun->in.out, "take %s %zu\n", agent->machine, agent->nbytes);
    rg_buf_put(&step->srun->in.out, agent->data, agent->nbytes);
    send_out(step);
}

/* Once for all that need it. */
static void send_bundle(void *arg)
{
    const struct slurm_host *host = arg;
    struct slurm_step *step = host->step;
    const struct rg_container_place *place = &step->slurm->shared.o.job->container.place;
    struct rg_error err = RG_ERROR_INIT;

    if (step->srun->sent_bundle || !step->srun->sent_boot)
        return;
    step->srun->sent_bundle = true;
    if (rg_place_pack_bundle(place, &step->srun->in.out, &err) < 0)
        fail_all(step, err.errnum, err.text);
    else
        send_out(step);
}

/* A task whose agent calls may write what it likes from then on. */
static void on_error(void *arg, const struct rg_error *err, bool said)
{
    struct slurm_host *host = arg;

    if (!said && host->linked)
        return;
    if (!host->err.errnum)
        host->err = *err;
    slurm_step_lose(host);
}

const struct rg_dialogue_ops slurm_dialogue_ops = { .send_agent = send_agent,
                                                    .send_boot = check_ready,
                                                    .send_bundle = send_bundle,
                                                    .on_error = on_error };

/* --- what tasks say --------------------------------------------------------------------------- */

/* "at NODE JOB.STEP" */
static void take_at(struct slurm_step *step, int task, const char *text)
{
    char name[RG_HOST_NAME_MAX + 1], id[SLURM_ID_MAX];
    struct slurm_host *host;

    rg_str_word(rg_str_word(text, name, sizeof(name)), id, sizeof(id));
    if (!*name || step->srun->tasks[task])
        return;
    if (strspn(id, "0123456789._+") == strlen(id))
        strcpy(step->srun->step_id, id);
    for (int at = 0; (host = next_host(step, &at));) {
        if (strcmp(host->name, name) != 0 || host->task >= 0)
            continue;
        host->task = task;
        step->srun->tasks[task] = host;
        return;
    }
}

/* Its agent has ended. Of what ends by SIGKILL Slurm may say soon that this was its doing. */
static void agent_ended(struct slurm_host *host, const char *how, bool killed)
{
    host->ended = true;
    if (!host->err.errnum)
        rg_error_set_exit(&host->err, ECHILD, host->linked ? 0 : RG_EXIT_UNAVAILABLE,
                          "its agent ended%s: %s", host->linked ? "" : " before it was ready", how);
    host->killed = killed;
    if (killed)
        rg_timer_start(&host->timer, host->slurm->shared.o.loop, KILLER_MS, 0, task_is_over, host);
    else
        slurm_step_lose(host);
}

/* "end STATUS", of a shell: 128 + n for a signal. */
static void take_end(struct slurm_host *host, const char *text)
{
    int64_t code = 0;
    char how[64];

    if (host->ended || rg_parse_int("status", text, 0, 255, &code, NULL) < 0)
        return;
    if (code > 128)
        snprintf(how, sizeof(how), "signal %d (%s)", (int) code - 128, strsignal((int) code - 128));
    else
        snprintf(how, sizeof(how), "exit code %d", (int) code);
    agent_ended(host, how, code == 128 + SIGKILL);
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
    struct slurm_host *host = step->srun->tasks[task];
    if (!host || host->gone)
        return;
    if ((words = find_ours(end, length, OURS "end "))) {
        take_end(host, words);
        return;
    }
    rg_dialogue_feed(&host->dialogue, end, length);
}

/* The line is full: half of it goes, but srun's label at its beginning. What we wait for stands at
 * its end, and is short. */
static void make_room(struct slurm_srun *srun)
{
    const char *colon = memchr(srun->line, ':', LABEL_MAX);
    size_t label = colon ? (size_t) (colon - srun->line) + 2 : 0;

    srun->nline -= sizeof(srun->line) / 2;
    memmove(srun->line + label, srun->line + label + sizeof(srun->line) / 2, srun->nline - label);
}

void slurm_step_take(struct slurm_step *step, const char *bytes, size_t nbytes)
{
    struct slurm_srun *srun = step->srun;

    for (size_t i = 0; i < nbytes; i++) {
        if (srun->nline == sizeof(srun->line) - 1)
            make_room(srun);
        srun->line[srun->nline++] = bytes[i];
        if (bytes[i] != '\n')
            continue;
        srun->line[srun->nline] = '\0';
        take_task_line(step, srun->line, srun->nline);
        srun->nline = 0;
    }
}

static bool read_lines(struct slurm_step *step)
{
    char bytes[4096];
    ssize_t n = step->srun->out_fd < 0 ? 0 : read(step->srun->out_fd, bytes, sizeof(bytes));

    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            rg_io_stop(&step->srun->reader);
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
static void launch_has_failed(struct slurm_host *host, const char *why)
{
    static const struct slurm_known reasons[] = {
        { "Communication", "the node or its slurmd is down, or a firewall is before it" },
        { "timed out", "the node or its slurmd is down, or a firewall is before it" },
        { "credential", "its clock differs from the others', or its munge has another key" },
        { "User not found", "you have no account there" },
        { NULL, "sinfo -R tells more" },
    };

    if (host->linked)
        return;
    if (!host->err.errnum)
        rg_error_set_exit(&host->err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                          "srun cannot start its agent%.200s; %s", why,
                          slurm_find_remedy(reasons, why));
    slurm_step_lose(host);
}

/* "n[1-2]: tasks 0-1: Killed": a task that was killed before its agent was there has said nothing,
 * and srun waits for the others. One that could speak gets the time for it. Where the step is
 * cancelled, the shell that would tell of a linked agent's end is killed with it. */
static void task_has_ended(struct slurm_host *host, const char *how)
{
    if (host->stopped)
        return;
    if (host->linked && !host->ended && strstr(how, ": Killed"))
        agent_ended(host, "signal 9 (Killed)", true);
    else if (!host->linked)
        rg_timer_start(&host->timer, host->slurm->shared.o.loop, KILLER_MS, 0, task_is_over, host);
}

/* "Node failure on n[1-2]" */
static void node_has_failed(struct slurm_host *host, const char *rest)
{
    (void) rest;
    rg_error_set_exit(&host->err, EHOSTDOWN, RG_EXIT_HOST_LOST,
                      "Slurm says that this node has failed");
    slurm_step_lose(host);
}

/* An error of srun's that names nodes. */
static void take_failure(const struct slurm_step *step, const char *text)
{
    static const char launch[] = " failed on node ", failure[] = "Node failure on ";
    void (*take)(struct slurm_host *host, const char *rest) = task_has_ended;
    const char *at = text, *end = strstr(text, ": task"), *launched = strstr(text, launch);
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    struct slurm_host *host;

    if (launched) {
        at = launched + sizeof(launch) - 1;
        end = at + strcspn(at, ":");
        take = launch_has_failed;
    } else if (rg_str_starts(text, failure)) {
        at += sizeof(failure) - 1;
        end = at + strlen(at);
        take = node_has_failed;
    }
    rg_autofree char *list = end > at ? strndup(at, (size_t) (end - at)) : NULL;
    if (!list || rg_slurm_nodes("srun", list, &names, NULL) < 0)
        return;
    for (int i = 0; (host = next_host(step, &i));) {
        if (!host->gone && rg_strv_has(&names, host->name))
            take(host, end);
    }
}

static void take_error_line(void *arg, const char *text)
{
    static const char error[] = "srun: error: ";
    struct slurm_step *step = arg;
    char *end;
    long task = strtol(text, &end, 10);
    bool labelled = end != text && end[0] == ':' && end[1] == ' ';
    struct slurm_host *host = labelled && task >= 0 && task < step->nhosts ? step->srun->tasks[task]
                                                                           : NULL;

    if (step->srun->force < FORCE_SIGNAL)
        slurm_ending_said(step->slurm, text);
    if (rg_str_starts(text, error))
        take_failure(step, text + sizeof(error) - 1);
    if (host && rg_preamble_is_remark(end + 2) && host->linked && !host->stopped) {
        step->slurm->shared.o.events->on_note(step->slurm->shared.o.arg, host->index, end + 2);
        return;
    }
    if (strstr(text, "temporarily disabled") && !step->srun->pausing) {
        step->srun->pausing = true;
        for (int at = 0; (host = next_host(step, &at));)
            slurm_phase(host, RG_PHASE_PENDING, text);
    }
}

void slurm_step_take_errors(struct slurm_step *step, const char *bytes, size_t nbytes)
{
    rg_error_stream_feed(&step->srun->errors, bytes, nbytes);
}

void slurm_step_await_cause(struct slurm_step *step, uint64_t until_ns)
{
    struct slurm_srun *srun = step->srun;
    struct slurm_host *host;
    bool killed = false;
    uint64_t now_ns;

    for (int at = 0; (host = next_host(step, &at));)
        killed |= host->killed;
    if (!killed || !srun || !srun->pid || srun->force >= FORCE_SIGNAL)
        return;
    /* Its reader stops at the end of the stream, which is srun's own. */
    while (rg_io_active(&srun->errors.io) && !*step->slurm->ending &&
           (now_ns = rg_now_ns()) < until_ns) {
        poll(&(struct pollfd){ srun->errors.fd, POLLIN, 0 }, 1,
             (int) ((until_ns - now_ns) / RG_NS_PER_MS) + 1);
        rg_error_stream_drain(&srun->errors);
    }
}

static void drain(struct slurm_step *step)
{
    rg_error_stream_drain(&step->srun->errors);
    on_output(step, RG_IO_READ);
}

/* --- the start -------------------------------------------------------------------------------- */

int slurm_step_prepare(struct slurm_step *step)
{
    step->srun = calloc(1, sizeof(*step->srun) +
                               (size_t) step->nhosts * sizeof(struct slurm_host *));
    if (!step->srun)
        return -ENOMEM;
    step->srun->in.fd = step->srun->out_fd = -1;
    step->srun->errors = (struct rg_error_stream){ .on_line = take_error_line, .arg = step };
    return 0;
}

int slurm_step_start(struct slurm_step *step, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_loop *loop = step->slurm->shared.o.loop;
    int ours[3], theirs[3];
    int r = slurm_step_prepare(step);

    if (r == 0)
        r = slurm_command_make(step, &argv);
    if (r < 0 || (r = rg_streams_open(false, ours, theirs)) < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE, "srun cannot be started: %s",
                                 strerror(-r));
    struct slurm_srun *srun = step->srun;
    srun->in = (struct rg_sender){ .fd = ours[0], .loop = loop };
    srun->out_fd = ours[1];
    rg_error_stream_start(&srun->errors, loop, ours[2], take_error_line, step);
    struct rg_spawn spawn = {
        .argv = argv.v,
        .envp = step->slurm->env.v,
        .fds = { theirs[0], theirs[1], theirs[2] },
        .new_session = true,
        .death_signal = SIGTERM, /* it then ends its tasks */
        .nofile = &step->slurm->shared.nofile,
    };
    r = rg_spawn(&spawn, &srun->pid, err);
    for (int i = 0; i < 3; i++)
        close(theirs[i]);
    if (r < 0) {
        close_streams(step);
        if (r == -ENOENT)
            return slurm_command_missing("srun", err);
        if (err)
            err->exit_code = RG_EXIT_UNAVAILABLE;
        return r;
    }
    rg_child_start(&srun->child, loop, srun->pid, process_ended, step);
    rg_io_start(&srun->reader, loop, srun->out_fd, RG_IO_READ, on_output, step);
    slurm_command_script(step->slurm, &srun->in.out);
    send_out(step);
    return 0;
}

void slurm_step_fini(struct slurm_step *step)
{
    struct slurm_srun *srun = step->srun;

    if (!srun)
        return;
    rg_child_stop(&srun->child);
    rg_timer_stop(&srun->timer);
    if (srun->pid) {
        if (srun->force)
            cancel(step, "--signal=KILL");
        kill(srun->pid, SIGTERM);
    }
    /* Agents have lost their links by now, and clear up: that is not to be cut short. */
    if (srun->orphaned)
        cancel(step, "--signal=TERM");
    close_streams(step);
    free(rg_steal_ptr(&step->srun));
}
