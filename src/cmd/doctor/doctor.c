/* SPDX-License-Identifier: Apache-2.0 */
/* reigen doctor: a job that only looks at its hosts, and what is to be said of them. */
#include "cmd/doctor/doctor.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/process/self.h"
#include "base/say.h"
#include "head/console/command.h"
#include "cmd/doctor/doctor_print.h"
#include "cmd/doctor/gpus.h"
#include "head/console/exit.h"
#include "cmd/jobs/jobs.h"
#include "cmd/run/run.h"
#include "head/show/status.h"
#include "head/console/terminal.h"
#include "platform/drivers.h"
#include "launch/host/acquire.h"
#include "base/exitcode.h"
#include "launch/plan/place.h"
#include "launch/session/session.h"
#include "launch/plan/sizes.h"
#include "job/request/request.h"

#define EXIT_FINDINGS 1
#define AWAY "the hosts of such a job are not there before it; reigen plan says whether it would " \
             "start, and --require WHAT of reigen run looks at its hosts before the ranks start"
#define TRIES_MAX 4 /* with ever fewer hosts, as long as some of them cannot be started */

struct doctor {
    struct rg_request request;
    struct rg_hold hold;
    struct rg_plan plan;
    struct rg_loop *loop;
    struct rg_session *session;
    struct rg_status status;
    struct rg_signal signals[2];
    struct rg_buf text;  /* what will be printed */
    struct rg_buf summary; /* to standard error, after it; may be empty */
    struct rg_doctor_unstarted *unstarted; /* hosts that were left out */
    int nunstarted;
    bool examined, again, signalled;
    bool clean; /* --clean */
    int ntries;
    int exit_code;
};

/* --- what the session reports ----------------------------------------------------------------- */

static void say(void *arg, const char *text)
{
    (void) arg;
    rg_say_exact(text);
}

static void on_phase(void *arg, int host, enum rg_host_phase phase, const char *reason)
{
    struct doctor *doctor = arg;

    rg_status_phase(&doctor->status, host, phase, reason);
}

static void on_note(void *arg, int rank, const char *text)
{
    struct doctor *doctor = arg;

    (void) rank;
    rg_status_wipe(&doctor->status);
    if (!doctor->request.quiet)
        rg_say("%s", text);
}

static void on_output(void *arg, int rank, int stream, const uint8_t *data, size_t nbytes)
{
    (void) arg, (void) rank, (void) stream, (void) data, (void) nbytes;
}

static void on_examined(void *arg, const struct rg_doctor_input *examined)
{
    struct doctor *doctor = arg;
    const struct rg_job *job = &doctor->request.job;
    struct rg_doctor_input with = *examined, *found = &with;
    rg_cleanup(rg_findings_fini) struct rg_findings findings = { NULL, 0 };

    rg_status_stop(&doctor->status);
    doctor->examined = true;
    doctor->exit_code = RG_EXIT_INTERNAL;
    with.unstarted = doctor->unstarted;
    with.nunstarted = doctor->nunstarted;
    if (rg_doctor_judge(found, &findings) < 0)
        return;
    doctor->exit_code = 0;
    for (size_t i = 0; i < findings.count; i++) {
        if (findings.v[i].level == RG_FINDING_FAIL)
            doctor->exit_code = EXIT_FINDINGS;
    }
    if (job->json)
        rg_doctor_print_json(found, &findings, &doctor->text);
    else if (isatty(1))
        rg_doctor_print_table(found, &findings, job->verbose > 0, rg_terminal_colour(1),
                              rg_terminal_columns(1), &doctor->text);
    else
        rg_doctor_print_plain(found, &findings, &doctor->text);
    if (!job->json && !isatty(1))
        rg_doctor_print_summary(&findings, false, &doctor->summary);
}

/* --- hosts that cannot be started ------------------------------------------------------------- */

static void drop_host(struct rg_job *job, const char *name)
{
    for (size_t i = 0; i < job->nhosts; i++) {
        if (strcmp(job->hosts[i].name, name) != 0)
            continue;
        free(job->hosts[i].name);
        free(job->hosts[i].user);
        job->nhosts--;
        memmove(&job->hosts[i], &job->hosts[i + 1], (job->nhosts - i) * sizeof(*job->hosts));
        return;
    }
}

