/* SPDX-License-Identifier: Apache-2.0 */
/* Time limits of tests that hold on a busy machine. */
#ifndef RG_TESTS_UNIT_LIMIT_H
#define RG_TESTS_UNIT_LIMIT_H

#include <stdlib.h>

/* A limit that only ends what hangs, in seconds: what a quiet machine needs, times the patience
 * that REIGEN_TEST_PATIENCE asks for (3 by default). A limit that a test is about stays as it
 * is. */
static inline unsigned unit_limit_s(unsigned quiet_s)
{
    const char *patience = getenv("REIGEN_TEST_PATIENCE");

    return quiet_s * (patience ? (unsigned) strtoul(patience, NULL, 10) : 3);
}

#endif
