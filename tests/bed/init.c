/* SPDX-License-Identifier: Apache-2.0 */
/* Process 1 of a simulated host.
 *
 * usage: init [-n] NAME STEP...      with -n the network stays the caller's
 *     tmpfs MODE DIR    mount an empty tmpfs on DIR (made if need be)
 *     bind FROM TO      FROM, as the caller sees it now, appears at TO as well
 *     etc LOWER         /etc becomes private and writable, with the files of LOWER over its own
 *     sys               a /sys that shows this host's network, with the caller's cgroups in it
 *     dev               a private /dev/pts, and devices that a desktop's udev opens for all
 *
 * Makes mount, uts, net, pid and ipc name spaces, takes the steps in them in the order given (every
 * FROM is opened before the first one), and prints "pid N", as the caller counts, and "ready". Then
 * it reads commands from standard input, answers each with "ok" or with "failed: ...", and reaps:
 *     net INTERFACE ADDRESS NETMASK     give an interface its address and bring it up
 * It ends when its standard input does, that is with the process that started it, however that one
 * ends, and the kernel ends with it every process of the host and all its mounts.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_STEPS 64

static void die(const char *what, const char *which)
{
    printf("failed: %s %s: %s\n", what, which, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static void make_folders(const char *path)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            mkdir(part, 0755);
            *p = '/';
        }
    }
    mkdir(part, 0755);
}

/* A place to mount FROM on: a file for a file, a folder for a folder. */
static void make_place(int from, const char *to)
{
    struct stat st;
    if (fstat(from, &st) || access(to, F_OK) == 0)
        return;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", to);
    if (!S_ISDIR(st.st_mode) && strrchr(folder, '/'))
        *strrchr(folder, '/') = '\0';
    make_folders(folder);
    if (!S_ISDIR(st.st_mode)) {
        int fd = open(to, O_CREAT | O_CLOEXEC | O_WRONLY, 0644);
        if (fd >= 0)
            close(fd);
    }
}

static int open_path(const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        die("open", path);
    return fd;
}

static void bind_fd(int from, const char *to)
{
    char source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", from);
    make_place(from, to);
    if (mount(source, to, NULL, MS_BIND | MS_REC, NULL))
        die("bind to", to);
    close(from);
}

static void mount_tmpfs(const char *mode, const char *dir)
{
    char option[32];
    snprintf(option, sizeof option, "mode=%s", mode);
    make_folders(dir);
    if (mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, option))
        die("tmpfs on", dir);
}

/* Needs /run to be private already: what is written to /etc lies there. */
static void mount_etc(const char *lower)
{
    char options[4096];
    mkdir("/run/.bed", 0700);
    mkdir("/run/.bed/etc", 0755);
    mkdir("/run/.bed/work", 0755);
    snprintf(options, sizeof options, "lowerdir=%s:/etc,upperdir=/run/.bed/etc,"
             "workdir=/run/.bed/work", lower);
    if (mount("overlay", "/etc", "overlay", 0, options))
        die("overlay on /etc with", options);
}

static void mount_sys(void)
{
    int cgroups = open("/sys/fs/cgroup", O_PATH | O_CLOEXEC);
    if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        die("sysfs on", "/sys");
    if (cgroups >= 0)
        bind_fd(cgroups, "/sys/fs/cgroup");
    /* Beside version 1 it serves systemd only; crun refuses a mixture that has controllers. */
    umount2("/sys/fs/cgroup/unified", MNT_DETACH);
}

/* A device of the machine's with access for all; without effect where the machine lacks it. */
static void open_device(const char *path, const char *name)
{
    char own[64];
    struct stat st;
    snprintf(own, sizeof own, "/run/.bed/dev/%s", name);
    if (stat(path, &st) || !S_ISCHR(st.st_mode) || mknod(own, S_IFCHR | 0666, st.st_rdev))
        return;
    chmod(own, 0666);
    bind_fd(open_path(own), path);
}

