/* SPDX-License-Identifier: Apache-2.0 */
/* A job outlives the terminal it was started from; its file is how other commands find it. */
#include "launch/jobs/registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"
#include "launch/jobs/state.h"
#include "launch/plan/place.h"

/* --- the folder ------------------------------------------------------------------------------ */

#define JOBS "jobs"
#define ENDED "ended"
#define LOGS "logs"
#define ORPHAN_S (24 * 3600) /* a log without a job, until it goes */

/* --- this computer --------------------------------------------------------------------------- */

/* The first pid name space; all others are containers'. */
#define PIDNS_INIT "pid:[4026531836]"

struct kernel {
    char boot[64], pidns[64], machine[64];
};

static void read_word(const char *path, char *buf, size_t nbytes)
{
    rg_autofree char *text = NULL;

    snprintf(buf, nbytes, "-");
    if (rg_read_file(path, 4096, &text, NULL) == 0 && strcspn(text, " \n"))
        snprintf(buf, nbytes, "%.*s", (int) strcspn(text, " \n"), text);
}

static struct kernel this_kernel(void)
{
    struct kernel kernel = { "-", "-", "-" };

    read_word("/proc/sys/kernel/random/boot_id", kernel.boot, sizeof(kernel.boot));
    read_word("/etc/machine-id", kernel.machine, sizeof(kernel.machine));
    ssize_t n = readlink("/proc/self/ns/pid", kernel.pidns, sizeof(kernel.pidns) - 1);
    if (n > 0)
        kernel.pidns[n] = '\0';
    return kernel;
}

/* --- writing --------------------------------------------------------------------------------- */

static void put(struct rg_buf *text, const char *word, const char *value)
{
    rg_buf_printf(text, "%s ", word);
    jobs_put(text, value);
    rg_buf_printf(text, "\n");
}

static void put_ssh(struct rg_buf *text, const struct rg_job *job)
{
    const char *program = getenv("REIGEN_SSH");
    char port[16];

    put(text, "ssh", program && *program ? program : "ssh");
    for (size_t i = 0; i < job->ssh_options.count; i++) {
        if (job->ssh_options.v[i][0] != '-')
            put(text, "ssh", "-o");
        put(text, "ssh", job->ssh_options.v[i]);
    }
    if (job->ssh_port) {
        snprintf(port, sizeof(port), "-p%d", job->ssh_port);
        put(text, "ssh", port);
    }
    if (job->ssh_identity) {
        put(text, "ssh", "-i");
        put(text, "ssh", job->ssh_identity);
    }
}

static void put_log(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autofree char *path = jobs_path(LOGS, plan->job_id);
    rg_autofree char *value = path ? rg_strf("log %s", path) : NULL;
    bool many = plan->nranks > 1 || job->elastic.on;

    put(text, "output", value ? value : "none");
    if (!job->json && !job->nroles &&
        (job->tag == RG_TAG_ON || job->tag == RG_TAG_HOROVOD || (job->tag == RG_TAG_AUTO && many)))
        put(text, "tags", "yes");
}

static void put_path(struct rg_buf *text, const char *word, const char *kind, const char *path)
{
    char cwd[PATH_MAX];
    bool whole = *path == '/' || !getcwd(cwd, sizeof(cwd));
    rg_autofree char *value = rg_strf("%s%s%s%s", kind, whole ? "" : cwd, whole ? "" : "/", path);

    put(text, word, value ? value : "none");
}

/* Where the ranks' output can be found: our own log, the files that were asked for, else our own
 * output. */
