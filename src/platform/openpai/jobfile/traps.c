/* SPDX-License-Identifier: Apache-2.0 */
/* What no field by itself shows: the server answers some of it with an error in a few words, and
 * takes the rest, for a job that then hangs, fails or does something else. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

#define PORT_MAX 65535
#define TASKS_MAX_V2 10000    /* of a role, and letters of its short name: frameworkcontroller's */
#define SHORT_NAME_MAX 63

/* --- words of commands ------------------------------------------------------------------------ */

bool rg_pai_template_next(const char *text, struct rg_pai_template *ret_template)
{
    const char *begin = strstr(text, "<%"), *end = begin ? strstr(begin, "%>") : NULL;

    if (!end)
        return false;
    const char *p = begin + 2 + strspn(begin + 2, " \t");
    size_t n = strspn(p + (*p == '$'), RG_PAI_LOWER), name = 0;

    *ret_template = (struct rg_pai_template){ begin, (size_t) (end + 2 - begin), "", "" };
    if (*p == '$' && p[1 + n] == '.')
        name = strcspn(p + n + 2, " \t%");
    if (!name || p + n + 2 + name > end || n >= sizeof(ret_template->kind) ||
        name >= sizeof(ret_template->name))
        return true;
    memcpy(ret_template->kind, p + 1, n);
    memcpy(ret_template->name, p + n + 2, name);
    return true;
}

char *rg_pai_short_name(const char *name)
{
    char *copy = strdup(name), *to = copy;

    for (const char *p = name; copy && *p; p++) {
        if (isalnum((unsigned char) *p))
            *to++ = (char) tolower((unsigned char) *p);
    }
    if (copy)
        *to = '\0';
    return copy;
}

/* The command as it may stand there instead, on the heap. */
static char *waiting(const struct rg_pai_hope *hope)
{
    return rg_strf("reigen wait-workers %s%s", hope->joined ? "&& " : "|| exit $?; ", hope->rest);
}

/* The role whose task 0 is the head, as rg_pai_head says. */
static const json_t *head_of(const struct rg_pai_at *roles)
{
    const json_t *first = json_array_get(roles->value, 0);
    json_t *role;
    const char *name;
    size_t i;

    json_array_foreach(roles->value, i, role) {
        if (strcmp(json_string_value(json_object_get(role, "name")) ?: "", "master") == 0)
            return role;
    }
    json_object_foreach(roles->value, name, role) {
        if (strcmp(name, "master") == 0)
            return role;
        first = first ? first : role;
    }
    return first;
}

/* wait-workers is for the head: any other task of the job waits by it until the head's is over. */
static void judge_sleep(struct rg_pai_check *check, const struct rg_pai_at *roles,
                        const struct rg_pai_at *role, const struct rg_pai_at *command, bool more)
{
    static const char *const fields[] = { "taskNumber", "instances" };
    const char *text = json_string_value(command->value);
    const char *name = role->key ?: json_string_value(json_object_get(role->value, "name"));
    bool barrier = check->version == 2 &&
                   rg_pai_has_barrier(json_object_get(check->tree, "extras"), name ?: "");
    bool is_head = role->value == head_of(roles);
    bool leads = is_head && rg_pai_at_int(role, fields[check->version - 1], 1) == 1;
    struct rg_pai_hope hope;

    if (!text || !rg_pai_hope_find(text, more, is_head, &hope))
        return;
    rg_autofree char *instead = !*hope.rest ? NULL : barrier ? strdup(hope.rest)
                                                   : leads ? waiting(&hope) : NULL;
    rg_pai_suggest(check, command, instead,
                   "it sleeps in the hope that the others are up by then: it waits blindly, too "
                   "long or not long enough",
                   barrier ? "take the sleep out: sshbarrier waits for the others"
                   : leads ? "write reigen wait-workers && in its place, where the image has "
                             "reigen; reigen pai convert puts in what fits"
                           : "reigen pai convert puts in what fits");
}

/* Whether another role ends the job when it has done its part: in v1 it has to say so, in v2 it is
 * so unless it says a number below 0. */
