# SPDX-License-Identifier: Apache-2.0
"""RayExecutor: actors of Ray's as the ranks of one job. Ray places them, carries functions and
results, and shows what they print; Reigen connects them."""
import copyreg
import functools
import importlib
import itertools
import re
import sys
import time
import types
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

from horovod.ray import _elastic, _elastic_worker, _ring, strategy
from horovod.ray.discovery import RayHostDiscovery
from horovod.ray.worker import BaseHorovodWorker
from reigen import _core, _member, _unsent
from reigen._run import JobFailed

#: Seconds: between two looks at a call that is waited for by more than Ray; left to ranks whose
#: operations have been ended; left to workers to leave the job at its end.
_LOOK_S, _END_S, _LEAVE_S = 0.1, 10.0, 5.0
#: How Horovod called them before.
_OLD = {'num_slots': 'num_workers_per_host', 'cpus_per_slot': 'cpus_per_worker',
        'gpus_per_slot': 'gpus_per_worker'}


def __getattr__(name: str) -> Any:
    if name == 'Coordinator':  # which ray.train.horovod imports
        raise ImportError('ray.train.horovod needs Horovod\'s own servers, which Reigen has not. '
                          'Import HorovodTrainer and HorovodConfig from horovod.ray.train')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


@dataclass
class MiniSettings:
    """What RayExecutor.create_settings() makes; any object with some of these will do. ssh_* say
    nothing here."""
    nics: Any = None
    verbose: int = 1
    timeout_s: float = 30
    placement_group_timeout_s: float = 100
    ssh_port: Optional[int] = None
    ssh_identity_file: Optional[str] = None
    ssh_str: Optional[str] = None
    elastic: bool = False


def _share(cpus: float, use_gpu: bool, gpus: Optional[float]) -> strategy.Share:
    if gpus and not use_gpu:
        raise ValueError(f'gpus_per_worker is {gpus}, and use_gpu is False: they are given with '
                         'use_gpu=True')
    if use_gpu and gpus is not None and (gpus < 1 or gpus != int(gpus)):
        raise ValueError(f'gpus_per_worker is {gpus}: it is a whole number, 1 or more')
    if cpus < 0:
        raise ValueError(f'cpus_per_worker is {cpus}: it is not negative')
    return strategy.Share(cpus, (gpus or 1) if use_gpu else 0)


def _nothing() -> None:
    """The object of who has given no class."""


def _know_modules() -> None:
    """Have modules of a class of their own, such as torch.backends.cudnn, pickled by their names,
    as Ray has others: functions name them often."""
    kinds = {type(module) for module in list(sys.modules.values())
             if isinstance(module, types.ModuleType)} - {types.ModuleType}
    for kind in kinds:
        if kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__:
            copyreg.pickle(kind, lambda module: (importlib.import_module, (module.__name__,)))


def _count(name: str, value: Any) -> int:
    if int(value) != value or value < 1:
        raise ValueError(f'{name} is {value!r}: it is a whole number, 1 or more')
    return int(value)


def _follows(error: BaseException) -> bool:
    """Whether a rank failed because another one had."""
    cause = getattr(error, 'cause', None)
    return cause is not None and (_core.lost(cause) or isinstance(cause, _member.Gone))


