# SPDX-License-Identifier: Apache-2.0
"""The side of a process that a cluster has placed (horovod.spark): it becomes a rank, calls the
function, and sends on what is printed meanwhile. It may be called again in the same process."""
import contextlib
import fcntl
import functools
import itertools
import os
import queue
import re
import select
import socket
import sys
import termios
import threading
import time
import traceback
from typing import (Any, Callable, ContextManager, Dict, Iterator, List, Mapping, NamedTuple,
                    Optional, Tuple, Type, TypeVar)

from reigen import _core, _traceback, _travel, boot
from reigen._frames import Line, seal, unseal_all

#: Seconds to reach the program that has asked for this process.
_CONNECT_S = 30
#: Seconds for all to call init(), unless something says another limit; as in jobs of reigen run.
_MEET_S = 300.0
#: Seconds for that program to hear of a failure, before the other ranks do; and to answer.
_HEARD_S = 1.0
#: Ranks that an error names.
_NAMED = 8
#: What a pipe may hold while the thread that reads it waits for Python's lock.
_PIPE_NBYTES = 1 << 20
_RESULT = 'Return what can be sent: numbers, arrays, a state_dict().'


class Call(NamedTuple):
    """What a process needs in order to be a rank; it travels by the cluster's own way."""
    address: Tuple[str, int]
    key: bytes
    parcel: bytes
    env: Dict[str, str]

    def __repr__(self) -> str:  # logs and tracebacks may have it
        return f'Call(address={self.address}, {len(self.parcel)} bytes)'


_W = TypeVar('_W', bound='_Way')


def _meet_s() -> float:
    """By the runtime's variables, of which it refuses those that it cannot read."""
    for name in ('REIGEN_START_TIMEOUT', 'HOROVOD_START_TIMEOUT', 'HOROVOD_GLOO_TIMEOUT_SECONDS'):
        said = re.fullmatch(r'(\d+)(ms|s|m|h|)', os.environ.get(name, ''))
        if said:
            return int(said[1]) * {'ms': 0.001, 'm': 60, 'h': 3600}.get(said[2], 1)
    return _MEET_S


class Gone(RuntimeError):
    """The program that has asked for this process has ended, or the job has."""


class _Apart(RuntimeError):
    """One that was to meet the others has given up, and calls init() again."""


