/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm tells an allocation by variables that abbreviate hosts, tasks and GPUs; this reads them. */
#include "job/slurm.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>


#define DIGITS "0123456789"
#define DIGITS_MAX 9 /* of one number; fits in an int */
/* Steps with numbers from here on are none of srun's: batch, interactive, extern, pending. */
#define STEP_SPECIAL 0xfffffff0u

struct rg_strv rg_slurm_environment(void)
{
    struct rg_strv env = { .v = environ };

    while (environ && environ[env.count])
        env.count++;
    return env;
}

/* --- lists of nodes -------------------------------------------------------------------------- */

/* A number of at most DIGITS_MAX digits behind zeros; text moves behind it. How many digits; 0: it
 * is none. */
static size_t take_number(const char **text, int *ret_n)
{
    size_t n = strspn(*text, DIGITS);

    if (n == 0 || n - strspn(*text, "0") > DIGITS_MAX)
        return 0;
    *ret_n = atoi(*text);
    *text += n;
    return n;
}

int rg_slurm_range(const char **text, int *ret_first, int *ret_last, int *ret_width)
{
    *ret_width = (int) take_number(text, ret_first);
    if (!*ret_width)
        return -EINVAL;
    *ret_last = *ret_first;
    if (**text == '-' && (++*text, !take_number(text, ret_last)))
        return -EINVAL;
    return *ret_last < *ret_first ? -EINVAL : 0;
}

/* Append prefix with each number of "1-3,7]"; text moves behind the bracket. */
static int unfold(const char *prefix, const char **text, struct rg_strv *names)
{
    int rc = 0;

    for (;;) {
        int first, last, width;
        if (rg_slurm_range(text, &first, &last, &width) < 0 || width > DIGITS_MAX)
            return -EINVAL;
        if ((size_t) (last - first) >= RG_SLURM_NODES_MAX)
            return -E2BIG;
        for (int i = first; i <= last && rc == 0; i++)
            rc = names->count < RG_SLURM_NODES_MAX
                     ? rg_strv_addf(names, "%s%0*d", prefix, width, i)
                     : -E2BIG;
        if (rc < 0)
            return rc;
        if (**text == ']')
            return ++*text, 0;
        if (*(*text)++ != ',')
            return -EINVAL;
    }
}

/* Replace each name by itself with what the next bracket or run of plain text adds. */
static int extend(const char **text, struct rg_strv *names)
{
    rg_autostrv struct rg_strv longer = RG_STRV_INIT;
    size_t n = strcspn(*text, "[,]");
    const char *rest = *text;
    int rc = n > RG_HOST_NAME_MAX ? -EINVAL : 0;

    for (size_t i = 0; i < names->count && rc == 0; i++) {
        rest = *text;
        if (*rest == '[') {
            rest++;
            rc = unfold(names->v[i], &rest, &longer);
        } else {
            rc = rg_strv_addf(&longer, "%s%.*s", names->v[i], (int) n, rest);
            rest += n;
        }
    }
    *text = rest;
    struct rg_strv old = *names;

    *names = longer;
    longer = old;
    return rc;
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > RG_HOST_NAME_MAX || name[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char) name[i]) && !strchr("-_.:", name[i]))
            return false;
    return true;
}

/* One item between two commas that stand outside of brackets. */
static int parse_item(const char **text, struct rg_strv *ret_names)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    int rc = rg_strv_add(&names, "");

    while (rc == 0 && **text && **text != ',') {
        if (**text == ']' || strlen(names.v[0]) > RG_HOST_NAME_MAX)
            return -EINVAL;
        rc = extend(text, &names);
    }
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        if (!is_name(names.v[i]))
            rc = -EINVAL;
        else if (ret_names->count >= RG_SLURM_NODES_MAX)
            rc = -E2BIG;
        else
            rc = rg_strv_add(ret_names, names.v[i]);
    }
    return rc;
}

