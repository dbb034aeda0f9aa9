/* SPDX-License-Identifier: Apache-2.0 */
/* reigen config: which value counts, and who says so. */
#include "cmd/config/command.h"

#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/console/json.h"
#include "head/console/words.h"
#include "job/config/config.h"
#include "job/request/request.h"

#define SCHEMA 1

/* Where a value is from; entry NULL: the environment, or where value is NULL too, nobody. */
struct row {
    const struct rg_option *option;
    const char *value;
    const struct rg_config_entry *entry;
};

struct rows {
    struct row *v;
    size_t count, room;
};

struct asked {
    struct rg_config config;
    int profile;
    const char *by; /* who has named the profile, or NULL */
    bool all;
    struct rows rows;
};

static int add_row(struct rows *rows, const struct rg_option *option, const char *value,
                   const struct rg_config_entry *entry)
{
    if (rows->count == rows->room) {
        size_t room = rows->room ? 2 * rows->room : 64;
        struct row *more = realloc(rows->v, room * sizeof(*more));
        if (!more)
            return -ENOMEM;
        rows->v = more;
        rows->room = room;
    }
    rows->v[rows->count++] = (struct row){ option, value, entry };
    return 0;
}

static int add_option(struct asked *asked, const struct rg_option *option,
                      const struct rg_request *request)
{
    const char *variable = rg_config_variable(option, request);
    size_t before = asked->rows.count;
    int rc = variable ? add_row(&asked->rows, option, variable, NULL) : 0;

    for (size_t i = 0; rc == 0 && !variable && i < asked->config.count; i++) {
        const struct rg_config_entry *e = &asked->config.entries[i];
        if (e->option == option && rg_config_counts(&asked->config, e, asked->profile, request))
            rc = add_row(&asked->rows, option, e->value, e);
    }
    if (rc == 0 && asked->all && asked->rows.count == before)
        rc = add_row(&asked->rows, option, NULL, NULL);
    return rc;
}

/* In the order of --help. */
static int add_options(struct asked *asked, const struct rg_request *request)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++)
        if (options[i].file != RG_FILE_NONE)
            rc = add_option(asked, &options[i], request);
    return rc;
}

/* --- for programs ----------------------------------------------------------------------------- */

static const char *source_of(const struct row *row)
{
    if (row->entry)
        return row->entry->profile == RG_CONFIG_DEFAULTS ? "defaults" : "profile";
    return row->value ? "environment" : "default";
}

static json_t *list_rows(const struct asked *asked)
{
    json_t *list = json_array();

    for (size_t i = 0; i < asked->rows.count; i++) {
        const struct row *r = &asked->rows.v[i];
        bool variable = r->value && !r->entry;
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:s, s:o, s:s?}", "option", rg_option_key(r->option),
                            "value", r->value ? rg_json_text(r->value) : json_null(), "from",
                            source_of(r), "line",
                            r->entry ? json_integer(r->entry->line) : json_null(), "variable",
                            variable ? r->option->variable : NULL));
    }
    return list;
}

static void print_json(const struct asked *asked, struct rg_buf *text)
{
    const struct rg_config *config = &asked->config;
    json_t *profiles = json_array();

    for (size_t i = 0; i < config->profiles.count; i++)
        json_array_append_new(profiles, json_string(config->profiles.v[i]));
    const char *chosen = asked->profile < 0 ? NULL : config->profiles.v[asked->profile];

    rg_json_put(text, json_pack("{s:i, s:o, s:b, s:s?, s:o, s:o}", "schema", SCHEMA, "file",
                                config->path ? rg_json_text(config->path) : json_null(), "found",
                                config->found, "profile", chosen, "profiles", profiles, "options",
                                list_rows(asked)), JSON_INDENT(2));
}

/* --- for people ------------------------------------------------------------------------------- */

