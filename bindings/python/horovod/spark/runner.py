# SPDX-License-Identifier: Apache-2.0
"""run(): a function on Spark's executors. Spark places the processes and carries the function and
its results; a hub of this program (reigen/_hub.py) numbers them and shows what they print."""
import codecs
import collections
import contextlib
import functools
import itertools
import os
import re
import sys
import time
import weakref
from typing import (Any, Callable, Collection, Container, Dict, Iterable, Iterator, List, Mapping,
                    Optional, Sequence, Set, Tuple)

try:
    import pyspark
except ImportError as error:
    raise ImportError('horovod.spark.run() needs Spark\'s Python package: pip install '
                      'pyspark') from error

import reigen
from horovod.spark import task as spark_task
from reigen import _cells, _hub, _member, _travel
from reigen._display import Rows, put
from reigen._run import JobFailed

#: Seconds: between two looks at whether Spark has given up; left to ranks when one has failed, and
#: to their last words when Spark is through; between two words about executors that are waited for.
_LOOK_S, _END_S, _LAST_S, _REMARK_S = 0.5, 10.0, 3.0, 10.0
#: A line that is longer, as a progress bar's may be, is shown in parts.
_LINE_NBYTES_MAX = 1 << 20
#: Seconds between two states of a bar.
_BAR_S = 1.0
#: Seconds between two questions to Spark whether its news of itself have come.
_NEWS_S = 0.05
#: Hosts that one sentence names.
_HOSTS = 8
#: Tasks of which Spark is asked where they run.
_TASKS = 1000
#: Spark's class for its refusal of a barrier stage.
_TOO_FEW_SLOTS = 'BarrierJobSlotsNumberCheckFailed'
_ESCAPE = re.compile('(\x1b(\\[[?\\d;]{,16})?)?$')
_SPARK = 'https://spark.apache.org/docs/latest/configuration.html'
_count = itertools.count(1)


def _part(take_part: Callable, call: _member.Call, indices: Iterable[int]) -> Iterator[Any]:
    """In a task of Spark's."""
    gpus = pyspark.TaskContext.get().resources().get('gpu')

    def begin() -> None:
        spark_task._gpus = list(gpus.addresses) if gpus else []

    try:
        result = take_part(next(iter(indices)), call, {}, begin)
    finally:
        spark_task._gpus = []
    if result is not None:
        yield result


def _context() -> Any:
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        raise Exception('Could not find an active SparkContext, are you running in a PySpark '
                        'session? Make one: '
                        'pyspark.sql.SparkSession.builder.master("local[4]").getOrCreate()')
    return context


#: By session: those that do not change in its life.
_settings: 'weakref.WeakKeyDictionary[Any, Dict[str, str]]' = weakref.WeakKeyDictionary()


def _setting(context: Any, name: str) -> str:
    """Java is asked once, and for this one: getConf() would ask for each that there is."""
    known = _settings.setdefault(context, {})
    if name not in known:
        known[name] = context._conf.get(name, '')
    return known[name]


def _is_on(context: Any, name: str) -> bool:
    return _setting(context, name).lower() == 'true'


