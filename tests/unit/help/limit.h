/* SPDX-License-Identifier: Apache-2.0 */
/* Time limits of tests that hold on a busy machine. */
#ifndef RG_TESTS_UNIT_LIMIT_H
#define RG_TESTS_UNIT_LIMIT_H

/* A limit that only ends what hangs, in seconds: what a quiet machine needs, times what the machine
 * is granted now, by its load and by the sanitizer (tests/wait.py has the same rule).
 * REIGEN_TEST_PATIENCE is that factor instead, where it is set. A limit that a test is about stays
 * as it is. Any thread may call. */
unsigned unit_limit_s(unsigned quiet_s);

#endif
