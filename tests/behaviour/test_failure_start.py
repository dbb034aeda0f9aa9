# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed while the job starts ends the start of all others within seconds, and they
say who it was, though nobody but they themselves watches it."""
import os
import random
import re
import signal
import subprocess
import time
from contextlib import ExitStack

import processes
import pytest

from ranks import SLOWER, job, program, state, struck, two_hosts

SIZE = 4
# Far less than the ranks would wait for each other.
LIMIT = 20
PATIENCE = {'REIGEN_START_TIMEOUT': 100 * SLOWER, 'REIGEN_SILENCE_SECONDS': 5}
# In the order of the start: before and between the fences, before the segment is shared and while
# it is, before the leaders meet.
PLACES = ['listen 1', 'listen 2', 'listen 3', 'eventfd 1', 'memfd_create 1', 'sendmsg 1',
          'epoll_create1 1']
# Of rank 0 nobody knows before it has let the others in. On one host there are no leaders that
# meet, without shared memory no segment.
CASES = {
    'shm': ({}, [(v, p) for v in (0, 1, 3) for p in PLACES[:6]
                 if (v, p) not in ((0, 'listen 1'), (0, 'listen 2'), (1, 'listen 3'),
                                   (3, 'listen 3'), (1, 'memfd_create 1'), (3, 'memfd_create 1'))]),
    'tcp': ({'REIGEN_PLANES': 'tcp'}, [(v, p) for v in (0, 1, 3)
                                       for p in ('eventfd 1', 'epoll_create1 1')]),
}


def has_failed(rank, seconds):
    return rank.until(lambda: 'init:' in rank.err or
                      any(line.startswith('error ') for line in rank.lines), seconds)


def names(ranks, dead, victim=None):
    """All others than number dead end, and name the victim."""
    victim = dead if victim is None else victim
    deadline = time.monotonic() + LIMIT * SLOWER
    for i, rank in enumerate(ranks):
        if i == dead:
            continue
        assert has_failed(rank, deadline - time.monotonic()), \
            f'rank {i} waits for {victim}: {state(ranks)}'
        rank.wait(10 * SLOWER)
        said = rank.err + ''.join(line for line in rank.lines if line.startswith('error '))
        assert re.search(rf'\brank {victim}\b', said), state(ranks)
        assert 'firewall' not in said, state(ranks)


def start(stack, victim, place, **options):
    """A job whose rank victim is killed at the place."""
    function, count = place.split()
    options['env'] = {**PATIENCE, **options.get('env', {})}
    return stack.enter_context(job(
        'lasting', size=SIZE,
        each=lambda r: struck(function, count, signal.SIGKILL) if r == victim else {}, **options))


def strike(stack, cases, **options):
    jobs = [start(stack, victim, place, **options) for victim, place in cases]
    for (victim, place), ranks in zip(cases, jobs):
        ranks[victim].wait_line('struck ')
        try:
            names(ranks, victim)
        except AssertionError as error:
            raise AssertionError(f'rank {victim} at {place}: {error}') from None
        for rank in ranks:
            rank.close()


@pytest.mark.parametrize('planes', CASES)
@pytest.mark.parametrize('part', range(3))
def test_a_rank_that_is_killed_while_it_starts_is_named(planes, part):
    env, cases = CASES[planes]
    with ExitStack() as stack:
        strike(stack, cases[part::3], env=env)


def test_a_rank_that_is_killed_while_two_hosts_start_is_named(tmp_path):
    cases = [(1, 'eventfd 1'), (2, 'memfd_create 1'), (3, 'sendmsg 1'), (2, 'epoll_create1 1'),
             (0, 'epoll_create1 1')]
    with two_hosts(tmp_path, True) as (env, enter), ExitStack() as stack:
        strike(stack, cases, env=env, enter=enter(SIZE))


def has_socket(rank):
    for fd in os.listdir(f'/proc/{rank.child.pid}/fd'):
        try:
            if os.readlink(f'/proc/{rank.child.pid}/fd/{fd}').startswith('socket:'):
                return True
        except FileNotFoundError:
            continue  # it was closed meanwhile
    return False


def test_rank_zero_that_is_killed_before_it_lets_anybody_in_is_named():
    with job('lasting', size=3, env=PATIENCE,
             each=lambda r: struck('listen', 2, signal.SIGSTOP) if r == 0 else {}) as ranks:
        ranks[0].wait_line('struck ')
        for rank in ranks[1:]:
            processes.wait_for(lambda r=rank: has_socket(r), 'a connection')
        time.sleep(0.5)  # patient: they keep a connection, but for moments
        ranks[0].kill()
        names(ranks, 0)


def test_under_the_launcher_the_verdict_names_the_rank(start, programs):
    """Four jobs at once; the rank that dies has the library in front."""
    lines = [(1, 'listen 1'), (0, 'listen 1'), (2, 'eventfd 1'), (0, 'memfd_create 1')]
    jobs = []
    for victim, place in lines:
        variables = struck(*place.split(), signal.SIGKILL)
        script = (f'if [ $REIGEN_RANK = {victim} ]; then '
                  f"export LD_PRELOAD={variables['LD_PRELOAD']} "
                  f"TEST_STRUCK_AT='{variables['TEST_STRUCK_AT']}'; fi; "
                  f"exec {program('lasting')[-1]}")
        jobs.append(start(programs.reigen, 'run', '-np', SIZE, '--', 'sh', '-c', script,
                          stdin=subprocess.DEVNULL))
    for (victim, place), child in zip(lines, jobs):
        _, err = child.communicate(timeout=LIMIT * SLOWER)
        assert child.returncode == 137, (victim, place, err)
        assert f'rank {victim} on localhost failed first: signal 9' in err, (victim, place, err)


@pytest.mark.parametrize('env', [{}, {'REIGEN_PLANES': 'tcp'}], ids=['shm', 'tcp'])
def test_a_rank_may_be_killed_at_any_moment_of_its_start(env):
    """Who is killed before it has come to rank 0, or is rank 0 before anybody has come, was never
    seen: only then the others wait."""
    rng = random.Random(11)
    for turn in range(15):
        victim = turn % SIZE
        with job('lasting', size=SIZE, env={**PATIENCE, **env}) as ranks:
            time.sleep(rng.uniform(0, 0.06))  # patient: any moment
            ranks[victim].kill()
            others = [r for i, r in enumerate(ranks) if i != victim]
            ended = [has_failed(r, 8 * SLOWER) for r in others]
            assert victim == 0 or all(ended) or not any(ended), f'{turn}: {victim}: {state(ranks)}'
            for rank, has_ended in zip(others, ended):
                if has_ended:
                    names([rank], None, victim)
                else:
                    assert not rank.lines, f'{turn}: {victim}: {state(ranks)}'
