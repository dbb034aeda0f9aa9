/* SPDX-License-Identifier: Apache-2.0 */
/* From srun_docker.sh's options and Slurm's environment to a job. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "job/request/settle.h"
#include "platform/slurm/srundocker/srundocker.h"

static int copy(char **to, const char *from, struct rg_error *err)
{
    char *text = from ? strdup(from) : NULL;

    if (from && !text)
        return rg_error_memory(err);
    free(*to);
    *to = text;
    return 0;
}

/* --- the script ------------------------------------------------------------------------------ */

/* Neither "#!" nor a program: a shell would run it as its own. */
static bool is_bare_script(const char *path)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    char magic[4] = "";
    ssize_t n = fd < 0 ? 0 : read(fd, magic, sizeof magic);

    return n > 0 && !(n >= 2 && memcmp(magic, "#!", 2) == 0) &&
           !(n == 4 && memcmp(magic, "\177ELF", 4) == 0);
}

static int judge_script(const char *path, const struct stat *st, struct rg_error *err)
{
    if (S_ISDIR(st->st_mode))
        return rg_error_set(err, EISDIR, "--script=%s: this is a directory; name a file", path);
    if (!S_ISREG(st->st_mode))
        return rg_error_set(err, EINVAL, "--script=%s: this is no file, but a device or pipe",
                            path);
    if (access(path, X_OK) < 0)
        return rg_error_set(err, EACCES, "--script=%s: not executable; try: chmod +x %s", path,
                            path);
    const char *end = strrchr(path, '.');
    if (end && strcmp(end, ".py") == 0 && is_bare_script(path))
        return rg_error_set(err, EINVAL, "--script=%s: its first line does not say what runs it, "
                            "so sh would; begin it with #!/usr/bin/env python3", path);
    return 0;
}

/* Arguments: sshd's directory, its port, and the script's line. Every host gets an sshd by rsh,
 * whose standard input is one pipe: when that is closed, they end. Who opens it holds its other end
 * meanwhile; it would wait for one otherwise. sshd says when it listens, which it also does when
 * the port is taken for one family of addresses. Signals come to all processes here, and are the
 * script's: it may save what its ranks have, for which it needs the sshds. The directory's name has
 * no single quotes in it (rg_srundocker_settle_sshd). */
static const char with_sshd[] =
    "sshconfigdir=$1 sshdport=$2; shift 2; export sshconfigdir sshdport\n"
    "fail() { echo \"reigen: $1\" >&2; exec 9>&-; wait; rm -rf \"$t\"; exit 69; }\n"
    "t=$(mktemp -d) && mkfifo \"$t/in\" || exit 70\n"
    "s='PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin; s=$(command -v sshd) || '\"\n"
    "{ echo fatal: the image has no sshd; exit 69; }\n"
    "\\$s -D -e -p $sshdport -f '$sshconfigdir/sshd_config' </dev/null & "
    "cat >/dev/null; kill \\$!\"\n"
    "names=$(echo \"$hostlist\" | tr , ' ')\n"
    "exec 9<>\"$t/in\"\n"
    "for h in $names; do h=${h%:*}; : >\"$t/$h\"; (trap '' TERM INT HUP USR1 USR2; "
    "exec $REIGEN_RSH $h \"$s\") <\"$t/in\" 9>&- >\"$t/$h\" 2>&1 & done\n"
    "for h in $names; do h=${h%:*}; n=0; while :; do\n"
    "if grep -qE 'fatal:|terminating|already in use|^reigen' \"$t/$h\" || [ $n -ge 300 ]\n"
    "then w=$(tail -n 3 \"$t/$h\" | tr -d '\\r' | tr '\\n' ' ')\n"
    "echo \"$h $sshdport\" >\"$REIGEN_JOB_DIR/sshd-failed\"\n"
    "fail \"host $h: sshd does not listen on port $sshdport; if it is in use, give another \""
    "\"with --sshdport (${w% })\"; fi\n"
    "grep -q '^Server listening' \"$t/$h\" && break\n"
    "n=$((n + 1)); sleep 0.1; done; done\n"
    "trap : TERM INT HUP USR1 USR2\n"
    "\"$@\" 9>&-; c=$?\n"
    "exec 9>&-; wait; rm -rf \"$t\"; exit $c\n";

