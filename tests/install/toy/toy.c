/* SPDX-License-Identifier: Apache-2.0 */
/* A platform that src/ does not know (test_platform.py puts this folder there): hosts stand in a
 * file, and a command of the user's starts the agent on each, over its input and output. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "job/hostlist.h"
#include "job/options/options.h"
#include "job/shellwords.h"
#include "launch/host/dialogue.h"
#include "launch/host/leftover.h"

#define HOSTS "toy-hosts"
#define START "toy-start"
#define AGENT "{agent...}"
#define WORDS_MAX 100

struct toy_host {
    struct toy *toy;
    int index; /* in the plan */
    pid_t pid; /* of the command; 0: none runs */
    bool stopped;
    struct rg_child child;
    struct rg_error_stream errors;
    struct rg_sweep sweep;
    struct rg_error err; /* for on_gone */
};

struct toy {
    struct rg_driver_options o;
    struct rg_leftover leftover;
    struct toy_host *hosts; /* as in the plan */
    struct rg_strv words, env;
    char agent[PATH_MAX];
};

/* --- options ---------------------------------------------------------------------------------- */

static int judge_start(const char *what, const char *value, struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;

    return rg_shell_split(what, value, WORDS_MAX, &words, err);
}

static const struct rg_option options[] = {
    {HOSTS, NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "FILE", NULL, "@file",
     "With --on toy: a file of hosts, as that of --hostfile.", .judge = NULL},
    {START, NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "COMMAND", NULL, NULL,
     "With --on toy: what starts the agent on a host, such as 'ip netns exec {host} {agent...}'.",
     .judge = judge_start},
    {NULL},
};

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    const char *file = rg_env_get(&job->settings, HOSTS);

    (void) held;
    if (job->nhosts || !file || !rg_env_get(&job->settings, START))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--on toy takes its hosts from --" HOSTS ", and wants --" START);
    int r = rg_hostfile_read(job, file, err);
    for (size_t i = 0; r == 0 && i < job->nhosts; i++)
        job->hosts[i].nslots += !job->hosts[i].nslots;
    return r;
}

/* --- the end of a host ------------------------------------------------------------------------ */

static void tell_gone(void *arg)
{
    struct toy_host *host = arg;

    host->toy->o.events->on_gone(host->toy->o.arg, host->index, &host->err);
}

/* An exit code counts only before the ranks run. */
static void ended(void *arg, pid_t pid, int status)
{
    struct toy_host *host = arg;
    char how[64], said[RG_PREAMBLE_QUOTE_MAX];
    int length = 0;

    rg_error_stream_drain(&host->errors);
    rg_preamble_quote_all(&host->errors.said, said, sizeof(said));
    const char *guard = rg_preamble_guard(said, &length);
    if (guard && !host->stopped)
        rg_error_set(&host->err, ECHILD, "%.*s", length, guard);
    else
        rg_error_set_exit(&host->err, ECHILD, RG_EXIT_UNAVAILABLE,
                          "its command (process %d) ended: %s%s%s%.600s", (int) pid,
                          rg_status_text(status, how, sizeof(how)),
                          host->stopped ? ", sent by reigen" : "", *said ? ": " : "", said);
    host->pid = host->toy->leftover.spared[host->index] = 0;
    rg_error_stream_stop(&host->errors);
    rg_sweep_start(&host->sweep, &host->toy->leftover, host->toy->o.loop, tell_gone, host);
}

static void stop(void *state, int index)
{
    struct toy_host *host = &((struct toy *) state)->hosts[index];

    host->stopped = true;
    if (host->pid)
        kill(-host->pid, SIGKILL);
}

static const char *said(void *state, int index, char *buf, size_t nbytes)
{
    const struct toy *toy = state;

    return rg_preamble_quote(&toy->hosts[index].errors.said, buf, nbytes);
}

static void on_line(void *arg, const char *text)
{
    struct toy_host *host = arg;

    if (rg_preamble_is_remark(text) && !host->stopped)
        host->toy->o.events->on_note(host->toy->o.arg, host->index, text);
}

/* --- the start -------------------------------------------------------------------------------- */

/* The user's command, with the agent's two words in the place of {agent...}, or behind it, and the
 * host's name in that of each {host}. */
static int make_argv(const struct toy *toy, int index, struct rg_strv *argv)
{
    bool placed = false;

    for (size_t i = 0; i <= toy->words.count; i++) {
        const char *word = i < toy->words.count ? toy->words.v[i] : placed ? NULL : AGENT;
        const char *at = word ? strstr(word, "{host}") : NULL;
        placed |= word && strcmp(word, AGENT) == 0;
        if (word && strcmp(word, AGENT) == 0) {
            rg_strv_add(argv, toy->agent);
            rg_strv_add(argv, "agent");
        } else if (word) {
            rg_strv_addf(argv, "%.*s%s%s", (int) (at ? at - word : 0), word,
                         at ? toy->o.plan->hosts[index].name : "", at ? at + 6 : word);
        }
    }
    return rg_strv_status(argv);
}