int rg_slurm_nodes(const char *what, const char *text, struct rg_strv *ret_names,
                   struct rg_error *err)
{
    const char *rest = text;
    int rc;

    while ((rc = parse_item(&rest, ret_names)) == 0 && *rest == ',')
        rest++;
    if (rc == -EINVAL)
        return rg_error_set(err, EINVAL,
                            "%s: \"%.200s\" is not a list of nodes; write for example n1,n[3-5,08]",
                            what, text);
    if (rc == -E2BIG)
        return rg_error_set(err, E2BIG, "%s: \"%.200s\" has more than %d nodes", what, text,
                            RG_SLURM_NODES_MAX);
    return rc < 0 ? rg_error_set(err, -rc, "out of memory") : 0;
}

/* --- layouts --------------------------------------------------------------------------------- */

/* "4" or "1(x2)". */
static int parse_count(const char **text, int *ret_count, int *ret_times)
{
    *ret_times = 1;
    if (!take_number(text, ret_count))
        return -EINVAL;
    if (strncmp(*text, "(x", 2) == 0) {
        *text += 2;
        if (!take_number(text, ret_times) || *(*text)++ != ')')
            return -EINVAL;
    }
    return *ret_count >= 1 && *ret_count <= RG_JOB_RANKS_MAX && *ret_times ? 0 : -EINVAL;
}

int rg_slurm_counts(const char *what, const char *text, size_t nnodes, int *ret_counts,
                    struct rg_error *err)
{
    rg_autofree int *counts = calloc(nnodes ? nnodes : 1, sizeof *counts);
    bool single = text[strspn(text, DIGITS)] == '\0';
    const char *rest = text;
    size_t done = 0;
    int count, times;

    if (!counts)
        return rg_error_memory(err);
    do {
        if (parse_count(&rest, &count, &times) < 0 || (*rest && *rest != ','))
            return rg_error_set(err, EINVAL,
                                "%s: \"%.200s\" is not a layout such as \"4,1(x2)\"", what, text);
        if (single)
            times = (int) nnodes;
        if ((size_t) times > nnodes - done)
            break;
        for (int i = 0; i < times; i++)
            counts[done++] = count;
    } while (*rest++);
    if (done != nnodes || rest[-1])
        return rg_error_set(err, EINVAL, "%s: \"%.200s\" is not for %zu node%s", what, text, nnodes,
                            nnodes == 1 ? "" : "s");
    memcpy(ret_counts, counts, nnodes * sizeof *counts);
    return 0;
}

/* --- ports ----------------------------------------------------------------------------------- */

int rg_slurm_conf_ports(const char *text, struct rg_ports *ret_ports)
{
    static const char key[] = "SrunPortRange";
    int rc = -ENOENT;

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char value[32];
        line += strspn(line, " \t");
        if (strncasecmp(line, key, sizeof key - 1) != 0)
            continue;
        const char *p = line + sizeof key - 1;
        p += strspn(p, " \t");
        if (*p != '=')
            continue;
        p += 1 + strspn(p + 1, " \t");
        snprintf(value, sizeof value, "%.*s", (int) strcspn(p, " \t\r\n#"), p);
        rc = rg_parse_ports(key, value, ret_ports, NULL);
    }
    return rc;
}

int rg_slurm_kill_wait_s(const char *text)
{
    static const char key[] = "\nKillWait";
    const char *line = strstr(text, key);
    int seconds = 0;

    if (line && sscanf(line + sizeof(key) - 1, " = %d", &seconds) == 1 && seconds > 0)
        return seconds;
    return 0;
}

/* --- GPUs ------------------------------------------------------------------------------------ */

/* The words that mean no GPU where a list is expected. */
static bool is_none(const char *text)
{
    return !*text || strcmp(text, "-1") == 0 || strcmp(text, "none") == 0 ||
           strcmp(text, "void") == 0 || strcmp(text, "NoDevFiles") == 0;
}

