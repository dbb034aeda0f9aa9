/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that other hosts' clients have run here, as sshd would run them. */
#include "agent/ranks/remote.h"

#include <signal.h>
#include <string.h>

#include "agent/rsh/rshargs.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/proctree.h"
#include "base/process/spawn.h"

#define STATUS_LOST (255 << 8) /* as ssh ends when there is no command */

struct rg_remote {
    struct rg_agent *agent;
    struct rg_remote *next;
    uint32_t id;
    pid_t pid;
    bool ended;
    int status;
    struct rg_pump outs[2];
    uint64_t credits[2];
    int in_fd; /* -1: it takes no more */
    struct rg_io in_io;
    struct rg_buf in;
    bool in_eof;
    bool hung_up;
    struct rg_timer killer;
};

static struct rg_remote *find(struct rg_agent *agent, uint32_t id)
{
    struct rg_remote *remote = agent->remotes.first;

    while (remote && remote->id != id)
        remote = remote->next;
    return remote;
}

static void close_in(struct rg_remote *remote)
{
    if (remote->in_fd < 0)
        return;
    rg_io_stop(&remote->in_io);
    close(rg_steal_fd(&remote->in_fd));
    rg_buf_clear(&remote->in);
}

static void destroy(struct rg_remote *remote)
{
    struct rg_remote **place = &remote->agent->remotes.first;

    while (*place && *place != remote)
        place = &(*place)->next;
    if (*place)
        *place = remote->next;
    close_in(remote);
    rg_pump_close(&remote->outs[0]);
    rg_pump_close(&remote->outs[1]);
    rg_timer_stop(&remote->killer);
    rg_buf_fini(&remote->in);
    free(remote);
}

static void send_exit(struct rg_agent *agent, uint32_t id, int status, const char *text)
{
    struct rg_msg_remote_exit msg = { id, status, (char *) text };

    rg_agent_send(agent, RG_MSG_REMOTE_EXIT, &msg);
}

/* The last word, once there is nothing more to come. True: remote has been freed. */
static bool end_if_over(struct rg_remote *remote)
{
    if (!remote->ended || remote->outs[0].fd >= 0 || remote->outs[1].fd >= 0)
        return false;
    send_exit(remote->agent, remote->id, remote->status, "");
    destroy(remote);
    return true;
}

/* The last step of whatever may have ended it. */
static void check_end(void *arg)
{
    struct rg_remote *remote = arg;
    struct rg_agent *agent = remote->agent;

    if (end_if_over(remote))
        agent->advance(agent);
}

/* --- output ----------------------------------------------------------------------------------- */

static void send_data(struct rg_pump *pump, uint8_t *data, size_t nbytes)
{
    const struct rg_remote *remote = pump->owner;

    rg_agent_send(pump->agent, RG_MSG_REMOTE_DATA,
                  &(struct rg_msg_remote_data){ remote->id, pump->stream, { data, nbytes } });
}

static void pump_remotes(struct rg_agent *agent)
{
    for (struct rg_remote *remote = agent->remotes.first, *next; remote; remote = next) {
        next = remote->next;
        rg_pump_flow(&remote->outs[0]);
        rg_pump_flow(&remote->outs[1]);
        end_if_over(remote);
    }
}

void rg_agent_pump(struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        rg_pump_flow(&agent->tasks[i]->pumps[0]);
        rg_pump_flow(&agent->tasks[i]->pumps[1]);
    }
    pump_remotes(agent);
    if (agent->state == RG_AGENT_GONE)
        agent->advance(agent);
}

/* --- input ------------------------------------------------------------------------------------ */

static void flow_in(struct rg_remote *remote);

static void in_ready(void *arg, int events)
{
    (void) events;
    flow_in(arg);
}

static void flow_in(struct rg_remote *remote)
{
    uint32_t taken = 0;

    while (remote->in_fd >= 0 && rg_buf_nbytes(&remote->in)) {
        ssize_t n = write(remote->in_fd, rg_buf_bytes(&remote->in), rg_buf_nbytes(&remote->in));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            close_in(remote); /* it reads no more: the client's bytes go nowhere, as with a pipe */
            break;
        }
        rg_buf_consume(&remote->in, (size_t) n);
        taken += (uint32_t) n;
    }
    if (taken)
        rg_agent_send(remote->agent, RG_MSG_REMOTE_CREDIT,
                      &(struct rg_msg_remote_credit){ remote->id, 0, taken });
    if (remote->in_fd < 0)
        return;
    if (!rg_buf_nbytes(&remote->in))
        rg_io_stop(&remote->in_io);
    else if (!rg_io_active(&remote->in_io))
        rg_io_start(&remote->in_io, remote->agent->loop, remote->in_fd, RG_IO_WRITE, in_ready,
                    remote);
    if (remote->in_eof && !rg_buf_nbytes(&remote->in))
        close_in(remote);
}

