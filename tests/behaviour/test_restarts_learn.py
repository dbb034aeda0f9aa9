# SPDX-License-Identifier: Apache-2.0
"""Restarts that learn: what fails twice in the same way and gets no further is not started again,
and a host that fails again and again is left."""
import json
import re

import pytest

from built import PROGRAMS
from test_hosts import ssh  # noqa: F401  a fixture

RAISES = '''
import os, sys, time
if os.environ["RANK"] != {rank}:
    time.sleep(60)
1 / 0
'''
# Each start gets three steps further, and the fourth one to the end.
MOVES_ON = '''
import os
start = int(os.environ["REIGEN_RESTART"])
for step in range(3 * start, 3 * start + 3):
    print("step", step, flush=True)
assert start == 3, f"step {step} was too much"
'''
TWICE = 'the same failure twice, and no progress; restarts cannot help'


def program(text, rank='"1"'):
    return [PROGRAMS.python, '-c', text.replace('{rank}', rank)]


def failures(text):
    """The two lines beneath the one that says so."""
    assert TWICE in text, text
    return re.findall(r'^  [12]\. (.*)$', text.split(TWICE)[1], re.M)[:2]


def test_the_same_exception_twice_ends_the_job(reigen):
    done = reigen('run', '-np', 2, '--max-restarts', 10, '--', *program(RAISES))
    assert done.returncode == 1 and 'restart 1 of 10' in done.stderr, done.stderr
    assert 'restart 2' not in done.stderr, done.stderr
    for said in failures(done.stderr):
        assert re.fullmatch(r'rank 1 on localhost: exit code 1, after [\d.]+ s: '
                            'ZeroDivisionError: division by zero', said), done.stderr
    assert len(failures(done.stderr)) == 2 and 'what failed each' not in done.stderr, done.stderr


def test_events_have_both_failures(reigen):
    done = reigen('run', '-np', 2, '--max-restarts', 10, '--json', '--', *program(RAISES))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e['event'] for e in events].count('start') == 2, events
    one, two = events[-1]['twice']
    assert one.pop('seconds') > 0 and two.pop('seconds') > 0
    assert one == two == {'rank': 1, 'host': 'localhost', 'how': 'exit', 'value': 1,
                          'kind': 'error', 'error': 'ZeroDivisionError: division by zero',
                          'epoch': None, 'step': None}, events[-1]
    assert events[-1]['exit_code'] == done.returncode == 1


def test_a_job_may_be_started_again_always(reigen):
    done = reigen('run', '-np', 2, '--max-restarts', 2, '--restart-always', '--',
                  *program(RAISES))
    assert done.returncode == 1 and 'restart 2 of 2' in done.stderr, done.stderr
    assert TWICE not in done.stderr, done.stderr


def test_a_program_that_gets_further_is_started_again(reigen):
    done = reigen('run', '-np', 1, '--max-restarts', 10, '--', *program(MOVES_ON))
    assert done.returncode == 0, done.stderr
    assert 'ended well after 3 restarts' in done.stderr and 'step 11' in done.stdout, done


def test_who_is_killed_may_live_longer_the_next_time(reigen):
    done = reigen('run', '-np', 1, '--max-restarts', 2, '--', 'sh', '-c', 'kill -KILL $$')
    assert done.returncode == 137 and 'restart 2 of 2' in done.stderr, done.stderr
    assert TWICE not in done.stderr


def test_a_silent_failure_is_the_same_on_the_same_rank_alone(reigen):
    words = ['run', '-np', 3, '--max-restarts', 2, '--', 'sh', '-c']
    fails = '[ $RANK = {} ] || exec sleep 60; exit 3'
    done = reigen(*words, fails.format('2'))
    assert done.returncode == 3 and TWICE in done.stderr, done.stderr
    done = reigen(*words, fails.format('$REIGEN_RESTART'))
    assert done.returncode == 3 and TWICE not in done.stderr, done.stderr


