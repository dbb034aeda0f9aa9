/* SPDX-License-Identifier: Apache-2.0 */
/* Names, paths and output come from anywhere, and jansson refuses what is not UTF-8. */
#include "head/console/json.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/say.h"

json_t *rg_json_text(const char *text)
{
    json_t *value = json_string(text ? text : "");
    rg_autofree char *copy = value ? NULL : strdup(text);

    for (size_t at = 0, left = copy ? strlen(copy) : 0, n; left; at += n, left -= n) {
        n = rg_utf8_nbytes(copy + at, left);
        copy[at] = n ? copy[at] : '?';
        n = n ? n : 1;
    }
    return value ? value : copy ? json_string(copy) : NULL;
}

/* jansson escapes C0 alone. What else steers a terminal stands nowhere but in strings. */
static void put_escaped(struct rg_buf *text, const char *p, size_t nbytes)
{
    for (size_t at = 0, n; at < nbytes; at += n) {
        n = rg_utf8_nbytes(p + at, nbytes - at);
        n = n ? n : 1;
        unsigned code = p[at] == 0x7f ? 0x7f : rg_shown_steers(p + at, n);
        if (code)
            rg_buf_printf(text, "\\u%04x", code);
        else
            rg_buf_put(text, p + at, n);
    }
}

void rg_json_put(struct rg_buf *text, json_t *take_value, size_t flags)
{
    rg_autofree char *dumped = take_value ? json_dumps(take_value, flags) : NULL;

    if (dumped)
        put_escaped(text, dumped, strlen(dumped));
    else
        text->status = text->status ? text->status : -ENOMEM;
    rg_buf_put(text, "\n", 1);
    json_decref(take_value);
}
