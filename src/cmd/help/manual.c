/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/str.h"
#include "cmd/help/args.h"
#include "cmd/commands.h"
#include "cmd/show/exit.h"
#include "cmd/help/help.h"
#include "cmd/help/manual.h"
#include "cmd/show/terminal.h"
#include "base/exitcode.h"
#include "spec/options/jobfile.h"

const char *const rg_manual_pages[] = {
    "reigen", "reigen-run", "reigen-explain", "reigen-job", "horovodrun", "reigen-srun-docker",
    "reigen-run-dock-asuser", "reigen-sshconfig", "reigen-doctor", "reigen-rsh", "reigen-jobs",
    "reigen-stop", "reigen-logs", "reigen-status", "reigen-man", "reigen-completion", "reigen-sshd",
    "reigen-install-scripts", "reigen-version", "reigen-help", NULL,
};

/* Of this version; a page has to have a date. */
#define DATE "2026-11-21"
#define LINE_LENGTH 79

/* troff: backslashes and leading dots and quotes have a meaning; dashes stay dashes. */
static void put_some(struct rg_buf *text, const char *words, size_t nbytes)
{
    bool start = true;

    for (const char *p = words; p < words + nbytes; p++) {
        if (start && (*p == '.' || *p == '\''))
            rg_buf_printf(text, "\\&");
        if (*p == '\\')
            rg_buf_printf(text, "\\e");
        else if (*p == '-')
            rg_buf_printf(text, "\\-");
        else
            rg_buf_put(text, p, 1);
        start = *p == '\n';
    }
}

/* Lines as they are. */
static void put(struct rg_buf *text, const char *words)
{
    put_some(text, words, strlen(words));
}

/* Running text, in lines of the length that readers of the source expect. */
static void fill(struct rg_buf *text, const char *words)
{
    size_t used = 0;

    for (const char *p = words + strspn(words, " \n"); *p; p += strspn(p, " \n")) {
        rg_autobuf struct rg_buf word = RG_BUF_INIT;
        size_t n = strcspn(p, " \n");
        put_some(&word, p, n);
        size_t length = rg_buf_nbytes(&word);
        bool fits = used && used + 1 + length <= LINE_LENGTH;
        rg_buf_printf(text, "%s%s", !used ? "" : fits ? " " : "\n", rg_buf_text(&word));
        used = fits ? used + 1 + length : length;
        p += n;
    }
    rg_buf_printf(text, "\n");
}

static void title(struct rg_buf *text, const char *page, int section)
{
    rg_buf_printf(text, ".TH \"%s\" \"%d\" \"" DATE "\" \"Reigen " RG_VERSION "\" \"Reigen\"\n"
                        ".SH NAME\n", page, section);
}

static void heading(struct rg_buf *text, const char *page, int section, const char *summary)
{
    title(text, page, section);
    put(text, page);
    rg_buf_printf(text, " \\- ");
    put(text, summary);
    rg_buf_printf(text, "\n");
}

static void paragraph(struct rg_buf *text, const char *words)
{
    rg_buf_printf(text, ".PP\n");
    fill(text, words);
}

static void entry(struct rg_buf *text, const char *left, const char *right)
{
    rg_buf_printf(text, ".TP\n.B ");
    put(text, left);
    rg_buf_printf(text, "\n");
    fill(text, right);
}

static void example(struct rg_buf *text, const char *lines)
{
    rg_buf_printf(text, ".nf\n");
    put(text, lines);
    rg_buf_printf(text, "\n.fi\n");
}

/* One more of a list of pages. */
static void see(struct rg_buf *text, const char *page)
{
    rg_buf_printf(text, ",\n.BR ");
    put(text, page);
    rg_buf_printf(text, " (1)");
}

