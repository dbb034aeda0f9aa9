# SPDX-License-Identifier: Apache-2.0
"""The driver's side of elastic jobs: an actor for each slot that discovery finds, again where one
has been lost. reigen/_elastic.py decides which of them are the ranks."""
import contextlib
import itertools
import pickle
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

import ray

import reigen
from horovod.ray._elastic_worker import ElasticHorovodWorker
from horovod.ray.strategy import Share
from reigen import _cells, _elastic, _hub, _member
from reigen import _membership as m
from reigen._frames import unseal
from reigen._run import JobFailed

#: Seconds: between two looks at Ray, and at discovery; left to functions when the job has ended.
_LOOK_S, _DISCOVER_S, _END_S = 0.2, 1.0, 10.0
#: A node that has lost so many workers is given no more of them: reigen/_elastic.py has set the
#: machine aside by then.
_LOSSES_MAX = 3
#: So many ranks a job has at most for which nobody has said how many.
_MOST = 4096
_TIMEOUT, _UNAVAILABLE, _RESET_LIMIT = 124, 69, 78  # exit codes (docs/exit-codes.md)
#: This is said of a worker that Ray killed for memory: its error has no field that says more.
NO_MEMORY = ('Ray killed it, as its node was short of memory. Have fewer workers there, or let Ray '
             'use more of it by RAY_memory_usage_threshold')


class Asked(NamedTuple):
    """Of an elastic job. Times in seconds."""
    share: Share
    discovery: Any
    min_np: int
    max_np: Optional[int]
    timeout: float
    reset_limit: Optional[int]
    verbose: int


def asked(share: Share, discovery: Any, min_np: Any, max_np: Any, timeout: Any, reset_limit: Any,
          verbose: Any) -> Asked:
    """ValueError for numbers that cannot be."""
    least, most = int(min_np), None if max_np is None else int(max_np)
    if least < 1 or (most is not None and most < least):
        raise ValueError(f'{least} to {most} workers: they are numbers of ranks, 1 or more, and '
                         'the second is not the smaller one')
    if not 0 < float(timeout) < 1e9:
        raise ValueError(f'elastic_timeout is {timeout!r}: it is a number of seconds above 0')
    if reset_limit is not None and int(reset_limit) < 0:
        raise ValueError(f'reset_limit is {reset_limit}: it is a number of changes, 0 or more')
    return Asked(share, discovery, least, most, float(timeout), reset_limit, int(verbose or 0))


def _say(text: str) -> None:
    print(f'horovod.ray: {text}', file=sys.stderr, flush=True)


class _Worker(NamedTuple):
    host: str
    actor: Any
    ref: Any


