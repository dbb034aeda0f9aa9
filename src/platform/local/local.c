/* SPDX-License-Identifier: Apache-2.0 */
/* Also for one computer there are agents, each with its link: so a session knows one way only. */
#include "platform/local/door.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "launch/host/agentfile.h"
#include "launch/host/dialogue.h"
#include "launch/host/leftover.h"
#include "launch/host/preamble.h"
#include "base/exitcode.h"
#include "job/hostlist.h"
#include "job/platform.h"

#define CROWD 8 /* ranks on a core, that are worth a remark */

struct local_agent {
    struct local *local;
    int host;
    pid_t pid; /* of its guard; 0: not running */
    struct rg_child child;
    int report_fd; /* its guard's words; -1: none come */
    struct rg_sweep sweep;
    struct rg_error err; /* how it ended */
    bool stopped;        /* by us */
};

struct local {
    struct rg_driver_options o;
    struct rg_leftover leftover;
    struct local_agent *agents;
    struct rg_strv env; /* of the agents */
    char path[PATH_MAX];  /* their program */
    int nstarted;         /* of them */
};

/* --- discovery -------------------------------------------------------------------------------- */

static int count_cores(void)
{
    size_t nbytes = CPU_ALLOC_SIZE(RG_JOB_SLOTS_MAX);
    cpu_set_t *set = CPU_ALLOC(RG_JOB_SLOTS_MAX);
    int count = set && sched_getaffinity(0, nbytes, set) == 0 ? CPU_COUNT_S(nbytes, set) : 1;

    CPU_FREE(set);
    return count > 0 ? count : 1;
}

static bool same_address(const struct sockaddr *addr, int family, const void *bytes)
{
    if (!addr || addr->sa_family != family)
        return false;
    if (family == AF_INET)
        return memcmp(&((const struct sockaddr_in *) (const void *) addr)->sin_addr, bytes, 4) == 0;
    return memcmp(&((const struct sockaddr_in6 *) (const void *) addr)->sin6_addr, bytes, 16) == 0;
}

/* Numeric, and an address of an interface here. */
static bool is_own_address(const char *name)
{
    struct ifaddrs *all;
    uint8_t bytes[16];
    int family = inet_pton(AF_INET, name, bytes) == 1    ? AF_INET
                 : inet_pton(AF_INET6, name, bytes) == 1 ? AF_INET6 : AF_UNSPEC;
    bool found = false;

    if (family == AF_UNSPEC || getifaddrs(&all) < 0)
        return false;
    for (struct ifaddrs *e = all; e && !found; e = e->ifa_next)
        found = same_address(e->ifa_addr, family, bytes);
    freeifaddrs(all);
    return found;
}

bool rg_local_is_here(const char *name)
{
    return rg_host_is_local(name) || is_own_address(name);
}

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    int ncores = count_cores();

    (void) held;
    /* Without a word about hosts, as many slots as ranks: it is the user's own computer. */
    if (!job->nhosts)
        return rg_job_add_host(job, "localhost", job->np > ncores ? job->np : ncores, err);
    for (size_t i = 0; i < job->nhosts; i++) {
        if (!rg_local_is_here(job->hosts[i].name))
            return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                     "host %s is not this computer; leave --on %s out, and "
                                     "it is reached by ssh",
                                     job->hosts[i].name,
                                     job->on ? job->on : rg_driver_local.platform.name);
        if (!job->hosts[i].nslots)
            job->hosts[i].nslots = ncores;
    }
    return 0;
}

#ifndef RG_AGENT
static bool remark(const struct rg_job *job, char *buf, size_t nbytes)
{
    int ncores = count_cores();
    bool here = (!job->on && !job->nhosts) || rg_platform_of(job) == &rg_driver_local.platform;

    if (!here || job->np <= CROWD * ncores)
        return false;
    snprintf(buf, nbytes, "-np %d: this computer has %d core%s, which the ranks take turns on",
             job->np, ncores, ncores == 1 ? "" : "s");
    return true;
}
#endif

/* --- ends ------------------------------------------------------------------------------------- */

static void tell_gone(void *arg)
{
    struct local_agent *agent = arg;

    agent->local->o.events->on_gone(agent->local->o.arg, agent->host, &agent->err);
}

/* What the agent's guard has told, or "". */
static void read_report(struct local_agent *agent, char *buf, size_t nbytes)
{
    ssize_t n = agent->report_fd < 0 ? 0 : recv(agent->report_fd, buf, nbytes - 1, MSG_DONTWAIT);

    buf[n > 0 ? n : 0] = '\0';
    if (agent->report_fd >= 0)
        close(rg_steal_fd(&agent->report_fd));
}

static void agent_ended(void *arg, pid_t pid, int status)
{
    struct local_agent *agent = arg;
    char how[64], report[256];
    int length = 0;

    read_report(agent, report, sizeof(report));
    const char *told = rg_preamble_guard(report, &length);
    agent->pid = agent->local->leftover.spared[agent->host] = 0;
    if (told && !agent->stopped)
        rg_error_set(&agent->err, ECHILD, "%.*s", length, told);
    else
        rg_error_set(&agent->err, ECHILD, "its agent%s (process %d) ended: %s%s",
                     WIFSIGNALED(status) ? "'s guard" : "", (int) pid,
                     rg_status_text(status, how, sizeof(how)),
                     agent->stopped ? ", sent by reigen" : "");
    if (status == 0)
        tell_gone(agent);
    else
        rg_sweep_start(&agent->sweep, &agent->local->leftover, agent->local->o.loop, tell_gone,
                       agent);
}