static void page_reigen(struct rg_buf *text)
{
    heading(text, "reigen", 1, "run data-parallel training");
    rg_buf_printf(text, ".SH SYNOPSIS\n.B reigen\n.I COMMAND\n[ARGUMENT...]\n.SH DESCRIPTION\n");
    fill(text,
        "Reigen runs N copies of one script on the processors you have, and owns their life: it "
        "starts them, carries their input and output, names the one that fails first, and leaves "
        "nothing behind.\n");
    rg_buf_printf(text, ".SH COMMANDS\n");
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        rg_autofree char *left = rg_strf("reigen %s%s%s", c->name, *c->args ? " " : "", c->args);
        entry(text, left ? left : c->name, c->summary);
    }
    rg_buf_printf(text, ".SH ENVIRONMENT\n");
    entry(text, "NO_COLOR", "When set and not empty, reigen uses no colours.");
    rg_buf_printf(text, ".SH SEE ALSO\n.BR reigen\\-run (1),\n.BR reigen\\-explain (1),\n"
                        ".BR reigen\\-job (5),\n.BR horovodrun (1)");
    for (const struct rg_script *s = rg_scripts; s->command; s++)
        see(text, s->page);
    for (const struct rg_command_page *p = rg_command_pages; p->command; p++) {
        rg_autofree char *name = rg_strf("reigen-%s", p->command);
        see(text, name ? name : p->command);
    }
    rg_buf_printf(text, "\n");
}

static void exit_codes(struct rg_buf *text, bool remedies)
{
    size_t count;
    const struct rg_exit_info *table = rg_exit_table(&count);

    for (size_t i = 0; i < count; i++) {
        char left[48];
        if (table[i].code == RG_EXIT_SIGNAL)
            snprintf(left, sizeof left, "128+n (%s)", rg_exit_name(table[i].code));
        else
            snprintf(left, sizeof left, "%d (%s)", table[i].code, rg_exit_name(table[i].code));
        entry(text, left, table[i].meaning);
        if (remedies) {
            rg_buf_printf(text, ".br\n");
            fill(text, table[i].remedy);
        }
    }
}

static void page_run(struct rg_buf *text)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);

    heading(text, "reigen-run", 1, "run copies of a command, together");
    rg_buf_printf(text, ".SH SYNOPSIS\n.B reigen run\n[OPTION...] [\\-\\-] COMMAND [ARGUMENT...]\n"
                        ".SH DESCRIPTION\n");
    fill(text,
        "Runs copies of COMMAND, called ranks. The job ends when all have ended; when one fails, "
        "the "
        "others get SIGTERM and, after the grace time, SIGKILL, and reigen names the rank that "
        "failed first.\n");
    paragraph(text,
              "Options have one dash or two, and their value after a space or '='. Names are not "
              "abbreviated. Options end at -- or at the first argument that is none. Flags of "
              "torchrun, mpirun, mpiexec, srun, accelerate and deepspeed are understood, too; "
              "docs/launchers.md lists them.");
    paragraph(
        text,
        "SIGINT and SIGTERM reach every rank; a second one ends the job at once. SIGTSTP stops "
        "the ranks and reigen, SIGCONT resumes both. SIGHUP, SIGUSR1, SIGUSR2 and SIGWINCH are "
        "handed on.");
    rg_buf_printf(text, ".SH OPTIONS\n");
    for (int group = 0; group < RG_GROUP_COUNT; group++) {
        rg_buf_printf(text, ".SS \"%s\"\n", rg_option_group_title(group));
        for (size_t i = 0; i < count; i++) {
            rg_autobuf struct rg_buf left = RG_BUF_INIT;
            if ((int) options[i].group != group)
                continue;
            rg_option_print(&left, &options[i]);
            entry(text, rg_buf_text(&left), options[i].help);
        }
    }
    rg_buf_printf(text, ".SH OUTPUT\n");
    fill(text,
        "With more than one rank, lines are shown whole and begin with [rank]; what follows a line "
        "longer than 64 KiB begins with [rank]+. One rank alone is shown as it is.\n");
    rg_buf_printf(text, ".SH EXIT STATUS\n");
    exit_codes(text, false);
    rg_buf_printf(text, ".SH EXAMPLES\n");
    example(text, "reigen run -np 4 -- python train.py\n"
                  "reigen run -np 2 --output-dir logs --timeout 2h -- ./train");
    rg_buf_printf(text, ".SH SEE ALSO\n.BR reigen\\-explain (1),\n.BR reigen\\-job (5)\n");
}

