/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Montgomery ladder of RFC 7748 on five limbs of 51 bits. Sums and differences are not carried:
 * a product's limbs are below 2^51 + 2^16, so those of what is multiplied next are below 2^54.
 */
#include "wire/x25519.h"

#include <endian.h>
#include <string.h>

#define LIMBS 5
#define MASK ((UINT64_C(1) << 51) - 1)
#define A24 121665 /* (486662 - 2) / 4 */

struct fe {
    uint64_t v[LIMBS];
};

__extension__ typedef unsigned __int128 wide;

static uint64_t load(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return le64toh(value);
}

/* The highest bit does not count. */
static struct fe unpack(const uint8_t *bytes)
{
    return (struct fe){ { load(bytes) & MASK, load(bytes + 6) >> 3 & MASK,
                          load(bytes + 12) >> 6 & MASK, load(bytes + 19) >> 1 & MASK,
                          load(bytes + 24) >> 12 & MASK } };
}

/* What passes 2^255 comes back `times` times. */
static void carry(struct fe *a, uint64_t times)
{
    for (int i = 0; i < LIMBS; i++) {
        uint64_t over = a->v[i] >> 51;
        a->v[i] &= MASK;
        a->v[(i + 1) % LIMBS] += i + 1 < LIMBS ? over : times * over;
    }
}

/* The one representation below 2^255 - 19. */
static void pack(uint8_t *bytes, struct fe a)
{
    carry(&a, 19);
    carry(&a, 19);
    uint64_t over = (a.v[0] + 19) >> 51; /* 1: it is not below */
    for (int i = 1; i < LIMBS; i++)
        over = (a.v[i] + over) >> 51;
    a.v[0] += 19 * over;
    carry(&a, 0);
    const uint64_t words[] = { a.v[0] | a.v[1] << 51, a.v[1] >> 13 | a.v[2] << 38,
                               a.v[2] >> 26 | a.v[3] << 25, a.v[3] >> 39 | a.v[4] << 12 };
    for (int i = 0; i < 4; i++) {
        uint64_t word = htole64(words[i]);
        memcpy(bytes + 8 * i, &word, sizeof(word));
    }
}

static struct fe add(const struct fe *a, const struct fe *b)
{
    struct fe sum;

    for (int i = 0; i < LIMBS; i++)
        sum.v[i] = a->v[i] + b->v[i];
    return sum;
}

/* b is a product: twice the prime keeps every limb above zero. */
static struct fe subtract(const struct fe *a, const struct fe *b)
{
    struct fe difference;

    for (int i = 0; i < LIMBS; i++)
        difference.v[i] = a->v[i] + 2 * (i ? MASK : MASK - 18) - b->v[i];
    return difference;
}

static struct fe multiply(const struct fe *first, const struct fe *second)
{
    const uint64_t *a = first->v, *b = second->v;
    const wide a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4];
    const uint64_t b1 = 19 * b[1], b2 = 19 * b[2], b3 = 19 * b[3], b4 = 19 * b[4];
    const wide sums[LIMBS] = {
        a0 * b[0] + a1 * b4 + a2 * b3 + a3 * b2 + a4 * b1,
        a0 * b[1] + a1 * b[0] + a2 * b4 + a3 * b3 + a4 * b2,
        a0 * b[2] + a1 * b[1] + a2 * b[0] + a3 * b4 + a4 * b3,
        a0 * b[3] + a1 * b[2] + a2 * b[1] + a3 * b[0] + a4 * b4,
        a0 * b[4] + a1 * b[3] + a2 * b[2] + a3 * b[1] + a4 * b[0],
    };
    struct fe product;
    wide over = 0;

    for (int i = 0; i < LIMBS; i++) {
        wide sum = sums[i] + over;
        product.v[i] = (uint64_t) sum & MASK;
        over = sum >> 51;
    }
    wide low = over * 19 + product.v[0]; /* over may have more than 59 bits */
    product.v[0] = (uint64_t) low & MASK;
    product.v[1] += (uint64_t) (low >> 51);
    return product;
}

/* a^(p - 2), whose bits are ones but for the third and the fifth from below. */
static struct fe invert(const struct fe *a)
{
    struct fe power = *a;

    for (int bit = 253; bit >= 0; bit--) {
        power = multiply(&power, &power);
        if (bit != 2 && bit != 4)
            power = multiply(&power, a);
    }
    return power;
}

/* By the mask of swap, 0 or 1, and not by a branch. */
static void swap_if(uint64_t swap, struct fe *a, struct fe *b)
{
    for (int i = 0; i < LIMBS; i++) {
        uint64_t difference = -swap & (a->v[i] ^ b->v[i]);
        a->v[i] ^= difference;
        b->v[i] ^= difference;
    }
}

/* One bit: 2 * (x2 : z2), and the sum of both, whose difference is x1. */
static void step(const struct fe *x1, struct fe *x2, struct fe *z2, struct fe *x3, struct fe *z3)
{
    static const struct fe a24 = { { A24 } };
    struct fe a = add(x2, z2), b = subtract(x2, z2), c = add(x3, z3), d = subtract(x3, z3);
    struct fe da = multiply(&d, &a), cb = multiply(&c, &b);
    struct fe aa = multiply(&a, &a), bb = multiply(&b, &b);
    struct fe e = subtract(&aa, &bb), sum = add(&da, &cb), difference = subtract(&da, &cb);

    *x3 = multiply(&sum, &sum);
    difference = multiply(&difference, &difference);
    *z3 = multiply(&difference, x1);
    *x2 = multiply(&aa, &bb);
    a = multiply(&e, &a24);
    a = add(&a, &aa);
    *z2 = multiply(&e, &a);
}

int rg_x25519(uint8_t ret_point[RG_X25519_NBYTES], const uint8_t scalar[RG_X25519_NBYTES],
              const uint8_t point[RG_X25519_NBYTES])
{
    const struct fe x1 = unpack(point);
    struct fe x2 = { { 1 } }, z2 = { { 0 } }, x3 = x1, z3 = { { 1 } };
    uint64_t swapped = 0;
    uint8_t any = 0;

    for (int bit = 254; bit >= 0; bit--) {
        /* The scalar is clamped: bit 254 is one, the three lowest are none. */
        uint64_t one = bit == 254 ? 1 : bit < 3 ? 0 : (uint64_t) scalar[bit / 8] >> bit % 8 & 1;
        swap_if(swapped ^ one, &x2, &x3);
        swap_if(swapped ^ one, &z2, &z3);
        swapped = one;
        step(&x1, &x2, &z2, &x3, &z3);
    }
    z2 = invert(&z2); /* the last bit was none: nothing is swapped */
    x2 = multiply(&x2, &z2);
    pack(ret_point, x2);
    explicit_bzero(&x2, sizeof(x2));
    explicit_bzero(&z2, sizeof(z2));
    explicit_bzero(&x3, sizeof(x3));
    explicit_bzero(&z3, sizeof(z3));
    for (int i = 0; i < RG_X25519_NBYTES; i++)
        any |= ret_point[i];
    return any ? 0 : -1;
}
