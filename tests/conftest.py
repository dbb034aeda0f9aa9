# SPDX-License-Identifier: Apache-2.0
"""Time limits that hold on a busy machine, for every test that is written in Python.

A limit in a test says what a quiet machine needs, with room. None of them is what the test proves
(those that measure are marked `serial`, and compare clocks), so there is nothing to lose by waiting
longer: each limit of a process, and pytest's own for a whole test, is multiplied by what the
machine gives at that moment. A limit that proves something is not to be one of these.

What a test took before limits it further (took.py), so that one that hangs costs little.
"""
import functools
import io
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import took
from wait import patience, spent_s, told

# Where a person's PATH has no tools of administrators, such as chroot and ip: tests mean them.
os.environ['PATH'] = os.pathsep.join([os.environ.get('PATH', '/usr/bin:/bin'), '/usr/local/sbin',
                                      '/usr/sbin', '/sbin'])

# This process writes down what it has compiled of the tests, for the next one. What they start
# leaves nothing in anybody's folders.
sys.dont_write_bytecode = False
os.environ['PYTHONDONTWRITEBYTECODE'] = '1'

# A shell that starts a command with & has it ignore Ctrl-C, and all that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: No process and no test is given more seconds than these, or than it asks for itself: one that
#: hangs has to be named before the time of its part is over (tools/check.py).
PROCESS_LIMIT_S, TEST_LIMIT_S = 600, 1200
#: Of what a process had written when its test was out of time: so many last characters.
TOLD_CHARS = 2000


def read_line(stream):
    """Its next line, and not a byte more: communicate() does not know what a stream has read, and
    on a busy machine there is more."""
    line = b''
    while not line.endswith(b'\n') and (byte := os.read(stream.fileno(), 1)):
        line += byte
    if not isinstance(stream, io.TextIOBase):
        return line
    return line.decode(stream.encoding, stream.errors).replace('\r\n', '\n')


class Patient(subprocess.Popen):
    """A process whose limits are as this machine needs them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for stream in filter(None, (self.stdout, self.stderr)):
            stream.readline = functools.partial(read_line, stream)

    def _limit(self, timeout):
        # Limits below a second ask whether something still runs. And communicate() waits with what
        # is left of its own limit, which is not to grow again.
        if timeout is None or timeout < 1 or getattr(self, '_asked', False):
            return timeout
        return min(timeout * patience(), max(timeout, PROCESS_LIMIT_S))

    def _told(self):
        """What is waited for, and what communicate() has read of it."""
        words = self.args if isinstance(self.args, (str, bytes)) else ' '.join(map(str, self.args))
        read = [b''.join(parts).decode(errors='replace') for parts in
                (getattr(self, '_fileobj2output', None) or {}).values()]
        return f'the end of "{words}", which had written {[text[-TOLD_CHARS:] for text in read]}'

    def __exit__(self, kind, value, traceback):
        if kind:
            self.kill()  # who fails waits for nobody
        return super().__exit__(kind, value, traceback)

    def wait(self, timeout=None):
        with told(self._told):
            return super().wait(timeout=self._limit(timeout))

    def communicate(self, input=None, timeout=None):
        timeout = self._limit(timeout)
        self._asked = True
        try:
            with told(self._told):
                return super().communicate(input, timeout=timeout)
        finally:
            self._asked = False


subprocess.Popen = Patient


def pytest_configure(config):
    """Jobs are remembered in the user's state folder, where those of tests have no place."""
    if 'XDG_STATE_HOME' not in os.environ:
        config.state_home = os.environ['XDG_STATE_HOME'] = tempfile.mkdtemp(prefix='reigen-state-')


def pytest_unconfigure(config):
    if hasattr(config, 'state_home'):
        shutil.rmtree(config.state_home, ignore_errors=True)
        del os.environ['XDG_STATE_HOME']


#: What tools/check.py shows beside the tests that passed at the second try only.
LEFT_BEHIND = Path(__file__).resolve().parents[1] / 'build/check/left-behind'


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logfinish(nodeid):
    """Simulated hosts and containers have this machine's own /dev/null. Whoever takes rights from
    it breaks every test after it that is not root's: it gets them back, and the test is named."""
    mode = os.stat(os.devnull).st_mode
    if (mode & 0o666 != 0o666 or not stat.S_ISCHR(mode)) and os.geteuid() == 0:
        if not stat.S_ISCHR(mode):
            # At one stroke: others do the same, and some are just opening it.
            fresh = f'{os.devnull}.{os.getpid()}'
            os.mknod(fresh, stat.S_IFCHR, os.makedev(1, 3))
            os.replace(fresh, os.devnull)
        os.chmod(os.devnull, 0o666)
        LEFT_BEHIND.parent.mkdir(parents=True, exist_ok=True)
        with open(LEFT_BEHIND, 'a', encoding='utf-8') as out:
            out.write(f'{nodeid} or one beside it left {os.devnull} with mode '
                      f'{stat.filemode(mode)}\n')


SPENT = pytest.StashKey()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    """What a test has taken of the processors, with the processes that have ended in its time, is
    in pytest's report of it: tools/check.py lists it. A cluster's daemons count where it ends."""
    yield
    item.user_properties.append(('core_s', f'{spent_s() - item.stash[SPENT]:.2f}'))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """A test's own limit, before pytest-timeout looks at it: by the load when the test begins."""
    own = item.get_closest_marker('timeout')
    limit = own.args[0] if own and own.args else float(item.config.getini('timeout') or 180)
    given = min(limit * patience(), max(limit, TEST_LIMIT_S))
    item.add_marker(pytest.mark.timeout(given, **(own.kwargs if own else {})), append=False)
    item.stash[SPENT] = spent_s()
    yield


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item, settings):
    """Remember how pytest-timeout looks after this test; it does so itself."""
    item.timer_settings = settings


def set_timer(item, seconds):
    """pytest-timeout's timer begins again, with so many seconds."""
    hooks = item.config.hook
    hooks.pytest_timeout_cancel_timer(item=item)
    hooks.pytest_timeout_set_timer(item=item, settings=item.timer_settings._replace(
        timeout=seconds))


def record_name(item):
    """A test's name in the record of what each took: with a sanitizer all take longer."""
    kind = os.environ.get('REIGEN_TEST_SANITIZER')
    name = re.sub(r'@\w+$', '', item.nodeid)  # xdist's group
    return f'{kind} {name}' if kind else name


TIMES = pytest.StashKey()
#: What waits in a test gives up first, and says what it waited for (wait.until()).
LEAST_S = 45


def pytest_sessionstart(session):
    session.config.stash[TIMES] = (took.known() if took.holds() else {}, {})


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item):
    """The test itself, without what makes and removes its surroundings, has a limit of its own."""
    (before, now), name = item.config.stash[TIMES], record_name(item)
    whole = getattr(item, 'timer_settings', None)
    if whole and name in before:
        set_timer(item, min(whole.timeout, took.limit_s(name, 0, before, LEAST_S)))
    began = time.monotonic()
    outcome = yield
    if not outcome.excinfo:
        now[name] = time.monotonic() - began
    if whole and name in before:
        set_timer(item, whole.timeout)


def pytest_sessionfinish(session):
    if TIMES in session.config.stash and took.holds():
        took.add(session.config.stash[TIMES][1])
