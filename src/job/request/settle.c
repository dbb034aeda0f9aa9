/* SPDX-License-Identifier: Apache-2.0 */
/* Rules over several options. */
#include "job/request/settle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "job/config/config.h"
#include "job/engine.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/options/metrics.h"
#include "job/request/programs.h"
#include "job/platform.h"

/* The agents read it there (agent/ranks/gpus.h); a job's environment may say it, too. */
#define GPUS_PER_RANK "REIGEN_GPUS_PER_RANK"

/* A variable to hand on that the caller does not have: mpirun warns and goes on, and so do we; a
 * secret that is missing would fail the job later and less clearly. */
int rg_request_check_caller_env(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;

    for (size_t i = job->env.count; i-- > 0;) {
        const char *name = job->env.v[i];
        if (strchr(name, '=') || getenv(name))
            continue;
        if (rg_strv_addf(&request->notes, "--env %s: not set here, so nothing is handed on", name) <
            0)
            return rg_error_memory(err);
        rg_strv_remove(&job->env, i);
    }
    for (size_t i = 0; i < job->share_env.count; i++) {
        if (!getenv(job->share_env.v[i]))
            return rg_error_set(err, EINVAL, "--share-env %s: not set here; export it first",
                                job->share_env.v[i]);
    }
    return 0;
}

/* --- the user's configuration ----------------------------------------------------------------- */

int rg_request_configure(struct rg_request *request, struct rg_error *err)
{
    RG_AUTO_CONFIG struct rg_config config = RG_CONFIG_INIT;
    int profile, rc = request->configured ? rg_config_read(&config, err) : 1;

    if (rc == 0)
        rc = rg_config_choose(&config, request->profile, &profile, err);
    if (rc == 0)
        rc = rg_config_apply(&config, profile, request, err);
    if (config.denied)
        request->denied = rg_steal_ptr(&config.path);
    return rc < 0 ? rc : 0;
}

/* Options of other platforms. */
static void drop_settings(struct rg_request *request)
{
    struct rg_strv *settings = &request->job.settings;
    const struct rg_platform *own = rg_platform_of(&request->job);

    for (size_t i = 0; i < request->usual.count; i++) {
        const char *name = request->usual.v[i];
        while (!rg_option_of(own, name) && rg_env_get(settings, name))
            rg_env_unset(settings, name);
    }
}

/* The launcher does not see the job's end. */
static bool ends_elsewhere(const struct rg_request *request, const struct rg_platform *own)
{
    return own->away || request->job.submit || request->write_plan;
}

/* --debug-rank has said itself who gets the terminal. */
static bool is_usual(const struct rg_request *request, const char *name)
{
    bool debugs = request->debugs && (strcmp(name, "pty") == 0 || strcmp(name, "stdin") == 0);

    return !debugs && rg_strv_has(&request->usual, name);
}

/* There is no terminal, or somebody else has it now. */
static void drop_streams(struct rg_request *request, const struct rg_platform *own)
{
    struct rg_job *job = &request->job;
    bool reads = job->stdin_mode != RG_STDIN_RANK || job->stdin_rank;
    bool elastic = job->elastic.min_np || job->elastic.max_np || job->elastic.spares;

    if (is_usual(request, "json") && !is_usual(request, "pty"))
        job->json = job->json && !job->pty;
    if (is_usual(request, "stdin") &&
        (own->away || job->detach || (job->pty && !is_usual(request, "pty")))) {
        job->stdin_mode = RG_STDIN_RANK;
        job->stdin_rank = 0;
    }
    if (is_usual(request, "pty") &&
        (ends_elsewhere(request, own) || elastic || job->detach ||
         (job->json && !is_usual(request, "json")) || (reads && !is_usual(request, "stdin"))))
        job->pty = false;
}

/* What Reigen's own agents do, as long as the launcher is there. */
static void drop_agents(struct rg_request *request, const struct rg_platform *own)
{
    struct rg_job *job = &request->job;

    if (!ends_elsewhere(request, own) && !rg_job_has_engine(job))
        return;
    if (is_usual(request, "chaos"))
        free(rg_steal_ptr(&job->chaos));
}

