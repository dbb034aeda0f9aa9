# SPDX-License-Identifier: Apache-2.0
"""A process that a cluster has placed for an elastic job: it is a rank of one epoch after another,
and its function is called again where all begin anew (reigen/_elastic.py is the other side)."""
import itertools
import os
import queue
import signal
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from reigen import _core, _member, boot
from reigen._lib import Epoch

#: Joins in a row that fail though nobody has left: the ranks do not reach each other.
_TRIES = 3
#: Seconds for all to call init(), in an epoch in which each has a process.
_LOAD_S = 86400.0


class Broken(RuntimeError):
    """One of the epoch has gone before all were there."""


class Result(NamedTuple):
    """Of a function that ended well."""
    rank: int
    epoch: int
    data: bytes  # pickled


class _Way(_member._Way):
    """The line to the program that decides who the ranks are, and what it says of the epochs."""

    def __init__(self, call: _member.Call, index: int, facts: Mapping[str, Any]):
        self._epochs: 'queue.Queue[Optional[Dict[str, Any]]]' = queue.Queue()
        self._broken, self._attempt = 0, 0
        self._now = Epoch()
        self.rank = -1
        self._failed = self._lacks = self._is_elastic = False
        super().__init__(call, index, facts)

    def _hear(self, fields: Dict[str, Any], data: bytes) -> None:
        kind = fields['kind']
        if kind == 'start':
            self._attempt = fields['place']['attempt']
            self._epochs, self.stopped = queue.Queue(), False
            self._now, self._epoch = Epoch(), 0
            super()._hear(fields, data)
        elif kind == 'epoch':
            self._now = Epoch(fields['epoch'], fields['sync'], 0, 0)
            self._epochs.put(fields)
        elif kind == 'broken':
            self._broken = fields['epoch']
            self._gathered.put(({}, b''))  # who waits looks at it
        elif kind == 'update' and fields['epoch'] == self._now.number:
            self._now.update |= fields['update']
            self._now.stamp = fields['stamp']
        elif kind == 'kill':
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == 'release':
            self.started.put(None)
        elif kind == 'stop':
            if fields['attempt'] == self._attempt:
                self._leave()
        else:
            super()._hear(fields, data)

    def _leave(self) -> None:
        super()._leave()
        self._epochs.put(None)

    def begin(self, place: Mapping[str, Any]) -> None:
        """The function is about to be called; nothing of a call before it is left."""
        self._left()
        self.heard.clear()
        self.rank = place['rank']
        self._failed = self._lacks = self._is_elastic = False

    # --- what init() and hvd.elastic call -----------------------------------------------------

    def join(self, limit: Optional[float]) -> None:
        """Into the next epoch, which may be long in coming."""
        tries = 0
        while True:
            place = self._next_epoch()
            try:
                self.gather(b'', _LOAD_S)  # who has begun in this epoch may have much to load
                self.meet(place['rank'], place['size'], limit)
                self.rank, self._failed = place['rank'], False
                return
            except (Broken, _core.HorovodInternalError):
                self._failed = True
                tries = 0 if self._broken >= self._epoch else tries + 1
                if tries == _TRIES:
                    raise

    def _next_epoch(self) -> Mapping[str, Any]:
        self._gathered = queue.Queue()
        self.line.send('meets', epoch=self._epoch, failed=self._failed, lacks=self._lacks)
        place = None if self.stopped else self._epochs.get()
        if place is None:
            raise _member.Gone('the job has ended, or begins anew')
        self._epoch, self._turns = place['epoch'], itertools.count()
        return place

    def _check(self) -> None:
        if self._broken >= self._epoch:
            raise Broken('a rank has gone')

    def epoch(self) -> Epoch:
        return self._now

    def go_on(self, failed: bool, lacks: bool) -> None:
        if not self._is_elastic:
            self._is_elastic = True
            self.line.send('elastic')
        self._failed |= failed
        self._lacks = lacks


def until_well(way: _Way, work: Callable[[Mapping[str, Any]], _member.Outcome]) -> Optional[bytes]:
    """Be a rank as long as the job has use for this process, by one call of work() with its place
    after another, until one ends well: what that returned, pickled; None if none did. The way is
    closed then."""
    try:
        while (place := way.started.get()) is not None:
            way.begin(place)
            end = work(place)
            if end.well:
                return end.data
    except OSError:  # nobody is there who would be told
        pass
    finally:
        way.close()
    return None


def take_part(index: int, call: _member.Call, facts: Mapping[str, Any],
              begin: Callable[[], Any]) -> Optional[Result]:
    """As of reigen._member.take_part(), for as many ranks as until_well() says."""
    way = _member.connect(_Way, call, index, facts)

    def work(place: Mapping[str, Any]) -> _member.Outcome:
        begin()
        return _member.work(way, place, call, boot.lending(way.join, way))
    data = until_well(way, work)
    return None if data is None else Result(way.rank, way._epoch, data)
