# SPDX-License-Identifier: Apache-2.0
"""Reducing gradients: what the tape and all the optimizers have in common."""
import collections
import os
from typing import Any, List, Optional, Sequence

import tensorflow as tf

from horovod._keras.groups import check_groups
from horovod.common.agreement import Fact, Talk
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import split_list
from horovod.tensorflow.collectives import allreduce, divide, grouped_allreduce
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import Adasum, Average, agree_on_gradients
from horovod.tensorflow.util import alone, native, variable_key

__all__ = ['GradientReducer', 'LocalVariables', 'PREDIVIDE_NEEDS_AVERAGE', 'check_groups']

PREDIVIDE_NEEDS_AVERAGE = 'gradient_predivide_factor not supported with op != Average'


def _fact(grad: Any) -> Fact:
    sparse = isinstance(grad, tf.IndexedSlices)
    return Fact(grad is not None, grad is not None and not sparse, int(sparse))


def _formed(grad: Any, variable: Any, agreed: Optional[Fact]) -> Any:
    """A gradient, or zeros in its place, as the ranks have agreed; agreed: None where nobody has
    one. Indices are of one type everywhere, since a rank that has none knows no other's."""
    if agreed is None:
        return grad
    shape = tf.shape(native(variable))
    if agreed.dense:
        return tf.zeros(shape, variable.dtype) if grad is None else tf.convert_to_tensor(grad)
    if grad is None:
        return tf.IndexedSlices(tf.zeros(tf.concat([[0], shape[1:]], 0), variable.dtype),
                                tf.zeros([0], tf.int64), shape)
    return tf.IndexedSlices(grad.values, tf.cast(grad.indices, tf.int64), grad.dense_shape)


def _letter(grad: Any) -> str:
    if grad is None:
        return '-'
    return 's' if isinstance(grad, tf.IndexedSlices) else 'd'


def _title(variable: Any, place: int) -> str:
    """What a variable is called in an error: on one line, whatever its name consists of."""
    name = getattr(variable, 'path', None) or getattr(variable, 'name', None)
    return ''.join(c if c.isprintable() else ' ' for c in str(name or f'gradient {place}'))


def _generic_prefix(process_set: ProcessSet) -> str:
    """What comes before generic names in a graph, where several tapes may have some: nothing for
    the first one of a process set, and the number of each that follows."""
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, '_horovod_tapes'):
        graph._horovod_tapes = collections.Counter()
    number = graph._horovod_tapes[process_set.process_set_id]
    graph._horovod_tapes[process_set.process_set_id] += 1
    return f'tape_{number}.' if number else ''


def missing_are_zeros() -> bool:
    """What REIGEN_MISSING_GRADIENTS says of gradients that a graph lacks: zeros are sent for them
    (zeros), or they have to be missing on all ranks (error)."""
    value = os.environ.get('REIGEN_MISSING_GRADIENTS') or 'error'
    if value not in ('error', 'zeros'):
        raise ValueError(f'REIGEN_MISSING_GRADIENTS is {value!r}: it must be error or zeros')
    return value == 'zeros'


