# SPDX-License-Identifier: Apache-2.0
"""Processes of Python in which large modules are imported already. Importing PyTorch takes more of
a processor than what most programs of tests do, so each worker of pytest pays for it once: a server
imports, and each process is a fork of it. From there it is as if it had been started by itself: it
has its own arguments, variables, folder, standard output, and a whole process's end. What differs:
its parent is the server, and Python's hashes are the same in all of them.

A launcher starts its ranks by itself: command() is what makes each of them such a fork as well.

usage: preloaded.py FD LISTENER MODULE...    the server: it ends, with all its processes, as FD is
                                             closed; who follows a process calls at LISTENER
"""
import atexit
import gc
import itertools
import json
import os
import selectors
import signal
import socket
import struct
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
AT_START = ('LD_', 'PYTHON', 'OMP_', 'MALLOC_', 'GLIBC_', 'ASAN_', 'TSAN_', 'REIGEN_ELASTIC')
SERVERS = {}
FOLLOWER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'forked.py')
_numbers = itertools.count()


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
        self.name = f'reigen-preloaded-{os.getpid()}-{next(_numbers)}'
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind('\0' + self.name)
            listener.listen(64)
            fds = [theirs.fileno(), listener.fileno()]
            self.child = subprocess.Popen(
                [python, __file__, *map(str, fds), *modules], env=env, stderr=self.errors,
                pass_fds=fds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
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
    return server(python, modules, env).start(argv, env, cwd, output)


def command(python, modules, env):
    """What stands in the place of `python` before a program and its arguments, where somebody else
    starts the process: with variables that agree with `env` in what is read at the start."""
    return [sys.executable, '-S', FOLLOWER, server(python, modules, env).name]


def server(python, modules, env):
    """The one that has imported these modules, with such variables."""
    early = {name: value for name, value in env.items()
             if name.startswith(AT_START) and name != 'PYTHONUNBUFFERED'}
    key = json.dumps([str(python), modules, sorted(early.items())])
    if key not in SERVERS:
        SERVERS[key] = Server(python, modules, {**env, 'PYTHONUNBUFFERED': '1'})
    return SERVERS[key]


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

class Serving:
    """A socket has who asks for processes: the test, or one who follows a single one and has it
    killed by its own end."""

    def __init__(self, ours, listener):
        self.ours, self.listener = ours, listener
        self.children = {}  # by descriptor: the process, and who has asked for it
        self.found = selectors.DefaultSelector()
        for where in (ours, listener):
            self.found.register(where, selectors.EVENT_READ)

    def run(self):
        """In a process that is to run something: what that is. None: the test has ended."""
        while True:
            for key, _ in self.found.select():
                if key.fileobj is self.listener:
                    self.admit(self.listener.accept()[0])
                elif isinstance(key.fileobj, int):
                    self.reap(key.fd)
                elif key.fileobj.fileno() >= 0:  # not closed by a look before
                    data, fds, _, _ = socket.recv_fds(key.fileobj, MESSAGE_MAX, 3)
                    if not data:
                        self.kill(key.fileobj)
                        if key.fileobj is self.ours:
                            return None
                    elif (job := self.hear(key.fileobj, json.loads(data), fds)):
                        return job

    def admit(self, whom):
        """Any user of this computer can call at an abstract name; only ours is served."""
        _, uid, _ = struct.unpack('3i', whom.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid == os.getuid():
            self.found.register(whom, selectors.EVENT_READ)
        else:
            whom.close()

    def tell(self, whom, what):
        try:
            whom.send(json.dumps(what).encode())
        except OSError:
            if whom is self.ours:
                raise

    def drop(self, whom):
        if whom is not self.ours and whom.fileno() >= 0:
            self.found.unregister(whom)
            whom.close()

    def reap(self, fd):
        pid, whom = self.children.pop(fd)
        status = os.waitpid(pid, 0)[1]
        self.found.unregister(fd)
        os.close(fd)
        if whom.fileno() >= 0:
            self.tell(whom, [pid, status])
            self.drop(whom)

    def kill(self, whom):
        """It has ended, with what it has asked for; the test with all."""
        for fd, (_, other) in self.children.items():
            if whom in (other, self.ours):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        self.drop(whom)

    def hear(self, whom, job, fds):
        if 'signal' in job:
            for fd in [fd for fd, (pid, _) in self.children.items() if pid == job['pid']]:
                signal.pidfd_send_signal(fd, job['signal'])
            return None
        pid = os.fork()
        if pid == 0:
            for i, here in enumerate((0, 1, 2) if len(fds) == 3 else (1, 2)):
                os.dup2(fds[i % len(fds)], here)
            for fd in (*self.children, *fds):
                os.close(fd)
            for key in self.found.get_map().values():
                if key.fd not in self.children:
                    key.fileobj.close()
            self.found.close()
            return job
        for fd in fds:
            os.close(fd)
        fd = os.pidfd_open(pid)
        self.children[fd] = pid, whom
        self.found.register(fd, selectors.EVENT_READ)
        self.tell(whom, [pid, None])
        return None


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
    serving = Serving(*(socket.socket(fileno=int(fd)) for fd in sys.argv[1:3]))
    for name in sys.argv[3:]:
        __import__(name)
    gc.freeze()
    job = serving.run()
    if job:
        become(**job)
