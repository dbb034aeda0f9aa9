/* SPDX-License-Identifier: Apache-2.0 */
/* Commands name other tasks by their hosts and variables, in which the names of roles and ports
 * stand. Where those are repaired, what is surely one of them follows; any other word is for people
 * to look at. */
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

/* What stands around a role's name. */
struct use {
    const char *before, *after; /* after: END: no letter, digit or _; INDEX: a dash or _, and a
                                 * number, or what a shell replaces by one */
};

#define END "e"
#define INDEX "i"
#define NAME RG_PAI_WORD "_"

static const struct use uses[] = {
    { "PAI_HOST_IP_", INDEX },
    { "PAI_PORT_LIST_", INDEX },
    { "PAI_TASK_ROLE_TASK_COUNT_", END },
    { "PAI_TASK_ROLE_", "_HOST_LIST" },
    { "PAI_RESOURCE_", END },
    { "PAI_MIN_FAILED_TASK_COUNT_", END },
    { "PAI_MIN_SUCCEEDED_TASK_COUNT_", END },
    { "PAI_", INDEX },
    { "", INDEX },
};

/* How many characters of text the number of a task has: "12", "$i", "${i}", "{0..3}", "[0-3]". */
static size_t index_length(const char *text)
{
    size_t digits = strspn(text, RG_PAI_DIGITS), sign = *text == '$';
    const char *close = text[sign] == '{' ? "}" : !sign && *text == '[' ? "]" : NULL;

    if (digits)
        return digits;
    if (close) {
        size_t n = strcspn(text, close);
        return text[n] ? n + 1 : 0;
    }
    return sign ? 1 + strspn(text + 1, NAME) : 0;
}

static bool ends_word(const char *text)
{
    return !*text || !strchr(NAME, *text);
}

/* Whether a role of this name is used at text in this way; *ret_rest is what follows the name. */
static bool is_used(const char *text, const struct use *use, const char *role,
                    const char **ret_rest)
{
    bool is_host = !*use->before;

    if (!rg_str_starts(text, use->before) || !rg_str_starts(text + strlen(use->before), role))
        return false;
    const char *rest = text + strlen(use->before) + strlen(role);
    *ret_rest = rest;
    if (strcmp(use->after, END) == 0)
        return ends_word(rest);
    if (strcmp(use->after, INDEX) == 0)
        return *rest == (is_host ? '-' : '_') && index_length(rest + 1);
    return rg_str_starts(rest, use->after);
}

/* A port's name at text, whose place in the role's list is *ret_port; a variable ends behind it, or
 * has after there. */
static bool is_port(const char *text, const struct rg_pai_role *role, const char *after,
                    size_t *ret_port)
{
    for (*ret_port = 0; *ret_port < role->nports; ++*ret_port) {
        const char *label = role->ports[*ret_port].label;
        size_t n = strlen(label);
        if (strncmp(text, label, n) == 0 &&
            (after ? rg_str_starts(text + n, after) : ends_word(text + n)))
            return true;
    }
    return false;
}

/* Put what the variable has behind the role's name: the index, and a port. How much of rest it was
 * is returned. */
static size_t put_port(const char *rest, const struct use *use, const struct rg_pai_role *from,
                       const struct rg_pai_role *to, struct rg_buf *out)
{
    bool lists = strcmp(use->before, "PAI_PORT_LIST_") == 0;
    size_t port, n = 0;

    if (strcmp(use->after, INDEX) != 0 || !*use->before)
        return 0;
    n = 1 + index_length(rest + 1);
    if (rest[n] != '_' || !is_port(rest + n + 1, from, lists ? NULL : "_PORT", &port))
        return 0;
    rg_buf_put(out, rest, n + 1);
    rg_buf_printf(out, "%s", to->ports[port].label);
    return n + 1 + strlen(from->ports[port].label);
}

/* A role's host or variable at text: put it, and return its length; 0: there is none. */
static size_t put_use(const struct rg_pai *from, const struct rg_pai *to, const char *text,
                      struct rg_buf *out)
{
    const char *rest;

    for (size_t i = 0; i < rg_array_len(uses); i++) {
        for (size_t k = 0; k < from->nroles; k++) {
            if (!is_used(text, &uses[i], from->roles[k].name, &rest))
                continue;
            rg_buf_printf(out, "%s%s", uses[i].before, to->roles[k].name);
            rest += put_port(rest, &uses[i], &from->roles[k], &to->roles[k], out);
            return (size_t) (rest - text);
        }
    }
    return 0;
}

/* A task's own ports: "PAI_CONTAINER_HOST_web_PORT_LIST". */
static size_t put_own_port(const struct rg_pai *from, const struct rg_pai *to, const char *text,
                           struct rg_buf *out)
{
    static const char before[] = "PAI_CONTAINER_HOST_";
    size_t port, n = strlen(before);

    for (size_t k = 0; rg_str_starts(text, before) && k < from->nroles; k++) {
        if (!is_port(text + n, &from->roles[k], "_PORT_LIST", &port))
            continue;
        rg_buf_printf(out, "%s%s", before, to->roles[k].ports[port].label);
        return n + strlen(from->roles[k].ports[port].label);
    }
    return 0;
}

char *rg_pai_rename(const struct rg_pai *from, const struct rg_pai *to, const char *text)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    char before = ' ';

    while (*text) {
        bool begins = !before || !strchr(NAME ".-", before);
        size_t n = begins ? put_own_port(from, to, text, &out) : 0;
        n = n || !begins ? n : put_use(from, to, text, &out);
        if (!n) {
            rg_buf_put(&out, text, 1);
            n = 1;
        }
        before = text[n - 1];
        text += n;
    }
    return rg_buf_status(&out) < 0 ? NULL : strdup(rg_buf_text(&out));
}
