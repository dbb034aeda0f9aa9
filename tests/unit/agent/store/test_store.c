/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "agent/store/store.h"
#include "base/fd.h"
#include "unit.h"

static char root[] = "/tmp/reigen-store-XXXXXX";

/* A file with these bytes, in a root of its own, which is written to ret_root. */
static void make(const char *name, const char *file, const void *bytes, size_t nbytes,
                 char ret_root[256])
{
    char path[512];

    snprintf(ret_root, 256, "%s/%s", root, name);
    snprintf(path, sizeof(path), "%s/%s", ret_root, file);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rg_mkdir_all(path, 0755, NULL), 0);
    snprintf(path, sizeof(path), "%s/%s", ret_root, file);
    assert_int_equal(rg_store_write(AT_FDCWD, path, bytes, nbytes, 0644), 0);
}

static void a_system_without_a_new_glibc_says_what_it_has(void **state)
{
    static const char fresh[] = "x\0GLIBC_2.27\0GLIBC_2.28\0GLIBC_2.36", old[] = "\0GLIBC_2.17";
    char there[256], name[128];
    struct utsname machine;

    (void) state;
    assert_int_equal(uname(&machine), 0);
    make("fresh", "lib64/libc.so.6", fresh, sizeof(fresh), there);
    assert_null(rg_store_bundle_misfit(there));
    snprintf(name, sizeof(name), "usr/lib/%s-linux-gnu/libc.so.6", machine.machine);
    make("debian", name, fresh, sizeof(fresh), there);
    assert_null(rg_store_bundle_misfit(there));
    make("old", name, old, sizeof(old), there);
    assert_string_equal(rg_store_bundle_misfit(there), "an older glibc");
    snprintf(name, sizeof(name), "lib/ld-musl-%s.so.1", machine.machine);
    make("alpine", name, "", 0, there);
    assert_string_equal(rg_store_bundle_misfit(there), "musl");
    make("other", "nix/store/libc.so.6", old, sizeof(old), there);
    assert_null(rg_store_bundle_misfit(there));
    assert_null(rg_store_bundle_misfit(""));
}

static int set_up(void **state)
{
    (void) state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void) state;
    rg_store_remove_tree(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_system_without_a_new_glibc_says_what_it_has),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
