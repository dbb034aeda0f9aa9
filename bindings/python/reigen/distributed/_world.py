# SPDX-License-Identifier: Apache-2.0
"""Which process set of the runtime a group of torch.distributed is.

The runtime is joined once: by the first group's ranks, over the store, or before by hvd.init() or
Reigen's agent. A group of all its ranks in their order is process set 0. Any other group is a
process set that its members alone make, over the store too; groups of the same ranks share one, as
their operations have names of their own.
"""
import contextlib
import ctypes
import itertools
import json
import os
import threading
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from reigen import _core, _objects
from reigen._lib import lib, quick
from reigen._meeting import Gathering
from reigen.distributed import _p2p
from reigen.distributed._store import Exchanges
from reigen.distributed._work import failure

#: Of what follows: held for moments, and while the runtime is left.
_lock = threading.RLock()
#: Who makes a group holds it, for as long as that takes; groups are ended meanwhile.
_entering = threading.RLock()
#: The global ranks that the runtime's ranks are, in their order; () while no group uses it.
_members: Tuple[int, ...] = ()
#: Reigen was joined for a group, and is left with the last one.
_ours = False
#: It was joined before the first group was made, by join().
_joined = False
#: By global ranks in the group's order: the process set, and the groups that use it.
_sets: Dict[Tuple[int, ...], '_Entry'] = {}
#: All that groups use.
_used: Set['_Entry'] = set()
#: Places that nobody has any more. They are left when the next group is made, if nobody has left
#: them: what ends an object may be called wherever memory is asked for, under any lock.
_orphans: List['Share'] = []
#: What groups that are being made wait in.
_making: Set[Exchanges] = set()
#: What the runtime's ranks have said of themselves for the group of all of them that comes next.
_introduced: List[Dict[str, Any]] = []
_count = itertools.count()


class _Entry:
    def __init__(self, process_set: int):
        self.process_set = process_set
        #: What each of its groups has.
        self.users: Set['Share'] = set()


class Share:
    """A group's part in an entry, by which it is left."""

    def __init__(self, ranks: Tuple[int, ...], entry: _Entry):
        self.ranks, self.entry = ranks, entry


def _forget() -> None:
    global _members, _ours, _joined
    _members, _ours, _joined = (), False, False
    _sets.clear()
    _used.clear()
    _introduced.clear()
    _p2p.close()


def _forked() -> None:
    """In the child of a fork, whose parent goes on."""
    global _lock, _entering, _members, _ours, _joined
    _lock, _entering = threading.RLock(), threading.RLock()
    _members, _ours, _joined = (), False, False
    _sets.clear()
    _used.clear()
    _orphans.clear()
    _making.clear()
    _introduced.clear()
    _p2p.forked()


_core.after_shutdown.append(_forget)
_core.after_fork.append(_forked)


def _by_agent(rank: int, size: int) -> Optional[str]:
    """The job in which Reigen's agent has started this process as this rank."""
    if ('REIGEN_AGENT_SOCKET' not in os.environ or os.environ.get('REIGEN_RANK') != str(rank)
            or os.environ.get('REIGEN_SIZE') != str(size)):
        return None
    return os.environ.get('REIGEN_JOB_ID')


def _about_me(ranks: Tuple[int, ...], rank: int, agent: bool = True) -> Dict[str, Any]:
    known = _sets.get(ranks)
    return {'version': _core.version(), 'ranks': list(ranks),
            'runtime': [_core.rank(), _core.size()] if _core.is_initialized() else None,
            'members': list(_members), 'set': known.process_set if known else None,
            'agent': _by_agent(rank, len(ranks)) if agent else None, 'address': _p2p.listen(),
            'number': next(_count)}


def _same(words: List[Dict[str, Any]], what: str) -> bool:
    return all(word[what] == words[0][what] for word in words)


