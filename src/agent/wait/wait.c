/* SPDX-License-Identifier: Apache-2.0 */
/* Job files that sleep for a thousand seconds in the hope that the others are up by then want this
 * in the place of it: it ends when they are, or says who is not. */
#include "agent/wait/wait.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "base/time.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "agent/pod/pod.h"
#include "agent/wait/internal.h"
#include "platform/kubernetes/inside/pods.h"
#include "platform/local/door.h"
#include "platform/openpai/inside/tasks.h"
#include "job/hostlist.h"

#define COMMAND "wait-workers"
#define NEWS_MS 10000
#define LOOK_MS 500 /* at the parent */
#define NAMED_MAX 8 /* of those that are missing */

struct options {
    bool ssh, no_ssh, quiet;
    const char *hosts, *hostfile, *head, *port, *name, *start_timeout;
    uint64_t limit_ms;
    int port_number; /* 0: not said */
    pid_t parent;
};

/* --- the workers ------------------------------------------------------------------------------ */

static void on_limit(void *arg)
{
    struct rg_wait *wait = arg;

    wait->over = true;
    rg_loop_stop(wait->loop);
}

/* The workers are to know of it. */
static void on_signal(void *arg, int signo)
{
    struct rg_wait *wait = arg;

    wait->signo = signo;
    on_limit(wait);
}

/* Nobody goes on when all are ready where who has started this is gone. */
static void look_at_parent(void *arg)
{
    const struct rg_wait *wait = arg;

    if (getppid() != wait->parent)
        on_limit(arg);
}

static int name_missing(const struct rg_wait *wait, struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    size_t missing = wait->nhosts - wait->nready, told = 0;

    if (getppid() != wait->parent)
        return rg_error_set_exit(err, ESRCH, RG_EXIT_PREEMPTED, "who has started it is gone");
    for (size_t i = 0; i < wait->nhosts && told < NAMED_MAX; i++) {
        const struct rg_wait_host *host = &wait->hosts[i];
        if (!host->ready)
            rg_buf_printf(&names, "%s%s (%.80s)", told++ ? ", " : "", host->name, host->why);
    }
    if (missing > told)
        rg_buf_printf(&names, " and %zu more", missing - told);
    if (*wait->stranger)
        rg_buf_printf(&names, "; a host that calls itself %s has called: --name, or --hosts",
                      wait->stranger);
    return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_TIMEOUT,
                             "not ready within %.6g s (--start-timeout): %s; %s",
                             (double) wait->limit_ms / 1000.0, rg_buf_text(&names),
                             wait->ssh ? "does the worker run, and its sshd; does `ssh HOST true` "
                                         "work there?"
                                       : "does the worker run, with `" COMMAND "` in it?");
}

/* With ssh the wait goes on without calls. */
static void say_unheard(const struct rg_wait *wait, const struct rg_error *err)
{
    if (!wait->quiet)
        rg_log(RG_LOG_WARN, "%s; workers that run " COMMAND " will not be heard", err->text);
}

static int run_head(struct rg_wait *wait, struct rg_error *err)
{
    int r = rg_loop_create(&wait->loop);

    if (r < 0)
        return rg_error_memory(err);
    wait->begin_ns = rg_now_ns();
    for (size_t i = 0; i < wait->nhosts; i++) {
        struct rg_wait_host *host = &wait->hosts[i];
        snprintf(host->why, sizeof(host->why), "%s", wait->pending);
        host->ready = rg_local_is_here(host->name);
        wait->nready += host->ready;
    }
    if (wait->port)
        r = rg_wait_listen(wait, err);
    if (r < 0 && !wait->ssh) {
        rg_loop_destroy(wait->loop);
        return r;
    }
    if (r < 0)
        say_unheard(wait, err);
    rg_wait_show(wait, NULL);
    if (wait->ssh)
        rg_wait_ssh_start(wait);
    rg_signal_start(&wait->term, wait->loop, SIGTERM, on_signal, wait);
    rg_signal_start(&wait->interrupt, wait->loop, SIGINT, on_signal, wait);
    rg_timer_start(&wait->limit, wait->loop, wait->limit_ms, 0, on_limit, wait);
    rg_timer_start(&wait->look, wait->loop, LOOK_MS, LOOK_MS, look_at_parent, wait);
    rg_timer_start(&wait->news, wait->loop, NEWS_MS, NEWS_MS, rg_wait_show_news, wait);
    while (wait->nready < wait->nhosts && !wait->over)
        rg_loop_run(wait->loop);
    rg_signal_stop(&wait->term);
    rg_signal_stop(&wait->interrupt);
    rg_timer_stop(&wait->limit);
    rg_timer_stop(&wait->look);
    rg_timer_stop(&wait->news);
    rg_wait_ssh_stop(wait);
    bool all = wait->nready == wait->nhosts;
    rg_wait_listen_end(wait, all);
    rg_loop_destroy(wait->loop);
    if (wait->signo && !all) {
        signal(wait->signo, SIG_DFL);
        raise(wait->signo);
    }
    return all ? 0 : name_missing(wait, err);
}

