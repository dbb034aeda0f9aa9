/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation that is ours: salloc runs a shell that tells its environment, NAME=VALUE each with
 * a zero byte before it, and then reads its standard input until a line comes, when we are done,
 * or its end, when we are dead. So whatever becomes of us, Slurm gets its nodes back.
 *
 * When we are dead salloc gets SIGTERM as well, and ends the allocation. A command that ends while
 * it is at that is waited for by two of its threads, of which one may then wait for ever, and not
 * asleep (seen with 22.05): so the shell stays for a while. A salloc that was killed itself gives
 * nothing back: then the shell cancels the job, or we do.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "base/time.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/slurm/slurm_internal.h"
#include "base/exitcode.h"
#include "spec/job/slurm.h"

#define GRANTED "reigen-granted\n"
#define SAID_MAX (16u << 20)  /* more than a process's environment can have */
#define FIRST_LOOK_MS 500
#define LOOK_MS 2000          /* between looks at the queue, at first: a queue is shared by all */
#define LOOK_MAX_MS 30000
#define RELEASE_MS 5000

/* The one allocation that this process holds. */
static struct {
    pid_t pid;     /* salloc's; 0: none */
    int in_fd, out_fd;
    char name[40]; /* the job's, by which squeue finds it */
    char job_id[SLURM_ID_MAX];
} held = { .in_fd = -1, .out_fd = -1 };

/* --- the queue -------------------------------------------------------------------------------- */

#define NEVER "; it will not start as things are: Ctrl-C takes the request back, then ask for "

/* Limits on what one job may have, by the end of their names: QOSMaxNodePerUserLimit and the like.
 * Those on what all jobs of somebody have together (AssocGrpNodeLimit) pass with time. */
static const char *limit_hint(const char *reason)
{
    static const struct {
        const char *part, *hint;
    } limits[] = {
        { "MaxNode", NEVER "fewer --nodes" },
        { "MaxWall", NEVER "less --time" },
        { "MaxGRES", NEVER "less --gres" },
        { "MaxCpu", NEVER "fewer ranks or cores" },
        { "MaxMem", NEVER "less memory" },
        { "Max", NEVER "less" },
    };
    bool is_limit = rg_str_starts(reason, "QOSMax") || rg_str_starts(reason, "AssocMax");

    /* What counts all running jobs of a user, too, may pass. */
    if (!is_limit || strstr(reason, "MaxJobs") || strstr(reason, "MaxSubmit"))
        return "";
    if (strstr(reason, "PerUser") || strstr(reason, "PerAccount"))
        return " (jobs of yours that run count, too: see squeue --me; if there are none, it will "
               "not start as things are: Ctrl-C takes the request back, then ask for less)";
    for (size_t i = 0; i < rg_array_len(limits); i++) {
        if (strstr(reason, limits[i].part))
            return limits[i].hint;
    }
    return "";
}

/* What a reason means that time alone does not help with. */
static const char *hint(const char *reason)
{
    static const struct {
        const char *reason, *hint;
    } hints[] = {
        { "PartitionConfig", " (the partition has or allows less: see sinfo -s)" NEVER
                             "fewer --nodes, or less of what they have" },
        { "PartitionNodeLimit", " (the partition allows fewer nodes, or some are down: see sinfo)"
                                NEVER "fewer --nodes" },
        { "PartitionTimeLimit", " (the partition allows less --time: see sinfo -s)" NEVER
                                "less --time" },
        { "PartitionDown", " (the partition is down: take another --partition)" },
        { "PartitionInactive", " (the partition is down: take another --partition)" },
        { "BadConstraints", " (no nodes are like that: see sinfo -N -l)" NEVER
                            "what the nodes have" },
        { "AccountNotAllowed", NEVER "another --account or --partition" },
        { "QOSNotAllowed", NEVER "another quality of service (--slurm-option=--qos=NAME)" },
        { "QOSTimeLimit", NEVER "less --time" },
        { "InvalidAccount", NEVER "another --account" },
        { "InvalidQOS", NEVER "another quality of service (--slurm-option=--qos=NAME)" },
        { "DependencyNeverSatisfied", NEVER "another dependency" },
        { "ReqNodeNotAvail", " (nodes are down or reserved: see sinfo -R)" },
        { "JobHeld", " (somebody holds it: scontrol release)" },
    };

    for (size_t i = 0; i < rg_array_len(hints); i++) {
        if (rg_str_starts(reason, hints[i].reason))
            return hints[i].hint;
    }
    return limit_hint(reason);
}

