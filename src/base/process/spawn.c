/* SPDX-License-Identifier: Apache-2.0 */
/* fork and exec alone tell neither which step failed nor keep descriptors from leaking; these
 * do. */
#include "base/process/spawn.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define FIRST_HIGH_FD 10 /* above every descriptor that the child is given */
#define SIGNAL_COUNT 64

/* What the child was doing when it failed. */
enum stage {
    STAGE_SESSION,
    STAGE_TERMINAL,
    STAGE_DEATH_SIGNAL,
    STAGE_AFFINITY,
    STAGE_DESCRIPTORS,
    STAGE_CWD,
    STAGE_EXEC,
    STAGE_INTERPRETER, /* the file is there, what its first line names is not */
};

struct failure {
    int32_t stage;
    int32_t errnum;
};

/* All the child needs. It runs in its parent's memory until exec, so it allocates nothing, takes no
 * lock, and changes nothing here. */
struct plan {
    const struct rg_spawn *spec;
    char *const *envp;
    const char *path;
    int sources[4]; /* for 0, 1, 2, 3; the last is -1 without extra_fd */
    int report_fd;
    pid_t parent;
};

static _Noreturn void fail(int report_fd, enum stage stage, int errnum)
{
    struct failure failure = { stage, errnum };

    /* Fewer than PIPE_BUF bytes into an empty pipe: never short. */
    ssize_t ignored = write(report_fd, &failure, sizeof(failure));

    (void) ignored;
    _exit(RG_EXIT_NOT_FOUND);
}

