/* SPDX-License-Identifier: Apache-2.0 */
/* --dry-run prints what would be started, as a script that does the same where one shell can. */
#include "cmd/run/dryrun.h"

#include <string.h>

#include "base/process/spawn.h"
#include "head/console/words.h"
#include "container/runtime.h"
#include "job/engine.h"

/* What the script does with its ranks, before and after their lines. Each rank has a shell that
 * waits for it and writes into the pipe what becomes of it, as sh cannot wait for the first of
 * several. A script that is read from a pipe has no standard input to give away. */
static const char script_begin[] =
    "pipe=$(mktemp -u) && mkfifo -m 600 \"$pipe\" && exec 3<>\"$pipe\" || exit 70\n"
    "rm -f \"$pipe\"\n"
    "exec 4</dev/null 5</dev/null\n"
    "[ ! -f \"$0\" ] || exec 4<&0\n"
    "own=$(command -v setsid)\n"
    "code=0 left=0 ranks= timer=\n"
    "rank() {\n"
    "    (\n"
    "        trap : INT HUP TERM\n"
    "        input=$1\n"
    "        shift\n"
    "        $own \"$@\" <&$input 3>&- 4<&- 5<&- &\n"
    "        echo \"start $!\" >&3\n"
    "        while wait $! 2>/dev/null; end=$?; kill -s 0 $! 2>/dev/null; do :; done\n"
    "        kill -s KILL -- -$! 2>/dev/null\n"
    "        echo \"end $! $end\" >&3\n"
    "    ) &\n"
    "    left=$((left + 1))\n"
    "}\n"
    "tell() { kill -s $1 -- -$2 2>/dev/null || kill -s $1 $2 2>/dev/null; }\n"
    "stop() {\n"
    "    trap '' INT HUP TERM\n"
    "    code=$1\n"
    "    for r in $ranks; do tell TERM $r; done\n"
    "    $own sh -c 'sleep $0; echo late >&3' $grace </dev/null >/dev/null 2>&1 &\n"
    "    timer=$!\n"
    "}\n"
    "trap 'stop 129' HUP\n"
    "trap 'stop 130' INT\n"
    "trap 'stop 143' TERM\n";

static const char script_end[] =
    "exec 4<&- 5<&-\n"
    "while [ $left -gt 0 ]; do\n"
    "    read -r what pid end <&3 || continue\n"
    "    case $what in\n"
    "    start)\n"
    "        ranks=\"$ranks $pid\"\n"
    "        [ $code -eq 0 ] || tell TERM $pid\n"
    "        ;;\n"
    "    late)\n"
    "        for r in $ranks; do tell KILL $r; done\n"
    "        ;;\n"
    "    end)\n"
    "        left=$((left - 1))\n"
    "        others=\n"
    "        for r in $ranks; do [ $r = $pid ] || others=\"$others $r\"; done\n"
    "        ranks=$others\n"
    "        [ $end -eq 0 ] || [ $code -ne 0 ] || stop $end\n"
    "        ;;\n"
    "    esac\n"
    "done\n"
    "exec 2>/dev/null\n"
    "[ -z \"$timer\" ] || tell KILL $timer\n"
    "wait\n"
    "exit $code\n";

static void put_assignment(struct rg_buf *text, const char *entry)
{
    size_t n = strcspn(entry, "=");

    rg_buf_printf(text, " %.*s=", (int) n, entry);
    rg_shell_quote(text, entry + n + 1);
}

/* What the agent puts in front of the command where it puts mpirun's line together; how that
 * program is called on the host is found out there. */
static int print_engine(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autostrv struct rg_strv options = RG_STRV_INIT;

    if (job->engine != RG_ENGINE_OPENMPI && job->engine != RG_ENGINE_HYDRA)
        return 0;
    if (rg_job_engine_options(job, &options) < 0)
        return -ENOMEM;
    rg_buf_printf(text, " %s %d",
                  job->engine == RG_ENGINE_OPENMPI ? "mpirun -np" : "mpiexec.hydra -n", plan->np);
    rg_shell_words(text, &options);
    return 0;
}