static bool is_ended(const struct rg_pai_at *roles, const json_t *but)
{
    json_t *role;
    const char *name;
    size_t i;
    bool ended = false;

    json_array_foreach(roles->value, i, role)
        ended |= role != but && rg_pai_int(json_object_get(role, "minSucceededTaskCount"),
                                           true) > 0;
    json_object_foreach(roles->value, name, role) {
        struct rg_pai_at at = { .value = json_object_get(role, "completion") };
        ended |= role != but && rg_pai_at_int(&at, "minSucceededInstances", 0) >= 0;
    }
    return ended;
}

/* A role of which no task ends. */
static void judge_end(struct rg_pai_check *check, const struct rg_pai_at *roles,
                      const struct rg_pai_at *role, const struct rg_pai_at *command)
{
    const char *text = json_string_value(command->value);

    if (!text || !rg_pai_sleeps_forever(text) || is_ended(roles, role->value))
        return;
    rg_pai_report(check, command, RG_PAI_WARNING, NULL,
                  "it never ends, and no other role's success ends the job",
                  check->version == 1
                      ? "write \"minSucceededTaskCount\": 1 in the role whose end is the job's"
                      : "write completion: {minSucceededInstances: 1} in the role whose end is the "
                        "job's");
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* at's number is from least to most; most's name is for people. */
static void judge_range(struct rg_pai_check *check, const struct rg_pai_at *up, const char *name,
                        enum rg_pai_weight weight, int64_t least, int64_t most,
                        const char *most_name)
{
    struct rg_pai_at at = rg_pai_at_key(up, name);
    int64_t n = rg_pai_at_int(up, name, RG_PAI_NONE);
    char rule[120];

    if (n == RG_PAI_NONE || (n >= least && n <= most))
        return;
    if (n < least)
        snprintf(rule, sizeof rule, "the server takes it, but a task needs at least %lld",
                 (long long) least);
    else
        snprintf(rule, sizeof rule, "it is at most %s, which is %lld", most_name, (long long) most);
    rg_pai_report(check, &at, weight, NULL, rule,
                  n < least ? "write how many it needs" : "make one smaller, or the other larger");
}

/* The server has numbers as JavaScript has them. */
static void judge_values(struct rg_pai_check *check, const struct rg_pai_at *root,
                         const char *field)
{
    struct rg_pai_at all = rg_pai_at_key(root, field);
    const char *name;
    json_t *value;
    char rule[160];

    json_object_foreach(all.value, name, value) {
        struct rg_pai_at at = { &all, name, 0, value };
        rg_autofree char *text = rg_pai_value_text(value);
        if (rg_pai_is_date(check, value))
            rg_pai_report(check, &at, RG_PAI_BETTERED, NULL, "YAML takes it for a date, and the "
                          "server writes that in other words into commands",
                          "write it in quotes");
        if (!text || !rg_pai_is_rounded(value))
            continue;
        snprintf(rule, sizeof rule, "a whole number beyond 2^53 is rounded: the server makes it %s",
                 text);
        rg_pai_report(check, &at, RG_PAI_WARNING, NULL, rule, "write it in quotes");
    }
}

/* --- API v1 ----------------------------------------------------------------------------------- */

static void judge_counts_v1(struct rg_pai_check *check, const struct rg_pai_at *role)
{
    int64_t tasks = rg_pai_at_int(role, "taskNumber", 1);
    int64_t memory = rg_pai_at_int(role, "memoryMB", RG_PAI_MEMORY_V1);
    bool said = json_object_get(role->value, "memoryMB");

    judge_range(check, role, "taskNumber", RG_PAI_WARNING, 1, INT64_MAX, "");
    judge_range(check, role, "cpuNumber", RG_PAI_WARNING, 1, INT64_MAX, "");
    judge_range(check, role, "memoryMB", RG_PAI_WARNING, 1, INT64_MAX, "");
    judge_range(check, role, "gpuNumber", RG_PAI_WARNING, 0, INT64_MAX, "");
    judge_range(check, role, "shmMB", RG_PAI_ERROR, RG_PAI_NONE, memory,
                said ? "memoryMB" : "memoryMB, by default");
    if (memory < RG_PAI_SHM_V1 && !json_object_get(role->value, "shmMB"))
        rg_pai_report(check, role, RG_PAI_ERROR, "shmMB, by default 64",
                      "it is at most memoryMB", "write shmMB, or make memoryMB larger");
    judge_range(check, role, "minFailedTaskCount", RG_PAI_ERROR, RG_PAI_NONE, tasks, "taskNumber");
    judge_range(check, role, "minSucceededTaskCount", RG_PAI_ERROR, RG_PAI_NONE, tasks,
                "taskNumber");
}

/* An item of a list whose member key has the same text as that of one before it. */
static void judge_twice(struct rg_pai_check *check, const struct rg_pai_at *list, const char *key,
                        enum rg_pai_weight weight, const char *rule)
{
    json_t *seen = json_object();

    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct rg_pai_at item = rg_pai_at_index(list, i), at = rg_pai_at_key(&item, key);
        const char *name = json_string_value(at.value);
        if (name && json_object_get(seen, name))
            rg_pai_report(check, &at, weight, NULL, rule, "give each a name of its own");
        else if (name && json_object_set_new(seen, name, json_true()) < 0)
            check->found->failed = true;
    }
    json_decref(seen);
}

