# SPDX-License-Identifier: Apache-2.0
"""Handles: operations that have been submitted, and how they are waited for.

A handle is an int. The table holds for each [request, result, keep]:
    request  the persistent request that was started, for a plain allreduce: the fast path
    result   what synchronize() gives back
    keep     what must stay alive until then, as C borrows its memory
or [None, pending, None] for all other operations, whose `Pending` knows what to do. What is settled
becomes the latter in its place.

Names: C says when one may be used again, and starts what stands in line for it (reigen.h, "Names").
Who comes first keeps its handle, and its outcome is there for whoever asks for it later.

Threads: everything here runs under the GIL, and a wait in C gives it up.
"""
import ctypes
import errno
import itertools
import threading
from typing import Any, Callable, Dict, List, Set, Tuple

from reigen import _core
from reigen._core import AGAIN, EXISTS, SLICE_MS
from reigen._lib import lib, quick

_request_wait = lib.reigen_request_wait
_request_test = quick.reigen_request_test

#: C's numbers of the kinds of operations.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = 0, 1, 2, 5, 7
#: When so many operations more are in the table, the outcomes of those that nobody has asked for
#: are taken out of C, but for the newest, whose names C may still have to refuse.
TIDY_AFTER, TIDY_BUT = 1 << 16, 1 << 12

table: Dict[int, List[Any]] = {}
#: The next handle.
numbers = itertools.count(1)
#: Buffers of operations whose waiter was interrupted: C may still write to them.
orphans: List[Any] = []
#: Held while an outcome is put in an operation's place.
settling = threading.RLock()
#: Handles that nobody will ask for.
forgotten: Set[int] = set()
#: Called while something is waited for, when it has not come at once: what this rank still owes to
#: the others may be what they wait for.
while_waiting: List[Callable[[], None]] = []


class Pending:
    """An operation off the fast path. Subclasses say how it is started and finished."""

    #: Operations without a name share names in turn, and this one has such a name: it follows the
    #: last of its turn, whatever this rank has waited for.
    turn = False
    #: C has allocated its result, which is copied from and given back.
    allocates = True
    #: Its outcome stays in C until it is asked for.
    stays = False

    def start(self) -> int:
        """Submit. 0, EXISTS when the name is still in use, or another negative errno."""
        return 0

    def test(self) -> int:
        """Not 0 when wait() would return at once."""
        return 1

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


#: The latest handle that has been asked for by poll.
_polled = 0
#: When the table has more it is tidied.
_crowd = TIDY_AFTER


def help_others() -> None:
    """What a rank does between two slices of a wait."""
    for call in while_waiting:
        call()


# ---------------------------------------------------------------------------- public

def submit(pending: Pending) -> int:
    """Start an operation and give its handle; raises when it is refused."""
    _core.note_thread()
    rc = pending.start()
    while rc == EXISTS and pending.turn:
        waited()
        rc = pending.start()
    if rc < 0:
        raise _core.submission_error(rc)
    handle = next(numbers)
    table[handle] = [None, pending, None]
    if forgotten or len(table) > _crowd:
        _tidy()
    return handle


def waited() -> None:
    """As if this rank's wait for something had ended."""
    quick.reigen_wait_all(0, None, -1)


def forget(handle: int) -> None:
    """Nobody will synchronise: whoever uses the name next starts when this one has ended."""
    if handle in table:
        forgotten.add(handle)
        waited()


def _tidy() -> None:
    global _crowd
    for handle in list(forgotten):
        settle(handle, True)
        entry = table.get(handle)
        if entry is None or isinstance(entry[1], Finished):
            table.pop(handle, None)
            forgotten.discard(handle)
    if len(table) > _crowd:
        _crowd = len(table) + TIDY_AFTER
        for handle in list(table)[:-TIDY_BUT]:
            settle(handle)


def settle(handle: int, last: bool = False) -> None:
    """Where the operation has ended, put its outcome in its place, for whoever asks for it later.
    last: also one whose outcome stays in C, which will have it no longer."""
    with settling:
        entry = table.get(handle) or [None, None, None]
        request, pending, _ = entry
        if request is not None:
            rc = request.wait(0)
            if rc != AGAIN:
                text = request.error() if rc < 0 else ''
                entry[:] = None, Finished(rc, text, pending), None
                # Last, as other threads start a request that has none.
                if request.handle == handle:
                    request.handle = 0
        elif pending is not None and (last or not pending.stays):
            rc = pending.wait(0)
            if rc != AGAIN:
                entry[:] = None, _outcome(pending, rc), None


