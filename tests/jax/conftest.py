# SPDX-License-Identifier: Apache-2.0
"""Ranks of the tests of horovod.jax, in the environment that has JAX."""
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
sys.path.insert(0, str(ROOT / 'tests/python'))

import jobs  # noqa: E402


@pytest.fixture(scope='session')
def python():
    """The interpreter that has JAX."""
    done = subprocess.run([ROOT / 'tools/frameworks.sh', 'tf'], capture_output=True, text=True,
                          timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def start(python, monkeypatch):
    """start(count, program, *arguments, env=...) -> Ranks"""
    monkeypatch.setattr(jobs, 'python', lambda: python)
    started = []

    def run(count, program, *arguments, env=None):
        path = f'{ROOT / "bindings/python"}:{ROOT / "tests/python/ranks"}'
        ranks = jobs.Ranks(count, [HERE / 'ranks' / program, *arguments],
                           {'PYTHONPATH': path, 'JAX_PLATFORMS': 'cpu', **(env or {})})
        started.append(ranks)
        return ranks

    yield run
    for ranks in started:
        ranks.close()


@pytest.fixture
def all_pass(start):
    """all_pass(count, program, ...): every rank exits 0, else the test fails with their output."""
    def run(count, program, *arguments, env=None, limit=120):
        ranks = start(count, program, *arguments, env=env)
        statuses = ranks.wait(limit)
        assert statuses == [0] * count, f'statuses {statuses}\n{ranks.output()}'
        return ranks
    return run
