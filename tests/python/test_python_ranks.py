# SPDX-License-Identifier: Apache-2.0
"""The Python packages between several ranks of this host."""
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import jobs
from variants import rest
from wait import until


#: tests/torch2 runs these programs with two ranks.
SIZES = pytest.mark.parametrize('size', [1, rest(2), 3])


@SIZES
def test_every_operation_gives_what_one_process_computes(all_pass, size):
    all_pass(size, 'operations.py')


@pytest.mark.skipif(not os.path.exists('/sys/kernel/mm/transparent_hugepage/enabled'),
                    reason='this kernel has no huge pages for those who ask')
@pytest.mark.parametrize('asked', ['0', '1'])
def test_huge_pages_are_asked_for_where_large_results_go(all_pass, asked):
    all_pass(2, 'pages.py', asked, env={'REIGEN_HUGE_PAGES': asked})


def test_the_frameworks_switch_for_bits_that_repeat_is_seen(all_pass):
    all_pass(2, 'switch.py', env={'REIGEN_PLANES': 'tcp'})


@pytest.mark.parametrize('size', [rest(2), 3])
def test_failures_are_errors_on_every_rank_and_the_job_goes_on(all_pass, size):
    all_pass(size, 'failures.py')


@SIZES
def test_training_equals_one_process_with_all_batches(all_pass, size):
    all_pass(size, 'training.py')


@pytest.mark.parametrize('size, overlap', [(2, '0'), (3, '1')])
def test_parameters_that_change_and_gradients_that_are_missing(all_pass, size, overlap):
    all_pass(size, 'changing.py', overlap, limit=120)


@pytest.mark.parametrize('size, turns', [rest(2, 20), rest(3, 40), (4, 10)])
def test_ranks_stay_in_step_through_many_inits_and_wrong_calls(size, turns):
    done = subprocess.run(
        [jobs.ROOT / '.venv/bin/horovodrun', '-np', str(size), jobs.python(),
         jobs.HERE / 'ranks/suite.py', str(turns)], capture_output=True, text=True, timeout=300,
        check=False, stdin=subprocess.DEVNULL, env={
            **os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python'), 'OMP_NUM_THREADS': '1',
            'REIGEN_LIBRARY': jobs.library(), 'PYTHONDONTWRITEBYTECODE': '1'})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f'{turns} turns') == size


def frames(text):
    """Of a traceback: how many are the user's, how many are ours."""
    return text.count('mistake.py"'), text.count('bindings/python/reigen/')


def reports(launcher, size, case, **env):
    """Standard error of the ranks under a launcher, and of reigen."""
    done = subprocess.run(
        [jobs.ROOT / '.venv/bin' / launcher, *('run',) * (launcher == 'reigen'), '-np', str(size),
         jobs.python(), jobs.HERE / 'ranks/mistake.py', case], capture_output=True, text=True,
        timeout=60, check=False, stdin=subprocess.DEVNULL, env={
            **os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python'),
            'REIGEN_LIBRARY': jobs.library(), 'PYTHONDONTWRITEBYTECODE': '1', **env})
    assert done.returncode == 1, done
    return done.stderr


@pytest.mark.parametrize('launcher', ['reigen', 'horovodrun'])
def test_an_error_that_all_ranks_have_is_told_once_with_the_users_line_last(launcher):
    text = reports(launcher, 3, 'uncaught')
    assert frames(text) == (3, 0), text
    assert text.count('HorovodInternalError') == text.count('Traceback') == 1, text
    after = text[text.index('the user\'s line'):]
    assert re.match(r'.*\n(.*\^\n)?.*HorovodInternalError: allreduce.x: Mismatched', after), text
    assert re.search(r'^reigen: ranks [0-2][-,] ?[0-2]: the same traceback as rank [0-2]\'s$', text,
                     re.MULTILINE), text
    assert 'all 3 ranks failed with the same error: exit code 1' in text, text
    assert 'its last lines' not in text and 'died of it' not in text, text


def test_all_of_an_error_is_told_where_it_is_asked_for():
    text = reports('reigen', 2, 'uncaught', REIGEN_TRACEBACK='full')
    assert text.count('HorovodInternalError') == 2 and 'the same traceback' not in text, text
    assert frames(text)[0] == 6 and frames(text)[1] > 2, text


# By case: the user's frames, and whether there are any of ours.
@pytest.mark.parametrize('case, users, ours', [
    ('chained', 4, False), ('thread', 1, False), ('misspelt', 3, False), ('caught', 2, True),
    ('replaced', 3, True), ('own', 3, True)])