class _Way:
    """The line to that program, and what comes over it."""

    def __init__(self, call: Call, index: int, facts: Mapping[str, Any]):
        sock = socket.create_connection(call.address, _CONNECT_S)
        self.line = Line(sock, call.key, called=False, greet_s=_CONNECT_S)
        self.started: 'queue.Queue[Optional[Dict[str, Any]]]' = queue.Queue()
        self._gathered: 'queue.Queue[Optional[Tuple[Dict[str, Any], bytes]]]' = queue.Queue()
        self._missed: 'queue.Queue[Tuple[List[Tuple[int, str]], int]]' = queue.Queue()
        self._key, self._turns, self._epoch = call.key, itertools.count(), 0
        self._round = 0  # of exchanges: each meeting has one
        self.stopped = self._closing = False
        self.torn = False  # an exchange has failed here: others may count another one as the next
        self.heard = threading.Event()  # that the function has failed
        self._leaving: List[threading.Thread] = []
        self.reader = threading.Thread(target=self._read, daemon=True, name='reigen-member')
        try:
            self.line.send('here', index=index, **facts)
            self.reader.start()
        except BaseException:
            self.line.drop()
            raise

    def _read(self) -> None:
        try:
            while True:
                self._hear(*self.line.receive())
        except (OSError, EOFError):
            self.started.put(None)
            self._leave()

    def _hear(self, fields: Dict[str, Any], data: bytes) -> None:
        if fields['kind'] == 'start':
            self.started.put(fields['place'])
        elif fields['kind'] == 'heard':
            self.heard.set()
        elif fields['kind'] == 'missing':
            self._missed.put((fields['ranks'], fields['count']))
        elif fields['kind'] in ('gathered', 'apart'):
            self._gathered.put((fields, data))
        elif fields['kind'] == 'stop':
            self.started.put(None)
            self._leave()

    def _leave(self) -> None:
        """Operations in flight end, and so does a function that waits for one, or for others."""
        self.stopped = True
        self._gathered.put(None)
        if self._closing:
            return
        leaving = threading.Thread(target=_core.shutdown, daemon=True, name='reigen-leave')
        leaving.start()
        self._leaving.append(leaving)

    def gather(self, blob: bytes, timeout: float, end: float = 0) -> List[bytes]:
        """boot's allgather. The blobs hold the key of the job, and so they are sealed. end: when
        the timeout is over that began before."""
        turn, end = next(self._turns), end or time.monotonic() + timeout
        here = {'epoch': self._epoch, 'round': self._round, 'turn': turn}
        self.line.send('gather', seal(self._key, blob), **here)
        while not self.stopped:
            self._check()
            try:
                found = self._gathered.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                raise TimeoutError(f'{self._missing()} did not call init() within {timeout:g} s: '
                                   'REIGEN_START_TIMEOUT sets that time') from None
            if found is None:
                break
            fields, data = found
            if not here.items() <= fields.items():
                continue  # of one that had been given up
            if fields['kind'] == 'apart':
                raise _Apart('another rank has begun to meet the others again')
            return unseal_all(self._key, data)
        raise Gone('the job has ended, or the program that started it has')

    def _missing(self) -> str:
        """Those that an exchange waits for."""
        self._missed = queue.Queue()  # the old one may have a late answer
        self.line.send('misses', epoch=self._epoch, most=_NAMED)
        try:
            ranks, count = self._missed.get(timeout=_HEARD_S)
        except queue.Empty:
            ranks, count = [], 0
        named = ', '.join(f'rank {rank} on {host}' for rank, host in ranks)
        more = f' and {count - len(ranks)} more' if count > len(ranks) else ''
        return named + more or 'some ranks'

    def _check(self) -> None:
        """Raises, if those who meet cannot all come any more."""

    def meet(self, rank: int, size: int, limit: Optional[float]) -> None:
        """What init() does, with the limit that it was given."""
        timeout = limit or _meet_s()
        end = time.monotonic() + timeout
        while True:
            self._round, self._turns = self._round + 1, itertools.count()
            self._gathered = queue.Queue()  # in the old one may be a word to give that up
            try:
                return boot.meet(rank, size, lambda blob: self.gather(
                    blob, timeout, end) if size > 1 else [blob], timeout,
                    lambda: self._gathered.put(None))
            except _Apart:
                continue  # gather() ends that in time
            except BaseException:
                self.torn = True
                raise

    def close(self) -> None:
        """Nothing of it is left in this process, which may be called for another job at once: a
        late word to leave would end that one's operations."""
        self._closing = True
        self.line.close()
        self.reader.join()  # it begins the others
        self._left()
        self.line.drop()

    def _left(self) -> None:
        """Returns when nothing ends operations any more."""
        while self._leaving:
            self._leaving.pop().join()


def _facts() -> Dict[str, Any]:
    return {'machine': ' '.join(boot.machine()), 'host': os.uname().nodename, 'pid': os.getpid(),
            'version': _core.version(), 'python': '.'.join(map(str, sys.version_info[:2]))}


@contextlib.contextmanager
def _variables(env: Mapping[str, str], place: Mapping[str, Any]) -> Iterator[None]:
    """Those of the caller, and those by which ranks are numbered; as they were afterwards."""
    names = ('rank', 'size', 'local_rank', 'local_size', 'cross_rank', 'cross_size')
    new = dict(env)
    for prefix in ('REIGEN', 'HOROVOD'):
        new.update({f'{prefix}_{name.upper()}': str(place[name]) for name in names})
    new.update(RANK=str(place['rank']), WORLD_SIZE=str(place['size']),
               LOCAL_RANK=str(place['local_rank']), LOCAL_WORLD_SIZE=str(place['local_size']))
    before = dict(os.environ)
    os.environ.update(new)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items()
                           if os.environ.get(name) != value})


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the function may have put anything there
            stream.flush()


def _log(pipe: Any, file: Any) -> None:
    """A process that the function has left behind holds the pipe, and may print."""
    with pipe, file:
        while data := pipe.read(1 << 16):
            with contextlib.suppress(OSError):
                file.write(data)


