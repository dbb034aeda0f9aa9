/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's daemon knows nothing of Slurm's limits: without this a job would get its neighbours'
 * GPUs. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/contain/contain.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/proctree.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "job/slurm.h"

#define SINFO_MS 5000
#define SMI_MS 10000 /* it may have to wake the driver */
#define LATE_MS 3000 /* Slurm starts tasks of one step at about the same time on all nodes */
#define AGAIN_MS 20
#define DIGITS "0123456789"

/* --- of the step that asked for ours: the agents' own step has all that the job has here ------ */

struct asking {
    char job[40], step[40]; /* NAME=VALUE, as that step's tasks have it */
};

/* Whether the process is one of that step's tasks; its environment. */
static bool is_task(const struct asking *asking, pid_t pid, struct rg_strv *ret_env)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d", (int) pid);
    if (stat(path, &st) == 0 && st.st_uid == getuid() && rg_process_env(pid, ret_env) == 0 &&
        rg_strv_has(ret_env, asking->job) && rg_strv_has(ret_env, asking->step))
        return true;
    rg_strv_fini(ret_env);
    return false;
}

static bool find_task(const struct asking *asking, struct rg_strv *ret_env)
{
    rg_autodir DIR *dir = opendir("/proc");
    bool found = false;

    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = isdigit((unsigned char) entry->d_name[0]) &&
                is_task(asking, (pid_t) atoi(entry->d_name), ret_env);
    return found;
}

/* Our environment, but with the GPUs that the asking step has on this node, as its tasks here know
 * them; ours has all of the job's. 0 or -ENOMEM. */
static int step_env(const struct rg_contain *contain, struct rg_strv *ret_env)
{
    struct asking asking = { "SLURM_JOB_ID=", "SLURM_STEP_ID=" };
    rg_autostrv struct rg_strv task = RG_STRV_INIT;
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
    while (!find_task(&asking, &task) && rg_now_ns() < end)
        rg_sleep_ms(AGAIN_MS);
    if (!task.count)
        return r;
    /* `srun --gres=none` gets none; a step that does not say what it wants has the job's. Both are
     * lists of the same GPUs: Slurm's own numbers, and the names that programs go by. */
    const char *gpus = rg_env_get(&task, "SLURM_STEP_GPUS");
    const char *visible = rg_env_get(&task, "CUDA_VISIBLE_DEVICES");
    r = rg_env_set(ret_env, "SLURM_STEP_GPUS", gpus ? gpus : "");
    return r < 0 || !visible ? r : rg_env_set(ret_env, "CUDA_VISIBLE_DEVICES", visible);
}

/* --- of this job ------------------------------------------------------------------------------ */

static int join(const struct rg_strv *list, size_t count, char **ret_text)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (size_t i = 0; i < count; i++)
        rg_buf_printf(&text, "%s%s", i ? "," : "", list->v[i]);
    if (count == 1) /* for Docker, a lone number is how many */
        rg_buf_printf(&text, ",");
    free(*ret_text);
    *ret_text = rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
    return *ret_text ? 0 : -ENOMEM;
}

/* What one of these variables lists; nothing where it is not set, or is no list. */
static void read_list(const char *name, struct rg_strv *ret_list)
{
    const char *value = getenv(name);
    rg_autofree char *line = value ? rg_strf("%s=%s", name, value) : NULL;
    const struct rg_strv env = { .v = &line, .count = line ? 1 : 0 };
    bool told;

    rg_slurm_gpus(&env, ret_list, &told, NULL);
}

/* The same devices by the numbers in CUDA_VISIBLE_DEVICES, where Slurm counts as the job's
 * processes do, in the order of its own list. */
static int number_own(const struct rg_strv *ours, size_t count, char **ret_text)
{
    rg_autostrv struct rg_strv all = RG_STRV_INIT, own = RG_STRV_INIT, chosen = RG_STRV_INIT;
    int r = 0;

    read_list(getenv("SLURM_STEP_GPUS") ? "SLURM_STEP_GPUS" : "SLURM_JOB_GPUS", &all);
    read_list("CUDA_VISIBLE_DEVICES", &own);
    for (size_t i = 0; all.count == own.count && i < count; i++) {
        for (size_t k = 0; r == 0 && k < all.count; k++) {
            if (strcmp(all.v[k], ours->v[i]) == 0)
                r = rg_strv_add(&chosen, own.v[k]);
        }
    }
    return r == 0 && count > 0 && chosen.count == count ? join(&chosen, count, ret_text) : r;
}

static int split(const char *text, struct rg_strv *list)
{
    int r = 0;

    for (const char *p = text; r == 0 && *p; p += *p == ',') {
        size_t length = strcspn(p, ",");
        r = rg_strv_addf(list, "%.*s", (int) length, p);
        p += length;
    }
    return r;
}

