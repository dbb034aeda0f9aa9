/* SPDX-License-Identifier: Apache-2.0 */
/* Job files of OpenPAI: findings are printed as compilers print theirs, so that editors find the
 * place; a converted file is whole, or it is not there. */
#include "cmd/pai/command.h"

#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/say.h"
#include "head/console/args.h"
#include "head/console/command.h"
#include "head/console/exit.h"
#include "head/console/json.h"
#include "platform/openpai/jobfile/pai.h"
#include "platform/openpai/jobfile/prologue.h"

#define FILE_NBYTES_MAX (1u << 20)

/* A file that was read, and what was found in it. */
struct file {
    const char *path;
    struct rg_pai job;
    struct rg_pai_findings found;
};

static void file_fini(struct file *file)
{
    rg_pai_fini(&file->job);
    rg_pai_findings_fini(&file->found);
}

static int read_file(struct file *file, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    int r = rg_read_named("job file", file->path, FILE_NBYTES_MAX, &text, &nbytes, err);

    return r < 0 ? r : rg_pai_read(file->path, text, nbytes, &file->job, &file->found, err);
}

/* A line whose words come from a file: names in it may hold anything. */
static void put_line(struct rg_buf *text, const char *path, const char *line)
{
    rg_buf_printf(text, "%s:", path);
    for (; *line; line++)
        rg_buf_put_u8(text, (unsigned char) *line < ' ' || *line == 0x7f ? '?' : (uint8_t) *line);
    rg_buf_put(text, "\n", 1);
}

static void put_finding(struct rg_buf *text, const char *path, const struct rg_pai_finding *f)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    rg_buf_printf(&line, "%d:%d: %s: %s%s%s, %s; %s", f->line, f->column,
                  f->is_error ? "error" : "warning", f->path, *f->path ? ": " : "", f->what,
                  f->rule, f->remedy);
    put_line(text, path, rg_buf_text(&line));
}

static void put_findings(struct rg_buf *text, const struct file *file)
{
    const struct rg_pai_findings *found = &file->found;
    size_t nmore = found->nerrors + found->nwarnings - found->count;

    for (size_t i = 0; i < found->count; i++)
        put_finding(text, file->path, &found->v[i]);
    if (nmore)
        rg_buf_printf(text, "%s: %zu more are not shown\n", file->path, nmore);
}

/* --- check ------------------------------------------------------------------------------------ */

static json_t *finding_json(const struct rg_pai_finding *f)
{
    return json_pack("{s:s, s:b, s:o, s:i, s:i, s:o, s:o, s:o, s:o}", "severity",
                     f->is_error ? "error" : "warning", "converting_repairs", (int) f->mends,
                     "path", rg_json_text(f->path), "line", f->line, "column", f->column, "what",
                     rg_json_text(f->what), "rule", rg_json_text(f->rule), "remedy",
                     rg_json_text(f->remedy), "instead",
                     f->instead ? rg_json_text(f->instead) : json_null());
}

static void put_json(struct rg_buf *text, const struct file *file)
{
    json_t *list = json_array();

    for (size_t i = 0; i < file->found.count; i++)
        json_array_append_new(list, finding_json(&file->found.v[i]));
    rg_json_put(text, json_pack("{s:o, s:i, s:I, s:I, s:o}", "file", rg_json_text(file->path),
                                "version", file->job.version, "errors",
                                (json_int_t) file->found.nerrors, "warnings",
                                (json_int_t) file->found.nwarnings, "findings", list),
                JSON_INDENT(2));
}

static int check(int argc, char **argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_cleanup(file_fini) struct file file = { .job = RG_PAI_INIT, .found = RG_PAI_FINDINGS_INIT };
    struct rg_error err = RG_ERROR_INIT;
    bool json = false;
    const struct rg_arg args[] = { { "json", 0, NULL, &json, NULL }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage("pai", "pai check: it needs a file: reigen pai check FILE");
    file.path = argv[1];
    if (read_file(&file, &err) < 0)
        return rg_fail(&err, "pai");
    if (json)
        put_json(&text, &file);
    else
        put_findings(&text, &file);
    if (!json && !file.found.nerrors)
        rg_buf_printf(&text, "%s: a job of %s, without errors\n", file.path,
                      file.job.version == 1 ? "API v1" : "protocol v2");
    if (rg_buf_status(&text) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, NULL);
    int code = json ? rg_print_exact(rg_buf_text(&text)) : rg_print(rg_buf_text(&text));
    return code ? code : file.found.nerrors ? RG_EXIT_USAGE : 0;
}

/* --- convert ---------------------------------------------------------------------------------- */

/* What was found, and what converting has changed, for the person at standard error. */
static void tell(const struct file *file, const struct rg_strv *words)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT, line = RG_BUF_INIT;

    put_findings(&text, file);
    for (size_t i = 0; i < words->count; i++) {
        rg_buf_printf(&line, " %s", words->v[i]);
        put_line(&text, file->path, rg_buf_text(&line));
        rg_buf_clear(&line);
    }
    rg_say_lines(rg_buf_text(&text));
}

