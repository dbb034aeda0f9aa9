# SPDX-License-Identifier: Apache-2.0
"""The collectives on JAX's arrays, inside and outside of jax.jit.

    import jax, reigen, reigen.jax

    reigen.init()
    mean = reigen.jax.allreduce(x)                                    # now
    step = jax.jit(lambda x: x - reigen.jax.allreduce(jnp.sin(x)))    # in a compiled program

Each function takes an array or a tree of them (a tree's arrays travel together, those of one
element type as one group) and gives the same structure. Types are those of reigen.arrays;
broadcast, allgather and alltoall also move the random keys of jax.random.key(). They work under
jit, grad, jvp, vmap, scan, while_loop, cond and remat.

Inside jit all shapes are static, so there all ranks must give equal ones, and rows must divide
equally; outside they need not. `name` matches an operation between ranks; without one, the n-th
unnamed operation that each rank calls (inside jit: traces) belongs together. A compiled program
holds its name, rank and number of ranks.

Errors: outside of jit those of reigen.arrays. A compiled program that fails raises JAX's own
JaxRuntimeError, whose text holds ours; `errors()` and `jit()` turn it into HorovodInternalError.
"""
import contextlib
import functools
import re
import warnings
from typing import Any, Callable, Iterator, List, Tuple

import errno as _errno
import jax
import numpy as np

from reigen import _core, arrays
from reigen._core import Average, Sum
from reigen._operations import (ALLGATHER, ALLREDUCE, BROADCAST, REDUCESCATTER, set_id, set_size)
from reigen.errors import HorovodInternalError, InvalidOperationError
from reigen.jax import _keys, _primitive
from reigen.jax._primitive import ALLTOALL, collective_p

__all__ = ['allgather', 'allreduce', 'alltoall', 'broadcast', 'errors', 'jit', 'ready',
           'reducescatter']


# ---------------------------------------------------------------------------- order of programs

def _backends_exist() -> bool:
    try:
        from jax._src import xla_bridge
        return bool(xla_bridge.backends_are_initialized())
    except (ImportError, AttributeError):
        return False


#: XLA may run two compiled programs at the same time, and in another order than they were called
#: in, each rank in its own. Then the n-th run of an operation on one rank could meet another run on
#: the next. So programs are run one after the other; a CPU has nothing to gain from the other way.
_in_order = not _backends_exist()
if _in_order:
    try:
        jax.config.update('jax_cpu_enable_async_dispatch', False)
    except AttributeError:
        _in_order = False
#: Compiled programs were traced since the last init.
_traced = False
#: Names of types whose numbers have less than a byte.
_SMALL = re.compile(r'u?int[1-7]$|float[46]_')
#: Bytes; the rest of C's 511 is for what is appended to names.
NAME_MAX = 450


def ready() -> None:
    """To be called after reigen.init(). Forgets programs that were compiled for another job."""
    if not _in_order and _backends_exist():
        warnings.warn(
            'JAX was in use before horovod.jax was imported, so its CPU may run compiled programs '
            'in another order than they are called in. Import horovod.jax before the first array '
            "is made, or set JAX_CPU_ENABLE_ASYNC_DISPATCH=false.", RuntimeWarning, stacklevel=3)
    _begin_anew()


def _begin_anew() -> None:
    """All ranks trace the same operations from here on."""
    global _traced
    if _traced:
        jax.clear_caches()
        _traced = False
    _primitive.forget_names()


_core.after_apart.append(_begin_anew)


# ---------------------------------------------------------------------------- errors

_CODES = {'INVALID_ARGUMENT': _errno.EINVAL, 'ALREADY_EXISTS': _errno.EEXIST,
          'FAILED_PRECONDITION': _errno.ENOTCONN, 'UNAVAILABLE': _errno.ECONNRESET,
          'CANCELLED': _errno.ECANCELED, 'DEADLINE_EXCEEDED': _errno.ETIMEDOUT,
          'RESOURCE_EXHAUSTED': _errno.ENOMEM}
_OURS = re.compile(r'(?:([A-Z_]+): )?HorovodInternalError: (.*)', re.DOTALL)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """`with errors():` compiled programs that are run in it raise HorovodInternalError when one of
    their collectives fails; InvalidOperationError when it was refused on this rank."""
    try:
        yield
    except RuntimeError as error:
        found = None if isinstance(error, HorovodInternalError) else _OURS.search(str(error))
        if found is None:
            raise
        number = _CODES.get(found.group(1) or '', 0)
        kind = (InvalidOperationError if number in (_errno.EEXIST, _errno.ENOTCONN)
                else HorovodInternalError)
        raise kind(found.group(2), number) from error


