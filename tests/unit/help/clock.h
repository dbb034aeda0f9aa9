/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that a test moves. A program with clock.c among its sources gets the time of rg_now_ns()
 * from here: what the machine's clock says, and all that the test has let pass.
 *
 * What is about limits then needs no time. It needs an order: nobody may be in a system call with a
 * limit of its own when time passes, since the kernel knows nothing of that.
 */
#ifndef RG_TESTS_UNIT_CLOCK_H
#define RG_TESTS_UNIT_CLOCK_H

/* So many milliseconds pass at once, for all threads. Any thread may call. */
void unit_clock_pass(unsigned ms);

#endif
