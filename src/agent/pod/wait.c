/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod that calls the head, again and again: because it was there before its jobs, or because its
 * job is started again when another pod was lost. Whoever answers its call says in one line what it
 * wants (platform/common/callers.h): a head gives a job; `reigen wait-workers` only wants to know
 * that the pod is there, says when all are (RG_POD_GO), and is heard no more when the head's task
 * is over, with which the pod's is over, too.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "agent/ranks/agent.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/proctree.h"
#include "base/say.h"
#include "base/time.h"
#include "agent/pod/internal.h"
#include "platform/common/callers.h"

#define ORDER_MAX 4200   /* characters of the line that says which job it is, and where */
#define ORDER_LIMIT_S 10 /* for it to come */
#define AGAIN_MS 250     /* from a job to the next call, and from a call that was in vain; then */
#define AGAIN_MAX_MS 2000 /* twice as long each time, up to this */
#define UNSTARTED_SIGNAL SIGALRM /* ends a server without a start: each exit code may be a job's */
#define LOST_S 10 /* from a wait whose end was not told until another one begins */

struct waiting {
    const struct rg_pod *pod;
    uint8_t key[RG_KEY_NBYTES];
    int watched_fd;    /* to who waits for workers at the head; -1: nobody has said so */
    uint64_t begin_ns; /* of the calls that go on */
    uint64_t limit_ms; /* for these; 0: none */
    unsigned pause_ms; /* after a call that was in vain; 0: the last one was not */
    uint64_t start_ms; /* of a pod with a plan: how long a start may take; 0: as long as it takes */
    bool elastic;      /* likewise: it may come back as often as it likes */
    int nstarts;       /* of its job, so far */
    int code;          /* what the last agent has ended with */
    char words[160];   /* of a pod with a plan: for a job that does not end well */
    bool lost;         /* who has waited is gone without a word */
    struct rg_process *before; /* who was there before; the children among them are the user's */
    size_t nbefore;
};

static volatile pid_t server; /* who has the job; 0: nobody */
static volatile sig_atomic_t stopped;

static void hand_on(int signo)
{
    stopped = 1;
    if (server > 0)
        kill(server, signo);
}

/* --- orders ----------------------------------------------------------------------------------- */

/* limit_s 0: it may take as long as it needs. */
static int read_line(int fd, char *line, size_t room, time_t limit_s)
{
    struct timeval limit = { .tv_sec = limit_s };
    size_t n = 0;
    int r = 0;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    do {
        r = n == room ? -EPROTO : rg_read_all(fd, line + n, 1);
    } while (r == 0 && line[n++] != '\n');
    limit.tv_sec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (r == 0)
        line[n - 1] = '\0';
    return r;
}

/* JOB-ID DIRECTORY, from a head that has proven itself. With a plan the pod is where it belongs. */
static int take_order(char *line, bool planned, struct rg_agent_lines *boot)
{
    char *cwd = line + strcspn(line, " ");

    if (!*cwd || cwd - line > RG_JOB_ID_MAX)
        return -EPROTO;
    *cwd++ = '\0';
    strcpy(boot->job_id, line);
    if (planned)
        return 0;
    if (chdir(cwd) == 0)
        setenv("PWD", cwd, 1);
    else
        rg_say("there is no directory %s here (%s): ranks run where this pod was started", cwd,
               strerror(errno));
    return 0;
}

/* --- a job ------------------------------------------------------------------------------------ */

/* In a process of its own: an agent may end in the middle of anything. */
static int serve(const struct waiting *w, int fd, char *line)
{
    struct rg_agent_lines boot = { .waits = true, .ends_alike = w->pod->planned, .keeper_fd = -1,
                                   .link_fd = fd, .link_write_fd = fd };
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    rg_pod_obey();
    strcpy(boot.place, w->pod->place);
    memcpy(boot.key, w->key, sizeof(boot.key));
    for (int i = 0; null_fd >= 0 && i < 2; i++)
        dup2(null_fd, i);
    return take_order(line, w->pod->planned, &boot) < 0 ? RG_AGENT_UNSTARTED : rg_agent_run(&boot);
}

/* No other process gets a child's number before it was waited for. */
static pid_t wait_for(struct waiting *w, pid_t pid, int *status, int flags)
{
    pid_t ended = waitpid(pid, status, flags);

    for (size_t i = 0; i < w->nbefore; i++) {
        if (w->before[i].pid == ended)
            w->before[i].parent = 0;
    }
    return ended;
}