def _join_runtime(words: List[Dict[str, Any]], exchanges: Exchanges, timeout: float) -> None:
    """Nobody has joined: those of this group do."""
    if words[0]['agent'] and _same(words, 'agent'):
        _core.init(timeout)
        return
    gathering = Gathering(exchanges.rank, exchanges.size, exchanges.exchange)
    try:
        _core.init_meeting(gathering.meeting, timeout, exchanges.stop)
    except _core.HorovodInternalError as error:
        raise failure(str(gathering.failed or error)) from error


def join(timeout: float) -> bool:
    """Join the runtime for the group that comes next, unless it is joined. Whether it is left with
    the last group."""
    global _joined
    with _entering:
        if not _core.is_initialized():
            _core.init(timeout)
            _joined = True
        return _joined


def introduce() -> None:
    """The runtime has been joined: tell all of its ranks of this one, for the group of all of them
    that comes next, which then asks no store. Raises HorovodInternalError when one has died."""
    ranks = tuple(range(_core.size()))
    mine = json.dumps(_about_me(ranks, _core.rank())).encode()
    blobs = _objects.allgather_bytes(mine, 'reigen.distributed.introduction')
    with _lock:
        _introduced[:] = [json.loads(blob) for blob in blobs]


def _attach(ranks: Tuple[int, ...], words: List[Dict[str, Any]], exchanges: Exchanges,
            timeout: float) -> None:
    """The first group: the runtime's ranks get their global ranks."""
    global _members, _ours
    if _same([word['address'] for word in words], 'here'):
        _p2p.leave_network()
    joined = [word['runtime'] is not None for word in words]
    if any(joined) and not all(joined):
        raise failure(f'hvd.init() or reigen.init() has been called on rank '
                      f'{ranks[joined.index(True)]} and not on rank {ranks[joined.index(False)]}: '
                      'either all ranks of a process group call it before, or none does.')
    if not any(joined):
        _ours = True
        _join_runtime(words, exchanges, timeout)
        _members = ranks
        return
    numbers = [word['runtime'][0] for word in words]
    size = words[0]['runtime'][1]
    if sorted(numbers) != list(range(size)):
        raise failure(f'Reigen was initialised before with {size} ranks, and the first process '
                      f'group has {len(ranks)} of them: begin with a group of all ranks.')
    _members = tuple(ranks[numbers.index(i)] for i in range(size))
    _ours = _joined


def _meet(ranks: Tuple[int, ...], exchanges: Exchanges, timeout: float) -> int:
    gathering = Gathering(exchanges.rank, exchanges.size, exchanges.exchange)
    numbers = (ctypes.c_int * len(ranks))(*map(_members.index, ranks))
    process_set = ctypes.c_int()
    rc, text = _core.interruptible(lambda: lib.reigen_process_set_meet(
        ctypes.byref(gathering.meeting), numbers, int(timeout * 1000),
        ctypes.byref(process_set)), 'reigen-process-set', exchanges.stop,
        lambda: lib.reigen_process_set_remove(process_set))
    if rc < 0:
        raise failure(str(gathering.failed or text))
    return process_set.value


def _check(ranks: Tuple[int, ...], words: List[Dict[str, Any]]) -> None:
    if not _same(words, 'version'):
        raise failure('The ranks of the group have different versions of Reigen: '
                      + ', '.join(sorted({word['version'] for word in words})))
    if not _same(words, 'ranks'):
        raise failure('The members of the group have different lists of its ranks.')
    strangers = [rank for rank in ranks if _members and rank not in _members]
    if strangers or not _same(words, 'members'):
        raise failure(f'Ranks {strangers or list(ranks)} were not in the first process group of '
                      'the backend "reigen", of which all later ones are a part: begin with '
                      'one of all ranks.')


class Place:
    """Where a group's operations go. process_set: the runtime's; roots: its ranks' numbers in the
    runtime; peers: their addresses for send and recv; turn: groups of this name there have been;
    number: another one for each group that its first rank makes. share: what leave() gives back;
    the next group to be made does so, if it has not been called when the place is gone."""

    def __init__(self, ranks: Tuple[int, ...], entry: _Entry, words: List[Any], turn: int):
        self.ranks, self.turn, self.share = ranks, turn, Share(ranks, entry)
        self.peers, self.number = [word['address'] for word in words], words[0]['number']
        self.process_set = entry.process_set
        self.roots = [_members.index(rank) for rank in ranks]
        weakref.finalize(self, _orphans.append, self.share).atexit = False