/* "GPU-8c1b...", "MIG-GPU-8c1b.../1/0", or the part of a device, "0:1". */
static bool is_device(const char *text)
{
    static const char rest[] = DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:/";
    size_t n = strlen(text), digits = strspn(text, DIGITS);

    if (digits)
        return text[digits] == ':' && strspn(text + digits + 1, DIGITS) == n - digits - 1 &&
               n > digits + 1 && n <= 2 * DIGITS_MAX;
    return isalpha((unsigned char) *text) && strchr(text, '-') && n <= RG_HOST_NAME_MAX &&
           strspn(text, rest) == n;
}

/* "0,2" or "GPU-8c1b...,GPU-..." , and Slurm's own "0-3". */
static int parse_gpus(const char *name, const char *text, struct rg_strv *gpus,
                      struct rg_error *err)
{
    rg_autofree char *copy = strdup(text);
    char *rest = copy, *item;
    int rc = copy ? 0 : -ENOMEM;

    if (is_none(text))
        return 0;
    while (rc == 0 && (item = strsep(&rest, ","))) {
        const char *range = item;
        int first, last, width;
        if (rg_slurm_range(&range, &first, &last, &width) == 0 && !*range &&
            last - first < RG_JOB_SLOTS_MAX) {
            for (int i = first; i <= last && rc == 0; i++)
                rc = rg_strv_addf(gpus, "%d", i);
        } else {
            rc = is_device(item) ? rg_strv_add(gpus, item) : -EINVAL;
        }
        if (gpus->count > RG_JOB_SLOTS_MAX)
            rc = -EINVAL;
    }
    if (rc == -EINVAL)
        return rg_error_set(err, EINVAL,
                            "%s: \"%.200s\" is not a list of GPUs; write for example %s=0,1", name,
                            text, name);
    return rc < 0 ? rg_error_set(err, -rc, "out of memory") : 0;
}

/* Whether a device, or the whole that it is a part of ("0" of "0:1"), is one of these. */
static bool is_among(const struct rg_strv *given, const char *device)
{
    size_t digits = strspn(device, DIGITS);
    rg_autofree char *whole = strndup(device, digits);

    return rg_strv_has(given, device) ||
           (device[digits] == ':' && whole && rg_strv_has(given, whole));
}

/* What the user chose must lie within what Slurm gave, by the names that it has told. */
static int check_choice(const char *name, const struct rg_strv *given, const struct rg_strv *chosen,
                        struct rg_error *err)
{
    for (size_t i = 0; i < chosen->count; i++)
        if (!is_among(given, chosen->v[i]))
            return rg_error_set(err, EINVAL,
                                "%s asks for GPU %s, which Slurm did not give this job; it gave "
                                "%zu GPU%s: ask for more with --gres, choose among those in "
                                "SLURM_STEP_GPUS or SLURM_JOB_GPUS, or unset %s",
                                name, chosen->v[i], given->count, given->count == 1 ? "" : "s",
                                name);
    return 0;
}

/* Parts of GPUs (MIG) are numbered by Slurm in a way of its own: which ones these are stands in
 * CUDA_VISIBLE_DEVICES, in the same order. */
static int name_parts(const struct rg_strv *env, struct rg_strv *given)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *value = rg_env_get(env, "CUDA_VISIBLE_DEVICES");
    int rc = value ? parse_gpus("CUDA_VISIBLE_DEVICES", value, &names, NULL) : 0;
    size_t nparts = 0;

    for (size_t i = 0; i < names.count; i++)
        nparts += rg_str_starts(names.v[i], "MIG-");
    if (rc < 0 || nparts != given->count || nparts != names.count)
        return rc == -ENOMEM ? rc : 0;
    struct rg_strv numbers = *given;

    *given = names;
    names = numbers;
    return 0;
}

