/* SPDX-License-Identifier: Apache-2.0 */
/* Having a stack written down, and finding the line in it. */
#include "coll/observe/stacks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BELOW_MAX 4 /* the highest signals are what others choose first */
#define STACK_NBYTES (256 * 1024)
#define TEXT_NBYTES (256 * 1024)
#define CHILD_S 1 /* for the process that reads */

static struct {
    pthread_mutex_t lock;
    int fd;
    dev_t device;          /* of the file behind fd, which a program may close unasked */
    ino_t file;
    int signum;            /* 0: nothing is registered */
    void (*write)(int signum);
    void (*was)(int signum); /* the last one: may be registered anew */
    char *own, *others;
} stacks = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* Of the process that reads. */
static _Alignas(64) char child_stack[STACK_NBYTES];

static void (*handler_of(int signum))(int)
{
    struct sigaction action;

    return sigaction(signum, NULL, &action) < 0 ? SIG_ERR : action.sa_handler;
}

/* It does nothing, or what was registered here before does it. */
static bool is_free(int signum)
{
    void (*handler)(int) = handler_of(signum);

    return handler == SIG_DFL || (stacks.was && handler == stacks.was);
}

static int find_signal(void)
{
    for (int signum = SIGRTMAX - BELOW_MAX; signum >= SIGRTMIN; signum--)
        if (is_free(signum))
            return signum;
    return -EBUSY;
}

static bool has_file(void)
{
    struct stat about;

    return stacks.fd >= 0 && fstat(stacks.fd, &about) == 0 && about.st_dev == stacks.device &&
           about.st_ino == stacks.file;
}

static int make_file(void)
{
    struct stat about;
    int fd = (int) syscall(SYS_memfd_create, "reigen-stacks", MFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &about) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    stacks.fd = fd;
    stacks.device = about.st_dev;
    stacks.file = about.st_ino;
    return fd;
}

int rg_stacks_file(int *signum)
{
    int r, chosen;

    pthread_mutex_lock(&stacks.lock);
    chosen = *signum ? *signum : find_signal();
    if (chosen < 0 || !is_free(chosen))
        r = -EBUSY;
    else
        r = has_file() ? stacks.fd : make_file();
    pthread_mutex_unlock(&stacks.lock);
    if (r >= 0)
        *signum = chosen;
    return r;
}

int rg_stacks_use(int signum, const char *own, const char *others)
{
    void (*handler)(int) = signum ? handler_of(signum) : NULL;
    rg_autofree char *new_own = signum ? strdup(own) : NULL;
    rg_autofree char *new_others = signum ? strdup(others) : NULL;

    if (signum && (handler == SIG_DFL || handler == SIG_IGN || handler == SIG_ERR))
        return -EINVAL;
    if (signum && (!new_own || !new_others))
        return -ENOMEM;
    pthread_mutex_lock(&stacks.lock);
    stacks.signum = signum;
    stacks.write = handler;
    stacks.was = signum ? handler : stacks.was;
    free(stacks.own);
    free(stacks.others);
    stacks.own = rg_steal_ptr(&new_own);
    stacks.others = rg_steal_ptr(&new_others);
    pthread_mutex_unlock(&stacks.lock);
    return 0;
}

void rg_stacks_after_fork(void)
{
    pthread_mutex_init(&stacks.lock, NULL);
    if (has_file())
        close(stacks.fd);
    stacks.fd = -1;
    stacks.signum = 0;
}

/* ---- writing it down */

static void give_up(int signum)
{
    (void) signum;
    _exit(1);
}

/* In the process that reads. It ends by what it may die of without a core dump. */
static int write_down(void *arg)
{
    static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM };
    struct sigaction action = { .sa_handler = give_up };
    struct itimerval limit = { .it_value = { CHILD_S, 0 } };
    sigset_t set;

    (void) arg;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        sigaction(fatal[i], &action, NULL);
        sigaddset(&set, fatal[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &limit, NULL);
    stacks.write(stacks.signum);
    _exit(0);
}

/* The process that writes has a copy of the memory: what faulthandler keeps of a call that did not
 * come to its end, and whatever handles signals there, is not this process's. It tells nobody of
 * its end: the program may wait for children of its own. This thread stands still meanwhile, as in
 * vfork. Under the lock. */
static bool have_it_written(void)
{
    int flags = CLONE_VFORK | CLONE_FILES;
    int status = 0;
    pid_t pid;

    if (!has_file() || ftruncate(stacks.fd, 0) < 0 || lseek(stacks.fd, 0, SEEK_SET) < 0)
        return false;
    pid = clone(write_down, child_stack + STACK_NBYTES, flags, NULL);
    if (pid < 0)
        return false;
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    return true; /* what it wrote before an early end counts, too */
}

