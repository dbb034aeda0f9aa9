/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen torchrun: torchrun's command line becomes reigen run's. One command starts the ranks on
 * all hosts, so what says how machines find each other means nothing. --nnodes MIN:MAX is an
 * elastic job, whose ranks are all started again when they change, as torchrun's are.
 */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "base/str.h"
#include "cmd/compat/compat.h"
#include "cmd/run/run.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/platform.h"

#define COMMAND "torchrun"
#define VARIABLE "PET_" /* in front of a flag's name: the variable that torchrun reads, too */
#define NAME_NBYTES 64

/* Words are borrowed from the line. */
struct torchrun {
    struct rg_strv line;              /* argv, with the names of its flags as the table has them */
    int min_nodes, max_nodes;         /* 0: not said */
    const char *nnodes, *nproc;       /* as they were said */
    int each;                         /* ranks on each host; 0: not said */
    int max_restarts, node_rank;
    const char *run_id, *role, *meeting, *log_dir, *redirects, *shown, *grace;
    bool standalone, module, no_python, help;
};

/* --- the flags -------------------------------------------------------------------------------- */

static int apply_nnodes(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct torchrun *t = object;
    rg_autofree char *min = strndup(value, strcspn(value, ":"));
    const char *max = strchr(value, ':');
    int64_t least, most;

    if (!min)
        return rg_error_memory(err);
    int rc = rg_parse_int(what, min, 1, RG_JOB_HOSTS_MAX, &least, err);
    rc = rc < 0 ? rc : rg_parse_int(what, max ? max + 1 : min, 1, RG_JOB_HOSTS_MAX, &most, err);
    if (rc < 0)
        return rc;
    if (most < least)
        return rg_error_set(err, EINVAL, "%s %s: the second number is less than the first; write "
                            "MIN:MAX", what, value);
    t->min_nodes = (int) least;
    t->max_nodes = (int) most;
    t->nnodes = value;
    return 0;
}

/* The value of -r and -t: "3", or "0:1,1:3" for some local ranks. */
static int check_streams(const char *what, const char *value, struct rg_error *err)
{
    for (const char *p = value; *p; p += *p == ',') {
        size_t rank = strspn(p, "0123456789");
        p += rank && p[rank] == ':' ? rank + 1 : 0;
        if (*p < '0' || *p > '3' || (p[1] && p[1] != ','))
            return rg_error_set(err, EINVAL, "%s %.80s: give 0 (neither), 1 (standard output), 2 "
                                "(standard error) or 3, or such of each local rank: 0:3,1:0", what,
                                value);
        p++;
    }
    return 0;
}

static int apply_redirects(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct torchrun *t = object;

    t->redirects = strcmp(value, "0") == 0 ? NULL : value;
    return check_streams(what, value, err);
}

static int apply_tee(void *object, const char *what, const char *value, struct rg_error *err)
{
    (void) object;
    return check_streams(what, value, err);
}

static int apply_numa(void *object, const char *what, const char *value, struct rg_error *err)
{
    (void) object;
    return rg_error_set(err, EINVAL, "%s %.80s: use --bind-to core, socket or gpu (the cores near "
                        "the rank's GPU)", what, value);
}

static int apply_virtual(void *object, const char *what, const char *value, struct rg_error *err)
{
    (void) object, (void) value;
    return rg_error_set(err, EINVAL, "%s: use --gpus-per-rank 1, by which each rank sees one GPU "
                        "alone", what);
}

static int apply_filters(void *object, const char *what, const char *value, struct rg_error *err)
{
    (void) object;
    return rg_error_set(err, EINVAL, "%s %.80s: lines are not chosen by their words; put grep "
                        "behind the command, or use --log-dir", what, value);
}

/* What has no meaning where one command starts all. */
static int idle(void *object, const char *what, const char *value, struct rg_error *err)
{
    (void) object, (void) what, (void) value, (void) err;
    return 0;
}