/* --gpus names devices: each must be one of ours. */
static int take_named(struct rg_contain *contain, const struct rg_strv *ours, struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *wanted = contain->container.gpus;
    int r = split(wanted, &names);

    for (size_t i = 0; r == 0 && i < names.count; i++) {
        if (!rg_strv_has(ours, names.v[i]))
            return rg_error_set_exit(err, EPERM, RG_EXIT_NO_PERMISSION,
                                     "--gpus %s: Slurm has not given the GPU %s to this job here",
                                     wanted, names.v[i]);
    }
    if (r == 0)
        r = number_own(&names, names.count, &contain->own_gpus);
    return r < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

/* What a program says, for as long as it may take; false where it fails, or says too much. */
static bool ask(const char *const *argv, unsigned timeout_ms, char said[RG_CONTAIN_SAID_MAX])
{
    return rg_capture(argv, NULL, true, timeout_ms, said, RG_CONTAIN_SAID_MAX) == 0 &&
           strlen(said) + 1 < RG_CONTAIN_SAID_MAX;
}

/* Whether Slurm counts this node's GPUs: then a job that it told of none has none. Without an
 * answer, and on clusters where it does not, what the user says counts. */
static bool slurm_counts(void)
{
    const char *node = getenv("SLURMD_NODENAME");
    rg_autofree char *nodes = rg_strf("--nodes=%s", node ? node : "");
    const char *const argv[] = { "sinfo", "--noheader", nodes, "--format=%G", NULL };
    char said[RG_CONTAIN_SAID_MAX];

    return node && nodes && ask(argv, SINFO_MS, said) && rg_slurm_gres_names_gpus(said);
}

/* Whether Slurm says that it counts no node's GPUs. Where it counts some, those that it does not
 * count may be somebody's. */
static bool slurm_counts_none(void)
{
    const char *const argv[] = { "sinfo", "--noheader", "--all", "--format=%G", NULL };
    char said[RG_CONTAIN_SAID_MAX];

    unsetenv("SINFO_PARTITION"); /* a user's choice of what sinfo shows */
    return ask(argv, SINFO_MS, said) && *said && !rg_slurm_gres_names_gpus(said);
}

static bool node_has_gpus(void)
{
    const char *const argv[] = { "nvidia-smi", "-L", NULL };
    char said[RG_CONTAIN_SAID_MAX];

    return access("/dev/nvidiactl", F_OK) == 0 ||
           (ask(argv, SMI_MS, said) && rg_slurm_smi_gpus(said));
}

/* Slurm does not speak of GPUs: the job has the node's, as it has its other devices. */
static int take_nodes_own(struct rg_contain *contain, struct rg_error *err)
{
    char **gpus = &contain->container.gpus;

    if (*gpus || !node_has_gpus() || !slurm_counts_none())
        return 0;
    *gpus = strdup("all");
    return *gpus ? 0 : rg_error_set(err, ENOMEM, "out of memory");
}

/* The job has none of Slurm's GPUs, whatever the environment brings along. */
static bool has_none(const struct rg_contain *contain, const struct rg_strv *env,
                     const struct rg_strv *chosen)
{
    bool wanted = contain->container.gpus || chosen->count > 0;

    if (rg_env_get(env, "SLURM_STEP_GPUS") || rg_env_get(env, "SLURM_JOB_GPUS") ||
        !(wanted || access("/dev/nvidiactl", F_OK) == 0) || !slurm_counts())
        return false;
    if (wanted)
        rg_contain_say("note Slurm has given this job no GPU; ask for some, as with --gres=gpu:1");
    return true;
}

int rg_contain_limit_gpus(struct rg_contain *contain, struct rg_error *err)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT, ours = RG_STRV_INIT;
    char **gpus = &contain->container.gpus;
    bool told = false;
    int64_t wanted;

    if (step_env(contain, &env) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    int r = rg_slurm_gpus(&env, &ours, &told, err);

    if (r < 0)
        return r;
    bool none = has_none(contain, &env, &ours);
    if (!told && !none)
        return take_nodes_own(contain, err);
    if (none)
        rg_strv_fini(&ours);
    size_t count = ours.count;
    if (*gpus && strcmp(*gpus, "all") != 0) {
        /* A number is how many; "0," is a name. */
        if (rg_parse_int("--gpus", *gpus, 1, RG_CONTAIN_GPUS_MAX, &wanted, NULL) < 0)
            return take_named(contain, &ours, err);
        if ((size_t) wanted > count)
            return rg_error_set_exit(err, EPERM, RG_EXIT_NO_PERMISSION,
                                     "--gpus %s: Slurm has given %zu to this job "
                                     "here", *gpus, count);
        count = (size_t) wanted;
    }
    if (count == 0) {
        free(*gpus);
        *gpus = NULL;
        contain->host.no_gpus = true;
        return 0;
    }
    r = number_own(&ours, count, &contain->own_gpus);
    return r < 0 || join(&ours, count, gpus) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}
