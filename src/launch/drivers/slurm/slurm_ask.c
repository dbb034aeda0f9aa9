/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's programs that are asked something, and what their complaints mean. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "base/time.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/slurm/slurm_internal.h"

#define ASK_MS 10000
#define ANSWER_MAX 8192
#define DETAILS_MAX (1u << 20) /* of a job on 10,000 nodes */

extern char **environ;

/* --- a program and its words ------------------------------------------------------------------ */

/* Users' defaults for these programs, such as SQUEUE_STATES, would hide what is looked for. */
static int plain_env(struct rg_strv *env)
{
    static const char *const defaults[] = { "SQUEUE_", "SCANCEL_", "SINFO_",
                                            "SLURM_TIME_FORMAT=" };
    int r = 0;

    for (char **e = environ; r == 0 && e && *e; e++) {
        bool ours = true;
        for (size_t i = 0; i < rg_array_len(defaults); i++)
            ours &= !rg_str_starts(*e, defaults[i]);
        if (ours)
            r = rg_strv_add(env, *e);
    }
    return r == 0 && !env->count ? rg_strv_add(env, "LANG=C") : r;
}

static int spawn_asked(char *const *argv, int *ret_fd, pid_t *ret_pid)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    int fds[2], r = plain_env(&env);

    if (r < 0 || (r = rg_pipe(fds)) < 0)
        return r;
    const struct rg_spawn spawn = { .argv = argv, .envp = env.v, .fds = { -1, fds[1], fds[1] },
                                    .death_signal = SIGKILL };
    r = rg_spawn(&spawn, ret_pid, NULL);
    close(fds[1]);
    if (r < 0)
        close(fds[0]);
    else
        *ret_fd = fds[0];
    return r;
}

/* The program's exit code; killed when its time is over. */
static int wait_asked(pid_t pid, uint64_t deadline_ns)
{
    int status = 0, r = 0;

    for (;;) {
        pid_t got = waitpid(pid, &status, r < 0 ? 0 : WNOHANG);
        if (got == pid)
            return r < 0 ? r : rg_status_code(status);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (r == 0 && rg_now_ns() >= deadline_ns) {
            kill(pid, SIGKILL);
            r = -ETIMEDOUT;
        }
        rg_sleep_ms(1);
    }
}

int slurm_ask_within(char *const *argv, char *ret_text, size_t nbytes, uint64_t ms)
{
    rg_autoclose int fd = -1;
    uint64_t deadline_ns = rg_now_ns() + ms * RG_NS_PER_MS;
    char surplus[512];
    size_t have = 0;
    pid_t pid;

    ret_text[0] = '\0';
    int r = spawn_asked(argv, &fd, &pid);
    if (r < 0)
        return r;
    for (;;) {
        int64_t left_ms = ((int64_t) deadline_ns - (int64_t) rg_now_ns()) / RG_NS_PER_MS;
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        if (left_ms <= 0 || poll(&pfd, 1, (int) left_ms) == 0)
            break;
        bool room = have + 1 < nbytes;
        ssize_t n = read(fd, room ? ret_text + have : surplus,
                         room ? nbytes - 1 - have : sizeof(surplus));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += room ? (size_t) n : 0;
    }
    ret_text[have] = '\0';
    return wait_asked(pid, deadline_ns);
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

void rg_slurm_count_gpus(const struct rg_strv *env, struct rg_slurm_allocation *allocation)
{
    char *smi[] = { (char *) "nvidia-smi", (char *) "-L", NULL };
    char *sinfo[] = { (char *) "sinfo", (char *) "--noheader", (char *) "--all",
                      (char *) "--format=%G", NULL };
    rg_autostrv struct rg_strv chosen = RG_STRV_INIT;
    bool told = false;
    char text[ANSWER_MAX];

    if (!allocation->node || allocation->gpus_per_node ||
        rg_slurm_gpus(env, &chosen, &told, NULL) < 0 || told ||
        rg_slurm_ask(smi, text, sizeof(text)) != 0)
        return;
    int count = rg_slurm_smi_gpus(text);
    if (count > 0 && rg_slurm_ask(sinfo, text, sizeof(text)) == 0 && *text &&
        strlen(text) + 1 < sizeof(text) && !rg_slurm_gres_names_gpus(text))
        allocation->gpus_per_node = count;
}

/* salloc's shell has the first ones of these, processes on the nodes the others. */
static bool may_be_spread(const struct rg_strv *env)
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

void rg_slurm_ask_spread(const struct rg_strv *env, bool whole,
                         struct rg_slurm_allocation *allocation)
{
    rg_autofree char *text = may_be_spread(env) ? malloc(DETAILS_MAX) : NULL;
    char *argv[] = { (char *) "scontrol", (char *) "--details", (char *) "show", (char *) "job",
                     allocation->job_id, NULL };

    if (text && rg_slurm_ask(argv, text, DETAILS_MAX) == 0 &&
        rg_slurm_spread_gpus(allocation, text) && !whole)
        allocation->gpus_by_node = has_all_here(allocation);
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

const char *slurm_remedy(const char *complaint)
{
    static const struct {
        const char *pattern, *remedy;
    } known[] = {
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
    };

    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (strstr(complaint, known[i].pattern))
            return known[i].remedy;
    }
    return "";
}
