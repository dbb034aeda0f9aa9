/* SPDX-License-Identifier: Apache-2.0 */
/* run-dock-asuser makes the container, gives it the user, opens the session, and removes it at
 * the end. */
#include "cmd/compat/rundock.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/cpus.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "base/time.h"
#include "head/console/words.h"
#include "head/console/exit.h"
#include "cmd/compat/keys.h"
#include "cmd/compat/compat.h"
#include "base/exitcode.h"
#include "platform/slurm/door.h"
#include "job/slurm.h"

#define WHAT "run-dock-asuser"
#define FILE_MAX (4 << 20)
#define ID_MAX 128
#define GROUPS_MAX 1024
#define GRACE_S 10 /* as docker stop */

extern char **environ;

/* What is found out about the caller; owned. */
struct caller {
    struct rg_rundock_host host;
    gid_t groups[GROUPS_MAX];
    char *user, *home, *cwd, *gpus, *cpus;
};

static void caller_fini(struct caller *caller)
{
    free(caller->user);
    free(caller->home);
    free(caller->cwd);
    free(caller->gpus);
    free(caller->cpus);
}

static int no_memory(struct rg_error *err)
{
    return rg_error_set(err, ENOMEM, WHAT ": no memory");
}

/* The system's own directories are the image's in a container. */
static bool can_mount(const char *dir)
{
    static const char *const system[] = { "/bin",  "/boot", "/dev",  "/etc", "/lib", "/lib64",
                                          "/proc", "/run",  "/sbin", "/sys", "/usr" };

    for (size_t i = 0; i < rg_array_len(system); i++) {
        size_t n = strlen(system[i]);
        if (strncmp(dir, system[i], n) == 0 && (!dir[n] || dir[n] == '/'))
            return false;
    }
    return dir[0] == '/' && dir[1];
}

static bool have_nvidia(void)
{
    static const char *const names[] = { "nvidia-container-runtime-hook", "nvidia-container-cli",
                                         "nvidia-smi" };

    for (size_t i = 0; i < rg_array_len(names); i++) {
        rg_autofree char *path = rg_keys_look_up(names[i]);
        if (path)
            return true;
    }
    return false;
}

/* In a job of Slurm's that was told of no GPU, on a node whose GPUs Slurm counts. */
static bool slurm_gave_none(const struct rg_strv *env)
{
    const char *node = rg_env_get(env, "SLURMD_NODENAME");

    return node && rg_env_get(env, "SLURM_JOB_ID") && !rg_env_get(env, "SLURM_STEP_GPUS") &&
           !rg_env_get(env, "SLURM_JOB_GPUS") && rg_slurm_counts_gpus(node);
}

/* The GPUs that Slurm or NV_GPU name, or "void"; all where nothing is said. */
static int find_gpus(char **ret_gpus, struct rg_error *err)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    rg_autostrv struct rg_strv gpus = RG_STRV_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    bool told = false;

    if (!have_nvidia())
        return 0;
    if (rg_strv_add_all(&env, environ) < 0)
        return no_memory(err);
    int rc = rg_slurm_gpus(&env, &gpus, &told, err);
    if (rc < 0)
        return rc;
    bool none = slurm_gave_none(&env);
    if (!gpus.count || none) {
        *ret_gpus = strdup(told || none ? "void" : "all");
        return *ret_gpus ? 0 : no_memory(err);
    }
    for (size_t i = 0; i < gpus.count; i++)
        rg_buf_printf(&text, "%s%s", i ? "," : "", gpus.v[i]);
    *ret_gpus = rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
    return *ret_gpus ? 0 : no_memory(err);
}

