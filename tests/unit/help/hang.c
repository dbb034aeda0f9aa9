/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread is asked by a signal, whose handler notes its calls in memory that all processes of a
 * test share. The handler does not return: else a wait that the signal interrupts could end, and
 * the test would go on as if nothing had been. All are forked from one program, so that the one who
 * asks can name the functions. A thread that blocks all signals, such as the runtime's own, is
 * described by what /proc knows.
 */
#include "help/hang.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

/* The handler's own frame and the kernel's stand before those of who was interrupted. */
enum { CHILDREN_MAX = 64, FRAMES_MAX = 24, OWN_FRAMES = 2, THREADS_MAX = 64, LINE_MAX_ = 512 };
#define ANSWER_MS 2000 /* a busy machine gives a thread some milliseconds in that time */

struct answer {
    _Atomic int tid; /* last: then the rest is there */
    int nframes;
    void *frames[FRAMES_MAX];
};

static struct answers {
    _Atomic int ntaken;
    struct answer list[THREADS_MAX];
} *answers;

static int ask_signal(void)
{
    return SIGRTMIN + 7;
}

static void note_calls(int number)
{
    int i = atomic_fetch_add(&answers->ntaken, 1);

    (void) number;
    if (i < THREADS_MAX) {
        answers->list[i].nframes = backtrace(answers->list[i].frames, FRAMES_MAX);
        atomic_store(&answers->list[i].tid, (int) syscall(SYS_gettid));
    }
    for (;;)
        pause();
}

void hang_listen(void)
{
    struct sigaction action = { .sa_handler = note_calls };
    void *frames[2];

    if (answers)
        return;
    backtrace(frames, 2); /* the first call loads a library, which no handler should */
    answers = mmap(NULL, sizeof(*answers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    if (answers == MAP_FAILED)
        abort();
    sigaction(ask_signal(), &action, NULL);
}

/* ------------------------------------------------------------ what is known of a thread */

/* The rest of the line that begins with `name` in a file of the thread's; "?" where none does. */
static const char *field(pid_t pid, int tid, const char *file, const char *name,
                         char line[LINE_MAX_])
{
    char path[96];
    const char *found = NULL;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int) pid, tid, file);
    FILE *in = fopen(path, "re");

    while (in && !found && fgets(line, LINE_MAX_, in))
        if (strncmp(line, name, strlen(name)) == 0)
            found = line + strlen(name);
    if (in)
        fclose(in);
    line[strcspn(line, "\n")] = '\0';
    return found ? found : "?";
}

static bool blocks_us(pid_t pid, int tid)
{
    char line[LINE_MAX_];
    uint64_t blocked = strtoull(field(pid, tid, "status", "SigBlk:", line), NULL, 16);

    return blocked >> (ask_signal() - 1) & 1;
}

/* Ask one thread; NULL where it does not answer. */
static const struct answer *ask(pid_t pid, int tid)
{
    uint64_t end_ns = rg_now_ns() + ANSWER_MS * RG_NS_PER_MS;

    if (!answers || blocks_us(pid, tid) || syscall(SYS_tgkill, pid, tid, ask_signal()) != 0)
        return NULL;
    while (rg_now_ns() < end_ns) {
        for (int i = 0; i < THREADS_MAX; i++)
            if (atomic_load(&answers->list[i].tid) == tid)
                return &answers->list[i];
        rg_sleep_ms(1); /* patient: no wait of a test */
    }
    return NULL;
}

static const int program[] = { 0 }; /* something that lies in it */

/* "name (file.c:12)" of an address in this program, by addr2line; else what the linker knows. */
static void print_call(const void *address)
{
    char command[160], function[LINE_MAX_] = "", place[LINE_MAX_] = "";
    Dl_info info = { 0 }, own = { 0 };

    if (!dladdr(address, &info) || !info.dli_fname || !dladdr(program, &own))
        return;
    if (info.dli_fbase != own.dli_fbase) {
        fprintf(stderr, " < %s", info.dli_sname ? info.dli_sname : info.dli_fname);
        return;
    }
    uintptr_t offset = (uintptr_t) address - (uintptr_t) info.dli_fbase - 1;

    snprintf(command, sizeof(command), "addr2line -f -s -e /proc/%d/exe %#lx 2>/dev/null",
             (int) getpid(), (unsigned long) offset);
    FILE *in = popen(command, "re");

    if (in && fscanf(in, "%511s %511s", function, place) == 2 && function[0] != '?')
        fprintf(stderr, " < %s (%s)", function, place);
    else
        fprintf(stderr, " < %p", address);
    if (in)
        pclose(in);
}