def test_our_own_frames_are_hidden_only_at_the_end_of_a_process(start, case, users, ours):
    ranks = start(1, 'mistake.py', case)
    ranks.wait()
    text = ranks.text(0)
    assert frames(text)[0] == users and (frames(text)[1] > 0) == ours, text
    assert (ours and case != 'own') == ('_handles.py' in text), text
    assert 'the user\'s line' in text, text
    # The interpreter's own remark, since 3.10.
    assert case != 'misspelt' or sys.version_info < (3, 10) or "mean: 'step'?" in text, text


def test_process_sets_are_jobs_within_the_job(all_pass):
    all_pass(4, 'sets.py')


def test_misuse_is_an_exception_and_never_a_hang(all_pass):
    ranks = all_pass(2, 'misuse.py')
    assert 'told' in ranks.text(0)


@pytest.mark.parametrize('size', [1, 2])
def test_elastic_states_survive_failures_and_new_hosts(all_pass, size):
    all_pass(size, 'elastic.py')


@pytest.mark.parametrize('what, size', [
    ('again', 1), ('again', 3), rest('uneven', 2), ('uneven', 3), ('workers', 2), ('dropped', 2),
    ('counters', 2)])
def test_life(all_pass, what, size):
    all_pass(size, 'life.py', what)


def test_an_ordinary_end_while_daemon_threads_are_in_calls(start):
    # By chance, before it was made safe: 139 in one of two.
    several = [start(2, 'life.py', 'daemons') for _ in range(3)]
    for ranks in several:
        assert ranks.wait() == [0, 0], ranks.output()
        for number in range(2):
            told = [line for line in ranks.text(number).splitlines() if line.startswith('told')]
            # A thread may come to its call when the runtime is left already.
            assert set(told) <= {'told HorovodInternalError', 'told InvalidOperationError',
                                 'told ValueError'}, told


def test_a_dead_rank_is_an_error_on_every_other_within_seconds(start):
    ranks = start(3, 'life.py', 'doomed')
    statuses = ranks.wait(40)
    assert statuses[2] == -signal.SIGKILL, ranks.output()
    assert statuses[:2] == [0, 0], ranks.output()
    assert 'told' in ranks.text(0) and 'told' in ranks.text(1)


def test_the_others_are_told_which_rank_ended_by_an_exception(start):
    ranks = start(2, 'life.py', 'raising')
    assert ranks.wait() == [0, 1], ranks.output()
    assert 'nobody catches this' in ranks.text(1)


@pytest.mark.parametrize('traceback', ['short', 'full'])
def test_a_rank_that_takes_long_to_fail_is_no_stall(start, tmp_path, traceback):
    flag = tmp_path / 'flag'
    ranks = start(2, 'life.py', 'slow_to_fail', flag, env={'REIGEN_STALL_SECONDS': '1',
                                                           'REIGEN_TRACEBACK': traceback})
    ranks.wait_for(0, 'rank 1 has failed by an error that nobody caught, and has not ended yet')
    flag.touch()
    assert ranks.wait(40) == [1, 1], ranks.output()
    assert 'has not called' not in ranks.output(), ranks.output()


def test_a_deadlock_by_fewer_batches_is_told_and_ends_the_job(start):
    """In slices, as Python waits; and only the user's tensors are counted."""
    ranks = start(2, 'life.py', 'fewer', env={'REIGEN_STALL_SECONDS': '1',
                                              'REIGEN_DEADLOCK_SECONDS': '2'})
    assert ranks.wait(40) == [1, 1], ranks.output()
    text = ranks.text(0) + ranks.text(1)
    assert 'Rank 1 may have had fewer batches than the others' in text, text
    assert 'and nothing else runs in them' in text, text
    assert re.search(r'Rank 0 waits in allreduce of group\.0_1of2 and 1 more', text), text


def test_ctrl_c_is_heard_while_waiting_for_ranks_that_never_come(start):
    ranks = start(2, 'life.py', 'stalled')
    ranks.wait_for(1, 'idle')
    for turn in range(4):
        ranks.wait_for(0, f'waiting {turn}')
        time.sleep(0.3)  # patient: while it waits
        ranks.processes[0].send_signal(signal.SIGINT)
        ranks.wait_for(0, f'interrupted {turn}', limit=20)
    ranks.wait_for(0, 'survived')


def test_ctrl_c_is_heard_while_ranks_are_missing_at_the_start(start):
    ranks = start(2, 'life.py', 'again')
    # Rank 1 never gets to its init.
    ranks.processes[1].kill()
    time.sleep(4)  # patient: while it waits
    ranks.processes[0].send_signal(signal.SIGINT)
    until(lambda: ranks.processes[0].poll() is not None, 'the end of rank 0', 30)
    assert ranks.processes[0].poll() not in (None, 0), ranks.output()


@pytest.mark.parametrize('size', [1, rest(2), 4])
def test_the_native_package_reduces_and_moves_arrays_without_any_framework(all_pass, size):
    all_pass(size, 'arrays.py')
