# SPDX-License-Identifier: Apache-2.0
"""Processes that belong to no job and come to the sockets of one: of the same user and in the same
network name space, as a container with the host's network has them, but with files and processes of
their own and without capabilities. docs/security.md has the whole list."""
import hashlib
import os
import subprocess
import sys

import built
import processes
import pytest
from ranks import Rank, SLOWER, free_port, program, rank_environment, state

ROOT = os.geteuid() == 0
APART = ['unshare', *([] if ROOT else ['--user', '--map-current-user']), '--mount', '--pid',
         '--ipc', '--uts', '--fork', '--kill-child', '--mount-proc', 'setpriv', '--no-new-privs',
         *(['--inh-caps=-all', '--bounding-set=-all'] if ROOT else [])]

COMMON = r'''
import hashlib, os, socket, struct, sys
text = lambda s: struct.pack('<I', len(s)) + s
def frame(kind, payload=b''):
    return struct.pack('<IH', len(payload), kind) + payload
def dial(name):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect('\0' + name[1:])
    return s
def answer(name, data):
    s = dial(name)
    try:
        s.sendall(data)
        return s.recv(65536)
    except ConnectionError:
        return b''
name = sys.argv[1]
assert any(line.endswith(name + '\n') for line in open('/proc/net/unix')), 'not to be seen'
assert 'REIGEN_AGENT_TOKEN' not in os.environ
assert not os.path.exists(f'/proc/{sys.argv[2]}'), 'in the pid name space of the job'
'''

# Each kind of frame, and REMOTE in its forms, with whatever a stranger can make up.
AGENT_ATTACK = COMMON + r'''
command = text(b'localhost') + text(f'touch {sys.argv[3]}'.encode())
remotes = [struct.pack('<I', 1) + command]
remotes += [struct.pack('<I', 1) + text(token) + command
            for token in (b'', bytes(15), bytes(16), bytes(17), os.urandom(16))]
hello = struct.pack('<III', 1, 0, os.getpid())
cases = [frame(9, r) for r in remotes] + [frame(1, hello + text(bytes(16)))]
cases += [frame(kind, body) for kind in range(16) for body in (b'', bytes(16), text(bytes(16)))]
for number, case in enumerate(cases):
    got = answer(name, case)
    assert got == b'', (number, got)
print('refused', len(cases))
'''

JOIN = COMMON + r'''
facts = bytes.fromhex(sys.argv[3])
hello = struct.pack('<III', 1, 1, os.getpid()) + text(facts)
for data in (frame(1, hello), frame(3, struct.pack('<II', 1, 1000) + text(b'x')), frame(8)):
    got = answer(name, data)
    assert got == b'', got
print('refused')
'''

POSE = r'''
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind('\0' + sys.argv[1][1:])
s.listen(64)
print('ready', flush=True)
while True:
    visitor = s.accept()[0]
    print('visitor', len(visitor.recv(65536)), flush=True)
'''


def apart(start, code, *arguments):
    """A process in other name spaces that runs this program; the test is skipped where the kernel
    lets us make none."""
    if subprocess.run([*APART, 'true'], capture_output=True).returncode != 0:
        pytest.skip('no name spaces of our own here')
    return start(*APART, sys.executable, '-c', code, *arguments, env=built.environment())


def facts(size, port):
    words = [size, '127.0.0.1', port, '', '', '']
    return hashlib.sha256(b''.join(b'%s\0' % str(w).encode() for w in words)).hexdigest()


@pytest.mark.sanitize
def test_a_container_with_the_hosts_network_gets_nothing_from_the_agent(start, programs, tmp_path):
    job = start(programs.reigen, 'run', '-H', 'localhost:1', '--no-tag-output', '--', 'sh', '-c',
                f'echo $REIGEN_AGENT_SOCKET; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; '
                '$REIGEN_RSH localhost echo ours')
    name = job.stdout.readline().strip()
    assert name.startswith('@reigen-')
    stranger = apart(start, AGENT_ATTACK, name, job.pid, tmp_path / 'touched')
    out, err = stranger.communicate(timeout=60 * SLOWER)
    assert stranger.returncode == 0 and out.startswith('refused'), err
    (tmp_path / 'go').touch()
    out, err = job.communicate(timeout=60 * SLOWER)
    assert job.returncode == 0 and out == 'ours\n', err
    assert "refused an unauthenticated connection to the ranks' socket" in err
    assert not (tmp_path / 'touched').exists()


