# SPDX-License-Identifier: Apache-2.0
"""Ranks of an elastic job, whose launcher is played: they lose each other and meet again."""
import pytest

import epochs


@pytest.fixture
def job(tmp_path):
    """job(what, env=...) -> epochs.Job, and its stop(), which lets the ranks end."""
    started = []

    def make(what, *arguments, env=None):
        made = epochs.Job('epochs.py', what, tmp_path / 'stop', *arguments, env=env)
        made.stop = (tmp_path / 'stop').touch
        started.append(made)
        return made
    yield make
    for each in started:
        each.close()


def test_one_is_killed_and_two_come_and_the_loss_goes_on_from_the_commit(job):
    ranks = job('train')
    ranks.start(3)
    ranks.wait_for(0, 'epoch 1 step 7')
    ranks.kill(0)
    ranks.wait_for(1, 'epoch 2 rank 0 size 2')
    ranks.wait_for(2, 'epoch 2 step')
    ranks.start(2)
    ranks.wait_for(1, 'epoch 3 rank 0 size 4')
    ranks.wait_for(4, 'epoch 3 rank 3 size 4')
    ranks.wait_for(3, 'epoch 3 step')
    ranks.stop()
    assert ranks.wait() == [-9, 0, 0, 0, 0], ranks.output()
    assert 'resets [2, 4]' in ranks.text(1) and 'resets [] ' in ranks.text(3), ranks.output()


def test_hosts_that_come_and_go_interrupt_at_a_commit_and_nothing_is_lost(job):
    ranks = job('train')
    ranks.start(2)
    ranks.wait_for(0, 'epoch 1 step 4')
    ranks.start(1)
    ranks.wait_for(2, 'epoch 2 step')
    ranks.drop(0)
    ranks.wait_for(1, 'epoch 3 rank 0 size 2')
    ranks.wait_for(2, 'epoch 3 step')
    ranks.stop()
    assert ranks.wait() == [-15, 0, 0], ranks.output()
    assert 'Traceback' not in ranks.text(0), ranks.output()
    assert ranks.updates == 2


def test_process_sets_live_on_with_those_of_their_ranks_that_are_left(job):
    ranks = job('sets', env={'HOROVOD_DYNAMIC_PROCESS_SETS': '1'})
    ranks.start(4)
    ranks.wait_for(0, 'epoch 1 rank 0 of 4 static [0, 2] dynamic [1, 2]')
    ranks.wait_for(3, 'epoch 1 step 2')
    ranks.kill(0)
    # The places 1, 2, 3 are the ranks 0, 1, 2 now.
    ranks.wait_for(3, 'epoch 2 rank 2 of 3 static [1] dynamic [0, 1]')
    ranks.wait_for(3, 'epoch 2 step')
    ranks.start(1)
    ranks.wait_for(4, 'epoch 3 rank 3 of 4 static [1] dynamic [0, 1]')
    ranks.wait_for(4, 'epoch 3 step')
    ranks.kill(2)
    ranks.wait_for(4, 'epoch 4 rank 2 of 3 static [] dynamic [0]')
    ranks.wait_for(4, 'epoch 4 step')
    ranks.kill(3)  # 1 and 4 are left, and then the set is one of all ranks
    ranks.kill(4)
    ranks.wait_for(1, 'rank 0 of 1 static [] dynamic [0]')
    ranks.stop()
    assert ranks.wait() == [-9, 0, -9, -9, -9], ranks.output()