class _Fleet:
    """The actors, by index. An index is used once."""

    def __init__(self, asked: Asked, call: _member.Call, listens: bool, func: Any):
        self._asked, self._arguments = asked, (call, listens, func)
        self._make = ray.remote(ElasticHorovodWorker)
        self._indices = itertools.count()
        self._workers: Dict[int, _Worker] = {}
        self._losses: Dict[str, int] = {}
        self._leaving: Dict[str, int] = {}  # of a node, workers whose slots have gone
        self._next = 0.0
        self.found: Mapping[str, int] = {}
        self._failing = False   # discovery, and it has been said
        self.killed: List[str] = []  # the hosts of workers that Ray killed, as memory was short
        self.results: List[Any] = []
        self.over = False   # a function has ended well: no more are started

    def look(self, give_up: Callable[[int], bool], explain: Callable[[int, str], None]) -> None:
        """See who has ended, and often enough which hosts there are. give_up: is told of a worker
        whose slot has gone, and says whether the job will let one of its node go in its time.
        explain: is told why a worker was lost, where Ray knows it."""
        refs = {worker.ref: index for index, worker in self._workers.items()}
        done, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0) if refs else ([], [])
        for ref in done:
            self._ended(refs[ref], explain)
        if time.monotonic() >= self._next and not self.over:
            self._next = time.monotonic() + _DISCOVER_S
            self.found = self._discover()
            self._match(give_up)

    def _discover(self) -> Mapping[str, int]:
        """What it fails by ends only a job that has no hosts yet."""
        try:
            return self._asked.discovery.find_available_hosts_and_slots()
        except Exception as error:
            if not self.found:
                raise
            if not self._failing:
                _say(f'hosts could not be discovered: {error!r}. The job goes on with those that '
                     'there were')
            self._failing = True
            return self.found

    def _ended(self, index: int, explain: Callable[[int, str], None]) -> None:
        worker = self._workers.pop(index)
        try:
            result = ray.get(worker.ref)
        except Exception as error:
            self._lose(worker.host)
            if isinstance(error, ray.exceptions.OutOfMemoryError):
                self.killed.append(worker.host)
                explain(index, f'it was lost: {NO_MEMORY}')
                _say(f'a worker on {worker.host} was lost: {NO_MEMORY}')
            elif isinstance(error, ray.exceptions.RayTaskError):
                _say(f'a worker on {worker.host} cannot take part: {error}')
            return
        ray.kill(worker.actor)
        if result is not None:
            self.results.append(result)
            self.over = True
        elif not self.over:  # it has been let go
            self._lose(worker.host)

    def _lose(self, host: str) -> None:
        """A worker there has ended: one that was to, or one that cannot take part."""
        if self._leaving.get(host):
            self._leaving[host] -= 1
        else:
            self._losses[host] = self._losses.get(host, 0) + 1

    def losses(self) -> str:
        """How many workers Ray has killed, and why; '' when it has killed none."""
        if not self.killed:
            return ''
        count, last = len(self.killed), self.killed[-1]
        who = f'A worker on {last} was lost' if count == 1 else \
            f'{count} workers were lost, the last one on {last}'
        return f'{who}: {NO_MEMORY}'

    def _match(self, give_up: Callable[[int], bool]) -> None:
        """As many workers on each host as it has slots, in all as many as are asked for."""
        there: Dict[str, List[int]] = {}
        for index, worker in self._workers.items():
            there.setdefault(worker.host, []).append(index)
        for host, indices in there.items():
            for index in indices[self.found.get(host, 0) + self._leaving.get(host, 0):]:
                if give_up(index):
                    self._leaving[host] = self._leaving.get(host, 0) + 1
                else:
                    ray.kill(self._workers.pop(index).actor)
        staying = len(self._workers) - sum(self._leaving.values())
        room = (self._asked.max_np or sys.maxsize) - staying
        for host, slots in self.found.items():
            more = min(slots - len(there.get(host, [])), room)
            if self._losses.get(host, 0) < _LOSSES_MAX:
                for _ in range(more):
                    self._start(host)
                room -= max(more, 0)

    def _start(self, host: str) -> None:
        index = next(self._indices)
        actor = self._make.options(
            num_cpus=self._asked.share.cpus, num_gpus=self._asked.share.gpus,
            resources={f'node:{host}': 0.001}).remote()
        ref = actor.take_part.remote(index, *self._arguments)
        self._workers[index] = _Worker(host, actor, ref)

    def has(self, index: int) -> bool:
        return index in self._workers

    @property
    def size(self) -> int:
        return len(self._workers)

    def end(self) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(Exception):  # Ray has ended
                ray.kill(worker.actor)
        self._workers.clear()


