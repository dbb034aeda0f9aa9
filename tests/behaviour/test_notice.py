# SPDX-License-Identifier: Apache-2.0
"""Jobs that are told to stop, and hosts that are taken away with notice: ranks that have asked for
it save their work at the same commit, within the time that there is."""
import os
import re
import signal
import subprocess

import pytest

from built import PROGRAMS, environment
from processes import parent, state
from test_elastic import ask, assert_each_step_once, id_of, job, script  # noqa: F401 (fixtures)
from wait import until


def saves(it):
    """Each rank with the step that it has saved."""
    return [(int(rank), int(at)) for rank, at in re.findall(r'saved (\d+) at (\d+)', it.text())]


def assert_all_saved_once(it, size):
    assert sorted(rank for rank, _ in saves(it)) == list(range(size)), it.text()
    step, = {step for _, step in saves(it)}
    assert it.steps()[-1][0] == step - 1, 'commit() does not return from the last one: ' + it.text()


def assert_saved_together(it):
    """The two ranks that there are."""
    assert sorted(rank for rank, _ in saves(it)) == [0, 1], it.text()
    assert len({step for _, step in saves(it)}) == 1, it.text()


def told_to_stop(it):
    """The launcher is, and has come to it: it has answered another question since."""
    it.child.send_signal(signal.SIGTERM)
    ask(it, 'status', id_of(it, it.child))


def evict(it, place):
    """The agent of this place's host gets the platform's word. Its process."""
    agent = parent(it.pid(place))
    os.kill(agent, signal.SIGTERM)
    return agent


@pytest.mark.parametrize('by', ['a signal', 'reigen stop', 'its agent'])
@pytest.mark.parametrize('options, size', [('-np 3', 3), ('-np 2 --min-np 2 -H a:1,b:1', 2)])
def test_a_job_that_is_told_to_stop_saves_at_one_commit(job, options, size, by):  # noqa: F811
    it = job(f'{options} --grace 60', SAVES='1')
    it.wait(f'step 3 size {size}')
    if by == 'a signal':
        it.child.send_signal(signal.SIGTERM)
    elif by == 'its agent':
        evict(it, size - 1)
    else:
        assert ask(it, 'stop', id_of(it, it.child)).returncode == 0, it.text()
    assert it.end() == 75, it.text()
    assert_all_saved_once(it, size)


def test_ranks_that_have_not_asked_get_the_signal_at_once(job):  # noqa: F811
    it = job('-np 2 --min-np 1 -H a:1,b:1')
    it.wait('step 3 size 2')
    it.child.send_signal(signal.SIGTERM)
    assert it.end() == 143, it.text()


@pytest.mark.parametrize('options', ['-np 2', '-np 2 --min-np 1 -H a:1,b:1'])
def test_ranks_that_come_to_no_commit_are_ended(job, tmp_path, options):  # noqa: F811
    it = job(f'{options} --grace 1', SAVES=tmp_path / 'hold')
    it.wait('step 3 size 2')
    (tmp_path / 'hold').touch()
    it.child.send_signal(signal.SIGTERM)
    assert it.end() == 143, it.text()
    assert 'saved' not in it.text(), it.text()


@pytest.mark.parametrize('options', ['-np 2', '-np 2 --min-np 1 -H a:1,b:1'])
def test_a_pod_says_what_time_it_has(job, tmp_path, options):  # noqa: F811
    """The first process of it hands SIGTERM on; that of anybody else is the user's."""
    it = job(f'{options} --grace 600', SAVES=tmp_path / 'hold', REIGEN_POD_GRACE='2')
    it.wait('step 3 size 2')
    (tmp_path / 'hold').touch()
    it.child.send_signal(signal.SIGTERM)
    assert it.end() == 75, it.text()
    assert 'saved' not in it.text() and 'the pod that it runs in is to end' in it.text(), it.text()


def test_another_signal_does_not_reach_ranks_that_are_about_to_save(job):  # noqa: F811
    """As systemd sends SIGHUP after SIGTERM, and a terminal that is closed does."""
    it = job('-np 2 --min-np 1 -H a:1,b:1 --grace 60', SAVES='1')
    it.wait('step 3 size 2')
    os.kill(it.pid(0), signal.SIGSTOP)
    told_to_stop(it)
    it.child.send_signal(signal.SIGHUP)
    ask(it, 'status', id_of(it, it.child))
    os.kill(it.pid(0), signal.SIGCONT)
    assert it.end() == 75, it.text()
    assert_all_saved_once(it, 2)


