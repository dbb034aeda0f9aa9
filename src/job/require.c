/* SPDX-License-Identifier: Apache-2.0 */
/* --require says what each host must have; its words are read here and judged by launch/doctor. */
#include "job/require.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define COUNT_MAX 1000000000

enum kind { PRESENT, COUNT, COUNT_OR_NONE, SIZE, TIME };

static const struct {
    const char *name;
    enum kind kind;
} words[] = {
    { "rdma", PRESENT },   { "gpu", COUNT_OR_NONE }, { "cma", PRESENT },     { "mpi", PRESENT },
    { "python", PRESENT }, { "numpy", PRESENT },     { "torch", PRESENT },
    { "tensorflow", PRESENT }, { "horovod", PRESENT }, { "shm", SIZE },      { "memlock", SIZE },
    { "memory", SIZE },    { "disk", SIZE },         { "cpus", COUNT },      { "nofile", COUNT },
    { "clock", TIME },
};

static int unknown(const char *what, const char *word, struct rg_error *err)
{
    const char *names[rg_array_len(words) + 1] = { NULL };

    for (size_t i = 0; i < rg_array_len(words); i++)
        names[i] = words[i].name;
    const char *near = rg_str_nearest(word, names);
    if (near)
        return rg_error_set(err, EINVAL, "%s %s: no such check; did you mean %s?", what, word,
                            near);
    return rg_error_set(err, EINVAL, "%s %s: no such check; there are: " RG_REQUIRE_WORDS, what,
                        word);
}

static int parse_amount(const char *what, const char *word, enum kind kind, const char *text,
                        uint64_t *ret_amount, struct rg_error *err)
{
    int64_t count = 1;
    char label[128]; /* "--require gpu" */
    int rc = 0;

    snprintf(label, sizeof(label), "%s %.*s", what, (int) strcspn(word, "="), word);
    if (kind == PRESENT && text)
        return rg_error_set(err, EINVAL, "%s %s: it takes no amount", what, word);
    if (!text && kind != PRESENT && kind != COUNT_OR_NONE)
        return rg_error_set(err, EINVAL, "%s %s: say how much: %s=%s", what, word, word,
                            kind == SIZE ? "1g" : kind == TIME ? "10ms" : "4");
    if (text && kind == SIZE && strcmp(text, "unlimited") == 0) {
        *ret_amount = UINT64_MAX;
        return 0;
    }
    if (text && kind == SIZE)
        return rg_parse_size(label, text, ret_amount, err);
    if (text && kind == TIME)
        return rg_parse_duration_ms(label, text, ret_amount, err);
    if (text)
        rc = rg_parse_int(label, text, 1, COUNT_MAX, &count, err);
    if (rc == 0)
        *ret_amount = (uint64_t) count;
    return rc;
}

int rg_requirement_parse(const char *what, const char *word, struct rg_requirement *ret_requirement,
                         struct rg_error *err)
{
    size_t n = strcspn(word, "=");

    for (size_t i = 0; i < rg_array_len(words); i++) {
        struct rg_requirement found = { words[i].name, 1 };
        if (strlen(words[i].name) != n || strncmp(words[i].name, word, n) != 0)
            continue;
        int rc = parse_amount(what, word, words[i].kind, word[n] ? word + n + 1 : NULL,
                              &found.amount, err);
        if (rc == 0)
            *ret_requirement = found;
        return rc;
    }
    return unknown(what, word, err);
}
