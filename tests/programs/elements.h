/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors whose elements follow from a number, and what reducing several of them must give,
 * computed here by other means than the runtime's: integers exactly, as 64-bit numbers; floating
 * types in double with a bound on the error.
 */
#ifndef TESTS_ELEMENTS_H
#define TESTS_ELEMENTS_H

#include "program.h"

size_t dtype_nbytes(int dtype);
const char *dtype_name(int dtype);
bool dtype_is_floating(int dtype);

/* Elements [first, first + count) of the tensor of this seed. Integers have all their bits random;
 * floating numbers lie within (-2, 2), some of them 0 or subnormal. dst may have any alignment. */
void elements_fill(int dtype, uint64_t seed, size_t first, size_t count, void *dst);

struct reduction {
    int dtype, op;        /* any but ADASUM */
    int nranks;
    const uint64_t *seeds; /* by rank; 0: the rank supplies zeros */
    double pre, post;
};
/* Fails, saying what and where, unless got holds elements [first, first + count) of the result. */
void elements_check_reduced(const struct reduction *reduction, size_t first, size_t count,
                            const void *got, const char *what);
/* Fails unless got is what elements_fill gives. */
void elements_check_copied(int dtype, uint64_t seed, size_t first, size_t count, const void *got,
                           const char *what);

#endif
