# SPDX-License-Identifier: Apache-2.0
"""What every framework's binding shares: the life cycle, errors, and waiting."""
import atexit
import ctypes
import errno
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from reigen import _stacks, _traceback
from reigen._lib import Epoch, InitOptions, Meeting, Stats, lib, quick
from reigen.errors import HorovodInternalError, InvalidOperationError

#: enum reigen_op
Average, Sum, Adasum, Min, Max, Product = range(6)

#: Of enum reigen_update.
HOSTS_CHANGED, JOB_STOPS, JOB_AT_RISK = 3, 4, 8

#: C waits at most this long before Python may look for signals.
SLICE_MS = 100
AGAIN = -errno.EAGAIN
EXISTS = -errno.EEXIST
BROKEN = -errno.EIO
#: What says that the call was wrong, not that the job has failed.
_REFUSALS = (-errno.EINVAL, EXISTS, -errno.ENOENT, -errno.ENXIO, -errno.ENOSPC)

#: At most so long the end of the process waits for daemon threads, and how often it looks at them.
THREADS_END_S, THREADS_LOOK_S = 2.0, 0.1

#: By who called: a script of Horovod's, or one of reigen's.
NOT_INITIALIZED = {'horovod': 'Horovod has not been initialized; use hvd.init().',
                   'reigen': 'reigen has not been initialized; use reigen.init().'}
IN_USE = ('Requested to allreduce, allgather, or broadcast a tensor with the same name as another '
          'tensor that is currently being processed.  If you want to request another tensor, use '
          'a different tensor name.')
SHUT_DOWN = 'Horovod has been shut down by this rank before the operation was complete.'

#: Called before and after the runtime leaves a job, and in the child of a fork.
before_shutdown: List[Callable[[], None]] = []
after_shutdown: List[Callable[[], None]] = []
after_fork: List[Callable[[], None]] = []

#: Called when this rank has synchronised a join, at which all ranks count the operations of the
#: world that have no name from the start again: those that joined first have counted fewer.
after_join: List[Callable[[], None]] = []

#: Called when a process that has stood apart (stand_apart) takes part in what all ranks do.
after_apart: List[Callable[[], None]] = []
_apart = False

#: Set by who ends this process because it has failed: it then goes without shutdown().
failed = False

_lock = threading.Lock()
_registered = False
#: Threads that have submitted operations, by ident; cleared with each init.
_threads: Dict[int, threading.Thread] = {}


def last_error() -> str:
    return quick.reigen_last_error().decode('utf-8', 'replace')


