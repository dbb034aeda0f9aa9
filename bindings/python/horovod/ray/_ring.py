# SPDX-License-Identifier: Apache-2.0
"""The driver's side of workers that are the ranks of one job: they find each other by its hub
(reigen/_hub.py), and when one fails the operations of the others end."""
import pickle
import queue
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

import reigen
from horovod.ray import _elastic
from reigen import _hub, _member
from reigen._frames import unseal

#: Seconds: between two looks at the hub and at Ray; left to the others to end by themselves when a
#: rank has failed, before their operations are ended.
_LOOK_S, _GRACE_S = 0.2, 1.0


def env(extra: Optional[Mapping[str, Any]], settings: Any) -> Dict[str, str]:
    """The variables of the workers."""
    found = {name: str(value) for name, value in (extra or {}).items()}
    nics = getattr(settings, 'nics', None)
    if nics:
        found['HOROVOD_GLOO_IFACE'] = ','.join([nics] if isinstance(nics, str) else nics)
    return found


class Turn:
    """One call of a function on all workers. log: what ranks have said for its callbacks, and None
    by each that is through."""

    def __init__(self) -> None:
        self.log: 'queue.SimpleQueue[Any]' = queue.SimpleQueue()
        self.through = 0
        self.end = float('inf')  # when the others must be through, as a rank has failed


class Ring:
    """Workers that are told to sit() are its ranks, until end()."""

    def __init__(self, size: int, env: Mapping[str, str], grace_s: float = 0):
        """grace_s: when a worker is lost, the others have so long to say themselves that it was,
        before their operations are ended."""
        host = ray.util.get_node_ip_address()
        self._hub = _hub.Hub(size, host)
        self.call = _member.Call(self._hub.address, self._hub.key, b'', dict(env))
        self.broken = False                  # operations have been ended
        self.torn = False                    # a rank could not meet the others
        self.lost: Dict[int, str] = {}       # by rank, the host of a worker that has gone
        self.mismatch = ''                   # why a worker cannot be a rank here
        self._turns: Dict[int, Turn] = {}    # by number, until all ranks are through
        self._changed = threading.Condition()  # of them
        self._ended = False
        self._grace_s, self._stop_at = grace_s, float('inf')
        self._thread = threading.Thread(target=self._watch, daemon=True, name='reigen-ray')
        self._thread.start()

    @property
    def here(self) -> List[int]:
        """The indices of the workers that have come."""
        return self._hub.here

    @property
    def busy(self) -> bool:
        """Whether a function has been called that has not ended on all."""
        return bool(self._turns)

    @property
    def worn(self) -> bool:
        """Its ranks cannot meet each other any more, and another ring is to take its place."""
        return self.broken or (self.torn and not self._turns)

    def seat(self, refs: List[Any], timeout: float) -> List[Any]:
        """What workers return that were told to sit(), by Ray's references to it. Blocks until all
        have come, for at most `timeout` seconds. RuntimeError: one cannot."""
        waiting, end = refs, time.monotonic() + timeout
        while waiting and time.monotonic() < end and not self.mismatch:
            done, waiting = ray.wait(waiting, timeout=_LOOK_S if self.broken else 1.0)
            for ref in done:
                _seated(ref)
        if self.mismatch:
            raise RuntimeError(self.mismatch)
        if waiting:
            raise TimeoutError(
                f'{len(self.here)} of {len(refs)} workers have come within {timeout:g} s '
                '(timeout_s). Is their room free, do their processes start, and can they reach '
                f'this program at {self.call.address[0]}?')
        return ray.get(refs)

    def begin(self, number: int) -> Turn:
        """Workers that are called say that number with what they tell. worn may be true then."""
        turn = Turn()
        with self._changed:
            # What a failed one before has in store for the others may not meet this one.
            self._changed.wait_for(lambda: self.broken or not any(
                one.end < float('inf') for one in self._turns.values()), 2 * _GRACE_S)
            if not self.worn:
                self._turns[number] = turn
        return turn

    # ---------------------------------------------------------------- the thread that watches

    def _watch(self) -> None:
        while not self._ended:
            event = self._hub.events.get(_LOOK_S)
            if event is not None:
                self._take(event)
            with self._changed:
                ends = [self._stop_at, *(turn.end for turn in self._turns.values())]
                late = min(ends) <= time.monotonic()
            if late and not self.broken:
                self.stop()

    def _take(self, event: _hub.Event) -> None:
        if event.kind == 'here':
            self._check(event.fields)
        elif event.kind == 'deaf':
            self.mismatch = (f'{len(self.here)} of {self._hub.size} workers are connected, and '
                             f'this program can take no more: {event.fields["why"]}. See '
                             'ulimit -n and ulimit -u')
        elif event.kind == 'lost' and not self._ended:
            self._lose(event.index)
        elif event.kind in ('failed', 'log', 'through'):
            self._hear(event)

    def _hear(self, event: _hub.Event) -> None:
        number = event.fields['turn']
        turn = self._turns.get(number)
        if turn is None:
            return
        if event.kind == 'failed':
            with self._changed:
                turn.end = min(turn.end, time.monotonic() + _GRACE_S)
        elif event.kind == 'log':
            turn.log.put(unseal(self._hub.key, event.data))
        else:
            self.torn |= event.fields['torn']
            turn.log.put(None)
            turn.through += 1
            if turn.through == self._hub.size:
                with self._changed:
                    del self._turns[number]
                    self._changed.notify_all()

    def _check(self, facts: Mapping[str, Any]) -> None:
        if facts['version'] != reigen.version():
            self.mismatch = (f'Reigen is {facts["version"]} on {facts["host"]} and '
                             f'{reigen.version()} here: install the same on all nodes')

    def _lose(self, index: int) -> None:
        rank = self._hub.rank_of(index)
        if rank is not None:
            self.lost[rank] = self._hub.places[rank]['host']
        self._stop_at = min(self._stop_at, time.monotonic() + self._grace_s)

    # ---------------------------------------------------------------- any thread

    def stop(self) -> None:
        """Operations in flight end, and so do functions that wait for them."""
        with self._changed:
            self.broken = True
            self._changed.notify_all()
        self._hub.stop()

    def end(self) -> None:
        self._ended = True
        self._hub.close()


def _seated(ref: Any) -> None:
    try:
        ray.get(ref)
    except RayTaskError as error:
        raise RuntimeError(f'A worker could not become a rank: {error}') from error
    except OutOfMemoryError as error:
        raise RuntimeError(f'A worker was lost: {_elastic.NO_MEMORY}') from error
    except RayActorError as error:
        raise RuntimeError(f'A worker did not start, or was lost: {error}') from error


def said(turn: Turn, callbacks: Sequence[Callable[[Any], Any]], through: int, size: int,
         seconds: float = 0) -> int:
    """Give the callbacks what ranks have logged; how many of `size` ranks are through, of which so
    many were before. seconds: wait so long for all."""
    end = time.monotonic() + seconds
    while through < size:
        try:
            word = turn.log.get(timeout=max(end - time.monotonic(), 0.001))
        except queue.Empty:
            break
        if word is None:
            through += 1
            continue
        info = pickle.loads(word)
        for callback in callbacks:
            callback(info)
    return through