int rg_slurm_gpus(const struct rg_strv *env, struct rg_strv *ret_gpus, bool *ret_told,
                  struct rg_error *err)
{
    static const char *const of_slurm[] = { "SLURM_STEP_GPUS", "SLURM_JOB_GPUS" };
    static const char *const chosen_by[] = { "NV_GPU", "NVIDIA_VISIBLE_DEVICES",
                                             "CUDA_VISIBLE_DEVICES" };
    rg_autostrv struct rg_strv given = RG_STRV_INIT;
    rg_autostrv struct rg_strv chosen = RG_STRV_INIT;
    const char *value = NULL, *choice = NULL;
    size_t i;
    int rc = 0;

    for (i = 0; i < rg_array_len(of_slurm) && !value; i++)
        if ((value = rg_env_get(env, of_slurm[i])))
            rc = parse_gpus(of_slurm[i], value, &given, err);
    if (value && rc == 0 && name_parts(env, &given) < 0)
        rc = rg_error_memory(err);
    /* Beside SLURM_*, CUDA_VISIBLE_DEVICES is Slurm's own and may count from 0 in each job. */
    for (i = 0; i < (value ? 2 : 3) && !choice && rc == 0; i++) {
        choice = rg_env_get(env, chosen_by[i]);
        if (choice && strcmp(choice, "all") == 0)
            choice = NULL;
        if (choice)
            rc = parse_gpus(chosen_by[i], choice, &chosen, err);
        if (choice && value && rc == 0)
            rc = check_choice(chosen_by[i], &given, &chosen, err);
    }
    if (rc == 0 && rg_strv_add_all(ret_gpus, choice ? chosen.v : given.v) < 0)
        rc = rg_error_memory(err);
    if (rc == 0)
        *ret_told = value || choice;
    return rc;
}

/* What stands behind the last colon, if it is a number; else it is one. */
static int count_of(const char *item, size_t n)
{
    size_t digits = 0;

    while (digits < n && isdigit((unsigned char) item[n - 1 - digits]))
        digits++;
    if (!digits || digits > DIGITS_MAX || digits == n || !strchr(":=", item[n - 1 - digits]))
        return 1;
    return atoi(item + n - digits);
}

int rg_slurm_gres_gpus(const char *text)
{
    int total = 0;

    for (const char *item = text; *item && total < RG_JOB_SLOTS_MAX;) {
        const char *name = item + (rg_str_starts(item, "gres:") || rg_str_starts(item, "gres/")
                                       ? 5 : 0);
        size_t n = strcspn(name, ",(\n");
        int count = rg_str_starts(name, "gpu") && strchr(":=,(\n", name[3]) ? count_of(name, n) : 0;
        total += count < RG_JOB_SLOTS_MAX - total ? count : RG_JOB_SLOTS_MAX - total;
        item = name + n;
        if (*item == '(') /* sockets, which may be a list too */
            item += strcspn(item, ")\n");
        item += strcspn(item, ",\n");
        item += *item != '\0';
    }
    return total;
}

bool rg_slurm_gres_names_gpus(const char *text)
{
    for (const char *item = text; *item; item += strcspn(item, ",\n"), item += *item != '\0') {
        if (rg_str_starts(item, "gpu") && (!item[3] || strchr(":=,(\n", item[3])))
            return true;
    }
    return false;
}

int rg_slurm_smi_gpus(const char *text)
{
    int total = 0;

    for (const char *line = text; *line && total < RG_JOB_SLOTS_MAX;) {
        total += rg_str_starts(line, "GPU ");
        line += strcspn(line, "\n");
        line += *line != '\0';
    }
    return total;
}

/* --- the allocation -------------------------------------------------------------------------- */

void rg_slurm_allocation_fini(struct rg_slurm_allocation *allocation)
{
    for (size_t i = 0; i < allocation->nnodes; i++)
        free(allocation->nodes[i].name);
    free(allocation->nodes);
    free(allocation->job_id);
    free(allocation->step_id);
    free(allocation->node);
    rg_strv_fini(&allocation->group_ids);
    rg_strv_fini(&allocation->gpus);
    *allocation = (struct rg_slurm_allocation){ 0 };
}

