/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's life, and where each of the launcher's messages goes. */
#include "agent/ranks/agent.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "agent/engine/engine.h"
#include "agent/look/probe.h"
#include "agent/ranks/rankserver.h"
#include "agent/ranks/remote.h"
#include "agent/ranks/remote_client.h"
#include "agent/ranks/packages.h"
#include "base/exitcode.h"
#include "base/say.h"

#define FIRST_LEASE_MS 30000 /* until SETUP gives the job's own */

static void advance(struct rg_agent *agent)
{
    rg_agent_sweep(agent);
    if (agent->state != RG_AGENT_GONE || !rg_agent_drained(agent) || agent->remotes.first ||
        !rg_copy_tidied(agent))
        return;
    agent->state = RG_AGENT_DONE;
    if (agent->boot.waits)
        rg_timer_stop(&agent->lease.timer); /* others may have long to go */
    rg_agent_send(agent, RG_MSG_BYE, &(struct rg_msg_bye){ agent->reaper.nleft });
}

/* Ranks may be due that wait until the output of the last process in their place has been sent. */
static void pump(struct rg_agent *agent)
{
    rg_agent_pump(agent);
    if (!agent->epochs.start_due)
        return;
    rg_agent_start_tasks(agent);
    rg_agent_pump(agent);
}

/* --- the launcher's messages ------------------------------------------------------------------ */

/* A launcher that is gone may leave its link open for hours; ranks must not outlive it for long. */
static void lease_tick(void *arg)
{
    struct rg_agent *agent = arg;
    struct rg_lease *lease = &agent->lease;

    if (lease->paused)
        return;
    lease->silent_ms += lease->tick_ms;
    if (lease->silent_ms < lease->limit_ms + lease->tick_ms)
        return;
    rg_log(RG_LOG_ERROR, "no word from the launcher for %.6g s (--lease): ending the ranks here",
           (double) lease->limit_ms / 1000.0);
    agent->exit_code = RG_EXIT_HOST_LOST;
    rg_agent_abandon(agent);
}

static void start_lease(struct rg_agent *agent, uint64_t limit_ms)
{
    struct rg_lease *lease = &agent->lease;

    lease->limit_ms = limit_ms;
    lease->silent_ms = 0;
    lease->tick_ms = limit_ms / 4;
    if (lease->tick_ms > RG_MSG_HEARTBEAT_MS)
        lease->tick_ms = RG_MSG_HEARTBEAT_MS;
    if (!lease->tick_ms)
        lease->tick_ms = 1;
    rg_timer_start(&lease->timer, agent->loop, lease->tick_ms, lease->tick_ms, lease_tick, agent);
}

/* Ranks need none of it unless they ask for remote commands, so its lack is no failure. */
static void make_jobdir(struct rg_agent *agent)
{
    struct rg_error err = RG_ERROR_INIT;
    const char *given = *agent->boot.job_dir ? agent->boot.job_dir : NULL;
    rg_autostrv struct rg_strv hosts = RG_STRV_INIT;

    if (rg_engine_hosts(&agent->setup, &hosts) < 0)
        rg_agent_note(agent, "no memory for the list of hosts");
    if (rg_jobdir_make(given, &hosts, &agent->jobdir, &err) < 0)
        rg_agent_note(agent, "%s: %s", agent->setup.host, err.text);
}

static void on_setup(struct rg_agent *agent, struct rg_msg_setup *setup)
{
    agent->setup = *setup;
    memset(setup, 0, sizeof(*setup));
    agent->has_setup = true;
    agent->credit = agent->setup.output_window;
    start_lease(agent, agent->setup.lease_ms);
    rg_prober_hush(agent->prober);
    make_jobdir(agent);
    rg_packages_setup(agent);
    rg_copy_start(agent);
}

static void on_resize(struct rg_agent *agent, const struct rg_msg_resize *msg)
{
    struct winsize size = { .ws_row = (unsigned short) msg->rows,
                            .ws_col = (unsigned short) msg->columns };

    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        if (task->spec.pty && task->pumps[0].fd >= 0)
            ioctl(task->pumps[0].fd, TIOCSWINSZ, &size);
    }
}

/* Before START there are no ranks to wait for. */
static void on_kill(struct rg_agent *agent)
{
    if (agent->state == RG_AGENT_WAITING) {
        rg_inspect_stop(agent);
        agent->state = RG_AGENT_GONE;
    }
    agent->remotes.released = agent->remotes.over = true; /* nobody waits for them any more */
    agent->epochs.start_due = false;
    rg_agent_kill(agent);
    advance(agent);
}

