# SPDX-License-Identifier: Apache-2.0
"""Process sets: some of the ranks, which communicate apart from the others."""
import signal

import pytest

from ranks import DEADLINE, SLOWER, job, run, state, two_hosts

TCP = {'REIGEN_PLANES': 'tcp'}
PLANES = pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])


@pytest.mark.sanitize
@PLANES
def test_sets_that_overlap_go_on_side_by_side(env):
    run('sets', 'results', size=4, env=env)


def test_sets_reach_over_two_hosts(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        run('sets', 'results', size=4, env=env, enter=enter(4))


@pytest.mark.sanitize
@PLANES
def test_sets_come_and_go_and_wrong_ones_are_refused(env):
    run('sets', 'life', size=4, env=env)


@PLANES
def test_lists_of_ranks_are_worlds_of_their_own(env):
    run('sets', 'comm', size=4, env=env)


@pytest.mark.sanitize
@PLANES
@pytest.mark.parametrize('where', ['set', 'world'])
@pytest.mark.parametrize('victim', [1, 3], ids=['member', 'stranger'])
def test_a_death_ends_all_sets_and_the_world(victim, where, env):
    with job('sets', 'death', victim, where, size=4, env=env) as ranks:
        assert ranks[victim].wait(60 * SLOWER) == -signal.SIGKILL, state(ranks)
        for number, rank in enumerate(ranks):
            if number == victim:
                continue
            assert rank.wait(4 * DEADLINE) == 0, state(ranks)
            first, second = rank.wait_line('first').split(), rank.wait_line('second').split()
            assert first[1] == second[1] == '-104', state(ranks)
            assert f'rank {victim} on ' in ' '.join(first), state(ranks)
            assert first[2:] == second[2:], state(ranks)
