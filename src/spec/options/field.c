/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, texts and switches are judged alike, whichever option they stand behind, and scripts'
 * options are found alike. */
#include "spec/options/field.h"

#include <string.h>

#include "base/str.h"

#define OPTIONS_MAX 64 /* of a script */

static int add(struct rg_strv *list, size_t max, const char *what, const char *value,
               struct rg_error *err)
{
    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty", what);
    if (max && list->count >= max)
        return rg_error_set(err, E2BIG, "%s: more than %zu of them", what, max);
    return rg_strv_add(list, value) < 0 ? rg_error_memory(err) : 0;
}

int rg_field_set(const struct rg_field *field, void *object, const char *what, const char *value,
                 struct rg_error *err)
{
    void *member = (char *) object + field->offset;
    int64_t n;
    int rc = 0;

    switch (field->kind) {
    case RG_FIELD_FLAG:
        *(bool *) member = !value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
        break;
    case RG_FIELD_INT:
        rc = rg_parse_int(what, value, field->min, field->max, &n, err);
        if (rc == 0)
            *(int *) member = (int) n;
        break;
    case RG_FIELD_TEXT: return rg_parse_text(what, value, member, err);
    case RG_FIELD_TIME: return rg_parse_duration_ms(what, value, member, err);
    case RG_FIELD_SIZE: return rg_parse_size(what, value, member, err);
    case RG_FIELD_LIST: return add(member, (size_t) field->max, what, value, err);
    case RG_FIELD_NONE: break;
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