class _Output:
    """Descriptors 1 and 2 go to that program meanwhile, also what C libraries print."""

    def __init__(self, line: Line):
        self._line = line
        _flush()
        self._ending, self._end = os.pipe()
        self._before = [os.dup(fd) for fd in (1, 2)]
        self._through = []
        for fd, name in ((1, 'stdout'), (2, 'stderr')):
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):  # the user has pages enough in pipes
                fcntl.fcntl(writing, 1031, _PIPE_NBYTES)  # F_SETPIPE_SZ
            os.dup2(writing, fd)
            os.close(writing)
            self._through.append(threading.Thread(
                target=self._pump, daemon=True, name='reigen-output',
                args=(reading, name, os.dup(self._before[fd - 1]))))
            self._through[-1].start()

    def _pump(self, reading: int, name: str, log: int) -> None:
        """log: the worker's own, for what nobody takes any more."""
        pipe, file = open(reading, 'rb', buffering=0), open(log, 'wb', buffering=0)
        if self._send(pipe, name, file):
            threading.Thread(target=_log, args=(pipe, file), daemon=True,
                             name='reigen-output').start()
            return
        pipe.close()
        file.close()

    def _send(self, pipe: Any, name: str, file: Any) -> bool:
        """Until all is through that had been printed by restore(). Whether others hold the pipe."""
        left = None  # bytes, once restore() has been called
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        poll.register(self._ending, select.POLLIN)
        while left is None or left > 0:
            if left is None and self._ending in dict(poll.poll()):
                count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
                left = int.from_bytes(count, sys.byteorder)
                poll.unregister(self._ending)
            if left == 0:
                break
            data = pipe.read(1 << 16)
            if not data:
                return False
            left = None if left is None else left - len(data)
            try:
                self._line.send('out', data, stream=name)
            except OSError:  # nobody is there
                with contextlib.suppress(OSError):
                    file.write(data)
        # Nothing is in it, and nobody can write any more.
        return (pipe.fileno(), select.POLLHUP) not in poll.poll(0)

    def restore(self) -> None:
        """Returns when all that was printed has been sent; then nothing of this is left but what
        another process holds."""
        _flush()
        for fd, before in zip((1, 2), self._before):
            os.dup2(before, fd)
            os.close(before)
        os.close(self._end)
        for through in self._through:
            through.join()
        os.close(self._ending)


class Outcome(NamedTuple):
    """What became of the function."""
    well: bool
    follows: bool  # it failed because another rank had
    data: bytes    # the pickled result, or the traceback as text


def _call(function: Callable[[], Outcome]) -> Outcome:
    try:
        return function()
    except BaseException as error:  # sys.exit(), too: it brings no result
        with _traceback.shortened(error):
            text = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
        return Outcome(False, _core.lost(error), text.encode(errors='backslashreplace'))


def take_part(index: int, call: Call, facts: Mapping[str, Any],
              begin: Callable[[], Any]) -> Optional[Tuple[int, bytes]]:
    """Be a rank: (its number, what the function returned, pickled); None when it failed, which the
    caller's program has been told. facts: what the cluster says of this process. begin: is called
    when the rank is known, and before the function."""
    way = connect(_Way, call, index, facts)
    try:
        place = way.started.get()
        if place is None:
            way.line.send('end', well=False, follows=True)
            return None
        begin()
        end = work(way, place, call, boot.lending(
            functools.partial(way.meet, place['rank'], place['size'])))
        return (place['rank'], end.data) if end.well else None
    except OSError:  # nobody is there who would be told
        return None
    finally:
        way.close()


def connect(kind: Type[_W], call: Call, index: int, facts: Mapping[str, Any]) -> _W:
    """A way to the program that has asked for this process; Gone."""
    try:
        return kind(call, index, {**_facts(), **facts})
    except (OSError, EOFError) as error:
        raise Gone(f'the program that started the job does not answer at {call.address[0]} port '
                   f'{call.address[1]}: {error}. Has the job ended, and does a firewall let '
                   'connections from here through?') from error


def work(way: _Way, place: Mapping[str, Any], call: Call, lent: ContextManager[Any]) -> Outcome:
    """Call the function once, with init() as it is lent; that program is told how it ends."""
    def function() -> Outcome:
        unpacked = _travel.unpack(_travel.Parcel(*_travel.loads(call.parcel)))
        return Outcome(True, False, _travel.dumps(unpacked(), 'The result', _RESULT))

    def in_job() -> Outcome:
        with lent:
            end = _call(function)
            if not end.well:  # the others fail when this one leaves the job: it is to be the first
                way.line.send('failed', end.data, follows=end.follows or way.stopped)
                way.heard.wait(_HEARD_S)
            return end

    with _variables(call.env, place):
        output = _Output(way.line)
        try:
            end = _call(in_job)
        finally:
            output.restore()
    way.line.send('end', b'' if end.well else end.data, well=end.well,
                  follows=end.follows or way.stopped)
    return end