static void put_output(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    char path[PATH_MAX];
    struct stat st;

    if (job->detach) {
        put_log(plan, job, text);
        return;
    }
    if (job->output_dir) {
        put_path(text, "output", "dir ", job->output_dir);
        return;
    }
    ssize_t n = readlink("/proc/self/fd/1", path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    if (fstat(1, &st) < 0 || strcmp(path, "/dev/null") == 0) {
        put(text, "output", "none");
    } else if (S_ISREG(st.st_mode) && n > 0) {
        rg_autofree char *value = rg_strf("file %s", path);
        off_t at = fcntl(1, F_GETFL) & O_APPEND ? st.st_size : lseek(1, 0, SEEK_CUR);
        put(text, "output", value ? value : "none");
        rg_buf_printf(text, "skip %lld\n", (long long) (at > 0 ? at : 0));
    } else {
        rg_autofree char *value = rg_strf("terminal %s", path);
        put(text, "output", isatty(1) && value ? value : "pipe");
    }
}

static void put_place(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    struct kernel kernel = this_kernel();

    rg_buf_printf(text, "began %lld\n", (long long) time(NULL));
    rg_buf_printf(text, "kernel %s %s %s\n", kernel.boot, kernel.pidns, kernel.machine);
    for (const struct rg_platform *const *p = rg_platforms(); *p; p++) {
        const char *number = (*p)->variable ? getenv((*p)->variable) : NULL;
        if (number && jobs_is_id(number))
            put(text, (*p)->name, number);
    }
    put_output(plan, job, text);
    if (job->record)
        put_path(text, "record", "", job->record);
}

static int format(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autofree char *launcher = rg_place_launcher(0);
    bool clears_up = rg_platform_of(job)->clears_up;

    put(text, "launcher", launcher ? launcher : "");
    put(text, "starts", "yes");
    put_place(plan, job, text);
    rg_buf_printf(text, "ranks %d\n", plan->np);
    rg_buf_printf(text, "grace %llu\n", (unsigned long long) job->grace_ms);
    if (job->container.image && !clears_up)
        put(text, "image", job->container.image);
    if (!clears_up)
        put_ssh(text, job);
    for (int i = 0; i < plan->nhosts; i++) {
        const char *name = plan->hosts[i].name, *user = NULL;
        for (size_t k = 0; k < job->nhosts; k++) {
            if (strcmp(job->hosts[k].name, name) == 0)
                user = job->hosts[k].user;
        }
        rg_autofree char *login = rg_strf("%s%s%s", user ? user : "", user ? "@" : "", name);
        if (!login)
            return -ENOMEM;
        put(text, "host", login);
    }
    rg_buf_printf(text, "command ");
    jobs_put_command(text, job);
    rg_buf_printf(text, "\n");
    return rg_buf_status(text);
}

/* The lock is there before the name by which others find the file. */
static int write_file(const char *fresh, const char *path, struct rg_buf *text, int *ret_fd)
{
    rg_autoclose int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        rg_buf_printf(text, "locked yes\n");
    int r = rg_buf_status(text);
    if (r == 0)
        r = rg_write_all(fd, rg_buf_bytes(text), rg_buf_nbytes(text));
    if (r == 0 && rename(fresh, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(fresh);
    else
        *ret_fd = rg_steal_fd(&fd);
    return r;
}

int rg_registry_add(const struct rg_plan *plan, const struct rg_job *job,
                    struct rg_registration *ret_own)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree char *dir = jobs_folder(JOBS), *path = jobs_path(JOBS, plan->job_id);

    *ret_own = (struct rg_registration) RG_REGISTRATION_INIT;
    if (!dir || !path)
        return -ENOENT;
    int r = format(plan, job, &text);
    if (r == 0)
        r = rg_mkdir_all(dir, 0700, NULL);
    rg_autofree char *fresh = rg_strf("%s/.%s", dir, plan->job_id);
    if (r == 0)
        r = fresh ? write_file(fresh, path, &text, &ret_own->fd) : -ENOMEM;
    if (r == 0)
        ret_own->path = rg_steal_ptr(&path);
    return r;
}

int rg_registry_make_log(const char *id, int *ret_fd, struct rg_error *err)
{
    rg_autofree char *dir = jobs_folder(LOGS), *path = jobs_path(LOGS, id);

    if (!dir || !path)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "--detach: there is no folder for the job's log, as HOME is not "
                                 "there; set XDG_STATE_HOME to one that is yours");
    int r = rg_mkdir_all(dir, 0700, NULL);
    int fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW |
                                         O_CLOEXEC, 0600);
    int errnum = r < 0 ? -r : errno;
    if (fd < 0)
        return rg_error_set_exit(err, errnum, errnum == ENOENT ? RG_EXIT_UNAVAILABLE : 0,
                                 "--detach: the job's log, %s, cannot be made: %s; set "
                                 "XDG_STATE_HOME to a folder that is yours", path,
                                 strerror(errnum));
    *ret_fd = fd;
    return 0;
}

