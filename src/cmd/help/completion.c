/* SPDX-License-Identifier: Apache-2.0 */
/* reigen completion: prints a shell's script, or the words that such a script asks for while a
 * person types: hosts, jobs, interfaces, what a format of reigen render takes. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "cmd/help/help.h"
#include "cmd/help/texts.h"
#include "job/config/config.h"
#include "launch/jobs/registry.h"
#include "launch/jobs/submitted.h"
#include "render/render.h"
#include "job/platform.h"

#define FILE_MAX (4u << 20) /* bytes that are read of one file */
#define LINE_BYTES 65536

/* A name that can be typed as it is: no pattern, no hash, and none that is listed already. */
static void add_host(struct rg_strv *words, const char *name, size_t nbytes)
{
    rg_autofree char *copy = strndup(name, nbytes);

    if (!copy || !*copy || strpbrk(copy, "*?!|\"'\\$`;&()<> \t") || *copy == '-')
        return;
    if (!rg_strv_has(words, copy))
        rg_strv_add(words, copy);
}

/* Host a b *.c */
static void take_config(struct rg_strv *words, char *line)
{
    char *save = NULL, *word = strtok_r(line, " \t=\r\n", &save);

    if (!word || strcasecmp(word, "Host") != 0)
        return;
    while ((word = strtok_r(NULL, " \t\r\n", &save)))
        add_host(words, word, strlen(word));
}

/* a,[b]:22,192.0.2.1 ssh-ed25519 ...; hashed names begin with '|', markers with '@'. */
static void take_known(struct rg_strv *words, char *line)
{
    char *save = NULL, *names = strtok_r(line, " \t\r\n", &save), *more = NULL;

    if (!names || *names == '#' || *names == '|' || *names == '@')
        return;
    for (char *name = strtok_r(names, ",", &more); name; name = strtok_r(NULL, ",", &more)) {
        bool bracket = *name == '[';
        add_host(words, name + bracket, strcspn(name + bracket, "]"));
    }
}

/* a slots=2, or a:2 */
static void take_hostfile(struct rg_strv *words, char *line)
{
    const char *name = line + strspn(line, " \t");

    if (*name != '#')
        add_host(words, name, strcspn(name, " \t:\r\n"));
}

static void read_lines(const char *path, void (*take)(struct rg_strv *words, char *line),
                       struct rg_strv *words)
{
    rg_autofree char *line = malloc(LINE_BYTES);
    FILE *f = path && line ? fopen(path, "re") : NULL;
    size_t nbytes = 0;

    while (f && nbytes < FILE_MAX && fgets(line, LINE_BYTES, f)) {
        nbytes += strlen(line);
        take(words, line);
    }
    if (f)
        fclose(f);
}

static void add_hosts(struct rg_strv *words, char *const *hostfiles)
{
    const char *home = getenv("HOME");
    rg_autofree char *config = rg_strf("%s/.ssh/config", home ? home : "");
    rg_autofree char *known = rg_strf("%s/.ssh/known_hosts", home ? home : "");

    add_host(words, "localhost", strlen("localhost"));
    for (; *hostfiles; hostfiles++)
        read_lines(*hostfiles, take_hostfile, words);
    read_lines(getenv("REIGEN_HOSTFILE"), take_hostfile, words);
    read_lines(config, take_config, words);
    read_lines(known, take_known, words);
}

static void add_jobs(struct rg_strv *words)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };

    if (rg_registry_list(&registry) < 0)
        return;
    for (size_t i = 0; i < registry.count; i++)
        rg_strv_add(words, registry.jobs[i].id);
}

static void add_submitted(struct rg_strv *words)
{
    rg_cleanup(rg_submitted_list_fini) struct rg_submitted_list list = { .count = 0 };

    for (const struct rg_platform *const *p = rg_platforms(); *p; p++) {
        if ((*p)->queues)
            rg_submitted_list(*p, &list);
    }
    for (size_t i = 0; i < list.count; i++)
        rg_strv_add(words, list.jobs[i].id);
}

