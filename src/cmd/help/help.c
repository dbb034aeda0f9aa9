/* SPDX-License-Identifier: Apache-2.0 */
/* --help is made of the tables while the program runs, as it is wrapped to the user's terminal. And
 * reigen explain: a code is all that a batch system's log may have kept of a job. */
#include "cmd/help/help.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/str.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "head/console/words.h"
#include "job/platform.h"

#define LEFT 30       /* where an option's text begins */
#define LEFT_BRIEF 24 /* of those that are said in one line */

const char *rg_option_dashes(const char *name)
{
    return strlen(name) <= 2 && strcmp(name, "on") != 0 ? "-" : "--";
}

void rg_option_print(struct rg_buf *text, const struct rg_option *o)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;

    rg_option_names(o->name, o->aliases, &names);
    for (size_t i = 0; i < names.count; i++)
        rg_buf_printf(text, "%s%s%s", i ? ", " : "", rg_option_dashes(names.v[i]), names.v[i]);
    if (o->arg)
        rg_buf_printf(text, o->optional ? " [%s]" : " %s", o->arg);
    if (o->arg2)
        rg_buf_printf(text, " %s", o->arg2);
}

/* What a command takes, with line breaks in front of a bracket where it is too long for a line. */
static char *break_usage(const struct rg_command *command, int columns)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const char *p = command->args;
    int used = 2 + (int) strlen(command->name);

    rg_buf_printf(&text, "%s", command->name);
    while (*p) {
        const char *next = strstr(p + 1, " [");
        int n = next ? (int) (next - p) : (int) strlen(p);
        bool full = used + 1 + n > columns;
        rg_buf_printf(&text, "%s%.*s", full ? "\n      " : " ", n, p);
        used = (full ? 6 : used + 1) + n;
        p += n + (next != NULL);
    }
    return rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
}

const char *rg_command_brief(const struct rg_command *command)
{
    return command->script ? command->script->summary : command->brief;
}

static void put_what_it_is(struct rg_buf *text, int columns)
{
    rg_buf_printf(text, "usage: reigen COMMAND [ARGUMENT...]\n\n");
    rg_wrap(text,
            "Reigen runs data-parallel training: N copies of one script on the processors you "
            "have, as by: reigen run -np 4 -- python train.py",
            0, columns);
    rg_buf_printf(text, "\n");
}

void rg_help_reigen(struct rg_buf *text, int columns, const struct rg_command *commands)
{
    rg_autobuf struct rg_buf others = RG_BUF_INIT;

    put_what_it_is(text, columns);
    for (const struct rg_command *c = commands; c->name; c++) {
        if (c->common)
            rg_put_row(text, c->name, rg_command_brief(c), LEFT_BRIEF - 10, columns);
        else
            rg_buf_printf(&others, "%s%s", rg_buf_nbytes(&others) ? ", " : "And: ", c->name);
    }
    rg_buf_printf(text, "\n");
    rg_wrap(text, rg_buf_text(&others), 0, columns);
    rg_wrap(text, "reigen help COMMAND tells more of one, and reigen help all of all.", 0, columns);
}

static void put_options(struct rg_buf *text, const struct rg_command_option *o, int columns)
{
    for (; o && o->left; o++)
        rg_put_row(text, o->left, o->help, LEFT, columns);
}

/* What several commands take is told once, below the names of all of them. */
static void put_shared(struct rg_buf *text, const struct rg_command *commands, int columns)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    const struct rg_command *first = NULL;

    for (const struct rg_command *c = commands; c->name; c++) {
        first = !first && c->shared ? c : first;
        if (first && c->shared == first->shared)
            rg_buf_printf(&names, "%s%s", c == first ? "\nOptions of " : ", ", c->name);
    }
    rg_buf_printf(text, "%s\n", rg_buf_text(&names));
    if (first)
        put_options(text, first->shared, columns);
}

void rg_help_all(struct rg_buf *text, int columns, const struct rg_command *commands)
{
    put_what_it_is(text, columns);
    for (const struct rg_command *c = commands; c->name; c++) {
        rg_autofree char *left = break_usage(c, columns);
        rg_put_row(text, left ? left : c->name, c->summary, LEFT, columns);
    }
    put_shared(text, commands, columns);
}

/* --- reigen run ------------------------------------------------------------------------------- */

