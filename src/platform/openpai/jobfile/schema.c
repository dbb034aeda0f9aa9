/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of both versions as tables: what the server's schema says of each one by itself. One
 * walk along a table judges a file, so that no field can lack a rule. */
#include <stdio.h>
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

#define FIELDS_MAX 32

enum kind {
    ANY,     /* ends a table where it has no name */
    TEXT,
    INTEGER,
    LOOSE,   /* v1's: an integer, or a text that is one */
    BOOLEAN,
    LIST,    /* of what inside[0] says */
    MAPPING, /* of names of any choice, each with what inside[0] says */
    FIELDS,  /* the table inside, and no others */
    OPEN,    /* the table inside, and others */
    CHOICE,  /* one of the words of rule->names->characters */
    VERSION, /* a text or a number */
    URI,     /* a text or a list of texts */
    TWO,     /* 2 or "2" */
};

/* What a name looks like. */
struct names {
    const char *first;      /* characters that may begin it; NULL: as all others */
    const char *characters; /* NULL: any */
    const char *one_of;     /* at least one of these is in it; NULL: none need be */
    size_t max;             /* characters; 0: any number */
    bool mends;             /* converting repairs it */
    const char *rule, *remedy;
};

struct rule {
    const char *name;
    enum kind kind;
    bool required;
    bool may_be_null;
    int64_t least; /* of an integer; entries of a list or mapping; characters of a text */
    const struct names *names;
    const struct rule *inside;
};

#define LETTERS RG_PAI_LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ANY_INT (RG_PAI_NONE + 1)

/* --- names ------------------------------------------------------------------------------------ */

static const struct names job_v1 = {
    NULL, RG_PAI_WORD "-._", NULL, 0, false, "a job's name in API v1 is [A-Za-z0-9._-]+",
    "use letters, digits, dots, dashes and underscores",
};
static const struct names job_v2 = {
    NULL, RG_PAI_WORD "-_", NULL, 255, false, "a job's name in protocol v2 is [a-zA-Z0-9_-]+, at "
    "most 255 characters, without a dot", "use letters, digits, dashes and underscores",
};
static const struct names role_v1 = {
    NULL, RG_PAI_WORD "._~", NULL, 0, false, "this name in API v1 is [A-Za-z0-9._~]+, without a "
    "dash",
    "use small letters and digits",
};
static const struct names role_v2 = {
    LETTERS "_", RG_PAI_WORD "_", NULL, 0, false, "a role's name in protocol v2 is "
    "[a-zA-Z_][a-zA-Z0-9_]*", "use small letters and digits, a letter first",
};
static const struct names port_v2 = {
    LETTERS "_", RG_PAI_WORD "_", NULL, 0, true, "a port's name in protocol v2 is "
    "[a-zA-Z_][a-zA-Z0-9_]*", "use letters, digits and underscores, no digit first",
};
static const struct names variable = {
    NULL, NULL, RG_PAI_WORD "_", 0, false, "a name in jobEnvs has a letter, a digit or _ in it",
    "give it a name",
};
static const struct names extra_v1 = {
    NULL, RG_PAI_WORD "._", NULL, 0, false, "a name in extras is [A-Za-z0-9._]+ in API v1",
    "use letters, digits, dots and underscores",
};
static const struct names job_type = { .characters = "job" };
static const struct names prerequisite_type = { .characters = "dockerimage script output data" };

/* --- API v1 ----------------------------------------------------------------------------------- */

static const struct rule any[] = { { .kind = ANY } };
static const struct rule texts[] = { { .kind = TEXT } };

static const struct rule port_v1[] = {
    { "label", .kind = TEXT, .required = true, .least = 1, .names = &role_v1 },
    { "beginAt", .kind = LOOSE, .least = ANY_INT },
    { "portNumber", .kind = LOOSE, .least = ANY_INT },
    { .kind = ANY }
};
static const struct rule ports_v1[] = { { .kind = FIELDS, .inside = port_v1 } };

