# SPDX-License-Identifier: Apache-2.0
"""Ranks that save their work when they hear of the job's end, by a word or a signal."""
import os
import re
import signal

import pytest

import epochs
import jobs
from test_epochs import job  # noqa: F401 (a fixture)
from wait import until


def saves(text):
    return [int(step) for step in re.findall(r'saved at (\d+)', text)]


def steps(text):
    return [int(step) for step in re.findall(r'epoch \d+ step (\d+)', text)]


def test_all_ranks_save_at_one_commit_and_end(job):  # noqa: F811
    ranks = job('saving')
    ranks.start(3)
    ranks.wait_for(2, 'epoch 1 step 3')
    ranks.tell(epochs.STOPS)
    assert ranks.wait() == [75] * 3, ranks.output()
    last = {steps(ranks.text(place))[-1] for place in range(3)}
    assert [saves(ranks.text(place)) for place in range(3)] == [list(last)] * 3, ranks.output()
    assert 'Traceback' not in ranks.output(), ranks.output()


def test_ranks_at_risk_save_once_and_go_on(job):  # noqa: F811
    ranks = job('saving')
    ranks.start(2)
    ranks.wait_for(1, 'epoch 1 step 3')
    ranks.tell(epochs.AT_RISK)
    ranks.wait_for(1, 'saved at')
    ranks.drop(0)  # what it was told of first is not told again
    ranks.wait_for(1, 'epoch 2 step')
    ranks.tell(epochs.AT_RISK)
    until(lambda: len(saves(ranks.text(1))) == 2, 'the next save', 30, ranks.output)
    ranks.stop()
    assert ranks.wait() == [-15, 0], ranks.output()
    assert len(saves(ranks.text(0))) == 1 and len(saves(ranks.text(1))) == 2, ranks.output()


def test_a_signal_without_a_word_ends_a_rank(job):  # noqa: F811
    ranks = job('saving')
    ranks.start(2)
    ranks.wait_for(1, 'epoch 1 step 3')
    ranks.kill(0, signal.SIGTERM)
    ranks.wait_for(1, 'epoch 2 step')
    ranks.stop()
    assert ranks.wait() == [-15, 0], ranks.output()
    assert 'saved' not in ranks.output()


def test_a_signal_before_the_word_ends_no_rank(job):  # noqa: F811
    """As Slurm sends it to all processes, while the launcher hears of it."""
    ranks = job('saving')
    ranks.start(2)
    ranks.wait_for(1, 'epoch 1 step 3')
    for place in (0, 1):
        ranks.kill(place, signal.SIGTERM)
    ranks.tell(epochs.STOPS)
    assert ranks.wait() == [75, 75], ranks.output()
    assert len(saves(ranks.text(0))) == len(saves(ranks.text(1))) == 1, ranks.output()


def test_ranks_that_have_nothing_to_save_stop_with_the_others(job):  # noqa: F811
    ranks = job('saving', env={'SAVERS': '1'})
    ranks.start(2)
    ranks.wait_for(1, 'epoch 1 step 3')
    ranks.tell(epochs.STOPS)
    assert ranks.wait() == [75, 75], ranks.output()
    assert 'saved' not in ranks.text(0) and len(saves(ranks.text(1))) == 1, ranks.output()


def test_a_callback_that_fails_ends_its_rank(job):  # noqa: F811
    ranks = job('saving', env={'BROKEN': '1'})
    ranks.start(2)
    ranks.wait_for(1, 'epoch 1 step 3')
    ranks.tell(epochs.STOPS)
    assert ranks.wait() == [1, 1], ranks.output()
    assert 'a preemption callback failed: no peer' in ranks.text(0), ranks.output()


def test_a_signal_behind_the_last_commit_is_not_lost(tmp_path):
    ranks = jobs.Ranks(1, ['epochs.py', 'saving', tmp_path / 'stop'], env={'LAST': '1'})
    try:
        ranks.wait_for(0, 'epoch 0 step 1')
        ranks.processes[0].send_signal(signal.SIGTERM)
        assert ranks.wait() == [-signal.SIGTERM], ranks.output()
        assert 'after the end' not in ranks.output()
    finally:
        ranks.close()


def test_a_forked_child_ends_by_the_signal_and_saves_nothing(tmp_path):
    ranks = jobs.Ranks(1, ['epochs.py', 'saving', tmp_path / 'stop'], env={'CHILD': '1'})
    try:
        ranks.wait_for(0, 'child')
        os.kill(int(re.search(r'child (\d+)', ranks.text(0)).group(1)), signal.SIGTERM)
        ranks.wait_for(0, f'ended by {int(signal.SIGTERM)}')
        (tmp_path / 'stop').touch()
        assert ranks.wait() == [0], ranks.output()
        assert 'saved' not in ranks.output()
    finally:
        ranks.close()


@pytest.mark.parametrize('count', [1, 2])
def test_under_another_launcher_the_signal_is_the_word(count, tmp_path):
    ranks = jobs.Ranks(count, ['epochs.py', 'saving', tmp_path / 'stop'])
    try:
        ranks.wait_for(count - 1, 'epoch 0 step 3')
        for process in ranks.processes:
            process.send_signal(signal.SIGTERM)
        assert ranks.wait() == [75] * count, ranks.output()
        last = {steps(ranks.text(rank))[-1] for rank in range(count)}
        assert [saves(ranks.text(rank)) for rank in range(count)] == [list(last)] * count
    finally:
        ranks.close()
