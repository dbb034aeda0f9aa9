/* SPDX-License-Identifier: Apache-2.0 */
/* A script is somebody's first draft, and runs for weeks: nothing that it does may hold the job up
 * or fill its memory. */
#include "launch/discovery/discovery.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "job/discovered.h"
#include "job/hostlist.h"

#define READ_NBYTES 4096
#define COMPLAINT_NBYTES 4096 /* of what it writes to standard error that are kept, */
#define WORDS_MAX 120         /* and of its last line that are told */
#define STAYS_MS 200 /* for what a script has left behind to let go of its output */

struct rg_discovery {
    struct rg_discovery_options o;
    struct rg_timer next, limit;
    struct rg_child child;
    struct rg_io io;
    pid_t pid, group;   /* 0: it does not run; the process group of the last one that did */
    int fd, status;     /* its output, -1: none; how it ended */
    int complaint;      /* a file of COMPLAINT_NBYTES for standard error; -1: none */
    bool late, flooded; /* it took too long, wrote too much */
    struct rg_buf said;
    struct rg_job hosts; /* the last list */
    bool listed;
    char *failure;       /* what was told last, or NULL */
};

static void begin(void *arg);

static void fail(struct rg_discovery *discovery, const char *text)
{
    if (discovery->failure && text && strcmp(discovery->failure, text) == 0)
        return;
    free(discovery->failure);
    discovery->failure = text ? strdup(text) : NULL;
    if (text)
        discovery->o.on_failed(discovery->o.arg, text);
}

static bool same(const struct rg_job *a, const struct rg_job *b)
{
    if (a->nhosts != b->nhosts)
        return false;
    for (size_t i = 0; i < a->nhosts; i++) {
        const struct rg_host *x = &a->hosts[i], *y = &b->hosts[i];
        if (x->nslots != y->nslots || strcmp(x->name, y->name) != 0 ||
            strcmp(x->user ? x->user : "", y->user ? y->user : "") != 0)
            return false;
    }
    return true;
}

static void take_list(struct rg_discovery *discovery)
{
    RG_AUTO_JOB struct rg_job hosts = { .nhosts = 0 };
    rg_autostrv struct rg_strv notes = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    rg_autofree char *text = strdup(rg_buf_text(&discovery->said));

    if (rg_buf_nbytes(&discovery->said) && text && strlen(text) < rg_buf_nbytes(&discovery->said)) {
        fail(discovery, "--host-discovery-script has printed a NUL byte");
        return;
    }
    int r = !text ? -ENOMEM : rg_discovered_parse("--host-discovery-script", text,
                                              discovery->o.nslots, &hosts, &notes, &err);

    fail(discovery, r < 0 ? err.text : NULL);
    if (r < 0 || (discovery->listed && same(&hosts, &discovery->hosts)))
        return;
    rg_job_fini(&discovery->hosts);
    discovery->hosts = hosts;
    hosts = (struct rg_job){ .nhosts = 0 };
    discovery->listed = true;
    discovery->o.on_hosts(discovery->o.arg, &discovery->hosts);
}

/* Standard error of a run: told only if the run fails. It cannot grow. */
static int open_complaint(void)
{
    int fd = memfd_create("discovery", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, COMPLAINT_NBYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0))
        close(rg_steal_fd(&fd));
    return fd;
}

/* ": no route to host", the last line that the run has written there; "" where there is none. */
static void last_words(int fd, char ret_words[WORDS_MAX + 3])
{
    char text[COMPLAINT_NBYTES + 1] = "";

    if (fd < 0 || pread(fd, text, COMPLAINT_NBYTES, 0) < 0)
        text[0] = '\0';
    for (size_t n = strlen(text); n > 0 && strchr(" \t\r\n", text[n - 1]); n--)
        text[n - 1] = '\0';
    const char *line = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
    snprintf(ret_words, WORDS_MAX + 3, "%s%.*s", *line ? ": " : "", WORDS_MAX, line);
}

/* It has ended, and nobody holds its output any more, or nobody waits for that. */
static void finish(struct rg_discovery *discovery)
{
    char how[64], text[256], words[WORDS_MAX + 3];

    rg_timer_stop(&discovery->limit);
    rg_io_stop(&discovery->io);
    if (discovery->fd >= 0)
        close(rg_steal_fd(&discovery->fd));
    last_words(discovery->complaint, words);
    if (discovery->complaint >= 0)
        close(rg_steal_fd(&discovery->complaint));
    rg_timer_start(&discovery->next, discovery->o.loop, discovery->o.period_ms, 0, begin,
                   discovery);
    if (discovery->late)
        snprintf(text, sizeof(text), "--host-discovery-script did not end within %.3g s",
                 (double) discovery->o.limit_ms / 1000.0);
    else if (discovery->flooded)
        snprintf(text, sizeof(text), "--host-discovery-script has printed more than %d bytes",
                 (int) RG_HOSTFILE_NBYTES_MAX);
    else if (discovery->status)
        snprintf(text, sizeof(text), "--host-discovery-script ended with %s%s",
                 rg_status_text(discovery->status, how, sizeof(how)), words);
    if (discovery->late || discovery->flooded || discovery->status)
        fail(discovery, text);
    else if (rg_buf_status(&discovery->said) == 0)
        take_list(discovery);
}