/* Before the first START; in an elastic job, until RELEASE. */
static bool takes_ranks(const struct rg_agent *agent)
{
    return agent->has_setup &&
           (agent->state == RG_AGENT_WAITING ||
            (agent->state == RG_AGENT_RUNNING && agent->setup.elastic && !agent->remotes.released));
}

static int on_rank(struct rg_agent *agent, struct rg_msg_rank *take_spec)
{
    struct rg_task *last = rg_agent_find_task(agent, take_spec->rank);

    if (last && last->ended)
        rg_task_signal(last, SIGKILL); /* what it left behind */
    return rg_agent_add_task(agent, take_spec);
}

static int on_start(struct rg_agent *agent)
{
    if (!takes_ranks(agent) || !agent->setup.command.count || agent->copy.awaited)
        return -EBADMSG;
    rg_inspect_stop(agent);
    rg_prober_destroy(rg_steal_ptr(&agent->prober));
    agent->state = RG_AGENT_RUNNING;
    agent->epochs.start_due = true;
    pump(agent);
    advance(agent);
    return 0;
}

static void on_probed(void *arg, uint32_t index, uint32_t errnum, uint32_t rtt_us)
{
    rg_agent_send(arg, RG_MSG_PROBED, &(struct rg_msg_probed){ index, errnum, rtt_us });
}

static int on_listen(struct rg_agent *agent, const struct rg_msg_listen *msg)
{
    struct rg_ports ports = { (int) msg->first, (int) msg->last };
    rg_autobuf struct rg_buf found = RG_BUF_INIT;

    if (agent->has_setup || agent->state != RG_AGENT_WAITING || msg->first > msg->last ||
        msg->last > UINT16_MAX || (!msg->first && msg->last) ||
        msg->ntask_ports > RG_MSG_TASK_PORTS_MAX)
        return -EBADMSG;
    uint32_t port = rg_prober_listen(agent->prober, &ports);
    rg_prober_free_ports(&ports, msg->ntask_ports, &found);
    rg_agent_send(agent, RG_MSG_LISTENING,
                  &(struct rg_msg_listening){
                      port, { (uint8_t *) rg_buf_bytes(&found), rg_buf_nbytes(&found) } });
    return 0;
}

/* Before START: the launcher finds out about this host and its network. */
static int on_question(struct rg_agent *agent, uint16_t type, const union rg_msg *msg)
{
    if (agent->state != RG_AGENT_WAITING)
        return -EBADMSG;
    if (type == RG_MSG_INSPECT)
        return agent->has_setup ? rg_inspect_start(agent, msg->inspect.limit_ms) : -EBADMSG;
    rg_prober_try(agent->prober, &msg->probe.targets, msg->probe.limit_ms, on_probed, agent);
    return 0;
}

/* The streams' numbers tell which end of a remote command this is. */
static int on_remote_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg)
{
    switch (type) {
    case RG_MSG_RELEASE:
        if (!agent->has_setup)
            return -EBADMSG;
        if (agent->state == RG_AGENT_WAITING)
            agent->state = RG_AGENT_GONE; /* of an elastic job: no rank was started here */
        rg_remotes_release(agent);
        advance(agent);
        return 0;
    case RG_MSG_REMOTE_START:
    case RG_MSG_REMOTE_HANGUP: return rg_remote_message(agent, type, msg);
    case RG_MSG_REMOTE_ENDED: return rg_remote_client_message(agent, type, msg);
    case RG_MSG_REMOTE_PUT:
        return msg->remote_data.stream == 0 ? rg_remote_message(agent, type, msg)
                                            : rg_remote_client_message(agent, type, msg);
    case RG_MSG_REMOTE_GRANT:
        return msg->remote_credit.stream == 0 ? rg_remote_client_message(agent, type, msg)
                                              : rg_remote_message(agent, type, msg);
    default: return -EBADMSG;
    }
}

/* Ranks know hosts by their names, which SETUP has listed, but for those that came later. */
static void on_peer_died(struct rg_agent *agent, const struct rg_msg_peer_died *msg)
{
    const struct rg_strv *hosts = &agent->setup.hosts;
    bool listed = !*msg->name && msg->host < hosts->count;
    rg_autofree char *host = strdup(listed ? hosts->v[msg->host] : msg->name);
    char *colon = host && listed ? strrchr(host, ':') : NULL;

    if (colon)
        *colon = '\0';
    rg_rankserver_peer_died(agent->server, msg->epoch,
                            &(struct rg_rankmsg_peer_died){ .rank = msg->rank, .host = host,
                                                            .end = msg->end, .value = msg->value,
                                                            .oom = msg->oom });
}

