/* SPDX-License-Identifier: Apache-2.0 */
/* Facts come from hosts as lines of words; here is the one place that takes them apart. */
#include "launch/doctor/doctor_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

bool rg_fact_find(const char *facts, const char *name, int index, char ret_value[RG_FACT_MAX])
{
    size_t length = strlen(name);

    for (const char *line = facts; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t n = strcspn(line, "\n");
        bool named = strncmp(line, name, length) == 0 && (line[length] == ' ' || n == length);
        if (!named || index-- > 0)
            continue;
        const char *value = n == length ? "" : line + length + 1;
        snprintf(ret_value, RG_FACT_MAX, "%.*s", (int) strcspn(value, "\n"), value);
        for (char *p = ret_value; *p; p++)
            *p = (unsigned char) *p < ' ' || *p == 127 ? '?' : *p;
        return true;
    }
    return false;
}

bool rg_fact_has(const char *facts, const char *name)
{
    char value[RG_FACT_MAX];

    return rg_fact_find(facts, name, 0, value);
}

bool rg_fact_numbers(const char *facts, const char *name, int count, uint64_t *ret_numbers)
{
    char value[RG_FACT_MAX], *p = value, *end;

    if (!rg_fact_find(facts, name, 0, value))
        return false;
    for (int i = 0; i < count; i++, p = end) {
        p += strspn(p, " ");
        if (strcmp(p, "unlimited") == 0) {
            ret_numbers[i] = UINT64_MAX;
            end = p + strlen(p);
            continue;
        }
        if (*p < '0' || *p > '9')
            return false;
        ret_numbers[i] = strtoull(p, &end, 10);
    }
    return true;
}

double rg_fact_cpus(const char *facts)
{
    uint64_t cpus, quota[2];

    if (!rg_fact_numbers(facts, "cpus", 1, &cpus))
        return 0;
    if (rg_fact_numbers(facts, "quota", 2, quota) && quota[1] &&
        (double) quota[0] / (double) quota[1] < (double) cpus)
        return (double) quota[0] / (double) quota[1];
    return (double) cpus;
}

bool rg_fact_package(const char *facts, const char *package, char ret_version[RG_FACT_MAX])
{
    char value[RG_FACT_MAX];
    size_t n = strlen(package);

    for (int i = 0; rg_fact_find(facts, "package", i, value); i++) {
        if (strncmp(value, package, n) == 0 && value[n] == ' ') {
            memmove(ret_version, value + n + 1, strlen(value + n + 1) + 1);
            return true;
        }
    }
    return false;
}

const char *rg_time_text(uint64_t ns, char *buf, size_t room)
{
    static const struct {
        unsigned long long s, part;
        const char *large, *small;
    } units[] = { { 86400, 3600, "d", "h" }, { 3600, 60, "h", "min" }, { 60, 1, "min", "s" } };
    unsigned long long s = ns / RG_NS_PER_S + (ns % RG_NS_PER_S >= RG_NS_PER_S / 2);

    for (size_t i = 0; i < rg_array_len(units); i++) {
        if (s < units[i].s)
            continue;
        snprintf(buf, room, "%llu %s %llu %s", s / units[i].s, units[i].large,
                 s % units[i].s / units[i].part, units[i].small);
        return buf;
    }
    if (ns >= RG_NS_PER_S)
        snprintf(buf, room, "%.3g s", (double) ns / 1e9);
    else
        snprintf(buf, room, "%.3f ms", (double) ns / 1e6);
    return buf;
}
