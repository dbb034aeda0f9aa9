/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of the stand-in NCCL: by way of double, in the order of ranks. Types and
 * operations have NCCL's numbers. */
#ifndef RG_TESTS_STANDIN_NCCL_REDUCE_H
#define RG_TESTS_STANDIN_NCCL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

enum { STANDIN_SUM, STANDIN_PROD, STANDIN_MAX, STANDIN_MIN, STANDIN_AVG, STANDIN_OPS };

size_t standin_size(int type); /* bytes of an element */
double standin_number(const void *at, int type);
/* n operands of count elements, one after another, into the first. op from STANDIN_OPS on: each
 * operand is multiplied by the factor, then summed. */
void standin_reduce(int op, int type, double factor, char *operands, size_t count, int n);

#endif