static void reset_signals(void)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigset_t none;

    /* Some numbers belong to the C library, which refuses them; they are at their defaults. */
    for (int signo = 1; signo <= SIGNAL_COUNT; signo++)
        sigaction(signo, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Sources may lie in the way of targets, so all go up first. */
static int place_descriptors(const struct plan *plan, int *report_fd)
{
    int high[4];
    int high_report = fcntl(plan->report_fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);

    if (high_report < 0)
        return -errno;
    *report_fd = high_report;
    for (int i = 0; i < 4; i++) {
        high[i] = -1;
        if (plan->sources[i] < 0)
            continue;
        high[i] = fcntl(plan->sources[i], F_DUPFD_CLOEXEC, FIRST_HIGH_FD);
        if (high[i] < 0)
            return -errno;
    }
    for (int i = 0; i < 4; i++) {
        if (high[i] >= 0 && dup2(high[i], i) < 0)
            return -errno;
    }
    return 0;
}

static void set_up_process(const struct plan *plan, int report_fd)
{
    const struct rg_spawn *spec = plan->spec;

    if (spec->new_session && setsid() < 0)
        fail(report_fd, STAGE_SESSION, errno);
    if (spec->new_group && !spec->new_session && setpgid(0, 0) < 0)
        fail(report_fd, STAGE_SESSION, errno);
    if (spec->controlling_tty && ioctl(0, TIOCSCTTY, 0) < 0)
        fail(report_fd, STAGE_TERMINAL, errno);
    if (spec->death_signal && prctl(PR_SET_PDEATHSIG, spec->death_signal, 0, 0, 0) < 0)
        fail(report_fd, STAGE_DEATH_SIGNAL, errno);
    /* The parent may have died before the request; then nobody would send the signal. */
    if (spec->death_signal && getppid() != plan->parent)
        _exit(128 + spec->death_signal);
    if (spec->affinity && sched_setaffinity(0, sizeof(*spec->affinity), spec->affinity) < 0)
        fail(report_fd, STAGE_AFFINITY, errno);
    if (spec->nofile && setrlimit(RLIMIT_NOFILE, spec->nofile) < 0)
        fail(report_fd, STAGE_DESCRIPTORS, errno);
    if (spec->cwd && chdir(spec->cwd) < 0)
        fail(report_fd, STAGE_CWD, errno);
}

/* A folder of that name may be in PATH's way, and is not what was asked for. */
static bool is_folder(const char *file)
{
    struct stat st;

    return stat(file, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Try every directory of PATH, as a shell does: what is there but may not be run counts only when
 * no other directory has it. Returns the errno of the failure. */
static int exec_by_path(const struct plan *plan)
{
    const char *name = plan->spec->argv[0];
    size_t name_length = strlen(name);
    int found = ENOENT;
    char file[PATH_MAX];

    for (const char *dir = plan->path;; dir++) {
        size_t length = strcspn(dir, ":");

        if (length + name_length + 2 <= sizeof(file)) {
            char *p = mempcpy(file, dir, length);

            if (length > 0)
                *p++ = '/';
            memcpy(p, name, name_length + 1);
            execve(file, plan->spec->argv, plan->envp);
            if (errno == ENOENT && access(file, F_OK) == 0)
                fail(plan->report_fd, STAGE_INTERPRETER, errno);
            int errnum = errno;
            if (errnum == EACCES && is_folder(file))
                errnum = ENOENT;
            if (errnum == EACCES)
                found = EACCES;
            else if (errnum != ENOENT && errnum != ENOTDIR)
                return errnum;
        }
        dir += length;
        if (*dir == '\0')
            return found;
    }
}

static _Noreturn void run_child(struct plan plan)
{
    int report_fd = plan.report_fd;

    reset_signals();
    int rc = place_descriptors(&plan, &report_fd);

    if (rc < 0)
        fail(report_fd, STAGE_DESCRIPTORS, -rc);
    plan.report_fd = report_fd;
    set_up_process(&plan, report_fd);
    if (plan.path)
        fail(report_fd, STAGE_EXEC, exec_by_path(&plan));
    execve(plan.spec->argv[0], plan.spec->argv, plan.envp);
    int errnum = errno;
    bool there = errnum == ENOENT && access(plan.spec->argv[0], F_OK) == 0;

    fail(report_fd, there ? STAGE_INTERPRETER : STAGE_EXEC, errnum);
}

/* No handler of ours may run in the child while it shares our memory, hence the blocked signals. */
static pid_t start_child(const struct plan *plan)
{
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();

    if (pid == 0)
        run_child(*plan);
    int saved_errno = errno;

    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return pid;
}

static const char *find_path(char *const *envp)
{
    for (; *envp; envp++) {
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    }
    return DEFAULT_PATH;
}

bool rg_path_find(const char *path, const char *name, size_t length, char ret_path[PATH_MAX])
{
    for (const char *dir = path ? path : DEFAULT_PATH; *dir;) {
        size_t n = strcspn(dir, ":");
        if (n > 0 && snprintf(ret_path, PATH_MAX, "%.*s/%.*s", (int) n, dir, (int) length, name) <
                         PATH_MAX && access(ret_path, X_OK) == 0 && !is_folder(ret_path))
            return true;
        dir += n + (dir[n] == ':');
    }
    return false;
}

static bool in_path(const char *path, const char *name)
{
    char file[PATH_MAX];

    return rg_path_find(path, name, strlen(name), file);
}

/* What runs files of such a name, or NULL. */
static const char *interpreter_of(const struct rg_spawn *spec)
{
    static const char *const known[][2] = {
        { ".py", "python" }, { ".sh", "sh" }, { ".bash", "bash" }, { ".pl", "perl" },
        { ".rb", "ruby" }, { ".R", "Rscript" }, { ".jl", "julia" }, { ".lua", "lua" },
    };
    const char *path = find_path(spec->envp ? spec->envp : environ);
    const char *dot = strrchr(spec->argv[0], '.');

    for (size_t i = 0; dot && i < rg_array_len(known); i++) {
        if (strcmp(dot, known[i][0]) != 0)
            continue;
        bool debian = i == 0 && !in_path(path, "python") && in_path(path, "python3");
        return debian ? "python3" : known[i][1];
    }
    return NULL;
}

/* The type of the file that the name means without PATH; 0: there is none. */
static mode_t type_of(const struct rg_spawn *spec)
{
    rg_autoclose int dir = open(spec->cwd ? spec->cwd : ".", O_PATH | O_CLOEXEC);
    struct stat st;

    return dir >= 0 && fstatat(dir, spec->argv[0], &st, 0) == 0 ? st.st_mode & S_IFMT : 0;
}

/* The other name of the same language, where PATH has it; or NULL. */
static const char *other_python(const struct rg_spawn *spec)
{
    static const char *const names[] = { "python", "python3" };
    const char *path = find_path(spec->envp ? spec->envp : environ);

    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (strcmp(spec->argv[0], names[i]) == 0 && in_path(path, names[!i]))
            return names[!i];
    }
    return NULL;
}

/* A whole command line in one word, as a shell takes it. */
static bool is_line(const char *name)
{
    return name[strcspn(name, " \t\n;|&<>$`*")] != '\0';
}

static int explain_not_found(const struct rg_spawn *spec, struct rg_error *err)
{
    const char *name = spec->argv[0], *interpreter = interpreter_of(spec);
    const char *python = other_python(spec);
    mode_t type = type_of(spec);

    if (is_line(name) && !type)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                                 "cannot start %s: no program has such a name; did you mean "
                                 "sh -c '%s'?", name, strchr(name, '\'') ? "..." : name);
    if (python)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                                 "cannot start %s: not found in PATH, but %s is there: say %s, or "
                                 "give the path", name, python, python);
    if (strchr(name, '/') || (interpreter && !type))
        return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                                 "cannot start %s: no such file%s%s",
                                 name, spec->cwd ? "; the working directory is " : "",
                                 spec->cwd ? spec->cwd : "");
    if (interpreter && S_ISREG(type))
        return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                                 "cannot start %s: not found in PATH; did you mean %s %s?", name,
                                 interpreter, name);
    return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                             "cannot start %s: not found in PATH; give its path, or ./%s%s", name,
                             name, S_ISDIR(type) ? " (which is a directory here)" : "");
}

