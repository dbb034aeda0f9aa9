/* SPDX-License-Identifier: Apache-2.0 */
/* Options of --on openpai, and what of a job's wishes a task can have. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/outside/internal.h"
#include "platform/openpai/jobfile/prologue.h"

#define MIB (1024u * 1024u)
#define CPU_MAX 1024
#define MEMORY_PER_RANK_MB 4096
#define RDMA_V1 "paiAzRDMA"
#define RDMA_V2 "infiniband"

/* --- one value each --------------------------------------------------------------------------- */

#define JUDGE(name) \
    static int judge_##name(const char *what, const char *value, struct rg_error *err)

JUDGE(cpu)
{
    int64_t n;

    if (rg_parse_int(what, value, 1, CPU_MAX, &n, NULL) == 0)
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: on OpenPAI give the number of cpus of each task, "
                        "1 to %d", what, value, CPU_MAX);
}

/* "8g", and as Kubernetes writes it: "8Gi". */
static int parse_memory(const char *what, const char *value, uint64_t *ret_mb,
                        struct rg_error *err)
{
    rg_autofree char *text = strdup(value);
    size_t n = text ? strlen(text) : 0;
    uint64_t nbytes;

    if (n > 1 && text[n - 1] == 'i')
        text[n - 1] = '\0';
    int r = text ? rg_parse_size(what, text, &nbytes, NULL) : -ENOMEM;
    if (r < 0)
        return rg_error_set(err, -r, "%s %.80s: not a size; give for example 512m or 8Gi", what,
                            value);
    *ret_mb = (nbytes + MIB - 1) / MIB;
    return 0;
}

JUDGE(memory)
{
    uint64_t mb;

    return parse_memory(what, value, &mb, err);
}

JUDGE(rdma)
{
    if (rg_str_has_word(RDMA_V1 " " RDMA_V2, value))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: OpenPAI knows %s (protocol v2) and %s (API v1); "
                        "--ibdevices is the one that the server has", what, value, RDMA_V2,
                        RDMA_V1);
}

JUDGE(pai_version)
{
    if (rg_str_has_word("v1 v2", value))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: give v1 or v2", what, value);
}

JUDGE(agent_url)
{
    (void) what;
    return rg_pai_agent_source_check(&(struct rg_pai_agent_source){ .url = value }, err);
}

JUDGE(agent_path)
{
    (void) what;
    return rg_pai_agent_source_check(&(struct rg_pai_agent_source){ .path = value }, err);
}

#define PAI "With --on openpai: "
#define ROW(name, arg, by, help, ...)                                                            \
    { name, NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, arg, NULL, NULL, PAI help, .judge = by,   \
      ##__VA_ARGS__ }

const struct rg_option pai_options[] = {
    ROW("pai-server", "URL", NULL,
        "the address of OpenPAI, such as https://pai.example.org; the default is "
        "REIGEN_PAI_SERVER.", .variable = "REIGEN_PAI_SERVER"),
    ROW("pai-user", "NAME", NULL, "who you are there; the default is REIGEN_PAI_USER.",
        .variable = "REIGEN_PAI_USER"),
    { "pai-version", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "VERSION", NULL, "v1 v2",
      PAI "write a job of API v1 or of protocol v2. The default is what the server takes.",
      .judge = judge_pai_version },
    ROW("virtual-cluster", "NAME", NULL,
        "the virtual cluster to run in; the default is the server's."),
    ROW("name", "NAME", rg_submitted_name_check, "the name of the job."),
    ROW("cpu", "N", judge_cpu, "the cpus of each task; the default is one for each rank."),
    ROW("memory", "SIZE", judge_memory,
        "the memory of each task, such as 16Gi; the default is 4 GiB for each rank."),
    ROW("rdma", "RESOURCE", judge_rdma,
        "infiniband, or paiAzRDMA with API v1: the same as --ibdevices."),
    ROW("agent-url", "URL#sha256=DIGEST", judge_agent_url,
        "tasks fetch reigen-agent from there, and check it. The default is the image's."),
    ROW("agent-path", "PATH", judge_agent_path,
        "tasks find reigen-agent at this path, as on a storage that OpenPAI mounts."),
    { NULL },
};

/* --- what they come to ------------------------------------------------------------------------ */

int pai_version_of(const struct rg_job *job)
{
    const char *version = pai_option(job, "pai-version");

    return version ? version[1] - '0' : 0;
}

int pai_rdma_of(const struct rg_job *job, int version, struct rg_error *err)
{
    const char *rdma = pai_option(job, "rdma"), *has = version == 1 ? RDMA_V1 : RDMA_V2;

    if (rdma && strcmp(rdma, has) != 0)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--rdma %s: this server takes %s, which has %s instead", rdma,
                                 version == 1 ? "API v1" : "protocol v2", has);
    return rdma || job->container.ibdevices;
}

/* How many GPUs each task is to have. */
static int gpus_of(const struct rg_job *job, int64_t *ret_ngpus, struct rg_error *err)
{
    const char *gpus = job->container.gpus;

    *ret_ngpus = 0;
    if (gpus && rg_parse_int("--gpus", gpus, 0, RG_JOB_SLOTS_MAX, ret_ngpus, NULL) < 0)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--gpus %s: on OpenPAI give the number of GPUs of each task",
                                 gpus);
    return 0;
}

