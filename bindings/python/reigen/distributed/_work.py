# SPDX-License-Identifier: Apache-2.0
"""What an operation gives back: c10d's Work.

C borrows the memory of an operation until it is done. A Work keeps it alive; one that is dropped
unseen stays in `_orphans`, which are looked at when the next operation starts.

A Work has a half in C++, which can wait for nothing without the half in Python. PyTorch keeps the
former alone in places: DDP's reducer waits so for the operation of its join. So the latest Works
that nobody in Python has any more stay in `_dropped`, without their memory.

Who waits drives the transfer. A future has nobody who waits, so reigen_on_done says when it is
done: in a thread of C's, which takes the GIL for it. What the user has hung onto the future runs in
a thread of its own, as it may wait for further operations, which that thread of C's has to drive.
Where the ranks fill the cores, these threads come late, as each has to wait for a core: there, who
asks for a future drives the transfer for a while, as long as the ranks may be apart.
"""
import collections
import itertools
import queue
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence

import torch
from torch.distributed import DistBackendError
from torch._C import _distributed_c10d as c10d

from reigen import _core
from reigen._core import AGAIN, SLICE_MS, last_error
from reigen._lib import Done as DoneFunction, lib, quick

#: Works in flight that nobody asks for any more.
_orphans: List['Pending'] = []
#: Works that are over; see above.
_dropped: Deque[c10d.Work] = collections.deque(maxlen=64)
#: Works whose futures reigen_on_done completes, by the number that C hands back.
_told: Dict[int, 'Pending'] = {}
_numbers = itertools.count(1)
#: How long who asks for a future drives an operation, where no core is idle.
_DRIVE_US = 10000
#: How often the deadlines of futures are looked at, and how many idle threads are kept for them.
_LOOK_S, _IDLE_MAX = 0.5, 2


def failure(text: str) -> DistBackendError:
    return DistBackendError(text)


def write(target: torch.Tensor, source: torch.Tensor) -> None:
    """Elements in a row, complex ones as two numbers, to a tensor of any strides."""
    with torch.no_grad():
        if target.is_complex() and not source.is_complex():
            source = torch.view_as_complex(source.view(*target.shape, 2))
        target.copy_(source.view(target.shape))


def tensors_in(several: Any) -> Iterator[torch.Tensor]:
    if isinstance(several, torch.Tensor):
        yield several
    elif isinstance(several, (tuple, list)):
        for one in several:
            yield from tensors_in(one)


def new_future(outputs: Any) -> torch.futures.Future:
    """One that knows the devices of what it will hold."""
    devices = {tensor.device for tensor in tensors_in(outputs) if tensor.is_cuda}
    return torch.futures.Future(devices=list(devices)) if devices else torch.futures.Future()


class Promise:
    """A future, and how it ends.

    An exception that torch.futures' set_exception leaves is in C++ a value like any other: DDP's
    reducer takes it for the bucket's tensors, and the process ends. The error of a callback is one
    in C++ as well. So the future that others have is what a callback of another one makes.
    """

    def __init__(self, outputs: Any = None):
        self._error: Optional[BaseException] = None
        self._first = new_future(outputs)
        self.future = self._first.then(self._settle)

    def _settle(self, first: torch.futures.Future) -> Any:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return first.value()

    def keep(self, value: Any) -> None:
        """It ends with that value. This or fail() is called once."""
        self._first.set_result(value)

    def fail(self, error: BaseException) -> None:
        """It ends with that error, for C++ and for Python."""
        self._error = error
        self._first.set_result(None)


def sweep() -> None:
    """End the orphans that are done."""
    left = []
    while _orphans:
        work = _orphans.pop()
        if not work.end_if_done():
            left.append(work)
    _orphans.extend(left)


class Done(c10d.Work):
    """An operation that was over before its call returned."""

    def __init__(self, outputs: Any = None, source: int = -1):
        super().__init__()
        self._outputs = outputs
        self._source = source

    def __del__(self, drop: Any = _dropped.append) -> None:
        self._outputs = None
        drop(self)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._outputs

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        future = new_future(self._outputs)
        future.set_result(self._outputs)
        return future


#: Of operations that nobody can ask for their outputs.
DONE = Done([])


