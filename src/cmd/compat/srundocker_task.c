/* SPDX-License-Identifier: Apache-2.0 */
/* srun starts the command as many times as there are tasks, but the job has one launcher: the
 * other tasks wait here until task 0 lets them go. */
#include "cmd/compat/srundocker_task.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/self.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/slurm/door.h"

#define POLL_FIRST_MS 20
#define POLL_MS 200
#define START_MS 30000       /* from when the job must have agents until it has failed */
#define END_MS 3000          /* from an agent's end until task 0 has seen to its own */
#define RELEASE_MS 15000     /* for a step to be started and to end */
#define RELEASE_SIGNAL SIGURG /* where no step can be started, or a name is another user's */
#define BOX_BACKLOG 16
#define SHOWN_MAX (64u << 10) /* of what scontrol says; the beginning will do */

/* An abstract name, without the NUL in front. */
static socklen_t set_name(struct sockaddr_un *address, const char *job, const char *step, int task)
{
    int n;

    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (task < 0)
        n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "reigen-slurm-%s-%s", job,
                     step);
    else
        n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                     "reigen-slurm-%s-%s-task-%d", job, step, task);
    if (n > (int) sizeof address->sun_path - 2)
        n = (int) sizeof address->sun_path - 2;
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
}

/* --- waiting --------------------------------------------------------------------------------- */

struct waiting {
    const struct rg_slurm_allocation *step;
    int box_fd;       /* where task 0 has somebody call; -1: the name is taken */
    int agent_fd;     /* connected to the node's agent; -1: not now */
    bool seen;        /* it was connected */
    bool input_open;
    uint64_t end_ns;  /* when there is no use in waiting any longer */
};

static int open_box(const struct rg_slurm_allocation *step)
{
    struct sockaddr_un address;
    int task = step->localid < 0 ? 0 : step->localid;
    socklen_t n = set_name(&address, step->job_id, step->step_id, task);
    rg_autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *) &address, n) < 0 || listen(fd, BOX_BACKLOG) < 0)
        return -1;
    return rg_steal_fd(&fd);
}

static bool is_own(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

/* Whether one of our own user's has called: the call is all that it has to say. */
static bool was_called(int fd)
{
    bool own = false;
    int caller;

    while (!own && (caller = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        own = is_own(caller);
        close(caller);
    }
    return own;
}

/* A task of the step, or its agent (-1), where it is of the same user; else -1. */
static int call(int type, const char *job, const char *step, int task)
{
    struct sockaddr_un address;
    socklen_t n = set_name(&address, job, step, task);
    rg_autoclose int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *) &address, n) < 0 || !is_own(fd))
        return -1;
    return rg_steal_fd(&fd);
}

/* Handlers get no argument of ours. */
static volatile sig_atomic_t told_to_end, released;

static void on_term(int signo)
{
    (void) signo;
    told_to_end = 1;
}

static void on_release(int signo)
{
    (void) signo;
    released = 1;
}

/* Slurm gives signals to all tasks. They are meant for the script, which task 0 hands them to; and
 * its code is to be srun's, not that of a task that a signal has killed. */
static void set_signals(void)
{
    static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM };
    const struct sigaction term = { .sa_handler = on_term }, release = { .sa_handler = on_release };

    for (size_t i = 0; i < rg_array_len(ignored); i++)
        signal(ignored[i], SIG_IGN);
    sigaction(SIGTERM, &term, NULL);
    sigaction(RELEASE_SIGNAL, &release, NULL);
}

static void set_end(struct waiting *w, uint64_t ms)
{
    w->end_ns = rg_now_ns() + ms * RG_NS_PER_MS;
}

