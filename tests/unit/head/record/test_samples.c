/* SPDX-License-Identifier: Apache-2.0 */
/* A record of a job that lasts for ever, or has ever so many ranks, is no larger than another. */
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "head/record/files.h"
#include "head/record/samples.h"
#include "head/record/tails.h"
#include "unit.h"

struct record {
    char dir[64];
    struct rg_record_folder folder;
    struct rg_record_samples samples;
};

static int set_up(void **state)
{
    struct record *record = calloc(1, sizeof(*record));
    struct rg_error err = RG_ERROR_INIT;

    snprintf(record->dir, sizeof(record->dir), "/tmp/reigen-samples-XXXXXX");
    assert_non_null(mkdtemp(record->dir));
    assert_int_equal(rg_record_folder_open(record->dir, &record->folder, &err), 0);
    record->samples.every_ms = RG_RECORD_SAMPLE_MS;
    *state = record;
    return 0;
}

static int tear_down(void **state)
{
    struct record *record = *state;

    unlinkat(record->folder.dir_fd, RG_RECORD_SAMPLES, 0);
    unlinkat(record->folder.dir_fd, RG_RECORD_EVENTS, 0);
    rg_record_samples_fini(&record->samples);
    rg_record_folder_close(&record->folder);
    assert_int_equal(rmdir(record->dir), 0);
    free(record);
    return 0;
}

static int add(struct record *record, int number, uint32_t epoch, int nranks)
{
    struct rg_record_sample sample = { .epoch = epoch };

    rg_buf_printf(&sample.line, "%d %u\n", number, epoch);
    return rg_record_samples_add(&record->samples, &record->folder, nranks, &sample);
}

static char *read_back(const struct record *record)
{
    rg_autofree char *path = rg_strf("%s/%s", record->dir, RG_RECORD_SAMPLES);
    char *text = NULL;

    assert_int_equal(rg_read_file(path, 1 << 20, &text, NULL), 0);
    return text;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void the_first_and_the_last_stay(void **state)
{
    struct record *record = *state;
    size_t max = rg_record_samples_max(4);
    uint64_t every_ms = RG_RECORD_SAMPLE_MS;

    for (int i = 0; i < 5000; i++) {
        int r = add(record, i, 0, 4);
        every_ms *= r == 1 ? 2 : 1;
        assert_true(r >= 0 && record->samples.count <= max);
        assert_int_equal(record->samples.every_ms, every_ms);
    }
    rg_autofree char *text = read_back(record);
    assert_int_equal(count_lines(text), record->samples.count);
    assert_true(rg_str_starts(text, "0 0\n") && strstr(text, "\n4999 0\n"));
    assert_true(every_ms > RG_RECORD_SAMPLE_MS && record->samples.count >= max / 2);
}

static void what_an_epoch_had_done_stays(void **state)
{
    struct record *record = *state;

    for (int i = 0; i < 2000; i++)
        add(record, i, i < 101 ? 1 : 2, 4);
    rg_autofree char *text = read_back(record);
    assert_contains(text, "\n100 1\n");
}

static void ever_new_epochs_are_thinned_out_too(void **state)
{
    struct record *record = *state;

    for (int i = 0; i < 5000; i++)
        add(record, i, (uint32_t) i, 4);
    assert_true(record->samples.count <= rg_record_samples_max(4));
}

static void many_ranks_have_fewer_samples(void **state)
{
    (void) state;
    assert_true(rg_record_samples_max(1) == 720 && rg_record_samples_max(100) > 700);
    assert_true(rg_record_samples_max(1000) >= 70 && rg_record_samples_max(1000) < 80);
    assert_int_equal(rg_record_samples_max(131072), 16);
}

static void what_could_not_be_written_follows(void **state)
{
    struct record *record = *state;
    int dir_fd = record->folder.dir_fd;

    add(record, 0, 0, 4);
    record->folder.dir_fd = -1;
    record->folder.told = true; /* on standard error nobody would read it */
    assert_true(add(record, 1, 0, 4) < 0);
    record->folder.dir_fd = dir_fd;
    assert_int_equal(add(record, 2, 0, 4), 0);
    rg_autofree char *text = read_back(record);
    assert_string_equal(text, "0 0\n1 0\n2 0\n");
}

static void of_every_rank_some_lines_stay(void **state)
{
    static const char *const lines[] = { "oldest", "old", "newest\xc3\xa4" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    rg_record_tails_put(&text, 3, -1, "a", lines, 3, 11);
    rg_record_tails_put(&text, 4, 2, "b", lines, 3, 7);
    assert_string_equal(rg_buf_text(&text),
                        "{\"place\":3,\"rank\":-1,\"host\":\"a\",\"lines\":[\"old\","
                        "\"newest\xc3\xa4\"]}\n"
                        "{\"place\":4,\"rank\":2,\"host\":\"b\",\"lines\":[\"newest\"]}\n");
    assert_true(rg_record_tails_room(4) > 100000 && rg_record_tails_room(1000000) == 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_and_the_last_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_an_epoch_had_done_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ever_new_epochs_are_thinned_out_too, set_up, tear_down),
        cmocka_unit_test(many_ranks_have_fewer_samples),
        cmocka_unit_test(of_every_rank_some_lines_stay),
        cmocka_unit_test_setup_teardown(what_could_not_be_written_follows, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