/* What takes jobs to run them later lets go of them, too. A job that is to read keys stays. */
static void settle_detach(struct rg_request *request, const struct rg_platform *own)
{
    struct rg_job *job = &request->job;
    bool reads = rg_job_reads(job) && !is_usual(request, "stdin");

    if (is_usual(request, "detach") && (reads || (job->pty && !is_usual(request, "pty"))))
        job->detach = false;
    if (!job->detach || !own->queues)
        return;
    job->submit = true;
    job->detach = false;
}

void rg_request_settle_usual(struct rg_request *request)
{
    struct rg_job *job = &request->job;
    const struct rg_platform *own = rg_platform_of(job);

    drop_settings(request);
    if (rg_strv_has(&request->usual, "submit"))
        job->submit = job->submit && own->queues;
    settle_detach(request, own);
    if (is_usual(request, "notify") && ends_elsewhere(request, own))
        free(rg_steal_ptr(&job->notify));
    if (is_usual(request, "metrics") && ends_elsewhere(request, own))
        free(rg_steal_ptr(&job->metrics));
    if (is_usual(request, "record") && own->away)
        free(rg_steal_ptr(&job->record));
    if (is_usual(request, "sync") &&
        (ends_elsewhere(request, own) || rg_job_has_engine(job) || job->nroles))
        free(rg_steal_ptr(&job->sync));
    drop_streams(request, own);
    drop_agents(request, own);
    /* The platform that is named now has hosts of its own. */
    if (request->usual_hosts.count && !rg_config_hosts_count(request))
        rg_request_drop_hosts(request);
}

int rg_request_settle_debug(struct rg_request *request, struct rg_error *err)
{
    /* The runtime's limits that have no "never" are a day then. */
    static const char *const variables[] = { "HOROVOD_STALL_CHECK_DISABLE=1",
                                             "REIGEN_START_TIMEOUT=86400",
                                             "REIGEN_SILENCE_SECONDS=86400" };
    struct rg_job *job = &request->job;
    bool deadlock = job->deadlock_ms && job->deadlock_ms != RG_DEADLOCK_UNSET;
    int rc = 0;

    if (!request->debugs)
        return 0;
    if (job->stdin_mode != RG_STDIN_RANK || job->stdin_rank != request->debug_rank)
        return rg_error_set(err, EINVAL, "--debug-rank %d gives that rank the terminal and what is "
                            "typed: drop --stdin", request->debug_rank);
    if (job->timeout_ms || deadlock)
        rc = rg_request_note(request, "--debug-rank %d: %s does not count", job->stdin_rank,
                             job->timeout_ms ? "--timeout" : "--deadlock-timeout");
    job->timeout_ms = 0;
    job->deadlock_ms = 0;
    for (size_t i = 0; rc == 0 && i < rg_array_len(variables); i++)
        rc = rg_strv_add(&job->env, variables[i]);
    return rc < 0 ? rg_error_memory(err) : 0;
}

/* --- rules over several options --------------------------------------------------------------- */

static int refuse(const char *given, const char *prefix, const struct rg_platform *whose,
                  struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%s%s is for %s; say --on %s, too", prefix, given,
                        whose->title, whose->name);
}

/* One that is given as an option of another program's is told as that. */
static int check_options(const struct rg_job *job, const struct rg_platform *other,
                         struct rg_error *err)
{
    for (const struct rg_option *o = other->options; o && o->name; o++) {
        const char *value = rg_env_get(&job->settings, o->name);
        if (value && !rg_option_of(rg_platform_of(job), o->name))
            return *value == '-' ? refuse(value, "", other, err)
                                 : refuse(o->name, "--", other, err);
    }
    return 0;
}

static int refuse_submit(struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    for (const struct rg_platform *const *p = rg_platforms(); *p; p++) {
        if ((*p)->queues)
            rg_buf_printf(&names, "%s--on %s", rg_buf_nbytes(&names) ? " or " : "", (*p)->name);
    }
    return rg_error_set(err, EINVAL, "--submit is for %s", rg_buf_text(&names));
}

/* The launcher makes the faults, from where the user is, and ranks that its agents have started. */
static int check_chaos(const struct rg_request *request, const struct rg_platform *own,
                       struct rg_error *err)
{
    const struct rg_job *job = &request->job;

