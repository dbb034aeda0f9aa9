# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer for tf.compat.v1.train.Optimizer, and the choice between it and Keras's."""
from typing import Any, List, Optional

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.collectives import allreduce
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradients import (PREDIVIDE_NEEDS_AVERAGE, GradientReducer,
                                          LocalVariables, check_groups)
from horovod.tensorflow.mpi_ops import Adasum, Average, rank

_LegacyOptimizer = tf.compat.v1.train.Optimizer


class _Wrapper(_LegacyOptimizer):
    """An optimizer that leaves everything to another one."""

    def __init__(self, optimizer: _LegacyOptimizer, name: Optional[str], use_locking: bool):
        super().__init__(use_locking, name or f'Distributed{type(optimizer).__name__}')
        self._optimizer = optimizer

    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        return self._optimizer.variables(*args, **kwargs)


class _DistributedOptimizer(_Wrapper):
    """compute_gradients() gives what all ranks found together."""

    def __init__(self, optimizer: _LegacyOptimizer, name: Optional[str], use_locking: bool,
                 reducer: GradientReducer, backward_passes_per_step: int,
                 average_aggregated_gradients: bool, scale_local_gradients: bool):
        super().__init__(optimizer, name, use_locking)
        reducer.name = self._name
        self._local = LocalVariables(scale_local_gradients, reducer.process_set)
        self._reduce = reducer
        self._helper: Any = None
        if backward_passes_per_step > 1:
            if tf.executing_eagerly():
                raise ValueError('backward_passes_per_step > 1 is not supported for '
                                 'tf.compat.v1 optimizers in eager mode.')
            self._helper = LocalGradientAggregationHelper(
                backward_passes_per_step, reducer, reducer.sparse_as_dense,
                average_aggregated_gradients, rank(), 'legacy', reducer.process_set,
                scale_local_gradients, self._name)

    def register_local_var(self, var: Any) -> None:
        """This variable is of this rank only: its gradient is not reduced."""
        (self._helper.local if self._helper else self._local).add(var)

    def compute_gradients(self, *args, **kwargs):
        """As the optimizer's, then reduced over the ranks."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        if self._helper:
            grads = self._helper.compute_gradients(grads, variables)
        else:
            grads = self._local.apart(grads, variables, self._reduce)
        return list(zip(grads, variables))

    def apply_gradients(self, *args, **kwargs):
        def apply():
            return self._optimizer.apply_gradients(*args, **kwargs)

        if self._helper:
            return self._helper.apply_gradients(apply, self, *args, **kwargs)
        return apply()


class _DistributedAdasumOptimizer(_Wrapper):
    """Each rank steps by itself; every n-th step the ways that the ranks have gone since the last
    common point are combined by Adasum, and all go on from there."""

    def __init__(self, optimizer: _LegacyOptimizer, name: Optional[str], use_locking: bool,
                 device_dense: str, device_sparse: str, compression,
                 backward_passes_per_step: int, process_set: ProcessSet):
        super().__init__(optimizer, name or f'DistributedDelta{type(optimizer).__name__}',
                         use_locking)
        if backward_passes_per_step <= 0:
            raise ValueError('backward_passes_per_step must be > 0')
        self._passes = backward_passes_per_step
        self._options = dict(device_dense=device_dense, device_sparse=device_sparse,
                             compression=compression, op=Adasum, process_set=process_set)
        self._steps: Any = None
        self._starts: dict = {}

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def _prepare(self, variables: List[Any]) -> None:
        def zeros(shape, dtype, name):
            if tf.executing_eagerly():
                return tf.Variable(tf.zeros(shape, dtype), trainable=False, name=name)
            return tf.compat.v1.get_variable(
                name, shape=shape, dtype=dtype, trainable=False, use_resource=True,
                initializer=tf.compat.v1.zeros_initializer())

        with tf.compat.v1.variable_scope(self._name, reuse=tf.compat.v1.AUTO_REUSE):
            if self._steps is None:
                self._steps = zeros((), tf.int32, 'adasum_steps')
            for v in variables:
                key = v.ref()
                if key not in self._starts:
                    self._starts[key] = zeros(v.shape, v.dtype.base_dtype,
                                              v.op.name.replace(':', '_') + '_start'
                                              if not tf.executing_eagerly() else 'start')

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """One step of the optimizer; with every n-th one the ranks come together."""
        grads_and_vars = list(grads_and_vars)
        # Also those without a gradient here: another rank may have one, and goes some way.
        variables = [v for _, v in grads_and_vars]
        self._prepare(variables)
        starts = [self._starts[v.ref()] for v in variables]
        first = tf.equal(self._steps % self._passes, 0)
        with tf.control_dependencies([g for g, _ in grads_and_vars if g is not None
                                      and not isinstance(g, tf.IndexedSlices)]):
            # A period starts from where the variables are now.
            kept = [s.assign(tf.where(first, v, s)) for s, v in zip(starts, variables)]
        with tf.control_dependencies(_operations(kept)):
            stepped = self._optimizer.apply_gradients(grads_and_vars, global_step, name)
        with tf.control_dependencies(_operations([stepped])):
            count = self._steps.assign_add(1, read_value=True)
            last = tf.equal(tf.identity(count) % self._passes, 0)

        def together():
            ways = [allreduce(v - s, **self._options) for s, v in zip(starts, variables)]
            return tf.group(*_operations([v.assign(s + way) for s, v, way
                                          in zip(starts, variables, ways)]))

        if tf.executing_eagerly():
            if last:
                together()
            return stepped
        with tf.control_dependencies([last]):
            return tf.cond(last, together, tf.no_op)


def _operations(values) -> list:
    """What control_dependencies() and group() take; nothing when executed eagerly."""
    return [] if tf.executing_eagerly() else [v for v in values if v is not None]


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, use_locking: bool = False,
                         device_dense: str = '', device_sparse: str = '',
                         compression=Compression.none, sparse_as_dense: bool = False,
                         backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0,
                         average_aggregated_gradients: bool = False, num_groups: int = 0,
                         groups=None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:
    """An optimizer that applies the gradients of all ranks: of tf.compat.v1.train or of Keras.

    backward_passes_per_step: reduce and apply every n-th batch only, with the sum of n gradients,
    or their average with average_aggregated_gradients. gradient_predivide_factor: divide by it
    before the sum over the ranks, by size / factor after it. groups: how many groups of gradients
    to reduce together, or lists of variables. op=Adasum (tf.compat.v1.train only) combines the
    steps that the ranks made, not the gradients.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(PREDIVIDE_NEEDS_AVERAGE)
    if op == Adasum and average_aggregated_gradients:
        raise ValueError('Adasum does not support average_aggregated_gradients == True')
    groups = check_groups(num_groups, groups)
    if isinstance(optimizer, _LegacyOptimizer):
        if op == Adasum:
            return _DistributedAdasumOptimizer(optimizer, name, use_locking, device_dense,
                                               device_sparse, compression,
                                               backward_passes_per_step, process_set)
        reducer = GradientReducer(name or '', device_dense, device_sparse, compression,
                                  sparse_as_dense, op, gradient_predivide_factor, groups,
                                  process_set)
        return _DistributedOptimizer(optimizer, name, use_locking, reducer,
                                     backward_passes_per_step, average_aggregated_gradients,
                                     scale_local_gradients)
    if not hasattr(optimizer, 'apply_gradients') or not hasattr(optimizer, 'get_config'):
        raise ValueError('Provided optimizer doesn\'t inherit from either legacy TensorFlow or '
                         f'Keras optimizer: {optimizer}')
    if op == Adasum:
        raise ValueError('op == Adasum is not supported yet with Keras')
    import horovod.tensorflow.keras as hvd_k
    return hvd_k.DistributedOptimizer(
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
        gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients,
        groups=groups, process_set=process_set, scale_local_gradients=scale_local_gradients)