static void judge_role_v1(struct rg_pai_check *check, const struct rg_pai_at *roles,
                          const struct rg_pai_at *role)
{
    struct rg_pai_at command = rg_pai_at_key(role, "command");
    struct rg_pai_at ports = rg_pai_at_key(role, "portList");
    const char *text = json_string_value(command.value) ?: "";

    judge_counts_v1(check, role);
    if (strpbrk(text, "\r\n"))
        rg_pai_report(check, &command, RG_PAI_MENDED, NULL,
                      "the server loses a line break, and runs the lines as one word",
                      "join the lines with && or ;");
    judge_sleep(check, roles, role, &command, false);
    judge_end(check, roles, role, &command);
    judge_twice(check, &ports, "label", RG_PAI_WARNING,
                "another port of the role has this label, and one of them cannot be found");
    for (size_t i = 0; i < json_array_size(ports.value); i++) {
        struct rg_pai_at port = rg_pai_at_index(&ports, i);
        int64_t begin = rg_pai_at_int(&port, "beginAt", 0);
        judge_range(check, &port, "portNumber", RG_PAI_WARNING, 1,
                    begin > 0 && begin <= PORT_MAX ? PORT_MAX + 1 - begin : INT64_MAX,
                    "the number of ports from beginAt on");
        judge_range(check, &port, "beginAt", RG_PAI_WARNING, 0, PORT_MAX, "the last port there is");
    }
}

static void judge_rdma(struct rg_pai_check *check, const struct rg_pai_at *root)
{
    struct rg_pai_at env = rg_pai_at_key(root, "jobEnvs"), at = rg_pai_at_key(&env, RG_PAI_RDMA);
    const char *text = json_string_value(at.value);

    if (!at.value || json_is_boolean(at.value))
        return;
    rg_pai_report(check, &at, text && strcmp(text, "true") == 0 ? RG_PAI_MENDED : RG_PAI_WARNING,
                  NULL, "only true asks for RDMA; the server takes anything else, and gives none",
                  "write true, without quotes");
}

static void judge_v1(struct rg_pai_check *check, const struct rg_pai_at *root)
{
    struct rg_pai_at roles = rg_pai_at_key(root, "taskRoles");
    struct rg_pai_at kill = rg_pai_at_key(root, "killAllOnCompletedTaskNumber");

    if (kill.value)
        rg_pai_report(check, &kill, RG_PAI_WARNING, NULL,
                      "the field is obsolete: the server answers with a warning and does nothing",
                      "write minSucceededTaskCount in the role whose end is the job's end");
    judge_rdma(check, root);
    judge_values(check, root, "jobEnvs");
    judge_twice(check, &roles, "name", RG_PAI_ERROR,
                "another role has this name; the server takes it, and the roles' tasks cannot be "
                "told apart");
    for (size_t i = 0; i < json_array_size(roles.value); i++) {
        struct rg_pai_at role = rg_pai_at_index(&roles, i);
        judge_role_v1(check, &roles, &role);
    }
}

/* --- protocol v2 ------------------------------------------------------------------------------ */

/* The secret that our pages export as REIGEN_KEY. What stands in its place in a file for eyes is no
 * secret yet. */