static int on_signal_rank(struct rg_agent *agent, const struct rg_msg_signal_rank *msg)
{
    struct rg_task *task = rg_agent_find_task(agent, msg->rank);

    if (!task || msg->signo < 1 || msg->signo >= (uint32_t) NSIG)
        return -EBADMSG;
    if (task->pid || task->ended)
        rg_task_signal(task, (int) msg->signo);
    else
        rg_task_cancel(task);
    return 0;
}

static int on_elastic_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg)
{
    if (!agent->setup.elastic)
        return -EBADMSG;
    if (type == RG_MSG_EPOCH)
        return rg_rankserver_epoch(agent->server, &msg->epoch);
    return on_signal_rank(agent, &msg->signal_rank);
}

static int on_job_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg)
{
    switch (type) {
    case RG_MSG_SETUP:
        if (agent->has_setup)
            return -EBADMSG;
        on_setup(agent, &msg->setup);
        return 0;
    case RG_MSG_RANK:
        return takes_ranks(agent) ? on_rank(agent, &msg->rank) : -EBADMSG;
    case RG_MSG_START: return on_start(agent);
    case RG_MSG_LISTEN: return on_listen(agent, &msg->listen);
    case RG_MSG_BUNDLE: return rg_packages_data(agent, &msg->data.data);
    case RG_MSG_SYNC: return rg_copy_data(agent, &msg->data.data);
    case RG_MSG_PROBE:
    case RG_MSG_INSPECT: return on_question(agent, type, msg);
    case RG_MSG_FENCE_DONE: rg_rankserver_fence_done(agent->server, &msg->fence_done); return 0;
    case RG_MSG_FENCE_FAILED:
        rg_rankserver_fence_failed(agent->server, &msg->fence_failed);
        return 0;
    case RG_MSG_PEER_DIED: on_peer_died(agent, &msg->peer_died); return 0;
    case RG_MSG_UPDATE: rg_rankserver_update(agent->server, &msg->update); return 0;
    case RG_MSG_EPOCH:
    case RG_MSG_SIGNAL_RANK: return on_elastic_message(agent, type, msg);
    default: return on_remote_message(agent, type, msg);
    }
}

static int on_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg)
{
    switch (type) {
    case RG_MSG_CREDIT:
        agent->credit += msg->bytes.nbytes;
        if (agent->credit > agent->setup.output_window)
            return -EBADMSG;
        pump(agent);
        return 0;
    case RG_MSG_INPUT_EOF: rg_agent_input_eof(agent); return 0;
    case RG_MSG_SIGNAL:
        if (msg->signal.signo < 1 || msg->signal.signo >= (uint32_t) NSIG)
            return -EBADMSG;
        rg_agent_signal(agent, (int) msg->signal.signo, RG_WAY_LAUNCHER);
        return 0;
    case RG_MSG_KILL: on_kill(agent); return 0;
    case RG_MSG_RESIZE: on_resize(agent, &msg->resize); return 0;
    case RG_MSG_PAUSE: rg_agent_pause(agent, true); return 0;
    case RG_MSG_RESUME: rg_agent_pause(agent, false); return 0;
    case RG_MSG_VERDICT:
        if (!agent->boot.waits || agent->state != RG_AGENT_DONE)
            return -EBADMSG;
        agent->exit_code = !msg->verdict.exit_code || agent->boot.ends_alike
                               ? (int) msg->verdict.exit_code & 0xff : RG_EXIT_PREEMPTED;
        return 0;
    case RG_MSG_PING:
        /* Unread, it would make the kernel drop a VERDICT when the launcher closes the link. */
        if (agent->state != RG_AGENT_DONE)
            rg_agent_send(agent, RG_MSG_PONG, NULL);
        return 0;
    default: return on_job_message(agent, type, msg);
    }
}

/* Before SETUP it does not know which host it is. */
static bool is_for_us(const struct rg_agent *agent, uint32_t host)
{
    return host == RG_MSG_ANY_HOST || !agent->has_setup || host == agent->setup.host_index;
}