#define TO(kind, name, min, max) NULL, RG_MEMBER(kind, struct torchrun, name, min, max)
#define ACCEPTED "Accepted; one command starts all ranks and tells them how they meet."

static const struct rg_script_option options[] = {
    { "nnodes", "N|MIN:MAX", false, NULL,
      "How many hosts. With MIN:MAX the job goes on as long as there are MIN of those that are "
      "named, and all ranks are started again when hosts come or go. The default is all that are "
      "named.", .apply = apply_nnodes },
    { "nproc-per-node", "N", false, "auto cpu gpu",
      "Ranks on each host: a number, or cpu, gpu or auto for what this computer has. The default "
      "is 1, or the slots of the hosts that are named.", TO(WORD, nproc, 1, 0) },
    { "max-restarts", "N", false, NULL,
      "Start all ranks again when some have failed, at most N times. The default is 0. Restarts "
      "because hosts come are not counted.", TO(INT, max_restarts, 0, RG_JOB_RESTARTS_MAX) },
    { "module", NULL, false, NULL, "-m: the script is a module's name, as of python -m.",
      TO(FLAG, module, 0, 0) },
    { "no-python", NULL, false, NULL, "The script is a program, and not run by Python.",
      TO(FLAG, no_python, 0, 0) },
    { "run-path", NULL, false, NULL, "Accepted; the script is run by Python anyway.",
      .apply = idle },
    { "log-dir", "DIR", false, "@dir", "Write the ranks' output to DIR/rank.N as well.",
      TO(WORD, log_dir, 1, 0) },
    { "redirects", "STREAMS", false, NULL,
      "-r: accepted. With --log-dir the output is in files, and is shown, too.",
      .apply = apply_redirects },
    { "tee", "STREAMS", false, NULL, "-t: the same.", .apply = apply_tee },
    { "local-ranks-filter", "RANKS", false, NULL,
      "Show the output of these local ranks alone, such as 0,2.", TO(WORD, shown, 1, 0) },
    { "shutdown-timeout", "SECONDS", false, NULL,
      "What ranks have between SIGTERM and SIGKILL. The default is 5.", TO(WORD, grace, 1, 0) },
    { "role", "NAME", false, NULL, "What ranks find in ROLE_NAME. The default is default.",
      TO(WORD, role, 1, 0) },
    { "rdzv-id", "ID", false, NULL, "What ranks find in TORCHELASTIC_RUN_ID. The default is none.",
      TO(WORD, run_id, 1, 0) },
    { "standalone", NULL, false, NULL, "Accepted; it says that this computer is all.",
      TO(FLAG, standalone, 0, 0) },
    { "node-rank", "N", false, NULL,
      "Accepted where it is 0. Others are refused, as this command is not given on each host.",
      TO(INT, node_rank, 0, RG_JOB_HOSTS_MAX) },
    { "rdzv-endpoint", "HOST[:PORT]", false, NULL, ACCEPTED, TO(WORD, meeting, 0, 0) },
    { "master-addr", "HOST", false, NULL, ACCEPTED, TO(WORD, meeting, 0, 0) },
    { "master-port", "PORT", false, NULL, ACCEPTED, .apply = idle },
    { "rdzv-backend", "NAME", false, "c10d static etcd etcd-v2", ACCEPTED, .apply = idle },
    { "rdzv-conf", "NAME=VALUE,...", false, NULL, ACCEPTED, .apply = idle },
    { "local-addr", "HOST", false, NULL, ACCEPTED, .apply = idle },
    { "monitor-interval", "SECONDS", false, NULL, "Accepted; a rank's end is heard of at once.",
      .apply = idle },
    { "start-method", "NAME", false, "spawn fork forkserver", "Accepted; ranks are programs.",
      .apply = idle },
    { "signals-to-handle", "NAMES", false, NULL, "Accepted; all signals are handed on.",
      .apply = idle },
    { "event-log-handler", "NAME", false, NULL, "Accepted; --json prints what happens.",
      .apply = idle },
    { "logs-specs", "NAME", false, NULL, "Accepted; see --log-dir.", .apply = idle },
    { "numa-binding", "HOW", false, NULL, "Refused: use --bind-to.", .apply = apply_numa },
    { "virtual-local-rank", NULL, false, NULL, "Refused: use --gpus-per-rank 1.",
      .apply = apply_virtual },
    { "duplicate-stdout-filters", "WORDS", false, NULL, "Refused.", .apply = apply_filters },
    { "duplicate-stderr-filters", "WORDS", false, NULL, "Refused.", .apply = apply_filters },
    { "help", NULL, false, NULL, "-h: print this.", TO(FLAG, help, 0, 0) },
    { .name = NULL }
};

