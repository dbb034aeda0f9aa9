/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen-agent: one small static program for all that runs beside the ranks. The first argument
 * says what it is to be.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/ranks/agent.h"
#include "agent/ranks/packages.h"
#include "agent/look/doctor.h"
#include "agent/contain/contain.h"
#include "base/say.h"
#include "agent/pod/pod.h"
#include "agent/start/guard.h"
#include "agent/start/install.h"
#include "agent/rsh/rsh.h"
#include "agent/sync/sync.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "head/ask.h"
#include "head/console/command.h"
#include "head/console/terminal.h"
#include "head/head.h"
#include "agent/wait/wait.h"
#include "platform/drivers.h"
#include "platform/kubernetes/inside/pods.h"

#define NAME "rg-agent" /* as pkill knows us: guard.h */
#define LINK_FD 3 /* where a link over standard input and output goes */
#define LINK_WRITE_FD 4
#define INSIDE_FD 5 /* what an agent in a container keeps, see contain.h */

/* The user's directory, as on the launcher's computer; else where we are: the login directory, or
 * with Slurm, which has tried the same, /tmp. */
static void go_to(const char *cwd)
{
    char here[PATH_MAX];

    if (*cwd && chdir(cwd) == 0)
        setenv("PWD", cwd, 1);
    else if (*cwd)
        dprintf(1, "reigen-boot note there is no directory %s (%s): ranks run in %s; go to one "
                   "that all hosts have, or give --sync, which sends it\n",
                cwd, strerror(errno), getcwd(here, sizeof(here)) ? here : "another one");
}

/* The link is on 0 and 1: announce it, and take it out of the ranks' way. */
static int move_stdio(struct rg_agent_lines *boot, struct rg_error *err)
{
    static const char line[] = "reigen-boot link\n";
    int r = boot->silent ? 0 : rg_write_all(1, line, sizeof(line) - 1);

    if (r == 0 && (dup3(0, LINK_FD, O_CLOEXEC) < 0 || dup3(1, LINK_WRITE_FD, O_CLOEXEC) < 0))
        r = -errno;
    if (r < 0)
        return rg_error_set(err, -r, "the link over standard input and output: %s", strerror(-r));
    boot->link_fd = LINK_FD;
    boot->link_write_fd = LINK_WRITE_FD;
    return 0;
}

/* Standard output is not the link: it says what went wrong. */
static int dial(struct rg_agent_lines *boot)
{
    struct rg_error err = RG_ERROR_INIT;
    int fd = rg_agent_dial(boot->dial, boot->place, boot->key, &err);

    if (fd < 0) {
        dprintf(1, "reigen-boot error %d %s\n", RG_EXIT_UNAVAILABLE, err.text);
        return RG_EXIT_UNAVAILABLE;
    }
    boot->link_fd = boot->link_write_fd = LINK_FD;
    if (fd != LINK_FD) {
        dup3(fd, LINK_FD, O_CLOEXEC);
        close(fd);
    }
    return 0;
}

/* The agent's lines are on boot_fd; descriptors up to last stay open. argv: main's. */
static int run_agent(char **argv, int boot_fd, int last)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_agent_lines boot;

    if (rg_agent_lines_read(boot_fd, &boot, &err) < 0) {
        rg_log(RG_LOG_ERROR, "%s", err.text);
        return RG_EXIT_USAGE;
    }
    boot.keeper_fd = boot_fd > 0 ? boot_fd : -1;
    /* With the first process of a pid name space the kernel ends all others. */
    int guarded = boot.guard && getpid() != 1 ? rg_guard_enter(boot.guard, argv, &boot,
                                                               sizeof(boot), &boot.guard_pid) : 0;
    if (guarded < 0) {
        rg_log(RG_LOG_ERROR, "the agent cannot start: %s", strerror(-guarded));
        return RG_EXIT_INTERNAL;
    }
    go_to(boot.cwd);
    int code = *boot.dial ? dial(&boot) : 0;
    if (code)
        return code;
    int last_of_link = boot.link_fd;
    if (boot.link_fd == 0) {
        if (move_stdio(&boot, &err) < 0) {
            rg_log(RG_LOG_ERROR, "%s", err.text);
            return RG_EXIT_INTERNAL;
        }
        last_of_link = LINK_WRITE_FD;
    }
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0) {
        dup2(null_fd, 0);
        dup2(null_fd, 1);
    }
    /* Descriptors that came by accident must not reach the ranks. */
    rg_fd_close_above(last > last_of_link ? last : last_of_link);
    fcntl(boot.link_fd, F_SETFD, FD_CLOEXEC);
    int announced = *boot.announce ? rg_agent_announce(boot.announce) : 0;
    if (announced < 0)
        rg_log(RG_LOG_WARN, "the socket @%s: %s", boot.announce, strerror(-announced));
    return rg_agent_run(&boot);
}