static int find_caller(struct caller *c, struct rg_error *err)
{
    const struct passwd *user = getpwuid(getuid());
    const char *home = getenv("HOME");
    struct stat st;

    c->user = user ? strdup(user->pw_name) : rg_strf("user%d", (int) getuid());
    if (!home || *home != '/')
        home = user ? user->pw_dir : NULL;
    if (home && stat(home, &st) == 0 && S_ISDIR(st.st_mode) && can_mount(home))
        c->home = strdup(home);
    rg_autofree char *cwd = getcwd(NULL, 0);
    if (cwd && can_mount(cwd))
        c->cwd = rg_steal_ptr(&cwd);
    int ngroups = getgroups(GROUPS_MAX, c->groups);
    if (!c->user)
        return no_memory(err);
    int64_t socket_gid = stat(RG_RUNDOCK_SOCKET, &st) == 0 ? (int64_t) st.st_gid : -1;
    int rc = find_gpus(&c->gpus, err);
    c->cpus = rg_cpus_limit(RG_CPUS_ROOT);
    c->host = (struct rg_rundock_host){
        .uid = getuid(), .gid = getgid(), .groups = c->groups,
        .ngroups = ngroups > 0 ? (size_t) ngroups : 0, .user = c->user, .home = c->home,
        .cwd = c->cwd, .gpus = c->gpus, .cpus = c->cpus,
        .socket_gid = socket_gid, .terminal = isatty(0) && isatty(1),
        .infiniband = access("/dev/infiniband", F_OK) == 0 };
    return rc;
}

/* Signals that end us wait until docker has been told, and the container is gone. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGQUIT);
    sigprocmask(SIG_BLOCK, set, NULL);
}

struct docker {
    sigset_t set;
    int signal; /* that was to end us */
};

/* How a command of docker's takes our signals. */
enum how {
    SESSION, /* in the foreground: what a terminal sends it has itself, and decides what comes of
                it; what we are told it is told */
    FETCH,   /* may take long, and be ended at any time */
    PATIENT, /* is over soon, and would leave a half thing behind: it is not told */
};

/* The next signal that is for us into docker->signal, waited for so long at most; NULL: for ever.
 * Returns it, or 0: it was SIGCHLD, or none, or one that the terminal sends the child as well. */
static int take_signal(struct docker *docker, enum how how, const struct timespec *most)
{
    siginfo_t info;
    int signo = most ? sigtimedwait(&docker->set, &info, most) : sigwaitinfo(&docker->set, &info);

    if (signo <= 0 || signo == SIGCHLD || (how == SESSION && info.si_code > 0))
        return 0;
    return docker->signal = signo;
}

/* Those that are pending: they came before the child's end, and count before what is next. */
static void take_pending(struct docker *docker, enum how how)
{
    sigset_t pending;

    while (sigpending(&pending) == 0 && (sigandset(&pending, &pending, &docker->set),
                                         !sigisemptyset(&pending)))
        take_signal(docker, how, &(struct timespec){ 0, 0 });
}

/* Wait for a child. docker->signal gets the last signal that was for us. Where the child, or a
 * container, does not heed one, it is not waited for much longer. Returns the exit code. */
static int wait_child(struct docker *docker, pid_t pid, enum how how)
{
    bool killed = false;
    uint64_t end = UINT64_MAX;
    int status;

    for (;;) {
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid) {
            take_pending(docker, how);
            return killed ? 128 + docker->signal : rg_status_code(status);
        }
        if (done < 0 && errno != EINTR)
            return RG_EXIT_CONTAINER;
        uint64_t now = rg_now_ns();
        if (now >= end) {
            killed = kill(pid, SIGKILL) == 0;
            end = UINT64_MAX;
        }
        struct timespec left = { .tv_sec = (time_t) ((end - now) / 1000000000 + 1) };
        int signo = take_signal(docker, how, end == UINT64_MAX ? NULL : &left);
        if (!signo)
            continue;
        if (how != PATIENT)
            kill(pid, signo);
        if (!killed && end == UINT64_MAX)
            end = rg_now_ns() + GRACE_S * 1000000000ull;
    }
}

/* Run one command of docker's with these for its 0, 1 and 2; -1: nowhere. The exit code, or -errno
 * with err when there is no docker. */
static int run_docker(struct docker *docker, char *const *argv, enum how how, const int fds[3],
                      struct rg_error *err)
{
    struct rg_spawn spec = { .argv = argv, .fds = { fds[0], fds[1], fds[2] },
                             .new_session = how != SESSION };
    pid_t pid;

    int rc = rg_spawn(&spec, &pid, err);
    if (rc == -ENOENT)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 WHAT ": docker is not in PATH here; install it, or run on a host "
                                 "that has it");
    return rc < 0 ? rc : wait_child(docker, pid, how);
}