static const struct rule role_fields_v1[] = {
    { "name", .kind = TEXT, .required = true, .least = 1, .names = &role_v1 },
    { "taskNumber", .kind = LOOSE, .least = ANY_INT },
    { "cpuNumber", .kind = LOOSE, .least = ANY_INT },
    { "memoryMB", .kind = LOOSE, .least = ANY_INT },
    { "shmMB", .kind = LOOSE, .least = ANY_INT },
    { "gpuNumber", .kind = LOOSE, .least = ANY_INT },
    { "portList", .kind = LIST, .inside = ports_v1 },
    { "command", .kind = TEXT, .required = true, .least = 1 },
    { "minFailedTaskCount", .kind = LOOSE, .may_be_null = true, .least = 1 },
    { "minSucceededTaskCount", .kind = LOOSE, .may_be_null = true, .least = 1 },
    { .kind = ANY }
};
static const struct rule roles_v1[] = { { .kind = FIELDS, .inside = role_fields_v1 } };

static const struct rule fields_v1[] = {
    { "jobName", .kind = TEXT, .required = true, .least = 1, .names = &job_v1 },
    { "image", .kind = TEXT, .required = true, .least = 1 },
    { "authFile", .kind = TEXT },
    { "dataDir", .kind = TEXT },
    { "outputDir", .kind = TEXT },
    { "codeDir", .kind = TEXT },
    { "virtualCluster", .kind = TEXT },
    { "gpuType", .kind = TEXT },
    { "retryCount", .kind = LOOSE, .least = -2 },
    { "killAllOnCompletedTaskNumber", .kind = LOOSE, .least = ANY_INT },
    { "jobEnvs", .kind = MAPPING, .names = &variable, .inside = any },
    { "extras", .kind = MAPPING, .names = &extra_v1, .inside = any },
    { "taskRoles", .kind = LIST, .required = true, .least = 1, .inside = roles_v1 },
    { .kind = ANY }
};

/* --- protocol v2 ------------------------------------------------------------------------------ */

static const struct rule auth_fields[] = {
    { "username", .kind = TEXT },
    { "password", .kind = TEXT },
    { "registryuri", .kind = TEXT },
    { .kind = ANY }
};
static const struct rule prerequisite_fields[] = {
    { "protocolVersion", .kind = TWO },
    { "name", .kind = TEXT, .required = true },
    { "type", .kind = CHOICE, .required = true, .names = &prerequisite_type },
    { "version", .kind = VERSION },
    { "contributor", .kind = TEXT },
    { "description", .kind = TEXT },
    { "uri", .kind = URI },
    { "auth", .kind = FIELDS, .inside = auth_fields },
    { "plugin", .kind = TEXT },
    { "require", .kind = LIST, .inside = texts },
    { .kind = ANY }
};
static const struct rule prerequisites[] = { { .kind = FIELDS, .inside = prerequisite_fields } };

static const struct rule one_port[] = { { .kind = INTEGER, .least = ANY_INT } };
static const struct rule resource_fields[] = {
    { "cpu", .kind = INTEGER, .required = true, .least = ANY_INT },
    { "memoryMB", .kind = INTEGER, .required = true, .least = ANY_INT },
    { "gpu", .kind = INTEGER, .required = true, .least = ANY_INT },
    { "ports", .kind = MAPPING, .least = 1, .names = &port_v2, .inside = one_port },
    { .kind = ANY }
};
static const struct rule completion_fields[] = {
    { "minFailedInstances", .kind = INTEGER, .may_be_null = true, .least = ANY_INT },
    { "minSucceededInstances", .kind = INTEGER, .may_be_null = true, .least = ANY_INT },
    { .kind = ANY }
};
static const struct rule container_fields[] = {
    { "shmMB", .kind = INTEGER, .least = ANY_INT },
    { "infiniband", .kind = BOOLEAN },
    { .kind = ANY }
};
static const struct rule role_fields_v2[] = {
    { "protocolVersion", .kind = TWO },
    { "instances", .kind = INTEGER, .least = 1 },
    { "completion", .kind = FIELDS, .inside = completion_fields },
    { "taskRetryCount", .kind = INTEGER, .least = ANY_INT },
    { "dockerImage", .kind = TEXT, .required = true },
    { "data", .kind = TEXT },
    { "output", .kind = TEXT },
    { "script", .kind = TEXT },
    { "prerequisites", .kind = LIST, .inside = texts },
    { "extraContainerOptions", .kind = OPEN, .inside = container_fields },
    { "resourcePerInstance", .kind = FIELDS, .required = true, .inside = resource_fields },
    { "commands", .kind = LIST, .required = true, .least = 1, .inside = texts },
    { .kind = ANY }
};
static const struct rule roles_v2[] = { { .kind = FIELDS, .inside = role_fields_v2 } };

