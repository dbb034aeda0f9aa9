/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of an MPIJob. Operators mean mpirun, and tell it by its own variables what it needs. */
#include "job/request/mpijob.h"

#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "job/hostlist.h"
#include "job/platform.h"
#include "job/options/apply.h"

#define ROLE "K_MPI_JOB_ROLE"
#define BLANKS " \t\r\n"
#define EXEC "/kubectl exec " /* of the operator's script; */
#define TRACE "set -x\n"       /* likewise, by which it tells each of its lines */
#define EXEC_NBYTES_MAX 4096
/* ssh's options that have a value, which may be the next word. */
#define WITH_VALUE "BbcDEeFIiJLlmOopQRSWw"

/* Where each MPI finds its host file, what it is to tell ssh, slots of a host that has none, and
 * what is called in the place of ssh. */
static const struct names {
    const char *file, *ssh, *slots, *agent;
} names[] = {
    { "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_args",
      "OMPI_MCA_orte_set_default_slots", "OMPI_MCA_plm_rsh_agent" },
    { "PRTE_MCA_prte_default_hostfile", "PRTE_MCA_plm_ssh_args", NULL, "PRTE_MCA_plm_ssh_agent" },
    { "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST",
      "I_MPI_HYDRA_BOOTSTRAP_EXEC" },
    { "HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS", NULL, "HYDRA_LAUNCHER_EXEC" },
};

/* Ours, or one that an MPI has started: what it runs has hosts already. */
static bool in_a_job(void)
{
    static const char *const marks[] = { "REIGEN_JOB_DIR", "REIGEN_RANK", "OMPI_COMM_WORLD_RANK",
                                         "PMIX_RANK", "PMI_RANK" };

    for (size_t i = 0; i < rg_array_len(marks); i++) {
        if (getenv(marks[i]))
            return true;
    }
    return false;
}

/* NULL: this is no such pod. */
static const struct names *find(const struct rg_job *job)
{
    const char *role = getenv(ROLE);
    bool launcher = role && strcmp(role, "launcher") == 0;

    if ((role && !launcher) || in_a_job() || (job->on && !rg_platform_of(job)->any_host))
        return NULL;
    for (size_t i = 0; i < rg_array_len(names); i++) {
        const char *path = getenv(names[i].file);
        if (path && *path && (launcher || (getenv("KUBERNETES_SERVICE_HOST") &&
                                           strcmp(path, RG_MPIJOB_HOSTFILE) == 0)))
            return &names[i];
    }
    return NULL;
}

int rg_mpijob_take_ssh(const char *text, struct rg_strv *options)
{
    rg_autofree char *copy = strdup(text ? text : "");
    char *save = NULL;
    int r = copy ? 0 : -ENOMEM;

    for (char *word = copy ? strtok_r(copy, BLANKS, &save) : NULL; word && r == 0;
         word = strtok_r(NULL, BLANKS, &save)) {
        bool alone = word[0] == '-' && word[1] && !word[2] && strchr(WITH_VALUE, word[1]);
        const char *value = alone ? strtok_r(NULL, BLANKS, &save) : NULL;
        if (alone && !value)
            break;
        r = !alone || word[1] == 'o' ? rg_strv_add(options, alone ? value : word)
                                     : rg_strv_addf(options, "%s%s", word, value);
    }
    return r;
}

/* The operator's own script of a line that ends in "kubectl exec ${POD_NAME} -- /bin/sh -c "$*"",
 * with an input for the command, and without what tells each line that it runs. 0; -ENOENT: it is
 * no such script; -ENOMEM. */
static int take_exec(struct rg_job *job, const char *agent, size_t n)
{
    rg_autofree char *path = strndup(agent, n), *text = NULL;
    size_t nbytes;

    if (!path || rg_read_file(path, EXEC_NBYTES_MAX, &text, &nbytes) < 0)
        return path ? -ENOENT : -ENOMEM;
    char *trace = strstr(text, TRACE), *exec = strstr(text, EXEC);
    if (strncmp(text, "#!/bin/sh\n", 10) != 0 || strlen(text) < nbytes || !exec)
        return -ENOENT;
    if (trace && trace < exec)
        memset(trace, ' ', strlen(TRACE) - 1);
    exec += strlen(EXEC);
    return rg_env_setf(&job->settings, RG_JOB_EXEC, "%.*s-i %s", (int) (exec - text), text,
                       exec);
}

