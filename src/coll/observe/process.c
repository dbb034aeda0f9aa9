/* SPDX-License-Identifier: Apache-2.0 */
/* Reading /proc/PID. */
#include "coll/observe/process.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static const char *state_name(char state)
{
    switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting for a device or file system";
    case 'T': return "stopped (SIGSTOP or Ctrl-Z)";
    case 't': return "stopped by a debugger";
    case 'Z': return "a zombie: it has died";
    default: return "in an unknown state";
    }
}

void rg_proc_state_read(pid_t pid, struct rg_proc_state *ret_process)
{
    char path[64];
    rg_autofree char *stat = NULL;
    rg_autofree char *wchan = NULL;
    const char *after;

    *ret_process = (struct rg_proc_state){ 'X', "gone", "" };
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    if (rg_read_file(path, 4096, &stat, NULL) < 0)
        return;
    after = strrchr(stat, ')');
    ret_process->state = after && after[1] ? after[2] : '?';
    ret_process->word = state_name(ret_process->state);
    snprintf(path, sizeof(path), "/proc/%d/wchan", (int) pid);
    if (rg_read_file(path, 256, &wchan, NULL) == 0 && wchan[0] && strcmp(wchan, "0") != 0)
        snprintf(ret_process->where, sizeof(ret_process->where), "%s", wchan);
}

/* What programs wait in; of_file: the first argument is a descriptor. */
static const struct call {
    long number;
    const char *name;
    bool of_file;
} calls[] = {
    { SYS_read, "read", true },
    { SYS_readv, "readv", true },
    { SYS_pread64, "pread", true },
    { SYS_write, "write", true },
    { SYS_writev, "writev", true },
    { SYS_pwrite64, "pwrite", true },
    { SYS_fsync, "fsync", true },
    { SYS_fdatasync, "fdatasync", true },
    { SYS_flock, "flock", true },
    { SYS_fcntl, "fcntl", true },
    { SYS_getdents64, "readdir", true },
    { SYS_ioctl, "ioctl", true },
    { SYS_recvfrom, "recv", true },
    { SYS_recvmsg, "recvmsg", true },
    { SYS_sendto, "send", true },
    { SYS_sendmsg, "sendmsg", true },
    { SYS_connect, "connect", true },
    { SYS_accept4, "accept", true },
    { SYS_accept, "accept", true },
    { SYS_openat, "open", false },
    { SYS_ppoll, "poll", false },
    { SYS_pselect6, "select", false },
#ifdef SYS_poll
    { SYS_poll, "poll", false },
    { SYS_select, "select", false },
    { SYS_epoll_wait, "epoll_wait", false },
    { SYS_pause, "pause", false },
#endif
    { SYS_epoll_pwait, "epoll_wait", false },
    { SYS_futex, "futex", false },
    { SYS_nanosleep, "nanosleep", false },
    { SYS_clock_nanosleep, "nanosleep", false },
    { SYS_wait4, "wait", false },
    { SYS_waitid, "wait", false },
    { SYS_rt_sigtimedwait, "sigwait", false },
    { SYS_rt_sigsuspend, "sigsuspend", false },
    { SYS_semtimedop, "semop", false },
    { SYS_msgrcv, "msgrcv", false },
    { SYS_munmap, "munmap", false },
    { SYS_mmap, "mmap", false },
};

static void put_call(const struct call *call, unsigned long argument, char *ret_text,
                     size_t nbytes)
{
    char path[64], file[256] = "";
    ssize_t n = -1;

    if (call->of_file) {
        snprintf(path, sizeof(path), "/proc/self/fd/%ld", (long) (int) argument);
        n = readlink(path, file, sizeof(file) - 1);
    }
    if (n > 0)
        file[n] = '\0';
    snprintf(ret_text, nbytes, "%s(%s)", call->name, file);
}

void rg_proc_call_read(pid_t thread, char *ret_text, size_t nbytes)
{
    char path[64];
    rg_autofree char *text = NULL;
    long number;
    unsigned long argument;

    ret_text[0] = '\0';
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int) thread);
    if (rg_read_file(path, 512, &text, NULL) < 0 ||
        sscanf(text, "%ld 0x%lx", &number, &argument) != 2 || number < 0)
        return;
    for (size_t i = 0; i < rg_array_len(calls); i++) {
        if (calls[i].number == number) {
            put_call(&calls[i], argument, ret_text, nbytes);
            return;
        }
    }
    snprintf(ret_text, nbytes, "system call %ld", number);
}

void rg_proc_name_read(pid_t thread, char ret_name[RG_PROC_NAME_MAX])
{
    char path[64];
    rg_autofree char *text = NULL;

    ret_name[0] = '\0';
    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int) thread);
    if (rg_read_file(path, 64, &text, NULL) == 0)
        snprintf(ret_name, RG_PROC_NAME_MAX, "%.*s", (int) strcspn(text, "\n"), text);
}
