/* SPDX-License-Identifier: Apache-2.0 */
/* Names, paths and output come from anywhere, and jansson refuses what is not UTF-8. */
#include "cmd/common/json.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"

json_t *rg_json_text(const char *text)
{
    json_t *value = json_string(text ? text : "");
    rg_autofree char *copy = value ? NULL : strdup(text);

    for (char *p = copy; p && *p; p++)
        *p = (unsigned char) *p < 0x80 ? *p : '?';
    return value ? value : copy ? json_string(copy) : NULL;
}

static int append(const char *bytes, size_t nbytes, void *arg)
{
    rg_buf_put(arg, bytes, nbytes);
    return rg_buf_status(arg) < 0 ? -1 : 0;
}

void rg_json_put(struct rg_buf *text, json_t *take_value, size_t flags)
{
    if (!take_value || json_dump_callback(take_value, append, text, flags) < 0)
        text->status = text->status ? text->status : -ENOMEM;
    rg_buf_put(text, "\n", 1);
    json_decref(take_value);
}