static const struct rule deployed_fields[] = {
    { "preCommands", .kind = LIST, .least = 1, .inside = texts },
    { "postCommands", .kind = LIST, .least = 1, .inside = texts },
    { .kind = ANY }
};
static const struct rule deployed[] = { { .kind = FIELDS, .inside = deployed_fields } };
static const struct rule deployment_fields[] = {
    { "name", .kind = TEXT, .required = true },
    { "taskRoles", .kind = MAPPING, .required = true, .least = 1, .names = &role_v2,
      .inside = deployed },
    { .kind = ANY }
};
static const struct rule deployments[] = { { .kind = FIELDS, .inside = deployment_fields } };
static const struct rule default_fields[] = {
    { "virtualCluster", .kind = TEXT }, { "deployment", .kind = TEXT }, { .kind = ANY }
};

static const struct rule fields_v2[] = {
    { "protocolVersion", .kind = TWO, .required = true },
    { "name", .kind = TEXT, .required = true, .least = 1, .names = &job_v2 },
    { "type", .kind = CHOICE, .required = true, .names = &job_type },
    { "version", .kind = VERSION },
    { "contributor", .kind = TEXT },
    { "description", .kind = TEXT },
    { "prerequisites", .kind = LIST, .inside = prerequisites },
    { "parameters", .kind = MAPPING, .inside = any },
    { "secrets", .kind = MAPPING, .inside = any },
    { "jobRetryCount", .kind = INTEGER, .least = 0 },
    { "taskRoles", .kind = MAPPING, .required = true, .least = 1, .names = &role_v2,
      .inside = roles_v2 },
    { "deployments", .kind = LIST, .least = 1, .inside = deployments },
    { "defaults", .kind = OPEN, .inside = default_fields },
    { "extras", .kind = MAPPING, .inside = any },
    { .kind = ANY }
};

/* --- one walk for all ------------------------------------------------------------------------- */

static void judge(struct rg_pai_check *check, const struct rg_pai_at *at, const struct rule *rule);

bool rg_pai_is_of(const char *text, const char *characters)
{
    return *text && !text[strspn(text, characters)];
}

static bool is_named(const struct names *names, const char *text)
{
    return (!names->characters || rg_pai_is_of(text, names->characters)) &&
           (!names->first || strchr(names->first, *text)) &&
           (!names->one_of || strpbrk(text, names->one_of)) &&
           (!names->max || strlen(text) <= names->max);
}

bool rg_pai_is_port_v2(const char *label)
{
    return is_named(&port_v2, label);
}

static void wrong(struct rg_pai_check *check, const struct rg_pai_at *at, const char *rule,
                  const char *remedy)
{
    rg_pai_report(check, at, RG_PAI_ERROR, NULL, rule, remedy);
}

static void judge_text(struct rg_pai_check *check, const struct rg_pai_at *at,
                       const struct rule *rule)
{
    if (rg_pai_is_date(check, at->value))
        rg_pai_report(check, at, RG_PAI_MENDED, NULL,
                      "it is a text, and YAML takes this for a date", "write it in quotes");
    else if (!json_is_string(at->value))
        wrong(check, at, "it is a text", "write it in quotes");
    else if (rule->least && !*json_string_value(at->value))
        wrong(check, at, "it is a text that is not empty", "fill it in");
    else if (rule->names && !is_named(rule->names, json_string_value(at->value)))
        wrong(check, at, rule->names->rule, rule->names->remedy);
}

