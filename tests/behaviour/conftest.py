# SPDX-License-Identifier: Apache-2.0
"""What every behaviour test may use. Tests run the built programs as a person would, and look at
what they print, return and leave behind.

`reigen(...)` runs the launcher; `programs` says where launcher, agent, library and python are. With
REIGEN_TEST_BUILD they are those of that build directory, which is how make check runs the tests
marked `sanitize` with the sanitizers' builds.
"""
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
# set by tools/check.py for the sanitizers' builds only
SANITIZER = os.environ.get('REIGEN_TEST_SANITIZER')


def find_programs():
    named = os.environ.get('REIGEN_TEST_BUILD')
    build = Path(named) if named else ROOT / 'build'
    venv = ROOT / '.venv/bin'
    return SimpleNamespace(
        reigen=build / 'src/cmd/reigen' if named else venv / 'reigen',
        agent=build / 'src/agent/reigen-agent' if named else venv / 'reigen-agent',
        library=build / 'src/coll/libreigen.so', python=venv / 'python', build=build)


PROGRAMS = find_programs()


def preload():
    """The sanitizer's library, which has to come first in a process that loads our library."""
    if not SANITIZER:
        return {}
    name = {'asan': 'libasan.so', 'tsan': 'libtsan.so'}[SANITIZER]
    path = subprocess.run(['cc', f'-print-file-name={name}'], capture_output=True, text=True,
                          check=True).stdout.strip()
    # python itself leaks.
    asan = os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'
    return {'LD_PRELOAD': str(Path(path).resolve()), 'ASAN_OPTIONS': asan}


def environment(**more):
    """The caller's environment without what would reach into a job, and with the build's files."""
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith(('HOROVOD_', 'REIGEN_')) and
            k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT')}
    if 'REIGEN_TEST_BUILD' in os.environ:
        keep |= {'REIGEN_AGENT': str(PROGRAMS.agent), 'REIGEN_LIBRARY': str(PROGRAMS.library)}
    return {**keep, **{k: str(v) for k, v in more.items()}}


@pytest.fixture
def programs():
    return PROGRAMS


@pytest.fixture
def python_ranks():
    """Variables for ranks that are python, or load libreigen.so otherwise: environment() with the
    sanitizer's library in front where there is a sanitizer."""
    return environment(OMP_NUM_THREADS=1, **preload())


@pytest.fixture
def start():
    """start(*argv, env=, **popen): a process in a group of its own, killed when the test ends."""
    children = []

    def begin(*argv, env=None, **kwargs):
        kwargs = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                  'stderr': subprocess.PIPE, 'text': True, **kwargs}
        child = subprocess.Popen([str(a) for a in argv], start_new_session=True,
                                 env=environment() if env is None else env, **kwargs)
        children.append(child)
        return child

    yield begin
    for child in children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def reigen(start):
    """reigen(*arguments, timeout=60, input=None, env=, **popen): run the launcher to its end."""
    def run(*arguments, timeout=60, input=None, **kwargs):
        if input is not None:
            kwargs['stdin'] = subprocess.PIPE
        child = start(PROGRAMS.reigen, *arguments, **kwargs)
        out, err = child.communicate(input, timeout=timeout)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    return run
