/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of jobs that are too large, or too odd, to be run here. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/top/keys.h"
#include "cmd/top/page.h"
#include "cmd/top/reading.h"
#include "cmd/top/rows.h"
#include "cmd/top/table.h"
#include "unit.h"

#define RANKS 1000
#define PER_HOST 8

static const char columns[] =
    "\"columns\":[\"rank\",\"age_s\",\"steps\",\"step_s\",\"resident_bytes\",\"bytes_per_s\","
    "\"steps_per_s\",\"blocked\",\"waiting\",\"causing\",\"cpu\"]";

/* What a rank of a test says of itself. */
struct told {
    double age_s, blocked, waiting, causing;
};

static void put_row(struct rg_buf *json, int rank, const struct told *told)
{
    rg_buf_printf(json, "%s[%d,%g,%d,0.1,%d,1000,10,%g,%g,%g,%g]", rank ? "," : "", rank,
                  told->age_s, 100 + rank, 1 << 20, told->blocked, told->waiting, told->causing,
                  0.5 + rank / 10000.0);
}

static struct rg_top_reading read_text(struct rg_buf *json)
{
    struct rg_top_reading reading = RG_TOP_READING_INIT;
    json_t *page = json_loads(rg_buf_text(json), 0, NULL);

    assert_non_null(page);
    assert_int_equal(rg_top_reading_add(&reading, page), 0);
    json_decref(page);
    rg_buf_fini(json);
    rg_top_reading_settle(&reading);
    return reading;
}

/* So many hosts of so many ranks; places as the launcher has them. */
static struct rg_top_reading make(int nhosts, int each, const struct told *told)
{
    struct rg_buf json = RG_BUF_INIT;

    rg_buf_printf(&json, "{\"places\":[");
    for (int h = 0; h < nhosts; h++)
        rg_buf_printf(&json, "%s[\"node%03d\",%d,%d]", h ? "," : "", h, h * each, each);
    rg_buf_printf(&json, "],%s,\"rows\":[", columns);
    for (int rank = 0; rank < nhosts * each; rank++)
        put_row(&json, rank, &told[rank]);
    rg_buf_printf(&json, "]}");
    return read_text(&json);
}

/* --- rates and shares ------------------------------------------------------------------------- */

static void rates_stay_within_what_can_be(void **state)
{
    const struct told told[] = { { .blocked = 240, .waiting = 3 }, { .causing = 900 },
                                 { .blocked = -5, .waiting = -1, .causing = -2 } };
    struct rg_top_reading reading = make(1, 3, told);

    (void) state;
    assert_true(reading.ranks[0].n.communication == 1 && reading.ranks[0].n.waiting == 1);
    assert_true(reading.ranks[1].n.causing == 2); /* the two others, all of the time */
    assert_true(reading.ranks[2].n.communication == 0 && reading.ranks[2].n.waiting == 0);
    assert_true(reading.ranks[2].n.causing == 0);
    rg_top_reading_fini(&reading);
}

static void who_is_silent_has_no_rates(void **state)
{
    const struct told told[] = { { .age_s = 0.5, .blocked = 0.5 }, { .age_s = 60, .causing = 1 } };
    struct rg_top_reading reading = make(1, 2, told);

    (void) state;
    assert_true(reading.ranks[0].n.rated && !reading.ranks[1].n.rated);
    assert_true(reading.ranks[1].n.causing == 0 && reading.ranks[1].n.steps == 101);
    assert_true(reading.all.steps_per_s == 10 && reading.all.communication == 0.5);
    assert_true(reading.all.bytes_per_s == 1000 && reading.all.age_s == 60);
    assert_int_equal(reading.late_rank, -1);
    rg_top_reading_fini(&reading);
}