/* Operators of the APIs v1 and v1alpha2 name a script that calls kubectl exec. A program is judged
 * by its name. */
static int check_agent(struct rg_job *job, const struct names *by, struct rg_error *err)
{
    const char *agent = getenv(by->agent), *kind = getenv(ROLE) ? "MPIJob" : "job";
    size_t n = agent ? strcspn(agent, BLANKS) : 0, nwhole = n;
    const char *slash = n ? memrchr(agent, '/', n) : NULL, *name = slash ? slash + 1 : agent;

    n -= slash ? (size_t) (name - agent) : 0;
    if (!n || (n == 3 && (strncmp(name, "ssh", n) == 0 || strncmp(name, "rsh", n) == 0)))
        return 0;
    int r = take_exec(job, agent, nwhole);
    if (r != -ENOENT)
        return r < 0 ? rg_error_memory(err) : 0;
    return rg_error_set_exit(err, ENOTSUP, RG_EXIT_UNAVAILABLE,
                             "the workers of this %s are reached by %.200s (%s), as those of an "
                             "MPIJob of API v1 or v1alpha2, and have no sshd; and that is no "
                             "script of its operator's: let mpirun start the ranks, use API "
                             "v2beta1 (reigen render mpijob), or say other hosts by -H, --hostfile "
                             "or --on local", kind, agent, by->agent);
}

/* Launchers often name the operator's own file again, by --hostfile. Where it cannot be read, its
 * hosts are not these. */
static bool has_workers(const struct rg_job *job, const struct names *by)
{
    RG_AUTO_JOB struct rg_job theirs;
    rg_autofree char *text = NULL;
    size_t nbytes;
    bool found = false;

    rg_job_init(&theirs);
    if (rg_read_named("host file", getenv(by->file), RG_HOSTFILE_NBYTES_MAX, &text, &nbytes,
                      NULL) < 0 ||
        rg_hostfile_parse(&theirs, "", text, nbytes, NULL) < 0)
        return false;
    for (size_t i = 0; i < job->nhosts && !found; i++)
        for (size_t k = 0; k < theirs.nhosts && !found; k++)
            found = strcmp(job->hosts[i].name, theirs.hosts[k].name) == 0;
    return found;
}

static int take_hosts(struct rg_request *request, const struct names *by, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    rg_autofree char *text = NULL;
    bool is_mpijob = getenv(ROLE) || rg_env_get(&job->settings, RG_JOB_EXEC);
    const char *path = getenv(by->file), *kind = is_mpijob ? "MPIJob" : "TrainJob";
    size_t nbytes;
    int r = rg_read_named("host file", path, RG_HOSTFILE_NBYTES_MAX, &text, &nbytes, err);

    if (r == 0 && strspn(text, BLANKS) == nbytes)
        return 0;
    if (r == 0)
        r = rg_hostfile_parse(job, path, text, nbytes, err);
    if (r < 0) {
        rg_error_prepend(err, "the hosts of this %s, which %s names (-H, --hostfile or --on local "
                         "say others)", kind, by->file);
        return r;
    }
    r = rg_request_note(request, "the hosts are those of this %s, %s (%s); -H, --hostfile or "
                        "--on local say others", kind, path, by->file);
    return r < 0 ? rg_error_memory(err) : 0;
}

int rg_mpijob_slots(const struct rg_request *request)
{
    const struct names *by = find(&request->job);
    const char *text = by && by->slots ? getenv(by->slots) : NULL;
    int64_t n = 0;

    if (text && rg_parse_int(by->slots, text, 1, RG_JOB_SLOTS_MAX, &n, NULL) < 0)
        return 0;
    return (int) n;
}

int rg_mpijob_settle(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    const struct names *by = find(job);
    bool workers = by && (!job->nhosts || has_workers(job, by));
    int r = workers ? check_agent(job, by, err) : 0;

    r = r == 0 && by && !job->nhosts ? take_hosts(request, by, err) : r;

    if (r < 0 || !by || !job->nhosts)
        return r;
    job->hosts_come = workers ? RG_HOSTS_RETURN : RG_HOSTS_COME;
    return rg_mpijob_take_ssh(getenv(by->ssh), &job->ssh_options) < 0 ? rg_error_memory(err) : 0;
}