class _Stage:
    """The stage of Spark's whose tasks are the ranks, in a thread that has the caller's scheduler
    pool and tags. is_over: there are results, or an error."""

    def __init__(self, context: Any, call: _member.Call, size: int, over: Callable[[], None],
                 timeout: float, take_part: Callable = _member.take_part, barrier: bool = True):
        """timeout: seconds for its tasks to start."""
        self._thread = pyspark.InheritableThread(target=self._run, daemon=True, name='reigen-spark')
        self._over = over
        self.group = f'horovod.spark.run.{next(_count)}'
        self.results: List[Any] = []
        self.error: Optional[BaseException] = None
        self.is_over = self._is_ended = False
        self.context, self._size = context, size
        self._until = time.monotonic() + timeout
        self._part = functools.partial(_part, take_part, call)
        # Barrier stages start all tasks or none. Spark has none with dynamic allocation.
        self.barrier = barrier and not _is_on(context, 'spark.dynamicAllocation.enabled')
        #: Spark may start a task twice that goes on well. Never one of a barrier stage.
        self.speculates = not self.barrier and _is_on(context, 'spark.speculation')

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self.context.setJobGroup(self.group, 'horovod.spark.run', interruptOnCancel=True)
            tasks = self.context.parallelize(range(self._size), self._size)
            tasks = tasks.barrier() if self.barrier else tasks
            while not self._collect(tasks.mapPartitions(self._part)):
                pass
        except BaseException as error:  # run() tells it
            self.error = error
        self.is_over = True
        self._over()

    def _collect(self, tasks: Any) -> bool:
        """False: Spark has looked for slots for its own time, ten minutes, and is to look again."""
        try:
            self.results = tasks.collect()
        except Exception as error:
            java = getattr(error, 'java_exception', None)
            kind = '' if java is None else java.getClass().getSimpleName()
            if kind != _TOO_FEW_SLOTS or self._is_ended or time.monotonic() > self._until:
                raise
            return False
        return True

    def _jobs(self) -> List[Any]:
        """What Spark says of its jobs, as pyspark's SparkJobInfo; none, if Spark has ended."""
        with contextlib.suppress(Exception):
            status = self.context.statusTracker()
            return [*filter(None, map(status.getJobInfo, status.getJobIdsForGroup(self.group)))]
        return []

    def _stages(self) -> List[Any]:
        """What Spark says of itself, as pyspark's SparkStageInfo; none, if Spark has ended."""
        with contextlib.suppress(Exception):
            info = self.context.statusTracker().getStageInfo
            return [*filter(None, (info(stage) for job in self._jobs() for stage in job.stageIds))]
        return []

    def lacks(self, processes: int) -> bool:
        """Whether a task has failed, and with those that run and those whose result Spark has
        there are fewer than so many."""
        return any(stage.numFailedTasks and
                   stage.numActiveTasks + stage.numCompletedTasks < processes
                   for stage in self._stages())

    def is_cancelled(self) -> bool:
        """Whether Spark has ended the tasks and none had failed: somebody wished it."""
        end = time.monotonic() + _LAST_S
        while time.monotonic() < end:
            # Spark's news of itself come late, and in their order.
            is_through = self.is_over and all(job.status != 'RUNNING' for job in self._jobs())
            if any(stage.numFailedTasks for stage in self._stages()):
                return False
            if is_through:
                return self.error is not None
            time.sleep(_NEWS_S)
        return False

    def running(self) -> Dict[int, str]:
        """Where its tasks run, by index: hosts, as Spark names them; none where it does not say."""
        found: Dict[int, str] = {}
        with contextlib.suppress(Exception):  # there is no public way to it
            store = self.context._jsc.sc().statusStore()
            for stage in self._stages():
                tasks = store.taskList(stage.stageId, stage.currentAttemptId, _TASKS)
                for task in map(tasks.apply, range(tasks.size())):
                    if task.status() == 'RUNNING':
                        found[task.index()] = task.host()
        return found

    def end(self) -> None:
        """Spark ends its tasks, if there are any left."""
        self._is_ended = True
        end = time.monotonic() + _END_S
        # Again and again: Spark may not have begun the job of that group yet.
        while self._thread.is_alive() and time.monotonic() < end:
            if not self.is_over:
                with contextlib.suppress(Exception):  # Spark has ended: what run() raises says more
                    self.context.cancelJobGroup(self.group)
            self._thread.join(_LOOK_S)