static void append(const struct rg_registration *own, const char *word, const char *value)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    put(&line, word, value);
    if (own->fd >= 0 && rg_buf_status(&line) == 0)
        rg_write_all(own->fd, rg_buf_bytes(&line), rg_buf_nbytes(&line));
}

void rg_registry_restart(const struct rg_registration *own, const char *id)
{
    append(own, "restart", id);
    append(own, "starts", "yes");
}

void rg_registry_running(const struct rg_registration *own)
{
    append(own, "running", "yes");
}

/* --- the end --------------------------------------------------------------------------------- */

static void remove_in(const char *folder, const char *id)
{
    rg_autofree char *path = jobs_path(folder, id);

    if (path)
        unlink(path);
}

static uint64_t log_nbytes(const char *id)
{
    rg_autofree char *path = jobs_path(LOGS, id);
    struct stat st;

    return path && lstat(path, &st) == 0 ? (uint64_t) st.st_size : 0;
}

void rg_registry_remove_log(const char *id)
{
    remove_in(LOGS, id);
}

/* The oldest of those that have ended go; their logs also where all of them are too large. */
static void prune(void)
{
    struct rg_registry list = { 0 };
    uint64_t nbytes = 0;

    if (rg_registry_list_ended(&list) < 0)
        return;
    for (size_t n = 0; n < list.count; n++) {
        const char *id = list.jobs[list.count - 1 - n].id;
        bool old = n >= RG_REGISTRY_ENDED_MAX;
        nbytes += log_nbytes(id);
        if (old)
            remove_in(ENDED, id);
        if (old || (n > 0 && nbytes > RG_REGISTRY_LOGS_NBYTES))
            remove_in(LOGS, id);
    }
    rg_registry_fini(&list);
}

static void move_to_ended(const char *path)
{
    const char *id = strrchr(path, '/') + 1;
    rg_autofree char *dir = jobs_folder(ENDED), *to = jobs_path(ENDED, id);

    if (!dir || !to || rg_mkdir_all(dir, 0700, NULL) < 0 || rename(path, to) < 0)
        unlink(path);
    else
        prune();
}

void rg_registry_end(struct rg_registration *own, int exit_code)
{
    char line[32];

    if (own->path && exit_code >= 0) {
        snprintf(line, sizeof(line), "exit %d\n", exit_code);
        rg_write_all(own->fd, line, strlen(line));
        move_to_ended(own->path);
    } else if (own->path) {
        remove_in(LOGS, strrchr(own->path, '/') + 1);
        unlink(own->path);
    }
    if (own->fd >= 0)
        close(own->fd);
    free(own->path);
    *own = (struct rg_registration) RG_REGISTRATION_INIT;
}

void rg_registry_forget(const struct rg_registry_job *job)
{
    rg_autofree char *path = jobs_path(JOBS, job->id);

    if (!path || access(path, F_OK) < 0)
        return;
    /* When it ended nobody knows, but not before those that have ended while it ran. */
    utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
    move_to_ended(path);
}

/* --- reading --------------------------------------------------------------------------------- */

void rg_registry_job_fini(struct rg_registry_job *job)
{
    free(job->id);
    free(job->launcher);
    free(job->image);
    free(job->command);
    free(job->kernel);
    free(job->within_id);
    free(job->output);
    free(job->record);
    rg_strv_fini(&job->ssh);
    rg_strv_fini(&job->hosts);
    rg_strv_fini(&job->restarts);
    *job = (struct rg_registry_job){ 0 };
}

/* The text of this word, or NULL. */
static char **text_of(struct rg_registry_job *job, const char *word)
{
    const struct rg_platform *platform = rg_platform_find(word);

    if (platform && platform->variable) {
        job->within = platform;
        return &job->within_id;
    }
    return strcmp(word, "launcher") == 0 ? &job->launcher
           : strcmp(word, "image") == 0 ? &job->image
           : strcmp(word, "command") == 0 ? &job->command
           : strcmp(word, "kernel") == 0 ? &job->kernel
           : strcmp(word, "record") == 0 ? &job->record
           : strcmp(word, "output") == 0 ? &job->output : NULL;
}