static void put_option(struct rg_buf *text, const struct rg_option *option, int columns)
{
    rg_autobuf struct rg_buf left = RG_BUF_INIT;

    rg_option_print(&left, option);
    rg_put_row(text, rg_buf_text(&left), option->help, LEFT, columns);
}

/* A platform's own rows: where it shares an option with others, what it makes of that. */
static void put_topic(struct rg_buf *text, const struct rg_option_topic *topic, bool whole,
                      int columns)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);
    const struct rg_option *own = whole && topic->platform ? topic->platform->options : NULL;

    rg_buf_printf(text, "%s%s\n", rg_buf_nbytes(text) ? "\n" : "", topic->title);
    for (; own && own->name; own++)
        put_option(text, own, columns);
    for (size_t i = 0; i < count; i++)
        if (rg_option_is_in(&options[i], topic) && !(whole && topic->platform))
            put_option(text, &options[i], columns);
}

static void put_brief_options(struct rg_buf *text, int columns)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);

    for (size_t i = 0; i < count; i++) {
        struct rg_option short_one = options[i];
        rg_autobuf struct rg_buf left = RG_BUF_INIT;
        short_one.aliases = NULL;
        if (!short_one.brief)
            continue;
        rg_option_print(&left, &short_one);
        rg_put_row(text, rg_buf_text(&left), short_one.brief, LEFT_BRIEF, columns);
    }
}

static void help_run_brief(struct rg_buf *text, int columns)
{
    rg_buf_printf(text, "usage: reigen run [OPTION...] [--] COMMAND [ARGUMENT...]\n\n");
    rg_wrap(text,
            "Run copies of COMMAND, called ranks. It ends when all have ended; when one fails, the "
            "others are ended and reigen names the one that failed first.",
            0, columns);
    rg_buf_printf(text, "\n");
    put_brief_options(text, columns);
    rg_autofree char *more = rg_strf("More: reigen run --help TOPIC, which is one of %s.",
                                     rg_option_find("help")->completes);
    rg_buf_printf(text, "\n");
    rg_wrap(text, more ? more : "", 0, columns);
    rg_buf_printf(text, "\nFor example\n"
                        "  reigen run -np 4 -- python train.py\n"
                        "  reigen run -H node1:4,node2:4 --timeout 2h -- ./train\n");
}

static void help_run_all(struct rg_buf *text, int columns)
{
    struct rg_option_topic topics[RG_TOPICS_MAX];

    rg_buf_printf(text, "usage: reigen run [OPTION...] [--] COMMAND [ARGUMENT...]\n\n");
    rg_wrap(text,
            "Options may have one dash or two, and their value after a space or '='. Flags of "
            "torchrun, mpirun, mpiexec, srun, accelerate and deepspeed are understood, too: see "
            "docs/launchers.md.",
            0, columns);
    for (size_t i = 0, n = rg_option_topics(topics); i < n; i++)
        put_topic(text, &topics[i], false, columns);
}

int rg_help_run(struct rg_buf *text, int columns, const char *topic)
{
    struct rg_option_topic one;

    if (!topic)
        help_run_brief(text, columns);
    else if (strcmp(topic, "all") == 0)
        help_run_all(text, columns);
    else if (rg_option_topic_find(topic, &one))
        put_topic(text, &one, true, columns);
    else
        return -ENOENT;
    return 0;
}

/* --- other commands --------------------------------------------------------------------------- */

struct rg_option rg_hvd_as_option(const struct rg_hvd_option *flag)
{
    bool pair = flag->kind == RG_HVD_PAIR;

    return (struct rg_option){ .name = flag->name, .aliases = flag->aliases,
                               .arg = pair ? "MIN" : flag->arg, .arg2 = pair ? "MAX" : NULL,
                               .completes = flag->completes, .help = flag->help };
}

