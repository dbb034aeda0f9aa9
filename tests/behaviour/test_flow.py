# SPDX-License-Identifier: Apache-2.0
"""Bytes in and out: none is lost, and none is hoarded."""
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import processes
import pytest

LIMIT_KIB = 48 * 1024 # far below what is carried, far above what is needed


def watch_peak(pids, peaks, stop):
    while not stop.is_set():
        for pid in pids:
            peaks[pid] = max(peaks.get(pid, 0), processes.peak_kib(pid))
        time.sleep(0.05)  # patient: watches until it is stopped


def count_and_watch(child):
    """The bytes of standard output, and the peak memory of launcher and agent."""
    peaks, stop, total = {}, threading.Event(), 0
    pids = [child.pid, processes.agent_of(child.pid)]
    thread = threading.Thread(target=watch_peak, args=(pids, peaks, stop))
    thread.start()
    while chunk := child.stdout.read1(1 << 20):
        total += len(chunk)
    stop.set()
    thread.join()
    return total, peaks


def test_much_without_a_newline_arrives_in_bounded_memory(start, programs):
    nbytes = 256 << 20
    child = start(programs.reigen, 'run', '-np', 1, '--', 'head', '-c', nbytes, '/dev/zero',
                  text=False, stderr=subprocess.DEVNULL)
    total, peaks = count_and_watch(child)
    assert child.wait(20) == 0
    assert total == nbytes
    assert peaks and max(peaks.values()) < LIMIT_KIB, peaks


def test_slow_reader_makes_ranks_wait_and_loses_nothing(start, programs):
    nbytes = 20_000_000
    child = start(programs.reigen, 'run', '-np', 2, '--no-tag-output', '--', 'head', '-c', nbytes,
                  '/dev/zero', text=False, stderr=subprocess.DEVNULL)
    agent = processes.agent_of(child.pid)
    time.sleep(1.5)  # patient: nobody reads
    peak = max(processes.peak_kib(child.pid), processes.peak_kib(agent))
    assert child.poll() is None
    assert peak < LIMIT_KIB
    total = 0
    while chunk := child.stdout.read1(1 << 20):
        total += len(chunk)
    assert child.wait(20) == 0
    assert total == 2 * nbytes


def test_rank_that_closes_its_output_goes_on(reigen):
    done = reigen('run', '-np', 2, '--', 'sh', '-c',
                  'echo before; exec >&- 2>&-; sleep 0.3; exit $((HOROVOD_RANK * 4))')
    assert done.returncode == 4
    assert done.stdout.count('before') == 2
    assert 'rank 1' in done.stderr


def test_output_after_the_end_of_a_rank_still_arrives(reigen):
    done = reigen('run', '-np', 2, '--', 'sh', '-c',
                  'if [ $HOROVOD_RANK = 0 ]; then (sleep 0.3; echo late) & exit 0; fi; sleep 0.8')
    assert done.returncode == 0, done.stderr
    assert 'late' in done.stdout


@pytest.mark.sanitize
def test_input_goes_to_rank_0_whole(reigen):
    data = ''.join(f'{i}\n' for i in range(300_000))
    done = reigen('run', '-np', 2, '--no-tag-output', '--', 'sh', '-c',
                  'cat | md5sum; true', input=data)
    import hashlib
    assert done.returncode == 0, done.stderr
    assert hashlib.md5(data.encode()).hexdigest() in done.stdout
    assert hashlib.md5(b'').hexdigest() in done.stdout # rank 1 has none


def test_input_goes_to_all_ranks_when_asked(reigen):
    done = reigen('run', '-np', 3, '--no-tag-output', '--stdin', 'all', '--', 'wc', '-c',
                  input='x' * 700_000)
    assert done.stdout.split() == ['700000'] * 3


def test_input_goes_to_the_rank_that_is_named(reigen):
    done = reigen('run', '-np', 3, '--stdin', '2', '--', 'sh', '-c', 'echo got $(wc -c)',
                  input='12345')
    lines = sorted(done.stdout.splitlines())
    assert [line.split()[-1] for line in lines] == ['0', '0', '5']


def test_rank_that_does_not_read_does_not_hold_up_the_job(reigen):
    done = reigen('run', '-np', 2, '--', 'sleep', '0.3', input='x' * 3_000_000, timeout=20)
    assert done.returncode == 0, done.stderr


