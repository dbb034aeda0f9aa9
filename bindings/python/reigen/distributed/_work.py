# SPDX-License-Identifier: Apache-2.0
"""What an operation gives back: c10d's Work.

C borrows the memory of an operation until it is done. A Work keeps it alive; one that is dropped
unseen leaves it to `_orphans`, which are looked at when the next operation starts.

Who waits drives the transfer. A future has nobody who waits, so reigen_on_done completes it: in a
thread of C's, which takes the GIL for it.
"""
import itertools
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.distributed import DistBackendError
from torch._C import _distributed_c10d as c10d

from reigen._core import AGAIN, SLICE_MS, last_error
from reigen._lib import Done as DoneFunction, lib, quick

#: (handles, what C borrows) of those that nobody asks for any more.
_orphans: List[Tuple[Sequence[int], Any]] = []
#: Works whose futures reigen_on_done completes, by the number that C hands back.
_told: Dict[int, 'Pending'] = {}
_numbers = itertools.count(1)


def failure(text: str) -> DistBackendError:
    return DistBackendError(text)


def adopt(handles: Sequence[int], keep: Any) -> None:
    """Nobody will ask for these; their memory is C's until they are done."""
    _orphans.append((handles, keep))


def sweep() -> None:
    """Forget the orphans that are done."""
    left = []
    while _orphans:
        handles, keep = _orphans.pop()
        if all(quick.reigen_poll(handle) != 0 for handle in handles):
            for handle in handles:
                quick.reigen_release(handle)
        else:
            left.append((handles, keep))
    _orphans.extend(left)


class Done(c10d.Work):
    """An operation that was over before its call returned."""

    def __init__(self, outputs: Any = None, source: int = -1):
        super().__init__()
        self._outputs = outputs
        self._source = source

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
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self._outputs)
        return future


#: Of operations that nobody can ask for their outputs.
DONE = Done([])


class Pending(c10d.Work):
    """Operations in flight that are one to the caller.

    handles: C's; keep: what C borrows; outputs: result(); finish: called once when all are done
    well, by whoever sees it first.
    """

    def __init__(self, handles: Sequence[int], keep: Any, outputs: Any, timeout: float,
                 finish: Optional[Callable[[Sequence[int]], None]] = None):
        super().__init__()
        self._handles = handles
        self._keep = keep
        self._outputs = outputs
        self._finish = finish
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._lock = threading.Lock()
        self._over = False
        self._error: Optional[BaseException] = None
        self._future: Optional[torch.futures.Future] = None
        self._open = 0

    # ------------------------------------------------------------------ the end

    def _look(self, rc: int, handle: int) -> None:
        """A handle has ended with rc."""
        if rc < 0 and self._error is None:
            text = quick.reigen_handle_error(handle).decode('utf-8', 'replace')
            self._error = failure(text or last_error())

    def _end(self) -> None:
        """All of them have ended: once, copy what is to be copied and let go of the memory."""
        with self._lock:
            if self._over:
                return
            try:
                if self._error is None and self._finish is not None:
                    self._finish(self._handles)
            except BaseException as error:
                self._error = error
            for handle in self._handles:
                quick.reigen_release(handle)
            self._keep = self._finish = None
            self._over = True

    def _await(self, timeout: Any) -> None:
        deadline = self._deadline
        if timeout is not None and timeout.total_seconds() > 0:
            deadline = min(deadline, time.monotonic() + timeout.total_seconds())
        for handle in self._handles:
            rc = lib.reigen_wait(handle, SLICE_MS)
            while rc == AGAIN:
                if time.monotonic() > deadline:
                    raise failure('Timed out: the operation was not complete within its timeout '
                                  f'of {self._timeout:g} s, as not all ranks of the group have '
                                  'come to it.')
                rc = lib.reigen_wait(handle, SLICE_MS)
            if self._future is None:
                self._look(rc, handle)
        if self._future is None:
            self._end()
        elif not self._over:
            # reigen_on_done's function is at it, perhaps in another thread.
            try:
                self._future.wait()
            except RuntimeError as error:
                self._error = self._error or error

    def __del__(self) -> None:
        if not self._over and self._future is None:
            adopt(self._handles, (self._keep, self._outputs))

    # ------------------------------------------------------------------ c10d's interface

    def wait(self, timeout: Any = None) -> bool:
        if not self._over:
            self._await(timeout)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._over:
            return True
        # The first look may bring the end, of which the second one tells.
        for handle in self._handles:
            if quick.reigen_poll(handle) == 0 and quick.reigen_poll(handle) == 0:
                return False
        try:
            self._await(None)
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

    def get_future(self) -> torch.futures.Future:
        if self._future is not None:
            return self._future
        self._future = future = torch.futures.Future()
        if self._over:
            self._complete()
            return future
        number = next(_numbers)
        _told[number] = self
        self._open = len(self._handles)
        for handle in list(self._handles):
            if lib.reigen_on_done(handle, _on_done, number) < 0:
                _on_done_safe(number, handle, -1)
        return future

    def _complete(self) -> None:
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._outputs)


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
        work._end()
        work._complete()


@DoneFunction
def _on_done(number: int, handle: int, status: int) -> None:
    try:
        _on_done_safe(number, handle, status)
    except BaseException as error:
        # Nobody is there to be told but whoever waits for the future.
        work = _told.pop(number, None)
        if work is not None and work._future is not None and not work._future.done():
            work._future.set_exception(error)


class Many(c10d.Work):
    """Several works that are one to the caller."""

    def __init__(self, works: Sequence[Any], outputs: Any):
        super().__init__()
        self._works = list(works)
        self._outputs = outputs

    def wait(self, timeout: Any = None) -> bool:
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
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
        future: torch.futures.Future = torch.futures.Future()
        outputs = self._outputs

        def done(all_of_them: torch.futures.Future) -> None:
            try:
                all_of_them.value()
                future.set_result(outputs)
            except RuntimeError as error:
                future.set_exception(error)

        torch.futures.collect_all([work.get_future() for work in self._works]).then(done)
        return future
