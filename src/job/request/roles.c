/* SPDX-License-Identifier: Apache-2.0 */
/* A file with roles says what a job is; what options may still say of it is settled here. */
#include "job/request/roles.h"

#include <string.h>

#include "job/platform.h"
#include "job/options/apply.h"

static int refuse(const struct rg_request *request, const char *what, const char *why,
                  struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%s: %.200s has roles, and %s; leave it out", what,
                        request->config, why);
}

static bool in_containers(const struct rg_job *job)
{
    const char *image = job->container.image;

    return (image && strcmp(image, "none") != 0) || rg_platform_of(job)->own_containers;
}

/* An option of the job's platform, unless the platform has none of this name or it was given. The
 * value NULL: out of memory. */
static int ask(struct rg_request *request, const char *name, const char *value, bool *asked,
               struct rg_error *err)
{
    const struct rg_option *o = rg_option_of(rg_platform_of(&request->job), name);

    if (!o)
        return 0;
    *asked = true;
    if (rg_env_get(&request->job.settings, name))
        return 0;
    return value ? rg_option_apply(o, request, name, value, err) : rg_error_memory(err);
}

/* GPUs are a matter of containers, or of the scheduler. 0 is none, though the file wants some. */
static int settle_gpus(struct rg_request *request, bool *asked, struct rg_error *err)
{
    struct rg_container *container = &request->job.container;
    int64_t n = request->share.gpus;
    rg_autofree char *gres = rg_strf("gpu:%lld", (long long) n);
    bool none = container->gpus && strcmp(container->gpus, "0") == 0;
    bool contained = in_containers(&request->job);

    if (none)
        free(rg_steal_ptr(&container->gpus));
    if (none || n <= 0)
        return 0;
    if (contained && !container->gpus &&
        !(container->gpus = rg_strf("%lld", (long long) n)))
        return rg_error_memory(err);
    *asked |= contained;
    return ask(request, "gres", gres, asked, err);
}

static int settle_rdma(struct rg_request *request, struct rg_error *err)
{
    bool own = rg_platform_of(&request->job)->own_containers;

    if (!request->share.rdma)
        return 0;
    if (!own)
        request->job.container.ibdevices = in_containers(&request->job);
    return own && rg_request_note(request, "%s: it wants RDMA: name the cluster's resource for it "
                                  "by --rdma", request->config) < 0 ? rg_error_memory(err) : 0;
}

static int settle_share(struct rg_request *request, struct rg_error *err)
{
    const struct rg_request_share *share = &request->share;
    rg_autofree char *cpus = rg_strf("%lld", (long long) share->cpus);
    rg_autofree char *memory = rg_strf("%lldMi", (long long) share->memory_mb);
    bool cpu = false, mem = false, gpu = false;
    int r = share->cpus > 0 ? ask(request, "cpu", cpus, &cpu, err) : 0;

    if (r == 0 && share->memory_mb > 0)
        r = ask(request, "memory", memory, &mem, err);
    if (r == 0)
        r = settle_gpus(request, &gpu, err);
    if (r == 0)
        r = settle_rdma(request, err);
    if (r == 0 && !cpu && !mem && rg_request_note(request, "%s: cpus and memory of tasks are not "
                                                  "limited here", request->config) < 0)
        return rg_error_memory(err);
    return r;
}

/* --- on the file's own platform --------------------------------------------------------------- */

static int refuse_own(const struct rg_request *request, const char *what, struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%s: %.200s is %s's own, and is submitted as it is: say that "
                        "in the file", what, request->config,
                        rg_platform_of(&request->job)->title);
}

/* What the tasks are to have and to do stands in the file, and nothing of ours is in them. */
static const char *find_change(const struct rg_request *request)
{
    const struct rg_job *job = &request->job;
    const struct rg_request_share *share = &request->share;
    const char *image = job->container.image;
    const struct { const char *what; bool given; } changes[] = {
        { "--image", image && (!share->image || strcmp(image, share->image) != 0) },
        { "--gpus", job->container.gpus },
        { "--shm-size", job->container.shm_nbytes != share->shm_nbytes },
        { "--ibdevices", job->container.ibdevices },
        { "--cpu", rg_env_get(&job->settings, "cpu") },
        { "--memory", rg_env_get(&job->settings, "memory") },
        { "--rdma", rg_env_get(&job->settings, "rdma") },
        { "--gpus-per-rank", request->gpus_per_rank },
        { "--env", job->env.count != share->nenv },
        { "--share-env", job->share_env.count },
        { "--ranks-per-host", job->ranks_per_host },
        { "--cwd", job->cwd },
        { "--timeout", job->timeout_ms },
        { "--require", job->require.count },
        { "--output-dir", job->output_dir },
        { "--tag-output", job->tag != RG_TAG_AUTO },
        { "--timestamp-output", job->timestamps },
        { "--json", job->json && !job->dry_run },
    };

    for (size_t i = 0; i < rg_array_len(changes); i++) {
        if (changes[i].given)
            return changes[i].what;
    }
    return NULL;
}

/* What the file's reader has to say is of other platforms. */
static int settle_own(struct rg_request *request, struct rg_error *err)
{
    const char *change = find_change(request);

    for (size_t i = 0; i < request->share.nnotes; i++)
        rg_strv_remove(&request->notes, 0);
    return change ? refuse_own(request, change, err) : 0;
}

int rg_roles_settle(struct rg_request *request, int nwords, struct rg_error *err)
{
    struct rg_job *job = &request->job;

    if (nwords > 0)
        return refuse(request, "a command", "each has its own", err);
    if (job->np)
        return refuse(request, "-np", "they say how many tasks there are", err);
    if (job->engine != RG_ENGINE_AUTO)
        return refuse(request, "--engine", "their commands start what they like", err);
    if (job->tf_config)
        return refuse(request, "--tf-config", "their tasks find one another by variables of "
                      "OpenPAI's", err);
    bool own = job->file_text && rg_platform_of(job)->takes_files;
    if (own && settle_own(request, err) < 0)
        return -EINVAL;
    if (!own && request->share.only_there)
        return rg_error_set(err, EINVAL, "%s", request->share.only_there);
    job->np = rg_job_ntasks(job);
    job->engine = RG_ENGINE_SCRIPT;
    job->oversubscribe = true;
    job->ranks_per_host = job->ranks_per_host ? job->ranks_per_host : 1;
    return own ? 0 : settle_share(request, err);
}
