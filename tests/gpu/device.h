/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU for programs that need no CUDA to be built: the driver's functions by dlopen of
 * libcuda.so.1, one stream, memory, copies. For `make check-gpu` and `make bench ARGS=--gpu`.
 *
 * A failed call after device_open ends the process with a line on standard error and status 1. One
 * thread uses it, which is the one that has called device_open; a child after fork opens its own.
 */
#ifndef TESTS_GPU_DEVICE_H
#define TESTS_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

enum { DEVICE_TEXT_MAX = 160 };

/* Load the driver, start it, and make a stream on this device. NULL, or why there is none (a text
 * that stays). Nothing is left to be undone. */
const char *device_open(int device);
/* Devices that this process sees; 0 before device_open. */
int device_count(void);
/* "NVIDIA A100, driver for CUDA 12.4", of the opened one. */
const char *device_name(void);
void *device_stream(void);

void *device_alloc(size_t nbytes);
void device_free(void *at);
/* Pinned memory of the host. */
void *device_pinned(size_t nbytes);
/* Queue a copy on the stream, either way. */
void device_copy(void *to, const void *from, size_t nbytes);
/* Wait until all of the stream is done. */
void device_wait(void);

/* Seconds, of a clock that only goes on. */
double device_now(void);

/* Run fn as n ranks: children with the variables that torchrun sets. 0 when all have returned 0. */
int device_ranks(int n, int (*fn)(int rank, int n, void *arg), void *arg);

#endif
