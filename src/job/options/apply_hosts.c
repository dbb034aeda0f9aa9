/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the options about hosts: containers there, with the rules over several of these
 * options, networks between them, and what they must have. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "job/options/apply.h"
#include "job/engine.h"
#include "job/platform.h"
#include "job/require.h"

#define APPLY(name)                                                                      \
    int rg_apply_##name(struct rg_request *request, const char *what, const char *value, \
                        struct rg_error *err)
#define UNUSED(x) ((void) (x))

APPLY(image)
{
    /* The runtime would read it as one of its own options. */
    if (*value == '-')
        return rg_error_set(err, EINVAL, "%s %s: an image's name does not begin with '-'", what,
                            value);
    return rg_parse_text(what, value, &request->job.container.image, err);
}

APPLY(container_runtime)
{
    static const char *const words[] = { "docker", "podman", "apptainer", "singularity", "enroot",
                                         "pyxis", "none", NULL };
    int i = rg_apply_choice(what, value, words, err);

    return i < 0 ? i : rg_parse_text(what, value, &request->job.container.runtime, err);
}

/* A path that is not absolute is the caller's; a bare name is a volume of the runtime. */
APPLY(mount)
{
    rg_autofree char *source = NULL, *target = NULL, *cwd = NULL, *absolute = NULL;
    bool read_only;

    if (*value == '.' && (cwd = getcwd(NULL, 0)))
        absolute = rg_strf("%s/%s", cwd, value);
    if (absolute)
        value = absolute;
    int rc = rg_container_split_mount(value, &source, &target, &read_only, err);

    if (rc < 0)
        return rg_error_prepend(err, "%s", what);
    if (*source != '/' && strchr(source, '/'))
        return rg_error_set(err, EINVAL, "%s %s: write ./%s for a directory of yours", what, value,
                            source);
    if (request->job.container.mounts.count >= RG_CONTAINER_LISTED_MAX)
        return rg_error_set(err, E2BIG, "%s: more than %d of them", what, RG_CONTAINER_LISTED_MAX);
    return rg_strv_add(&request->job.container.mounts, value) < 0 ? rg_error_memory(err) : 0;
}