class _Stream:
    """What a terminal would show of one stream of a rank's, as text."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.shown_at = -_BAR_S
        self._decoder = codecs.getincrementaldecoder('utf-8')('backslashreplace')
        self._escape = ''  # the beginning of a sequence
        self._open = 0     # characters since the last newline

    def feed(self, data: bytes) -> List[str]:
        """The lines that have ended."""
        text = self._escape + self._decoder.decode(data)
        self._escape = _ESCAPE.search(text)[0]
        text = text[:len(text) - len(self._escape)]
        lines, told = self.rows.feed(text), self.rows.told
        if lines:
            self.rows.told = ''
        last = text.rfind('\n') + 1
        self._open = len(text) - last if last else self._open + len(text)
        if self._open > _LINE_NBYTES_MAX and not self.rows.redrawn:
            lines.append(self.rows.shown())
            self.rows, self._open = Rows(), 0
        # How the line ends may have been told already.
        return lines[1:] if told and lines and lines[0].rstrip() == told else lines

    def bar(self) -> str:
        """What is being redrawn as it stands, if it is time to tell it; else ''."""
        now = time.monotonic()
        if not self.rows.redrawn or now < self.shown_at + _BAR_S or \
                self.rows.shown() == self.rows.told:
            return ''
        self.shown_at, self.rows.told = now, self.rows.shown()
        return self.rows.told

    def end(self) -> str:
        """What has not ended by a newline."""
        left = self.rows.shown()
        return '' if left == self.rows.told else left


class _Show:
    """What ranks print, by lines, as horovodrun tags them; a bar is a line now and then."""

    def __init__(self, stdout: Any, stderr: Any, timestamp: bool):
        self._streams = {'stdout': stdout, 'stderr': stderr}
        self._timestamp = timestamp
        self._of: Dict[Any, _Stream] = {}

    def take(self, rank: Optional[int], name: str, data: bytes) -> None:
        stream = self._of.setdefault((rank, name), _Stream())
        for line in stream.feed(data):
            self._print(rank, name, line)
        bar = stream.bar()
        if bar:
            self._print(rank, name, bar)

    def end(self) -> None:
        for (rank, name), stream in sorted(self._of.items()):
            if stream.end():
                self._print(rank, name, stream.end())
        self._of.clear()

    def _print(self, rank: Optional[int], name: str, line: str) -> None:
        stream = self._streams[name]
        if stream is None:
            stream = getattr(sys, name)
        when = time.strftime('%a %b %d %H:%M:%S %Y') if self._timestamp else ''
        put(stream, f'{when}[{rank}]<{name}>:{line}\n')


def check_fits(event: _hub.Event) -> None:
    """RuntimeError: that process cannot take part."""
    ours = reigen.version()
    if event.fields['version'] != ours:
        raise RuntimeError(f'Reigen is {event.fields["version"]} on {event.fields["host"]} and '
                           f'{ours} here: install the same on all executors')
    python = '.'.join(map(str, sys.version_info[:2]))
    if event.fields['python'] != python:
        raise RuntimeError(f'Python is {event.fields["python"]} on {event.fields["host"]} and '
                           f'{python} here: name one of the same version by '
                           f'spark.pyspark.python ({_SPARK})')


def given_up(error: BaseException) -> str:
    """What Spark says of the stage's end, without its own calls."""
    java = getattr(error, 'java_exception', None)
    text = str(error) if java is None else str(java.getMessage())
    return text.split('\nDriver stacktrace', 1)[0].split('\n\tat ', 1)[0]


def deaf(event: _hub.Event, here: int, size: int) -> RuntimeError:
    return RuntimeError(f'{here} of {size} tasks are connected, and this program can take no more: '
                        f'{event.fields["why"]}. Each needs a descriptor and a thread here: see '
                        'ulimit -n and ulimit -u')


def silent(stage: _Stage, here: Container[int]) -> str:
    """A sentence on those tasks that Spark runs and that are not here by their index; or ''."""
    hosts = collections.Counter(host for index, host in stage.running().items()
                                if index not in here)
    named = [f'{count} on {host}' for host, count in hosts.most_common(_HOSTS)]
    if not named:
        return ''
    more = f' and {len(hosts) - _HOSTS} more hosts' if len(hosts) > _HOSTS else ''
    return f' Spark runs others that have not connected yet: {", ".join(named)}{more}.'


def too_few(stage: _Stage, here: Collection[int], size: int, timeout: float) -> str:
    """here: the indices of the tasks that are."""
    return (f'Timed out waiting for Spark tasks to start: {len(here)} of {size} have within '
            f'{timeout:g} s, and the cluster has some {stage.context.defaultParallelism} slots.'
            f'{silent(stage, here)} Please '
            'check that you have enough resources to run all Horovod processes: fewer by num_proc, '
            'more executors or cores, or a longer start_timeout.')


def started(stage: _Stage, here: Collection[int], size: int, seconds: float) -> str:
    """A remark for the time in which they come."""
    return (f'{len(here)} of {size} tasks have started after {seconds:.0f} s.'
            f'{silent(stage, here)}')


