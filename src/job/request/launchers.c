/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines written for torchrun, mpirun, srun and others keep their meaning, or are refused
 * with the remedy. */
#include "job/request/launchers.h"

#include <stdio.h>
#include <string.h>

#include "job/options/apply.h"
#include "job/request/mpijob.h"
#include "job/platform.h"

#define NAME_MAX_LEN 64
#define OWN_SSH "the ssh of PATH is what reigen starts; use --ssh-option, or put another ssh " \
                "into PATH"
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
        return rg_error_set(err, EINVAL, "%s %s: reigen torchrun takes it; or use --min-np and "
                            "--max-np, which count ranks", what, value);
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
    rg_autofree char *text = second ? rg_strf("%s=%s", value, second) : strdup(value);

    UNUSED(flag);
    if (second && strcmp(what, "-env") == 0 &&
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
            return rg_option_apply(rg_option_find("on"), request, what, (*p)->name, err);
    }
    return rg_error_set(err, EINVAL, "%s %s: hosts are reached by ssh or by Slurm; use "
                        "--on ssh or --on slurm", what, value);
}

/* An option of Slurm's that salloc and sbatch have, too; text: its name, unless it is the user's
 * word. */
HANDLER(for_slurm)
{
    const char *name = flag->text ? flag->text : what + strspn(what, "-");
    rg_autofree char *text = value ? rg_strf("--%s=%s", name, value) : rg_strf("--%s", name);

    UNUSED(second);
    for (char *p = text; p && *p && *p != '='; p++)
        *p = *p == '_' ? '-' : *p;
    return text ? by_name("slurm-option", request, what, text, err) : rg_error_memory(err);
}

/* A word of a list, and the option that it is; value NULL: what stands behind its '='. Without an
 * option it is ignored. */
struct word {
    const char *names, *option, *value;
};

/* "tag,dir=logs"; what is not in the list is refused with the flag's text. */
static int take_words(struct rg_request *request, const struct word *words,
                      const struct rg_foreign *flag, const char *what, const char *list,
                      struct rg_error *err)
{
    int rc = 0;

    for (const char *p = list; *p && rc == 0; p += strcspn(p, ",:"), p += *p != '\0') {
        rg_autofree char *name = strndup(p, strcspn(p, ",:"));
        const struct word *word = words;
        if (!name)
            return rg_error_memory(err);
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        while (word->names && !rg_str_has_word(word->names, name))
            word++;
        if (!word->names || (word->option && !word->value && !value))
            return rg_error_set(err, EINVAL, "%s %s: %s", what, list, flag->text);
        if (word->option)
            rc = by_name(word->option, request, what, word->value ? word->value : value, err);
    }
    return rc;
}

/* Open MPI 5: --display map,bind. */
static const struct word displays[] = {
    {"map map-devel", "display-map", "true"},
    {"bind", "report-bindings", "true"},
    {"allocation topo parseable parsable", NULL, NULL},
    {NULL, NULL, NULL},
};

/* Open MPI 5: --output tag,dir=logs; srun has a file there. */
static const struct word outputs[] = {
    {"tag tag-detailed tag-fullname rank", "tag-output", "true"},
    {"timestamp", "timestamp-output", "true"},
    {"dir directory", "output-dir", NULL},
    {"copy nocopy jobid nojobid raw", NULL, NULL},
    {NULL, NULL, NULL},
};

HANDLER(display)
{
    UNUSED(second);
    return take_words(request, displays, flag, what, value, err);
}

HANDLER(output)
{
    UNUSED(second);
    return take_words(request, outputs, flag, what, value, err);
}

/* --- MPI's parameters ------------------------------------------------------------------------- */

static int take_ssh_args(struct rg_request *request, const char *what, const char *value,
                         struct rg_error *err)
{
    UNUSED(what);
    return rg_mpijob_take_ssh(value, &request->job.ssh_options) < 0 ? rg_error_memory(err) : 0;
}

/* "ssh -p 2222" */
static int take_ssh_agent(struct rg_request *request, const char *what, const char *value,
                          struct rg_error *err)
{
    rg_autofree char *program = strndup(value, strcspn(value, " "));
    const char *slash = program ? strrchr(program, '/') : NULL;

    if (!program)
        return rg_error_memory(err);
    if (strcmp(slash ? slash + 1 : program, "ssh") != 0)
        return rg_request_note(request, "%s %s: ignored; " OWN_SSH, what, value) < 0
                   ? rg_error_memory(err) : 0;
    return take_ssh_args(request, what, value + strlen(program), err);
}

/* "A=1;B" */
static int take_env_list(struct rg_request *request, const char *what, const char *value,
                         struct rg_error *err)
{
    int rc = 0;

