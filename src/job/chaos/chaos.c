/* SPDX-License-Identifier: Apache-2.0 */
/* An event is read from left to right: verb, who, when, and what may follow. What of it goes
 * together stands in one table, from which the errors are made, too. */
#include "job/chaos/chaos.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define ELEMENT_MAX 512 /* bytes of one event */
#define LABEL_MAX (ELEMENT_MAX + 64)

/* What a verb takes. Who does it decides: a rank does to itself what happens at a step, and the
 * launcher what happens at a time. */
static const struct {
    const char *name;
    bool rank_step, rank_time, host_time, random_time;
    bool takes_for, takes_by, takes_code;
} verbs[] = {
    [RG_CHAOS_KILL] = { "kill", true, true, true, true, false, false, false },
    [RG_CHAOS_STOP] = { "stop", true, true, true, true, true, false, false },
    [RG_CHAOS_SLOW] = { "slow", true, false, false, false, true, true, false },
    [RG_CHAOS_EXIT] = { "exit", true, false, false, false, false, false, true },
    [RG_CHAOS_CUT] = { "cut", false, false, true, false, true, false, false },
};

const char *rg_chaos_verb_name(enum rg_chaos_verb verb)
{
    return verbs[verb].name;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int read_verb(const char *label, const char *word, enum rg_chaos_verb *ret_verb,
                     struct rg_error *err)
{
    const char *names[rg_array_len(verbs) + 1] = { NULL };

    for (size_t i = 0; i < rg_array_len(verbs); i++) {
        names[i] = verbs[i].name;
        if (strcmp(word, names[i]) == 0) {
            *ret_verb = (enum rg_chaos_verb) i;
            return 0;
        }
    }
    const char *near = rg_str_nearest(word, names);
    return rg_error_set(err, EINVAL, "%s: %s is no event; %s%s%skill, stop, slow, exit and cut are",
                        label, *word ? word : "nothing", near ? "did you mean " : "",
                        near ? near : "", near ? "? " : "");
}

static int read_who(const char *label, const char *word, struct rg_chaos_event *event,
                    struct rg_error *err)
{
    int64_t rank;

    if (strcmp(word, "random") == 0) {
        event->who = RG_CHAOS_RANDOM;
        return 0;
    }
    if (rg_str_starts(word, "rank=")) {
        int r = rg_parse_int(label, word + 5, 0, RG_JOB_RANKS_MAX - 1, &rank, err);
        event->rank = r < 0 ? 0 : (int) rank;
        event->who = RG_CHAOS_RANK;
        return r;
    }
    if (rg_str_starts(word, "host=") && word[5] && strlen(word + 5) < sizeof(event->host)) {
        snprintf(event->host, sizeof(event->host), "%s", word + 5);
        event->who = RG_CHAOS_ON_HOST;
        return 0;
    }
    return rg_error_set(err, EINVAL, "%s: %s names nobody; write rank=N, host=NAME or random",
                        label, *word ? word : "nothing");
}

static int read_when(const char *label, char *word, struct rg_chaos_event *event,
                     struct rg_error *err)
{
    char *dots = strstr(word, "..");
    int64_t step;
    int r;

    if (!*word)
        return rg_error_set(err, EINVAL, "%s: when? write @step=N, or a time, such as @30s", label);
    if (rg_str_starts(word, "step=")) {
        r = rg_parse_int(label, word + 5, 1, RG_CHAOS_STEP_MAX, &step, err);
        event->step = r < 0 ? 0 : (int) step;
        return r;
    }
    if (dots)
        *dots = '\0';
    r = rg_parse_duration_ms(label, word, &event->at_ms, err);
    if (r == 0 && dots)
        r = rg_parse_duration_ms(label, dots + 2, &event->before_ms, err);
    if (r == 0 && dots && event->before_ms <= event->at_ms)
        r = rg_error_set(err, EINVAL, "%s: the time ends before it begins; write the earlier one "
                         "first, such as 10s..60s", label);
    return r;
}

/* "for 8s", "by 50ms", "code=3", in any order. */
static int read_rest(const char *label, char *rest, struct rg_chaos_event *event,
                     struct rg_error *err)
{
    char *save = NULL;
    int64_t code;
    int r = 0;

    for (char *word = strtok_r(rest, " ", &save); r == 0 && word;
         word = strtok_r(NULL, " ", &save)) {
        bool by = strcmp(word, "by") == 0;
        if (by || strcmp(word, "for") == 0) {
            uint64_t *value = by ? &event->by_ms : &event->for_ms;
            char *time = strtok_r(NULL, " ", &save);
            r = rg_parse_duration_ms(label, time ? time : "", value, err);
            if (r == 0 && *value == 0)
                r = rg_error_set(err, EINVAL, "%s: 0 is no time; write at least 1ms", label);
        } else if (rg_str_starts(word, "code=")) {
            r = rg_parse_int(label, word + 5, 0, 255, &code, err);
            event->code = r < 0 ? 0 : (int) code;
        } else {
            r = rg_error_set(err, EINVAL, "%s: %s cannot stand there; for TIME, by TIME and code=N "
                             "can", label, word);
        }
    }
    return r;
}

/* What the verb does not take. */
static int judge(const char *label, const struct rg_chaos_event *event, struct rg_error *err)
{
    const char *verb = verbs[event->verb].name;
    bool rank = event->who == RG_CHAOS_RANK;
    bool fits = event->who == RG_CHAOS_ON_HOST ? verbs[event->verb].host_time && !event->step
                : event->who == RG_CHAOS_RANDOM ? verbs[event->verb].random_time && !event->step
                : event->step ? verbs[event->verb].rank_step : verbs[event->verb].rank_time;

    if (event->verb == RG_CHAOS_CUT && !fits)
        return rg_error_set(err, EINVAL, "%s: a host is cut off, at a time: cut:host=NAME@TIME",
                            label);
    if (!fits && verbs[event->verb].rank_time)
        return rg_error_set(err, EINVAL, "%s: only a rank has steps; write rank=N, or a time, such "
                            "as @30s", label);
    if (!fits)
        return rg_error_set(err, EINVAL, "%s: a rank does that by itself, at a step of its own: "
                            "%s:rank=N@step=N%s", label, verb,
                            rank ? "; kill and stop take a time" : "");
    if ((event->for_ms && !verbs[event->verb].takes_for) ||
        (event->by_ms && !verbs[event->verb].takes_by) ||
        (event->code >= 0 && !verbs[event->verb].takes_code))
        return rg_error_set(err, EINVAL, "%s: %s takes no %s; leave it out", label, verb,
                            event->code >= 0 && !verbs[event->verb].takes_code ? "code"
                            : event->by_ms && !verbs[event->verb].takes_by ? "by" : "for");
    return 0;
}

static char *trim(char *text)
{
    text += strspn(text, " ");
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
    return text;
}

/* Cut text at the first of these characters; returns what is behind it, or "". */
static char *cut_at(char *text, const char *stops)
{
    char *end = text + strcspn(text, stops);

    if (!*end)
        return end;
    *end = '\0';
    return end + 1;
}

static int read_event(const char *label, char *text, struct rg_chaos_event *event,
                      struct rg_error *err)
{
    char *who = cut_at(text, ":"), *when = cut_at(who, "@"), *rest = cut_at(when, " ");
    int r = read_verb(label, trim(text), &event->verb, err);

    event->code = -1;
    r = r < 0 ? r : read_who(label, trim(who), event, err);
    r = r < 0 ? r : read_when(label, when, event, err);
    r = r < 0 ? r : read_rest(label, rest, event, err);
    r = r < 0 ? r : judge(label, event, err);
    if (r == 0 && event->verb == RG_CHAOS_SLOW && !event->by_ms)
        event->by_ms = RG_CHAOS_BY_MS;
    if (event->code < 0)
        event->code = event->verb == RG_CHAOS_EXIT;
    return r;
}

static int read_seed(const char *label, const char *text, struct rg_chaos *chaos,
                     struct rg_error *err)
{
    int64_t seed;
    int r = rg_parse_int(label, text, 0, INT64_MAX, &seed, err);

    if (r == 0 && chaos->seeded)
        r = rg_error_set(err, EINVAL, "%s: there is a seed already; leave one of them out", label);
    if (r == 0) {
        chaos->seed = (uint64_t) seed;
        chaos->seeded = true;
    }
    return r;
}

static int read_element(const char *what, const char *start, size_t length,
                        struct rg_chaos *chaos, struct rg_error *err)
{
    char copy[ELEMENT_MAX], label[LABEL_MAX];

    if (length >= sizeof(copy))
        return rg_error_set(err, EINVAL, "%s: an event has at most %d bytes", what,
                            ELEMENT_MAX - 1);
    snprintf(copy, sizeof(copy), "%.*s", (int) length, start);
    char *text = trim(copy);

    snprintf(label, sizeof(label), "%s %s", what, text);
    if (rg_str_starts(text, "seed="))
        return read_seed(label, text + 5, chaos, err);
    if (chaos->count == RG_CHAOS_EVENTS_MAX)
        return rg_error_set(err, EINVAL, "%s: more than %d events; leave some out", label,
                            RG_CHAOS_EVENTS_MAX);
    int r = read_event(label, text, &chaos->events[chaos->count], err);

    chaos->count += r == 0;
    return r;
}

int rg_chaos_parse(const char *what, const char *text, struct rg_chaos *ret_chaos,
                   struct rg_error *err)
{
    struct rg_chaos chaos = { .count = 0 };
    int r = 0;

    for (const char *at = text; r == 0; at++) {
        size_t length = strcspn(at, ",");
        r = read_element(what, at, length, &chaos, err);
        at += length;
        if (!*at)
            break;
    }
    if (r == 0 && chaos.count == 0)
        r = rg_error_set(err, EINVAL, "%s %s: no event; write one, such as kill:rank=1@30s", what,
                         text);
    if (r == 0)
        *ret_chaos = chaos;
    return r;
}

/* --- chance ----------------------------------------------------------------------------------- */

bool rg_chaos_is_open(const struct rg_chaos *chaos)
{
    for (size_t i = 0; i < chaos->count; i++) {
        if (chaos->events[i].who == RG_CHAOS_RANDOM || chaos->events[i].before_ms)
            return true;
    }
    return false;
}

/* SplitMix64: the next number of a sequence that its state alone determines. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rg_chaos_draw(struct rg_chaos *chaos, int nranks)
{
    uint64_t state = chaos->seed;

    for (size_t i = 0; i < chaos->count; i++) {
        struct rg_chaos_event *event = &chaos->events[i];
        /* Two numbers for each event, used or not: one event more changes no other one. */
        uint64_t whom = next(&state), when = next(&state);

        if (event->who == RG_CHAOS_RANDOM) {
            event->who = RG_CHAOS_RANK;
            event->rank = (int) (whom % (uint64_t) nranks);
        }
        if (event->before_ms)
            event->at_ms += when % (event->before_ms - event->at_ms + 1);
        event->before_ms = 0;
    }
}

