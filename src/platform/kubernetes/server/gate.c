/* SPDX-License-Identifier: Apache-2.0 */
/* `kubectl proxy` for as long as a job is made. */
#include "platform/kubernetes/server/gate.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/kubernetes/server/api.h"
#include "platform/common/http/http.h"

#define SERVES "Starting to serve on "
#define FOLDER "/tmp/reigen-XXXXXX" /* short: a socket's name has 107 characters */
#define SAID_MAX 65536
/* A kubectl may be a script that runs another one, and no signal tells that of our death. So a
 * shell ends them all, which are in its process group, as soon as nobody holds its input open. */
#define KEEP "folder=$1; shift; \"$@\" </dev/null & exec >/dev/null; read -r _; " \
             "rm -rf \"$folder\"; kill -KILL 0"

static int spawn(const struct rg_strv *argv, int in, int out, pid_t *ret_pid)
{
    const struct rg_spawn spawn = { .argv = argv->v, .fds = { in, out, -1 }, .new_group = true };

    return rg_strv_status(argv) < 0 ? -ENOMEM : rg_spawn(&spawn, ret_pid, NULL);
}

static int begin_proxy(struct kube_gate *gate)
{
    const char *const keep[] = { "sh", "-c", KEEP, "sh", gate->folder, "kubectl" };
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    int in[2], out[2];

    int r = rg_pipe(in);
    if (r < 0)
        return r;
    rg_autoclose int their_in = in[0];
    gate->alive = in[1];
    r = rg_pipe(out);
    if (r < 0)
        return r;
    rg_autoclose int their_out = out[1];
    gate->said = out[0];
    for (size_t i = 0; i < rg_array_len(keep); i++)
        rg_strv_add(&argv, keep[i]);
    if (gate->outside->context)
        rg_strv_addf(&argv, "--context=%s", gate->outside->context);
    rg_strv_add(&argv, "proxy");
    rg_strv_addf(&argv, "--unix-socket=%s", gate->socket);
    return spawn(&argv, their_in, their_out, &gate->pid);
}

static int begin_where(struct kube_gate *gate)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;

    if (gate->outside->ns && gate->outside->context)
        return 0;
    gate->where = memfd_create("where", MFD_CLOEXEC);
    kubectl_where_words(gate->outside, &argv);
    return gate->where < 0 ? -errno : spawn(&argv, -1, gate->where, &gate->where_pid);
}

bool kube_gate_open(struct kube_gate *gate, const struct kube_place *place)
{
    char folder[] = FOLDER;

    *gate = (struct kube_gate){ .outside = place, .alive = -1, .said = -1, .where = -1 };
    if (kube_transport_choose(place, NULL) != &kube_kubectl ||
        !rg_http_has_sockets() || !mkdtemp(folder))
        return false;
    gate->folder = strdup(folder);
    gate->socket = rg_strf("%s/s", folder);
    if (gate->folder && gate->socket && begin_proxy(gate) == 0 && begin_where(gate) == 0)
        return true;
    if (!gate->folder)
        rmdir(folder);
    kube_gate_close(gate);
    return false;
}

/* Whether it says that it serves, before deadline_ns. */
static bool serves(const struct kube_gate *gate, uint64_t deadline_ns)
{
    char text[256] = "";
    size_t nbytes = 0;

    while (!strchr(text, '\n') && nbytes < sizeof(text) - 1 &&
           rg_fd_wait(gate->said, POLLIN, deadline_ns) == 0) {
        ssize_t n = read(gate->said, text + nbytes, sizeof(text) - 1 - nbytes);
        if (n <= 0)
            break;
        nbytes += (size_t) n;
        text[nbytes] = '\0';
    }
    return strchr(text, '\n') && rg_str_starts(text, SERVES);
}

/* What the configuration says, where the caller did not. */
static bool take_where(struct kube_gate *gate, uint64_t deadline_ns)
{
    char text[SAID_MAX] = "";
    pid_t pid = gate->where_pid;
    uint64_t now_ns = rg_now_ns();
    uint64_t ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / RG_NS_PER_MS : 0;

    gate->where_pid = 0;
    if (pid > 0 && (rg_spawn_wait(pid, ms) != 0 ||
                    pread(gate->where, text, sizeof(text) - 1, 0) <= 0))
        return false;
    kubectl_where_read(gate->outside, text, &gate->ns, &gate->context);
    gate->place.ns = gate->outside->ns      ? gate->outside->ns
                     : gate->ns && *gate->ns ? gate->ns : "default";
    gate->place.context = gate->outside->context ? gate->outside->context
                          : gate->context        ? gate->context : "";
    return true;
}

bool kube_gate_wait(struct kube_gate *gate, uint64_t ms)
{
    uint64_t deadline_ns = rg_now_ns() + ms * RG_NS_PER_MS;

    if (!gate->pid)
        return false;
    if (serves(gate, deadline_ns) && take_where(gate, deadline_ns)) {
        gate->place.gate = gate->socket;
        return true;
    }
    kube_gate_close(gate);
    return false;
}

void kube_gate_close(struct kube_gate *gate)
{
    pid_t *const pids[] = { &gate->pid, &gate->where_pid };
    const int fds[] = { gate->alive, gate->said, gate->where };

    if (!gate->outside)
        return;
    for (size_t i = 0; i < rg_array_len(pids); i++) {
        if (*pids[i] <= 0)
            continue;
        kill(-*pids[i], SIGKILL);
        waitpid(*pids[i], NULL, 0);
    }
    for (size_t i = 0; i < rg_array_len(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (gate->socket)
        unlink(gate->socket);
    if (gate->folder)
        rmdir(gate->folder);
    free(gate->folder);
    free(gate->socket);
    free(gate->ns);
    free(gate->context);
    *gate = (struct kube_gate){ .alive = -1, .said = -1, .where = -1 };
}