class _Workers:
    """Actors by rank, the room that Ray has given them, and the ring in which they sit."""

    def __init__(self, room: strategy.Room, share: strategy.Share, count: int, settings: Any,
                 env: Mapping[str, str]):
        self._room, self._env = room, env
        self._timeout = float(getattr(settings, 'timeout_s', 30))
        self._turns = itertools.count(1)
        self._begun = time.monotonic()
        make = ray.remote(BaseHorovodWorker)
        self.actors = [make.options(num_cpus=share.cpus, num_gpus=share.gpus,
                                    **room.options(index)).remote() for index in range(count)]
        self.places: List[Dict[str, Any]] = []
        self.dead = ''  # why no function can be called any more
        self._ring = _ring.Ring(count, self._env)

    # ---------------------------------------------------------------- their start

    def sit(self) -> None:
        """Make ranks of them. Blocks until all have come, for at most the settings' time."""
        refs = [actor.sit.remote(self._ring.call, index, self._timeout)
                for index, actor in enumerate(self.actors)]
        places = self._ring.seat(refs, self._timeout)
        order = [(place['rank'], place, actor) for place, actor in zip(places, self.actors)]
        self.places = [place for _, place, _ in sorted(order, key=lambda one: one[0])]
        self.actors = [actor for _, _, actor in sorted(order, key=lambda one: one[0])]

    def share_gpus(self) -> None:
        """Each rank sees all GPUs that the ranks of its machine have, its own at its local rank, as
        scripts expect that set a device by hvd.local_rank()."""
        seen: Dict[str, List[str]] = {}
        for place in self.places:
            seen.setdefault(place['machine'], []).extend(place['gpus'])
        ray.get([actor.update_env_vars.remote(
            {'CUDA_VISIBLE_DEVICES': ','.join(seen[place['machine']])})
            for place, actor in zip(self.places, self.actors)])

    def _renew(self) -> None:
        """Operations have been ended, and their ranks are no job any more: make another one."""
        self._ring.end()
        self._ring = _ring.Ring(len(self.actors), self._env)
        self.sit()

    # ---------------------------------------------------------------- calls

    def _check(self) -> None:
        if self.dead or self._ring.lost:
            why = self.dead or ', '.join(f'rank {rank} on {host} was lost'
                                         for rank, host in sorted(self._ring.lost.items()))
            raise RuntimeError(f'{why}: shutdown() and start() make other workers')
        if self._ring.worn:
            self._renew()

    def call(self, how: str, func: Any, listens: bool = False) -> Tuple[List[Any], _ring.Turn]:
        """Call it on all; Ray's references by rank, and what the ring hears of them."""
        self._check()
        number = next(self._turns)
        turn = self._ring.begin(number)
        if self._ring.worn:
            self._check()
            turn = self._ring.begin(number)
        return [actor.act.remote(number, listens, how, func) for actor in self.actors], turn

    def settle(self, refs: List[Any], turn: _ring.Turn,
               callbacks: Sequence[Callable[[Any], Any]]) -> List[Any]:
        """What all have returned; raises what went wrong, when all have ended."""
        size, through = len(refs), 0
        errors: Dict[int, BaseException] = {}
        after: List[int] = []  # ranks that failed when operations had been ended
        waiting, end = list(refs), float('inf')
        try:
            while waiting and time.monotonic() < end:
                broken = self._ring.broken
                done, waiting = ray.wait(waiting, timeout=_LOOK_S if callbacks or errors else None)
                through = _ring.said(turn, callbacks, through, size) if callbacks else 0
                for rank, error in ((refs.index(ref), _error_of(ref)) for ref in done):
                    if error is not None:
                        errors[rank] = error
                        after += [rank] if broken else []
                if broken and end == float('inf'):
                    end = time.monotonic() + _END_S
            if callbacks and not errors:
                _ring.said(turn, callbacks, through, size, _END_S)
        except BaseException:  # an interrupt, or an error of a callback
            self._ring.stop()
            self._await(waiting)
            raise
        left = [refs.index(ref) for ref in waiting]
        if left:
            self._kill(left)
        if errors or left:
            raise self._failure(errors, after, left)
        return ray.get(refs)

    def single(self, func: Any) -> Any:
        """What it returns on rank 0 alone, whose failure ends nothing of the others'."""
        self._check()
        ref = self.actors[0].act.remote(0, False, 'execute', func)
        error = _error_of(ref)
        if error is not None:
            raise self._failure({0: error}, [], [])
        return ray.get(ref)

    def _await(self, refs: List[Any]) -> None:
        if refs and ray.wait(refs, num_returns=len(refs), timeout=_END_S)[1]:
            self.dead = 'a function did not end'

    def _kill(self, ranks: List[int]) -> None:
        self.dead = (f'the function did not end on rank {", ".join(map(str, ranks))} after another '
                     'rank had failed, and was killed')
        for rank in ranks:
            ray.kill(self.actors[rank])

    # ---------------------------------------------------------------- failures

    def _failure(self, errors: Mapping[int, BaseException], after: Sequence[int],
                 left: Sequence[int]) -> BaseException:
        """The first that failed by itself, rather than by the end of another."""
        seconds = time.monotonic() - self._begun
        lost = [rank for rank, error in errors.items()
                if isinstance(error, (OutOfMemoryError, RayActorError))]
        by_itself = [rank for rank, error in errors.items()
                     if rank not in lost and not _follows(error) and rank not in after]
        texts = {rank: _text_of(error) for rank, error in errors.items() if rank not in lost}
        if by_itself or (errors and not lost):
            rank = (by_itself or list(errors))[0]
            return _caused(JobFailed(1, f'rank {rank} on {self._host(rank)} failed: '
                                     f'{_last_line(errors[rank])}', rank, [rank], texts, [],
                                     seconds), errors[rank])
        if lost:
            # Where Ray killed one for memory, the others were lost after it, or as it was.
            lost.sort(key=lambda rank: not isinstance(errors[rank], OutOfMemoryError))
            place, error = self.places[lost[0]], errors[lost[0]]
            self.dead = self.dead or f'rank {lost[0]} on {place["host"]} was lost'
            killed = isinstance(error, OutOfMemoryError)  # what Ray says of it fills a screen
            why = _elastic.NO_MEMORY if killed else f'its process {place["pid"]} has ended'
            return _caused(JobFailed(
                1, f'rank {lost[0]} on {place["host"]} was lost: {why}', lost[0], lost, texts,
                [] if killed else str(error).splitlines(), seconds), error)
        return JobFailed(1, f'rank {left[0]} on {self._host(left[0])} did not end', left[0],
                         list(left), texts, [], seconds)

    def _host(self, rank: int) -> str:
        return self.places[rank]['host']

    # ---------------------------------------------------------------- their end

    def end(self) -> None:
        """The workers leave the job and end, and their room is free again."""
        try:
            if self._ring.broken or self._ring.busy or self.dead or not self.places:
                self._ring.stop()
            else:
                ray.wait([actor.rise.remote() for actor in self.actors],
                         num_returns=len(self.actors), timeout=_LEAVE_S)
            for actor in self.actors:
                ray.kill(actor)
        finally:
            self._ring.end()
            self._room.end()


