# SPDX-License-Identifier: Apache-2.0
"""The collectives on NumPy's arrays, and on whatever NumPy can look at without a copy: objects
with the buffer protocol, `__array_interface__`, `__array__` or DLPack (JAX's arrays on the CPU,
PyTorch's CPU tensors, memoryview, array.array); numbers and nested lists are copied.

Results are new numpy.ndarray of the argument's element type. Reduced are bool, uint8, int8, uint16,
int16, int32, int64, float16, float32, float64, and bfloat16 (a type of the package ml_dtypes);
complex numbers by Sum and Average. broadcast, allgather and alltoall move elements of every type
that is not a reference: all numbers, datetime64, strings of a fixed length, records.

Operations are matched between ranks by `name`; without one, the n-th unnamed operation of a kind of
each rank belongs together. `process_set` is 0 for all ranks, another set's number, or an object
with `process_set_id`. Every function has a form ending in _async that gives a handle (an int) for
poll() and synchronize(); leave its arguments alone until then.

Errors: InvalidOperationError (also a ValueError) when this rank's call was refused, before init()
and for names in flight among other things; HorovodInternalError when the operation failed: the
ranks do not agree (the job can go on), a rank died, shut down. ValueError for arrays that the
runtime cannot take.
"""
import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from reigen import _core, _handles, _operations, _types
from reigen._core import Average, Sum
from reigen._handles import poll, synchronize
from reigen._lib import Options
from reigen._operations import Memory, set_id

__all__ = ['allgather', 'allgather_async', 'allreduce', 'allreduce_async', 'alltoall',
           'alltoall_async', 'barrier', 'barrier_async', 'broadcast', 'broadcast_async',
           'grouped_allgather', 'grouped_allgather_async', 'grouped_allreduce',
           'grouped_allreduce_async', 'grouped_reducescatter', 'grouped_reducescatter_async',
           'join', 'join_async', 'poll', 'reducescatter', 'reducescatter_async', 'synchronize']

Array = Any

#: By dtype: the number by which the runtime knows it.
_codes: Dict[Any, int] = {}


# ---------------------------------------------------------------------------- arrays as memory

def as_array(array: Array) -> 'np.ndarray[Any, Any]':
    """The argument as a row-major ndarray in native byte order: itself where it is one, a view of
    its memory where that can be had, else a copy. ValueError for what the runtime cannot take."""
    found: np.ndarray[Any, Any]
    if isinstance(array, (str, bytes)):
        raise ValueError(f'An array is required, not {type(array).__name__}; broadcast_object() '
                         'and allgather_object() take any object.')
    try:
        found = array if isinstance(array, np.ndarray) else np.asarray(array)
    except Exception as error:
        raise ValueError(f'An array is required, not {type(array).__name__}: {error}') from error
    code_of(found.dtype)
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder('='))
    if not found.flags.c_contiguous:
        found = found.copy(order='C')
    return found


def code_of(dtype: Any) -> int:
    """The number by which the runtime knows a numpy.dtype; ValueError for one whose elements mean
    nothing elsewhere."""
    code = _codes.get(dtype)
    if code is None:
        code = _codes[dtype] = _new_code(dtype)
    return code


def _new_code(dtype: Any) -> int:
    if dtype.hasobject or dtype.kind == 'T':
        raise ValueError(f'Arrays of {dtype} are not supported, as their elements are references '
                         'to objects of this process; broadcast_object() and allgather_object() '
                         'take any object, and astype("U") makes strings of a fixed length.')
    # NumPy counts the bits of a string in its name, and says no more of a record than its size.
    plain = dtype.kind in 'US' or dtype.type is np.void
    name = str(dtype.newbyteorder('=')) if plain else dtype.name
    return _types.CODES[name] if name in _types.CODES else _types.add(name, dtype.itemsize)


def _memory(array: 'np.ndarray[Any, Any]') -> Memory:
    return Memory(_address(array), code_of(array.dtype), array.shape)


def _address(array: 'np.ndarray[Any, Any]') -> int:
    return int(array.__array_interface__['data'][0])


def _target(array: 'np.ndarray[Any, Any]', out: Any) -> Tuple[Any, Any]:
    """(what C writes to, what the caller gets): the same unless `out` has gaps."""
    if out is None:
        new = np.empty(array.shape, array.dtype)
        return new, new
    if not isinstance(out, np.ndarray):
        raise ValueError(f'out must be a numpy.ndarray, not {type(out).__name__}.')
    if out.dtype != array.dtype or out.shape != array.shape:
        raise ValueError(f'out is {out.dtype.name}{list(out.shape)}, but the array is '
                         f'{array.dtype.name}{list(array.shape)}.')
    if not out.flags.writeable:
        raise ValueError('out is read-only.')
    return (out if out.flags.c_contiguous else np.empty(array.shape, array.dtype)), out


def _copied_to(buffer: Any, out: Any) -> Any:
    if buffer is not out:
        np.copyto(out, buffer)
    return out


