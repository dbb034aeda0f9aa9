/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON by their paths, and as text. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "platform/kubernetes/server/transport.h"

const json_t *kube_at(const json_t *value, const char *path)
{
    char key[64];

    for (const char *p = path; value && *p; p += *p == '.') {
        size_t n = strcspn(p, ".");
        snprintf(key, sizeof(key), "%.*s", (int) n, p);
        value = json_object_get(value, key);
        p += n;
    }
    return value;
}

const char *kube_text(const json_t *value, const char *path)
{
    const char *text = json_string_value(kube_at(value, path));

    return text ? text : "";
}

static int put_text(const char *text, size_t nbytes, void *arg)
{
    rg_buf_put(arg, text, nbytes);
    return 0;
}

int kube_dump(const json_t *value, struct rg_buf *buf)
{
    return value && json_dump_callback(value, put_text, buf, JSON_COMPACT) == 0
               ? rg_buf_status(buf) : -ENOMEM;
}
