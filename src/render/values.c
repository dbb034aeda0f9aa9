/* SPDX-License-Identifier: Apache-2.0 */
/* One walk along the arguments serves all formats. A wrong value is refused here, with its
 * parameter's name, before anything is made of the others. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/exitcode.h"
#include "base/json.h"
#include "base/str.h"
#include "render/render.h"
#include "job/yaml/manifest.h"

#define WHAT_MAX 80

static int find(const struct rg_render_format *format, const char *name)
{
    for (int i = 0; format->params[i].name; i++) {
        if (strcmp(format->params[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* --- one value -------------------------------------------------------------------------------- */

/* The next part of a list that commas separate; NULL at its end. *part is freed. */
static bool next_part(const char **at, char **part)
{
    free(*part);
    *part = NULL;
    if (!**at)
        return false;
    size_t n = strcspn(*at, ",");
    *part = strndup(*at, n);
    *at += n + ((*at)[n] == ',' && (*at)[n + 1]);
    return *part;
}

static int check_pairs(const char *what, const char *value, struct rg_error *err)
{
    rg_autofree char *part = NULL;
    rg_autostrv struct rg_strv keys = RG_STRV_INIT;

    for (const char *at = value; next_part(&at, &part);) {
        char *equals = strchr(part, '=');
        if (!equals || equals == part)
            return rg_error_set(err, EINVAL, "%s %.80s: %.60s is no KEY=VALUE; write KEY=VALUE, "
                                "with commas between several", what, value, part);
        *equals = '\0';
        if (rg_strv_has(&keys, part))
            return rg_error_set(err, EINVAL, "%s %.80s: %.60s is there twice; leave one out", what,
                                value, part);
        rg_strv_add(&keys, part);
    }
    return rg_strv_status(&keys);
}

static int check_words(const char *what, const char *value, struct rg_error *err)
{
    const char *last = value + strlen(value) - 1;

    if (*value == ',' || *last == ',' || strstr(value, ",,"))
        return rg_error_set(err, EINVAL, "%s %.80s: there is nothing between two commas; write "
                            "A,B", what, value);
    return 0;
}

static int read_tree(const char *what, const struct rg_render_param *p, const char *value,
                     json_t **ret_tree, struct rg_error *err)
{
    json_t *tree = NULL, *item;
    int r = rg_manifest_read(what, "such a value", value, strlen(value), &tree, err);
    bool fits = p->kind == RG_RENDER_LIST ? json_is_array(tree) : json_is_object(tree);
    size_t i;

    json_array_foreach(tree, i, item)
        fits = fits && json_is_object(item);
    if (r == 0 && fits) {
        *ret_tree = tree;
        return 0;
    }
    json_decref(tree);
    if (r < 0)
        return r;
    return p->kind == RG_RENDER_LIST
               ? rg_error_set(err, EINVAL, "%s %.80s: no list of mappings; write YAML or JSON, as "
                              "[{name: NAME, ...}, ...]", what, value)
               : rg_error_set(err, EINVAL, "%s %.80s: no mapping; write YAML or JSON, as {KEY: "
                              "VALUE, ...}", what, value);
}

static int check(const struct rg_render_param *p, const char *value, struct rg_error *err)
{
    char what[WHAT_MAX];
    json_t *tree = NULL;
    int64_t n;
    int r;

    snprintf(what, sizeof(what), "--%s", p->name);
    if (!rg_json_is_text(value, strlen(value)))
        return rg_error_set(err, EINVAL, "%s: the value is no UTF-8", what);
    switch (p->kind) {
    case RG_RENDER_TEXT:
    case RG_RENDER_FLAG:
        return 0;
    case RG_RENDER_NUMBER:
        return rg_parse_int(what, value, p->min, p->max, &n, err);
    case RG_RENDER_BOOL:
        if (strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0)
            return 0;
        return rg_error_set(err, EINVAL, "%s %.80s: write true or false", what, value);
    case RG_RENDER_NAME:
        return rg_manifest_label(what, value, p->max ? (size_t) p->max : RG_MANIFEST_LABEL_MAX,
                                 err);
    case RG_RENDER_OBJECT:
        return rg_manifest_object(what, value, err);
    case RG_RENDER_IMAGE:
        if (!value[strcspn(value, " \t\n")])
            return 0;
        return rg_error_set(err, EINVAL, "%s %.80s: no image has blanks in its name", what, value);
    case RG_RENDER_QUANTITY:
        return rg_manifest_quantity(what, value, err);
    case RG_RENDER_CHOICE:
        if (rg_str_has_word(p->choices, value))
            return 0;
        return rg_error_set(err, EINVAL, "%s %.80s: write one of: %s", what, value, p->choices);
    case RG_RENDER_WORDS:
        return check_words(what, value, err);
    case RG_RENDER_PAIRS:
        r = check_words(what, value, err);
        return r < 0 ? r : check_pairs(what, value, err);
    case RG_RENDER_LIST:
    case RG_RENDER_MAP:
        r = read_tree(what, p, value, &tree, err);
        json_decref(tree);
        return r;
    }
    return 0;
}

