/* SPDX-License-Identifier: Apache-2.0 */
/* Where an attempt is started again by hand, a person looks at the last lines first: whether they
 * are those of yesterday, and how far it had got. */
#include "launch/verdict/failure.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/exitcode.h"
#include "launch/verdict/tail.h"

#define NORMAL_MAX 1024  /* bytes of a line in normal form that count */
#define DIGEST_MIN 4     /* so many hexadecimal digits in a row are no word */

/* --- normal form ------------------------------------------------------------------------------ */

static bool is_word(char c)
{
    return isalnum((unsigned char) c) || c == '_';
}

/* Of a number with its fraction, exponent, or the colons of a time; 0: there is none. */
static size_t number_at(const char *text)
{
    size_t n = 0;

    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        for (n = 2; isxdigit((unsigned char) text[n]); n++)
            ;
        return n;
    }
    while (isdigit((unsigned char) text[n]) ||
           (n && strchr(".,:", text[n]) && text[n] && isdigit((unsigned char) text[n + 1])))
        n++;
    if (n && (text[n] == 'e' || text[n] == 'E')) {
        size_t sign = n + 1 + (text[n + 1] == '-' || text[n + 1] == '+');
        if (isdigit((unsigned char) text[sign]))
            n = sign + strspn(text + sign, "0123456789");
    }
    return n;
}

/* Of a word that is a digest, or a part of one: hexadecimal digits, some of them decimal. */
static size_t digest_at(const char *text)
{
    size_t n = 0, ndecimal = 0;

    for (; isxdigit((unsigned char) text[n]); n++)
        ndecimal += isdigit((unsigned char) text[n]) != 0;
    return n >= DIGEST_MIN && ndecimal && !is_word(text[n]) ? n : 0;
}

/* Of the name behind "/tmp/", by which no two attempts call a file. */
static size_t temporary_at(const char *line, const char *text)
{
    static const char folder[] = "/tmp/";
    size_t before = sizeof(folder) - 1;

    return (size_t) (text - line) >= before && strncmp(text - before, folder, before) == 0
               ? strcspn(text, "/'\" ,:;)") : 0;
}

static size_t variable_at(const char *line, const char *text)
{
    size_t n = temporary_at(line, text);
    size_t number = number_at(text);

    if (!n && (text == line || !is_word(text[-1])))
        n = digest_at(text);
    return n > number ? n : number;
}

void rg_failure_normalize(const char *line, char *text, size_t nbytes)
{
    size_t used = 0;
    const char *c = line + rg_tail_prefix(line, strlen(line));

    for (const char *from = c; *c && used + 2 < nbytes;) {
        size_t n = variable_at(from, c);
        bool space = isspace((unsigned char) *c);
        if (n) {
            c += n;
            text[used++] = '#';
        } else if (!space || (used && text[used - 1] != ' ')) {
            text[used++] = space ? ' ' : *c;
            c++;
        } else {
            c++;
        }
    }
    while (used && text[used - 1] == ' ')
        used--;
    text[used] = '\0';
}

static uint64_t hash(uint64_t h, const char *line)
{
    char text[NORMAL_MAX];

    rg_failure_normalize(line, text, sizeof(text));
    for (const char *c = text; *c; c++) /* FNV-1a */
        h = (h ^ (uint8_t) *c) * 0x100000001b3;
    return (h ^ '\n') * 0x100000001b3;
}

/* --- the error -------------------------------------------------------------------------------- */

static const char *bare(const char *line)
{
    return line + rg_tail_prefix(line, strlen(line));
}

static bool is_blank(const char *line)
{
    return !line[strspn(line, " \t\r")];
}

static bool is_frame(const char *line)
{
    const char *at = line + strspn(line, " ");

    return at != line && strncmp(at, "File \"", 6) == 0 && strstr(at, "\", line ") != NULL;
}

/* Behind a frame stand lines of source, which are indented, and then the exception. */
static size_t exception_after(const struct rg_failure_lines *of, size_t frame)
{
    size_t i = frame + 1;

    while (i < of->nlines && (is_blank(bare(of->lines[i])) || *bare(of->lines[i]) == ' '))
        i++;
    return i;
}

/* 0: it wrote nothing. *ret_error: the line that tells it best. */
static uint64_t find_error(const struct rg_failure_lines *of, const char **ret_error)
{
    const uint64_t begin = 0xcbf29ce484222325;
    size_t last = of->nlines;

    for (size_t i = of->nlines; i-- > 0;) {
        size_t exception = is_frame(bare(of->lines[i])) ? exception_after(of, i) : of->nlines;
        if (exception == of->nlines)
            continue;
        *ret_error = bare(of->lines[exception]);
        return hash(hash(begin, of->lines[i]), of->lines[exception]) | 1;
    }
    while (last && is_blank(of->lines[last - 1]))
        last--;
    if (!last)
        return 0;
    *ret_error = bare(of->lines[last - 1]);
    return hash(begin, of->lines[last - 1]) | 1;
}