static bool is_number(const char *text)
{
    size_t n = text ? strspn(text, DIGITS) : 0;

    return n > 0 && n <= 10 && !text[n];
}

/* Older names are still set by some versions. */
static const char *job_id(const struct rg_strv *env)
{
    const char *id = rg_env_get(env, "SLURM_JOB_ID");

    return id ? id : rg_env_get(env, "SLURM_JOBID");
}

bool rg_slurm_in_job(const struct rg_strv *env)
{
    return is_number(job_id(env));
}

static const char *step_id(const struct rg_strv *env)
{
    const char *id = rg_env_get(env, "SLURM_STEP_ID");

    id = id ? id : rg_env_get(env, "SLURM_STEPID");
    return is_number(id) && strtoull(id, NULL, 10) < STEP_SPECIAL ? id : NULL;
}

bool rg_slurm_in_step(const struct rg_strv *env)
{
    return rg_slurm_in_job(env) && step_id(env) && rg_env_get(env, "SLURM_PROCID");
}

/* A number that need not be there: then *ret_n stays. */
static int read_number(const struct rg_strv *env, const char *name, int min, int *ret_n,
                       struct rg_error *err)
{
    const char *text = rg_env_get(env, name);
    int64_t n;
    int rc = text && *text ? rg_parse_int(name, text, min, INT32_MAX, &n, err) : -ENOENT;

    if (rc == 0)
        *ret_n = (int) n;
    return rc == -ENOENT ? 0 : rc;
}

struct names {
    const char *const *nodes, *const *tasks, *const *cpus; /* each ended by NULL, best first */
};

static const struct names names_of[] = {
    [RG_SLURM_JOB] = { (const char *const[]){ "SLURM_JOB_NODELIST", "SLURM_NODELIST", NULL },
                       (const char *const[]){ "SLURM_TASKS_PER_NODE", NULL },
                       (const char *const[]){ "SLURM_JOB_CPUS_PER_NODE", NULL } },
    [RG_SLURM_STEP] = { (const char *const[]){ "SLURM_STEP_NODELIST", "SLURM_NODELIST", NULL },
                        (const char *const[]){ "SLURM_STEP_TASKS_PER_NODE",
                                               "SLURM_TASKS_PER_NODE", NULL },
                        (const char *const[]){ NULL } },
};

/* The first of the names that is there, with the component's suffix. */
static const char *find(const struct rg_strv *env, const char *const *names, const char *suffix,
                        char *ret_name, size_t size)
{
    const char *value = NULL;

    for (size_t i = 0; names[i] && !value; i++) {
        snprintf(ret_name, size, "%s%s", names[i], suffix);
        value = rg_env_get(env, ret_name);
    }
    return value;
}

static int add_nodes(struct rg_slurm_allocation *a, const struct rg_strv *names, int group,
                     struct rg_error *err)
{
    struct rg_slurm_node *nodes;

    if (a->nnodes + names->count > RG_SLURM_NODES_MAX)
        return rg_error_set(err, E2BIG, "the job has more than %d nodes", RG_SLURM_NODES_MAX);
    nodes = reallocarray(a->nodes, a->nnodes + names->count, sizeof *nodes);
    if (!nodes)
        return rg_error_memory(err);
    a->nodes = nodes;
    for (size_t i = 0; i < names->count; i++) {
        nodes[a->nnodes] = (struct rg_slurm_node){ .name = strdup(names->v[i]), .group = group };
        if (!nodes[a->nnodes++].name)
            return rg_error_memory(err);
    }
    return 0;
}

/* The numbers of one variable for nnodes nodes; NULL when it is not there. */
static int read_counts(const struct rg_strv *env, const char *const *names, const char *suffix,
                       size_t nnodes, int **ret_counts, struct rg_error *err)
{
    char name[96];
    const char *text = find(env, names, suffix, name, sizeof name);

    if (!text || !*text)
        return 0;
    *ret_counts = calloc(nnodes, sizeof **ret_counts);
    if (!*ret_counts)
        return rg_error_memory(err);
    return rg_slurm_counts(name, text, nnodes, *ret_counts, err);
}

