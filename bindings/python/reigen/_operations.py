# SPDX-License-Identifier: Apache-2.0
"""The collectives on plain memory: what arrays and objects of every kind come down to.

A `Memory` says where a dense, row-major tensor lies. Each function submits one operation (or one
group) and gives its handle, for _handles.poll and synchronize; `finish(handle, rc)` makes the
result of what C allocated, `keep` is what must stay alive until then. All raise
InvalidOperationError when C refuses the submission.
"""
import ctypes
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from reigen import _core, _handles, _types
from reigen._lib import NDIM_MAX, Options, lib, quick

#: enum reigen_kind
ALLREDUCE, ALLGATHER, BROADCAST, REDUCESCATTER = 0, 1, 2, 7

#: Gives the result of an operation: (C's handle, what reigen_wait returned) -> result.
Finish = Callable[[int, int], Any]


class Memory(NamedTuple):
    """A dense, row-major tensor: address in bytes, enum reigen_dtype, elements per dimension."""

    address: int
    dtype: int
    shape: Tuple[int, ...]


#: What starts an operation and gives its handle: _handles.submit, or what does more around it.
Submit = Callable[[_handles.Pending], int]

#: A Memory, or the same three as a plain tuple, which is made faster.
Source = Tuple[int, int, Sequence[int]]


def set_id(process_set: Any) -> int:
    """The number of a process set: an int, an object with `process_set_id`, or None for all."""
    if process_set is None:
        return 0
    number = getattr(process_set, 'process_set_id', process_set)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError('Process set provided does not exist, or has not been registered.')
    return number


def set_size(process_set: int) -> int:
    """How many ranks the process set has."""
    if process_set == 0:
        return _core.size()
    size = int(quick.reigen_process_set_size(process_set))
    if size < 0:
        raise _core.submission_error(size)
    return size


def _name(name: Optional[str]) -> Optional[bytes]:
    return None if name is None else str(name).encode()


def _shape(shape: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(shape))(*shape)


def allreduce(source: Source, target: int, name: Optional[str], options: Options, finish: Finish,
              keep: Any, submit: Submit = _handles.submit) -> int:
    """Reduce source over all ranks, to the memory at target."""
    address, dtype, dims = source
    shape = _shape(dims)
    return submit(_handles.Operation(
        lambda ret_handle: lib.reigen_allreduce_async(
            _name(name), address, target, dtype, ctypes.addressof(shape), len(shape),
            ctypes.byref(options), ret_handle), finish, keep))


def broadcast(source: Source, target: int, name: Optional[str], options: Options, finish: Finish,
              keep: Any, submit: Submit = _handles.submit) -> int:
    """The source of rank options.root, to the memory at every rank's target."""
    address, dtype, dims = source
    shape = _shape(dims)
    return submit(_handles.Operation(
        lambda ret_handle: lib.reigen_broadcast_async(
            _name(name), address, target, dtype, ctypes.addressof(shape), len(shape),
            ctypes.byref(options), ret_handle), finish, keep))


def allgather(source: Source, name: Optional[str], options: Options, finish: Finish,
              keep: Any, submit: Submit = _handles.submit) -> int:
    """Concatenate the ranks' sources along the first dimension."""
    address, dtype, dims = source
    shape = _shape(dims)
    return submit(_handles.Operation(
        lambda ret_handle: lib.reigen_allgather_async(
            _name(name), address, dtype, ctypes.addressof(shape), len(shape),
            ctypes.byref(options), ret_handle), finish, keep))


def reducescatter(source: Source, name: Optional[str], options: Options, finish: Finish,
                  keep: Any, submit: Submit = _handles.submit) -> int:
    """Reduce, and keep this rank's part of the first dimension."""
    address, dtype, dims = source
    shape = _shape(dims)
    return submit(_handles.Operation(
        lambda ret_handle: lib.reigen_reducescatter_async(
            _name(name), address, dtype, ctypes.addressof(shape), len(shape),
            ctypes.byref(options), ret_handle), finish, keep))


def alltoall(source: Source, splits: Optional[Sequence[int]], name: Optional[str],
             options: Options, finish: Finish, keep: Any, submit: Submit = _handles.submit) -> int:
    """Send splits[r] rows to rank r (None: equal parts), receive what the others have."""
    address, dtype, dims = source
    shape = _shape(dims)
    rows = None if splits is None else (ctypes.c_int32 * len(splits))(*splits)
    return submit(_handles.Operation(
        lambda ret_handle: lib.reigen_alltoall_async(
            _name(name), address, dtype, ctypes.addressof(shape), len(shape),
            None if rows is None else ctypes.addressof(rows), 0 if rows is None else len(rows),
            ctypes.byref(options), ret_handle), finish, keep))


def barrier(options: Options) -> int:
    """Done when all ranks have submitted theirs."""
    return _handles.submit(_handles.Operation(
        lambda ret_handle: lib.reigen_barrier_async(ctypes.byref(options), ret_handle),
        lambda handle, rc: None))


def join() -> int:
    """This rank has no more data; the result is the rank that joined last."""
    return _handles.submit(_handles.Operation(lib.reigen_join_async, joined))