def not_initialized() -> str:
    """Why nothing works before init, in the words of the package that the caller has called."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get('__name__', '').split('.')[0] == 'reigen':
        frame = frame.f_back
    package = frame.f_globals.get('__name__', '').split('.')[0]
    return NOT_INITIALIZED['horovod' if package == 'horovod' else 'reigen']


def submission_error(rc: int, text: Optional[str] = None) -> HorovodInternalError:
    """The exception for a call that refused to submit an operation (rc < 0)."""
    if rc == -errno.ENOTCONN:
        return InvalidOperationError(not_initialized(), -rc)
    text = text or last_error() or (IN_USE if rc == EXISTS else os.strerror(-rc))
    if rc in _REFUSALS:
        return InvalidOperationError(text, -rc)
    return HorovodInternalError(text, -rc)


def operation_error(rc: int, text: str) -> HorovodInternalError:
    """The exception for an operation that failed after its submission (rc < 0)."""
    if rc == -errno.ENOTCONN:
        rc = -errno.ECANCELED
    if rc == -errno.ECANCELED:
        text = text or SHUT_DOWN
    return HorovodInternalError(text or os.strerror(-rc), -rc)


def lost(error: BaseException) -> bool:
    """Whether that has ended because another rank has died or left."""
    return isinstance(error, HorovodInternalError) and error.errno in (errno.ECONNRESET,
                                                                      errno.ECANCELED)


# ---------------------------------------------------------------------------- life cycle

#: reigen.boot.lent(): what init() calls in place of the launcher's way, with its timeout.
lent_join: Optional[Callable[[Optional[float]], None]] = None
#: Where what is lent is an elastic job: its own epoch() and go_on().
lent_elastic: Optional[Any] = None


def may_grow() -> bool:
    """Whether a job of one rank may have more later: it is elastic."""
    return lent_elastic is not None or os.environ.get('HOROVOD_ELASTIC') == '1'


def init(timeout: Optional[float] = None, comm: Optional[Sequence[int]] = None,
         process_sets: Sequence[Sequence[int]] = ()) -> None:
    """Join the job; blocks until all ranks have come, at most `timeout` seconds.

    comm: ranks of the job that form a world of their own, numbered in this order; every rank of the
    job gives a list that holds it, and lists that differ share no rank. process_sets: lists of
    ranks, as for add_process_set(), equal on all ranks; their numbers are 1, 2, ...
    Does nothing when initialised already. After shutdown() it may be called again, if all ranks do.
    Raises HorovodInternalError that says what failed; ranks that did not come in time are named.
    """
    with _lock:
        if quick.reigen_is_initialized():
            return
        lent = lent_join
        if lent and comm:
            raise InvalidOperationError('init(comm=...) needs a job of a launcher\'s: here give '
                                        'process_sets=, or start fewer ranks', errno.EINVAL)
        ranks = (ctypes.c_int * len(comm))(*comm) if comm else None
        options = InitOptions(int(timeout * 1000) if timeout else 0, ranks,
                              len(comm) if comm else 0)
        if not lent:
            _join_by(lambda: lib.reigen_init(ctypes.byref(options)))
    if lent:
        lent(timeout)
    if process_sets:
        for members in process_sets:
            add_process_set(members)


def epoch() -> Epoch:
    """The present one of an elastic job: its number, from 1 on; whether all ranks begin with the
    state of rank 0; and what the launcher has said of hosts and of the job's end, which it may do
    in other jobs, too. All else is zero there, and before init."""
    if lent_elastic:
        return lent_elastic.epoch()
    now = Epoch()
    quick.reigen_epoch(ctypes.byref(now))
    return now


def go_on(failed: bool, lacks: bool = False) -> None:
    """Tell the launcher of an elastic job that this program goes on with other ranks in the same
    process, by shutdown() and init(). failed: from an older state than the present one; lacks:
    which has nothing of the others' state."""
    if lent_elastic:
        lent_elastic.go_on(failed, lacks)
    else:
        lib.reigen_elastic(2 if failed and lacks else int(failed))


def preemptible() -> bool:
    """Tell the launcher that this program saves its work when it hears that the job stops. Whether
    there is one that says so; False before init."""
    return lib.reigen_preemptible() > 0


#: Somebody wants to know of steps.
_COUNTS = 'REIGEN_CHAOS' in os.environ
#: The commits of hvd.elastic's state are this program's steps, and nothing else is.
_commits = False


def step() -> None:
    """A step of this rank's training has ended: by this number reigen run --chaos lets faults
    happen. hvd.elastic's state.commit() and the DistributedOptimizer of horovod.torch call it; a
    program that has neither calls it itself, as reigen.step()."""
    rc = lib.reigen_step()
    if rc < 0:
        raise submission_error(rc)


def count_commits() -> None:
    """From now on each commit is a step, and an optimizer's step is none."""
    global _commits
    _commits = True


def optimizer_stepped() -> None:
    if _COUNTS and not _commits:
        lib.reigen_step()


def committed() -> None:
    if _COUNTS and _commits:
        lib.reigen_step()


def stand_apart(process_set: int) -> None:
    """In an epoch whose other ranks are at work already: what this process does among all ranks is
    done in that set, of itself alone, and this process is the root of it; until join_in()."""
    global _apart
    rc = lib.reigen_apart(process_set)
    if rc < 0:
        raise submission_error(rc)
    _apart = True


def join_in() -> None:
    """From now on all ranks do the same."""
    global _apart
    if not _apart:
        return
    _apart = False
    lib.reigen_apart(0)
    for callback in (*after_join, *after_apart):
        callback()


