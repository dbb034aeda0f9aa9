/* SPDX-License-Identifier: Apache-2.0 */
/* A job carried out: to a session, and from what it reports to the user. It is part of reigen and
 * of reigen-agent, so it knows no command line, no YAML and no jansson. */
#include "head/head.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/say.h"
#include "head/chaos.h"
#include "head/console/exit.h"
#include "head/detach.h"
#include "head/input.h"
#include "head/metrics/metrics.h"
#include "head/notify.h"
#include "head/record/record.h"
#include "head/restart.h"
#include "head/show/outfiles.h"
#include "head/show/presenter.h"
#include "head/signals.h"
#include "head/slowed.h"
#include "head/sync.h"
#include "head/console/terminal.h"
#include "head/show/verdict.h"
#include "platform/drivers.h"
#include "launch/host/acquire.h"
#include "base/exitcode.h"
#include "launch/plan/place.h"
#include "launch/jobs/registry.h"
#include "launch/session/session.h"
#include "launch/plan/sizes.h"

#define ROOM_HOSTS 1024
#define ROOM_RANKS 8192
#define ROOM_TIMES 16

struct run {
    struct rg_planned planned;
    const struct rg_head_as *as;
    struct rg_hold hold;
    struct rg_loop *loop;
    struct rg_session *session;
    struct rg_presenter shown;
    struct rg_signals signals;
    struct rg_input input;
    struct rg_restart restart;
    struct rg_logmark mark;    /* of a log, for all starts */
    struct rg_buf last_words;  /* the verdict, until all output is out */
    struct rg_registration registered;
    int exit_code;
    bool ended;                /* the session is over */
    bool paused;               /* what the session was told last */
    bool in_pod;               /* whose time after SIGTERM is known */
    bool reader_gone;          /* of standard output */
    bool lost_early, closed_early; /* output, before there was a session; how_lost says how */
    char how_lost[160];
    bool judged;               /* the session has given its verdict */
    bool killed;               /* by a second signal: nothing is waited for */
    bool again;                /* the job has failed and is to be started again */
    struct rg_chaos *chaos;    /* NULL: no faults */
    struct rg_sync *sync;      /* NULL: hosts are sent nothing */
    struct rg_notify notify;
    struct rg_metrics *metrics; /* NULL: nobody wants them */
    struct rg_record *record;   /* likewise */
    struct rg_detach detach;
};

/* --- what the session reports ---------------------------------------------------------------- */

static void on_phase(void *arg, int host, enum rg_host_phase phase, const char *reason)
{
    struct run *run = arg;

    run->shown.ops->phase(&run->shown, host, phase, reason);
}

static int send_input(void *arg, const void *data, size_t nbytes)
{
    struct run *run = arg;

    return rg_session_input(run->session, data, nbytes);
}

static void on_input_ready(void *arg)
{
    struct run *run = arg;

    rg_input_ready(&run->input);
}

static void send_size(void *arg)
{
    struct run *run = arg;
    int rows, columns;

    if (!run->session)
        return;
    if (!run->planned.job.pty)
        rg_session_signal(run->session, SIGWINCH);
    else if (rg_terminal_size(0, &rows, &columns))
        rg_session_resize(run->session, rows, columns);
}

static void on_running(void *arg)
{
    struct run *run = arg;
    const struct rg_job *job = &run->planned.job;
    bool none = job->stdin_mode == RG_STDIN_NONE || !run->as->stdin_open;

    run->shown.ops->running(&run->shown);
    rg_registry_running(&run->registered);
    if (job->pty)
        rg_terminal_raw(0);
    rg_input_start(&run->input, run->loop, none ? -1 : 0, send_input, run);
}

/* The map has told of those that were known before the start. */
static void report_binding(struct run *run, int rank, const char *host, const char *cpus)
{
    const char *told = run->planned.plan.ranks[rank].cpus;

    if (run->planned.report_bindings && *cpus && !(told && strcmp(told, cpus) == 0))
        rg_presenter_say(&run->shown, "  rank %d on %s: cpus %s\n", rank, host, cpus);
}