/* "ID|STATE|REASON|START", among remarks. false: it is no such line. */
static bool describe(char *said, char *line, size_t nbytes)
{
    char *id = strsep(&said, "|"), *state = strsep(&said, "|"), *reason = strsep(&said, "|");

    if (!said || strchr(said, '|') || !*id || id[strspn(id, "0123456789+_")])
        return false;
    bool known = strcmp(said, "N/A") != 0 && strcmp(said, "(null)") != 0;
    snprintf(held.job_id, sizeof(held.job_id), "%s", id);
    *line = '\0';
    if (strcmp(state, "PENDING") == 0)
        snprintf(line, nbytes, "waiting for Slurm: job %s is pending: %s%s%s%s", id, reason,
                 hint(reason), known ? "; it is expected to start at " : "", known ? said : "");
    else if (strcmp(state, "CONFIGURING") == 0)
        snprintf(line, nbytes, "waiting for Slurm: job %s has nodes, which are not up yet", id);
    return true;
}

/* Why it is not granted yet: squeue's word for it, when that is a new one. salloc tells the job's
 * number unless it is to be quiet, and the user may have given it another name. */
static void look(char *before, size_t nbytes, void (*say)(void *arg, const char *text), void *arg)
{
    char which[SLURM_ID_MAX + 16], text[1024], line[640] = "";
    char *argv[] = { (char *) "squeue", (char *) "--noheader", (char *) "--me", which,
                     (char *) "--format=%i|%T|%r|%S", NULL };

    if (*held.job_id)
        snprintf(which, sizeof(which), "--jobs=%s", held.job_id);
    else
        snprintf(which, sizeof(which), "--name=%s", held.name);
    if (rg_slurm_ask(argv, text, sizeof(text)) != 0)
        return;
    for (char *each, *rest = text; (each = strsep(&rest, "\n"));) {
        if (describe(each, line, sizeof(line)))
            break;
    }
    if (!*line || strcmp(line, before) == 0)
        return;
    snprintf(before, nbytes, "%s", line);
    say(arg, line);
}

/* --- salloc ----------------------------------------------------------------------------------- */

/* Slurm's options have the names of ours. */
static int add_wish(const struct rg_job *job, struct rg_strv *argv, const char *name)
{
    const char *value = rg_env_get(&job->settings, name);

    return value ? rg_strv_addf(argv, "--%s=%s", name, value) : 0;
}

/* Hosts of -H are nodes like those of --nodelist. */
static int add_hosts(const struct rg_job *job, struct rg_strv *argv)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    for (size_t i = 0; i < job->nhosts; i++)
        rg_buf_printf(&list, "%s%s", i ? "," : "", job->hosts[i].name);
    int r = rg_buf_status(&list);
    return r < 0 ? r : rg_strv_addf(argv, "--nodelist=%s", rg_buf_text(&list));
}

int slurm_wish_add(const struct rg_job *job, struct rg_strv *argv)
{
    static const char *const wishes[] = { "nodelist", "exclude", "partition", "gres", "time",
                                          "account" };
    int r = add_wish(job, argv, "nodes");

    if (r == 0 && job->np)
        r = rg_strv_addf(argv, "--ntasks=%d", job->np);
    if (r == 0 && job->ranks_per_host)
        r = rg_strv_addf(argv, "--ntasks-per-node=%d", job->ranks_per_host);
    if (r == 0 && job->nhosts)
        r = add_hosts(job, argv);
    for (size_t i = 0; r == 0 && i < rg_array_len(wishes); i++)
        r = add_wish(job, argv, wishes[i]);
    return r < 0 ? r : rg_job_settings(job, "slurm-option", argv);
}

static int make_argv(const struct rg_job *job, struct rg_strv *argv)
{
    static const char *const rest[] = {
        "--", "sh", "-c",
        "printf '\\000'; env -0; printf '" GRANTED "'; read -r done || { sleep 2; "
        "kill -0 $PPID 2>/dev/null || scancel --quiet $SLURM_JOB_ID 2>/dev/null; }"
    };
    int r = rg_strv_add(argv, "salloc");

    if (r == 0)
        r = rg_strv_addf(argv, "--job-name=%s", held.name);
    if (r == 0)
        r = slurm_wish_add(job, argv);
    for (size_t i = 0; r == 0 && i < rg_array_len(rest); i++)
        r = rg_strv_add(argv, rest[i]);
    return r;
}