/* One that is over soon, and of which only the exit code counts. */
static int try_docker(struct docker *docker, const char *const *argv)
{
    return run_docker(docker, (char *const *) argv, PATIENT, (const int[]){ -1, -1, -1 }, NULL);
}

#define TRY(docker, ...) try_docker(docker, (const char *[]){ "docker", __VA_ARGS__, NULL })

/* Run one command of docker's for the line that it prints, cut at ID_MAX. As run_docker. */
static int ask_docker(struct docker *docker, char *const *argv, int errors, char *ret_line,
                      struct rg_error *err)
{
    int ends[2];

    if (rg_pipe(ends) < 0)
        return rg_error_set(err, errno, WHAT ": no pipe: %s", strerror(errno));
    rg_autoclose int in = ends[0];
    rg_autoclose int out = ends[1];
    /* It is short, and waits in the pipe until docker is done. */
    int rc = run_docker(docker, argv, PATIENT, (const int[]){ -1, out, errors }, err);
    if (rc < 0)
        return rc;
    close(rg_steal_fd(&out));
    ssize_t n = read(in, ret_line, ID_MAX - 1);
    ret_line[n > 0 ? n : 0] = '\0';
    ret_line[strcspn(ret_line, "\n")] = '\0';
    return rc;
}

static bool has_image(struct docker *docker, const char *image)
{
    return TRY(docker, "image", "inspect", "--format", "{{.Id}}", image) == 0;
}

/* Why docker created nothing, as far as it can be asked. */
static int explain(struct docker *docker, const struct rg_rundock *dock,
                   const struct rg_rundock_host *host, int code, struct rg_error *err)
{
    rg_autofree char *name = dock->dockname ? strdup(dock->dockname)
                                            : rg_strf("%s_dock", host->user);

    if (!name)
        return no_memory(err);
    if (TRY(docker, "version", "--format", "{{.Server.Version}}") != 0)
        return rg_error_set_exit(err, EIO, RG_EXIT_UNAVAILABLE,
                                 WHAT ": Docker cannot be used here; its message is above: start "
                                 "its daemon (systemctl start docker), or have yourself added to "
                                 "the group docker");
    if (TRY(docker, "container", "inspect", "--format", "{{.Id}}", name) == 0)
        return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER,
                                 WHAT ": there is a container %s already: if it is yours, enter "
                                 "it (docker exec -it %s bash) or remove it (docker rm -f %s); or "
                                 "give another --dockname", name, name, name);
    if (!has_image(docker, dock->container))
        return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER,
                                 WHAT ": --container=%s: the image is not on this computer, and "
                                 "could not be fetched: check its name, or load it",
                                 dock->container);
    return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER,
                             WHAT ": docker create ended with %d; its message is above", code);
}

/* docker pull, where that is needed, with docker's own messages; then docker create: the id. */
static int create(struct docker *docker, const struct rg_rundock *dock,
                  const struct rg_rundock_host *host, char *const *argv, char *ret_id,
                  struct rg_error *err)
{
    char *pull[] = { "docker", "pull", (char *) dock->container, NULL };
    int rc = has_image(docker, dock->container) || docker->signal
                 ? 0 : run_docker(docker, pull, FETCH, (const int[]){ -1, 2, 2 }, err);

    if (rc == 0 && !docker->signal)
        rc = ask_docker(docker, argv, 2, ret_id, err);
    ret_id[strspn(ret_id, "0123456789abcdef")] = '\0';
    if (rc < 0 || (rc == 0 && *ret_id) || docker->signal)
        return rc < 0 ? rc : 0;
    return explain(docker, dock, host, rc, err);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void) st;
    (void) kind;
    (void) ftw;
    remove(path);
    return 0;
}

