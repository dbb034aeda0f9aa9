# SPDX-License-Identifier: Apache-2.0
"""Allreduce of one tensor: the fast path, over persistent requests.

The first allreduce of a name, type, shape and operation makes a request; the next ones find it in
a dict and only pass two pointers to C. Operations without a name take turns at RING names, on every
rank in the same order, and so find their requests too.
"""
import ctypes
import itertools
import sys
from typing import Any, Dict, Iterator, List, Optional

import torch

from reigen import _core, _handles, _lib
from reigen._core import AGAIN, EXISTS, SLICE_MS
from reigen.torch import _device, _switch, _tensor

#: Names that operations without a name take turns at; a power of two.
RING = 128
_MASK = RING - 1
#: Requests that are kept; the oldest one that is idle makes room.
CACHE_MAX = 4096

_run = _lib.lib.reigen_request_run
_start = _lib.lib.reigen_request_start
_table = _handles.table
_numbers = _handles.numbers
_empty_like = torch.empty_like
_asks = _switch.asks

#: By process set: how many operations without a name there have been.
_unnamed: Dict[int, Iterator[int]] = {0: itertools.count()}


def _turn(process_set: int) -> int:
    """Which of the shared names the next operation without one uses in this process set."""
    try:
        return next(_unnamed[process_set]) & _MASK
    except KeyError:
        return next(_unnamed.setdefault(process_set, itertools.count())) & _MASK


def _forget_turns() -> None:
    _unnamed.clear()
    _unnamed[0] = itertools.count()


class Request:
    """A persistent request of the runtime. handle: who started it and has not synchronised."""

    __slots__ = ('ptr', 'handle')

    def __init__(self, ptr: int):
        self.ptr = ptr
        self.handle = 0

    def wait(self, timeout_ms: int) -> int:
        return _lib.quick.reigen_request_wait(self.ptr, timeout_ms)

    def error(self) -> str:
        return _lib.quick.reigen_request_error(self.ptr).decode('utf-8', 'replace')

    def idle(self) -> bool:
        # The first look may bring the end, of which the second one tells.
        test = _lib.quick.reigen_request_test
        return test(self.ptr) != 0 or test(self.ptr) != 0

    def free(self) -> None:
        if self.ptr:
            _lib.lib.reigen_request_free(self.ptr)
            self.ptr = 0


_requests: Dict[Any, Request] = {}
#: Taken out of _requests, and not freed yet as another thread may be about to use them.
_gone: List[Request] = []


def _free_gone() -> None:
    """Free those that nothing but their list refers to."""
    for _ in range(len(_gone)):
        request = _gone.pop(0)
        # Ours, and that of the call.
        if sys.getrefcount(request) > 2:
            _gone.append(request)
        else:
            request.free()


class _Plain(_handles.Operation):
    """An allreduce off the fast path: on a GPU, for which there are no persistent requests, of a
    tensor that is copied, or under a name that has been used and not been waited for. It has the
    same names as those on the fast path, so that ranks whose tensors are in different places are
    told so."""

    allocates = False

    def __init__(self, key, tensor, out):
        name, _, _, op, prescale, postscale, process_set = key
        self.turn = isinstance(name, int)
        self._name = _text(name)
        self.source = _tensor.row_major(tensor)
        self._address, self._code, _ = _tensor.describe(self.source)
        self._shape = _tensor.shape_of(self.source)
        self._options = _lib.Options(op, 0, prescale, postscale, process_set)
        if out is None:
            self.target = self._out = _tensor.like(self.source)
        else:
            self._out = out
            self.target = (self.source if out is tensor else
                           out if _tensor.is_plain(out) else _tensor.like(out))
        self._handle = ctypes.c_int64()

    def start(self) -> int:
        return _lib.lib.reigen_allreduce_async(
            self._name, self._address, self.target.data_ptr(), self._code,
            ctypes.addressof(self._shape), len(self._shape), ctypes.byref(self._options),
            ctypes.byref(self._handle))

    def result(self, rc: int) -> torch.Tensor:
        if self.target is not self._out:
            with torch.no_grad():
                self._out.copy_(self.target)
        return self._out


def _submit(key, tensor: torch.Tensor, out: Optional[torch.Tensor]) -> int:
    """Start an allreduce off the fast path, wherever its tensors are, and give its handle."""
    _tensor.check(tensor)
    index = _device.HOST
    if not tensor.is_cpu or not (out is None or out.is_cpu):
        index = _device.common([tensor] if out is None else [tensor, out])
    elif not 0 <= key[3] <= _core.Product:
        raise ValueError(f'{key[3]} is not a reduction; use Average, Sum, Adasum, Min, Max or '
                         'Product.')
    pending = _Plain(key, tensor, out)
    handle = _device.submit(pending, index, (pending.source, pending.target))
    request = _requests.get(key)
    if request is None:
        if index == _device.HOST and not tensor.is_complex():
            _create(key, pending.source)
    elif request.handle:
        _handles.settle(request.handle)
    return handle


