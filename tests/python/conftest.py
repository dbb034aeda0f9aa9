# SPDX-License-Identifier: Apache-2.0
"""Fixtures that start ranks; jobs.py does it."""
import pytest

import jobs


@pytest.fixture
def start():
    """start(count, program, *arguments, env=..., more=..., interpreter=...) -> Ranks"""
    started = []

    def run(count, program, *arguments, env=None, more=None, interpreter=None):
        ranks = jobs.Ranks(count, [jobs.HERE / 'ranks' / program, *arguments], env, more,
                           interpreter)
        started.append(ranks)
        return ranks

    yield run
    for ranks in started:
        ranks.close()


@pytest.fixture
def all_pass(start):
    """all_pass(count, program, ...): every rank exits 0, else the test fails with their output."""
    def run(count, program, *arguments, env=None, limit=jobs.LIMIT_S):
        ranks = start(count, program, *arguments, env=env)
        statuses = ranks.wait(limit)
        assert statuses == [0] * count, f'statuses {statuses}\n{ranks.output()}'
        return ranks
    return run


@pytest.fixture(autouse=True)
def _library_exists():
    if jobs.library() is None:
        pytest.fail('libreigen.so has not been built: run make')
