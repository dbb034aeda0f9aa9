/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, lists of strings, and numbers in text.
 *
 * Thread rule: objects belong to one thread at a time; the parsers keep no state.
 */
#ifndef RG_BASE_STR_H
#define RG_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

/* A list of strings, always NULL-terminated once non-empty, so v can be an argv or an environ. */
struct rg_strv {
    char **v; /* owned, each element owned; NULL while empty */
    size_t count;
    bool failed; /* memory was short once: nothing is added any more */
};

#define RG_STRV_INIT { NULL, 0, false }

void rg_strv_fini(struct rg_strv *list);
#define rg_autostrv rg_cleanup(rg_strv_fini)

/* Append a copy (or take_text itself, also freed on failure; NULL fails). 0 or -ENOMEM. */
int rg_strv_add(struct rg_strv *list, const char *text);
int rg_strv_take(struct rg_strv *list, char *take_text);
int rg_strv_addf(struct rg_strv *list, const char *fmt, ...) rg_printf(2, 3);
/* After many of these one look is enough: 0, or -ENOMEM when one of them has failed. */
int rg_strv_status(const struct rg_strv *list);
/* Append copies of all of a NULL-terminated array. 0 or -ENOMEM (some may have been added). */
int rg_strv_add_all(struct rg_strv *list, char *const *texts);
/* Remove number i, which is there. */
void rg_strv_remove(struct rg_strv *list, size_t i);
/* Whether one of them is this text. */
bool rg_strv_has(const struct rg_strv *list, const char *text);

/* Lists used as environments ("NAME=value"). Set replaces or appends; get returns the value,
 * borrowed from the list, or NULL; unset removes (absent is fine). */
int rg_env_set(struct rg_strv *list, const char *name, const char *value);
int rg_env_setf(struct rg_strv *list, const char *name, const char *fmt, ...) rg_printf(3, 4);
const char *rg_env_get(const struct rg_strv *list, const char *name);
void rg_env_unset(struct rg_strv *list, const char *name);

/* A formatted string on the heap, or NULL when out of memory. */
char *rg_strf(const char *fmt, ...) rg_printf(1, 2);

bool rg_str_starts(const char *text, const char *prefix);
/* Whether word is one of words, which blanks separate; NULL has none. */
bool rg_str_has_word(const char *words, const char *word);
/* The first word of text, ended by a blank, a tab or a newline, into ret_word, cut where room ends;
 * "" where there is none. Returns what follows it. */
const char *rg_str_word(const char *text, char *ret_word, size_t room);

/* The decimal number that text begins with, such as "0.5" or "1e3", in the C locale's form; strtod
 * takes blanks, hexadecimal numbers and words as well. Returns what follows it, or NULL, and then
 * *ret_number is untouched. */
const char *rg_str_number(const char *text, double *ret_number);

/* A whole decimal number, nothing around it, min <= n <= max. what names the value in the error
 * text ("-np", "slots of host a"). 0, -EINVAL (not a number) or -ERANGE. */
int rg_parse_int(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret_n,
                 struct rg_error *err);

/* Text that may be anything but empty, into *text, whose old value is freed; the new one is the
 * caller's. 0, -EINVAL or -ENOMEM; then *text is as it was. */
int rg_parse_text(const char *what, const char *value, char **text, struct rg_error *err);

/* A size as people write it: "64m", "1g", "8GiB", "100b", in powers of 1024; without a unit in
 * bytes. At least 1. 0, or -EINVAL with what and text. */
int rg_parse_size(const char *what, const char *text, uint64_t *ret_nbytes, struct rg_error *err);
/* And back, for people: "2 GiB", "1.5 KiB", "12 bytes"; UINT64_MAX is "unlimited". Into buf, which
 * is returned. */
const char *rg_size_text(uint64_t nbytes, char *buf, size_t room);

/* What a program says of itself when it is asked for its --version: the first line; where that is a
 * heading with lines below, as MPICH's "HYDRA build details:", its first word and the value of the
 * line "Version:". text may be "". */
void rg_version_line(const char *text, char *ret_line, size_t room);

/* TCP ports that may be listened on, both ends included; first 0: whichever the kernel gives. */
struct rg_ports {
    int first, last;
};

/* "20000-20100", or one port. 0, or -EINVAL with what and text. */
int rg_parse_ports(const char *what, const char *text, struct rg_ports *ret_ports,
                   struct rg_error *err);
/* How many there are to try: 1 where first is 0. */
int rg_ports_count(const struct rg_ports *ports);
/* The i-th to try for somebody who begins at start, any number; 0 where first is 0. */
int rg_ports_nth(const struct rg_ports *ports, unsigned start, int i);

/* The longest duration, a bit over 31 years: its nanoseconds added to any clock fit in 64 bits. */
#define RG_DURATION_MAX_MS 1000000000000ull

/* A duration as people write it: "30" and "30s" are seconds, also "250ms", "2m", "1h".
 * 0, -EINVAL, or -ERANGE above RG_DURATION_MAX_MS. */
int rg_parse_duration_ms(const char *what, const char *text, uint64_t *ret_ms,
                         struct rg_error *err);

/* The word of choices (NULL-terminated) closest to text, for "did you mean"; NULL when none is
 * near (Damerau-Levenshtein distance above a third of the length). */
const char *rg_str_nearest(const char *text, const char *const *choices);

#endif
