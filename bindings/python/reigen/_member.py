# SPDX-License-Identifier: Apache-2.0
"""The side of a process that a cluster has placed (horovod.spark): it becomes a rank, calls the
function, and sends on what is printed meanwhile. It may be called again in the same process."""
import contextlib
import fcntl
import itertools
import os
import queue
import socket
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from reigen import _core, _traceback, _travel, boot
from reigen._frames import Line

#: Seconds to reach the program that has asked for this process.
_CONNECT_S = 30
#: What a pipe may hold while the thread that reads it waits for Python's lock.
_PIPE_NBYTES = 1 << 20
_RESULT = 'Return what can be sent: numbers, arrays, a state_dict().'


class Call(NamedTuple):
    """What a process needs in order to be a rank; it travels by the cluster's own way."""
    address: Tuple[str, int]
    key: bytes
    parcel: bytes
    env: Dict[str, str]


class Gone(RuntimeError):
    """The program that has asked for this process has ended, or the job has."""


class _Way:
    """The line to that program, and what comes over it."""

    def __init__(self, call: Call, index: int, facts: Mapping[str, Any]):
        sock = socket.create_connection(call.address, _CONNECT_S)
        self.line = Line(sock, call.key, called=False)
        self.started: 'queue.Queue[Optional[Dict[str, Any]]]' = queue.Queue()
        self._gathered: 'queue.Queue[Optional[Tuple[Dict[str, Any], bytes]]]' = queue.Queue()
        self._turns = itertools.count()
        self.stopped = self._closing = False
        self._leaving: List[threading.Thread] = []
        self.line.send('here', index=index, **facts)
        self.reader = threading.Thread(target=self._read, daemon=True, name='reigen-member')
        self.reader.start()

    def _read(self) -> None:
        try:
            while True:
                fields, data = self.line.receive()
                if fields['kind'] == 'start':
                    self.started.put(fields['place'])
                elif fields['kind'] == 'gathered':
                    self._gathered.put((fields, data))
                elif fields['kind'] == 'stop':
                    self._leave()
        except (OSError, EOFError):
            self.started.put(None)
            self._gathered.put(None)
            if not self._closing:
                self._leave()

    def _leave(self) -> None:
        """Operations in flight end, and so does a function that waits for one."""
        self.stopped = True
        self._leaving.append(threading.Thread(target=_core.shutdown, daemon=True,
                                              name='reigen-leave'))
        self._leaving[-1].start()

    def gather(self, blob: bytes, timeout: float) -> List[bytes]:
        self.line.send('gather', blob, turn=next(self._turns))
        try:
            found = self._gathered.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f'some ranks did not call init() within {timeout:g} s') from None
        if found is None:
            raise Gone('the program that started the job has gone')
        fields, data = found
        ends = list(itertools.accumulate(fields['sizes']))
        return [data[start:end] for start, end in zip([0, *ends], ends)]

    def close(self) -> None:
        """Nothing of it is left in this process, which may be called for another job at once."""
        self._closing = True
        self.line.close()
        for thread in (self.reader, *self._leaving):
            thread.join()
        self.line.drop()


def _facts() -> Dict[str, Any]:
    return {'machine': ' '.join(boot.machine()), 'host': os.uname().nodename, 'pid': os.getpid(),
            'version': _core.version(), 'python': '.'.join(map(str, sys.version_info[:2]))}


@contextlib.contextmanager
def _variables(env: Mapping[str, str], place: Mapping[str, Any]) -> Iterator[None]:
    """Those of the caller, and those by which ranks are numbered; as they were afterwards."""
    before = dict(os.environ)
    names = ('rank', 'size', 'local_rank', 'local_size', 'cross_rank', 'cross_size')
    os.environ.update(env)
    for prefix in ('REIGEN', 'HOROVOD'):
        os.environ.update({f'{prefix}_{name.upper()}': str(place[name]) for name in names})
    os.environ.update(RANK=str(place['rank']), WORLD_SIZE=str(place['size']),
                      LOCAL_RANK=str(place['local_rank']),
                      LOCAL_WORLD_SIZE=str(place['local_size']))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the function may have put anything there
            stream.flush()


class _Output:
    """Descriptors 1 and 2 go to that program meanwhile, also what C libraries print."""

    def __init__(self, line: Line):
        self._line = line
        _flush()
        self._before = [os.dup(fd) for fd in (1, 2)]
        self._threads = []
        for fd, name in ((1, 'stdout'), (2, 'stderr')):
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):  # the user has pages enough in pipes
                fcntl.fcntl(writing, 1031, _PIPE_NBYTES)  # F_SETPIPE_SZ
            os.dup2(writing, fd)
            os.close(writing)
            thread = threading.Thread(target=self._pump, args=(reading, name, self._before[fd - 1]),
                                      daemon=True, name='reigen-output')
            thread.start()
            self._threads.append(thread)

    def _pump(self, reading: int, name: str, before: int) -> None:
        with open(reading, 'rb', buffering=0) as pipe:
            while True:
                data = pipe.read(1 << 16)
                if not data:
                    return
                try:
                    self._line.send('out', data, stream=name)
                except OSError:
                    os.write(before, data)  # nobody is there: the worker's own log

    def restore(self) -> None:
        _flush()
        for fd, before in zip((1, 2), self._before):
            os.dup2(before, fd)
        for thread in self._threads:
            # A process that the function has left behind may hold the pipe.
            thread.join(1)
        for before in self._before:
            os.close(before)


class _Outcome(NamedTuple):
    well: bool
    follows: bool  # it failed because another rank had
    data: bytes    # the pickled result, or the traceback as text


def _call(function: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(True, False, _travel.dumps(function(), 'The result', _RESULT))
    except BaseException as error:  # sys.exit(), too: it brings no result
        with _traceback.shortened(error):
            text = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
        return _Outcome(False, _core.lost(error), text.encode(errors='backslashreplace'))


def take_part(index: int, call: Call, facts: Mapping[str, Any],
              begin: Callable[[], Any]) -> Optional[Tuple[int, bytes]]:
    """Be a rank: (its number, what the function returned, pickled); None when it failed, which the
    caller's program has been told. facts: what the cluster says of this process. begin: is called
    when the rank is known, and before the function."""
    try:
        way = _Way(call, index, {**_facts(), **facts})
    except OSError as error:
        raise Gone(f'the program that started the job does not answer at {call.address[0]} port '
                   f'{call.address[1]}: {error.strerror}') from error
    try:
        place = way.started.get()
        if place is None:
            return None
        begin()
        with _variables(call.env, place):
            output = _Output(way.line)
            try:
                with boot.lent(way.gather, place['rank'], place['size'], by_machine=False):
                    end = _call(lambda: _travel.unpack(
                        _travel.Parcel(*_travel.loads(call.parcel)))())
            finally:
                output.restore()
        way.line.send('end', b'' if end.well else end.data, well=end.well,
                      follows=end.follows or way.stopped)
        return (place['rank'], end.data) if end.well else None
    except OSError:
        return None
    finally:
        way.close()