static void judge_integer(struct rg_pai_check *check, const struct rg_pai_at *at,
                          const struct rule *rule)
{
    char text[96] = "it is an integer";
    int64_t n = rg_pai_int(at->value, rule->kind == LOOSE);

    if (rule->least != ANY_INT)
        snprintf(text, sizeof text, "it is an integer of at least %lld%s", (long long) rule->least,
                 rule->may_be_null ? ", or null" : "");
    else if (rule->may_be_null)
        snprintf(text, sizeof text, "it is an integer, or null");
    if (n == RG_PAI_NONE || n < rule->least)
        wrong(check, at, text, "write a number without a fraction");
}

static void judge_choice(struct rg_pai_check *check, const struct rg_pai_at *at,
                         const struct rule *rule)
{
    char text[96];

    if (rg_str_has_word(rule->names->characters, json_string_value(at->value) ?: " "))
        return;
    snprintf(text, sizeof text, "it is one of: %s", rule->names->characters);
    wrong(check, at, text, "write one of them");
}

static void judge_uri(struct rg_pai_check *check, const struct rg_pai_at *at)
{
    const json_t *item;
    bool fits = json_is_string(at->value) || json_is_array(at->value);
    size_t i;

    json_array_foreach(at->value, i, item)
        fits = fits && json_is_string(item);
    if (!fits)
        wrong(check, at, "it is a text, and of data a list of texts", "write it in quotes");
}

/* An empty list or mapping, or what is none. False: there is nothing in it to judge. */
static bool judge_box(struct rg_pai_check *check, const struct rg_pai_at *at,
                      const struct rule *rule)
{
    bool is_list = rule->kind == LIST;

    if (is_list ? !json_is_array(at->value) : !json_is_object(at->value)) {
        wrong(check, at, is_list ? "it is a list" : "it is a mapping",
              is_list ? "write its items in [ ]" : "write fields with values");
        return false;
    }
    if (rule->least && !json_array_size(at->value) && !json_object_size(at->value))
        wrong(check, at, is_list ? "the list has at least one item"
                                 : "the mapping has at least one entry",
              rule->required ? "fill it in" : "fill it in, or leave the field out");
    return true;
}

/* OpenPAI's own converter of v1 wrote "default" in the place of "defaults". */
static bool judge_default(struct rg_pai_check *check, const struct rg_pai_at *up, const char *name)
{
    static const struct rule defaults = { .kind = OPEN, .inside = default_fields };
    struct rg_pai_at at = { up, name, 0, NULL };

    if (check->version != 2 || up->up || strcmp(name, "default") != 0 ||
        json_object_get(up->value, "defaults"))
        return false;
    rg_pai_report(check, &at, RG_PAI_MENDED, "an unknown field",
                  "the server refuses fields that it does not know",
                  "write defaults; OpenPAI's own converter got it wrong");
    at.value = json_object_get(up->value, name);
    judge(check, &at, &defaults);
    return true;
}

/* Version 0.14 takes v1's names of the counts in v2's completion, and does nothing about them. */
static bool judge_count(struct rg_pai_check *check, const struct rg_pai_at *up, const char *name)
{
    struct rg_pai_at at = { up, name, 0, NULL };

    if (check->version != 2 || !up->key || strcmp(up->key, "completion") != 0 ||
        !rg_str_has_word(RG_PAI_COUNTS_V1, name))
        return false;
    rg_pai_report(check, &at, RG_PAI_BETTERED, "a field of API v1",
                  "OpenPAI 0.14 takes it and does nothing; later servers refuse it",
                  "write minFailedInstances or minSucceededInstances, or take it out");
    return true;
}

