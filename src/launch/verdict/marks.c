/* SPDX-License-Identifier: Apache-2.0 */
/* Every training script tells its progress in words of its own, but nearly all use one of a few. */
#include "launch/verdict/marks.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define STEP_MAX 1000000000000000 /* no step or epoch is larger */

enum kind { EPOCH, STEP };

static const struct word { const char *text; enum kind kind; } words[] = {
    { "epoch", EPOCH }, { "step", STEP }, { "iteration", STEP }, { "iter", STEP },
    { "update", STEP },
};

/* --- a line ----------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return isalnum((unsigned char) c) || c == '_';
}

static bool is_one_of(const char *const *list, size_t n, const char *text, size_t nbytes)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(list[i]) == nbytes && strncasecmp(list[i], text, nbytes) == 0)
            return true;
    }
    return false;
}

/* What stands in front of a word makes a setting of it: "max_epoch", "--num-iter", "total step",
 * "steps_per_epoch", "every epoch". */
static bool is_setting(const char *line, const char *word)
{
    static const char *const makers[] = { "max", "maximum", "min",    "total", "num", "number",
                                          "n",   "per",     "every",  "target", "warmup" };

    for (const char *end = word; end > line;) {
        const char *at = end, *from;
        bool joined;

        while (at > line && strchr("_-. \t", at[-1]))
            at--;
        joined = at < end && end[-1] != ' ' && end[-1] != '\t';
        for (from = at; from > line && isalnum((unsigned char) from[-1]);)
            from--;
        if (from == at)
            return false;
        if (is_one_of(makers, rg_array_len(makers), from, (size_t) (at - from)))
            return true;
        if (!joined)
            return false;
        end = from;
    }
    return false;
}

/* "step 5 ms" */
static bool is_time(const char *behind)
{
    static const char *const units[] = { "s", "ms", "us", "ns", "m", "min", "h", "sec", "secs",
                                         "second", "seconds", "minutes", "hours" };
    const char *at = behind + (*behind == ' ');
    size_t n = 0;

    while (is_letter(at[n]))
        n++;
    return is_one_of(units, rg_array_len(units), at, n);
}

/* The number that stands behind a word; -1: there is none, or it is another one's. */
static double number_behind(const char *text, enum kind kind)
{
    double value = 0, unit = 1;

    text += strspn(text, " \t:=#[(\"'");
    if (!isdigit((unsigned char) *text))
        return -1;
    for (; isdigit((unsigned char) *text); text++)
        value = value < STEP_MAX ? value * 10 + (*text - '0') : STEP_MAX;
    if (*text == '.' && isdigit((unsigned char) text[1])) {
        for (text++; isdigit((unsigned char) *text); text++) {
            unit /= 10;
            value += unit * (*text - '0');
            if (kind != EPOCH && *text != '0')
                return -1;
        }
    }
    return is_letter(*text) || is_time(text) ? -1 : value;
}

static const struct word *word_at(const char *text, size_t nbytes)
{
    for (size_t i = 0; i < rg_array_len(words); i++) {
        size_t n = strlen(words[i].text);
        if (n < nbytes && (text[0] | 0x20) == words[i].text[0] &&
            strncasecmp(text, words[i].text, n) == 0)
            return &words[i];
    }
    return NULL;
}

/* Where the next of the words may stand; NULL: nowhere. Most of what is written ends here. */
static const char *next_word(const char *at, const char *line, const char *end)
{
    static const bool begins[256] = { ['e'] = true, ['E'] = true, ['s'] = true, ['S'] = true,
                                      ['i'] = true, ['I'] = true, ['u'] = true, ['U'] = true };

    for (; at < end; at++) {
        if (begins[(unsigned char) *at] && (at == line || !isalnum((unsigned char) at[-1])) &&
            word_at(at, (size_t) (end - at)))
            return at;
    }
    return NULL;
}

/* line is terminated by a NUL. */
static struct rg_mark read_line(const char *line, size_t nbytes)
{
    struct rg_mark mark = { -1, -1 };

