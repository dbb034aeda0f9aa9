# SPDX-License-Identifier: Apache-2.0
"""Whoever kills by name means the job: whatever the name hits, and in which order, nothing stays.

Each runs in a pid name space of its own (kills.py is its process 1), so that no name hits anything
else on this machine.
"""
import os
import subprocess
from pathlib import Path

import processes
import pytest

TRIES = 8
OTHER_DRIVER = ['--on', 'ssh', '-H', 'localhost:2']
NAMESPACE = ['unshare', *([] if os.getuid() == 0 else ['-r']), '--pid', '--fork', '--kill-child',
             '--mount-proc']


@pytest.fixture(scope='module', autouse=True)
def namespace():
    if subprocess.run([*NAMESPACE, 'true'], capture_output=True, check=False).returncode:
        pytest.skip('no pid name space: unshare is refused')


@pytest.mark.parametrize('pattern', ['pkill', 'killall', 'command-line', 'launcher-and-agent',
                                     'launcher-and-guard', 'agent-and-guard'])
def test_nothing_is_left(start, programs, pattern):
    child = start(*NAMESPACE, '/usr/bin/python3', Path(__file__).with_name('kills.py'),
                  programs.reigen, pattern, TRIES, 1)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (0, 'nothing left\n'), err


@pytest.mark.parametrize('options', [[], OTHER_DRIVER], ids=['local', 'ssh'])
def test_the_guard_holds_nothing_of_the_user_and_goes(start, programs, options):
    """Who reads the launcher's pipes sees their end when the job ends, not when a guard does."""
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, *options, '--', 'sh', '-c',
                  f'echo up; read line; : {word}', stdin=subprocess.PIPE)
    assert child.stdout.readline().endswith('up\n')
    agent = processes.agent_of(child.pid)
    guard = processes.parent(agent)
    theirs = {os.readlink(f'/proc/{child.pid}/fd/{n}') for n in range(3)}
    held = {os.readlink(f'/proc/{guard}/fd/{n}') for n in os.listdir(f'/proc/{guard}/fd')}
    assert not held & theirs
    assert os.getsid(guard) == guard  # no terminal's
    out, err = child.communicate('\n', timeout=30)
    assert child.returncode == 0 and not err
    assert processes.state(guard) == 'X' and processes.state(agent) == 'X'


def test_the_agent_alone_killed_is_named_by_its_own_number(start, programs):
    for options in ([], OTHER_DRIVER):
        child = start(programs.reigen, 'run', '-np', 2, *options, '--', 'sleep', 100)
        agent = processes.agent_of(child.pid)
        processes.wait_for(lambda: len(processes.children(agent)) == 2, 'the ranks')
        os.kill(agent, 9)
        out, err = child.communicate(timeout=30)
        assert child.returncode == 76
        assert f'its agent (process {agent}) ended: signal 9 (Killed)' in err
        assert 'guard' not in err


def test_the_guard_alone_killed_is_a_lost_host(start, programs):
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--', 'sh', '-c', f'sleep 100; : {word}')
    agent = processes.agent_of(child.pid)
    processes.wait_count(word, 3)
    guard = processes.parent(agent)
    os.kill(guard, 9)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 76, err
    assert f"its agent's guard (process {guard}) ended: signal 9 (Killed)" in err
    assert not processes.with_word(word) and processes.state(agent) == 'X'


def test_children_that_the_launcher_had_before_stay(start, programs):
    """`sleep & exec reigen run`: the launcher's children are not all the job's."""
    word = processes.mark()
    child = start('sh', '-c', f'sleep 200 >/dev/null 2>&1 & echo $!; exec "$0" run -np 2 -- sh -c '
                  f'"(setsid sh -c \'sleep 100; : {word}\' &); sleep 100; : {word}"',
                  programs.reigen)
    own = int(child.stdout.readline())
    agent = processes.agent_of(child.pid)
    processes.wait_for(lambda: len(processes.with_word(word)) >= 5, 'the ranks')
    os.kill(processes.parent(agent), 19)
    os.kill(agent, 19)
    os.kill(processes.parent(agent), 9)
    out, err = child.communicate(timeout=30)
    try:
        assert child.returncode == 76, err
        assert not processes.with_word(word) and processes.state(agent) == 'X'
        assert processes.state(own) == 'S'
    finally:
        os.kill(own, 9)