static bool note_unstarted(struct doctor *doctor, const char *name, const char *cause)
{
    struct rg_doctor_unstarted one = { strdup(name), strdup(cause) };
    struct rg_doctor_unstarted *more =
        realloc(doctor->unstarted, (size_t) (doctor->nunstarted + 1) * sizeof(*more));

    if (more)
        doctor->unstarted = more;
    if (!more || !one.name || !one.cause) {
        free(one.name);
        free(one.cause);
        return false;
    }
    more[doctor->nunstarted++] = one;
    return true;
}

/* Those that cannot be started are findings like others, and must not hide what the rest is like:
 * take them out. False: none is known, or no other is left. */
static bool leave_out(struct doctor *doctor)
{
    struct rg_job *job = &doctor->request.job;
    const struct rg_plan *plan = &doctor->plan;
    int nleft = 0, nknown = doctor->nunstarted;

    for (int i = 0; i < plan->nhosts; i++)
        nleft += !rg_session_unstarted(doctor->session, i);
    if (nleft == 0 || nleft == plan->nhosts)
        return false;
    for (int i = 0; i < plan->nhosts; i++) {
        const char *cause = rg_session_unstarted(doctor->session, i);
        if (cause && !note_unstarted(doctor, plan->hosts[i].name, cause))
            return false;
        if (cause)
            drop_host(job, plan->hosts[i].name);
    }
    job->np = 0; /* as many as were planned on these */
    for (size_t k = job->nhosts; k-- > 0;) {
        int i = 0;
        while (i < plan->nhosts && strcmp(plan->hosts[i].name, job->hosts[k].name) != 0)
            i++;
        if (i < plan->nhosts)
            job->hosts[k].nslots = plan->hosts[i].nplanned;
        else
            drop_host(job, job->hosts[k].name);
    }
    return doctor->nunstarted > nknown;
}

static void on_ended(void *arg, const struct rg_verdict *verdict)
{
    struct doctor *doctor = arg;

    rg_status_stop(&doctor->status);
    doctor->again = !doctor->examined && !doctor->signalled &&
                    doctor->ntries < TRIES_MAX && leave_out(doctor);
    if (!doctor->examined && !doctor->again) {
        doctor->exit_code = verdict->exit_code ? verdict->exit_code : RG_EXIT_INTERNAL;
        rg_say("%s", verdict->cause);
    }
    rg_loop_stop(doctor->loop);
}

static void on_signal(void *arg, int signo)
{
    struct doctor *doctor = arg;

    doctor->signalled = true;
    rg_session_signal(doctor->session, signo);
}

static const struct rg_session_ops session_ops = {
    .on_phase = on_phase,
    .on_output = on_output,
    .on_note = on_note,
    .on_examined = on_examined,
    .on_ended = on_ended,
};

/* --- from the beginning to the end ------------------------------------------------------------ */

/* What the queue says. */
static void say_early(void *arg, const char *text)
{
    const struct doctor *doctor = arg;

    if (!doctor->request.quiet)
        rg_say("%s", text);
}

static int prepare(struct doctor *doctor, const struct rg_driver_ops *driver, struct rg_error *err)
{
    struct rg_job *job = &doctor->request.job;
    int r = rg_job_take_ports(&doctor->request.job, err);

    if (r == 0)
        r = rg_sizes_check(job, err);
    if (r == 0)
        r = rg_place_job(job, !driver->platform.here, err);
    if (r >= 0)
        r = rg_hold_get(&doctor->hold, driver, job, say_early, doctor, err);
    return r >= 0 ? rg_plan_make(job, &doctor->plan, err) : r;
}

