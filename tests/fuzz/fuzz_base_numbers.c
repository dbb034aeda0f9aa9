/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers of numbers, of whole ones and of durations, and the search for the nearest word. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "fuzz.h"

static void try_int(const char *text)
{
    struct rg_error err = RG_ERROR_INIT;
    int64_t n = 99;
    struct rg_ports ports;
    if (rg_parse_ports("ports", text, &ports, NULL) == 0)
        must(ports.first >= 1 && ports.first <= ports.last && ports.last <= 65535);
    int rc = rg_parse_int("-np", text, -5, 4096, &n, &err);

    if (rc == 0)
        must(n >= -5 && n <= 4096);
    else
        must((rc == -EINVAL || rc == -ERANGE) && n == 99 && err.errnum == -rc && err.text[0]);
    if (rg_parse_int("any", text, INT64_MIN, INT64_MAX, &n, NULL) == 0) {
        char again[32];
        int64_t same = 0;

        snprintf(again, sizeof(again), "%lld", (long long) n);
        must(rg_parse_int("any", again, INT64_MIN, INT64_MAX, &same, NULL) == 0 && same == n);
    }
}

static void try_duration(const char *text)
{
    struct rg_error err = RG_ERROR_INIT;
    uint64_t ms = 99;
    int rc = rg_parse_duration_ms("--timeout", text, &ms, &err);

    if (rc == 0)
        must(ms <= RG_DURATION_MAX_MS);
    else
        must((rc == -EINVAL || rc == -ERANGE) && ms == 99 && err.text[0]);
}

static void try_number(const char *text)
{
    double number = 99;
    const char *end = rg_str_number(text, &number);

    if (end)
        must(end > text && end <= text + strlen(text) && number - number == 0);
    else
        must(number == 99);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const char *const words[] = { "run", "doctor", "explain", "stop", "--timeout", NULL };
    char buf[512];
    const char *text = text_of(data, nbytes, buf, sizeof(buf));

    try_int(text);
    try_duration(text);
    try_number(text);
    rg_str_nearest(text, words);
    return 0;
}
