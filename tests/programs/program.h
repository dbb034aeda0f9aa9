/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the small programs share that behaviour tests start as ranks. They use the public API only,
 * print one line per fact to standard output, and end with status 0 or, after a line on standard
 * error, 1.
 */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reigen/reigen.h"

#define RANKS_MAX 16
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Numbers that look random and follow from the seed. */
struct rng {
    uint64_t state;
};
uint64_t mix(uint64_t x);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit); /* 0 when limit is 0 */
bool rng_one_in(struct rng *rng, unsigned n);

/* FNV-1a, going on from hash; HASH_START begins. */
#define HASH_START 0xcbf29ce484222325u
uint64_t hash_bytes(uint64_t hash, const void *data, size_t nbytes);

/* "rank 2: ..." on standard error, with fail_context after it, and the end of the process with
 * status 1. */
extern char fail_context[256];
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* One line on standard output, at once. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ms(void);
void sleep_ms(unsigned ms);
void *allocate(size_t nbytes); /* or fail */

/* argv[index] as a number, or else. */
long argument(int argc, char **argv, int index, long otherwise);

/* The environment asks for an MPI beside the runtime (beside.c): TEST_MPI is its library, loaded
 * for all to see, and initialised with the level TEST_MPI_LEVEL (0 to 3; else 3), as a program that
 * is linked with it or mpi4py would do. Finalised when the process ends with status 0. */
void begin_mpi(void);
/* With TEST_PLANES set: the lines "plane ..." of reigen_describe. */
void say_planes(void);

/* begin_mpi and reigen_init(NULL), or fail; then say_planes. */
void begin(void);
/* Fail unless r is expected. */
void expect(int r, int expected, const char *what);
/* Fail unless text holds part. */
void expect_text(const char *text, const char *part);
/* Wait, check that the result is expected, and release. */
void finish(reigen_handle handle, int expected, const char *what);
/* A float32 sum of ones over all ranks: the job goes on. */
void goes_on(void);

#endif
