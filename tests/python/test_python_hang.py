# SPDX-License-Identifier: Apache-2.0
"""A rank that stands still is reported with its line of Python, without any option, and without
disturbing what it does."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PYENV = Path(os.environ.get('PYENV_ROOT', Path.home() / '.pyenv'))
MISSING = 'Rank 1 has not called allreduce.grad.'


@pytest.fixture
def gate(tmp_path):
    """A pipe that a rank reads from; calling it lets that rank go on."""
    path = tmp_path / 'gate'
    os.mkfifo(path)

    def open_it():
        with open(path, 'wb') as pipe:
            pipe.write(b'x')
    open_it.env = {'TEST_FIFO': str(path)}
    return open_it


def until_reported(ranks, words):
    ranks.wait_for(1, 'elsewhere')
    ranks.wait_for(0, words)
    return ranks.text(0)


def interpreters():
    """Of this machine, one of each version that the packages are for: of the system, or pyenv's."""
    for minor in range(8, 15):
        name = f'python3.{minor}'
        code = f'import ctypes, sys; assert sys.version_info[:2] == (3, {minor})'
        for path in [shutil.which(name), *PYENV.glob(f'versions/3.{minor}.*/bin/{name}')]:
            if path and subprocess.run([path, '-c', code], stderr=subprocess.DEVNULL,
                                       check=False).returncode == 0:
                yield pytest.param(path, id=name)
                break


@pytest.mark.parametrize('path', interpreters())
def test_each_python_says_in_which_line_a_rank_stands_still(start, gate, path):
    ranks = start(2, 'stands.py', 'load', env=gate.env, interpreter=path)
    text = until_reported(ranks, 'in load_batch')
    gate()
    assert ranks.wait() == [0, 0], ranks.output()
    assert MISSING in text, text
    assert re.search(r'Rank 0 waits in allreduce\.grad, at \S*stands\.py:\d+ in allreduce\.',
                     text), text
    assert re.search(r'Rank 1 is at \S*stands\.py:\d+ in load_batch, in open\(\)\.', text), text
    assert "In Horovod's words" not in text, text
    assert re.search(r'the job goes on after \d+ s', ranks.text(0)), ranks.text(0)
    assert ranks.text(0).count('ranks have waited') == 1, ranks.text(0)


def test_the_same_wait_is_one_line_another_time(start, gate):
    ranks = start(2, 'stands.py', 'twice', env=gate.env)
    until_reported(ranks, 'in load_batch')
    gate()
    ranks.wait_for(0, f's: {MISSING} Rank 1 is at ')
    gate()
    assert ranks.wait() == [0, 0], ranks.output()
    text = ranks.text(0)
    assert re.search(r'again, \d+ s: ' + re.escape(MISSING), text), text
    assert text.count('ranks have waited') == 1 and text.count('the job goes on after') == 2, text


def test_a_rank_that_computes_is_seen_at_its_line(start):
    ranks = start(2, 'stands.py', 'compute')
    text = until_reported(ranks, 'in compute')
    assert re.search(r'Rank 1 is at \S*stands\.py:\d+ in compute\.', text), text
    assert ranks.wait() == [0, 0], ranks.output()


def test_the_line_is_that_of_the_thread_which_calls(start, gate):
    ranks = start(2, 'stands.py', 'thread', env=gate.env)
    text = until_reported(ranks, 'in load_batch')
    gate()
    assert re.search(r'Rank 1 is at \S*:\d+ in load_batch \(not the main thread\)\.', text), text
    assert ranks.wait() == [0, 0], ranks.output()


def test_ranks_that_wait_for_each_other_are_told_of_with_both_operations(start):
    ranks = start(2, 'stands.py', 'crossed')
    ranks.wait_for(0, 'This is a deadlock: ranks 0 and 1 wait for each other')
    text = ranks.text(0)
    assert 'Rank 0 has not called allreduce.b; it waits in allreduce.a.' in text, text
    assert 'Rank 1 has not called allreduce.a; it waits in allreduce.b.' in text, text
    assert len(re.findall(r'waits in allreduce\.[ab], at \S*stands\.py:\d+ in allreduce', text)) \
        == 2, text


def test_a_program_keeps_its_signals_forks_and_children(start, gate):
    ranks = start(2, 'stands.py', 'around', env=gate.env)
    until_reported(ranks, 'in load_batch')
    gate()
    assert ranks.wait() == [0, 0], ranks.output()


@pytest.mark.parametrize('signum,known', [('0', False), ('SIGUSR1', False), ('SIGUSR2', True),
                                          ('40', True)])
def test_the_signal_can_be_chosen_and_one_that_is_used_is_left_alone(start, gate, signum, known):
    ranks = start(2, 'stands.py', 'taken', env={**gate.env, 'REIGEN_STACK_SIGNAL': signum})
    text = until_reported(ranks, 'in open()')
    gate()
    assert ranks.wait() == [0, 0], ranks.output()
    assert ('in load_batch' in text) == known, text


def test_a_signal_that_does_not_exist_is_refused(start):
    ranks = start(1, 'stands.py', 'crossed', env={'REIGEN_STACK_SIGNAL': 'SIGNAL'})
    assert ranks.wait() == [1], ranks.output()
    assert 'REIGEN_STACK_SIGNAL=SIGNAL: give the name' in ranks.text(0), ranks.text(0)
