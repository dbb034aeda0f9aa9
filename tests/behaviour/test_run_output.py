# SPDX-License-Identifier: Apache-2.0
"""Output, input, events and terminals of `reigen run`."""
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from built import environment
from processes import wait_for, wait_until_full


def test_lines_are_tagged_with_more_than_one_rank(reigen):
    done = reigen('run', '-np', 2, 'sh', '-c', 'echo out $RANK; echo err $RANK >&2')
    assert sorted(done.stdout.splitlines()) == ['[0] out 0', '[1] out 1']
    assert sorted(done.stderr.splitlines()) == ['[0] err 0', '[1] err 1']
    assert reigen('run', '-np', 1, 'echo', 'x').stdout == 'x\n'
    assert reigen('run', '-np', 1, '--tag-output', 'echo', 'x').stdout == '[0] x\n'
    assert reigen('run', '-np', 2, '--no-tag-output', 'echo', 'x').stdout == 'x\nx\n'


def test_one_rank_passes_every_byte(reigen):
    data = bytes(range(256)) * 1000
    done = reigen('run', '-np', 1, 'cat', input=data, text=False)
    assert done.stdout == data and done.returncode == 0


def test_lines_of_many_ranks_are_never_torn(reigen):
    done = reigen('run', '-np', 4, 'sh', '-c',
                  'i=0; while [ $i -lt 300 ]; do printf "%s-" $RANK $RANK; echo end $i; '
                  'i=$((i+1)); done')
    lines = done.stdout.splitlines()
    assert len(lines) == 1200
    for rank in range(4):
        mine = [line for line in lines if line.startswith(f'[{rank}] ')]
        assert mine == [f'[{rank}] {rank}-{rank}-end {i}' for i in range(300)]


def test_a_line_without_end_comes_in_marked_pieces(reigen):
    done = reigen('run', '-np', 2, '--ranks', '1', 'sh', '-c',
                  'head -c 200000 /dev/zero | tr "\\0" z')
    lines = done.stdout.splitlines()
    assert lines[0].startswith('[1] zzz') and all(line.startswith('[1]+ z') for line in lines[1:])
    assert sum(line.count('z') for line in lines) == 200000


