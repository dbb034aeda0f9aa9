/* SPDX-License-Identifier: Apache-2.0 */
/* All samples of a family stand together, so what is known of the ranks is collected first. */
#include "head/metrics/text.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

enum kind { GAUGE, COUNTER, INFO };

struct out {
    struct rg_buf *text;
    bool open; /* OpenMetrics */
};

struct rank {
    struct rg_session_rank told;
    const char *host;
};

/* --- the format ------------------------------------------------------------------------------- */

/* A counter's sample ends in _total, an info's in _info; in Prometheus' own format the family is
 * called as they are. */
static const char *suffix_of(enum kind kind)
{
    return kind == COUNTER ? "_total" : kind == INFO ? "_info" : "";
}

/* unit: the end of the name, or "". */
static void put_family(const struct out *out, const char *name, enum kind kind, const char *unit,
                       const char *help)
{
    static const char *const open[] = { "gauge", "counter", "info" };
    static const char *const plain[] = { "gauge", "counter", "gauge" };
    const char *suffix = out->open ? "" : suffix_of(kind);

    rg_buf_printf(out->text, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
                  (out->open ? open : plain)[kind]);
    if (out->open && *unit)
        rg_buf_printf(out->text, "# UNIT %s %s\n", name, unit);
}

/* A label's value. */
static void put_value(const struct out *out, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (strchr("\"\\\n", *p))
            rg_buf_put_u8(out->text, '\\');
        rg_buf_put_u8(out->text, *p == '\n' ? 'n' : (uint8_t) *p);
    }
}

static void put_label(const struct out *out, const char *before, const char *name,
                      const char *value)
{
    rg_buf_printf(out->text, "%s%s=\"", before, name);
    put_value(out, value);
    rg_buf_printf(out->text, "\"");
}

/* Whole nanoseconds, as doubles lose some after 104 days, in seconds. */
static void put_seconds(const struct out *out, uint64_t ns)
{
    rg_buf_printf(out->text, "%llu.%09llu", (unsigned long long) (ns / RG_NS_PER_S),
                  (unsigned long long) (ns % RG_NS_PER_S));
}

/* --- of the job ------------------------------------------------------------------------------- */

static void put_int(const struct out *out, const char *name, enum kind kind, const char *help,
                    long long value)
{
    put_family(out, name, kind, "", help);
    rg_buf_printf(out->text, "%s%s %lld\n", name, suffix_of(kind), value);
}

static void put_info(const struct out *out, const struct rg_metrics_state *state)
{
    put_family(out, "reigen_job", INFO, "", "Always 1; its labels say which job this is.");
    rg_buf_printf(out->text, "reigen_job_info{");
    put_label(out, "", "version", RG_VERSION);
    if (state->plan && *state->plan->job_id)
        put_label(out, ",", "job_id", state->plan->job_id);
    if (state->platform)
        put_label(out, ",", "platform", state->platform);
    rg_buf_printf(out->text, "} 1\n");
}

static void put_counts(const struct out *out, const char *name, const char *help,
                       const char *label, const char *const *words, const int *counts, int n)
{
    put_family(out, name, GAUGE, "", help);
    for (int i = 0; i < n; i++) {
        rg_buf_printf(out->text, "%s{", name);
        put_label(out, "", label, words[i]);
        rg_buf_printf(out->text, "} %d\n", counts[i]);
    }
}

static void put_states(const struct out *out, const struct rg_session_counts *counts)
{
    static const char *const states[] = {
        [RG_RANKS_WAITING] = "waiting",     [RG_RANKS_RUNNING] = "running",
        [RG_RANKS_SUCCEEDED] = "succeeded", [RG_RANKS_FAILED] = "failed",
        [RG_RANKS_SPARE] = "spare",
    };
    static const char *const phases[] = {
        [RG_PHASE_PENDING] = "pending",       [RG_PHASE_STARTING] = "starting",
        [RG_PHASE_PULLING] = "pulling",       [RG_PHASE_CONNECTING] = "connecting",
        [RG_PHASE_READY] = "ready",           [RG_PHASE_RUNNING] = "running",
        [RG_PHASE_ENDED] = "ended",           [RG_PHASE_LOST] = "lost",
    };

    put_counts(out, "reigen_ranks", "Ranks in each state.", "state", states, counts->ranks,
               (int) rg_array_len(states));
    put_counts(out, "reigen_hosts", "Hosts in each phase of their life.", "phase", phases,
               counts->hosts, (int) rg_array_len(phases));
}

static void put_job(const struct out *out, const struct rg_metrics_state *state,
                    const struct rg_session_counts *counts)
{
    put_info(out, state);
    put_family(out, "reigen_job_start_time_seconds", GAUGE, "seconds",
               "When the launcher of the job began, since 1970.");
    rg_buf_printf(out->text, "reigen_job_start_time_seconds ");
    put_seconds(out, state->since_ns);
    rg_buf_printf(out->text, "\n");
    put_int(out, "reigen_job_restarts", COUNTER, "How often the whole job was started again.",
            state->restarts);
    if (state->session)
        put_states(out, counts);
    if (state->session && state->elastic)
        put_int(out, "reigen_epoch", GAUGE, "The last change of an elastic job's ranks.",
                counts->epoch);
    if (state->ended)
        put_int(out, "reigen_job_exit_code", GAUGE, "The job has ended, by this exit code.",
                state->exit_code);
}

/* --- of its ranks ----------------------------------------------------------------------------- */

