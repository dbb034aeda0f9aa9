/* SPDX-License-Identifier: Apache-2.0 */
#include "job/chaos/chaos.h"

#include <string.h>

#include "unit.h"

static struct rg_chaos parsed(const char *text)
{
    struct rg_chaos chaos = { .count = 0 };
    struct rg_error err = RG_ERROR_INIT;

    if (rg_chaos_parse("--chaos", text, &chaos, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return chaos;
}

static void assert_printed(const struct rg_chaos *chaos, const char *text)
{
    rg_autobuf struct rg_buf all = RG_BUF_INIT;

    for (size_t i = 0; i < chaos->count; i++) {
        rg_buf_printf(&all, "%s", i ? "," : "");
        rg_chaos_print(&chaos->events[i], &all);
    }
    assert_string_equal(rg_buf_text(&all), text);
}

/* What is read is written again as it may be read; defaults are written out. */
static void events_are_read_and_written(void **state)
{
    static const char *const cases[][2] = {
        { "kill:rank=3@step=100", NULL },
        { "kill:rank=0@30s", NULL },
        { "kill:host=b@1500ms", NULL },
        { "kill:host=node-7.example.org@2m", "kill:host=node-7.example.org@120s" },
        { "kill:random@10s..60s", NULL },
        { "kill:rank=1@10s..1m", "kill:rank=1@10s..60s" },
        { "stop:rank=1@step=20 for 8s", NULL },
        { "stop:rank=1@step=20", NULL },
        { "stop:host=b@30 for 8", "stop:host=b@30s for 8s" },
        { "stop:random@0s..1s for 250ms", NULL },
        { "cut:host=c@10s", NULL },
        { "cut:host=c@10s for 5s", NULL },
        { "slow:rank=2@step=10 for 20s by 7ms", NULL },
        { "slow:rank=2@step=10  by 7ms  for 20s", "slow:rank=2@step=10 for 20s by 7ms" },
        { "slow:rank=2@step=10", "slow:rank=2@step=10 by 50ms" },
        { "exit:rank=1@step=5 code=3", NULL },
        { "exit:rank=1@step=5 code=0", NULL },
        { "exit:rank=1@step=5", "exit:rank=1@step=5 code=1" },
        { " kill:rank=1@step=5 , cut:host=c@10s,seed=9 ", "kill:rank=1@step=5,cut:host=c@10s" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_chaos chaos = parsed(cases[i][0]);
        assert_printed(&chaos, cases[i][1] ? cases[i][1] : cases[i][0]);
    }
    assert_int_equal(parsed("seed=9,kill:rank=1@1s").seed, 9);
    assert_false(parsed("kill:rank=1@1s").seeded);
}

/* The text names what is wrong, and what could stand there. */
static void broken_events_are_named(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "no event; kill, stop, slow, exit and cut are" },
        { "seed=1", "no event; write one" },
        { "kil:rank=1@1s", "did you mean kill?" },
        { "kill", "nothing names nobody; write rank=N, host=NAME or random" },
        { "kill:rank=1", "when? write @step=N, or a time" },
        { "kill:rank=@1s", "" },
        { "kill:rank=-1@1s", "" },
        { "kill:rank=x@1s", "" },
        { "kill:rank=99999999999999999999@1s", "" },
        { "kill:host=@1s", "names nobody" },
        { "kill:everybody@1s", "everybody names nobody" },
        { "kill:rank=1@soon", "not a duration" },
        { "kill:rank=1@step=0", "" },
        { "kill:rank=1@step=", "" },
        { "kill:rank=1@9s..3s", "the time ends before it begins" },
        { "kill:rank=1@3s..", "not a duration" },
        { "kill:rank=1@1s for 3s", "kill takes no for" },
        { "kill:rank=1@1s by 3s", "kill takes no by" },
        { "kill:rank=1@1s code=3", "kill takes no code" },
        { "kill:rank=1@1s now", "now cannot stand there" },
        { "kill:host=b@step=3", "only a rank has steps" },
        { "kill:random@step=3", "only a rank has steps" },
        { "stop:rank=1@1s for 0s", "0 is no time" },
        { "stop:rank=1@1s for", "not a duration" },
        { "stop:rank=1@1s code=1", "stop takes no code" },
        { "slow:rank=1@1s", "slow:rank=N@step=N" },
        { "slow:host=b@1s", "slow:rank=N@step=N" },
        { "exit:random@1s", "exit:rank=N@step=N" },
        { "exit:rank=1@step=1 code=256", "" },
        { "exit:rank=1@step=1 for 3s", "exit takes no for" },
        { "cut:rank=1@1s", "cut:host=NAME@TIME" },
        { "cut:host=b@step=1", "cut:host=NAME@TIME" },
        { "cut:random@1s", "cut:host=NAME@TIME" },
        { "kill:rank=1@1s,seed=x", "" },
        { "kill:rank=1@1s,seed=-1", "" },
        { "seed=1,seed=2,kill:rank=1@1s", "there is a seed already" },
        { "kill:rank=1@1s,", "no event" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_chaos chaos = { .count = 77 };
        struct rg_error err = RG_ERROR_INIT;
        int r = rg_chaos_parse("--chaos", cases[i].text, &chaos, &err);
        if (r != -EINVAL && r != -ERANGE)
            fail_msg("%s is taken", cases[i].text);
        if (!rg_str_starts(err.text, "--chaos ") || !strstr(err.text, cases[i].words))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(chaos.count, 77);
    }
}

static void too_much_is_refused(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_chaos chaos = { .count = 0 };
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    for (int i = 0; i < RG_CHAOS_EVENTS_MAX; i++)
        rg_buf_printf(&text, "%skill:rank=1@%ds", i ? "," : "", i);
    assert_int_equal(parsed(rg_buf_text(&text)).count, RG_CHAOS_EVENTS_MAX);
    rg_buf_printf(&text, ",kill:rank=1@1s");
    assert_int_equal(rg_chaos_parse("--chaos", rg_buf_text(&text), &chaos, &err), -EINVAL);
    rg_buf_clear(&text);
    rg_buf_printf(&text, "kill:host=%0600d@1s", 1);
    assert_int_equal(rg_chaos_parse("--chaos", rg_buf_text(&text), &chaos, &err), -EINVAL);
}

/* These numbers must not change: users replay jobs by them. */
static void a_seed_draws_the_same_everywhere(void **state)
{
    struct rg_chaos chaos = parsed("seed=7,kill:random@10s..60s,stop:rank=1@0s..1s for 1s");
    struct rg_chaos more = parsed("seed=7,kill:random@10s..60s,kill:random@0s..9s");
    struct rg_chaos other = parsed("seed=8,kill:random@10s..60s,stop:rank=1@0s..1s for 1s");

    (void) state;
    assert_true(rg_chaos_is_open(&chaos));
    rg_chaos_draw(&chaos, 4);
    rg_chaos_draw(&more, 4);
    rg_chaos_draw(&other, 4);
    assert_false(rg_chaos_is_open(&chaos));
    assert_printed(&chaos, "kill:rank=3@37177ms,stop:rank=1@528ms for 1s");
    assert_int_equal(more.events[0].rank, chaos.events[0].rank);
    assert_int_equal(more.events[0].at_ms, chaos.events[0].at_ms);
    assert_int_not_equal(other.events[0].at_ms, chaos.events[0].at_ms);
    assert_false(rg_chaos_is_open(&(struct rg_chaos){ .count = 0 }));
}

/* Each rank is drawn, and each time of the range. */
static void all_of_the_range_is_drawn(void **state)
{
    bool rank[3] = { false }, at[4] = { false };

    (void) state;
    for (int seed = 0; seed < 200; seed++) {
        struct rg_chaos chaos = parsed("kill:random@5ms..8ms");
        chaos.seed = (uint64_t) seed;
        rg_chaos_draw(&chaos, 3);
        assert_in_range(chaos.events[0].rank, 0, 2);
        assert_in_range(chaos.events[0].at_ms, 5, 8);
        rank[chaos.events[0].rank] = at[chaos.events[0].at_ms - 5] = true;
    }
    assert_true(rank[0] && rank[1] && rank[2] && at[0] && at[1] && at[2] && at[3]);
}

static void whom_a_job_lacks_is_refused(void **state)
{
    static const char *const names[] = { "a", "b" };
    struct rg_chaos chaos = parsed("kill:rank=3@1s,kill:host=b@1s");
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_chaos_check("--chaos", &chaos, 4, names, 2, &err), 0);
    assert_int_equal(rg_chaos_check("--chaos", &chaos, 3, names, 2, &err), -EINVAL);
    assert_string_equal(err.text, "--chaos rank=3: this job has 3 ranks, from 0 on; name one of "
                                  "them");
    assert_int_equal(rg_chaos_check("--chaos", &chaos, 4, names, 1, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--chaos host=b: this job has no such host"));
}

static void ranks_are_told_of_their_steps(void **state)
{
    struct rg_chaos chaos = parsed("kill:host=b@30s,stop:rank=1@step=20 for 8s,"
                                   "exit:rank=2@step=5 code=3,slow:rank=0@step=1 by 9ms");
    rg_autobuf struct rg_buf text = RG_BUF_INIT, none = RG_BUF_INIT, words = RG_BUF_INIT;

    (void) state;
    rg_chaos_put_variable(&chaos, &text);
    assert_string_equal(rg_buf_text(&text), "1:stop:1:20:8000:0,2:exit:2:5:0:3,3:slow:0:1:0:9");
    chaos = parsed("kill:host=b@30s");
    rg_chaos_put_variable(&chaos, &none);
    assert_int_equal(rg_buf_nbytes(&none), 0);
    rg_chaos_describe(&chaos.events[0], -1, "b", &words);
    assert_string_equal(rg_buf_text(&words), "kill host b (at 30s)");
    rg_buf_clear(&words);
    chaos = parsed("stop:rank=1@step=20 for 8s");
    rg_chaos_describe(&chaos.events[0], 1, "a", &words);
    assert_string_equal(rg_buf_text(&words), "stop rank 1 of host a for 8s (step 20)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_and_written),
        cmocka_unit_test(broken_events_are_named),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(a_seed_draws_the_same_everywhere),
        cmocka_unit_test(all_of_the_range_is_drawn),
        cmocka_unit_test(whom_a_job_lacks_is_refused),
        cmocka_unit_test(ranks_are_told_of_their_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