static void take_number(struct rg_registry_job *job, const char *value, const char *word)
{
    int64_t number = 0;

    if (rg_parse_int(word, value, 0, (int64_t) RG_DURATION_MAX_MS, &number, NULL) < 0)
        return;
    if (strcmp(word, "grace") == 0)
        job->grace_ms = (uint64_t) number;
    else if (strcmp(word, "began") == 0)
        job->began_s = (uint64_t) number;
    else if (strcmp(word, "skip") == 0)
        job->skip_nbytes = (uint64_t) number;
    else if (strcmp(word, "ranks") == 0 && number <= INT_MAX)
        job->nranks = (int) number;
    else if (strcmp(word, "exit") == 0 && number <= 255)
        job->exit_code = (int) number;
}

static int take_line(struct rg_registry_job *job, char *take_value, const char *word)
{
    struct rg_strv *list = strcmp(word, "ssh") == 0 ? &job->ssh
                           : strcmp(word, "host") == 0 ? &job->hosts
                           : strcmp(word, "restart") == 0 ? &job->restarts : NULL;
    char **text = text_of(job, word);

    if (take_value && list == &job->restarts && !jobs_is_id(take_value)) {
        free(take_value);
        return 0;
    }
    if (!take_value || list)
        return list && take_value ? rg_strv_take(list, take_value) : -ENOMEM;
    job->starts = strcmp(word, "starts") == 0 || (job->starts && strcmp(word, "running") != 0);
    job->locked |= strcmp(word, "locked") == 0;
    job->tags |= strcmp(word, "tags") == 0;
    take_number(job, take_value, word);
    if (text) {
        free(*text);
        *text = take_value;
    } else {
        free(take_value);
    }
    return 0;
}

int rg_registry_parse(const char *text, struct rg_registry_job *ret_job)
{
    struct rg_registry_job job = { .exit_code = -1 };
    char word[16];
    int r = 0;

    while (r == 0 && *text) {
        size_t n = strcspn(text, "\n"), nword = strcspn(text, " \n");
        if (nword < n && nword < sizeof(word)) {
            memcpy(word, text, nword);
            word[nword] = '\0';
            r = take_line(&job, strndup(text + nword + 1, n - nword - 1), word);
        }
        text += n + (text[n] == '\n');
    }
    if (r == 0 && !job.launcher)
        r = -EINVAL;
    if (r < 0)
        rg_registry_job_fini(&job);
    else
        *ret_job = job;
    return r;
}

static int read_job(const char *dir, const char *id, struct rg_registry_job *ret_job,
                    struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, id), *text = NULL;
    struct stat st;

    if (!path)
        return -ENOMEM;
    /* It names programs that are run to end the job. */
    int r = rg_read_trusted("the job's file", path, RG_TRUST_UNCHANGED, RG_REGISTRY_FILE_MAX, &text,
                            NULL, err);
    if (r == 0 && (r = rg_registry_parse(text, ret_job)) == -EINVAL)
        rg_error_set(err, EINVAL, "the job's file %s: it names no launcher", path);
    if (r < 0)
        return r;
    ret_job->id = strdup(id);
    if (stat(path, &st) == 0)
        ret_job->touched_ns = (uint64_t) st.st_mtim.tv_sec * RG_NS_PER_S +
                              (uint64_t) st.st_mtim.tv_nsec;
    if (!ret_job->began_s)
        ret_job->began_s = ret_job->touched_ns / RG_NS_PER_S;
    if (!ret_job->id)
        rg_registry_job_fini(ret_job);
    return ret_job->id ? 0 : -ENOMEM;
}

static int by_age(const void *a, const void *b)
{
    const struct rg_registry_job *one = a, *two = b;

    if (one->ended && one->touched_ns != two->touched_ns)
        return one->touched_ns < two->touched_ns ? -1 : 1;
    return one->began_s != two->began_s ? (one->began_s < two->began_s ? -1 : 1)
                                        : strcmp(one->id, two->id);
}