static int spawn_salloc(const struct rg_job *job, int *ret_fd, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT, env = RG_STRV_INIT;
    int in[2], out[2];
    int r = make_argv(job, &argv);

    if (r == 0)
        r = slurm_command_env(job, &env);
    if (r == 0)
        r = rg_pipe(in);
    if (r < 0)
        return rg_error_set(err, -r, "salloc: %s", strerror(-r));
    if ((r = rg_pipe(out)) < 0) {
        close(in[0]);
        close(in[1]);
        return rg_error_set(err, -r, "salloc: %s", strerror(-r));
    }
    const struct rg_spawn spawn = { .argv = argv.v, .envp = env.v,
                                    .fds = { in[0], out[1], out[1] }, .new_session = true,
                                    .death_signal = SIGTERM };
    r = rg_spawn(&spawn, &held.pid, err);
    close(in[0]);
    close(out[1]);
    if (r < 0) {
        close(in[1]);
        close(out[0]);
        held.pid = 0;
        return r == -ENOENT ? slurm_command_missing("salloc", err) : r;
    }
    held.in_fd = in[1];
    *ret_fd = out[0];
    return 0;
}

/* --- the wait --------------------------------------------------------------------------------- */

/* What the allocation is like becomes our own environment, as in a shell of salloc's. */
static void take_environment(char *text, size_t nbytes)
{
    for (char *item = text, *end = text + nbytes; item < end; item += strlen(item) + 1) {
        char *value = strchr(item, '=');
        if (!rg_str_starts(item, "SLURM_") || !value)
            continue;
        *value = '\0';
        setenv(item, value + 1, 1);
        *value = '=';
    }
}

static int refused(const char *said, struct rg_error *err)
{
    int status = 0;
    char how[64], line[400];

    while (waitpid(held.pid, &status, 0) < 0 && errno == EINTR)
        ;
    held.pid = 0;
    slurm_complaint(said, line, sizeof(line));
    const char *remedy = slurm_remedy(line);
    return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE,
                             "Slurm gave no allocation (salloc: %s)%s%s%s%s",
                             rg_status_text(status, how, sizeof(how)), *line ? ": " : "", line,
                             *remedy ? "; " : "", remedy);
}

/* "salloc: Pending job allocation 12" */
static void take_id(const char *said)
{
    static const char mark[] = "job allocation ";
    const char *at = strstr(said, mark);
    size_t length = at ? strspn(at + strlen(mark), "0123456789") : 0;

    if (!*held.job_id && length && length < sizeof(held.job_id))
        snprintf(held.job_id, sizeof(held.job_id), "%.*s", (int) length, at + strlen(mark));
}

/* More of what salloc and its shell say. Whether the allocation is there. */
static bool take_said(struct rg_buf *said, const char *bytes, size_t nbytes)
{
    static const char mark[] = "\0" GRANTED;
    size_t before = rg_buf_nbytes(said);
    size_t from = before > sizeof(mark) ? before - sizeof(mark) : 0;

    rg_buf_put(said, bytes, nbytes);
    if (rg_buf_status(said) < 0)
        return false;
    char *text = (char *) rg_buf_text(said);
    char *end = memmem(text + from, rg_buf_nbytes(said) - from, mark, sizeof(mark) - 1);
    take_id(text);
    if (end)
        take_environment(text, (size_t) (end - text) + 1);
    return end;
}

/* A signal ends us: tell Slurm, and say so. salloc's shell, if it runs just now, must not end
 * before salloc: see above. Ends this process. */
static _Noreturn void end_by(int signo, void (*say)(void *arg, const char *text), void *arg)
{
    char text[SLURM_ID_MAX + 64];
    sigset_t one;

    kill(held.pid, SIGTERM);
    if (held.in_fd >= 0)
        close(rg_steal_fd(&held.in_fd));
    slurm_release();
    snprintf(text, sizeof(text), "the request%s%s%s was taken back", *held.job_id ? " (job " : "",
             held.job_id, *held.job_id ? ")" : "");
    say(arg, text);
    sigemptyset(&one);
    sigaddset(&one, signo);
    signal(signo, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(signo);
    _exit(128 + signo);
}

/* Signals that end a program come by the descriptor from now on, but not those that are ignored.
 * -errno. */
static int take_signals(sigset_t *ret_before)
{
    static const int signos[] = { SIGINT, SIGTERM, SIGHUP };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < rg_array_len(signos); i++)
        sigaddset(&set, signos[i]);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    sigprocmask(SIG_BLOCK, &set, ret_before);
    return fd;
}

