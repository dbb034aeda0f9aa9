/* SPDX-License-Identifier: Apache-2.0 */
/* All of horovodrun's flags stand in one table, so that no text can lack one. Some of them do more
 * than set a variable: what they do stands in front of it. */
#include "job/horovodrun/horovodrun.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "job/options/apply.h"

#define APPLY(name)                                                                            \
    static int apply_##name(struct rg_horovodrun *run, const struct rg_hvd_option *option,     \
                            const char *what, const char *value, struct rg_error *err)
#define UNUSED(x) ((void) (x))
#define FUSION_MB_MAX (INT64_C(1) << 40)

/* --- judging --------------------------------------------------------------------------------- */

/* "fusion_threshold_mb", as Horovod names the value in its own error. */
static void argument_name(const struct rg_hvd_option *option, char name[64])
{
    snprintf(name, 64, "%s", option->name);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
}

static int judge_number(const struct rg_hvd_option *option, const char *what, const char *value,
                        struct rg_error *err)
{
    char name[64];
    double n = 0;
    const char *end = rg_str_number(value, &n);

    argument_name(option, name);
    if (!end || *end)
        return rg_error_set(err, EINVAL, "%s %s: not a number", what, *value ? value : "(empty)");
    if (n < 0)
        return rg_error_set(err, ERANGE, "%s: %s=%s must be >= 0", what, name, value);
    if (option->kind == RG_HVD_SHARE && n > 1)
        return rg_error_set(err, ERANGE, "%s: %s=%s must be in [0, 1]", what, name, value);
    return 0;
}

static int judge_count(const struct rg_hvd_option *option, const char *what, const char *value,
                       struct rg_error *err)
{
    char name[64];
    int64_t n;
    int rc = rg_parse_int(what, value, 0, RG_HVD_COUNT_MAX, &n, err);

    argument_name(option, name);
    if (rc < 0 && rg_parse_int(what, value, INT64_MIN, -1, &n, NULL) == 0)
        return rg_error_set(err, ERANGE, "%s: %s=%s must be >= 0", what, name, value);
    return rc;
}

static int judge_pair(const struct rg_hvd_option *option, const char *what, const char *value,
                      struct rg_error *err)
{
    rg_autofree char *first = strndup(value, strcspn(value, " "));
    const char *second = value + strcspn(value, " ");
    int rc = first ? judge_count(option, what, first, err) : rg_error_memory(err);

    return rc < 0 ? rc : judge_count(option, what, second + (*second == ' '), err);
}

static int judge(const struct rg_hvd_option *option, const char *what, const char *value,
                 struct rg_error *err)
{
    switch (option->kind) {
    case RG_HVD_COUNT: return judge_count(option, what, value, err);
    case RG_HVD_NUMBER:
    case RG_HVD_SHARE: return judge_number(option, what, value, err);
    case RG_HVD_PAIR: return judge_pair(option, what, value, err);
    case RG_HVD_TEXT:
        return *value ? 0 : rg_error_set(err, EINVAL, "%s: the value is empty", what);
    default: return 0;
    }
}

int rg_hvd_apply(struct rg_horovodrun *run, const struct rg_hvd_option *option, const char *what,
                 const char *value, struct rg_error *err)
{
    int rc = judge(option, what, value, err);

    if (rc >= 0 && option->env && rg_env_set(&run->request.job.env, option->env, value) < 0)
        rc = rg_error_memory(err);
    if (rc >= 0 && option->apply)
        rc = option->apply(run, option, what, value, err);
    else if (rc >= 0)
        rc = rg_member_set(&option->member, run, what, value, err);
    if (rc >= 0 && option->note &&
        rg_request_note(&run->request, "%s: %s", what, option->note) < 0)
        rc = rg_error_memory(err);
    return rc;
}

/* --- handlers -------------------------------------------------------------------------------- */

static int set_env(struct rg_horovodrun *run, const char *name, const char *value,
                   struct rg_error *err)
{
    return rg_env_set(&run->request.job.env, name, value) < 0 ? rg_error_memory(err) : 0;
}