static void judge_key(struct rg_pai_check *check, const struct rg_pai_at *root)
{
    struct rg_pai_at secrets = rg_pai_at_key(root, "secrets");
    struct rg_pai_at at = rg_pai_at_key(&secrets, "reigenKey");
    const char *text = json_string_value(at.value) ?: "";

    if (strcmp(text, RG_PAI_KEY_PLACE) == 0 || strcmp(text, RG_PAI_MASK) == 0)
        return;
    if (at.value && (strlen(text) != 64 || !rg_pai_is_of(text, RG_PAI_DIGITS "abcdefABCDEF")))
        rg_pai_report(check, &at, RG_PAI_WARNING, "the secret",
                      "as REIGEN_KEY, only a text of 64 hexadecimal digits is taken",
                      "write what openssl rand -hex 32 prints, in quotes");
}

static const json_t *prerequisite(const json_t *tree, const char *type, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(tree, "prerequisites"), i, item) {
        const char *its_type = json_string_value(json_object_get(item, "type"));
        const char *its_name = json_string_value(json_object_get(item, "name"));
        if (its_type && its_name && strcmp(its_type, type) == 0 && strcmp(its_name, name) == 0)
            return item;
    }
    return NULL;
}

static void judge_prerequisite(struct rg_pai_check *check, const struct rg_pai_at *at)
{
    static const char *const others[] = { "plugin", "require" };
    struct rg_pai_at uri = rg_pai_at_key(at, "uri"), auth = rg_pai_at_key(at, "auth");
    struct rg_pai_at name_at = rg_pai_at_key(at, "name");
    const char *type = json_string_value(json_object_get(at->value, "type")) ?: "";
    const char *name = json_string_value(name_at.value) ?: "";
    bool is_image = strcmp(type, "dockerimage") == 0, is_data = strcmp(type, "data") == 0;

    if (!uri.value && (is_image || !json_object_get(at->value, "plugin")))
        rg_pai_report(check, &uri, RG_PAI_ERROR, NULL, "the field is required", "add it");
    else if (uri.value && is_data != json_is_array(uri.value))
        rg_pai_report(check, &uri, RG_PAI_ERROR, NULL,
                      is_data ? "of data it is a list of texts" : "it is a text",
                      is_data ? "write it in [ ]" : "write one text");
    if (auth.value && !is_image)
        rg_pai_report(check, &auth, RG_PAI_ERROR, NULL, "only a dockerimage has it", "take it out");
    for (size_t i = 0; is_image && i < rg_array_len(others); i++) {
        struct rg_pai_at other = rg_pai_at_key(at, others[i]);
        if (other.value)
            rg_pai_report(check, &other, RG_PAI_ERROR, NULL,
                          "a dockerimage has none; only script, output and data have",
                          "take it out");
    }
    const json_t *first = prerequisite(check->tree, type, name);
    if (first && first != at->value)
        rg_pai_report(check, &name_at, RG_PAI_ERROR, NULL,
                      "another prerequisite of this type has this name",
                      "give each a name of its own");
}

/* What a template of the role's names. */
static bool is_known(const struct rg_pai_check *check, const json_t *role,
                     const struct rg_pai_template *found)
{
    char name[sizeof(found->name)];
    size_t n = strcspn(found->name, ".[");

    snprintf(name, sizeof name, "%.*s", (int) n, found->name);
    if (strcmp(found->kind, "parameters") == 0 || strcmp(found->kind, "secrets") == 0)
        return json_object_get(json_object_get(check->tree, found->kind), name) ||
               json_object_get(json_object_get(check->tree, found->kind), found->name);
    return rg_str_has_word("script output data", found->kind) &&
           (!role || json_object_get(role, found->kind));
}

static void judge_templates(struct rg_pai_check *check, const struct rg_pai_at *commands,
                            const json_t *role)
{
    struct rg_pai_template found;
    size_t i;
    json_t *item;

    json_array_foreach(commands->value, i, item) {
        struct rg_pai_at at = { commands, NULL, i, item };
        const char *text = json_string_value(item) ?: "";
        for (; rg_pai_template_next(text, &found); text = found.whole + found.nbytes) {
            char what[128];
            if (is_known(check, role, &found))
                continue;
            snprintf(what, sizeof what, "%.*s", found.nbytes < 100 ? (int) found.nbytes : 99,
                     found.whole);
            rg_pai_report(check, &at, RG_PAI_ERROR, what,
                          "the template names nothing that is there: some servers leave it as it "
                          "stands, others put nothing in its place",
                          "add what it names, or take it out");
        }
    }
}