/* The shell that has become this process may have children in the background: they and what
 * descends from them are not the job's. */
static bool is_users(const struct waiting *w, const struct rg_process *list, size_t i)
{
    for (size_t k = 0; k < w->nbefore; k++) {
        if (w->before[k].pid == list[i].pid && w->before[k].parent == getpid())
            return true;
    }
    for (size_t k = 0; k < i; k++) {
        if (list[k].pid == list[i].parent)
            return !list[k].state;
    }
    return false;
}

/* What a killed agent has left has this process as its parent. */
static void end_rest(struct waiting *w)
{
    size_t count, nkilled;

    do {
        rg_autofree struct rg_process *list = NULL;
        nkilled = 0;
        if (rg_proctree_descendants(getpid(), &list, &count) < 0)
            break;
        for (size_t i = 0; i < count; i++) {
            if (is_users(w, list, i))
                list[i].state = 0; /* which tells those after it */
            else if (kill(list[i].pid, SIGKILL) == 0)
                nkilled++;
        }
        for (size_t i = 0; i < count; i++) {
            if (list[i].state)
                wait_for(w, list[i].pid, NULL, 0);
        }
    } while (nkilled);
    while (wait_for(w, -1, NULL, WNOHANG) > 0)
        ;
}

/* Once, as it calls again and again. */
static void say_unserved(struct waiting *w)
{
    if (!w->pause_ms)
        rg_say("no process can be started for the job: %s; %s calls again", strerror(errno),
               w->pod->itself);
    w->pause_ms = AGAIN_MS;
}

/* The signal is held back until it is known whom it is for. Others' children that come to process 1
 * end here, too. What the agent has ended with, RG_AGENT_UNSTARTED where the call was in vain;
 * RG_EXIT_HOST_LOST where it was killed. */
static int serve_once(struct waiting *w, int fd, char *line)
{
    sigset_t term, before;
    int status = UNSTARTED_SIGNAL; /* as long as no process has ended otherwise */

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    signal(SIGTERM, hand_on);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        rg_pod_obey();
        sigprocmask(SIG_SETMASK, &before, NULL);
        int code = serve(w, fd, line);
        signal(UNSTARTED_SIGNAL, SIG_DFL);
        if (code == RG_AGENT_UNSTARTED)
            raise(UNSTARTED_SIGNAL);
        _exit(code);
    }
    if (server < 0)
        say_unserved(w);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(fd);
    pid_t ended = 0;
    while (server > 0 && ended != server && (ended >= 0 || errno == EINTR))
        ended = wait_for(w, -1, &status, 0);
    server = 0;
    end_rest(w);
    if (!stopped)
        rg_pod_obey();
    return WIFEXITED(status)                      ? WEXITSTATUS(status)
           : WTERMSIG(status) == UNSTARTED_SIGNAL ? RG_AGENT_UNSTARTED : RG_EXIT_HOST_LOST;
}

/* --- who waits for workers -------------------------------------------------------------------- */

static int fail_over(const char *more, struct rg_error *err)
{
    return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_TIMEOUT,
                             "the head's wait has ended before all hosts were there%s", more);
}

/* Until all are there, or who waits is gone; then it is called again. Who has waited before it is
 * watched until then. A host that is there for that wait alone ends with it. 0, or -ETIMEDOUT. */
static int hear_wait(struct waiting *w, int take_fd, struct rg_error *err)
{
    char line[sizeof(RG_POD_OVER)] = "";
    int r = read_line(take_fd, line, sizeof(line), 0);
    bool alone = w->watched_fd < 0 && w->pod->wait_ms;

    w->begin_ns = rg_now_ns();
    if (r < 0 || strcmp(line, RG_POD_GO) != 0) {
        close(take_fd);
        if (alone && r == 0)
            return fail_over("", err);
        w->lost = alone;
        if (alone && (!w->limit_ms || w->limit_ms > LOST_S * 1000))
            w->limit_ms = LOST_S * 1000;
        rg_sleep_ms(AGAIN_MS);
        return 0;
    }
    if (w->watched_fd >= 0)
        close(w->watched_fd);
    w->watched_fd = take_fd;
    w->limit_ms = 0;
    w->lost = false;
    return 0;
}

/* --- job after job ---------------------------------------------------------------------------- */

