/* SPDX-License-Identifier: Apache-2.0 */
/* Errors begin with the option that they are about, as all of ours do. */
#include "job/request/blame.h"

#include <string.h>

/* The place in the configuration of the option that a word of an error is, or NULL. */
static const char *place_of(const struct rg_request *request, const char *word)
{
    rg_autofree char *name = strndup(word, strcspn(word, " :,;="));
    const struct rg_option *option = name ? rg_option_find(name) : NULL;

    for (size_t i = 0; option && i < request->usual.count; i++)
        if (strcmp(request->usual.v[i], option->name) == 0)
            return request->usual_places.v[i];
    return NULL;
}

/* What stands behind a semicolon is what to do about it. */
int rg_request_blame(const struct rg_request *request, int rc, struct rg_error *err)
{
    const char *place = NULL, *end, *word;

    if (!err || err->text[0] != '-' || rc == -ENOMEM)
        return rc;
    end = err->text + strcspn(err->text, ";");
    for (word = err->text; !place && word && word < end; word = strchr(word, ' ')) {
        word += *word == ' ';
        if (*word == '-')
            place = place_of(request, word + strspn(word, "-"));
    }
    rg_autofree char *copy = place ? strdup(place) : NULL;
    return copy ? rg_error_prepend(err, "%s", copy) : rc;
}
