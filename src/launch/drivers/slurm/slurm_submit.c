/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/slurm/slurm_internal.h"
#include "base/exitcode.h"

#define RECORD_MAX (64u << 10)
#define KEPT_S (90 * 24 * 3600) /* since the job's end, or its submission */

/* One job on its way to sbatch. */
struct submission {
    char cwd[PATH_MAX];
    char id[RG_SLURM_ID_MAX];
    char cluster[64]; /* "": that of this host */
};

/* --- records ---------------------------------------------------------------------------------- */

static char *folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && *state == '/')
        return rg_strf("%s/reigen/slurm", state);
    return home && *home == '/' ? rg_strf("%s/.local/state/reigen/slurm", home) : NULL;
}

static char *path_of(const char *id)
{
    rg_autofree char *dir = folder();

    return dir ? rg_strf("%s/%s", dir, id) : NULL;
}

static void take_line(struct rg_slurm_record *record, const char *line)
{
    int64_t code;

    if (rg_str_starts(line, "log ") && !record->log)
        record->log = strdup(line + 4);
    else if (rg_str_starts(line, "command ") && !record->command)
        record->command = strdup(line + 8);
    else if (rg_str_starts(line, "cluster ") && !record->cluster)
        record->cluster = strdup(line + 8);
    else if (rg_str_starts(line, "exit ") &&
             rg_parse_int("exit", line + 5, 0, 255, &code, NULL) == 0)
        record->exit_code = (int) code;
}

int rg_slurm_record_read(const char *id, struct rg_slurm_record *ret_record)
{
    struct rg_slurm_record record = { .exit_code = -1 };
    rg_autofree char *path = NULL, *text = NULL;

    if (!*id || strlen(id) >= RG_SLURM_ID_MAX || id[strspn(id, "0123456789")])
        return -EINVAL;
    path = path_of(id);
    int r = path ? rg_read_file(path, RECORD_MAX, &text, NULL) : -ENOENT;
    if (r < 0)
        return r;
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));)
        take_line(&record, line);
    if (!record.log || !record.command) {
        rg_slurm_record_fini(&record);
        return -ENOENT;
    }
    *ret_record = record;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const char *one = *(char *const *) a, *two = *(char *const *) b;
    size_t none = strlen(one), ntwo = strlen(two);

    return none != ntwo ? (none < ntwo ? -1 : 1) : strcmp(one, two);
}

int rg_slurm_record_list(struct rg_strv *ids)
{
    rg_autofree char *path = folder();
    DIR *dir = path ? opendir(path) : NULL;
    int r = 0;

    for (struct dirent *e; r == 0 && dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n < RG_SLURM_ID_MAX && !e->d_name[strspn(e->d_name, "0123456789")])
            r = rg_strv_add(ids, e->d_name);
    }
    if (dir)
        closedir(dir);
    if (ids->count)
        qsort(ids->v, ids->count, sizeof(*ids->v), by_number);
    return r;
}

void rg_slurm_record_fini(struct rg_slurm_record *record)
{
    free(record->log);
    free(record->command);
    free(record->cluster);
    *record = (struct rg_slurm_record){ .exit_code = -1 };
}