/* Read what has come, and say whether more may come. */
static bool drain(int fd)
{
    char buf[4096];
    ssize_t n = read(fd, buf, sizeof buf);

    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* srun gives its input to all tasks, and would be held up by one that does not read it. */
static void look(struct waiting *w, int timeout_ms)
{
    struct pollfd fds[] = { { w->box_fd, POLLIN, 0 }, { w->agent_fd, POLLIN, 0 },
                            { w->input_open ? 0 : -1, POLLIN, 0 } };

    if (poll(fds, rg_array_len(fds), timeout_ms) <= 0)
        return;
    if (fds[1].revents && !drain(w->agent_fd)) {
        close(w->agent_fd);
        w->agent_fd = -1;
        set_end(w, told_to_end ? 0 : END_MS);
    }
    if (fds[2].revents)
        w->input_open = drain(0);
}

void rg_task_wait(const struct rg_slurm_allocation *step, uint64_t start_timeout_ms)
{
    struct waiting w = { step, -1, -1, false, true, UINT64_MAX };
    int ms = POLL_FIRST_MS;

    set_signals();
    w.box_fd = open_box(step);
    if (start_timeout_ms)
        set_end(&w, start_timeout_ms + START_MS);
    while (!released && (w.box_fd < 0 || !was_called(w.box_fd)) &&
           (w.agent_fd >= 0 || rg_now_ns() < w.end_ns)) {
        if (!w.seen && (w.agent_fd = call(SOCK_STREAM, step->job_id, step->step_id, -1)) >= 0)
            w.seen = true;
        look(&w, w.seen && w.box_fd >= 0 ? 1000 : ms);
        ms = ms < POLL_MS ? ms + 5 : POLL_MS;
        if (told_to_end && w.agent_fd < 0) /* nothing more will come */
            break;
    }
    if (w.box_fd >= 0)
        close(w.box_fd);
    if (w.agent_fd >= 0)
        close(w.agent_fd);
}

/* --- releasing ------------------------------------------------------------------------------- */

/* srun would take the variables of the step that we are in for options of its own. */
static int add_environment(struct rg_strv *env)
{
    int rc = 0;

    for (char **e = environ; *e && rc == 0; e++)
        if ((!rg_str_starts(*e, "SLURM_") && !rg_str_starts(*e, "SRUN_")) ||
            rg_str_starts(*e, "SLURM_CONF="))
            rc = rg_strv_add(env, *e);
    return rc;
}

/* Start a program of Slurm's and wait for its end. True: it ended with 0. */
static bool run(const struct rg_strv *argv, uint64_t timeout_ms)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    struct rg_spawn spec = { .argv = argv->v, .fds = { -1, -1, -1 }, .new_group = true };
    pid_t pid;

    if (add_environment(&env) < 0)
        return false;
    spec.envp = env.v;
    return rg_spawn(&spec, &pid, NULL) == 0 && rg_spawn_wait(pid, timeout_ms) == 0;
}

/* "NODE=TASKS,...", and with it "NODE,...", of one component of a heterogeneous job, or of all
 * (-1); a node that has only task 0 is left out. */
static int list_tasks(const struct rg_slurm_allocation *step, int group, struct rg_buf *tasks,
                      struct rg_buf *nodes)
{
    int count = 0;

    for (size_t i = 0; i < step->nnodes; i++) {
        const struct rg_slurm_node *node = &step->nodes[i];
        bool own = step->node && strcmp(step->node, node->name) == 0;
        if ((own && node->ntasks < 2) || (group >= 0 && node->group != group))
            continue;
        rg_buf_printf(tasks, "%s%s=%d", count ? "," : "", node->name,
                      node->ntasks ? node->ntasks : 1);
        rg_buf_printf(nodes, "%s%s", count++ ? "," : "", node->name);
    }
    return rg_buf_status(tasks) < 0 || rg_buf_status(nodes) < 0 ? -ENOMEM : count;
}

/* srun's line for a step of its own beside this one, with a task on each of so many nodes; group:
 * -1: not of a heterogeneous job. */
static int step_argv(const struct rg_slurm_allocation *step, int group, int nnodes,
                     const char *nodes, struct rg_strv *argv)
{
    static char *const fixed[] = { "srun", "--overlap", "--mpi=none", "--quiet", "--input=none",
                                   "--gres=none", "--mem=0", "--cpu-bind=none", NULL };
    int rc = rg_strv_add_all(argv, fixed);

    rc = rc < 0 ? rc : rg_strv_addf(argv, "--jobid=%s", step->job_id);
    if (rc == 0 && group >= 0)
        rc = rg_strv_addf(argv, "--het-group=%d", group);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "--nodes=%d", nnodes);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "--ntasks=%d", nnodes);
    return rc < 0 ? rc : rg_strv_addf(argv, "--nodelist=%s", nodes);
}

