/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is made before the first byte is printed: a manifest is whole, or it is not there. */
#include "cmd/render/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/str.h"
#include "head/console/args.h"
#include "head/console/command.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "head/console/words.h"
#include "render/render.h"
#include "job/yaml/manifest.h"

#define LEFT 28

static int print_buf(struct rg_buf *text)
{
    return rg_buf_status(text) < 0 ? rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, NULL)
                                   : rg_print_exact(rg_buf_text(text));
}

/* --- the formats ------------------------------------------------------------------------------ */

static int list_formats(void)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (const struct rg_render_format *f = rg_render_formats; f->name; f++)
        rg_buf_printf(&text, "%-*s %s\n", 20, f->name, f->summary);
    rg_buf_printf(&text, "\nreigen render FORMAT --describe lists the parameters of one.\n");
    return print_buf(&text);
}

static const struct rg_render_format *find_format(const char *name)
{
    const char *words[32];
    size_t n = 0;
    char near[96];

    for (const struct rg_render_format *f = rg_render_formats; f->name; f++) {
        if (strcmp(f->name, name) == 0)
            return f;
        words[n++] = f->name;
    }
    words[n] = NULL;
    rg_fail_usage("render", "render %.80s: no such format, reigen render lists all%s", name,
                  rg_args_guess(name, words, near));
    return NULL;
}

/* --- --describe ------------------------------------------------------------------------------- */

static void describe_param(struct rg_buf *text, const struct rg_render_param *p, int columns)
{
    static const char *const types[] = {
        [RG_RENDER_TEXT] = "string", [RG_RENDER_NUMBER] = "number", [RG_RENDER_FLAG] = "flag",
        [RG_RENDER_BOOL] = "boolean", [RG_RENDER_NAME] = "string", [RG_RENDER_OBJECT] = "string",
        [RG_RENDER_IMAGE] = "string", [RG_RENDER_QUANTITY] = "string",
        [RG_RENDER_CHOICE] = "string", [RG_RENDER_WORDS] = "string", [RG_RENDER_PAIRS] = "string",
        [RG_RENDER_LIST] = "array", [RG_RENDER_MAP] = "object",
    };
    rg_autofree char *left = p->kind == RG_RENDER_FLAG
                                 ? rg_strf("--%s", p->name)
                                 : rg_strf("--%s=<%s>", p->name, p->arg ? p->arg : p->name);
    rg_autofree char *words =
        p->required ? rg_strf("%s [type: %s]", p->help, types[p->kind])
                    : rg_strf("%s [default: %s, type: %s]", p->help,
                              p->initial ? p->initial : "null", types[p->kind]);

    if (left && words)
        rg_put_row(text, left, words, LEFT, columns);
}

static int describe(const struct rg_render_format *format)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int columns = rg_terminal_columns(STDOUT_FILENO);

    rg_buf_printf(&text, "usage: reigen render %s NAME [--PARAMETER VALUE]...%s\n\n", format->name,
                  format->command ? " [-- COMMAND...]" : "");
    rg_wrap(&text, format->about, 0, columns);
    for (int required = 1; required >= 0; required--) {
        rg_buf_printf(&text, "\n%s parameters\n", required ? "Required" : "Optional");
        for (const struct rg_render_param *p = format->params; p->name; p++) {
            if (p->required == (required == 1))
                describe_param(&text, p, columns);
        }
    }
    return print_buf(&text);
}

/* --- the manifest ----------------------------------------------------------------------------- */

static int put_objects(const json_t *objects, struct rg_buf *text, struct rg_error *err)
{
    const json_t *object;
    size_t i;
    int r = 0;

    json_array_foreach(objects, i, object) {
        if (i)
            rg_buf_printf(text, "---\n");
        r = r < 0 ? r : rg_manifest_put(object, text);
    }
    return r < 0 ? rg_error_memory(err) : 0;
}

static int make(const struct rg_render_values *values, struct rg_buf *text, struct rg_error *err)
{
    json_t *objects = json_array();
    int r = objects ? values->format->make(values, objects, err) : -ENOMEM;

    if (r == -ENOMEM)
        rg_error_memory(err);
    r = r < 0 ? r : put_objects(objects, text, err);
    json_decref(objects);
    return r;
}

int rg_cmd_render(int argc, char **argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_render_values values;
    struct rg_error err = RG_ERROR_INIT;

    if (argc < 2)
        return list_formats();
    if (argv[1][0] == '-') {
        int n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 0);
        return n < 0 ? -1 - n : list_formats();
    }
    const struct rg_render_format *format = find_format(argv[1]);
    if (!format)
        return RG_EXIT_USAGE;
    if (rg_render_read(format, argc - 2, argv + 2, &values, &err) < 0)
        return rg_fail(&err, "render");
    if (values.describe || values.help)
        return describe(format);
    if (make(&values, &text, &err) < 0)
        return rg_fail(&err, "render");
    if (!values.output || strcmp(values.output, "-") == 0)
        return print_buf(&text);
    return rg_buf_status(&text) < 0 ? print_buf(&text)
                                    : rg_print_to(values.output, &text, "render");
}
