/* SPDX-License-Identifier: Apache-2.0 */
/* A rank may write gigabytes, and only what it wrote last explains its end. */
#include "launch/verdict/tail.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ESC 0x1b

/* Of a line that was cut, less stands after a longer prefix. */
#define LINE_HASHED (RG_TAIL_LINE_MAX - 16)

void rg_tail_fini(struct rg_tail *tail)
{
    for (size_t i = 0; i < RG_TAIL_LINES; i++)
        free(tail->lines[i]);
    for (size_t i = 0; i < 2; i++)
        free(tail->partial[i]);
    memset(tail, 0, sizeof(*tail));
}

/* Of a line that goes back to its beginning, how many bytes of data it has written over, those
 * before data included. */
static size_t count_over(struct rg_tail *tail, int s, const char *data, size_t nbytes)
{
    size_t n = tail->partial_nbytes[s];
    bool returned = n && tail->partial[s][n - 1] == '\r';

    while (nbytes && data[nbytes - 1] == '\r')
        nbytes--;
    const char *back = memrchr(data, '\r', nbytes);

    if (back || (returned && nbytes))
        tail->partial_nbytes[s] = 0;
    return back ? (size_t) (back + 1 - data) : 0;
}

static void add_text(struct rg_tail *tail, int s, const char *data, size_t nbytes)
{
    if (!tail->partial[s])
        tail->partial[s] = malloc(RG_TAIL_LINE_MAX + 1);
    if (!tail->partial[s])
        return;
    size_t over = count_over(tail, s, data, nbytes);
    size_t room = RG_TAIL_LINE_MAX - tail->partial_nbytes[s];

    data += over;
    nbytes -= over;
    if (nbytes > room)
        nbytes = room;
    memcpy(tail->partial[s] + tail->partial_nbytes[s], data, nbytes);
    tail->partial_nbytes[s] += nbytes;
}

/* The place of a stream's n-th last line; without it, and for n 0, a new one, where the cursor is
 * then. */
static unsigned take_place(struct rg_tail *tail, int s, unsigned n)
{
    unsigned at = tail->next;

    for (unsigned i = 1; n && i <= RG_TAIL_LINES; i++) {
        unsigned one = (tail->next + RG_TAIL_LINES - i) % RG_TAIL_LINES;
        if (tail->lines[one] && tail->streams[one] == s && --n == 0)
            return one;
    }
    tail->next = (at + 1) % RG_TAIL_LINES;
    tail->up[s] += !tail->up[s];
    return at;
}

/* What the cursor's line has: into the ring, without a carriage return. NULs become spaces. */
static void put_line(struct rg_tail *tail, int s)
{
    size_t nbytes = tail->partial_nbytes[s];
    char *line = malloc(nbytes + 1);

    tail->partial_nbytes[s] = 0;
    if (!line || !tail->partial[s]) {
        free(line);
        return;
    }
    memcpy(line, tail->partial[s], nbytes);
    while (nbytes && line[nbytes - 1] == '\r')
        nbytes--;
    for (size_t i = 0; i < nbytes; i++) {
        if (!line[i])
            line[i] = ' ';
    }
    line[nbytes] = '\0';
    if (tail->up[s] && line[strspn(line, " ")] == '\0')
        line[0] = '\0'; /* erased */
    unsigned at = take_place(tail, s, tail->up[s]);

    free(tail->lines[at]);
    tail->lines[at] = line;
    tail->streams[at] = (unsigned char) s;
}

static void end_line(struct rg_tail *tail, int s)
{
    if (tail->partial_nbytes[s] || !tail->up[s])
        put_line(tail, s);
    tail->up[s] -= tail->up[s] > 0;
}

/* The bytes of a sequence that goes up at data, which begins with ESC; 0: it is none. */
static size_t up_nbytes(const char *data, size_t nbytes, unsigned *ret_n)
{
    unsigned n = 0;
    size_t i = 2;

    if (nbytes < 3 || data[1] != '[')
        return 0;
    for (; i < nbytes && data[i] >= '0' && data[i] <= '9'; i++)
        n = n < RG_TAIL_LINES ? 10 * n + (unsigned) (data[i] - '0') : n;
    if (i == nbytes || data[i] != 'A')
        return 0;
    *ret_n = n ? n : 1;
    return i + 1;
}

static void go_up(struct rg_tail *tail, int s, unsigned n)
{
    unsigned have = 0;

    if (tail->partial_nbytes[s])
        put_line(tail, s);
    for (int i = 0; i < RG_TAIL_LINES; i++)
        have += tail->lines[i] && tail->streams[i] == s;
    tail->up[s] = tail->up[s] + n < have ? tail->up[s] + n : have;
}

