/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/exitcode.h"
#include "base/cleanup.h"
#include "launch/verdict/verdict.h"
#include "unit.h"

enum { NRANKS = 4 };

/* How one rank ended, in short. */
struct given {
    enum rg_end end;
    int value;
    uint64_t at;        /* 0: it ended well, later than all others */
    uint32_t signalled;
    const char *note;
    bool oom;
    bool told;
    int cut_by;         /* 1 + that rank */
    bool excused;
};

struct expected {
    int exit_code;
    int first; /* rank, or -1 */
    const char *cause;
    const char *consequences; /* the ranks, as digits */
};

struct rule {
    const char *what;
    struct given ranks[NRANKS];
    const char *own_cause;
    int own_exit_code;
    bool own_first, own_is_signal;
    const char *output_lost;
    struct expected expected;
};

#define EXITED(code, at) { RG_END_EXIT, code, at, 0, NULL, false, false, 0, false }
#define DIED(signo, at) { RG_END_SIGNAL, signo, at, 0, NULL, false, false, 0, false }
#define STOPPED(at) { RG_END_SIGNAL, SIGTERM, at, SIGTERM, NULL, false, false, 0, false }
#define GAVE_UP(at) { RG_END_EXIT, 1, at, SIGTERM, NULL, false, false, 0, false }
#define CUT_OFF(code, at, by) { RG_END_EXIT, code, at, 0, NULL, false, false, 1 + (by), false }
#define EXCUSED(code, at) { RG_END_EXIT, code, at, 0, NULL, false, false, 0, true }
#define NOTED(code, at, note) { RG_END_EXIT, code, at, 0, note, false, false, 0, false }
#define LOST(at) { RG_END_LOST, 0, at, 0, NULL, false, false, 0, false }
#define CANCELED(at) { RG_END_NOT_STARTED, ECANCELED, at, 0, NULL, false, false, 0, false }

