/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing that a job has said reaches the page in another way than rg_html_text. */
#include "cmd/report/html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/say.h"

#define ESC 27

/* --- text ------------------------------------------------------------------------------------- */

/* How long the sequence is by which a terminal would have coloured text, or moved; 0: none. */
static size_t sequence_nbytes(const char *text)
{
    size_t n = 2;

    if (text[0] != ESC || text[1] != '[')
        return 0;
    while (text[n] >= 0x20 && text[n] <= 0x3f)
        n++;
    return text[n] >= 0x40 && text[n] <= 0x7e ? n + 1 : 0;
}

/* XML has no place for these, though they are UTF-8. */
static bool is_no_character(const char *text)
{
    return strncmp(text, "\xef\xbf", 2) == 0 &&
           ((unsigned char) text[2] == 0xbe || (unsigned char) text[2] == 0xbf);
}

static void put_escaped(struct rg_buf *page, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': rg_buf_printf(page, "&amp;"); break;
        case '<': rg_buf_printf(page, "&lt;"); break;
        case '>': rg_buf_printf(page, "&gt;"); break;
        case '"': rg_buf_printf(page, "&quot;"); break;
        case '\'': rg_buf_printf(page, "&#39;"); break;
        default: rg_buf_put(page, text, 1);
        }
    }
}

void rg_html_text(struct rg_buf *page, const char *text)
{
    rg_autobuf struct rg_buf plain = RG_BUF_INIT, shown = RG_BUF_INIT;

    while (*text) {
        size_t n = sequence_nbytes(text);
        if (n == 0 && is_no_character(text)) {
            rg_buf_printf(&plain, "?");
            n = 3;
        } else if (n == 0) {
            rg_buf_put(&plain, text, n = 1);
        }
        text += n;
    }
    rg_shown_put(&shown, rg_buf_bytes(&plain), rg_buf_nbytes(&plain));
    put_escaped(page, rg_buf_text(&shown));
}

/* --- numbers ---------------------------------------------------------------------------------- */

const char *rg_html_seconds(double s, char buf[RG_HTML_WORD])
{
    unsigned long long whole = (unsigned long long) llround(fmin(fmax(s, 0), 1e12));

    if (s < 0.00005)
        snprintf(buf, RG_HTML_WORD, "0 s");
    else if (s < 0.9995)
        snprintf(buf, RG_HTML_WORD, "%.*f ms", s < 0.00995 ? 1 : 0, s * 1e3);
    else if (s < 99.95)
        snprintf(buf, RG_HTML_WORD, "%.1f s", s);
    else if (whole < 3600)
        snprintf(buf, RG_HTML_WORD, "%llu:%02llu min", whole / 60, whole % 60);
    else
        snprintf(buf, RG_HTML_WORD, "%llu:%02llu:%02llu h", whole / 3600, whole / 60 % 60,
                 whole % 60);
    return buf;
}

const char *rg_html_short(double s, char buf[RG_HTML_WORD])
{
    if (s >= 0.0009995)
        return rg_html_seconds(s, buf);
    snprintf(buf, RG_HTML_WORD, "%.*f us", s < 9.95e-6 ? 1 : 0, fmax(s, 0) * 1e6);
    return buf;
}

const char *rg_html_waited(double s, char buf[RG_HTML_WORD])
{
    if (s < 99.95)
        return rg_html_seconds(s, buf);
    snprintf(buf, RG_HTML_WORD, "%.0f s", s);
    return buf;
}

const char *rg_html_bytes(double nbytes, char buf[RG_HTML_WORD])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;

    for (; nbytes >= 1023.5 && unit + 1 < rg_array_len(units); unit++)
        nbytes /= 1024;
    snprintf(buf, RG_HTML_WORD, "%.*f %s", unit && nbytes < 9.95 ? 1 : 0, nbytes, units[unit]);
    return buf;
}

const char *rg_html_bytes_per_s(double nbytes, char buf[RG_HTML_WORD])
{
    rg_html_bytes(nbytes, buf);
    strncat(buf, "/s", RG_HTML_WORD - 1 - strlen(buf));
    return buf;
}

/* Digits in threes. */
static const char *put_whole(double n, char buf[RG_HTML_WORD])
{
    char digits[RG_HTML_WORD / 2];
    int ndigits = snprintf(digits, sizeof(digits), "%.0f", fmin(n, 1e18)), at = 0;

    for (int i = 0; i < ndigits && at + 2 < RG_HTML_WORD; i++) {
        if (i && (ndigits - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *rg_html_number(double n, char buf[RG_HTML_WORD])
{
    if (n >= 99.95 || n == floor(n))
        return put_whole(round(n), buf);
    snprintf(buf, RG_HTML_WORD, "%.*f", n < 0.0995 ? 3 : n < 9.95 ? 2 : 1, n);
    return buf;
}

const char *rg_html_share(double share, char buf[RG_HTML_WORD])
{
    snprintf(buf, RG_HTML_WORD, "%.0f %%", share * 100);
    return buf;
}
