# SPDX-License-Identifier: Apache-2.0
"""A group's operations on plain memory: their names, the runtime's calls, and waiting.

c10d's operations have no names: they are matched by their order in a group. So the n-th operation
of a kind takes the (n mod RING)-th of the group's names, which is the same on all ranks, and the
runtime compares type, length, reduction and root. A name is known again, so that an operation that
is waited for at once starts a persistent request, with nothing to look up.
"""
import ctypes
import errno
import itertools
import os
import time
from typing import Any, Dict, List, Sequence, Tuple

from reigen import _lib
from reigen._core import AGAIN, EXISTS, SLICE_MS, last_error
from reigen._lib import Options, lib, quick
from reigen._observe import diagnose
from reigen.distributed import _work
from reigen.distributed._work import failure
from reigen.torch import _cores, _device, _switch
from reigen.torch._device import HOST

#: Names that the operations of a kind take turns at; a power of two.
RING = 64
#: Requests that are kept.
CACHE_MAX = 2048

ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = 0, 1, 2, 5, 7
#: enum reigen_op
AVERAGE, SUM, MIN, MAX, PRODUCT = 0, 1, 3, 4, 5
UINT8 = 0

_run = lib.reigen_request_run
_INT32_MAX = 2**31 - 1


class Engine:
    """The operations of one group. roots: its ranks' numbers in the runtime."""

    def __init__(self, name: str, process_set: int, size: int, roots: List[int], timeout: float):
        self.name, self.process_set, self.size, self.roots = name, process_set, size, roots
        self.timeout = timeout
        #: Whether a transfer may go on beside what this rank computes.
        self.overlaps = _cores.overlaps()
        self._turns = {kind: itertools.count()
                       for kind in (ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER)}
        self._requests: Dict[Any, int] = {}
        self._pid = os.getpid()
        #: By kind and turn: the handle that has the name, unless its end has been seen.
        self._holders: Dict[Tuple[int, int], int] = {}
        self._options: Dict[Any, Options] = {}
        self._names = [f'{name}.{turn}'.encode() for turn in range(RING)]

    # ------------------------------------------------------------------ at once

    def run(self, kind: int, code: int, count: int, how: Any, source: int, target: int,
            keep: Any) -> None:
        """An allreduce or broadcast of count elements, and wait. how: (reduction, prescale), or a
        broadcast's root, a place in the group. keep: what the memory is."""
        if _switch.asks() is not _switch.told:
            _switch.tell()
        key = (next(self._turns[kind]) & (RING - 1), kind, code, count, how)
        request = self._requests.get(key) or self._create(key)
        try:
            rc = _run(request, source, target, SLICE_MS)
            if rc == 0:
                return
            self._rest(key, request, rc, source, target)
        except BaseException:
            if not lib.reigen_request_test(request):
                _stuck.append((request, keep))
                self._requests.pop(key, None)
            raise

    def _rest(self, key: Any, request: int, rc: int, source: int, target: int) -> None:
        """The rest of run() where the first slice did not end well."""
        deadline = time.monotonic() + self.timeout
        while rc == EXISTS:
            # The last operation of this name has not ended, or nobody has seen it.
            _sweep_stuck()
            self._release_name(key[1], key[0], deadline)
            rc = _run(request, source, target, SLICE_MS)
        while rc == AGAIN:
            if time.monotonic() > deadline:
                raise self.late(self.timeout)
            rc = lib.reigen_request_wait(request, SLICE_MS)
        if rc < 0:
            text = quick.reigen_request_error(request).decode('utf-8', 'replace') or last_error()
            raise failure(text)

    def _create(self, key: Any) -> int:
        turn, kind, code, count, how = key
        if len(self._requests) >= CACHE_MAX:
            # Those of this turn: no thread is at them, as it would be RING operations late.
            for old in [old for old in self._requests if old[0] == turn]:
                lib.reigen_request_free(self._requests.pop(old))
        shape = ctypes.c_int64(count)
        request = ctypes.c_void_p()
        rc = lib.reigen_request_create(kind, self._names[turn], code, ctypes.addressof(shape), 1,
                                       ctypes.byref(self._how(kind, how)), ctypes.byref(request))
        if rc < 0:
            raise failure(last_error())
        self._requests[key] = request.value
        return request.value

    def late(self, seconds: float) -> Exception:
        """The exception for an operation that has not ended in time; it names who has not come."""
        return failure('Timed out: the operation was not complete within its timeout of '
                       f'{seconds:g} s, as {self._missing()} of the group have not come to it.')

    def _missing(self) -> str:
        if self.process_set:
            return 'some ranks'
        try:
            pending = [p for p in diagnose()['pending'] if f'.{self.name}.' in p['name']]
        except (ValueError, OSError):  # it has been left, or is built without observers
            pending = []
        oldest = max(pending, key=lambda p: p['seconds'], default={'missing': []})
        names = ', '.join(str(rank) for rank in oldest['missing'])
        return f'rank(s) {names}' if names else 'some ranks'

    def __del__(self, free: Any = lib.reigen_request_free, pid: Any = os.getpid) -> None:
        """Free the requests. A group may be ended while another thread waits for one, so this is
        when no thread has the engine any more. A fork's child has none of its parent's."""
        if pid() == self._pid:
            while self._requests:
                free(self._requests.popitem()[1])

    def _how(self, kind: int, how: Any) -> Options:
        options = self._options.get((kind, how))
        if options is None:
            if kind == BROADCAST:
                options = Options(root=self.roots[how], process_set=self.process_set)
            elif how is not None:
                options = Options(how[0], 0, how[1], 1.0, self.process_set)
            else:
                options = Options(process_set=self.process_set)
            self._options[kind, how] = options
        return options

    def _release_name(self, kind: int, turn: int, deadline: float) -> None:
        """Wait until the operation that has a name has ended."""
        holder = self._holders.get((kind, turn), 0)
        rc = lib.reigen_wait(holder, SLICE_MS)
        if rc == AGAIN and time.monotonic() > deadline:
            raise failure(f'Timed out: {RING} operations of the group are in flight, and the first '
                          f'of them was not complete after {self.timeout:g} s.')
        if rc == -errno.EINVAL:
            # A request that has timed out has it.
            if time.monotonic() > deadline:
                raise failure('An operation of this group has timed out before, and has not ended.')
            time.sleep(0.001)

    # ------------------------------------------------------------------ in flight

    def start(self, kind: int, code: int, count: int, how: Any, source: int, target: int,
              index: int = HOST) -> int:
        """As run(), but gives a handle; also for ALLGATHER and REDUCESCATTER of equal parts of
        count elements, to target. index: the CUDA device that the memory is on."""
        turn = next(self._turns[kind]) & (RING - 1)
        handle, shape = ctypes.c_int64(), ctypes.c_int64(count)
        options = ctypes.byref(self._how(kind, how))
        name, ret = self._names[turn], ctypes.byref(handle)
        if kind == ALLREDUCE:
            def call():
                return lib.reigen_allreduce_async(name, source, target, code,
                                                  ctypes.addressof(shape), 1, options, ret)
        elif kind == BROADCAST:
            def call():
                return lib.reigen_broadcast_async(name, source, target, code,
                                                  ctypes.addressof(shape), 1, options, ret)
        else:
            def call():
                return lib.reigen_into_async(kind, name, source, target, code, count, options, ret)
        return self._submit(kind, turn, call, handle, index)

    def exchange(self, code: int, splits: List[int], source: int, index: int = HOST) -> int:
        """An alltoall of so many elements to each rank; its result is the runtime's."""
        if max(splits, default=0) > _INT32_MAX:
            raise failure(f'alltoall: {max(splits)} elements are more than {_INT32_MAX} to a rank')
        turn = next(self._turns[ALLTOALL]) & (RING - 1)
        handle, shape = ctypes.c_int64(), ctypes.c_int64(sum(splits))
        rows = (ctypes.c_int32 * self.size)(*splits)

        def call():
            return lib.reigen_alltoall_async(
                self._names[turn], source, code, ctypes.addressof(shape), 1,
                ctypes.addressof(rows), self.size, ctypes.byref(self._how(ALLTOALL, None)),
                ctypes.byref(handle))

        return self._submit(ALLTOALL, turn, call, handle, index)

    def _submit(self, kind: int, turn: int, call: Any, handle: ctypes.c_int64, index: int) -> int:
        if _switch.asks() is not _switch.told:
            _switch.tell()
        if _work._orphans or _stuck:
            _work.sweep()
            _sweep_stuck()
        if index != HOST:
            call = _device.there(index, call)
        rc = call()
        if rc == EXISTS:
            deadline = time.monotonic() + self.timeout
            while rc == EXISTS:
                _sweep_stuck()
                self._release_name(kind, turn, deadline)
                rc = call()
        if rc < 0:
            raise failure(last_error())
        self._holders[kind, turn] = handle.value
        return handle.value


