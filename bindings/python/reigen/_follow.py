# SPDX-License-Identifier: Apache-2.0
"""Runs the launcher as a child whose events (`--json`) this process reads: feeds it, shows what
ranks print, hands on an interrupt, and leaves nothing behind, whatever becomes of this process."""
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from reigen._display import Display
from reigen._travel import Receiver

#: Becomes the launcher, which is told to end when the thread that waits for it is gone: the kernel
#: does that, so that it also holds where this process is killed. PR_SET_PDEATHSIG is 1, SIGTERM 15.
_BECOME = ('import os, signal, sys\n'
           'if signal.getsignal(2) is signal.default_int_handler:\n'
           '    signal.signal(2, signal.SIG_DFL)\n'  # exec would forget one that waits for python
           'try:\n'
           '    import ctypes\n'
           '    ctypes.CDLL(None).prctl(1, 15)\n'
           'except (ImportError, OSError):\n'
           '    pass\n'
           'if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])\n')

_READ_NBYTES = 1 << 16
_HELD_S = 0.3    # the launcher's own words may be the verdict, which is an event as well
_KEY_S = 2       # for a key of the terminal's to have reached all that run beside each other
_LAST_S = 60     # for the launcher to end once it has closed its output


class End(NamedTuple):
    """How a job ended."""
    status: int               # the launcher's exit code
    verdict: Dict[str, Any]   # the event; empty: there was none
    said: str                 # by the launcher itself, and not shown
    interrupted: bool


def _has_terminal() -> bool:
    """Whether Ctrl-C of a terminal reaches this process, and so the launcher beside it."""
    try:
        with open('/dev/tty', 'rb', buffering=0) as tty:
            return os.tcgetpgrp(tty.fileno()) == os.getpgrp()
    except OSError:
        return False


def _canary() -> Optional[Any]:
    """A process that does nothing, beside the launcher: a Ctrl-C of the terminal's is its end."""
    try:
        return subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    except OSError:
        return None