static void help_horovodrun(struct rg_buf *text, int columns)
{
    size_t count;
    const struct rg_hvd_option *flags = rg_hvd_options(&count);

    rg_buf_printf(text, "usage: horovodrun -np N [FLAG...] COMMAND [ARGUMENT...]\n\n");
    rg_wrap(text,
            "Run copies of COMMAND, called ranks, as Horovod's command of this name does. Flags "
            "win over --config-file. reigen man horovodrun lists the file's keys.",
            0, columns);
    for (int group = 0; group < RG_HVD_GROUP_COUNT; group++) {
        rg_buf_printf(text, "\n%s\n", rg_hvd_group_title(group));
        for (size_t i = 0; i < count; i++) {
            rg_autobuf struct rg_buf left = RG_BUF_INIT;
            struct rg_option option = rg_hvd_as_option(&flags[i]);
            if ((int) flags[i].group != group || (flags[i].key && !strchr(flags[i].key, '.')))
                continue;
            rg_option_print(&left, &option);
            rg_put_row(text, rg_buf_text(&left), flags[i].help, LEFT, columns);
        }
    }
    rg_buf_printf(text, "\nFor example\n"
                        "  horovodrun -np 4 python train.py\n"
                        "  horovodrun -np 4 -H localhost:4 --timeline-filename t.json python "
                        "train.py\n");
}

void rg_script_option_print(struct rg_buf *text, const struct rg_script_option *o)
{
    rg_buf_printf(text, "--%s", o->name);
    if (o->arg)
        rg_buf_printf(text, o->optional ? "[=%s]" : "=%s", o->arg);
}

/* "usage: WORDS", with what does not fit below the words. */
static void print_usage(struct rg_buf *text, const char *words, int columns)
{
    rg_autobuf struct rg_buf body = RG_BUF_INIT;
    const int indent = (int) strlen("usage: ");

    rg_wrap(&body, words, indent, columns);
    rg_buf_printf(text, "usage: %s\n", rg_buf_text(&body) + indent);
}

void rg_help_script(struct rg_buf *text, int columns, const struct rg_command *command)
{
    const struct rg_script *script = command->script;
    rg_autofree char *usage = rg_strf("%sreigen %s %s", script->under, command->name,
                                      script->usage);
    rg_autofree char *name = rg_strf("The same by the name %s.", script->name ? script->name : "");

    print_usage(text, usage ? usage : script->usage, columns);
    rg_wrap(text, script->about, 0, columns);
    if (script->name)
        rg_wrap(text, name ? name : "", 0, columns);
    rg_buf_printf(text, "\nOptions\n");
    for (const struct rg_script_option *o = script->options; o->name; o++) {
        rg_autobuf struct rg_buf left = RG_BUF_INIT;
        rg_script_option_print(&left, o);
        rg_put_row(text, rg_buf_text(&left), o->help, LEFT, columns);
    }
    rg_buf_printf(text, "\nFor example\n");
    for (const char *p = script->examples; *p; p += strcspn(p, "\n") + 1)
        rg_buf_printf(text, "  %.*s\n", (int) strcspn(p, "\n"), p);
}

static int no_command(const struct rg_command *commands, const char *name)
{
    const char *words[RG_COMMANDS_MAX + 1];
    char guess[96];
    size_t n = 0;

    for (const struct rg_command *c = commands; c->name && n < RG_COMMANDS_MAX; c++)
        words[n++] = c->name;
    words[n] = NULL;
    return rg_fail_usage(NULL, "help %.80s: no such command%s", name,
                         rg_args_guess(name, words, guess));
}

static const struct rg_command *find(const struct rg_command *commands, const char *name)
{
    for (const struct rg_command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0 ||
            (c->script && c->script->name && strcmp(c->script->name, name) == 0))
            return c;
    return NULL;
}

/* How many; a NULL stands behind them. */
static size_t list_topics(const char *ret_words[RG_TOPICS_MAX + 2])
{
    struct rg_option_topic topics[RG_TOPICS_MAX];
    size_t n = rg_option_topics(topics);

    ret_words[0] = "all";
    for (size_t i = 0; i < n; i++)
        ret_words[i + 1] = topics[i].name;
    ret_words[n + 1] = NULL;
    return n + 1;
}

bool rg_help_topic_is_near(const char *word)
{
    const char *words[RG_TOPICS_MAX + 2];
    struct rg_option_topic topic;

    list_topics(words);
    return rg_option_topic_find(word, &topic) || rg_str_nearest(word, words);
}

static int no_topic(const char *command, const char *topic)
{
    const char *words[RG_TOPICS_MAX + 2];
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    char guess[96];

    for (size_t i = 1, n = list_topics(words); i < n; i++)
        rg_buf_printf(&names, "%s%s", i + 1 < n ? ", " : " or ", words[i]);
    return rg_fail_usage(command, "%s --help %.80s: no such topic; give all%s%s", command, topic,
                         rg_buf_text(&names), rg_args_guess(topic, words, guess));
}

