/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callback of an asynchronous kernel, kept beyond the kernel's return.
 *
 * TensorFlow hands the kernel the address of a std::function<void()> that is a local variable of
 * the kernel's caller. Whoever is done after the kernel's return must therefore have a copy, and
 * only C++ can make one. These three functions are all the C++ there is.
 */
#ifndef REIGEN_TENSORFLOW_DONE_H
#define REIGEN_TENSORFLOW_DONE_H

#ifdef __cplusplus
extern "C" {
#endif

struct TF_AsyncOpKernelDoneCallback;

/* A copy on the heap; NULL when out of memory. */
void *rg_tf_done_copy(const struct TF_AsyncOpKernelDoneCallback *done);
/* Call the copy and free it. TensorFlow may run other kernels inside. */
void rg_tf_done_call(void *take_copy);
/* Free a copy that has not been called. */
void rg_tf_done_free(void *take_copy);

#ifdef __cplusplus
}
#endif

#endif
