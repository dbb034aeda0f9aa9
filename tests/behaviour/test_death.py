# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed, and whenever: the rest is gone in five seconds, and the cause is named."""
import os
import random
import signal
import sys
import time
from pathlib import Path

import processes
import pytest

from wait import soon

# A rank with four workers: one in its group, one in a session of its own, one that ignores signals,
# one that is an orphan. The word is in the command line of all but the first.
WORKERS = '''
sleep 100 & : {word}
setsid sh -c 'sleep 101; : {word}' &
(trap '' TERM HUP INT; sh -c 'sleep 102; : {word}') &
(sh -c 'sleep 103; : {word}' &)
while :; do sleep 0.2; done; : {word}
'''


def start_workers(start, programs, word, *options, np=2, **kwargs):
    child = start(programs.reigen, 'run', '-np', np, *options, '--', 'sh', '-c',
                  WORKERS.format(word=word), **kwargs)
    # The launcher's own arguments and four shells per rank have it.
    processes.wait_for(lambda: len(processes.with_word(word)) >= 1 + 4 * np or None,
                       'the workers')
    return child


@pytest.mark.sanitize
def test_launcher_killed_leaves_nothing(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word)
    child.send_signal(signal.SIGKILL)
    processes.assert_gone(word)


def test_launcher_killed_at_any_moment_leaves_nothing(start, programs):
    rng = random.Random(7)
    for _ in range(25):
        word = processes.mark()
        child = start(programs.reigen, 'run', '-np', 3, '--', 'sh', '-c',
                      f"(setsid sh -c 'sleep 100; : {word}' &); sleep 100; : {word}")
        time.sleep(rng.uniform(0, 0.05))  # patient: any moment
        child.kill()
        child.wait(10)
        processes.assert_gone(word)


def test_launcher_killed_while_it_is_stopped_leaves_nothing(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word)
    child.send_signal(signal.SIGTSTP)
    processes.wait_for(lambda: processes.state(child.pid) == 'T', 'the stop')
    child.send_signal(signal.SIGKILL)
    processes.assert_gone(word)


@pytest.mark.sanitize
def test_agent_killed_is_a_lost_host(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word)
    agent = processes.agent_of(child.pid)
    os.kill(agent, signal.SIGKILL)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 76
    assert 'host localhost' in err and f'process {agent}' in err and 'signal 9' in err
    assert not processes.with_word(word)


def test_agent_told_to_stop_is_a_preemption(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word, '--grace', '200ms')
    os.kill(processes.agent_of(child.pid), signal.SIGTERM)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 75
    assert 'localhost' in err and 'signal 15' in err
    assert not processes.with_word(word)


def test_silent_agent_is_lost_after_the_lease(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word, '--lease', '3s')
    os.kill(processes.agent_of(child.pid), signal.SIGSTOP)
    begin = time.monotonic()
    _, err = child.communicate(timeout=15)
    assert child.returncode == 76
    assert 'silent' in err
    assert time.monotonic() > begin + 2.5 and soon(begin, 12)
    assert not processes.with_word(word)


def test_silent_launcher_ends_the_ranks_after_the_lease(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word, '--lease', '3s')
    ranks = [p for p in processes.with_word(word) if p != child.pid]
    child.send_signal(signal.SIGSTOP)
    processes.wait_for(lambda: not any(processes.state(p) not in 'ZX' for p in ranks),
                       'the end of the ranks', 12)
    child.send_signal(signal.SIGCONT)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 76


def test_ctrl_z_pauses_ranks_and_lease(start, programs, tmp_path):
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--lease', '3s', '--', 'sh', '-c',
                  f'until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done; : {word}')
    ranks = [p for p in processes.wait_count(word, 3) if p != child.pid]
    child.send_signal(signal.SIGTSTP)
    processes.wait_for(lambda: processes.state(child.pid) == 'T' and
                       all(processes.state(p) == 'T' for p in ranks), 'the stop')
    time.sleep(5)  # patient: longer than the lease
    assert all(processes.state(p) == 'T' for p in ranks)
    (tmp_path / 'go').touch()
    child.send_signal(signal.SIGCONT)
    out, err = child.communicate(timeout=10)
    assert child.returncode == 0, err
    assert out.count('done') == 2


@pytest.mark.sanitize
def test_rank_killed_with_four_workers(start, programs):
    word = processes.mark()
    child = start_workers(start, programs, word, '--grace', '300ms', '--verbose', '--verbose')
    agent = processes.agent_of(child.pid)
    victim = next(p for p in processes.children(agent) if p in processes.with_word(word) and
                  b'REIGEN_RANK=1' in open(f'/proc/{p}/environ', 'rb').read() and
                  os.getsid(p) == p)
    os.kill(victim, signal.SIGKILL)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 137
    assert 'rank 1 on localhost' in err and 'signal 9' in err
    assert not processes.with_word(word)