static void page_explain(struct rg_buf *text)
{
    heading(text, "reigen-explain", 1, "say what an exit code means");
    rg_buf_printf(text, ".SH SYNOPSIS\n.B reigen explain\n[CODE]\n.SH DESCRIPTION\n");
    fill(text,
        "Prints what an exit code of reigen run means, and what to do. Without CODE it prints the "
        "table.\n");
    rg_buf_printf(text, ".SH EXIT CODES\n");
    exit_codes(text, true);
    rg_buf_printf(text, ".SH SEE ALSO\n.BR reigen\\-run (1)\n");
}

static void page_job(struct rg_buf *text)
{
    static const char *const kinds[] = {
        "", "", "true or false", "one or a list", "a list, or a mapping NAME: VALUE",
        "one, a list, or a mapping HOST: SLOTS",
    };
    size_t count;
    const struct rg_option *options = rg_options(&count);

    heading(text, "reigen-job", 5, "the job file of reigen run");
    rg_buf_printf(text, ".SH DESCRIPTION\n");
    fill(text,
        "A YAML file with one mapping, read by reigen run --config. Its keys are the names of the "
        "options of reigen-run(1), and their values mean the same; options on the command line "
        "override it. Unknown keys, repeated keys and wrong values are errors, shown with file, "
        "line "
        "and column. Aliases and tags are not allowed.\n");
    rg_buf_printf(text, ".SH KEYS\n");
    for (const struct rg_jobfile_key *k = rg_jobfile_keys; k->name; k++) {
        rg_autofree char *left = rg_strf("%s: %s", k->name, k->arg);
        entry(text, left ? left : k->name, k->help);
    }
    for (size_t i = 0; i < count; i++) {
        const struct rg_option *o = &options[i];
        if (o->file == RG_FILE_NONE)
            continue;
        const char *kind = kinds[o->file];
        rg_autofree char *left = rg_strf("%s: %s%s%s%s", rg_option_key(o), o->arg ? o->arg : "",
                                         o->arg && *kind ? " (" : "", kind,
                                         o->arg && *kind ? ")" : "");
        entry(text, left ? left : o->name, o->help);
    }
    rg_buf_printf(text, ".SH EXAMPLE\n");
    example(text,
            "command: [python, train.py, --epochs, \"4\"]\nnp: 4\nenv:\n  OMP_NUM_THREADS: 1\n"
            "  LANG:\nshare-env: [API_TOKEN]\noutput-dir: logs\ntimeout: 2h");
    rg_buf_printf(text, ".SH SEE ALSO\n.BR reigen\\-run (1)\n");
}

static void horovodrun_keys(struct rg_buf *text, const struct rg_hvd_option *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!flags[i].key)
            continue;
        rg_autofree char *left = rg_strf("%s: %s", flags[i].key,
                                         flags[i].arg ? flags[i].arg : "true or false");
        rg_autofree char *right = strchr(flags[i].key, '.') ? rg_strf("As --%s.", flags[i].name)
                                                            : strdup(flags[i].help);
        entry(text, left ? left : flags[i].key, right ? right : flags[i].help);
    }
}

