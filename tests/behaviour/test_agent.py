# SPDX-License-Identifier: Apache-2.0
"""The agent by itself: what it needs, what it refuses, what its ranks' socket is safe from."""
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import built
import processes
import pytest

from wait import soon

ATTACK = r'''
import os, socket, struct, sys
name = '\0' + os.environ['REIGEN_AGENT_SOCKET'][1:]
rank = int(os.environ['REIGEN_RANK'])
HELLO = 1
def dial():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(name)
    return s
def hello(token, version=PROTOCOL):
    payload = struct.pack('<IIII', version, rank, os.getpid(), len(token)) + token
    return struct.pack('<IH', len(payload), HELLO) + payload
def refused(data):
    s = dial()
    try:
        s.sendall(data)
        return s.recv(1) == b''
    except OSError:
        return True
good = bytes.fromhex(os.environ['REIGEN_RANK_TOKEN'])
cases = [hello(bytes(16)), hello(good[:-1]), hello(good + b'x'), hello(good, version=99),
         b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'\xff' * 5000, struct.pack('<IH', 0, 3),
         struct.pack('<IH', 1 << 30, HELLO)]
for i, case in enumerate(cases):
    assert refused(case), i
s = dial()
s.sendall(hello(good))
head = s.recv(6)
assert struct.unpack('<IH', head)[1] == 2, head
print('served')
'''


@pytest.mark.sanitize
def test_strangers_on_the_ranks_socket_are_refused(reigen):
    done = reigen('run', '-np', 2, '--', '/usr/bin/python3', '-c',
                  f'PROTOCOL = {built.PROTOCOL}\n{ATTACK}')
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('served') == 2
    assert 'unauthenticated' in done.stderr


def other_user(name):
    """Can a process of another user reach that socket and be answered?"""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(5)
            s.connect('\0' + name[1:])
            s.sendall(struct.pack('<IH', 0, 8))
            os._exit(0 if s.recv(1) == b'' else 1)
        except ConnectionError:
            os._exit(0)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(os.getuid() != 0, reason='only root can become another user')
def test_another_user_is_turned_away(start, programs):
    child = start(programs.reigen, 'run', '-np', 1, '--', 'sh', '-c',
                  'echo $REIGEN_AGENT_SOCKET; sleep 3')
    name = child.stdout.readline().split()[-1]
    assert name.startswith('@reigen-')
    assert other_user(name) == 0
    child.terminate()
    child.wait(10)


def test_key_is_in_no_argument_and_no_environment(start, programs):
    child = start(programs.reigen, 'run', '-np', 1, '--', 'sh', '-c', 'env; sleep 1')
    agent = processes.agent_of(child.pid)
    seen = b''
    for pid in (child.pid, agent):
        for name in ('cmdline', 'environ'):
            with open(f'/proc/{pid}/{name}', 'rb') as f:
                seen += f.read()
    out, _ = child.communicate(timeout=10)
    # A key is 64 hexadecimal digits.
    ours = set(re.findall(rb'[0-9a-f]{64}', seen)) | set(re.findall('[0-9a-f]{64}', out))
    theirs = {w for v in os.environ.values() for w in re.findall('[0-9a-f]{64}', v)}
    assert {o.decode() if isinstance(o, bytes) else o for o in ours} <= theirs


@pytest.mark.parametrize('text', ['', 'nonsense\n', f'reigen-agent {built.PROTOCOL}\n', 'x' * 10000,
                                  f'reigen-agent {built.PROTOCOL}\njob j\nkey 00\nlink fd 3\n'],
                         ids=['nothing', 'nonsense', 'half', 'flood', 'short-key'])
def test_agent_refuses_what_is_no_beginning(programs, text):
    done = subprocess.run([programs.agent, 'agent'], input=text, capture_output=True, text=True,
                          timeout=10, env=built.environment())
    assert done.returncode == 2
    assert done.stderr.startswith('reigen-agent: ')


def start_agent(programs, key='00' * 32):
    """An agent on one end of a socket pair, and the other end."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    os.write(write, f'reigen-agent {built.PROTOCOL}\njob j-1\nkey {key}\nlink fd 3\n\n'.encode())
    os.close(write)

    def place():
        os.dup2(theirs.fileno(), 3)
        os.set_inheritable(3, True)

    child = subprocess.Popen([programs.agent, 'agent'], stdin=read, close_fds=False,
                             preexec_fn=place, stderr=subprocess.PIPE, env=built.environment())
    os.close(read)
    theirs.close()
    ours.settimeout(10)
    return child, ours


def listening(pid):
    """The inodes of this process's TCP sockets that listen."""
    found = set()
    for table in ('tcp', 'tcp6'):
        with open(f'/proc/{pid}/net/{table}') as f:
            found |= {w[9] for w in (line.split() for line in f) if w[3] == '0A'}
    ours = {os.readlink(e.path) for e in os.scandir(f'/proc/{pid}/fd')}
    return {inode for inode in found if f'socket:[{inode}]' in ours}


def test_agent_listens_on_no_port_until_it_is_told_to(programs):
    child, link = start_agent(programs)
    link.recv(1000)  # its first message: all else is set up
    assert not listening(child.pid)
    link.close()
    child.wait(10)


@pytest.mark.parametrize('data', [b'\0' * 56, random.Random(1).randbytes(500),
                                  b'SSH-2.0-OpenSSH_9.2\r\n' * 10],
                         ids=['zeros', 'noise', 'ssh'])