class GradientReducer:
    """reduce(gradients, variables): gradients combined over the ranks, None where there was none; a
    rank that is not in the process set keeps its own.

    In a graph each gradient is reduced as soon as it exists, unless `groups` binds some together;
    executed eagerly, where one operation waits for the other, all go in one group. Executed eagerly
    the ranks also tell each other first which gradients they have: one that a rank lacks counts as
    zeros there, and one that is dense anywhere is made dense. What a graph has stands fast before
    it runs, and the ranks need not trace at the same time: there all of them must have the same,
    which they compare in each run before they send anything.
    """

    def __init__(self, name: str, device_dense: str = '', device_sparse: str = '',
                 compression=Compression.none, sparse_as_dense: bool = False, op: int = Average,
                 gradient_predivide_factor: float = 1.0, groups=None,
                 process_set: ProcessSet = global_process_set):
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError(PREDIVIDE_NEEDS_AVERAGE)
        self.name = name
        self.op = op
        self.process_set = process_set
        self.sparse_as_dense = sparse_as_dense
        # Averaging divides by the size; these two move a factor of it before the sum.
        self._options = dict(device_dense=device_dense, device_sparse=device_sparse,
                             compression=compression, op=op,
                             prescale_factor=1.0 / gradient_predivide_factor,
                             postscale_factor=gradient_predivide_factor, process_set=process_set)
        self._groups = groups
        if isinstance(groups, (list, tuple)):
            self._groups = [{variable_key(v) for v in group} for group in groups]

    def __call__(self, grads: Sequence[Any], variables: Optional[Sequence[Any]] = None,
                 generic_names: bool = False) -> List:
        """generic_names: call them grad_0, grad_1 and so on, without the names of scopes; in a
        graph those of its second tape are tape_1.grad_0 and so on."""
        grads = list(grads)
        if not self.process_set.included() or alone(self.process_set.size()):
            return grads
        if self.sparse_as_dense:
            grads = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g
                     for g in grads]
        if not tf.executing_eagerly():
            prefix = _generic_prefix(self.process_set) if generic_names else ''
            with tf.name_scope(f'{self.name}_Allreduce'):
                with tf.control_dependencies(
                        self._compared(grads, variables, generic_names, prefix)):
                    return self._reduce(grads, variables, None, generic_names, prefix)
        if variables is not None:
            grads = self._agree(grads, variables)
        return self._reduce(grads, variables, f'{self.name}_Allreduce', generic_names)

    def _compared(self, grads: List[Any], variables: Optional[Sequence[Any]],
                  generic_names: bool, prefix: str) -> List[tf.Operation]:
        """In a graph: what has to come before anything is sent. It waits for a gradient, since one
        name must not be in use twice at a time where the graph has a loop."""
        if not grads:
            return []
        present = [g for g in grads if g is not None]
        first = [g.values if isinstance(g, tf.IndexedSlices) else g for g in present[-1:]]
        titles = [_title(variable, i)
                  for i, variable in enumerate(variables or [None] * len(grads))]
        with tf.control_dependencies(first):
            return [agree_on_gradients(''.join(map(_letter, grads)), '\n'.join(titles),
                                       generic_names, self.process_set,
                                       f'{prefix}HorovodGradients')]

    def _agree(self, grads: List[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients in the form that all ranks send: None only where nobody has one."""
        facts = {str(i): _fact(grad) for i, grad in enumerate(grads)}
        talk = Talk(f'{self.name}.facts', self.process_set.process_set_id or 0, facts)
        talk.wait()
        return [_formed(grad, variable, talk.agreed.get(name))
                for name, grad, variable in zip(facts, grads, variables)]

    def _reduce(self, grads, variables, name, generic_names, prefix=''):
        results: List[Any] = [None] * len(grads)
        options = dict(self._options, ignore_name_scope=generic_names)
        for number, positions in enumerate(self._bundles(grads, variables)):
            # In a graph, too, not by the tensors' names: ranks may compute them in other ways.
            own = f'{name}.{number}'
            if name is None or generic_names:
                own = f'{prefix}grad_{number if self._groups else positions[0]}'
            if len(positions) == 1:
                reduced = [allreduce(grads[positions[0]], name=own, **options)]
            else:
                reduced = grouped_allreduce([grads[i] for i in positions], name=own, **options)
            for i, grad in zip(positions, reduced):
                results[i] = grad
        return results

    def _bundles(self, grads, variables) -> List[List[int]]:
        """Positions of the gradients that go together. Sparse ones and Adasum's, which works on
        each tensor by itself, go alone."""
        present = [i for i, g in enumerate(grads) if g is not None]
        together = [i for i in present if not isinstance(grads[i], tf.IndexedSlices)]
        if self.op == Adasum:
            together = []
        single = [[i] for i in present if i not in set(together)]
        if isinstance(self._groups, int):
            return split_list(together, self._groups) + single
        if self._groups and variables is not None:
            keys = [variable_key(v) for v in variables]
            bound = [[i for i in together if keys[i] in group] for group in self._groups]
            left = set(together).difference(*bound)
            return [b for b in bound if b] + [[i] for i in together if i in left] + single
        if tf.executing_eagerly() and together:
            return [together] + single
        return [[i] for i in present]


class LocalVariables:
    """The variables of one rank only: their gradients are not reduced."""

    def __init__(self, scale: bool, process_set: ProcessSet):
        self.scale = scale
        self.process_set = process_set
        self._keys = set()

    def add(self, variable: Any) -> None:
        self._keys.add(variable_key(variable))

    def __contains__(self, variable: Any) -> bool:
        return bool(self._keys) and variable_key(variable) in self._keys

    def filled(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """In a graph where missing gradients are zeros: with those in the place of None, but for
        local variables. Else the gradients as they are."""
        if tf.executing_eagerly() or not missing_are_zeros():
            return list(grads)
        return [tf.zeros_like(tf.convert_to_tensor(native(v))) if g is None and v not in self else g
                for g, v in zip(grads, variables)]

    def apart(self, grads: Sequence[Any], variables: Sequence[Any], reduce) -> List[Any]:
        """reduce(gradients, variables) for the shared variables; a local one's gradient is divided
        by the number of ranks when `scale` is set, as averaging would have done with zeros."""
        grads, variables = self.filled(grads, variables), list(variables)
        if not self._keys:
            return reduce(grads, variables)
        shared = [i for i, v in enumerate(variables) if v not in self]
        reduced = reduce([grads[i] for i in shared], [variables[i] for i in shared])
        results = [g if i in set(shared) else self._scaled(g) for i, g in enumerate(grads)]
        for i, grad in zip(shared, reduced):
            results[i] = grad
        return results

    def _scaled(self, grad: Any) -> Any:
        if grad is None or not self.scale:
            return grad
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(divide(grad.values, self.process_set), grad.indices,
                                    grad.dense_shape)
        return divide(grad, self.process_set)