def _error_of(ref: Any) -> Optional[BaseException]:
    """Waits for it."""
    try:
        ray.get(ref)
    except Exception as error:
        return error
    return None


def _text_of(error: BaseException) -> str:
    """The worker's traceback, without colours, and without the marks that Ray has left of lines
    which it took out."""
    lines: List[str] = []
    for line in re.sub(r'\x1b\[[\d;]*m', '', str(error)).splitlines():
        marks = line.strip() and not line.strip(' ^~')
        if not (marks and lines and not lines[-1].startswith('    ')):
            lines.append(line)
    return '\n'.join(lines)


def _last_line(error: BaseException) -> str:
    return _text_of(error).rstrip().rsplit('\n', 1)[-1]


def _caused(failed: JobFailed, error: BaseException) -> JobFailed:
    failed.__cause__ = error
    return failed


class RayExecutor:
    """Ranks on a cluster of Ray's, from start() to shutdown(). Between, run() calls functions on
    all of them; with a class of the caller's execute() calls functions with each one's object.

    settings: of create_settings(). num_workers: as many ranks, on few nodes; or num_hosts nodes
    with num_workers_per_host ranks each. cpus_per_worker, use_gpu, gpus_per_worker: what each
    takes. use_current_placement_group: a caller in a placement group has num_workers in it, rather
    than in another one. min_workers, max_workers: in place of both, a job that goes on when nodes
    come and go: a rank for each slot, which live from run() to its end. elastic_timeout: seconds
    for which too few are borne; reset_limit: changes, of which one more ends it;
    override_discovery: hosts are Ray's nodes, whatever settings.discovery is.
    Raises ValueError for what cannot be.
    """

    @classmethod
    def create_settings(cls, timeout_s: float = 30, ssh_identity_file: Optional[str] = None,
                        ssh_str: Optional[str] = None, placement_group_timeout_s: float = 100,
                        nics: Any = None, **others: Any) -> MiniSettings:
        """timeout_s: for the workers to start and find each other, and again for init() in them;
        placement_group_timeout_s: for Ray to have room. nics: network interfaces that ranks use.
        There is no ssh, and ssh_str is written nowhere."""
        return MiniSettings(nics=nics, timeout_s=timeout_s, verbose=others.get('verbose', 1),
                            placement_group_timeout_s=placement_group_timeout_s,
                            ssh_identity_file=ssh_identity_file)

    def __init__(self, settings: Any = None, num_workers: Optional[int] = None,
                 num_hosts: Optional[int] = None, num_workers_per_host: int = 1,
                 cpus_per_worker: float = 1, use_gpu: bool = False,
                 gpus_per_worker: Optional[int] = None, use_current_placement_group: bool = True,
                 min_workers: Optional[int] = None, max_workers: Optional[int] = None,
                 reset_limit: Optional[int] = None, cooldown_range: Optional[List[int]] = None,
                 elastic_timeout: int = 600, override_discovery: bool = True, **old: Any):
        unknown = sorted(set(old) - set(_OLD))
        if unknown:
            raise TypeError(f'RayExecutor has no argument {unknown[0]!r}')
        self.settings = settings if settings is not None else MiniSettings()
        self._share = _share(old.get('cpus_per_slot', cpus_per_worker), use_gpu,
                             old.get('gpus_per_slot', gpus_per_worker))
        self.num_workers = 0  # in an elastic job it is not known
        self._workers: Optional[_Workers] = None
        self._elastic: Optional[_elastic.Asked] = None
        self._env: Dict[str, str] = {}
        self._make: Callable[[], Any] = _nothing
        if min_workers is not None or max_workers is not None:
            if num_workers is not None or num_hosts is not None:
                raise ValueError('min_workers and max_workers take the place of num_workers and '
                                 'num_hosts')
            if cooldown_range is not None:
                raise ValueError('cooldown_range: a node on which ranks fail is set aside for the '
                                 'rest of the job; leave it out')
            self._elastic = _elastic.asked(
                self._share, self._discovery(override_discovery), min_workers or 1, max_workers,
                elastic_timeout, reset_limit, getattr(self.settings, 'verbose', 1))
            return
        self._use_current = use_current_placement_group
        self._size(num_workers, num_hosts, old.get('num_slots', num_workers_per_host))

    def _size(self, num_workers: Optional[int], num_hosts: Optional[int], per_host: int) -> None:
        if (num_workers is None) == (num_hosts is None):
            raise ValueError('give one of num_workers and num_hosts: either so many workers, or so '
                             'many nodes with num_workers_per_host workers each')
        self._per_host = _count('num_workers_per_host', per_host)
        self._hosts = None if num_hosts is None else _count('num_hosts', num_hosts)
        self.num_workers = _count('num_workers', num_workers) if self._hosts is None \
            else self._hosts * self._per_host

    def _discovery(self, override: bool) -> Any:
        given = getattr(self.settings, 'discovery', None)
        if not override and given is None:
            raise ValueError('override_discovery is False, and settings.discovery is not given: '
                             'what is to find the hosts?')
        return RayHostDiscovery(self._share.gpus > 0, self._share.cpus, self._share.gpus or 1) \
            if override else given

    @property
    def workers(self) -> List[Any]:
        """The actors by rank; none before start()."""
        return self._workers.actors if self._workers else []

    def _room(self) -> strategy.Room:
        timeout = float(getattr(self.settings, 'placement_group_timeout_s', 100))
        if self._hosts is not None:
            return strategy.colocated(self._hosts, self._per_host, self._share, timeout)
        room = strategy.current(self.num_workers, self._share) if self._use_current else None
        return room or strategy.packed(self.num_workers, self._share, timeout)

    def start(self, executable_cls: Optional[type] = None,
              executable_args: Optional[List] = None, executable_kwargs: Optional[Dict] = None,
              extra_env_vars: Optional[Dict[str, Any]] = None) -> None:
        """Start the workers, and in each executable_cls(*executable_args, **executable_kwargs).
        extra_env_vars: variables of the workers. In an elastic job run() does so.

        Blocks until all are ranks. Raises TimeoutError when Ray has no room, or workers do not come
        in the settings' time; RuntimeError when one does not start; JobFailed for the class's
        error. None is left then."""
        if self._workers is not None:
            raise RuntimeError('start() was called before, and shutdown() has not been')
        if not ray.is_initialized():
            ray.init()
        if ray.util.client.ray.is_connected():
            raise RuntimeError('this program is a client of the cluster (ray://), which its '
                               'workers cannot reach: run it there, by ray job submit')
        env = _ring.env(extra_env_vars, self.settings)
        if self._elastic is not None:
            self._env = env
            if executable_cls is not None:
                self._make = functools.partial(executable_cls, *(executable_args or []),
                                               **(executable_kwargs or {}))
            return
        room = self._room()
        try:
            self._workers = _Workers(room, self._share, self.num_workers, self.settings, env)
            self._workers.sit()
            if self._share.gpus:
                self._workers.share_gpus()
            if executable_cls is not None:
                self._begin(executable_cls, executable_args or [], executable_kwargs or {})
        except BaseException:
            if self._workers is None:
                room.end()
            self.shutdown()
            raise

    def _begin(self, executable_cls: type, args: List, kwargs: Dict) -> None:
        made = self._put(functools.partial(executable_cls, *args, **kwargs))
        assert self._workers is not None
        self._workers.settle(*self._workers.call('make', made), [])

    @staticmethod
    def _put(func: Any) -> Any:
        """Ray's reference to it: it is pickled once, for all workers."""
        try:
            try:
                return ray.put(func)
            except TypeError:
                _know_modules()
                return ray.put(func)
        except Exception as error:
            said = _unsent.describe(func, ray.cloudpickle.dumps, 'The function')
            raise TypeError(f'{said}. Make it inside the function, on each worker, from what can '
                            'be sent: a path, a name, numbers.') from error

    def _started(self) -> _Workers:
        if self._elastic is not None:
            raise NotImplementedError('an elastic job has workers while run() or execute() goes '
                                      'on, and no longer')
        if self._workers is None:
            raise RuntimeError('there are no workers: start() makes them')
        return self._workers

    def execute(self, fn: Callable[[Any], Any],
                callbacks: Optional[List[Callable]] = None) -> List[Any]:
        """fn(object) on all ranks, with the object of executable_cls there, or None; what they
        return, by rank. callbacks: are called with what ranks give to
        horovod.ray.ray_logger.log().

        Raises JobFailed (a RuntimeError) with the traceback of the rank that failed first, or with
        the rank whose process was lost. The others have ended then: operations that wait for it
        fail after a second, and a function that takes 10 s more is killed."""
        if self._elastic is not None:
            fn = _elastic_worker.WithObject(self._make, fn)
        return self._call('execute', fn, callbacks)

    def _call(self, how: str, fn: Callable[..., Any], callbacks: Optional[List[Callable]]
              ) -> List[Any]:
        if self._elastic is not None:
            return self._run_elastic(self._put(fn), callbacks or [])
        workers = self._started()
        refs, turn = workers.call(how, self._put(fn), bool(callbacks))
        return workers.settle(refs, turn, callbacks or [])

    def _run_elastic(self, func: Any, callbacks: List[Callable]) -> List[Any]:
        assert self._elastic is not None
        run = _elastic.Run(self._elastic, func, self._env, callbacks)
        try:
            return run.wait()
        finally:
            run.close()

    def run(self, fn: Callable[..., Any], args: Optional[List] = None,
            kwargs: Optional[Dict] = None, callbacks: Optional[List[Callable]] = None
            ) -> List[Any]:
        """fn(*args, **kwargs) on all ranks, as execute(). In an elastic job what those returned
        that ended well; and a function without hvd.elastic.run is called again on all."""
        return self._call('run', functools.partial(fn, *(args or []), **(kwargs or {})), callbacks)

    def run_remote(self, fn: Callable[..., Any], args: Optional[List] = None,
                   kwargs: Optional[Dict] = None) -> List[Any]:
        """As run(), without waiting: Ray's references to what the ranks return, by rank. ray.get()
        raises what Ray says of a failure."""
        func = self._put(functools.partial(fn, *(args or []), **(kwargs or {})))
        return self._started().call('run', func)[0]

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """fn(object) on rank 0 alone; what it returns. It cannot call operations, for which the
        others would be needed."""
        return self._started().single(self._put(fn))

    def shutdown(self) -> None:
        """End the workers and give their room back. It may be called at any time, and again."""
        workers, self._workers = self._workers, None
        if workers is not None and ray.is_initialized():
            workers.end()