struct family {
    const char *name, *unit, *help;
    uint16_t at; /* of an uint64_t in struct rank; nanoseconds where the unit is seconds */
    enum kind kind : 8;
    bool unknown_0;
};

#define OF(field) offsetof(struct rank, field)

static const struct family families[] = {
    {"reigen_operations", "", "Collective operations that have ended well; each tensor of a group "
     "counts.", OF(told.numbers.operations), COUNTER, false},
    {"reigen_payload_bytes", "bytes", "Bytes that the rank gave to these operations.",
     OF(told.numbers.nbytes), COUNTER, false},
    {"reigen_steps", "", "Steps of training.", OF(told.numbers.steps), COUNTER, false},
    {"reigen_step_seconds", "seconds", "What the last steps took on average.",
     OF(told.numbers.step_ns), GAUGE, true},
    {"reigen_blocked_seconds", "seconds", "How long threads of the rank waited for operations to "
     "end, all together.", OF(told.numbers.blocked_ns), COUNTER, false},
    {"reigen_waited_seconds", "seconds", "Of that, for other ranks of its host to begin.",
     OF(told.numbers.waited_ns), COUNTER, false},
    {"reigen_caused_wait_seconds", "seconds", "How long other ranks of its host waited for this "
     "one to begin, all together.", OF(told.numbers.caused_ns), COUNTER, false},
    {"reigen_process_cpu_seconds", "seconds", "Processor time that the rank's process has used "
     "since it called init.", OF(told.numbers.cpu_ns), COUNTER, false},
    {"reigen_process_resident_memory_bytes", "bytes", "Resident memory of the rank's process.",
     OF(told.numbers.resident_nbytes), GAUGE, true},
    {"reigen_report_age_seconds", "seconds", "How old the numbers of this rank are.",
     OF(told.age_ns), GAUGE, false},
};

static uint64_t value_of(const struct rank *rank, const struct family *family)
{
    uint64_t value;

    memcpy(&value, (const char *) rank + family->at, sizeof(value));
    return value;
}

/* What one that has ended did stays true; what it is doing does not: it has no memory, and is not
 * silent. */
static void put_rank(const struct out *out, const struct rank *rank, const struct family *family)
{
    uint64_t value = value_of(rank, family);

    if ((value == 0 && family->unknown_0) || (rank->told.ended && family->kind == GAUGE))
        return;
    rg_buf_printf(out->text, "%s%s{rank=\"%u\"", family->name, suffix_of(family->kind),
                  rank->told.numbers.rank);
    put_label(out, ",", "host", rank->host);
    rg_buf_printf(out->text, "} ");
    if (strcmp(family->unit, "seconds") == 0)
        put_seconds(out, value);
    else
        rg_buf_printf(out->text, "%llu", (unsigned long long) value);
    rg_buf_printf(out->text, "\n");
}

/* Nobody in particular has no sample. */
static void put_diagnosis(const struct out *out, const struct rg_metrics_state *state)
{
    const char *name = "reigen_waited_for_ratio";
    const struct rg_plan *plan = state->plan;
    struct rg_lateness diagnosis;
    char rank[16] = "";

    if (!state->session || !plan || !rg_session_diagnose(state->session, &diagnosis))
        return;
    if (diagnosis.late.rank >= 0)
        snprintf(rank, sizeof(rank), "%d", diagnosis.late.rank);
    int host = diagnosis.late.host;
    put_family(out, name, GAUGE, "ratio",
               "Share of the other ranks' time for which they wait for this one, and why.");
    rg_buf_printf(out->text, "%s{", name);
    put_label(out, "", "rank", rank);
    put_label(out, ",", "host", host >= 0 ? plan->hosts[host].name : "");
    put_label(out, ",", "cause", rg_cause_name(diagnosis.cause));
    rg_buf_printf(out->text, "} %.6f\n", diagnosis.share);
}

/* Those of which something was heard. */
static int collect(const struct rg_metrics_state *state, int nplaces, struct rank *ranks)
{
    int n = 0;

    for (int place = 0; place < nplaces; place++) {
        struct rank *rank = &ranks[n];
        if (rg_session_numbers(state->session, place, &rank->told)) {
            rank->host = state->plan->hosts[rank->told.host].name;
            n++;
        }
    }
    return n;
}

static void put_ranks(const struct out *out, const struct rg_metrics_state *state)
{
    int nplaces = state->session && state->plan ? state->plan->nranks : 0;
    rg_autofree struct rank *ranks = calloc((size_t) nplaces + 1, sizeof(*ranks));

    if (!ranks) {
        out->text->status = -ENOMEM;
        return;
    }
    int n = collect(state, nplaces, ranks);
    for (size_t f = 0; n > 0 && f < rg_array_len(families); f++) {
        put_family(out, families[f].name, families[f].kind, families[f].unit, families[f].help);
        for (int i = 0; i < n; i++)
            put_rank(out, &ranks[i], &families[f]);
    }
}

void rg_metrics_put(const struct rg_metrics_state *state, enum rg_metrics_format format,
                    struct rg_buf *text)
{
    const struct out out = { text, format == RG_METRICS_OPENMETRICS };
    struct rg_session_counts counts = { .epoch = 0 };

    if (state->session)
        rg_session_count(state->session, &counts);
    put_job(&out, state, &counts);
    put_ranks(&out, state);
    if (!state->ended)
        put_diagnosis(&out, state);
    if (out.open)
        rg_buf_printf(text, "# EOF\n");
}
