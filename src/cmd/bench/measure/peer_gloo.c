/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer gloo: each rank has a child, a Python with PyTorch, and they are a job of their own. A
 * child does what a line on its standard input says, answers with a line, and otherwise sleeps; so
 * it costs nothing while others have their turn.
 */
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/process/self.h"
#include "base/process/spawn.h"
#include "cmd/bench/measure/peer.h"
#include "cmd/bench/measure/peer_gloo.h"

#define LINE_NBYTES 1024
#define END_TIMEOUT_MS 5000
#define ADDRESS_NBYTES 256

struct gloo {
    FILE *to, *from;
    pid_t pid;
    char answer[LINE_NBYTES];
};

/* Where the children meet, as rank 0 says. */
struct meeting {
    char address[ADDRESS_NBYTES];
    int port;
};

/* --- the child -------------------------------------------------------------------------------- */

/* The Python that Reigen was installed for lies beside its programs. */
static const char *find_python(const char *named, char path[PATH_MAX])
{
    return named ? named : rg_self_beside("python3", path) ? path : "python3";
}

static int start(struct gloo *self, const char *named, char *const *env, struct rg_error *err)
{
    char path[PATH_MAX];
    const char *python = find_python(named, path);
    int in[2], out[2];

    if (pipe2(in, O_CLOEXEC) < 0)
        return rg_error_set(err, errno, "a pipe to %.80s: %s", python, strerror(errno));
    rg_autoclose int in_child = in[0], in_ours = in[1];
    if (pipe2(out, O_CLOEXEC) < 0)
        return rg_error_set(err, errno, "a pipe to %.80s: %s", python, strerror(errno));
    rg_autoclose int out_ours = out[0], out_child = out[1];
    struct rg_spawn spec = { .argv = (char *[]){ (char *) python, "-c",
                                                 (char *) rg_bench_gloo_script, NULL },
                             .envp = env, .fds = { in_child, out_child, -1 },
                             .death_signal = SIGKILL };
    int r = rg_spawn(&spec, &self->pid, err);
    if (r < 0)
        return r;
    if ((self->to = fdopen(in_ours, "w")))
        in_ours = -1;
    if ((self->from = fdopen(out_ours, "r")))
        out_ours = -1;
    return self->to && self->from ? 0 : rg_error_memory(err);
}

/* Its answer, without "ok "; -EOPNOTSUPP and -EPROTO with what else it says. */
static int answer(struct gloo *self, const char **ret_value, struct rg_error *err)
{
    char word[16];

    if (!fgets(self->answer, sizeof(self->answer), self->from))
        return rg_error_set(err, EPROTO, "--peer gloo: its Python has ended; try by hand: "
                            "PYTHON -c 'import torch.distributed'");
    self->answer[strcspn(self->answer, "\n")] = '\0';
    const char *rest = rg_str_word(self->answer, word, sizeof(word));
    rest += strspn(rest, " ");
    if (strcmp(word, "unsupported") == 0)
        return rg_error_set(err, EOPNOTSUPP, "gloo: %.300s", rest);
    if (strcmp(word, "ok") != 0)
        return rg_error_set(err, EPROTO, "--peer gloo: %.500s", rest);
    *ret_value = rest;
    return 0;
}

static int ask(struct gloo *self, const char *line, const char **ret_value, struct rg_error *err)
{
    if (fprintf(self->to, "%s\n", line) < 0 || fflush(self->to) != 0)
        return rg_error_set(err, EPROTO, "--peer gloo: its Python has ended");
    return answer(self, ret_value, err);
}

/* --- where they meet -------------------------------------------------------------------------- */

static int free_port(struct rg_error *err)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof(address);
    rg_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ||
        getsockname(fd, (struct sockaddr *) &address, &length) < 0)
        return rg_error_set(err, errno, "--peer gloo: a free port: %s", strerror(errno));
    return ntohs(address.sin_port);
}

static int find_meeting(const struct rg_bench_world *world, struct meeting *ret_meeting,
                        struct rg_error *err)
{
    const char *named = getenv("MASTER_ADDR");
    int port = world->rank == 0 ? free_port(err) : 0;

