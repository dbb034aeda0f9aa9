/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that can stand in for ssh between simulated hosts of one machine: what `reigen rsh`
 * costs is measured against it (bench/engines.py). Both ends share a file system, so that a unix
 * socket leads from one host's name spaces to the other's, and the client's own descriptors 0, 1
 * and 2 travel over it: not one byte of input or output passes through this program.
 *
 *   barersh serve FOLDER NAME     run commands for host NAME until killed
 *   barersh [options of ssh] HOST COMMAND...     the client; BARERSH_DIR names the folder
 *
 * It authenticates nobody and reports nothing: it is no tool for anything but measuring.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_MAX (128 << 10)
#define LOST 255

static int open_socket(const char *folder, const char *name, struct sockaddr_un *addr)
{
    *addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(addr->sun_path, sizeof addr->sun_path, "%s/%s", folder, name);
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

union control {
    char bytes[CMSG_SPACE(3 * sizeof(int))];
    struct cmsghdr align;
};

/* --- the host's side -------------------------------------------------------------------------- */

static ssize_t receive(int fd, char *command, int stdio[3])
{
    union control control;
    struct iovec data = { command, COMMAND_MAX - 1 };
    struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes };
    ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);

    if (n <= 0 || !CMSG_FIRSTHDR(&msg))
        return -1;
    memcpy(stdio, CMSG_DATA(CMSG_FIRSTHDR(&msg)), 3 * sizeof(int));
    command[n] = '\0';
    return n;
}

static _Noreturn void run_command(const char *command, const int stdio[3])
{
    const char *home = getenv("HOME");

    setsid();
    for (int i = 0; i < 3; i++)
        dup2(stdio[i], i);
    if (home && chdir(home) < 0)
        _exit(LOST);
    execl("/bin/sh", "sh", "-c", command, (char *) NULL);
    _exit(127);
}

/* One process per command: it waits for the command's end, or the client's, which hangs it up. */
static _Noreturn void serve_one(int fd)
{
    static char command[COMMAND_MAX];
    int stdio[3], status = 0;

    signal(SIGCHLD, SIG_DFL);
    if (receive(fd, command, stdio) < 0)
        _exit(1);
    pid_t pid = fork();
    if (pid == 0)
        run_command(command, stdio);
    for (int i = 0; i < 3; i++)
        close(stdio[i]);
    struct pollfd fds[2] = { { (int) syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 },
                             { fd, POLLIN | POLLRDHUP, 0 } };
    while (poll(fds, 2, -1) >= 0 && !fds[0].revents) {
        if (fds[1].revents)
            kill(-pid, SIGHUP);
        fds[1].fd = -1;
    }
    waitpid(pid, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    _exit(send(fd, &status, sizeof status, MSG_NOSIGNAL) < 0);
}

static int serve(const char *folder, const char *name)
{
    struct sockaddr_un addr;
    int listener = open_socket(folder, name, &addr);

    unlink(addr.sun_path);
    if (bind(listener, (struct sockaddr *) &addr, sizeof addr) < 0 || listen(listener, 256) < 0) {
        perror(addr.sun_path);
        return 1;
    }
    chmod(addr.sun_path, 0777);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fork() == 0)
            serve_one(fd);
        if (fd >= 0)
            close(fd);
    }
}

/* --- the client ------------------------------------------------------------------------------- */

static int skip_options(int argc, char **argv)
{
    int i = 1;

    while (i < argc && argv[i][0] == '-') {
        int takes_value = argv[i][1] && strchr("bcDEeFIiJLlmOopQRSWw", argv[i][1]) && !argv[i][2];
        i += 1 + takes_value;
    }
    return i;
}

static int call(const char *folder, const char *host, int count, char **words)
{
    static char command[COMMAND_MAX];
    struct sockaddr_un addr;
    const char *at = strchr(host, '@');
    int fd = open_socket(folder, at ? at + 1 : host, &addr);
    int stdio[3] = { 0, 1, 2 }, status = LOST;
    size_t used = 0;

    for (int i = 0; i < count && used < sizeof command; i++)
        used += (size_t) snprintf(command + used, sizeof command - used, "%s%s", i ? " " : "",
                                  words[i]);
    if (used >= sizeof command || connect(fd, (struct sockaddr *) &addr, sizeof addr) < 0) {
        fprintf(stderr, "barersh: %s cannot be reached\n", host);
        return LOST;
    }
    union control control = { .bytes = { 0 } };
    struct iovec data = { command, used };
    struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes };
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    *header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof stdio), .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(header), stdio, sizeof stdio);
    if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 || recv(fd, &status, sizeof status, 0) <= 0)
        return LOST;
    return status;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("BARERSH_DIR");

    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], argv[3]);
    int i = skip_options(argc, argv);
    if (i >= argc || !folder) {
        fprintf(stderr, "usage: BARERSH_DIR=FOLDER barersh [options] HOST COMMAND...\n");
        return LOST;
    }
    return call(folder, argv[i], argc - i - 1, argv + i + 1);
}