static void stop(void *state, int host)
{
    struct local *local = state;
    struct local_agent *agent = &local->agents[host];

    if (!agent->pid)
        return;
    agent->stopped = true;
    kill(agent->pid, SIGKILL);
}

static void end_all(struct local *local)
{
    bool some = false;

    for (int i = 0; i < local->nstarted; i++) {
        struct local_agent *agent = &local->agents[i];
        if (!agent->local)
            continue; /* another driver's */
        some |= agent->pid || rg_timer_active(&agent->sweep.timer);
        rg_child_stop(&agent->child);
        if (agent->report_fd >= 0)
            close(rg_steal_fd(&agent->report_fd));
        rg_timer_stop(&agent->sweep.timer);
        if (!agent->pid)
            continue;
        kill(agent->pid, SIGKILL);
        while (waitpid(agent->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        local->leftover.spared[i] = 0;
    }
    if (some)
        rg_leftover_end(&local->leftover);
}

static void destroy(void *state)
{
    struct local *local = state;

    end_all(local);
    rg_strv_fini(&local->env);
    rg_leftover_fini(&local->leftover);
    free(local->agents);
    free(local);
}

/* --- start ------------------------------------------------------------------------------------ */

/* A socket takes it without blocking. */
static int write_boot(const struct local *local, int fd)
{
    static const struct rg_dialogue_boot boot = { .lines = "link fd 3\nguard report\n" };
    struct rg_buf out = RG_BUF_INIT;
    int r = rg_dialogue_put_boot(&local->o, &boot, &out);

    if (r == 0 && (r = rg_buf_status(&out)) == 0)
        r = rg_write_all(fd, rg_buf_bytes(&out), rg_buf_nbytes(&out));
    rg_buf_wipe(&out);
    return r;
}

static int start_agent(struct local *local, int host, struct rg_error *err)
{
    struct local_agent *agent = &local->agents[host];
    char *argv[] = { local->path, (char *) "agent", NULL };
    rg_autoclose int ours = -1, theirs = -1, boot = -1, report = -1;
    int fds[2];
    int r = rg_socketpair(fds);

    *agent = (struct local_agent){ .local = local, .host = host, .report_fd = -1 };
    if (r < 0)
        return rg_error_set(err, -r, "no socket for the agent: %s", strerror(-r));
    ours = fds[0];
    theirs = fds[1];
    if ((r = rg_socketpair(fds)) < 0)
        return rg_error_set(err, -r, "no socket for the agent's guard: %s", strerror(-r));
    boot = fds[0];
    report = fds[1];
    if ((r = write_boot(local, report)) < 0)
        return rg_error_set(err, -r, "cannot write to the agent: %s", strerror(-r));
    struct rg_spawn spawn = {
        .argv = argv,
        .envp = local->env.v,
        .fds = { boot, -1, 2 },
        .extra_fd = theirs,
        .extra_fd_set = true,
        .new_session = true,
    };
    r = rg_spawn(&spawn, &agent->pid, err);
    if (r < 0)
        return r;
    local->leftover.spared[host] = agent->pid;
    agent->report_fd = rg_steal_fd(&report);
    rg_child_start(&agent->child, local->o.loop, agent->pid, agent_ended, agent);
    int fd = rg_steal_fd(&ours);
    local->o.events->on_connected(local->o.arg, host, fd, fd);
    return 0;
}

static int prepare(struct local *local, struct rg_error *err)
{
    const struct rg_plan *plan = local->o.plan;

    local->agents = calloc((size_t) plan->room_hosts, sizeof(*local->agents));
    if (!local->agents ||
        rg_leftover_init(&local->leftover, local->o.job, plan, &local->env) < 0)
        return rg_error_set(err, ENOMEM, "no memory for %d agents", plan->nhosts);
    return 0;
}

static int add(void *state, int host, struct rg_error *err)
{
    struct local *local = state;

    local->nstarted = host + 1;
    local->o.events->on_phase(local->o.arg, host, RG_PHASE_STARTING, "");
    int r = start_agent(local, host, err);
    if (r < 0 && err)
        err->exit_code = RG_EXIT_UNAVAILABLE;
    return r;
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    struct local *local = calloc(1, sizeof(*local));

    if (!local)
        return rg_error_set(err, ENOMEM, "out of memory");
    local->o = *options;
    int r = rg_agent_file_find(local->path, err);
    if (r == 0)
        r = prepare(local, err);
    *ret_state = local;
    for (int i = 0; r == 0 && i < options->plan->nhosts; i++)
        r = add(local, i, err);
    if (r < 0) {
        destroy(local);
        *ret_state = NULL;
    }
    return r;
}

const struct rg_driver_ops rg_driver_local = {
    .platform = {
        .name = "local", .title = "this computer", .about = ", this computer only",
        .launchers = "fork", .here = true, .elastic = true,
    },
    .discover = discover,
    .start = start,
    .add = add,
    .stop = stop,
    .destroy = destroy,
    .remark = RG_LAUNCHER_ONLY(remark),
};