static void limit_due(void *arg)
{
    struct rg_discovery *discovery = arg;

    if (!discovery->pid) { /* it has ended; what it left behind has its output, and its group */
        kill(-discovery->group, SIGKILL);
        finish(discovery);
        return;
    }
    discovery->late = true;
    kill(-discovery->pid, SIGKILL);
}

static void ended(void *arg, pid_t pid, int status)
{
    struct rg_discovery *discovery = arg;

    (void) pid;
    discovery->pid = 0;
    discovery->status = status;
    if (discovery->fd < 0)
        finish(discovery);
    else
        rg_timer_start(&discovery->limit, discovery->o.loop, STAYS_MS, 0, limit_due, discovery);
}

static void readable(void *arg, int events)
{
    struct rg_discovery *discovery = arg;
    char bytes[READ_NBYTES];

    (void) events;
    ssize_t n = read(discovery->fd, bytes, sizeof(bytes));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        discovery->flooded |= rg_buf_nbytes(&discovery->said) + (size_t) n > RG_HOSTFILE_NBYTES_MAX;
        if (!discovery->flooded)
            rg_buf_put(&discovery->said, bytes, (size_t) n);
        else if (discovery->pid)
            kill(-discovery->pid, SIGKILL);
        return;
    }
    rg_io_stop(&discovery->io);
    close(rg_steal_fd(&discovery->fd));
    if (!discovery->pid)
        finish(discovery);
}

static void begin(void *arg)
{
    struct rg_discovery *discovery = arg;
    char *argv[] = { (char *) "/bin/sh", (char *) "-c", (char *) discovery->o.command, NULL };
    struct rg_error err = RG_ERROR_INIT;
    int fds[2];

    rg_buf_fini(&discovery->said);
    discovery->late = discovery->flooded = false;
    int r = rg_pipe(fds);
    if (r == 0) {
        discovery->complaint = open_complaint();
        struct rg_spawn spawn = { .argv = argv, .fds = { -1, fds[1], discovery->complaint },
                                  .new_session = true, .death_signal = SIGKILL };
        r = rg_spawn(&spawn, &discovery->pid, &err);
        discovery->group = discovery->pid;
        close(fds[1]);
        if (r < 0)
            close(fds[0]);
    }
    if (r < 0) {
        discovery->pid = 0;
        if (discovery->complaint >= 0)
            close(rg_steal_fd(&discovery->complaint));
        fail(discovery, *err.text ? err.text : strerror(-r));
        rg_timer_start(&discovery->next, discovery->o.loop, discovery->o.period_ms, 0, begin,
                       discovery);
        return;
    }
    discovery->fd = fds[0];
    rg_fd_set_nonblock(discovery->fd, true);
    rg_child_start(&discovery->child, discovery->o.loop, discovery->pid, ended, discovery);
    rg_io_start(&discovery->io, discovery->o.loop, discovery->fd, RG_IO_READ, readable, discovery);
    rg_timer_start(&discovery->limit, discovery->o.loop, discovery->o.limit_ms, 0, limit_due,
                   discovery);
}

int rg_discovery_start(const struct rg_discovery_options *options,
                       struct rg_discovery **ret_discovery)
{
    struct rg_discovery *discovery = calloc(1, sizeof(*discovery));

    if (!discovery)
        return -ENOMEM;
    discovery->o = *options;
    discovery->fd = discovery->complaint = -1;
    *ret_discovery = discovery;
    begin(discovery);
    return 0;
}

void rg_discovery_stop(struct rg_discovery *discovery)
{
    if (!discovery)
        return;
    rg_timer_stop(&discovery->next);
    rg_timer_stop(&discovery->limit);
    rg_io_stop(&discovery->io);
    rg_child_stop(&discovery->child);
    if (discovery->pid) {
        kill(-discovery->pid, SIGKILL);
        waitpid(discovery->pid, NULL, 0);
    }
    if (discovery->fd >= 0)
        close(discovery->fd);
    if (discovery->complaint >= 0)
        close(discovery->complaint);
    rg_job_fini(&discovery->hosts);
    rg_buf_fini(&discovery->said);
    free(discovery->failure);
    free(discovery);
}