@pytest.mark.parametrize('rank', ['"1"', 'os.environ["TORCHELASTIC_RESTART_COUNT"]'])
def test_an_exception_of_the_program_follows_it_to_any_host(reigen, ssh, rank):  # noqa: F811
    done = reigen('torchrun', '--nnodes=1:2', '--nproc-per-node=1', '--max-restarts=10', '-H',
                  'a,b', '--no-python', *program(RAISES, rank), env=ssh())
    assert done.returncode == 1, done.stderr
    assert done.stderr.count('restart 1, after rank') == 1 and 'restart 2' not in done.stderr
    one, two = failures(done.stderr)
    assert one.startswith('rank 1 on b:' if rank == '"1"' else 'rank 0 on a:'), done.stderr
    assert two.startswith('rank 1 on b:') and one.endswith('ZeroDivisionError: division by zero')


# Rank 1 leaves rank 0 in the lurch. Who is heard last ends when the launcher has heard of the other
# one, and ends all.
LINGERS = '''
import os, reigen, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
reigen.init()
reigen.barrier()
try:
    if reigen.rank() == 0:
        reigen.broadcast_object(None, 1)
    reigen.shutdown()
finally:
    if os.environ["RANK"] == {rank}:
        signal.sigwait([signal.SIGTERM])
sys.exit(3)
'''


@pytest.mark.parametrize('last', [0, 1])
def test_who_left_the_others_is_compared_whoever_is_heard_first(reigen, ssh, last):  # noqa: F811
    done = reigen('torchrun', '--nnodes=1:2', '--nproc-per-node=1', '--max-restarts=9', '-H',
                  'a,b', '--no-python', *program(LINGERS, f'"{last}"'), env=ssh())
    first = 'rank 0 on a: exit code 1' if last else 'rank 1 on b: exit code 3'
    assert f'restart 1, after {first}' in done.stderr and done.returncode == 3, done.stderr
    assert 'restart 3' not in done.stderr, done.stderr
    assert [said[:27] for said in failures(done.stderr)] == ['rank 1 on b: exit code 3, a'] * 2
    assert 'rank 1 on b failed first: exit code 3' in done.stderr, done.stderr


# What cut off rank 0 the first time is never known; the second time it fails by itself, once.
ONCE = '''
import os, reigen, signal, sys, time
start, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), os.environ["RANK"]
if start == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    reigen.init()
    reigen.barrier()
    if rank == "0":
        reigen.broadcast_object(None, 1)
    reigen.shutdown()
    signal.sigwait([signal.SIGTERM])
elif start == 1:
    1 / int(rank)
    signal.pause()
'''


def test_a_failure_is_not_compared_with_itself(reigen, ssh):  # noqa: F811
    done = reigen('torchrun', '--nnodes=1:2', '--nproc-per-node=1', '--max-restarts=9', '-H',
                  'a,b', '--no-python', *program(ONCE), env=ssh())
    assert 'restart 2, after rank 0 on a: exit code 1' in done.stderr, done.stderr
    assert done.returncode == 0 and TWICE not in done.stderr, done.stderr


# The agent of host b dies when its rank is told to end, so rank 0 is heard first. The rank on c
# ends after that.
LOSES = '''
import os, signal, sys, time
ready = sys.argv[1] + os.environ["TORCHELASTIC_RESTART_COUNT"] + "-"
others = sys.argv[2].split(",")[1 - int(os.environ["WORLD_SIZE"]):]
if os.environ["RANK"] == "0":
    while not all(os.path.exists(ready + host) for host in others):
        time.sleep(0.01)
    raise ConnectionError("connection reset by peer")
signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ["LOGIN"] == "c" else
              lambda *_: os.kill(os.getppid(), signal.SIGKILL))
open(ready + os.environ["LOGIN"], "w").close()
while True:
    signal.pause()
'''


