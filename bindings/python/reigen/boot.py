# SPDX-License-Identifier: Apache-2.0
"""Ranks in processes that something else has placed: a scheduler, a cluster, a pool of your own.

    from reigen import boot

    boot.join(allgather, index, size)        # in the place of init()

Reigen then starts nothing and reads no variable of a launcher: whoever placed the processes says
how many they are, and lends them one function by which they find each other. From there on all of
reigen and horovod works, and the tensors go over Reigen's own connections. docs/boot.md has an
example, and what Dask, Spark and Ray get on top.
"""
import contextlib
import json
import os
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from reigen import _core
from reigen._meeting import Gathering

#: allgather(blob, timeout): what all processes have handed over, in the order of their indices.
Allgather = Callable[[bytes, float], List[bytes]]
#: Seconds between two looks at whether who waits in allgather is still wanted.
_LOOK_S = 0.1
#: What allgather may take longer than its limit, in seconds: it tells better who is missing.
_GRACE_S = 2.0


class Stopped(RuntimeError):
    """The join was given up here, by an exception in the thread that called it."""


class _Exchanges:
    """The caller's allgather, which may block: a thread calls it, so that join() can be stopped."""

    def __init__(self, allgather: Allgather, size: int, timeout: float):
        self._allgather, self._size, self._timeout = allgather, size, timeout
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Have who waits give up. Any thread; it does not block."""
        self._stopped.set()

    def exchange(self, blob: bytes) -> List[bytes]:
        """In the order of the indices."""
        if self._size == 1:
            return [blob]
        found: List[Any] = []
        thread = threading.Thread(target=self._call, args=(blob, found), daemon=True,
                                  name='reigen-allgather')
        thread.start()
        end = time.monotonic() + self._timeout + _GRACE_S
        while thread.is_alive():
            thread.join(_LOOK_S)
            if self._stopped.is_set():
                raise Stopped('join() was stopped')
            if time.monotonic() > end:
                raise TimeoutError(f'allgather did not return within {self._timeout:g} s')
        if isinstance(found[0], BaseException):
            raise found[0]
        return self._checked(found[0])

    def _call(self, blob: bytes, found: List[Any]) -> None:
        try:
            found.append(self._allgather(blob, self._timeout))
        except BaseException as error:  # whoever waits raises it
            found.append(error)

    def _checked(self, blobs: Any) -> List[bytes]:
        blobs = list(blobs)
        if len(blobs) != self._size:
            raise ValueError(f'allgather returned {len(blobs)} entries, where size is '
                             f'{self._size}: it is to return one of each process')
        for index, blob in enumerate(blobs):
            if not isinstance(blob, (bytes, bytearray, memoryview)):
                raise TypeError(f'allgather returned {type(blob).__name__} for process {index}: '
                                'it is to return bytes')
        return [bytes(blob) for blob in blobs]


def machine() -> List[str]:
    """Equal for processes of one computer; a container counts as one of its own."""
    try:
        with open('/proc/sys/kernel/random/boot_id', encoding='ascii') as file:
            boot = file.read().strip()
    except OSError:
        boot = ''
    return [boot, os.uname().nodename]


def _about_me(index: int, size: int) -> bytes:
    return json.dumps({'index': index, 'size': size, 'version': _core.version(),
                       'machine': machine()}).encode()


def _check(words: List[Dict[str, Any]], size: int) -> None:
    """ValueError: they are not the processes of one job."""
    for index, word in enumerate(words):
        if word['index'] != index:
            raise ValueError(f'allgather returned what process {word["index"]} handed over in the '
                             f'place of process {index}: it is to keep the order of the indices')
        if word['size'] != size:
            raise ValueError(f'process {index} joins {word["size"]} processes, and this one joins '
                             f'{size}')
        if word['version'] != words[0]['version']:
            raise ValueError(f'process {index} has Reigen {word["version"]}, and process 0 has '
                             f'{words[0]["version"]}: all are to have the same')


def _by_machine(words: List[Dict[str, Any]]) -> List[int]:
    """The indices in the order of the ranks: a machine's processes stand side by side, and the
    machine of the lowest index comes first."""
    first: Dict[str, int] = {}
    for index, word in enumerate(words):
        for name in (word['machine'][0], ''.join(word['machine'])):
            first.setdefault(name, index)
    return sorted(range(len(words)), key=lambda i: (
        first[words[i]['machine'][0]], first[''.join(words[i]['machine'])], i))


class _Meeting:
    """Processes that have told each other who they are, and may join any number of times."""

    def __init__(self, allgather: Allgather, index: int, size: int, timeout: float,
                 by_machine: bool):
        if not 0 <= index < size:
            raise ValueError(f'index {index} is not one of {size} processes: it goes from 0 to '
                             'size-1')
        self._allgather, self._size = allgather, size
        exchanges = _Exchanges(allgather, size, timeout)
        words = [json.loads(blob) for blob in exchanges.exchange(_about_me(index, size))]
        _check(words, size)
        self._order = _by_machine(words) if by_machine else list(range(size))
        self.rank = self._order.index(index)

    def join(self, timeout: float) -> None:
        exchanges = _Exchanges(self._allgather, self._size, timeout)

        def exchange(blob: bytes) -> List[bytes]:
            blobs = exchanges.exchange(blob)
            return [blobs[i] for i in self._order]

        meet(self.rank, self._size, exchange, timeout, exchanges.stop)


def meet(rank: int, size: int, exchange: Callable[[bytes], List[bytes]], timeout: float,
         stop: Callable[[], None]) -> None:
    """Join those that exchange bytes so, in the order of the ranks. stop: has exchange() fail soon.
    Raises what exchange() raises, or HorovodInternalError."""
    gathering = Gathering(rank, size, exchange)
    try:
        _core.init_meeting(gathering.meeting, timeout, stop)
    except _core.HorovodInternalError as error:
        failed: Optional[BaseException] = gathering.failed
        raise (failed or error) from (error if failed else None)


def join(allgather: Allgather, index: int, size: int, *, timeout: float = 60.0,
         by_machine: bool = True) -> int:
    """Join a job of `size` processes, of which this is the one with that index (from 0). Returns
    its rank; reigen.shutdown() leaves the job.

    allgather(blob, timeout): hands over bytes, and returns what each process has handed over, in
    the order of their indices; raises an exception if that fails, TimeoutError if it takes longer
    than `timeout` seconds. All processes call it equally often (some four times), a thread at a
    time, and never after join() has returned. The first of what they hand over holds a key that
    admits to the job: what carries it must be as private as the job.
    by_machine: ranks of one machine follow each other; else a process's rank is its index.

    Blocks until all have joined. Raises ValueError if what allgather returns does not fit, what
    allgather raises, and HorovodInternalError if the processes do not reach each other.
    """
    meeting = _Meeting(allgather, index, size, timeout, by_machine)
    meeting.join(timeout)
    return meeting.rank


@contextlib.contextmanager
def lent(allgather: Allgather, index: int, size: int, *, timeout: float = 60.0,
         by_machine: bool = True) -> Iterator[int]:
    """As join(), for functions that call hvd.init() themselves: inside, init() of reigen and
    horovod joins, with its own arguments, and may do so again after a shutdown(). Gives the rank
    that this process will have. The job is left at the end."""
    meeting = _Meeting(allgather, index, size, timeout, by_machine)

    with lending(lambda limit: meeting.join(limit or timeout)):
        yield meeting.rank


@contextlib.contextmanager
def lending(joins: Callable[[Optional[float]], None], elastic: Any = None) -> Iterator[None]:
    """Inside, init() calls joins() with its timeout, or None; the job is left at the end. elastic:
    epoch() and go_on() of one whose ranks may change, as reigen._core has them."""
    if _core.lent_join is not None:
        raise ValueError('another function in this process has been lent init(), and has not '
                         'ended yet: one process is one rank at a time')
    _core.lent_join, _core.lent_elastic = joins, elastic
    try:
        yield
    finally:
        _core.lent_join = _core.lent_elastic = None
        _core.shutdown()