static const struct rule rules[] = {
    { "all well", { { 0 } }, "", 0, false, false, "", { 0, -1, "", "" } },
    { "one fails, the others are stopped",
      { STOPPED(30), STOPPED(31), EXITED(7, 10), STOPPED(32) },
      "", 0, false, false, "", { 7, 2, "rank 2 on h: exit code 7", "013" } },
    { "a signal is 128 + n",
      { DIED(SIGSEGV, 5), { 0 }, { 0 }, { 0 } },
      "", 0, false, false, "", { 139, 0, "rank 0 on h: signal 11 (Segmentation fault)", "" } },
    { "memory ran out",
      { { 0 }, { RG_END_SIGNAL, SIGKILL, 4, 0, NULL, true, false, 0, false }, { 0 }, { 0 } },
      "", 0, false, false, "",
      { 137, 1, "rank 1 on h: signal 9 (Killed), because memory ran out", "" } },
    { "the earlier of two is first",
      { { 0 }, EXITED(1, 20), { 0 }, EXITED(3, 10) },
      "", 0, false, false, "", { 3, 3, "rank 3 on h: exit code 3", "" } },
    { "heard of later, but those that ended before it were cut off by its end",
      { CUT_OFF(1, 5, 3), CUT_OFF(1, 6, 3), STOPPED(8), DIED(SIGKILL, 7) },
      "", 0, false, false, "", { 137, 3, "rank 3 on h: signal 9 (Killed)", "012" } },
    { "ended with a code of its own after our SIGTERM",
      { GAVE_UP(3), EXITED(2, 2), GAVE_UP(3), GAVE_UP(4) },
      "", 0, false, false, "", { 2, 1, "rank 1 on h: exit code 2", "023" } },
    { "ended after its runtime was told of the first",
      { { RG_END_EXIT, 1, 5, 0, NULL, false, true, 0, false }, EXITED(2, 2),
        { RG_END_SIGNAL, SIGABRT, 6, 0, NULL, false, true, 0, false }, { 0 } },
      "", 0, false, false, "", { 2, 1, "rank 1 on h: exit code 2", "02" } },
    { "a note explains nothing away",
      { NOTED(1, 5, "rank 3 died of mismatched shapes"), EXITED(2, 6), { 0 }, EXITED(2, 7) },
      "", 0, false, false, "", { 1, 0, "rank 0 on h: exit code 1", "" } },
    { "cut off by one that left with a code of its own, which is heard of last",
      { CUT_OFF(1, 5, 3), STOPPED(8), CUT_OFF(2, 6, 3), EXITED(200, 7) },
      "", 0, false, false, "", { 200, 3, "rank 3 on h: exit code 200", "012" } },
    { "cut off in turn: the first link of the chain",
      { CUT_OFF(1, 4, 1), CUT_OFF(1, 5, 2), EXITED(9, 6), STOPPED(8) },
      "", 0, false, false, "", { 9, 2, "rank 2 on h: exit code 9", "013" } },
    { "cut off by one that left with exit code 0",
      { CUT_OFF(4, 5, 1), EXITED(0, 3), STOPPED(8), CUT_OFF(3, 4, 1) },
      "", 0, false, false, "",
      { 3, 1, "rank 1 on h: exit code 0, while others waited for it", "023" } },
    { "crashed long after another had left with exit code 0",
      { { RG_END_SIGNAL, SIGSEGV, 900, 0, NULL, false, false, 2, false }, EXITED(0, 3),
        STOPPED(950), STOPPED(951) },
      "", 0, false, false, "", { 139, 0, "rank 0 on h: signal 11 (Segmentation fault)", "23" } },
    { "cut off by one that never ended by itself",
      { CUT_OFF(4, 5, 1), STOPPED(20), STOPPED(21), STOPPED(22) },
      "", 0, false, false, "", { 4, 0, "rank 0 on h: exit code 4", "123" } },
    { "cut off by one that ended well after it was told to end",
      { CUT_OFF(4, 5, 1), { RG_END_EXIT, 0, 20, SIGTERM, NULL, false, false, 0, false },
        STOPPED(21), STOPPED(22) },
      "", 0, false, false, "", { 4, 0, "rank 0 on h: exit code 4", "23" } },
    { "cut off by itself",
      { CUT_OFF(1, 5, 0), { 0 }, { 0 }, { 0 } },
      "", 0, false, false, "", { 1, 0, "rank 0 on h: exit code 1", "" } },
    { "two that were cut off by each other",
      { CUT_OFF(1, 6, 1), CUT_OFF(4, 5, 0), { 0 }, { 0 } },
      "", 0, false, false, "", { 4, 1, "rank 1 on h: exit code 4", "0" } },
    { "our own limit",
      { STOPPED(5), STOPPED(6), STOPPED(7), GAVE_UP(8) },
      "not done in time", RG_EXIT_TIMEOUT, true, false, "",
      { 124, -1, "not done in time", "0123" } },
    { "our own limit, though all then end well",
      { { 0 } }, "not done in time", RG_EXIT_TIMEOUT, true, false, "",
      { 124, -1, "not done in time", "" } },
    { "a rank failed before our limit",
      { EXITED(9, 2), STOPPED(6), STOPPED(7), STOPPED(8) },
      "not done in time", RG_EXIT_TIMEOUT, false, false, "",
      { 9, 0, "rank 0 on h: exit code 9", "123" } },
    { "a signal to reigen",
      { STOPPED(5), STOPPED(6), STOPPED(7), STOPPED(8) },
      "told to stop", 130, true, true, "", { 130, -1, "told to stop", "0123" } },
    { "a signal to reigen that all ranks took well",
      { { 0 } }, "told to stop", 130, true, true, "", { 0, -1, "", "" } },
    { "a signal to reigen for which all ranks have saved their work",
      { EXITED(75, 5), EXITED(75, 6), EXITED(75, 6), EXITED(75, 7) },
      "told to stop", 143, true, true, "", { 75, -1, "told to stop", "0123" } },
    { "a signal to reigen for which one rank has not",
      { EXITED(75, 5), EXITED(75, 6), STOPPED(9), EXITED(75, 7) },
      "told to stop", 143, true, true, "", { 143, -1, "told to stop", "0123" } },
    { "a limit for which all ranks have saved their work",
      { EXITED(75, 5), EXITED(75, 6), EXITED(75, 6), EXITED(75, 7) },
      "not done in time", RG_EXIT_TIMEOUT, true, false, "",
      { RG_EXIT_TIMEOUT, -1, "not done in time", "0123" } },
    { "a lost host",
      { LOST(3), LOST(3), STOPPED(5), STOPPED(6) },
      "host h: gone", RG_EXIT_HOST_LOST, true, false, "", { 76, -1, "host h: gone", "0123" } },
    { "a lost host, heard of after those that its loss cut off",
      { CUT_OFF(1, 5, 2), CUT_OFF(1, 6, 0), LOST(7), STOPPED(8) },
      "host h: gone", RG_EXIT_HOST_LOST, false, false, "",
      { 76, -1, "host h: gone", "0123" } },
    { "a rank failed by itself, and a host was lost later",
      { CUT_OFF(1, 5, 2), EXITED(9, 6), LOST(7), STOPPED(8) },
      "host h: gone", RG_EXIT_HOST_LOST, false, false, "",
      { 9, 1, "rank 1 on h: exit code 9", "023" } },
    { "the others were not even tried",
      { { RG_END_NOT_STARTED, ENOENT, 2, 0, NULL, false, false, 0, false }, CANCELED(2),
        CANCELED(2), CANCELED(2) },
      "", 0, false, false, "", { 127, 0, "rank 0 on h: cannot start it", "123" } },
    { "failures that a role bears",
      { EXCUSED(3, 5), { 0 }, EXCUSED(4, 6), { 0 } }, "", 0, false, false, "", { 0, -1, "", "" } },
    { "one failure more than a role bears",
      { EXCUSED(3, 5), STOPPED(9), EXITED(4, 6), STOPPED(8) },
      "", 0, false, false, "", { 4, 2, "rank 2 on h: exit code 4", "13" } },
    { "a lost host, after failures that a role bears",
      { EXCUSED(3, 2), LOST(3), STOPPED(5), STOPPED(6) },
      "host h: gone", RG_EXIT_HOST_LOST, true, false, "", { 76, -1, "host h: gone", "123" } },
    { "lost output of a good job",
      { { 0 } }, "", 0, false, false, "disk full", { 74, -1, "disk full", "" } },
    { "lost output of a bad job",
      { EXITED(5, 1), { 0 }, { 0 }, { 0 } },
      "", 0, false, false, "disk full", { 5, 0, "rank 0 on h: exit code 5", "" } },
};

