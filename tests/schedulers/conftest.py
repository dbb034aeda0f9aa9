# SPDX-License-Identifier: Apache-2.0
"""Schedulers of others, from PyPI, whose processes become ranks. With REIGEN_TEST_PYTHON, a Python
that has what a test needs, it runs there, and not in an environment of tools/frameworks.sh."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
sys.path.insert(0, str(ROOT / 'tests/python'))

import jobs  # noqa: E402


OTHER = os.environ.get('REIGEN_TEST_PYTHON')


def python_of(environment):
    made = subprocess.run([ROOT / 'tools/frameworks.sh', environment], capture_output=True,
                          text=True, timeout=1200, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout.strip()


@pytest.fixture(scope='session')
def site():
    """site(environment) -> the folder of its packages, or '': REIGEN_TEST_PYTHON has them."""
    def of(environment):
        env = Path(python_of(environment)).parents[1]
        return str(next(env.glob('lib/python*/site-packages')))
    return (lambda environment: '') if OTHER else of


def start(environment, name, folder, *arguments, also=None, **options):
    """A program here, in an environment with that scheduler. also: other packages' folders."""
    python = OTHER or python_of(environment)
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(
        [str(ROOT / 'bindings/python'), *([str(also)] if also else [])]), 'HOME': str(folder),
           'REIGEN_LIBRARY': jobs.library(),
           'REIGEN_LAUNCHER': str(ROOT / '.venv/bin/reigen'), 'PYTHONDONTWRITEBYTECODE': '',
           'PYSPARK_PYTHON': python, 'SPARK_LOCAL_IP': '127.0.0.1'}
    return subprocess.Popen([python, HERE / name, folder, *arguments], cwd=folder, env=env,
                            **{'stdin': subprocess.DEVNULL, **options})


@pytest.fixture(scope='session')
def begin():
    """begin(environment, name, folder, ...) -> a process; the test ends it."""
    return start


@pytest.fixture(scope='session')
def program():
    """program(environment, name, folder, ...) -> what it has printed; it must end well. limit: in
    seconds, also on a busy machine."""
    def run(*words, limit=240, **options):
        child = start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        try:
            out, err = child.communicate(timeout=limit)
        finally:
            child.kill()
        assert child.returncode == 0, out + err[-5000:]
        return out
    return run
