/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static agent's very first steps: its constants lie packed in its file (tools/pack_agent.py),
 * 50 KB less, as most of them are words for people. They are unpacked here to where the linker has
 * put them, and cannot be written after that. The format is DEFLATE (RFC 1951), whole. The bytes
 * are the program's own, so that no length of theirs is checked: tools/pack_agent.py has unpacked
 * them.
 *
 * Nothing here may depend on a constant, as those are not there yet, nor on what is not relocated:
 * the tables that RFC 1951 has are therefore computed, and no function of a C library is called,
 * which may have tables as well.
 */
#include <stddef.h>
#include <stdint.h>

#define EARLY __attribute__((no_stack_protector)) static
#define PACKED_MAX (64u << 10) /* tools/pack_agent.py has it, too */
#define LITERALS 288      /* the fixed codes have two that nobody uses */
#define DISTANCES 30
#define LENGTHS 19       /* the codes for lengths of codes */
#define END 256          /* of a block */
#define STORED 0         /* kinds of blocks; the third has codes of its own */
#define FIXED 1
#define CODE_BITS 15     /* of the longest code */
#define FAST_BITS 9      /* of those that one look finds */
#if defined(__x86_64__)
#define PAGE_MAX 4096u
#else
#define PAGE_MAX (64u << 10)
#endif

/* What the linker's script names: in the packed file the first word says how many bytes follow,
 * else it is 0. Then there are the constants, up to the end of the segment. */
extern uint8_t rg_constants[] __attribute__((visibility("hidden")));
extern uint8_t rg_constants_end[] __attribute__((visibility("hidden")));

void rg_unpack(void);

struct bits {
    const uint8_t *next;
    uint64_t held;
    unsigned count;
};

/* Canonical codes: how many there are of each length, and their symbols, the shortest first. Of
 * those that are short, also by the bits that come next: symbol << 4 | length, else 0. */
struct codes {
    uint16_t count[CODE_BITS + 1];
    uint16_t symbol[LITERALS];
    uint16_t fast[1 << FAST_BITS];
};

/* The compiler makes no call of memcpy or memset of a loop, nor a table of what it computes. Byte
 * by byte: what is copied may overlap, as DEFLATE has it. */
#define KEEP_THE_LOOP() __asm__ volatile("" ::: "memory")

EARLY void copy(uint8_t *to, const uint8_t *from, size_t nbytes)
{
    for (; nbytes > 0; nbytes--) {
        *to++ = *from++;
        KEEP_THE_LOOP();
    }
}

EARLY void fill(void *to, uint8_t value, size_t nbytes)
{
    for (uint8_t *byte = to; nbytes > 0; nbytes--) {
        *byte++ = value;
        KEEP_THE_LOOP();
    }
}

/* There are so many bits at least, of up to 32: some behind the last ones are looked at, and not
 * used. */
EARLY void hold(struct bits *bits, unsigned n)
{
    uint32_t more;

    if (bits->count >= n)
        return;
    __builtin_memcpy(&more, bits->next, sizeof(more));
    bits->next += sizeof(more);
    bits->held |= (uint64_t) more << bits->count;
    bits->count += 32;
}

EARLY unsigned take(struct bits *bits, unsigned n)
{
    hold(bits, n);
    unsigned value = (unsigned) bits->held & ((1u << n) - 1);

    bits->held >>= n;
    bits->count -= n;
    return value;
}

/* A code's first bit is its highest, and the first one that is read the lowest. */
EARLY void make_fast(struct codes *codes)
{
    unsigned code = 0, index = 0;

    fill(codes->fast, 0, sizeof(codes->fast));
    for (unsigned length = 1; length <= FAST_BITS; length++, code <<= 1) {
        for (unsigned i = 0; i < codes->count[length]; i++, code++, index++) {
            unsigned at = 0;
            for (unsigned bit = 0; bit < length; bit++) {
                at |= (code >> bit & 1) << (length - 1 - bit);
                KEEP_THE_LOOP();
            }
            for (; at < 1 << FAST_BITS; at += 1u << length)
                codes->fast[at] = (uint16_t) (codes->symbol[index] << 4 | length);
        }
    }
}

