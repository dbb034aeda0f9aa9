# SPDX-License-Identifier: Apache-2.0
"""A rank that keeps the others waiting is reported: which rank, for which tensors, and what it is
doing instead."""
import errno
import re
import signal
import time

import pytest

from ranks import SLOWER, job, run, state, two_hosts
from wait import soon, until

TCP = {'REIGEN_PLANES': 'tcp'}
#: In Horovod's words, too.
QUICK = {'REIGEN_STALL_SECONDS': 1, 'HOROVOD_LOG_LEVEL': 'warning'}
REPORT = 'waiting for remainder of ranks'


def reports(ranks):
    return ''.join(r.err for r in ranks)


def until_reported(ranks, count=1, timeout=20 * SLOWER):
    until(lambda: reports(ranks).count(REPORT) >= count, f'{count} reports', timeout,
          lambda: state(ranks))
    return time.monotonic()


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_late_rank_is_reported_with_its_tensors(env):
    with job('late', 3500 * SLOWER, size=3, env={**QUICK, **env}) as ranks:
        ranks[0].wait_line('ready')
        start = time.monotonic()
        assert until_reported(ranks) - start < 3 * SLOWER
        for rank in ranks:
            rank.wait_line('done')
            assert rank.wait(10 * SLOWER) == 0
        text = reports(ranks)
        assert re.search(r'Missing ranks:\s+2: \[.*allreduce\.grad\.0.*\]', text), text
        assert not re.search(r'^\s*[01]: \[', text, re.M), text
        assert 'Rank 2 is in nanosleep().' in text, text


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_stopped_rank_is_reported_as_stopped(env):
    with job('late', 'stop', size=2, env={**QUICK, **env}) as ranks:
        ranks[0].wait_line('ready')
        until_reported(ranks)
        until(lambda: 'stopped' in reports(ranks), 'that it is stopped', seen=lambda: state(ranks))
        ranks[1].kill(signal.SIGCONT)
        for rank in ranks:
            rank.wait_line('done')


def test_reports_come_again_at_doubling_intervals_in_one_line():
    with job('late', 'stop', size=2, env=QUICK) as ranks:
        ranks[0].wait_line('ready')
        times = [until_reported(ranks)]
        for seconds in (2, 4):
            until(lambda: f'still, {seconds} s: Rank 1 has not called allreduce.grad.0'
                  in reports(ranks), f'that {seconds} s are over', 20 * SLOWER,
                  lambda: state(ranks))
            times.append(time.monotonic())
        assert reports(ranks).count(REPORT) == 1, reports(ranks)
        assert reports(ranks).count('The job waits for ever by default. HOROVOD_STALL_SHUTDOWN_'
                                    'TIME_SECONDS=60 ends it by itself.') == 1, reports(ranks)
        first, second = times[1] - times[0], times[2] - times[1]
        assert 0.5 < first < 2.5 and 1.5 < second < 6 and second > 1.4 * first, times
        ranks[1].kill(signal.SIGCONT)
        ranks[0].wait_line('done')


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_stall_ends_the_job_where_that_is_asked_for(env):
    limits = {**QUICK, 'HOROVOD_STALL_SHUTDOWN_TIME_SECONDS': 2}
    with job('late', 20000, size=2, env={**limits, **env}) as ranks:
        ranks[0].wait_line('ready')
        start = time.monotonic()
        line = ranks[0].wait_line('error', 10)
        assert time.monotonic() > start + 1.5 and soon(start, 6)
        assert line.startswith(f'error {-errno.ETIMEDOUT} '), line


@pytest.mark.parametrize('size,late', [(4, 3), (2, 0)])
def test_a_stalled_host_is_reported(tmp_path, size, late):
    """Also where the first one, which speaks for all, waits for nothing itself."""
    with two_hosts(tmp_path) as (env, enter), \
            job('late', 3500, late, size=size, env={**QUICK, **env}, enter=enter(size)) as ranks:
        ranks[0].wait_line('ready')
        until_reported(ranks)
        for rank in ranks:
            rank.wait_line('done')
        assert re.search(rf'Missing ranks:\s+{late}: \[.*allreduce\.grad\.0.*\]', reports(ranks)), \
            reports(ranks)
        assert f'Rank {late} is in nanosleep().' in reports(ranks), reports(ranks)


#: Two ranks of the first host and one of the second wait in an allreduce, the last one elsewhere.
APART = ['Ranks 0-2 have not called allgather.acc; they wait in allreduce.loss.',
         'Rank 3 has not called allreduce.loss; it waits in allgather.acc.',
         'This is a deadlock: ranks 0-3 wait for each other']


def test_a_deadlock_is_told_once_for_the_job_and_by_what_it_ends(tmp_path):
    limits = {**QUICK, 'REIGEN_STALL_SHUTDOWN_SECONDS': 5 * SLOWER}
    with two_hosts(tmp_path) as (env, enter), \
            job('late', 'apart', size=4, env={**limits, **env}, enter=enter(4)) as ranks:
        until_reported(ranks)
        first = [r.lines[:] for r in ranks]
        errors = [rank.wait_line('error', 40 * SLOWER) for rank in ranks]
        for rank in ranks:
            rank.wait(40 * SLOWER)
        text = reports(ranks)
    told = [int(n) for n in re.findall(r'waited for others for more than (\d+) s', text)]
    assert told and told == sorted(set(told)), text
    assert all(b >= 2 * a - 1 for a, b in zip(told, told[1:])), text
    assert all(line in text for line in APART), text
    assert re.search(r'Missing ranks:\s+0: \[allgather\.acc\]\s+1: ', text), text
    assert not any('error' in line for lines in first for line in lines), first
    stalled = 'Will shutdown. It is stalled in all'
    assert all(stalled in error for error in errors), errors
    assert len(ranks[0].lines) == 2, ranks[0].lines
    assert all(line in text.partition(stalled)[2] for line in APART), text
    assert text.count(f'Such a wait ends the job after {5 * SLOWER} s (HOROVOD_STALL_') == 1, text


def test_no_report_without_a_stall_or_when_switched_off():
    run('late', 300, size=2, env=QUICK)
    run('late', 2500, size=2, env={**QUICK, 'HOROVOD_STALL_CHECK_DISABLE': 1})