static void judge_uses(struct rg_pai_check *check, const struct rg_pai_at *role)
{
    static const char *const fields[][2] = { { "dockerImage", "dockerimage" }, { "data", "data" },
                                             { "output", "output" }, { "script", "script" } };

    for (size_t i = 0; i < rg_array_len(fields); i++) {
        struct rg_pai_at at = rg_pai_at_key(role, fields[i][0]);
        const char *name = json_string_value(at.value);
        if (name && !prerequisite(check->tree, fields[i][1], name))
            rg_pai_report(check, &at, RG_PAI_ERROR, NULL,
                          "there is no prerequisite of this type and name",
                          "add it to prerequisites");
    }
}

static void judge_comments(struct rg_pai_check *check, const struct rg_pai_at *commands)
{
    for (size_t i = 0; i + 1 < json_array_size(commands->value); i++) {
        struct rg_pai_at at = rg_pai_at_index(commands, i);
        if (rg_pai_ends_in_comment(json_string_value(at.value) ?: ""))
            rg_pai_report(check, &at, RG_PAI_WARNING, NULL,
                          "OpenPAI 0.14 joins commands into one line, by &&: those behind a "
                          "comment are part of it, and do not run", "take the comment out");
    }
}

static void judge_role_v2(struct rg_pai_check *check, const struct rg_pai_at *roles,
                          const struct rg_pai_at *role)
{
    struct rg_pai_at resource = rg_pai_at_key(role, "resourcePerInstance");
    struct rg_pai_at completion = rg_pai_at_key(role, "completion");
    struct rg_pai_at extra = rg_pai_at_key(role, "extraContainerOptions");
    struct rg_pai_at commands = rg_pai_at_key(role, "commands");
    int64_t instances = rg_pai_at_int(role, "instances", 1);

    judge_range(check, role, "instances", RG_PAI_ERROR, RG_PAI_NONE, TASKS_MAX_V2,
                "what Kubernetes' controller takes");
    judge_range(check, role, "taskRetryCount", RG_PAI_WARNING, 0, INT64_MAX, "");
    judge_range(check, &resource, "cpu", RG_PAI_WARNING, 1, INT64_MAX, "");
    judge_range(check, &resource, "memoryMB", RG_PAI_WARNING, 1, INT64_MAX, "");
    judge_range(check, &resource, "gpu", RG_PAI_WARNING, 0, INT64_MAX, "");
    judge_range(check, &extra, "shmMB", RG_PAI_WARNING, RG_PAI_NONE,
                rg_pai_at_int(&resource, "memoryMB", INT64_MAX), "memoryMB");
    judge_range(check, &completion, "minSucceededInstances", RG_PAI_ERROR, RG_PAI_NONE, instances,
                "instances (or the role never succeeds)");
    judge_range(check, &completion, "minFailedInstances", RG_PAI_WARNING, RG_PAI_NONE, instances,
                "instances (or the role never fails)");
    judge_uses(check, role);
    judge_templates(check, &commands, role->value);
    judge_comments(check, &commands);
    size_t ncommands = json_array_size(commands.value);
    if (ncommands) {
        struct rg_pai_at first = rg_pai_at_index(&commands, 0);
        struct rg_pai_at last = rg_pai_at_index(&commands, ncommands - 1);
        judge_sleep(check, roles, role, &first, ncommands > 1);
        judge_end(check, roles, role, &last);
    }
    struct rg_pai_at ports = rg_pai_at_key(&resource, "ports");
    const char *label;
    json_t *value;
    json_object_foreach(ports.value, label, value)
        judge_range(check, &ports, label, RG_PAI_WARNING, 1, INT64_MAX, "");
}