/* Flags of which one only may be given; another mention of the same one is fine. */
static int exclude(const char **given, const struct rg_hvd_option *option, const char *what,
                   struct rg_error *err)
{
    if (*given && strcmp(*given, option->name) != 0)
        return rg_error_set(err, EINVAL, "%s: not allowed with %s%s; keep one", what,
                            strlen(*given) == 1 ? "-" : "--", *given);
    *given = option->name;
    return 0;
}

/* As the option of reigen run that has this name. */
APPLY(same)
{
    return rg_option_apply(rg_option_find(option->name), &run->request, what, value, err);
}

/* Where it runs. */
APPLY(where)
{
    int rc = exclude(&run->where, option, what, err);

    return rc < 0 ? rc : apply_same(run, option, what, value, err);
}

APPLY(start_timeout)
{
    UNUSED(option);
    run->has_start_timeout = true;
    return rg_apply_start_timeout(&run->request, what, value, err);
}

APPLY(verbose)
{
    UNUSED(option), UNUSED(what), UNUSED(value), UNUSED(err);
    run->request.job.verbose = 2;
    return 0;
}

/* The same list without loopback, which leads to no other host, unless there is nothing else:
 * Horovod passes over it. NULL: no memory. */
static char *without_loopback(const char *list)
{
    rg_autofree char *copy = strdup(list);
    char *rest = copy, *others = calloc(1, strlen(list) + 1), *name;

    while (copy && others && (name = strsep(&rest, ",")) != NULL) {
        if (strcmp(name, "lo") == 0)
            continue;
        if (others[0])
            strcat(others, ",");
        strcat(others, name);
    }
    if (copy && others && !others[0])
        strcpy(others, list);
    return others;
}

/* The runtime and NCCL use all at once, gloo the first one, and so do the hosts when they look for
 * each other. */
static int use_interfaces(struct rg_horovodrun *run, const char *what, struct rg_error *err)
{
    rg_autofree char *all = without_loopback(run->interfaces);
    rg_autofree char *first = all ? strndup(all, strcspn(all, ",")) : NULL;
    int rc = first ? 0 : rg_error_memory(err);

    if (rc == 0 && !*first)
        return rg_error_set(err, EINVAL, "%s %s: an interface without a name", what, all);
    if (rc == 0) { /* the session checks it among hosts, the runtime on each */
        rg_strv_fini(&run->request.job.network_interfaces);
        rc = rg_apply_network_interface(&run->request, what, first, err);
    }
    rc = rc < 0 ? rc : set_env(run, "REIGEN_NETWORK_INTERFACE", all, err);
    rc = rc < 0 ? rc : set_env(run, "HOROVOD_GLOO_IFACE", first, err);
    return rc < 0 ? rc : set_env(run, "NCCL_SOCKET_IFNAME", all, err);
}

APPLY(interfaces)
{
    UNUSED(option);
    int rc = rg_parse_text(what, value, &run->interfaces, err);

    return rc < 0 ? rc : use_interfaces(run, what, err);
}

APPLY(interface)
{
    UNUSED(option);
    char *both = run->interfaces ? rg_strf("%s,%s", run->interfaces, value) : strdup(value);

    if (!both)
        return rg_error_memory(err);
    free(run->interfaces);
    run->interfaces = both;
    return use_interfaces(run, what, err);
}

APPLY(ssh_identity)
{
    UNUSED(option);
    if (access(value, R_OK) < 0)
        return rg_error_set(err, errno, "%s %s: %s", what, value, strerror(errno));
    return rg_parse_text(what, value, &run->request.job.ssh_identity, err);
}

APPLY(fusion)
{
    UNUSED(option);
    int64_t mb;
    int rc = rg_parse_int(what, value, 0, FUSION_MB_MAX, &mb, err);

    if (rc < 0)
        return rc;
    return rg_env_setf(&run->request.job.env, "HOROVOD_FUSION_THRESHOLD", "%lld",
                       (long long) mb * 1024 * 1024) < 0 ? rg_error_memory(err) : 0;
}

APPLY(log_level)
{
    static const char *const levels[] = {"TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"};

    UNUSED(option);
    for (size_t i = 0; i < rg_array_len(levels); i++) {
        if (strcasecmp(levels[i], value) == 0)
            return set_env(run, "HOROVOD_LOG_LEVEL", levels[i], err);
    }
    return rg_error_set(err, EINVAL, "%s %s: give TRACE, DEBUG, INFO, WARNING, ERROR or FATAL",
                        what, value);
}