static void page_horovodrun(struct rg_buf *text)
{
    size_t count;
    const struct rg_hvd_option *flags = rg_hvd_options(&count);

    heading(text, "horovodrun", 1, "run copies of a command with Horovod's flags");
    rg_buf_printf(text, ".SH SYNOPSIS\n.B horovodrun\n\\-np N [FLAG...] COMMAND [ARGUMENT...]\n"
                        ".SH DESCRIPTION\n");
    fill(text,
        "Runs copies of COMMAND, called ranks, as reigen run does, for command lines written for "
        "Horovod's command of this name. reigen horovodrun is the same. Each line of a rank's "
        "output begins with [rank]<stdout>: or [rank]<stderr>:\n");
    paragraph(text, "Flags have one dash or two, and their value after a space or '='. A long "
                    "name may be shortened as long as one flag has that beginning. The command "
                    "begins at the first argument that is no flag, or after --.");
    rg_buf_printf(text, ".SH OPTIONS\n");
    for (int group = 0; group < RG_HVD_GROUP_COUNT; group++) {
        rg_buf_printf(text, ".SS \"%s\"\n", rg_hvd_group_title(group));
        for (size_t i = 0; i < count; i++) {
            rg_autobuf struct rg_buf left = RG_BUF_INIT;
            struct rg_option option = rg_hvd_as_option(&flags[i]);
            if ((int) flags[i].group != group || (flags[i].key && !strchr(flags[i].key, '.')))
                continue;
            rg_option_print(&left, &option);
            entry(text, rg_buf_text(&left), flags[i].help);
        }
    }
    rg_buf_printf(text, ".SH CONFIGURATION FILE\n");
    fill(text, "The YAML file of --config-file is a mapping of sections: params, autotune, "
              "timeline, stall_check, library_options and logging. Unknown keys and wrong values "
              "are errors, shown with line and column. section.key:\n");
    horovodrun_keys(text, flags, count);
    rg_buf_printf(text, ".SH EXIT STATUS\n");
    exit_codes(text, false);
    rg_buf_printf(text, ".SH EXAMPLES\n");
    example(text, "horovodrun -np 4 python train.py\n"
                  "horovodrun -np 4 -H localhost:4 --output-filename logs python train.py");
    rg_buf_printf(text, ".SH SEE ALSO\n.BR reigen\\-run (1),\n.BR reigen\\-explain (1)\n");
}

static void page_script(struct rg_buf *text, const struct rg_script *s)
{
    rg_autofree char *names = rg_strf("%s, %s", s->page, s->name);
    struct rg_script_option option;

    title(text, s->page, 1);
    fill(text, names ? names : s->page);
    rg_buf_printf(text, "\\- ");
    put(text, s->summary);
    rg_buf_printf(text, "\n.SH SYNOPSIS\n");
    for (int i = 0; i < 2; i++) {
        rg_buf_printf(text, "%s.B %s%s\n", i ? ".br\n" : "", s->under, i ? s->name : "reigen");
        if (!i)
            rg_buf_printf(text, ".B %s\n", s->command);
        put(text, s->usage);
        rg_buf_printf(text, "\n");
    }
    rg_buf_printf(text, ".SH DESCRIPTION\n");
    fill(text, s->about);
    rg_buf_printf(text, ".SH OPTIONS\n");
    for (size_t i = 0; s->option(i, &option); i++) {
        rg_autobuf struct rg_buf left = RG_BUF_INIT;
        rg_script_option_print(&left, &option);
        entry(text, rg_buf_text(&left), option.help);
    }
    rg_buf_printf(text, ".SH EXIT STATUS\n");
    fill(text, s->status);
    rg_buf_printf(text, ".SH EXAMPLES\n.nf\n");
    put(text, s->examples);
    rg_buf_printf(text, ".fi\n.SH SEE ALSO\n.BR reigen (1),\n.BR reigen\\-explain (1)");
    for (const struct rg_script *other = rg_scripts; other->command; other++)
        if (other != s)
            see(text, other->page);
    rg_buf_printf(text, "\n");
}

