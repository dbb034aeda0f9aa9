# SPDX-License-Identifier: Apache-2.0
"""--deadlock-timeout ends a job at rest; whoever may still do something is waited for."""
import errno
import re

import pytest

from built import PROGRAMS
from ranks import SLOWER, job, program, two_hosts
from wait import until

QUICK = ('--env', 'REIGEN_STALL_SECONDS=1')
LINES = ['Rank 0 has not called allgather.acc; it waits in allreduce.loss.',
         'Rank 1 has not called allreduce.loss; it waits in allgather.acc.']
FEWER = 'Rank {} may have had fewer batches than the others: give all as many (drop_last=True)'


def test_a_deadlock_ends_the_job_with_its_own_code(reigen):
    done = reigen('run', '-np', 2, *QUICK, '--deadlock-timeout', 2, '--', *program('late'), 'apart',
                  timeout=60 * SLOWER)
    assert done.returncode == 79, done.stderr
    before, verdict = done.stderr.split('all ranks have waited for each other for more than 2 s')
    assert 'this ends the job after 2 s (--deadlock-timeout)' in before, done.stderr
    assert 'waits for ever' not in before, done.stderr
    assert all(line in verdict for line in LINES), done.stderr
    assert FEWER.format(1) in verdict, done.stderr
    assert 'exit code 79 (deadlock)' in verdict and 'error' not in done.stdout, done.stderr


def test_threads_that_sleep_now_and_then_do_not_rule_it_out(reigen):
    done = reigen('run', '-np', 2, *QUICK, '--deadlock-timeout', 2, '--', *program('late'), 'apart',
                  'idle', timeout=60 * SLOWER)
    assert done.returncode == 79, done.stderr


def test_what_rules_it_out_is_said(start, tmp_path):
    said = tmp_path / 'said'
    with open(said, 'w') as err:
        launched = start(PROGRAMS.reigen, 'run', '-np', 2, *QUICK, '--deadlock-timeout', 1, '--',
                         *program('late'), 'apart', 'calling', stderr=err)
    until(lambda: launched.poll() is not None or
          re.search(r'--deadlock-timeout does not end this: rank 0 has a thread, late \(\d+\), '
                    r'which calls operations, in nanosleep\(\), and 1 more does not rest either',
                    said.read_text()),
          'the reason', 60, seen=said.read_text)
    assert launched.poll() is None, said.read_text()


def test_by_default_it_waits(reigen):
    done = reigen('run', '-np', 2, *QUICK, '--env',
                  'REIGEN_STALL_SHUTDOWN_SECONDS=4', '--', *program('late'), 'apart',
                  timeout=60 * SLOWER)
    assert done.returncode == 5 and 'deadlock-timeout' not in done.stderr, done.stderr


def test_a_rank_that_is_late_is_waited_for(reigen):
    done = reigen('run', '-np', 2, *QUICK, '--deadlock-timeout', 1, '--', *program('late'), 4000,
                  timeout=60 * SLOWER)
    assert done.returncode == 0 and 'ranks have waited' in done.stderr, done.stderr


@pytest.mark.parametrize('kind', ['called', 'polled'])
def test_a_rank_that_waits_for_the_world_outside_is_waited_for(kind, start, tmp_path):
    flag, said = tmp_path / 'flag', tmp_path / 'said'
    with open(said, 'w') as err:
        launched = start(PROGRAMS.reigen, 'run', '-np', 2, *QUICK, '--deadlock-timeout', 1,
                         '--', *program('late'), kind, flag, stderr=err)
    until(lambda: launched.poll() is not None or re.search(r'still, [4-9] s', said.read_text()),
          'a report after more than the limit', 60, seen=said.read_text)
    flag.touch()
    until(lambda: launched.poll() is not None, 'the end', 60, seen=said.read_text)
    assert launched.returncode == 0, said.read_text()


def test_ranks_that_get_further_again_and_again_are_waited_for(reigen):
    done = reigen('run', '-np', 2, *QUICK, '--deadlock-timeout', 3, '--', *program('late'),
                  'crossed', 4, timeout=60 * SLOWER)
    assert done.returncode == 0, done.stderr


def test_a_deadlock_ends_the_job_without_a_stall_check(reigen):
    done = reigen('run', '-np', 2, '--env', 'HOROVOD_STALL_CHECK_DISABLE=1', '--deadlock-timeout',
                  2, '--', *program('late'), 'apart', timeout=60 * SLOWER)
    assert done.returncode == 79, done.stderr


@pytest.mark.parametrize('hosts', [1, 2])
def test_without_a_launcher_the_ranks_end_by_an_error(tmp_path, hosts):
    limits = {'REIGEN_STALL_SECONDS': 1, 'REIGEN_DEADLOCK_SECONDS': 2}
    with two_hosts(tmp_path) as (env, enter), \
            job('late', 'apart', size=4, env={**limits, **(env if hosts == 2 else {})},
                enter=enter(4) if hosts == 2 else None) as ranks:
        errors = [rank.wait_line('error', 40 * SLOWER) for rank in ranks]
        for rank in ranks:
            rank.wait(40 * SLOWER)
    assert errors[0].startswith(f'error {-errno.ETIMEDOUT} all ranks have waited'), errors
    assert all('all ranks have waited for each other for more than 2 s' in error
               for error in errors), errors
    assert any(FEWER.format(3) in rank.err for rank in ranks), [rank.err for rank in ranks]
