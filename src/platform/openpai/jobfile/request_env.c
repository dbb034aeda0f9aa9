/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of OpenPAI's users look for its variables; both generations set the old names, too. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/openpai/jobfile/request_internal.h"

/* A list of variables that is being filled; the first error stays. */
struct filler {
    struct rg_strv *env;
    int status;
};

static void put(struct filler *f, const char *name, const char *value)
{
    if (f->status == 0)
        f->status = rg_env_set(f->env, name, value ? value : "");
}

static void put_number(struct filler *f, const char *name, int64_t n)
{
    char text[24] = "";

    if (n != RG_PAI_NONE)
        snprintf(text, sizeof text, "%lld", (long long) n);
    put(f, name, text);
}

/* One for a role: its name ends with the role's. */
static void put_of(struct filler *f, const char *prefix, const char *role, int64_t n)
{
    rg_autofree char *name = rg_strf("%s%s", prefix, role);

    if (name)
        put_number(f, name, n);
    else
        f->status = -ENOMEM;
}

/* A rule's number as the server writes it: "none" is null in v1, and below 0 in v2. */
static int64_t rule(const struct rg_pai_run *run, int64_t n)
{
    return n == RG_PAI_NONE && run->from->version == 2 ? -1 : n;
}

static void put_resource(struct filler *f, const char *name, const struct rg_pai_role *role)
{
    int64_t shm = role->shm_mb == RG_PAI_NONE ? RG_PAI_SHM_V2 : role->shm_mb;
    rg_autofree char *value = rg_strf("%lld,%lld,%lld,%lld", (long long) role->gpu,
                                      (long long) role->cpu, (long long) role->memory_mb,
                                      (long long) shm);

    if (!name || !value)
        f->status = -ENOMEM;
    else
        put(f, name, value);
}

/* --- of all tasks ----------------------------------------------------------------------------- */

static const char *user_name(void)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user ? user->pw_name : getenv("USER");

    return name && *name ? name : "user";
}

static void put_names(struct filler *f, const struct rg_pai_run *run)
{
    const char *user = user_name();
    rg_autofree char *job = rg_strf("%s~%s", user, run->from->name);
    bool v1 = run->from->version == 1;

    put(f, "PAI_JOB_NAME", job);
    put(f, v1 ? "FRAMEWORK_NAME" : "PAI_FRAMEWORK_NAME", job);
    if (v1)
        put(f, "HADOOP_USER_NAME", user);
    put(f, "PAI_USER_NAME", user);
    put(f, "PAI_USERNAME", user);
    put(f, "PAI_DEFAULT_FS_URI", "");
    if (!v1 && run->from->cluster)
        put(f, "PAI_VIRTUAL_CLUSTER", run->from->cluster);
    put(f, "PAI_DATA_DIR", json_string_value(json_object_get(run->from->rest, "dataDir")));
    put(f, "PAI_OUTPUT_DIR", json_string_value(json_object_get(run->from->rest, "outputDir")));
    put(f, "PAI_CODE_DIR", json_string_value(json_object_get(run->from->rest, "codeDir")));
}