/* The names that the server gives the roles are one each. */
static void judge_role_names(struct rg_pai_check *check, const struct rg_pai_at *roles)
{
    json_t *seen = json_object(), *value;
    const char *name;

    json_object_foreach(roles->value, name, value) {
        struct rg_pai_at at = { roles, name, 0, NULL };
        rg_autofree char *brief = rg_pai_short_name(name);
        if (!brief || !seen)
            break;
        if (json_object_get(seen, brief))
            rg_pai_report(check, &at, RG_PAI_MENDED, "the name",
                          "the server shortens names to small letters and digits, and another role "
                          "then has the same", "write other names of small letters and digits");
        else if (!*brief || isdigit((unsigned char) *brief))
            rg_pai_report(check, &at, RG_PAI_MENDED, "the name",
                          "the server shortens it to small letters and digits, and then no name is "
                          "left", "begin it with a letter");
        else if (strlen(brief) > SHORT_NAME_MAX)
            rg_pai_report(check, &at, RG_PAI_MENDED, "the name",
                          "it has at most 63 letters and digits, as it is part of names in "
                          "Kubernetes", "make it shorter");
        else if (strcmp(brief, name) != 0)
            rg_pai_report(check, &at, RG_PAI_WARNING, "the name",
                          "the server shortens it to small letters and digits, but variables keep "
                          "it as it is", "write it of small letters and digits");
        json_object_set_new(seen, brief, json_true());
    }
    json_decref(seen);
}

static void judge_deployment(struct rg_pai_check *check, const struct rg_pai_at *at,
                             const struct rg_pai_at *roles)
{
    struct rg_pai_at map = rg_pai_at_key(at, "taskRoles");
    const char *name;
    json_t *value;

    json_object_foreach(map.value, name, value) {
        struct rg_pai_at one = { &map, name, 0, value };
        struct rg_pai_at before = rg_pai_at_key(&one, "preCommands");
        struct rg_pai_at after = rg_pai_at_key(&one, "postCommands");
        const json_t *role = json_object_get(roles->value, name);
        judge_templates(check, &before, role);
        judge_templates(check, &after, role);
        one.value = NULL;
        if (!role)
            rg_pai_report(check, &one, RG_PAI_WARNING, "the name",
                          "there is no role of this name, so these commands never run",
                          "write the role's name");
    }
}

static void judge_deployments(struct rg_pai_check *check, const struct rg_pai_at *root,
                              const struct rg_pai_at *roles)
{
    struct rg_pai_at list = rg_pai_at_key(root, "deployments");
    struct rg_pai_at defaults = rg_pai_at_key(root, json_object_get(root->value, "defaults")
                                                        ? "defaults" : "default");
    struct rg_pai_at wanted = rg_pai_at_key(&defaults, "deployment");
    const char *wants = json_string_value(wanted.value), *name;
    bool is_there = !wants;

    judge_twice(check, &list, "name", RG_PAI_ERROR, "another deployment has this name");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        struct rg_pai_at at = rg_pai_at_index(&list, i);
        judge_deployment(check, &at, roles);
        name = json_string_value(json_object_get(at.value, "name"));
        is_there |= name && wants && strcmp(name, wants) == 0;
    }
    if (!is_there)
        rg_pai_report(check, &wanted, RG_PAI_ERROR, NULL, "there is no deployment of this name",
                      "add it to deployments, or take it out");
}

static void judge_v2(struct rg_pai_check *check, const struct rg_pai_at *root)
{
    struct rg_pai_at list = rg_pai_at_key(root, "prerequisites");
    struct rg_pai_at roles = rg_pai_at_key(root, "taskRoles");
    const char *name;
    json_t *value;

    for (size_t i = 0; i < json_array_size(list.value); i++) {
        struct rg_pai_at at = rg_pai_at_index(&list, i);
        judge_prerequisite(check, &at);
    }
    judge_values(check, root, "parameters");
    judge_key(check, root);
    judge_role_names(check, &roles);
    json_object_foreach(roles.value, name, value) {
        struct rg_pai_at at = { &roles, name, 0, value };
        judge_role_v2(check, &roles, &at);
    }
    judge_deployments(check, root, &roles);
}

void rg_pai_judge_traps(struct rg_pai_check *check)
{
    struct rg_pai_at root = { NULL, NULL, 0, check->tree };

    if (check->version == 1)
        judge_v1(check, &root);
    else
        judge_v2(check, &root);
}