/* --- what is asked for ------------------------------------------------------------------------ */

/* Where the workers call, and by which key they are known. In OpenPAI that is the task's. */
static int find_port(struct rg_wait *wait, const struct options *o, struct rg_error *err)
{
    int port = o->port_number, r = rg_tasks_key(wait->key, err);

    /* With ssh nobody need call. */
    if (r == -ENOENT && wait->ssh && !getenv("REIGEN_KEY_FILE"))
        return 0;
    if (r == 0 && !port)
        r = rg_tasks_here() ? rg_tasks_port(&port, err) : rg_kubernetes_port(&port, err);
    if (r == 0)
        wait->port = port;
    return r;
}

static int add_hosts(struct rg_wait *wait, const struct rg_job *job, const struct rg_tasks *tasks,
                     struct rg_error *err)
{
    size_t ntasks = tasks->names.count ? tasks->names.count - 1 : 0;

    wait->nhosts = job->nhosts ? job->nhosts : ntasks;
    wait->hosts = calloc(wait->nhosts + 1, sizeof(*wait->hosts));
    if (!wait->hosts)
        return rg_error_memory(err);
    for (size_t i = 0; i < wait->nhosts; i++) {
        wait->hosts[i].wait = wait;
        wait->hosts[i].name = job->nhosts ? job->hosts[i].name : tasks->names.v[i + 1];
        wait->hosts[i].user = job->nhosts ? job->hosts[i].user : NULL;
        wait->hosts[i].fd = -1;
    }
    return 0;
}

static int wait_as_head(const struct options *o, const struct rg_job *job,
                        const struct rg_tasks *tasks, struct rg_error *err)
{
    bool asked = o->ssh || o->no_ssh;
    const char *term = getenv("TERM");
    struct rg_wait wait = {
        .limit_ms = o->limit_ms,
        .quiet = o->quiet,
        .parent = o->parent,
        .live = isatty(2) && term && strcmp(term, "dumb") != 0,
        .ssh = asked ? o->ssh : rg_wait_has_ssh() && (job->nhosts || tasks->ssh),
    };

    wait.pending = wait.ssh ? "ssh has not answered yet" : "it has not called yet";
    int r = add_hosts(&wait, job, tasks, err);
    if (r == 0)
        r = find_port(&wait, o, err);
    if (r == 0)
        r = run_head(&wait, err);
    explicit_bzero(wait.key, sizeof(wait.key));
    free(wait.hosts);
    return r;
}

/* HOST, HOST:PORT or several HOST:PORT with commas, HOST being numeric. */
static int wait_as_worker(const struct options *o, struct rg_error *err)
{
    char address[RG_POD_ADDRESS_MAX], name[RG_TASKS_NAME_MAX + 1] = "";
    const char *colon = o->head ? strrchr(o->head, ':') : NULL;
    bool has_port = colon && (strchr(o->head, ':') == colon || colon[-1] == ']' ||
                              strchr(o->head, ','));
    int port = o->port_number;
    int r = !o->head || has_port || port ? 0 : rg_kubernetes_port(&port, err);

    if (r < 0)
        return r;
    if (!o->head)
        return rg_pod_wait_main(NULL, NULL, o->limit_ms);
    if (strlen(o->head) > RG_POD_ADDRESS_MAX - sizeof("[]:65535"))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "--head: %zu characters at most",
                                 RG_POD_ADDRESS_MAX - sizeof("[]:65535"));
    if (gethostname(name, sizeof(name) - 1) < 0 || o->name)
        snprintf(name, sizeof(name), "%s", o->name ? o->name : "");
    if (has_port)
        snprintf(address, sizeof(address), "%s", o->head);
    else
        snprintf(address, sizeof(address), colon && *o->head != '[' ? "[%s]:%d" : "%s:%d", o->head,
                 port);
    return rg_pod_wait_main(address, name, o->limit_ms);
}