/* Each task has a rank for each GPU, unless another number is said. */
static int slots_of(const struct rg_job *job, int64_t ngpus)
{
    return job->ranks_per_host ? job->ranks_per_host : ngpus ? (int) ngpus : 1;
}

int pai_wants_of(const struct rg_job *job, struct pai_wants *ret_wants, struct rg_error *err)
{
    const char *cpu = pai_option(job, "cpu"), *memory = pai_option(job, "memory");
    struct pai_wants wants = { .cpu = 1 };
    uint64_t mb;

    if (gpus_of(job, &wants.gpu, err) < 0)
        return -EINVAL;
    int nranks = slots_of(job, wants.gpu);
    wants.cpu = nranks;
    mb = (uint64_t) nranks * MEMORY_PER_RANK_MB;
    if ((cpu && rg_parse_int("--cpu", cpu, 1, CPU_MAX, &wants.cpu, err) < 0) ||
        (memory && parse_memory("--memory", memory, &mb, err) < 0)) {
        err->exit_code = RG_EXIT_USAGE;
        return -EINVAL;
    }
    wants.memory_mb = (int64_t) mb;
    uint64_t shm = job->container.shm_nbytes;
    wants.shm_mb = shm ? (int64_t) ((shm + MIB - 1) / MIB) : wants.memory_mb / 2;
    if (wants.shm_mb > wants.memory_mb)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--shm-size of %lld MiB: OpenPAI counts it as memory, of which a "
                                 "task has %lld MiB: give more with --memory",
                                 (long long) wants.shm_mb, (long long) wants.memory_mb);
    *ret_wants = wants;
    return 0;
}

/* --- rules over several options --------------------------------------------------------------- */

static int refuse(const char *what, const char *remedy, struct rg_error *err)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s: not on OpenPAI; %s", what, remedy);
}

/* What a container there cannot have. */
static int check_container(const struct rg_container *container, struct rg_error *err)
{
    if (!container->image)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--on openpai: name the tasks' image with --image");
    if (container->mounts.count)
        return refuse("--mount", "it mounts nothing of yours: put it into the image, or on a "
                      "storage that the cluster mounts", err);
    if (container->options.count)
        return refuse("--container-option", "it starts containers in its own way", err);
    if (container->network && strcmp(container->network, "host") != 0)
        return refuse("--network", "all tasks are in their node's network", err);
    if (container->user)
        return refuse("--user", "all tasks run as root", err);
    if (container->privileged)
        return refuse("--privileged", "no task may have that", err);
    if (container->runtime)
        return refuse("--container-runtime", "the nodes have their own", err);
    if (container->pull != RG_PULL_MISSING)
        return refuse("--pull", "a node fetches an image when it wants to: give the image a new "
                      "tag", err);
    if (container->inject == RG_INJECT_YES)
        return refuse("--inject-runtime", "nothing can be brought along: install Reigen's "
                      "packages in the image", err);
    return 0;
}

static int check_wishes(const struct rg_job *job, struct rg_error *err)
{
    if (job->nhosts)
        return refuse("-H", "it chooses the nodes: say which will do by --virtual-cluster", err);
    if (job->stdin_mode == RG_STDIN_ALL || (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank))
        return refuse("--stdin", "a job there has no standard input: put what it is to read into "
                      "the image", err);
    if (job->ports.first && job->ports.first == job->ports.last)
        return refuse("--port-range of a single port", "the ranks of a node need several", err);
    if (job->pty)
        return refuse("--pty", "no terminal leads there", err);
    if (pai_option(job, "agent-url") && pai_option(job, "agent-path"))
        return refuse("--agent-url with --agent-path", "give one of them", err);
    return check_container(&job->container, err);
}

static int make_name(struct rg_job *job, struct rg_error *err)
{
    char text[RG_SUBMITTED_ID_MAX];

    if (pai_option(job, "name"))
        return 0;
    int r = rg_submitted_name_make(text, err);
    return r < 0 ? r : rg_env_set(&job->settings, "name", text) < 0 ? rg_error_memory(err) : 0;
}

int pai_discover(void *held, struct rg_job *job, struct rg_error *err)
{
    struct pai_wants wants = { .cpu = 1 };
    int r = check_wishes(job, err);

    (void) held;
    if (job->file_text)
        return r < 0 ? r : pai_own_discover(job, err);
    r = r < 0 ? r : pai_wants_of(job, &wants, err);
    r = r < 0 ? r : make_name(job, err);
    int nslots = slots_of(job, wants.gpu);
    int64_t room = rg_job_room(job), nhosts = room ? (room + nslots - 1) / nslots : 1;
    for (int i = 0; r == 0 && i < nhosts; i++) {
        char name[PAI_HOST_MAX];
        snprintf(name, sizeof(name), "%s-%d", i ? PAI_WORKER : PAI_MASTER, i ? i - 1 : 0);
        r = rg_job_add_host(job, name, nslots, err);
    }
    return r;
}
