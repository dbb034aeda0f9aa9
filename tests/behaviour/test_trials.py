# SPDX-License-Identifier: Apache-2.0
"""No silent wait: whatever happens to a job, in whichever phase, is named within seconds, and the
job goes on or ends (trials.py). What fails says how to have it again by itself.

REIGEN_SWEEP_SECONDS, REIGEN_SWEEP_SEED: for how long make soak tries, and from which seed on.
"""
import itertools
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from trials import Draw, Trial, checkpoint, pause, seeds, table, try_all

SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '4711'))
SECONDS = float(os.environ.get('REIGEN_SWEEP_SECONDS', '240'))
#: Trials at the same time: they mostly wait.
WORKERS = 4

#: Who is waited for where the ranks cannot say it, and what is said then.
SILENT = {
    'before init': (dict(kind='fixed', injury='stop rank', phase='start', hosts=('a:1', 'b:1')),
                    'has not come to init, where 1 other has waited for 7 s'),
    'in a meeting': (dict(kind='elastic', injury='stop rank', phase='reforming', planes='tcp',
                          hosts=('a:1', 'b:1', 'c:1')), 'has not come to'),
    'the coordinator': (dict(kind='fixed', injury='stop rank', phase='step', planes='tcp', place=0,
                             hosts=('a:1', 'b:1')),
                        'Rank 0, by way of which hosts agree, has said nothing for'),
    'at the end': (dict(kind='fixed', injury='stop rank', phase='end', planes='shm,tcp', place=1,
                        hosts=('a:2',)), 'has not ended; 1 other has ended 7 s ago'),
    'a host': (dict(kind='alone', injury='stop agent', phase='step', hosts=('a:1', 'b:1')),
               'has been silent for'),
}


@pytest.mark.parametrize('who', SILENT)
def test_who_is_waited_for_is_named(who):
    said, words = SILENT[who]
    assert words in Trial(SEED, **said).run()['cause']


def test_a_frozen_host_costs_an_elastic_job_its_lease_and_a_step():
    seen = Trial(SEED, kind='elastic', injury='freeze host', phase='step', planes='tcp',
                 hosts=('a:1', 'b:1')).run()
    assert 'silent for 7 s' in seen['cause']
    assert seen['again_s']


def test_a_seed_draws_the_same_again():
    assert [str(Draw(seed)) for seed in seeds(SEED, 9)] == \
        [str(Draw(seed)) for seed in seeds(SEED, 9)]


def test_a_wait_in_the_first_steps_is_told_long_before_the_promise_is_over():
    trial = Trial(SEED, kind='elastic', injury='stop rank', phase='sync', planes='tcp', place=1,
                  hosts=('a:2',))
    trial.run()
    waited = int(re.search(r'for others for more than (\d+) s', trial.text())[1])
    assert waited < 8 * trial.crowd


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_happens_is_named_in_every_phase():
    seen, failed = try_all(seeds(SEED, 20), WORKERS)
    print('\n'.join(table(seen)))
    assert not failed, '\n\n'.join(failed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_stands_still_for_seconds_is_no_loss():
    _, failed = try_all(seeds(SEED, 8), WORKERS, pause)
    assert not failed, '\n\n'.join(failed)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_checkpoint_of_a_minute_is_no_loss():
    _, failed = try_all(seeds(SEED, WORKERS), WORKERS, checkpoint)
    assert not failed, '\n\n'.join(failed)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 600)
def test_minutes_of_trials_leave_no_silent_wait(record_property):
    end, numbers, seen = time.monotonic() + SECONDS / 2, itertools.count(SEED), []

    def go_on():
        while time.monotonic() < end:
            seen.append(Trial(next(numbers)).run())
    with ThreadPoolExecutor(WORKERS) as pool:
        done = [pool.submit(go_on) for _ in range(WORKERS)]
    print('\n'.join(table(seen)))
    record_property('trials', len(seen))
    for each in done:
        each.result()
