/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the build, never installed: it prints the tables of commands, options and exit codes
 * as JSON. tools/texts.py makes the man pages and the shells' completion of them, so that reigen
 * itself carries no code for that, and no text lacks an option.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "cmd/commands.h"
#include "cmd/help/help.h"
#include "platform/drivers.h"
#include "job/request/jobfile.h"

static json_t *names(const struct rg_option *o)
{
    rg_autostrv struct rg_strv all = RG_STRV_INIT;
    json_t *list = json_array();

    rg_option_names(o->name, o->aliases, &all);
    for (size_t i = 0; i < all.count; i++)
        json_array_append_new(list, json_sprintf("%s%s", rg_option_dashes(all.v[i]), all.v[i]));
    return list;
}

static json_t *option(const struct rg_option *o, const char *group)
{
    rg_autobuf struct rg_buf left = RG_BUF_INIT;

    rg_option_print(&left, o);
    return json_pack("{s:o, s:s, s:s, s:s?, s:s?, s:s?, s:s, s:s?, s:i}", "names", names(o),
                     "left", rg_buf_text(&left), "group", group, "arg", o->arg, "arg2", o->arg2,
                     "completes", o->completes, "help", o->help, "key", rg_option_key(o), "file",
                     (int) o->file);
}

static const char *heading(const struct rg_option *o)
{
    struct rg_option_topic topics[RG_TOPICS_MAX];
    const struct rg_option_topic *t = topics;

    rg_option_topics(topics);
    while (t->name && !rg_option_is_in(o, t))
        t++;
    return t->name ? t->title : "";
}

static json_t *options(void)
{
    size_t count;
    const struct rg_option *table = rg_options(&count);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, option(&table[i], heading(&table[i])));
    return list;
}

/* The headings of --help, in its order. */
static json_t *headings(void)
{
    struct rg_option_topic topics[RG_TOPICS_MAX];
    json_t *list = json_array();

    for (size_t i = 0, n = rg_option_topics(topics); i < n; i++)
        json_array_append_new(list, json_string(topics[i].title));
    return list;
}

/* horovodrun's; key is that of its configuration file, and some are there only. */
static json_t *flags(void)
{
    size_t count;
    const struct rg_hvd_option *table = rg_hvd_options(&count);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        struct rg_option as = rg_hvd_as_option(&table[i]);
        json_t *o = option(&as, rg_hvd_group_title(table[i].group));
        json_object_set_new(o, "key", table[i].key ? json_string(table[i].key) : json_null());
        json_object_set_new(o, "value", table[i].arg ? json_string(table[i].arg) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *script(const struct rg_script *s)
{
    json_t *list = json_array();

    for (const struct rg_script_option *o = s->options; o->name; o++) {
        rg_autobuf struct rg_buf left = RG_BUF_INIT;
        rg_script_option_print(&left, o);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:b, s:s?, s:s}", "name", o->name,
                                              "left", rg_buf_text(&left), "arg", o->arg,
                                              "optional", o->optional, "completes", o->completes,
                                              "help", o->help));
    }
    return json_pack("{s:s?, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o}", "name", s->name, "under",
                     s->under, "usage", s->usage, "summary", s->summary, "about", s->about,
                     "status", s->status, "examples", s->examples, "operands", s->operands,
                     "options", list);
}

/* By what stands on the left of each. */
static json_t *lines(const struct rg_command_option *o)
{
    json_t *map = json_object();

    for (; o && o->left; o++)
        json_object_set_new(map, o->left, json_string(o->help));
    return map;
}

static json_t *commands(void)
{
    json_t *list = json_array();

    for (const struct rg_command *c = rg_commands; c->name; c++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s, s:s, s:o, s:o, s:o}", "name",
                                              c->name, "args", c->args, "completes", c->completes,
                                              "summary", c->summary, "brief", rg_command_brief(c),
                                              "options", lines(c->options), "shared",
                                              lines(c->shared), "script",
                                              c->script ? script(c->script) : json_null()));
    return list;
}

static json_t *exits(void)
{
    size_t count;
    const struct rg_exit_info *table = rg_exit_table(&count);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "code", table[i].code,
                                              "name", rg_exit_name(table[i].code), "meaning",
                                              table[i].meaning, "remedy", table[i].remedy));
    return list;
}

static json_t *keys(void)
{
    json_t *list = json_array();

    for (const struct rg_jobfile_key *k = rg_jobfile_keys; k->name; k++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", k->name, "arg", k->arg,
                                              "help", k->help));
    return list;
}

/* The headings of count groups, in the order of --help. */
static json_t *titles(int count, const char *(*title)(int group))
{
    json_t *list = json_array();

    for (int group = 0; group < count; group++)
        json_array_append_new(list, json_string(title(group)));
    return list;
}

int main(void)
{
    rg_drivers_init(); /* their options are among all */

    json_t *all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", RG_VERSION,
                            "commands", commands(), "options", options(), "flags", flags(), "exits",
                            exits(), "keys", keys(), "option_groups",
                            headings(), "flag_groups",
                            titles(RG_HVD_GROUP_COUNT, rg_hvd_group_title));
    int r = all ? json_dumpf(all, stdout, JSON_INDENT(1)) : -1;

    json_decref(all);
    return r < 0 || fflush(stdout) != 0;
}