static void fill(const struct rule *rule, struct rg_fact facts[NRANKS])
{
    memset(facts, 0, NRANKS * sizeof(*facts));
    for (int i = 0; i < NRANKS; i++) {
        const struct given *given = &rule->ranks[i];
        facts[i].ended = true;
        facts[i].signalled = given->signalled;
        facts[i].told = given->told;
        facts[i].cut_by = given->cut_by;
        facts[i].excused = given->excused;
        facts[i].exit_code = given->end == RG_END_NOT_STARTED ? 127 : 0;
        facts[i].text = given->end == RG_END_NOT_STARTED ? "cannot start it" : NULL;
        facts[i].end = (struct rg_rank_end){
            .rank = i, .host = "h", .end = given->end, .value = given->value, .oom = given->oom,
            .note = given->note ? given->note : "", .at_ns = given->at ? given->at : 1000,
        };
    }
}

static void check(const struct rule *rule)
{
    struct rg_fact ranks[NRANKS];
    char cause[RG_CAUSE_MAX], consequences[NRANKS + 1] = "";
    struct rg_verdict verdict;
    struct rg_facts facts = {
        .ranks = ranks,
        .nranks = NRANKS,
        .own_cause = rule->own_cause,
        .own_exit_code = rule->own_exit_code,
        .own_first = rule->own_first,
        .own_is_signal = rule->own_is_signal,
        .output_lost = rule->output_lost,
    };

    fill(rule, ranks);
    rg_verdict_judge(&facts, cause, &verdict);
    for (int i = 0, n = 0; i < NRANKS; i++) {
        if (ranks[i].end.consequence)
            consequences[n++] = (char) ('0' + i);
    }
    print_message("%s\n", rule->what);
    assert_int_equal(verdict.exit_code, rule->expected.exit_code);
    assert_int_equal(verdict.first ? verdict.first->rank : -1, rule->expected.first);
    assert_string_equal(verdict.cause, rule->expected.cause);
    assert_string_equal(consequences, rule->expected.consequences);
    assert_int_equal(verdict.ok, rule->expected.exit_code == 0);
    if (verdict.first && verdict.code_of->end == RG_END_EXIT)
        assert_int_equal(verdict.code_of->value, verdict.exit_code);
}