# 600 connections that say nothing, then a rank.
CROWD = r'''
import os, resource, socket, struct
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
def dial():
    s = socket.socket(socket.AF_UNIX)
    s.connect('\0' + os.environ['REIGEN_AGENT_SOCKET'][1:]) # waits where its queue is full
    s.settimeout(60)
    return s
crowd = [dial() for _ in range(600)]
rank = dial()
token = bytes.fromhex(os.environ['REIGEN_RANK_TOKEN'])
payload = struct.pack('<IIII', PROTOCOL, 0, os.getpid(), 16) + token
rank.sendall(struct.pack('<IH', len(payload), 1) + payload)
assert struct.unpack('<IH', rank.recv(6))[1] == 2
rank.sendall(struct.pack('<IH', 0, 8))
print('welcome')
'''


def test_a_crowd_that_says_nothing_keeps_no_rank_out(reigen):
    done = reigen('run', '-np', 1, '--no-tag-output', '--', sys.executable, '-c',
                  f'PROTOCOL = {built.PROTOCOL}\n{CROWD}')
    assert (done.returncode, done.stdout) == (0, 'welcome\n'), done.stderr


@pytest.mark.sanitize
def test_a_container_cannot_join_ranks_that_meet_by_rank(start):
    port = free_port()
    ranks = [Rank(program('again'), rank_environment(0, 2, port))]
    name = f'@reigen-{os.geteuid()}-{port + 1}'
    try:
        processes.wait_for(lambda: any(line.endswith(name + '\n')
                                       for line in open('/proc/net/unix')), name)
        stranger = apart(start, JOIN, name, ranks[0].child.pid, facts(2, port))
        out, err = stranger.communicate(timeout=60 * SLOWER)
        assert stranger.returncode == 0 and out == 'refused\n', err
        ranks.append(Rank(program('again'), rank_environment(1, 2, port)))
        for rank in ranks:
            assert rank.wait(30 * SLOWER) == 0, state(ranks)
        assert 'in another container' in ranks[0].err, state(ranks)
    finally:
        for rank in ranks:
            rank.close()


@pytest.mark.sanitize
def test_a_container_cannot_pose_as_rank_0(start):
    port = free_port()
    name = f'@reigen-{os.geteuid()}-{port + 1}'
    stranger = apart(start, POSE, name)
    assert stranger.stdout.readline() == 'ready\n', stranger.communicate()
    ranks = [Rank(program('again'), rank_environment(r, 2, port)) for r in range(2)]
    try:
        for rank in ranks:
            assert rank.wait(30 * SLOWER) == 0, state(ranks)
        assert f'{name}, where the ranks meet, is held by' in ranks[1].err, state(ranks)
    finally:
        for rank in ranks:
            rank.close()
    stranger.kill()
    heard = stranger.communicate()[0].split('\n')
    assert set(heard) <= {'visitor 0', ''}, heard


@pytest.mark.skipif(not ROOT, reason='only root can become another user')
def test_names_held_by_another_user_are_called_so(start):
    port = free_port()
    code = f'import socket\nname = "\\0reigen-{os.geteuid()}-%d"\nheld = []\n' \
           f'for i in range(16):\n    s = socket.socket(socket.AF_UNIX)\n' \
           f'    s.bind(name % ({port} + 1 + i))\n    s.listen(8)\n    held.append(s)\n' \
           'print("ready", flush=True)\ninput()'
    holder = start('setpriv', '--reuid=65534', '--clear-groups', sys.executable, '-c', code,
                   stdin=subprocess.PIPE)
    assert holder.stdout.readline() == 'ready\n', holder.communicate()
    rank = Rank(program('again'), rank_environment(0, 2, port))
    try:
        assert rank.wait(30 * SLOWER) == 3, rank.err
        assert 'another user (uid 65534)' in rank.lines[-1], rank.lines
        assert 'choose another MASTER_PORT' in rank.lines[-1], rank.lines
    finally:
        rank.close()
