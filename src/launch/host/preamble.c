/* SPDX-License-Identifier: Apache-2.0 */
/* A host's first words come through login shells that say what they like: here ours are picked out
 * of it, and the rest is kept for when the start fails. */
#include "launch/host/preamble.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "launch/host/driver.h"

#define OURS "reigen-boot "

size_t rg_preamble_peek(const void *bytes, size_t nbytes)
{
    const char *newline = nbytes ? memchr(bytes, '\n', nbytes) : NULL;

    return newline ? (size_t) (newline - (const char *) bytes) + 1 : nbytes;
}

/* What a terminal would act on becomes a blank, and so does what ends texts in C. */
static void defuse(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char) text[i];
        if (c < 0x20 || c == 0x7f)
            text[i] = ' ';
    }
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char) text[i] > 0x20 && text[i] != 0x7f)
            return false;
    }
    return true;
}

static void append(char *noise, size_t have, const char *line, size_t length)
{
    memcpy(noise + have, line, length);
    defuse(noise + have, length);
    memcpy(noise + have + length, "\n", 2);
}

static void keep(struct rg_preamble *preamble, const char *line, size_t length)
{
    char *noise = preamble->noise;
    size_t have = strlen(noise), first = strlen(preamble->head);

    if (length > RG_PREAMBLE_NOISE_MAX / 2)
        length = RG_PREAMBLE_NOISE_MAX / 2;
    if (is_blank(line, length))
        return;
    preamble->nlines++;
    if (first + length + 1 > RG_PREAMBLE_HEAD_MAX)
        preamble->head_full = 1;
    if (!preamble->head_full) {
        append(preamble->head, first, line, length);
        preamble->nhead++;
    }
    while (have + length + 1 > RG_PREAMBLE_NOISE_MAX) {
        size_t gone = strcspn(noise, "\n") + 1;
        have -= gone;
        memmove(noise, noise + gone, have + 1);
    }
    append(noise, have, line, length);
}

/* Lines that end with a newline each, or not; behind the n bytes that buf holds. */
static size_t join(const char *lines, size_t length, char *buf, size_t n, size_t nbytes)
{
    bool due = n > 0; /* what parts them */

    for (size_t i = 0; i < length && n + 3 < nbytes; i++) {
        if (lines[i] == '\n') {
            due = true;
            continue;
        }
        if (due) {
            buf[n++] = ';';
            buf[n++] = ' ';
        }
        due = false;
        buf[n++] = lines[i];
    }
    buf[n] = '\0';
    return n;
}

const char *rg_preamble_quote(const struct rg_preamble *preamble, char *buf, size_t nbytes)
{
    join(preamble->noise, strlen(preamble->noise), buf, 0, nbytes);
    return buf;
}

const char *rg_preamble_quote_all(const struct rg_preamble *preamble, char *buf, size_t nbytes)
{
    char open[RG_PREAMBLE_NOISE_MAX / 2];
    size_t length = preamble->length < sizeof(open) ? preamble->length : sizeof(open);
    const char *last = preamble->noise;
    size_t nlast = 0;

    for (const char *p = last; (p = strchr(p, '\n')); p++)
        nlast++;
    /* Of the last lines, those that are among the first ones as well. */
    for (; nlast && preamble->nlines - nlast < preamble->nhead; nlast--)
        last += strcspn(last, "\n") + 1;
    size_t n = join(preamble->head, strlen(preamble->head), buf, 0, nbytes);
    if (preamble->nlines > preamble->nhead + nlast)
        n = join("...", 3, buf, n, nbytes);
    n = join(last, strlen(last), buf, n, nbytes);
    memcpy(open, preamble->line, length);
    defuse(open, length);
    if (!is_blank(open, length))
        join(open, length, buf, n, nbytes);
    return buf;
}

static const char *after(const char *text, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(text, word, n) != 0)
        return NULL;
    if (text[n] == '\0')
        return text + n;
    return text[n] == ' ' ? text + n + 1 : NULL;
}

static int parse_error(const char *rest, struct rg_preamble_line *line)
{
    char number[8];
    int64_t code;

    line->text = rg_str_word(rest, number, sizeof(number));
    if (rg_parse_int("exit code", number, 1, 255, &code, NULL) < 0 || *line->text != ' ')
        return -EBADMSG;
    line->exit_code = (int) code;
    line->text++;
    return 1;
}

