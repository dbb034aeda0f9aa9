/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of strings, environments, and the values that people write are read and made here. */
#include "base/str.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NEAREST_MAX 64 /* longer words are not compared */

void rg_strv_fini(struct rg_strv *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++)
        free(list->v[i]);
    free(list->v);
    *list = (struct rg_strv) RG_STRV_INIT;
}

/* In use are count strings and the NULL. The array doubles whenever that is a power of two from 4
 * up, so its capacity follows from count alone. */
static int grow_by_one(struct rg_strv *list)
{
    size_t used = list->v ? list->count + 1 : 0;
    bool full = used == 0 || (used >= 4 && (used & (used - 1)) == 0);

    if (!full)
        return 0;
    char **v = reallocarray(list->v, used ? used * 2 : 4, sizeof(char *));

    if (!v)
        return -ENOMEM;
    list->v = v;
    return 0;
}

int rg_strv_take(struct rg_strv *list, char *take_text)
{
    if (!take_text || list->failed || grow_by_one(list) < 0) {
        free(take_text);
        list->failed = true;
        return -ENOMEM;
    }
    list->v[list->count++] = take_text;
    list->v[list->count] = NULL;
    return 0;
}

int rg_strv_add(struct rg_strv *list, const char *text)
{
    return rg_strv_take(list, strdup(text));
}

int rg_strv_status(const struct rg_strv *list)
{
    return list->failed ? -ENOMEM : 0;
}

static char *vstrf(const char *fmt, va_list args)
{
    char *text = NULL;

    return vasprintf(&text, fmt, args) < 0 ? NULL : text;
}

char *rg_strf(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    char *text = vstrf(fmt, args);
    va_end(args);
    return text;
}

int rg_strv_addf(struct rg_strv *list, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    char *text = vstrf(fmt, args);
    va_end(args);
    return rg_strv_take(list, text);
}

int rg_strv_add_all(struct rg_strv *list, char *const *texts)
{
    int rc = 0;

    for (; rc == 0 && texts && *texts; texts++)
        rc = rg_strv_add(list, *texts);
    return rc;
}

void rg_strv_remove(struct rg_strv *list, size_t i)
{
    free(list->v[i]);
    memmove(&list->v[i], &list->v[i + 1], (list->count - i) * sizeof(char *));
    list->count--;
}

bool rg_strv_has(const struct rg_strv *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->v[i], text) == 0)
            return true;
    }
    return false;
}

static size_t env_find(const struct rg_strv *list, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->v[i], name, n) == 0 && list->v[i][n] == '=')
            return i;
    }
    return SIZE_MAX;
}

int rg_env_set(struct rg_strv *list, const char *name, const char *value)
{
    size_t i = env_find(list, name);

    if (i == SIZE_MAX)
        return rg_strv_addf(list, "%s=%s", name, value);
    /* value may point into the entry that is replaced. */
    char *entry = rg_strf("%s=%s", name, value);

    if (!entry)
        return -ENOMEM;
    free(list->v[i]);
    list->v[i] = entry;
    return 0;
}

int rg_env_setf(struct rg_strv *list, const char *name, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    rg_autofree char *value = vstrf(fmt, args);
    va_end(args);
    return value ? rg_env_set(list, name, value) : -ENOMEM;
}

const char *rg_env_get(const struct rg_strv *list, const char *name)
{
    size_t i = env_find(list, name);

    return i == SIZE_MAX ? NULL : list->v[i] + strlen(name) + 1;
}

void rg_env_unset(struct rg_strv *list, const char *name)
{
    size_t i;

    /* An inherited environment may hold a name twice. */
    while ((i = env_find(list, name)) != SIZE_MAX)
        rg_strv_remove(list, i);
}

bool rg_str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool rg_str_has_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = words; p && *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (len == n && strncmp(p, word, n) == 0)
            return true;
        p += len;
    }
    return false;
}

const char *rg_str_word(const char *text, char *ret_word, size_t room)
{
    text += strspn(text, " \t\n");
    size_t n = strcspn(text, " \t\n");
    snprintf(ret_word, room, "%.*s", (int) n, text);
    return text + n;
}

const char *rg_str_number(const char *text, double *ret_number)
{
    const char *digits = text + (*text == '-' || *text == '+');
    bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    char *end;

    if (hexadecimal || (!isdigit((unsigned char) *digits) && *digits != '.'))
        return NULL;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number))
        return NULL;
    *ret_number = number;
    return end;
}

/* Decimal digits at *text, saturating; the number of digits. */
static size_t take_digits(const char **text, uint64_t *ret_n)
{
    size_t count = 0;
    uint64_t n = 0;

    for (; isdigit((unsigned char) **text); (*text)++, count++) {
        unsigned digit = (unsigned) (**text - '0');

        n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
    }
    *ret_n = n;
    return count;
}

int rg_parse_int(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret_n,
                 struct rg_error *err)
{
    const char *p = text;
    bool negative = *p == '-';
    uint64_t magnitude;

    if (negative)
        p++;
    if (take_digits(&p, &magnitude) == 0 || *p != '\0')
        return rg_error_set(err, EINVAL, "%s %s: not a whole number; give %lld to %lld", what,
                            *text ? text : "(empty)", (long long) min, (long long) max);

    uint64_t limit = (uint64_t) INT64_MAX + (negative ? 1 : 0);
    int64_t n = 0;

