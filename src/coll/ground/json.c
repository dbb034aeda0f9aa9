/* SPDX-License-Identifier: Apache-2.0 */
/* Text of JSON, written by hand: the library links with nothing for it. */
#include "coll/ground/json.h"

#include <string.h>

/* The bytes of the UTF-8 sequence at p, 0 when it is none. The NUL at the end stops every look
 * ahead. */
static size_t sequence_nbytes(const unsigned char *p)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;
    uint32_t code;

    if (n <= 1)
        return n;
    if (p[0] > 0xf4)
        return 0;
    code = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

void rg_json_put_text(struct rg_buf *buf, const char *text)
{
    const unsigned char *p = (const unsigned char *) text;

    rg_buf_put(buf, "\"", 1);
    while (*p) {
        size_t n = sequence_nbytes(p);

        if (n == 0)
            rg_buf_put(buf, "?", 1);
        else if (*p == '"' || *p == '\\')
            rg_buf_printf(buf, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            rg_buf_printf(buf, "\\u%04x", *p);
        else
            rg_buf_put(buf, p, n);
        p += n ? n : 1;
    }
    rg_buf_put(buf, "\"", 1);
}
