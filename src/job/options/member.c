/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, texts and switches are judged alike, whichever option they stand behind, and scripts'
 * options are found alike. */
#include "job/options/member.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define OPTIONS_MAX 64 /* of a script */
#define NAME_NBYTES 64 /* of an option, with its command */

static int add(struct rg_strv *list, size_t max, const char *what, const char *value,
               struct rg_error *err)
{
    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty", what);
    if (max && list->count >= max)
        return rg_error_set(err, E2BIG, "%s: more than %zu of them", what, max);
    return rg_strv_add(list, value) < 0 ? rg_error_memory(err) : 0;
}

int rg_items_parse(const char *what, const char *value, size_t max, struct rg_strv *list,
                   struct rg_error *err)
{
    rg_autofree char *copy = strdup(value);
    char *rest = copy, *item;

    rg_strv_fini(list);
    while ((item = strsep(&rest, ","))) {
        if (*item && rg_strv_add(list, item) < 0)
            break;
        if (max && list->count > max)
            return rg_error_set(err, EINVAL, "%s: more than %zu of them", what, max);
    }
    return !copy || item ? rg_error_memory(err) : 0;
}

int rg_member_set(const struct rg_member *member, void *object, const char *what,
                  const char *value, struct rg_error *err)
{
    void *at = (char *) object + member->offset;
    size_t max = (size_t) member->max;
    int64_t n;
    int rc = 0;

    switch (member->kind) {
    case RG_MEMBER_FLAG:
        *(bool *) at = !value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
        break;
    case RG_MEMBER_INT:
        rc = rg_parse_int(what, value, member->min, member->max, &n, err);
        if (rc == 0)
            *(int *) at = (int) n;
        break;
    case RG_MEMBER_TEXT: return rg_parse_text(what, value, at, err);
    case RG_MEMBER_WORD:
        if (!*value && member->min)
            return rg_error_set(err, EINVAL, "%s: its value is empty", what);
        *(const char **) at = *value ? value : NULL;
        break;
    case RG_MEMBER_TIME: return rg_parse_duration_ms(what, value, at, err);
    case RG_MEMBER_SIZE: return rg_parse_size(what, value, at, err);
    case RG_MEMBER_LIST: return add(at, max, what, value, err);
    case RG_MEMBER_ITEMS: return rg_items_parse(what, value, max, at, err);
    case RG_MEMBER_NONE: break;
    }
    return rc;
}

const struct rg_script_option *rg_script_option_find(const struct rg_script_option *options,
                                                     const char *word, const char **ret_value)
{
    if (strcmp(word, "-h") == 0)
        word = "--help";
    size_t n = strcspn(word, "=");

    for (; rg_str_starts(word, "--") && options->name; options++) {
        if (strlen(options->name) != n - 2 || strncmp(options->name, word + 2, n - 2) != 0)
            continue;
        *ret_value = word[n] ? word + n + 1 : NULL;
        return options;
    }
    return NULL;
}

int rg_script_option_take(const struct rg_script_option *options, const char *command,
                          char *const *argv, int *i, void *object, struct rg_error *err)
{
    const char *value;
    const struct rg_script_option *option = rg_script_option_find(options, argv[*i], &value);
    char what[NAME_NBYTES];

    if (!option)
        return 0;
    snprintf(what, sizeof(what), "%s --%s", command, option->name);
    if (!option->arg && value)
        return rg_error_set(err, EINVAL, "%s takes no value", what);
    if (option->arg && !value && !option->optional)
        value = argv[*i + 1] ? argv[++*i] : "";
    if (option->arg && value && !*value)
        return rg_error_set(err, EINVAL, "%s: its value is missing; write --%s %s", what,
                            option->name, option->arg);
    int r = option->apply ? option->apply(object, what, value, err)
                          : rg_member_set(&option->member, object, what, value, err);
    return r < 0 ? r : 1;
}

const char *rg_script_option_nearest(const struct rg_script_option *options, const char *word)
{
    const char *words[OPTIONS_MAX];
    size_t n = 0;

    word += strspn(word, "-");
    rg_autofree char *name = strndup(word, strcspn(word, "="));
    for (; n + 1 < OPTIONS_MAX && options[n].name; n++)
        words[n] = options[n].name;
    words[n] = NULL;
    return name ? rg_str_nearest(name, words) : NULL;
}

int rg_script_option_refuse(const struct rg_script_option *options, const char *command,
                            const char *word, struct rg_error *err)
{
    const char *near = rg_script_option_nearest(options, word);

    if (*word != '-')
        return rg_error_set(err, EINVAL, "%s %.80s: it takes options only", command, word);
    if (near)
        return rg_error_set(err, EINVAL, "%s %.80s: unknown option; did you mean --%s?", command,
                            word, near);
    return rg_error_set(err, EINVAL, "%s %.80s: unknown option", command, word);
}