def test_time_stamps_and_chosen_ranks(reigen):
    done = reigen('run', '-np', 3, '--timestamp-output', '--ranks', '0,2', 'sh', '-c',
                  'echo r$RANK')
    assert sorted(line[30:] for line in done.stdout.splitlines()) == ['[0] r0', '[2] r2']
    assert all(re.match(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d \[', line)
               for line in done.stdout.splitlines())


def test_a_slow_reader_loses_nothing(start, programs):
    size = 8_000_000
    child = start(programs.reigen, 'run', '-np', 1, 'sh', '-c',
                  f'yes 0123456789 | head -c {size}', text=False)
    time.sleep(0.5)  # patient: nobody reads
    digest, total = hashlib.sha256(), 0
    while data := os.read(child.stdout.fileno(), 50_000):
        digest.update(data)
        total += len(data)
    assert child.wait(20) == 0 and total == size
    wanted = (b'0123456789\n' * (size // 11 + 1))[:size]
    assert digest.hexdigest() == hashlib.sha256(wanted).hexdigest()


def test_a_stuck_reader_does_not_keep_the_job_from_ending(start, programs):
    child = start(programs.reigen, 'run', '-np', 1, '--grace', '1', 'yes')
    wait_until_full(child.stdout)
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)  # patient: two signals are two
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)  # patient: likewise
    if child.poll() is None:  # the ranks are gone, what is left is the reader
        child.send_signal(signal.SIGINT)
    assert child.wait(10) != 0


def test_a_reader_that_goes_away_ends_the_job(start, programs):
    child = start(programs.reigen, 'run', '-np', 2, 'sh', '-c', 'while :; do echo x; done')
    assert child.stdout.readline() in ('[0] x\n', '[1] x\n')
    child.stdout.close()
    assert child.wait(15) == 74
    assert 'reader of standard output went away' in child.stderr.read()
    child.stdout = None


def test_standard_input_goes_where_it_is_sent(reigen):
    assert reigen('run', '-np', 2, 'cat', input='a\nb').stdout == '[0] a\n[0] b\n'
    assert reigen('run', '-np', 2, '--stdin', 1, 'cat', input='a\n').stdout == '[1] a\n'
    both = reigen('run', '-np', 2, '--stdin', 'all', 'cat', input='a\n').stdout
    assert sorted(both.splitlines()) == ['[0] a', '[1] a']
    assert reigen('run', '-np', 2, '--stdin', 'none', 'cat', input='a\n').stdout == ''


def test_large_input_is_carried_whole(reigen):
    data = os.urandom(3_000_000)
    done = reigen('run', '-np', 1, 'sha256sum', input=data, text=False)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_input_that_nobody_reads_does_not_hang(reigen):
    assert reigen('run', '-np', 2, 'true', input='x' * 1_000_000, timeout=20).returncode == 0


def test_closed_standard_streams_do_no_harm(programs):
    for closing in ('<&-', '>&-', '2>&-', '<&- >&- 2>&-'):
        done = subprocess.run(['sh', '-c', f'{programs.reigen} run -np 2 cat {closing}'],
                              env=environment(), timeout=20, capture_output=True)
        assert done.returncode == 0, (closing, done.stderr)


@pytest.mark.parametrize('lost', ['>&-', '>/dev/full'])
def test_what_standard_output_does_not_take_goes_nowhere_else(programs, lost):
    """Not to standard error, where a line of one rank would pass for something said to the user."""
    for arguments in ("-np 2 -- sh -c 'echo line $RANK'", "--json -np 2 -- true",
                      "--timestamp-output -np 1 -- sh -c 'echo line; echo line'"):
        done = subprocess.run(['sh', '-c', f'{programs.reigen} run {arguments} {lost}'],
                              env=environment(), timeout=60, capture_output=True, text=True)
        assert done.returncode == 74, done
        assert 'reigen: cannot write to standard output: ' in done.stderr
        assert all(line.startswith('reigen: ') for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize('closing, code', [('>&-', 74), ('>/dev/full', 74), ('2>&-', 0),
                                           ('<&-', 0)])
def test_the_agents_own_answers_are_not_lost_silently(programs, closing, code):
    done = subprocess.run(['sh', '-c', f'{programs.agent} version {closing}'], env=environment(),
                          timeout=60, capture_output=True)
    assert done.returncode == code, done


@pytest.mark.parametrize('arguments', [['agent'], ['wait-workers', '--no-ssh', '--hosts', 'x']],
                         ids=lambda arguments: arguments[0])
def test_no_descriptor_of_the_agents_takes_the_place_of_a_closed_one(start, programs, arguments):
    """The first that it opens would get the number, and a line of a log would go into a link."""
    child = start('sh', '-c', 'exec "$@" >&- 2>&-', 'sh', programs.agent, *arguments,
                  stdin=subprocess.PIPE, env=environment(REIGEN_KEY='00' * 32))
    # As it gets there they come and go, so a link that was there may be gone when it is read.
    link = f'readlink /proc/{child.pid}/fd/{{1,2}}'
    wait_for(lambda: subprocess.run(['bash', '-c', link], stdout=subprocess.PIPE, text=True,
                                    check=False).stdout.split() == ['/dev/null'] * 2,
             'descriptors 1 and 2')


def test_events_are_json_lines_of_schema_1(reigen):
    done = reigen('run', '-np', 2, '--json', 'sh', '-c',
                  r'echo out $RANK; printf "\377" >&2; '
                  r'[ $RANK = 0 ] || { sleep 0.2; exit 3; }; sleep 9',
                  errors='replace')
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 3
    assert all(e['schema'] == 1 and e['time'] > 1.6e9 for e in events)
    assert events[0]['event'] == 'start' and events[0]['ranks'] == 2 and events[0]['version']
    assert events[-1]['event'] == 'verdict'
    assert events[-1]['exit_code'] == 3 and events[-1]['first'] == 1 and not events[-1]['ok']
    output = [e for e in events if e['event'] == 'output']
    out = {e['rank']: e['text'] for e in output if e['stream'] == 'stdout'}
    assert out == {0: 'out 0', 1: 'out 1'}
    assert [e['base64'] for e in output if e['stream'] == 'stderr'] == ['/w=='] * 2
    ended = {e['rank']: e for e in events if e['event'] == 'rank-ended'}
    assert ended[1]['how'] == 'exit' and ended[1]['value'] == 3 and not ended[1]['consequence']
    assert ended[0]['consequence']
    assert {e['pid'] for e in events if e['event'] == 'rank-started'}


def test_ranks_that_fail_by_the_same_error_are_named_together(reigen):
    """Each by itself, and whatever they wrote on standard output; not those that were stopped."""
    done = reigen('run', '-np', 4, '--json', '--', 'sh', '-c',
                  'echo $RANK; [ $RANK != 3 ] || exec sleep 60; echo boom >&2; exit 7')
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 7 and verdict['first'] in (0, 1, 2), verdict
    assert verdict['same'] == [0, 1, 2], verdict
    done = reigen('run', '-np', 2, '--', 'cat', '/rg-not-there/file')
    assert 'reigen: both ranks failed with the same error: exit code 1, ' in done.stderr
    assert 'died of it' not in done.stderr and 'also failed' not in done.stderr, done.stderr
    done = reigen('run', '-np', 2, '--', 'sh', '-c', 'echo $RANK >&2; exit 1')
    assert ' failed first: ' in done.stderr and 'same error' not in done.stderr, done.stderr


def test_a_limit_of_files_is_an_error_of_writing_and_ends_nothing_else(programs, tmp_path):
    done = subprocess.run(['sh', '-c', 'ulimit -f 0; exec "$0" run -np 2 --output-dir out -- sh -c '
                           '"echo hello; grep SigIgn /proc/self/status"', programs.reigen],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                          timeout=60, check=False, env=environment(XDG_STATE_HOME=tmp_path))
    assert done.returncode == 74 and 'File too large' in done.stderr, done
    assert done.stdout.count('hello') == 2, done
    masks = re.findall(r'SigIgn:\s+(\w+)', done.stdout)
    # Others than this one may be ignored where the tests were started with & by a shell.
    assert [int(mask, 16) >> (signal.SIGXFSZ - 1) & 1 for mask in masks] == [0, 0], done


def test_ranks_that_are_stopped_on_their_way_out_by_the_same_error_did_not_die_of_it(reigen,
                                                                                         tmp_path):
    says = r'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n'
    done = reigen('run', '-np', 3, '--', 'sh', '-c',
                  f"[ $RANK != 2 ] || exec sleep 60; printf '{says}' >&2; "
                  f'[ $RANK = 0 ] || {{ touch {tmp_path}/said; exec sleep 60; }}; '
                  f'until [ -e {tmp_path}/said ]; do sleep 0.02; done; exit 1')
    assert 'ranks 0-1 of 3 failed with the same error: exit code 1' in done.stderr, done.stderr
    assert 'died of it: rank 2: signal 15' in done.stderr, done.stderr


def test_errors_that_pytorch_numbers_are_the_same_error(reigen, tmp_path):
    """After init_process_group each line of a traceback begins with "[rank1]: ". The file has more
    lines than the verdict keeps."""
    says = ('[rank@]: Traceback (most recent call last):\n' +
            ''.join(f'[rank@]:   File "a.py", line {i}, in f\n' for i in range(12)) +
            '\n[rank@]: ValueError: x\n')
    (tmp_path / 'says').write_text(says)
    done = reigen('run', '-np', 3, '--output-dir', 'out', '--', 'sh', '-c',
                  'sed s/@/$RANK/ says >&2; exit 1', cwd=tmp_path)
    assert done.returncode == 1
    assert 'reigen: all 3 ranks failed with the same error: exit code 1, ' in done.stderr
    assert done.stderr.count('ValueError: x') == done.stderr.count('Traceback') == 1, done.stderr
    assert 'the same traceback as rank ' in done.stderr and '    | ' not in done.stderr
    shown = re.search(r'\[(.)\] \[rank(.)\]: ValueError: x', done.stderr)
    assert shown and shown[1] == shown[2], done.stderr
    for rank in range(3):
        kept = tmp_path / 'out' / f'rank.{rank}' / 'stderr'
        assert kept.read_text() == says.replace('@', str(rank))


@pytest.mark.parametrize('elsewhere', [(), ('--ranks', '0')], ids=['shown', 'not shown'])
def test_the_first_failure_is_named_with_last_lines_that_are_not_above_it(reigen, elsewhere):
    done = reigen('run', '-np', 4, *elsewhere, '--', 'sh', '-c',
                  'echo before; '
                  'if [ $HOROVOD_RANK = 2 ]; then sleep 0.1; echo boom >&2; exit 7; fi; sleep 60')
    assert done.returncode == 7
    assert 'rank 2 on localhost failed first: exit code 7' in done.stderr
    assert done.stderr.count('boom') == 1 and ('| boom' in done.stderr) == bool(elsewhere)
    assert 'died of it: ranks 0-1, 3: signal 15' in done.stderr
    assert '\033' not in done.stderr


def test_what_mpirun_says_of_a_failure_stands_there_once(reigen, tmp_path):
    program = tmp_path / 'mpirun'
    program.write_text('#!/bin/sh\necho the whole error >&2; exit 4\n')
    program.chmod(0o755)
    done = reigen('run', '-np', 2, '--', program, 'anything')
    assert done.returncode == 4 and done.stderr.count('the whole error') == 1, done
    assert 'mpirun on localhost failed: exit code 4' in done.stderr, done


def test_pty_gives_rank_0_a_terminal_and_restores_the_users(terminal, programs):
    t = terminal(programs.reigen, 'run', '-np', 2, '--pty', 'sh', '-c',
                 'if [ $RANK = 0 ]; then test -t 0 && test -t 1 && stty size && '
                 'read x && echo got $x; fi')
    t.read_until(b'24 80')
    assert not t.echo_is_on()
    t.send(b'word\r')
    t.read_until(b'got word')
    assert t.wait() == 0
    assert b'[0]' not in t.seen


def test_pty_follows_the_terminals_size(terminal, programs):
    t = terminal(programs.reigen, 'run', '-np', 1, '--pty', 'sh', '-c',
                 'trap "stty size; exit 0" WINCH; echo ready; while :; do sleep 0.1; done')
    t.read_until(b'ready')
    t.resize(33, 99)
    os.kill(t.pid, signal.SIGWINCH)
    t.read_until(b'33 99')
    assert t.wait() == 0


def test_control_c_under_pty_reaches_the_rank_as_a_key(terminal, programs):
    t = terminal(programs.reigen, 'run', '-np', 1, '--pty', 'sh', '-c',
                 'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.1; done')
    t.read_until(b'ready')
    t.send(b'\x03')
    t.read_until(b'caught')
    assert t.wait() == 5


def test_colours_are_for_terminals_only(terminal, programs, reigen):
    t = terminal(programs.reigen, 'run', '-np', 2, 'echo', 'x')
    assert t.wait() == 0 and b'\033[' in t.seen
    assert '\033' not in reigen('run', '-np', 2, 'echo', 'x').stdout


def screen(seen, rows=24):
    """What stands on a terminal of so many rows that was sent these bytes, without colours."""
    lines, row, column = [''], 0, 0
    for move, count, what, text in re.findall(r'(\033\[([\d;]*)([A-Za-z])|\r|\n)|([^\033\r\n]+)',
                                             seen.decode()):
        if text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text):]
            column += len(text)
        elif move == '\r':
            column = 0
        elif move == '\n':
            row += 1
            lines += [''] * (row + 1 - len(lines))
        elif what == 'A':
            row -= int(count)
            assert row >= max(0, len(lines) - rows), 'above the screen'
        elif what in 'KJ':
            lines[row] = lines[row][:column]
            if what == 'J':
                lines[row + 1:] = []
        else:
            assert what == 'm', move
    return [line.rstrip() for line in lines if line.strip()]


def test_a_start_on_several_hosts_shows_rows_and_leaves_nothing_of_them(terminal, programs,
                                                                        tmp_path):
    agent = tmp_path / 'agent'
    agent.write_text(f'#!/bin/sh\nmkdir {tmp_path}/first 2>/dev/null ||\n'
                     f'until [ -e {tmp_path}/go ]; do sleep 0.05; done\n'
                     f'exec {programs.agent} "$@"\n')
    agent.chmod(0o755)
    t = terminal('/usr/bin/env', f'REIGEN_AGENT={agent}', programs.reigen, 'run', '-H',
                 'localhost:1,127.0.0.1:1', 'sh', '-c', 'echo hello; echo end >&2', columns=50)
    deadline = time.monotonic() + 30
    rows = []
    while not (len(rows) == 3 and any(' ready in ' in row for row in rows)):
        assert time.monotonic() < deadline, t.seen
        t.read_until(b'reigen: ')
        if select.select([t.fd], [], [], 1)[0]:
            t.seen += os.read(t.fd, 65536)
        rows = screen(t.seen)
    assert re.fullmatch(r'reigen: 1 of 2 hosts ready after \d+ s', rows[0])
    assert {row.split()[0] for row in rows[1:]} == {'localhost', '127.0.0.1'}
    assert sum('connecting' in row for row in rows) == 1
    (tmp_path / 'go').touch()
    for rank in (b'[0]', b'[1]'):
        t.read_until(rank + b'\033[0m end')
        t.read_until(rank + b'\033[0m hello')
    assert t.wait() == 0
    lines = [line for line in screen(t.seen) if line.startswith('[')]
    assert sorted(lines) == ['[0] end', '[0] hello', '[1] end', '[1] hello'], screen(t.seen)


def test_a_background_job_neither_stops_nor_takes_the_terminals_keys(terminal, programs):
    t = terminal('/bin/bash', '--norc', '--noprofile', '-i')
    t.send(b'PS1=; stty -echo\r')
    t.send(f'{programs.reigen} run -np 1 sh -c "sleep 1; echo ended well" & \r'.encode())
    t.send(b'read x; echo "shell got: $x"\r')
    time.sleep(0.5)  # patient: while the job runs
    t.send(b'mine\r')
    t.read_until(b'shell got: mine')
    t.read_until(b'ended well')
