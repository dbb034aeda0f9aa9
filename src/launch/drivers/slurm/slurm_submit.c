/* SPDX-License-Identifier: Apache-2.0 */
/* A job for sbatch: the script that runs it, and the command line that hands it over. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/slurm/slurm_internal.h"
#include "launch/host/agentfile.h"
#include "base/exitcode.h"

/* --- sbatch ----------------------------------------------------------------------------------- */

/* The agent has a head in it. The shell stays, to put down how it ended, and hands on what it is
 * told: to end, or a signal of `sbatch --signal=B:USR1@60`. */
static int make_script(char *const *argv, const char *dir, struct rg_buf *script,
                       struct rg_error *err)
{
    char path[PATH_MAX];
    int r = rg_agent_file_find(path, err);
    rg_autofree char *program = r == 0 ? realpath(path, NULL) : NULL;

    if (!program)
        return r < 0 ? r : -errno;
    rg_buf_printf(script, "#!/bin/sh\nfile=");
    slurm_put_quoted(script, dir);
    rg_buf_printf(script, "/$SLURM_JOB_ID\necho begin >>\"$file\"\n");
    slurm_put_quoted(script, program);
    for (; *argv; argv++) {
        rg_buf_printf(script, " ");
        slurm_put_quoted(script, *argv);
    }
    rg_buf_printf(script, " &\n"
                          "for s in TERM USR1 USR2; do trap \"kill -$s $! 2>/dev/null\" $s; done\n"
                          "wait $!; code=$?\n"
                          "while kill -0 $! 2>/dev/null; do wait $!; code=$?; done\n"
                          "echo \"exit $code\" >>\"$file\"\nexit $code\n");
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
static bool find_id(const char *said, struct rg_submitted_job *submitted)
{
    bool found = false;

    for (const char *line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strspn(line, "0123456789"), rest = strcspn(line, "\n") - length;
        if (!length || length >= sizeof(submitted->id) || (rest && line[length] != ';'))
            continue;
        snprintf(submitted->id, sizeof(submitted->id), "%.*s", (int) length, line);
        free(submitted->cluster);
        submitted->cluster = rest > 1 ? strndup(line + length + 1, rest - 1) : NULL;
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

static int hand_over(const struct rg_job *job, char *const *argv, const char *cwd,
                     struct rg_submitted_job *submitted, struct rg_error *err)
{
    rg_autofree char *dir = rg_submitted_folder(submitted->platform, err);
    rg_autostrv struct rg_strv words = RG_STRV_INIT, env = RG_STRV_INIT;
    rg_autobuf struct rg_buf script = RG_BUF_INIT;
    char said[4096], line[400], how[64];
    int status = 0;

    if (!dir)
        return -EINVAL;
    int r = make_script(argv, dir, &script, err);
    if (r < 0 && err->errnum)
        return r;
    if (r == 0)
        r = make_argv(job, cwd, &words);
    if (r == 0)
        r = slurm_command_env(job, &env);
    rg_env_unset(&env, "SLURM_STEPMGR"); /* who looks after this job's steps, not the new one's */
    if (r < 0)
        return rg_error_set(err, -r, "the job's script: %s", strerror(-r));
    r = feed(&words, &env, &script, said, sizeof(said), &status, err);
    if (r < 0 || (status == 0 && find_id(said, submitted)))
        return r;
    slurm_complaint(said, line, sizeof(line));
    const char *remedy = slurm_remedy(line);
    return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE,
                             "Slurm did not take the job (sbatch: %s): %s%s%s",
                             rg_status_text(status, how, sizeof(how)), line, *remedy ? "; " : "",
                             remedy);
}

int slurm_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                 struct rg_error *err)
{
    char cwd[PATH_MAX];

    if (!getcwd(cwd, sizeof(cwd)))
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE,
                                 "--submit: the job's output goes to the current directory, which "
                                 "cannot be seen (%s); submit it from another one",
                                 strerror(errno));
    int r = check(job, cwd, err);
    if (r == 0)
        r = hand_over(job, argv, cwd, ret_job, err);
    if (r == 0 && !(ret_job->log = rg_strf("%s/reigen-%s.log", cwd, ret_job->id)))
        r = rg_error_set(err, ENOMEM, "out of memory");
    return r;
}
