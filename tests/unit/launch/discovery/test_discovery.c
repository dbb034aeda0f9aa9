/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is asked again and again may do anything. */
#include "launch/discovery/discovery.h"
#include "unit.h"

#define TOLD_MAX 20
#define LIMIT_MS 30000

/* What was told, in words: "a:2,b:1", or "failed: ...". */
struct world {
    struct rg_loop *loop;
    char command[128];
    struct rg_discovery *discovery;
    struct rg_timer watchdog;
    char told[TOLD_MAX][RG_ERROR_TEXT_MAX + 16];
    size_t ntold, wanted;
    bool destroy; /* in the callback */
    char file[64]; /* what the program prints; or what it does */
};

static void tell(struct world *w)
{
    w->ntold++;
    assert_true(w->ntold < TOLD_MAX);
    if (w->destroy) {
        rg_discovery_stop(w->discovery);
        w->discovery = NULL;
    }
    if (w->ntold >= w->wanted)
        rg_loop_stop(w->loop);
}

static void on_hosts(void *arg, const struct rg_job *job)
{
    const struct rg_host *hosts = job->hosts;
    struct world *w = arg;
    char *text = w->told[w->ntold];

    for (size_t i = 0; i < job->nhosts; i++)
        sprintf(text + strlen(text), "%s%s%s%s:%d", i ? "," : "",
                hosts[i].user ? hosts[i].user : "", hosts[i].user ? "@" : "", hosts[i].name,
                hosts[i].nslots);
    tell(w);
}

static void on_failed(void *arg, const char *text)
{
    struct world *w = arg;

    snprintf(w->told[w->ntold], sizeof(w->told[0]), "failed: %s", text);
    tell(w);
}

static void too_late(void *arg)
{
    (void) arg;
    fail_msg("the discovery says nothing more");
}

/* What the file has is run by a shell; the command is made in one step. */
static void write_file(const struct world *w, const char *text)
{
    char next[80];

    snprintf(next, sizeof(next), "%s.next", w->file);
    FILE *file = fopen(next, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(rename(next, w->file), 0);
}

static struct world *make_world(const char *script, unsigned limit_ms)
{
    static int number;
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    snprintf(w->file, sizeof(w->file), "/tmp/reigen-discovery-%d-%d", (int) getpid(), number++);
    write_file(w, script);
    snprintf(w->command, sizeof(w->command), "exec /bin/sh %s", w->file);
    assert_int_equal(rg_loop_create(&w->loop), 0);
    rg_timer_start(&w->watchdog, w->loop, 1000 * (uint64_t) unit_limit_s(20), 0, too_late, w);
    struct rg_discovery_options options = { .loop = w->loop, .command = w->command, .nslots = 4,
                                            .period_ms = 5, .limit_ms = limit_ms,
                                            .on_hosts = on_hosts, .on_failed = on_failed,
                                            .arg = w };
    assert_int_equal(rg_discovery_start(&options, &w->discovery), 0);
    return w;
}

/* Until so much more was told; the last of it. */
static const char *await(struct world *w, size_t more)
{
    w->wanted = w->ntold + more;
    rg_loop_run(w->loop);
    return w->told[w->ntold - 1];
}

static void end_world(struct world *w)
{
    rg_discovery_stop(w->discovery);
    rg_timer_stop(&w->watchdog);
    rg_loop_destroy(w->loop);
    unlink(w->file);
    free(w);
}

static void changes_are_told_and_nothing_else(void **state)
{
    struct world *w = make_world("echo a:2; echo; echo 'b # one'; echo bob@c slots=3",
                                 LIMIT_MS);

    (void) state;
    assert_string_equal(await(w, 1), "a:2,b:4,bob@c:3");
    write_file(w, "printf '\\357\\273\\277a:2\\r\\nb\\r\\nbob@c:3'"); /* the same in Windows' way */
    write_file(w, "echo b:3; echo a:2; echo b:1");
    assert_string_equal(await(w, 1), "a:2,b:1");
    write_file(w, "true");
    assert_string_equal(await(w, 1), "");
    write_file(w, "echo a");
    assert_string_equal(await(w, 1), "a:4");
    end_world(w);
}

static void failures_are_told_once_each(void **state)
{
    struct world *w = make_world("echo a:1", LIMIT_MS);

    (void) state;
    await(w, 1);
    write_file(w, "echo first >&2; printf 'no queue \\n\\n' >&2; exit 3");
    assert_string_equal(await(w, 1),
                        "failed: --host-discovery-script ended with exit code 3: no queue");
    write_file(w, "yes >&2; exit 4"); /* it can write no more than is kept */
    assert_contains(await(w, 1), "exit code 4: y");
    write_file(w, "echo a:1; echo 'b:x'");
    assert_contains(await(w, 1), ":2: ");
    write_file(w, "printf 'a:1\\0'");
    assert_contains(await(w, 1), "NUL byte");
    write_file(w, "kill -9 $$");
    assert_contains(await(w, 1), "signal 9");
    write_file(w, "echo b:1");
    assert_string_equal(await(w, 1), "b:1");
    write_file(w, "exit 3"); /* it has been well between */
    assert_contains(await(w, 1), "failed: --host-discovery-script ended with exit code 3");
    end_world(w);
}

static void program_that_does_not_end_is_killed_with_its_children(void **state)
{
    struct world *w = make_world("sleep 1000 & echo $! >$0.pid; wait", 300);
    char name[80];
    int pid = 0;

    (void) state;
    snprintf(name, sizeof(name), "%s.pid", w->file);
    assert_contains(await(w, 1), "did not end within 0.3 s");
    FILE *file = fopen(name, "r");
    if (file && fscanf(file, "%d", &pid) == 1) /* else it was too slow to come so far */
        assert_true(unit_until(unit_has_ended(pid), "the end of its child"));
    if (file)
        fclose(file);
    unlink(name);
    end_world(w);
}

static void what_a_program_leaves_in_its_group_with_its_output_is_killed(void **state)
{
    struct world *w = make_world("sleep 1000 & echo $! >$0.pid; echo a:1", LIMIT_MS);
    char name[80];
    int pid = 0;

    (void) state;
    snprintf(name, sizeof(name), "%s.pid", w->file);
    assert_string_equal(await(w, 1), "a:1");
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    assert_true(unit_until(unit_has_ended(pid), "the end of what it left behind"));
    end_world(w);
    unlink(name);
}

static void program_that_prints_without_end_is_killed(void **state)
{
    struct world *w = make_world("yes a:1", LIMIT_MS);

    (void) state;
    assert_contains(await(w, 1), "has printed more than");
    end_world(w);
}

static void callback_may_destroy_it(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct world *w = make_world(i == 0 ? "echo a:1" : "exit 1", LIMIT_MS);
        w->destroy = true;
        await(w, 1);
        assert_null(w->discovery);
        end_world(w);
    }
    /* And while the program runs. */
    struct world *w = make_world("exec sleep 1000", LIMIT_MS);
    (void) state;
    end_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_told_and_nothing_else),
        cmocka_unit_test(failures_are_told_once_each),
        cmocka_unit_test(program_that_does_not_end_is_killed_with_its_children),
        cmocka_unit_test(what_a_program_leaves_in_its_group_with_its_output_is_killed),
        cmocka_unit_test(program_that_prints_without_end_is_killed),
        cmocka_unit_test(callback_may_destroy_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