static int list_in(const char *name, struct rg_registry *ret_registry)
{
    rg_autofree char *path = jobs_folder(name);
    DIR *dir = path ? opendir(path) : NULL;
    struct rg_registry list = { .jobs = calloc(RG_REGISTRY_JOBS_MAX, sizeof(*list.jobs)) };
    int r = list.jobs ? 0 : -ENOMEM;

    for (struct dirent *entry; r == 0 && dir && (entry = readdir(dir));) {
        const char *id = entry->d_name;
        if (!jobs_is_id(id) || list.count == RG_REGISTRY_JOBS_MAX)
            continue;
        struct rg_error err = RG_ERROR_INIT;
        r = read_job(path, id, &list.jobs[list.count], &err);
        list.jobs[list.count].ended = strcmp(name, ENDED) == 0;
        list.count += r == 0;
        if (r < 0 && r != -ENOMEM && r != -ENOENT)
            r = rg_strv_add(&list.remarks, err.text);
        r = r == -ENOMEM ? r : 0; /* or a job that has just ended */
    }
    if (dir)
        closedir(dir);
    if (r < 0) {
        rg_registry_fini(&list);
        return r;
    }
    qsort(list.jobs, list.count, sizeof(*list.jobs), by_age);
    *ret_registry = list;
    return 0;
}

int rg_registry_list(struct rg_registry *ret_registry)
{
    return list_in(JOBS, ret_registry);
}

int rg_registry_list_ended(struct rg_registry *ret_registry)
{
    return list_in(ENDED, ret_registry);
}

void rg_registry_fini(struct rg_registry *registry)
{
    for (size_t i = 0; i < registry->count; i++)
        rg_registry_job_fini(&registry->jobs[i]);
    free(registry->jobs);
    rg_strv_fini(&registry->remarks);
    *registry = (struct rg_registry){ 0 };
}

/* --- alive or dead --------------------------------------------------------------------------- */

static bool is_this_host(const struct rg_registry_job *job)
{
    char host[256] = "";
    size_t n = strcspn(job->launcher, ":");

    return gethostname(host, sizeof(host) - 1) == 0 && strlen(host) == n &&
           strncmp(host, job->launcher, n) == 0;
}

/* Its words; "" for those that are not there. */
static struct kernel kernel_of(const struct rg_registry_job *job)
{
    struct kernel then;
    const char *rest = job->kernel ? job->kernel : "";

    rest = rg_str_word(rest, then.boot, sizeof(then.boot));
    rest = rg_str_word(rest, then.pidns, sizeof(then.pidns));
    rg_str_word(rest, then.machine, sizeof(then.machine));
    return then;
}

static int pid_of(const struct rg_registry_job *job)
{
    const char *colon = strchr(job->launcher, ':');
    int pid = colon ? atoi(colon + 1) : 0;

    return pid > 0 ? pid : 0;
}

/* In the launcher's own pid name space. Whether it is there, and no other one with its number. */
static bool is_alive(const struct rg_registry_job *job, int pid)
{
    rg_autofree char *now = pid ? rg_place_launcher(pid) : NULL;
    const char *start = strrchr(job->launcher, ':');

    if (now)
        return strcmp(strrchr(now, ':'), start ? start : "") == 0;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    rg_autofree char *text = NULL;
    if (pid && rg_read_file(path, 4096, &text, NULL) == 0 && (start = strrchr(text, ')')))
        return !rg_str_starts(start, ") Z") && !rg_str_starts(start, ") X"); /* may end just now */
    return pid && !(kill(pid, 0) < 0 && errno == ESRCH);
}

/* /proc may be that of another pid name space. */
static bool proc_is_ours(void)
{
    char self[32] = "";
    ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

    return n > 0 && atoi(self) == (int) getpid();
}

static enum rg_registry_state state_by_lock(const struct rg_registry_job *job)
{
    rg_autofree char *path = job->id ? jobs_path(JOBS, job->id) : NULL;
    rg_autoclose int fd = path && job->locked ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
                                                                O_CLOEXEC) : -1;

    if (fd < 0)
        return RG_JOB_ELSEWHERE;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        return RG_JOB_DEAD;
    return errno == EWOULDBLOCK ? RG_JOB_RUNS : RG_JOB_ELSEWHERE;
}

enum rg_registry_state rg_registry_state(const struct rg_registry_job *job)
{
    struct kernel then = kernel_of(job), now = this_kernel();