/* --- the command line ------------------------------------------------------------------------- */

static int unknown(const struct rg_render_format *format, const char *word, const char *name,
                   struct rg_error *err)
{
    const char *words[RG_RENDER_PARAMS_MAX + 4];
    size_t n = 0;

    for (const struct rg_render_param *p = format->params; p->name && n < RG_RENDER_PARAMS_MAX; p++)
        words[n++] = p->name;
    words[n++] = "output";
    words[n++] = "describe";
    words[n++] = "help";
    words[n] = NULL;
    const char *near = rg_str_nearest(name, words);
    return rg_error_set(err, EINVAL, "%.80s: %s has no such parameter%s%s%s; --describe lists all",
                        word, format->name, near ? "; did you mean --" : "", near ? near : "",
                        near ? "?" : "");
}

static int add(struct rg_render_values *v, int param, const char *text, struct rg_error *err)
{
    const struct rg_render_param *p = &v->format->params[param];

    /* As with ks, where it is what parameters are that nobody has set. */
    if (strcmp(text, "null") == 0 || (!*text && !p->required && p->kind != RG_RENDER_TEXT))
        return 0;
    if (!*text)
        return rg_error_set(err, EINVAL, "--%s: the value is empty", p->name);
    if (v->count == RG_RENDER_VALUES_MAX)
        return rg_error_set(err, EINVAL, "--%s: more than %d values", p->name,
                            RG_RENDER_VALUES_MAX);
    int r = check(p, text, err);
    if (r < 0)
        return r;
    v->given[v->count].param = param;
    v->given[v->count++].text = text;
    return 0;
}

/* The option at argv[*i], which is moved to the last word that belongs to it. */
static int take(struct rg_render_values *v, int argc, char **argv, int *i, struct rg_error *err)
{
    const char *word = argv[*i], *text = word + (word[1] == '-' ? 2 : 1), *value = NULL;
    char name[WHAT_MAX];

    snprintf(name, sizeof(name), "%.*s", (int) strcspn(text, "="), text);
    if (text[strcspn(text, "=")])
        value = text + strcspn(text, "=") + 1;
    if (strcmp(word, "--describe") == 0 || strcmp(word, "-describe") == 0) {
        v->describe = true;
        return 0;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-help") == 0 || strcmp(word, "-h") == 0) {
        v->help = true;
        return 0;
    }
    bool output = strcmp(name, "o") == 0 || strcmp(name, "output") == 0;
    int param = find(v->format, name);
    if (!output && param < 0)
        return unknown(v->format, word, name, err);
    if (!output && v->format->params[param].kind == RG_RENDER_FLAG)
        return value ? rg_error_set(err, EINVAL, "--%s takes no value", name)
                     : add(v, param, "true", err);
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value)
        return rg_error_set(err, EINVAL, "%s needs a value", word);
    if (!output)
        return add(v, param, value, err);
    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the name of the file is empty", word);
    v->output = value;
    return 0;
}