static void put_lists(struct filler *f, const struct rg_pai_run *run)
{
    rg_autobuf struct rg_buf roles = RG_BUF_INIT, tasks = RG_BUF_INIT;
    const struct rg_pai *from = run->from;
    int64_t ntasks = 0;

    for (size_t i = 0; i < from->nroles; i++) {
        const struct rg_pai_role *role = &from->roles[i];
        rg_buf_printf(&roles, "%s%s", i ? "," : "", role->name);
        for (int64_t k = 0; k < role->tasks && k < RG_JOB_RANKS_MAX; k++)
            rg_buf_printf(&tasks, "%s%s:%lld", i || k ? "," : "", role->name, (long long) k);
        put_of(f, "PAI_TASK_ROLE_TASK_COUNT_", role->name, role->tasks);
        ntasks += role->tasks;
    }
    put(f, "PAI_TASK_ROLE_LIST", rg_buf_text(&roles));
    put(f, "PAI_JOB_TASK_ROLE_LIST", rg_buf_text(&roles));
    if (from->version == 2)
        put(f, "PAI_TASK_ROLE_INSTANCES", rg_buf_text(&tasks));
    put_number(f, "PAI_TASK_ROLE_COUNT", (int64_t) from->nroles);
    put_number(f, "PAI_TASK_ROLES_NUM", (int64_t) from->nroles);
    put_number(f, "PAI_JOB_TASK_ROLE_COUNT", (int64_t) from->nroles);
    put_number(f, "PAI_TASKS_NUM", ntasks);
    put_number(f, "PAI_JOB_TASK_COUNT", ntasks);
    if (rg_buf_status(&roles) < 0 || rg_buf_status(&tasks) < 0)
        f->status = -ENOMEM;
}

/* Protocol v2 tells every task of all roles; v1 of its own alone. */
static void put_rules(struct filler *f, const struct rg_pai_run *run,
                      const struct rg_pai_role *role)
{
    rg_autofree char *resource = rg_strf("PAI_RESOURCE_%s", role->name);

    put_of(f, "PAI_MIN_FAILED_TASK_COUNT_", role->name, rule(run, role->min_failed));
    put_of(f, "PAI_MIN_SUCCEEDED_TASK_COUNT_", role->name, rule(run, role->min_succeeded));
    put_resource(f, run->from->version == 2 ? resource : "PAI_RESOURCE", role);
}

int rg_pai_job_env(struct rg_pai_run *run)
{
    struct filler f = { &run->request->job.env, 0 };
    const char *name;
    json_t *value;

    put_names(&f, run);
    put_lists(&f, run);
    for (size_t i = 0; run->from->version == 2 && i < run->from->nroles; i++)
        put_rules(&f, run, &run->from->roles[i]);
    if (run->from->version == 2)
        return f.status;
    json_object_foreach(run->from->env, name, value) {
        rg_autofree char *text = rg_pai_value_text(value);
        if (strcmp(name, RG_PAI_RDMA) != 0 && text && !strchr(name, '='))
            put(&f, name, text);
    }
    return f.status;
}

/* --- of a role's tasks ------------------------------------------------------------------------ */

int rg_pai_role_env(struct rg_pai_run *run, const struct rg_pai_role *from, struct rg_role *role)
{
    struct filler f = { &role->env, 0 };
    int64_t shm = from->shm_mb == RG_PAI_NONE ? RG_PAI_SHM_V2 : from->shm_mb;

    put(&f, "PAI_CURRENT_TASK_ROLE_NAME", from->name);
    put(&f, "PAI_TASK_ROLE_NAME", from->name);
    put_number(&f, "PAI_TASK_ROLE_NUM", from->tasks);
    put_number(&f, "PAI_TASK_CPU_NUM", from->cpu);
    put_number(&f, "PAI_TASK_MEM_MB", from->memory_mb);
    put_number(&f, "PAI_TASK_GPU_NUM", from->gpu);
    put_number(&f, "PAI_CURRENT_TASK_ROLE_TASK_COUNT", from->tasks);
    put_number(&f, "PAI_CURRENT_TASK_ROLE_CPU_COUNT", from->cpu);
    put_number(&f, "PAI_CURRENT_TASK_ROLE_MEM_MB", from->memory_mb);
    put_number(&f, "PAI_CURRENT_TASK_ROLE_GPU_COUNT", from->gpu);
    put_number(&f, "PAI_CURRENT_TASK_ROLE_SHM_MB", shm);
    put_number(&f, "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT", rule(run, from->min_failed));
    put_number(&f, "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT",
               rule(run, from->min_succeeded));
    if (run->from->version == 1)
        put_rules(&f, run, from);
    return f.status;
}
