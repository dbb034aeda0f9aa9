/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "launch/place.h"
#include "spec/hostlist.h"

/* --- the folder ------------------------------------------------------------------------------ */

static char *folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && *state == '/')
        return rg_strf("%s/reigen/jobs", state);
    return home && *home == '/' ? rg_strf("%s/.local/state/reigen/jobs", home) : NULL;
}

static char *path_of(const char *id)
{
    rg_autofree char *dir = folder();

    return dir ? rg_strf("%s/%s", dir, id) : NULL;
}

/* --- writing --------------------------------------------------------------------------------- */

static void put(struct rg_buf *text, const char *word, const char *value)
{
    rg_buf_printf(text, "%s ", word);
    for (const char *p = value; *p; p++)
        rg_buf_printf(text, "%c", (unsigned char) *p < ' ' ? ' ' : *p);
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

static bool is_slurms(const struct rg_job *job)
{
    return job->on && strcmp(job->on, "slurm") == 0;
}

/* Slurm's nodes clear up by themselves, and few let ssh in: their jobs leave nothing to remove. */
static int format(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autofree char *launcher = rg_place_launcher(0);
    rg_autobuf struct rg_buf command = RG_BUF_INIT;

    put(text, "launcher", launcher ? launcher : "");
    rg_buf_printf(text, "grace %llu\n", (unsigned long long) job->grace_ms);
    if (job->container.image && !is_slurms(job))
        put(text, "image", job->container.image);
    if (!is_slurms(job))
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
    for (size_t i = 0; i < job->command.count; i++)
        rg_buf_printf(&command, "%s%s", i ? " " : "", job->command.v[i]);
    put(text, "command", rg_buf_text(&command));
    return rg_buf_status(text);
}

/* A launcher on a node, as srun-docker's: `reigen stop` on the login node could not reach it. */
static bool is_scancels(const struct rg_job *job)
{
    return is_slurms(job) && getenv("SLURMD_NODENAME");
}

static bool stays_here(const struct rg_plan *plan, const struct rg_job *job)
{
    bool here = !job->container.image;

    for (int i = 0; here && i < plan->nhosts; i++)
        here = rg_host_is_local(plan->hosts[i].name);
    return here;
}

int rg_registry_add(const struct rg_plan *plan, const struct rg_job *job, char **ret_path)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree char *dir = folder();
    rg_autofree char *path = path_of(plan->job_id);

    *ret_path = NULL;
    if (stays_here(plan, job) || is_scancels(job) || !dir || !path)
        return 0;
    int r = format(plan, job, &text);
    if (r == 0)
        r = rg_mkdir_all(dir, 0700, NULL);
    if (r < 0)
        return r;
    rg_autofree char *fresh = rg_strf("%s/.%s", dir, plan->job_id);
    if (!fresh)
        return -ENOMEM;
    rg_autoclose int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = rg_write_all(fd, rg_buf_bytes(&text), rg_buf_nbytes(&text));
    if (r == 0 && rename(fresh, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(fresh);
    else
        *ret_path = rg_steal_ptr(&path);
    return r;
}

void rg_registry_remove(char *take_path)
{
    if (take_path)
        unlink(take_path);
    free(take_path);
}

void rg_registry_forget(const struct rg_registry_job *job)
{
    rg_registry_remove(path_of(job->id));
}

/* --- reading --------------------------------------------------------------------------------- */

void rg_registry_job_fini(struct rg_registry_job *job)
{
    free(job->id);
    free(job->launcher);
    free(job->image);
    free(job->command);
    rg_strv_fini(&job->ssh);
    rg_strv_fini(&job->hosts);
    *job = (struct rg_registry_job){ 0 };
}

static int take_line(struct rg_registry_job *job, char *take_value, const char *word)
{
    struct rg_strv *list = strcmp(word, "ssh") == 0 ? &job->ssh
                           : strcmp(word, "host") == 0 ? &job->hosts : NULL;
    char **text = strcmp(word, "launcher") == 0 ? &job->launcher
                  : strcmp(word, "image") == 0 ? &job->image
                  : strcmp(word, "command") == 0 ? &job->command : NULL;

    if (!take_value || list)
        return list && take_value ? rg_strv_take(list, take_value) : -ENOMEM;
    if (strcmp(word, "grace") == 0) {
        int64_t ms = 0;
        rg_parse_int("grace", take_value, 0, (int64_t) RG_DURATION_MAX_MS, &ms, NULL);
        job->grace_ms = (uint64_t) ms;
    }
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
    struct rg_registry_job job = { 0 };
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

static int read_job(const char *dir, const char *id, struct rg_registry_job *ret_job)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, id), *text = NULL;
    struct stat st;

    if (!path)
        return -ENOMEM;
    int r = rg_read_file(path, RG_REGISTRY_FILE_MAX, &text, NULL);
    if (r == 0)
        r = rg_registry_parse(text, ret_job);
    if (r < 0)
        return r;
    ret_job->id = strdup(id);
    ret_job->since_s = stat(path, &st) == 0 ? (uint64_t) st.st_mtime : 0;
    if (!ret_job->id)
        rg_registry_job_fini(ret_job);
    return ret_job->id ? 0 : -ENOMEM;
}

static int by_age(const void *a, const void *b)
{
    const struct rg_registry_job *one = a, *two = b;

    return one->since_s != two->since_s ? (one->since_s < two->since_s ? -1 : 1)
                                        : strcmp(one->id, two->id);
}

int rg_registry_list(struct rg_registry *ret_registry)
{
    rg_autofree char *path = folder();
    DIR *dir = path ? opendir(path) : NULL;
    struct rg_registry list = { calloc(RG_REGISTRY_JOBS_MAX, sizeof(*list.jobs)), 0 };
    int r = list.jobs ? 0 : -ENOMEM;

    for (struct dirent *entry; r == 0 && dir && (entry = readdir(dir));) {
        /* Their names go into command lines: nothing but what an id can be. */
        const char *name = entry->d_name;
        if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] ||
            list.count == RG_REGISTRY_JOBS_MAX)
            continue;
        r = read_job(path, name, &list.jobs[list.count]);
        list.count += r == 0;
        r = r == -ENOMEM ? r : 0; /* a job that has just ended, or a file that is not ours */
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

void rg_registry_fini(struct rg_registry *registry)
{
    for (size_t i = 0; i < registry->count; i++)
        rg_registry_job_fini(&registry->jobs[i]);
    free(registry->jobs);
    *registry = (struct rg_registry){ 0 };
}

int rg_registry_launcher(const struct rg_registry_job *job)
{
    char host[256] = "";
    size_t n = strcspn(job->launcher, ":");
    int pid = 0;

    if (gethostname(host, sizeof(host) - 1) < 0 || strlen(host) != n ||
        strncmp(host, job->launcher, n) != 0)
        return -1;
    if (sscanf(job->launcher + n, ":%d:", &pid) != 1 || pid <= 0)
        return 0;
    rg_autofree char *now = rg_place_launcher(pid);
    return now && strcmp(now, job->launcher) == 0 ? pid : 0;
}
