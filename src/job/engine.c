/* SPDX-License-Identifier: Apache-2.0 */
/* The engines' names, which options, messages and people use, have one table. */
#include "job/engine.h"

#include <string.h>

static const char *base_name(const char *program)
{
    const char *slash = strrchr(program, '/');

    return slash ? slash + 1 : program;
}

/* Of programs that start ranks themselves. */
static bool is_launcher(const char *program)
{
    static const char names[] = "mpirun mpiexec mpiexec.hydra mpirun.openmpi mpiexec.openmpi "
                                "mpirun.mpich mpiexec.mpich orterun prterun pdsh";

    return rg_str_has_word(names, base_name(program));
}

const char *rg_job_engine_name(const struct rg_job *job)
{
    switch (job->engine) {
    case RG_ENGINE_OPENMPI: return "openmpi";
    case RG_ENGINE_HYDRA: return "hydra";
    case RG_ENGINE_SCRIPT: return "script";
    case RG_ENGINE_NATIVE: return "native";
    case RG_ENGINE_AUTO: break;
    }
    return job->command.count && is_launcher(job->command.v[0]) ? "mpirun" : "native";
}

const char *rg_job_engine_program(const struct rg_job *job)
{
    if (job->engine == RG_ENGINE_OPENMPI || job->engine == RG_ENGINE_HYDRA || !job->command.count)
        return "mpirun";
    return base_name(job->title ? job->title : job->command.v[0]);
}

bool rg_job_has_engine(const struct rg_job *job)
{
    return strcmp(rg_job_engine_name(job), "native") != 0;
}

int rg_job_engine_options(const struct rg_job *job, struct rg_strv *options)
{
    bool openmpi = job->engine == RG_ENGINE_OPENMPI, hydra = job->engine == RG_ENGINE_HYDRA;
    char *const bind[] = { hydra ? "-bind-to" : "--bind-to",
                           job->bind == RG_BIND_CORE ? "core" : "socket", NULL };
    /* Hydra deals so many to each host in turn. */
    char *const deal[] = { hydra ? "-ppn" : "--map-by", hydra ? "1" : "node", NULL };
    int r = 0;

    if ((openmpi || hydra) && job->bind != RG_BIND_NONE)
        r = rg_strv_add_all(options, bind);
    if (r == 0 && (openmpi || hydra) && job->map == RG_MAP_NODE)
        r = rg_strv_add_all(options, deal);
    if (r == 0 && job->engine_options.count)
        r = rg_strv_add_all(options, job->engine_options.v);
    return r;
}

int rg_job_check_engine(const struct rg_job *job, struct rg_error *err)
{
    bool composed = job->engine == RG_ENGINE_OPENMPI || job->engine == RG_ENGINE_HYDRA;

    if (job->engine_options.count && !composed)
        return rg_error_set(err, EINVAL, "--engine-option %s: only --engine openmpi and --engine "
                            "hydra take options; write them into the command itself",
                            job->engine_options.v[0]);
    if (composed && job->command.count && is_launcher(job->command.v[0]))
        return rg_error_set(err, EINVAL, "--engine %s calls mpirun itself, and the command is %s; "
                            "leave one of them out",
                            rg_job_engine_name(job), job->command.v[0]);
    if (rg_job_has_engine(job) && job->tf_config)
        return rg_error_set(err, EINVAL, "--tf-config: the ports of TF_CONFIG belong to ranks that "
                            "reigen starts; say --engine native, or leave it out");
    return 0;
}
