# SPDX-License-Identifier: Apache-2.0
"""What a rank hears of its job's end beforehand: by the launcher's word, or by SIGTERM.

Reigen's launcher tells first, and sends SIGTERM when little time is left. Other launchers send it
at once. So does Slurm to all processes of a step, beside Reigen's word. Therefore SIGTERM does not
end a process that wants to save its work, but in these cases: Reigen's launcher sends it without a
word, as to one that has no place in the job any more; or it comes again, later.
"""
import os
import signal
import threading
import time

from reigen import _core

#: So long the launcher's word is waited for, which may come behind Slurm's SIGTERM; and how often
#: is looked. A SIGTERM that comes later than that behind another one is meant.
_WORD_S, _LOOK_S = 2.0, 0.02


class Notice:
    """Of this process. Every method but listen() may be called at any time, by its main thread."""

    def __init__(self):
        self._told = False      # a launcher says so
        self._signalled = 0.0   # the first SIGTERM's time, without such a launcher
        self._held = False      # a SIGTERM has not ended this process, for which it was sent
        self._process = 0       # whose handler it is: not that of a forked child
        self._passed = (0, 0)   # an epoch, and what was said in it and has been taken
        self._saving = False    # for good: the process ends by itself

    def listen(self) -> None:
        """Ask for a word, now or when the runtime is initialised. A handler of the script's own
        for SIGTERM stays; other threads than the main one cannot have any."""
        self._told = _core.preemptible()
        if threading.current_thread() is threading.main_thread() and \
                signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._process = os.getpid()
            signal.signal(signal.SIGTERM, self._on_signal)

    def rest(self) -> bool:
        """SIGTERM ends this process again: it has nothing to save, or waits where it could not.
        Whether it did not before."""
        armed = not self._saving and self._process == os.getpid() and \
            threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGTERM) == self._on_signal
        if armed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return armed

    def end(self) -> None:
        """No commit follows: a SIGTERM that has come ends this process now."""
        if self.rest() and self._held:
            self._end()

    def save(self) -> None:
        """The job stops, and all ranks know: nothing but SIGKILL disturbs them from now on."""
        self._saving = True

    def take(self) -> int:
        """What was said that is new: _core.JOB_AT_RISK, once in an epoch; and _core.JOB_STOPS."""
        epoch = _core.epoch()
        number, taken = self._passed
        if number != epoch.number:
            taken = 0
        said = epoch.update & (_core.JOB_STOPS | _core.JOB_AT_RISK & ~taken)
        self._passed = (epoch.number, taken | said)
        return said | (_core.JOB_STOPS if self._signalled else 0)

    def _on_signal(self, signo, frame) -> None:
        if self._process != os.getpid():
            self._end()
        elif self._saving:
            pass
        elif self._told:
            self._wait_for_word()
            self._held = True
        elif not self._signalled:
            self._signalled = time.monotonic()
            self._held = True
        elif time.monotonic() > self._signalled + _WORD_S:
            self._end()

    def _wait_for_word(self) -> None:
        until = time.monotonic() + _WORD_S
        while not _core.epoch().update & _core.JOB_STOPS:
            if time.monotonic() > until:
                self._end()
            time.sleep(_LOOK_S)

    @staticmethod
    def _end() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


notice = Notice()