/* The nodes of one component, with their layout. */
static int read_group(const struct rg_strv *env, enum rg_slurm_scope scope, int group,
                      const char *suffix, struct rg_slurm_allocation *a, struct rg_error *err)
{
    rg_autostrv struct rg_strv nodes = RG_STRV_INIT;
    rg_autofree int *tasks = NULL, *cpus = NULL;
    const struct names *names = &names_of[scope];
    size_t first = a->nnodes;
    char name[96];
    const char *text = find(env, names->nodes, suffix, name, sizeof name);
    int rc;

    if (!text || !*text)
        return rg_error_set(err, EINVAL,
                            "%s is not set although SLURM_JOB_ID is; run this from salloc, sbatch "
                            "or srun, with the environment that they give", name);
    rc = rg_slurm_nodes(name, text, &nodes, err);
    rc = rc < 0 ? rc : add_nodes(a, &nodes, group, err);
    rc = rc < 0 ? rc : read_counts(env, names->tasks, suffix, nodes.count, &tasks, err);
    rc = rc < 0 ? rc : read_counts(env, names->cpus, suffix, nodes.count, &cpus, err);
    for (size_t i = 0; rc == 0 && i < nodes.count; i++) {
        a->nodes[first + i].ntasks = tasks ? tasks[i] : 0;
        a->nodes[first + i].ncpus = cpus ? cpus[i] : 0;
    }
    return rc;
}

/* A step's variables tell no CPUs: those the job has on the same nodes. */
static int read_cpus_of_step(const struct rg_strv *env, struct rg_slurm_allocation *a,
                             struct rg_error *err)
{
    rg_autostrv struct rg_strv nodes = RG_STRV_INIT;
    rg_autofree int *cpus = NULL;
    const char *text = rg_env_get(env, "SLURM_JOB_NODELIST");
    int rc = text ? rg_slurm_nodes("SLURM_JOB_NODELIST", text, &nodes, err) : 0;

    rc = rc < 0 || !text ? rc : read_counts(env, names_of[RG_SLURM_JOB].cpus, "", nodes.count,
                                            &cpus, err);
    /* Both in Slurm's order, so that the search goes on where it last found one. */
    for (size_t i = 0, k = 0; rc == 0 && cpus && i < a->nnodes; i++)
        for (size_t tries = 0; tries < nodes.count; tries++, k = (k + 1) % nodes.count)
            if (strcmp(nodes.v[k], a->nodes[i].name) == 0) {
                a->nodes[i].ncpus = cpus[k];
                break;
            }
    return rc;
}

static int read_component_id(const struct rg_strv *env, int group, struct rg_slurm_allocation *a,
                             struct rg_error *err)
{
    char name[64];

    snprintf(name, sizeof name, "SLURM_JOB_ID_HET_GROUP_%d", group);
    const char *id = rg_env_get(env, name);

    if (!is_number(id))
        return rg_error_set(err, EINVAL, "%s: \"%.40s\" is not a job's number", name,
                            id ? id : "");
    return rg_strv_add(&a->group_ids, id) < 0 ? rg_error_memory(err) : 0;
}

/* A step's nodes stand in one list, whatever their components. */
static int read_components_of_step(const struct rg_strv *env, int ngroups,
                                   struct rg_slurm_allocation *a, struct rg_error *err)
{
    int rc = 0;

