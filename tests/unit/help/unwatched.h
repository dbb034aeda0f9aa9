/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests compute on memory that their own thread alone knows. ThreadSanitizer watches each
 * access there, finds nothing, and takes most of such a test's time for it.
 *
 *     UNIT_UNWATCHED static void fill(void *data, size_t count) { ... }
 *
 * A function that reads what the runtime has written is not to be one of these: a result that is
 * told too early would no longer be found. Copies by memcpy() and the like are watched anyway.
 */
#ifndef RG_TESTS_UNIT_UNWATCHED_H
#define RG_TESTS_UNIT_UNWATCHED_H

#define UNIT_UNWATCHED __attribute__((no_sanitize("thread")))

#endif