def test_the_time_limit_leaves_time_to_save(job):  # noqa: F811
    it = job('-np 2 --grace 60 --timeout 4', SAVES='1')
    assert it.end() == 124, it.text()
    assert_all_saved_once(it, 2)


def test_a_host_with_notice_is_left_without_losing_a_step(job):  # noqa: F811
    it = job('-np 2 --min-np 2 -H a:2,b:2', SAVES='1')
    it.wait('step 3 size 4')
    agent = evict(it, 2)
    it.wait('step .* size 2')
    until(lambda: state(agent) in 'XZ', 'the end of its agent', 30)
    it.stop()
    assert it.end() == 0, it.text()
    assert 'set aside' not in it.text() and not saves(it), it.text()
    assert len(re.findall('place', it.text())) == 4, 'survivors keep their processes'
    assert_each_step_once(it)
    last = max(batch for batch, size in it.steps() if size == 4)
    assert f'train 0 of 2 at {last + 1}\n' in it.text(), it.text()


def test_ranks_that_outstay_the_notice_are_ended(job):  # noqa: F811
    it = job('-np 2 --min-np 1 --grace 400ms -H a:1,b:1')
    it.wait('step 3 size 2')
    os.kill(it.pid(1), signal.SIGSTOP)
    evict(it, 1)
    it.wait('step .* size 1')
    it.stop()
    assert it.end() == 0, it.text()
    assert 'set aside' not in it.text(), it.text()


def test_a_job_that_cannot_do_without_a_host_saves_and_ends(job):  # noqa: F811
    it = job('-np 3 --min-np 3 --grace 60 -H a:2,b:2', SAVES='1')
    it.wait('step 3 size 4')
    evict(it, 2)
    assert it.end() == 75, it.text()
    assert_all_saved_once(it, 4)
    assert ('host b: its agent was told to stop, there is room for 2 ranks without it, and it '
            'takes 3 (--min-np)') in it.text()