/* Variables that tie this process to another launcher do not reach the ranks. */
static int print_unset(const struct rg_strv *base, struct rg_buf *text)
{
    rg_autostrv struct rg_strv kept = RG_STRV_INIT;

    if (base->count && rg_strv_add_all(&kept, base->v) < 0)
        return -ENOMEM;
    rg_env_forget_launchers(&kept);
    for (size_t i = 0; i < base->count; i++) {
        rg_autofree char *name = strndup(base->v[i], strcspn(base->v[i], "="));
        if (!name)
            return -ENOMEM;
        if (*name && !rg_env_get(&kept, name)) {
            rg_buf_printf(text, " -u ");
            rg_shell_quote(text, name);
        }
    }
    return 0;
}

/* What a task runs is the word of the job's command that is its role's. */
static void print_words(const struct rg_job *job, int rank, struct rg_buf *text)
{
    int index;
    const struct rg_role *role = rg_job_role_of(job, rank, &index);
    size_t nroles = job->nroles;

    if (role && job->command.count >= nroles) {
        rg_buf_printf(text, " bash -c ");
        rg_shell_quote(text, job->command.v[job->command.count - nroles +
                                            (size_t) (role - job->roles)]);
    } else {
        rg_shell_words(text, &job->command);
    }
    rg_buf_printf(text, "\n");
}

/* env and the variables, then the command. */
static int print_command(const struct rg_plan *plan, const struct rg_job *job, int rank,
                         const struct rg_strv *base, struct rg_buf *text)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    if (rg_plan_rank_env(plan, job, rank, base, &env) < 0 ||
        (job->nroles && rg_plan_task_env(plan, job, rank, &env) < 0))
        return -ENOMEM;
    for (size_t i = 0; i < env.count; i++)
        put_assignment(text, env.v[i]);
    for (size_t i = 0; i < job->env.count; i++) {
        if (strchr(job->env.v[i], '='))
            put_assignment(text, job->env.v[i]);
    }
    for (size_t i = 0; i < job->share_env.count; i++)
        rg_buf_printf(text, " %s=\"$%s\"", job->share_env.v[i], job->share_env.v[i]);
    if (plan->engine && print_engine(plan, job, text) < 0)
        return -ENOMEM;
    print_words(job, rank, text);
    return 0;
}

/* Append the text as comments: a value may hold newlines. */
static void put_comment(struct rg_buf *text, const char *line)
{
    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        rg_buf_printf(text, "# %.*s\n", (int) n, line);
    }
}

static int print_planned(const struct rg_plan *plan, const struct rg_job *job, int rank,
                         const struct rg_strv *base, struct rg_buf *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    const char *host = plan->hosts[plan->ranks[rank].host].name;

    if (job->nroles)
        rg_buf_printf(text, "# %s on %s, with its ports and the variables of docs/mpi.md:\n",
                      plan->ranks[rank].task, host);
    else if (plan->engine)
        rg_buf_printf(text, "# %s on %s, with hostlist and the variables of docs/mpi.md:\n",
                      plan->engine, host);
    else
        rg_buf_printf(text, "# rank %d on %s:\n", rank, host);
    rg_buf_printf(&line, "    env");
    if (print_command(plan, job, rank, base, &line) < 0 || rg_buf_status(&line) < 0)
        return -ENOMEM;
    put_comment(text, rg_buf_text(&line));
    return 0;
}

static int print_rank(const struct rg_plan *plan, const struct rg_job *job, int rank,
                      const struct rg_strv *base, struct rg_buf *text)
{
    const struct rg_plan_rank *planned = &plan->ranks[rank];
    bool takes_input = job->stdin_mode == RG_STDIN_ALL ||
                       (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank == rank);

    rg_buf_printf(text, "# rank %d\nrank %d env", rank, takes_input ? 4 : 5);
    if (print_unset(base, text) < 0)
        return -ENOMEM;
    if (planned->ncpus && planned->cpus)
        rg_buf_printf(text, " taskset -c %s env", planned->cpus);
    return print_command(plan, job, rank, base, text);
}

static void print_map(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autobuf struct rg_buf map = RG_BUF_INIT;

    rg_plan_print(plan, job, &map);
    put_comment(text, rg_buf_text(&map));
}

/* The command line that makes a host's container, as far as it is known here: what depends on the
 * host stands for the caller's. */
