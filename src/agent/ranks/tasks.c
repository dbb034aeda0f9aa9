/* SPDX-License-Identifier: Apache-2.0 */
/* This starts ranks: each gets its environment, its cpus, its streams and its place. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "agent/ranks/agent.h"
#include "agent/engine/engine.h"
#include "agent/ranks/gpus.h"
#include "agent/ranks/rankserver.h"
#include "agent/ranks/packages.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/cpus.h"
#include "base/process/spawn.h"

#define TASKS_MAX 65536

void rg_task_destroy(struct rg_task *task)
{
    rg_pump_close(&task->pumps[0]);
    rg_pump_close(&task->pumps[1]);
    rg_task_input_close(task);
    rg_codec_clear(rg_msg_find(RG_MSG_RANK)->fields, &task->spec);
    explicit_bzero(task->token, sizeof(task->token));
    free(task->cpus_text);
    free(task->gpus);
    free(task);
}

static void send_output(struct rg_pump *pump, uint8_t *data, size_t nbytes)
{
    const struct rg_task *task = pump->owner;

    rg_agent_send(pump->agent, RG_MSG_OUTPUT,
                  &(struct rg_msg_output){ task->spec.rank, pump->stream, { data, nbytes } });
}

static void output_ended(void *owner)
{
    struct rg_agent *agent = ((struct rg_task *) owner)->agent;

    agent->advance(agent);
}

static struct rg_task *make_task(struct rg_agent *agent)
{
    struct rg_task *task = calloc(1, sizeof(*task));
    struct rg_task **tasks =
        realloc(agent->tasks, (agent->ntasks + 1) * sizeof(*agent->tasks));

    if (tasks)
        agent->tasks = tasks;
    if (!task || !tasks) {
        free(task);
        return NULL;
    }
    task->agent = agent;
    task->input_fd = -1;
    for (int i = 0; i < 2; i++)
        task->pumps[i] = (struct rg_pump){ .agent = agent, .owner = task, .fd = -1,
                                           .stream = (uint8_t) (1 + i), .credit = &agent->credit,
                                           .send = send_output, .ended = output_ended };
    agent->tasks[agent->ntasks++] = task;
    return task;
}

/* Nothing is left of the place's last process but its output, and no more of that will come. */
static void forget_process(struct rg_task *task)
{
    for (int i = 0; i < 2; i++) {
        task->pumps[i].last = true;
        rg_pump_flow(&task->pumps[i]);
    }
    rg_codec_clear(rg_msg_find(RG_MSG_RANK)->fields, &task->spec);
    task->pid = 0;
    task->ended = task->input_eof_sent = task->in_runtime = task->elastic = false;
    task->signalled = task->epoch = 0;
}

int rg_agent_add_task(struct rg_agent *agent, struct rg_msg_rank *take_spec)
{
    struct rg_task *task = rg_agent_find_task(agent, take_spec->rank);

    if (take_spec->rank >= agent->setup.size || agent->ntasks >= TASKS_MAX)
        return -EINVAL;
    if (task && !task->ended)
        return -EBADMSG;
    if (task)
        forget_process(task);
    else if (!(task = make_task(agent)))
        return -ENOMEM;
    task->spec = *take_spec;
    task->cut_by = RG_MSG_NO_RANK;
    memset(take_spec, 0, sizeof(*take_spec));
    return 0;
}

/* --- environment ------------------------------------------------------------------------------ */

