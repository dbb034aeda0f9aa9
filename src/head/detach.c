/* SPDX-License-Identifier: Apache-2.0 */
/* All that may fail at once is to be seen where the command was typed; what comes later has the log
 * alone. Agents and ssh get the log from their start: a pipe that they held open would never end
 * for who reads it. */
#include "head/detach.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "launch/jobs/registry.h"

void rg_detach_init(struct rg_detach *detach, int pipe_fd)
{
    struct pollfd reader = { .fd = pipe_fd };

    *detach = (struct rg_detach){ .pipe_fd = pipe_fd, .terminal_fd = -1, .on = pipe_fd >= 0 };
    if (!detach->on)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (poll(&reader, 1, 0) > 0) /* who waits has died before */
        raise(SIGTERM);
}

static int switch_to_log(struct rg_detach *detach, struct rg_error *err)
{
    int fd;
    int r = rg_registry_make_log(detach->id, &fd, err);

    if (r < 0)
        return r;
    detach->colour = rg_terminal_colour(2);
    detach->terminal_fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        r = rg_error_set(err, errno, "the job's log cannot be written: %s", strerror(errno));
    close(fd);
    return r;
}

/* An mpirun stands for all of its ranks. */
static int count_awaited(const struct rg_planned *planned)
{
    const struct rg_job *job = &planned->job;
    int nranks = planned->plan.nranks;

    return job->elastic.on && job->np && job->np < nranks ? job->np : nranks;
}

int rg_detach_begin(struct rg_detach *detach, const struct rg_planned *planned,
                    struct rg_error *err)
{
    detach->nmissing = count_awaited(planned);
    if (!detach->on || *detach->id)
        return 0;
    snprintf(detach->id, sizeof(detach->id), "%s", planned->plan.job_id);
    return switch_to_log(detach, err);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void rg_detach_count(struct rg_detach *detach, struct rg_output *output)
{
    if (detach->pipe_fd < 0 || --detach->nmissing > 0)
        return;
    rg_output_echo_end(output);
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    if (rg_write_all(detach->pipe_fd, detach->id, strlen(detach->id)) < 0)
        raise(SIGTERM);
    rg_detach_fini(detach);
}

void rg_detach_fail(const struct rg_detach *detach, const struct rg_error *err,
                    const char *command)
{
    if (detach->terminal_fd >= 0 && dup2(detach->terminal_fd, 2) >= 0)
        rg_fail(err, command);
}

void rg_detach_forget(const struct rg_detach *detach)
{
    if (detach->on && *detach->id)
        rg_registry_remove_log(detach->id);
}

void rg_detach_fini(struct rg_detach *detach)
{
    close_fd(&detach->pipe_fd);
    close_fd(&detach->terminal_fd);
}
