/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of memory that is about to be filled. The kernel gives memory a page of 4 KiB at a time,
 * when it is first written, and for large tensors that takes longer than the writing itself. Where
 * the kernel gives huge pages to those who ask (transparent_hugepage "madvise", as most systems
 * have it), asking makes one fault of 512. See madvise(2), MADV_HUGEPAGE, and
 * Documentation/admin-guide/mm/transhuge.rst of Linux.
 *
 * Thread rule: any thread. Two short system calls for large memory, none for small.
 */
#ifndef RG_COLL_GROUND_PAGES_H
#define RG_COLL_GROUND_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Memory below this has no huge page for certain, wherever it begins. */
#define RG_PAGES_HUGE_MIN ((size_t) 4 << 20)

/* All nbytes at `at` are about to be written: ask for huge pages for the whole pages among them,
 * where these have no memory yet. Whoever has filled them once, as a buffer that is used again, or
 * has them elsewhere than in its own memory, is left alone. What the bytes are does not change, nor
 * who may do what with them; the wish stays with the addresses until they are unmapped. True when
 * it has been asked for; a kernel that does not want to is no error. */
bool rg_pages_want_huge(void *at, size_t nbytes);

#endif
