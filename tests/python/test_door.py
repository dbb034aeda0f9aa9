# SPDX-License-Identifier: Apache-2.0
"""Strangers at the listening sockets that are written in Python (reigen/_door.py): they keep no
rank out, take no descriptors and no threads, and end nothing."""
import contextlib
import errno
import os
import queue
import resource
import secrets
import socket
import subprocess
import sys
import threading
import time

import pytest

import jobs

sys.path.insert(0, str(jobs.ROOT / 'bindings/python'))
os.environ.setdefault('REIGEN_LIBRARY', jobs.library() or '')

from reigen import _door  # noqa: E402

WORD = b'word'
LIMIT_S = 60


def greet():
    def check(said):
        if len(said) < len(WORD):
            return None
        if said != WORD:
            raise _door.Refused(b'no!!')
        return b'yes!', said

    return b'hello', check


@pytest.fixture
def admitted():
    return queue.SimpleQueue()


@pytest.fixture(params=['unix', 'tcp'])
def call(request, admitted):
    """call() -> a connected socket."""
    if request.param == 'unix':
        server, name = socket.socket(socket.AF_UNIX), f'\0reigen-test-{secrets.token_hex(8)}'
        server.bind(name)
        server.listen(1024)
    else:
        server = socket.create_server(('127.0.0.1', 0), backlog=1024)
        name = server.getsockname()
    family = server.family
    door = _door.Door([server], greet, len(WORD), lambda conn, said: admitted.put((conn, said)),
                      'test-door')
    opened = []

    def call():
        conn = socket.socket(family)
        conn.settimeout(LIMIT_S)
        conn.connect(name)
        opened.append(conn)
        return conn

    call.door, call.name = door, name
    yield call
    door.close()
    for conn in opened:
        conn.close()


def hear(conn, nbytes):
    """So many bytes, or those up to the end."""
    heard = b''
    with contextlib.suppress(ConnectionResetError):
        while len(heard) < nbytes and (some := conn.recv(nbytes - len(heard))):
            heard += some
    return heard


def joins(conn, admitted):
    assert hear(conn, 5) == b'hello'
    conn.sendall(WORD)
    assert hear(conn, 4) == b'yes!'
    inside, said = admitted.get(timeout=LIMIT_S)
    assert said == WORD
    inside.sendall(b'x')
    assert conn.recv(1) == b'x'
    inside.close()


@contextlib.contextmanager
def descriptors(count):
    """So many more at most than there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir('/proc/self/fd'))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


CROWD = r'''
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the test has lowered its own
family, name = (socket.AF_UNIX, '\0' + sys.argv[1]) if len(sys.argv) == 2 else (
    socket.AF_INET, (sys.argv[1], int(sys.argv[2])))
crowd = [socket.socket(family) for _ in range(400)]
for one in crowd:
    one.connect(name)  # waits where the queue is full
print('ready', flush=True)
sys.stdin.read()
'''


def crowd(name, *before):
    words = [name[1:]] if isinstance(name, str) else map(str, name)
    return subprocess.Popen([*before, sys.executable, '-c', CROWD, *words], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_crowd_that_says_nothing_takes_no_descriptors_and_keeps_nobody_out(call, admitted):
    with descriptors(_door.PENDING_MAX + 40), crowd(call.name) as strangers:
        try:
            assert strangers.stdout.readline() == 'ready\n'
            joins(call(), admitted)
        finally:
            strangers.kill()


def test_who_says_a_byte_now_and_then_has_one_deadline(call, admitted, monkeypatch):
    monkeypatch.setattr(_door, 'HANDSHAKE_S', 0.5)
    conn = call()
    assert hear(conn, 5) == b'hello'
    over = time.monotonic() + LIMIT_S
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        conn.sendall(WORD[:1])
        while time.monotonic() < over:  # as long as a call for something else keeps him here
            conn.settimeout(0.1)
            try:
                if not conn.recv(1):
                    break
            except TimeoutError:
                joins(call(), admitted)
    assert time.monotonic() < over


def test_wrong_words_get_an_answer_and_no_admission(call, admitted):
    conn = call()
    conn.sendall(b'sword'[:4])
    assert hear(conn, 10) == b'hellono!!'
    joins(call(), admitted)
    assert admitted.empty()


def test_there_is_no_thread_for_strangers_and_one_that_cannot_be_had_is_waited_for(
        call, admitted, monkeypatch):
    before = threading.active_count()
    strangers = [call() for _ in range(20)]
    for one in strangers:
        assert hear(one, 5) == b'hello'
    assert threading.active_count() == before
    start, refusals = threading.Thread.start, iter(range(3))

    def start_later(thread):
        if next(refusals, None) is not None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, 'start', start_later)
    joins(call(), admitted)
    assert next(refusals, None) is None


def test_no_free_descriptor_and_no_memory_are_waited_for(call, admitted, monkeypatch):
    mishaps = iter([OSError(errno.EMFILE, 'full'), MemoryError()])
    accept = socket.socket.accept

    def accept_later(server):
        for mishap in mishaps:
            raise mishap
        return accept(server)

    monkeypatch.setattr(socket.socket, 'accept', accept_later)
    joins(call(), admitted)
    assert next(mishaps, None) is None


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another user')
@pytest.mark.parametrize('call', ['unix'], indirect=True)
def test_another_user_hears_nothing_at_a_unix_socket(call, admitted):
    listen = (f'import socket; s = socket.socket(socket.AF_UNIX); s.connect({call.name!r}); '
              'print(s.recv(100))')
    done = subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', sys.executable, '-c',
                           listen], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout == "b''\n" or 'ConnectionResetError' in done.stderr, done
    joins(call(), admitted)


def test_after_the_close_nobody_listens_and_no_thread_is_left(call, admitted):
    waiting = call()
    assert hear(waiting, 5) == b'hello'
    threads = [each for each in threading.enumerate() if each.name == 'test-door']
    call.door.close()
    with pytest.raises(ConnectionRefusedError):
        call()
    assert hear(waiting, 1) == b''
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


DATA_SERVICE = """
import importlib.util, socket, sys, threading
spec = importlib.util.spec_from_file_location('registry', sys.argv[1])
registry = importlib.util.module_from_spec(spec)
spec.loader.exec_module(registry)
service = registry.ComputeService(1, 1, b'key')
address = service.addresses()['lo'][0]
strangers = [socket.create_connection(address) for _ in range(30)]
for stranger in strangers:
    assert stranger.recv(1)
    stranger.sendall(b'a')
assert threading.active_count() == 2, threading.enumerate()
client = registry.ComputeClient({'lo': [address]}, b'key')
client.register_dispatcher(0, 'there')
assert client.wait_for_dispatcher_registration(0, 60) == 'there'
try:
    registry.ComputeClient({'lo': [address]}, b'wrong').register_dispatcher(0, 'elsewhere')
except ConnectionError:
    service.shutdown()
    print('good')
"""


def test_the_data_service_has_no_thread_for_strangers():
    """Its module is loaded by its file, as its package needs TensorFlow."""
    path = jobs.ROOT / 'bindings/python/horovod/tensorflow/data/_registry.py'
    done = subprocess.run([sys.executable, '-c', DATA_SERVICE, path], capture_output=True,
                          text=True, timeout=LIMIT_S, check=False,
                          env={**os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python')})
    assert done.stdout == 'good\n', done.stderr