def jit(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """jax.jit, but failures of collectives are HorovodInternalError. options: as jax.jit's."""
    compiled = jax.jit(fun, **options)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        with errors():
            return compiled(*args, **kwargs)

    return call


# ---------------------------------------------------------------------------- operations

def _as_leaf(value: Any) -> Any:
    if not isinstance(value, (jax.Array, np.ndarray)):
        value = np.asarray(value)
    if value.dtype.kind not in 'biufcV' or value.dtype.type is np.void:
        raise ValueError(f'Arrays of {value.dtype} are not supported, as JAX has none; '
                         'broadcast_object() and allgather_object() take any object.')
    if isinstance(value, np.ndarray) and value.dtype.kind in 'iu':
        _refuse_to_cut(value)
    if isinstance(value, jax.core.Tracer) and _SMALL.match(value.dtype.name):
        raise ValueError(f'{value.dtype.name}: numbers of less than a byte cannot travel inside '
                         'jax.jit, where XLA may pack them. Call it outside of jax.jit, or convert '
                         'them to int8 or uint8.')
    return value


def _refuse_to_cut(value: 'np.ndarray[Any, Any]') -> None:
    """ValueError where JAX, which is about to convert the array, has no integers that large."""
    known = np.dtype(jax.dtypes.canonicalize_dtype(value.dtype))
    if known != value.dtype and not np.array_equal(value.astype(known), value):
        raise ValueError(f'There are numbers of {value.dtype.name} here that JAX would cut to '
                         f'{known.name}, as it has no larger integers. Enable them '
                         '(JAX_ENABLE_X64=1), or use the functions of reigen, which give NumPy '
                         'arrays.')


def _numbers_of(value: Any, kind: int) -> Tuple[Any, Any]:
    """As _keys.numbers_of, where keys can go this way."""
    if _keys.is_key(value):
        if kind in (ALLREDUCE, REDUCESCATTER):
            raise ValueError(f'Random keys ({value.dtype}) cannot be reduced, only moved '
                             '(broadcast, allgather, alltoall).')
        if kind != BROADCAST and value.ndim == 0:
            raise ValueError(f'A single random key ({value.dtype}) has no rows: give an array of '
                             'keys, as key[None].')
    return _keys.numbers_of(value)


def _bind(leaves: List[Any], kind: int, name: Any, process_set: Any, op: int = Sum, root: int = 0,
          prescale: float = 1.0, postscale: float = 1.0) -> List[Any]:
    """One operation, or one group for each element type."""
    global _traced
    if not _core.is_initialized():
        raise _core.submission_error(-_errno.ENOTCONN)
    number = set_id(process_set)
    pairs = [_numbers_of(leaf, kind) for leaf in leaves]
    leaves = [_as_leaf(leaf) for leaf, _ in pairs]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        _primitive.check_jax()
        _traced = True
        name = name or _primitive.next_name(number)
        if len(name.encode()) > NAME_MAX:
            raise ValueError(f'The name of an operation has at most {NAME_MAX} bytes inside '
                             f'jax.jit; this one has {len(name.encode())}.')
    if kind in (ALLREDUCE, REDUCESCATTER):
        arrays.check_op(op)
    params = {'kind': kind, 'op': op, 'root': root, 'prescale': float(prescale),
              'postscale': float(postscale), 'process_set': number, 'size': set_size(number)}
    dtypes = sorted({leaf.dtype.name for leaf in leaves})
    results: List[Any] = [None] * len(leaves)
    for dtype in dtypes:
        places = [i for i, leaf in enumerate(leaves) if leaf.dtype.name == dtype]
        label = name if name is None or len(dtypes) == 1 else f'{name}.{dtype}'
        done = collective_p.bind(*[leaves[i] for i in places], name=label, **params)
        for place, result in zip(places, done):
            results[place] = _keys.keys_of(result, pairs[place][1])
    return results


def _apply(tree: Any, *args: Any, **kwargs: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten(tree)
    if not leaves:
        return tree
    return jax.tree_util.tree_unflatten(structure, _bind(leaves, *args, **kwargs))


def allreduce(tree: Any, name: Any = None, op: int = Average, prescale: float = 1.0,
              postscale: float = 1.0, process_set: Any = 0) -> Any:
    """Reduce element by element over all ranks; every rank gets the same bits. Average and Sum have
    derivatives: the same reduction of the cotangents."""
    return _apply(tree, ALLREDUCE, name, process_set, op, 0, prescale, postscale)


def reducescatter(tree: Any, name: Any = None, op: int = Sum, prescale: float = 1.0,
                  postscale: float = 1.0, process_set: Any = 0) -> Any:
    """Reduce (Sum or Average), then keep this rank's part of the first dimension."""
    return _apply(tree, REDUCESCATTER, name, process_set, op, 0, prescale, postscale)


def allgather(tree: Any, name: Any = None, process_set: Any = 0) -> Any:
    """Concatenate along the first dimension, in the order of ranks; the first may differ outside
    of jit."""
    return _apply(tree, ALLGATHER, name, process_set)


def broadcast(tree: Any, root: int = 0, name: Any = None, process_set: Any = 0) -> Any:
    """The arrays of rank `root` (of the whole job) on every rank."""
    return _apply(tree, BROADCAST, name, process_set, root=root)


def alltoall(array: Any, splits: Any = None, name: Any = None,
             process_set: Any = 0) -> Tuple[Any, Any]:
    """Send splits[r] rows to rank r; equal parts without splits.

    array: one array. Returns (the rows received, int32 how many from each rank). Inside jit splits
    must be None.
    """
    if splits is not None:
        if isinstance(array, jax.core.Tracer) or isinstance(splits, jax.core.Tracer):
            raise ValueError('alltoall with splits cannot be used inside jax.jit, where shapes are '
                             'static. Call it outside of jax.jit, or send equal parts.')
        numbers, made_by = _numbers_of(array, ALLTOALL)
        rows, received = arrays.alltoall(np.asarray(numbers), np.asarray(splits), name, process_set)
        return _keys.keys_of(jax.numpy.asarray(rows), made_by), jax.numpy.asarray(received)
    result = _bind([array], ALLTOALL, name, process_set)[0]
    size = set_size(set_id(process_set))
    return result, jax.numpy.full(size, result.shape[0] // size, jax.numpy.int32)