static int release_argv(const struct rg_slurm_allocation *step, int group, unsigned patience_ms,
                        struct rg_strv *argv)
{
    rg_autobuf struct rg_buf tasks = RG_BUF_INIT, nodes = RG_BUF_INIT;
    char program[PATH_MAX];
    int count = list_tasks(step, group, &tasks, &nodes);
    int rc = rg_self_path(program) < 0 || count < 0 ? -ENOMEM : 0;

    if (rc < 0 || !count)
        return rc;
    char *const words[] = { "--ntasks-per-node=1", "--output=none", "--wait=0",
                            "--kill-on-bad-exit=0", "--", program, "srun-docker", RG_TASK_RELEASE,
                            step->job_id, step->step_id, (char *) rg_buf_text(&tasks), NULL };

    rc = step_argv(step, group, count, rg_buf_text(&nodes), argv);
    rc = rc < 0 ? rc : rg_strv_add_all(argv, words);
    return rc < 0 ? rc : rg_strv_addf(argv, "%u", patience_ms);
}

/* By a step, one in each component of a heterogeneous job. True: all tasks know. */
static bool release(const struct rg_slurm_allocation *step, unsigned patience_ms)
{
    int ngroups = (int) step->group_ids.count;

    for (int group = ngroups ? 0 : -1; group < ngroups; group++) {
        rg_autostrv struct rg_strv argv = RG_STRV_INIT;
        if (release_argv(step, group, patience_ms, &argv) < 0 ||
            (argv.count && !run(&argv, RELEASE_MS)))
            return false;
    }
    return true;
}

/* signal: an option; NULL: as users cancel a step, of which srun is told, too. */
static int cancel_argv(const struct rg_slurm_allocation *step, const char *signal,
                       struct rg_strv *argv)
{
    int rc = rg_strv_add(argv, "scancel");

    rc = rc < 0 || !signal ? rc : rg_strv_add(argv, signal);
    if (rc == 0 && !step->group_ids.count)
        rc = rg_strv_addf(argv, "%s.%s", step->job_id, step->step_id);
    for (size_t i = 0; i < step->group_ids.count && rc == 0; i++)
        rc = rg_strv_addf(argv, "%s.%s", step->group_ids.v[i], step->step_id);
    return rc;
}

/* Which of its components this node is of, where the job is a heterogeneous one; else -1. */
static int own_group(const struct rg_slurm_allocation *step)
{
    for (size_t i = 0; step->group_ids.count && i < step->nnodes; i++) {
        if (strcmp(step->nodes[i].name, step->node) == 0)
            return step->nodes[i].group;
    }
    return -1;
}

/* Have a step of its own on this node run it in 2 s: it outlives this one, with its srun or without
 * it. Returns when that step is there, or cannot be had. Words without blanks and quotes only. */
static void run_later(const struct rg_slurm_allocation *step, const struct rg_strv *words)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT, env = RG_STRV_INIT;
    rg_autobuf struct rg_buf script = RG_BUF_INIT;
    int ends[2], rc = step_argv(step, own_group(step), 1, step->node, &argv);
    pid_t pid;

    rg_buf_printf(&script, "echo; sleep 2; exec");
    for (size_t i = 0; i < words->count; i++)
        rg_buf_printf(&script, " %s", words->v[i]);
    rc = rc < 0 ? rc : rg_strv_add_all(&argv, (char *[]){ "--", "/bin/sh", "-c", NULL });
    rc = rc < 0 ? rc : rg_strv_add(&argv, rg_buf_text(&script));
    if (rc < 0 || rg_buf_status(&script) < 0 || add_environment(&env) < 0 || rg_pipe(ends) < 0)
        return;
    rg_autoclose int in = ends[0];
    rg_autoclose int out = ends[1];
    const struct rg_spawn spec = { .argv = argv.v, .envp = env.v, .fds = { -1, out, -1 },
                                   .new_session = true };
    struct pollfd started = { in, POLLIN, 0 };
    if (rg_spawn(&spec, &pid, NULL) == 0) {
        close(rg_steal_fd(&out));
        poll(&started, 1, RELEASE_MS);
    }
}

