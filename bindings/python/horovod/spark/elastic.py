# SPDX-License-Identifier: Apache-2.0
"""run_elastic(): a function on Spark's executors that goes on when tasks are lost or come. Spark
starts tasks, and starts lost ones again; reigen/_elastic.py decides which of them are the ranks."""
import functools
import sys
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence

from horovod.spark import runner
from reigen import _cells, _elastic, _elastic_member, _hub, _member, _travel
from reigen import _membership as m
from reigen._run import JobFailed

_TIMEOUT, _UNAVAILABLE, _RESET_LIMIT = 124, 69, 78  # exit codes (docs/exit-codes.md)


def _remark(text: str) -> None:
    print(f'horovod.spark: {text}', file=sys.stderr, flush=True)


class _Run:
    """One call of run_elastic(), in the thread that waits for it."""

    def __init__(self, hub: _elastic.ElasticHub, crew: _elastic.Crew, stage: runner._Stage,
                 show: runner._Show, asked: _elastic.Asked, timeout: float, verbose: int):
        self._hub, self._crew, self._stage, self._show = hub, crew, stage, show
        self._asked, self._timeout, self._verbose = asked, timeout, verbose
        self._begun = time.monotonic()

    def _take(self, event: _hub.Event) -> None:
        if event.kind == 'here' and not self._fits(event):
            self._hub.tell(event.index, 'release')
        elif event.kind == 'out':
            self._show.take(self._crew.rank_of(event.index), event.fields['stream'], event.data)
        elif event.kind == 'deaf':
            raise runner.deaf(event, self._crew.here, self._asked.max_np)
        elif event.kind != 'over':
            self._crew.take(event)

    def _fits(self, event: _hub.Event) -> bool:
        """A job that goes on does without one that comes late and cannot take part."""
        try:
            runner.check_fits(event)
        except RuntimeError as error:
            if not self._crew.begun:
                raise
            _remark(f'a task is not used: {error}')
            return False
        return True

    def _wait(self, seconds: float) -> None:
        event = self._hub.events.get(min(seconds, self._crew.wait_s()))
        if event is not None:
            self._take(event)
        self._crew.tick()

    def _start(self) -> None:
        """Until the first ranks begin."""
        end, remark = self._begun + self._timeout, self._begun + runner._REMARK_S
        while not self._crew.begun and not self._stage.is_over:
            self._wait(runner._LOOK_S)
            if time.monotonic() > end and not self._crew.begun:
                raise TimeoutError(runner.too_few(self._stage, self._crew.indices,
                                                  self._asked.np, self._timeout))
            if time.monotonic() > remark and self._verbose:
                remark += runner._REMARK_S
                _remark(runner.started(self._stage, self._crew.indices, self._asked.np,
                                       time.monotonic() - self._begun))

    def wait(self) -> List[Any]:
        """What the ranks that ended returned; raises what went wrong."""
        self._start()
        while not self._crew.end and not self._stage.is_over:
            self._wait(runner._LOOK_S)
        done = self._crew.end and self._crew.end['cause'] == m.ALL_DONE
        self._crew.stop()
        end = float('inf') if done else time.monotonic() + runner._END_S
        # The last lines come before the ends of the functions; tasks that start late are let go.
        while (not self._stage.is_over or self._crew.at_work) and time.monotonic() < end:
            if self._stage.is_over and end == float('inf'):
                end = time.monotonic() + runner._LAST_S
            self._wait(runner._LOOK_S)
        if not done or self._stage.error:
            raise self._failure()
        results = sorted(_elastic_member.Result(*one) for one in self._stage.results)
        self._crew.check_results([one.rank for one in results])
        return [_travel.result(one.rank, one.data) for one in results]

    def _failure(self) -> BaseException:
        crew, end = self._crew, self._crew.end
        tracebacks = {one.rank: _cells.name_cells(one.text) for one in reversed(crew.failed)}
        seconds, blamed = time.monotonic() - self._begun, crew.blamed()
        rank = blamed.rank if blamed else None
        code, why = 1, ''
        if end and end['cause'] in (m.TOO_FEW, m.NO_ROOM):
            code = _TIMEOUT if end['waited'] else _UNAVAILABLE
            why = (f'too few ranks for {self._asked.timeout:g} s (elastic_timeout): there is room '
                   f'for {end["has"]}, and it takes {end["needs"]} (min_num_proc)')
        elif end and end['cause'] == m.RESET_LIMIT:
            code, why = _RESET_LIMIT, (f'the ranks have changed as often as reset_limit='
                                       f'{self._asked.reset_limit} permits')
        elif end and end['cause'] != m.ALL_DONE:
            why = '' if blamed else 'all machines are set aside'
        elif self._stage.error:
            why = f'Spark has given the stage up: {runner.given_up(self._stage.error)}'
            if self._stage.is_cancelled():
                return JobFailed(code, why, None, [], tracebacks, [], seconds)
            why += ('\nIt starts a task again until that has failed spark.task.maxFailures times, '
                    'and 1 time with local[N], F times with local[N,F]')
        if blamed:
            first = f'rank {blamed.rank} on {blamed.on} failed: {_cells.name_cells(blamed.last)}'
            why = f'{why}\n{first}' if why else first
        return JobFailed(code, why, rank, [] if rank is None else [rank], tracebacks, [], seconds)