class Run:
    """One call, in the thread that waits for it."""

    def __init__(self, asked: Asked, func: Any, env: Mapping[str, str],
                 callbacks: Sequence[Callable]):
        """func: Ray's reference to it."""
        self._asked, self._callbacks = asked, callbacks
        self._begun = time.monotonic()
        most = asked.max_np or _MOST
        self._hub = _elastic.ElasticHub(most, ray.util.get_node_ip_address())
        self._crew = _elastic.Crew(self._hub, _elastic.Asked(
            asked.min_np, asked.min_np, most, asked.timeout, asked.reset_limit), self._remark)
        self._fleet = _Fleet(asked, _member.Call(self._hub.address, self._hub.key, b'', dict(env)),
                             bool(callbacks), func)

    def _remark(self, text: str) -> None:
        if self._asked.verbose:
            _say(text)

    def _take(self, event: _hub.Event) -> None:
        if event.kind == 'here' and event.fields['version'] != reigen.version():
            self._refuse(event)
        elif event.kind == 'log':
            info = pickle.loads(unseal(self._hub.key, event.data))
            for callback in self._callbacks:
                callback(info)
        elif event.kind == 'deaf':
            raise RuntimeError(f'{self._crew.here} workers are connected, and this program can '
                               f'take no more: {event.fields["why"]}. See ulimit -n and ulimit -u')
        else:
            self._crew.take(event)

    def _refuse(self, event: _hub.Event) -> None:
        """A job that goes on does without one that comes late and cannot take part."""
        why = (f'Reigen is {event.fields["version"]} on {event.fields["host"]} and '
               f'{reigen.version()} here: install the same on all nodes')
        if not self._crew.begun:
            raise RuntimeError(why)
        self._remark(f'a worker is not used: {why}')
        self._hub.tell(event.index, 'release')

    def _wait(self) -> None:
        event = self._hub.events.get(min(_LOOK_S, self._crew.wait_s()))
        while event is not None:
            self._take(event)
            event = self._hub.events.get(0)
        self._crew.coming = self._fleet.size
        self._crew.tick()
        self._fleet.look(self._crew.give_up, self._crew.explain)

    def wait(self) -> List[Any]:
        """What the ranks that ended returned, by rank; raises what went wrong."""
        end = self._begun + self._asked.timeout
        while not self._crew.end:
            self._wait()
            if not self._crew.begun and time.monotonic() > end:
                raise TimeoutError(
                    f'{self._crew.here} of {self._asked.min_np} workers have come within '
                    f'{self._asked.timeout:g} s (elastic_timeout). Hosts that were found, with '
                    f'their slots: {dict(self._fleet.found)}. ' +
                    (self._fleet.losses() or 'Are they free?'))
        well = self._crew.end['cause'] == m.ALL_DONE
        self._fleet.over = True
        self._crew.stop()
        end = time.monotonic() + _END_S
        while self._fleet.size and (time.monotonic() < end or self._owed()):
            self._wait()
        if not well:
            raise self._failure()
        self._crew.check_results([rank for rank, _ in self._fleet.results])
        return [pickle.loads(data) for _, data in sorted(self._fleet.results)]

    def _owed(self) -> bool:
        """Whether Ray still carries a result, which may be a large one."""
        return any(self._fleet.has(index) for index in self._crew.ended_well)

    def _failure(self) -> BaseException:
        crew, end = self._crew, self._crew.end or {}
        tracebacks = {one.rank: _cells.name_cells(one.text) for one in reversed(crew.failed)}
        blamed = crew.blamed()
        rank = blamed.rank if blamed else None
        code, why = 1, '' if blamed else 'all machines are set aside'
        if end['cause'] in (m.TOO_FEW, m.NO_ROOM):
            code = _TIMEOUT if end['waited'] else _UNAVAILABLE
            why = (f'too few ranks for {self._asked.timeout:g} s (elastic_timeout): there is room '
                   f'for {end["has"]}, and it takes {end["needs"]} (min_workers)')
        elif end['cause'] == m.RESET_LIMIT:
            code, why = _RESET_LIMIT, (f'the ranks have changed as often as reset_limit='
                                       f'{self._asked.reset_limit} permits')
        if blamed:
            first = f'rank {blamed.rank} on {blamed.on} failed: {_cells.name_cells(blamed.last)}'
            why = f'{why}\n{first}' if why else first
        return JobFailed(code, why, rank, [] if rank is None else [rank], tracebacks, [],
                         time.monotonic() - self._begun)

    def close(self) -> None:
        self._hub.close()
        self._fleet.end()
        self._crew.close()

