/* SPDX-License-Identifier: Apache-2.0 */
/* reigen: the launcher's command. Finds the command that was asked for and runs it. */
#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/show/exit.h"
#include "cmd/compat/scripts.h"
#include "cmd/show/terminal.h"
#include "launch/drivers/drivers.h"

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

struct link {
    const char *name;
    int (*run)(int argc, char **argv);
};

/* A link of such a name is the command. */
static const struct link links[] = {
    { "horovodrun", rg_cmd_horovodrun },
    { "srun_docker.sh", rg_cmd_srun_docker },
    { "run_dock_asuser.sh", rg_cmd_run_dock_asuser },
    { "create_mpisshconfig.sh", rg_cmd_sshconfig },
};

static const struct link *find_link(const char *program)
{
    const char *slash = strrchr(program, '/');

    for (size_t i = 0; i < rg_array_len(links); i++)
        if (strcmp(slash ? slash + 1 : program, links[i].name) == 0)
            return &links[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const own[] = { "help", "version", NULL };
    const struct link *link = argc > 0 ? find_link(argv[0]) : NULL;
    bool open[3];

    rg_stdio_ensure(open);
    rg_drivers_init();
    if (link) {
        signal(SIGPIPE, SIG_IGN);
        return link->run(argc, argv);
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
    if (argv[1][0] == '-' && rg_str_nearest(argv[1] + strspn(argv[1], "-"), own))
        return rg_fail_usage(NULL, "unknown option %.80s; did you mean --%s?", argv[1],
                             rg_str_nearest(argv[1] + strspn(argv[1], "-"), own));
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
                        rg_script_find(c->name);
        if (!own_help && argc > 2 && is_any(argv[2], "--help", "-h", "-help"))
            return rg_cmd_help(2, argv);
        return c->run(argc - 1, argv + 1);
    }
    return unknown_command(argv[1]);
}