/* What convert was asked for. */
struct wishes {
    int version;
    const char *output;
    bool keep_sleep;
    enum rg_pai_wait wait;
    struct rg_pai_agent_source source;
};

static int convert_job(const struct rg_pai *job, const struct wishes *wishes, struct rg_pai *to,
                       struct rg_strv *words, struct rg_error *err)
{
    int r = rg_pai_convert(job, wishes->version, to, words, err);

    if (r == 0 && !wishes->keep_sleep &&
        rg_pai_mend_waits(job, to, wishes->wait, &wishes->source, words) < 0)
        r = rg_error_memory(err);
    return r;
}

static int convert_file(struct file *file, const struct wishes *wishes)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    rg_cleanup(rg_pai_fini) struct rg_pai to = RG_PAI_INIT;
    struct rg_error err = RG_ERROR_INIT;

    if (read_file(file, &err) < 0)
        return rg_fail(&err, "pai");
    bool fits = file->found.nfatal == 0;
    int r = fits ? convert_job(&file->job, wishes, &to, &words, &err) : 0;
    tell(file, &words);
    if (!fits)
        return rg_fail_usage("pai", "%s: it is not converted: its errors come first", file->path);
    if (r < 0) {
        rg_error_prepend(&err, "%s", file->path);
        return rg_fail(&err, "pai");
    }
    if (rg_pai_write(&to, &text) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, NULL);
    if (!wishes->output || strcmp(wishes->output, "-") == 0)
        return rg_print_exact(rg_buf_text(&text));
    return rg_print_to(wishes->output, &text, "pai");
}

/* One way of waiting at most. 0, or an exit code after the words. */
static int choose_wait(struct wishes *wishes, bool has_reigen)
{
    bool agent = wishes->source.path || wishes->source.url;
    struct rg_error err = RG_ERROR_INIT;

    if (wishes->keep_sleep + has_reigen + agent > 1)
        return rg_fail_usage("pai", "pai convert: --keep-sleep, --image-has-reigen and the agent's "
                             "way (--agent-url, --agent-path) exclude each other; take one");
    if (rg_pai_agent_source_check(&wishes->source, &err) < 0)
        return rg_fail(&err, "pai");
    wishes->wait = has_reigen ? RG_PAI_WAIT_REIGEN : agent ? RG_PAI_WAIT_AGENT
                                                           : RG_PAI_WAIT_SHELL;
    return 0;
}

static int convert(int argc, char **argv)
{
    rg_cleanup(file_fini) struct file file = { .job = RG_PAI_INIT, .found = RG_PAI_FINDINGS_INIT };
    struct wishes wishes = { .wait = RG_PAI_WAIT_SHELL };
    const char *to = NULL;
    bool has_reigen = false;
    const struct rg_arg args[] = {
        { "to", 0, "v1|v2", NULL, &to },
        { "output", 'o', "FILE", NULL, &wishes.output },
        { "keep-sleep", 0, NULL, &wishes.keep_sleep, NULL },
        { "image-has-reigen", 0, NULL, &has_reigen, NULL },
        { "agent-url", 0, "URL#sha256=HEX", NULL, &wishes.source.url },
        { "agent-path", 0, "PATH", NULL, &wishes.source.path },
        { NULL },
    };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (n == 0 || !to)
        return rg_fail_usage("pai", "pai convert: it needs %s: reigen pai convert --to v1|v2 FILE",
                             n == 0 ? "a file" : "a version");
    if (strcmp(to, "v1") != 0 && strcmp(to, "v2") != 0)
        return rg_fail_usage("pai", "pai convert: --to %.80s: write v1 or v2", to);
    int code = choose_wait(&wishes, has_reigen);
    if (code)
        return code;
    file.path = argv[1];
    wishes.version = to[1] - '0';
    return convert_file(&file, &wishes);
}

int rg_cmd_pai(int argc, char **argv)
{
    static const char *const words[] = { "check", "convert", NULL };
    char near[96];

    if (argc < 2)
        return rg_fail_usage("pai", "pai: what is to be done? Write check or convert");
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return RG_COMMAND_HELP;
    argv[1] = argv[0]; /* in whose name mistakes are told */
    if (strcmp(word, "check") == 0)
        return check(argc - 1, argv + 1);
    if (strcmp(word, "convert") == 0)
        return convert(argc - 1, argv + 1);
    return rg_fail_usage("pai", "pai %.80s: no such thing to do; write check or convert%s", word,
                         rg_args_guess(word, words, near));
}