APPLY(timestamp_off)
{
    UNUSED(option), UNUSED(what);
    return set_env(run, "HOROVOD_LOG_HIDE_TIME", *value == '1' ? "0" : "1", err);
}

APPLY(stall_off)
{
    UNUSED(option), UNUSED(what);
    return set_env(run, "HOROVOD_STALL_CHECK_DISABLE", *value == '1' ? "0" : "1", err);
}

APPLY(controller)
{
    UNUSED(value);
    return exclude(&run->controller, option, what, err);
}

APPLY(mpi_args)
{
    UNUSED(option);
    return rg_hvd_take_mpi_args(run, what, value, err);
}

APPLY(jsrun)
{
    UNUSED(run), UNUSED(option), UNUSED(value);
    return rg_error_set(err, EINVAL,
                        "%s: LSF's jsrun is not among what Reigen starts ranks with; leave %s out "
                        "and name the hosts with -H or --hostfile",
                        what, what);
}

/* The file's word for --gloo, --mpi and --jsrun. The command line may say another. */
APPLY(file_controller)
{
    const struct rg_hvd_option *flag = rg_hvd_option_find(value);

    UNUSED(option);
    if (!flag || flag->group != RG_HVD_CONTROLLER || flag->key)
        return rg_error_set(err, EINVAL, "%s: \"%s\" is no controller; give gloo or mpi", what,
                            value);
    char text[64];
    snprintf(text, sizeof text, "%s: %.20s", what, value);
    int rc = rg_hvd_apply(run, flag, text, "1", err);

    run->controller = NULL;
    return rc;
}

/* --- elastic --------------------------------------------------------------------------------- */

APPLY(cooldown)
{
    struct rg_hvd_elastic *e = &run->elastic;

    UNUSED(option);
    if (sscanf(value, "%d %d", &e->cooldown_min_s, &e->cooldown_max_s) != 2 ||
        e->cooldown_min_s < 1 || e->cooldown_min_s > e->cooldown_max_s)
        return rg_error_set(err, EINVAL,
                            "%s %s: give two numbers of seconds, the least first and at least 1, "
                            "such as 60 300",
                            what, value);
    return 0;
}

/* --- the table -------------------------------------------------------------------------------- */

/* Why a flag does nothing here; each is shown after the flag's name. */
#define NO_CYCLES "operations start when they are ready, not in cycles; this does nothing"
#define NO_TUNING "nothing is tuned while a job runs; this does nothing"
#define NO_TOPOLOGY "how data travels is chosen by operation and size; this does nothing"
#define NO_MPI "ranks are started by Reigen itself, not by mpirun; this does nothing"
#define NO_CONTROLLER "the ranks talk through Reigen's own runtime; this does nothing"
#define NO_STREAMS "each process set has one stream of its own for NCCL; this does nothing"

/* The column of what becomes of a value: who takes it, or which member of the job's description. */
#define NONE NULL, { .kind = RG_MEMBER_NONE }
#define BY(name) apply_##name, { .kind = RG_MEMBER_NONE }
#define FLAG(name) NULL, RG_MEMBER(FLAG, struct rg_horovodrun, name, 0, 0)
#define INT(name, min, max) NULL, RG_MEMBER(INT, struct rg_horovodrun, name, min, max)
#define TEXT(name) NULL, RG_MEMBER(TEXT, struct rg_horovodrun, name, 0, 0)