    if (!job->chaos)
        return 0;
    if (rg_job_has_engine(job))
        return rg_error_set(err, EINVAL, "--chaos: %s starts the ranks, and only those that Reigen "
                            "starts have faults; leave it out, or take --engine native",
                            rg_job_engine_program(job));
    if (own->away)
        return rg_error_set(err, EINVAL, "--chaos: on %s nobody here can make faults; leave it "
                            "out, or name hosts by -H", own->title);
    if (job->submit || request->write_plan)
        return rg_error_set(err, EINVAL, "--chaos: not together with %s; leave one of them out",
                            job->submit ? "--submit" : "--write-plan");
    return 0;
}

/* Its head writes it, and is in a container there. */
static int remark_record(struct rg_request *request, const struct rg_platform *own)
{
    const struct rg_job *job = &request->job;

    return !job->record || !own->away ? 0
           : rg_request_note(request, "--record %s: the job's head writes it, which %s runs: it "
                             "goes with the head's container, unless it is on a volume%s",
                             job->record, own->title,
                             own->leads ? "; reigen report JOB fetches it while the job runs"
                                        : "");
}

/* These belong to where the user is: a command, an address. */
static int check_here(const struct rg_request *request, const struct rg_platform *own,
                      struct rg_error *err)
{
    const struct rg_job *job = &request->job;

    if ((!job->notify && !job->metrics) || !ends_elsewhere(request, own))
        return 0;
    return rg_error_set(err, EINVAL, "%s: the %s of a job %s%s %s here; leave it out",
                        job->notify ? "--notify" : "--metrics",
                        job->notify ? "end" : "numbers",
                        own->away ? "on " : "of ",
                        own->away     ? own->title
                        : job->submit ? "--submit"
                                      : "--write-plan",
                        job->notify ? "is not seen" : "are not known");
}

/* Where the job's head is in a place of its own, it opens the port there: for all who reach that
 * place, as nobody reads numbers in it. */
static int settle_metrics(struct rg_request *request, const struct rg_platform *own,
                          struct rg_error *err)
{
    struct rg_job *job = &request->job;
    rg_autofree char *host = NULL;
    int port = 0;

    if (!job->metrics || !own->serves || request->write_plan)
        return 0;
    int r = rg_metrics_split("--metrics", job->metrics, &host, &port, err);
    if (r < 0)
        return r;
    if (r == 0 || *job->metrics != ':' || !port)
        return rg_error_set(err, EINVAL, "--metrics %s: on %s the job's head tells its numbers, at "
                            "a port there: write :PORT, of 1 to 65535", job->metrics, own->title);
    job->metrics_port = port;
    free(rg_steal_ptr(&job->metrics));
    return 0;
}

/* It is sent from where the user is, by the agents' links, and lies elsewhere on each host. */
static int check_sync(const struct rg_request *request, const struct rg_platform *own,
                      struct rg_error *err)
{
    const struct rg_job *job = &request->job;
    struct stat st;

    if (!job->sync)
        return 0;
    if (job->command.count && stat(job->command.v[0], &st) == 0 && S_ISDIR(st.st_mode))
        return rg_error_set(err, EINVAL, "%s is a directory, and no command: write --sync=%s",
                            job->command.v[0], job->command.v[0]);
    if (own->away)
        return rg_error_set(err, EINVAL, "--sync is not for %s: put the files into the image, or "
                            "on a volume that all pods mount", own->title);
    if (job->submit || request->write_plan)
        return rg_error_set(err, EINVAL, "--sync is not for %s: nobody is here to send anything "
                            "when the job begins. Put the files on a directory that all hosts "
                            "share, or run it without %s",
                            job->submit ? "--submit" : "--write-plan",
                            job->submit ? "--submit" : "--write-plan");
    if (rg_job_has_engine(job) || job->nroles)
        return rg_error_set(err, EINVAL, "--sync is for ranks that Reigen starts itself: %s wants "
                            "the files at one path on all hosts. Take a shared directory%s",
                            job->nroles ? "a job with roles" : rg_job_engine_program(job),
                            job->nroles ? "" : ", or --engine native");
    return 0;
}

/* Without numbers of slots each of them would have those of the whole computer. Whoever gives some
 * means it. */
static int remark_twice(struct rg_request *request)
{
    const struct rg_job *job = &request->job;
    const char *first = NULL;

    for (size_t i = 0; i < job->nhosts; i++) {
        const struct rg_host *host = &job->hosts[i];
        if (host->nslots || host->user || !rg_host_is_local(host->name))
            continue;
        if (first)
            return rg_request_note(request, "%s and %s are both this computer, which counts twice; "
                                   "name one of them, or give each a number of ranks, such as "
                                   "%s:1", first, host->name, first);
        first = host->name;
    }
    return 0;
}

