/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of known values, and what operations must make of them. Rank r's element i is a small
 * whole number, which every type holds exactly and which repeats every RG_VALUES_PERIOD elements;
 * so the right result of any operation is a short table, whatever the size.
 *
 * Thread rule: any thread; no state. The memory is the caller's.
 */
#ifndef RG_CMD_BENCH_MEASURE_VALUES_H
#define RG_CMD_BENCH_MEASURE_VALUES_H

#include <stddef.h>
#include <stdint.h>

#define RG_VALUES_PERIOD 7

/* One element as a double: exact for the numbers used here. dtype: enum reigen_dtype. */
double rg_value_load(int dtype, const void *data, size_t i);
/* Store it: integers wrap around, floating types round to the nearest, bool is value != 0. */
void rg_value_store(int dtype, void *data, size_t i, double value);

/* What rank r has at element i, for a reduction (enum reigen_op) that follows, or -1 where nothing
 * is reduced. */
double rg_value_of(int reduction, int rank, size_t i);
/* Fill count elements with those of this rank, beginning with element number first. */
void rg_values_fill(int dtype, int reduction, int rank, size_t first, void *data, size_t count);

/* What a reduction over nranks ranks gives for elements i with i % RG_VALUES_PERIOD = k. */
void rg_values_reduced(int dtype, int reduction, int nranks, double ret_table[RG_VALUES_PERIOD]);

/* How many of count elements, the first of which is element number first, differ from the table by
 * more than `tolerance` of the right value's size. */
uint64_t rg_values_wrong(int dtype, const void *data, size_t count, size_t first,
                         const double table[RG_VALUES_PERIOD], double tolerance);
/* The tolerance for a reduction over nranks: 0 where all sums are exact in this type. */
double rg_values_tolerance(int dtype, int reduction, int nranks);

#endif
