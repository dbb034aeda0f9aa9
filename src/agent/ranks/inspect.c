/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a host may block, so the agent has it done by a child. */
#include <signal.h>
#include <string.h>

#include "agent/look/doctor.h"
#include "agent/ranks/agent.h"
#include "base/fd.h"
#include "base/process/self.h"
#include "base/process/spawn.h"
#include "base/time.h"

struct rg_inspect {
    struct rg_agent *agent;
    pid_t pid;
    int fd;
    struct rg_io io;
    struct rg_timer limit;
    struct rg_buf text;
};

void rg_inspect_stop(struct rg_agent *agent)
{
    struct rg_inspect *inspect = rg_steal_ptr(&agent->inspect);

    if (!inspect)
        return;
    if (inspect->pid)
        kill(-inspect->pid, SIGKILL);
    rg_io_stop(&inspect->io);
    rg_timer_stop(&inspect->limit);
    if (inspect->fd >= 0)
        close(inspect->fd);
    rg_buf_fini(&inspect->text);
    free(inspect);
}

static void finish(struct rg_inspect *inspect)
{
    struct rg_agent *agent = inspect->agent;
    rg_autofree char *text = strdup(rg_buf_text(&inspect->text));

    rg_inspect_stop(agent);
    rg_agent_send(agent, RG_MSG_INSPECTED, &(struct rg_msg_inspected){ text });
}

static void limit_due(void *arg)
{
    struct rg_inspect *inspect = arg;

    rg_buf_printf(&inspect->text, "late\n");
    finish(inspect);
}

static void on_text(void *arg, int events)
{
    struct rg_inspect *inspect = arg;
    uint8_t *room = rg_buf_reserve(&inspect->text, 4096);

    (void) events;
    ssize_t n = room ? read(inspect->fd, room, 4096) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        rg_buf_commit(&inspect->text, (size_t) n);
    if (n <= 0 || rg_buf_nbytes(&inspect->text) > RG_INSPECT_TEXT_MAX)
        finish(inspect);
}

/* It resolves this host's own name and those of the job. */
static int make_command(const struct rg_agent *agent, struct rg_strv *argv)
{
    char own[256] = "";
    int r = rg_strv_add(argv, RG_SELF);

    if (r == 0)
        r = rg_strv_add(argv, "doctor");
    /* In a container it cannot know what of the host's still runs. */
    if (r == 0 && !*agent->boot.job_dir)
        r = rg_strv_add(argv, RG_DOCTOR_CLEAN);
    if (r == 0 && gethostname(own, sizeof(own) - 1) == 0)
        r = rg_strv_add(argv, own);
    for (size_t i = 0; r == 0 && i < agent->setup.hosts.count && i < RG_DOCTOR_NAMES_MAX; i++) {
        const char *entry = agent->setup.hosts.v[i], *colon = strrchr(entry, ':');
        int n = colon ? (int) (colon - entry) : (int) strlen(entry);
        if (n != (int) strlen(own) || strncmp(entry, own, (size_t) n) != 0)
            r = rg_strv_addf(argv, "%.*s", n, entry);
    }
    return r;
}

static int start_doctor(struct rg_inspect *inspect, int out, struct rg_error *err)
{
    struct rg_agent *agent = inspect->agent;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;

    if (rg_agent_common_env(agent, NULL, &env) < 0 || make_command(agent, &argv) < 0)
        return rg_error_set(err, ENOMEM, "no memory");
    struct rg_spawn spawn = {
        .argv = argv.v,
        .envp = env.v,
        .cwd = *agent->setup.cwd && access(agent->setup.cwd, X_OK) == 0 ? agent->setup.cwd : NULL,
        .fds = { -1, out, -1 },
        .new_session = true,
        .death_signal = SIGKILL,
        .nofile = &agent->nofile,
    };
    int r = rg_spawn(&spawn, &inspect->pid, err);
    for (size_t i = 0; i < env.count; i++)
        explicit_bzero(env.v[i], strlen(env.v[i]));
    return r;
}

int rg_inspect_start(struct rg_agent *agent, uint32_t limit_ms)
{
    struct rg_inspect *inspect = agent->inspect ? NULL : calloc(1, sizeof(*inspect));
    struct rg_error err = RG_ERROR_INIT;
    int fds[2];

    if (!inspect)
        return -EBADMSG;
    rg_agent_send(agent, RG_MSG_CLOCK, &(struct rg_msg_clock){ rg_wall_ns() });
    agent->inspect = inspect;
    inspect->agent = agent;
    inspect->fd = -1;
    int r = rg_pipe(fds);
    if (r == 0) {
        inspect->fd = fds[0];
        r = start_doctor(inspect, fds[1], &err);
        close(fds[1]);
    }
    if (r < 0) {
        rg_buf_printf(&inspect->text, "error %s\n", *err.text ? err.text : strerror(-r));
        finish(inspect);
        return 0;
    }
    rg_fd_set_nonblock(inspect->fd, true);
    rg_io_start(&inspect->io, agent->loop, inspect->fd, RG_IO_READ, on_text, inspect);
    rg_timer_start(&inspect->limit, agent->loop, limit_ms, 0, limit_due, inspect);
    return 0;
}