static void on_rank_started(void *arg, int rank, int pid, const char *cpus)
{
    struct run *run = arg;
    const char *host = run->planned.plan.hosts[run->planned.plan.ranks[rank].host].name;

    if (run->planned.job.elastic.on)
        rg_output_again(run->shown.output, rank);
    report_binding(run, rank, host, cpus);
    run->shown.ops->rank_started(&run->shown, rank, host, pid, cpus);
    rg_detach_count(&run->detach, run->shown.output);
}

static int on_grown(void *arg, struct rg_error *err)
{
    struct run *run = arg;

    if (rg_status_grow(&run->shown.status) < 0)
        return rg_error_memory(err);
    return rg_output_grow(run->shown.output, run->planned.plan.nranks, err);
}

static void on_epoch(void *arg, uint32_t epoch, int size, const int *rank_of)
{
    struct run *run = arg;

    for (int place = 0; place < run->planned.plan.nranks; place++) {
        if (rank_of[place] >= 0)
            rg_output_call(run->shown.output, place, rank_of[place]);
    }
    run->shown.ops->epoch(&run->shown, epoch, size, rank_of);
}

static void on_output(void *arg, int rank, int stream, const uint8_t *data, size_t nbytes)
{
    struct run *run = arg;

    rg_output_data(run->shown.output, rank, stream, data, nbytes);
}

static void on_rank_ended(void *arg, const struct rg_rank_end *end)
{
    struct run *run = arg;

    run->shown.ops->rank_ended(&run->shown, end);
}

#ifndef RG_AGENT
static void on_chaos(void *arg, const struct rg_chaos_event *event, int rank, const char *host)
{
    struct run *run = arg;

    run->shown.ops->chaos(&run->shown, event, rank, host);
}
#endif

static void on_note(void *arg, int rank, const char *text)
{
    struct run *run = arg;

    run->shown.ops->note(&run->shown, rank, text);
}

/* A failure that is not the end, and the end after such failures. */
static void tell_restarts(struct run *run, const struct rg_verdict *verdict)
{
    if (run->again)
        rg_restart_print_next(&run->restart, &run->planned.job, &run->last_words);
    else if (!run->planned.quiet || !verdict->ok)
        rg_restart_print_all(&run->restart, verdict->ok, &run->last_words);
}

/* All ranks' output is out: now the verdict, which is to be read last. */
static void speak_last(struct run *run)
{
    if (rg_buf_nbytes(&run->last_words) && !run->shown.output)
        return;
    rg_autobuf struct rg_buf words = run->last_words;

    run->last_words = (struct rg_buf) RG_BUF_INIT;
    if (rg_buf_nbytes(&words))
        rg_output_say(run->shown.output, rg_buf_text(&words));
    if (run->shown.output && !run->again)
        rg_output_seal(run->shown.output);
    if (rg_output_drained(run->shown.output))
        rg_loop_stop(run->loop);
}

/* Of the last lines of the rank that failed first. */
static size_t count_shown(const struct run *run, const struct rg_verdict *verdict)
{
    const struct rg_rank_end *first = verdict->first;

    return first ? rg_output_shown(run->shown.output, first->rank, verdict->last_lines,
                                   verdict->nlast_lines)
                 : 0;
}

/* Who made the file may take no more of it than this. */
#define VERDICT_MAX 4096

static void write_verdict(const struct run *run, const char *path, struct rg_verdict verdict)
{
    struct rg_logmark all = run->mark; /* with what is to be said last */
    char cause[VERDICT_MAX / 8];
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autoclose int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    snprintf(cause, sizeof(cause), "%s", verdict.cause);
    verdict.cause = cause;
    verdict.nlast_lines = 0;
    rg_event_verdict(&text, &verdict);
    if (rg_buf_nbytes(&text) > VERDICT_MAX) {
        rg_buf_clear(&text);
        verdict.nends = 0;
        rg_event_verdict(&text, &verdict);
    }
    rg_mark_count(&all, rg_buf_bytes(&run->last_words), rg_buf_nbytes(&run->last_words));
    if (fd >= 0)
        dprintf(fd, "%.*s,\"log\":[%llu,%llu]}\n", (int) strcspn(rg_buf_text(&text), "\n") - 1,
                rg_buf_text(&text), (unsigned long long) all.nbytes,
                (unsigned long long) all.nlines);
}

