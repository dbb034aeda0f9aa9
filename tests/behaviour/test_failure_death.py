# SPDX-License-Identifier: Apache-2.0
"""When a rank dies, every other rank gets an error that names it within five seconds, whatever all
of them are doing, and can leave in peace."""
import errno
import os
import re
import signal
import time

import pytest

from ranks import DEADLINE, SLOWER, job, slowdown, state, two_hosts

TCP = {'REIGEN_PLANES': 'tcp'}
SIZE = 3


def survivors_name(ranks, victim, since, number=errno.ECONNRESET, pattern=None):
    limit = DEADLINE * slowdown()
    for i, rank in enumerate(ranks):
        if i == victim:
            continue
        line = rank.wait_line('error ', limit + 5)
        assert rank.time_of('error ') - since < limit, f'rank {i} took too long'
        _, code, _, text = line.split(' ', 3)
        assert int(code) == -number, line
        assert re.search(pattern or rf'\brank {victim}\b', text), line
    for i, rank in enumerate(ranks):
        if i != victim:
            assert rank.wait(10 * SLOWER) == 0, state(ranks)


def all_ready(ranks):
    for rank in ranks:
        rank.wait_line('ready ')


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
@pytest.mark.parametrize('what,victim', [('small', 0), ('small', SIZE - 1), ('large', 0),
                                         ('large', SIZE - 1), ('many', 0), ('many', SIZE - 1),
                                         ('wait', SIZE - 1)])
def test_a_killed_rank_is_named_on_every_other_rank(what, victim, env):
    with job('victim', what, size=SIZE, env=env) as ranks:
        all_ready(ranks)
        time.sleep(0.3)  # patient: in the middle of the work
        ranks[victim].kill()
        survivors_name(ranks, victim, time.monotonic())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
@pytest.mark.parametrize('what', ['small', 'large', 'many'])
def test_a_rank_may_be_killed_at_any_moment(what, env):
    for turn in range(12):
        with job('victim', what, size=SIZE, env=env) as ranks:
            all_ready(ranks)
            time.sleep(0.02 + 0.0317 * turn)  # patient: any moment
            ranks[turn % SIZE].kill()
            survivors_name(ranks, turn % SIZE, time.monotonic())


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_death_while_nobody_calls_is_the_next_calls_error(env):
    with job('victim', 'idle', size=SIZE, env=env) as ranks:
        all_ready(ranks)
        ranks[1].kill()
        time.sleep(1)  # patient: long after the death
        since = time.monotonic()
        for rank in (ranks[0], ranks[2]):
            rank.child.stdin.write('go\n')
            rank.child.stdin.flush()
        survivors_name(ranks, 1, since)


@pytest.mark.parametrize('what', ['wait', 'large'])
def test_a_death_on_another_host_is_noticed(what, tmp_path):
    with two_hosts(tmp_path) as (env, enter), \
            job('victim', what, size=4, env=env, enter=enter(4)) as ranks:
        all_ready(ranks)
        time.sleep(0.3)  # patient: in the middle of the work
        ranks[3].kill()
        survivors_name(ranks, 3, time.monotonic())


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
@pytest.mark.parametrize('what', ['wait', 'large'])
def test_a_death_is_noticed_though_forked_workers_live_on(what, env):
    with job('victim', what, 4, size=SIZE, env=env) as ranks:
        all_ready(ranks)
        victim = ranks[SIZE - 1]
        workers = [int(line.split()[1]) for line in victim.lines if line.startswith('worker ')]
        assert len(workers) == 4
        try:
            victim.kill()
            survivors_name(ranks, SIZE - 1, time.monotonic())
            for pid in workers:
                os.kill(pid, 0)
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
@pytest.mark.parametrize('what,status', [('exit', 9), ('return', 0)])
def test_a_rank_that_ends_without_a_shutdown_is_a_dead_rank(what, status, env):
    with job('victim', what, size=SIZE, env=env) as ranks:
        all_ready(ranks)
        assert ranks[SIZE - 1].wait(10 * SLOWER) == status
        survivors_name(ranks, SIZE - 1, time.monotonic())


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_operations_in_flight_are_cancelled_when_a_rank_shuts_down(env):
    with job('victim', 'shutdown', size=SIZE, env=env) as ranks:
        all_ready(ranks)
        survivors_name(ranks, SIZE - 1, time.monotonic(), errno.ECANCELED, '(?i)shut ?down')
        assert ranks[SIZE - 1].wait(10 * SLOWER) == 0


def test_a_stopped_rank_is_not_a_dead_rank():
    with job('victim', 'small', size=SIZE) as ranks:
        all_ready(ranks)
        ranks[1].kill(signal.SIGSTOP)
        time.sleep(7)  # patient: longer than the dead are waited for
        assert not any(line.startswith('error') for r in ranks for line in r.lines), state(ranks)
        ranks[1].kill(signal.SIGCONT)
        time.sleep(0.5)  # patient: in the middle of the work
        ranks[2].kill()
        survivors_name(ranks, 2, time.monotonic())


def test_without_a_launcher_of_ours_who_left_ends_before_those_it_cut_off():
    """mpirun and torchrun take the first process that ends badly for the cause."""
    with job('leave', 'linger', 7, size=SIZE) as ranks:
        assert ranks[0].wait(20 * SLOWER) == 5
        assert ranks[1].child.poll() == 7, state(ranks)
        assert ranks[2].wait(20 * SLOWER) == 5