int rg_agent_set_entries(struct rg_strv *env, const struct rg_strv *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        const char *value = strchr(entries->v[i], '=');
        if (!value || value == entries->v[i])
            continue;
        rg_autofree char *name = strndup(entries->v[i], (size_t) (value - entries->v[i]));
        int r = name ? rg_env_set(env, name, value + 1) : -ENOMEM;
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_token(struct rg_strv *env, const char *name, const uint8_t *token)
{
    char text[RG_RANK_TOKEN_TEXT];

    rg_rank_token_format(token, text);
    int r = rg_env_set(env, name, text);
    explicit_bzero(text, sizeof(text));
    return r;
}

/* A daemon has been told by its mpirun which networks to use, if any. The job's command matters
 * only where there are lists of networks. */
static unsigned users_matters(const struct rg_agent *agent, const char *remote,
                              const struct rg_strv *env)
{
    const struct rg_msg_setup *setup = &agent->setup;
    bool several = setup->network && *setup->network;
    bool daemon = remote && rg_engine_is_daemon(remote);
    unsigned users = rg_engine_user_sets(several && !daemon ? &setup->command : NULL, setup->cwd,
                                         daemon ? NULL : remote, env);

    return daemon ? users | RG_USER_BTL | RG_USER_OOB : users;
}

int rg_agent_common_env(const struct rg_agent *agent, const char *remote, struct rg_strv *env)
{
    int r = agent->setup.inherit_env ? rg_strv_add_all(env, environ) : 0;

    rg_env_forget_launchers(env);
    if (r == 0)
        r = rg_agent_set_entries(env, &agent->setup.env);
    if (r == 0)
        r = rg_agent_set_entries(env, &agent->setup.secret_env);
    if (r < 0)
        return r;
    unsigned users = users_matters(agent, remote, env);
    r = rg_env_set(env, "REIGEN_JOB_ID", agent->boot.job_id);
    if (r == 0)
        r = rg_env_set(env, "REIGEN_AGENT_SOCKET", rg_rankserver_name(agent->server));
    if (r == 0)
        r = set_token(env, "REIGEN_AGENT_TOKEN", rg_rankserver_token(agent->server));
    if (r == 0)
        r = rg_jobdir_env(&agent->jobdir, env);
    if (r == 0)
        r = rg_packages_env(agent, env);
    return r == 0 ? rg_engine_env(&agent->setup, agent->jobdir.path, users, env) : r;
}

/* The launcher knows only its own computer's cores; where it has said nothing, we share ours. */
static int set_threads(const struct rg_task *task, struct rg_strv *env)
{
    const struct rg_agent *agent = task->agent;
    cpu_set_t cpus;

    if (rg_engine_used(&agent->setup) || rg_env_get(env, "OMP_NUM_THREADS") ||
        sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        return 0;
    size_t threads = (size_t) CPU_COUNT(&cpus) / agent->ntasks;
    if (task->ncpus && threads > (size_t) task->ncpus)
        threads = (size_t) task->ncpus;
    return rg_env_setf(env, "OMP_NUM_THREADS", "%zu", threads ? threads : 1);
}

static int rank_env(const struct rg_task *task, const struct rg_strv *common, struct rg_strv *env)
{
    int r = common->count ? rg_strv_add_all(env, common->v) : 0;

    if (r == 0)
        r = rg_agent_set_entries(env, &task->spec.env);
    if (r == 0)
        r = set_threads(task, env);
    if (r == 0 && task->gpus)
        r = rg_env_set(env, RG_GPUS_VISIBLE, task->gpus);
    /* Whoever shows the token is that rank; an engine would hand it to all of its own. */
    if (r == 0 && !rg_engine_used(&task->agent->setup))
        r = set_token(env, "REIGEN_RANK_TOKEN", task->token);
    return r;
}

/* --- cpus: only here it is known which of them are the job's ---------------------------------- */

static int bind_to(struct rg_task *task, const struct rg_cpus *cpus, bool by_socket, int index)
{
    int count = 0;
    rg_autofree int *picked = rg_cpus_pick(cpus, by_socket, index, &count);

    if (!picked)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        if (picked[i] < CPU_SETSIZE)
            CPU_SET(picked[i], &task->cpus);
    }
    task->ncpus = CPU_COUNT(&task->cpus);
    free(task->cpus_text);
    task->cpus_text = rg_cpus_text(picked, count);
    return task->cpus_text ? 0 : -ENOMEM;
}

/* Choose each rank's cpus by SETUP's bind, among those that we may use ourselves: the core or
 * socket with its place among this host's ranks. Ranks are left unbound where there are more of
 * them than cores and that was allowed. 0; -EINVAL with exit code 2 (more, and not allowed);
 * -errno. */
static int bind_tasks(struct rg_agent *agent, struct rg_error *err)
{
    const struct rg_msg_setup *setup = &agent->setup;
    bool by_socket = setup->bind == RG_MSG_BIND_SOCKET;
    int count = (int) agent->ntasks;
    struct rg_cpus cpus;

    if (setup->bind == RG_MSG_BIND_NONE || rg_engine_used(setup) || !count)
        return 0;
    int r = rg_cpus_read(RG_CPUS_ROOT, &cpus);
    if (r < 0)
        return rg_error_set(err, -r, "which cpus there are for ranks: %s", strerror(-r));
    int ncores = cpus.ncores;
    bool crowded = !by_socket && count > ncores;
    for (int i = 0; r == 0 && !crowded && i < count; i++)
        r = bind_to(agent->tasks[i], &cpus, by_socket, i);
    rg_cpus_fini(&cpus);
    if (r < 0)
        return rg_error_set(err, -r, "no memory for the ranks' cpus");
    if (!crowded)
        return 0;
    if (!setup->oversubscribe)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--bind-to core: %d ranks on %s, which has %d core%s for them; "
                                 "run fewer ranks there, or say --bind-to none",
                                 count, setup->host, ncores, ncores == 1 ? "" : "s");
    /* They would fight for the first few. */
    rg_agent_note(agent, "%s: %d ranks on %d core%s are not bound", setup->host, count, ncores,
                  ncores == 1 ? "" : "s");
    return 0;
}

/* --- descriptors ------------------------------------------------------------------------------ */

/* The rank's ends of its descriptors; ours go into the task at once. */
struct ends {
    int fds[3];
};

static void close_ends(const struct ends *ends)
{
    for (int i = 0; i < 3; i++) {
        if (ends->fds[i] >= 0 && (i == 0 || ends->fds[i] != ends->fds[0]))
            close(ends->fds[i]);
    }
}