int rg_chaos_check(const char *what, const struct rg_chaos *chaos, int nranks,
                   const char *const *names, size_t nnames, struct rg_error *err)
{
    for (size_t i = 0; i < chaos->count; i++) {
        const struct rg_chaos_event *event = &chaos->events[i];
        size_t n = 0;

        if (event->who == RG_CHAOS_RANK && event->rank >= nranks)
            return rg_error_set(err, EINVAL, "%s rank=%d: this job has %d rank%s, from 0 on; name "
                                "one of them", what, event->rank, nranks, nranks == 1 ? "" : "s");
        if (event->who != RG_CHAOS_ON_HOST)
            continue;
        while (n < nnames && strcmp(names[n], event->host) != 0)
            n++;
        if (n == nnames)
            return rg_error_set(err, EINVAL, "%s host=%s: this job has no such host; name one as "
                                "-H, --hostfile or --display-map has it, such as %s", what,
                                event->host, nnames ? names[0] : "localhost");
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_time(uint64_t ms, struct rg_buf *text)
{
    if (ms % 1000)
        rg_buf_printf(text, "%llums", (unsigned long long) ms);
    else
        rg_buf_printf(text, "%llus", (unsigned long long) (ms / 1000));
}

static void put_extent(const struct rg_chaos_event *event, struct rg_buf *text)
{
    if (event->for_ms) {
        rg_buf_printf(text, " for ");
        put_time(event->for_ms, text);
    }
    if (event->by_ms) {
        rg_buf_printf(text, " by ");
        put_time(event->by_ms, text);
    }
}

void rg_chaos_print(const struct rg_chaos_event *event, struct rg_buf *text)
{
    rg_buf_printf(text, "%s:", verbs[event->verb].name);
    if (event->who == RG_CHAOS_RANK)
        rg_buf_printf(text, "rank=%d@", event->rank);
    else if (event->who == RG_CHAOS_RANDOM)
        rg_buf_printf(text, "random@");
    else
        rg_buf_printf(text, "host=%s@", event->host);
    if (event->step)
        rg_buf_printf(text, "step=%d", event->step);
    else
        put_time(event->at_ms, text);
    if (event->before_ms) {
        rg_buf_printf(text, "..");
        put_time(event->before_ms, text);
    }
    put_extent(event, text);
    if (event->verb == RG_CHAOS_EXIT)
        rg_buf_printf(text, " code=%d", event->code);
}

void rg_chaos_describe(const struct rg_chaos_event *event, int rank, const char *host,
                       struct rg_buf *text)
{
    rg_buf_printf(text, "%s ", verbs[event->verb].name);
    if (rank >= 0)
        rg_buf_printf(text, "rank %d of ", rank);
    rg_buf_printf(text, "host %s", host);
    put_extent(event, text);
    if (event->verb == RG_CHAOS_EXIT)
        rg_buf_printf(text, " with code %d", event->code);
    if (event->step) {
        rg_buf_printf(text, " (step %d)", event->step);
        return;
    }
    rg_buf_printf(text, " (at ");
    put_time(event->at_ms, text);
    rg_buf_printf(text, ")");
}

void rg_chaos_put_variable(const struct rg_chaos *chaos, struct rg_buf *text)
{
    const char *comma = "";

    for (size_t i = 0; i < chaos->count; i++) {
        const struct rg_chaos_event *event = &chaos->events[i];
        if (!event->step)
            continue;
        rg_buf_printf(text, "%s%zu:%s:%d:%d:%llu:%llu", comma, i,
                      verbs[event->verb].name, event->rank,
                      event->step, (unsigned long long) event->for_ms,
                      event->verb == RG_CHAOS_EXIT ? (unsigned long long) event->code
                                                   : (unsigned long long) event->by_ms);
        comma = ",";
    }
}