    for (const char *at = line; (at = next_word(at, line, line + nbytes)) != NULL; at++) {
        /* "iteration" is no "iter" with something behind it. */
        const struct word *word = word_at(at, nbytes - (size_t) (at - line));
        double value = number_behind(at + strlen(word->text), word->kind);

        if (value < 0 || is_setting(line, at))
            continue;
        if (word->kind == EPOCH)
            mark.epoch = value > mark.epoch ? value : mark.epoch;
        else
            mark.step = (int64_t) value > mark.step ? (int64_t) value : mark.step;
    }
    return mark;
}

/* --- output ----------------------------------------------------------------------------------- */

static void look(struct rg_marks *marks, const char *line, size_t nbytes)
{
    char text[RG_MARKS_LINE_MAX + 1];

    if (nbytes > RG_MARKS_LINE_MAX)
        nbytes = RG_MARKS_LINE_MAX;
    if (!next_word(line, line, line + nbytes))
        return;
    memcpy(text, line, nbytes);
    text[nbytes] = '\0';
    struct rg_mark mark = read_line(text, nbytes);
    if (mark.epoch >= 0 || mark.step >= 0)
        marks->lines[marks->nlines++ % RG_MARKS_LINES] = mark;
}

/* The line that is not complete goes on. */
static void append(struct rg_marks *marks, int s, const char *data, size_t nbytes)
{
    size_t room = RG_MARKS_LINE_MAX - marks->partial_nbytes[s];

    if (!marks->partial[s])
        marks->partial[s] = malloc(RG_MARKS_LINE_MAX);
    if (!marks->partial[s])
        return;
    if (nbytes > room)
        nbytes = room;
    memcpy(marks->partial[s] + marks->partial_nbytes[s], data, nbytes);
    marks->partial_nbytes[s] += nbytes;
}

static void complete(struct rg_marks *marks, int s)
{
    if (marks->partial_nbytes[s])
        look(marks, marks->partial[s], marks->partial_nbytes[s]);
    marks->partial_nbytes[s] = 0;
}

static const char *line_end(const char *at, const char *end)
{
    while (at < end && *at != '\n' && *at != '\r')
        at++;
    return at;
}

static void put(struct rg_marks *marks, int s, const char *at, size_t nbytes)
{
    const char *end = at + nbytes;

    while (at < end) {
        const char *to = line_end(at, end);
        if (to == end || marks->partial_nbytes[s])
            append(marks, s, at, (size_t) (to - at));
        else
            look(marks, at, (size_t) (to - at));
        if (to < end)
            complete(marks, s);
        at = to + 1;
    }
}

void rg_marks_put(struct rg_marks *marks, int stream, const void *data, size_t nbytes)
{
    int s = stream == 2;
    size_t half = RG_MARKS_CHUNK_MAX / 2;

    if (!nbytes) {
        complete(marks, s);
        free(marks->partial[s]);
        marks->partial[s] = NULL;
    } else if (nbytes <= RG_MARKS_CHUNK_MAX) {
        put(marks, s, data, nbytes);
    } else {
        const char *end = (const char *) data + nbytes, *from = line_end(end - half, end);
        put(marks, s, data, half);
        marks->partial_nbytes[s] = 0;
        put(marks, s, from, (size_t) (end - from));
    }
}

void rg_marks_fini(struct rg_marks *marks)
{
    for (size_t i = 0; i < 2; i++)
        free(marks->partial[i]);
    memset(marks, 0, sizeof(*marks));
}

void rg_marks_take(const struct rg_marks *marks, struct rg_mark *ret_mark)
{
    size_t i = marks->nlines > RG_MARKS_LINES ? marks->nlines - RG_MARKS_LINES : 0;

    for (; i < marks->nlines; i++) {
        const struct rg_mark *mark = &marks->lines[i % RG_MARKS_LINES];
        if (mark->epoch > ret_mark->epoch)
            *ret_mark = *mark;
        else if ((mark->epoch < 0 || mark->epoch >= ret_mark->epoch) &&
                 mark->step > ret_mark->step)
            ret_mark->step = mark->step;
    }
}