static void a_page_of_another_kind_is_not_believed(void **state)
{
    static const char *const pages[] = {
        "{\"error\":\"version\"}", "[]", "{\"columns\":1,\"rows\":{}}",
        "{\"places\":[[\"a\",-1,5]],\"columns\":[],\"rows\":[]}",
        "{\"places\":[[\"a\",0,1e9],[\"b\",2000000000,1]],\"columns\":[],\"rows\":[]}",
        "{\"places\":[[\"a\",1000000,1000000]],\"columns\":[],\"rows\":[]}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        struct rg_top_reading reading = RG_TOP_READING_INIT;
        json_t *page = json_loads(pages[i], 0, NULL);
        assert_int_equal(rg_top_reading_add(&reading, page), 0);
        assert_false(reading.sound);
        json_decref(page);
        rg_top_reading_fini(&reading);
    }
}

/* --- who is waited for ------------------------------------------------------------------------ */

static void a_late_rank_is_named_and_so_is_a_late_host(void **state)
{
    const struct told rank[] = { { 0, .8, .8, 0 }, { 0, 0, 0, .8 }, { 0, .8, 0, 0 },
                                 { 0, .8, 0, 0 } };
    const struct told host[] = { { 0, .1, 0, 0 }, { 0, .1, 0, 0 }, { 0, .9, 0, 0 },
                                 { 0, .9, 0, 0 } };
    const struct told even[] = { { 0, .5, 0, 0 }, { 0, .51, 0, 0 }, { 0, .5, 0, 0 },
                                 { 0, .5, 0, 0 } };
    struct rg_top_reading reading = make(2, 2, rank);

    (void) state;
    assert_int_equal(reading.late_rank, 1);
    assert_int_equal(reading.late_host, 0);
    /* The other rank of its host sees 0.8; those of the other host wait as long. */
    assert_true(fabs(reading.late_causing - 2.4) < 1e-9);
    assert_int_equal(reading.hosts[0].worst, 1);
    rg_top_reading_fini(&reading);
    reading = make(2, 2, host);
    assert_int_equal(reading.late_rank, -1);
    assert_int_equal(reading.late_host, 0);
    assert_true(fabs(reading.late_causing - 1.6) < 1e-9);
    assert_true(fabs(reading.ranks[0].n.causing - 0.8) < 1e-9);
    rg_top_reading_fini(&reading);
    reading = make(2, 2, even);
    assert_true(reading.late_rank < 0 && reading.late_host < 0);
    rg_top_reading_fini(&reading);
    reading = make(4, 1, host); /* two of four hosts are late: each is found so */
    assert_true(reading.late_rank >= 0 && reading.late_rank < 2);
    assert_true(reading.hosts[0].n.causing > 1.5 && reading.hosts[1].n.causing > 1.5);
    rg_top_reading_fini(&reading);
}

/* --- a thousand ranks ------------------------------------------------------------------------- */

static struct rg_top_reading thousand(void)
{
    static struct told told[RANKS];

    for (int rank = 0; rank < RANKS; rank++)
        told[rank] = (struct told){ 0, .5, 0, 0 };
    for (int rank = 400; rank < 408; rank++)
        told[rank] = (struct told){ 0, .5, .4, 0 };
    told[405] = (struct told){ 0, .05, 0, 2.8 };
    return make(RANKS / PER_HOST, PER_HOST, told);
}

static int nth_rank(const struct rg_top_reading *reading, const struct rg_top_rows *rows, size_t i)
{
    assert_false(rows->hosts);
    return reading->ranks[rows->index[i]].rank;
}