static void add_words(struct rg_strv *words, const char *list)
{
    for (size_t n; *list; list += n + strspn(list + n, " ")) {
        n = strcspn(list, " ");
        rg_strv_addf(words, "%.*s", (int) n, list);
    }
}

static const struct rg_render_param *find_param(const struct rg_render_format *format,
                                                const char *word)
{
    const char *name = word + strspn(word, "-");

    for (const struct rg_render_param *p = format->params; name > word && p->name; p++) {
        if (strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

/* What may stand behind `reigen render WORD...`: a format, the value of its last parameter where
 * there are few, or nothing if there are many; else its parameters. */
static void add_render(struct rg_strv *words, char *const *said)
{
    const struct rg_render_format *format = rg_render_formats;

    said += *said && strcmp(*said, "render") == 0; /* fish has no empty range of words */
    while (*said && format->name && strcmp(format->name, *said) != 0)
        format++;
    for (const struct rg_render_format *f = rg_render_formats; !*said && f->name; f++)
        rg_strv_add(words, f->name);
    if (!*said || !format->name)
        return;
    while (said[1])
        said++;
    const struct rg_render_param *last = find_param(format, *said);
    if (last && last->kind != RG_RENDER_FLAG) {
        add_words(words, last->kind == RG_RENDER_CHOICE ? last->choices
                         : last->kind == RG_RENDER_BOOL ? "true false" : "");
        return;
    }
    for (const struct rg_render_param *p = format->params; p->name; p++)
        rg_strv_addf(words, "--%s", p->name);
    add_words(words, format->command ? "--describe -o --" : "--describe -o");
}

/* A configuration that is wrong has none. */
static void add_profiles(struct rg_strv *words)
{
    RG_AUTO_CONFIG struct rg_config config = RG_CONFIG_INIT;

    if (rg_config_read(&config, NULL) == 0 && config.profiles.count)
        rg_strv_add_all(words, config.profiles.v);
}

static void add_interfaces(struct rg_strv *words)
{
    struct if_nameindex *all = if_nameindex();

    for (struct if_nameindex *i = all; i && i->if_name; i++)
        rg_strv_add(words, i->if_name);
    if (all)
        if_freenameindex(all);
}

/* --hosts (also of the host files in more), --jobs, --profiles, --interfaces or --render (behind
 * the words in more), one word a line. 0, or -ENOENT for something else. */
static int print_words(const char *what, char *const *more, struct rg_buf *text)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;

    if (strcmp(what, "--hosts") == 0)
        add_hosts(&words, more);
    else if (strcmp(what, "--jobs") == 0)
        add_jobs(&words), add_submitted(&words);
    else if (strcmp(what, "--profiles") == 0)
        add_profiles(&words);
    else if (strcmp(what, "--interfaces") == 0)
        add_interfaces(&words);
    else if (strcmp(what, "--render") == 0)
        add_render(&words, more);
    else
        return -ENOENT;
    for (size_t i = 0; i < words.count; i++)
        rg_buf_printf(text, "%s\n", words.v[i]);
    return 0;
}

int rg_cmd_completion(int argc, char **argv)
{
    static const char *const shells[] = { "bash", "zsh", "fish", NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char guess[96];
    int n;

    if (argc > 1 && print_words(argv[1], argv + 2, &text) == 0)
        return rg_print_exact(rg_buf_text(&text));
    n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);
    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage("completion", "completion needs the shell's name: bash, zsh or fish");
    for (const struct rg_text *t = rg_completions; t->name; t++)
        if (strcmp(t->name, argv[1]) == 0)
            return rg_print_exact(t->text);
    return rg_fail_usage("completion", "completion %.80s: give bash, zsh or fish%s", argv[1],
                         rg_args_guess(argv[1], shells, guess));
}