def _number(value: Optional[int], old: Optional[int], usual: Optional[int]) -> Optional[int]:
    """What was given by the new name, or the old one."""
    given = old if value is None else value
    return usual if given is None else int(given)


def _asked(context: Any, np: Optional[int], min_np: Optional[int], max_np: Optional[int],
           timeout: float, reset_limit: Optional[int]) -> _elastic.Asked:
    size = context.defaultParallelism if np is None else np
    asked = _elastic.Asked(size, size if min_np is None else min_np,
                           size if max_np is None else max_np, timeout, reset_limit)
    if not 1 <= asked.min_np <= asked.np <= asked.max_np:
        raise ValueError(f'min_num_proc={asked.min_np}, num_proc={asked.np}, '
                         f'max_num_proc={asked.max_np}: they are numbers of ranks, 1 or more, none '
                         'of which is greater than the one behind it')
    if reset_limit is not None and reset_limit < 0:
        raise ValueError(f'reset_limit is {reset_limit}: it is a number of changes, 0 or more')
    return asked


def run_elastic(fn: Callable, args: Sequence = (), kwargs: Optional[Mapping[str, Any]] = None,
                num_proc: Optional[int] = None, min_num_proc: Optional[int] = None,
                max_num_proc: Optional[int] = None, start_timeout: Optional[float] = None,
                elastic_timeout: Optional[float] = None, reset_limit: Optional[int] = None,
                env: Optional[Mapping[str, str]] = None, stdout: Any = None, stderr: Any = None,
                verbose: int = 1, nics: Any = None, prefix_output_with_timestamp: bool = False,
                min_np: Optional[int] = None, max_np: Optional[int] = None) -> List[Any]:
    """Call fn(*args, **kwargs) in tasks of the active Spark session, each of which is a rank, and
    go on when some are lost or come; what those that ended returned, by rank. fn says by
    hvd.elastic.run where it can go on; else it is called again on all ranks.

    num_proc: ranks to begin with (spark.default.parallelism, unless told); min_num_proc: to go on
    with; max_num_proc: at most, and so many tasks Spark is asked for; both are num_proc unless
    told. elastic_timeout: seconds for which too few ranks are borne, and for each to meet the
    others after a change (HOROVOD_ELASTIC_TIMEOUT, else 600). reset_limit: changes, of which one
    more ends the job. min_np, max_np: older names. The others as of run().

    Raises JobFailed (a RuntimeError), TimeoutError when num_proc tasks do not start, ValueError
    for numbers that cannot be.
    """
    context = runner._context()
    limit = runner.seconds('elastic_timeout', elastic_timeout, 'HOROVOD_ELASTIC_TIMEOUT')
    asked = _asked(context, _number(num_proc, None, None), _number(min_num_proc, min_np, None),
                   _number(max_num_proc, max_np, None), limit, reset_limit)
    timeout = runner.timeout_of(start_timeout)
    _, parcel = _travel.pack(functools.partial(fn, *args, **(kwargs or {})))
    variables = runner.variables_of(env, nics)
    show = runner._Show(stdout, stderr, prefix_output_with_timestamp)
    hub = _elastic.ElasticHub(asked.max_np, *runner.addresses(context))
    crew = _elastic.Crew(hub, asked, _remark if verbose else lambda _: None)
    call = _member.Call(hub.address, hub.key, parcel, variables)
    stage = runner._Stage(context, call, asked.max_np, hub.over, timeout,
                          _elastic_member.take_part, barrier=False)
    try:
        stage.start()
        return _Run(hub, crew, stage, show, asked, timeout, verbose).wait()
    finally:
        hub.close()
        stage.end()
        crew.close()
        show.end()