int rg_request_settle_platform(struct rg_request *request, struct rg_error *err)
{
    const struct rg_platform *own = rg_platform_of(&request->job);
    int r = 0;

    for (const struct rg_platform *const *p = rg_platforms(); r == 0 && *p; p++) {
        if (*p != own)
            r = check_options(&request->job, *p, err);
    }
    if (r == 0 && request->job.submit && !own->queues)
        r = refuse_submit(err);
    r = r == 0 ? check_chaos(request, own, err) : r;
    r = r == 0 ? check_sync(request, own, err) : r;
    r = r == 0 ? settle_metrics(request, own, err) : r;
    if (r == 0 && (remark_record(request, own) < 0 || remark_twice(request) < 0))
        return rg_error_memory(err);
    return r == 0 ? check_here(request, own, err) : r;
}

/* An option that only a container could heed, and that is not only usual; or NULL. */
static const char *needs_image(const struct rg_request *request)
{
    const struct rg_container *container = &request->job.container;
    const struct {
        const char *option;
        bool given;
    } all[] = {
        { "--mount", container->mounts.count },
        { "--container-option", container->options.count },
        { "--shm-size", container->shm_nbytes },
        { "--gpus", container->gpus },
        { "--network", container->network },
        { "--user", container->user },
        { "--privileged", container->privileged },
        { "--ibdevices", container->ibdevices },
    };

    for (size_t i = 0; i < rg_array_len(all); i++)
        if (all[i].given && !rg_strv_has(&request->usual, all[i].option + 2))
            return all[i].option;
    return NULL;
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
    const struct rg_option *o = rg_option_of(rg_platform_of(&request->job), "gres");
    const char *nodes = rg_env_get(&request->job.settings, "nodes");
    int nranks = request->job.ranks_per_host, each = request->gpus_per_rank;
    int np = request->job.np, n = nodes ? atoi(nodes) : np == 1;

    if (!nranks && n > 0) /* spread evenly, as the platform is asked to */
        nranks = (np + n - 1) / n;
    bool unsaid = !np && !nranks && !request->job.nhosts; /* then each node has a rank */

    nranks = unsaid ? 1 : nranks;
    if (!o || each == RG_GPUS_EVENLY || !nranks || has_gres(&request->job))
        return 0;
    if (unsaid)
        request->job.ranks_per_host = 1;
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
    const char *useless = needs_image(request);

    /* One job file, with and without containers: what they need is left alone then. */
    if (none) {
        free(rg_steal_ptr(&container->image));
        return settle_gpus_per_rank(request, err);
    }
    const struct rg_platform *own = rg_platform_of(&request->job);
    if (!container->image && useless && !own->own_containers)
        return rg_error_set(err, EINVAL, "%s: there is no container; name its image with --image%s",
                            useless, strcmp(useless, "--gpus") != 0 ? ""
                            : rg_option_of(own, "gres")
                            ? ", or ask for GPUs of each node: --gres gpu:N"
                            : ", or divide the GPUs of hosts among their ranks: --gpus-per-rank");
    for (const struct rg_platform *const *p = rg_platforms(); container->image && *p; p++) {
        if (*p != own && (*p)->runtime && container->runtime &&
            strcmp((*p)->runtime, container->runtime) == 0)
            return rg_error_set(err, EINVAL, "--container-runtime %s is %s's; say --on %s, too",
                                (*p)->runtime, (*p)->title, (*p)->name);
    }
    return settle_gpus_per_rank(request, err);
}

int rg_request_settle_programs(struct rg_request *request, int nwords, bool exact,
                               struct rg_error *err)
{
    if (!request->programs)
        return exact || !nwords ? rg_programs_give_back(request, err)
                                : rg_programs_settle(request, err);
    if (nwords || request->job.nroles)
        return rg_error_set(err, EINVAL, "%s %s: it says what runs, and so does %s; leave one of "
                            "them out", request->programs_what, request->programs,
                            nwords ? "the command line" : request->config);
    return rg_programs_read(request, request->programs_what, request->programs, err);
}