/* Bulk data, which is not worth a copy of its own. */
static int take_input(struct rg_agent *agent, const uint8_t *payload, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(payload, nbytes);
    bool ours = is_for_us(agent, rg_reader_u32(&reader));
    const uint8_t *data = rg_reader_span(&reader, RG_MSG_CHUNK_MAX, &nbytes);
    int r = rg_reader_done(&reader);

    return r < 0 || !ours ? -EBADMSG : rg_agent_input(agent, data, nbytes);
}

static int take_message(struct rg_agent *agent, uint16_t type, const uint8_t *payload,
                        size_t nbytes)
{
    union rg_msg msg;
    uint32_t host;

    if (type == RG_MSG_INPUT)
        return take_input(agent, payload, nbytes);
    int r = rg_msg_decode(false, type, payload, nbytes, &host, &msg);

    if (r == 0) {
        r = is_for_us(agent, host) ? on_message(agent, type, &msg) : -EBADMSG;
        rg_msg_clear(type, &msg);
    }
    return r;
}

static void on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct rg_agent *agent = arg;

    agent->lease.silent_ms = 0;
    int r = take_message(agent, type, payload, nbytes);

    if (r < 0) {
        rg_log(RG_LOG_ERROR, "message %u from the launcher: %s", type, strerror(-r));
        agent->exit_code = RG_EXIT_INTERNAL;
        rg_agent_abandon(agent);
    }
}

static void on_close(void *arg, const struct rg_error *err)
{
    struct rg_agent *agent = arg;

    if (err->errnum == EBADMSG) { /* not what a dying launcher causes */
        rg_log(RG_LOG_ERROR, "link to the launcher: %s", err->text);
        agent->exit_code = RG_EXIT_INTERNAL;
    }
    if (agent->boot.waits && agent->state == RG_AGENT_WAITING && err->errnum != EBADMSG)
        agent->exit_code = RG_AGENT_UNSTARTED;
    else if (agent->state != RG_AGENT_DONE)
        rg_agent_lose_launcher(agent);
    rg_loop_stop(agent->loop);
}

static void on_drain(void *arg)
{
    struct rg_agent *agent = arg;

    pump(agent);
    rg_rankserver_resume(agent->server);
}

/* --- life ------------------------------------------------------------------------------------- */

/* Whoever kills all of a job's processes on the host, as Slurm does, does not reach those in a
 * container: its end is ours to bring about. */
static void on_keeper(void *arg, int events)
{
    struct rg_agent *agent = arg;

    (void) events;
    if (!rg_agent_is_orphan(agent))
        return;
    agent->exit_code = RG_EXIT_HOST_LOST;
    rg_agent_abandon(agent);
}

/* A handler gets no argument of ours, and the loop's own one does not look at who has sent a
 * signal. */
static void (*loops_handler)(int signo);
static pid_t parent;

static void note_sender(int signo, siginfo_t *info, void *context)
{
    (void) context;
    rg_agent_directly[signo] = info->si_code <= 0 && info->si_uid == 0 && info->si_pid != parent;
    rg_agent_told_to_end |= signo == SIGTERM;
    loops_handler(signo);
}

static void watch_sender(int signo)
{
    struct sigaction action;

    if (sigaction(signo, NULL, &action) < 0 || action.sa_flags & SA_SIGINFO)
        return;
    loops_handler = action.sa_handler;
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = note_sender;
    sigaction(signo, &action, NULL);
}

static bool is_direct(const struct rg_agent *agent, int signo)
{
    return agent->boot.tracked && rg_agent_directly[signo];
}

/* Somebody wants the agent itself to end: as PID 1 of a container that is being stopped, or by
 * hand. The launcher decides what that means for the job. */
static void on_signal(void *arg, int signo)
{
    struct rg_agent *agent = arg;

    /* So it is, too, when `contain` or the guard has been killed: nobody has asked for that end. */
    if (rg_agent_is_orphan(agent)) {
        agent->exit_code = RG_EXIT_HOST_LOST;
        rg_agent_abandon(agent);
    }
    /* There is nothing yet, or nothing more, for the launcher to end. */
    if (agent->boot.waits &&
        (agent->state == RG_AGENT_WAITING || agent->state == RG_AGENT_DONE))
        rg_agent_abandon(agent);
    if (is_direct(agent, signo))
        rg_agent_signal(agent, signo, RG_WAY_DIRECT);
    rg_agent_send(agent, RG_MSG_STOPPING, &(struct rg_msg_signal){ (uint32_t) signo });
}