def test_agent_ends_when_its_link_brings_garbage(programs, data):
    child, link = start_agent(programs)
    link.recv(1000)
    link.sendall(data)
    assert child.wait(10) == 70
    assert b'link to the launcher' in child.stderr.read()


def test_agent_ends_at_once_when_its_link_closes(programs):
    child, link = start_agent(programs)
    link.recv(1000)
    link.close()
    begin = time.monotonic()
    child.wait(10)
    assert soon(begin, 2)


def test_agent_needs_nothing_but_itself(programs, tmp_path):
    shutil.copy(programs.agent, tmp_path / 'agent')
    ours, theirs = socket.socketpair()
    boot = f'reigen-agent {built.PROTOCOL}\njob j-1\nkey {"00" * 32}\nlink fd {theirs.fileno()}\n\n'
    enter = ['chroot'] if os.getuid() == 0 else ['unshare', '-r', 'chroot']
    child = subprocess.Popen([*enter, tmp_path, '/agent', 'agent'], stdin=subprocess.PIPE,
                             pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    theirs.close()
    child.stdin.write(boot.encode())
    child.stdin.close()
    ours.settimeout(10)
    assert ours.recv(6) == b'reigen'
    ours.close()
    assert child.wait(10) == 0, child.stderr.read()


@pytest.mark.skipif(os.getuid() != 0, reason='only root can make pid name spaces everywhere')
@pytest.mark.parametrize('proc', ['--mount-proc', '--fork'], ids=['own-proc', 'foreign-proc'])
def test_agent_as_pid_1_reaps_and_leaves_nothing(start, programs, tmp_path, proc):
    wrapper = tmp_path / 'agent'
    wrapper.write_text(f'#!/bin/sh\nexec unshare --pid --fork --kill-child {proc} '
                       f'{programs.agent} agent\n')
    wrapper.chmod(0o755)
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--', 'sh', '-c',
                  f"(setsid sh -c 'sleep 100; : {word}' &); (true &); echo $PPID; "
                  'exit $((3 * $HOROVOD_RANK))',
                  env=built.environment(REIGEN_AGENT=wrapper))
    out, err = child.communicate(timeout=15)
    assert child.returncode == 3, err
    assert {line.split()[-1] for line in out.splitlines()} == {'1'}
    assert not processes.with_word(word)


TOLD = '''
import os, signal as s, sys
s.pthread_sigmask(s.SIG_BLOCK, {s.SIGTERM})
with open(sys.argv[1] + os.environ["RANK"], "w", buffering=1) as heard:
    print("here", file=heard)
    got = s.sigwaitinfo({s.SIGTERM})
    while got:
        print("got", file=heard)
        got = s.sigtimedwait({s.SIGTERM}, 1)
    print("end", file=heard)
'''


def test_ranks_have_their_time_where_slurm_kills_their_launcher(start, programs, tmp_path):
    """As a batch script without exec has it: Slurm has told the agent, by its parent."""
    wrapper = tmp_path / 'agent'
    wrapper.write_text(f'#!/bin/sh\nsed "1a tracked on\n/^\\$/q" >{tmp_path}/boot\n'
                       f'exec {programs.agent} agent <{tmp_path}/boot\n')
    wrapper.chmod(0o755)
    word = processes.mark()
    child = start(programs.reigen, 'run', '-np', 2, '--', programs.python, '-c', TOLD,
                  tmp_path / 'heard-', word, env=built.environment(REIGEN_AGENT=wrapper))
    heard = [tmp_path / 'heard-0', tmp_path / 'heard-1']
    processes.wait_for(lambda: all(f.exists() and f.read_text() for f in heard), 'the ranks')
    guard, = processes.children(child.pid)
    os.kill(guard, signal.SIGTERM)
    child.kill()
    processes.wait_for(lambda: not processes.with_word(word), 'the end of the ranks')
    assert [f.read_text() for f in heard] == ['here\ngot\nend\n'] * 2


def test_it_knows_whether_it_is_the_program_that_is_meant(programs, tmp_path):
    """That is by the digest of the whole file, which is longer than any buffer."""
    program = tmp_path / 'reigen-agent'
    content = bytearray(Path(programs.agent).read_bytes())

    def is_same(name):
        program.write_bytes(content)
        program.chmod(0o755)
        return subprocess.run([program, 'same', name], timeout=30, check=False).returncode == 0
    name = f'agent-{hashlib.sha256(content).hexdigest()[:16]}'
    assert is_same(name)
    assert not is_same(name[:-1])
    content.append(0)  # at its end, where it still runs
    assert not is_same(name)


def test_usage_is_told(programs):
    done = subprocess.run([programs.agent], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and 'usage' in done.stderr
    done = subprocess.run([programs.agent, 'version'], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0 and done.stdout.startswith('reigen-agent ')


def test_wrong_hosts_are_refused_before_the_start(reigen):
    done = reigen('run', '--on', 'local', '-H', 'no-such-host-of-ours:2', '--', 'true')
    assert done.returncode == 69
    assert 'no-such-host-of-ours is not this computer' in done.stderr


def test_two_hosts_that_are_both_here_make_one_job(reigen):
    done = reigen('run', '-H', 'localhost:2,127.0.0.1:1', '--', 'sh', '-c',
                  'echo $HOROVOD_RANK $HOROVOD_LOCAL_RANK $HOROVOD_CROSS_RANK')
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split(None, 1)[-1] for line in done.stdout.splitlines())
    assert lines == ['0 0 0', '1 1 0', '2 0 1']
