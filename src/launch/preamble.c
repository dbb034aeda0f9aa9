/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/preamble.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "launch/session.h"

#define OURS "reigen-boot "

size_t rg_preamble_peek(const void *bytes, size_t nbytes)
{
    const char *newline = nbytes ? memchr(bytes, '\n', nbytes) : NULL;

    return newline ? (size_t) (newline - (const char *) bytes) + 1 : nbytes;
}

/* What a terminal would act on becomes a blank. */
static void defuse(char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char) *text;
        if (c < 0x20 || c == 0x7f)
            *text = ' ';
    }
}

void rg_preamble_keep(struct rg_preamble *preamble, const char *line)
{
    char *noise = preamble->noise;
    size_t have = strlen(noise), length = strnlen(line, RG_PREAMBLE_NOISE_MAX / 2);

    if (line[strspn(line, " \t\r")] == '\0')
        return;
    while (have + length + 1 > RG_PREAMBLE_NOISE_MAX) {
        size_t first = strcspn(noise, "\n") + 1;
        have -= first;
        memmove(noise, noise + first, have + 1);
    }
    memcpy(noise + have, line, length);
    noise[have + length] = '\0';
    defuse(noise + have);
    memcpy(noise + have + length, "\n", 2);
}

const char *rg_preamble_quote(const struct rg_preamble *preamble, char *buf, size_t nbytes)
{
    size_t n = 0;

    for (const char *p = preamble->noise; *p && n + 3 < nbytes; p++) {
        if (*p != '\n') {
            buf[n++] = *p;
        } else if (p[1]) {
            buf[n++] = ';';
            buf[n++] = ' ';
        }
    }
    buf[n] = '\0';
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

static int parse_phase(const char *rest, struct rg_preamble_line *line)
{
    static const struct {
        const char *word;
        int phase;
    } phases[] = {
        { "pulling", RG_PHASE_PULLING },
        { "creating", RG_PHASE_STARTING },
        { "connecting", RG_PHASE_CONNECTING },
    };

    for (size_t i = 0; i < rg_array_len(phases); i++) {
        const char *text = after(rest, phases[i].word);
        if (text) {
            *line = (struct rg_preamble_line){ RG_PREAMBLE_PHASE, 0, phases[i].phase, text };
            return 1;
        }
    }
    return -EBADMSG;
}

static int parse_error(const char *rest, struct rg_preamble_line *line)
{
    char number[8] = "";
    size_t n = strcspn(rest, " ");
    int64_t code;

    if (n >= sizeof(number))
        return -EBADMSG;
    memcpy(number, rest, n);
    if (rg_parse_int("exit code", number, 1, 255, &code, NULL) < 0 || rest[n] != ' ')
        return -EBADMSG;
    *line = (struct rg_preamble_line){ RG_PREAMBLE_ERROR, (int) code, 0, rest + n + 1 };
    return 1;
}

static int parse(const char *rest, struct rg_preamble_line *line)
{
    const char *text;

    if (strcmp(rest, "link") == 0) {
        *line = (struct rg_preamble_line){ RG_PREAMBLE_LINK, 0, 0, "" };
        return 1;
    }
    if (strcmp(rest, "ready") == 0 || strcmp(rest, "need kit") == 0) {
        *line = (struct rg_preamble_line){ *rest == 'r' ? RG_PREAMBLE_READY : RG_PREAMBLE_NEED_KIT,
                                           0, 0, "" };
        return 1;
    }
    if ((text = after(rest, "need agent"))) {
        *line = (struct rg_preamble_line){ RG_PREAMBLE_NEED_AGENT, 0, 0, text };
        return 1;
    }
    if ((text = after(rest, "note"))) {
        *line = (struct rg_preamble_line){ RG_PREAMBLE_NOTE, 0, 0, text };
        return 1;
    }
    if ((text = after(rest, "phase")))
        return parse_phase(text, line);
    if ((text = after(rest, "error")))
        return parse_error(text, line);
    return -EBADMSG;
}

static int end_line(struct rg_preamble *preamble, struct rg_preamble_line *ret_line)
{
    struct rg_preamble_line line = { RG_PREAMBLE_NOISE, 0, 0, preamble->line };
    size_t length = preamble->length;
    int r = 1;

    if (length > 0 && preamble->line[length - 1] == '\r')
        length--;
    preamble->line[length] = '\0';
    preamble->length = 0;
    defuse(preamble->line);
    if (rg_str_starts(preamble->line, OURS) && !preamble->too_long)
        r = parse(preamble->line + strlen(OURS), &line);
    else
        rg_preamble_keep(preamble, preamble->line);
    preamble->too_long = 0;
    if (r > 0)
        *ret_line = line;
    return r;
}

int rg_preamble_feed(struct rg_preamble *preamble, const void *bytes, size_t nbytes,
                     struct rg_preamble_line *ret_line)
{
    const char *text = bytes;
    size_t room = RG_PREAMBLE_LINE_MAX - preamble->length;
    size_t length = nbytes;

    if (nbytes > RG_PREAMBLE_MAX - preamble->nbytes)
        return -EMSGSIZE;
    if (!nbytes)
        return 0;
    preamble->nbytes += nbytes;
    if (text[nbytes - 1] == '\n')
        length--;
    if (length > room) {
        preamble->too_long = 1;
        memcpy(preamble->line + preamble->length, text, room);
        preamble->length += room;
    } else {
        memcpy(preamble->line + preamble->length, text, length);
        preamble->length += length;
    }
    return length < nbytes ? end_line(preamble, ret_line) : 0;
}
