# SPDX-License-Identifier: Apache-2.0
"""Handles: operations that have been submitted, and how they are waited for.

A handle is an int. The table holds for each (request, result, keep):
    request  the persistent request that was started, for a plain allreduce: the fast path
    result   what synchronize() gives back
    keep     what must stay alive until then, as C borrows its memory
or (None, pending, None) for all other operations, whose `Pending` knows what to do.

Threads: everything here runs under the GIL, and a wait in C gives it up.
"""
import collections
import ctypes
import errno
import itertools
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Tuple

from reigen import _core
from reigen._core import AGAIN, EXISTS, SLICE_MS
from reigen._lib import lib, quick

_request_wait = lib.reigen_request_wait
_request_test = quick.reigen_request_test

table: Dict[int, Tuple[Any, Any, Any]] = {}
#: The next handle.
numbers = itertools.count(1)
#: Buffers of operations whose waiter was interrupted: C may still write to them.
orphans: List[Any] = []
#: Handles whose synchronize() was interrupted: perhaps nobody will ask for them again.
interrupted: List[int] = []
#: Called while something is waited for, when it has not come at once: what this rank still owes to
#: the others may be what they wait for.
while_waiting: List[Callable[[], None]] = []


class Pending:
    """An operation off the fast path. Subclasses say how it is started and finished."""

    #: Where operations without a name share names in turn: which of these names this one uses.
    slot: Any = None
    #: Its handle, set before start() is called.
    handle = 0

    def start(self) -> int:
        """Submit. 0, EXISTS when the name is still in use, or another negative errno."""
        return 0

    def test(self) -> int:
        """Not 0 when wait() would return at once."""
        return 1

    def seen(self) -> None:
        """poll() has told that it is done: its name may be used again."""

    def wait(self, timeout_ms: int) -> int:
        """AGAIN when not done in time; else the operation's outcome, 0 or more on success."""
        return 0

    def error(self) -> str:
        """Why it failed."""
        return ''

    def result(self, rc: int) -> Any:
        """What synchronize() gives back; called once, after success."""

    def release(self) -> None:
        """Forget the operation in C; called once it is done, or nobody will wait for it."""


class Finished(Pending):
    """An operation that is over: its outcome was collected before anybody asked for it."""

    def __init__(self, rc: int, text: str, result: Any):
        self._rc, self._text, self._result = rc, text, result

    def wait(self, timeout_ms: int) -> int:
        return self._rc

    def error(self) -> str:
        return self._text

    def result(self, rc: int) -> Any:
        return self._result


class Operation(Pending):
    """One operation of C. submit(ret_handle) starts it; finish(handle, rc) makes its result; keep
    is what C borrows until then."""

    def __init__(self, submit: Callable[[Any], int], finish: Callable[[int, int], Any],
                 keep: Any = None):
        self._submit, self._finish, self._keep = submit, finish, keep
        self._handle = ctypes.c_int64()

    def start(self) -> int:
        return self._submit(ctypes.byref(self._handle))

    def test(self) -> int:
        return quick.reigen_poll(self._handle)

    def wait(self, timeout_ms: int) -> int:
        return lib.reigen_wait(self._handle, timeout_ms)

    def error(self) -> str:
        return quick.reigen_handle_error(self._handle).decode('utf-8', 'replace')

    def result(self, rc: int) -> Any:
        return self._finish(self._handle.value, rc)

    def release(self) -> None:
        quick.reigen_release(self._handle)


# ---------------------------------------------------------------------------- deferred starts

class Deferred(Pending):
    """An operation whose turn at a shared name has not come yet.

    Operations without a name take turns at a fixed set of names, so that the runtime knows them
    again. One that comes while the last user of its name is in flight must not wait here (the other
    ranks may be waiting for what this rank does next): it is started as soon as the name is free.
    """

    def __init__(self, pending: Pending):
        self.pending: Pending = pending
        self.slot = pending.slot
        self.handle = pending.handle
        self.started = False

    def start(self) -> int:
        rc = self.pending.start()
        if rc != EXISTS:
            self.started = True
            if rc < 0:
                self.pending = Finished(rc, _core.last_error(), None)
        return rc

    def test(self) -> int:
        start_deferred()
        return self.pending.test() if self.started else 0

    def seen(self) -> None:
        self.pending.seen()

    def wait(self, timeout_ms: int) -> int:
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            start_deferred()
            if self.started:
                return self.pending.wait(timeout_ms)
            if time.monotonic() >= deadline:
                return AGAIN
            time.sleep(0.0005)

    def error(self) -> str:
        return self.pending.error()

    def result(self, rc: int) -> Any:
        return self.pending.result(rc)

    def release(self) -> None:
        self.pending.release()