static int explain_not_executable(const struct rg_spawn *spec, int errnum, struct rg_error *err)
{
    const char *name = spec->argv[0], *interpreter = interpreter_of(spec);
    const char *why = errnum == ENOEXEC ? "neither a program for this machine nor a script with a "
                                          "#! line"
                                        : "not executable (permission denied)";

    if (S_ISDIR(type_of(spec)))
        return rg_error_set_exit(err, errnum, RG_EXIT_NOT_EXECUTABLE,
                                 "cannot start %s: it is a directory; give a program's name", name);
    if (interpreter)
        return rg_error_set_exit(err, errnum, RG_EXIT_NOT_EXECUTABLE,
                                 "cannot start %s: %s; did you mean %s %s?", name, why, interpreter,
                                 name);
    return rg_error_set_exit(err, errnum, RG_EXIT_NOT_EXECUTABLE,
                             "cannot start %s: %s; %sname its interpreter in front of it", name,
                             why, errnum == ENOEXEC ? "" : "chmod +x it, or ");
}

static int explain_exec(const struct rg_spawn *spec, int errnum, struct rg_error *err)
{
    const char *name = spec->argv[0];

    switch (errnum) {
    case ENOENT:
    case ENOTDIR: return explain_not_found(spec, err);
    case EACCES:
    case EPERM: return explain_not_executable(spec, EACCES, err);
    case ENOEXEC: return explain_not_executable(spec, ENOEXEC, err);
    case E2BIG:
        return rg_error_set_exit(err, E2BIG, RG_EXIT_NOT_EXECUTABLE,
                                 "cannot start %s: its arguments and environment are too large",
                                 name);
    default:
        return rg_error_set_exit(err, errnum, RG_EXIT_NOT_EXECUTABLE, "cannot start %s: %s", name,
                                 strerror(errnum));
    }
}

static int explain(const struct rg_spawn *spec, const struct failure *failure,
                   struct rg_error *err)
{
    static const char *const doing[] = {
        [STAGE_SESSION] = "making its session",
        [STAGE_TERMINAL] = "giving it a terminal",
        [STAGE_DEATH_SIGNAL] = "tying its life to ours",
        [STAGE_AFFINITY] = "binding it to its processors",
        [STAGE_DESCRIPTORS] = "passing its descriptors",
    };