/* The agent reads its lines from the socket that is its link then. */
static int write_boot(const struct toy *toy, int fd)
{
    static const struct rg_dialogue_boot boot = { .lines = "link socket\nguard on\n" };
    struct rg_buf out = RG_BUF_INIT;
    int r = rg_dialogue_put_boot(&toy->o, &boot, &out);

    if (r == 0 && (r = rg_buf_status(&out)) == 0)
        r = rg_write_all(fd, rg_buf_bytes(&out), rg_buf_nbytes(&out));
    rg_buf_wipe(&out);
    return r;
}

static int begin(struct toy_host *host, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct toy *toy = host->toy;
    int ours[3], theirs[3], r = make_argv(toy, host->index, &argv);

    if (r == 0)
        r = rg_streams_open(true, ours, theirs);
    if (r < 0)
        return rg_error_set(err, -r, "no streams for a host: %s", strerror(-r));
    const struct rg_spawn spec = { .argv = argv.v, .envp = toy->env.v, .new_session = true,
                                   .fds = { theirs[0], theirs[0], theirs[2] } };
    rg_error_stream_start(&host->errors, toy->o.loop, ours[2], on_line, host);
    r = write_boot(toy, ours[0]);
    r = r < 0 ? rg_error_set(err, -r, "no lines for a host") : rg_spawn(&spec, &host->pid, err);
    close(theirs[0]);
    close(theirs[2]);
    if (r < 0) {
        close(ours[0]);
        return r;
    }
    toy->leftover.spared[host->index] = host->pid;
    rg_child_start(&host->child, toy->o.loop, host->pid, ended, host);
    toy->o.events->on_connected(toy->o.arg, host->index, ours[0], ours[0]);
    return 0;
}

static void end_host(struct toy_host *host)
{
    rg_child_stop(&host->child);
    rg_timer_stop(&host->sweep.timer);
    rg_error_stream_stop(&host->errors);
    if (!host->pid)
        return;
    kill(-host->pid, SIGKILL);
    while (waitpid(host->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    host->toy->leftover.spared[host->index] = 0;
}

static void destroy(void *state)
{
    struct toy *toy = state;

    for (int i = 0; toy->hosts && i < toy->o.plan->nhosts; i++)
        end_host(&toy->hosts[i]);
    if (toy->hosts)
        rg_leftover_end(&toy->leftover);
    rg_leftover_fini(&toy->leftover);
    rg_strv_fini(&toy->words);
    rg_strv_fini(&toy->env);
    free(toy->hosts);
    free(toy);
}

static int prepare(struct toy *toy, struct rg_error *err)
{
    const struct rg_plan *plan = toy->o.plan;
    int r = rg_leftover_init(&toy->leftover, toy->o.job, plan, &toy->env);

    toy->hosts = r == 0 ? calloc((size_t) plan->nhosts, sizeof(*toy->hosts)) : NULL;
    if (!toy->hosts)
        return rg_error_memory(err);
    for (int i = 0; i < plan->nhosts; i++)
        toy->hosts[i] = (struct toy_host){ .toy = toy, .index = i };
    r = rg_shell_split("--" START, rg_env_get(&toy->o.job->settings, START), WORDS_MAX,
                       &toy->words, err);
    return r < 0 ? r : rg_agent_file_find(toy->agent, err);
}

static int start(const struct rg_driver_options *o, void **ret_state, struct rg_error *err)
{
    struct toy *toy = calloc(1, sizeof(*toy));

    if (!toy)
        return rg_error_memory(err);
    toy->o = *o;
    int r = prepare(toy, err);
    for (int i = 0; r == 0 && i < o->plan->nhosts; i++) {
        o->events->on_phase(o->arg, i, RG_PHASE_STARTING, "");
        r = begin(&toy->hosts[i], err);
    }
    if (r < 0) {
        destroy(toy);
        err->exit_code = RG_EXIT_UNAVAILABLE; /* rg_spawn's 127 would be a rank's */
    } else {
        *ret_state = toy;
    }
    return r;
}

const struct rg_driver_ops rg_driver_toy = {
    .platform = { .name = "toy", .title = "the toy", .about = ", hosts of a file",
                  .options = options, .finds_hosts = true, .own_cpus = true },
    .discover = discover,
    .start = start,
    .said = said,
    .stop = stop,
    .destroy = destroy,
};