static void on_ended(void *arg, const struct rg_verdict *verdict)
{
    struct run *run = arg;
    const struct rg_planned *planned = &run->planned;
    rg_autobuf struct rg_buf note = RG_BUF_INIT, slowed = RG_BUF_INIT;

    run->judged = true;
    run->exit_code = run->reader_gone ? RG_EXIT_OUTPUT_LOST : verdict->exit_code;
    rg_status_stop(&run->shown.status);
    rg_input_stop(&run->input);
    rg_terminal_restore();
    rg_output_finish(run->shown.output);
    run->again = !run->reader_gone && rg_restart_wanted(&run->restart, &planned->job, verdict);
    struct rg_verdict told = *verdict;
    told.exit_code = run->exit_code;
    if (run->restart.vain)
        told.twice = rg_restart_twice(&run->restart);
    if (!run->again)
        rg_head_chaos_tell_idle(run->chaos, &run->shown);
    if (!run->again)
        rg_head_slowed_tell(run->session, &run->shown, planned->quiet ? NULL : &slowed);
    run->shown.ops->ended(&run->shown, &told,
                          run->again ? run->restart.before + run->restart.count : 0);
    rg_notify_keep(&run->notify, &told);
    if (verdict->first && verdict->first->note)
        rg_output_note(run->shown.output, verdict->first->note, &note);
    const struct rg_verdict_style style = {
        .note = rg_buf_nbytes(&note) ? rg_buf_text(&note) : NULL,
        .colour = rg_terminal_colour(2), .verbose = planned->job.verbose > 0,
        .quiet = planned->quiet, .nshown = count_shown(run, verdict), .again = run->again,
        .exit_code = run->exit_code,
    };

    rg_output_tell_same(run->shown.output, &run->last_words);
    if (run->reader_gone)
        rg_buf_printf(&run->last_words,
                      "reigen: the reader of standard output went away, so the job "
                      "was ended (exit code %d)\n",
                      RG_EXIT_OUTPUT_LOST);
    else
        rg_verdict_print(&told, &run->planned.plan, &style, &run->last_words);
    rg_buf_put(&run->last_words, rg_buf_bytes(&slowed), rg_buf_nbytes(&slowed));
    tell_restarts(run, verdict);
    if (run->as->horovod && !run->again)
        rg_verdict_print_horovod(verdict, &run->last_words);
    if (run->as->verdict && !run->again)
        write_verdict(run, run->as->verdict, told);
    run->ended = true;
    if (rg_output_drained(run->shown.output) || run->killed)
        speak_last(run);
    if (run->killed)
        rg_loop_stop(run->loop);
}

static const struct rg_session_ops session_ops = {
    .on_phase = on_phase,
    .on_running = on_running,
    .on_grown = on_grown,
    .on_epoch = on_epoch,
    .on_rank_started = on_rank_started,
    .on_output = on_output,
    .on_input_ready = on_input_ready,
    .on_rank_ended = on_rank_ended,
    .on_note = on_note,
#ifndef RG_AGENT
    .on_chaos = on_chaos,
#endif
    .on_ended = on_ended,
};

/* --- what the output reports ----------------------------------------------------------------- */

static void on_pause(void *arg, bool pause)
{
    struct run *run = arg;

    if (run->session && !run->ended)
        rg_session_pause_output(run->session, pause);
}