#: (request, memory) of operations that have timed out.
_stuck: List[Tuple[int, Any]] = []


def _sweep_stuck() -> None:
    for entry in list(_stuck):
        # The first look may bring the end, of which the second one tells.
        if lib.reigen_request_test(entry[0]) != 0 or lib.reigen_request_test(entry[0]) != 0:
            try:
                _stuck.remove(entry)
            except ValueError:
                continue  # another thread has been quicker
            lib.reigen_request_free(entry[0])


def take(handle: int, target: int, counts: Sequence[int], nbytes: int) -> None:
    """Copy what the runtime allocated for a finished alltoall to the caller's memory in the same
    place, nbytes of which are for counts[r] elements from rank r."""
    address, found = ctypes.c_void_p(), ctypes.c_size_t()
    shape, ndim = (ctypes.c_int64 * _lib.NDIM_MAX)(), ctypes.c_int()
    rc = quick.reigen_output(handle, ctypes.byref(address), ctypes.byref(found), shape,
                             ctypes.byref(ndim))
    if rc < 0:
        raise failure(last_error())
    came = (ctypes.c_int32 * len(counts))()
    rc = quick.reigen_received_splits(handle, came, len(counts))
    if rc < 0:
        raise failure(last_error())
    for rank, (some, wanted) in enumerate(zip(came, counts)):
        if some != wanted:
            raise failure(f'rank {rank} of the group has sent {some} elements, and {wanted} were '
                          'expected from it')
    if found.value != nbytes:
        raise failure(f'alltoall: {found.value} bytes have come, and there is room for {nbytes}')
    if nbytes and lib.reigen_output_copy(handle, target, nbytes) < 0:
        raise failure(last_error())
