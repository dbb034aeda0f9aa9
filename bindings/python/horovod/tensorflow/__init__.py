# SPDX-License-Identifier: Apache-2.0
"""Horovod for TensorFlow: `import horovod.tensorflow as hvd`.

    hvd.init()
    with tf.GradientTape() as tape:
        loss = ...
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    hvd.broadcast_variables(variables, root_rank=0)     # after the first step

For Keras's fit() see horovod.tensorflow.keras.
"""
from typing import Any

import tensorflow as tf

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set)
from horovod.common.util import check_extension, gpu_available, split_list
from horovod.tensorflow.collectives import (allreduce, grouped_allreduce, grouped_reducescatter,
                                            reducescatter)
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (allgather_object, broadcast_object, broadcast_object_fn,
                                          broadcast_variables)
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.gradient_tape import (DistributedGradientTape,
                                              PartialDistributedGradientTape)
from horovod.tensorflow.hooks import BroadcastGlobalVariablesHook, broadcast_global_variables
from horovod.tensorflow.mpi_ops import (Adasum, Average, Max, Min, Product, Sum, _allreduce,
                                        _check_has_gpu, _grouped_allreduce, _grouped_reducescatter,
                                        _reducescatter, allgather, alltoall, broadcast,
                                        broadcast_, ccl_built, check_num_rank_power_of_2,
                                        cross_rank, cross_size, cuda_built, ddl_built, diagnose,
                                        gloo_built, gloo_enabled, grouped_allgather,
                                        handle_average_backwards_compatibility, init,
                                        is_homogeneous, is_initialized, join, local_rank,
                                        local_rank_op, local_size, local_size_op, mpi_built,
                                        mpi_enabled, mpi_threads_supported, nccl_built,
                                        process_set_included_op, rank, rank_op, rocm_built,
                                        shutdown, size, size_op, start_timeline, stop_timeline)
from horovod.tensorflow.optimizer import DistributedOptimizer
from horovod.tensorflow.util import (_cache, _executing_eagerly, _make_subgraph, refs_to_vars,
                                     vars_to_refs)
from horovod._keras.optimizer import make_variables_callable

make_variables_callable(tf)

#: Of optimizers that make their steps in a graph of TensorFlow 1, by the name that Horovod has.
_LegacyOptimizer = tf.compat.v1.train.Optimizer


def __getattr__(name: str) -> Any:
    # Only when asked for: making a subclass of a Keras layer imports all of Keras.
    if name == 'SyncBatchNormalization':
        from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
        return SyncBatchNormalization
    if name == 'elastic':
        import importlib
        return importlib.import_module('horovod.tensorflow.elastic')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
