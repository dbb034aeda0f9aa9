# SPDX-License-Identifier: Apache-2.0
"""Horovod for tf.keras: `import horovod.tensorflow.keras as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01 * hvd.size()))
    model.compile(optimizer=optimizer, ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""
from tensorflow import keras

from horovod._keras.offered import functions
from horovod.tensorflow import (Adasum, Average, Compression, Max, Min, Product, ProcessSet,
                                Sum, add_process_set, allgather_object, broadcast_object,
                                ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                                diagnose, global_process_set, gloo_built, gloo_enabled, init,
                                is_homogeneous, is_initialized, local_rank, local_size,
                                mpi_built, mpi_enabled, mpi_threads_supported, nccl_built,
                                rank, remove_process_set, rocm_built, shutdown, size,
                                start_timeline, stop_timeline)
from horovod.tensorflow.keras import callbacks, elastic

_functions = functions(keras, __name__)
DistributedOptimizer = _functions.DistributedOptimizer
PartialDistributedOptimizer = _functions.PartialDistributedOptimizer
allgather = _functions.allgather
allreduce = _functions.allreduce
broadcast = _functions.broadcast
broadcast_global_variables = _functions.broadcast_global_variables
load_model = _functions.load_model
reducescatter = _functions.reducescatter
