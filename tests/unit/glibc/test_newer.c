/* SPDX-License-Identifier: Apache-2.0 */
/* Each by the name that it has for the linker; this program has them in the place of glibc's. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

long strtol_23(const char *text, char **ret_end, int base) __asm__("__isoc23_strtol");
unsigned long strtoul_23(const char *text, char **ret_end, int base) __asm__("__isoc23_strtoul");
long long strtoll_23(const char *text, char **ret_end, int base) __asm__("__isoc23_strtoll");
unsigned long long strtoull_23(const char *text, char **ret_end, int base)
    __asm__("__isoc23_strtoull");
int sscanf_23(const char *text, const char *format, ...) __asm__("__isoc23_sscanf");

static void a_file_is_what_it_is_by_each_name(void **state)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    struct stat st, other;

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_size, lseek(fd, 0, SEEK_END));
    assert_int_equal(stat("/proc/self/exe", &other), 0);
    assert_int_equal(other.st_ino, st.st_ino);
    assert_int_equal(fstatat(AT_FDCWD, "/proc/self/exe", &other, 0), 0);
    assert_int_equal(other.st_ino, st.st_ino);
    assert_int_equal(lstat("/proc/self/exe", &other), 0);
    assert_true(S_ISLNK(other.st_mode));
    assert_int_equal(stat("/proc/self/none", &other), -1);
    close(fd);
}

static void numbers_are_read(void **state)
{
    char *end;
    int first = 0, second = 0;

    (void) state;
    assert_int_equal(strtol_23("-12x", &end, 10), -12);
    assert_int_equal(*end, 'x');
    assert_int_equal(strtoul_23("ff", NULL, 16), 255);
    assert_true(strtoll_23("-9223372036854775808", NULL, 10) == -9223372036854775807LL - 1);
    assert_true(strtoull_23("18446744073709551615", NULL, 10) == 18446744073709551615ULL);
    assert_int_equal(sscanf_23("3:4", "%d:%d", &first, &second), 2);
    assert_int_equal(first * 10 + second, 34);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_what_it_is_by_each_name),
        cmocka_unit_test(numbers_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