    for (const char *p = value; *p && rc == 0; p += strcspn(p, ";"), p += *p == ';') {
        rg_autofree char *text = strndup(p, strcspn(p, ";"));
        rc = !text ? rg_error_memory(err) : *text ? rg_apply_env(request, what, text, err) : 0;
    }
    return rc;
}

static int take_oversubscribe(struct rg_request *request, const char *what, const char *value,
                              struct rg_error *err)
{
    return rg_str_has_word("1 true yes on", value) ? by_name("oversubscribe", request, what, "true",
                                                             err)
                                                   : 0;
}

static int tell_interface(struct rg_request *request, const char *what, const char *value,
                          struct rg_error *err)
{
    return rg_request_note(request, "%s %s: ignored; the agents find the job's network; "
                           "--network-interface names one", what, value) < 0
               ? rg_error_memory(err) : 0;
}

static const struct parameter {
    const char *keys, *option; /* of ours that it is, or */
    int (*take)(struct rg_request *request, const char *what, const char *value,
                struct rg_error *err);
} parameters[] = {
    {"plm_rsh_args plm_ssh_args", NULL, take_ssh_args},
    {"plm_rsh_agent plm_ssh_agent orte_rsh_agent", NULL, take_ssh_agent},
    {"mca_base_env_list", NULL, take_env_list},
    {"rmaps_base_oversubscribe", NULL, take_oversubscribe},
    {"rmaps_base_mapping_policy rmaps_default_mapping_policy", "map-by", NULL},
    {"hwloc_base_binding_policy hwloc_default_binding_policy", "bind-to", NULL},
    {"btl_tcp_if_include oob_tcp_if_include btl_tcp_if_exclude oob_tcp_if_exclude "
     "prte_if_include prte_if_exclude if_include if_exclude", NULL, tell_interface},
};

static const struct parameter *find_parameter(const char *key)
{
    for (size_t i = 0; i < rg_array_len(parameters); i++)
        if (rg_str_has_word(parameters[i].keys, key))
            return &parameters[i];
    return NULL;
}

HANDLER(mca)
{
    const struct parameter *parameter = find_parameter(value);
    char name[2 * NAME_MAX_LEN];

    UNUSED(flag);
    snprintf(name, sizeof name, "%s %s", what, value);
    if (parameter && second)
        return parameter->option ? by_name(parameter->option, request, name, second, err)
                                 : parameter->take(request, name, second, err);
    /* One remark, however many parameters a command line carries. */
    return rg_request_note(request, "%s: MPI's parameters mean nothing here and are ignored",
                           what) < 0
               ? rg_error_memory(err) : 0;
}

/* --- the table -------------------------------------------------------------------------------- */