class _Interrupts:
    """While this is entered SIGINT raises nothing: it is counted, and wakes the selector."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def __enter__(self) -> '_Interrupts':
        before = signal.getsignal(signal.SIGINT)
        # Only the main thread hears of it; who ignores it goes on doing so.
        if threading.current_thread() is threading.main_thread() and callable(before):
            signal.signal(signal.SIGINT, self._note)
            self._before = before
        return self

    def _note(self, signum: int, frame: Any) -> None:
        self.count += 1
        try:
            os.write(self._write_fd, b'i')
        except BlockingIOError:
            pass

    def __exit__(self, *exc: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        os.close(self.read_fd)
        os.close(self._write_fd)


class _Job:
    """One job, from its start to its end."""

    def __init__(self, argv: Sequence[str], env: Dict[str, str], parcel: bytes,
                 display: Display, receiver: Receiver) -> None:
        self._display, self._receiver = display, receiver
        self._parcel = memoryview(parcel)
        self._line = b''
        self._said, self._said_at = '', 0.0
        self._sent = 0  # how many interrupts the launcher has got
        self.verdict: Dict[str, Any] = {}
        self._beside = _has_terminal()
        self._canary = _canary() if self._beside else None
        self._child = subprocess.Popen(
            [sys.executable or 'python3', '-I', '-S', '-c', _BECOME, str(os.getpid()), *argv],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=not self._beside)
        self._selector = selectors.DefaultSelector()
        for pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)
        self._selector.register(self._child.stdout, selectors.EVENT_READ, self._read_events)
        self._selector.register(self._child.stderr, selectors.EVENT_READ, self._read_words)
        self._selector.register(self._child.stdin, selectors.EVENT_WRITE, self._feed)

    def _pipes(self) -> List[Any]:
        return [self._child.stdin, self._child.stdout, self._child.stderr]

    # -------------------------------------------------------------- what comes and goes

    def _done(self, pipe: Any) -> None:
        self._selector.unregister(pipe)
        pipe.close()

    def _feed(self) -> None:
        pipe = self._child.stdin
        try:
            self._parcel = self._parcel[os.write(pipe.fileno(), self._parcel[:_READ_NBYTES]):]
        except BlockingIOError:
            return
        except OSError:  # the job has ended, or no rank reads
            self._parcel = self._parcel[:0]
        if not self._parcel:
            self._done(pipe)

    def _read(self, pipe: Any) -> bytes:
        try:
            data = os.read(pipe.fileno(), _READ_NBYTES)
        except BlockingIOError:
            return b''
        if not data:
            self._done(pipe)
        return data

    def _read_words(self) -> None:
        self._said += self._read(self._child.stderr).decode(errors='replace')
        self._said_at = self._said_at or time.monotonic()

    def _read_events(self) -> None:
        *lines, self._line = (self._line + self._read(self._child.stdout)).split(b'\n')
        for line in lines:
            try:
                event = json.loads(line)
                kind = event['event']
            except (ValueError, TypeError, KeyError):
                self._display.note(line.decode(errors='replace'))
                continue
            self._take(kind, event)

    def _take(self, kind: str, event: Dict[str, Any]) -> None:
        if kind == 'output':
            self._display.output(event)
        elif kind == 'note':
            rank = event['rank']
            self._display.note(f'reigen: {"" if rank is None else f"rank {rank}: "}{event["text"]}')
        elif kind == 'start':
            self._display.start(event['ranks'])
        elif kind == 'host' and event['phase'] in ('pending', 'starting', 'pulling', 'connecting'):
            self._display.host(event['host'], event['phase'], event['reason'])
        elif kind == 'running':
            self._display.running()
        elif kind == 'restart':
            self._receiver.forget()
            self._display.note(f'reigen: {event["cause"]}; the job is started again: restart '
                               f'{event["restart"]} of {event["of"]}')
        elif kind == 'verdict':
            self.verdict = event

    def _show_words(self, now: float) -> None:
        """The launcher's own words, unless they are the verdict."""
        if self._said and not self.verdict and now - self._said_at >= _HELD_S:
            whole, newline, self._said = self._said.rpartition('\n')
            self._said_at = 0.0
            if newline:
                self._display.note(self._receiver.cleaned(whole))

    # -------------------------------------------------------------- the loop

    def _hand_on(self, interrupts: _Interrupts) -> None:
        os.read(interrupts.read_fd, _READ_NBYTES)
        # The terminal's first Ctrl-C has reached the launcher already; two are an order to kill.
        if self._beside and not self._sent and self._was_key():
            self._sent = 1
        while self._sent < interrupts.count:
            self._sent += 1
            self._child.send_signal(signal.SIGINT)

    def _was_key(self) -> bool:
        """Whether the first interrupt came to all that run beside each other on the terminal, and
        not to this process alone, as by kill."""
        try:
            return self._canary is None or self._canary.wait(_KEY_S) != 0
        except subprocess.TimeoutExpired:
            return False

    def _wait_s(self, now: float) -> Optional[float]:
        waits = [self._display.wait_s(now)]
        if self._said and not self.verdict:
            waits.append(max(self._said_at + _HELD_S - now, 0.01))
        return min((w for w in waits if w is not None), default=None)

    def run(self, interrupts: _Interrupts) -> None:
        """Until the launcher has closed its output."""
        self._selector.register(interrupts.read_fd, selectors.EVENT_READ,
                                lambda: self._hand_on(interrupts))
        while not self._child.stdout.closed:
            for key, _ in self._selector.select(self._wait_s(time.monotonic())):
                if not getattr(key.fileobj, 'closed', False):
                    key.data()
            now = time.monotonic()
            self._show_words(now)
            self._display.tick(now)
            self._display.show()
        self._display.finish()

    def end(self) -> Tuple[int, str]:
        """The exit code and what the launcher said last. Ends the job if it still runs."""
        if not self._child.stdout.closed:
            self._child.send_signal(signal.SIGTERM)
            self._child.stdout.close()
        try:
            status = self._child.wait(_LAST_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            status = self._child.wait()
        if not self._child.stderr.closed:
            self._read_words()
        self._selector.close()
        if self._canary:
            self._canary.kill()
            self._canary.communicate()
        for pipe in self._pipes():
            pipe.close()
        return status, self._receiver.cleaned(self._said)


def follow(argv: Sequence[str], env: Dict[str, str], parcel: bytes, receiver: Receiver,
           hold: bool, tag: Optional[Callable[[int, str, float], str]] = None,
           ranks: Optional[Set[int]] = None) -> End:
    """Run the launcher (argv, with --json) to its end, with parcel as standard input. Outcomes are
    in receiver then. An interrupt does not raise: the job ends in order, and End says so.

    hold, tag, ranks: as for Display.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with _Interrupts() as interrupts:
        job = _Job(argv, env, parcel, Display(receiver, hold, tag, ranks), receiver)
        try:
            job.run(interrupts)
        finally:
            status, said = job.end()
        if status == 0 and said:  # there is no error that would tell it
            sys.stderr.write(said)
            sys.stderr.flush()
        return End(status, job.verdict, said, interrupts.count > 0)