def is_root(root: int) -> bool:
    """Whether a broadcast with that root has this process's data."""
    return _apart or rank() == root


def _renumber() -> None:
    """In an elastic job the variables by which a launcher numbers ranks are those of the epoch."""
    number = epoch().number
    if not number:
        return
    places = {'RANK': rank(), 'SIZE': size(), 'LOCAL_RANK': local_rank(),
              'LOCAL_SIZE': local_size(), 'CROSS_RANK': cross_rank(), 'CROSS_SIZE': cross_size()}
    for prefix in ('REIGEN', 'HOROVOD'):
        os.environ.update({f'{prefix}_{name}': str(value) for name, value in places.items()})
    os.environ.update(REIGEN_EPOCH=str(number), RANK=str(rank()), WORLD_SIZE=str(size()),
                      LOCAL_RANK=str(local_rank()), LOCAL_WORLD_SIZE=str(local_size()),
                      GROUP_RANK=str(cross_rank()), ROLE_RANK=str(rank()),
                      ROLE_WORLD_SIZE=str(size()))


def _join_by(call: Callable[[], int], stop: Optional[Callable[[], None]] = None) -> None:
    """What both ways of joining have in common, under the lock. stop: as of interruptible()."""
    global _registered
    signum = _stacks.wanted()
    rc, text = interruptible(call, 'reigen-init', stop, lib.reigen_shutdown)
    if rc < 0:
        raise HorovodInternalError(text or os.strerror(-rc), -rc)
    _threads.clear()
    _renumber()
    _stacks.begin(signum)
    if not _registered:
        _registered = True
        atexit.register(_at_exit)


def init_meeting(meeting: Meeting, timeout: float, stop: Callable[[], None]) -> None:
    """init() of processes that have a way of their own to agree. stop: has the fences fail, and
    does not block; it is called when an exception is raised here meanwhile, which ends the init."""
    with _lock:
        _join_by(lambda: lib.reigen_init_meeting(ctypes.byref(meeting), int(timeout * 1000)), stop)


def interruptible(call: Callable[[], int], name: str, stop: Optional[Callable[[], None]] = None,
                  undo: Optional[Callable[[], Any]] = None) -> Tuple[int, str]:
    """What a call of C gives that may block for minutes, and this thread's error text for it. A
    thread runs it so that Ctrl-C is heard, or an exception that another thread sets here.

    stop: has the call fail soon, and does not block; undo: takes back what it has done. With stop
    such an exception ends the call, which is waited for before it goes on. A second exception does
    not wait. In either case the call is undone by its thread, unless it failed. Without stop the
    thread goes on with the call."""
    outcome: List[Tuple[int, str]] = []
    given_up: List[bool] = []

    def run():
        if given_up:
            return  # before it was seen to be alive
        rc = call()
        if given_up and undo and rc >= 0:
            undo()
        # The text belongs to the thread that failed.
        outcome.append((rc, last_error() if rc < 0 else ''))

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
        _join_in_slices(thread)
    except BaseException:
        if stop:
            given_up.append(True)
            stop()
            _join_in_slices(thread)
        raise
    return outcome[0] if outcome else (-errno.EIO, 'the call ended without a result')