def _text(name) -> bytes:
    """What C knows an allreduce by: its name or, of one without, the one whose turn it is."""
    return (f'noname.{name}' if isinstance(name, int) else name).encode()


def _create(key, tensor: torch.Tensor) -> None:
    """Make a request for the next one like this. Complex tensors have none: they may be conjugated
    by a mark, for which the fast path does not look."""
    name, _, _, op, prescale, postscale, process_set = key
    if len(_requests) >= CACHE_MAX:
        _make_room()
    _, code, _ = _tensor.describe(tensor)
    shape = _tensor.shape_of(tensor)
    ptr = ctypes.c_void_p()
    options = _lib.Options(op, 0, prescale, postscale, process_set)
    # What is refused now, for want of memory or at the job's end, is asked for again.
    if _lib.lib.reigen_request_create(0, _text(name), code, ctypes.addressof(shape), len(shape),
                                      ctypes.byref(options), ctypes.byref(ptr)) == 0:
        _requests[key] = Request(ptr.value)


def _make_room() -> None:
    for key in list(_requests)[:CACHE_MAX // 4]:
        request = _requests[key]
        if not request.handle and request.idle():
            _gone.append(_requests.pop(key))
    request = None
    _free_gone()


def allreduce(tensor: torch.Tensor, out: Optional[torch.Tensor], name: Optional[str], op: int,
              prescale: float, postscale: float, process_set: int = 0) -> torch.Tensor:
    """Reduce over all ranks and wait. out: where to (may be tensor itself), None: a new tensor."""
    if _asks() is not _switch.told:
        _switch.tell()
    try:
        key: Any = (_turn(process_set) if name is None else
                    name if name.__class__ is str else str(name),
                    tensor.dtype, tensor.shape, op, prescale, postscale, process_set)
    except AttributeError:
        raise _tensor.refusal(tensor) from None
    request = _requests.get(key)
    if (request is None or request.handle or not tensor.is_cpu
            or not tensor.is_contiguous() or tensor.is_neg()
            or (out is not None and out is not tensor)):
        return _handles.synchronize(_submit(key, tensor, out))
    if out is None:
        out = _empty_like(tensor)
    try:
        rc = _run(request.ptr, tensor.data_ptr(), out.data_ptr(), SLICE_MS)
        if rc == 0:
            return out
        return _finish(request, rc, key, tensor, out)
    except BaseException:
        if not request.idle():
            _handles.orphans.append((tensor, out))
            _handles.waited()
        raise


def _finish(request: Request, rc: int, key, tensor, out) -> torch.Tensor:
    """The rest of allreduce() where the first slice did not end well."""
    if rc == EXISTS:
        return _handles.synchronize(_submit(key, tensor, out))
    started = rc == AGAIN
    while rc == AGAIN:
        _handles.help_others()
        rc = _lib.lib.reigen_request_wait(request.ptr, SLICE_MS)
    if rc == 0:
        return out
    text = request.error()
    if started or text:
        raise _core.operation_error(rc, text)
    raise _core.submission_error(rc)


def allreduce_async(tensor: torch.Tensor, out: Optional[torch.Tensor], name: Optional[str],
                    op: int, prescale: float, postscale: float, process_set: int = 0) -> int:
    """As allreduce, but gives a handle at once."""
    if _asks() is not _switch.told:
        _switch.tell()
    try:
        key: Any = (_turn(process_set) if name is None else
                    name if name.__class__ is str else str(name),
                    tensor.dtype, tensor.shape, op, prescale, postscale, process_set)
    except AttributeError:
        raise _tensor.refusal(tensor) from None
    request = _requests.get(key)
    if (request is None or request.handle or not tensor.is_cpu
            or not tensor.is_contiguous() or tensor.is_neg()
            or (out is not None and out is not tensor)):
        return _submit(key, tensor, out)
    if out is None:
        out = _empty_like(tensor)
    rc = _start(request.ptr, tensor.data_ptr(), out.data_ptr())
    if rc:
        if rc == EXISTS:
            return _submit(key, tensor, out)
        raise _core.submission_error(rc)
    handle = next(_numbers)
    _table[handle] = [request, out, tensor]
    request.handle = handle
    return handle


def _after_shutdown() -> None:
    """What was in flight has been ended by the runtime."""
    while _requests:
        _gone.append(_requests.popitem()[1])
    _free_gone()
    _forget_turns()


def _after_fork() -> None:
    """In the child the requests are not ours to free."""
    for request in (*_requests.values(), *_gone):
        request.ptr = 0
    _requests.clear()
    _gone.clear()
    _forget_turns()


def _after_join() -> None:
    _unnamed[0] = itertools.count()


_core.after_join.append(_after_join)
_core.after_shutdown.append(_after_shutdown)
_core.after_apart.append(_after_shutdown)
_core.after_fork.append(_after_fork)