static void help_command(struct rg_buf *text, const struct rg_command *c, int columns)
{
    rg_autofree char *usage = rg_strf("reigen %s %s", c->name, c->args);

    print_usage(text, usage ? usage : c->args, columns);
    rg_wrap(text, c->summary, 0, columns);
    if (c->options || c->shared) {
        rg_buf_printf(text, "\nOptions\n");
        put_options(text, c->options, columns);
        put_options(text, c->shared, columns);
    }
    if (c->run_options) {
        rg_autofree char *more = rg_strf("Of the options of reigen run, reigen %s --help TOPIC "
                                         "tells: %s.", c->name, rg_option_find("help")->completes);
        rg_buf_printf(text, "\n");
        rg_wrap(text, more ? more : "", 0, columns);
    }
}

/* 0, or -ENOENT where the command has no such topic. */
static int help_one(struct rg_buf *text, const struct rg_command *c, const char *topic, int columns)
{
    if (strcmp(c->name, "run") == 0 || topic)
        return rg_help_run(text, columns, topic);
    if (strcmp(c->name, "horovodrun") == 0)
        help_horovodrun(text, columns);
    else if (c->script)
        rg_help_script(text, columns, c);
    else
        help_command(text, c, columns);
    return 0;
}

int rg_help(const struct rg_command *commands, int argc, char **argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const struct rg_command *c = argc > 1 ? find(commands, argv[1]) : NULL;
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    int columns = rg_terminal_columns(1), most = c && c->run_options ? 3 : 2;

    if (argc > 1 && !c && !all)
        return no_command(commands, argv[1]);
    if (argc > most)
        return rg_fail_usage(NULL, "help: %.80s is one argument too many", argv[most]);
    if (all)
        rg_help_all(&text, columns, commands);
    else if (!c)
        rg_help_reigen(&text, columns, commands);
    else if (help_one(&text, c, argc > 2 ? argv[2] : NULL, columns) < 0)
        return no_topic(c->name, argv[2]);
    return rg_print_exact(rg_buf_text(&text));
}

/* --- exit codes ------------------------------------------------------------------------------- */

static void explain_one(int code, struct rg_buf *text)
{
    const struct rg_exit_info *info = rg_exit_find(code);

    rg_buf_printf(text, "%d (%s)", code, rg_exit_name(code));
    if (info->code == RG_EXIT_SIGNAL && code > RG_EXIT_SIGNAL)
        rg_buf_printf(text, ": signal %d, %s", code - RG_EXIT_SIGNAL,
                      strsignal(code - RG_EXIT_SIGNAL));
    rg_buf_printf(text, "\n\n");
    rg_wrap(text, info->meaning, 4, rg_terminal_columns(1));
    rg_wrap(text, info->remedy, 4, rg_terminal_columns(1));
    if (code == 1)
        rg_wrap(text, "Python ends with 1 after an exception that nobody caught, and its traceback "
                      "stands above the verdict. A shell, and most other programs, say by 1 that "
                      "something failed.", 4, rg_terminal_columns(1));
    if (info->retry)
        rg_wrap(text, "Trying again, unchanged, may help.", 4, rg_terminal_columns(1));
}

static void explain_all(struct rg_buf *text)
{
    size_t count;
    const struct rg_exit_info *table = rg_exit_table(&count);

    for (size_t i = 0; i < count; i++) {
        char code[16];
        snprintf(code, sizeof code, table[i].code == RG_EXIT_SIGNAL ? "128+n" : "%d",
                 table[i].code);
        rg_buf_printf(text, "%-6s %-15s %s\n", code, rg_exit_name(table[i].code),
                      table[i].meaning);
    }
    rg_buf_printf(text, "Any other code is a rank's own. reigen explain CODE says what to do.\n");
}

int rg_cmd_explain(int argc, char **argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int64_t code;

    int n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);

    if (n < 0)
        return -1 - n;
    if (n && rg_parse_int("CODE", argv[1], 0, 255, &code, NULL) < 0)
        return rg_fail_usage("explain", "explain %s: an exit code is a number from 0 to 255",
                             argv[1]);
    if (n)
        explain_one((int) code, &text);
    else
        explain_all(&text);
    return rg_print_exact(rg_buf_text(&text));
}
