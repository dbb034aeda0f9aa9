/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, in the order of headers that it needs, and what many unit tests want besides. */
#ifndef RG_TESTS_UNIT_UNIT_H
#define RG_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help/limit.h"
#include "help/wait.h"

/* The text holds the part; otherwise the test fails and shows both. */
static inline void check_contains(const char *text, const char *part, const char *file, int line)
{
    if (!strstr(text, part)) {
        print_error("\"%s\" lacks \"%s\"\n", text, part);
        _fail(file, line);
    }
}

#define assert_contains(text, part) check_contains(text, part, __FILE__, __LINE__)

#endif