deferred: Deque[Deferred] = collections.deque()
#: Held while `deferred` changes: starting an operation gives up the GIL.
_deferring = threading.RLock()


def start_deferred() -> None:
    """Start, in their order, those whose names have become free."""
    blocked = set()
    with _deferring:
        for _ in range(len(deferred)):
            waiting = deferred.popleft()
            if waiting.slot in blocked or waiting.start() == EXISTS:
                blocked.add(waiting.slot)
                deferred.append(waiting)


def must_defer(slot: Any) -> bool:
    with _deferring:
        start_deferred()
        return any(waiting.slot == slot for waiting in deferred)


def help_others() -> None:
    """What a rank does between two slices of a wait."""
    if deferred:
        start_deferred()
    for call in while_waiting:
        call()


# ---------------------------------------------------------------------------- public

def submit(pending: Pending) -> int:
    """Start an operation and give its handle; raises when it is refused."""
    _core.note_thread()
    pending.handle = handle = next(numbers)
    if pending.slot is not None and deferred and must_defer(pending.slot):
        rc = EXISTS
    else:
        rc = pending.start()
        if rc == EXISTS and interrupted and _look_again():
            rc = pending.start()
    if rc == EXISTS and pending.slot is not None:
        pending = Deferred(pending)
        with _deferring:
            deferred.append(pending)
    elif rc < 0:
        raise _core.submission_error(rc)
    table[handle] = (None, pending, None)
    return handle


def _look_again() -> bool:
    """What was interrupted and has ended meanwhile gives its name free; True when something did."""
    ended = [handle for handle in interrupted if handle not in table or poll(handle)]
    interrupted[:] = [handle for handle in interrupted if handle not in ended]
    return bool(ended)


def forget(handle: int) -> None:
    """Nobody will synchronise: the name is free once the operation has ended."""
    entry = table.pop(handle, None)
    if entry is None:
        return
    orphans.append(entry)
    request, pending, _ = entry
    if request is None:
        pending.release()
    else:
        request.handle = 0


def poll(handle: int) -> bool:
    """True when synchronize(handle) would not block; the name is free again then.

    It tells what was known before the call, and only then looks for news: right after a submission
    it is False. Unknown handles: ValueError.
    """
    entry = table.get(handle)
    if entry is None:
        raise ValueError(f'{handle} is not the handle of an operation in flight.')
    request, pending, _ = entry
    if request is not None:
        if _request_test(request.ptr) != 0:
            request.seen()
            return True
    elif pending.test() != 0:
        pending.seen()
        return True
    help_others()
    return False


def synchronize(handle: int) -> Any:
    """Wait until the operation is done, and give its result; None for an unknown handle.

    Raises HorovodInternalError when it failed. After a KeyboardInterrupt the handle stays valid.
    """
    entry = table.get(handle)
    if entry is None:
        return None
    request, result, _ = entry
    if request is None:
        return _synchronize_pending(handle, result)
    try:
        rc = _request_wait(request.ptr, SLICE_MS)
        while rc == AGAIN:
            help_others()
            rc = _request_wait(request.ptr, SLICE_MS)
    except BaseException:
        interrupted.append(handle)
        raise
    del table[handle]
    request.handle = 0
    if rc < 0:
        raise _core.operation_error(rc, request.error())
    return result


def _synchronize_pending(handle: int, pending: Pending) -> Any:
    try:
        rc = pending.wait(SLICE_MS)
        while rc == AGAIN:
            help_others()
            rc = pending.wait(SLICE_MS)
    except BaseException:
        interrupted.append(handle)
        raise
    del table[handle]
    try:
        if rc < 0:
            raise _core.operation_error(rc, pending.error())
        return pending.result(rc)
    finally:
        pending.release()


def _after_shutdown() -> None:
    """Nothing is in flight any more; who asks for an outcome later is told why there is none."""
    ended = Finished(-errno.ECANCELED, _core.SHUT_DOWN, None)
    for handle in list(table):
        if handle in table:
            table[handle] = (None, ended, None)
    orphans.clear()
    interrupted.clear()
    deferred.clear()


def _after_fork() -> None:
    global _deferring
    _deferring = threading.RLock()
    table.clear()
    orphans.clear()
    interrupted.clear()
    deferred.clear()


_core.after_shutdown.append(_after_shutdown)
_core.after_fork.append(_after_fork)