    if (job->ended)
        return RG_JOB_ENDED;
    if (!*then.machine) {
        if (!is_this_host(job))
            return RG_JOB_ELSEWHERE;
        return is_alive(job, pid_of(job)) ? RG_JOB_RUNS : RG_JOB_DEAD;
    }
    bool same_ns = strcmp(then.pidns, now.pidns) == 0 && strcmp(now.pidns, "-") != 0;
    if (strcmp(then.boot, now.boot) == 0 && strcmp(now.boot, "-") != 0) {
        if (same_ns && proc_is_ours())
            return is_alive(job, pid_of(job)) ? RG_JOB_RUNS : RG_JOB_DEAD;
        return state_by_lock(job);
    }
    bool booted_again = same_ns && strcmp(now.pidns, PIDNS_INIT) == 0 && is_this_host(job) &&
                        strcmp(then.machine, now.machine) == 0 &&
                        strcmp(now.machine, "-") != 0 && strcmp(now.boot, "-") != 0;
    return booted_again ? RG_JOB_DEAD : RG_JOB_ELSEWHERE;
}

bool rg_registry_rebooted(const struct rg_registry_job *job)
{
    struct kernel then = kernel_of(job), now = this_kernel();

    return strcmp(then.machine, now.machine) == 0 && strcmp(now.machine, "-") != 0 &&
           strcmp(then.boot, "-") != 0 && strcmp(now.boot, "-") != 0 && is_this_host(job) &&
           strcmp(then.boot, now.boot) != 0;
}

int rg_registry_launcher(const struct rg_registry_job *job)
{
    enum rg_registry_state state = rg_registry_state(job);

    if (state == RG_JOB_DEAD)
        return 0;
    if (state != RG_JOB_RUNS)
        return -1;
    struct kernel then = kernel_of(job), now = this_kernel();
    return !job->kernel || strcmp(then.pidns, now.pidns) == 0 ? pid_of(job) : -1;
}

const char *rg_registry_id_now(const struct rg_registry_job *job)
{
    return job->restarts.count ? job->restarts.v[job->restarts.count - 1] : job->id;
}

bool rg_registry_is_over(const struct rg_registry_job *job)
{
    rg_autofree char *path = jobs_path(JOBS, job->id);

    return job->ended || !path || access(path, F_OK) < 0 ||
           rg_registry_state(job) == RG_JOB_DEAD;
}

bool rg_registry_starts(const struct rg_registry_job *job)
{
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job now = { 0 };
    rg_autofree char *dir = jobs_folder(JOBS);

    return job->starts && !job->ended && dir && read_job(dir, job->id, &now, NULL) == 0 &&
           now.starts;
}

/* Also where that cannot be known: a home on another computer may not answer. */
static bool is_there(const char *folder, const char *id)
{
    rg_autofree char *path = jobs_path(folder, id);
    struct stat st;

    return !path || lstat(path, &st) == 0 || errno != ENOENT;
}

/* Of logs without a job's file that have not changed for long: a launcher was killed between making
 * the one and the other. A job's file goes from one folder to the next, never back. */
static void sweep_logs(uint64_t deadline_ns)
{
    rg_autofree char *path = jobs_folder(LOGS);
    DIR *dir = path ? opendir(path) : NULL;
    struct stat st;

    for (struct dirent *entry; dir && rg_now_ns() < deadline_ns && (entry = readdir(dir));) {
        const char *id = entry->d_name;

        if (jobs_is_id(id) && !is_there(JOBS, id) && !is_there(ENDED, id) &&
            fstatat(dirfd(dir), id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtime > ORPHAN_S)
            unlinkat(dirfd(dir), id, 0);
    }
    if (dir)
        closedir(dir);
}

size_t rg_registry_sweep(void)
{
    uint64_t deadline_ns = rg_now_ns() + RG_REGISTRY_SWEEP_MS * RG_NS_PER_MS;
    rg_autofree char *path = jobs_folder(JOBS);
    DIR *dir = path ? opendir(path) : NULL;
    size_t count = 0;

    for (struct dirent *entry; dir && rg_now_ns() < deadline_ns && (entry = readdir(dir));) {
        struct rg_registry_job job = { 0 };
        const char *id = entry->d_name;
        if (!jobs_is_id(id) || read_job(path, id, &job, NULL) < 0)
            continue;
        if (!job.image && job.kernel && rg_registry_state(&job) == RG_JOB_DEAD) {
            rg_registry_forget(&job);
            count++;
        }
        rg_registry_job_fini(&job);
    }
    if (dir)
        closedir(dir);
    sweep_logs(deadline_ns);
    return count;
}
