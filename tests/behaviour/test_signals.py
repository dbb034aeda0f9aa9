# SPDX-License-Identifier: Apache-2.0
"""Signals to the launcher: who gets them, when the patience ends, and what the exit code says."""
import os
import signal
import time

import processes
import pytest

from wait import soon


def start_script(start, programs, script, *options, np=2):
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', np, *options, '--', 'sh', '-c',
                  f'{script}\n: {word}')
    processes.wait_for(lambda: len(processes.with_word(word)) >= 1 + np or None, 'the ranks')
    return child, word


def ready(child, count):
    """Read lines until count ranks have said ready."""
    for _ in range(count):
        assert 'ready' in child.stdout.readline()


@pytest.mark.sanitize
@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM])
def test_signal_reaches_every_rank_and_ends_the_job(start, programs, signo):
    child, word = start_script(
        start, programs, "trap 'echo got it; exit 3' INT TERM; echo ready; "
        'while :; do sleep 0.05; done', np=3)
    ready(child, 3)
    child.send_signal(signo)
    out, err = child.communicate(timeout=10)
    assert out.count('got it') == 3
    assert child.returncode == 128 + signo
    assert not processes.with_word(word)


LISTENING = '''
import signal as s
known = {s.SIGTERM, s.SIGINT, s.SIGHUP, s.SIGUSR1, s.SIGUSR2}
s.pthread_sigmask(s.SIG_BLOCK, known)
print("ready", flush=True)
got = s.sigwaitinfo(known)
while got:
    print("got", got.si_signo, flush=True)
    got = s.sigtimedwait(known, 1)
'''


@pytest.mark.parametrize('to', ['reigen', 'its group', 'its agent, too'])
@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_each_rank_gets_a_signal_once(start, programs, signo, to):
    """A terminal signals the whole group, a shutting-down system all processes that are not
    ranks'; Slurm is in tests/slurm."""
    child = start(programs.reigen, 'run', '-np', 2, '--no-tag-output', '--', programs.python,
                  '-c', LISTENING)
    ready(child, 2)
    agents = processes.children(child.pid) if to == 'its agent, too' else []
    if to == 'its group':
        os.killpg(child.pid, signo)
    else:
        for pid in [child.pid, *agents]:
            os.kill(pid, signo)
    out, _ = child.communicate(timeout=60)
    # An agent that is told to hang up ends its ranks by SIGTERM, which is another one.
    assert sorted(line for line in out.splitlines() if line.endswith(f' {int(signo)}')) == \
        [f'got {int(signo)}'] * 2


def test_ranks_that_end_well_on_a_signal_make_a_good_end(start, programs):
    child, _ = start_script(start, programs,
                            "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    ready(child, 2)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=10)
    assert child.returncode == 0


def test_grace_time_ends_in_sigkill(start, programs):
    child, word = start_script(start, programs,
                               "trap '' INT TERM; echo ready; while :; do sleep 0.05; done",
                               '--grace', '700ms')
    ready(child, 2)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=10)
    assert time.monotonic() > begin + 0.6 and soon(begin, 5)
    assert child.returncode == 130
    assert not processes.with_word(word)


@pytest.mark.sanitize
def test_second_sigint_is_immediate(start, programs):
    child, word = start_script(start, programs,
                               "trap '' INT TERM; echo ready; while :; do sleep 0.05; done",
                               '--grace', '60s')
    ready(child, 2)
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)  # patient: it must not end
    assert child.poll() is None
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=10)
    assert soon(begin, 3)
    assert child.returncode == 130
    assert not processes.with_word(word)


def test_user_signals_are_handed_on_and_the_job_goes_on(start, programs):
    child, _ = start_script(start, programs,
                            "trap 'echo one; u=1' USR1; trap 'echo two; exit 0' USR2; echo ready; "
                            'while :; do sleep 0.05; done')
    ready(child, 2)
    child.send_signal(signal.SIGUSR1)
    assert sorted('one' in child.stdout.readline() for _ in range(2)) == [True, True]
    child.send_signal(signal.SIGUSR2)
    out, err = child.communicate(timeout=10)
    assert out.count('two') == 2
    assert child.returncode == 0, err


def test_signal_that_ranks_do_not_survive_is_not_their_fault(start, programs):
    child, _ = start_script(start, programs, 'echo ready; while :; do sleep 0.05; done')
    ready(child, 2)
    child.send_signal(signal.SIGUSR1)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 128 + signal.SIGUSR1
    assert 'handed it on' in err


def test_hangup_ends_the_job(start, programs):
    child, word = start_script(start, programs, 'echo ready; while :; do sleep 0.05; done')
    ready(child, 2)
    child.send_signal(signal.SIGHUP)
    child.communicate(timeout=10)
    assert child.returncode == 129
    assert not processes.with_word(word)