class Pending(c10d.Work):
    """Operations in flight that are one to the caller.

    handles: C's; keep: what C borrows; outputs: result(); engine: the group's; finish: called once
    when all are done well, by whoever sees it first.
    """

    def __init__(self, handles: Sequence[int], keep: Any, outputs: Any, engine: Any,
                 finish: Optional[Callable[[Sequence[int]], None]] = None):
        super().__init__()
        self._handles = handles
        self._keep = keep
        self._outputs = outputs
        self._finish = finish
        self._engine = engine
        self._timeout = engine.timeout
        self._deadline = time.monotonic() + self._timeout
        self._lock = threading.Lock()
        self._over = False
        self._error: Optional[BaseException] = None
        self._promise: Optional[Promise] = None
        self._open = 0
        self._completed = False
        self._event: Any = None

    # ------------------------------------------------------------------ the end

    def _look(self, rc: int, handle: int) -> None:
        """A handle has ended with rc."""
        if rc < 0 and self._error is None:
            text = quick.reigen_handle_error(handle).decode('utf-8', 'replace')
            self._error = failure(text or last_error())

    def _end(self, told: bool = False) -> None:
        """All of them have ended: once, copy what is to be copied and let go of the memory. Where
        there is a future, who is told of the end does it."""
        with self._lock:
            if self._over or (self._promise is not None and not told):
                return
            try:
                if self._error is None and self._finish is not None:
                    self._finish(self._handles)
            except BaseException as error:
                self._error = error
            self._over = True
            for handle in self._handles:
                quick.reigen_release(handle)
            self._keep = self._finish = None

    def _await(self, timeout: Any) -> None:
        limit, deadline = self._timeout, self._deadline
        if timeout is not None and timeout.total_seconds() > 0:
            limit = min(limit, timeout.total_seconds())
            deadline = min(deadline, time.monotonic() + limit)
        for handle in self._handles:
            rc = lib.reigen_wait(handle, SLICE_MS)
            while rc == AGAIN:
                if time.monotonic() > deadline:
                    raise self._engine.late(limit)
                rc = lib.reigen_wait(handle, SLICE_MS)
            if self._promise is None and not self._over:
                self._look(rc, handle)
        self._end()

    def end_if_done(self) -> bool:
        """For an orphan, for which somebody may wait in C++ at the same time."""
        codes = [quick.reigen_poll(handle) for handle in self._handles]
        if 0 in codes and not self._over:
            return False
        if not self._over:
            for rc, handle in zip(codes, self._handles):
                self._look(rc, handle)
            self._end()
        self._outputs = None
        _dropped.append(self)
        return True

    def __del__(self, drop: Any = _dropped.append, adopt: Any = _orphans.append) -> None:
        if self._over or self._promise is not None:
            self._outputs = None
            drop(self)
        else:
            adopt(self)

    def tell_end(self, event: Any) -> None:
        """A profiler's event ends with it (reigen/distributed/_events.py)."""
        self._event = event
        self.end_part(event)

    def end_part(self, event: Any) -> None:
        event.end_with(self._handles)

    # ------------------------------------------------------------------ c10d's interface

    def wait(self, timeout: Any = None) -> bool:
        if not self._over:
            self._await(timeout)
        if self._event is not None:
            self._event.wait()
        if self._promise is not None and not self._promise.future.done():
            # Others are at it; this is about the end, and _error tells how it was.
            try:
                self._promise.future.wait()
            except RuntimeError as error:
                self._error = self._error or error
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._over or self._completed:
            return True
        # The first look may bring the end, of which the second one tells.
        for handle in self._handles:
            if quick.reigen_poll(handle) == 0 and quick.reigen_poll(handle) == 0:
                return False
        try:
            self.wait()
        except RuntimeError as error:
            self._error = self._error or error
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> Any:
        return self._outputs

    def source_rank(self) -> int:
        raise RuntimeError('source_rank() is for operations that receive from any rank.')

    _source_rank = source_rank

    def _drive(self) -> None:
        """A bounded wait: who waits for others by other means than this operation goes on."""
        end = time.monotonic() + _DRIVE_US / 1e6
        codes = []
        for handle in self._handles:
            left = max(0, int((end - time.monotonic()) * 1e6))
            codes.append(lib.reigen_wait_us(handle, left))
            if codes[-1] == AGAIN:
                return
        for rc, handle in zip(codes, self._handles):
            self._look(rc, handle)
        self._end()

    def get_future(self) -> torch.futures.Future:
        if self._promise is None and not self._over and not self._engine.overlaps:
            self._drive()
        with self._lock:
            if self._promise is not None:
                return self._promise.future
            self._promise = Promise(self._outputs)
            future = self._promise.future
            over = self._over
        if over:
            self.complete()
            return future
        number = next(_numbers)
        _told[number] = self
        self._open = len(self._handles)
        for handle in list(self._handles):
            if lib.reigen_on_done(handle, _on_done, number) < 0:
                _on_done_safe(number, handle, -1)
        if not self._over:
            _watch.need()
        return future

    def _told_of_end(self) -> None:
        """In a thread of C's."""
        self._end(told=True)

    def complete(self) -> None:
        """Tell those who have the future, as far as nobody has; their functions run in it."""
        with self._lock:
            if self._completed:
                return
            self._completed = True
        if self._event is not None and self._error is None:
            self._event.wait()
        if self._error is not None:
            self._promise.fail(self._error)
        else:
            self._promise.keep(self._outputs)

    def expire(self) -> None:
        """Nobody waits for it, and it is late: say so. It stays in C's hands until it is done."""
        if time.monotonic() > self._deadline and not self._over and not self._completed:
            self._error = self._error or self._engine.late(self._timeout)
            _tellers.complete(self)