    for (int g = 0; g < ngroups && rc == 0; g++) {
        rg_autostrv struct rg_strv nodes = RG_STRV_INIT;
        char name[64];
        snprintf(name, sizeof name, "SLURM_JOB_NODELIST_HET_GROUP_%d", g);
        const char *text = rg_env_get(env, name);
        rc = read_component_id(env, g, a, err);
        rc = rc < 0 || !text ? rc : rg_slurm_nodes(name, text, &nodes, err);
        for (size_t i = 0; rc == 0 && i < a->nnodes; i++)
            if (rg_strv_has(&nodes, a->nodes[i].name))
                a->nodes[i].group = g;
    }
    return rc;
}

static int read_groups(const struct rg_strv *env, enum rg_slurm_scope scope,
                       struct rg_slurm_allocation *a, struct rg_error *err)
{
    int ngroups = 0;
    int rc = read_number(env, "SLURM_HET_SIZE", 1, &ngroups, err);

    if (rc < 0)
        return rc;
    if (ngroups > RG_SLURM_GROUPS_MAX)
        return rg_error_set(err, E2BIG, "SLURM_HET_SIZE %d: more than %d components", ngroups,
                            RG_SLURM_GROUPS_MAX);
    if (scope == RG_SLURM_STEP || !ngroups) {
        rc = read_group(env, scope, 0, "", a, err);
        if (rc == 0 && scope == RG_SLURM_STEP)
            rc = read_cpus_of_step(env, a, err);
        return rc < 0 ? rc : read_components_of_step(env, ngroups, a, err);
    }
    for (int i = 0; i < ngroups && rc == 0; i++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "_HET_GROUP_%d", i);
        rc = read_group(env, scope, i, suffix, a, err);
        rc = rc < 0 ? rc : read_component_id(env, i, a, err);
    }
    return rc;
}

static int read_ids(const struct rg_strv *env, struct rg_slurm_allocation *a, struct rg_error *err)
{
    const char *step = rg_slurm_in_step(env) ? step_id(env) : NULL;
    const char *node = rg_env_get(env, "SLURMD_NODENAME");

    a->job_id = strdup(job_id(env));
    a->step_id = step ? strdup(step) : NULL;
    a->node = node && is_name(node) ? strdup(node) : NULL;
    a->procid = a->localid = a->nodeid = -1;
    a->cpus_per_task = 1;
    a->tasks_asked = rg_env_get(env, "SLURM_NTASKS") || rg_env_get(env, "SLURM_NTASKS_PER_NODE");
    if (!a->job_id || (step && !a->step_id))
        return rg_error_memory(err);
    int rc = read_number(env, "SLURM_CPUS_PER_TASK", 1, &a->cpus_per_task, err);

    rc = rc < 0 ? rc : read_number(env, "SLURM_NTASKS", 1, &a->ntasks, err);
    rc = rc < 0 || !step ? rc : read_number(env, "SLURM_PROCID", 0, &a->procid, err);
    rc = rc < 0 || !step ? rc : read_number(env, "SLURM_LOCALID", 0, &a->localid, err);
    return rc < 0 || !step ? rc : read_number(env, "SLURM_NODEID", 0, &a->nodeid, err);
}

static int read_gpus(const struct rg_strv *env, struct rg_slurm_allocation *a, struct rg_error *err)
{
    bool told = false;
    int rc = rg_slurm_gpus(env, &a->gpus, &told, err);

    a->gpus_per_node = (int) a->gpus.count;
    if (rc < 0 || told)
        return rc;
    return read_number(env, "SLURM_GPUS_ON_NODE", 0, &a->gpus_per_node, err);
}

int rg_slurm_allocation_read(const struct rg_strv *env, enum rg_slurm_scope scope,
                             struct rg_slurm_allocation *ret_allocation, struct rg_error *err)
{
    struct rg_slurm_allocation a = { 0 };

    if (!rg_slurm_in_job(env))
        return rg_error_set(err, ENOENT,
                            "this is not run by Slurm (SLURM_JOB_ID is not set); get nodes first: "
                            "salloc -N 2, or sbatch");
    if (scope == RG_SLURM_STEP && !rg_slurm_in_step(env))
        return rg_error_set(err, ENOENT,
                            "this is not a task of a Slurm step (SLURM_STEP_ID and SLURM_PROCID "
                            "are not set); put srun before it");
    int rc = read_ids(env, &a, err);

