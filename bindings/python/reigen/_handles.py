# SPDX-License-Identifier: Apache-2.0
"""Handles: operations that have been submitted, and how they are waited for.

A handle is an int. The table holds for each (request, result, keep):
    request  the persistent request that was started, for a plain allreduce: the fast path
    result   what synchronize() gives back
    keep     what must stay alive until then, as C borrows its memory
or (None, pending, None) for all other operations, whose `Pending` knows what to do.

Names: C keeps an operation's name until its end has been seen. A program may never wait for an
operation, and use the name again in its next step, when it has waited for something else; it may
synchronize the first one later still. So an unseen operation holds its name against those that come
before this rank's next wait, whatever it is for: they are refused. Those that come after it start
as soon as the first one has ended. Which of both it is depends on this rank's own calls alone, not
on what the others have done meanwhile, so that all ranks of one program decide alike.

Threads: everything here runs under the GIL, and a wait in C gives it up.
"""
import collections
import ctypes
import errno
import itertools
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from reigen import _core
from reigen._core import AGAIN, EXISTS, SLICE_MS
from reigen._lib import lib, quick
from reigen.errors import HorovodInternalError

_request_wait = lib.reigen_request_wait
_request_test = quick.reigen_request_test

#: C's numbers of the kinds of operations.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = 0, 1, 2, 5, 7
_KINDS = {ALLREDUCE: 'allreduce', ALLGATHER: 'allgather', BROADCAST: 'broadcast',
          ALLTOALL: 'alltoall', REDUCESCATTER: 'reducescatter'}

table: Dict[int, Tuple[Any, Any, Any]] = {}
#: The outcomes of operations whose names have been used again, until somebody asks for them.
told: Dict[int, 'Pending'] = {}
#: The next handle.
numbers = itertools.count(1)
#: Buffers of operations whose waiter was interrupted: C may still write to them.
orphans: List[Any] = []
#: Held while an outcome goes from `table` to `told`, and by who asks for it there.
settling = threading.RLock()
#: Handles that nobody will ask for.
forgotten: Set[int] = set()
#: Handles below were submitted before this rank's last wait ended.
_waited = 0
#: Called while something is waited for, when it has not come at once: what this rank still owes to
#: the others may be what they wait for.
while_waiting: List[Callable[[], None]] = []


class Pending:
    """An operation off the fast path. Subclasses say how it is started and finished."""

    #: Where operations without a name share names in turn: which of these names this one uses.
    slot: Any = None
    #: (kind, process set, names) of one that has names of its own.
    known: Any = None
    #: C has allocated its result, which is copied from and given back.
    allocates = True
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

    def settled(self, rc: int) -> 'Pending':
        """wait() has given rc before anybody has asked for it: what is kept for whoever does, whose
        wait(), error(), result() and release() are called then."""
        text = self.error() if rc < 0 else ''
        result = self.result(rc) if rc >= 0 else None
        self.release()
        return Finished(rc, text, result)


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
    is what C borrows until then; known: see Pending."""

    def __init__(self, submit: Callable[[Any], int], finish: Callable[[int, int], Any],
                 keep: Any = None, known: Any = None):
        self._submit, self._finish, self._keep, self.known = submit, finish, keep, known
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
    """An operation whose turn at a name has not come yet.

    Operations without a name take turns at a fixed set of names, so that the runtime knows them
    again. One that comes while the last user of its name is in flight must not wait here (the other
    ranks may be waiting for what this rank does next): it is started as soon as the name is free.
    """

    def __init__(self, pending: Pending):
        self.pending: Pending = pending
        self.slot = pending.slot
        self.known = pending.known
        self.handle = pending.handle
        self.started = False

    def start(self) -> int:
        try:
            rc = _start(self.pending)
            text = _core.last_error() if rc < 0 else ''
        except HorovodInternalError as error:
            # Whoever starts it now is not who asked for it, and waits for something else.
            rc, text = -error.errno, str(error)
        if rc != EXISTS:
            self.started = True
            if rc < 0:
                self.pending = Finished(rc, text, None)
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

    def settled(self, rc: int) -> Pending:
        return self.pending.settled(rc)


#: The latest handle that has been asked for by poll.
_polled = 0

deferred: Deque[Deferred] = collections.deque()
#: Held while `deferred` changes: starting an operation gives up the GIL.
_deferring = threading.RLock()
#: Under it: start_deferred() runs.
_starting = False


def start_deferred() -> None:
    """Start, in their order, those whose names have become free."""
    global _starting
    with _deferring:
        # A start looks at others, which may be among those that wait.
        if not _starting:
            _starting = True
            try:
                _start_in_order()
            finally:
                _starting = False


def _start_in_order() -> None:
    blocked = set()
    for _ in range(len(deferred)):
        waiting = deferred.popleft()
        turn = waiting.slot or waiting.known
        if turn in blocked or waiting.start() == EXISTS:
            blocked.add(turn)
            deferred.append(waiting)


def must_defer(pending: Pending) -> bool:
    """Another one waits for the same turn or name."""
    with _deferring:
        start_deferred()
        return any(waiting.slot == pending.slot if pending.slot is not None
                   else _share(waiting.known, pending.known) for waiting in deferred)


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
    rc = EXISTS if deferred and must_defer(pending) else _start(pending)
    if rc == EXISTS and (pending.slot is not None or _may_follow(pending)):
        pending = Deferred(pending)
        with _deferring:
            deferred.append(pending)
    elif rc < 0:
        raise _core.submission_error(rc, _in_use(pending) if rc == EXISTS else None)
    table[handle] = (None, pending, None)
    return handle


def _in_use(pending: Pending) -> Optional[str]:
    """Why its name is refused. C's last words may be about another one that was tried just now."""
    if pending.known is None:
        return None
    kind, _, names = pending.known
    more = f' and {len(names) - 1} more' if len(names) > 1 else ''
    return f'{_core.IN_USE} ({_KINDS[kind]}.{names[0]}{more})'


