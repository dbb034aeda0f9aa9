# SPDX-License-Identifier: Apache-2.0
"""The runtime under `reigen run`, where ranks find each other through the agent."""
import errno
import os
import re
import signal
import threading
import time

import pytest

from ranks import DEADLINE, SLOWER, assert_rank_1_left_first, program
from wait import soon, until


class Output:
    """What a launcher prints, as it comes."""

    def __init__(self, child):
        self.child, self.text = child, ''
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            self.text += line

    def until(self, pattern, count, timeout):
        until(lambda: len(re.findall(pattern, self.text)) >= count,
              f'{count} times {pattern!r}', timeout, seen=lambda: self.text)
        return re.findall(pattern, self.text)


def test_random_operations_are_exact_under_the_launcher(reigen):
    result = reigen('run', '-np', '4', '--', *program('exact'), '1500', timeout=40 * SLOWER)
    assert result.returncode == 0, result.stderr
    found = re.findall(r'exact \w+', result.stdout)
    assert len(found) == 4 and len(set(found)) == 1, result.stdout


def test_init_again_and_again_under_the_launcher(reigen):
    result = reigen('run', '-np', '3', '--', *program('again'), '20', timeout=40 * SLOWER)
    assert result.returncode == 0, result.stderr
    for rank in range(3):
        assert len(re.findall(rf'rank {rank} of 3', result.stdout)) == 20, result.stdout


@pytest.mark.parametrize('how', ['child', 'orphan'])
def test_a_process_with_a_ranks_variables_is_told_that_the_place_is_taken(reigen, how):
    result = reigen('run', '-np', '2', '--', *program('heir'), how, timeout=20 * SLOWER)
    assert result.returncode == 0, result.stderr
    for rank in range(2):
        assert re.search(rf"heir -{errno.EBUSY} rank {rank}: process \d+\S* .*taken this rank's "
                         r'place already.*REIGEN_BOOT=single', result.stdout), result.stdout


def test_a_child_takes_the_place_that_its_parent_has_left(reigen):
    result = reigen('run', '-np', '2', '--', *program('heir'), 'after', timeout=20 * SLOWER)
    assert result.returncode == 0, result.stderr
    assert sorted(re.findall(r'heir 0 rank \d of 2', result.stdout)) == ['heir 0 rank 0 of 2',
                                                                         'heir 0 rank 1 of 2']


@pytest.mark.parametrize('what', ['small', 'large', 'wait'])
def test_a_killed_rank_is_named_by_ranks_and_launcher(start, programs, what):
    # The launcher's SIGTERM must not be quicker than what is to be seen.
    child = start(programs.reigen, 'run', '-np', '3', '--tag-output', '--', 'sh', '-c',
                  'trap "" TERM; exec "$@"', 'sh', *program('victim'), what)
    output = Output(child)
    output.until(r'ready \d+', 3, 20 * SLOWER)
    lines = output.text.splitlines()
    pid = next(int(re.search(r'ready (\d+)', line)[1]) for line in lines
               if re.search(r'\b2\b.*ready', line))
    time.sleep(0.2)  # patient: in the middle of the work
    since = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    found = output.until(r'error -104 \d+ .*\brank 2\b.*', 2, DEADLINE)
    assert soon(since, DEADLINE)
    assert all('signal 9' in text or 'Killed' in text for text in found), found
    assert child.wait(30 * SLOWER) == 128 + signal.SIGKILL
    output.reader.join(10)
    assert 'rank 2' in child.stderr.read()


@pytest.mark.parametrize('front,planes', [
    ('run', 'shm'), pytest.param('run', 'tcp', marks=pytest.mark.sanitize), ('horovodrun', 'shm')])
@pytest.mark.parametrize('how,code', [('exit', 3), ('exit', 255), ('exit', 0), ('return', 1),
                                      ('return', 0), ('signal', signal.SIGKILL)])
def test_who_left_first_is_named_though_heard_of_last(reigen, how, code, front, planes):
    done = reigen(front, '-np', '3', '--', 'env', f'REIGEN_PLANES={planes}', *program('leave'), how,
                  code, timeout=60 * SLOWER)
    assert_rank_1_left_first(done, how, code)


@pytest.mark.parametrize('how', ['exit', 'return'])
def test_who_left_first_is_named_in_a_world_of_some_ranks(reigen, how):
    """Ranks of such a world have numbers of their own: 1 of the job is 0 there."""
    done = reigen('run', '-np', '3', '--', *program('leave'), how, '7', 'some',
                  timeout=60 * SLOWER)
    assert_rank_1_left_first(done, how, 7)


def test_a_stall_is_seen_by_the_user_of_the_launcher(reigen):
    result = reigen('run', '-np', '2', '--env', 'REIGEN_STALL_SECONDS=1',
                    '--env', 'HOROVOD_LOG_LEVEL=warning', '--', *program('late'), '2500',
                    timeout=30 * SLOWER)
    assert result.returncode == 0, result.stderr
    assert re.search(r'Missing ranks:', result.stdout + result.stderr), result.stderr
    assert 'allreduce.grad.0' in result.stdout + result.stderr
    assert result.stderr.count('Ctrl-C ends it and shows each rank') == 1, result.stderr


def test_a_deadlock_is_the_verdict_in_the_words_of_the_report(reigen):
    done = reigen('run', '-np', '2', '--env', 'REIGEN_STALL_SECONDS=1',
                  '--env', 'REIGEN_STALL_SHUTDOWN_SECONDS=5', '--', *program('late'), 'apart',
                  timeout=60 * SLOWER)
    assert done.returncode == 5, done.stderr
    said, verdict = done.stderr.split(' failed first: exit code 5')
    words = 'Rank 0 has not called allgather.acc; it waits in allreduce.loss.'
    assert words in said and 'This is a deadlock: ranks 0 and 1 wait for each other' in said, said
    assert 'reigen: ranks have waited' in said and 'reigen: rank 0: ' not in said, said
    cause = verdict.split('its last lines')[0]
    assert 'its runtime reported: One or more rank is stalled' in cause, cause
    assert words not in cause and '. The report above has the rest.' in cause, cause
