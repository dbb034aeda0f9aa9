# SPDX-License-Identifier: Apache-2.0
"""The collectives as operations of TensorFlow, with gradients: eager, in functions, in graphs.

The kernels are C (libreigen_tensorflow.so), registered through TensorFlow's C API, so that one
binary serves TensorFlow 2.12 and later. They are registered for CPUs: tensors of other devices are
copied by TensorFlow itself.

Names match an operation between ranks. In a graph, and while a function is traced, an operation is
known by the name of its node, which comes from the tensor's where the user gives none; executed
eagerly, by the user's name, or, without one, by being the n-th of its kind.
"""
import re
from typing import Any, List, Optional, Sequence

import tensorflow as tf
from tensorflow.python.framework import ops

from horovod.common.basics import (HorovodBasics, ccl_built, cross_rank, cross_size, cuda_built,
                                   ddl_built, diagnose, gloo_built, gloo_enabled, init,
                                   is_homogeneous, is_initialized, local_rank, local_size,
                                   mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank,
                                   rocm_built, shutdown, size, start_timeline, stop_timeline)
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import get_average_backwards_compatibility_fun, num_rank_is_power_2
from horovod.tensorflow import _library
from reigen import _core
from reigen._operations import set_id

MPI_LIB = _library.load()

_basics = HorovodBasics()

Average, Sum, Adasum = _basics.Average, _basics.Sum, _basics.Adasum
Min, Max, Product = _basics.Min, _basics.Max, _basics.Product

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
check_num_rank_power_of_2 = num_rank_is_power_2


def _check_has_gpu() -> bool:
    return bool(tf.config.list_physical_devices('GPU'))


def _normalize_name(name: str) -> str:
    """The name with what TensorFlow does not allow in a node's replaced."""
    return re.sub('[^a-zA-Z0-9_]', '_', name)


def _factors(prescale: float, postscale: float) -> tuple:
    """The factors as attributes. TensorFlow's floats have 32 bits: others are spelled out."""
    if prescale == 1.0 and postscale == 1.0:
        return ()
    exact = f'{float(prescale).hex()} {float(postscale).hex()}'
    return ('prescale_factor', prescale, 'postscale_factor', postscale, 'factors', exact)


try:
    # tf.config.experimental.enable_op_determinism()
    from tensorflow.python.framework.config import is_op_determinism_enabled as _asks
except ImportError:
    def _asks() -> bool:
        return False

#: What the runtime was told of it.
_told = False


def _tell() -> None:
    global _told
    _told = _asks()
    _core.ask_for_determinism('tensorflow', _told)


def _run(kind: str, name: Optional[str], ignore_name_scope: bool, process_set: Any, tensors: Any,
         inputs: tuple, attrs: tuple = ()) -> Any:
    """Execute the operation Horovod<kind>, or add it to the graph; its outputs.

    tensors: one, or the list of a group; inputs: what comes behind; attrs: names and values. Raises
    NotImplementedError where XLA compiles, which has no such operations.
    """
    if _asks() is not _told:
        _tell()
    if process_set is not global_process_set:
        attrs += ('process_set_id', set_id(process_set))
    if tf.executing_eagerly():
        if name:
            attrs += ('tensor_name', name)
        return _library.execute(kind, (tensors, *inputs), attrs)
    _library.refuse_xla(kind)
    if isinstance(tensors, list):
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        ends = [tensors[0], tensors[-1]]
    else:
        tensors = tf.convert_to_tensor(tensors)
        ends = [tensors]
    if name is None:
        name = '_'.join([kind, *(_normalize_name(tensor.name) for tensor in ends)])
    return _library.add(kind, (tensors, *inputs), attrs + ('ignore_name_scope', ignore_name_scope),
                        name)


#: What an operation's attributes are where they are not given.
_DEFAULTS = {'prescale_factor': 1.0, 'postscale_factor': 1.0, 'factors': '',
             'ignore_name_scope': False, 'process_set_id': 0}


def _attr(op: Any, name: str) -> Any:
    """An attribute of an operation. One executed eagerly knows only those that were given."""
    try:
        value = op.get_attr(name)
    except (KeyError, ValueError):
        return _DEFAULTS[name]
    return value.decode() if isinstance(value, bytes) else value


def _spelled(op: Any) -> dict:
    """The factors of an operation, for the one that is its gradient."""
    exact = _attr(op, 'factors')
    if not exact:
        return {'prescale_factor': _attr(op, 'prescale_factor'),
                'postscale_factor': _attr(op, 'postscale_factor')}
    prescale, postscale = (float.fromhex(word) for word in exact.split())
    return {'prescale_factor': prescale, 'postscale_factor': postscale}


def _place(op: Any) -> dict:
    """The process set of an operation, and how it is named, for the one that is its gradient."""
    number = _attr(op, 'process_set_id')
    return {'ignore_name_scope': _attr(op, 'ignore_name_scope'),
            'process_set': number or global_process_set}