def _outcome(pending: Pending, rc: int) -> Pending:
    """What wait() has given, and all that is known with it. That there is no memory for a result,
    or no device any more, is for whoever asks for it."""
    if isinstance(pending, Finished):
        return pending
    try:
        return Finished(rc, pending.error() if rc < 0 else '',
                        pending.result(rc) if rc >= 0 else None)
    except Exception as error:
        return Finished(-(getattr(error, 'errno', 0) or errno.EIO), str(error), None)
    finally:
        pending.release()


def poll(handle: int) -> bool:
    """True when synchronize(handle) would not block; the name is free again then.

    It tells what was known before the call, and only then looks for news. Right after a submission
    it is False, even where another thread has carried out the operation meanwhile. Unknown
    handles: ValueError.
    """
    global _polled
    entry = table.get(handle)
    if entry is None:
        raise ValueError(f'{handle} is not the handle of an operation in flight.')
    if handle > _polled:
        _polled = handle
        if handle == list(table)[-1]:  # in one step, as other threads submit
            help_others()
            return False
    request, pending, _ = entry
    if request is not None:
        if _request_test(request.ptr) != 0:
            settle(handle)
            return True
    elif pending.test() != 0:
        return True
    help_others()
    return False


def done(handle: int) -> bool:
    """True when synchronize(handle) would not block. Other than poll() it helps nobody: for what is
    called to help, and calls it for operations that have names of their own and no request."""
    entry = table.get(handle)
    return entry is None or entry[1].test() != 0


def synchronize(handle: int) -> Any:
    """Wait until the operation is done, and give its result; None for an unknown handle.

    Raises HorovodInternalError when it failed. After a KeyboardInterrupt the handle stays valid.
    """
    entry = table.get(handle)
    if entry is None:
        return None
    request, result, _ = entry
    wait, what = (_request_wait, request.ptr) if request is not None else (_wait, result)
    try:
        rc = wait(what, SLICE_MS)
        while rc == AGAIN and handle in table and entry[1] is result:
            help_others()
            rc = wait(what, SLICE_MS)
    except BaseException:
        waited()  # perhaps nobody will ask for it again
        raise
    if request is None:
        with settling:
            if handle in table and entry[1] is not result:  # another thread has settled it,
                return synchronize(handle)
            if table.pop(handle, None) is None:             # or given its result
                return None
        return _result(result, rc)
    text = request.error() if rc < 0 else ''
    # No lock, which takes a tenth of all this: who takes the entry out has it.
    if table.pop(handle, None) is None:
        return None
    if entry[0] is None:
        return _result(entry[1], entry[1].wait(0))
    if request.handle == handle:
        request.handle = 0
    if rc < 0:
        raise _core.operation_error(rc, text)
    return result


def _wait(pending: Pending, timeout_ms: int) -> int:
    return pending.wait(timeout_ms)


def _result(pending: Pending, rc: int) -> Any:
    try:
        if rc < 0:
            raise _core.operation_error(rc, pending.error())
        return pending.result(rc)
    finally:
        pending.release()


def _before_shutdown() -> None:
    """What has ended can be asked for later, when C has forgotten it."""
    for handle in list(table):
        settle(handle, True)


def _after_shutdown() -> None:
    """Nothing is in flight any more; who asks for an outcome later is told why there is none."""
    ended = Finished(-errno.ECANCELED, _core.SHUT_DOWN, None)
    for entry in list(table.values()):
        if not isinstance(entry[1], Finished):
            entry[:] = None, ended, None
    orphans.clear()
    forgotten.clear()


def _after_fork() -> None:
    global settling
    settling = threading.RLock()
    table.clear()
    orphans.clear()
    forgotten.clear()


_core.before_shutdown.append(_before_shutdown)
_core.after_shutdown.append(_after_shutdown)
_core.after_fork.append(_after_fork)
