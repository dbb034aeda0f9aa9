# SPDX-License-Identifier: Apache-2.0
"""backward_passes_per_step: gradients of several batches are added up on each rank before the ranks
reduce them. This file is for graphs of TensorFlow 1; gradient_aggregation_eager.py for the rest."""
from typing import Any, Callable, Dict, List, Sequence

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.gradients import LocalVariables
from horovod.tensorflow.util import variable_key

_SPARSE = ('IndexedSlices are not supported when `backward_passes_per_step` > 1 and '
           '`sparse_as_dense` is False.')


def apply_op_to_not_none_tensors(tensor_op, tensors, *args):
    """tensor_op(tensor, *args) for each that is not None."""
    return [None if t is None else tensor_op(t, *args) for t in tensors]


def get_not_none_from_list(tensor_list):
    return [t for t in tensor_list if t is not None]


def _keys(variables: Sequence[Any]) -> List[tuple]:
    """A key for each place. A variable may be listed twice, and has two gradients then."""
    seen: Dict[Any, int] = {}
    keys = []
    for key in map(variable_key, variables):
        seen[key] = seen.get(key, 0) + 1
        keys.append((key, seen[key]))
    return keys


class Aggregation:
    """The rule: a counter of batches and one sum per gradient, in variables. A model may train
    other variables in a later batch than in the first one, as when layers are frozen meanwhile."""

    def __init__(self, backward_passes_per_step: int, allreduce_func: Callable,
                 sparse_as_dense: bool, average_aggregated_gradients: bool,
                 process_set: ProcessSet = global_process_set,
                 scale_local_gradients: bool = True):
        """allreduce_func(gradients, variables) -> gradients"""
        if backward_passes_per_step <= 0:
            raise ValueError('backward_passes_per_step must be > 0')
        self.backward_passes_per_step = backward_passes_per_step
        self.allreduce_grads = allreduce_func
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self.local = LocalVariables(scale_local_gradients, process_set)
        self.counter: Any = None
        #: Of the variables that are trained now, in their order; None: there was no gradient.
        self.sums: List[Any] = []
        self._kept: Dict[Any, Any] = {}

    def register_local_var(self, var: Any) -> None:
        """This variable is of this rank only: its gradient is not reduced."""
        self.local.add(var)

    def _new(self, shape, dtype, name: str):
        """A variable of zeros that is not trained."""
        return tf.Variable(tf.zeros(shape, dtype), trainable=False, dtype=dtype, name=name)

    def _dense(self, grads: Sequence[Any]) -> List[Any]:
        if not self.sparse_as_dense and any(isinstance(g, tf.IndexedSlices) for g in grads):
            raise ValueError(_SPARSE)
        return apply_op_to_not_none_tensors(tf.convert_to_tensor, grads)

    def prepare(self, grads: Sequence[Any], variables: Sequence[Any]) -> None:
        """Make the variables that are not there yet. A gradient has the shape of its variable."""
        if self.counter is None:
            self.counter = self._new((), tf.int32, 'aggregation_counter')
        keys = _keys(variables)
        numbers = {key: i for i, key in enumerate({**self._kept, **dict.fromkeys(keys)})}
        for key, grad, variable in zip(keys, grads, variables):
            total = self._kept.get(key)
            if total is None and grad is not None:
                total = self._new(variable.shape, grad.dtype, f'aggregation_{numbers[key]}')
            self._kept[key] = total
        self.sums = [self._kept[key] for key in keys]

    def totals(self) -> List[Any]:
        """All sums there are, also those of variables that are not trained now."""
        return get_not_none_from_list(self._kept.values())

    def reduced(self, variables: Sequence[Any]) -> List[Any]:
        """The sums, or their averages over the batches, reduced over the ranks."""
        sums = apply_op_to_not_none_tensors(tf.convert_to_tensor, self.sums)
        if self.average_aggregated_gradients:
            sums = [None if s is None else s / tf.cast(self.backward_passes_per_step, s.dtype)
                    for s in sums]
        return self.local.apart(sums, variables, self.allreduce_grads)

    def reduce_sums(self, variables: Sequence[Any]) -> List[tf.Tensor]:
        """What is reduced of those that are there; the sums start anew."""
        reduced = get_not_none_from_list(self.reduced(variables))
        with tf.control_dependencies(reduced):
            again = [s.assign(tf.zeros_like(s)) for s in self.totals()]
            again.append(self.counter.assign(0))
            with tf.control_dependencies(again):
                return [tf.identity(r) for r in reduced]

    def spread(self, dense: Sequence[Any]) -> List[Any]:
        """`dense`, with None where no gradient was."""
        found = iter(dense)
        return [None if s is None else next(found) for s in self.sums]


class LocalGradientAggregationHelper(Aggregation):
    """For optimizers in a graph of TensorFlow 1."""

    _OPTIMIZER_TYPE_KERAS = 'optimizer_type_keras'
    _OPTIMIZER_TYPE_LEGACY = 'optimizer_type_legacy'

    def __init__(self, backward_passes_per_step: int, allreduce_func: Callable,
                 sparse_as_dense: bool, average_aggregated_gradients: bool, rank: int,
                 optimizer_type: Any, process_set: ProcessSet = global_process_set,
                 scale_local_gradients: bool = True, name: str = ''):
        super().__init__(backward_passes_per_step, allreduce_func, sparse_as_dense,
                         average_aggregated_gradients, process_set, scale_local_gradients)
        self.rank = rank
        self.optimizer_type = optimizer_type
        self.name = name

    def _new(self, shape, dtype, name):
        return tf.compat.v1.get_variable(f'{self.name}_{name}_{self.rank}', shape=shape,
                                         dtype=dtype, trainable=False, use_resource=True,
                                         initializer=tf.compat.v1.zeros_initializer())

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """Add the gradients up; what the ranks reduced in every n-th batch, else the sums."""
        if self.backward_passes_per_step == 1:
            return self.local.apart(grads, vars, self.allreduce_grads)
        grads = self.local.filled(self._dense(grads), vars)
        with tf.compat.v1.variable_scope(f'aggregation_{self.name}',
                                         reuse=tf.compat.v1.AUTO_REUSE):
            self.prepare(grads, vars)
        added = [s.assign_add(g) for s, g in zip(self.sums, grads)
                 if s is not None and g is not None]
        with tf.control_dependencies(added):
            count = self.counter.assign_add(1)
            with tf.control_dependencies([count]):
                found = tf.cond(tf.equal(count, self.backward_passes_per_step),
                                lambda: self.reduce_sums(vars),
                                lambda: [tf.convert_to_tensor(s)
                                         for s in get_not_none_from_list(self.sums)])
        found = found if isinstance(found, (list, tuple)) else [found]
        return self.spread(found)

    def apply_gradients(self, apply_grads_closure: Callable, optimizer: Any, *args, **kwargs):
        """An operation that calls the closure's where the gradients have been reduced, and
        otherwise only counts the step (`global_step`)."""
        if self.backward_passes_per_step == 1:
            return apply_grads_closure()
        pairs = args[0] if args else kwargs['grads_and_vars']
        step = kwargs.get('global_step', args[1] if len(args) > 1 else None)

        def count_only():
            return tf.no_op() if step is None else tf.group(step.assign_add(1))

        with tf.control_dependencies([g for g, _ in pairs if g is not None]):
            reduced = tf.equal(tf.identity(self.counter.read_value()), 0)
            return tf.cond(reduced, lambda: tf.group(apply_grads_closure()), count_only)