static int open_terminal(struct rg_task *task, struct ends *ends)
{
    const struct rg_msg_rank *spec = &task->spec;
    rg_autoclose int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[64];

    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        return -errno;
    int r = ptsname_r(master, name, sizeof(name));
    if (r != 0)
        return -r;
    rg_autoclose int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -errno;
    struct winsize size = { .ws_row = (unsigned short) spec->rows,
                            .ws_col = (unsigned short) spec->columns };
    if (spec->rows && spec->columns)
        ioctl(master, TIOCSWINSZ, &size);
    if (spec->takes_input) {
        task->input_fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
        if (task->input_fd < 0)
            return -errno;
    }
    ends->fds[0] = ends->fds[1] = ends->fds[2] = rg_steal_fd(&slave);
    rg_pump_open(&task->pumps[0], rg_steal_fd(&master));
    return 0;
}

static int open_pipes(struct rg_task *task, struct ends *ends)
{
    int fds[2];
    int r;

    for (int i = 0; i < 2; i++) {
        if ((r = rg_pipe(fds)) < 0)
            return r;
        ends->fds[1 + i] = fds[1];
        rg_pump_open(&task->pumps[i], fds[0]);
    }
    if (!task->spec.takes_input || task->agent->input.closed_told)
        return 0;
    if ((r = rg_pipe(fds)) < 0)
        return r;
    ends->fds[0] = fds[0];
    task->input_fd = fds[1];
    return rg_fd_set_nonblock(task->input_fd, true);
}

/* --- start ------------------------------------------------------------------------------------ */

static int start_task(struct rg_task *task, const struct rg_strv *common, struct rg_error *err)
{
    const struct rg_msg_setup *setup = &task->agent->setup;
    rg_cleanup(close_ends) struct ends ends = { { -1, -1, -1 } };
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    task->input_at = task->agent->input.buf_at;
    if (getrandom(task->token, sizeof(task->token), 0) != sizeof(task->token))
        return rg_error_set(err, EIO, "no random bytes from the kernel");
    int r = rank_env(task, common, &env);
    if (r == 0 && (r = rg_engine_prepare(&task->agent->setup, &env, err)) < 0)
        return r;
    if (r == 0)
        r = task->spec.pty ? open_terminal(task, &ends) : open_pipes(task, &ends);
    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", task->spec.pty ? "opening a terminal" : "pipes",
                            strerror(-r));
    struct rg_spawn spawn = {
        .argv = setup->command.v,
        .envp = env.v,
        .cwd = *setup->cwd ? setup->cwd : NULL,
        .fds = { ends.fds[0], ends.fds[1], ends.fds[2] },
        .new_session = true,
        .controlling_tty = task->spec.pty,
        .death_signal = SIGKILL,
        .affinity = task->ncpus ? &task->cpus : NULL,
        .nofile = &task->agent->nofile,
    };
    r = rg_spawn(&spawn, &task->pid, err);
    for (size_t i = 0; i < env.count; i++) /* tokens, and what came by --share-env */
        explicit_bzero(env.v[i], strlen(env.v[i]));
    return r;
}

static void tell_not_started(struct rg_task *task, const struct rg_error *err)
{
    struct rg_msg_not_started msg = {
        .rank = task->spec.rank,
        .errnum = (uint32_t) err->errnum,
        .exit_code = (uint32_t) err->exit_code,
        .text = (char *) err->text,
    };

    task->ended = true;
    rg_agent_send(task->agent, RG_MSG_NOT_STARTED, &msg);
}

void rg_task_cancel(struct rg_task *task)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set(&err, ECANCELED, "not wanted any more");
    tell_not_started(task, &err);
}

static void close_streams(struct rg_task *task)
{
    for (int i = 0; i < 2; i++)
        rg_pump_close(&task->pumps[i]);
    rg_task_input_close(task);
}

void rg_agent_start_tasks(struct rg_agent *agent)
{
    rg_autostrv struct rg_strv common = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    bool failed = rg_agent_common_env(agent, NULL, &common) < 0;

    if (failed)
        rg_error_set(&err, ENOMEM, "no memory for the environment");
    else
        failed = bind_tasks(agent, &err) < 0 || rg_gpus_divide(agent, &common, &err) < 0;
    agent->epochs.start_due = false;
    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        bool drained = rg_task_drained(task);
        agent->epochs.start_due |= !task->pid && !task->ended && !drained;
        if (task->pid || task->ended || !drained)
            continue;
        if (!failed && start_task(task, &common, &err) == 0) {
            rg_agent_send(agent, RG_MSG_STARTED,
                          &(struct rg_msg_started){ task->spec.rank, (uint32_t) task->pid,
                                                    task->cpus_text });
            continue;
        }
        close_streams(task);
        tell_not_started(task, &err);
        if (!failed)
            rg_error_set(&err, ECANCELED, "not tried after rank %u", task->spec.rank);
        failed = true;
    }
    for (size_t i = 0; i < common.count; i++)
        explicit_bzero(common.v[i], strlen(common.v[i]));
    rg_agent_input_flow(agent);
}
