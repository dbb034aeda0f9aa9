/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline's file and ring, and the JSON of names, by themselves. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/json.h"
#include "base/time.h"
#include "coll/ground/report.h"
#include "coll/observe/timeline.h"
#include "coll/observe/timeline_json.h"

static char whole[64u << 20];

static char *read_all(int fd)
{
    ssize_t n = pread(fd, whole, sizeof(whole) - 1, 0);

    assert_true(n > 0);
    whole[n] = '\0';
    return whole;
}

/* As strstr, of which the sanitizer's measures all that follows at each call. */
/* In windows: for each call a sanitizer looks at all that memmem might read. */
static const char *find(const char *at, const char *end, const char *part)
{
    const size_t window = 4096, n = strlen(part);

    for (; at < end; at += window) {
        size_t left = (size_t) (end - at);
        const char *found = memmem(at, left < window + n ? left : window + n - 1, part, n);
        if (found || left <= window)
            return found;
    }
    return NULL;
}

static int count(const char *text, const char *part)
{
    const char *end = text + strlen(text);
    int n = 0;

    for (const char *p = find(text, end, part); p; p = find(p + 1, end, part))
        n++;
    return n;
}

/* A file without a name; its descriptor. */
static int temporary(char path[64])
{
    int fd = memfd_create("timeline", MFD_CLOEXEC);

    assert_true(fd >= 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void json_of(const char *text, const char *expected)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    rg_json_put_text(&buf, text);
    assert_string_equal(rg_buf_text(&buf), expected);
}

static void names_become_valid_json_whatever_they_hold(void **state)
{
    (void) state;
    json_of("grad", "\"grad\"");
    json_of("", "\"\"");
    json_of("a\"b\\c\n\t\x7f", "\"a\\\"b\\\\c\\u000a\\u0009\\u007f\"");
    json_of("\xc3\xbc \xe2\x82\xac \xf0\x9f\x8e\x89", "\"\xc3\xbc \xe2\x82\xac \xf0\x9f\x8e\x89\"");
    json_of("\xff\xc3", "\"??\"");
    json_of("\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82", "\"?? ??? ???? ??\"");
}

static void put(struct rg_trace *trace, enum rg_trace_what what, const char *name, uint64_t ns)
{
    struct rg_trace_event event = { .what = (uint8_t) what, .name = name, .ns = ns, .lane = 1 };

    rg_trace_put(trace, &event);
}

/* As after events were dropped: ends without beginnings, beginnings without ends, old times. */
static void spans_nest_whatever_is_missing(void **state)
{
    struct rg_trace *trace = NULL;
    struct rg_error err = RG_ERROR_INIT;
    char path[64], *text;
    rg_autoclose int fd = temporary(path);
    uint64_t now = rg_now_ns();

    (void) state;
    assert_int_equal(rg_trace_open(path, "test", &trace, &err), 0);
    rg_trace_name_lane(trace, 1, "lane");
    put(trace, RG_TRACE_END, NULL, now);
    put(trace, RG_TRACE_ACTIVITY, "LOST", now);
    put(trace, RG_TRACE_NEGOTIATE, "N1", now + 5000);
    put(trace, RG_TRACE_NEGOTIATE, "N2", now + 1000);
    put(trace, RG_TRACE_OPERATION, "O", now + 6000);
    put(trace, RG_TRACE_ACTIVITY, "A1", now + 7000);
    put(trace, RG_TRACE_ACTIVITY, "A2", now + 8000);
    put(trace, RG_TRACE_END, NULL, now + 9000);
    put(trace, RG_TRACE_END, NULL, now + 9500);
    assert_int_equal(rg_trace_close(trace), 0);
    text = read_all(fd);
    assert_int_equal(count(text, "\"ph\":\"B\""), 5);
    assert_int_equal(count(text, "\"ph\":\"E\""), 5);
    assert_int_equal(count(text, "LOST"), 0);
    assert_string_equal(text + strlen(text) - 3, "\n]\n");
}

static void a_full_disk_leaves_what_was_there(void **state)
{
    struct rg_trace *trace = NULL;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_trace_open("/dev/full", "test", &trace, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "/dev/full"));
    assert_int_equal(rg_trace_open("/", "test", &trace, &err), -EISDIR);
    assert_null(trace);
}

/* A limit on the size of files stands for the disk, in the middle of one large batch. */
static void a_disk_that_fills_up_keeps_each_whole_event(void **state)
{
    struct rlimit before, limit;
    struct rg_trace *trace = NULL;
    struct rg_error err = RG_ERROR_INIT;
    char path[64], *text;
    rg_autoclose int fd = temporary(path);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    int r, nevents;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int nbytes = 4096; nbytes < 4096 + 100; nbytes++) {
        assert_int_equal(rg_trace_open(path, "test", &trace, &err), 0);
        for (int i = 0; i < 60; i++)
            put(trace, RG_TRACE_NEGOTIATE, "N", rg_now_ns());
        limit = (struct rlimit){ (rlim_t) nbytes, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        r = rg_trace_close(trace);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(r, -ENOSPC);
        text = read_all(fd);
        nevents = count(text, "\"ph\":");
        assert_true(nevents > 20);
        assert_int_equal(count(text, ",\n{"), nevents - 1);
        assert_string_equal(text + strlen(text) - 4, "}\n]\n");
    }
    signal(SIGXFSZ, handler);
}

enum { THREADS = 4, EVENTS = 30000 };

static void *pusher(void *arg)
{
    struct rg_trace_event event = { .what = RG_TRACE_CYCLE, .ns = rg_now_ns() };

    (void) arg;
    event.generation = rg_timeline_generation();
    for (int i = 0; i < EVENTS; i++)
        rg_timeline_push(&event);
    return NULL;
}

/* More than the ring can hold, from several threads: what is not written is counted. */
static void what_is_dropped_is_counted(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    pthread_t threads[THREADS];
    char path[64], *text;
    rg_autoclose int fd = temporary(path);
    long dropped = 0, written;

    (void) state;
    rg_report_open(0, RG_LOG_ERROR, false);
    assert_int_equal(rg_timeline_start(path, 0, true, false, &err), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pusher, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rg_timeline_stop();
    text = read_all(fd);
    written = count(text, "CYCLE_START");
    const char *end = text + strlen(text), *part = " events dropped";

    for (const char *p = find(text, end, part); p; p = find(p + 1, end, part)) {
        const char *number = p;

        while (number[-1] >= '0' && number[-1] <= '9')
            number--;
        dropped += strtol(number, NULL, 10);
    }
    assert_int_equal(written + dropped, THREADS * EVENTS);
    assert_true(written > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_valid_json_whatever_they_hold),
        cmocka_unit_test(spans_nest_whatever_is_missing),
        cmocka_unit_test(a_full_disk_leaves_what_was_there),
        cmocka_unit_test(a_disk_that_fills_up_keeps_each_whole_event),
        cmocka_unit_test(what_is_dropped_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
