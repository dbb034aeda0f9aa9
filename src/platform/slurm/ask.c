/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's programs that are asked something, and what their complaints mean. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/slurm/door.h"
#include "platform/slurm/internal.h"

#define ASK_MS 10000
#define ANSWER_MAX 8192

/* --- a program and its words ------------------------------------------------------------------ */

/* Users' defaults for these programs, such as SQUEUE_STATES, would hide what is looked for. */
static bool is_default(const char *entry)
{
    static const char *const defaults[] = { "SQUEUE_", "SCANCEL_", "SINFO_",
                                            "SLURM_TIME_FORMAT=", NULL };

    return slurm_starts_with_one(entry, defaults);
}

/* What it says goes to a file in memory, so that nobody has to read along. */
static int spawn_asked(char *const *argv, int *ret_fd, pid_t *ret_pid)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    rg_autoclose int fd = memfd_create("answer", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : rg_agent_env_make(NULL, is_default, &env);

    if (r < 0)
        return r;
    const struct rg_spawn spawn = { .argv = argv, .envp = env.v, .fds = { -1, fd, fd },
                                    .death_signal = SIGKILL };
    r = rg_spawn(&spawn, ret_pid, NULL);
    if (r == 0)
        *ret_fd = rg_steal_fd(&fd);
    return r;
}

void slurm_take_answer(int fd, char *ret_text, size_t nbytes)
{
    ssize_t n = pread(fd, ret_text, nbytes - 1, 0);

    ret_text[n > 0 ? n : 0] = '\0';
}

int slurm_ask_within(char *const *argv, char *ret_text, size_t nbytes, uint64_t ms)
{
    uint64_t deadline_ns = rg_now_ns() + ms * RG_NS_PER_MS;
    rg_autoclose int fd = -1;
    int status = 0;
    pid_t pid, ended;

    ret_text[0] = '\0';
    int r = spawn_asked(argv, &fd, &pid);
    if (r < 0)
        return r;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && rg_now_ns() < deadline_ns)
        rg_sleep_ms(1);
    if (ended == 0) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    slurm_take_answer(fd, ret_text, nbytes);
    return ended == 0 ? -ETIMEDOUT : ended < 0 ? -ECHILD : rg_status_code(status);
}

int rg_slurm_ask(char *const *argv, char *ret_text, size_t nbytes)
{
    return slurm_ask_within(argv, ret_text, nbytes, ASK_MS);
}

bool rg_slurm_counts_gpus(const char *node)
{
    rg_autofree char *nodes = rg_strf("--nodes=%s", node);
    char *sinfo[] = { (char *) "sinfo", (char *) "--noheader", nodes, (char *) "--format=%G",
                      NULL };
    char text[ANSWER_MAX];

    return nodes && rg_slurm_ask(sinfo, text, sizeof(text)) == 0 && rg_slurm_gres_names_gpus(text);
}

/* --- the same, by the loop -------------------------------------------------------------------- */

static void answered(void *arg, pid_t pid, int status)
{
    struct slurm_question *question = arg;
    rg_autofree char *text = status == 0 ? malloc(SLURM_ANSWER_MAX) : NULL;

    (void) pid;
    question->pid = 0;
    if (text)
        slurm_take_answer(question->fd, text, SLURM_ANSWER_MAX);
    void (*on_answer)(void *, char *) = question->on_answer;
    void *owner = question->arg;
    slurm_question_stop(question);
    on_answer(owner, text);
}

static void too_late(void *arg)
{
    const struct slurm_question *question = arg;

    kill(question->pid, SIGKILL);
}

int slurm_question_start(struct slurm_question *question, struct rg_loop *loop, char *const *argv,
                         void (*on_answer)(void *arg, char *text), void *arg)
{
    int r = spawn_asked(argv, &question->fd, &question->pid);

    if (r < 0)
        return r;
    question->on_answer = on_answer;
    question->arg = arg;
    rg_child_start(&question->child, loop, question->pid, answered, question);
    rg_timer_start(&question->timer, loop, ASK_MS, 0, too_late, question);
    return 0;
}