/* The page of a command that has no tables but rg_commands' line. */
static void page_command(struct rg_buf *text, const struct rg_command_page *p)
{
    const struct rg_command *c = rg_commands;
    rg_autofree char *name = rg_strf("reigen-%s", p->command);

    while (c->name && strcmp(c->name, p->command) != 0)
        c++;
    heading(text, name ? name : p->command, 1, p->summary);
    rg_buf_printf(text, ".SH SYNOPSIS\n.B reigen %s\n", p->command);
    put(text, c->name ? c->args : "");
    rg_buf_printf(text, "\n.SH DESCRIPTION\n");
    fill(text, c->name ? c->summary : "");
    if (p->about)
        paragraph(text, p->about);
    for (size_t i = 0; p->options && p->options[i]; i += 2) {
        if (i == 0)
            rg_buf_printf(text, ".SH OPTIONS\n");
        entry(text, p->options[i], p->options[i + 1]);
    }
    if (p->examples) {
        rg_buf_printf(text, ".SH EXAMPLES\n");
        example(text, p->examples);
    }
    rg_buf_printf(text, ".SH SEE ALSO\n.BR reigen (1)");
    for (const char *s = p->see ? p->see : ""; *s; s += strcspn(s, " "), s += *s == ' ') {
        rg_autofree char *page = strndup(s, strcspn(s, " "));
        see(text, page ? page : s);
    }
    rg_buf_printf(text, "\n");
}

/* "run" and "reigen-run" mean the same page. */
static bool is_page(const char *page, const char *asked)
{
    return strcmp(page, asked) == 0 ||
           (rg_str_starts(page, "reigen-") && strcmp(page + strlen("reigen-"), asked) == 0);
}

int rg_manual_print(struct rg_buf *text, const char *page)
{
    static void (*const pages[])(struct rg_buf *) = {page_reigen, page_run, page_explain, page_job,
                                                  page_horovodrun};
    const struct rg_script *script = rg_script_find(page);

    for (size_t i = 0; i < rg_array_len(pages); i++) {
        if (is_page(rg_manual_pages[i], page)) {
            pages[i](text);
            return rg_buf_status(text);
        }
    }
    for (const struct rg_command_page *p = rg_command_pages; p->command; p++) {
        if (rg_str_starts(page, "reigen-") ? strcmp(page + strlen("reigen-"), p->command) == 0
                                           : strcmp(page, p->command) == 0) {
            page_command(text, p);
            return rg_buf_status(text);
        }
    }
    if (!script)
        return -ENOENT;
    page_script(text, script);
    return rg_buf_status(text);
}

static int no_page(const char *name)
{
    char guess[96];
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    for (size_t i = 0; rg_manual_pages[i]; i++)
        rg_buf_printf(&names, "%s%s", !i ? "" : rg_manual_pages[i + 1] ? ", " : " or ",
                      rg_manual_pages[i]);
    return rg_fail_usage("man", "man %.80s: no such page; give %s%s", name,
                         rg_buf_text(&names), rg_args_guess(name, rg_manual_pages, guess));
}

/* 0, or -errno where no pager could be started. */
static int show(const char *text)
{
    static const char pager[] =
        "pager=${MANPAGER:-${PAGER:-$(command -v less || command -v more || echo cat)}}; "
        "LESS=${LESS--FRX}; export LESS; eval \"exec $pager\"";
    FILE *f = popen(pager, "we");

    if (!f)
        return -errno;
    /* Who has read enough hangs up. */
    fputs(text, f);
    int status = pclose(f);

    return WIFEXITED(status) && WEXITSTATUS(status) >= 126 ? -ENOENT : 0;
}

int rg_cmd_man(int argc, char **argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT, shown = RG_BUF_INIT;
    bool roff = false;
    const struct rg_arg args[] = { { .name = "roff", .flag = &roff }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (rg_manual_print(&text, n ? argv[1] : "reigen") == -ENOENT)
        return no_page(argv[1]);
    if (roff)
        return rg_print(rg_buf_text(&text));
    rg_manual_text(&shown, rg_buf_text(&text), rg_terminal_columns(1), rg_terminal_colour(1));
    if (isatty(1) && show(rg_buf_text(&shown)) == 0)
        return 0;
    return rg_print(rg_buf_text(&shown));
}