static void on_lost(void *arg, const char *cause, bool closed)
{
    struct run *run = arg;

    if (!run->session) {
        snprintf(run->how_lost, sizeof run->how_lost, "%s", cause);
        run->lost_early = true;
        run->closed_early |= closed;
        return;
    }
    if (run->judged) {
        run->exit_code = run->exit_code ? run->exit_code : RG_EXIT_OUTPUT_LOST;
        if (!closed)
            rg_presenter_say(&run->shown, "reigen: %s\n", cause);
        return;
    }
    rg_session_output_lost(run->session, cause);
    if (closed && !run->reader_gone) {
        run->reader_gone = true;
        rg_session_signal(run->session, SIGTERM);
    } else if (!closed) {
        rg_presenter_say(&run->shown, "reigen: %s; the job goes on\n", cause);
    }
}

static void on_drained(void *arg)
{
    struct run *run = arg;

    if (run->ended)
        speak_last(run);
}

/* --- signals --------------------------------------------------------------------------------- */

static void forward_signal(void *arg, int signo)
{
    struct run *run = arg;

    run->restart.stopped |= signo == SIGINT || signo == SIGTERM;
    /* The ranks are gone and only a slow reader is waited for: who asks to end means us. */
    if (run->ended && (signo == SIGINT || signo == SIGTERM))
        rg_loop_stop(run->loop);
    else if (!run->ended && signo == SIGTERM && rg_signals_from_stop())
        rg_session_stop(run->session, "by reigen stop");
    else if (!run->ended)
        rg_session_signal(run->session, signo);
}

static bool evict(void *arg)
{
    struct run *run = arg;

    run->restart.stopped = true;
    return !run->ended && rg_session_evict(run->session);
}

static void kill_job(void *arg, int signo)
{
    struct run *run = arg;

    run->killed = run->restart.stopped = true;
    if (run->ended)
        rg_loop_stop(run->loop);
    else
        rg_session_kill(run->session, signo == SIGINT ? "interrupted twice" : "terminated twice");
}

static void on_stopping(void *arg)
{
    struct run *run = arg;

    rg_terminal_restore();
    if (run->shown.output)
        rg_output_stopping(run->shown.output, true);
}

static void on_resumed(void *arg)
{
    struct run *run = arg;

    if (run->shown.output)
        rg_output_stopping(run->shown.output, false);
    if (run->planned.job.pty && run->input.loop && !run->ended)
        rg_terminal_raw(0);
}

static const struct rg_signals_ops signals_ops = {
    .forward = forward_signal,
    .evict = evict,
    .kill = kill_job,
    .resize = send_size,
    .stopping = on_stopping,
    .resumed = on_resumed,
};

/* --- from the beginning to the end ----------------------------------------------------------- */

static int check_cwd(const struct rg_job *job, struct rg_error *err)
{
    struct stat st;

    /* Of a container's directories only the container knows. */
    if (!job->cwd || job->container.image)
        return 0;
    if (stat(job->cwd, &st) < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "--cwd %s: %s", job->cwd,
                                 strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return rg_error_set_exit(err, ENOTDIR, RG_EXIT_USAGE, "--cwd %s: not a directory",
                                 job->cwd);
    return 0;
}

static int check_against_plan(const struct rg_job *job, const struct rg_plan *plan,
                              struct rg_error *err)
{
    struct rg_job sized = *job;

    sized.np = plan->nranks; /* now known, and with it what --stdin and --ranks may say */
    return rg_job_check(&sized, err);
}

/* Before there is an output that could be in the way. */
static void say_early(void *arg, const char *text)
{
    const struct run *run = arg;

    if (!run->planned.quiet)
        rg_say("%s", text);
}

/* Where there is a plan already, its hosts are those that the job runs on. */
static int get_plan(struct run *run, const struct rg_driver_ops *driver, struct rg_error *err)
{
    struct rg_job *job = &run->planned.job;

    if (run->planned.plan.nhosts && driver->acquire)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "the plan names hosts (%s), but %s gives a job its hosts only "
                                 "when it runs; write the plan again by reigen run --write-plan",
                                 run->planned.plan.hosts[0].name, driver->platform.title);
    if (run->planned.plan.nhosts)
        return 0;
    int rc = rg_hold_get(&run->hold, driver, job, say_early, run, err);
    return rc < 0 ? rc : rg_plan_make(job, &run->planned.plan, err);
}