static int read_hosts(const struct options *o, struct rg_job *job, struct rg_error *err)
{
    int r = o->hosts ? rg_hostlist_parse(job, "--hosts", o->hosts, err) : 0;

    return r == 0 && o->hostfile ? rg_hostfile_read(job, o->hostfile, err) : r;
}

static int wait_here(const struct options *o, struct rg_error *err)
{
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;
    RG_AUTO_JOB struct rg_job job;

    rg_job_init(&job);
    if (o->head)
        return wait_as_worker(o, err);
    int r = read_hosts(o, &job, err);
    if (r == 0 && rg_tasks_here())
        r = rg_tasks_read(&tasks, err);
    if (r < 0)
        return r;
    if (tasks.own && !job.nhosts)
        return wait_as_worker(o, err);
    if (!tasks.names.count && !job.nhosts)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "whom to wait for? --hosts or --hostfile names the workers, and "
                                 "on a worker --head HOST names the head; in a task of OpenPAI "
                                 "neither is needed");
    return wait_as_head(o, &job, &tasks, err);
}

/* What is wrong with the options, one beside the other; NULL: nothing. */
static const char *find_clash(const struct options *o)
{
    _Static_assert(RG_TASKS_NAME_MAX == 100, "the text says so");
    return o->ssh && o->no_ssh ? "--ssh and --no-ssh: one of them"
           : o->head && (o->ssh || o->hosts || o->hostfile)
               ? "--head and --ssh, --hosts or --hostfile: one of them"
           : o->name && !o->head ? "--name: only with --head"
           : o->name && strlen(o->name) > RG_TASKS_NAME_MAX ? "--name: 100 characters at most"
           : o->port && !o->head && rg_tasks_here()
               ? "--port: in OpenPAI set " RG_TASKS_PORT " in all tasks"
               : NULL;
}

static int read_options(struct options *o, struct rg_error *err)
{
    const char *clash = find_clash(o);
    int64_t port = 0;
    int r = 0;

    if (o->start_timeout)
        r = rg_parse_duration_ms("--start-timeout", o->start_timeout, &o->limit_ms, err);
    if (r == 0 && o->port)
        r = rg_parse_int("--port", o->port, 1, UINT16_MAX, &port, err);
    o->port_number = (int) port;
    if (r == 0 && clash)
        r = rg_error_set(err, EINVAL, "%s", clash);
    if (r == 0 && !o->limit_ms)
        r = rg_error_set(err, ERANGE, "--start-timeout %s: more than 0", o->start_timeout);
    return r;
}

int rg_wait_main(int argc, char **argv)
{
    struct options o = { .limit_ms = RG_START_TIMEOUT_MS, .parent = getppid() };
    const struct rg_arg args[] = {
        { "ssh", 0, NULL, &o.ssh, NULL },
        { "no-ssh", 0, NULL, &o.no_ssh, NULL },
        { "quiet", 'q', NULL, &o.quiet, NULL },
        { "hosts", 0, "HOSTS", NULL, &o.hosts },
        { "hostfile", 0, "FILE", NULL, &o.hostfile },
        { "head", 0, "HOST", NULL, &o.head },
        { "name", 0, "NAME", NULL, &o.name },
        { "port", 0, "PORT", NULL, &o.port },
        { "start-timeout", 0, "SECONDS", NULL, &o.start_timeout },
        { NULL, 0, NULL, NULL, NULL },
    };
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_args_parse(argc, argv, args, 0);

    if (r < 0)
        return -1 - r;
    signal(SIGPIPE, SIG_IGN);
    r = read_options(&o, &err);
    if (r == 0)
        r = wait_here(&o, &err);
    return r < 0 ? rg_fail(&err, COMMAND) : r;
}