static void report_thread(pid_t pid, int tid)
{
    char line[LINE_MAX_];

    fprintf(stderr, "    thread %d %s", tid, field(pid, tid, "comm", "", line));
    fprintf(stderr, ", %s", field(pid, tid, "status", "State:\t", line));
    fprintf(stderr, ", in the kernel at %s", field(pid, tid, "wchan", "", line));
    fprintf(stderr, ", system call %s\n       ", field(pid, tid, "syscall", "", line));
    const struct answer *answer = ask(pid, tid);

    if (!answer)
        fprintf(stderr, " (does not say in which functions)");
    for (int i = OWN_FRAMES; answer && i < answer->nframes; i++)
        print_call(answer->frames[i]);
    fprintf(stderr, "\n");
}

static void report_process(pid_t pid)
{
    char path[64];
    int nthreads = 0, own = (int) syscall(SYS_gettid);

    snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
    DIR *dir = opendir(path);

    memset(answers, 0, sizeof(*answers));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int tid = atoi(entry->d_name);

        if (tid > 0 && tid != own && nthreads++ < THREADS_MAX / 2)
            report_thread(pid, tid);
    }
    if (dir)
        closedir(dir);
    if (nthreads > THREADS_MAX / 2)
        fprintf(stderr, "    and %d more threads\n", nthreads - THREADS_MAX / 2);
}

/* ------------------------------------------------------------ processes */

/* Whether the child ended before end_ns; else it still runs. */
static bool ended(pid_t pid, uint64_t end_ns, int *ret_status)
{
    struct pollfd child = { .fd = (int) syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
    uint64_t now_ns = rg_now_ns();
    int r;

    *ret_status = HANG_STATUS << 8; /* of one that could not be forked */
    do {
        int left_ms = now_ns < end_ns ? (int) ((end_ns - now_ns) / RG_NS_PER_MS) + 1 : 0;

        r = child.fd < 0 ? 1 : poll(&child, 1, left_ms);
        now_ns = rg_now_ns();
    } while (r < 0 && errno == EINTR);
    if (child.fd >= 0)
        close(child.fd);
    while (r > 0 && pid > 0 && waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return r > 0;
}

bool hang_wait(const pid_t *pids, int n, unsigned limit_s, const char *who, int *ret_status)
{
    uint64_t end_ns = rg_now_ns() + limit_s * RG_NS_PER_S;
    bool gone[CHILDREN_MAX] = { false }, hang = false;

    for (int i = 0; i < n; i++) {
        gone[i] = ended(pids[i], end_ns, &ret_status[i]);
        hang |= !gone[i];
    }
    for (int i = 0; i < n && hang; i++) {
        if (gone[i])
            continue;
        fprintf(stderr, "%s %d (pid %d) has not ended within %u s, and is killed:\n", who, i,
                (int) pids[i], limit_s);
        report_process(pids[i]);
    }
    for (int i = 0; i < n; i++) {
        if (gone[i])
            continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
        ret_status[i] = SIGKILL; /* even where it has just ended otherwise */
    }
    return !hang;
}

/* ------------------------------------------------------------ threads */

static struct watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *what;
    unsigned limit_s;
    bool over;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *watch_over(void *arg)
{
    struct timespec end;
    int r = 0;

    (void) arg;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += watch.limit_s;
    pthread_mutex_lock(&watch.lock);
    while (!watch.over && r != ETIMEDOUT)
        r = pthread_cond_timedwait(&watch.changed, &watch.lock, &end);
    if (!watch.over) {
        fprintf(stderr, "%s: not over within %u s; what its threads do:\n", watch.what,
                watch.limit_s);
        report_process(getpid());
        _exit(HANG_STATUS);
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

void hang_begin(unsigned limit_s, const char *what)
{
    pthread_condattr_t attr;
    sigset_t all, before;

    hang_listen();
    watch.what = what;
    watch.limit_s = limit_s;
    watch.over = false;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.changed, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&watch.thread, NULL, watch_over, NULL) != 0)
        abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void hang_end(void)
{
    pthread_mutex_lock(&watch.lock);
    watch.over = true;
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.changed);
}