class _Run:
    """One call of run(), in the thread that waits for it."""

    def __init__(self, hub: _hub.Hub, stage: _Stage, show: _Show, timeout: float, verbose: int):
        self._hub, self._stage, self._show = hub, stage, show
        self._timeout, self._verbose = timeout, verbose
        self._begun = time.monotonic()
        self._failed: Dict[int, str] = {}   # rank: traceback, in the order in which they came
        self._followed: Set[int] = set()    # of them those that failed by the end of another
        self._lost: List[int] = []          # ranks that ended without a word
        self._ended: Dict[int, bool] = {}
        self._next_look, self._lost_at = 0.0, float('inf')

    def _take(self, event: _hub.Event) -> None:
        rank = self._hub.rank_of(event.index)
        if event.kind == 'here':
            check_fits(event)
        elif event.kind == 'out':
            self._show.take(rank, event.fields['stream'], event.data)
        elif event.kind == 'failed':
            self._fail(rank, event)
        elif event.kind == 'end':
            self._ended[event.index] = event.fields['well']
            if not event.fields['well']:
                self._fail(rank, event)
        elif ((event.kind == 'lost' and event.index not in self._ended) or
              (event.kind == 'again' and event.index in self._ended and
               not self._stage.speculates)):
            # Started again, because its executor was lost before Spark had the result.
            self._lose(event.index)
        elif event.kind == 'deaf':
            raise deaf(event, len(self._hub.here), self._hub.size)

    def _lose(self, index: int) -> None:
        self._ended[index] = False
        self._lost.append(index)

    def _look(self) -> None:
        """A process that waits for its task's end does so in vain, if Spark has lost the other one
        or its result. Then Spark knows of fewer processes, for longer than news are on their way.
        """
        now = time.monotonic()
        if self._stage.barrier or now < self._next_look:
            return
        self._next_look, waiting = now + _LOOK_S, self._hub.waiting
        if not waiting or not self._stage.lacks(self._hub.size + len(waiting)):
            self._lost_at = float('inf')
            return
        self._lost_at = min(self._lost_at, now + _END_S)
        if now >= self._lost_at:
            self._lose(next((index for index in waiting if self._ended.get(index)), waiting[0]))

    def _fail(self, rank: Optional[int], event: _hub.Event) -> None:
        if rank is not None and rank not in self._failed:
            self._failed[rank] = _cells.name_cells(event.data.decode())
            self._followed |= {rank} if event.fields['follows'] else set()

    def _start(self) -> None:
        """Until all tasks are here."""
        end, remark = self._begun + self._timeout, self._begun + _REMARK_S
        while not self._hub.places:
            self._wait(_LOOK_S)
            if self._lost or self._stage.is_over:
                return
            if time.monotonic() > end:
                raise TimeoutError(self._few())
            if time.monotonic() > remark and self._verbose:
                remark += _REMARK_S
                print('horovod.spark: ' + started(self._stage, self._hub.here, self._hub.size,
                                                  time.monotonic() - self._begun), file=sys.stderr)

    def _few(self) -> str:
        return too_few(self._stage, self._hub.here, self._hub.size, self._timeout)

    def _wait(self, seconds: float) -> bool:
        """Take an event, if one comes so soon."""
        event = self._hub.events.get(seconds)
        if event is not None:
            self._take(event)
        return event is not None

    def _drain(self) -> None:
        """Spark is through, maybe before the ranks' last words are: a rank ends after its lines."""
        end = time.monotonic() + (_LAST_S if self._stage.error else _END_S)
        while time.monotonic() < end and not set(self._hub.here) <= set(self._ended):
            self._wait(_LOOK_S)
        while self._wait(0):
            pass

    def wait(self) -> List[Any]:
        """What the ranks returned; raises what went wrong."""
        self._start()
        end = float('inf')
        while not self._stage.is_over and time.monotonic() < end:
            self._wait(_LOOK_S)
            self._look()
            if self._failed or not all(self._ended.values()):
                if len(self._ended) == self._hub.size:
                    break
                if end == float('inf'):
                    end = time.monotonic() + _END_S
                    self._hub.stop()
        if self._stage.is_over:
            self._drain()
        if self._failed or self._lost or self._stage.error:
            raise self._failure()
        return [_travel.result(rank, data) for rank, data in sorted(self._stage.results)]

    def _failure(self) -> BaseException:
        """The first that failed, by itself rather than by the end of another."""
        seconds = time.monotonic() - self._begun
        by_itself = [rank for rank in self._failed if rank not in self._followed]
        lost = [self._hub.rank_of(index) for index in self._lost]
        if by_itself or (self._failed and not lost):
            rank = (by_itself or list(self._failed))[0]
            last = self._failed[rank].rstrip().rsplit('\n', 1)[-1]
            where = f'rank {rank} on {self._hub.places[rank]["host"]}'
            return JobFailed(1, f'{where} failed: {last}', rank, [rank], self._failed, [], seconds)
        if lost and not self._stage.is_cancelled():
            index = self._lost[0]  # of one that is no rank yet, too
            who = f'task {index}' if lost[0] is None else f'rank {lost[0]}'
            where = f'{who} on {self._hub.host_of(index)}'
            return JobFailed(1, f'{where} was lost: its executor or its Python process has ended',
                             lost[0], lost, self._failed, [], seconds)
        return JobFailed(1, f'Spark has given the stage up: {given_up(self._stage.error)}', None,
                         [], {}, [], seconds)