static int start(struct doctor *doctor, const struct rg_driver_ops *driver, struct rg_error *err)
{
    static const int signos[] = { SIGINT, SIGTERM };
    const struct rg_job *job = &doctor->request.job;
    const struct rg_session_options options = { .loop = doctor->loop, .job = job,
                                                .plan = &doctor->plan, .driver = driver,
                                                .held = doctor->hold.held,
                                                .ops = &session_ops, .arg = doctor,
                                                .doctor = true };

    if (rg_status_start(&doctor->status, doctor->loop, &doctor->plan, isatty(2) && !job->json, say,
                        doctor) < 0)
        return rg_error_memory(err);
    if (doctor->request.quiet || job->json)
        rg_status_stop(&doctor->status);
    int r = rg_session_create(&options, &doctor->session, err);
    for (size_t i = 0; r == 0 && i < rg_array_len(signos); i++)
        rg_signal_start(&doctor->signals[i], doctor->loop, signos[i], on_signal, doctor);
    return r;
}

/* What belongs to one look at the hosts. */
static void release(struct doctor *doctor)
{
    for (size_t i = 0; i < rg_array_len(doctor->signals); i++)
        rg_signal_stop(&doctor->signals[i]);
    rg_session_destroy(doctor->session);
    rg_status_fini(&doctor->status);
    rg_plan_fini(&doctor->plan);
    rg_loop_destroy(doctor->loop);
    doctor->session = NULL;
    doctor->loop = NULL;
    doctor->status = (struct rg_status){ 0 };
}

static int examine(struct doctor *doctor)
{
    const struct rg_driver_ops *driver = rg_driver_choose(&doctor->request.job);
    struct rg_error err = RG_ERROR_INIT;

    /* Its hosts are made with the job, and this computer is none of them. */
    if (driver->platform.away)
        return rg_fail(&(struct rg_error){ ENOTSUP, RG_EXIT_USAGE, AWAY }, "doctor");
    if (rg_env_set(&doctor->request.job.env, RG_DOCTOR_GPUS_SCRIPT, rg_doctor_gpus_script) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "doctor");
    if (prepare(doctor, driver, &err) < 0)
        return rg_fail(&err, "doctor");
    for (size_t i = 0; i < doctor->request.notes.count && !doctor->request.quiet; i++)
        rg_say("%s", doctor->request.notes.v[i]);
    do {
        if (doctor->ntries++) {
            release(doctor);
            if (rg_plan_make(&doctor->request.job, &doctor->plan, &err) < 0)
                return rg_fail(&err, "doctor");
        }
        if (rg_loop_create(&doctor->loop) < 0)
            return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "doctor");
        if (start(doctor, driver, &err) < 0)
            return rg_fail(&err, "doctor");
        rg_loop_run(doctor->loop);
    } while (doctor->again);
    int code = rg_print_exact(rg_buf_text(&doctor->text));
    if (rg_buf_nbytes(&doctor->summary) && !doctor->request.quiet)
        rg_say("doctor: %s", rg_buf_text(&doctor->summary));
    return code ? code : doctor->exit_code;
}

static void finish(struct doctor *doctor)
{
    release(doctor);
    rg_hold_release(&doctor->hold);
    for (int i = 0; i < doctor->nunstarted; i++) {
        free(doctor->unstarted[i].name);
        free(doctor->unstarted[i].cause);
    }
    free(doctor->unstarted);
    rg_buf_fini(&doctor->text);
    rg_buf_fini(&doctor->summary);
    rg_request_fini(&doctor->request);
}

/* --planes runs a job, whose first rank prints what the runtime there has chosen. Its Python is the
 * one that reigen was installed for, where that may be the hosts' too. */
static int use_planes_command(struct rg_job *job)
{
    /* Some operations come first, from which ranks of several hosts learn about their network. */
    static const char script[] = "import ctypes, reigen; from reigen._lib import lib; "
                                 "reigen.init(); n = 1 << 20; x = (ctypes.c_float * n)(); "
                                 "shape = (ctypes.c_int64 * 1)(n); "
                                 "[lib.reigen_allreduce(b'reigen.doctor.%d' % i, x, x, 7, shape, "
                                 "1, None) for i in range(5)]; "
                                 "text = reigen.planes(); "
                                 "print(text if reigen.rank() == 0 else '', end=''); "
                                 "reigen.shutdown()";
    char path[PATH_MAX];
    bool own = !job->container.image && rg_self_beside("python3", path);

    rg_strv_fini(&job->command);
    while (job->nroles)
        rg_role_fini(&job->roles[--job->nroles]);
    job->engine = RG_ENGINE_NATIVE;
    job->tag = RG_TAG_OFF;
    job->stdin_mode = RG_STDIN_NONE;
    return rg_strv_add_all(&job->command,
                           (char *[]){ own ? path : "python3", "-c", (char *) script, NULL });
}