/* --- its kind --------------------------------------------------------------------------------- */

static bool tells_of_hardware(const struct rg_failure_lines *of)
{
    static const char *const words[] = { "uncorrectable ecc", "ecc error", "fallen off the bus",
                                         "hardware error", "input/output error", "bus error" };

    for (size_t i = 0; i < of->nlines; i++) {
        for (size_t w = 0; w < rg_array_len(words); w++) {
            if (strcasestr(of->lines[i], words[w]))
                return true;
        }
    }
    return false;
}

static enum rg_failure_kind kind_of_signal(int signo)
{
    switch (signo) {
    case SIGKILL: case SIGTERM: case SIGINT: case SIGHUP: case SIGUSR1: case SIGUSR2:
    case SIGXCPU: return RG_FAILURE_OUTSIDE;
    case SIGBUS: return RG_FAILURE_HARDWARE;
    default: return RG_FAILURE_CRASH;
    }
}

/* A shell says 128 + n of a program that died of signal n. */
static enum rg_failure_kind kind_of_code(int code, const struct rg_failure_lines *errors)
{
    int signo = code - RG_EXIT_SIGNAL;
    enum rg_failure_kind kind = RG_FAILURE_ERROR;

    if (code == RG_EXIT_PREEMPTED || code == RG_EXIT_HOST_LOST || code == RG_EXIT_TIMEOUT)
        return RG_FAILURE_OUTSIDE; /* the last one is that of `timeout`, too */
    if (signo > 0 && signo < NSIG)
        kind = kind_of_signal(signo);
    return kind != RG_FAILURE_OUTSIDE && tells_of_hardware(errors) ? RG_FAILURE_HARDWARE : kind;
}

static enum rg_failure_kind kind_of(const struct rg_rank_end *end,
                                    const struct rg_failure_lines *errors)
{
    if (end->end != RG_END_EXIT && end->end != RG_END_SIGNAL)
        return RG_FAILURE_UNKNOWN;
    if (end->oom)
        return RG_FAILURE_MEMORY;
    return end->end == RG_END_SIGNAL ? kind_of_signal(end->value)
                                     : kind_of_code(end->value, errors);
}

const char *rg_failure_kind_name(enum rg_failure_kind kind)
{
    static const char *const names[] = {
        [RG_FAILURE_UNKNOWN] = "unknown", [RG_FAILURE_OUTSIDE] = "outside",
        [RG_FAILURE_ERROR] = "error",     [RG_FAILURE_CRASH] = "crash",
        [RG_FAILURE_MEMORY] = "memory",   [RG_FAILURE_HARDWARE] = "hardware",
    };

    return names[kind];
}

void rg_failure_take(const struct rg_rank_end *end, int rank, uint64_t ran_ns,
                     const struct rg_failure_lines *errors, const struct rg_failure_lines *all,
                     struct rg_failure *ret_failure)
{
    const char *error = "";
    uint64_t h = find_error(errors, &error);

    if (!h)
        h = find_error(all, &error);
    *ret_failure = (struct rg_failure){
        .kind = kind_of(end, errors), .rank = rank, .end = end->end, .value = end->value,
        .hash = h, .ran_ns = ran_ns, .far = { -1, -1 },
    };
    snprintf(ret_failure->host, sizeof(ret_failure->host), "%s", end->host);
    snprintf(ret_failure->error, sizeof(ret_failure->error), "%s", error);
}

/* --- two of them ------------------------------------------------------------------------------ */

bool rg_failure_is_same(const struct rg_failure *before, const struct rg_failure *now)
{
    return now->kind > RG_FAILURE_OUTSIDE && before->kind == now->kind &&
           before->end == now->end && before->value == now->value && before->hash == now->hash &&
           (now->hash || before->rank == now->rank);
}

bool rg_failure_got_further(const struct rg_failure *before, const struct rg_failure *now)
{
    if (now->ran_ns >= RG_FAILURE_SOON_NS)
        return true;
    if (before->far.epoch >= 0 && now->far.epoch >= 0 &&
        (now->far.epoch > before->far.epoch || now->far.epoch < before->far.epoch))
        return now->far.epoch > before->far.epoch;
    if (before->far.step >= 0 && now->far.step >= 0)
        return now->far.step > before->far.step;
    return now->ran_ns / 2 > before->ran_ns && now->ran_ns - before->ran_ns > RG_FAILURE_LEAST_NS;
}

bool rg_failure_is_vain(const struct rg_failure *before, const struct rg_failure *now)
{
    return rg_failure_is_same(before, now) && !rg_failure_got_further(before, now);
}

bool rg_failure_blames_host(const struct rg_failure *before, const struct rg_failure *now)
{
    return before->kind >= RG_FAILURE_MEMORY && now->kind >= RG_FAILURE_MEMORY &&
           strcmp(before->host, now->host) == 0;
}