def _result(handle: int, dtype: Any) -> 'np.ndarray[Any, Any]':
    """A new array with what C allocated for a finished operation."""
    address, nbytes, shape = _operations.output(handle)
    result = np.empty(shape, dtype)
    if nbytes != result.nbytes:
        raise RuntimeError(f'the runtime gave {nbytes} bytes for shape {shape}')
    if nbytes:
        ctypes.memmove(_address(result), address, nbytes)
    return result


def check_op(op: int) -> None:
    """ValueError unless op is a reduction."""
    if not isinstance(op, int) or not _core.Average <= op <= _core.Product:
        raise ValueError(f'{op} is not a reduction; use Average, Sum, Adasum, Min, Max or Product.')


def _options(op: int, prescale: float, postscale: float, process_set: Any) -> Options:
    check_op(op)
    return Options(op, 0, prescale, postscale, set_id(process_set))


# ---------------------------------------------------------------------------- reductions

def allreduce_async(array: Array, name: Optional[str] = None, op: int = Average,
                    prescale: float = 1.0, postscale: float = 1.0, out: Array = None,
                    process_set: Any = 0) -> int:
    """As allreduce, but gives a handle at once."""
    options = _options(op, prescale, postscale, process_set)
    source = as_array(array)
    buffer, result = _target(source, out)
    return _operations.allreduce(_memory(source), _address(buffer), name, options,
                                 lambda handle, rc: _copied_to(buffer, result), (source, buffer))


def allreduce(array: Array, name: Optional[str] = None, op: int = Average, prescale: float = 1.0,
              postscale: float = 1.0, out: Array = None,
              process_set: Any = 0) -> 'np.ndarray[Any, Any]':
    """Reduce element by element over all ranks; every rank gets the same bits.

    array: any shape, equal on all ranks. op: Average, Sum, Min, Max, Product or Adasum. Elements
    are multiplied by prescale before and by postscale after the reduction. out: an ndarray for the
    result, which may be the array itself; without it the result is a new one.
    """
    result: np.ndarray[Any, Any] = synchronize(
        allreduce_async(array, name, op, prescale, postscale, out, process_set))
    return result


def grouped_allreduce_async(arrays: Sequence[Array], name: Optional[str] = None, op: int = Average,
                            prescale: float = 1.0, postscale: float = 1.0,
                            outs: Optional[Sequence[Array]] = None, process_set: Any = 0) -> int:
    """As grouped_allreduce, but gives a handle at once."""
    options = _options(op, prescale, postscale, process_set)
    sources = [as_array(array) for array in arrays]
    if outs is not None and len(outs) != len(sources):
        raise ValueError(f'{len(outs)} outs were given for {len(sources)} arrays.')
    pairs = [_target(source, None if outs is None else outs[i])
             for i, source in enumerate(sources)]
    return _operations.grouped(_operations.ALLREDUCE, [_memory(source) for source in sources],
                               [_address(buffer) for buffer, _ in pairs], name, options,
                               lambda i, handle: _copied_to(*pairs[i]), (sources, pairs))


def grouped_allreduce(arrays: Sequence[Array], name: Optional[str] = None, op: int = Average,
                      prescale: float = 1.0, postscale: float = 1.0,
                      outs: Optional[Sequence[Array]] = None,
                      process_set: Any = 0) -> List['np.ndarray[Any, Any]']:
    """Allreduces that are carried out together or not at all: a list of results."""
    results: List[np.ndarray[Any, Any]] = synchronize(
        grouped_allreduce_async(arrays, name, op, prescale, postscale, outs, process_set))
    return results


def reducescatter_async(array: Array, name: Optional[str] = None, op: int = Sum,
                        prescale: float = 1.0, postscale: float = 1.0, process_set: Any = 0) -> int:
    """As reducescatter, but gives a handle at once."""
    options = _options(op, prescale, postscale, process_set)
    source = as_array(array)
    return _operations.reducescatter(_memory(source), name, options,
                                     lambda handle, rc: _result(handle, source.dtype), source)


def reducescatter(array: Array, name: Optional[str] = None, op: int = Sum,
                  prescale: float = 1.0, postscale: float = 1.0,
                  process_set: Any = 0) -> 'np.ndarray[Any, Any]':
    """Reduce (Sum or Average), then keep this rank's part of the first dimension.

    array: at least one dimension, equal shapes on all ranks. The first (rows mod size) ranks get
    one row more.
    """
    result: np.ndarray[Any, Any] = synchronize(
        reducescatter_async(array, name, op, prescale, postscale, process_set))
    return result


def grouped_reducescatter_async(arrays: Sequence[Array], name: Optional[str] = None,
                                op: int = Sum, prescale: float = 1.0, postscale: float = 1.0,
                                process_set: Any = 0) -> int:
    """As grouped_reducescatter, but gives a handle at once."""
    return _grouped(_operations.REDUCESCATTER, arrays, name,
                    _options(op, prescale, postscale, process_set))


