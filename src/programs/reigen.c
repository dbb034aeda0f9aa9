/* SPDX-License-Identifier: Apache-2.0 */
/* reigen: the launcher's command. Finds the command that was asked for and runs it. */
#include <signal.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "cmd/help/help.h"
#include "platform/drivers.h"

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

static const struct rg_command *find(const char *name)
{
    for (const struct rg_command *c = rg_commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

/* The command that a link of this name is. */
static const struct rg_command *find_link(const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

    if (rg_str_has_word("horovodrun torchrun", name))
        return find(name);
    for (const struct rg_command *c = rg_commands; c->name; c++)
        if (c->script && c->script->name && strcmp(c->script->name, name) == 0)
            return c;
    return NULL;
}

static const char help_words[] = "--help -h -help";

static int print_help(const char *command, const char *topic)
{
    return rg_help(rg_commands, !command ? 1 : !topic ? 2 : 3,
                   (char *[]){ "help", (char *) command, (char *) topic, NULL });
}

/* What help is wanted of: the last word of the line, behind --help or after its '='; or NULL. */
static const char *find_topic(int argc, char **argv)
{
    const char *last = argv[argc - 1], *equals = strchr(last, '=');
    rg_autofree char *name = equals ? strndup(last, (size_t) (equals - last)) : NULL;

    if (name && rg_str_has_word(help_words, name))
        return equals + 1;
    return argc > 2 && *last != '-' && rg_str_has_word(help_words, argv[argc - 2]) ? last : NULL;
}

/* A word behind --help that has nothing of a topic is another one, as of a command line's end. */
static const char *judge_topic(const char *topic, const char *last)
{
    return topic && (topic != last || rg_help_topic_is_near(topic)) ? topic : NULL;
}

static int run(const struct rg_command *command, int argc, char **argv)
{
    const char *topic = command->run_options
                            ? judge_topic(find_topic(argc, argv), argv[argc - 1]) : NULL;
    int code = command->run(argc, argv);

    return code == RG_COMMAND_HELP ? print_help(command->name, topic) : code;
}

int main(int argc, char **argv)
{
    static const char *const own[] = { "help", "version", NULL };
    const struct rg_command *command = argc > 0 ? find_link(argv[0]) : NULL;
    bool open[3];

    rg_stdio_ensure(open);
    rg_drivers_init();
    if (!command && argc < 2) {
        print_help(NULL, NULL);
        return RG_EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    if (command)
        return run(command, argc, argv);
    if (rg_str_has_word(help_words, argv[1]))
        return print_help(argv[2], NULL);
    if (rg_str_has_word("--version -V -version", argv[1]))
        return run(find("version"), 1, argv);
    if (argv[1][0] == '-' && rg_str_nearest(argv[1] + strspn(argv[1], "-"), own))
        return rg_fail_usage(NULL, "unknown option %.80s; did you mean --%s?", argv[1],
                             rg_str_nearest(argv[1] + strspn(argv[1], "-"), own));
    if (argv[1][0] == '-')
        return rg_fail_usage(NULL,
                             "unknown option %.80s; options of a job stand after the command: "
                             "reigen run %.80s",
                             argv[1], argv[1]);
    command = find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    /* Others have a --help of their own, and their arguments may be anything. */
    bool small = strcmp(command->name, "run") != 0 && strcmp(command->name, "horovodrun") != 0 &&
                 !command->script;
    if (small && argc > 2 && rg_str_has_word(help_words, argv[2]))
        return print_help(command->name,
                          command->run_options ? judge_topic(argv[3], argv[3]) : NULL);
    return run(command, argc - 1, argv + 1);
}
