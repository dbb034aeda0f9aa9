/* SPDX-License-Identifier: Apache-2.0 */
/* reigen: the launcher's command. Finds the command that was asked for and runs it. */
#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/exit.h"
#include "cmd/terminal.h"

static int unknown_command(const char *name)
{
    const char *words[RG_COMMANDS_MAX + 1];
    size_t n = 0;

    for (const struct rg_command *c = rg_commands; c->name && n < RG_COMMANDS_MAX; c++)
        words[n++] = c->name;
    words[n] = NULL;
    const char *near = rg_str_nearest(name, words);

    if (near)
        return rg_fail_usage(NULL, "unknown command %.80s; did you mean %s?", name, near);
    return rg_fail_usage(NULL, "unknown command %.80s; to run it, write: reigen run -- %.80s", name,
                         name);
}

static bool is_any(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argc > 0 ? argv[0] : "", '/');

    /* A link of such a name is the command. */
    if (argc > 0 && strcmp(slash ? slash + 1 : argv[0], "horovodrun") == 0) {
        signal(SIGPIPE, SIG_IGN);
        return rg_cmd_horovodrun(argc, argv);
    }
    if (argc > 0 && strcmp(slash ? slash + 1 : argv[0], "srun_docker.sh") == 0) {
        signal(SIGPIPE, SIG_IGN);
        return rg_cmd_srun_docker(argc, argv);
    }
    if (argc < 2) {
        rg_cmd_help(1, argv);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (is_any(argv[1], "--help", "-h", "-help"))
        return rg_cmd_help(1, argv);
    if (is_any(argv[1], "--version", "-V", "-version"))
        return rg_cmd_version(1, argv);
    if (argv[1][0] == '-')
        return rg_fail_usage(NULL,
                             "unknown option %.80s; options of a job stand after the command: "
                             "reigen run %.80s",
                             argv[1], argv[1]);
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        if (strcmp(c->name, argv[1]) != 0)
            continue;
        /* They have a --help of their own, and their arguments may be anything. */
        bool own_help = c->run == rg_cmd_run || c->run == rg_cmd_horovodrun ||
                        c->run == rg_cmd_srun_docker;
        if (!own_help && argc > 2 && is_any(argv[2], "--help", "-h", "-help"))
            return rg_cmd_help(2, argv);
        return c->run(argc - 1, argv + 1);
    }
    return unknown_command(argv[1]);
}