static void rules_hold(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(rules); i++)
        check(&rules[i]);
}

/* One rank's fact differs from its peers, which all had the same error; is it the same, too? */
static bool is_same(void change(struct rg_fact *fact))
{
    struct rg_fact ranks[2] = { 0 };
    char cause[RG_CAUSE_MAX];
    struct rg_verdict verdict;
    struct rg_facts facts = { .ranks = ranks, .nranks = 2, .own_cause = "", .output_lost = "" };

    for (int i = 0; i < 2; i++)
        ranks[i] = (struct rg_fact){ .ended = true, .lines = 5, .error = 7, .told = i == 1,
                                     .traceback = true,
                                     .end = { .rank = i, .host = "h", .end = RG_END_EXIT,
                                              .value = 1, .note = "", .at_ns = 10 + i } };
    change(&ranks[1]);
    rg_verdict_judge(&facts, cause, &verdict);
    assert_int_equal(verdict.first->rank, 0);
    assert_int_equal(ranks[0].end.same, ranks[1].end.same);
    assert_false(ranks[1].end.same && ranks[1].end.consequence);
    return ranks[1].end.same;
}

static void as_it_is(struct rg_fact *fact) { (void) fact; }
static void other_lines(struct rg_fact *fact) { fact->lines = 6; }
static void other_error(struct rg_fact *fact) { fact->error = 8; }
static void other_code(struct rg_fact *fact) { fact->end.value = 2; }
static void later(struct rg_fact *fact) { fact->end.at_ns += 6000000000; }
static void failing(struct rg_fact *fact)
{
    fact->signalled = SIGTERM;
    fact->end.end = RG_END_SIGNAL;
    fact->end.value = SIGTERM;
    fact->end.at_ns += 6000000000;
}
static void failing_otherwise(struct rg_fact *fact)
{
    failing(fact);
    fact->error = 8;
}
static void still_at_work(struct rg_fact *fact)
{
    failing(fact);
    fact->traceback = false;
}
static void cut_off(struct rg_fact *fact) { fact->cut_by = 1; }
static void killed(struct rg_fact *fact) { fact->end.end = RG_END_SIGNAL; }

static void equal_errors_are_the_same_unless_they_are_consequences(void **state)
{
    (void) state;
    assert_true(is_same(as_it_is));
    assert_true(is_same(other_lines)); /* of standard output */
    assert_false(is_same(other_error));
    assert_false(is_same(other_code));
    assert_false(is_same(later));
    assert_true(is_same(failing));
    assert_false(is_same(failing_otherwise));
    assert_false(is_same(still_at_work));
    assert_false(is_same(cut_off));
    assert_false(is_same(killed));
}

static void a_script_that_handles_a_signal_decides(void **state)
{
    static const struct {
        enum rg_end end;
        int value, exit_code;
    } ends[] = { { RG_END_EXIT, 0, 0 }, { RG_END_EXIT, 9, 9 }, { RG_END_EXIT, 1, 75 },
                 { RG_END_EXIT, 143, 75 }, { RG_END_SIGNAL, SIGTERM, 75 } };

    (void) state;
    for (size_t i = 0; i < rg_array_len(ends); i++) {
        struct rg_fact fact = { .ended = true, .signalled = SIGTERM,
                                .end = { .host = "h", .engine = "job.sh", .note = "",
                                         .end = ends[i].end, .value = ends[i].value } };
        struct rg_facts facts = { .ranks = &fact, .nranks = 1, .own_cause = "told to stop",
                                  .own_exit_code = RG_EXIT_PREEMPTED, .own_first = true,
                                  .own_is_signal = true, .script = true, .output_lost = "" };
        struct rg_verdict verdict = { 0 };
        char cause[RG_CAUSE_MAX];
        rg_verdict_judge(&facts, cause, &verdict);
        assert_int_equal(verdict.exit_code, ends[i].exit_code);
        assert_int_equal(verdict.ok, ends[i].exit_code == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_hold),
        cmocka_unit_test(equal_errors_are_the_same_unless_they_are_consequences),
        cmocka_unit_test(a_script_that_handles_a_signal_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
