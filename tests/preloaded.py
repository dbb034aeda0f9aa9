# SPDX-License-Identifier: Apache-2.0
"""Processes of Python in which large modules are imported already. Importing PyTorch takes more of
a processor than what most programs of tests do, so each worker of pytest pays for it once: a server
imports, and each process is a fork of it. From there it is as if it had been started by itself: it
has its own arguments, variables, folder, standard output, and a whole process's end. What differs:
its parent is the server, and Python's hashes are the same in all of them.

usage: preloaded.py FD MODULE...    the server: it ends, with all its processes, as FD is closed
"""
import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

from wait import until

MESSAGE_MAX = 1 << 20
#: No thread keeps the others from a server for longer.
LONGEST_S = 1
#: What the dynamic loader, Python or a library reads before a fork: who wants others of these gets
#: another server.
AT_START = ('LD_', 'PYTHON', 'OMP_', 'MALLOC_', 'GLIBC_', 'ASAN_', 'TSAN_')
SERVERS = {}


# ---------------------------------------------------------------------------- for tests

class Process:
    """As subprocess.Popen, in what tests need."""

    def __init__(self, server, pid):
        self.server, self.pid, self.returncode = server, pid, None

    def poll(self):
        while self.server.hear(0):
            pass
        return self.returncode

    def wait(self, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(f'process {self.pid}', timeout)
            self.server.hear(LONGEST_S if left is None else min(left, LONGEST_S))
        return self.returncode

    def send_signal(self, number):
        """By the server, for which its number is no other process's."""
        if self.poll() is None:
            self.server.say({'pid': self.pid, 'signal': number})

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Server:
    """One that imports. Several threads may ask it, and its processes."""

    def __init__(self, python, modules, env):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.errors = tempfile.TemporaryFile()
        self.processes, self.answers, self.lock = {}, [], threading.RLock()
        with theirs:
            self.child = subprocess.Popen(
                [python, __file__, str(theirs.fileno()), *modules], env=env, stderr=self.errors,
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                start_new_session=True)
        atexit.register(self.close)

    def say(self, what, *fds):
        socket.send_fds(self.socket, [json.dumps(what).encode()], fds)

    def start(self, argv, env, cwd, output):
        with self.lock:
            self.say({'argv': [str(word) for word in argv], 'env': env, 'cwd': str(cwd)},
                     output.fileno())
            until(lambda: self.hear(LONGEST_S) and self.answers,
                  'a process that has imported its modules', 60, lambda: text(self.errors))
            process = Process(self, self.answers.pop())
            self.processes[process.pid] = process
            return process

    def hear(self, timeout):
        """Take what the server says, as soon as it says something, within so many seconds; whether
        it did."""
        with self.lock:
            self.socket.settimeout(timeout)
            try:
                data = self.socket.recv(MESSAGE_MAX)
            except (BlockingIOError, TimeoutError):
                return False
            if not data:
                raise RuntimeError(f'the server of processes ended: {text(self.errors)}')
            pid, status = json.loads(data)
            if status is None:
                self.answers.append(pid)
            else:
                self.processes.pop(pid).returncode = os.waitstatus_to_exitcode(status)
            return True

    def close(self):
        self.socket.close()
        self.child.wait()


def start(python, modules, argv, env, cwd, output):
    """A process that runs the program argv[0] with standard output and error to a file."""
    early = {name: value for name, value in env.items()
             if name.startswith(AT_START) and name != 'PYTHONUNBUFFERED'}
    key = json.dumps([str(python), modules, sorted(early.items())])
    if key not in SERVERS:
        SERVERS[key] = Server(python, modules, {**env, 'PYTHONUNBUFFERED': '1'})
    return SERVERS[key].start(argv, env, cwd, output)


def text(file):
    """What is in a file, to whose end others still write with the same descriptor."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors='replace')


def ranks(python, modules, count, argv, env, cwd, seconds=60):
    """The exit statuses of so many ranks of a program, which find torchrun's variables, and what
    they wrote together. None of them is ended because another one has failed."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    env = {**env, 'WORLD_SIZE': str(count), 'LOCAL_WORLD_SIZE': str(count),
           'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port)}
    with tempfile.TemporaryFile() as output:
        started = [start(python, modules, argv, {**env, 'RANK': str(i), 'LOCAL_RANK': str(i)}, cwd,
                         output) for i in range(count)]
        try:
            until(lambda: all(rank.poll() is not None for rank in started), 'the end of all ranks',
                  seconds, lambda: text(output))
        finally:
            for rank in started:
                rank.kill()
        return [rank.wait() for rank in started], text(output)


# ---------------------------------------------------------------------------- the server

def serve(ours):
    """In a process that is to run something: what that is."""
    found = selectors.DefaultSelector()
    found.register(ours, selectors.EVENT_READ)
    children = {}
    while True:
        for key, _ in found.select():
            if key.fileobj is not ours:
                pid, status = os.waitpid(children.pop(key.fd), 0)
                found.unregister(key.fd)
                os.close(key.fd)
                ours.send(json.dumps([pid, status]).encode())
                continue
            data, fds, _, _ = socket.recv_fds(ours, MESSAGE_MAX, 1)
            if not data:
                for fd in children:
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                return None
            job = json.loads(data)
            if 'signal' in job:
                for fd in [fd for fd, pid in children.items() if pid == job['pid']]:
                    signal.pidfd_send_signal(fd, job['signal'])
                continue
            pid = os.fork()
            if pid == 0:
                os.dup2(fds[0], 1)
                os.dup2(fds[0], 2)
                found.close()
                ours.close()
                for fd in (*children, *fds):
                    os.close(fd)
                return job
            os.close(fds[0])
            fd = os.pidfd_open(pid)
            children[fd] = pid
            found.register(fd, selectors.EVENT_READ)
            ours.send(json.dumps([pid, None]).encode())


def become(argv, env, cwd):
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv, sys.path[0] = argv, os.path.dirname(os.path.abspath(argv[0]))
    main = types.ModuleType('__main__')
    main.__file__ = argv[0]
    sys.modules['__main__'] = main
    with open(argv[0], encoding='utf-8') as program:
        code = compile(program.read(), argv[0], 'exec')
    exec(code, main.__dict__)


if __name__ == '__main__':
    for name in sys.argv[2:]:
        __import__(name)
    gc.freeze()
    job = serve(socket.socket(fileno=int(sys.argv[1])))
    if job:
        become(**job)