static void judge_unknown(struct rg_pai_check *check, const struct rg_pai_at *up, const char *name,
                          const struct rule *table)
{
    struct rg_pai_at at = { up, name, 0, NULL }; /* so that it stands where its name does */
    const char *words[FIELDS_MAX + 1];
    char remedy[160] = "take it out";
    size_t n = 0;

    for (; table->name && n < FIELDS_MAX; table++)
        words[n++] = table->name;
    words[n] = NULL;
    const char *near = rg_str_nearest(name, words);
    if (near)
        snprintf(remedy, sizeof remedy, "did you mean %s? Else take it out", near);
    rg_pai_report(check, &at, RG_PAI_ERROR, "an unknown field",
                  "the server refuses fields that it does not know", remedy);
}

static void judge_fields(struct rg_pai_check *check, const struct rg_pai_at *at,
                         const struct rule *rule)
{
    const char *name;
    json_t *value;

    for (const struct rule *r = rule->inside; r->name; r++) {
        struct rg_pai_at field = rg_pai_at_key(at, r->name);
        judge(check, &field, r);
    }
    if (rule->kind == OPEN)
        return;
    json_object_foreach(at->value, name, value) {
        const struct rule *r = rule->inside;
        while (r->name && strcmp(r->name, name) != 0)
            r++;
        if (!r->name && !judge_default(check, at, name) && !judge_count(check, at, name))
            judge_unknown(check, at, name, rule->inside);
    }
}

static void judge_each(struct rg_pai_check *check, const struct rg_pai_at *at,
                       const struct rule *rule)
{
    const char *name;
    json_t *value;
    size_t i;

    json_array_foreach(at->value, i, value) {
        struct rg_pai_at item = { at, NULL, i, value };
        judge(check, &item, rule->inside);
    }
    json_object_foreach(at->value, name, value) {
        struct rg_pai_at item = { at, name, 0, NULL };
        if (rule->names && !is_named(rule->names, name))
            rg_pai_report(check, &item, rule->names->mends ? RG_PAI_MENDED : RG_PAI_ERROR,
                          "the name", rule->names->rule, rule->names->remedy);
        item.value = value;
        judge(check, &item, rule->inside);
    }
}

static void judge(struct rg_pai_check *check, const struct rg_pai_at *at, const struct rule *rule)
{
    if (!at->value && rule->required)
        wrong(check, at, "the field is required", "add it");
    if (!at->value || (rule->may_be_null && json_is_null(at->value)))
        return;
    switch (rule->kind) {
    case ANY: break;
    case TEXT: judge_text(check, at, rule); break;
    case INTEGER:
    case LOOSE: judge_integer(check, at, rule); break;
    case CHOICE: judge_choice(check, at, rule); break;
    case URI: judge_uri(check, at); break;
    case VERSION:
        if (!json_is_number(at->value) && !json_is_string(at->value))
            wrong(check, at, "it is a text or a number", "write it in quotes");
        else if (json_is_string(at->value))
            judge_text(check, at, rule);
        break;
    case BOOLEAN:
        if (!json_is_boolean(at->value))
            wrong(check, at, "it is true or false", "write it without quotes");
        break;
    case TWO:
        if (rg_pai_int(at->value, false) != 2 &&
            strcmp(json_string_value(at->value) ?: "", "2") != 0)
            wrong(check, at, "it is 2", "write 2");
        break;
    case LIST:
    case MAPPING:
        if (judge_box(check, at, rule))
            judge_each(check, at, rule);
        break;
    case FIELDS:
    case OPEN:
        if (judge_box(check, at, rule))
            judge_fields(check, at, rule);
    }
}

void rg_pai_judge_fields(struct rg_pai_check *check)
{
    const struct rule root = { .kind = FIELDS,
                               .inside = check->version == 1 ? fields_v1 : fields_v2 };
    struct rg_pai_at at = { NULL, NULL, 0, check->tree };

    judge(check, &at, &root);
}