/* Whatever it is; docker cp has put there what the image has. Links are not followed. */
static void remove_all(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int write_text(const char *path, const char *text, struct rg_error *err)
{
    remove_all(path);
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int rc = fd < 0 ? -errno : rg_write_all(fd, text, strlen(text));

    if (rc == 0 && fchmod(fd, 0644))
        rc = -errno;
    return rc == 0 ? 0 : rg_error_set(err, -rc, WHAT ": cannot write %s: %s", path, strerror(-rc));
}

/* Where the two files pass through; removed with its contents. */
struct passage {
    char *dir, *etc, *passwd, *group;
};

static void passage_fini(struct passage *p)
{
    if (p->dir)
        remove_all(p->dir);
    free(p->dir);
    free(p->etc);
    free(p->passwd);
    free(p->group);
}

static int make_passage(struct passage *p, struct rg_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = rg_strf("%s/reigen-dock-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");

    if (!dir || !mkdtemp(dir)) {
        rg_autofree char *failed = dir;
        return rg_error_set(err, failed ? errno : ENOMEM, WHAT ": cannot make %s: %s; TMPDIR says "
                            "where", failed ? failed : "a directory", strerror(errno));
    }
    p->dir = dir;
    p->etc = rg_strf("%s/etc", dir);
    p->passwd = rg_strf("%s/etc/passwd", dir);
    p->group = rg_strf("%s/etc/group", dir);
    if (!p->etc || !p->passwd || !p->group)
        return no_memory(err);
    /* docker cp gives the container's /etc this mode. */
    if (mkdir(p->etc, 0755) || chmod(p->etc, 0755))
        return rg_error_set(err, errno, WHAT ": cannot make %s: %s", p->etc, strerror(errno));
    return 0;
}

/* Make the caller, and the host's users, known in a container that has not been started. */
static int add_users(struct docker *docker, const struct rg_rundock_host *host, const char *id,
                     struct rg_error *err)
{
    rg_cleanup(passage_fini) struct passage p = { NULL, NULL, NULL, NULL };
    rg_autofree char *old_passwd = NULL, *old_group = NULL, *passwd = NULL, *group = NULL;
    rg_autofree char *from = NULL, *to = rg_strf("%s:/etc", id);

    int rc = make_passage(&p, err);
    if (rc < 0)
        return rc;
    from = rg_strf("%s/.", p.etc);
    rg_autofree char *image_passwd = rg_strf("%s:/etc/passwd", id);
    rg_autofree char *image_group = rg_strf("%s:/etc/group", id);
    if (!from || !to || !image_passwd || !image_group)
        return no_memory(err);
    /* An image may have neither, or in its place a link that leads to a file of this host. */
    if (TRY(docker, "cp", image_passwd, p.passwd) == 0)
        rg_read_regular(p.passwd, false, FILE_MAX, &old_passwd, NULL);
    if (TRY(docker, "cp", image_group, p.group) == 0)
        rg_read_regular(p.group, false, FILE_MAX, &old_group, NULL);
    if (rg_rundock_users(host, old_passwd, old_group, &passwd, &group) < 0)
        return no_memory(err);
    rc = write_text(p.passwd, passwd, err);
    rc = rc < 0 ? rc : write_text(p.group, group, err);
    if (rc < 0 || TRY(docker, "cp", from, to) == 0)
        return rc;
    rg_say(WHAT ": the container's /etc cannot be written to; you have no name in it");
    return 0;
}

/* docker start says the same of a command that ends with 1 as of one that it could not start. The
 * exit code, or -errno with err. */
static int judge_start(struct docker *docker, const char *id, int code, struct rg_error *err)
{
    char *argv[] = { "docker", "container", "inspect", "--format",
                     "{{.State.StartedAt}} {{.State.ExitCode}}", (char *) id, NULL };
    char line[ID_MAX] = "";

    if (code != 1 || docker->signal || ask_docker(docker, argv, -1, line, NULL) != 0 ||
        !rg_str_starts(line, "0001-"))
        return code;
    const char *said = strrchr(line, ' ');
    int state = said ? atoi(said) : 0;
    bool told = state == RG_EXIT_NOT_EXECUTABLE || state == RG_EXIT_NOT_FOUND;
    return rg_error_set_exit(err, EIO, told ? state : RG_EXIT_CONTAINER,
                             WHAT ": the container could not be started; docker's message is "
                             "above");
}

/* Run what was created. The exit code, or -errno with err. */
static int run_container(struct docker *docker, const struct rg_rundock *dock,
                         const struct rg_rundock_host *host, const char *id, struct rg_error *err)
{
    char *attached[] = { "docker", "start", "--attach", "--interactive", (char *) id, NULL };
    char *detached[] = { "docker", "start", (char *) id, NULL };
    rg_autostrv struct rg_strv session = RG_STRV_INIT;

    if (dock->noninteractive) {
        int code = run_docker(docker, attached, SESSION, (const int[]){ 0, 1, 2 }, err);
        return code <= 0 ? code : judge_start(docker, id, code, err);
    }
    int rc = run_docker(docker, detached, PATIENT, (const int[]){ -1, -1, 2 }, err);
    if (rc > 0)
        return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER,
                                 WHAT ": docker start ended with %d; its message is above", rc);
    if (rc < 0 || dock->daemon || docker->signal)
        return rc;
    if (rg_rundock_session(dock, host, id, &session) < 0)
        return no_memory(err);
    return run_docker(docker, session.v, SESSION, (const int[]){ 0, 1, 2 }, err);
}