def grouped_reducescatter(arrays: Sequence[Array], name: Optional[str] = None, op: int = Sum,
                          prescale: float = 1.0, postscale: float = 1.0,
                          process_set: Any = 0) -> List['np.ndarray[Any, Any]']:
    """Reducescatters that are carried out together or not at all: a list of results."""
    results: List[np.ndarray[Any, Any]] = synchronize(
        grouped_reducescatter_async(arrays, name, op, prescale, postscale, process_set))
    return results


# ---------------------------------------------------------------------------- moving data

def allgather_async(array: Array, name: Optional[str] = None, process_set: Any = 0) -> int:
    """As allgather, but gives a handle at once."""
    source = as_array(array)
    return _operations.allgather(_memory(source), name, Options(process_set=set_id(process_set)),
                                 lambda handle, rc: _result(handle, source.dtype), source)


def allgather(array: Array, name: Optional[str] = None,
              process_set: Any = 0) -> 'np.ndarray[Any, Any]':
    """Concatenate along the first dimension, in the order of ranks.

    array: at least one dimension; the first may differ between ranks, the others must agree.
    """
    result: np.ndarray[Any, Any] = synchronize(allgather_async(array, name, process_set))
    return result


def grouped_allgather_async(arrays: Sequence[Array], name: Optional[str] = None,
                            process_set: Any = 0) -> int:
    """As grouped_allgather, but gives a handle at once."""
    return _grouped(_operations.ALLGATHER, arrays, name, Options(process_set=set_id(process_set)))


def grouped_allgather(arrays: Sequence[Array], name: Optional[str] = None,
                      process_set: Any = 0) -> List['np.ndarray[Any, Any]']:
    """Allgathers that are carried out together or not at all: a list of results."""
    results: List[np.ndarray[Any, Any]] = synchronize(
        grouped_allgather_async(arrays, name, process_set))
    return results


def _grouped(kind: int, arrays: Sequence[Array], name: Optional[str], options: Options) -> int:
    """A group whose results C allocates."""
    sources = [as_array(array) for array in arrays]
    return _operations.grouped(kind, [_memory(source) for source in sources], None, name, options,
                               lambda i, handle: _result(handle, sources[i].dtype), sources)


def broadcast_async(array: Array, root: int = 0, name: Optional[str] = None, out: Array = None,
                    process_set: Any = 0) -> int:
    """As broadcast, but gives a handle at once."""
    source = as_array(array)
    buffer, result = _target(source, out)
    return _operations.broadcast(_memory(source), _address(buffer), name,
                                 Options(root=root, process_set=set_id(process_set)),
                                 lambda handle, rc: _copied_to(buffer, result), (source, buffer))


def broadcast(array: Array, root: int = 0, name: Optional[str] = None, out: Array = None,
              process_set: Any = 0) -> 'np.ndarray[Any, Any]':
    """The array of rank `root` (of the whole job) on every rank.

    array: equal shape and type everywhere; elsewhere than on root its values do not matter. out: as
    for allreduce.
    """
    result: np.ndarray[Any, Any] = synchronize(broadcast_async(array, root, name, out, process_set))
    return result


def _rows(splits: Any) -> Optional[List[int]]:
    if splits is None:
        return None
    rows = np.asarray(splits)
    if rows.ndim != 1:
        raise _core.submission_error(-22, 'alltoall expects a 1D splits tensor')
    if rows.dtype.kind not in 'iu':
        raise _core.submission_error(
            -22, 'alltoall expects splits to contain 32-bit integer elements.')
    return [int(row) for row in rows]


def alltoall_async(array: Array, splits: Any = None, name: Optional[str] = None,
                   process_set: Any = 0) -> int:
    """As alltoall, but gives a handle at once."""
    source, number = as_array(array), set_id(process_set)

    def finish(handle: int, rc: int) -> Tuple[Any, Any]:
        received = _operations.received_splits(handle, _operations.set_size(number))
        return _result(handle, source.dtype), np.array(received, np.int32)

    return _operations.alltoall(_memory(source), _rows(splits), name, Options(process_set=number),
                                finish, source)


def alltoall(array: Array, splits: Any = None, name: Optional[str] = None,
             process_set: Any = 0) -> Tuple['np.ndarray[Any, Any]', 'np.ndarray[Any, Any]']:
    """Send splits[r] rows (of the first dimension) to rank r, in order; equal parts without splits.

    Returns (the rows received, in the order of ranks; int32 how many from each rank).
    """
    result: Tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] = synchronize(
        alltoall_async(array, splits, name, process_set))
    return result


# ---------------------------------------------------------------------------- agreeing

def barrier_async(process_set: Any = 0) -> int:
    """As barrier, but gives a handle at once."""
    return _operations.barrier(Options(process_set=set_id(process_set)))


def barrier(process_set: Any = 0) -> None:
    """Wait until all ranks have come here."""
    synchronize(barrier_async(process_set))


def join_async() -> int:
    """As join, but gives a handle at once."""
    return _operations.join()


def join() -> int:
    """This rank has no more data: it supplies zeros to the others' allreduces until all ranks have
    joined. Returns the rank that joined last."""
    return int(synchronize(join_async()))
