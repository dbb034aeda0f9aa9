/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's daemon knows nothing of Slurm's limits: without this a job would get its neighbours'
 * GPUs. */
#include <stdlib.h>
#include <string.h>

#include "agent/contain/contain.h"
#include "base/exitcode.h"
#include "spec/job/slurm.h"

#define SINFO_MS 5000
#define SMI_MS 10000 /* it may have to wake the driver */

static bool has(const struct rg_strv *list, const char *name, size_t length)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strlen(list->v[i]) == length && strncmp(list->v[i], name, length) == 0)
            return true;
    }
    return false;
}

/* --gpus names devices: each must be one of ours. */
static int check_named(const char *wanted, const struct rg_strv *ours, struct rg_error *err)
{
    for (const char *p = wanted; *p; p += *p == ',') {
        size_t length = strcspn(p, ",");
        if (!has(ours, p, length))
            return rg_error_set_exit(err, EPERM, RG_EXIT_NO_PERMISSION,
                                     "--gpus %s: Slurm has not given the GPU %.*s "
                                     "to this job here", wanted, (int) length, p);
        p += length;
    }
    return 0;
}

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

static int take_named(struct rg_contain *contain, const struct rg_strv *ours, struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *wanted = contain->container.gpus;
    int r = check_named(wanted, ours, err);

    if (r < 0)
        return r;
    r = split(wanted, &names);
    r = r ? r : number_own(&names, names.count, &contain->own_gpus);
    return r < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

/* What a program says, for as long as it may take; false where it fails, or says too much. */
static bool ask(char *const *words, size_t count, unsigned timeout_ms,
                struct rg_contain_child *child)
{
    const struct rg_strv argv = { .v = (char **) words, .count = count };

    return rg_contain_spawn(child, &argv, true, NULL) == 0 &&
           rg_contain_wait(child, timeout_ms) == 0 && child->nsaid < RG_CONTAIN_SAID_MAX;
}

/* Whether Slurm counts this node's GPUs: then a job that it told of none has none. Without an
 * answer, and on clusters where it does not, what the user says counts. */
static bool slurm_counts(void)
{
    const char *node = getenv("SLURMD_NODENAME");
    rg_autofree char *nodes = rg_strf("--nodes=%s", node ? node : "");
    char *words[] = { (char *) "sinfo", (char *) "--noheader", nodes, (char *) "--format=%G",
                      NULL };
    struct rg_contain_child child;

    return node && nodes && ask(words, rg_array_len(words) - 1, SINFO_MS, &child) &&
           rg_slurm_gres_names_gpus(child.said);
}

/* Whether Slurm says that it counts no node's GPUs. Where it counts some, those that it does not
 * count may be somebody's. */
static bool slurm_counts_none(void)
{
    char *words[] = { (char *) "sinfo", (char *) "--noheader", (char *) "--all",
                      (char *) "--format=%G", NULL };
    struct rg_contain_child child;

    unsetenv("SINFO_PARTITION"); /* a user's choice of what sinfo shows */
    return ask(words, rg_array_len(words) - 1, SINFO_MS, &child) && child.nsaid > 0 &&
           !rg_slurm_gres_names_gpus(child.said);
}

static bool node_has_gpus(void)
{
    char *words[] = { (char *) "nvidia-smi", (char *) "-L", NULL };
    struct rg_contain_child child;

    return access("/dev/nvidiactl", F_OK) == 0 ||
           (ask(words, rg_array_len(words) - 1, SMI_MS, &child) && rg_slurm_smi_gpus(child.said));
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

    if (rg_contain_step_env(contain, &env) < 0)
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