    if (magnitude <= limit)
        n = negative ? (int64_t) (0 - magnitude) : (int64_t) magnitude;
    if (magnitude > limit || n < min || n > max)
        return rg_error_set(err, ERANGE, "%s %s: out of range; give %lld to %lld", what, text,
                            (long long) min, (long long) max);
    *ret_n = n;
    return 0;
}

int rg_parse_text(const char *what, const char *value, char **text, struct rg_error *err)
{
    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty", what);
    char *copy = strdup(value);

    if (!copy)
        return rg_error_set(err, ENOMEM, "out of memory");
    free(*text);
    *text = copy;
    return 0;
}

int rg_parse_size(const char *what, const char *text, uint64_t *ret_nbytes, struct rg_error *err)
{
    static const char units[] = "bkmgt";
    char digits[24];
    size_t n = strspn(text, "0123456789");
    const char *unit = text[n] ? strchr(units, text[n] | 0x20) : units;
    const char *rest = text[n] ? text + n + 1 : "";
    int shift = unit ? 10 * (int) (unit - units) : 0;
    int64_t count;

    snprintf(digits, sizeof(digits), "%.*s", (int) n, text);
    if (n >= sizeof(digits) || !unit ||
        (*rest && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0) ||
        rg_parse_int(what, digits, 1, INT64_MAX >> shift, &count, NULL) < 0)
        return rg_error_set(err, EINVAL, "%s %s: not a size; give for example 512m or 8g", what,
                            text);
    *ret_nbytes = (uint64_t) count << shift;
    return 0;
}

const char *rg_size_text(uint64_t nbytes, char *buf, size_t room)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double amount = (double) nbytes;
    int unit = 0;

    for (; amount >= 1024 && unit < 4; unit++)
        amount /= 1024;
    if (nbytes == UINT64_MAX)
        snprintf(buf, room, "unlimited");
    else
        snprintf(buf, room, "%.4g %s", amount, units[unit]);
    return buf;
}

void rg_version_line(const char *text, char *ret_line, size_t room)
{
    text += strspn(text, " \t\r\n");
    int length = (int) strcspn(text, "\r\n");
    const char *version = strstr(text, "Version:");

    if (!length || text[length - 1] != ':' || !version || version < text + length) {
        snprintf(ret_line, room, "%.*s", length, text);
        return;
    }
    version += strlen("Version:");
    version += strspn(version, " \t");
    snprintf(ret_line, room, "%.*s %.*s", (int) strcspn(text, " :"), text,
             (int) strcspn(version, " \t\r\n"), version);
}

int rg_parse_ports(const char *what, const char *text, struct rg_ports *ret_ports,
                   struct rg_error *err)
{
    const char *p = text;
    uint64_t first, last;
    bool good = take_digits(&p, &first) > 0;

    last = first;
    if (good && *p == '-')
        good = (p++, take_digits(&p, &last) > 0);
    if (!good || *p || first < 1 || last < first || last > UINT16_MAX)
        return rg_error_set(err, EINVAL,
                            "%s %s: give ports as FIRST-LAST, such as 20000-20100, of 1 to 65535",
                            what, *text ? text : "(empty)");
    *ret_ports = (struct rg_ports){ (int) first, (int) last };
    return 0;
}

int rg_ports_count(const struct rg_ports *ports)
{
    return ports->last - ports->first + 1;
}

int rg_ports_nth(const struct rg_ports *ports, unsigned start, int i)
{
    unsigned count = (unsigned) rg_ports_count(ports);

    return ports->first + (int) ((start % count + (unsigned) i) % count);
}

static uint64_t unit_in_ms(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = { { "", 1000 }, { "s", 1000 }, { "ms", 1 }, { "m", 60000 }, { "h", 3600000 } };

    for (size_t i = 0; i < rg_array_len(units); i++) {
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ms;
    }
    return 0;
}

int rg_parse_duration_ms(const char *what, const char *text, uint64_t *ret_ms,
                         struct rg_error *err)
{
    const char *p = text;
    uint64_t n;
    size_t digits = take_digits(&p, &n);
    uint64_t unit = unit_in_ms(p);

    if (digits == 0 || unit == 0)
        return rg_error_set(err, EINVAL,
                            "%s %s: not a duration; give seconds, or for example 250ms, 30s, "
                            "2m, 1h",
                            what, *text ? text : "(empty)");
    if (n > RG_DURATION_MAX_MS / unit)
        return rg_error_set(err, ERANGE, "%s %s: longer than %llu hours", what, text,
                            (unsigned long long) (RG_DURATION_MAX_MS / 3600000));
    *ret_ms = n * unit;
    return 0;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return least < c ? least : c;
}

/* Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours. Both
 * words are shorter than NEAREST_MAX. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][NEAREST_MAX];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned) j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *above2 = rows[(i + 1) % 3];

        row[0] = (unsigned) i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned differs = a[i - 1] != b[j - 1];

            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + differs);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min3(row[j], above2[j - 2] + 1, UINT_MAX);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *rg_str_nearest(const char *text, const char *const *choices)
{
    size_t length = strlen(text);
    unsigned best_distance = UINT_MAX;
    const char *best = NULL;

    if (length >= NEAREST_MAX)
        return NULL;
    for (; *choices; choices++) {
        size_t choice_length = strlen(*choices);

        if (choice_length >= NEAREST_MAX)
            continue;
        unsigned d = distance(text, length, *choices, choice_length);
        size_t longer = length > choice_length ? length : choice_length;

        if (d <= longer / 3 && d < best_distance) {
            best_distance = d;
            best = *choices;
        }
    }
    return best;
}