const struct rg_script rg_script_torchrun = {
    .name = NULL, .under = "", .usage = "[OPTION...] [OPTION OF reigen run...] SCRIPT "
                                        "[ARGUMENT...]",
    .summary = "run copies of a Python script with torchrun's flags",
    .about = "Runs copies of SCRIPT, called ranks, as reigen run does, for command lines that were "
             "written for PyTorch's torchrun. It is given once, for all hosts: those of -H or "
             "--hostfile, those of the platform, or this computer. Python is PYTHON_EXEC, or the "
             "python of PATH. A flag that is not given is read from PET_ and its name in "
             "capitals, such as PET_NNODES. Names may have underscores in the place of dashes. All "
             "options of reigen run are taken, too. The same is done by a link to reigen with the "
             "name torchrun.",
    .status = "As of reigen run: reigen explain tells them.",
    .examples = "reigen torchrun --standalone --nproc-per-node=4 train.py --epochs 4\n"
                "reigen torchrun --nnodes=2 --nproc-per-node=4 -H a,b train.py\n"
                "reigen torchrun --nnodes=1:2 --nproc-per-node=4 --max-restarts=3 \\\n"
                "    -H a,b train.py\n",
    .operands = true, .options = options
};

/* --- the command line ------------------------------------------------------------------------- */

/* -r3, -r 3, --nproc_per_node=4: as the table has them. */
static int normalize(char **word, struct rg_error *err)
{
    static const struct { const char *letter, *name; } shorts[] = {
        { "-r", "redirects" }, { "-t", "tee" }, { "-m", "module" },
    };
    char *p = *word;

    for (size_t i = 0; i < rg_array_len(shorts); i++) {
        if (strncmp(p, shorts[i].letter, 2) != 0 || (p[2] && !isdigit((unsigned char) p[2])))
            continue;
        char *full = rg_strf("--%s%s%s", shorts[i].name, p[2] ? "=" : "", p + 2);
        if (!full)
            return rg_error_memory(err);
        free(p);
        *word = full;
        return 0;
    }
    for (; rg_str_starts(*word, "--") && *p && *p != '='; p++)
        *p = *p == '_' ? '-' : *p;
    return 0;
}

static int take_variables(struct torchrun *t, struct rg_error *err)
{
    int rc = 0;

    for (const struct rg_script_option *o = options; rc == 0 && o->name; o++) {
        char name[NAME_NBYTES];
        size_t n = (size_t) snprintf(name, sizeof(name), VARIABLE "%s", o->name);
        for (size_t i = 0; i < n; i++)
            name[i] = name[i] == '-' ? '_' : (char) toupper((unsigned char) name[i]);
        const char *value = getenv(name);
        if (!value || !*value || (!o->arg && strcmp(value, "0") == 0))
            continue;
        rc = o->apply ? o->apply(t, name, value, err)
                      : rg_member_set(&o->member, t, name, o->arg ? value : NULL, err);
    }
    return rc;
}

/* What is none of torchrun's flags may be one that reigen run takes: it goes, with its values, to
 * words. */
