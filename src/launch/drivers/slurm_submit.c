/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "launch/drivers/slurm.h"
#include "launch/drivers/slurm_internal.h"
#include "launch/exitcode.h"

#define RECORD_MAX (64u << 10)

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

void rg_slurm_record_fini(struct rg_slurm_record *record)
{
    free(record->log);
    free(record->command);
    *record = (struct rg_slurm_record){ .exit_code = -1 };
}

static int write_record(const char *id, const char *cwd, const struct rg_job *job)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree char *path = path_of(id);

    rg_buf_printf(&text, "log %s/reigen-%s.log\ncommand ", cwd, id);
    for (size_t i = 0; i < job->command.count; i++) {
        rg_buf_printf(&text, "%s", i ? " " : "");
        for (const char *p = job->command.v[i]; *p; p++)
            rg_buf_printf(&text, "%c", (unsigned char) *p < ' ' ? ' ' : *p);
    }
    rg_buf_printf(&text, "\n");
    /* A quick job's exit code is there already. */
    rg_autoclose int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                                      0600) : -1;
    if (fd < 0)
        return -errno;
    return rg_write_all(fd, rg_buf_bytes(&text), rg_buf_nbytes(&text));
}

/* --- sbatch ----------------------------------------------------------------------------------- */

static void put_quoted(struct rg_buf *text, const char *word)
{
    rg_buf_printf(text, " '");
    for (; *word; word++)
        rg_buf_printf(text, *word == '\'' ? "'\\''" : "%c", *word);
    rg_buf_printf(text, "'");
}

/* The shell stays, to put down how it ended, and waits for it when it is told to end itself. */
static int make_script(char *const *argv, const char *dir, struct rg_buf *script)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (n <= 0)
        return -ENOENT;
    program[n] = '\0';
    rg_buf_printf(script, "#!/bin/sh\n" RG_SLURM_SUBMITTED "=1");
    put_quoted(script, program);
    for (; *argv; argv++)
        put_quoted(script, *argv);
    rg_buf_printf(script, " &\ntrap 'kill -TERM $! 2>/dev/null' TERM\nwait $!; code=$?\n"
                          "while kill -0 $! 2>/dev/null; do wait $!; code=$?; done\n"
                          "echo \"exit $code\" >>");
    put_quoted(script, dir);
    rg_buf_printf(script, "/$SLURM_JOB_ID\nexit $code\n");
    return rg_buf_status(script);
}

static int make_argv(const struct rg_job *job, const char *cwd, struct rg_strv *argv)
{
    int r = rg_strv_add(argv, "sbatch");

    if (r == 0)
        r = rg_strv_add(argv, "--job-name=reigen");
    if (r == 0)
        r = slurm_wish_add(job, argv);
    if (r == 0)
        r = rg_strv_add(argv, "--parsable");
    return r < 0 ? r : rg_strv_addf(argv, "--output=%s/reigen-%%j.log", cwd);
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

/* The last line, up to the cluster's name. */
static bool find_id(char *said, char ret_id[RG_SLURM_ID_MAX])
{
    bool found = false;

    for (char *line, *rest = said; (line = strsep(&rest, "\n"));) {
        size_t length = strspn(line, "0123456789");
        if (!length || length >= RG_SLURM_ID_MAX || (line[length] && line[length] != ';'))
            continue;
        snprintf(ret_id, RG_SLURM_ID_MAX, "%.*s", (int) length, line);
        found = true;
    }
    return found;
}

int rg_slurm_submit(const struct rg_job *job, char *const *argv, char ret_id[RG_SLURM_ID_MAX],
                    struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT, env = RG_STRV_INIT;
    rg_autobuf struct rg_buf script = RG_BUF_INIT;
    rg_autofree char *dir = folder();
    char cwd[PATH_MAX], said[4096], how[64];
    int status = 0;

    if (!dir || !getcwd(cwd, sizeof(cwd)))
        return rg_error_set(err, ENOENT, "there is no home or no current directory to keep the "
                                         "job's output in");
    int r = rg_mkdir_all(dir, 0700, err);
    if (r < 0)
        return r;
    r = make_script(argv, dir, &script);
    if (r == 0)
        r = make_argv(job, cwd, &words);
    if (r == 0)
        r = slurm_command_env(job, &env);
    if (r < 0)
        return rg_error_set(err, -r, "the job's script: %s", strerror(-r));
    r = feed(&words, &env, &script, said, sizeof(said), &status, err);
    if (r < 0)
        return r;
    rg_autofree char *copy = strdup(said);
    if (status != 0 || !copy || !find_id(copy, ret_id))
        return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE,
                                 "Slurm did not take the job (sbatch: %s): %.*s",
                                 rg_status_text(status, how, sizeof(how)),
                                 (int) strcspn(said, "\n"), said);
    r = write_record(ret_id, cwd, job);
    return r < 0 ? rg_error_set(err, -r, "job %s was submitted, but %s cannot be written: %s",
                                ret_id, dir, strerror(-r)) : 0;
}