def waited() -> None:
    """This rank's wait for something has ended."""
    global _waited
    _waited = next(numbers)


def forget(handle: int) -> None:
    """Nobody will synchronise: whoever uses the name next starts when this one has ended."""
    if handle in table:
        forgotten.add(handle)
        waited()


def known(kind: int, process_set: int, name: Optional[str]) -> Any:
    """Pending.known of an operation that is no group."""
    return None if name is None else (kind, process_set, (str(name),))


def _share(one: Any, other: Any) -> bool:
    """Two `known`s have a name in common."""
    return (one is not None and other is not None and one[:2] == other[:2]
            and not set(one[2]).isdisjoint(other[2]))


def _last_of(known: Any, started: bool) -> Optional[int]:
    """The handle of the newest operation with one of these names, of those whose end has not been
    seen; started: and that C has been given."""
    for handle, (request, pending, _) in reversed(list(table.items())):
        holder = pending if request is None else request
        if _share(holder.known, known) and not (
                started and isinstance(holder, Deferred) and not holder.started):
            return handle
    return None


def _may_follow(pending: Pending) -> bool:
    """The last operation of this name is from before this rank's last wait."""
    last = None if pending.known is None else _last_of(pending.known, False)
    return last is not None and last < _waited


def _start(pending: Pending) -> int:
    """pending.start(), after what was submitted under its names before this rank's last wait."""
    rc = pending.start()
    while rc == EXISTS and pending.known is not None:
        last = _last_of(pending.known, True)
        if last is None or last >= _waited or not _settle(last):
            break
        rc = pending.start()
    return rc


def _settle(handle: int) -> bool:
    """Where the operation has ended, keep its outcome for whoever asks for it later, and let others
    have its name."""
    entry = table.get(handle)
    if entry is None:
        return True  # another thread has just waited for it
    request, pending, _ = entry
    if request is not None:
        if request.idle():
            request.seen()
        return handle not in table
    # The first look may bring the end, of which the second one tells.
    if not (pending.test() or pending.test()):
        return False
    with settling:
        if table.pop(handle, None) is None:
            return True
        _keep(handle, pending.settled(pending.wait(0)))
    return True


def _keep(handle: int, outcome: Pending) -> None:
    if handle in forgotten:
        forgotten.discard(handle)
        outcome.release()
    else:
        told[handle] = outcome


def tell(handle: int, outcome: Finished) -> None:
    """The operation is over, with this outcome, and its name may be another's. Nothing happens when
    a thread that waited for it has its outcome already."""
    with settling:
        if table.pop(handle, None) is not None:
            _keep(handle, outcome)


def poll(handle: int) -> bool:
    """True when synchronize(handle) would not block; the name is free again then.

    It tells what was known before the call, and only then looks for news. Right after a submission
    it is False, even where another thread has carried out the operation meanwhile. Unknown
    handles: ValueError.
    """
    global _polled
    entry = table.get(handle)
    if entry is None:
        with settling:
            if handle in told:
                return True
        raise ValueError(f'{handle} is not the handle of an operation in flight.')
    if handle > _polled:
        _polled = handle
        if handle == list(table)[-1]:  # in one step, as other threads submit
            help_others()
            return False
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
        return _ask(handle)
    request, result, _ = entry
    if request is None:
        return _synchronize_pending(handle, result)
    try:
        rc = _request_wait(request.ptr, SLICE_MS)
        while rc == AGAIN and handle in table:
            help_others()
            rc = _request_wait(request.ptr, SLICE_MS)
    except BaseException:
        waited()  # perhaps nobody will ask for it again
        raise
    if table.pop(handle, None) is None:
        return _ask(handle)
    if request.handle == handle:
        request.handle = 0
    if table:
        waited()
    if rc < 0:
        raise _core.operation_error(rc, request.error())
    return result


def _synchronize_pending(handle: int, pending: Pending) -> Any:
    try:
        rc = pending.wait(SLICE_MS)
        while rc == AGAIN and handle in table:
            help_others()
            rc = pending.wait(SLICE_MS)
    except BaseException:
        waited()  # perhaps nobody will ask for it again
        raise
    if table.pop(handle, None) is None:
        return _ask(handle)
    if table:
        waited()
    try:
        if rc < 0:
            raise _core.operation_error(rc, pending.error())
        return pending.result(rc)
    finally:
        pending.release()


def _ask(handle: int) -> Any:
    """synchronize() where the outcome is known, or the handle is not."""
    with settling:
        outcome = told.pop(handle, None)
    if outcome is None:
        return None
    rc = outcome.wait(0)
    try:
        if rc < 0:
            raise _core.operation_error(rc, outcome.error())
        return outcome.result(rc)
    finally:
        outcome.release()


def _after_shutdown() -> None:
    """Nothing is in flight any more; who asks for an outcome later is told why there is none."""
    ended = Finished(-errno.ECANCELED, _core.SHUT_DOWN, None)
    for handle in list(table):
        if handle in table:
            table[handle] = (None, ended, None)
    orphans.clear()
    forgotten.clear()
    deferred.clear()


def _after_fork() -> None:
    global _deferring, settling, _starting
    _deferring = threading.RLock()
    settling = threading.RLock()
    _starting = False
    table.clear()
    told.clear()
    orphans.clear()
    forgotten.clear()
    deferred.clear()


_core.after_shutdown.append(_after_shutdown)
_core.after_fork.append(_after_fork)
