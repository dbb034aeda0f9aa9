/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of the step that asked for ours: the agents' own step has all that the job has here. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/contain/contain.h"
#include "base/fd.h"
#include "base/time.h"
#include "spec/job/slurm.h"

#define ENVIRON_MAX (4u << 20)
#define LATE_MS 3000 /* Slurm starts tasks of one step at about the same time on all nodes */
#define AGAIN_MS 20
#define DIGITS "0123456789"

struct asking {
    char job[40], step[40]; /* NAME=VALUE, as that step's tasks have it */
};

/* The value of name among entries with a NUL behind each; NULL. */
static const char *find_value(const char *text, size_t nbytes, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = text; p < text + nbytes; p += strlen(p) + 1)
        if (strncmp(p, name, n) == 0 && p[n] == '=')
            return p + n + 1;
    return NULL;
}

static bool has_entry(const char *text, size_t nbytes, const char *entry)
{
    for (const char *p = text; p < text + nbytes; p += strlen(p) + 1)
        if (strcmp(p, entry) == 0)
            return true;
    return false;
}

/* Both are lists of the same GPUs: Slurm's own numbers, and the names that programs go by. */
struct gpus {
    char *of_step, *visible; /* visible: NULL where it is not set */
};

static void free_gpus(struct gpus *gpus)
{
    free(gpus->of_step);
    free(gpus->visible);
}

/* Whether the process is one of that step's tasks; then the GPUs that the step has on this node. */
static bool is_task(const struct asking *asking, const char *pid, struct gpus *ret_gpus)
{
    rg_autofree char *path = rg_strf("/proc/%s/environ", pid), *text = NULL;
    size_t nbytes;
    struct stat st;

    if (!path || stat(path, &st) < 0 || st.st_uid != getuid() ||
        rg_read_file(path, ENVIRON_MAX, &text, &nbytes) < 0 ||
        !has_entry(text, nbytes, asking->job) || !has_entry(text, nbytes, asking->step))
        return false;
    const char *gpus = find_value(text, nbytes, "SLURM_STEP_GPUS");
    const char *visible = find_value(text, nbytes, "CUDA_VISIBLE_DEVICES");

    ret_gpus->of_step = strdup(gpus ? gpus : "");
    ret_gpus->visible = visible ? strdup(visible) : NULL;
    return true;
}

static bool find_task(const struct asking *asking, struct gpus *ret_gpus)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool found = false;

    while (dir && !found && (entry = readdir(dir)))
        found = isdigit((unsigned char) entry->d_name[0]) &&
                is_task(asking, entry->d_name, ret_gpus);
    if (dir)
        closedir(dir);
    return found;
}

int rg_contain_step_env(const struct rg_contain *contain, struct rg_strv *ret_env)
{
    struct asking asking = { "SLURM_JOB_ID=", "SLURM_STEP_ID=" };
    rg_cleanup(free_gpus) struct gpus gpus = { NULL, NULL };
    int r = rg_strv_add_all(ret_env, environ);
    const char *job = contain->asking + strlen("reigen-slurm-");
    uint64_t end = rg_now_ns() + LATE_MS * RG_NS_PER_MS;

    if (r < 0 || !rg_env_get(ret_env, "SLURM_STEP_GPUS") ||
        !rg_str_starts(contain->asking, "reigen-slurm-"))
        return r;
    size_t n = strspn(job, DIGITS), m = job[n] == '-' ? strspn(job + n + 1, DIGITS) : 0;
    if (n == 0 || n > 15 || m == 0 || m > 15)
        return r;
    strncat(asking.job, job, n);
    strncat(asking.step, job + n + 1, m);
    while (!find_task(&asking, &gpus) && rg_now_ns() < end)
        rg_sleep_ms(AGAIN_MS);
    /* `srun --gres=none` gets none; a step that does not say what it wants has the job's. */
    if (gpus.of_step)
        r = rg_env_set(ret_env, "SLURM_STEP_GPUS", gpus.of_step);
    return r < 0 || !gpus.visible ? r : rg_env_set(ret_env, "CUDA_VISIBLE_DEVICES", gpus.visible);
}