    switch (failure->stage) {
    case STAGE_EXEC: return explain_exec(spec, failure->errnum, err);
    case STAGE_INTERPRETER:
        return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                                 "cannot start %s: the interpreter that it names (its #! line or "
                                 "its dynamic loader) is not there",
                                 spec->argv[0]);
    case STAGE_CWD:
        return rg_error_set_exit(err, failure->errnum, RG_EXIT_USAGE,
                                 "cannot start %s: working directory %s: %s", spec->argv[0],
                                 spec->cwd, strerror(failure->errnum));
    default:
        return rg_error_set(err, failure->errnum, "cannot start %s: %s: %s", spec->argv[0],
                            doing[failure->stage], strerror(failure->errnum));
    }
}

/* The write end closes at exec, so the pipe's end without a report means success. */
static int await_exec(const struct rg_spawn *spec, int report_fd, pid_t pid, struct rg_error *err)
{
    struct failure failure;
    int rc = rg_read_all(report_fd, &failure, sizeof(failure));

    if (rc == -EPIPE)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (rc < 0)
        return rg_error_set(err, -rc, "cannot start %s: %s", spec->argv[0], strerror(-rc));
    return explain(spec, &failure, err);
}

static int cannot_begin(const struct rg_spawn *spec, int errnum, const char *doing,
                        struct rg_error *err)
{
    return rg_error_set(err, errnum, "cannot start %s: %s: %s", spec->argv[0], doing,
                        strerror(errnum));
}

int rg_spawn(const struct rg_spawn *spec, pid_t *ret_pid, struct rg_error *err)
{
    rg_autoclose int null_fd = -1, read_fd = -1, write_fd = -1;
    char *const *envp = spec->envp ? spec->envp : environ;
    int fds[2];

    if (!spec->argv[0] || !*spec->argv[0])
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "cannot start a program without a name");
    if (spec->fds[0] < 0 || spec->fds[1] < 0 || spec->fds[2] < 0) {
        null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd < 0)
            return cannot_begin(spec, errno, "/dev/null", err);
    }
    int rc = rg_pipe(fds);

    if (rc < 0)
        return cannot_begin(spec, -rc, "making a pipe", err);
    read_fd = fds[0];
    write_fd = fds[1];

    struct plan plan = {
        .spec = spec,
        .envp = envp,
        .path = strchr(spec->argv[0], '/') ? NULL : find_path(envp),
        .sources = { 0, 0, 0, spec->extra_fd_set ? spec->extra_fd : -1 },
        .report_fd = write_fd,
        .parent = getpid(),
    };
    for (int i = 0; i < 3; i++)
        plan.sources[i] = spec->fds[i] < 0 ? null_fd : spec->fds[i];
    pid_t pid = start_child(&plan);

    if (pid < 0)
        return cannot_begin(spec, errno, "making a process", err);
    close(rg_steal_fd(&write_fd));
    rc = await_exec(spec, read_fd, pid, err);
    if (rc < 0)
        return rc;
    *ret_pid = pid;
    return 0;
}

int rg_status_code(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

int rg_spawn_wait(pid_t pid, uint64_t timeout_ms)
{
    uint64_t deadline_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    int status = -1;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (rg_now_ns() > deadline_ns) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            deadline_ns = RG_NEVER_NS;
        }
        rg_sleep_ms(2);
    }
    return status;
}

const char *rg_status_text(int wait_status, char *buf, size_t nbytes)
{
    if (WIFSIGNALED(wait_status))
        snprintf(buf, nbytes, "signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    else
        snprintf(buf, nbytes, "exit code %d", WEXITSTATUS(wait_status));
    return buf;
}

void rg_env_forget_launchers(struct rg_strv *env)
{
    static const char *const names[] = {
        "PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMIX_NAMESPACE", "PMIX_RANK",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
        "TORCHELASTIC_RUN_ID", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT" };

    for (size_t i = 0; i < rg_array_len(names); i++)
        rg_env_unset(env, names[i]);
}