static int add_sshd(const struct rg_srundocker *s, struct rg_strv *command)
{
    const char *const words[] = { "sh", "-c", with_sshd, "srun-docker", s->sshconfigdir };
    int rc = 0;

    for (size_t i = 0; i < rg_array_len(words) && rc == 0; i++)
        rc = rg_strv_add(command, words[i]);
    return rc < 0 ? rc : rg_strv_addf(command, "%d", s->sshdport);
}

/* The path to run, as the user wrote it where that has a slash. What only the image has is for
 * its container to find. */
static int find_script(const struct rg_srundocker *s, struct rg_job *job, struct rg_error *err)
{
    bool plain = !strchr(s->script, '/');
    rg_autofree char *path = rg_strf("%s%s", plain ? "./" : "", s->script);
    char cwd[PATH_MAX];
    struct stat st;
    int rc = 0;

    if (!path)
        return rg_error_memory(err);
    bool there = stat(path, &st) == 0;

    if (!there && *path != '/')
        return rg_error_set(err, ENOENT,
                            "--script=%s: there is no such file in %s; give its path from there, "
                            "or the full path of a program of the image",
                            s->script, getcwd(cwd, sizeof cwd) ? cwd : "the current directory");
    if (there)
        rc = judge_script(path, &st, err);
    if (rc == 0 && rg_srundocker_has_sshd(s) && add_sshd(s, &job->command) < 0)
        rc = rg_error_memory(err);
    if (rc == 0 && there && is_bare_script(path) && rg_strv_add(&job->command, "sh") < 0)
        rc = rg_error_memory(err);
    if (rc == 0 && (rg_strv_add(&job->command, path) < 0 ||
                    rg_strv_add_all(&job->command, s->args.v) < 0))
        rc = rg_error_memory(err);
    return rc;
}

/* --- the nodes ------------------------------------------------------------------------------- */

static bool has_node(const struct rg_slurm_allocation *a, const char *name, size_t *ret_i)
{
    for (size_t i = 0; i < a->nnodes; i++) {
        if (strcmp(a->nodes[i].name, name) == 0) {
            *ret_i = i;
            return true;
        }
    }
    return false;
}

static int add_node(const struct rg_srundocker *s, const struct rg_slurm_allocation *a, size_t i,
                    struct rg_job *job, struct rg_error *err)
{
    int n = s->slots_per_node ? s->slots_per_node : rg_slurm_slots(a, RG_SLURM_STEP, i);

    return rg_job_add_host(job, a->nodes[i].name, n, err);
}

static int add_listed(const struct rg_srundocker *s, const struct rg_strv *env,
                      const struct rg_slurm_allocation *step, struct rg_job *job,
                      struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *there = rg_env_get(env, "SLURM_STEP_NODELIST");
    int rc = rg_slurm_nodes("--nodelist", s->nodelist, &names, err);

    for (size_t i = 0, k; i < names.count && rc == 0; i++) {
        if (has_node(step, names.v[i], &k))
            rc = add_node(s, step, k, job, err);
        else
            rc = rg_error_set(err, EINVAL,
                              "--nodelist=%.200s: srun did not start a task on node %s, only on "
                              "%.200s; use srun --nodelist=%.200s, too",
                              s->nodelist, names.v[i], there ? there : "others", s->nodelist);
    }
    return rc;
}

static int add_nodes(const struct rg_srundocker *s, const struct rg_strv *env,
                     const struct rg_slurm_allocation *step, struct rg_job *job,
                     struct rg_error *err)
{
    int rc = 0;

    if (s->nodelist)
        return add_listed(s, env, step, job, err);
    for (size_t i = 0; i < step->nnodes && rc == 0; i++)
        rc = add_node(s, step, i, job, err);
    return rc;
}

static int add_notes(const struct rg_srundocker *s, const struct rg_slurm_allocation *step,
                     struct rg_request *request)
{
    int most = 0, rc = s->slip ? rg_strv_add(&request->notes, s->slip) : 0;

    for (size_t i = 0; i < step->nnodes; i++)
        if (step->nodes[i].ntasks > most)
            most = step->nodes[i].ntasks;
    if (rc == 0 && most > 1)
        rc = rg_strv_addf(&request->notes,
                          "srun started %d tasks on a node; srun-docker needs one on each, the "
                          "others only wait: use srun --ntasks-per-node=1, and --slots_per_node "
                          "for the number of ranks", most);
    for (size_t i = 0; i < step->nnodes && rc == 0; i++) {
        int n = rg_slurm_slots(step, RG_SLURM_STEP, i);
        if (s->slots_per_node <= n)
            continue;
        return rg_strv_addf(&request->notes,
                            "--slots_per_node=%d, but the job has %d %s on node %s: ranks will "
                            "share them", s->slots_per_node, n,
                            step->gpus_per_node ? n == 1 ? "GPU" : "GPUs" : n == 1 ? "CPU" : "CPUs",
                            step->nodes[i].name);
    }
    return rc;
}

