/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "container/bundle.h"
#include "unit.h"

static char root[] = "/tmp/reigen-bundle-XXXXXX";

static void write_text(const char *name, const char *text, mode_t mode)
{
    char path[512], *slash;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(rg_mkdir_all(path, 0755, NULL), 0);
    *slash = '/';
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

static void packages_come_out_as_they_went_in(void **state)
{
    rg_cleanup(rg_bundle_files_fini) struct rg_bundle_files files = { RG_STRV_INIT, RG_STRV_INIT };
    rg_autobuf struct rg_buf archive = RG_BUF_INIT;
    rg_autofree char *text = NULL, *out = rg_strf("%s/out", root);
    char path[512];
    struct stat st;

    (void) state;
    write_text("in/reigen/__init__.py", "one", 0644);
    write_text("in/reigen/tool", "two", 0755);
    write_text("in/reigen/__pycache__/x.pyc", "no", 0644);
    write_text("in/horovod/torch/__init__.py", "", 0644);
    write_text("in/other/__init__.py", "no", 0644);
    snprintf(path, sizeof(path), "%s/in", root);
    assert_int_equal(rg_bundle_list(path, &files, NULL), 0);
    assert_int_equal(files.names.count, 3);
    assert_string_equal(files.names.v[0], "reigen/__init__.py");
    assert_string_equal(files.names.v[2], "horovod/torch/__init__.py");
    assert_int_equal(rg_bundle_pack(&files, &archive, NULL), 0);
    assert_int_equal(rg_bundle_unpack(rg_buf_bytes(&archive), rg_buf_nbytes(&archive), out, NULL),
                     0);
    snprintf(path, sizeof(path), "%s/reigen/__init__.py", out);
    assert_int_equal(rg_read_file(path, 100, &text, NULL), 0);
    assert_string_equal(text, "one");
    snprintf(path, sizeof(path), "%s/reigen/tool", out);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mode & 0100);
    snprintf(path, sizeof(path), "%s/horovod/torch/__init__.py", out);
    assert_int_equal(access(path, R_OK), 0);
}

/* This program stands for a library: built with symbols, its sections follow what is loaded. */
static void of_a_library_what_is_loaded_is_packed(void **state)
{
    rg_cleanup(rg_bundle_files_fini) struct rg_bundle_files files = { RG_STRV_INIT, RG_STRV_INIT };
    rg_autobuf struct rg_buf archive = RG_BUF_INIT;
    rg_autofree char *link = rg_strf("%s/self.so", root), *whole = NULL;
    struct rg_bundle_entry entry;
    struct stat st;
    uint64_t measured;
    size_t nbytes;

    (void) state;
    assert_int_equal(symlink("/proc/self/exe", link), 0);
    assert_int_equal(rg_bundle_add(&files, "reigen/self.so", link), 0);
    assert_int_equal(rg_bundle_pack(&files, &archive, NULL), 0);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&archive), rg_buf_nbytes(&archive));
    rg_reader_bytes(&reader, strlen(RG_BUNDLE_MAGIC));
    assert_int_equal(rg_bundle_read(&reader, &entry, NULL), 0);
    assert_int_equal(rg_read_file(link, RG_BUNDLE_MAX, &whole, &nbytes), 0);
    assert_true(entry.nbytes < nbytes);
    assert_int_equal(stat(link, &st), 0);
    assert_int_equal(rg_bundle_measure(link, &st, &measured), 0);
    assert_int_equal(measured, entry.nbytes);
    assert_memory_equal(entry.data + sizeof(Elf64_Ehdr), whole + sizeof(Elf64_Ehdr),
                        entry.nbytes - sizeof(Elf64_Ehdr));
    /* What is trimmed already stays as it is, and what has been cut off elsewhere, too. */
    assert_int_equal(rg_bundle_trim((uint8_t *) whole, nbytes), entry.nbytes);
    assert_int_equal(rg_bundle_trim((uint8_t *) whole, entry.nbytes), entry.nbytes);
    assert_int_equal(rg_bundle_trim((uint8_t *) whole, entry.nbytes - 1), entry.nbytes - 1);
    assert_int_equal(rg_bundle_trim((uint8_t *) whole, 70), 70);
    assert_int_equal(rg_bundle_trim((uint8_t *) whole, 3), 3);
}

static void names_that_lead_out_are_refused(void **state)
{
    static const char *const names[] = { "", "/etc/x", "../x", "a/../../x", "a//b", "./a", "a/",
                                         "a/.b" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(names); i++) {
        rg_autobuf struct rg_buf archive = RG_BUF_INIT;
        rg_autofree char *out = rg_strf("%s/bad%zu", root, i);
        struct rg_error err = RG_ERROR_INIT;
        rg_buf_put(&archive, RG_BUNDLE_MAGIC, strlen(RG_BUNDLE_MAGIC));
        rg_buf_put_u16(&archive, (uint16_t) strlen(names[i]));
        rg_buf_put(&archive, names[i], strlen(names[i]));
        rg_buf_put_u8(&archive, 0);
        rg_buf_put_span(&archive, "x", 1);
        int r = rg_bundle_unpack(rg_buf_bytes(&archive), rg_buf_nbytes(&archive), out, &err);
        if (r != -EBADMSG)
            fail_msg("'%s': %d", names[i], r);
    }
}

static void a_cut_archive_is_refused(void **state)
{
    rg_autobuf struct rg_buf archive = RG_BUF_INIT;

    (void) state;
    rg_buf_put(&archive, RG_BUNDLE_MAGIC, strlen(RG_BUNDLE_MAGIC));
    rg_buf_put_u16(&archive, 1);
    rg_buf_put(&archive, "x", 1);
    rg_buf_put_u8(&archive, 0);
    rg_buf_put_span(&archive, "contents", 8);
    for (size_t n = 0; n < rg_buf_nbytes(&archive); n++) {
        rg_autofree char *out = rg_strf("%s/cut%zu", root, n);
        int r = rg_bundle_unpack(rg_buf_bytes(&archive), n, out, NULL);
        assert_int_equal(r, n == strlen(RG_BUNDLE_MAGIC) ? 0 : -EBADMSG);
    }
}

static void without_packages_there_is_no_list(void **state)
{
    struct rg_bundle_files files = { RG_STRV_INIT, RG_STRV_INIT };
    struct rg_error err = RG_ERROR_INIT;
    rg_autofree char *nowhere = rg_strf("%s/nowhere", root);

    (void) state;
    assert_int_equal(rg_bundle_list(nowhere, &files, &err), -ENOENT);
    assert_contains(err.text, "nowhere");
    assert_int_equal(files.names.count, 0);
}

static int begin(void **state)
{
    (void) state;
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    rg_autofree char *command = rg_strf("rm -rf '%s'", root);

    (void) state;
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_come_out_as_they_went_in),
        cmocka_unit_test(of_a_library_what_is_loaded_is_packed),
        cmocka_unit_test(names_that_lead_out_are_refused),
        cmocka_unit_test(a_cut_archive_is_refused),
        cmocka_unit_test(without_packages_there_is_no_list),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
