/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages for large memory that nobody has written to. */
#include "coll/ground/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

bool rg_pages_want_huge(void *at, size_t nbytes)
{
    uintptr_t page, from, to, middle;
    unsigned char resident = 0;

    if (nbytes < RG_PAGES_HUGE_MIN)
        return false;
    page = (uintptr_t) sysconf(_SC_PAGESIZE);
    /* The first and the last may be shared with what lies beside it. */
    from = ((uintptr_t) at + page - 1) & ~(page - 1);
    to = ((uintptr_t) at + nbytes) & ~(page - 1);
    /* The allocator may have written to the ends, or have given some of them to others before. */
    middle = from + ((to - from) / 2 & ~(page - 1));
    if (mincore((void *) middle, page, &resident) < 0 || (resident & 1) != 0)
        return false;
    return madvise((void *) from, to - from, MADV_HUGEPAGE) == 0;
}
