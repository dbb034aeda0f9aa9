/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static agent's first steps, where the linker has packed its relocations (DT_RELR): as a list
 * of addresses with bitmaps they take 300 bytes, in the old form 24 each, 26 KB. musl knows them
 * since version 1.2.4; tools/musl-relr.sh finds out whether this one does, and what does not need
 * this file leaves it out. Nothing here may depend on what is not relocated yet.
 */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define TAG_RELR_NBYTES 35
#define TAG_RELR 36
#define BITS (8 * sizeof(uintptr_t) - 1) /* of a bitmap: the lowest marks it as one */

extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

void rg_relocate(void);

__attribute__((visibility("hidden"), used, no_stack_protector)) void rg_relocate(void)
{
    uintptr_t base = (uintptr_t) __ehdr_start, *where = NULL;
    const uintptr_t *entry = NULL;
    size_t nbytes = 0;

    for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == TAG_RELR)
            entry = (const uintptr_t *) (base + d->d_un.d_ptr);
        else if (d->d_tag == TAG_RELR_NBYTES)
            nbytes = d->d_un.d_val;
    }
    for (const uintptr_t *end = entry + nbytes / sizeof(*entry); entry < end; entry++) {
        if (!(*entry & 1)) {
            where = (uintptr_t *) (base + *entry);
            *where++ += base;
            continue;
        }
        for (size_t i = 0; i < BITS; i++)
            where[i] += *entry >> (i + 1) & 1 ? base : 0;
        where += BITS;
    }
}

/* Where the kernel begins; all registers but the stack's are free. */
#if defined(__x86_64__)
#define THEN "call rg_relocate\n\tjmp _start"
#elif defined(__aarch64__)
#define THEN "bl rg_relocate\n\tb _start"
#endif
#ifdef THEN
__asm__(".text\n.globl rg_start\n.hidden rg_start\n.type rg_start, %function\n"
        "rg_start:\n\t" THEN "\n");
#endif