static int print_container(const struct rg_plan *plan, const struct rg_job *job, int host,
                           struct rg_buf *text, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autofree char *name = rg_strf("reigen-%s-%d", plan->job_id, host);
    const char *runtime = job->container.runtime ? job->container.runtime : "docker";
    const struct rg_container_ops *ops = rg_container_find(runtime);
    struct rg_container container = job->container;
    bool own = geteuid() != 0 && !container.user; /* root, and another user: the image's files */
    const struct rg_container_host facts = {
        .program = runtime, .name = name, .job_id = plan->job_id, .uid = geteuid(),
        .gid = getegid(), .user_name = getenv("USER"), .home = own ? getenv("HOME") : NULL,
        .cwd = container.place.cwd, .bin_dir = "/JOB/bin", .run_dir = "/JOB/run",
        .passwd = own ? "/JOB/passwd" : NULL, .group = own ? "/JOB/group" : NULL,
        .shm_nbytes = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE) / 2,
        .bundle_dir = container.place.bundle_digest ? "/BUNDLE" : NULL,
        .infiniband = container.ibdevices, .image_dir = "/IMAGES",
    };

    container.place.one_host = plan->nhosts == 1;
    int r = name && ops ? ops->run(&container, &facts, &argv, err) : -ENOMEM;
    if (r < 0)
        return r;
    rg_buf_printf(text, "# container on %s:", plan->hosts[host].name);
    rg_shell_words(text, &argv);
    rg_buf_printf(text, "\n");
    return 0;
}

static int print_script(const struct rg_plan *plan, const struct rg_job *job,
                        const struct rg_strv *base, struct rg_buf *text)
{
    int rc = 0;

    rg_buf_printf(text, "# A script: sh runs these ranks as reigen run would, but for tags, "
                        "--timeout, --max-restarts, --pty, --output-dir and reigen rsh.\n"
                        "# It ends with the code of the rank that fails first, and ends the "
                        "others.\n");
    print_map(plan, job, text);
    if (job->cwd) {
        rg_buf_printf(text, "cd ");
        rg_shell_quote(text, job->cwd);
        rg_buf_printf(text, " || exit 2\n");
    }
    rg_buf_printf(text, "grace=%.6g\n%s", (double) job->grace_ms / 1000.0, script_begin);
    for (int r = 0; rc == 0 && r < plan->nranks; r++)
        rc = print_rank(plan, job, r, base, text);
    rg_buf_printf(text, "%s", script_end);
    return rc;
}

static int print_plan(const struct rg_plan *plan, const struct rg_job *job,
                      const struct rg_strv *base, struct rg_buf *text, struct rg_error *err)
{
    bool ours = job->container.image && !rg_container_by_slurm(&job->container);
    int rc = 0;

    rg_buf_printf(text, "# A plan, not a script: what reigen run would start, and where.\n");
    print_map(plan, job, text);
    for (int h = 0; rc == 0 && ours && h < plan->nhosts; h++)
        rc = print_container(plan, job, h, text, err);
    if (job->cwd)
        rg_buf_printf(text, "# in the directory %s\n", job->cwd);
    for (int r = 0; rc == 0 && r < plan->nranks; r++)
        rc = print_planned(plan, job, r, base, text);
    return rc;
}

bool rg_dryrun_is_script(const struct rg_plan *plan, const struct rg_job *job, bool here)
{
    /* Several ranks that all read standard input want a launcher between them. */
    return here && !job->container.image && !plan->engine && !job->nroles &&
           (job->stdin_mode != RG_STDIN_ALL || plan->nranks == 1);
}

int rg_dryrun_print(const struct rg_plan *plan, const struct rg_job *job, bool here,
                    struct rg_buf *text, struct rg_error *err)
{
    rg_autostrv struct rg_strv base = RG_STRV_INIT;
    bool script = rg_dryrun_is_script(plan, job, here);
    /* The caller's own environment is what the ranks have otherwise. */
    int rc = rg_strv_add_all(&base, environ);

    if (rc == 0)
        rc = script ? print_script(plan, job, &base, text)
                    : print_plan(plan, job, &base, text, err);
    rc = rc < 0 ? rc : rg_buf_status(text);
    return rc == -ENOMEM ? rg_error_memory(err) : rc;
}