static int complete(struct rg_render_values *v, struct rg_error *err)
{
    if (find(v->format, "name") >= 0 && rg_render_text(v, "name"))
        v->name = rg_render_text(v, "name");
    if (!v->name)
        return rg_error_set(err, EINVAL, "NAME is missing: reigen render %s NAME ...",
                            v->format->name);
    int r = rg_manifest_label("NAME", v->name, v->format->name_max, err);
    if (r == 0 && v->name[0] <= '9')
        r = rg_error_set(err, EINVAL, "NAME %s: no name for a Service; begin with a letter",
                         v->name);
    for (const struct rg_render_param *p = v->format->params; r == 0 && p->name; p++) {
        if (p->required && strcmp(p->name, "name") != 0 && !rg_render_text(v, p->name))
            r = rg_error_set(err, EINVAL, "--%s is missing; %s needs it", p->name,
                             v->format->name);
    }
    return r;
}

int rg_render_read(const struct rg_render_format *format, int argc, char **argv,
                   struct rg_render_values *ret, struct rg_error *err)
{
    int r = 0;

    *ret = (struct rg_render_values){ .format = format };
    for (int i = 0; r == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            if (!format->command)
                r = rg_error_set(err, EINVAL, "--: %s takes no command there", format->name);
            ret->command = argv + i + 1;
            break;
        }
        if (argv[i][0] == '-' && argv[i][1])
            r = take(ret, argc, argv, &i, err);
        else if (ret->name)
            r = rg_error_set(err, EINVAL, "%.80s: one argument too many; a value with blanks needs "
                             "quotes", argv[i]);
        else
            ret->name = argv[i];
    }
    r = r < 0 || ret->describe || ret->help ? r : complete(ret, err);
    if (r == -EINVAL && err)
        err->exit_code = RG_EXIT_USAGE;
    return r;
}

/* --- what was given --------------------------------------------------------------------------- */

const char *rg_render_nth(const struct rg_render_values *values, const char *param, size_t n)
{
    int place = find(values->format, param);

    for (size_t i = 0; i < values->count; i++) {
        if (values->given[i].param == place && n-- == 0)
            return values->given[i].text;
    }
    return NULL;
}

const char *rg_render_text(const struct rg_render_values *values, const char *param)
{
    int place = find(values->format, param);

    for (size_t i = values->count; i > 0; i--) {
        if (values->given[i - 1].param == place)
            return values->given[i - 1].text;
    }
    return NULL;
}

int64_t rg_render_number(const struct rg_render_values *values, const char *param,
                         int64_t fallback)
{
    const char *text = rg_render_text(values, param);
    int64_t n = fallback;

    if (text)
        rg_parse_int(param, text, INT64_MIN, INT64_MAX, &n, NULL);
    return n;
}

bool rg_render_flag(const struct rg_render_values *values, const char *param)
{
    const char *text = rg_render_text(values, param);

    return text && strcasecmp(text, "true") == 0;
}

static json_t *one_tree(const struct rg_render_param *p, const char *text)
{
    json_t *tree = NULL;
    rg_autofree char *part = NULL;

    if (p->kind == RG_RENDER_LIST || p->kind == RG_RENDER_MAP) {
        read_tree(p->name, p, text, &tree, NULL);
        return tree;
    }
    tree = p->kind == RG_RENDER_PAIRS ? json_object() : json_array();
    while (next_part(&text, &part)) {
        char *equals = p->kind == RG_RENDER_PAIRS ? strchr(part, '=') : NULL;
        if (equals)
            *equals = '\0';
        if (equals)
            json_object_set_new(tree, part, json_string(equals + 1));
        else
            json_array_append_new(tree, json_string(part));
    }
    return tree;
}

json_t *rg_render_tree(const struct rg_render_values *values, const char *param)
{
    const struct rg_render_param *p = &values->format->params[find(values->format, param)];
    const char *text = p->many ? rg_render_nth(values, param, 0) : rg_render_text(values, param);
    json_t *all = text ? one_tree(p, text) : NULL;

    for (size_t n = 1; p->many && all && (text = rg_render_nth(values, param, n)); n++) {
        json_t *more = one_tree(p, text);
        if (json_is_array(all))
            json_array_extend(all, more);
        else
            json_object_update(all, more);
        json_decref(more);
    }
    return all;
}
