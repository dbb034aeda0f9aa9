/* SPDX-License-Identifier: Apache-2.0 */
/* A dozen small commands take two or three options each: one loop over a table serves them all. */
#include "head/console/args.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "head/console/command.h"
#include "head/console/exit.h"

#define WORDS_MAX 16
#define NAME_MAX_NBYTES 64

const char *rg_args_guess(const char *word, const char *const *words, char buf[96])
{
    const char *near = rg_str_nearest(word, words);

    *buf = '\0';
    if (near)
        snprintf(buf, 96, "; did you mean %s?", near);
    return buf;
}

static int unknown(const char *command, const char *word, const char *name,
                   const struct rg_arg *args)
{
    const char *words[WORDS_MAX + 2];
    size_t n = 0;

    for (; args->name && n < WORDS_MAX; args++)
        words[n++] = args->name;
    words[n++] = "help";
    words[n] = NULL;
    const char *near = rg_str_nearest(name, words);

    /* A beginning will do. */
    for (size_t i = 0; !near && *name && i < n; i++)
        near = rg_str_starts(words[i], name) ? words[i] : NULL;
    return -1 - rg_fail_usage(command, "%s: unknown option %.80s%s%s%s", command, word,
                              near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

static const struct rg_arg *find(const struct rg_arg *args, const char *name)
{
    for (; args->name; args++) {
        if (strcmp(args->name, name) == 0 || (args->letter == name[0] && name[0] && !name[1]))
            return args;
    }
    return NULL;
}

/* The option at argv[*i], which is moved to the last word that belongs to it. 0, or as
 * rg_args_parse. */
static int take(char **argv, int *i, const struct rg_arg *args)
{
    const char *word = argv[*i], *text = word + (word[1] == '-' ? 2 : 1);
    char name[NAME_MAX_NBYTES];

    snprintf(name, sizeof(name), "%.*s", (int) strcspn(text, "="), text);
    const struct rg_arg *arg = find(args, name);
    const char *value = strchr(text, '=');

    if (!arg && (strcmp(name, "help") == 0 || strcmp(name, "h") == 0))
        return -1 - RG_COMMAND_HELP;
    if (!arg)
        return unknown(argv[0], word, name, args);
    if (!arg->what && value)
        return -1 - rg_fail_usage(argv[0], "%s: --%s takes no value", argv[0], arg->name);
    if (!arg->what) {
        *arg->flag = true;
        return 0;
    }
    value = value ? value + 1 : argv[*i + 1] ? argv[++*i] : NULL;
    if (!value)
        return -1 - rg_fail_usage(argv[0], "%s: --%s needs a value: --%s %s", argv[0], arg->name,
                                  arg->name, arg->what);
    *arg->value = value;
    return 0;
}

int rg_args_parse(int argc, char **argv, const struct rg_arg *args, int max)
{
    bool over = false;
    int n = 0;

    for (int i = 1; i < argc; i++) {
        if (!over && strcmp(argv[i], "--") == 0) {
            over = true;
        } else if (!over && argv[i][0] == '-' && argv[i][1]) {
            int r = take(argv, &i, args);
            if (r < 0)
                return r;
        } else {
            argv[1 + n++] = argv[i];
        }
    }
    argv[1 + n] = NULL;
    if (n <= max)
        return n;
    if (max == 0)
        return -1 - rg_fail_usage(argv[0], "%s %.80s: it takes no arguments", argv[0], argv[1]);
    return -1 - rg_fail_usage(argv[0], "%s: %.80s is one argument too many", argv[0],
                              argv[1 + max]);
}
