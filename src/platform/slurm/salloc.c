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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/slurm/door.h"
#include "platform/slurm/internal.h"
#include "job/slurm.h"

#define GRANTED "reigen-granted\n"
#define SAID_MAX (16u << 20)  /* more than a process's environment can have */
#define FIRST_LOOK_MS 500
#define LOOK_MS 2000          /* between looks at the queue, at first: a queue is shared by all */
#define LOOK_MAX_MS 30000
#define RELEASE_MS 5000

struct slurm_salloc {
    struct rg_acquire_options o;
    void (*on_got)(void *arg, const struct rg_error *err);
    void *arg;
    pid_t pid;     /* salloc's; 0: none */
    int in_fd, out_fd;
    char name[40]; /* the job's, by which squeue finds it */
    char job_id[SLURM_ID_MAX];
    bool is_granted;
    bool lost;     /* salloc has ended before it was told to */
    struct rg_child child;
    struct rg_io reader;
    struct rg_timer timer;
    struct rg_buf said;      /* by salloc and its shell */
    char shown[640];         /* what was said of the queue last */
    uint64_t pause_ms;       /* to the next look at it */
    struct slurm_question question;
};

/* --- the queue -------------------------------------------------------------------------------- */

/* "ID|STATE|REASON|START", among remarks. false: it is no such line. */
static bool describe(struct slurm_salloc *salloc, char *said, char *line, size_t nbytes)
{
    char *id = strsep(&said, "|"), *state = strsep(&said, "|"), *reason = strsep(&said, "|");

    if (!said || strchr(said, '|') || !*id || id[strspn(id, "0123456789+_")])
        return false;
    bool known = strcmp(said, "N/A") != 0 && strcmp(said, "(null)") != 0;
    snprintf(salloc->job_id, sizeof(salloc->job_id), "%s", id);
    *line = '\0';
    rg_autobuf struct rg_buf hint = RG_BUF_INIT;
    slurm_put_pending(&hint, reason, "press Ctrl-C");
    if (strcmp(state, "PENDING") == 0)
        snprintf(line, nbytes, "waiting for Slurm: job %s is pending: %s%s%s%s", id, reason,
                 rg_buf_text(&hint), known ? "; it is expected to start at " : "",
                 known ? said : "");
    else if (strcmp(state, "CONFIGURING") == 0)
        snprintf(line, nbytes, "waiting for Slurm: job %s has nodes, which are not up yet", id);
    return true;
}

static void look(void *arg);

static void on_queue(void *arg, char *text)
{
    struct slurm_salloc *salloc = arg;
    char line[sizeof(salloc->shown)] = "";

    rg_timer_start(&salloc->timer, salloc->o.loop, salloc->pause_ms, 0, look, salloc);
    salloc->pause_ms = salloc->pause_ms * 2 < LOOK_MAX_MS ? salloc->pause_ms * 2 : LOOK_MAX_MS;
    for (char *each, *rest = text; (each = strsep(&rest, "\n"));) {
        if (describe(salloc, each, line, sizeof(line)))
            break;
    }
    if (!*line || strcmp(line, salloc->shown) == 0)
        return;
    strcpy(salloc->shown, line);
    salloc->o.on_say(salloc->o.arg, line);
}

/* Why it is not granted yet: squeue's word for it, when that is a new one. salloc tells the job's
 * number unless it is to be quiet, and the user may have given it another name. */
static void look(void *arg)
{
    struct slurm_salloc *salloc = arg;
    char which[SLURM_ID_MAX + 16];
    char *argv[] = { (char *) "squeue", (char *) "--noheader", (char *) "--me", which,
                     (char *) "--format=%i|%T|%r|%S", NULL };

    if (*salloc->job_id)
        snprintf(which, sizeof(which), "--jobs=%s", salloc->job_id);
    else
        snprintf(which, sizeof(which), "--name=%s", salloc->name);
    if (slurm_question_start(&salloc->question, salloc->o.loop, argv, on_queue, salloc) < 0)
        on_queue(salloc, NULL);
}

/* --- salloc ----------------------------------------------------------------------------------- */