def write_until_it_is_stuck(pipe, data, least):
    """How much of the data went into the pipe before it took nothing for half a second; on a busy
    machine that means something only when the least of it is in."""
    os.set_blocking(pipe.fileno(), False)
    written, deadline = 0, time.monotonic() + 60
    while written < len(data) and time.monotonic() < deadline:
        try:
            written += os.write(pipe.fileno(), data[written:])
            deadline = time.monotonic() + (0.5 if written > least else 60)
        except BlockingIOError:
            time.sleep(0.01)  # patient: what is stuck shows by time only
    os.set_blocking(pipe.fileno(), True)
    return written


def switches(pid):
    status = Path(f'/proc/{pid}/status').read_text()
    return int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', status, re.MULTILINE).group(1))


@pytest.mark.sanitize
def test_input_waits_for_a_slow_rank_and_reigen_sleeps_meanwhile(start, programs, tmp_path):
    data = bytes(20_000_000)
    child = start(programs.reigen, 'run', '-np', 1, '--no-tag-output', '--', 'sh', '-c',
                  f'until [ -e {tmp_path}/go ]; do sleep 0.05; done; wc -c', text=False,
                  stdin=subprocess.PIPE)
    processes.agent_of(child.pid)
    written = write_until_it_is_stuck(child.stdin, data, 4_000_000)
    assert 4_000_000 < written < 6_000_000 # the window, and what pipes hold
    before = switches(child.pid)
    time.sleep(1)  # patient: counts what happens in a second
    assert switches(child.pid) - before < 30 # heartbeats; looking for room each 10 ms makes 100
    (tmp_path / 'go').touch()
    child.stdin.write(data[written:])
    child.stdin.close()
    child.stdin = None
    assert child.stdout.read().split() == [b'20000000']
    assert child.wait(20) == 0


def test_input_that_stays_open_does_not_hold_up_the_job(start, programs):
    child = start(programs.reigen, 'run', '-np', 2, '--', 'sleep', '0.2', stdin=subprocess.PIPE)
    assert child.wait(10) == 0


def test_reader_that_goes_away_ends_the_job(start, programs):
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--', 'sh', '-c',
                  f'while :; do echo yes; done; : {word}', text=False)
    processes.wait_count(word, 3)
    child.stdout.read(1000)
    child.stdout.close()
    child.stdout = None
    assert child.wait(15) != 0
    processes.assert_gone(word)


def test_environment_arrives_whole(start, programs):
    import built
    odd = {'ODD': 'a "b" \'c\'\n$d\\', 'EMPTY': '', 'UMLAUT': 'grün', 'LONG': 'x' * 100_000}
    child = start(programs.reigen, 'run', '-np', 1, '--env', 'A=1=2', '--', programs.python
                  if programs.python.exists() else '/usr/bin/python3', '-c',
                  'import os, json; print(json.dumps(dict(os.environ)))',
                  env=built.environment(**odd))
    out, err = child.communicate(timeout=20)
    import json
    got = json.loads(out)
    assert got['A'] == '1=2'
    assert {k: got[k] for k in odd} == odd


def test_shared_values_arrive_and_are_never_printed(start, programs, tmp_path):
    import built
    secret = 'very-secret-0815'
    seen = tmp_path / 'seen'
    child = start(programs.reigen, 'run', '-np', 2, '--share-env', 'TOKEN', '--verbose',
                  '--verbose', '--', 'sh', '-c',
                  f'echo ${{#TOKEN}}; until [ -e {seen} ]; do sleep 0.1; done',
                  env=built.environment(TOKEN=secret))
    agent = processes.agent_of(child.pid)
    with open(f'/proc/{agent}/cmdline', 'rb') as f:
        assert secret.encode() not in f.read()
    seen.touch()
    out, err = child.communicate(timeout=20)
    assert child.returncode == 0, err
    assert out.count(str(len(secret))) == 2
    assert secret not in out + err


def test_many_ranks_at_once(reigen):
    done = reigen('run', '-np', 64, '--', 'sh', '-c', 'echo $HOROVOD_RANK', timeout=30)
    assert done.returncode == 0, done.stderr
    assert sorted(int(line.split()[-1]) for line in done.stdout.splitlines()) == list(range(64))


def test_suspended_reader_does_not_stop_signals(start, programs):
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--grace', '300ms', '--', 'sh', '-c',
                  f'while :; do echo yes; done; : {word}', text=False)
    processes.wait_count(word, 3)
    processes.wait_until_full(child.stdout)
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)  # patient: longer than the grace time
    child.send_signal(signal.SIGINT)
    processes.assert_gone(word)
