/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen-agent: one small static program for all that runs beside the ranks. The first argument
 * says what it is to be.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "base/log.h"

#ifndef RG_VERSION
#define RG_VERSION "unknown"
#endif

#define EXIT_USAGE 2
#define EXIT_INTERNAL 70

/* Descriptors that came by accident must not reach the ranks. */
static void close_above(int last)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned) last + 1, ~0u, 0u) == 0)
        return;
#endif
    for (int fd = last + 1; fd < 1024; fd++)
        close(fd);
}

static int command_agent(void)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_agent_boot boot;

    if (rg_agent_boot_read(0, &boot, &err) < 0) {
        rg_log(RG_LOG_ERROR, "%s", err.text);
        return EXIT_USAGE;
    }
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0) {
        dup2(null_fd, 0);
        dup2(null_fd, 1);
    }
    close_above(boot.link_fd > 2 ? boot.link_fd : 2);
    fcntl(boot.link_fd, F_SETFD, FD_CLOEXEC);
    return rg_agent_run(&boot);
}

static int command_version(void)
{
    printf("reigen-agent %s (protocol %d)\n", RG_VERSION, RG_PROTOCOL_VERSION);
    return fflush(stdout) == 0 ? 0 : EXIT_INTERNAL;
}

static const struct {
    const char *name;
    int (*run)(void);
} commands[] = {
    { "agent", command_agent },
    { "version", command_version },
};

int main(int argc, char **argv)
{
    rg_log_open(&(struct rg_log_options){ .level = RG_LOG_WARN, .fd = 2, .name = "reigen-agent" });
    for (size_t i = 0; argc == 2 && i < rg_array_len(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run();
    }
    fprintf(stderr, "usage: reigen-agent agent|version\n"
                    "It is started by reigen beside the ranks, which tells it its job on standard "
                    "input.\n");
    return EXIT_USAGE;
}