static int on_put(struct rg_remote *remote, const struct rg_msg_remote_data *msg)
{
    if (msg->stream != 0 || remote->in_eof ||
        rg_buf_nbytes(&remote->in) + msg->data.nbytes > RG_MSG_REMOTE_WINDOW)
        return -EBADMSG;
    if (!msg->data.nbytes)
        remote->in_eof = true;
    if (remote->in_fd < 0) {
        /* Swallowed, so that the client is not held up by a command that does not read. */
        if (msg->data.nbytes)
            rg_agent_send(remote->agent, RG_MSG_REMOTE_CREDIT,
                          &(struct rg_msg_remote_credit){ remote->id, 0,
                                                          (uint32_t) msg->data.nbytes });
        return 0;
    }
    rg_buf_put(&remote->in, msg->data.data, msg->data.nbytes);
    if (rg_buf_status(&remote->in) < 0)
        return -ENOMEM;
    flow_in(remote);
    return 0;
}

/* --- signals ---------------------------------------------------------------------------------- */

/* To all processes of its session, whatever groups they have made. */
static void signal_session(struct rg_remote *remote, int signo)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0;

    if (!remote->ended)
        kill(-remote->pid, signo);
    if (rg_proctree_descendants(getpid(), &list, &count) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (list[i].session == remote->pid && (remote->ended || list[i].group != remote->pid))
            kill(list[i].pid, signo);
    }
}

void rg_remotes_signal(struct rg_agent *agent, int signo)
{
    for (struct rg_remote *remote = agent->remotes.first; remote; remote = remote->next)
        signal_session(remote, signo);
}

static void kill_due(void *arg)
{
    signal_session(arg, SIGKILL);
}

static void on_hangup(struct rg_remote *remote)
{
    if (remote->hung_up)
        return;
    remote->hung_up = true;
    close_in(remote);
    rg_pump_close(&remote->outs[0]);
    rg_pump_close(&remote->outs[1]);
    signal_session(remote, SIGHUP);
    signal_session(remote, SIGCONT);
    if (!remote->ended)
        rg_timer_start(&remote->killer, remote->agent->loop, RG_REMOTE_HANGUP_MS, 0, kill_due,
                       remote);
    check_end(remote);
}

/* --- start ------------------------------------------------------------------------------------ */


/* Three pipes: ours into remote at once, the command's into fds. */
static int open_pipes(struct rg_remote *remote, int fds[3])
{
    int pair[2];
    int r = rg_pipe(pair);

    if (r < 0)
        return r;
    fds[0] = pair[0];
    remote->in_fd = pair[1];
    rg_fd_set_nonblock(remote->in_fd, true);
    for (int i = 0; i < 2; i++) {
        if ((r = rg_pipe(pair)) < 0)
            return r;
        fds[1 + i] = pair[1];
        rg_pump_open(&remote->outs[i], pair[0]);
    }
    return 0;
}

/* A shell where there is one; without, what needs none is started by itself. */
static int spawn(struct rg_remote *remote, const char *command, const struct rg_strv *env,
                 const int fds[3], struct rg_error *err)
{
    char *shell[] = { (char *) "/bin/sh", (char *) "-c", (char *) command, NULL };
    const char *home = rg_env_get(env, "HOME");
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_spawn spec = {
        .argv = shell,
        .envp = env->v,
        .cwd = home && access(home, X_OK) == 0 ? home : NULL,
        .fds = { fds[0], fds[1], fds[2] },
        .new_session = true,
        .death_signal = SIGKILL,
        .nofile = &remote->agent->nofile,
    };

    if (access("/bin/sh", X_OK) < 0) {
        int r = rg_rsh_split(command, &words);
        if (r < 0)
            return rg_error_set_exit(err, -r, RG_EXIT_NOT_FOUND,
                                     "this host has no /bin/sh, and a shell is "
                                     "needed for: %.200s", command);
        spec.argv = words.v;
    }
    return rg_spawn(&spec, &remote->pid, err);
}

/* A platform with tasks gives their variables to each login, too. */
static int add_task_env(const struct rg_agent *agent, const char *rank, struct rg_strv *env)
{
    int r = 0;

    for (size_t i = 0; rank && *rank && i < agent->ntasks; i++) {
        if (agent->tasks[i]->spec.rank == strtoul(rank, NULL, 10))
            r = rg_agent_set_entries(env, &agent->tasks[i]->spec.env);
    }
    return r;
}

static int start(struct rg_remote *remote, const char *command, const char *rank,
                 struct rg_error *err)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    int fds[3] = { -1, -1, -1 };
    int r = rg_agent_common_env(remote->agent, command, &env);

    if (r == 0)
        r = add_task_env(remote->agent, rank, &env);
    /* Where reigen itself was started by a rank of another job. */
    rg_env_unset(&env, "REIGEN_RANK");
    rg_env_unset(&env, "REIGEN_RANK_TOKEN");
    if (r == 0)
        r = open_pipes(remote, fds);
    r = r < 0 ? rg_error_set(err, -r, "cannot start a command: %s", strerror(-r))
              : spawn(remote, command, &env, fds, err);
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    for (size_t i = 0; i < env.count; i++)
        explicit_bzero(env.v[i], strlen(env.v[i]));
    return r;
}