static int take_ours(struct torchrun *t, int *i, struct rg_strv *words, struct rg_error *err)
{
    char **line = t->line.v;
    int next = *i, rc = rg_request_take_flag(NULL, (int) t->line.count, line, &next, err);

    if (rc == 0)
        return rg_script_option_refuse(options, COMMAND, line[*i], err);
    for (; rc > 0 && *i < next; (*i)++)
        rc = rg_strv_add(words, line[*i]) < 0 ? rg_error_memory(err) : rc;
    (*i)--;
    return rc;
}

/* Returns where the script stands in the line. */
static int take_flags(struct torchrun *t, struct rg_strv *words, struct rg_error *err)
{
    char **line = t->line.v;
    int i, rc = take_variables(t, err);

    for (i = 1; rc >= 0 && line[i] && line[i][0] == '-' && line[i][1] && !t->help; i++) {
        if (strcmp(line[i], "--") == 0)
            return i + 1;
        rc = normalize(&line[i], err);
        rc = rc < 0 ? rc : rg_script_option_take(options, COMMAND, line, &i, t, err);
        rc = rc ? rc : take_ours(t, &i, words, err);
    }
    return rc < 0 ? rc : i;
}

/* --- what it means ---------------------------------------------------------------------------- */

static int count_gpus(void)
{
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");
    glob_t found = { 0 };
    int n = 0;

    /* As for CUDA, the list ends before a word such as -1 or NoDevFiles. */
    for (const char *p = seen; p && *p && strchr("0123456789GM", *p); p += *p == ',') {
        p += strcspn(p, ",");
        n++;
    }
    if (!seen && glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0)
        n = (int) found.gl_pathc;
    globfree(&found);
    return n;
}

static int settle_each(struct torchrun *t, struct rg_error *err)
{
    const struct rg_member number = RG_MEMBER(INT, struct torchrun, each, 1, RG_JOB_SLOTS_MAX);
    int ngpus = count_gpus();

    if (!t->nproc || !rg_str_has_word("auto cpu gpu", t->nproc))
        return t->nproc ? rg_member_set(&number, t, "--nproc-per-node", t->nproc, err) : 0;
    if (!ngpus && strcmp(t->nproc, "gpu") == 0)
        return rg_error_set(err, EINVAL, "--nproc-per-node gpu: this computer has no GPU; give a "
                            "number");
    t->each = ngpus && strcmp(t->nproc, "cpu") != 0 ? ngpus : (int) sysconf(_SC_NPROCESSORS_ONLN);
    return 0;
}

static bool is_elastic(const struct torchrun *t)
{
    return t->max_nodes > t->min_nodes;
}

