# SPDX-License-Identifier: Apache-2.0
"""allreduce() and reducescatter() with compression, sparse tensors and groups, over mpi_ops."""
from contextlib import nullcontext
from typing import Any, List, Optional, Sequence

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import (Adasum, Average, Sum, _allreduce, _grouped_allreduce,
                                        _grouped_reducescatter, _reducescatter, allgather,
                                        handle_average_backwards_compatibility, size_op)

_SPARSE_ADASUM = ('The Adasum reduction does not support sparse tensors. Pass sparse_as_dense=True '
                  'to DistributedOptimizer to have them made dense.')
_SPARSE_OPS = 'Sparse tensors (tf.IndexedSlices) can be summed and averaged only.'
_SPARSE_SCATTER = 'Reducescatter does not support sparse tensors (tf.IndexedSlices).'


def _device(name: str):
    return tf.device(name) if name else nullcontext()


def ranks_of(process_set: ProcessSet, dtype=None):
    """How many ranks the set has: an int, or in a graph a tensor that is read when it runs."""
    if tf.executing_eagerly():
        return process_set.size()
    ranks = size_op(process_set.process_set_id)
    return ranks if dtype is None else tf.cast(ranks, dtype)


def divide(value: tf.Tensor, process_set: ProcessSet) -> tf.Tensor:
    """value / size of the set; floats for integers, as TensorFlow divides."""
    return value / tf.cast(ranks_of(process_set), value.dtype)


def _sparse_allreduce(tensor: tf.IndexedSlices, name: Optional[str], op: int, prescale: float,
                      postscale: float, process_set: ProcessSet,
                      ignore_name_scope: bool = False) -> tf.IndexedSlices:
    """The slices of all ranks, one after the other; those of equal index add up when applied."""
    if op == Adasum:
        raise NotImplementedError(_SPARSE_ADASUM)
    if op not in (Average, Sum):
        raise NotImplementedError(_SPARSE_OPS)
    values = tensor.values
    if prescale != 1.0:
        values = values * tf.cast(prescale, values.dtype)
    place = {'ignore_name_scope': ignore_name_scope, 'process_set': process_set}
    values = allgather(values, name=name and f'{name}.values', **place)
    indices = allgather(tensor.indices, name=name and f'{name}.indices', **place)
    if op == Average:
        values = divide(values, process_set)
    if postscale != 1.0:
        values = values * tf.cast(postscale, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=tensor.dense_shape)


def allreduce(tensor: Any, average: Optional[bool] = None, device_dense: str = '',
              device_sparse: str = '', compression=Compression.none, op: Optional[int] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              name: Optional[str] = None, process_set: ProcessSet = global_process_set,
              ignore_name_scope: bool = False) -> Any:
    """Reduce a tensor over all ranks of the set; differentiable.

    A tf.IndexedSlices is gathered, not made dense. op: Average (default), Sum, Min, Max, Product,
    Adasum. The input is multiplied by prescale_factor before and postscale_factor after it.
    """
    op = handle_average_backwards_compatibility(op, average)
    if process_set is not global_process_set:
        process_set.size()  # ValueError where there is no such set, as in Horovod
    if isinstance(tensor, tf.IndexedSlices):
        with _device(device_sparse):
            return _sparse_allreduce(tensor, name, op, prescale_factor, postscale_factor,
                                     process_set, ignore_name_scope)
    with _device(device_dense):
        compressed, ctx = compression.compress(tf.convert_to_tensor(tensor))
        reduced = _allreduce(compressed, name=name, op=op, prescale_factor=prescale_factor,
                             postscale_factor=postscale_factor,
                             ignore_name_scope=ignore_name_scope, process_set=process_set)
        return compression.decompress(reduced, ctx)


def _by_type(tensors: Sequence[tf.Tensor]):
    """{dtype: positions}; an operation on a group takes tensors of one type."""
    found = {}
    for i, tensor in enumerate(tensors):
        found.setdefault(tensor.dtype.base_dtype, []).append(i)
    return found


def _in_groups(tensors, compression, name, reduce) -> List[tf.Tensor]:
    """reduce(compressed tensors of one type, name) for each type, in the order of tensors."""
    pairs = [compression.compress(t) for t in tensors]
    results: List[Any] = [None] * len(tensors)
    groups = _by_type([compressed for compressed, _ in pairs])
    for dtype, positions in groups.items():
        # The name of a type keeps the groups of one call apart, equally on all ranks.
        own = name if len(groups) == 1 or name is None else f'{name}.{dtype.name}'
        reduced = reduce([pairs[i][0] for i in positions], own)
        for i, tensor in zip(positions, reduced):
            results[i] = compression.decompress(tensor, pairs[i][1])
    return results


def grouped_allreduce(tensors: Sequence[Any], average: Optional[bool] = None,
                      device_dense: str = '', device_sparse: str = '',
                      compression=Compression.none, op: Optional[int] = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set,
                      ignore_name_scope: bool = False, name: Optional[str] = None) -> List[Any]:
    """Allreduces that are carried out together: a list of results. Types may be mixed; sparse ones
    go by themselves."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = list(tensors)
    sparse = {i: allreduce(t, None, device_dense, device_sparse, compression, op, prescale_factor,
                           postscale_factor, name and f'{name}.{i}', process_set,
                           ignore_name_scope)
              for i, t in enumerate(tensors) if isinstance(t, tf.IndexedSlices)}
    positions = [i for i in range(len(tensors)) if i not in sparse]

    def reduce(group, own_name):
        return _grouped_allreduce(group, name=own_name, op=op, prescale_factor=prescale_factor,
                                  postscale_factor=postscale_factor,
                                  ignore_name_scope=ignore_name_scope, process_set=process_set)

    with _device(device_dense):
        dense = _in_groups([tf.convert_to_tensor(tensors[i]) for i in positions], compression,
                           name, reduce)
    found = {**sparse, **dict(zip(positions, dense))}
    return [found[i] for i in range(len(tensors))]


def reducescatter(tensor: Any, device_dense: str = '', compression=Compression.none,
                  op: int = Average, name: Optional[str] = None,
                  process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> tf.Tensor:
    """Reduce, then keep this rank's rows; the first ranks have one more when they don't divide."""
    if isinstance(tensor, tf.IndexedSlices):
        raise NotImplementedError(_SPARSE_SCATTER)
    with _device(device_dense):
        compressed, ctx = compression.compress(tf.convert_to_tensor(tensor))
        reduced = _reducescatter(compressed, name=name, op=op, process_set=process_set,
                                 ignore_name_scope=ignore_name_scope,
                                 prescale_factor=prescale_factor,
                                 postscale_factor=postscale_factor)
        return compression.decompress(reduced, ctx)


def grouped_reducescatter(tensors: Sequence[Any], device_dense: str = '',
                          compression=Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[tf.Tensor]:
    """Reducescatters that are carried out together: a list of results."""
    if any(isinstance(t, tf.IndexedSlices) for t in tensors):
        raise NotImplementedError(_SPARSE_SCATTER)

    def reduce(group, _name):
        return _grouped_reducescatter(group, op=op, process_set=process_set,
                                      prescale_factor=prescale_factor,
                                      postscale_factor=postscale_factor)

    with _device(device_dense):
        return _in_groups([tf.convert_to_tensor(t) for t in tensors], compression, None, reduce)
