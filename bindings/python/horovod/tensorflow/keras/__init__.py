# SPDX-License-Identifier: Apache-2.0
"""Horovod for tf.keras: `import horovod.tensorflow.keras as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01 * hvd.size()))
    model.compile(optimizer=optimizer, ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""
from typing import Any, Optional, Sequence

from tensorflow import keras

import horovod._keras as _impl
from horovod._keras.groups import check_groups, local_weights
from horovod.tensorflow import (Adasum, Average, Compression, Max, Min, Product, ProcessSet,
                                Sum, add_process_set, allgather_object, broadcast_object,
                                ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                                diagnose, global_process_set, gloo_built, gloo_enabled, init,
                                is_homogeneous, is_initialized, local_rank, local_size,
                                mpi_built, mpi_enabled, mpi_threads_supported, nccl_built,
                                rank, remove_process_set, rocm_built, shutdown, size,
                                start_timeline, stop_timeline)
from horovod.tensorflow.keras import callbacks, elastic


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = '',
                         device_sparse: str = '', compression=Compression.none,
                         sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                         op: int = Average, backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False, num_groups: int = 0,
                         groups=None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:
    """A new Keras optimizer like `optimizer` that applies the gradients of all ranks.

    backward_passes_per_step: reduce and apply every n-th batch only, with the sum of n gradients,
    or their average with average_aggregated_gradients; `iterations` counts batches.
    gradient_predivide_factor: divide by it before the sum over the ranks, by size / factor after
    it. groups: how many groups of gradients to reduce together, or lists of variables.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError('gradient_predivide_factor not supported with op != Average')
    if op != Average and op != Sum:
        raise ValueError('op currently only supports Average and Sum')
    return _impl.create_distributed_optimizer(
        keras, optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
        gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients,
        check_groups(num_groups, groups), process_set, scale_local_gradients)


def PartialDistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = '',
                                device_sparse: str = '', compression=Compression.none,
                                sparse_as_dense: bool = False,
                                gradient_predivide_factor: float = 1.0, op: int = Average,
                                backward_passes_per_step: int = 1,
                                average_aggregated_gradients: bool = False, groups=None,
                                process_set: ProcessSet = global_process_set, local_layers=None,
                                scale_local_gradients: bool = True) -> Any:
    """As DistributedOptimizer; the trainable weights of local_layers are of each rank only."""
    found = DistributedOptimizer(
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
        gradient_predivide_factor, op, groups=groups, process_set=process_set,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        scale_local_gradients=scale_local_gradients)
    for variable in local_weights(local_layers):
        found.register_local_var(variable)
    return found


def broadcast_global_variables(root_rank: int):
    """Give all ranks the global variables of root_rank: a graph of TensorFlow 1, in its session."""
    return _impl.broadcast_global_variables(keras.backend, root_rank)


def allreduce(value: Any, name: Optional[str] = None, average: Optional[bool] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              op: Optional[int] = None, compression=Compression.none):
    """Reduce a number, array or tensor over the ranks: a tensor, or in a graph of TensorFlow 1 its
    value."""
    return _impl.allreduce(keras.backend, value, name, average, prescale_factor, postscale_factor,
                           op, compression)


def allgather(value: Any, name: Optional[str] = None):
    """Concatenate along the first dimension, in the order of ranks; as allreduce()."""
    return _impl.allgather(keras.backend, value, name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None):
    """root_rank's value on every rank; as allreduce()."""
    return _impl.broadcast(keras.backend, value, root_rank, name)


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average):
    """Reduce over the ranks, and keep this rank's rows; as allreduce()."""
    return _impl.reducescatter(keras.backend, value, name, op)


def load_model(filepath: Any, custom_optimizers: Optional[Sequence[type]] = None,
               custom_objects: Optional[dict] = None, compression=Compression.none,
               legacy_opts: bool = False) -> Any:
    """A saved model, with its optimizer as DistributedOptimizer would have made it, in the state of
    training in which it was saved. custom_optimizers: classes that Keras does not know;
    legacy_opts: take the optimizers of that name from keras.optimizers.legacy (Keras 2)."""
    def combiner(optimizer):
        return _impl.framework(keras.backend).Combiner(
            f'Distributed{type(optimizer).__name__}', '', '', compression, False, Average, 1.0,
            None, global_process_set, 1, False, True)

    return _impl.load_model(keras, combiner, filepath, custom_optimizers, custom_objects,
                            legacy_opts)