static void ranks_that_do_not_fit_are_folded_and_who_is_waited_for_is_first(void **state)
{
    struct rg_top_reading reading = thousand();
    struct rg_top_view view = { 0 };
    struct rg_top_rows rows;

    (void) state;
    assert_int_equal(reading.nranks, RANKS);
    assert_int_equal(reading.ranks[reading.late_rank].rank, 405);
    assert_int_equal(rg_top_rows_make(&reading, &view, 50, &rows), 0);
    assert_true(rows.hosts && rows.count == RANKS / PER_HOST);
    assert_string_equal(reading.hosts[rows.index[0]].name, "node050");
    assert_string_equal(reading.hosts[rows.index[1]].name, "node000"); /* equal ones in order */
    assert_string_equal(reading.hosts[rows.index[2]].name, "node001");
    rg_top_rows_fini(&rows);
    assert_int_equal(rg_top_rows_make(&reading, &view, RANKS, &rows), 0);
    assert_int_equal(rows.count, RANKS);
    assert_int_equal(nth_rank(&reading, &rows, 0), 405);
    assert_int_equal(nth_rank(&reading, &rows, 1), 0);
    rg_top_rows_fini(&rows);
    view.host = "node050";
    assert_int_equal(rg_top_rows_make(&reading, &view, 3, &rows), 0);
    assert_int_equal(rows.count, PER_HOST);
    assert_int_equal(nth_rank(&reading, &rows, 0), 405);
    rg_top_rows_fini(&rows);
    rg_top_reading_fini(&reading);
}

static void every_key_sorts(void **state)
{
    struct rg_top_reading reading = thousand();
    static const int first[RG_TOP_KEYS] = { [RG_TOP_BY_CAUSING] = 405, [RG_TOP_BY_CPU] = 999,
                                            [RG_TOP_BY_MEMORY] = 0, [RG_TOP_BY_STEPS] = 0,
                                            [RG_TOP_BY_RANK] = 0 };

    (void) state;
    for (int key = 0; key < RG_TOP_KEYS; key++) {
        const struct rg_top_view view = { .key = (enum rg_top_key) key, .fold = RG_TOP_UNFOLD };
        struct rg_top_rows rows;
        assert_int_equal(rg_top_rows_make(&reading, &view, 1, &rows), 0);
        assert_int_equal(nth_rank(&reading, &rows, 0), first[key]);
        assert_non_null(rg_top_key_name(view.key));
        rg_top_rows_fini(&rows);
    }
    rg_top_reading_fini(&reading);
}

static void a_table_is_as_wide_as_its_terminal_and_as_long_as_asked(void **state)
{
    struct rg_top_reading reading = thousand();
    const struct rg_top_view view = { 0 };
    struct rg_top_rows rows;

    (void) state;
    assert_int_equal(rg_top_rows_make(&reading, &view, 18, &rows), 0);
    for (int width = 40; width <= 200; width += 40) {
        const struct rg_top_look look = { .columns = width, .cursor = true };
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        size_t nlines = 0;
        rg_top_put_table(&reading, &rows, &(struct rg_top_part){ .count = 18 }, &look, &text);
        for (const char *p = rg_buf_text(&text); *p; p += strcspn(p, "\n") + 1, nlines++)
            assert_true(strcspn(p, "\n") <= (size_t) width);
        assert_int_equal(nlines, 19);
        assert_contains(rg_buf_text(&text), "node050");
    }
    rg_top_rows_fini(&rows);
    rg_top_reading_fini(&reading);
}

static void amounts_fit_their_columns(void **state)
{
    char cell[RG_TOP_CELL];

    (void) state;
    assert_string_equal(rg_top_amount(0, true, cell), "0");
    assert_string_equal(rg_top_amount(999, true, cell), "999");
    assert_string_equal(rg_top_amount(1000, true, cell), "1.0K");
    assert_string_equal(rg_top_amount(3.0 * (1ll << 30), true, cell), "3.0G");
    assert_string_equal(rg_top_amount(0, false, cell), "-");
    for (double n = 1; n < 1e18; n *= 1.37)
        assert_true(strlen(rg_top_amount(n, true, cell)) <= 4);
    for (double n = 0.001; n < 1e6 - 1; n *= 1.37)
        assert_true(strlen(rg_top_number(n, true, cell)) <= 6);
    assert_string_equal(rg_top_number(9.999, true, cell), "10.0");
    assert_string_equal(rg_top_percent(0.314, true, cell), "31%");
}

/* --- a rank's last lines ---------------------------------------------------------------------- */