static int command_agent(char **argv)
{
    return run_agent(argv, 0, 0);
}

static int command_inside(char **argv)
{
    struct rg_error err = RG_ERROR_INIT;
    int boot_fd = -1;
    int last = rg_inside_enter(argv[2], INSIDE_FD, &boot_fd, &err);

    if (last < 0) {
        rg_log(RG_LOG_ERROR, "%s", err.text);
        return RG_EXIT_INTERNAL;
    }
    return run_agent(argv, boot_fd, last);
}

/* Our bootstrap script quotes what we say. */
static int command_install(char **argv)
{
    struct rg_error err = RG_ERROR_INIT;

    if (rg_agent_install(argv[2], &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return RG_EXIT_INTERNAL;
}

static int command_same(char **argv)
{
    return rg_agent_same(argv[2], NULL) == 0 ? 0 : RG_EXIT_INTERNAL;
}

static int command_contain(char **argv)
{
    (void) argv;
    return rg_contain_main();
}

/* 0 where all that was printed has gone out. A stream may have failed before it is flushed. */
static int printed(void)
{
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : RG_EXIT_OUTPUT_LOST;
}

static int command_version(char **argv)
{
    (void) argv;
    printf("reigen-agent %s (protocol %d)\n", RG_VERSION, RG_PROTOCOL_VERSION);
    return printed();
}

/* What killed agents have left on this host; their number. */
static int command_clean(char **argv)
{
    (void) argv;
    printf("%d\n", rg_jobdir_sweep() + rg_sync_sweep());
    return printed();
}

static int command_sync(char **argv)
{
    (void) argv;
    return rg_sync_main();
}

static int command_ask(char **argv)
{
    return rg_head_ask_main(argv[2]);
}

static int command_record(char **argv)
{
    return rg_head_record_main(argv[2]);
}

static int command_tidy(char **argv)
{
    return rg_sync_tidy_main(argv[2]);
}

static const struct {
    const char *name;
    int argc;
    int (*run)(char **argv);
} commands[] = {
    { "agent", 2, command_agent },     { "contain", 2, command_contain },
    { "version", 2, command_version }, { "clean", 2, command_clean },
    { "inside", 3, command_inside },   { "install", 3, command_install },
    { "sync", 2, command_sync },       { "tidy", 3, command_tidy },
    { "same", 3, command_same },       { "unpack", 6, rg_packages_unpack },
    { "ask", 3, command_ask },         { "record", 3, command_record },
};

/* `reigen wait-workers --help` has more to say. */
static int wait_workers(int argc, char **argv)
{
    int code = rg_wait_main(argc, argv);

    if (code != RG_COMMAND_HELP)
        return code;
    printf("usage: reigen-agent wait-workers [--hosts HOSTS | --hostfile FILE | --head HOST[:PORT]]"
           "\n       [--ssh | --no-ssh] [--name NAME] [--port PORT] [--start-timeout SECONDS] "
           "[--quiet]\n");
    return printed();
}

/* Links of these names lie in the job's directory. */
static bool is_rsh(const char *name)
{
    const char *slash = name ? strrchr(name, '/') : NULL;
    const char *base = slash ? slash + 1 : name;

    return base && (strcmp(base, "rsh") == 0 || strcmp(base, "ssh") == 0 ||
                    strcmp(base, "reigen-rsh") == 0);
}

int main(int argc, char **argv)
{
    bool open[3];

    rg_stdio_ensure(open);
    if (is_rsh(argv[0]))
        return rg_rsh_main(argc, argv);
    if (argc >= 2 && strcmp(argv[1], "rsh") == 0)
        return rg_rsh_main(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "head") == 0) {
        rg_drivers_init();
        return rg_head_main(argc - 1, argv + 1);
    }
    prctl(PR_SET_NAME, NAME, 0, 0, 0);
    if (argc == 2 && strcmp(argv[1], "pod") == 0) {
        rg_drivers_init();
        return rg_pod_main();
    }
    if (argc == 3 && strcmp(argv[1], "pod") == 0 && strcmp(argv[2], "ready") == 0)
        return rg_kubernetes_is_ready() ? RG_EXIT_OK : RG_EXIT_UNAVAILABLE;
    if (argc >= 2 && strcmp(argv[1], "wait-workers") == 0)
        return wait_workers(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "doctor") == 0)
        return rg_doctor_main(argv + 2);
    for (size_t i = 0; i < rg_array_len(commands); i++) {
        if (argc == commands[i].argc && strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argv);
    }
    fprintf(stderr, "usage: reigen-agent agent|pod|wait-workers|version|head --plan FILE\n"
                    "It is started by reigen beside the ranks, which tells it its job on standard "
                    "input.\n");
    return RG_EXIT_USAGE;
}