def _join_in_slices(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(SLICE_MS / 1000)


def add_process_set(ranks: Sequence[int]) -> int:
    """Make a set of these ranks and give its number (1, 2, ...), which is equal on all ranks.

    Blocks until all ranks of the job have called it, with equal ranks. Raises
    InvalidOperationError (a ValueError) for wrong ranks, for lists that differ between the ranks
    and for a set that exists; HorovodInternalError when the job has failed.
    """
    members = (ctypes.c_int * len(ranks))(*ranks)
    number = ctypes.c_int()
    rc, text = interruptible(lambda: lib.reigen_process_set_add(
        members, len(members), ctypes.byref(number)), 'reigen-process-set')
    if rc < 0:
        raise submission_error(rc, text)
    return number.value


def shutdown() -> None:
    """Leave the job. Operations in flight fail, here and on the other ranks."""
    global _apart
    with _lock:
        if not quick.reigen_is_initialized():
            return
        for callback in before_shutdown:
            callback()
        lib.reigen_shutdown()
        _apart = False
        for callback in after_shutdown:
            callback()


def note_thread() -> None:
    """This thread submits operations."""
    ident = threading.get_ident()
    if ident not in _threads:
        _threads[ident] = threading.current_thread()


def _let_threads_end() -> None:
    """The interpreter ends daemon threads wherever they are when it ends itself, and a framework's
    C++ does not always survive that. Those whose operations have just been ended by an exception
    get a moment to end by themselves; one that is at the same place twice is left to itself."""
    places: Dict[int, Tuple[int, int]] = {}
    deadline = time.monotonic() + THREADS_END_S
    moving = True
    while moving and time.monotonic() < deadline:
        moving = False
        frames = sys._current_frames()
        for ident, thread in list(_threads.items()):
            frame = frames.get(ident)
            if frame is None or not thread.daemon or not thread.is_alive():
                continue
            place = (id(frame), frame.f_lasti)
            moving = moving or places.get(ident) != place
            places[ident] = place
        del frames
        frame = None
        if moving:
            time.sleep(THREADS_LOOK_S)


def _at_exit() -> None:
    # A rank that ends by an exception that nobody caught has failed: it is its end that the others
    # are told of, and the launcher sees that it came first.
    if not failed and not hasattr(sys, 'last_value'):
        shutdown()
        _let_threads_end()
    _stacks.end()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()
    _threads.clear()
    for callback in after_fork:
        callback()


os.register_at_fork(after_in_child=_forked)
_traceback.install(quick.reigen_failing)


# ---------------------------------------------------------------------------- who am I

def _known(value: int) -> int:
    if value < 0:
        raise ValueError(not_initialized())
    return value


def is_initialized() -> bool:
    return quick.reigen_is_initialized() == 1


def rank() -> int:
    """This process's number among all ranks; ValueError before init, as with the next ones."""
    return _known(quick.reigen_rank())


def size() -> int:
    """How many ranks the job has."""
    return _known(quick.reigen_size())


def local_rank() -> int:
    """This process's number among the ranks of its host."""
    return _known(quick.reigen_local_rank())


def local_size() -> int:
    """How many ranks this host has."""
    return _known(quick.reigen_local_size())


def cross_rank() -> int:
    """The number of this host among those that have this local rank."""
    return _known(quick.reigen_cross_rank())


def cross_size() -> int:
    """How many hosts have this local rank."""
    return _known(quick.reigen_cross_size())


def is_homogeneous() -> bool:
    """True when all hosts have equally many ranks."""
    return _known(quick.reigen_is_homogeneous()) == 1


#: Who asks for bits that are the same in each run.
_determinism: Set[str] = set()


def ask_for_determinism(who: str, on: bool) -> None:
    """One of those who may ask for it does, or does no more; one is enough."""
    (_determinism.add if on else _determinism.discard)(who)
    quick.reigen_deterministic(bool(_determinism))


def deterministic(on: bool = True) -> None:
    """Ask for the same bits in each run of a job on the same hosts, of reductions that are
    submitted from now on; or no longer. All ranks ask alike. REIGEN_DETERMINISTIC=1 and the
    frameworks' own switches do the same. docs/planes.md says what it costs."""
    ask_for_determinism('caller', bool(on))


def version() -> str:
    return quick.reigen_version().decode()


def describe() -> str:
    """What the runtime uses, one line per fact."""
    return quick.reigen_describe().decode()


def stats() -> Dict[str, int]:
    """Counters since init: operations, bytes, wait_ns, busy_ns, cache_hits, fused."""
    counters = Stats()
    rc = quick.reigen_get_stats(ctypes.byref(counters))
    if rc < 0:
        raise ValueError(not_initialized())
    return {name: getattr(counters, name) for name, _ in Stats._fields_}
