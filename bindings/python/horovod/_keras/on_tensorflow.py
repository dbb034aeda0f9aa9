# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow, through horovod.tensorflow."""
from typing import Any, Dict, Iterable, List, Sequence

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow.functions import broadcast_variables, evaluate
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.gradients import GradientReducer
from horovod.tensorflow.util import native

Average = hvd.Average
size, rank = hvd.size, hvd.rank
broadcast_object = hvd.broadcast_object
Compression = hvd.Compression


def _graph_of_tf1() -> bool:
    return not tf.compat.v1.executing_eagerly_outside_functions()


class _Ahead:
    """Whether the gradients of the next step have been reduced already.

    Both may be in one graph (a tf.function, say), which is known while it is traced, or one of them
    eager or in another function: a variable tells that when they run.
    """

    def __init__(self, convert):
        """convert(gradient): in the form that reduced ones have"""
        self._convert = convert
        self._graph: Any = None
        self._flag: Any = None

    def announce(self) -> None:
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if _graph_of_tf1():
            return
        if self._flag is None:
            with tf.init_scope():
                self._flag = tf.Variable(False, trainable=False)
        self._flag.assign(True)

    def _in_this_graph(self) -> bool:
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        while graph is not None and graph is not self._graph:
            graph = getattr(graph, 'outer_graph', None)
        return graph is not None

    def take(self, grads: List[Any], reduce) -> List[Any]:
        """The gradients as they are when that was announced, once, else reduce(gradients)."""
        if self._in_this_graph():
            self._graph = None
            if self._flag is not None:
                self._flag.assign(False)
            return grads
        if self._flag is None or _graph_of_tf1():
            return reduce(grads)
        announced = tf.identity(self._flag)
        self._flag.assign(False)
        if tf.executing_eagerly():
            return grads if announced else reduce(grads)
        present = [i for i, g in enumerate(grads) if g is not None]
        found = tf.cond(announced, lambda: [self._convert(grads[i]) for i in present],
                        lambda: [g for g in reduce(grads) if g is not None])
        found = found if isinstance(found, (list, tuple)) else [found]
        results = list(grads)
        for i, grad in zip(present, found):
            results[i] = grad
        return results


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
            self.helper: Any = LocalGradientAggregationHelper(
                *arguments, 0, 'keras', process_set, scale_local_gradients, name)
        else:
            self.helper = LocalGradientAggregationHelperEager(*arguments, process_set,
                                                               scale_local_gradients)
        self.local = self.helper.local
        self._reduce = self.helper.compute_gradients
        self._ahead = _Ahead(lambda grad: tf.convert_to_tensor(grad) if sparse_as_dense else grad)

    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients, reduced unless reduce_ahead() has done so for this step."""
        return self._ahead.take(self.local.filled(grads, variables),
                                lambda own: self._reduce(own, variables))

    def reduce_ahead(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients reduced; the next step takes those that it gets as they are."""
        found = self._reduce(grads, variables)
        self._ahead.announce()
        return found

    @staticmethod
    def local_gradients(loss: Any, variables: Sequence[Any], tape: Any, scale: Any) -> List[Any]:
        """This rank's gradients. loss: a tensor that `tape` has recorded, or a function; what that
        gives is passed through scale()."""
        if callable(loss):
            tape = tf.GradientTape() if tape is None else tape
            with tape:
                loss = scale(loss())
        elif tape is None:
            raise ValueError('compute_gradients() needs the tape that has recorded the loss, or a '
                             'function that computes it.')
        return tape.gradient(loss, [native(v) for v in variables])

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
            return self.helper.apply_gradients(apply, optimizer, (), optimizer.iterations)
        return self.helper.apply_gradients(apply, optimizer)


def broadcast_global_variables(backend: Any, root_rank: int):
    operation = hvd.broadcast_global_variables(root_rank)
    return evaluate(operation)


def _result(tensor: tf.Tensor):
    """The tensor; in a graph of TensorFlow 1 its value."""
    return evaluate(tensor) if _graph_of_tf1() else tensor


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
    if _graph_of_tf1():
        evaluate(operation)


def average_metrics(values: Dict[str, float], name: str) -> Dict[str, float]:
    """The means over the ranks."""
    names = sorted(values)
    means = allreduce(np.array([values[n] for n in names], np.float64), name=name, op=Average)
    return dict(zip(names, map(float, means)))


#: The module with run() and KerasState of this framework.
ELASTIC = 'horovod.tensorflow.keras.elastic'