static void put_source(const struct asked *asked, const struct row *row, struct rg_buf *text)
{
    const struct rg_config_entry *e = row->entry;

    if (!e)
        rg_shown_printf(text, "%s\n", row->value ? row->option->variable : "default");
    else if (e->profile == RG_CONFIG_DEFAULTS)
        rg_shown_printf(text, "line %d, defaults\n", e->line);
    else
        rg_shown_printf(text, "line %d, profile %s\n", e->line,
                        asked->config.profiles.v[e->profile]);
}

static void put_rows(const struct asked *asked, struct rg_buf *text)
{
    const struct rows *rows = &asked->rows;
    int name = 0, value = 1;

    for (size_t i = 0; i < rows->count; i++) {
        int n = rg_width(rg_option_key(rows->v[i].option));
        int m = rows->v[i].value ? rg_width(rows->v[i].value) : 1;
        name = n > name ? n : name;
        value = m > value && m <= 40 ? m : value;
    }
    for (size_t i = 0; i < rows->count; i++) {
        rg_shown_printf(text, "  %-*s  %-*s  ", name, rg_option_key(rows->v[i].option), value,
                        rows->v[i].value ? rows->v[i].value : "-");
        put_source(asked, &rows->v[i], text);
    }
}

static void print_screen(const struct asked *asked, struct rg_buf *text)
{
    const struct rg_config *config = &asked->config;
    const struct rg_strv *profiles = &config->profiles;

    if (config->path)
        rg_shown_printf(text, "%s%s\n", config->path,
                        config->found    ? ""
                        : config->denied ? " is not for you to read"
                                         : " is not there");
    else
        rg_shown_printf(text, "There is no configuration.\n");
    put_rows(asked, text);
    for (size_t i = 0; i < profiles->count; i++) {
        rg_shown_printf(text, "%s%s", i ? ", " : "profiles: ", profiles->v[i]);
        if ((int) i == asked->profile)
            rg_shown_printf(text, " (in use, by %s)", asked->by);
    }
    rg_buf_printf(text, profiles->count ? "\n" : "");
}

/* --- the command ------------------------------------------------------------------------------ */

/* What stands in profiles that are not in use may be wrong, too. */
static int judge_all(const struct rg_config *config, struct rg_error *err)
{
    int rc = 0;

    for (int i = RG_CONFIG_DEFAULTS; rc == 0 && i < (int) config->profiles.count; i++) {
        rg_cleanup(rg_request_fini) struct rg_request request;
        rg_request_init(&request);
        rc = rg_config_apply(config, i, &request, err);
        rc = rc < 0 ? rc : rg_config_take_hosts(&request, err);
    }
    return rc;
}

static int look(struct asked *asked, const char *profile, struct rg_error *err)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    int rc = rg_config_read(&asked->config, err);

    rg_request_init(&request);
    rc = rc < 0 ? rc : rg_config_choose(&asked->config, profile, &asked->profile, err);
    rc = rc < 0 ? rc : judge_all(&asked->config, err);
    rc = rc < 0 ? rc : rg_config_apply(&asked->config, asked->profile, &request, err);
    asked->by = profile ? "--profile" : RG_CONFIG_PROFILE;
    if (rc == 0 && add_options(asked, &request) < 0)
        rc = rg_error_memory(err);
    return rc;
}

int rg_cmd_config(int argc, char **argv)
{
    struct asked asked = { .config = RG_CONFIG_INIT };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;
    const char *profile = NULL;
    bool json = false;
    const struct rg_arg args[] = { { .name = "profile", .what = "NAME", .value = &profile },
                                   { .name = "all", .letter = 'a', .flag = &asked.all },
                                   { .name = "json", .flag = &json }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 0), code;

    if (n < 0)
        return -1 - n;
    if (look(&asked, profile, &err) < 0) {
        code = rg_fail(&err, "config");
    } else {
        if (json)
            print_json(&asked, &text);
        else
            print_screen(&asked, &text);
        code = rg_print(rg_buf_text(&text));
    }
    free(asked.rows.v);
    rg_config_fini(&asked.config);
    return code;
}
