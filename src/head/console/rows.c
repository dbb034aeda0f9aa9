/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's bar is drawn for a terminal that it does not know: its width, and who else is on it. */
#include "head/console/rows.h"

#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/time.h"
#include "head/console/terminal.h"

#define ERASE_ROW "\033[K"
#define ERASE_BELOW "\033[J"
#define PLAIN "\033[0m"

/* Bars whose characters need no locale of the user's: all is UTF-8. */
static locale_t utf8_locale(void)
{
    static locale_t locale;

    if (!locale)
        locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0);
    return locale;
}

/* The bytes of an escape sequence at data, which begins with ESC. */
static size_t escape_nbytes(const uint8_t *data, size_t nbytes)
{
    size_t n = 2;

    if (nbytes > 1 && data[1] == '[') {
        while (n < nbytes && !(data[n] >= 0x40 && data[n] <= 0x7e))
            n++;
        n++;
    } else if (nbytes > 1 && data[1] == ']') {
        while (n < nbytes && data[n] != '\a' && data[n] != '\033')
            n++;
        n += n < nbytes && data[n] == '\033' ? 2 : 1;
    }
    return n < nbytes ? n : nbytes;
}

/* The bytes of the character at data, and how many columns it takes; -1: none that is shown. */
static size_t measure(const uint8_t *data, size_t nbytes, int *ret_columns)
{
    mbstate_t state = { 0 };
    wchar_t c;

    *ret_columns = (*data >= ' ' && *data < 0x7f) || *data == '\t' ? 1 : -1;
    if (*data < 0x80)
        return 1;
    size_t n = mbrtowc(&c, (const char *) data, nbytes, &state);

    if (n == 0 || n > nbytes) { /* no UTF-8; or no system that knows it */
        *ret_columns = utf8_locale() ? -1 : *data >= 0xc0;
        return 1;
    }
    *ret_columns = wcwidth(c);
    return n;
}

/* Append as much as fits into so many columns. */
static void put_cut(struct rg_buf *text, const uint8_t *data, size_t nbytes, int columns)
{
    locale_t before = uselocale(utf8_locale());
    bool coloured = false;

    for (size_t n; nbytes; data += n, nbytes -= n) {
        int width;
        if (*data == '\033') {
            n = escape_nbytes(data, nbytes);
            if (data[n - 1] != 'm' || data[1] != '[')
                continue;
            coloured = true;
            rg_buf_put(text, data, n);
            continue;
        }
        n = measure(data, nbytes, &width);
        if (width < 0)
            continue;
        if ((columns -= width) < 0)
            break;
        rg_buf_put(text, *data == '\t' ? (const uint8_t *) " " : data, n);
    }
    uselocale(before);
    if (coloured)
        rg_buf_put(text, PLAIN, strlen(PLAIN));
}

/* The number in front of the first per cent sign; -1: there is none. */
static double percent_of(const struct rg_bar *bar)
{
    for (size_t i = 1; i < bar->nbytes; i++) {
        size_t end = i, begin;
        char number[32];

        if (bar->data[i] != '%')
            continue;
        end -= bar->data[end - 1] == ' ';
        for (begin = end; begin && (bar->data[begin - 1] == '.' ||
                                    (bar->data[begin - 1] >= '0' && bar->data[begin - 1] <= '9'));)
            begin--;
        if (begin == end || end - begin >= sizeof(number))
            continue;
        memcpy(number, bar->data + begin, end - begin);
        number[end - begin] = '\0';
        return strtod(number, NULL);
    }
    return -1;
}

/* "ranks 4-63", or how many they are where numbers are left out. */
static void put_names(struct rg_buf *text, const struct rg_bar *bars, size_t nbars)
{
    int first = bars[0].number, last = first, count = 1;
    bool gap = false;

    for (size_t i = 1; i < nbars; i++) {
        if (bars[i].number == last)
            continue;
        gap = gap || bars[i].number != last + 1;
        last = bars[i].number;
        count++;
    }
    if (count == 1)
        rg_buf_printf(text, "rank %d", first);
    else if (gap)
        rg_buf_printf(text, "%d ranks", count);
    else
        rg_buf_printf(text, "ranks %d-%d", first, last);
}

/* One row for all of these. */
static void put_folded(struct rg_buf *text, const struct rg_bar *bars, size_t nbars)
{
    double low = -1, high = -1;
    int last = -1;

    put_names(text, bars, nbars);
    for (size_t i = 0; i < nbars; i++) {
        /* A rank's first row with a number: the outer loop's. */
        double percent = bars[i].number == last ? -1 : percent_of(&bars[i]);
        if (percent < 0)
            continue;
        last = bars[i].number;
        low = low < 0 || percent < low ? percent : low;
        high = percent > high ? percent : high;
    }
    if (low < 0)
        rg_buf_printf(text, " go on, too");
    else if ((int) (low + 0.5) == (int) (high + 0.5))
        rg_buf_printf(text, nbars > 1 ? " alike: %.0f %%" : ": %.0f %%", high);
    else
        rg_buf_printf(text, ": %.0f to %.0f %%", low, high);
}