/* On rank 1's page, of a job of 2 ranks whose output is a file of that kind. */
static void assert_lines(const char *kind, const char *bytes, size_t nbytes, uint64_t skip,
                         const char *wanted)
{
    char path[] = "/tmp/reigen-top-XXXXXX";
    int fd = mkstemp(path);
    rg_autofree char *output = rg_strf("%s %s", kind, path);
    rg_autobuf struct rg_buf page = RG_BUF_INIT;
    const struct rg_top_look look = { .columns = 80 };
    const struct rg_top_watch watch = { .reading = RG_TOP_READING_INIT,
                                        .job = { .output = output, .tags = true, .nranks = 2,
                                                 .skip_nbytes = skip } };

    assert_true(fd >= 0 && write(fd, bytes, nbytes) == (ssize_t) nbytes);
    rg_top_put_rank(&watch, 1, 20, &look, &page);
    close(fd);
    unlink(path);
    const char *lines = strstr(rg_buf_text(&page), path);
    assert_non_null(lines);
    assert_string_equal(lines + strlen(path) + 1, wanted);
}

static void a_ranks_last_lines_are_found_whatever_stands_around_them(void **state)
{
    static const char coloured[] = "\033[36m[0]\033[0m no\n\033[33m[1]\033[0m yes\n"
                                   "\033[1;33m[1]+\033[0m \033[31m[0] 9%\r10%\r\r\n";
    static const char emptied[] = "\0\0\0\0[1] a\0b\n[0] no\n[1] last";
    static const char appended[] = "[1] of another job\n[1] mine\n";

    (void) state;
    assert_lines("log", coloured, sizeof(coloured) - 1, 0, "  | yes\n  | 10%\n");
    assert_lines("file", emptied, sizeof(emptied) - 1, 0, "  | ab\n  | last\n");
    assert_lines("file", appended, sizeof(appended) - 1, 19, "  | mine\n");
    assert_lines("file", appended, sizeof(appended) - 1, 1000,
                 "  | of another job\n  | mine\n");
}

/* --- keys ------------------------------------------------------------------------------------- */

static void keys_and_their_sequences_are_told_apart(void **state)
{
    static const struct {
        const char *bytes;
        bool whole;
        size_t nbytes;
        int key;
    } keys[] = {
        { "q", false, 1, 'q' },
        { "\033[A", false, 3, RG_TOP_KEY_UP },
        { "\033OB", false, 3, RG_TOP_KEY_DOWN },
        { "\033[5~q", false, 4, RG_TOP_KEY_PAGE_UP },
        { "\033[1;5C", false, 6, RG_TOP_KEY_NONE },
        { "\033[999999999999999999~", false, 21, RG_TOP_KEY_NONE },
        { "\033", false, 0, 0 },
        { "\033", true, 1, RG_TOP_KEY_ESCAPE },
        { "\033[", false, 0, 0 },
        { "\033q", false, 1, RG_TOP_KEY_ESCAPE },
        { "\033\033[A", false, 1, RG_TOP_KEY_ESCAPE },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        int key = 0;
        size_t n = rg_top_key((const uint8_t *) keys[i].bytes, strlen(keys[i].bytes),
                              keys[i].whole, &key);
        assert_int_equal(n, keys[i].nbytes);
        assert_true(n == 0 || key == keys[i].key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_stay_within_what_can_be),
        cmocka_unit_test(who_is_silent_has_no_rates),
        cmocka_unit_test(a_page_of_another_kind_is_not_believed),
        cmocka_unit_test(a_late_rank_is_named_and_so_is_a_late_host),
        cmocka_unit_test(ranks_that_do_not_fit_are_folded_and_who_is_waited_for_is_first),
        cmocka_unit_test(every_key_sorts),
        cmocka_unit_test(a_table_is_as_wide_as_its_terminal_and_as_long_as_asked),
        cmocka_unit_test(amounts_fit_their_columns),
        cmocka_unit_test(a_ranks_last_lines_are_found_whatever_stands_around_them),
        cmocka_unit_test(keys_and_their_sequences_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