EARLY void make(struct codes *codes, const uint8_t *lengths, unsigned n)
{
    uint16_t at[CODE_BITS + 2];

    fill(codes->count, 0, sizeof(codes->count));
    for (unsigned i = 0; i < n; i++)
        codes->count[lengths[i]]++;
    codes->count[0] = 0;
    at[0] = 0;
    for (unsigned i = 0; i <= CODE_BITS; i++)
        at[i + 1] = (uint16_t) (at[i] + codes->count[i]);
    for (unsigned i = 0; i < n; i++) {
        if (lengths[i])
            codes->symbol[at[lengths[i]]++] = (uint16_t) i;
    }
    make_fast(codes);
}

/* A long one bit by bit: of each length the codes follow those that are shorter. */
EARLY unsigned decode(struct bits *bits, const struct codes *codes)
{
    int code = 0, first = 0, index = 0;

    hold(bits, FAST_BITS);
    unsigned found = codes->fast[bits->held & ((1u << FAST_BITS) - 1)];
    if (found) {
        take(bits, found & 15);
        return found >> 4;
    }

    for (unsigned length = 1; length <= CODE_BITS; length++) {
        int count = codes->count[length];
        code |= (int) take(bits, 1);
        if (code - first < count)
            return codes->symbol[index + code - first];
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    __builtin_trap();
}

/* The lengths of the block's codes are written by codes, too, the lengths of which come in the
 * order 16, 17, 18, 0, 8, 7, 9, 6, 10, ... */
EARLY void read_codes(struct bits *bits, struct codes *literals, struct codes *distances)
{
    uint8_t lengths[LITERALS + DISTANCES + 4 + 138];
    unsigned nliterals = take(bits, 5) + 257, ndistances = take(bits, 5) + 1;
    unsigned n = take(bits, 4) + 4, at = 0;

    fill(lengths, 0, LENGTHS);
    for (unsigned i = 0; i < n; i++) {
        unsigned k = i - 4;
        unsigned symbol = i < 3 ? 16 + i : i == 3 ? 0 : k % 2 ? 8 - (k + 1) / 2 : 8 + k / 2;
        lengths[symbol] = (uint8_t) take(bits, 3);
        KEEP_THE_LOOP();
    }
    make(literals, lengths, LENGTHS);
    while (at < nliterals + ndistances) {
        unsigned symbol = decode(bits, literals);
        unsigned again = symbol < 16    ? 1
                         : symbol == 16 ? 3 + take(bits, 2)
                         : symbol == 17 ? 3 + take(bits, 3) : 11 + take(bits, 7);
        uint8_t length = (uint8_t) (symbol < 16    ? symbol
                                    : symbol == 16 ? lengths[at - 1] : 0);
        fill(lengths + at, length, again);
        at += again;
    }
    make(distances, lengths + nliterals, ndistances);
    make(literals, lengths, nliterals);
}

/* Those that RFC 1951 fixes: 8 bits up to 143, 9 up to 255, 7 up to 279, 8 for the rest. */
EARLY void fix_codes(struct codes *literals, struct codes *distances)
{
    uint8_t lengths[LITERALS];

    fill(lengths, 8, LITERALS);
    fill(lengths + 144, 9, END - 144);
    fill(lengths + END, 7, 280 - END);
    make(literals, lengths, LITERALS);
    fill(lengths, 5, DISTANCES);
    make(distances, lengths, DISTANCES);
}

/* Of a copy: codes 257 to 264 are lengths of 3 to 10, the next ones four for each bit more. */
EARLY unsigned read_length(struct bits *bits, unsigned symbol)
{
    unsigned extra = (symbol - 261) / 4;

    return symbol < 265    ? symbol - 254
           : symbol == 285 ? 258 : ((4 + (symbol - 265) % 4) << extra) + 3 + take(bits, extra);
}

EARLY unsigned read_distance(struct bits *bits, unsigned symbol)
{
    unsigned extra = symbol / 2 - 1;

    return symbol < 4 ? symbol + 1 : ((2 + symbol % 2) << extra) + 1 + take(bits, extra);
}

/* From the next whole byte on: how many there are, the same with all bits turned, and they. */
EARLY uint8_t *unpack_stored(struct bits *bits, uint8_t *to)
{
    take(bits, bits->count % 8);
    unsigned nbytes = take(bits, 16);
    take(bits, 16);
    for (; nbytes > 0; nbytes--)
        *to++ = (uint8_t) take(bits, 8);
    return to;
}

EARLY uint8_t *unpack_block(struct bits *bits, uint8_t *to)
{
    struct codes literals, distances;
    unsigned kind = take(bits, 2);

    if (kind == STORED)
        return unpack_stored(bits, to);
    if (kind == FIXED)
        fix_codes(&literals, &distances);
    else
        read_codes(bits, &literals, &distances);
    for (;;) {
        unsigned symbol = decode(bits, &literals);
        if (symbol == END)
            return to;
        if (symbol < END) {
            *to++ = (uint8_t) symbol;
            continue;
        }
        unsigned length = read_length(bits, symbol);
        const uint8_t *from = to - read_distance(bits, decode(bits, &distances));
        copy(to, from, length);
        to += length;
    }
}

EARLY long protect(uintptr_t at, size_t nbytes)
{
    const long read_only = 1; /* PROT_READ */
#if defined(__x86_64__)
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "0"(10L), "D"(at), "S"(nbytes), "d"(read_only)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long number __asm__("x8") = 226, r __asm__("x0") = (long) at;
    register long size __asm__("x1") = (long) nbytes, how __asm__("x2") = read_only;
    __asm__ volatile("svc 0" : "+r"(r) : "r"(number), "r"(size), "r"(how) : "memory");
    return r;
#endif
}

/* The segment has pages of its own, of whatever size they are: of a larger one than here, there is
 * nothing before its beginning, which the kernel refuses. */
EARLY void make_constant(void)
{
    uintptr_t begin = (uintptr_t) rg_constants, end = (uintptr_t) rg_constants_end;

    for (uintptr_t page = PAGE_MAX; page >= 4096; page /= 4) {
        uintptr_t from = begin & -page;
        if (protect(from, end - from) == 0)
            return;
    }
}

__attribute__((visibility("hidden"), used, no_stack_protector)) void rg_unpack(void)
{
    uint8_t packed[PACKED_MAX + sizeof(uint32_t)]; /* hold() looks so far ahead */
    uint64_t nbytes;
    unsigned last;

    __builtin_memcpy(&nbytes, rg_constants, sizeof(nbytes));
    if (!nbytes)
        return;
    copy(packed, rg_constants, sizeof(nbytes) + nbytes);
    fill(rg_constants, 0, sizeof(nbytes));
    struct bits bits = { .next = packed + sizeof(nbytes) };
    uint8_t *to = rg_constants + sizeof(nbytes);
    do {
        last = take(&bits, 1);
        to = unpack_block(&bits, to);
    } while (!last);
    make_constant();
}

/* Where the kernel begins; all registers but the stack's are free. */
#if defined(__x86_64__)
#define THEN "call rg_unpack\n\tjmp rg_after_unpack"
#elif defined(__aarch64__)
#define THEN "bl rg_unpack\n\tb rg_after_unpack"
#endif
#ifdef THEN
__asm__(".text\n.globl rg_begin\n.hidden rg_begin\n.type rg_begin, %function\n"
        "rg_begin:\n\t" THEN "\n");
#endif
