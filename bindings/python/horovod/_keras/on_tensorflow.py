# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow, through horovod.tensorflow."""
from typing import Any, Dict, Iterable, List, Sequence

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow.functions import _value, broadcast_variables
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.gradients import GradientReducer

Average = hvd.Average
size, rank = hvd.size, hvd.rank
broadcast_object = hvd.broadcast_object
Compression = hvd.Compression


def _graph_of_tf1() -> bool:
    return not tf.compat.v1.executing_eagerly_outside_functions()


class Combiner:
    """Takes gradients of one rank, gives those of all; see horovod.tensorflow.DistributedOptimizer
    for the arguments."""

    def __init__(self, name, device_dense, device_sparse, compression, sparse_as_dense, op,
                 gradient_predivide_factor, groups, process_set, backward_passes_per_step,
                 average_aggregated_gradients, scale_local_gradients):
        reducer = GradientReducer(name, device_dense, device_sparse, compression, sparse_as_dense,
                                  op, gradient_predivide_factor, groups, process_set)
        self.passes = backward_passes_per_step
        arguments = (backward_passes_per_step, reducer, sparse_as_dense,
                     average_aggregated_gradients)
        if _graph_of_tf1():
            self._helper: Any = LocalGradientAggregationHelper(
                *arguments, 0, 'keras', process_set, scale_local_gradients, name)
        else:
            self._helper = LocalGradientAggregationHelperEager(*arguments, process_set,
                                                               scale_local_gradients)
        self.local = self._helper.local

    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        return self._helper.compute_gradients(grads, variables)

    def prepare_optimizer(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Make the variables of an optimizer of Keras 2 before a condition is built around it."""
        if self.passes == 1:
            return
        with tf.init_scope():
            if hasattr(optimizer, '_create_all_weights'):
                optimizer._create_all_weights(variables)
            elif hasattr(optimizer, 'build'):
                optimizer.build(variables)

    def apply_gradients(self, apply, optimizer: Any):
        if _graph_of_tf1():
            return self._helper.apply_gradients(apply, optimizer, (), optimizer.iterations)
        return self._helper.apply_gradients(apply, optimizer)


def broadcast_global_variables(backend: Any, root_rank: int):
    operation = hvd.broadcast_global_variables(root_rank)
    return backend.get_session().run(operation)


def _result(tensor: tf.Tensor):
    return _value(tensor, None)


def allreduce(value, name=None, average=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
              compression=Compression.none):
    return _result(hvd.allreduce(tf.convert_to_tensor(value), average=average, op=op, name=name,
                                 prescale_factor=prescale_factor,
                                 postscale_factor=postscale_factor, compression=compression))


def allgather(value, name=None):
    return _result(hvd.allgather(tf.convert_to_tensor(value), name=name))


def broadcast(value, root_rank, name=None):
    return _result(hvd.broadcast(tf.convert_to_tensor(value), root_rank, name=name))


def reducescatter(value, name=None, op=Average):
    return _result(hvd.reducescatter(tf.convert_to_tensor(value), name=name, op=op))


def broadcast_now(backend: Any, variables: Iterable[Any], root_rank: int) -> None:
    """Give all ranks root_rank's values, in a session where Keras uses one."""
    operation = broadcast_variables(variables, root_rank)
    if operation is not None:
        backend.get_session().run(operation)


def average_metrics(values: Dict[str, float], name: str) -> Dict[str, float]:
    """The means over the ranks."""
    names = sorted(values)
    means = allreduce(np.array([values[n] for n in names], np.float64), name=name, op=Average)
    return dict(zip(names, map(float, means)))


def elastic():
    """run() and KerasState of this framework."""
    import horovod.tensorflow.keras.elastic as module
    return module