/* Hosts of -H are nodes like those of --nodelist. */
static int add_hosts(const struct rg_job *job, struct rg_strv *argv)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    for (size_t i = 0; i < job->nhosts; i++)
        rg_buf_printf(&list, "%s%s", i ? "," : "", job->hosts[i].name);
    if (job->nhosts)
        rg_strv_addf(argv, "--nodelist=%s", rg_buf_text(&list));
    return rg_buf_status(&list);
}

/* How many nodes are named or counted; 0: Slurm is to say. */
static size_t count_nodes(const struct rg_job *job)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *list = rg_env_get(&job->settings, "nodelist");
    const char *nodes = rg_env_get(&job->settings, "nodes");

    if (nodes)
        return strtoul(nodes, NULL, 10);
    if (job->nhosts || !list)
        return job->nhosts;
    return rg_slurm_nodes("--nodelist", list, &names, NULL) < 0 ? 0 : names.count;
}

/* Ranks that share slots need no more of them than the nodes have. */
static int count_tasks(const struct rg_job *job)
{
    size_t room = count_nodes(job) * (size_t) job->ranks_per_host;

    return job->oversubscribe && room && room < (size_t) job->np ? (int) room : job->np;
}

/* Whether the user has words of their own on how tasks are spread over nodes. */
static bool is_spread(const struct rg_job *job)
{
    static const char *const words[] = { "--ntasks-per-", "--tasks-per-node", "--distribution",
                                         "-m", NULL };
    rg_autostrv struct rg_strv options = RG_STRV_INIT;

    if (rg_job_settings(job, "slurm-option", &options) < 0)
        return false; /* the caller runs into it again */
    for (size_t i = 0; i < options.count; i++) {
        if (slurm_starts_with_one(options.v[i], words))
            return true;
    }
    for (size_t i = 0; i < job->nhosts; i++) {
        if (job->hosts[i].nslots)
            return true;
    }
    return false;
}

/* Tasks of a node, at most; 0: Slurm is to say. It would fill the first node, and give each other
 * node one of them. */
static int count_per_node(const struct rg_job *job)
{
    size_t nodes = count_nodes(job);

    if (job->ranks_per_host || !nodes || !job->np || is_spread(job))
        return job->ranks_per_host;
    return (int) (((size_t) count_tasks(job) + nodes - 1) / nodes);
}

int slurm_wish_add(const struct rg_job *job, struct rg_strv *argv)
{
    static const char *const wishes[] = { "nodes", "nodelist", "exclude", "partition", "gres",
                                          "time", "account" }; /* Slurm's options, and ours */
    int r = add_hosts(job, argv), per_node = count_per_node(job);

    if (job->np)
        rg_strv_addf(argv, "--ntasks=%d", count_tasks(job));
    if (job->elastic.on)
        rg_strv_add(argv, "--no-kill");
    if (per_node)
        rg_strv_addf(argv, "--ntasks-per-node=%d", per_node);
    for (size_t i = 0; i < rg_array_len(wishes); i++) {
        const char *value = rg_env_get(&job->settings, wishes[i]);
        if (value)
            rg_strv_addf(argv, "--%s=%s", wishes[i], value);
    }
    return r < 0 ? r : rg_job_settings(job, "slurm-option", argv);
}

static int make_argv(const struct slurm_salloc *salloc, struct rg_strv *argv)
{
    static const char *const rest[] = {
        "--", "sh", "-c",
        "printf '\\000'; env -0; printf '" GRANTED "'; read -r done || { sleep 2; "
        "kill -0 $PPID 2>/dev/null || scancel --quiet $SLURM_JOB_ID 2>/dev/null; }"
    };

    rg_strv_add(argv, "salloc");
    rg_strv_addf(argv, "--job-name=%s", salloc->name);
    int r = slurm_wish_add(salloc->o.job, argv);
    for (size_t i = 0; i < rg_array_len(rest); i++)
        rg_strv_add(argv, rest[i]);
    return r < 0 ? r : rg_strv_status(argv);
}