class Pipe:
    """Ranks wait for a byte of it, each."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.fd = path, os.open(path, os.O_RDWR)

    def let_go(self, count):
        os.write(self.fd, b'.' * count)


@pytest.fixture
def pipe(tmp_path):
    made = Pipe(tmp_path / 'pipe')
    yield made
    os.close(made.fd)


def test_a_job_that_has_done_its_work_can_do_without_a_host(job, pipe):  # noqa: F811
    it = job('--json -np 2 --min-np 2 --grace 60 -H a:1,b:1', SAVES='1', LINGER=pipe.path)
    it.wait('step 3 size 2')
    agent = parent(it.pid(1))
    it.stop()
    it.wait('"event": ?"rank-ended"')
    os.kill(agent, signal.SIGTERM)
    until(lambda: 'drained' in ask(it, 'status', id_of(it, it.child)).stdout, 'a drained host', 30,
          seen=it.text)
    pipe.let_go(1)
    assert it.end() == 0, it.text()
    assert not saves(it), it.text()


def test_ranks_that_are_meeting_save_in_the_next_epoch(job):  # noqa: F811
    it = job('-np 3 --min-np 1 --grace 30 -H a:1,b:1,c:1', SAVES='1')
    it.wait('step 3 size 3')
    os.kill(it.pid(1), signal.SIGSTOP)
    os.kill(it.pid(2), signal.SIGKILL)
    it.wait('host c is set aside')
    told_to_stop(it)
    os.kill(it.pid(1), signal.SIGCONT)
    assert it.end() == 75, it.text()
    assert_saved_together(it)


def test_a_rank_that_dies_before_others_save_is_done_without(job):  # noqa: F811
    it = job('-np 3 --min-np 1 --grace 30 -H a:1,b:1,c:1', SAVES='1')
    it.wait('step 3 size 3')
    os.kill(it.pid(1), signal.SIGSTOP)
    told_to_stop(it)
    os.kill(it.pid(2), signal.SIGKILL)
    it.wait('host c is set aside')
    os.kill(it.pid(1), signal.SIGCONT)
    assert it.end() == 75, it.text()
    assert_saved_together(it)


def test_ranks_that_connect_later_are_told_as_well(job, pipe):  # noqa: F811
    it = job('-np 2 --grace 30', SAVES='1', AGAIN=pipe.path)
    it.wait(r'leaves \d', 2)
    told_to_stop(it)
    pipe.let_go(2)
    assert it.end() == 75, it.text()
    assert_saved_together(it)


def test_a_job_that_hopes_for_another_host_saves_and_goes_on(job, script):  # noqa: F811
    hosts = script('a:1\nb:1')
    it = job(f'-np 2 --min-np 2 --host-discovery-script {hosts}', SAVES='1')
    it.wait('step 3 size 2')
    evict(it, 1)
    until(lambda: len(saves(it)) == 2, 'both saves', 30, seen=it.text)
    script('a:1\nc:1')
    it.wait('train 1 of 2', count=2)
    it.wait('step .* size 2', count=len(it.steps()) + 1)
    it.stop()
    assert it.end() == 0, it.text()
    assert sorted(rank for rank, _ in saves(it)) == [0, 1], it.text()
    assert len({step for _, step in saves(it)}) == 1, it.text()
    assert {size for _, size in it.steps()} == {2}, it.text()
    assert_each_step_once(it)


def drain_by_force(it, host, *options):
    ident = id_of(it, it.child)
    refused = ask(it, 'drain', ident, host)
    assert refused.returncode == 69 and 'or use --force' in refused.stderr, refused
    done = ask(it, 'drain', '--force', *options, ident, host)
    assert (done.returncode, done.stdout) == (0, f'drained {host}\n'), done


@pytest.mark.parametrize('deadline', [(), ('--deadline', '60')])
def test_a_job_that_a_host_is_taken_from_by_force_saves_and_ends(job, deadline):  # noqa: F811
    it = job('-np 3 --min-np 3 --grace 60 -H a:2,b:2', SAVES='1')
    it.wait('step 3 size 4')
    drain_by_force(it, 'b', *deadline)
    assert it.end() == 75, it.text()
    assert_all_saved_once(it, 4)
    assert ('host b is drained, by reigen drain --force, there is room for 2 ranks without it, and '
            'it takes 3 (--min-np)') in it.text()


def test_force_has_the_time_that_its_deadline_says(job, tmp_path):  # noqa: F811
    """Its ranks come to no commit, and the grace time alone would be long."""
    it = job('-np 2 --min-np 2 --grace 400ms -H a:1,b:1', SAVES=tmp_path / 'hold')
    it.wait('step 3 size 2')
    (tmp_path / 'hold').touch()
    drain_by_force(it, 'a', '--deadline', '300ms')
    assert it.end() == 75, it.text()
    assert 'saved' not in it.text(), it.text()


def test_a_second_deadline_may_be_shorter(job, start, tmp_path):  # noqa: F811
    it = job('-np 2 --min-np 2 -H a:1,b:1 --grace 300ms', SAVES=tmp_path / 'hold')
    it.wait('step 3 size 2')
    (tmp_path / 'hold').touch()
    words = [PROGRAMS.reigen, 'drain', id_of(it, it.child), 'a', '--force', '--deadline']
    for deadline in ('1h', '300ms'):
        start(*words, deadline, stdout=subprocess.DEVNULL, env=environment(HOME=it.folder))
        it.wait('host a is drained, by reigen drain:', count=1 + (deadline == '300ms'))
    assert it.end() == 75, it.text()
    assert 'saved' not in it.text(), it.text()


def test_a_forced_job_that_hopes_for_another_host_saves_and_goes_on(job, script):  # noqa: F811
    hosts = script('a:1\nb:1')
    it = job(f'-np 2 --min-np 2 --host-discovery-script {hosts}', SAVES='1')
    it.wait('step 3 size 2')
    ident = id_of(it, it.child)
    drain = [PROGRAMS.reigen, 'drain', '--force', ident, 'b']
    with subprocess.Popen(drain, env=environment(HOME=it.folder), stdout=subprocess.PIPE,
                          text=True) as child:
        until(lambda: len(saves(it)) == 2, 'both saves', 30, seen=it.text)
        script('a:1\nc:1')
        assert child.communicate(timeout=60)[0] == 'drained b\n'
    it.wait('step .* size 2', count=len(it.steps()) + 1)
    it.stop()
    assert it.end() == 0, it.text()
    assert sorted(rank for rank, _ in saves(it)) == [0, 1], it.text()
    assert {size for _, size in it.steps()} == {2}, it.text()
    assert_each_step_once(it)