/* Numbers of jobs are used again some day, and no one asks after such old ones. */
static void forget_old(const char *dir)
{
    DIR *all = opendir(dir);
    struct stat st;

    for (struct dirent *e; all && (e = readdir(all));) {
        if (e->d_name[strspn(e->d_name, "0123456789")])
            continue;
        if (fstatat(dirfd(all), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtime > KEPT_S)
            unlinkat(dirfd(all), e->d_name, 0);
    }
    if (all)
        closedir(all);
}

static void put_record(const struct submission *submission, const struct rg_job *job,
                       struct rg_buf *text)
{
    rg_buf_printf(text, "log %s/reigen-%s.log\n", submission->cwd, submission->id);
    if (*submission->cluster)
        rg_buf_printf(text, "cluster %s\n", submission->cluster);
    rg_buf_printf(text, "command ");
    for (size_t i = 0; i < job->command.count; i++) {
        rg_buf_printf(text, "%s", i ? " " : "");
        for (const char *p = job->command.v[i]; *p; p++)
            rg_buf_printf(text, "%c", (unsigned char) *p < ' ' ? ' ' : *p);
    }
    rg_buf_printf(text, "\n");
}

static int write_record(const struct submission *submission, const struct rg_job *job)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record old = { .exit_code = -1 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree char *path = path_of(submission->id);

    if (!path)
        return -ENOMEM;
    if (rg_slurm_record_read(submission->id, &old) == 0) /* of another job with this number */
        unlink(path);
    put_record(submission, job, &text);
    /* A quick job's exit code is there already. */
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : rg_buf_status(&text);
    return r < 0 ? r : rg_write_all(fd, rg_buf_bytes(&text), rg_buf_nbytes(&text));
}

/* --- sbatch ----------------------------------------------------------------------------------- */

/* The shell stays, to put down how it ended, and hands on what it is told: to end, or a signal of
 * `sbatch --signal=B:USR1@60`. */
static int make_script(char *const *argv, const char *dir, struct rg_buf *script)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (n <= 0)
        return -ENOENT;
    program[n] = '\0';
    rg_buf_printf(script, "#!/bin/sh\n" RG_SLURM_SUBMITTED "=1 ");
    slurm_put_quoted(script, program);
    for (; *argv; argv++) {
        rg_buf_printf(script, " ");
        slurm_put_quoted(script, *argv);
    }
    rg_buf_printf(script, " &\n"
                          "for s in TERM USR1 USR2; do trap \"kill -$s $! 2>/dev/null\" $s; done\n"
                          "wait $!; code=$?\n"
                          "while kill -0 $! 2>/dev/null; do wait $!; code=$?; done\n"
                          "echo \"exit $code\" >>");
    slurm_put_quoted(script, dir);
    rg_buf_printf(script, "/$SLURM_JOB_ID\nexit $code\n");
    return rg_buf_status(script);
}

static int make_argv(const struct rg_job *job, const char *cwd, struct rg_strv *argv)
{
    rg_autobuf struct rg_buf output = RG_BUF_INIT;
    int r = rg_strv_add(argv, "sbatch");

    if (r == 0)
        r = rg_strv_add(argv, "--job-name=reigen");
    if (r == 0)
        r = slurm_wish_add(job, argv);
    if (r == 0)
        r = rg_strv_add(argv, "--parsable");
    rg_buf_printf(&output, "--output=");
    for (const char *p = cwd; *p; p++) /* sbatch puts something in the place of %j */
        rg_buf_printf(&output, *p == '%' ? "%%%%" : "%c", *p);
    rg_buf_printf(&output, "/reigen-%%j.log");
    if (r == 0)
        r = rg_buf_status(&output);
    return r < 0 ? r : rg_strv_add(argv, rg_buf_text(&output));
}

/* The script goes to its standard input, which takes more than a pipe's 64 KiB only as it reads. */
static int feed(const struct rg_strv *argv, const struct rg_strv *env, const struct rg_buf *script,
                char *ret_said, size_t nbytes, int *ret_status, struct rg_error *err)
{
    rg_autoclose int out_read = -1, out_write = -1, in_read = -1, in_write = -1;
    int fds[2], r = rg_pipe(fds);
    size_t have = 0;
    pid_t pid;

    if (r < 0)
        return rg_error_set(err, -r, "sbatch: %s", strerror(-r));
    out_read = fds[0];
    out_write = fds[1];
    if ((r = rg_socketpair(fds)) < 0)
        return rg_error_set(err, -r, "sbatch: %s", strerror(-r));
    in_read = fds[0];
    in_write = fds[1];
    const struct rg_spawn spawn = { .argv = argv->v, .envp = env->v,
                                    .fds = { in_read, out_write, out_write } };
    if ((r = rg_spawn(&spawn, &pid, err)) < 0)
        return r == -ENOENT ? slurm_command_missing("sbatch", err) : r;
    close(rg_steal_fd(&out_write));
    close(rg_steal_fd(&in_read));
    signal(SIGPIPE, SIG_IGN);
    rg_write_all(in_write, rg_buf_bytes(script), rg_buf_nbytes(script));
    close(rg_steal_fd(&in_write));
    for (ssize_t n; have + 1 < nbytes && (n = read(out_read, ret_said + have,
                                                   nbytes - 1 - have)) > 0;)
        have += (size_t) n;
    ret_said[have] = '\0';
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

/* "123" or "123;cluster", in a line of its own: others are remarks. */
static bool find_id(const char *said, struct submission *submission)
{
    bool found = false;

    for (const char *line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strspn(line, "0123456789"), rest = strcspn(line, "\n") - length;
        if (!length || length >= sizeof(submission->id) || (rest && line[length] != ';') ||
            rest >= sizeof(submission->cluster))
            continue;
        snprintf(submission->id, sizeof(submission->id), "%.*s", (int) length, line);
        snprintf(submission->cluster, sizeof(submission->cluster), "%.*s",
                 rest ? (int) rest - 1 : 0, line + length + (rest > 0));
        found = true;
    }
    return found;
}

/* What would be lost without a word, or not be what it seems. */
static int check(const struct rg_job *job, const char *cwd, struct rg_error *err)
{
    for (const char *p = cwd; *p; p++) {
        if ((unsigned char) *p < ' ' || *p == '\\')
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--submit: the job's output goes to the current directory, "
                                     "in whose name sbatch takes no backslash and no line break: "
                                     "submit it from another one");
    }
    if (access(cwd, W_OK | X_OK) < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE,
                                 "--submit: the job's output goes to the current directory, %s: "
                                 "%s; submit it from another one", cwd, strerror(errno));
    if (job->share_env.count)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--submit: --share-env %s keeps it out of what Slurm stores, so "
                                 "the job would not have it; let the command read it from a file",
                                 job->share_env.v[0]);
    rg_autostrv struct rg_strv options = RG_STRV_INIT;
    if (rg_job_settings(job, "slurm-option", &options) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < options.count; i++) {
        const char *option = options.v[i];
        if (rg_str_starts(option, "--array") || rg_str_starts(option, "-a"))
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--submit: --slurm-option=%s: it submits one job, not an "
                                     "array; call it once for each, or write a script for sbatch "
                                     "that calls reigen run --on slurm", option);
    }
    return 0;
}