static void pause_after(struct waiting *w, bool in_vain)
{
    if (in_vain && !w->pause_ms && !w->pod->planned)
        rg_say("the head at %s has a job for others: %s is not one of its hosts, or has come too "
               "late; it calls again", w->pod->address, w->pod->itself);
    w->pause_ms = !in_vain ? 0 : !w->pause_ms ? AGAIN_MS
                  : w->pause_ms < AGAIN_MAX_MS ? 2 * w->pause_ms : w->pause_ms;
    if (!stopped)
        rg_sleep_ms(w->pause_ms ? w->pause_ms : AGAIN_MS);
    if (!in_vain || w->pod->planned)
        w->begin_ns = rg_now_ns(); /* a head has answered */
}

/* Whether a pod with a plan has no part in what comes next, by what its agent has ended with. */
static bool is_over(const struct waiting *w)
{
    bool again = w->code == RG_EXIT_PREEMPTED || w->code == RG_EXIT_HOST_LOST;

    return w->code != RG_AGENT_UNSTARTED && !(again && (w->pod->backoff_ms || w->elastic));
}

/* As call_once. */
static int do_job(struct waiting *w, int fd, char *line, struct rg_error *err)
{
    const struct rg_pod *pod = w->pod;

    /* A head that has taken a lost one's place does not know what was lost before. */
    if (pod->planned && pod->backoff_ms && !w->elastic && w->nstarts > RG_POD_RESTARTS) {
        close(fd);
        return rg_pod_give_up(w->nstarts, err);
    }
    if (pod->planned)
        rg_pod_leave_words(pod, RG_EXIT_PREEMPTED, false, w->words);
    w->code = serve_once(w, fd, line);
    w->lost = false;
    if (pod->planned && is_over(w))
        return 1;
    w->nstarts += w->code != RG_AGENT_UNSTARTED;
    w->limit_ms = w->start_ms && pod->backoff_ms ? w->start_ms + pod->backoff_ms(w->nstarts)
                                                 : w->start_ms;
    pause_after(w, w->code == RG_AGENT_UNSTARTED);
    return 0;
}

/* 0: nothing is over; 1: the head's task is, or that of a pod with a plan; -errno. */
static int call_once(struct waiting *w, struct rg_error *err)
{
    char line[ORDER_MAX] = "";
    int r = w->pod->key(w->key, err);

    if (r == 0)
        r = rg_pod_call(w->pod, w->key, w->begin_ns, w->limit_ms, w->watched_fd, err);
    if (r == -EINTR)
        return 1;
    if (r == -ETIMEDOUT && w->lost)
        return fail_over(", and no other one has begun", err);
    if (r < 0)
        return r;
    int fd = r;
    if (read_line(fd, line, sizeof(line), ORDER_LIMIT_S) < 0) {
        close(fd);
        pause_after(w, true);
    } else if (strcmp(line, RG_POD_WAIT) == 0) {
        return hear_wait(w, fd, err);
    } else {
        return do_job(w, fd, line, err);
    }
    return 0;
}

static int call_on(struct waiting *w, struct rg_error *err)
{
    const struct rg_pod *pod = w->pod;
    int r = pod->key(w->key, err);

    if (r < 0)
        return r;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    rg_proctree_descendants(getpid(), &w->before, &w->nbefore);
    if (pod->ready)
        close(open(pod->ready, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    w->begin_ns = rg_now_ns();
    while (r == 0 && !stopped)
        r = call_once(w, err);
    explicit_bzero(w->key, sizeof(w->key));
    free(w->before);
    return stopped ? RG_EXIT_PREEMPTED : r;
}

int rg_pod_wait(const struct rg_pod *pod, struct rg_error *err)
{
    struct waiting w = { .pod = pod, .watched_fd = -1, .limit_ms = pod->wait_ms };
    int r = call_on(&w, err);

    return r == 1 ? RG_EXIT_OK : r;
}

int rg_pod_work(const struct rg_pod *pod, const struct rg_planned *planned, struct rg_error *err)
{
    uint64_t ms = planned->job.start_timeout_ms;
    struct waiting w = { .pod = pod, .watched_fd = -1, .limit_ms = ms, .start_ms = ms,
                         .elastic = planned->job.elastic.on };

    snprintf(w.words, sizeof(w.words), "the job has not ended well, or its head is lost: %s tells",
             pod->head);
    int r = call_on(&w, err);
    if (r != 1)
        return r;
    if (w.code == RG_EXIT_OK)
        rg_pod_leave_words(pod, RG_EXIT_OK, false, "");
    return w.code && !pod->ends_alike ? RG_EXIT_PREEMPTED : w.code;
}