/* Whether the container is to know who the caller is; every image knows root. */
static bool is_added(const struct rg_rundock *dock, const struct rg_rundock_host *host)
{
    return host->uid != 0 && !dock->userdefault;
}

static int run(const struct rg_rundock *dock, const struct rg_rundock_host *host,
               char *const *argv, struct rg_error *err)
{
    struct docker docker = { .signal = 0 };
    char id[ID_MAX] = "";

    block_signals(&docker.set);
    int rc = create(&docker, dock, host, argv, id, err);
    if (rc == 0 && is_added(dock, host) && !docker.signal)
        rc = add_users(&docker, host, id, err);
    if (rc == 0 && !docker.signal)
        rc = run_container(&docker, dock, host, id, err);
    bool stays = rc >= 0 && !docker.signal && (dock->daemon || dock->keepalive);
    if (*id && !stays)
        TRY(&docker, "rm", "-f", "-v", id);
    if (stays && dock->daemon) {
        rg_autobuf struct rg_buf line = RG_BUF_INIT;
        rg_buf_printf(&line, "%s\n", id);
        int lost = rg_print(rg_buf_text(&line));
        rc = rc ? rc : lost;
    }
    return rc == 0 && docker.signal ? 128 + docker.signal : rc;
}

static void print_command(struct rg_buf *text, const struct rg_strv *argv)
{
    const struct rg_strv rest = { .v = argv->v + 1, .count = argv->count - 1 };

    rg_shell_quote(text, argv->v[0]);
    rg_shell_words(text, &rest);
    rg_buf_printf(text, "\n");
}

static int dry_run(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                   const struct rg_strv *argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autostrv struct rg_strv session = RG_STRV_INIT;

    rg_buf_printf(&text, "# A plan, not a script: ID is what docker create prints.\n");
    print_command(&text, argv);
    if (is_added(dock, host))
        rg_buf_printf(&text, "docker cp etc/. ID:/etc\n");
    rg_buf_printf(&text, dock->noninteractive ? "docker start --attach --interactive ID\n"
                                              : "docker start ID\n");
    if (!dock->noninteractive && !dock->daemon &&
        rg_rundock_session(dock, host, "ID", &session) == 0)
        print_command(&text, &session);
    if (!dock->daemon && !dock->keepalive)
        rg_buf_printf(&text, "docker rm -f -v ID\n");
    return rg_print_exact(rg_buf_text(&text));
}

int rg_cmd_run_dock_asuser(int argc, char **argv)
{
    rg_cleanup(rg_rundock_fini) struct rg_rundock dock = { .container = NULL };
    rg_cleanup(caller_fini) struct caller caller = { .user = NULL };
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    int rc = rg_rundock_parse(&dock, argc, argv, &err);
    if (rc == 0 && dock.help)
        return RG_COMMAND_HELP;
    if (rc == 0)
        rc = find_caller(&caller, &err);
    if (rc == 0 && dock.ibdevices && !dock.devices.count && !caller.host.infiniband)
        rg_say(WHAT ": --ibdevices: this computer has no /dev/infiniband");
    if (rc == 0 && rg_rundock_create(&dock, &caller.host, &words) < 0)
        rc = no_memory(&err);
    if (rc == 0 && dock.dry_run)
        return dry_run(&dock, &caller.host, &words);
    if (rc == 0)
        rc = run(&dock, &caller.host, words.v, &err);
    return rc < 0 ? rg_fail(&err, WHAT) : rc;
}