@contextlib.contextmanager
def _exchanging(store: Any, rank: int, size: int, timeout: float) -> Iterator[Exchanges]:
    """Exchanges that end with the group of all ranks. An exception that another thread sets or a
    signal raises leaves no thread behind in them."""
    exchanges = Exchanges(store, rank, size, timeout)
    _making.add(exchanges)
    try:
        yield exchanges
    finally:
        _making.discard(exchanges)
        exchanges.stop()
        with _lock:
            if _members and not _core.is_initialized():
                _forget()  # it was left before this group was one of those that use it


def _end() -> None:
    """No group uses the runtime any more."""
    if _ours:
        _core.shutdown()
    _forget()


@contextlib.contextmanager
def _using() -> Iterator[None]:
    """What was joined for a group is left if that has not come about."""
    try:
        yield
    except BaseException:
        with _lock:
            if (_ours or _members) and not _used:
                _end()
        raise


def _stop_making() -> None:
    """Groups that are being made are of no use any more."""
    for exchanges in list(_making):
        exchanges.stop()


def _process_set(ranks: Tuple[int, ...], words: List[Dict[str, Any]], exchanges: Exchanges,
                 timeout: float) -> int:
    """The runtime's, for a group whose members have said these words."""
    exchanges.check()
    _check(ranks, words)
    if not _members:
        _attach(ranks, words, exchanges, timeout)
    if ranks == _members:
        return 0
    if words[0]['set'] is not None and _same(words, 'set'):
        return words[0]['set']
    return _meet(ranks, exchanges, timeout)


def enter(store: Any, rank: int, ranks: Tuple[int, ...], timeout: float,
          agent: bool = True) -> Place:
    """This process becomes a member, ranks[rank], of a group of these global ranks. agent: if these
    are the ranks that Reigen's agents have started, they may be asked in place of the store."""
    _leave_orphans()
    with _exchanging(store, rank, len(ranks), timeout) as exchanges, _entering, _using():
        exchanges.check()
        if _introduced and not _members and ranks == tuple(range(len(_introduced))):
            words = list(_introduced)
        else:
            blobs = exchanges.exchange(json.dumps(_about_me(ranks, rank, agent)).encode())
            words = [json.loads(blob) for blob in blobs]
        _introduced.clear()
        process_set = _process_set(ranks, words, exchanges, timeout)
        with _lock:
            exchanges.check()
            entry = _sets.get(ranks)
            if entry is None or entry.process_set != process_set:
                entry = _sets[ranks] = _Entry(process_set)
            place = Place(ranks, entry, words, exchanges.turn)
            entry.users.add(place.share)
            _used.add(entry)
            return place


def _leave_orphans() -> None:
    with _lock:
        while _orphans:
            leave(_orphans.pop())


def leave(share: Share) -> None:
    """A group is no more. It may be one of a job that was left before, which has gone with it, or
    one that has been left."""
    with _lock:
        entry = share.entry
        if entry not in _used or share not in entry.users:
            return
        if not entry.process_set and len(entry.users) == 1:
            _stop_making()  # the last group of all ranks
        entry.users.remove(share)
        if not entry.users:
            _used.remove(entry)
            if _sets.get(share.ranks) is entry:
                del _sets[share.ranks]
            if entry.process_set:
                lib.reigen_process_set_remove(entry.process_set)
        if _used:
            return
        _stop_making()
        _end()


def abort(share: Share) -> None:
    """What is in flight ends, on all ranks, with an error. So do groups that are being made. It
    does nothing for a group of a job that was left before."""
    with _lock:
        if share.entry not in _used:
            return
        _stop_making()
        if quick.reigen_is_initialized():
            _core.shutdown()


def error() -> Optional[str]:
    return None if _core.is_initialized() else 'the runtime has been left'