/* Also as docker has it: '"device=0,1"', with quotes of its own. Its "device=1" is ours "1,". */
APPLY(gpus)
{
    bool quoted = value[0] == '"';
    const char *first = value + quoted;
    bool named = rg_str_starts(first, "device=") && strchr(first, '=') == strrchr(first, '=');
    size_t skipped = named ? strlen("device=") : 0, n = strlen(first);
    size_t length = n - skipped - (quoted && n && first[n - 1] == '"');
    rg_autofree char *plain = rg_strf("%.*s%s", (int) length, first + skipped,
                                      named && !strchr(first, ',') ? "," : "");

    if (!plain)
        return rg_error_memory(err);
    if (plain[strspn(plain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,=:-")])
        return rg_error_set(err, EINVAL, "%s %s: give all, a number of GPUs, or GPU-... names "
                            "separated by commas", what, value);
    return rg_parse_text(what, plain, &request->job.container.gpus, err);
}

/* The agents read it there (agent/ranks/gpus.h); a job's environment may say it, too. */
#define GPUS_PER_RANK "REIGEN_GPUS_PER_RANK"

APPLY(gpus_per_rank)
{
    int64_t n = RG_GPUS_EVENLY;

    if (strcmp(value, "all") != 0 && rg_parse_int(what, value, 1, RG_JOB_SLOTS_MAX, &n, NULL) < 0)
        return rg_error_set(err, EINVAL, "%s %s: give the number of GPUs of each rank, or all, "
                            "which divides those of a host evenly", what, value);
    request->gpus_per_rank = (int) n;
    return 0;
}

APPLY(pull)
{
    static const char *const words[] = { "missing", "always", "never" };

    for (size_t i = 0; i < rg_array_len(words); i++) {
        if (strcmp(words[i], value) == 0) {
            request->job.container.pull = (enum rg_pull) i;
            return 0;
        }
    }
    return rg_error_set(err, EINVAL, "%s %s: give missing, always or never", what, value);
}

APPLY(inject_runtime)
{
    UNUSED(what), UNUSED(err);
    request->job.container.inject = strcmp(value, "true") == 0 ? RG_INJECT_YES : RG_INJECT_NO;
    return 0;
}

APPLY(no_inject_runtime)
{
    UNUSED(what), UNUSED(err), UNUSED(value);
    request->job.container.inject = RG_INJECT_NO;
    return 0;
}

/* An option that only a container could heed, or NULL. */
static const char *needs_image(const struct rg_container *container)
{
    if (container->mounts.count)
        return "--mount";
    if (container->options.count)
        return "--container-option";
    if (container->shm_nbytes)
        return "--shm-size";
    if (container->gpus)
        return "--gpus";
    if (container->network)
        return "--network";
    if (container->user)
        return "--user";
    if (container->privileged)
        return "--privileged";
    return container->ibdevices ? "--ibdevices" : NULL;
}

/* Where a host gets its GPUs as the job asks for them, they follow from those of a rank, or its
 * ranks from them. */
static int settle_own_gpus(struct rg_job *job, int each, struct rg_error *err)
{
    struct rg_container *container = &job->container;
    int64_t ngpus;

    if (each == RG_GPUS_EVENLY && !container->gpus)
        return rg_error_set(err, EINVAL, "--gpus-per-rank all: how many GPUs is a host to have? "
                            "say so by --gpus N, too");
    if (!container->gpus) {
        int nranks = job->ranks_per_host ? job->ranks_per_host : 1;
        container->gpus = rg_strf("%lld", (long long) each * nranks);
        job->ranks_per_host = nranks;
        return container->gpus ? 0 : rg_error_memory(err);
    }
    if (each == RG_GPUS_EVENLY ||
        rg_parse_int("--gpus", container->gpus, 1, RG_JOB_SLOTS_MAX, &ngpus, NULL) < 0)
        return 0; /* the platform judges it */
    if ((int64_t) each * (job->ranks_per_host ? job->ranks_per_host : 1) > ngpus)
        return rg_error_set(err, EINVAL, "--gpus-per-rank %d: %d rank%s on each host, which is "
                            "to have %lld by --gpus; ask for more there, or for fewer here",
                            each, job->ranks_per_host ? job->ranks_per_host : 1,
                            job->ranks_per_host > 1 ? "s" : "", (long long) ngpus);
    if (!job->ranks_per_host)
        job->ranks_per_host = (int) (ngpus / each);
    return 0;
}

/* Whether Slurm is asked for GPUs already, or not asked at all, as this is in an allocation. */
static bool has_gres(const struct rg_job *job)
{
    rg_autostrv struct rg_strv options = RG_STRV_INIT;
    bool asks = rg_env_get(&job->settings, "gres") || getenv("SLURM_JOB_ID");

    rg_job_settings(job, "slurm-option", &options);
    for (size_t i = 0; i < options.count; i++)
        asks |= strstr(options.v[i], "gpu") || strstr(options.v[i], "gres");
    return asks;
}

/* Slurm gives a job no GPU that it does not ask for. */
static int settle_gres(struct rg_request *request, struct rg_error *err)
{
    const struct rg_option *o = rg_platform_of(&request->job)->options;
    int nranks = request->job.ranks_per_host, each = request->gpus_per_rank;

    while (o && o->name && strcmp(o->name, "gres") != 0)
        o++;
    if (!o || !o->name || each == RG_GPUS_EVENLY || !nranks || has_gres(&request->job))
        return 0;
    rg_autofree char *gres = rg_strf("gpu:%lld", (long long) each * nranks);
    return gres ? rg_option_apply(o, request, "--gres", gres, err) : rg_error_memory(err);
}

static int settle_gpus_per_rank(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    const char *given = rg_env_get(&job->env, GPUS_PER_RANK);

    if (given && !request->gpus_per_rank &&
        rg_apply_gpus_per_rank(request, GPUS_PER_RANK, given, err) < 0)
        return -EINVAL;
    if (!request->gpus_per_rank)
        return 0;
    rg_autofree char *text = request->gpus_per_rank == RG_GPUS_EVENLY
                                 ? strdup("all") : rg_strf("%d", request->gpus_per_rank);
    if (!text || rg_env_set(&job->env, GPUS_PER_RANK, text) < 0)
        return rg_error_memory(err);
    if (rg_job_has_engine(job))
        return rg_error_set(err, EINVAL, "--gpus-per-rank %s: an MPI's own mpirun starts the ranks "
                            "here, and all see all GPUs; leave it out, or take --engine native",
                            text);
    if (rg_platform_of(job)->own_containers && rg_platform_of(job)->away)
        return settle_own_gpus(job, request->gpus_per_rank, err);
    if (job->container.image && !job->container.gpus &&
        !(job->container.gpus = strdup("all")))
        return rg_error_memory(err);
    return settle_gres(request, err);
}

int rg_request_settle_container(struct rg_request *request, struct rg_error *err)
{
    struct rg_container *container = &request->job.container;
    bool none = (container->runtime && strcmp(container->runtime, "none") == 0) ||
                (container->image && strcmp(container->image, "none") == 0);
    const char *useless = needs_image(container);

    /* One job file, with and without containers: what they need is left alone then. */
    if (none) {
        free(rg_steal_ptr(&container->image));
        return settle_gpus_per_rank(request, err);
    }
    const struct rg_platform *own = rg_platform_of(&request->job);
    if (!container->image && useless && !own->own_containers)
        return rg_error_set(err, EINVAL, "%s: there is no container; name its image with --image%s",
                            useless, strcmp(useless, "--gpus") == 0
                            ? ", or divide the GPUs of hosts among their ranks: --gpus-per-rank"
                            : "");
    for (const struct rg_platform *const *p = rg_platforms(); container->image && *p; p++) {
        if (*p != own && (*p)->runtime && container->runtime &&
            strcmp((*p)->runtime, container->runtime) == 0)
            return rg_error_set(err, EINVAL, "--container-runtime %s is %s's; say --on %s, too",
                                (*p)->runtime, (*p)->title, (*p)->name);
    }
    return settle_gpus_per_rank(request, err);
}

/* --- networks, and what hosts must have ------------------------------------------------------- */

/* Each item of a list with commas. 0 or the first that is not. */
static int for_each(const char *what, const char *value, struct rg_strv *list,
                    int (*check)(const char *what, const char *item, struct rg_error *err),
                    struct rg_error *err)
{
    for (const char *p = value;; p++) {
        size_t n = strcspn(p, ",");
        rg_autofree char *item = strndup(p, n);
        int rc = item ? check(what, item, err) : -ENOMEM;
        if (rc == 0)
            rc = rg_strv_add(list, item);
        if (rc == -ENOMEM)
            return rg_error_memory(err);
        p += n;
        if (rc < 0 || !*p)
            return rc;
    }
}

/* No interface has a slash in its name. */
static bool is_broken_network(const char *text)
{
    char address[INET6_ADDRSTRLEN] = "";
    size_t length = strcspn(text, "/");
    uint8_t bytes[16];
    int64_t prefix;

    if (!text[length])
        return false;
    if (length >= sizeof(address))
        return true;
    memcpy(address, text, length);
    bool six = strchr(address, ':') != NULL;
    return inet_pton(six ? AF_INET6 : AF_INET, address, bytes) != 1 ||
           rg_parse_int("prefix", text + length + 1, 0, six ? 128 : 32, &prefix, NULL) < 0;
}

static int check_interface(const char *what, const char *item, struct rg_error *err)
{
    const char *name = strchr(item, '=');

    if (!*item || name == item || (name && !name[1]) || is_broken_network(name ? name + 1 : item))
        return rg_error_set(err, EINVAL,
                            "%s %s: write NAME or a network such as 10.0.0.0/8, for one host "
                            "HOST=NAME", what, item);
    return 0;
}

APPLY(network_interface)
{
    return for_each(what, value, &request->job.network_interfaces, check_interface, err);
}

APPLY(port_range)
{
    return rg_job_set_ports(&request->job, what, value, err);
}

static int check_requirement(const char *what, const char *item, struct rg_error *err)
{
    struct rg_requirement requirement;

    return rg_requirement_parse(what, item, &requirement, err);
}

APPLY(require)
{
    return for_each(what, value, &request->job.require, check_requirement, err);
}