class _Tellers:
    """Threads that complete futures, in turn. One more is made when all of them are busy, as each
    may be waiting for another future."""

    def __init__(self) -> None:
        self._queue: 'queue.SimpleQueue[Pending]' = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def complete(self, work: Pending) -> None:
        with self._lock:
            more = self._idle == 0
            self._idle -= not more
        self._queue.put(work)
        if more:
            threading.Thread(target=self._run, daemon=True, name='reigen-futures').start()

    def _run(self) -> None:
        idle = True
        while idle:
            work = self._queue.get()
            work.complete()
            del work
            with self._lock:
                idle = self._idle < _IDLE_MAX
                self._idle += idle


class _Watch:
    """A thread that looks at the deadlines of futures, as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there = False

    def need(self) -> None:
        with self._lock:
            there, self._there = self._there, True
        if not there:
            threading.Thread(target=self._run, daemon=True, name='reigen-deadlines').start()

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            for work in list(_told.values()):
                work.expire()
            work = None
            with self._lock:
                if not _told:
                    self._there = False
                    return


_tellers, _watch = _Tellers(), _Watch()


def _forked() -> None:
    global _tellers, _watch
    _tellers, _watch = _Tellers(), _Watch()
    _told.clear()


_core.after_fork.append(_forked)


def _on_done_safe(number: int, handle: int, status: int) -> None:
    work = _told.get(number)
    if work is None:
        return
    with work._lock:
        work._look(status, handle)
        work._open -= 1
        last = work._open == 0
    if last:
        _told.pop(number, None)
        work._told_of_end()
        _tellers.complete(work)


@DoneFunction
def _on_done(number: int, handle: int, status: int) -> None:
    try:
        _on_done_safe(number, handle, status)
    except BaseException as error:
        # Nobody is there to be told but whoever waits for the future.
        work = _told.pop(number, None)
        if work is not None and work._promise is not None and not work._promise.future.done():
            work._promise.fail(error)


class Many(c10d.Work):
    """Several works that are one to the caller."""

    def __init__(self, works: Sequence[Any], outputs: Any):
        super().__init__()
        self._works = list(works)
        self._outputs = outputs
        self._event: Any = None

    def __del__(self, drop: Any = _dropped.append) -> None:
        self._outputs = None
        for work in self._works:
            if isinstance(work, Pending) and work._over:
                work._outputs = None
        drop(self)

    def tell_end(self, event: Any) -> None:
        self._event = event
        self.end_part(event)

    def end_part(self, event: Any) -> None:
        works = [work for work in self._works if hasattr(work, 'end_part')]
        event.split(len(works))
        for work in works:
            work.end_part(event)

    def wait(self, timeout: Any = None) -> bool:
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        if self._event is not None:
            self._event.wait()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Optional[BaseException]:
        return next((work.exception() for work in self._works if work.exception()), None)

    def result(self) -> Any:
        return self._outputs

    def get_future(self) -> torch.futures.Future:
        promise = Promise(self._outputs)
        outputs = self._outputs

        def done(all_of_them: torch.futures.Future) -> None:
            try:
                for one in all_of_them.value():
                    one.value()
            except RuntimeError as error:
                promise.fail(error)
            else:
                promise.keep(outputs)

        torch.futures.collect_all([work.get_future() for work in self._works]).then(done)
        return promise.future