def joined(handle: int, rc: int) -> int:
    """The rank that joined last, of a join that has ended."""
    for callback in _core.after_join:
        callback()
    return rc - 1


def output(handle: int) -> Tuple[int, int, Tuple[int, ...]]:
    """(address, nbytes, shape) of what C allocated for a finished operation, until its release."""
    address, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
    shape, ndim = (ctypes.c_int64 * NDIM_MAX)(), ctypes.c_int()
    rc = quick.reigen_output(handle, ctypes.byref(address), ctypes.byref(nbytes), shape,
                             ctypes.byref(ndim))
    if rc < 0:
        raise _core.operation_error(rc, '')
    return address.value or 0, nbytes.value, tuple(shape[:ndim.value])


def received_splits(handle: int, size: int) -> List[int]:
    """The rows that a finished alltoall received from each of `size` ranks."""
    splits = (ctypes.c_int32 * size)()
    rc = quick.reigen_received_splits(handle, splits, size)
    if rc < 0:
        raise _core.operation_error(rc, '')
    return list(splits)


# ---------------------------------------------------------------------------- groups

class Group(_handles.Pending):
    """Operations of one kind and element type that are carried out together or not at all.

    A subclass submits them in start, to `_count` places of `_handles`, and makes their result.
    """

    _count: int
    _handles: Any

    def test(self) -> int:
        return int(all(quick.reigen_poll(handle) for handle in reversed(self._handles)))

    def wait(self, timeout_ms: int) -> int:
        return lib.reigen_wait_all(self._count, self._handles, timeout_ms)

    def error(self) -> str:
        texts = (quick.reigen_handle_error(handle) for handle in self._handles)
        return next((text.decode('utf-8', 'replace') for text in texts if text), '')

    def release(self) -> None:
        quick.reigen_release_all(self._count, self._handles)


class _Memories(Group):
    """A group on plain memory."""

    def __init__(self, kind: int, name: Optional[str], sources: Sequence[Memory],
                 targets: Optional[Sequence[int]], options: Options,
                 finish: Callable[[int, int], Any], keep: Any):
        self._kind, self._count, self._options = kind, len(sources), options
        self._finish, self._keep = finish, keep
        count, pointers = self._count, ctypes.c_void_p * len(sources)
        self._names = None
        if name is not None:
            names = [f'{name}_{i + 1}of{count}' for i in range(count)]
            self._names = (ctypes.c_char_p * count)(*[n.encode() for n in names])
        self._ins = pointers(*[source.address for source in sources])
        self._outs = None if targets is None else pointers(*targets)
        self._dtype = sources[0].dtype
        self._arrays = [_shape(source.shape) for source in sources]
        self._shapes = pointers(*map(ctypes.addressof, self._arrays))
        self._ndims = (ctypes.c_int * count)(*map(len, self._arrays))
        self._handles = (ctypes.c_int64 * count)()

    def start(self) -> int:
        return lib.reigen_grouped_async(self._kind, self._count, self._names, self._ins,
                                        self._outs, self._dtype, self._shapes, self._ndims,
                                        ctypes.byref(self._options), self._handles)

    def result(self, rc: int) -> List[Any]:
        return [self._finish(i, handle) for i, handle in enumerate(self._handles)]


class Parts(_handles.Pending):
    """A group of several element types: one group of C for each."""

    def __init__(self, parts: List[Tuple[List[int], int]], count: int):
        self._parts, self._count = parts, count

    def test(self) -> int:
        return int(all(_handles.poll(handle) for _, handle in self._parts))

    def wait(self, timeout_ms: int) -> int:
        for _, handle in self._parts:
            entry = _handles.table.get(handle)
            if entry is not None and entry[1].wait(timeout_ms) == _core.AGAIN:
                return _core.AGAIN
        return 0

    def result(self, rc: int) -> List[Any]:
        results: List[Any] = [None] * self._count
        failure = None
        for places, handle in self._parts:
            try:
                for place, result in zip(places, _handles.synchronize(handle)):
                    results[place] = result
            except _core.HorovodInternalError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return results


def grouped(kind: int, sources: Sequence[Memory], targets: Optional[Sequence[int]],
            name: Optional[str], options: Options, finish: Callable[[int, int], Any],
            keep: Any) -> int:
    """A group of allreduces (with targets), allgathers or reducescatters (without).

    finish(i, handle) gives the result of member i; the group's result is the list of them. Members
    of different element types are as many groups, whose names end in the type's.
    """
    if not sources:
        raise ValueError('A group needs at least one tensor.')
    dtypes = sorted({source.dtype for source in sources}, key=_types.name_of)
    if len(dtypes) == 1:
        return _handles.submit(_Memories(kind, name, sources, targets, options, finish, keep))
    parts = []
    for dtype in dtypes:
        places = [i for i, source in enumerate(sources) if source.dtype == dtype]
        own_name = name and f'{name}.{_types.name_of(dtype)}'
        part = _Memories(kind, own_name, [sources[i] for i in places],
                      None if targets is None else [targets[i] for i in places], options,
                      lambda i, handle, places=places: finish(places[i], handle), keep)
        parts.append((places, _handles.submit(part)))
    return _handles.submit(Parts(parts, len(sources)))