/* --- containers ------------------------------------------------------------------------------ */

/* Whether a word is this option; its value if that is attached, else NULL. */
static bool is_option(const char *word, const char *name, const char **ret_value)
{
    size_t n = strlen(name);

    if (strncmp(word, name, n) != 0 || (word[n] && word[n] != '='))
        return false;
    *ret_value = word[n] ? word + n + 1 : NULL;
    return true;
}

/* What people write who start containers by hand. Here `docker run` must stay, for signals and the
 * end, and needs no terminal: the script's input and output are srun's. */
static bool is_by_hand(const char *word)
{
    static const char *const names[] = { "--detach", "--interactive", "--tty", "--rm" };
    const char *value;

    for (size_t i = 0; i < rg_array_len(names); i++)
        if (is_option(word, names[i], &value))
            return true;
    return word[0] == '-' && word[1] && !word[1 + strspn(word + 1, "dit")];
}

/* One of --dockopts, *i, which may move to its value. */
static int add_dockopt(const struct rg_strv *words, size_t *i, struct rg_request *request,
                       struct rg_error *err)
{
    struct rg_container *container = &request->job.container;
    const char *word = words->v[*i], *value;
    int rc = 0;

    if (is_option(word, "--entrypoint", &value))
        return rg_error_set(err, EINVAL,
                            "--dockopts: %s: a container's first process is Reigen's; let the "
                            "script start the program", word);
    if (is_option(word, "--network", &value) || is_option(word, "--net", &value)) {
        if (!value && *i + 1 < words->count)
            value = words->v[++*i];
        return copy(&container->network, value, err);
    }
    if (is_by_hand(word))
        rc = rg_strv_addf(&request->notes, "--dockopts: %s is left out", word);
    else
        rc = rg_strv_add(&container->options, word);
    return rc < 0 ? rg_error_memory(err) : 0;
}

static int add_dockopts(const struct rg_srundocker *s, struct rg_request *request,
                        struct rg_error *err)
{
    const struct rg_strv *words = &s->dockopts;
    bool apptainers = s->runtime && strcmp(s->runtime, "docker") != 0 &&
                      strcmp(s->runtime, "podman") != 0;
    int rc = 0;

    if (words->count && words->v[0][0] != '-')
        return rg_error_set(err, EINVAL,
                            "--dockopts: \"%.200s\" is no option; options begin with '-', as in "
                            "--dockopts=\"--ipc=host -e NAME=VALUE\"", words->v[0]);
    if (apptainers) /* its own have other meanings */
        return rg_strv_add_all(&request->job.container.options, words->v) < 0
                   ? rg_error_memory(err) : 0;
    for (size_t i = 0; i < words->count && rc == 0; i++)
        rc = add_dockopt(words, &i, request, err);
    return rc;
}

static int fill_lists(const struct rg_srundocker *s, struct rg_container *container)
{
    int rc = rg_strv_add_all(&container->mounts, s->datamnts.v);

    for (size_t i = 0; i < s->devices.count && rc == 0; i++)
        rc = rg_strv_addf(&container->options, "--device=%s", s->devices.v[i]);
    if (rc == 0 && s->devices.count)
        rc = rg_strv_add(&container->options, "--cap-add=IPC_LOCK");
    return rc;
}

static int fill_container(const struct rg_srundocker *s, struct rg_request *request,
                          struct rg_error *err)
{
    struct rg_container *container = &request->job.container;
    int rc = copy(&container->image, s->container, err);

    rc = rc < 0 ? rc : copy(&container->name, s->dockname, err);
    rc = rc < 0 ? rc : copy(&container->runtime, s->runtime, err);
    container->privileged = s->privileged;
    container->ibdevices = s->ibdevices && !s->devices.count;
    if (rc == 0 && fill_lists(s, container) < 0)
        rc = rg_error_memory(err);
    rc = rc < 0 ? rc : add_dockopts(s, request, err);
    /* As the original, and so that a real sshd in it can be reached. */
    if (rc == 0 && s->container && !container->network)
        rc = copy(&container->network, "host", err);
    return rc;
}