/* What of the job others may see, and where, before anything of it is there. */
static int open_for_others(struct run *run, struct rg_error *err)
{
    const struct rg_job *job = &run->planned.job;

    if (run->as->instead)
        return 0;
    int r = rg_metrics_open(job, &run->metrics, err);
    return r < 0 ? r : rg_record_open(job->record, &run->record, err);
}

static int prepare(struct run *run, const struct rg_driver_ops *driver, struct rg_error *err)
{
    struct rg_job *job = &run->planned.job;
    int rc = rg_job_take_ports(job, err);

    rc = rc < 0 ? rc : rg_job_take_notice(job, err);
    run->in_pod = rc > 0;
    /* Elsewhere the directory need not be here. */
    if (rc >= 0 && driver->platform.here)
        rc = check_cwd(job, err);
    if (rc >= 0)
        rc = rg_sizes_check(job, err);
    if (rc >= 0)
        rc = rg_place_job(job, !driver->platform.here, err);
    if (rc >= 0)
        rc = open_for_others(run, err);
    if (rc >= 0)
        rc = get_plan(run, driver, err);
    if (rc >= 0 && !run->as->instead)
        rc = rg_head_sync_prepare(job, driver->platform.here, say_early, run, &run->sync, err);
    if (rc >= 0)
        rc = rg_sizes_check_plan(&run->planned.plan, job, err);
    if (rc >= 0 && (rc = check_against_plan(job, &run->planned.plan, err)) < 0)
        err->exit_code = RG_EXIT_USAGE;
    return rc;
}

/* The ranks have to know, too, on all hosts. */
static bool wants_tracebacks(struct rg_job *job)
{
    const char *how = rg_env_get(&job->env, "REIGEN_TRACEBACK");

    if (!how && (how = getenv("REIGEN_TRACEBACK")))
        rg_strv_addf(&job->env, "REIGEN_TRACEBACK=%s", how);
    return how && strcmp(how, "full") == 0;
}

/* A job runs without its file as well, but nobody would find one that detaches. */
static int add_to_registry(struct run *run, struct rg_error *err)
{
    int r = rg_registry_add(&run->planned.plan, &run->planned.job, &run->registered);
    const char *why = r == -ENOENT ? "HOME is not there" : strerror(-r);

    if (r < 0 && run->detach.on)
        return rg_error_set(err, -r, "--detach: reigen jobs would not show this job: %s", why);
    if (r < 0 && run->planned.job.verbose)
        rg_presenter_say(&run->shown, "reigen: reigen jobs will not show this job: %s\n", why);
    return 0;
}

/* Room for hosts that come, and come again: of it only what is used costs anything. */
static int open_plan(struct rg_plan *plan)
{
    int hosts = ROOM_HOSTS + ROOM_TIMES * plan->nhosts;
    int ranks = ROOM_RANKS + ROOM_TIMES * plan->nranks;

    return rg_plan_open(plan, hosts < RG_JOB_HOSTS_MAX ? hosts : RG_JOB_HOSTS_MAX,
                        ranks < RG_JOB_RANKS_MAX ? ranks : RG_JOB_RANKS_MAX);
}