static void mount_dev(void)
{
    if (mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"))
        die("devpts on", "/dev/pts");
    make_folders("/run/.bed/dev");
    if (mount("tmpfs", "/run/.bed/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755"))
        die("tmpfs on", "/run/.bed/dev");
    open_device("/dev/fuse", "fuse");
    open_device("/dev/net/tun", "tun");
}

static void take_steps(char **argv)
{
    int fds[MAX_STEPS];
    int count = 0;
    for (char **a = argv; *a; a++) {
        if (strcmp(*a, "bind") == 0 && count < MAX_STEPS)
            fds[count++] = open_path(a[1]);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        die("make private", "/");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        die("proc on", "/proc");
    count = 0;
    for (char **a = argv; *a; a++) {
        if (strcmp(*a, "tmpfs") == 0) {
            mount_tmpfs(a[1], a[2]);
            a += 2;
        } else if (strcmp(*a, "bind") == 0) {
            bind_fd(fds[count++], a[2]);
            a += 2;
        } else if (strcmp(*a, "etc") == 0) {
            mount_etc(*++a);
        } else if (strcmp(*a, "sys") == 0) {
            mount_sys();
        } else if (strcmp(*a, "dev") == 0) {
            mount_dev();
        } else {
            errno = EINVAL;
            die("step", *a);
        }
    }
}

static int set_address(int fd, struct ifreq *ifr, unsigned long request, const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, text, &in.sin_addr) != 1)
        return -1;
    memcpy(&ifr->ifr_addr, &in, sizeof in);
    return ioctl(fd, request, ifr);
}

/* `address` may be NULL: then the interface is only brought up. */
static int bring_up(const char *interface, const char *address, const char *netmask)
{
    struct ifreq ifr = {0};
    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", interface);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -1 : 0;
    if (rc == 0 && address)
        rc = set_address(fd, &ifr, SIOCSIFADDR, address);
    if (rc == 0 && address)
        rc = set_address(fd, &ifr, SIOCSIFNETMASK, netmask);
    if (rc == 0)
        rc = ioctl(fd, SIOCGIFFLAGS, &ifr);
    ifr.ifr_flags |= IFF_UP;
    if (rc == 0)
        rc = ioctl(fd, SIOCSIFFLAGS, &ifr);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* False at the end of the input. */
static int obey(void)
{
    char line[256], interface[32], address[32], netmask[32];
    ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    line[n] = '\0';
    if (sscanf(line, "net %31s %31s %31s", interface, address, netmask) == 3 &&
        bring_up(interface, address, netmask) == 0)
        printf("ok\n");
    else
        printf("failed: %s: %s\n", line, strerror(errno));
    fflush(stdout);
    return 1;
}

/* `name` is NULL where host name and network are the caller's. */
static void be_process_1(const char *name, char **steps)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    take_steps(steps);
    /* As on every real host; Podman without root warns where it is not so. */
    mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL);
    if (name && (sethostname(name, strlen(name)) || bring_up("lo", NULL, NULL)))
        die("set up", name);
    if (chdir("/"))
        die("enter", "/");
    printf("ready\n");
    fflush(stdout);
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                             .events = POLLIN}};
    for (;;) {
        struct signalfd_siginfo info;
        if (poll(fds, 2, -1) < 0)
            continue;
        while (read(fds[1].fd, &info, sizeof info) > 0)
            ;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (fds[0].revents && !obey())
            _exit(0);
    }
}

int main(int argc, char **argv)
{
    int own_net = argc < 2 || strcmp(argv[1], "-n") != 0;
    argv += !own_net;
    argc -= !own_net;
    if (argc < 2) {
        fprintf(stderr, "usage: init [-n] NAME STEP...\n");
        return 2;
    }
    umask(022);
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
                (own_net ? CLONE_NEWUTS | CLONE_NEWNET : 0)))
        die("unshare for", argv[1]);
    pid_t pid = fork();
    if (pid < 0)
        die("fork for", argv[1]);
    if (pid == 0)
        be_process_1(own_net ? argv[1] : NULL, argv + 2);
    printf("pid %d\n", (int)pid);
    fflush(stdout);
    /* Only the child may hold the input, or the child's own death would not be told by it. */
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}
