/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads that restarts cannot help wants to see for himself that it is the same failure. */
#include "head/show/twice.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/say.h"
#include "launch/verdict/failure.h"

#define HOW_MAX 128 /* bytes of "signal 7 (Bus error)" */

static void print_one(const struct rg_failure *failure, struct rg_buf *text)
{
    const struct rg_fact fact = { .end = { .end = failure->end, .value = failure->value,
                                           .oom = failure->kind == RG_FAILURE_MEMORY } };
    char how[HOW_MAX];

    rg_verdict_describe_end(&fact, how, sizeof(how));
    if (failure->rank >= 0)
        rg_shown_printf(text, "rank %d on %s", failure->rank, failure->host);
    else
        rg_shown_printf(text, "a rank on %s", failure->host);
    rg_shown_printf(text, ": %s, after %.1f s", how, (double) failure->ran_ns / 1e9);
    if (failure->far.epoch >= 0)
        rg_shown_printf(text, ", epoch %.10g", failure->far.epoch);
    if (failure->far.step >= 0)
        rg_shown_printf(text, ", step %" PRId64, failure->far.step);
    rg_shown_printf(text, "%s%s\n", *failure->error ? ": " : "", failure->error);
}

void rg_twice_print(const struct rg_failure *twice, struct rg_buf *text)
{
    if (!twice)
        return;
    rg_shown_printf(text, "reigen: the same failure twice, and no progress; restarts cannot help "
                          "(--restart-always does not stop for that):\n");
    for (int i = 0; i < 2; i++) {
        rg_shown_printf(text, "  %d. ", i + 1);
        print_one(&twice[i], text);
    }
}

static void put_number(struct rg_buf *text, const char *name, double value)
{
    if (value >= 0)
        rg_buf_printf(text, "\"%s\":%.16g,", name, value);
    else
        rg_buf_printf(text, "\"%s\":null,", name);
}

static void put_one(const struct rg_failure *failure, struct rg_buf *text)
{
    rg_buf_printf(text, "{");
    put_number(text, "rank", failure->rank);
    rg_buf_printf(text, "\"host\":");
    rg_json_put_text(text, failure->host);
    rg_buf_printf(text, ",\"how\":\"%s\",\"value\":%d,\"kind\":\"%s\",\"error\":",
                  failure->end == RG_END_SIGNAL ? "signal" : "exit", failure->value,
                  rg_failure_kind_name(failure->kind));
    rg_json_put_text(text, failure->error);
    rg_buf_printf(text, ",");
    put_number(text, "epoch", failure->far.epoch);
    put_number(text, "step", (double) failure->far.step);
    rg_buf_printf(text, "\"seconds\":%.6f}", (double) failure->ran_ns / 1e9);
}

void rg_twice_put_json(const struct rg_failure *twice, struct rg_buf *text)
{
    if (!twice)
        return;
    rg_buf_printf(text, ",\"twice\":[");
    for (int i = 0; i < 2; i++) {
        rg_buf_printf(text, i ? "," : "");
        put_one(&twice[i], text);
    }
    rg_buf_printf(text, "]");
}