/* reigen run's options for torchrun's flags. */
static int add_options(const struct torchrun *t, struct rg_strv *words)
{
    const int each = t->each ? t->each : 1, min_np = t->min_nodes * each;
    const struct { const char *option; int value; } numbers[] = {
        { "--ranks-per-host", t->each },
        { "--nnodes", is_elastic(t) ? 0 : t->min_nodes },
        { "-np", is_elastic(t) ? min_np : 0 },
        { "--min-np", is_elastic(t) ? min_np : 0 },
        { "--max-np", is_elastic(t) ? t->max_nodes * each : 0 },
        { "--max-restarts", is_elastic(t) ? 0 : t->max_restarts },
    };
    const struct { const char *option, *value; } texts[] = {
        { "--output-dir", t->log_dir }, { "--grace", t->grace },
    };

    for (size_t i = 0; i < rg_array_len(numbers); i++) {
        if (numbers[i].value && rg_strv_addf(words, "%s=%d", numbers[i].option,
                                             numbers[i].value) < 0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        if (texts[i].value && rg_strv_addf(words, "%s=%s", texts[i].option, texts[i].value) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* python -u [-m] SCRIPT ARGUMENTS */
static int add_command(const struct torchrun *t, char *const *script, struct rg_strv *words)
{
    const char *python = getenv("PYTHON_EXEC");
    const char *path = getenv("PATH");
    char found[PATH_MAX];

    if (!python || !*python)
        python = path && !rg_path_find(path, "python", strlen("python"), found) &&
                         rg_path_find(path, "python3", strlen("python3"), found)
                     ? "python3" : "python";
    if (rg_strv_add(words, "--") < 0 ||
        (!t->no_python && (rg_strv_add(words, python) < 0 || rg_strv_add(words, "-u") < 0)) ||
        (t->module && rg_strv_add(words, "-m") < 0))
        return -ENOMEM;
    return rg_strv_add_all(words, script);
}

/* Machines that each run this command would each be a job of their own. */
static int check_alone(const struct torchrun *t, struct rg_error *err)
{
    static const char once[] = "give this command once, without --node-rank, and name all hosts "
                               "with -H or --hostfile: it starts the ranks on all of them";

    if (t->node_rank)
        return rg_error_set(err, EINVAL, "--node-rank %d: %s", t->node_rank, once);
    if (t->no_python && t->module)
        return rg_error_set(err, EINVAL, "--no-python and -m: a module is run by Python; leave one "
                            "of them out");
    return 0;
}

static bool is_alone(const struct rg_job *job)
{
    return !job->nhosts && !rg_platform_of(job)->finds_hosts;
}

static int check_hosts(const struct torchrun *t, struct rg_request *request, struct rg_error *err)
{
    const struct rg_job *job = &request->job;
    rg_autofree char *where = t->meeting ? strndup(t->meeting, strcspn(t->meeting, ":")) : NULL;
    bool alone = is_alone(job);
    size_t nhosts = job->nhosts ? job->nhosts : 1;
    bool remote = false;

    for (size_t i = 0; i < job->nhosts; i++)
        remote |= job->hosts[i].user || !rg_host_is_local(job->hosts[i].name);
    if (remote && t->nproc && !isdigit((unsigned char) *t->nproc))
        return rg_error_set(err, EINVAL, "--nproc-per-node %s: of other hosts that is not known "
                            "here; give a number", t->nproc);
    if (!is_elastic(t))
        return 0;
    if (alone && where && *where && !rg_host_is_local(where))
        return rg_error_set(err, EINVAL, "--nnodes %s: machines do not meet at %s by running this "
                            "on each of them; run it on one, and name all with -H or --hostfile",
                            t->nnodes, t->meeting);
    if ((alone || job->nhosts) && !job->elastic.discovery && nhosts < (size_t) t->min_nodes)
        return rg_error_set(err, EINVAL, "--nnodes %s: %zu host%s; name %d or more with -H or "
                            "--hostfile, as this command starts the ranks on all of them",
                            t->nnodes, nhosts, alone ? ", this computer" :
                            nhosts == 1 ? " is named" : "s are named", t->min_nodes);
    if (!t->each && job->nhosts)
        return rg_error_set(err, EINVAL, "--nnodes %s: say with --nproc-per-node how many ranks "
                            "each host has", t->nnodes);
    if (alone && !t->standalone &&
        rg_request_note(request, "--nnodes %s: no other host is named, so the job has this "
                        "computer alone; see -H, --hostfile and --host-discovery-script",
                        t->nnodes) < 0)
        return rg_error_memory(err);
    return 0;
}

/* --local-ranks-filter 0,2: of each host's each ranks. */
static int settle_shown(const struct torchrun *t, struct rg_job *job, struct rg_error *err)
{
    struct rg_ranks local = { 0 };
    rg_autobuf struct rg_buf all = RG_BUF_INIT;
    int each = t->each ? t->each : 1;
    int nhosts = t->max_nodes ? t->max_nodes : job->nhosts ? (int) job->nhosts : 1;

    if (!t->shown)
        return 0;
    if ((!t->each && !is_alone(job)) || (!t->max_nodes && !job->nhosts && !is_alone(job)))
        return rg_error_set(err, EINVAL, "--local-ranks-filter %s: say with --nproc-per-node how "
                            "many ranks each host has, and with --nnodes how many hosts there are",
                            t->shown);
    int rc = rg_ranks_parse(t->shown, &local, err);

    for (int rank = 0; rc == 0 && rank < nhosts * each; rank++) {
        if (rg_ranks_has(&local, rank % each))
            rg_buf_printf(&all, "%s%d", rg_buf_nbytes(&all) ? "," : "", rank);
    }
    rg_ranks_fini(&local);
    if (rc < 0)
        return rg_error_prepend(err, "--local-ranks-filter");
    if (!rg_buf_nbytes(&all))
        return rg_error_set(err, EINVAL, "--local-ranks-filter %s: local ranks are 0 to %d",
                            t->shown, each - 1);
    rg_ranks_fini(&job->show);
    return rg_ranks_parse(rg_buf_text(&all), &job->show, err);
}

/* What torchrun's ranks find beside what all of ours do. */
static int add_variables(const struct torchrun *t, struct rg_job *job, struct rg_error *err)
{
    const char *id = t->run_id ? t->run_id : "none", *role = t->role ? t->role : "default";

    if (rg_env_set(&job->env, "TORCHELASTIC_RUN_ID", id) < 0 ||
        rg_env_set(&job->env, "ROLE_NAME", role) < 0 ||
        rg_env_setf(&job->env, "TORCHELASTIC_MAX_RESTARTS", "%d", t->max_restarts) < 0 ||
        (!is_elastic(t) && rg_env_set(&job->env, "TORCHELASTIC_RESTART_COUNT", "0") < 0))
        return rg_error_memory(err);
    return 0;
}

static int settle(const struct torchrun *t, struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    int rc = check_hosts(t, request, err);

    if (!t->each && is_alone(job) && (job->elastic.on || !job->np))
        job->ranks_per_host = 1;

    rc = rc < 0 ? rc : settle_shown(t, job, err);
    rc = rc < 0 ? rc : add_variables(t, job, err);
    if (rc == 0 && t->redirects && !t->log_dir &&
        rg_request_note(request, "--redirects %s: ignored without --log-dir; the output is shown",
                        t->redirects) < 0)
        return rg_error_memory(err);
    job->elastic.restarts = job->elastic.on;
    if (job->elastic.on)
        job->elastic.reset_limit = t->max_restarts;
    return rc;
}

static int parse(struct torchrun *t, int argc, char *const *argv, struct rg_request *request,
                 struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;

    (void) argc;
    if (rg_strv_add_all(&t->line, argv) < 0 || rg_strv_add(&words, "run") < 0)
        return rg_error_memory(err);
    int script = take_flags(t, &words, err);
    if (script < 0 || t->help)
        return script < 0 ? script : 0;
    if (!t->line.v[script])
        return rg_error_set(err, EINVAL, "no script: say what to run, for example reigen torchrun "
                            "--nproc-per-node=4 train.py");
    int rc = check_alone(t, err);
    rc = rc < 0 ? rc : settle_each(t, err);
    if (rc < 0)
        return rc;
    if (add_options(t, &words) < 0 || add_command(t, t->line.v + script, &words) < 0)
        return rg_error_memory(err);
    rc = rg_run_parse(request, (int) words.count, words.v, err);
    return rc < 0 ? rc : settle(t, request, err);
}

int rg_cmd_torchrun(int argc, char **argv)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    struct torchrun t = { .line = RG_STRV_INIT };
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_request_init(&request);
    request.tell = rg_run_tell;
    int rc = parse(&t, argc, argv, &request, &err);
    bool help = t.help;

    rg_strv_fini(&t.line);
    if (rc < 0 && !err.exit_code && rc != -ENOMEM)
        err.exit_code = RG_EXIT_USAGE;
    if (rc < 0)
        return rg_fail(&err, COMMAND);
    if (help)
        return RG_COMMAND_HELP;
    rg_run_say_remarks(&request);
    return rg_run_request(&request, COMMAND, false, open[0]);
}
