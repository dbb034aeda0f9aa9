# SPDX-License-Identifier: Apache-2.0
"""--max-restarts: the whole job again, with the cause of each failure."""
import json
import os
import re
import signal
import subprocess

import pytest

from built import environment

# Fails at the first two starts, each time by another rank, when both have said theirs.
FLAKY = ('echo "start $REIGEN_RESTART $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS"; '
         ': >up.$RANK.$REIGEN_RESTART; [ "$REIGEN_RESTART" -ge 2 ] && exit 0; '
         '[ "$RANK" = "$REIGEN_RESTART" ] || exec sleep 60; '
         'until [ -e up.0.$RANK ] && [ -e up.1.$RANK ]; do sleep 0.02; done; '
         'exit $((REIGEN_RESTART + 5))')


def test_a_job_that_fails_is_started_again_and_ends_well(reigen, tmp_path):
    done = reigen('run', '-np', 2, '--cwd', tmp_path, '--max-restarts', 3, '--grace', '1',
                  '--output-dir', tmp_path / 'out', '--', 'sh', '-c', FLAKY)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        f'[{rank}] start {n} {n} 3' for rank in range(2) for n in range(3))
    for said in ('restart 1 of 3', 'restart 2 of 3', 'ended well after 2 restarts',
                 '1. rank 0 on localhost: exit code 5, after ',
                 '2. rank 1 on localhost: exit code 6, after '):
        assert done.stderr.count(said) == 1, done.stderr
    assert 'restart 3' not in done.stderr
    # Nothing is said of a code that reigen does not end with, and a time is one time.
    assert "'s own" not in done.stderr and 'reigen explain' not in done.stderr
    times = re.findall(r'exit code [56], after (\S+) s', done.stderr)
    assert len(times) == 4 and times[:2] == times[2:], done.stderr
    # What an earlier start wrote is still there.
    assert (tmp_path / 'out/rank.1/stdout').read_text() == ''.join(
        f'start {n} {n} 3\n' for n in range(3))


@pytest.mark.parametrize('command', [['run'], ['horovodrun']])
def test_the_last_exit_code_counts_and_every_cause_is_told(reigen, command, tmp_path):
    done = reigen(*command, '-np', 2, '--cwd', tmp_path, '--max-restarts=1', 'sh', '-c', FLAKY)
    assert done.returncode == 6, done.stderr
    assert 'started again 1 time;' in done.stderr and '2. rank 1 on localhost' in done.stderr
    assert done.stderr.count('Horovod detected') == (command == ['horovodrun'])


def test_events_tell_of_a_restart_and_of_one_verdict(reigen, tmp_path):
    done = reigen('run', '-np', 2, '--cwd', tmp_path, '--max-restarts', 2, '--json', 'sh', '-c',
                  FLAKY)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    told = [e['event'] for e in events if e['event'] in ('start', 'restart', 'verdict')]
    assert told == ['start', 'restart', 'start', 'restart', 'start', 'verdict']
    assert [(e['restart'], e['of'], e['exit_code']) for e in events if e['event'] == 'restart'] == [
        (1, 2, 5), (2, 2, 6)]
    assert len({e['job'] for e in events if e['event'] == 'start'}) == 3


@pytest.mark.parametrize('args, code', [(['--', 'no-such-program-here'], 127),
                                        (['--timeout', '500ms', '--', 'sleep', '60'], 124),
                                        (['--bind-to', 'nosuch', '--', 'true'], 2),
                                        (['-H', 'nosuch.invalid', '--', 'true'], 69)])
def test_what_would_fail_again_is_not_started_again(reigen, args, code):
    done = reigen('run', '-np', 1, '--max-restarts', 3, *args)
    assert done.returncode == code, done.stderr
    assert 'restart' not in done.stderr


def test_the_time_limit_is_for_all_starts_together(reigen):
    done = reigen('run', '-np', 1, '--max-restarts', 1000, '--restart-always', '--timeout',
                  '2s', '--', 'sh', '-c', 'sleep 0.3; exit 3')
    assert done.returncode in (3, 124) and 'restart 1 of 1000' in done.stderr
    assert 'restart 20 of' not in done.stderr


@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_the_user_ends_is_not_started_again(programs, signo):
    job = subprocess.Popen([programs.reigen, 'run', '-np', '1', '--max-restarts', '3', '--', 'sh',
                            '-c', 'trap "exit 9" INT TERM; echo up; while :; do sleep 0.1; done'],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=environment())
    assert job.stdout.readline() == 'up\n'
    os.kill(job.pid, signo)
    _, said = job.communicate(timeout=60)
    assert job.returncode != 0 and 'restart' not in said, said
