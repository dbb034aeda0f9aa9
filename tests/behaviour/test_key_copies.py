# SPDX-License-Identifier: Apache-2.0
"""Where the job's key lies while a job runs: in memory that is locked, guarded and left out of core
dumps, or nowhere. What only passes through is wiped."""
import hmac
import secrets
import sys

import built
import processes
import pytest
from ranks import Rank, SLOWER, free_port, program, rank_environment, state


def ordinary_memory(pid):
    """(name, bytes) of each mapping that may be written to, but for those that core dumps lack."""
    found, at = [], None
    with open(f'/proc/{pid}/smaps') as f:
        for line in f:
            words = line.split()
            if line.startswith('VmFlags:'):
                if 'dd' not in words and 'io' not in words and at[1].startswith('rw'):
                    found.append(at)
            elif not words[0].endswith(':'):
                at = (words[0], words[1], words[-1])
    with open(f'/proc/{pid}/mem', 'rb', 0) as memory:
        for place, _, name in found:
            begin, end = (int(x, 16) for x in place.split('-'))
            try:
                memory.seek(begin)
                yield name, memory.read(end - begin)
            except OSError:
                continue


def copies(pid, **keys):
    """[(which key, where)], as bytes and as hexadecimal text."""
    try:
        memory = list(ordinary_memory(pid))
    except PermissionError:
        pytest.skip('no other process can be looked into here')
    assert memory
    return [(name, place) for place, data in memory for name, key in keys.items()
            if key in data or key.hex().encode() in data]


def derived(key, purpose):
    return hmac.digest(key, purpose, 'sha256')


# In the agent's place: puts down what the agent is about to read, and leaves it unread.
WRAPPER = '''#!{python}
import os, socket, sys
with socket.socket(fileno=os.dup(0)) as boot, open({boot!r}, 'wb') as copy:
    copy.write(boot.recv(4096, socket.MSG_PEEK))
os.execv({agent!r}, [{agent!r}, *sys.argv[1:]])
'''


def test_launcher_agent_and_ranks_keep_no_copy_of_the_key(start, programs, tmp_path):
    wrapper = tmp_path / 'agent'
    wrapper.write_text(WRAPPER.format(python=sys.executable, boot=str(tmp_path / 'boot'),
                                      agent=str(programs.agent)))
    wrapper.chmod(0o755)
    job = start(programs.reigen, 'run', '-np', 2, '--no-tag-output', '--', *program('victim'),
                'wait', env=built.environment(REIGEN_AGENT=wrapper))
    ready = [job.stdout.readline().split() for _ in range(2)]
    assert all(line[0] == 'ready' for line in ready), ready
    words = (tmp_path / 'boot').read_text().split()
    key = bytes.fromhex(words[words.index('key') + 1])
    agent = processes.agent_of(job.pid)
    guard = processes.parent(agent)
    for pid in (job.pid, guard, agent, *(int(line[1]) for line in ready)):
        assert not copies(pid, key=key, data=derived(key, b'data')), (pid, agent)
    job.terminate()
    job.communicate(timeout=30 * SLOWER)


def test_ranks_keep_no_copy_of_the_key(tmp_path):
    key = secrets.token_bytes(32)
    file = tmp_path / 'key'
    file.write_text(key.hex())
    file.chmod(0o600)
    port = free_port()
    ranks = [Rank([*program('victim'), 'idle'],
                  rank_environment(r, 2, port, REIGEN_KEY_FILE=file)) for r in range(2)]
    try:
        for rank in ranks:
            rank.wait_line('ready')
        for rank in ranks:
            found = copies(rank.child.pid, key=key, boot=derived(key, b'boot'),
                           data=derived(key, b'data'))
            assert not found, state(ranks)
    finally:
        for rank in ranks:
            rank.close()