static bool is_own(const char *argument, const char *name)
{
    return argument[0] == '-' && strcmp(argument + 1 + (argument[1] == '-'), name) == 0;
}

/* What is near to an option of ours is not near to any of reigen run's, which would be named. */
static int refuse_misspelt(char **argv, struct rg_error *err)
{
    static const char *const own[] = { "planes", "clean", NULL };

    for (char **arg = argv + 1; *arg && strcmp(*arg, "--") != 0; arg++) {
        const char *name = *arg + strspn(*arg, "-");
        if (**arg == '-' && !is_own(*arg, own[0]) && !is_own(*arg, own[1]) &&
            !rg_option_find(name) && rg_str_nearest(name, own))
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "unknown option %.80s; did you mean --%s?", *arg,
                                     rg_str_nearest(name, own));
    }
    return 0;
}

/* The options of reigen run, two of our own, and a stand-in for the command: none is run. */
static int parse(struct doctor *doctor, char **argv, bool *ret_planes, struct rg_error *err)
{
    rg_autostrv struct rg_strv with = RG_STRV_INIT;
    bool planes = false;
    int r = 0;

    for (int i = 0; r == 0 && argv[i]; i++) {
        if (is_own(argv[i], "planes"))
            planes = true;
        else if (is_own(argv[i], "clean"))
            doctor->clean = true;
        else
            r = rg_strv_add(&with, argv[i]);
    }
    if (r == 0)
        r = rg_strv_add_all(&with, (char *[]){ "--", "true", NULL });
    if (r < 0)
        return rg_error_memory(err);
    r = refuse_misspelt(argv, err);
    doctor->request.stand_in = true;
    doctor->request.configured = true;
    if (r == 0)
        r = rg_run_parse(&doctor->request, (int) with.count, with.v, err);
    if (r == 0 && !doctor->request.help && !doctor->request.job.nroles &&
        doctor->request.job.command.count > 1)
        r = rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                              "doctor: it runs no command and takes options only; leave out: %.80s",
                              doctor->request.job.command.v[0]);
    if (r == 0 && planes && use_planes_command(&doctor->request.job) < 0)
        r = rg_error_memory(err);
    *ret_planes = planes;
    return r;
}

/* On the hosts, and in the folders of this one, the agents that look clean up, too. */
static int clean_and_examine(struct doctor *doctor)
{
    int cleaned = doctor->clean ? rg_jobs_clean_all() : 0;

    rg_registry_sweep();
    rg_run_say_remarks(&doctor->request);
    int code = examine(doctor);
    return code ? code : cleaned;
}

static int run_planes(struct doctor *doctor, bool stdin_open)
{
    rg_run_say_remarks(&doctor->request);
    return rg_run_request(&doctor->request, "doctor", false, stdin_open);
}

int rg_cmd_doctor(int argc, char **argv)
{
    struct doctor doctor = { .text = RG_BUF_INIT, .summary = RG_BUF_INIT };
    struct rg_error err = RG_ERROR_INIT;
    bool open[3], planes = false;
    int code;

    (void) argc;
    rg_stdio_ensure(open);
    rg_request_init(&doctor.request);
    if (parse(&doctor, argv, &planes, &err) < 0)
        code = rg_fail(&err, "doctor");
    else if (doctor.request.help)
        code = RG_COMMAND_HELP;
    else
        code = planes ? run_planes(&doctor, open[0]) : clean_and_examine(&doctor);
    finish(&doctor);
    return code;
}