    rc = rc < 0 ? rc : read_groups(env, scope, &a, err);
    rc = rc < 0 ? rc : read_gpus(env, &a, err);
    if (rc < 0) {
        rg_slurm_allocation_fini(&a);
        return rc;
    }
    *ret_allocation = a;
    return 0;
}

/* --- GPUs that differ from node to node ------------------------------------------------------- */

static bool asks_as_a_whole(const char *text)
{
    static const char *const names[] = { "TresPerJob=", "TresPerTask=", "TresPerSocket=" };

    for (size_t i = 0; i < rg_array_len(names); i++) {
        const char *value = strstr(text, names[i]);
        size_t length = value ? strcspn(value, " \n") : 0;
        if (value && memmem(value, length, "gpu", 3))
            return true;
    }
    return false;
}

/* "Nodes=node[1-2] CPU_IDs=0 Mem=0 GRES=gpu:3(IDX:0-2)": true, with the names and the number. */
static bool read_share(char *line, struct rg_strv *ret_names, int *ret_ngpus)
{
    char *nodes = line + strspn(line, " \t"), *gres = strstr(nodes, " GRES=");

    if (!rg_str_starts(nodes, "Nodes="))
        return false;
    nodes += strlen("Nodes=");
    nodes[strcspn(nodes, " ")] = '\0';
    *ret_ngpus = gres ? rg_slurm_gres_gpus(gres + strlen(" GRES=")) : 0;
    return rg_slurm_nodes("Nodes", nodes, ret_names, NULL) == 0;
}

/* Names stand in the order of the nodes, so that the search goes on where it last found one. */
static size_t put_share(const struct rg_slurm_allocation *a, const struct rg_strv *names,
                        int ngpus, size_t k, int *counts)
{
    for (size_t i = 0; i < names->count; i++) {
        for (size_t tries = 0; tries < a->nnodes; tries++, k = (k + 1) % a->nnodes) {
            if (strcmp(a->nodes[k].name, names->v[i]) != 0)
                continue;
            counts[k] = ngpus;
            break;
        }
    }
    return k;
}

bool rg_slurm_spread_gpus(struct rg_slurm_allocation *allocation, const char *text)
{
    rg_autofree char *copy = strdup(text);
    rg_autofree int *counts = calloc(allocation->nnodes + 1, sizeof *counts);
    size_t k = 0;
    int ngpus;

    if (!copy || !counts || !asks_as_a_whole(text))
        return false;
    for (size_t i = 0; i < allocation->nnodes; i++)
        counts[i] = -1;
    for (char *line, *rest = copy; (line = strsep(&rest, "\n"));) {
        rg_autostrv struct rg_strv names = RG_STRV_INIT;
        if (read_share(line, &names, &ngpus))
            k = put_share(allocation, &names, ngpus, k, counts);
    }
    for (size_t i = 0; i < allocation->nnodes; i++) {
        if (counts[i] < 0)
            return false;
    }
    for (size_t i = 0; i < allocation->nnodes; i++)
        allocation->nodes[i].ngpus = counts[i];
    allocation->gpus_by_node = true;
    return true;
}

int rg_slurm_slots(const struct rg_slurm_allocation *allocation, enum rg_slurm_scope scope,
                   size_t i)
{
    const struct rg_slurm_node *node = &allocation->nodes[i];
    int n = 0;

    if (scope == RG_SLURM_JOB && allocation->tasks_asked)
        n = node->ntasks;
    if (!n)
        n = allocation->gpus_by_node ? node->ngpus : allocation->gpus_per_node;
    if (!n)
        n = node->ncpus / allocation->cpus_per_task;
    return n < 1 ? 1 : n > RG_JOB_SLOTS_MAX ? RG_JOB_SLOTS_MAX : n;
}
