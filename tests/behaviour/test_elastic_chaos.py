# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs under strikes at random (chaos.py). What fails says how to have it again by itself.

REIGEN_SWEEP_SECONDS, REIGEN_SWEEP_SEED: for how long make soak tries, and from which seed on.
"""
import itertools
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from built import ROOT
from chaos import Calm, Long, Trial

SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '4711'))
SECONDS = float(os.environ.get('REIGEN_SWEEP_SECONDS', '240'))
#: Trials at the same time: they mostly wait.
WORKERS = 4


def try_all(trials):
    """Run them, some at a time. All have ended before the first failure is raised."""
    with ThreadPoolExecutor(WORKERS) as pool:
        done = [pool.submit(trial.run) for trial in trials]
    return sum(1 for each in done if each.result() is None)


def until_late(make):
    """Trials by number until the time is over, WORKERS of them at once. How many."""
    end, numbers = time.monotonic() + SECONDS / 2, itertools.count(SEED)

    def go_on():
        tried = 0
        while time.monotonic() < end:
            make(next(numbers)).run()
            tried += 1
        return tried
    with ThreadPoolExecutor(WORKERS) as pool:
        done = [pool.submit(go_on) for _ in range(WORKERS)]
    return sum(each.result() for each in done)


@pytest.mark.soak
def test_a_million_histories_keep_what_always_holds():
    """The membership alone, without processes. `make check` plays the first 100,000 of them."""
    build, name = ROOT / 'build', 'tests/test_launch_membership_sim'
    subprocess.run(['ninja', '-C', build, name], check=True, capture_output=True, text=True)
    done = subprocess.run([build / name], capture_output=True, text=True, check=False, env={
        **os.environ, 'REIGEN_SIM_HISTORIES': '1000000'})
    assert done.returncode == 0, done.stdout + done.stderr
    assert '[  PASSED  ] 1 test(s)' in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_strikes_at_random_leave_the_job_going():
    assert try_all([Trial(SEED + i) for i in range(10)]) == 10


def test_ranks_that_stop_for_seconds_are_not_set_aside():
    assert try_all([Calm(SEED, 2), Calm(SEED + 1, 2)]) == 2


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 600)
def test_minutes_of_strikes_leave_the_jobs_going(record_property):
    record_property('jobs', until_late(Long))


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 600)
def test_minutes_of_ranks_that_stop_set_nobody_aside(record_property):
    record_property('jobs', until_late(Calm))