/* How many bars have rows of their own, if there are only so many rows: whole ranks. */
static size_t count_own(const struct rg_bar *bars, size_t nbars, size_t nrows)
{
    if (nbars <= nrows)
        return nbars;
    size_t n = nrows - 1;

    while (n && bars[n].number == bars[n - 1].number)
        n--;
    return n ? n : nrows - 1; /* of a rank that needs more than all */
}

bool rg_rows_can_draw(const struct rg_rows *rows)
{
    pid_t group = isatty(rows->fd) ? tcgetpgrp(rows->fd) : 0;

    /* A terminal that is not ours has no background for us. */
    return rg_terminal_smart() && group && (group < 0 || group == getpgrp());
}

bool rg_rows_due(const struct rg_rows *rows)
{
    return rg_now_ns() - rows->drawn_ns >= RG_ROWS_PAUSE_MS * RG_NS_PER_MS;
}

/* How many of the terminal's rows are taken: where it has become narrower, it has broken ours into
 * several. ret_above: those above the last one's beginning. */
static int count_taken(const struct rg_rows *rows, int *ret_above)
{
    const uint8_t *data = rg_buf_bytes(&rows->drawn);
    size_t nbytes = rg_buf_nbytes(&rows->drawn);
    locale_t before = uselocale(utf8_locale());
    int height, columns = 0, width = 0, above = 0;

    if (!rg_terminal_size(rows->fd, &height, &columns) || columns < 1)
        columns = INT_MAX;
    for (size_t n; nbytes; data += n, nbytes -= n) {
        int one = 0;
        n = *data == '\033' ? escape_nbytes(data, nbytes) : measure(data, nbytes, &one);
        width += one > 0 ? one : 0;
        if (*data == '\n') {
            above += width ? (width - 1) / columns + 1 : 1;
            width = 0;
        }
    }
    uselocale(before);
    *ret_above = above;
    return above + (width ? (width - 1) / columns + 1 : 1);
}

/* To the first row's beginning. */
static void go_up(const struct rg_rows *rows, struct rg_buf *text)
{
    int above = 0;

    if (rows->standing)
        count_taken(rows, &above);
    rg_buf_put(text, "\r", 1);
    if (above)
        rg_buf_printf(text, "\033[%dA", above);
}

void rg_rows_wipe(struct rg_rows *rows, struct rg_buf *text)
{
    if (!rows->standing)
        return;
    go_up(rows, text);
    rg_buf_put(text, ERASE_BELOW, strlen(ERASE_BELOW));
    rows->standing = 0;
}

/* What is to stand there, without the way to it. Returns how many rows it has. */
static int compose(const struct rg_rows *rows, const struct rg_bar *bars, size_t nbars,
                   rg_rows_tag *put_tag, void *arg, struct rg_buf *text)
{
    int height = 24, columns = 80, n = 0;

    rg_terminal_size(rows->fd, &height, &columns);
    size_t own = count_own(bars, nbars, height > 3 ? (size_t) height / 2 : 1);

    for (size_t i = 0; i < nbars && i <= own; i++, n++) {
        rg_autobuf struct rg_buf row = RG_BUF_INIT;

        if (i < own) {
            put_tag(arg, &bars[i], &row);
            rg_buf_put(&row, bars[i].data, bars[i].nbytes);
        } else {
            put_folded(&row, &bars[i], nbars - i);
        }
        rg_buf_printf(text, i ? "\r\n" ERASE_ROW : ERASE_ROW);
        put_cut(text, rg_buf_bytes(&row), rg_buf_nbytes(&row), columns > 1 ? columns - 1 : 1);
    }
    return n;
}

void rg_rows_draw(struct rg_rows *rows, const struct rg_bar *bars, size_t nbars,
                  rg_rows_tag *put_tag, void *arg, struct rg_buf *text)
{
    rg_autobuf struct rg_buf next = RG_BUF_INIT;

    if (rows->open || rows->stopped || !nbars) {
        rg_rows_wipe(rows, text);
        return;
    }
    int n = compose(rows, bars, nbars, put_tag, arg, &next), above;

    rows->drawn_ns = rg_now_ns();
    if (n == rows->standing && rg_buf_nbytes(&next) == rg_buf_nbytes(&rows->drawn) &&
        memcmp(rg_buf_bytes(&next), rg_buf_bytes(&rows->drawn), rg_buf_nbytes(&next)) == 0)
        return;
    if (rows->standing && count_taken(rows, &above) > rows->standing)
        rg_rows_wipe(rows, text);
    go_up(rows, text);
    rg_buf_put(text, rg_buf_bytes(&next), rg_buf_nbytes(&next));
    rg_buf_printf(text, n < rows->standing ? ERASE_BELOW "\r" : "\r");
    rows->standing = n;
    rg_buf_fini(&rows->drawn);
    rows->drawn = next;
    next = (struct rg_buf) RG_BUF_INIT;
}

void rg_rows_fini(struct rg_rows *rows)
{
    rg_buf_fini(&rows->drawn);
}