def test_a_victim_of_a_lost_host_is_not_compared(reigen, ssh, tmp_path):  # noqa: F811
    done = reigen('run', '-np', '2', '--max-restarts', '2', '-H', 'a,b', '--', *program(LOSES),
                  tmp_path / 'ready', 'b', env=ssh())
    assert 'restart 2' in done.stderr, done.stderr
    assert done.returncode == 1, done.stderr


def test_a_victim_is_not_compared_in_an_elastic_job_either(reigen, ssh, tmp_path):  # noqa: F811
    done = reigen('torchrun', '--nnodes=1:3', '--nproc-per-node=1', '--max-restarts=2', '--grace',
                  '1', '-H', 'a,b,c', '--no-python', *program(LOSES), tmp_path / 'ready', 'b,c',
                  env=ssh())
    assert 'host b is set aside' in done.stderr, done.stderr
    assert 'restart 2, after rank 0 on a' in done.stderr, done.stderr


def test_progress_is_seen_above_a_long_traceback(reigen):
    text = MOVES_ON.replace('assert start == 3, ',
                            'for line in range(40 * (start < 3)):\n'
                            '    print("in some other code", flush=True)\n'
                            'assert start == 3, ')
    done = reigen('run', '-np', 1, '--max-restarts', 10, '--', *program(text))
    assert done.returncode == 0, done.stderr


def test_hosts_are_not_used_up_by_an_error_of_the_program(reigen, ssh):  # noqa: F811
    done = reigen('run', '-np', 3, '--min-np', 1, '-H', 'a:1,b:1,c:1', '--', *program(
        RAISES, 'str(int(os.environ["WORLD_SIZE"]) - 1)'), env=ssh())
    assert done.returncode == 1 and TWICE in done.stderr, done.stderr
    assert [said[:12] for said in failures(done.stderr)] == ['rank 2 on c:', 'rank 1 on b:']


def test_elastic_restarts_may_go_on_always(reigen, ssh):  # noqa: F811
    done = reigen('torchrun', '--nnodes=1:2', '--nproc-per-node=1', '--max-restarts=2', '-H',
                  'a,b', '--restart-always', '--no-python', *program(RAISES), env=ssh())
    assert done.returncode == 1 and 'restart 2, after rank 1' in done.stderr, done.stderr
    assert TWICE not in done.stderr


def test_elastic_restarts_that_get_further_go_on(reigen, ssh):  # noqa: F811
    text = MOVES_ON.replace('REIGEN_RESTART', 'TORCHELASTIC_RESTART_COUNT')
    done = reigen('torchrun', '--nnodes=1:2', '--nproc-per-node=1', '--max-restarts=10', '-H',
                  'a,b', '--no-python', *program(text), env=ssh())
    assert done.returncode == 0 and 'restart 3, after' in done.stderr, done.stderr


# Host b has bad memory.
FLAKY = '[ $LOGIN != b ] || kill -BUS $$; [ $WORLD_SIZE = 1 ] || exec sleep 60; echo alone'


def test_a_host_that_fails_again_is_set_aside(reigen, ssh):  # noqa: F811
    done = reigen('torchrun', '--nnodes=1:2', '--nproc-per-node=1', '--max-restarts=10', '-H',
                  'a,b', '--no-python', 'sh', '-c', FLAKY, env=ssh())
    assert done.returncode == 0 and 'alone' in done.stdout, done
    assert 'host b is set aside for the rest of the job: rank 1 on b: signal 7' in done.stderr
    assert done.stderr.count('after rank 1 on b') == 2, done.stderr


def test_a_host_that_cannot_be_spared_ends_the_job(reigen, ssh):  # noqa: F811
    done = reigen('torchrun', '--nnodes=2:3', '--nproc-per-node=1', '--max-restarts=10', '-H',
                  'a,b', '--no-python', 'sh', '-c', FLAKY, env=ssh())
    assert done.returncode == 135 and 'set aside' not in done.stderr, done.stderr
    assert [said[:22] for said in failures(done.stderr)] == ['rank 1 on b: signal 7 '] * 2
