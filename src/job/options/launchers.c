/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines written for torchrun, mpirun, srun and others keep their meaning, or are refused
 * with the remedy. */
#include "job/options/launchers.h"

#include <stdio.h>
#include <string.h>

#include "job/options/apply.h"
#include "job/platform.h"

#define NAME_MAX_LEN 64
#define HANDLER(name)                                                                              \
    static int name(struct rg_request *request, const struct rg_foreign *flag, const char *what,   \
                    const char *value, const char *second, struct rg_error *err)
#define UNUSED(x) ((void) (x))

static int by_name(const char *name, struct rg_request *request, const char *what,
                   const char *value, struct rg_error *err)
{
    const struct rg_option *option = rg_option_find(name);

    return option ? rg_option_apply(option, request, what, value, err)
                  : rg_error_set(err, EINVAL, "%s: nothing here takes --%s", what, name);
}

/* --- what needs more than another name -------------------------------------------------------- */

HANDLER(ignored)
{
    UNUSED(value), UNUSED(second);
    return rg_request_note(request, "%s: ignored; %s", what, flag->text) < 0
               ? rg_error_memory(err) : 0;
}

static int keep_count(int *member, int max, const char *what, const char *value,
                      struct rg_error *err)
{
    const struct rg_member number = { RG_MEMBER_INT, 0, 1, max };

    return rg_member_set(&number, member, what, value, err);
}

HANDLER(ranks_or_nodes)
{
    UNUSED(flag), UNUSED(second);
    return keep_count(&request->per_host_or_nodes, RG_JOB_SLOTS_MAX, what, value, err);
}

HANDLER(nnodes)
{
    UNUSED(flag), UNUSED(second);
    if (strchr(value, ':'))
        return rg_error_set(err, EINVAL, "%s %s: the number of hosts does not change while a job "
                            "runs; give one number", what, value);
    return keep_count(&request->nnodes, RG_JOB_HOSTS_MAX, what, value, err);
}

/* Many command lines for one computer carry it. */
HANDLER(node_rank)
{
    UNUSED(second);
    if (strcmp(value, "0") == 0)
        return rg_request_note(request, "%s 0: ignored; %s", what, flag->text) < 0
                   ? rg_error_memory(err) : 0;
    return rg_error_set(err, EINVAL, "%s %s: %s: leave %s out, start the job once, and name the "
                        "hosts with -H or --hostfile", what, value, flag->text, what);
}

HANDLER(env_pair)
{
    rg_autofree char *text = rg_strf("%s=%s", value, second);

    UNUSED(flag);
    if (strcmp(what, "-env") == 0 &&
        rg_request_note(request, "-env %s %s: taken for mpiexec's, --env %s=%s; reigen's --env has "
                        "two dashes, or NAME=VALUE", value, second, value, second) < 0)
        return rg_error_memory(err);
    return text ? rg_apply_env(request, what, text, err) : rg_error_memory(err);
}