/* Bytes without a newline. */
static void add_partial(struct rg_tail *tail, int s, const char *data, size_t nbytes)
{
    const char *begin = data, *end = data + nbytes, *escape = data;
    size_t n;
    unsigned up;

    while ((escape = memchr(escape, ESC, (size_t) (end - escape)))) {
        n = up_nbytes(escape, (size_t) (end - escape), &up);
        if (n) {
            add_text(tail, s, begin, (size_t) (escape - begin));
            go_up(tail, s, up);
            begin = escape + n;
        }
        escape += n ? n : 1;
    }
    add_text(tail, s, begin, (size_t) (end - begin));
}

/* Where the last RG_TAIL_LINES lines of data begin. */
static const char *skip_old(const char *data, size_t nbytes)
{
    const char *end = data + nbytes;

    for (int i = 0; i <= RG_TAIL_LINES; i++) {
        const char *newline = memrchr(data, '\n', (size_t) (end - data));
        if (!newline)
            return data;
        end = newline;
    }
    return end + 1;
}

void rg_tail_put(struct rg_tail *tail, int stream, const void *data, size_t nbytes)
{
    int s = stream == 2;
    const char *at = data, *end = at + nbytes;

    if (!nbytes) {
        if (tail->partial_nbytes[s])
            put_line(tail, s);
        tail->up[s] = 0;
        free(tail->partial[s]);
        tail->partial[s] = NULL;
        return;
    }
    at = skip_old(data, nbytes);
    if (at != data)
        tail->partial_nbytes[s] = 0; /* that line is older than those that fill the ring */
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t) (end - at));
        add_partial(tail, s, at, (size_t) ((newline ? newline : end) - at));
        if (!newline)
            break;
        end_line(tail, s);
        at = newline + 1;
    }
}

size_t rg_tail_lines(const struct rg_tail *tail, const char *ret_lines[RG_TAIL_LINES])
{
    size_t count = 0;

    for (unsigned i = 0; i < RG_TAIL_LINES; i++) {
        const char *line = tail->lines[(tail->next + i) % RG_TAIL_LINES];
        if (line)
            ret_lines[count++] = line;
    }
    return count;
}

size_t rg_tail_prefix(const void *line, size_t nbytes)
{
    const char *text = line;
    size_t n = 5;

    if (nbytes < n || memcmp(text, "[rank", n) != 0)
        return 0;
    while (n < nbytes && text[n] >= '0' && text[n] <= '9')
        n++;
    if (nbytes - n < 3 || memcmp(text + n, "]: ", 3) != 0)
        return 0;
    n += 3;
    return n + rg_tail_prefix(text + n, nbytes - n); /* each new group of ranks adds one */
}

static const char *without_prefix(const char *line)
{
    return line + rg_tail_prefix(line, strlen(line));
}

static uint64_t hash(const char *const *lines, size_t from, size_t to)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t i = from; i < to; i++) {
        const char *c = without_prefix(lines[i]);
        for (int room = LINE_HASHED; room; room--, c++) {
            h = (h ^ (uint8_t) *c) * 0x100000001b3;
            if (!*c)
                break;
        }
    }
    return from == to ? 0 : h | 1;
}

uint64_t rg_tail_hash(const struct rg_tail *tail)
{
    const char *lines[RG_TAIL_LINES];
    size_t n = rg_tail_lines(tail, lines);

    return hash(lines, 0, n);
}

/* Without empty lines at the end. */
static size_t lines_of_error(const struct rg_tail *tail, const char *ret_lines[RG_TAIL_LINES])
{
    size_t n = rg_tail_lines(tail, ret_lines);

    while (n && !*ret_lines[n - 1])
        n--;
    return n;
}

static bool begins_traceback(const char *line)
{
    return strcmp(without_prefix(line), "Traceback (most recent call last):") == 0;
}

uint64_t rg_tail_hash_error(const struct rg_tail *tail)
{
    const char *lines[RG_TAIL_LINES];
    size_t n = lines_of_error(tail, lines), from;

    for (from = n; from > 0; from--) {
        if (begins_traceback(lines[from - 1]))
            return hash(lines, from - 1, n);
    }
    return hash(lines, n ? n - 1 : 0, n);
}

bool rg_tail_is_traceback(const struct rg_tail *tail)
{
    const char *lines[RG_TAIL_LINES];
    size_t n = lines_of_error(tail, lines);

    for (size_t i = 0; i + 1 < n; i++) {
        if (begins_traceback(lines[i]) || strncmp(without_prefix(lines[i]), "  File \"", 8) == 0)
            return *without_prefix(lines[n - 1]) != ' ';
    }
    return false;
}