def _refuse(use_mpi: Optional[bool], extra_mpi_args: Optional[str], nics: Any,
            executable: Optional[str]) -> None:
    if use_mpi or extra_mpi_args:
        raise ValueError('use_mpi and extra_mpi_args: Reigen connects the ranks itself, and there '
                         'is no MPI in it; leave them out')
    if executable not in (None, sys.executable):
        raise ValueError(f'executable={executable!r}: ranks run in the Python of Spark\'s tasks, '
                         f'which spark.pyspark.python sets ({_SPARK})')


def timeout_of(start_timeout: Optional[float]) -> float:
    """In seconds, for tasks to start."""
    return seconds('start_timeout', start_timeout, 'HOROVOD_SPARK_START_TIMEOUT')


def seconds(name: str, value: Optional[float], variable: str) -> float:
    """What was given by that name, else by the variable, else ten minutes."""
    given = os.environ.get(variable, '600') if value is None else value
    try:
        limit = float(given)
    except (TypeError, ValueError):
        limit = -1
    if not 0 < limit < 1e9:
        raise ValueError(f'{variable if value is None else name} is {given!r}: it is a number of '
                         'seconds above 0')
    return limit


def addresses(context: Any) -> Tuple[str, str]:
    """Of this computer, for the tasks; and to listen at, or ''."""
    return _setting(context, 'spark.driver.host'), _setting(context, 'spark.driver.bindAddress')


def variables_of(env: Optional[Mapping[str, str]], nics: Any) -> Dict[str, str]:
    """Of the ranks."""
    variables = {name: str(value) for name, value in (env or {}).items()}
    if nics:
        variables['HOROVOD_GLOO_IFACE'] = ','.join([nics] if isinstance(nics, str) else nics)
    return variables


def run(fn: Callable, args: Sequence = (), kwargs: Optional[Mapping[str, Any]] = None,
        num_proc: Optional[int] = None, start_timeout: Optional[float] = None,
        use_mpi: Optional[bool] = None, use_gloo: Optional[bool] = None,
        extra_mpi_args: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
        stdout: Any = None, stderr: Any = None, verbose: int = 1, nics: Any = None,
        prefix_output_with_timestamp: bool = False, executable: Optional[str] = None) -> List[Any]:
    """Call fn(*args, **kwargs) in num_proc tasks of the active Spark session, each of which is a
    rank meanwhile; what they return, by rank.

    num_proc: spark.default.parallelism, unless told. start_timeout: seconds for all tasks to start
    (HOROVOD_SPARK_START_TIMEOUT, else 600). env: variables of the ranks. What they print goes to
    stdout and stderr, by default this program's, in lines that begin with '[RANK]<stdout>:', or
    with the time too. verbose=0: no word about tasks that are waited for. nics: the network
    interfaces that ranks use. use_gloo says nothing here.

    Raises JobFailed (a RuntimeError) with the traceback of the rank that failed first, also when an
    executor is lost; TimeoutError when tasks do not start; ValueError for what there is not. An
    interrupt ends the tasks.
    """
    _refuse(use_mpi, extra_mpi_args, nics, executable)
    context = _context()
    size = context.defaultParallelism if num_proc is None else int(num_proc)
    if size < 1:
        raise ValueError(f'num_proc is {size}: it is a number of ranks, 1 or more')
    timeout = timeout_of(start_timeout)
    _, parcel = _travel.pack(functools.partial(fn, *args, **(kwargs or {})))
    variables = variables_of(env, nics)
    show = _Show(stdout, stderr, prefix_output_with_timestamp)
    hub = _hub.Hub(size, *addresses(context))
    stage = _Stage(context, _member.Call(hub.address, hub.key, parcel, variables), size, hub.over,
                   timeout)
    try:
        stage.start()
        return _Run(hub, stage, show, timeout, verbose).wait()
    finally:
        hub.close()
        stage.end()
        show.end()
