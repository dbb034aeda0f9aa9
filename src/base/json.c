/* SPDX-License-Identifier: Apache-2.0 */
/* Our JSON is written field by field; only its strings need care. */
#include "base/json.h"

#include <string.h>


unsigned rg_shown_steers(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    unsigned code = n == 2   ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3f)
                    : n == 3 ? (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3f) : 0;

    return (code >= 0x80 && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) ? code : 0;
}

size_t rg_utf8_nbytes(const void *bytes, size_t nbytes)
{
    const unsigned char *p = bytes;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;
    uint32_t code;

    if (n <= 1)
        return n;
    if (p[0] > 0xf4 || n > nbytes)
        return 0;
    code = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

bool rg_json_is_text(const void *bytes, size_t nbytes)
{
    const unsigned char *p = bytes;

    for (size_t at = 0, n; at < nbytes; at += n) {
        n = rg_utf8_nbytes(p + at, nbytes - at);
        if (n == 0)
            return false;
    }
    return true;
}

void rg_json_put_bytes(struct rg_buf *buf, const void *bytes, size_t nbytes)
{
    const unsigned char *p = bytes;

    rg_buf_put(buf, "\"", 1);
    for (size_t at = 0, n; at < nbytes; at += n ? n : 1) {
        n = rg_utf8_nbytes(p + at, nbytes - at);
        unsigned code = rg_shown_steers(p + at, n);
        if (n == 0)
            rg_buf_put(buf, "?", 1);
        else if (p[at] == '"' || p[at] == '\\')
            rg_buf_printf(buf, "\\%c", p[at]);
        else if (p[at] < 0x20 || p[at] == 0x7f)
            rg_buf_printf(buf, "\\u%04x", p[at]);
        else if (code)
            rg_buf_printf(buf, "\\u%04x", code);
        else
            rg_buf_put(buf, p + at, n);
    }
    rg_buf_put(buf, "\"", 1);
}

void rg_json_put_text(struct rg_buf *buf, const char *text)
{
    rg_json_put_bytes(buf, text, strlen(text));
}