/* Wait for more of what salloc says, or a signal, which ends us. As poll. */
static int wait_for_more(int fd, int signal_fd, int limit_ms,
                         void (*say)(void *arg, const char *text), void *arg)
{
    struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = signal_fd, .events = POLLIN } };
    struct signalfd_siginfo info;
    int n = poll(fds, 2, limit_ms);

    if (n > 0 && fds[1].revents && read(signal_fd, &info, sizeof(info)) == sizeof(info))
        end_by((int) info.ssi_signo, say, arg);
    return n;
}

/* Until it is granted. 0, or -errno. */
static int wait_for_it(int fd, int signal_fd, void (*say)(void *arg, const char *text), void *arg,
                       struct rg_error *err)
{
    rg_autobuf struct rg_buf said = RG_BUF_INIT;
    char before[640] = "";
    int limit_ms = FIRST_LOOK_MS, pause_ms = LOOK_MS;

    for (;;) {
        char bytes[16384];
        int n = wait_for_more(fd, signal_fd, limit_ms, say, arg);
        if (n == 0) {
            look(before, sizeof(before), say, arg);
            limit_ms = pause_ms;
            pause_ms = pause_ms * 2 < LOOK_MAX_MS ? pause_ms * 2 : LOOK_MAX_MS;
            continue;
        }
        ssize_t got = n < 0 ? -1 : read(fd, bytes, sizeof(bytes));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return refused(rg_buf_text(&said), err);
        if (take_said(&said, bytes, (size_t) got))
            return 0;
        if (rg_buf_nbytes(&said) > SAID_MAX || rg_buf_status(&said) < 0)
            return rg_error_set_exit(err, E2BIG, RG_EXIT_UNAVAILABLE,
                                     "salloc says more than %u MiB", SAID_MAX >> 20);
    }
}

int slurm_acquire(const struct rg_job *job, void (*say)(void *arg, const char *text), void *arg,
                  struct rg_error *err)
{
    const struct rg_strv env = rg_slurm_environment();
    rg_autoclose int fd = -1;
    uint32_t random = 0;

    if (rg_slurm_in_job(&env))
        return 0;
    if (getrandom(&random, sizeof(random), 0) < 0)
        random = (uint32_t) getpid();
    snprintf(held.name, sizeof(held.name), "reigen-%08x", random);
    int r = spawn_salloc(job, &fd, err);
    if (r == 0) {
        sigset_t before;
        rg_autoclose int signal_fd = take_signals(&before);
        r = wait_for_it(fd, signal_fd, say, arg, err);
        if (signal_fd >= 0)
            sigprocmask(SIG_SETMASK, &before, NULL);
    }
    if (r < 0) {
        slurm_release();
        return r;
    }
    /* Words of salloc that come later have nowhere to go, and must not end it. */
    const char *id = getenv("SLURM_JOB_ID");
    snprintf(held.job_id, sizeof(held.job_id), "%s", id ? id : "");
    held.out_fd = rg_steal_fd(&fd);
    rg_fd_set_nonblock(held.out_fd, true);
    return 0;
}

/* To the shell. It may be gone, and this may be before SIGPIPE is ignored for good. */
static void say_done(void)
{
    if (held.in_fd < 0)
        return;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    rg_write_all(held.in_fd, "\n", 1);
    signal(SIGPIPE, before);
    close(rg_steal_fd(&held.in_fd));
}

void slurm_release(void)
{
    uint64_t deadline_ns = rg_now_ns() + RELEASE_MS * RG_NS_PER_MS;
    char *argv[] = { (char *) "scancel", (char *) "--quiet", held.job_id, NULL };
    char nothing[16];
    bool gone = held.pid == 0, ended_well = gone;
    int status;

    say_done();
    while (held.pid && !gone && rg_now_ns() < deadline_ns) {
        pid_t ended = waitpid(held.pid, &status, WNOHANG);
        ended_well = ended == held.pid && WIFEXITED(status);
        gone = ended == held.pid || (ended < 0 && errno == ECHILD); /* the loop waits for all */
        if (!gone)
            rg_sleep_ms(2);
    }
    if (!gone)
        kill(held.pid, SIGTERM);
    if (!ended_well && *held.job_id)
        rg_slurm_ask(argv, nothing, sizeof(nothing));
    held.pid = 0;
    if (held.out_fd >= 0)
        close(held.out_fd);
    held.out_fd = -1;
}
