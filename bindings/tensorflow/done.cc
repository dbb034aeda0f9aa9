// SPDX-License-Identifier: Apache-2.0
#include "done.h"

#include <functional>
#include <new>

typedef std::function<void()> Done;

void *rg_tf_done_copy(const struct TF_AsyncOpKernelDoneCallback *done)
{
    return new (std::nothrow) Done(*reinterpret_cast<const Done *>(done));
}

void rg_tf_done_call(void *take_copy)
{
    Done *done = static_cast<Done *>(take_copy);

    (*done)();
    delete done;
}

void rg_tf_done_free(void *take_copy)
{
    delete static_cast<Done *>(take_copy);
}