/* Names separated by commas; srun's ALL is what reigen does anyway. */
HANDLER(env_list)
{
    UNUSED(flag), UNUSED(second);
    for (const char *p = value; *p; p += strcspn(p, ","), p += *p == ',') {
        rg_autofree char *name = strndup(p, strcspn(p, ","));
        if (!name)
            return rg_error_memory(err);
        if (strcmp(name, "NONE") == 0 || strcmp(name, "NIL") == 0)
            return rg_error_set(err, EINVAL, "%s %s: ranks get what their host's login has; write "
                                "env -i in front of the command", what, value);
        int rc = !*name || strcmp(name, "ALL") == 0 ? 0 : rg_apply_env(request, what, name, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Once the whole command line is read. */
HANDLER(app)
{
    UNUSED(flag), UNUSED(second);
    snprintf(request->programs_what, sizeof(request->programs_what), "%s", what);
    return rg_parse_text(what, value, &request->programs, err);
}

HANDLER(launcher)
{
    UNUSED(flag), UNUSED(second);
    for (const struct rg_platform *const *p = rg_platforms(); *p; p++) {
        if (rg_str_has_word((*p)->launchers, value))
            return rg_apply_on(request, what, (*p)->name, err);
    }
    return rg_error_set(err, EINVAL, "%s %s: hosts are reached by ssh or by Slurm; use "
                        "--on ssh or --on slurm", what, value);
}

/* An option of Slurm's that salloc and sbatch have, too. */
HANDLER(for_slurm)
{
    rg_autofree char *text = value ? rg_strf("--%s=%s", flag->text, value)
                                   : rg_strf("--%s", flag->text);

    UNUSED(second);
    return text ? by_name("slurm-option", request, what, text, err) : rg_error_memory(err);
}

/* --- the table -------------------------------------------------------------------------------- */

#define ONE_COMMAND "reigen starts all nodes itself, from one command"
#define MEETING "reigen tells the ranks how they find each other"
#define AT_ONCE "reigen hears at once of a rank that ends"
#define AS_THEY_ARE "reigen runs the command as it is"
#define ITS_OWN "reigen has an output of its own"
#define PER_HOST "ranks-per-host"
#define THE_SCRIPTS "this is the script's own matter"

static const struct rg_foreign flags[] = {
    /* how many, and where */
    {"N", NULL, 1, ranks_or_nodes, NULL},
    {"nproc-per-node npernode perhost ntasks-per-node num-gpus", PER_HOST, 1, NULL, NULL},
    {"pernode", PER_HOST, 0, NULL, "1"},
    {"ntasks num-processes", "np", 1, NULL, NULL},
    {"nnodes num-nodes num-machines", NULL, 1, nnodes, NULL},
    {"node-rank machine-rank", NULL, 1, node_rank, ONE_COMMAND},
    {"npersocket", NULL, 1, NULL, "ranks are counted by host; use --ranks-per-host, and "
     "--bind-to socket"},
    {"rankfile rf", NULL, 1, NULL, "a rank's place follows from the order of the hosts; use -H or "
     "--hostfile, and --map-by node to deal the ranks out"},
    {"rank-by", NULL, 1, ignored, "ranks are numbered host by host; --map-by says where they run"},
    {"bynode rr", "map-by", 0, NULL, "node"},
    {"byslot", "map-by", 0, NULL, "slot"},
    {"bind-to-core bind-cores-to-rank", "bind-to", 0, NULL, "core"},
    {"bind-to-socket", "bind-to", 0, NULL, "socket"},
    {"bind-to-none", "bind-to", 0, NULL, "none"},
    {"binding", "bind-to", 1, NULL, NULL},
    {"cpu-bind", NULL, 1, NULL, "use --bind-to core, socket or none"},
    {"cpus-per-rank cpus-per-proc cpu-set cpu-list", NULL, 1, NULL, "use --bind-to core or "
     "socket; for more threads --env OMP_NUM_THREADS=N"},
    {"nooversubscribe", NULL, 0, ignored, "more ranks than slots are refused anyway"},
    {"use-hwthread-cpus use-hwthread", NULL, 0, ignored, "a slot is a hardware thread already"},
    {"nolocal", NULL, 0, NULL, "name the hosts that are to have ranks with -H or --hostfile"},
    {"iface", "network-interface", 1, NULL, NULL},
    {"include num-cores", NULL, 1, NULL, "name the hosts and their slots with -H or --hostfile"},
    {"gpu-ids", NULL, 1, NULL, "use --env CUDA_VISIBLE_DEVICES=LIST"},
    {"app configfile", NULL, 1, app, NULL},
    {"multi-prog", NULL, 1, NULL, "write the programs one after the other, -np 1 loader : -np 3 "
     "trainer, or let a script choose by REIGEN_RANK"},
    {"relative r", NULL, 1, NULL, "torchrun's -r is --output-dir here, srun's --nodelist"},

    /* how ranks meet, and who watches them */
    {"master-addr master-port main-process-ip main-process-port", NULL, 1, ignored, MEETING},
    {"rdzv-backend rdzv-endpoint rdzv-id rdzv-conf local-addr rdzv-end-point", NULL, 1, ignored,
     MEETING},
    {"standalone same-network", NULL, 0, ignored, MEETING},
    {"monitor-interval", NULL, 1, ignored, AT_ONCE},
    {"enable-recovery with-ft disable-auto-cleanup", NULL, 0, NULL, "a job ends when one of its "
     "ranks fails; use --max-restarts"},
    {"kill-on-bad-exit K", NULL, 0, ignored, "a job always ends when one of its ranks fails"},
    {"wait W", NULL, 1, NULL, "use --grace, the time that ranks have between SIGTERM and SIGKILL"},
    {"elastic-training min-elastic-nodes max-elastic-nodes", NULL, 0, NULL, "the number of ranks "
     "does not change while a job runs; leave it out, and use --max-restarts"},
    {"start-method role signals-to-handle mpi rmk usize", NULL, 1, ignored, MEETING},
    {"launcher bootstrap", NULL, 1, launcher, NULL},
    {"launcher-exec bootstrap-exec launch-agent plm-rsh-agent", NULL, 1, NULL, "the ssh of PATH is "
     "what reigen starts; use --ssh-option, or put another ssh into PATH"},
    {"launcher-args", NULL, 1, NULL, "use --ssh-option or --slurm-option"},
    {"no-ssh-check no-ssh force-multi", NULL, 0, ignored, ONE_COMMAND},
    {"prefix path dvm ompi-server localhost", NULL, 1, ignored, "reigen takes its own files along"},
    {"noprefix no-local", NULL, 0, ignored, "reigen takes its own files along"},
    {"am tune", NULL, 1, ignored, "MPI's parameters mean nothing here"},

    /* what runs */
    {"module m", NULL, 0, NULL, "write the command as it is: python -m MODULE"},
    {"run-path", NULL, 0, NULL, "write the command as it is: python FILE"},
    {"no-python use-env multi-gpu", NULL, 0, ignored, AS_THEY_ARE},
    {"cpu tpu mixed-precision dynamo-backend use-deepspeed use-fsdp use-megatron-lm "
     "deepspeed-config-file fsdp-config autotuning gradient-accumulation-steps", NULL, 0, NULL,
     THE_SCRIPTS ": let it say so, or use --env, such as --env ACCELERATE_MIXED_PRECISION=bf16"},
    {"config-file", NULL, 1, NULL, "a job file of reigen's is given with --config; its keys are "
     "the options' names"},
    {"preload-binary preload-files", NULL, 0, NULL, "nothing is copied to the hosts; use a "
     "directory that all share, or an --image"},
    {"gdb xterm", NULL, 0, NULL, "use --pty for a debugger on rank 0"},

    /* what ranks find */
    {"genv", NULL, 2, env_pair, NULL},
    {"genvlist envlist export", NULL, 1, env_list, NULL},
    {"genvall envall", NULL, 0, ignored, "the caller's variables are there on this computer; "
     "elsewhere --env hands them on"},
    {"genvnone envnone", NULL, 0, NULL, "write env -i in front of the command"},
    {"chdir D", "cwd", 1, NULL, NULL},
    {"umask", NULL, 1, NULL, "ranks have the caller's umask; set it before"},

    /* output and input */
    {"log-dir enable-each-rank-log", "output-dir", 1, NULL, NULL},
    {"redirects tee local-ranks-filter logs-specs", NULL, 1, NULL, "use --output-dir for files, "
     "and --ranks for whose output is shown"},
    {"t", NULL, 1, NULL, "srun's -t is --time here, torchrun's --output-dir"},
    {"label l prepend-rank", "tag-output", 0, NULL, "true"},
    {"prepend-pattern", NULL, 1, NULL, "use --tag-output, or --no-tag-output"},
    {"output error o e outfile-pattern errfile-pattern", NULL, 1, NULL, "use --output-dir, or > "
     "of the shell"},
    {"input i", NULL, 1, NULL, "use < of the shell, and --stdin for who gets it"},
    {"s", "stdin", 1, NULL, NULL},
    {"merge-stderr-to-stdout", NULL, 0, NULL, "write 2>&1 behind the command line"},
    {"unbuffered u demux outproxy", NULL, 0, ignored, "output is shown as it comes"},
    {"print-all-exitcodes info report-state silent-abort show-progress display-allocation "
     "get-stack-traces save-pid debug", NULL, 0, ignored, ITS_OWN},
    {"report-uri", NULL, 1, ignored, ITS_OWN},
    {"print-rank-map", "display-map", 0, NULL, "true"},

    /* Slurm's own */
    {"A", "account", 1, NULL, NULL},
    {"p", NULL, 1, NULL, "srun's -p is --partition here, horovodrun's --ssh-port"},
    {"job-name J", NULL, 1, for_slurm, "job-name"},
    {"constraint C", NULL, 1, for_slurm, "constraint"},
    {"qos", NULL, 1, for_slurm, "qos"},
    {"reservation", NULL, 1, for_slurm, "reservation"},
    {"mem", NULL, 1, for_slurm, "mem"},
    {"mem-per-cpu", NULL, 1, for_slurm, "mem-per-cpu"},
    {"cpus-per-task", NULL, 1, for_slurm, "cpus-per-task"},
    {"gpus-per-node", NULL, 1, for_slurm, "gpus-per-node"},
    {"gpus-per-task", NULL, 1, for_slurm, "gpus-per-task"},
    {"exclusive", NULL, 0, for_slurm, "exclusive"},
    {"jobid", NULL, 1, NULL, "run reigen in the allocation, or by srun --jobid=ID --pty"},
    {"distribution", NULL, 1, NULL, "use --map-by slot or node"},
    {"overlap", NULL, 0, ignored, "reigen's step shares the allocation with others anyway"},
    {"container-image", "image", 1, NULL, NULL},
    {"container-workdir", "cwd", 1, NULL, NULL},
    {"container-mounts", NULL, 1, NULL, "use --mount SOURCE:TARGET, once for each"},
};

static const struct rg_foreign *find_foreign(const char *name)
{
    for (size_t i = 0; i < rg_array_len(flags); i++)
        if (rg_str_has_word(flags[i].names, name))
            return &flags[i];
    return NULL;
}

/* --- finding ---------------------------------------------------------------------------------- */

/* -n4, -np4, -ppn2, -N2; -Hnode1:4, which could be a misspelt name without its ':' or ','. */
static bool find_glued(const char *arg, struct rg_flag *flag)
{
    static const char *const counts[] = { "np", "ppn", "n", "c", "N" };

    if (arg[1] == '-')
        return false;
    for (size_t i = 0; i < rg_array_len(counts); i++) {
        size_t n = strlen(counts[i]);
        const char *rest = arg + 1 + n;
        if (!rg_str_starts(arg + 1, counts[i]) || !*rest || rest[strspn(rest, "0123456789")])
            continue;
        flag->option = rg_option_find(counts[i]);
        flag->foreign = flag->option ? NULL : find_foreign(counts[i]);
        flag->attached = rest;
        flag->name_nbytes = 1 + n;
        return true;
    }
    if (arg[1] != 'H' || !strpbrk(arg + 2, ":,") || strchr(arg, '='))
        return false;
    flag->option = rg_option_find("H");
    flag->attached = arg + 2;
    flag->name_nbytes = 2;
    return true;
}

bool rg_flag_is_env_pair(int argc, char *const *argv, int at)
{
    return at + 2 < argc && strcmp(argv[at], "-env") == 0 && !strchr(argv[at + 1], '=');
}

bool rg_flag_is_idle(const struct rg_flag *flag)
{
    if (flag->option)
        return flag->option->apply == rg_apply_accepted || flag->option->apply == rg_apply_mca;
    return flag->foreign && flag->foreign->apply == ignored;
}

bool rg_flag_find(const char *arg, struct rg_flag *ret_flag)
{
    size_t dashes = arg[1] == '-' ? 2 : 1, n = strcspn(arg + dashes, "=");
    char name[NAME_MAX_LEN] = "";
    struct rg_flag flag = { .name_nbytes = dashes + n,
                            .attached = arg[dashes + n] ? arg + dashes + n + 1 : NULL };

    if (n < sizeof name)
        memcpy(name, arg + dashes, n);
    for (char *p = name + 1; *name && *p; p++)
        *p = *p == '_' ? '-' : *p;
    flag.option = rg_option_find(name);
    if (!flag.option && *name && !strchr(name, ' '))
        flag.foreign = find_foreign(name);
    bool found = flag.option || flag.foreign || find_glued(arg, &flag);

    *ret_flag = flag;
    return found;
}

/* --- carrying out ----------------------------------------------------------------------------- */

int rg_foreign_apply(struct rg_request *request, const struct rg_foreign *flag, const char *what,
                     const char *value, const char *second, struct rg_error *err)
{
    if (flag->option)
        return by_name(flag->option, request, what, flag->nvalues ? value : flag->text, err);
    if (flag->apply)
        return flag->apply(request, flag, what, value, second, err);
    return rg_error_set(err, EINVAL, "%s: %s", what, flag->text);
}

static int set_nodes(struct rg_request *request, int n, struct rg_error *err)
{
    return rg_env_setf(&request->job.settings, "nodes", "%d", n) < 0 ? rg_error_memory(err) : 0;
}

static int settle_nnodes(struct rg_request *request, bool takes_nodes, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    int n = request->nnodes;

    if (takes_nodes)
        return set_nodes(request, n, err);
    if (n && job->nhosts && job->nhosts != (size_t) n)
        return rg_error_set(err, EINVAL, "--nnodes %d: %zu host%s named; name %d with -H or "
                            "--hostfile, or leave --nnodes out", n, job->nhosts,
                            job->nhosts == 1 ? " is" : "s are", n);
    else if (n > 1 && !job->nhosts)
        return rg_error_set(err, EINVAL, "--nnodes %d: say which: with -H or --hostfile, or with "
                            "--on slurm; reigen starts all nodes itself", n);
    return 0;
}

/* An option of the job's platform that counts hosts. */
static bool has_nodes(const struct rg_platform *platform)
{
    for (const struct rg_option *o = platform->options; o && o->name; o++) {
        if (strcmp(o->name, "nodes") == 0)
            return true;
    }
    return false;
}

int rg_foreign_settle(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    bool takes_nodes = has_nodes(rg_platform_of(job));
    int n = request->per_host_or_nodes, rc = 0;

    if (n && takes_nodes) {
        rc = rg_request_note(request, "-N %d: taken for srun's, --nodes %d; mpirun's is "
                             "--ranks-per-host", n, n);
        rc = rc < 0 ? rc : set_nodes(request, n, err);
    } else if (n) {
        job->ranks_per_host = n;
        rc = rg_request_note(request, "-N %d: taken for mpirun's, --ranks-per-host %d; srun's is "
                             "--on slurm --nodes", n, n);
    }
    if (rc < 0)
        return rg_error_memory(err);
    return request->nnodes ? settle_nnodes(request, takes_nodes, err) : 0;
}