    if (world->nhosts == 1)
        snprintf(ret_meeting->address, sizeof(ret_meeting->address), "127.0.0.1");
    else if (named && *named)
        snprintf(ret_meeting->address, sizeof(ret_meeting->address), "%s", named);
    else
        gethostname(ret_meeting->address, sizeof(ret_meeting->address) - 1);
    ret_meeting->port = port;
    return port < 0 ? port : 0;
}

static int set_environment(const struct rg_bench_world *world, const struct meeting *meeting,
                           struct rg_strv *env)
{
    rg_strv_add_all(env, environ);
    rg_env_forget_launchers(env);
    rg_env_set(env, "MASTER_ADDR", meeting->address);
    rg_env_setf(env, "MASTER_PORT", "%d", meeting->port);
    rg_env_setf(env, "RANK", "%d", world->rank);
    rg_env_setf(env, "WORLD_SIZE", "%d", world->size);
    rg_env_unset(env, "TORCHELASTIC_USE_AGENT_STORE"); /* that store is another job's */
    if (world->nhosts == 1 && !rg_env_get(env, "GLOO_SOCKET_IFNAME"))
        rg_env_set(env, "GLOO_SOCKET_IFNAME", "lo");
    return rg_strv_status(env);
}

/* --- the peer --------------------------------------------------------------------------------- */

static void gloo_close(void *arg)
{
    struct gloo *self = arg;

    if (!self)
        return;
    if (self->to)
        fclose(self->to);
    if (self->pid > 0)
        rg_spawn_wait(self->pid, END_TIMEOUT_MS);
    if (self->from)
        fclose(self->from);
    free(self);
}

static int gloo_open(const struct rg_bench_world *world, const struct rg_peer_settings *settings,
                     void **ret_self, struct rg_error *err)
{
    struct gloo *self = calloc(1, sizeof(*self));
    struct meeting meeting = { .port = 0 };
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    const char *value;

    *ret_self = self;
    int r = self ? find_meeting(world, &meeting, err) : rg_error_memory(err);
    r = rg_bench_world_agree(world, r, err);
    if (r == 0)
        r = rg_bench_world_share(world, &meeting, sizeof(meeting), err);
    if (r < 0)
        return r;
    r = set_environment(world, &meeting, &env) < 0 ? rg_error_memory(err)
                                                   : start(self, settings->python, env.v, err);
    if (r == 0 && (r = answer(self, &value, err)) < 0)
        rg_error_prepend(err, "give a Python that has PyTorch, as --python PROGRAM");
    r = rg_bench_world_agree(world, r, err);
    if (r == 0) /* when all have PyTorch, and not before: joining waits for all */
        r = rg_bench_world_agree(world, ask(self, "join", &value, err), err);
    return r;
}

static int gloo_begin(void *arg, const struct rg_bench_case *row, struct rg_error *err)
{
    char line[LINE_NBYTES], op[32];
    const char *value;

    /* gloo has one form of these, into the caller's memory. */
    snprintf(op, sizeof(op), "%s", rg_bench_ops[row->op].name);
    op[strcspn(op, "-")] = '\0';
    snprintf(line, sizeof(line), "begin %s %s %s %d %d %zu %zu", op,
             rg_bench_types[row->type].name, rg_bench_reductions[row->reduction], row->group,
             row->in_place, row->count, row->part);
    return ask(arg, line, &value, err);
}

static int gloo_run(void *arg, int niterations, double *ret_seconds, struct rg_error *err)
{
    char line[32];
    const char *value;

    snprintf(line, sizeof(line), "run %d", niterations);
    int r = ask(arg, line, &value, err);
    if (r == 0)
        *ret_seconds = strtod(value, NULL);
    return r;
}

static void gloo_end(void *arg)
{
    (void) arg;
}

const struct rg_bench_peer rg_bench_peer_gloo = {
    .name = "gloo", .open = gloo_open, .begin = gloo_begin, .run = gloo_run, .end = gloo_end,
    .close = gloo_close,
};
