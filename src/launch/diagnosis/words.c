/* SPDX-License-Identifier: Apache-2.0 */
/* The evidence is told beside the same of other ranks: only the difference says something. */
#include "launch/diagnosis/diagnosis.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/say.h"

static const struct {
    const char *name, *word;
    const char *evidence; /* of two numbers, seconds in a second */
} causes[RG_CAUSES] = {
    [RG_CAUSE_UNKNOWN] = { "", "", NULL },
    [RG_CAUSE_SLOW_RANK] = { "slow-rank", "slow rank",
                             "it computes %.2f s in a second, others %.2f s" },
    [RG_CAUSE_SLOW_INPUT] = { "slow-input", "slow input",
                              "it waits %.2f s in a second for no rank or core, others %.2f s" },
    [RG_CAUSE_SLOW_LINK] = { "slow-link", "slow link", NULL },
    [RG_CAUSE_IMBALANCE] = { "imbalance", "imbalance", NULL },
    [RG_CAUSE_THROTTLED] = { "throttled", "throttled",
                             "its cgroup's limit stops it %.2f s in a second, others %.2f s" },
    [RG_CAUSE_SWAPPING] = { "swapping", "swapping", NULL },
    [RG_CAUSE_NEIGHBOUR] = { "neighbour", "neighbour on its core",
                             "others have it %.2f s in a second, usual is %.2f s" },
};

const char *rg_cause_name(enum rg_cause cause)
{
    return causes[cause].name;
}

enum rg_cause rg_cause_find(const char *name)
{
    for (int i = 0; i < RG_CAUSES; i++) {
        if (strcmp(causes[i].name, name) == 0)
            return (enum rg_cause) i;
    }
    return RG_CAUSE_UNKNOWN;
}

static void put_amount(double nbytes, struct rg_buf *text)
{
    static const char *const units[] = { "", "Ki", "Mi", "Gi", "Ti" };
    size_t unit = 0;

    for (; nbytes >= 1024 && unit + 1 < rg_array_len(units); unit++)
        nbytes /= 1024;
    rg_shown_printf(text, "%.3g %sB", nbytes, units[unit]);
}

static void put_link(const struct rg_lateness *diagnosis, const char *from, const char *to,
                     struct rg_buf *text)
{
    if (diagnosis->to >= 0)
        rg_shown_printf(text, "from %s to %s go ", from, to);
    else
        rg_shown_printf(text, "to and from %s go ", from);
    put_amount(diagnosis->value, text);
    rg_shown_printf(text, " in a second, elsewhere ");
    put_amount(diagnosis->usual, text);
}

void rg_lateness_put(const struct rg_lateness *diagnosis, const char *from, const char *to,
                      struct rg_buf *text)
{
    enum rg_cause cause = diagnosis->cause;
    double value = diagnosis->value, usual = diagnosis->usual;

    if (cause == RG_CAUSE_UNKNOWN)
        return;
    rg_shown_printf(text, "%s: ", causes[cause].word);
    if (causes[cause].evidence)
        rg_shown_printf(text, causes[cause].evidence, value, usual);
    else if (cause == RG_CAUSE_SLOW_LINK)
        put_link(diagnosis, from, to, text);
    else if (cause == RG_CAUSE_SWAPPING)
        rg_shown_printf(text, "%.0f of its pages are read again in a second, %.0f of others'",
                        value, usual);
    else if (usual > 0)
        rg_shown_printf(text, "it computes longer, and has %.1f times the bytes of others",
                        value / usual);
    else
        rg_shown_printf(text, "each rank is the last in turn, as its steps differ in length");
}