#define ONE_COMMAND "reigen starts all nodes itself, from one command"
#define MEETING "reigen tells the ranks how they find each other"
#define AT_ONCE "reigen hears at once of a rank that ends"
#define AS_THEY_ARE "reigen runs the command as it is"
#define ITS_OWN "reigen has an output of its own"
#define PER_HOST "ranks-per-host"
#define THE_SCRIPTS "this is the script's own matter"
#define NO_MPI "MPI's parameters mean nothing here"
#define A_TOOL "put the tool in front of the command, which all ranks then run"

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
    {"rankfile rf rankmap order-nodes", NULL, 1, NULL, "a rank's place follows from the order of "
     "the hosts; use -H or --hostfile, and --map-by node to deal the ranks out"},
    {"rank-by", NULL, 1, ignored, "ranks are numbered host by host; --map-by says where they run"},
    {"bynode rr", "map-by", 0, NULL, "node"},
    {"bycore bysocket", "map-by", 0, NULL, "core"},
    {"byslot", "map-by", 0, NULL, "slot"},
    {"bind-to-core bind-cores-to-rank", "bind-to", 0, NULL, "core"},
    {"bind-to-socket", "bind-to", 0, NULL, "socket"},
    {"bind-to-none", "bind-to", 0, NULL, "none"},
    {"binding", "bind-to", 1, NULL, NULL},
    {"cpu-bind", NULL, 1, NULL, "use --bind-to core, socket or none"},
    {"cpus-per-rank cpus-per-proc cpu-set cpu-list numa-binding bind-core-list "
     "num-cpu-threads-per-process", NULL, 1, NULL, "use --bind-to core or socket; for more threads "
     "--env OMP_NUM_THREADS=N"},
    {"ntasks-per-core ntasks-per-socket ntasks-per-gpu ppr", NULL, 1, NULL, "ranks are counted by "
     "host; use --ranks-per-host"},
    {"gpus-per-proc", "gpus-per-rank", 1, NULL, NULL},
    {"overcommit O", "oversubscribe", 0, NULL, "true"},
    {"default-hostfile", "hostfile", 1, NULL, NULL},
    {"hosts-group", "H", 1, NULL, NULL},
    {"nodefile F", NULL, 1, NULL, "name the hosts with --hostfile"},
    {"add-host add-hostfile het-group pack-group", NULL, 1, NULL, "a job has the hosts that it "
     "begins with; name them all with -H or --hostfile"},
    {"nooversubscribe", NULL, 0, ignored, "more ranks than slots are refused anyway"},
    {"use-hwthread-cpus use-hwthread", NULL, 0, ignored, "a slot is a hardware thread already"},
    {"nolocal skip-launch-node", NULL, 0, NULL, "name the hosts that are to have ranks with -H or "
     "--hostfile"},
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
    {"enable-recovery with-ft disable-auto-cleanup continuous", NULL, 0, NULL, "a job ends when "
     "one of its ranks fails; use --max-restarts"},
    {"kill-on-bad-exit K", NULL, -1, ignored, "a job always ends when one of its ranks fails"},
    {"wait W", NULL, 1, NULL, "use --grace, the time that ranks have between SIGTERM and SIGKILL"},
    {"elastic-training min-elastic-nodes max-elastic-nodes", NULL, 0, NULL, "the number of ranks "
     "does not change while a job runs; leave it out, and use --max-restarts"},
    {"disable-recovery stop-on-exec", NULL, 0, ignored, "a job always ends when one of its ranks "
     "fails"},
    {"shutdown-timeout", "grace", 1, NULL, NULL},
    {"start-method role signals-to-handle mpi rmk usize", NULL, 1, ignored, MEETING},
    {"launcher bootstrap", NULL, 1, launcher, NULL},
    {"launcher-exec bootstrap-exec launch-agent plm-rsh-agent", NULL, 1, NULL, OWN_SSH},
    {"launcher-args", NULL, 1, NULL, "use --ssh-option or --slurm-option"},
    {"no-ssh-check no-ssh force-multi", NULL, 0, ignored, ONE_COMMAND},
    {"prefix path dvm ompi-server localhost", NULL, 1, ignored, "reigen takes its own files along"},
    {"noprefix no-local", NULL, 0, ignored, "reigen takes its own files along"},
    {"am tune membind memory-alloc-kinds topolib cartofile max-vm-size personality "
     "runtime-options pmix-prefix app-pmix-prefix", NULL, 1, ignored, NO_MPI},
    {"mca gmca omca prtemca gprtemca pmixmca gpmixmca", NULL, 2, mca, NULL},
    {"pmi-port hybrid-hosts disable-hostname-propagation enable-x disable-x do-not-resolve novm "
     "use-regexp enable-instant-on-support fwd-mpirun-port hetero-nodes leave-session-attached "
     "no-app-prefix enable-prte-prefix-by-default set-sid", NULL, 0, ignored, NO_MPI},
    {"nameserver hnp tmpdir system-server keepalive spawn-timeout forward-signals", NULL, 1,
     ignored, "reigen has an agent of its own on each host"},

    /* what runs */
    {"module m", NULL, 0, NULL, "write the command as it is: python -m MODULE"},
    {"run-path", NULL, 0, NULL, "write the command as it is: python FILE"},
    {"no-python use-env multi-gpu", NULL, 0, ignored, AS_THEY_ARE},
    {"cpu tpu mixed-precision dynamo-backend use-deepspeed use-fsdp use-megatron-lm "
     "deepspeed-config-file fsdp-config autotuning gradient-accumulation-steps", NULL, 0, NULL,
     THE_SCRIPTS ": let it say so, or use --env, such as --env ACCELERATE_MIXED_PRECISION=bf16"},
    {"config-file", NULL, 1, NULL, "a job file of reigen's is given with --config; its keys are "
     "the options' names"},
    {"preload-binary preload-files bcast set-cwd-to-session-dir", NULL, 0, NULL, "nothing is "
     "copied to the hosts; use a directory that all share, or an --image"},
    {"gdb xterm tv debugger gdb-args", NULL, 0, NULL, "use --pty for a debugger on rank 0"},
    {"aps mps gtool gtoolfile check-mpi trace task-prolog task-epilog venv-script", NULL, 0, NULL,
     A_TOOL},
    {"index-argv-by-rank", NULL, 0, NULL, "let a script choose by REIGEN_RANK"},
    {"do-not-launch", "dry-run", 0, NULL, "true"},

    /* what ranks find */
    {"genv", NULL, 2, env_pair, NULL},
    {"genvlist envlist export container-env", NULL, 1, env_list, NULL},
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
    {"output", NULL, 1, output, "use --tag-output, --timestamp-output or --output-dir, or > of the "
     "shell"},
    {"display", NULL, 1, display, "use --display-map or --report-bindings"},
    {"stream-buffering", NULL, 1, ignored, "output is shown as it comes"},
    {"prepend-timestamp", "timestamp-output", 0, NULL, "true"},
    {"duplicate-stdout-filters duplicate-stderr-filters log-line-prefix-template", NULL, 1, NULL,
     "use --ranks for whose output is shown, and --tag-output for what stands before it"},
    {"xml xml-file", NULL, 0, NULL, ITS_OWN "; use --output-dir"},
    {"error o e outfile-pattern errfile-pattern", NULL, 1, NULL, "use --output-dir, or > "
     "of the shell"},
    {"input i", NULL, 1, NULL, "use < of the shell, and --stdin for who gets it"},
    {"s", "stdin", 1, NULL, NULL},
    {"merge-stderr-to-stdout", NULL, 0, NULL, "write 2>&1 behind the command line"},
    {"unbuffered u demux outproxy", NULL, 0, ignored, "output is shown as it comes"},
    {"print-all-exitcodes info report-state silent-abort show-progress display-allocation "
     "display-devel-allocation display-topo get-stack-traces save-pid debug debug-devel "
     "debug-daemons debug-daemons-file output-proctable report-child-jobs-separately "
     "report-state-on-timeout profile prot disable-status X", NULL, 0, ignored, ITS_OWN},
    {"report-uri report-pid report-events event-log-handler msg-timeout", NULL, 1, ignored,
     ITS_OWN},
    {"print-rank-map display-devel-map display-diffable-map", "display-map", 0, NULL, "true"},
    {"Q", "quiet", 0, NULL, "true"},

    /* Slurm's own */
    {"A", "account", 1, NULL, NULL},
    {"p", NULL, 1, NULL, "srun's -p is --partition here, horovodrun's --ssh-port"},
    {"job-name J", NULL, 1, for_slurm, "job-name"},
    {"constraint C", NULL, 1, for_slurm, "constraint"},
    {"clusters M", NULL, 1, for_slurm, "clusters"},
    {"licenses L", NULL, 1, for_slurm, "licenses"},
    {"qos reservation mem mem-per-cpu mem-per-gpu mem-bind cpus-per-task cpus-per-gpu cpu-freq "
     "gpus-per-node gpus-per-task gpus-per-socket gpu-bind gpu-freq tres-per-task tres-bind "
     "begin comment core-spec cores-per-socket dependency hint mail-type mail-user mincpus "
     "priority signal sockets-per-node switches thread-spec threads-per-core time-min tmp wckey "
     "acctg-freq", NULL, 1, for_slurm, NULL},
    {"exclusive spread-job use-min-nodes contiguous", NULL, -1, for_slurm, NULL},
    {"immediate I no-kill k exact interactive quit-on-interrupt Z no-allocate wait-all-nodes "
     "propagate get-user-env resv-ports x11 compress nice", NULL, -1, ignored, "it is said where "
     "the allocation is made"},
    {"threads T slurmd-debug", NULL, 1, ignored, ITS_OWN},
    {"no-container-mount-home container-mount-home no-container-entrypoint container-remap-root "
     "no-container-remap-root container-writable", NULL, 0, ignored, "a container has what --mount "
     "names, and its root file system can be written"},
    {"container-name container-save container-entrypoint", NULL, 0, NULL, "a container is made "
     "from its --image and ends with the job"},
    {"export-file", NULL, 1, NULL, "use --env-file"},
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
    static const char *const counts[] = { "np", "ppn", "n", "c", "N", "K" };

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

bool rg_flag_is_idle(const struct rg_flag *flag)
{
    if (flag->option)
        return flag->option->apply == rg_apply_accepted;
    return flag->foreign && (flag->foreign->apply == ignored || flag->foreign->apply == mca);
}

bool rg_flag_is_vain(const struct rg_flag *flag, const char *key)
{
    return flag->foreign && flag->foreign->apply == mca && !(key && find_parameter(key));
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

/* "node1:2,node2:2" */
static bool are_hosts(const char *word)
{
    for (;; word++) {
        size_t name = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789.-_");
        if (!name || word[name] != ':')
            return false;
        size_t slots = strspn(word + name + 1, "0123456789");
        word += name + 1 + slots;
        if (!slots || (*word && *word != ','))
            return false;
        if (!*word)
            return true;
    }
}

int rg_foreign_settle(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    bool takes_nodes = rg_option_of(rg_platform_of(job), "nodes"); /* it counts hosts */
    int n = request->per_host_or_nodes, rc = 0;

    if (job->command.count && are_hosts(job->command.v[0]))
        return rg_error_set(err, EINVAL, "%.200s: these are hosts, where the command begins; write "
                            "-H in front of them", job->command.v[0]);
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