static int start(struct run *run, const struct rg_driver_ops *driver, struct rg_error *err)
{
    const struct rg_job *job = &run->planned.job;
    int rc = rg_detach_begin(&run->detach, &run->planned, err);
    bool log = run->detach.on; /* of our own */
    const struct rg_output_options output = {
        .loop = run->loop, .job = job, .out_fd = 1, .err_fd = 2,
        .echoes = log && run->detach.terminal_fd >= 0, .echo_fd = run->detach.terminal_fd,
        .nranks = job->elastic.on ? 0 : run->planned.plan.nranks,
        .out_colour = log ? run->detach.colour : rg_terminal_colour(1),
        .err_colour = log ? run->detach.colour : rg_terminal_colour(2),
        .all_tracebacks = wants_tracebacks(&run->planned.job), .encode = run->shown.ops->encode,
        .append = run->restart.count > 0,
        .mark = run->as->log ? &run->mark : NULL,
        .on_pause = on_pause, .on_lost = on_lost, .on_drained = on_drained, .arg = run,
    };

    if (rc == 0)
        rc = rg_output_create(&output, &run->shown.output, err);
    if (rc < 0)
        return rc;
    if (job->output_dir && !job->elastic.on && !run->restart.count && !run->planned.quiet)
        rg_outfiles_say_earlier(job->output_dir, run->planned.plan.nranks);
    run->shown.status_fd = output.echoes ? output.echo_fd : 2;
    if (run->shown.ops->starting(&run->shown) < 0)
        return rg_error_memory(err);
    if (run->restart.count)
        rg_registry_restart(&run->registered, run->planned.plan.job_id);
    else if ((rc = add_to_registry(run, err)) < 0)
        return rc;
    if (job->elastic.on && open_plan(&run->planned.plan) < 0)
        return rg_error_memory(err);
    const struct rg_session_options options = {
        .loop = run->loop, .job = job, .plan = &run->planned.plan, .driver = driver,
        .held = run->hold.held, .ops = &session_ops, .arg = run, .key = run->as->key,
        .numbers = true, .known_as = run->as->known_as,
        .known_by_name = run->as->known_by_name,
#ifndef RG_AGENT
        .chaos = run->chaos, .sync = run->sync,
#endif
    };

    /* Before anything is started that a signal would leave behind: the loop hands it on later. The
     * script that --submit has made is what runs us, or the first process of a pod. */
    if (!run->signals.loop)
        rg_signals_start(&run->signals, run->loop, &signals_ops, run,
                         job->submit     ? RG_PARENT_SCRIPT
                         : run->in_pod ? RG_PARENT_POD : RG_PARENT_ANY);
    rc = rg_session_create(&options, &run->session, err);
    if (rc < 0)
        return rc;
    if (run->lost_early)
        on_lost(run, run->how_lost, run->closed_early);
    if (job->pty)
        send_size(run); /* before the terminal is made */
    return 0;
}

static void look_at(void *arg, struct rg_metrics_state *ret_state)
{
    const struct run *run = arg;

    *ret_state = (struct rg_metrics_state){
        .plan = &run->planned.plan, .session = run->session,
        .platform = rg_driver_choose(&run->planned.job)->platform.name,
        .restarts = run->restart.before + run->restart.count,
        .elastic = run->planned.job.elastic.on,
    };
}

static void start_metrics(struct run *run)
{
    const char *url = rg_metrics_url(run->metrics);

    rg_metrics_start(run->metrics, run->loop, look_at, run);
    if (url && (!run->planned.quiet || rg_metrics_chose_port(run->metrics)))
        rg_say("metrics are at %s", url);
}

/* What belongs to one start of the job. */
static void finish_start(struct run *run)
{
    rg_terminal_restore();
    rg_input_stop(&run->input);
    rg_session_destroy(run->session);
    run->session = NULL;
    rg_status_fini(&run->shown.status);
    rg_output_destroy(run->shown.output);
    run->shown.output = NULL;
    rg_plan_fini(&run->planned.plan);
}

static void finish(struct run *run)
{
    if (run->signals.loop)
        rg_signals_stop(&run->signals);
    finish_start(run);
    if (!run->registered.path)
        rg_detach_forget(&run->detach);
    rg_registry_end(&run->registered, run->judged ? run->exit_code : -1);
    rg_hold_release(&run->hold);
    rg_registry_sweep();
    rg_restart_fini(&run->restart);
    rg_buf_fini(&run->last_words);
    rg_loop_destroy(run->loop);
    rg_head_chaos_free(run->chaos);
    rg_head_sync_free(run->sync);
    rg_detach_fini(&run->detach);
    rg_planned_fini(&run->planned);
}

static void say_notes(const struct run *run)
{
    for (size_t i = 0; i < run->planned.notes.count && !run->planned.quiet; i++)
        rg_say("%s", run->planned.notes.v[i]);
}