static int on_start(struct rg_agent *agent, const struct rg_msg_remote_open *msg)
{
    struct rg_error err = RG_ERROR_INIT;

    if (find(agent, msg->id))
        return -EBADMSG;
    if (agent->state != RG_AGENT_RUNNING || agent->remotes.released) {
        send_exit(agent, msg->id, STATUS_LOST, "the job is ending on that host");
        return 0;
    }
    struct rg_remote *remote = calloc(1, sizeof(*remote));
    if (!remote)
        return -ENOMEM;
    remote->agent = agent;
    remote->id = msg->id;
    remote->in_fd = -1;
    for (int i = 0; i < 2; i++) {
        remote->outs[i] = (struct rg_pump){ .agent = agent, .owner = remote, .fd = -1,
                                            .stream = (uint8_t) (1 + i),
                                            .credit = &remote->credits[i],
                                            .send = send_data, .ended = check_end };
        remote->credits[i] = RG_MSG_REMOTE_WINDOW;
    }
    remote->next = agent->remotes.first;
    agent->remotes.first = remote;
    if (start(remote, msg->command ? msg->command : "", msg->host, &err) < 0) {
        send_exit(agent, msg->id, (err.exit_code ? err.exit_code : 255) << 8, err.text);
        destroy(remote);
        return 0;
    }
    /* Its first credit tells the client that the command runs. */
    rg_agent_send(agent, RG_MSG_REMOTE_CREDIT,
                  &(struct rg_msg_remote_credit){ remote->id, 0, RG_MSG_REMOTE_WINDOW });
    rg_pump_flow(&remote->outs[0]);
    rg_pump_flow(&remote->outs[1]);
    return 0;
}

/* --- the agent's calls ------------------------------------------------------------------------ */

static int on_grant(struct rg_remote *remote, const struct rg_msg_remote_credit *msg)
{
    if (msg->stream < 1 || msg->stream > 2 ||
        msg->nbytes > RG_MSG_REMOTE_WINDOW - remote->credits[msg->stream - 1])
        return -EBADMSG;
    remote->credits[msg->stream - 1] += msg->nbytes;
    rg_pump_flow(&remote->outs[msg->stream - 1]);
    check_end(remote);
    return 0;
}

int rg_remote_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg)
{
    if (type == RG_MSG_REMOTE_START)
        return on_start(agent, &msg->remote_open);
    /* The number comes first in each of these. Its EXIT may have crossed this message. */
    struct rg_remote *remote = find(agent, msg->remote_id.id);
    if (!remote)
        return 0;
    switch (type) {
    case RG_MSG_REMOTE_PUT: return on_put(remote, &msg->remote_data);
    case RG_MSG_REMOTE_GRANT: return on_grant(remote, &msg->remote_credit);
    case RG_MSG_REMOTE_HANGUP: on_hangup(remote); return 0;
    default: return -EBADMSG;
    }
}

void rg_remote_child_ended(struct rg_agent *agent, pid_t pid, int status)
{
    for (struct rg_remote *remote = agent->remotes.first; remote; remote = remote->next) {
        if (remote->pid != pid || remote->ended)
            continue;
        remote->ended = true;
        remote->status = status;
        close_in(remote);
        check_end(remote);
        return;
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

static void release_over(void *arg)
{
    struct rg_agent *agent = arg;

    agent->remotes.over = true;
    agent->advance(agent);
}

static void release_due(void *arg)
{
    struct rg_agent *agent = arg;

    rg_remotes_signal(agent, SIGTERM);
    rg_remotes_signal(agent, SIGCONT);
    rg_timer_start(&agent->remotes.timer, agent->loop, RG_REMOTE_TERM_MS, 0, release_over, agent);
}

void rg_remotes_release(struct rg_agent *agent)
{
    struct rg_remotes *remotes = &agent->remotes;

    if (!remotes->released)
        rg_timer_start(&remotes->timer, agent->loop, RG_REMOTE_RELEASE_MS, 0, release_due, agent);
    remotes->released = true;
    agent->epochs.start_due = false;
}

bool rg_remotes_hold(const struct rg_agent *agent)
{
    const struct rg_remotes *remotes = &agent->remotes;

    if (!agent->setup.resident || remotes->over)
        return false;
    return !remotes->released || remotes->first;
}

void rg_remotes_destroy(struct rg_agent *agent)
{
    rg_timer_stop(&agent->remotes.timer);
    while (agent->remotes.first)
        destroy(agent->remotes.first);
}