static int hand_over(const struct rg_job *job, char *const *argv, const char *dir,
                     struct submission *submission, struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT, env = RG_STRV_INIT;
    rg_autobuf struct rg_buf script = RG_BUF_INIT;
    char said[4096], line[400], how[64];
    int status = 0;
    int r = make_script(argv, dir, &script);

    if (r == 0)
        r = make_argv(job, submission->cwd, &words);
    if (r == 0)
        r = slurm_command_env(job, &env);
    rg_env_unset(&env, "SLURM_STEPMGR"); /* who looks after this job's steps, not the new one's */
    if (r < 0)
        return rg_error_set(err, -r, "the job's script: %s", strerror(-r));
    r = feed(&words, &env, &script, said, sizeof(said), &status, err);
    if (r < 0 || (status == 0 && find_id(said, submission)))
        return r;
    slurm_complaint(said, line, sizeof(line));
    const char *remedy = slurm_remedy(line);
    return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE,
                             "Slurm did not take the job (sbatch: %s): %s%s%s",
                             rg_status_text(status, how, sizeof(how)), line, *remedy ? "; " : "",
                             remedy);
}

/* Before the job is in the queue, not when it is too late. */
static int make_folder(const char *dir, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    int r = rg_mkdir_all(dir, 0700, &cause);

    if (r == 0 && access(dir, W_OK | X_OK) < 0)
        r = -errno;
    return r < 0 ? rg_error_set_exit(err, -r, RG_EXIT_USAGE,
                                     "--submit: a note of each job is kept in %s, where nothing "
                                     "can be written (%s); make it writable, or name another "
                                     "directory that the nodes see: XDG_STATE_HOME=DIR", dir,
                                     strerror(-r))
                 : 0;
}

int rg_slurm_submit(const struct rg_job *job, char *const *argv, char ret_id[RG_SLURM_ID_MAX],
                    struct rg_error *err)
{
    rg_autofree char *dir = folder();
    struct submission submission = { .id = "" };

    if (!dir)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE,
                                 "--submit: there is no place for a note of the job, since HOME "
                                 "is not set; name a directory that the nodes see: "
                                 "XDG_STATE_HOME=DIR");
    if (!getcwd(submission.cwd, sizeof(submission.cwd)))
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE,
                                 "--submit: the job's output goes to the current directory, which "
                                 "cannot be seen (%s); submit it from another one",
                                 strerror(errno));
    int r = check(job, submission.cwd, err);
    if (r == 0)
        r = make_folder(dir, err);
    if (r < 0)
        return r;
    forget_old(dir);
    r = hand_over(job, argv, dir, &submission, err);
    if (r < 0)
        return r;
    r = write_record(&submission, job);
    if (r < 0)
        return rg_error_set(err, -r, "job %s was submitted, but %s cannot be written: %s",
                            submission.id, dir, strerror(-r));
    snprintf(ret_id, RG_SLURM_ID_MAX, "%s", submission.id);
    return 0;
}