/* Slurm gives these to all processes of a step, or to its first ones, for the ranks' sake. Where
 * others wait for our end (boot.h: announce), the launcher is one of a step's tasks itself, and
 * hands them on. */
static void on_user_signal(void *arg, int signo)
{
    struct rg_agent *agent = arg;

    if (!*agent->boot.announce)
        rg_agent_signal(agent, signo, is_direct(agent, signo) ? RG_WAY_DIRECT : RG_WAY_PARENT);
}

static int open_channel(struct rg_agent *agent)
{
    struct rg_channel_options options = {
        .loop = agent->loop,
        .read_fd = agent->boot.link_fd,
        .write_fd = agent->boot.link_write_fd,
        .link = {
            .key = agent->boot.key,
            .job_id = agent->boot.job_id,
            .role = "agent",
            .initiator = true,
            .on_open = rg_agent_say_hello,
            .on_frame = on_frame,
            .arg = agent,
        },
        .on_close = on_close,
        .on_drain = on_drain,
    };

    return rg_channel_create(&options, &agent->channel);
}

/* Three descriptors per rank soon pass the usual 1024. */
static void raise_limit(struct rg_agent *agent)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &agent->nofile);
    limit = agent->nofile;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int prepare(struct rg_agent *agent)
{
    int r = rg_loop_create(&agent->loop);

    if (r < 0)
        return r;
    raise_limit(agent);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    agent->scratch = malloc(RG_MSG_CHUNK_MAX);
    if (!agent->scratch)
        return -ENOMEM;
    agent->advance = advance;
    agent->on_lost = rg_agent_lose_launcher;
    rg_reaper_start(agent);
    start_lease(agent, FIRST_LEASE_MS);
    if (agent->boot.keeper_fd >= 0)
        rg_io_start(&agent->keeper, agent->loop, agent->boot.keeper_fd, RG_IO_READ, on_keeper,
                    agent);
    parent = getppid();
    for (size_t i = 0; i < RG_AGENT_SIGNALS; i++) {
        rg_signal_start(&agent->signals[i], agent->loop, rg_agent_signals[i],
                        i < 3 ? on_signal : on_user_signal, agent);
        watch_sender(rg_agent_signals[i]);
    }
    r = rg_rankserver_create(agent, &agent->server);
    if (r == 0)
        r = rg_prober_create(agent->loop, agent->boot.key, &agent->prober);
    return r < 0 ? r : open_channel(agent);
}

static void finish(struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++)
        rg_task_destroy(agent->tasks[i]);
    free(agent->tasks);
    rg_inspect_stop(agent);
    rg_prober_destroy(agent->prober);
    rg_remotes_destroy(agent);
    rg_rankserver_destroy(agent->server);
    rg_remote_clients_destroy(agent);
    if (agent->copy.leave)
        agent->copy.leave(agent, true);
    rg_jobdir_remove(&agent->jobdir);
    rg_packages_fini(&agent->packages);
    rg_channel_destroy(agent->channel);
    for (size_t i = 0; i < rg_array_len(agent->signals); i++)
        rg_signal_stop(&agent->signals[i]);
    rg_timer_stop(&agent->late.timer);
    rg_io_stop(&agent->keeper);
    rg_timer_stop(&agent->lease.timer);
    rg_reaper_stop(agent);
    rg_loop_destroy(agent->loop);
    rg_buf_fini(&agent->input.buf);
    if (agent->has_setup)
        rg_codec_clear(rg_msg_find(RG_MSG_SETUP)->fields, &agent->setup);
    free(agent->epochs.newest.seats.data);
    free(agent->scratch);
    setrlimit(RLIMIT_NOFILE, &agent->nofile);
}

int rg_agent_run(struct rg_agent_lines *boot)
{
    struct rg_agent agent = { .boot = *boot, .jobdir = RG_JOBDIR_INIT,
                              .copy = { .lock_fd = -1, .in_fd = -1, .out_fd = -1 },
                              .exit_code = boot->waits ? RG_EXIT_PREEMPTED : RG_EXIT_OK };
    int r = prepare(&agent);

    /* Whoever needs it from here on has derived or held its own. */
    explicit_bzero(agent.boot.key, sizeof(agent.boot.key));
    explicit_bzero(boot->key, sizeof(boot->key));
    if (r < 0) {
        rg_log(RG_LOG_ERROR, "the agent cannot start: %s", strerror(-r));
        return RG_EXIT_INTERNAL;
    }
    rg_loop_run(agent.loop);
    finish(&agent);
    return agent.exit_code;
}