static int spawn_salloc(struct slurm_salloc *salloc, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT, env = RG_STRV_INIT;
    int ours[3], theirs[3];
    int r = make_argv(salloc, &argv);

    if (r == 0)
        r = slurm_command_env(salloc->o.job, &env);
    if (r == 0)
        r = rg_streams_open(false, ours, theirs);
    if (r < 0)
        return rg_error_set(err, -r, "salloc: %s", strerror(-r));
    salloc->in_fd = ours[0];
    salloc->out_fd = ours[1]; /* for its errors, too */
    close(ours[2]);
    const struct rg_spawn spawn = { .argv = argv.v, .envp = env.v,
                                    .fds = { theirs[0], theirs[1], theirs[1] },
                                    .new_session = true, .death_signal = SIGTERM };
    r = rg_spawn(&spawn, &salloc->pid, err);
    for (int i = 0; i < 3; i++)
        close(theirs[i]);
    return r == -ENOENT ? slurm_command_missing("salloc", err) : r;
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

/* "salloc: Pending job allocation 12" */
static void take_id(struct slurm_salloc *salloc, const char *said)
{
    static const char mark[] = "job allocation ";
    const char *at = strstr(said, mark);
    size_t length = at ? strspn(at + strlen(mark), "0123456789") : 0;

    if (!*salloc->job_id && length && length < sizeof(salloc->job_id))
        snprintf(salloc->job_id, sizeof(salloc->job_id), "%.*s", (int) length, at + strlen(mark));
}

/* More of what salloc and its shell say. Whether the allocation is there. */
static bool take_said(struct slurm_salloc *salloc, const char *bytes, size_t nbytes)
{
    struct rg_buf *said = &salloc->said;
    static const char mark[] = "\0" GRANTED;
    size_t before = rg_buf_nbytes(said);
    size_t from = before > sizeof(mark) ? before - sizeof(mark) : 0;

    rg_buf_put(said, bytes, nbytes);
    if (rg_buf_status(said) < 0)
        return false;
    char *text = (char *) rg_buf_text(said);
    char *end = memmem(text + from, rg_buf_nbytes(said) - from, mark, sizeof(mark) - 1);
    take_id(salloc, text);
    if (end)
        take_environment(text, (size_t) (end - text) + 1);
    return end;
}

/* --- from the request to its return ----------------------------------------------------------- */

/* Of what was begun, nothing goes on. */
static void settle(struct slurm_salloc *salloc)
{
    rg_child_stop(&salloc->child);
    rg_io_stop(&salloc->reader);
    rg_timer_stop(&salloc->timer);
    slurm_question_stop(&salloc->question);
    rg_buf_fini(&salloc->said);
}

static void tell_got(struct slurm_salloc *salloc, const struct rg_error *err)
{
    settle(salloc);
    salloc->on_got(salloc->arg, err);
}

static void granted(struct slurm_salloc *salloc)
{
    const char *id = getenv("SLURM_JOB_ID");

    snprintf(salloc->job_id, sizeof(salloc->job_id), "%s", id ? id : "");
    salloc->is_granted = true;
    tell_got(salloc, NULL);
}

/* Take what salloc and its shell say. True: nothing more is waited for, and salloc may be gone. */
static bool read_said(struct slurm_salloc *salloc)
{
    char bytes[16384];
    ssize_t n;

    while ((n = read(salloc->out_fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0 && take_said(salloc, bytes, (size_t) n)) {
            granted(salloc);
            return true;
        }
        if (rg_buf_nbytes(&salloc->said) > SAID_MAX || rg_buf_status(&salloc->said) < 0) {
            struct rg_error err = RG_ERROR_INIT;
            rg_error_set_exit(&err, E2BIG, RG_EXIT_UNAVAILABLE, "salloc says more than %u MiB",
                              SAID_MAX >> 20);
            tell_got(salloc, &err);
            return true;
        }
    }
    if (n == 0 || errno != EAGAIN) /* its end will tell */
        rg_io_stop(&salloc->reader);
    return false;
}

static void on_said(void *arg, int events)
{
    (void) events;
    read_said(arg);
}

static void salloc_ended(void *arg, pid_t pid, int status)
{
    struct slurm_salloc *salloc = arg;
    struct rg_error err = RG_ERROR_INIT;
    char how[64], line[400];

    (void) pid;
    salloc->pid = 0;
    salloc->lost = true;
    if (read_said(salloc))
        return;
    salloc->lost = WIFSIGNALED(status);
    slurm_complaint(rg_buf_text(&salloc->said), line, sizeof(line));
    const char *remedy = slurm_remedy(line);
    rg_error_set_exit(&err, EAGAIN, RG_EXIT_UNAVAILABLE,
                      "Slurm gave no allocation (salloc: %s)%s%s%s%s",
                      rg_status_text(status, how, sizeof(how)), *line ? ": " : "", line,
                      *remedy ? "; " : "", remedy);
    tell_got(salloc, &err);
}

static int request(struct slurm_salloc *salloc, struct rg_error *err)
{
    uint32_t random = 0;

    if (getrandom(&random, sizeof(random), 0) < 0)
        random = (uint32_t) getpid();
    snprintf(salloc->name, sizeof(salloc->name), "reigen-%08x", random);
    salloc->pause_ms = LOOK_MS;
    int r = spawn_salloc(salloc, err);
    if (r < 0)
        return r;
    rg_child_start(&salloc->child, salloc->o.loop, salloc->pid, salloc_ended, salloc);
    rg_io_start(&salloc->reader, salloc->o.loop, salloc->out_fd, RG_IO_READ, on_said, salloc);
    rg_timer_start(&salloc->timer, salloc->o.loop, FIRST_LOOK_MS, 0, look, salloc);
    return 0;
}

int slurm_salloc_start(const struct rg_acquire_options *options,
                       void (*on_got)(void *arg, const struct rg_error *err), void *arg,
                       struct slurm_salloc **ret_salloc, struct rg_error *err)
{
    struct slurm_salloc *salloc = calloc(1, sizeof(*salloc));

    if (!salloc)
        return rg_error_memory(err);
    salloc->o = *options;
    salloc->on_got = on_got;
    salloc->arg = arg;
    salloc->in_fd = salloc->out_fd = -1;
    int r = request(salloc, err);
    if (r < 0)
        slurm_salloc_end(salloc);
    else
        *ret_salloc = salloc;
    return r;
}

/* Wait for salloc's end. Whether it gave all back. */
static bool await_salloc(struct slurm_salloc *salloc)
{
    uint64_t deadline_ns = rg_now_ns() + RELEASE_MS * RG_NS_PER_MS;
    int status;

    while (rg_now_ns() < deadline_ns) {
        pid_t ended = waitpid(salloc->pid, &status, WNOHANG);
        if (ended == salloc->pid)
            return WIFEXITED(status);
        if (ended < 0 && errno == ECHILD) /* the loop waits for all */
            return false;
        rg_sleep_ms(2);
    }
    kill(salloc->pid, SIGTERM);
    return false;
}

void slurm_salloc_end(struct slurm_salloc *salloc)
{
    char *argv[] = { (char *) "scancel", (char *) "--quiet", salloc->job_id, NULL };
    char text[SLURM_ID_MAX + 64];
    bool waits = salloc->pid && !salloc->is_granted;

    settle(salloc);
    if (waits) /* before its shell, if that runs just now, which must not end first: see above */
        kill(salloc->pid, SIGTERM);
    else if (salloc->in_fd >= 0)
        send(salloc->in_fd, "\n", 1, MSG_NOSIGNAL);
    if (salloc->in_fd >= 0)
        close(salloc->in_fd);
    if (((salloc->pid && !await_salloc(salloc)) || salloc->lost) && *salloc->job_id)
        rg_slurm_ask(argv, text, sizeof(text));
    if (waits) {
        snprintf(text, sizeof(text), "the request%s%s%s was taken back",
                 *salloc->job_id ? " (job " : "", salloc->job_id, *salloc->job_id ? ")" : "");
        salloc->o.on_say(salloc->o.arg, text);
    }
    if (salloc->out_fd >= 0)
        close(salloc->out_fd);
    free(salloc);
}