# ---------------------------------------------------------------------------- allreduce

def _allreduce(tensor: Any, name: Optional[str] = None, op: int = Sum,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               ignore_name_scope: bool = False,
               process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """Reduce over all ranks of the set: same shape and type, the same bits on every rank."""
    attrs = ('reduce_op', op)
    if prescale_factor != 1.0 or postscale_factor != 1.0:
        attrs += _factors(prescale_factor, postscale_factor)
    return _run('HorovodAllreduce', name, ignore_name_scope, process_set, tensor, (), attrs)


@ops.RegisterGradient('HorovodAllreduce')
def _allreduce_grad(op, grad):
    return _allreduce(grad, op=op.get_attr('reduce_op'), **_spelled(op), **_place(op))


def _grouped_allreduce(tensors: Sequence[Any], name: Optional[str] = None, op: int = Sum,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       ignore_name_scope: bool = False,
                       process_set: ProcessSet = global_process_set) -> List[tf.Tensor]:
    """Allreduces of tensors of one type that are carried out together or not at all."""
    if not tensors:
        return []
    return _run('HorovodGroupedAllreduce', name, ignore_name_scope, process_set, list(tensors), (),
                ('reduce_op', op, *_factors(prescale_factor, postscale_factor)))


@ops.RegisterGradient('HorovodGroupedAllreduce')
def _grouped_allreduce_grad(op, *grads):
    # Where one output is not used TensorFlow gives zeros, perhaps of another type.
    grads = [tf.cast(grad, x.dtype) for grad, x in zip(grads, op.inputs)]
    return _grouped_allreduce(grads, op=op.get_attr('reduce_op'), **_spelled(op), **_place(op))


# ---------------------------------------------------------------------------- allgather

def allgather(tensor: Any, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """Concatenate along the first dimension, in the order of ranks; the first may differ."""
    return _run('HorovodAllgather', name, ignore_name_scope, process_set, tensor, ())


def _own_rows(op: Any, tensors: Sequence[Any], grads: Sequence[Any]) -> List[tf.Tensor]:
    """Each gradient averaged, then the rows of it that this rank has put in."""
    place = _place(op)
    with tf.device('/cpu:0'):
        rows = tf.stack([tf.shape(tensor)[0] for tensor in tensors])
        counts = allgather(rows[tf.newaxis], **place)  # by rank and tensor
        me = rank_op(process_set_id=set_id(place['process_set']))
        starts = tf.reduce_sum(counts[:me], axis=0)
    own = []
    for i, grad in enumerate(grads):
        averaged = _allreduce(grad, op=Average, **place)
        own.append(averaged[starts[i]:starts[i] + rows[i]])
    return own


@ops.RegisterGradient('HorovodAllgather')
def _allgather_grad(op, grad):
    return _own_rows(op, op.inputs, [grad])[0]


def grouped_allgather(tensors: Sequence[Any], name: Optional[str] = None,
                      ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> List[tf.Tensor]:
    """Allgathers of tensors of one type that are carried out together or not at all."""
    if not tensors:
        return []
    return _run('HorovodGroupedAllgather', name, ignore_name_scope, process_set, list(tensors), ())


@ops.RegisterGradient('HorovodGroupedAllgather')
def _grouped_allgather_grad(op, *grads):
    return _own_rows(op, op.inputs, grads)


# ---------------------------------------------------------------------------- broadcast

def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None,
              ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """root_rank's tensor, on every rank of the set. The shape is the same on all."""
    return _run('HorovodBroadcast', name, ignore_name_scope, process_set, tensor, (),
                ('root_rank', int(root_rank)))


@ops.RegisterGradient('HorovodBroadcast')
def _broadcast_grad(op, grad):
    averaged = _allreduce(grad, op=Average, **_place(op))
    if _core.is_root(op.get_attr('root_rank')):
        return averaged
    # Zeros of a known shape need no allreduce, which a graph would leave out on this rank alone.
    with tf.control_dependencies([averaged]):
        return tf.zeros_like(averaged)


def broadcast_(variables: Sequence[Any], root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> List[tf.Tensor]:
    """Give the variables root_rank's values; the new values.

    In a graph nothing happens until one of the results is evaluated.
    """
    results = []
    for variable in variables:
        own = None
        if name is not None or not tf.executing_eagerly():
            own = _normalize_name(f'{name or "HorovodBroadcastInplace"}_{variable.name}')
        value = broadcast(tf.convert_to_tensor(variable), root_rank, own, process_set=process_set)
        assigned = variable.assign(value)
        results.append(value if tf.executing_eagerly() else tf.convert_to_tensor(assigned))
    return results


# ---------------------------------------------------------------------------- alltoall

def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None,
             ignore_name_scope: bool = False,
             process_set: ProcessSet = global_process_set) -> Any:
    """Send splits[r] rows to rank r, in order, and receive what the others send.

    Without splits (equal parts) the received tensor; with them also how many rows each rank sent.
    """
    parts = tf.constant([], tf.int32) if splits is None else tf.cast(splits, tf.int32)
    output, received = _run('HorovodAlltoall', name, ignore_name_scope, process_set, tensor,
                            (parts,))
    return output if splits is None else (output, received)


@ops.RegisterGradient('HorovodAlltoall')
def _alltoall_grad(op, grad, _grad_received):
    returned, _ = alltoall(grad, splits=op.outputs[1], **_place(op))
    return [returned, None]


# ---------------------------------------------------------------------------- reducescatter

def _reducescatter(tensor: Any, name: Optional[str] = None, op: int = Sum,
                   ignore_name_scope: bool = False,
                   process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                   postscale_factor: float = 1.0) -> tf.Tensor:
    """Reduce, then keep this rank's rows; the first ranks have one more when they don't divide."""
    return _run('HorovodReducescatter', name, ignore_name_scope, process_set, tensor, (),
                ('reduce_op', op, *_factors(prescale_factor, postscale_factor)))


def _scattered(op: Any, grads: Sequence[Any]) -> List[Any]:
    """Gradients of the parts; a sum's count once for each rank."""
    factors = _spelled(op)
    factor = factors['prescale_factor'] * factors['postscale_factor']
    if op.get_attr('reduce_op') == Sum:
        ranks = size_op(process_set_id=_attr(op, 'process_set_id'))
        grads = [grad * tf.cast(ranks, grad.dtype) for grad in grads]
    if factor != 1.0:
        grads = [grad * tf.cast(factor, grad.dtype) for grad in grads]
    return grads


@ops.RegisterGradient('HorovodReducescatter')
def _reducescatter_grad(op, grad):
    return allgather(_scattered(op, [grad])[0], **_place(op))


def _grouped_reducescatter(tensors: Sequence[Any], name: Optional[str] = None, op: int = Sum,
                           ignore_name_scope: bool = False,
                           process_set: ProcessSet = global_process_set,
                           prescale_factor: float = 1.0,
                           postscale_factor: float = 1.0) -> List[tf.Tensor]:
    """Reducescatters of tensors of one type that are carried out together or not at all."""
    if not tensors:
        return []
    return _run('HorovodGroupedReducescatter', name, ignore_name_scope, process_set, list(tensors),
                (), ('reduce_op', op, *_factors(prescale_factor, postscale_factor)))


@ops.RegisterGradient('HorovodGroupedReducescatter')
def _grouped_reducescatter_grad(op, *grads):
    return [allgather(grad, **_place(op)) for grad in _scattered(op, grads)]


# ---------------------------------------------------------------------------- the rest

def agree_on_gradients(forms: str, names: str, ignore_name_scope: bool = False,
                       process_set: ProcessSet = global_process_set,
                       name: str = 'HorovodGradients') -> tf.Operation:
    """In a graph: an operation that fails on all ranks, with FailedPreconditionError, unless all
    have the same forms. forms: a letter for each gradient, 'd'ense, 's'parse or '-' (there is
    none); names: a line for each, for the error."""
    kind = 'HorovodAgreeOnGradients'
    _library.refuse_xla(kind)
    return _library.add(kind, (), ('forms', forms, 'names', names,
                                   'process_set_id', set_id(process_set),
                                   'ignore_name_scope', ignore_name_scope), name)


def join() -> tf.Tensor:
    """This rank has no more data: it supplies zeros to the others' allreduces until all have
    joined. The number of the rank that joined last."""
    if not tf.executing_eagerly():
        _library.refuse_xla('HorovodJoin')
    return MPI_LIB.horovod_join()


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """How many ranks the set has, as of when the operation runs."""
    return MPI_LIB.horovod_size(process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """1 when this rank belongs to the set, else 0, as of when the operation runs."""
    return MPI_LIB.horovod_process_set_included(process_set_id=process_set_id, name=name)


def local_size_op(name: Optional[str] = None) -> tf.Tensor:
    """How many ranks this host has, as of when the operation runs."""
    return MPI_LIB.horovod_local_size(name=name)


def rank_op(name: Optional[str] = None, process_set_id: int = 0) -> tf.Tensor:
    """This process's number (in the set, if one is given), as of when the operation runs."""
    return MPI_LIB.horovod_rank(process_set_id=process_set_id, name=name)


def local_rank_op(name: Optional[str] = None) -> tf.Tensor:
    """This process's number among the ranks of its host, as of when the operation runs."""
    return MPI_LIB.horovod_local_rank(name=name)


# No gradients flow through what is known of the ranks.
for _kind in ('Size', 'LocalSize', 'Rank', 'LocalRank', 'ProcessSetIncluded', 'Join'):
    ops.NotDifferentiable(f'Horovod{_kind}')