/* 1 and *line; or -EBADMSG, and it is untouched. */
static int parse(const char *rest, struct rg_preamble_line *line)
{
    static const struct {
        const char *words;
        enum rg_preamble_kind kind;
        bool alone; /* no text may follow */
        int phase;
    } known[] = {
        { "link", RG_PREAMBLE_LINK, true, 0 },
        { "ready", RG_PREAMBLE_READY, true, 0 },
        { "need bundle", RG_PREAMBLE_NEED_BUNDLE, true, 0 },
        { "need agent", RG_PREAMBLE_NEED_AGENT, false, 0 },
        { "note", RG_PREAMBLE_NOTE, false, 0 },
        { "phase pulling", RG_PREAMBLE_PHASE, false, RG_PHASE_PULLING },
        { "phase creating", RG_PREAMBLE_PHASE, false, RG_PHASE_STARTING },
        { "phase connecting", RG_PREAMBLE_PHASE, false, RG_PHASE_CONNECTING },
        { "error", RG_PREAMBLE_ERROR, false, 0 },
    };

    for (size_t i = 0; i < rg_array_len(known); i++) {
        const char *text = after(rest, known[i].words);
        if (!text || (known[i].alone && strcmp(rest, known[i].words) != 0))
            continue;
        struct rg_preamble_line found = { known[i].kind, 0, known[i].phase, text };
        int r = known[i].kind == RG_PREAMBLE_ERROR ? parse_error(text, &found) : 1;
        if (r > 0)
            *line = found;
        return r;
    }
    return -EBADMSG;
}

/* Where our words begin, from `from` on; length when they do not. */
static size_t find_ours(const char *text, size_t from, size_t length)
{
    const char *at = from < length ? memmem(text + from, length - from, OURS, strlen(OURS)) : NULL;

    return at ? (size_t) (at - text) : length;
}

static int end_line(struct rg_preamble *preamble, struct rg_preamble_line *ret_line)
{
    struct rg_preamble_line line = { RG_PREAMBLE_NOISE, 0, 0, preamble->line };
    size_t length = preamble->length;
    bool whole = !preamble->too_long;

    if (length > 0 && preamble->line[length - 1] == '\r')
        length--;
    preamble->line[length] = '\0';
    preamble->length = 0;
    preamble->too_long = 0;
    defuse(preamble->line, length);
    for (size_t at = 0; (at = find_ours(preamble->line, at, length)) < length; at++) {
        int r = parse(preamble->line + at + strlen(OURS), &line);
        if (r < 0 && at == 0 && whole)
            return r;
        if (r < 0)
            continue;
        keep(preamble, preamble->line, at);
        *ret_line = line;
        return r;
    }
    keep(preamble, preamble->line, length);
    *ret_line = line;
    return 1;
}

/* The line is full: what cannot be the beginning of our words goes, and its beginning is kept to be
 * quoted. */
static void make_room(struct rg_preamble *preamble)
{
    char *line = preamble->line;
    size_t at = find_ours(line, 0, preamble->length);

    if (at == 0) /* too long for words of ours */
        at = find_ours(line, 1, preamble->length);
    if (at == preamble->length)
        at -= strlen(OURS) - 1;
    if (!preamble->too_long)
        keep(preamble, line, at);
    preamble->too_long = 1;
    preamble->length -= at;
    memmove(line, line + at, preamble->length);
}

int rg_preamble_feed(struct rg_preamble *preamble, const void *bytes, size_t nbytes,
                     struct rg_preamble_line *ret_line)
{
    const char *text = bytes;
    size_t length = nbytes;

    if (nbytes > RG_PREAMBLE_MAX - preamble->nbytes)
        return -EMSGSIZE;
    if (!nbytes)
        return 0;
    preamble->nbytes += nbytes;
    if (text[nbytes - 1] == '\n')
        length--;
    for (size_t done = 0; done < length;) {
        if (preamble->length == RG_PREAMBLE_LINE_MAX)
            make_room(preamble);
        size_t n = RG_PREAMBLE_LINE_MAX - preamble->length;
        if (n > length - done)
            n = length - done;
        memcpy(preamble->line + preamble->length, text + done, n);
        preamble->length += n;
        done += n;
    }
    return length < nbytes ? end_line(preamble, ret_line) : 0;
}

bool rg_preamble_is_remark(const char *line)
{
    return rg_str_starts(line, "reigen-agent: ");
}

const char *rg_preamble_guard(const char *text, int *ret_length)
{
    static const char mark[] = "reigen-guard: ";
    const char *word = strstr(text, mark);

    if (!word)
        return NULL;
    word += sizeof(mark) - 1;
    *ret_length = (int) strcspn(word, ";\n");
    return word;
}