void slurm_question_stop(struct slurm_question *question)
{
    rg_child_stop(&question->child);
    rg_timer_stop(&question->timer);
    if (question->pid) {
        kill(question->pid, SIGKILL);
        while (waitpid(question->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (question->on_answer)
        close(question->fd);
    *question = (struct slurm_question){ .pid = 0 };
}

/* --- where GPUs are --------------------------------------------------------------------------- */

static bool wants_gpus_here(const struct slurm_facts *facts)
{
    return facts->scope == RG_SLURM_STEP || !facts->allocation->tasks_asked;
}

static bool nobody_chose(const struct slurm_facts *facts)
{
    rg_autostrv struct rg_strv chosen = RG_STRV_INIT;
    bool told = false;

    return rg_slurm_gpus(&facts->env, &chosen, &told, NULL) == 0 && !told;
}

/* Nodes may differ. salloc's shell has the first ones of these signs, processes on the nodes the
 * others. */
static bool may_differ(const struct rg_strv *env)
{
    static const char *const signs[] = { "SLURM_GPUS", "SLURM_GPUS_PER_TASK",
                                         "SLURM_GPUS_PER_SOCKET", "SLURM_STEP_GPUS",
                                         "SLURM_JOB_GPUS" };

    for (size_t i = 0; i < rg_array_len(signs); i++) {
        if (rg_env_get(env, signs[i]))
            return true;
    }
    return false;
}

/* A step may have asked for some of them only, which is seen on this node; elsewhere the only ones
 * that are known are those that the user has chosen. */
static bool has_all_here(const struct rg_slurm_allocation *allocation)
{
    for (size_t i = 0; allocation->node && i < allocation->nnodes; i++) {
        if (strcmp(allocation->nodes[i].name, allocation->node) == 0)
            return allocation->nodes[i].ngpus == allocation->gpus_per_node;
    }
    return allocation->gpus.count == 0;
}

enum { SQUEUE, SMI, SINFO, SCONTROL, CONFIG };

static const struct {
    const char *argv[5];
    const char *job; /* an argument more, before the job's number; NULL: none */
} asked[] = {
    [SQUEUE] = { { "squeue", "--noheader", "--format=%b" }, "--jobs=" },
    [SMI] = { { "nvidia-smi", "-L" }, NULL },
    [SINFO] = { { "sinfo", "--noheader", "--all", "--format=%G" }, NULL },
    [SCONTROL] = { { "scontrol", "--details", "show", "job" }, "" },
#ifndef RG_AGENT /* a plan that it has got tells */
    [CONFIG] = { { "scontrol", "show", "config" }, NULL },
#endif
};

static bool is_wanted(const struct slurm_facts *facts)
{
    const struct rg_slurm_allocation *allocation = facts->allocation;

    switch (facts->nasked) {
    case SQUEUE:
        /* In salloc's shell, which is on none of the nodes, Slurm's variables tell nothing of GPUs;
         * squeue has what was asked for on each node. Without an answer there are none known. */
        return facts->scope == RG_SLURM_JOB && !allocation->node && !allocation->tasks_asked &&
               !allocation->gpus_per_node && !allocation->group_ids.count;
    case SMI:
        /* Where Slurm says that it counts no GPUs on any node, and nobody has chosen among them, a
         * job has those of its nodes (contain_gpus.c, on each): as many as this one, for all. */
        return wants_gpus_here(facts) && allocation->node && !allocation->gpus_per_node &&
               nobody_chose(facts);
    case SINFO: return facts->ngpus > 0;
#ifndef RG_AGENT
    case CONFIG: return facts->wants_config;
#endif
    default: return may_differ(&facts->env);
    }
}

static void take(struct slurm_facts *facts, const char *text)
{
    struct rg_slurm_allocation *allocation = facts->allocation;

    switch (facts->nasked) {
    case SQUEUE: allocation->gpus_per_node = rg_slurm_gres_gpus(text); break;
    case SMI: facts->ngpus = rg_slurm_smi_gpus(text); break;
    case SINFO:
        if (*text && strlen(text) + 1 < SLURM_ANSWER_MAX && !rg_slurm_gres_names_gpus(text))
            allocation->gpus_per_node = facts->ngpus;
        break;
#ifndef RG_AGENT
    case CONFIG: facts->kill_wait_s = rg_slurm_kill_wait_s(text); break;
#endif
    default:
        free(facts->details);
        facts->details = strdup(text);
        if (wants_gpus_here(facts) && rg_slurm_spread_gpus(allocation, text))
            allocation->gpus_by_node = has_all_here(allocation);
    }
}

char *const *slurm_facts_next(struct slurm_facts *facts)
{
    size_t n = 0;

    while (facts->nasked < rg_array_len(asked) && !is_wanted(facts))
        facts->nasked++;
    if (facts->nasked == rg_array_len(asked))
        return NULL;
    for (; asked[facts->nasked].argv[n]; n++)
        facts->argv[n] = (char *) asked[facts->nasked].argv[n];
    if (asked[facts->nasked].job) {
        snprintf(facts->job, sizeof(facts->job), "%s%s", asked[facts->nasked].job,
                 facts->allocation->job_id);
        facts->argv[n++] = facts->job;
    }
    facts->argv[n] = NULL;
    return facts->argv;
}

void slurm_facts_take(struct slurm_facts *facts, const char *text)
{
    if (text)
        take(facts, text);
    facts->nasked++;
}

void rg_slurm_ask_gpus(const struct rg_strv *env, struct rg_slurm_allocation *allocation)
{
    struct slurm_facts facts = { .env = *env, .allocation = allocation, .scope = RG_SLURM_STEP };
    rg_autofree char *text = malloc(SLURM_ANSWER_MAX);
    char *const *argv;

    while (text && (argv = slurm_facts_next(&facts)))
        slurm_facts_take(&facts, rg_slurm_ask(argv, text, SLURM_ANSWER_MAX) == 0 ? text : NULL);
    free(facts.details);
}

/* --- what it says ----------------------------------------------------------------------------- */

const char *slurm_complaint(const char *said, char *buf, size_t nbytes)
{
    const char *found = NULL, *last = "";
    size_t found_length = 0, last_length = 0;

    for (const char *line = said; *line;) {
        size_t length = strcspn(line, "\n");
        if (memmem(line, length, "error", 5) || memmem(line, length, "unrecognized", 12)) {
            found = line;
            found_length = length;
        }
        if (length) {
            last = line;
            last_length = length;
        }
        line += length + (line[length] == '\n');
    }
    if (!found) {
        found = last;
        found_length = last_length;
    }
    if (found_length && found[found_length - 1] == '.') /* a remedy may follow */
        found_length--;
    snprintf(buf, nbytes, "%.*s", (int) found_length, found);
    return buf;
}

const char *slurm_find_remedy(const struct slurm_known *known, const char *complaint)
{
    while (known->pattern && !strstr(complaint, known->pattern))
        known++;
    return known->remedy;
}

const char *slurm_remedy(const char *complaint)
{
    static const struct slurm_known known[] = {
        { "Invalid partition", "sinfo -s lists the partitions" },
        { "Invalid account", "sacctmgr show associations user=$USER lists your accounts" },
        { "Invalid qos", "sacctmgr show associations user=$USER lists what is yours" },
        { "Invalid node name", "sinfo -N lists the nodes" },
        { "(gres) specification", "sinfo -o '%N %G' lists what the nodes have" },
        { "Invalid feature", "sinfo -o '%N %f' lists what the nodes have" },
        { "--time", "write it as 30 (minutes), 2:00:00 or 1-12:00:00" },
        { "time limit", "sinfo -o '%P %l' lists the partitions' limits" },
        { "node configuration is not available",
          "no nodes are like that: sinfo -N -l lists what there is" },
        { "Node count", "sinfo -s lists the partitions with their nodes" },
        { "More processors", "sinfo -N -l lists what the nodes have" },
        { "unrecognized option", "see salloc --help for what --slurm-option may be" },
        { "already completing", "somebody has cancelled it, or a node of it has failed" },
        { "has been revoked", "somebody has cancelled it, or a node of it has failed" },
        { "limit", "ask for less, or wait until other jobs of yours are over" },
        { "Unable to contact slurm controller", "slurmctld does not answer; sinfo tells more" },
        { "Socket timed out", "slurmctld does not answer in time; sinfo tells more" },
        { "authentication", "munge is not running here, or its key is another one" },
        { NULL, "" },
    };

    return slurm_find_remedy(known, complaint);
}