static const struct rg_hvd_option options[] = {
    {"num-proc", "np", NULL, RG_HVD_BASIC, RG_HVD_COUNT, "N", NULL, NULL, BY(same), NULL,
     "Run N ranks. The default is one on each slot of the hosts."},
    {"config-file", NULL, NULL, RG_HVD_BASIC, RG_HVD_TEXT, "FILE", "@file", NULL,
     TEXT(request.config), NULL,
     "Read settings from a YAML file; flags win over it, wherever they stand."},
    {"output-filename", NULL, NULL, RG_HVD_BASIC, RG_HVD_TEXT, "DIR", "@dir", NULL,
     BY(same), NULL,
     "Also write each rank's output to DIR/rank.R/stdout and DIR/rank.R/stderr."},
    {"prefix-output-with-timestamp", "prefix-timestamp", NULL, RG_HVD_BASIC, RG_HVD_ON, NULL, NULL,
     NULL, FLAG(request.job.timestamps), NULL, "Put the time in front of each line of output."},
    {"env-file", NULL, NULL, RG_HVD_BASIC, RG_HVD_TEXT, "FILE", "@file", NULL,
     BY(same), NULL,
     "Reigen's own: set the variables of FILE, a NAME=VALUE or NAME on each line."},
    {"start-timeout", NULL, NULL, RG_HVD_BASIC, RG_HVD_COUNT, "SECONDS", NULL, NULL,
     BY(start_timeout), NULL,
     "Give up when not all ranks have started by then. The default is HOROVOD_START_TIMEOUT, or "
     "300."},
    {"disable-cache", NULL, NULL, RG_HVD_BASIC, RG_HVD_ON, NULL, NULL, NULL, NONE, NULL,
     "Accepted; Reigen keeps no results of checks from one run to the next."},
    {"verbose", NULL, NULL, RG_HVD_BASIC, RG_HVD_ON, NULL, NULL, NULL, BY(verbose), NULL,
     "Say what happens."},
    {"check-build", "cb", NULL, RG_HVD_BASIC, RG_HVD_ON, NULL, NULL, NULL,
     FLAG(check_build), NULL, "Print which frameworks and ways to move data there are."},
    {"version", "v", NULL, RG_HVD_BASIC, RG_HVD_ON, NULL, NULL, NULL, BY(same), NULL,
     "Print the version and end."},
    {"help", "h", NULL, RG_HVD_BASIC, RG_HVD_ON, NULL, NULL, NULL, BY(same), NULL,
     "Print this and end."},

    {"H", "hosts", NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "HOST:SLOTS,...", "@host", NULL,
     BY(where), NULL,
     "Run on these hosts, with so many ranks at most on each. The default is this computer."},
    {"hostfile", NULL, NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "FILE", "@file", NULL,
     BY(where), NULL, "Read the hosts from FILE, one per line: HOST slots=N."},
    {"network-interfaces", NULL, NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "NAME,...", NULL, NULL,
     BY(interfaces), NULL,
     "The network interfaces between hosts, all used at once. The default is the one that the "
     "route leads to."},
    {"network-interface", NULL, NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "NAME", NULL, NULL,
     BY(interface), NULL, "One of them; may be repeated."},
    {"port-range", NULL, NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "FIRST-LAST", NULL, NULL,
     BY(same), NULL,
     "Reigen's own: listen on TCP ports of this range only, for a firewall."},
    {"connect-timeout", NULL, NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "TIME", NULL, NULL,
     BY(same), NULL,
     "Reigen's own: give up on a host whose sshd does not answer within TIME."},
    {"ssh-port", "p", NULL, RG_HVD_HOSTS, RG_HVD_COUNT, "PORT", NULL, NULL, BY(same),
     NULL, "The port of ssh on all hosts."},
    {"ssh-identity-file", "i", NULL, RG_HVD_HOSTS, RG_HVD_TEXT, "FILE", "@file", NULL,
     BY(ssh_identity), NULL, "The private key that ssh shall use."},

    {"fusion-threshold-mb", NULL, "params.fusion_threshold_mb", RG_HVD_TUNE, RG_HVD_COUNT, "MB",
     NULL, NULL, BY(fusion), NULL,
     "Send small tensors together up to this size. 0 sends each alone."},
    {"cycle-time-ms", NULL, "params.cycle_time_ms", RG_HVD_TUNE, RG_HVD_NUMBER, "MS", NULL,
     "HOROVOD_CYCLE_TIME", NONE, NO_CYCLES, "Accepted; Reigen has no cycles."},
    {"cache-capacity", NULL, "params.cache_capacity", RG_HVD_TUNE, RG_HVD_COUNT, "N", NULL,
     "HOROVOD_CACHE_CAPACITY", NONE, NULL,
     "Remember so many tensors, so that ranks need not compare them again."},
    {"hierarchical-allreduce", NULL, "params.hierarchical_allreduce", RG_HVD_TUNE, RG_HVD_ON, NULL,
     NULL, "HOROVOD_HIERARCHICAL_ALLREDUCE", NONE, NO_TOPOLOGY,
     "Accepted; Reigen reduces inside each host first where that is faster."},
    {"no-hierarchical-allreduce", NULL, NULL, RG_HVD_TUNE, RG_HVD_OFF, NULL, NULL,
     "HOROVOD_HIERARCHICAL_ALLREDUCE", NONE, NO_TOPOLOGY, "Accepted, as above."},
    {"hierarchical-allgather", NULL, "params.hierarchical_allgather", RG_HVD_TUNE, RG_HVD_ON, NULL,
     NULL, "HOROVOD_HIERARCHICAL_ALLGATHER", NONE, NO_TOPOLOGY, "Accepted, as above."},
    {"no-hierarchical-allgather", NULL, NULL, RG_HVD_TUNE, RG_HVD_OFF, NULL, NULL,
     "HOROVOD_HIERARCHICAL_ALLGATHER", NONE, NO_TOPOLOGY, "Accepted, as above."},
    {"torus-allreduce", NULL, "params.torus_allreduce", RG_HVD_TUNE, RG_HVD_ON, NULL, NULL,
     "HOROVOD_TORUS_ALLREDUCE", NONE, NO_TOPOLOGY, "Accepted, as above."},
    {"no-torus-allreduce", NULL, NULL, RG_HVD_TUNE, RG_HVD_OFF, NULL, NULL,
     "HOROVOD_TORUS_ALLREDUCE", NONE, NO_TOPOLOGY, "Accepted, as above."},

    {"autotune", NULL, "autotune.enabled", RG_HVD_AUTOTUNE, RG_HVD_ON, NULL, NULL,
     "HOROVOD_AUTOTUNE", NONE, NULL, "Accepted; Reigen tunes nothing while a job runs."},
    {"no-autotune", NULL, NULL, RG_HVD_AUTOTUNE, RG_HVD_OFF, NULL, NULL, "HOROVOD_AUTOTUNE", NONE,
     NULL, "Accepted, as above."},
    {"autotune-log-file", NULL, "autotune.log_file", RG_HVD_AUTOTUNE, RG_HVD_TEXT, "FILE", "@file",
     "HOROVOD_AUTOTUNE_LOG", NONE, NO_TUNING, "Accepted, as above."},
    {"autotune-warmup-samples", NULL, "autotune.warmup_samples", RG_HVD_AUTOTUNE, RG_HVD_COUNT, "N",
     NULL, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", NONE, NO_TUNING, "Accepted, as above."},
    {"autotune-steps-per-sample", NULL, "autotune.steps_per_sample", RG_HVD_AUTOTUNE, RG_HVD_COUNT,
     "N", NULL, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", NONE, NO_TUNING, "Accepted, as above."},
    {"autotune-bayes-opt-max-samples", NULL, "autotune.bayes_opt_max_samples", RG_HVD_AUTOTUNE,
     RG_HVD_COUNT, "N", NULL, "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", NONE, NO_TUNING,
     "Accepted, as above."},
    {"autotune-gaussian-process-noise", NULL, "autotune.gaussian_process_noise", RG_HVD_AUTOTUNE,
     RG_HVD_SHARE, "SHARE", NULL, "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", NONE, NO_TUNING,
     "Accepted, as above."},

    {"host-discovery-script", NULL, NULL, RG_HVD_ELASTIC, RG_HVD_TEXT, "COMMAND", "@file", NULL,
     BY(where), NULL,
     "A script, perhaps with arguments, that prints the hosts there are now, one HOST or "
     "HOST:SLOTS per line. The job is elastic then. The shell runs it, as with Horovod, once in a "
     "second."},
    {"min-num-proc", "min-np", NULL, RG_HVD_ELASTIC, RG_HVD_COUNT, "N", NULL, NULL,
     INT(elastic.min_np, 1, RG_JOB_RANKS_MAX), NULL,
     "Make the job elastic: it goes on as long as there is room for N ranks. -np are needed to "
     "begin."},
    {"max-num-proc", "max-np", NULL, RG_HVD_ELASTIC, RG_HVD_COUNT, "N", NULL, NULL,
     INT(elastic.max_np, 1, RG_JOB_RANKS_MAX), NULL,
     "The same, with N ranks at most. The default is one on each slot that there is."},
    {"slots-per-host", "slots", NULL, RG_HVD_ELASTIC, RG_HVD_COUNT, "N", NULL, NULL,
     INT(request.discovery_slots, 1, RG_JOB_SLOTS_MAX), NULL,
     "Slots of a host for which the script prints none."},
    {"elastic-timeout", NULL, NULL, RG_HVD_ELASTIC, RG_HVD_COUNT, "SECONDS", NULL,
     "HOROVOD_ELASTIC_TIMEOUT", INT(elastic.timeout_s, 1, RG_HVD_COUNT_MAX), NULL,
     "End the job when it has had too few ranks for so long. The default is "
     "HOROVOD_ELASTIC_TIMEOUT, or 600."},
    {"reset-limit", NULL, NULL, RG_HVD_ELASTIC, RG_HVD_COUNT, "N", NULL, NULL,
     INT(elastic.reset_limit, 0, RG_HVD_COUNT_MAX), NULL,
     "End the job when its ranks would change for the N+1st time."},
    {"blacklist-cooldown-range", NULL, NULL, RG_HVD_ELASTIC, RG_HVD_PAIR, "MIN MAX", NULL, NULL,
     BY(cooldown), NULL,
     "Use a host again whose rank failed, after MIN seconds at first, and twice as long each "
     "time, MAX at most. The default is never."},

    {"timeline-filename", NULL, "timeline.filename", RG_HVD_TIMELINE, RG_HVD_TEXT, "FILE", "@file",
     "HOROVOD_TIMELINE", NONE, NULL, "Write what every operation did when to FILE."},
    {"timeline-mark-cycles", NULL, "timeline.mark_cycles", RG_HVD_TIMELINE, RG_HVD_ON, NULL, NULL,
     "HOROVOD_TIMELINE_MARK_CYCLES", NONE, NULL, "Mark in it when the runtime began to work."},
    {"no-timeline-mark-cycles", NULL, NULL, RG_HVD_TIMELINE, RG_HVD_OFF, NULL, NULL,
     "HOROVOD_TIMELINE_MARK_CYCLES", NONE, NULL, "Do not."},

    {"no-stall-check", NULL, NULL, RG_HVD_STALL, RG_HVD_OFF, NULL, NULL, NULL,
     BY(stall_off), NULL, "Do not report ranks that keep others waiting."},
    {"stall-check", NULL, "stall_check.enabled", RG_HVD_STALL, RG_HVD_ON, NULL, NULL, NULL,
     BY(stall_off), NULL, "Report them; the default."},
    {"stall-check-warning-time-seconds", NULL, "stall_check.warning_time_seconds", RG_HVD_STALL,
     RG_HVD_COUNT, "SECONDS", NULL, "HOROVOD_STALL_CHECK_TIME_SECONDS", NONE, NULL,
     "Report them after this time, not by what steps took."},
    {"stall-check-shutdown-time-seconds", NULL, "stall_check.shutdown_time_seconds", RG_HVD_STALL,
     RG_HVD_COUNT, "SECONDS", NULL, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", NONE, NULL,
     "End the job after this time. The default, 0, is never."},

    {"mpi-threads-disable", NULL, "library_options.mpi_threads_disable", RG_HVD_LIBRARY, RG_HVD_ON,
     NULL, NULL, "HOROVOD_MPI_THREADS_DISABLE", NONE, NO_MPI, "Accepted; MPI is not used."},
    {"no-mpi-threads-disable", NULL, NULL, RG_HVD_LIBRARY, RG_HVD_OFF, NULL, NULL,
     "HOROVOD_MPI_THREADS_DISABLE", NONE, NO_MPI, "Accepted, as above."},
    {"mpi-args", NULL, "library_options.mpi_args", RG_HVD_LIBRARY, RG_HVD_TEXT, "ARGUMENTS", NULL,
     NULL, BY(mpi_args), NULL,
     "Options of mpirun's: those that reigen run has are obeyed (-x, --oversubscribe, --bind-to), "
     "and a remark names each of the others."},
    {"binding-args", NULL, NULL, RG_HVD_LIBRARY, RG_HVD_TEXT, "ARGUMENTS", NULL, NULL,
     BY(mpi_args), NULL, "As --mpi-args."},
    {"tcp", NULL, NULL, RG_HVD_LIBRARY, RG_HVD_ON, NULL, NULL, "NCCL_IB_DISABLE", NONE,
     "between hosts TCP is what is used; this does nothing", "Accepted, as above."},
    {"num-nccl-streams", NULL, "library_options.num_nccl_streams", RG_HVD_LIBRARY, RG_HVD_COUNT,
     "N", NULL, "HOROVOD_NUM_NCCL_STREAMS", NONE, NO_STREAMS, "Accepted; NCCL has one."},
    {"thread-affinity", NULL, "library_options.thread_affinity", RG_HVD_LIBRARY, RG_HVD_COUNT,
     "CORE", NULL, "HOROVOD_THREAD_AFFINITY", NONE, NULL,
     "Handed on to the ranks as HOROVOD_THREAD_AFFINITY."},
    {"gloo-timeout-seconds", NULL, "library_options.gloo_timeout_seconds", RG_HVD_LIBRARY,
     RG_HVD_COUNT, "SECONDS", NULL, "HOROVOD_GLOO_TIMEOUT_SECONDS", NONE, NULL,
     "How long ranks wait for each other at their start, where neither REIGEN_START_TIMEOUT nor "
     "HOROVOD_START_TIMEOUT is set for them; 300 s by default."},

    {"log-level", NULL, "logging.level", RG_HVD_LOG, RG_HVD_TEXT, "LEVEL",
     "TRACE DEBUG INFO WARNING ERROR FATAL", NULL, BY(log_level), NULL,
     "The least important messages of the runtime that are shown: TRACE, DEBUG, INFO, WARNING "
     "(the default), ERROR or FATAL."},
    {"log-with-timestamp", "no-log-hide-timestamp", "logging.with_timestamp", RG_HVD_LOG, RG_HVD_ON,
     NULL, NULL, NULL, BY(timestamp_off), NULL, "Show the time in them; the default."},
    {"log-without-timestamp", "log-hide-timestamp", NULL, RG_HVD_LOG, RG_HVD_OFF, NULL, NULL, NULL,
     BY(timestamp_off), NULL, "Do not."},

    {"gloo", NULL, NULL, RG_HVD_CONTROLLER, RG_HVD_ON, NULL, NULL, NULL, BY(controller),
     NO_CONTROLLER, "Accepted; Reigen starts and connects the ranks itself."},
    {"mpi", NULL, NULL, RG_HVD_CONTROLLER, RG_HVD_ON, NULL, NULL, NULL, BY(controller),
     NO_CONTROLLER, "Accepted, as above."},
    {"jsrun", NULL, NULL, RG_HVD_CONTROLLER, RG_HVD_ON, NULL, NULL, NULL, BY(jsrun), NULL,
     "Refused: LSF's jsrun is not supported."},
    {"controller", NULL, "controller", RG_HVD_CONTROLLER, RG_HVD_TEXT, "NAME", "gloo mpi", NULL,
     BY(file_controller), NULL, "The key of the file: gloo or mpi, as --gloo and --mpi."},
};

const struct rg_hvd_option *rg_hvd_options(size_t *ret_count)
{
    *ret_count = rg_array_len(options);
    return options;
}

const struct rg_hvd_option *rg_hvd_option_find(const char *name)
{
    if (!*name || strchr(name, ' '))
        return NULL;
    for (size_t i = 0; i < rg_array_len(options); i++) {
        if (strcmp(options[i].name, name) == 0 || rg_str_has_word(options[i].aliases, name))
            return &options[i];
    }
    return NULL;
}

const struct rg_hvd_option *rg_hvd_option_find_key(const char *key)
{
    for (size_t i = 0; i < rg_array_len(options); i++) {
        if (options[i].key && strcmp(options[i].key, key) == 0)
            return &options[i];
    }
    return NULL;
}

const char *rg_hvd_group_title(int group)
{
    static const char *const titles[RG_HVD_GROUP_COUNT] = {
        "What runs", "Hosts",       "Tuning",    "Autotuning",          "Elastic jobs",
        "Timeline",  "Stall check", "Libraries", "The runtime's words", "Controller",
    };
    return titles[group];
}