void rg_task_release(const struct rg_slurm_allocation *step, unsigned patience_ms, bool lost)
{
    static const int late[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };
    rg_autostrv struct rg_strv cancel = RG_STRV_INIT, end = RG_STRV_INIT;
    /* We are one of the tasks of our node, and must not be missed there. */
    rg_autoclose int box_fd = open_box(step);

    (void) box_fd;
    /* The job is over: what Slurm may now send us is not to take the exit code's place. */
    for (size_t i = 0; i < rg_array_len(late); i++)
        signal(late[i], SIG_IGN);
    /* Where no step can be started, or somebody has taken a task's name, they would wait for long.
     * We are one of the tasks that get the signal. */
    if (release(step, patience_ms))
        return;
    if (cancel_argv(step, "--signal=URG", &cancel) == 0)
        run(&cancel, RELEASE_MS);
    if (lost && cancel_argv(step, NULL, &end) == 0)
        run_later(step, &end);
}

/* Slurm keeps srun's command for a job that srun has asked for, the script for one of sbatch's, and
 * what salloc runs, or nothing, for one of salloc's. It is our own program for the first only. */
static bool is_of_srun(const char *text)
{
    const char *command = strstr(text, " Command=");
    size_t n = command ? strcspn(command += strlen(" Command="), " \n") : 0;
    const char *slash = n ? memrchr(command, '/', n) : NULL;
    const char *name = slash ? slash + 1 : command, *own = program_invocation_short_name;

    return n && strstr(text, "BatchFlag=0") && strlen(own) == n - (size_t) (name - command) &&
           strncmp(name, own, strlen(own)) == 0;
}

void rg_task_give_back(const struct rg_slurm_allocation *step)
{
    rg_autofree char *text = malloc(SHOWN_MAX);
    char *show[] = { (char *) "scontrol", (char *) "show", (char *) "job", step->job_id, NULL };
    char *cancel[] = { (char *) "scancel", (char *) "--quiet", step->job_id, NULL };

    if (text && rg_slurm_ask(show, text, SHOWN_MAX) == 0 && is_of_srun(text))
        rg_slurm_ask(cancel, text, SHOWN_MAX);
}

/* How many tasks of the outer step are on this node. */
static int count_here(const char *tasks)
{
    const char *node = getenv("SLURMD_NODENAME");
    size_t n = node ? strlen(node) : 0;

    for (const char *p = tasks; n && p; p = strchr(p, ','), p = p ? p + 1 : NULL)
        if (strncmp(p, node, n) == 0 && p[n] == '=')
            return atoi(p + n + 1);
    return 0;
}

static bool call_task(const char *job, const char *step, int task)
{
    rg_autoclose int fd = call(SOCK_SEQPACKET, job, step, task);

    return fd >= 0;
}

int rg_task_release_here(int argc, char **argv)
{
    int64_t patience_ms;

    if (argc != 6 || rg_parse_int("patience", argv[5], 0, RELEASE_MS, &patience_ms, NULL) < 0)
        return RG_EXIT_USAGE;
    int ntasks = count_here(argv[4]), left = ntasks;
    uint64_t end = rg_now_ns() + (uint64_t) patience_ms * RG_NS_PER_MS;
    rg_autofree bool *told = calloc((size_t) (ntasks > 0 ? ntasks : 1), sizeof *told);

    if (!told)
        return 1;
    for (;;) {
        for (int i = 0; i < ntasks; i++) {
            if (!told[i] && (told[i] = call_task(argv[2], argv[3], i)))
                left--;
        }
        if (left <= 0 || rg_now_ns() > end)
            return left > 0;
        poll(NULL, 0, 20);
    }
}