static void say_map(const struct run *run)
{
    rg_autobuf struct rg_buf map = RG_BUF_INIT;

    if (!run->planned.display_map && !run->planned.report_bindings)
        return;
    rg_plan_print(&run->planned.plan, &run->planned.job, &map);
    rg_say_lines(rg_buf_text(&map));
}

/* On the same hosts, with a name, a key and ports of its own. */
static int start_again(struct run *run, const struct rg_driver_ops *driver, struct rg_error *err)
{
    finish_start(run);
    run->again = run->ended = run->judged = run->paused = run->lost_early = false;
    int rc = rg_restart_prepare(&run->restart, &run->planned.job);

    if (rc < 0)
        return rg_error_memory(err);
    rc = rg_plan_make(&run->planned.job, &run->planned.plan, err);
    return rc < 0 ? rc : start(run, driver, err);
}

/* There is no verdict of a session: the error is. */
static int fail(struct run *run, const struct rg_error *err)
{
    int code = rg_fail(err, run->as->command);

    rg_detach_fail(&run->detach, err, run->as->command);
    const struct rg_verdict verdict = { .exit_code = code, .cause = err->text };
    rg_notify_keep(&run->notify, &verdict);
    rg_record_fail(run->record, &verdict);
    return code;
}

static int run_job(struct run *run)
{
    const struct rg_driver_ops *driver = rg_driver_choose(&run->planned.job);
    struct rg_error err = RG_ERROR_INIT;

    if (!run->as->instead)
        rg_notify_take(&run->notify, &run->planned.job);
    if (!driver) {
        rg_error_set_exit(&err, ENOTSUP, RG_EXIT_USAGE, "this program has not the driver that the "
                          "job needs (--on); run it by reigen run");
        return fail(run, &err);
    }
    say_notes(run);
    if (prepare(run, driver, &err) < 0 ||
        rg_head_chaos_prepare(&run->planned, &run->chaos, &err) < 0)
        return fail(run, &err);
    say_map(run);
    if (rg_restart_prepare(&run->restart, &run->planned.job) < 0 && rg_error_memory(&err))
        return fail(run, &err);
    if (run->as->instead) {
        int r = run->as->instead(run->as->arg, &run->planned, driver->platform.here, &err);
        return r < 0 ? fail(run, &err) : r;
    }
    if (rg_loop_create(&run->loop) < 0 && rg_error_memory(&err))
        return fail(run, &err);
    run->shown = (struct rg_presenter){
        .ops = run->planned.job.json ? &rg_presenter_json : &rg_presenter_plain,
        .planned = &run->planned, .loop = run->loop, .log = run->as->log,
    };
    start_metrics(run);
    rg_record_follow(run->record, &run->shown, look_at, run);
    if (start(run, driver, &err) < 0)
        return fail(run, &err);
    rg_loop_run(run->loop);
    while (run->again && !run->restart.stopped) {
        if (start_again(run, driver, &err) < 0) {
            run->judged = true;
            return run->exit_code = fail(run, &err);
        }
        rg_loop_run(run->loop);
    }
    if (run->again)
        rg_say("it is not started again: it was told to end");
    return run->exit_code;
}

int rg_head_run(struct rg_planned *take_planned, const struct rg_head_as *as)
{
    static struct run run; /* too large for a frame; a process runs one job */

    signal(SIGXFSZ, SIG_IGN); /* a write fails then; otherwise it would end us, and the job */
    run.registered = (struct rg_registration) RG_REGISTRATION_INIT;
    run.planned = *take_planned;
    *take_planned = (struct rg_planned){ .quiet = false };
    run.as = as;
    rg_detach_init(&run.detach, as->detach_fd ? *as->detach_fd : -1);
    run.restart.before = as->nstarts;
    run.restart.lost_only = as->backoff_ms;
    int code = run_job(&run);

    if (as->ret_stopped)
        *as->ret_stopped = run.restart.stopped;

    rg_metrics_close(run.metrics, code);
    rg_record_close(run.record, code);
    finish(&run);
    rg_notify_run(&run.notify, code);
    return code;
}
