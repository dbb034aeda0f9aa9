# SPDX-License-Identifier: Apache-2.0
"""Jobs without a launcher: each rank a process with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT,
as torchrun would start it. The programs are those of tests/programs."""
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

import built

# How much longer everything may take.
SLOWER = {None: 1, 'asan': 3, 'tsan': 8}[built.SANITIZER]
DEADLINE = 5 * SLOWER


def slowdown():
    """How much longer work takes now, as this machine has other work: 1 on a quiet one."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.05:
        pass
    return max(1, (time.monotonic() - wall) / 0.05)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return min(s.getsockname()[1], 65500)


class Rank:
    """One process, its lines of output, and when each came."""

    def __init__(self, argv, env):
        self.lines, self.times, self.err = [], [], ''
        self.child = subprocess.Popen([str(a) for a in argv], env=env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, start_new_session=True)
        self.news = threading.Condition()
        self.readers = [threading.Thread(target=f, daemon=True)
                        for f in (self.read_out, self.read_err)]
        for reader in self.readers:
            reader.start()

    def read_out(self):
        for line in self.child.stdout:
            with self.news:
                self.lines.append(line.rstrip('\n'))
                self.times.append(time.monotonic())
                self.news.notify_all()

    def read_err(self):
        for line in self.child.stderr:
            with self.news:
                self.err += line
                self.news.notify_all()

    def until(self, test, timeout):
        """Wait until test() holds, which may look at lines and err."""
        with self.news:
            return self.news.wait_for(test, timeout)

    def wait_line(self, start, timeout=30 * SLOWER):
        """The first line that starts so."""
        def find():
            return next((line for line in self.lines if line.startswith(start)), None)
        assert self.until(find, timeout), f'no line {start!r}: {self.lines} {self.err}'
        return find()

    def time_of(self, start):
        return next(t for line, t in zip(self.lines, self.times) if line.startswith(start))

    def wait(self, timeout):
        status = self.child.wait(timeout)
        for reader in self.readers:
            reader.join(10)
        return status

    def kill(self, number=signal.SIGKILL):
        os.kill(self.child.pid, number)

    def close(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        for reader in self.readers:
            reader.join(10)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            pipe.close()


def program(name):
    path = built.PROGRAMS.build / 'tests/programs' / name
    # gcc's ThreadSanitizer cannot live with the address ranges of some kernels.
    return ['setarch', '-R', path] if built.SANITIZER == 'tsan' else [path]


def assert_rank_1_left_first(done, how, code):
    """What reigen said and returned after tests/programs/leave."""
    if how == 'signal':
        expected = f'rank 1 on \\S+ failed first: signal {int(code)} '
    elif code:
        expected = f'rank 1 on \\S+ failed first: exit code {code},'
    else:
        expected = 'rank 1 on \\S+ left first: exit code 0,.* while others waited for it'
    assert re.search(expected, done.stderr), done.stderr
    assert done.returncode == (128 + code if how == 'signal' else code or 5), done.stderr
    assert re.search(r'died of it: .*exit code 5', done.stderr), done.stderr


def rank_environment(rank, size, port, **more):
    variables = {'RANK': rank, 'WORLD_SIZE': size, 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port,
                 'REIGEN_START_TIMEOUT': 30 * SLOWER, **more}
    return built.environment(**variables)


@contextmanager
def job(name, *arguments, size, env=None, each=None, enter=None):
    """The ranks of one job. each(rank): variables of that rank; enter(rank): what goes in front of
    its command. All are killed at the end."""
    port = free_port()
    ranks = []
    try:
        for rank in range(size):
            more = {**(env or {}), **(each(rank) if each else {})}
            ranks.append(Rank([*(enter(rank) if enter else []), *program(name), *arguments],
                              rank_environment(rank, size, port, **more)))
        yield ranks
    finally:
        for rank in ranks:
            rank.close()


def run(name, *arguments, size, timeout=60, **options):
    """Run a job to its end; all ranks must end with status 0 and say nothing on standard error."""
    with job(name, *arguments, size=size, **options) as ranks:
        deadline = time.monotonic() + timeout * SLOWER
        for number, rank in enumerate(ranks):
            try:
                rank.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pytest.fail(f'rank {number} did not end: {state(ranks)}')
        assert all(r.child.returncode == 0 and not r.err for r in ranks), state(ranks)
        return ranks


def state(ranks):
    return '\n'.join(f'rank {i}: status {r.child.poll()}, {r.lines[-3:]}, {r.err[-2000:]}'
                     for i, r in enumerate(ranks))


def struck(function, count, number):
    """Variables of a rank that gets a signal before it calls a function of the C library for the
    count-th time; it says "struck PID" then. The functions are those of tests/programs/struck.c."""
    return {'LD_PRELOAD': built.PROGRAMS.build / 'tests/programs/libstruck.so',
            'TEST_STRUCK_AT': f'{function} {count} {int(number)}'}


@contextmanager
def two_hosts(tmp_path, apart=False):
    """Two network namespaces with a wire between them, wire0 at the first. Gives variables for
    job(), and enter(size), by which the upper half of the ranks is on the second host. apart: no
    rank sees the processes of others, as on hosts that are really two."""
    key = tmp_path / 'key'
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    root = os.geteuid() == 0
    holders = []

    def inside(pid):
        return ['nsenter', '-t', str(pid), '-n'] if root else \
            ['nsenter', '-t', str(pid), '-U', '-n', '--preserve-credentials']

    def enter(rank, size):
        # The shell is the first process there, whom its own signals do not stop.
        alone = ['unshare', '--pid', '--fork', '--kill-child', 'sh', '-c', '"$@"; exit $?', 'sh'] \
            if apart else []
        return inside(first if rank < (size + 1) // 2 else second) + alone

    def hold(prefix, flags):
        child = subprocess.Popen([*prefix, 'unshare', flags, 'sh', '-c', 'echo up; exec cat'],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holders.append(child)
        if child.stdout.readline() != 'up\n':
            pytest.skip(f'no network namespace: unshare {flags} is refused')
        return child.pid

    def ip(pid, command):
        subprocess.run([*inside(pid), 'ip', *command.split()], check=True)

    try:
        first = hold([], '-n' if root else '-Urn')
        second = hold([] if root else inside(first), '-n')
        ip(first, f'link add wire0 type veth peer name wire1 netns {second}')
        for pid, end in ((first, 0), (second, 1)):
            ip(pid, f'addr add 10.77.0.{end + 1}/24 dev wire{end}')
            ip(pid, f'link set wire{end} up')
            ip(pid, 'link set lo up')
        yield ({'MASTER_ADDR': '10.77.0.1', 'REIGEN_KEY_FILE': key},
               lambda size: lambda rank: enter(rank, size))
    finally:
        for child in holders:
            child.kill()
            child.communicate()