def test_what_a_good_rank_leaves_behind_is_ended(reigen):
    word = processes.mark()
    done = reigen('run', '-np', 2, '--', 'sh', '-c',
                  f"(setsid sh -c 'sleep 100; : {word}' >/dev/null 2>&1 &); "
                  f"(sh -c 'sleep 100; : {word}' &); echo bye")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('bye') == 2
    assert not processes.with_word(word)


def test_stopped_rank_ends_at_the_time_limit(start, programs):
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--timeout', '1s', '--grace', '500ms', '--',
                  'sh', '-c', f'while :; do sleep 0.1; done; : {word}')
    ranks = [p for p in processes.wait_count(word, 3) if p != child.pid]
    os.kill(ranks[0], signal.SIGSTOP)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 124
    assert '--timeout' in err
    assert not processes.with_word(word)


def test_start_limit_names_the_host_that_never_came(start, programs, tmp_path):
    import built
    agent = tmp_path / 'agent'
    agent.write_text('#!/bin/sh\nexec sleep 100\n')
    agent.chmod(0o755)
    child = start(programs.reigen, 'run', '-np', 2, '--start-timeout', '500ms', '--', 'true',
                  env=built.environment(REIGEN_AGENT=agent))
    _, err = child.communicate(timeout=10)
    assert child.returncode == 124
    assert 'localhost' in err and '--start-timeout' in err


def test_agent_that_ends_at_once_is_unavailable(start, programs):
    import built
    child = start(programs.reigen, 'run', '-np', 2, '--', 'true',
                  env=built.environment(REIGEN_AGENT='/bin/false'))
    _, err = child.communicate(timeout=10)
    assert child.returncode == 69
    assert 'exit code 1' in err


@pytest.mark.sanitize
def test_first_failure_is_named_and_the_rest_are_consequences(reigen):
    done = reigen('run', '-np', 4, '--', 'sh', '-c',
                  'if [ $HOROVOD_RANK = 2 ]; then echo my last words; exit 7; fi; sleep 30')
    assert done.returncode == 7
    first = done.stderr.splitlines()[0]
    assert 'rank 2' in first and 'localhost' in first and 'exit code 7' in first
    assert 'my last words' in done.stderr


def test_two_jobs_side_by_side_do_not_touch_each_other(start, programs):
    words = [processes.mark() for _ in range(2)]
    jobs = [start_workers(start, programs, word, '--grace', '200ms') for word in words]
    jobs[0].send_signal(signal.SIGTERM)
    jobs[0].communicate(timeout=10)
    assert jobs[0].returncode == 143
    assert not processes.with_word(words[0])
    assert len(processes.with_word(words[1])) >= 9
    assert jobs[1].poll() is None
    jobs[1].send_signal(signal.SIGKILL)
    processes.assert_gone(words[1])


@pytest.fixture
def memory_limit():
    """Become a member of a control group that may have 64 MiB."""
    for parent, name in (('/sys/fs/cgroup', 'memory.max'),
                         ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes')):
        group = Path(parent, f'reigen-test-{processes.mark()}')
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / name).exists():
            break
        group.rmdir()
    else:
        pytest.skip('no control group with a limit of memory can be made here')
    (group / name).write_text('64M')
    yield lambda: (group / 'cgroup.procs').write_text(str(os.getpid()))
    processes.wait_for(lambda: not (group / 'cgroup.procs').read_text(), 'an empty group')
    group.rmdir()


EATER = f'{sys.executable} -c "x = bytearray(200 << 20)"'


@pytest.mark.parametrize('rank,code,said', [
    (f'exec {EATER}', 137, 'signal 9 (Killed), because memory ran out (limit 64 MiB of '),
    (f'{EATER}; exit $?', 137, 'exit code 137, after one of its processes was killed because '
     'memory ran out (limit 64 MiB of '),
    (f'{EATER} || exit 3', 3, 'exit code 3, after one of its processes was killed because '),
    (f'{EATER}; exit 0', 0, 'host localhost: a process was killed because memory ran out (limit '),
])
def test_who_is_killed_as_memory_runs_out_is_told_so(reigen, memory_limit, rank, code, said):
    done = reigen('run', '-np', '1', '--', 'sh', '-c', rank, preexec_fn=memory_limit)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert code == 0 or 'give it more: --mem of Slurm' in done.stderr, done.stderr
