# SPDX-License-Identifier: Apache-2.0
"""What every behaviour test may use. Tests run the built programs as a person would, and look at
what they print, return and leave behind.

`reigen(...)` runs the launcher; `programs` says where launcher, agent, library and python are.
"""
import os
import signal
import subprocess

import pytest

from built import PROGRAMS, environment, preload
from kubectl_played import Played
from pods import PodJob
from ranks import free_port
from tasks import PaiJob
from terminals import Terminal


@pytest.fixture
def programs():
    return PROGRAMS


@pytest.fixture
def played(tmp_path):
    """A kubectl that is played."""
    return Played(tmp_path)


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


@pytest.fixture
def job(tmp_path):
    """A job whose pods are processes here: pods.py."""
    job = PodJob(tmp_path, free_port())
    yield job
    job.close()


@pytest.fixture
def pai(tmp_path):
    """A job on OpenPAI whose tasks are processes here: tasks.py."""
    job = PaiJob(tmp_path)
    yield job
    job.close()


@pytest.fixture
def terminal():
    """terminal(*argv, rows=, columns=, kind=, **variables): a program on one of its own."""
    made = []

    def make(*argv, kind=Terminal, **kwargs):
        made.append(kind(*argv, **kwargs))
        return made[-1]

    yield make
    for t in made:
        t.close()
