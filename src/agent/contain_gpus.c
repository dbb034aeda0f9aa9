/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "agent/contain.h"
#include "spec/slurm.h"

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
            return rg_error_set_exit(err, EPERM, 77, "--gpus %s: Slurm has not given the GPU %.*s "
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

int rg_contain_limit_gpus(struct rg_contain *contain, struct rg_error *err)
{
    const struct rg_strv env = rg_slurm_environment();
    rg_autostrv struct rg_strv ours = RG_STRV_INIT;
    char **gpus = &contain->container.gpus;
    bool told = false;
    int64_t wanted;
    int r = rg_slurm_gpus(&env, &ours, &told, err);

    if (r < 0 || !told)
        return r;
    size_t count = ours.count;
    if (*gpus && strcmp(*gpus, "all") != 0) {
        /* A number is how many; "0," is a name. */
        if (rg_parse_int("--gpus", *gpus, 1, RG_CONTAIN_GPUS_MAX, &wanted, NULL) < 0)
            return check_named(*gpus, &ours, err);
        if ((size_t) wanted > count)
            return rg_error_set_exit(err, EPERM, 77, "--gpus %s: Slurm has given %zu to this job "
                                     "here", *gpus, count);
        count = (size_t) wanted;
    }
    if (count == 0) {
        free(*gpus);
        *gpus = NULL;
        return 0;
    }
    return join(&ours, count, gpus) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}