bool rg_stacks_place(pthread_t thread, char *ret_text, size_t nbytes)
{
    char *text = malloc(TEXT_NBYTES);
    ssize_t n = 0;
    bool is_main = true;

    ret_text[0] = '\0';
    pthread_mutex_lock(&stacks.lock);
    /* The program may have taken the signal for itself. */
    if (text && stacks.signum && handler_of(stacks.signum) == stacks.write && have_it_written())
        n = pread(stacks.fd, text, TEXT_NBYTES - 1, 0);
    if (n > 0) {
        text[n] = '\0';
        is_main = rg_stacks_parse(text, (unsigned long) thread, stacks.own, stacks.others,
                                  ret_text, nbytes);
    }
    pthread_mutex_unlock(&stacks.lock);
    free(text);
    return is_main;
}

/* ---- finding the line */

struct frame {
    const char *file, *function;
    long line;
};

static bool is_in(const char *file, const char *dirs)
{
    while (*dirs) {
        size_t length = strcspn(dirs, ":");

        if (length && strncmp(file, dirs, length) == 0 && file[length] == '/')
            return true;
        dirs += length + (dirs[length] == ':');
    }
    return file[0] == '<'; /* <frozen importlib._bootstrap> */
}

/* `  File "train.py", line 41 in load_batch`, which is cut up. */
static bool take_frame(char *text, struct frame *ret_frame)
{
    static const char head[] = "  File \"", middle[] = "\", line ";
    char *at, *end;

    if (strncmp(text, head, strlen(head)) != 0)
        return false;
    text += strlen(head);
    at = strstr(text, middle);
    for (char *next = at; next; next = strstr(next + 1, middle))
        at = next;
    if (!at)
        return false;
    *at = '\0';
    ret_frame->file = text;
    ret_frame->line = strtol(at + strlen(middle), &end, 10);
    ret_frame->function = strncmp(end, " in ", 4) == 0 ? end + 4 : "?";
    return true;
}

/* A stack that is being read: the first line that is the user's, and what it calls. */
struct found {
    struct frame top, user;
    bool has_top, has_user, through_own;
};

static void note_frame(struct found *found, const struct frame *frame, const char *own,
                       const char *others)
{
    if (found->has_user)
        return;
    if (is_in(frame->file, own) && frame->file[0] != '<') {
        found->through_own = true;
        return;
    }
    if (!found->has_top)
        found->top = *frame;
    found->has_top = true;
    if (is_in(frame->file, others))
        return;
    found->user = *frame;
    found->has_user = true;
}

static void print_found(const struct found *found, bool is_main, char *ret_text, size_t nbytes)
{
    const char *thread = is_main ? "" : " (not the main thread)";
    const struct frame *user = found->has_user ? &found->user : &found->top;
    bool calls = found->has_user && !found->through_own && found->top.file != found->user.file;
    int n;

    if (!found->has_top)
        return;
    n = snprintf(ret_text, nbytes, "%s:%ld in %s%s", user->file, user->line, user->function,
                 thread);
    if (calls && n > 0 && (size_t) n < nbytes)
        snprintf(ret_text + n, nbytes - (size_t) n, ", which calls %s:%ld in %s", found->top.file,
                 found->top.line, found->top.function);
}

static bool take_thread(const char *line, unsigned long *ret_ident)
{
    const char *at = strncmp(line, "Current thread ", 15) == 0 ? line + 15
                     : strncmp(line, "Thread ", 7) == 0       ? line + 7
                                                               : NULL;

    return at && sscanf(at, "0x%lx", ret_ident) == 1;
}

bool rg_stacks_parse(char *text, unsigned long ident, const char *own, const char *others,
                     char *ret_text, size_t nbytes)
{
    struct found now = { .has_top = false }, wanted = now, last = now;
    unsigned long thread = 0, main_thread = 0;
    bool is_main, whole = true;
    char *rest = NULL;

    ret_text[0] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct frame frame;

        if (strcmp(line, "...") == 0) /* there are more threads than it tells of */
            whole = false;
        else if (take_thread(line, &thread))
            now = (struct found){ .has_top = false };
        else if (take_frame(line, &frame))
            note_frame(&now, &frame, own, others);
        if (now.has_top && thread == ident)
            wanted = now;
        if (now.has_top && whole) {
            last = now; /* the main thread is the last one */
            main_thread = thread;
        }
    }
    if (!whole)
        last = (struct found){ .has_top = false };
    is_main = !wanted.has_top || (whole && ident == main_thread);
    print_found(is_main ? &last : &wanted, is_main, ret_text, nbytes);
    return is_main;
}