/* Whether path is dir, or lies in it. */
static bool lies_in(const char *path, const char *dir)
{
    size_t n = dir ? strlen(dir) : 0;

    while (n > 0 && dir[n - 1] == '/')
        n--;
    return dir && *dir == '/' && strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

/* A script that is on the node, but not where its container shows the node's files. What any image
 * has at the same path is not meant. */
static int remark_hidden_script(const struct rg_srundocker *s, const struct rg_strv *env,
                                struct rg_request *request)
{
    static const char *const images[] = { "/bin", "/sbin", "/usr" };
    char cwd[PATH_MAX];
    bool shown = *s->script != '/' || access(s->script, F_OK) < 0 || !s->container ||
                 lies_in(s->script, rg_env_get(env, "HOME")) ||
                 lies_in(s->script, getcwd(cwd, sizeof cwd));

    for (size_t i = 0; i < s->datamnts.count && !shown; i++)
        shown = lies_in(s->script, s->datamnts.v[i]);
    for (size_t i = 0; i < rg_array_len(images) && !shown; i++)
        shown = lies_in(s->script, images[i]);
    if (shown || s->dockopts.count) /* -v may be among them */
        return 0;
    return rg_strv_addf(&request->notes,
                        "--script=%s is neither in your home nor in the current directory, which "
                        "containers show; if it is not the image's own, add --datamnts=%.*s",
                        s->script, (int) (strrchr(s->script, '/') - s->script), s->script);
}

/* --- its environment ------------------------------------------------------------------------- */

/* What a script may want to know of its job. Not what is each task's own: an MPI or a training
 * program that finds SLURM_PROCID takes itself for a rank of srun's. */
static const char *const of_the_job[] = {
    "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS", "SLURM_JOB_USER",
    "SLURM_JOB_END_TIME", "SLURM_JOB_GPUS", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
};

static int add_job_env(const struct rg_strv *env, struct rg_job *job)
{
    int rc = 0;

    for (size_t i = 0; i < rg_array_len(of_the_job) && rc == 0; i++) {
        const char *value = rg_env_get(env, of_the_job[i]);
        if (value)
            rc = rg_strv_addf(&job->env, "%s=%s", of_the_job[i], value);
    }
    return rc;
}

static int fill_env(const struct rg_srundocker *s, const struct rg_strv *env,
                    struct rg_request *request)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_job *job = &request->job;
    int rc = add_job_env(env, job);

    if (rc == 0)
        rc = rg_strv_addf(&job->env, "scriptpath=%s", s->script);
    for (size_t i = 0; i < s->envlist.count && rc == 0; i++) {
        const char *name = s->envlist.v[i], *value = rg_env_get(env, name);
        if (!value) {
            rc = rg_strv_addf(&request->notes, "--envlist: %s is not set, and left out", name);
            continue;
        }
        rg_buf_printf(&list, "%s%s", rg_buf_nbytes(&list) ? "," : "", name);
        rc = rg_strv_addf(&job->env, "%s=%s", name, value);
    }
    if (rc == 0)
        rc = rg_buf_status(&list);
    if (rc == 0 && rg_buf_nbytes(&list))
        rc = rg_strv_addf(&job->env, "ENVLIST=%s", rg_buf_text(&list));
    return rc;
}

int rg_srundocker_fill(const struct rg_srundocker *s, const struct rg_strv *env,
                       const struct rg_slurm_allocation *step, struct rg_request *request,
                       struct rg_error *err)
{
    struct rg_job *job = &request->job;
    int rc = find_script(s, job, err);

    job->engine = RG_ENGINE_SCRIPT;
    job->start_timeout_ms = s->start_timeout_ms;
    rc = rc < 0 ? rc : copy(&job->title, s->script, err); /* not the shell that runs it */
    /* By this the step's other tasks see the job's agents come and go. */
    if (rc == 0 && rg_env_setf(&job->settings, "announce", "reigen-slurm-%s-%s", step->job_id,
                               step->step_id) < 0)
        rc = rg_error_memory(err);
    rc = rc < 0 ? rc : copy(&job->on, "slurm", err);
    rc = rc < 0 ? rc : add_nodes(s, env, step, job, err);
    rc = rc < 0 ? rc : fill_container(s, request, err);
    if (rc == 0 && (fill_env(s, env, request) < 0 || add_notes(s, step, request) < 0 ||
                    remark_hidden_script(s, env, request) < 0))
        rc = rg_error_memory(err);
    rc = rc < 0 ? rc : rg_request_settle_container(request, err);
    return rc < 0 ? rc : rg_job_check(job, err);
}
