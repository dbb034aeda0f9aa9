# SPDX-License-Identifier: Apache-2.0
"""Ranks under launchers of others: Horovod's rendezvous, and launchers whose ranks cannot reach
each other. Real MPIs are in tests/hosts/test_boot.py."""
import errno
import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from built import environment
from ranks import Rank, SLOWER, program, state, two_hosts

LAUNCHERS = ('OMPI_', 'PMI_', 'PMIX_', 'MV2_', 'SLURM_')


def plain_environment(**more):
    return {k: v for k, v in environment(REIGEN_START_TIMEOUT=30 * SLOWER, **more).items()
            if k in more or not k.startswith(LAUNCHERS)}


@pytest.fixture
def ranks():
    started = []
    yield started
    for rank in started:
        rank.close()


def start(ranks, *arguments, enter=(), **variables):
    ranks.append(Rank([*enter, *program('again'), *(arguments or (1,))],
                      plain_environment(**variables)))
    return ranks[-1]


def failed(rank, *errors, timeout=20):
    assert rank.wait(timeout * SLOWER) == 3, state([rank])
    _, code, text = rank.lines[-1].split(' ', 2)
    assert -int(code) in errors, rank.lines
    return text


# ---- one of many that is alone

@pytest.mark.parametrize('variables', [
    {'OMPI_COMM_WORLD_SIZE': 4, 'OMPI_COMM_WORLD_RANK': 1}, {'PMI_SIZE': 4, 'PMI_RANK': 1},
    {'MV2_COMM_WORLD_SIZE': 4, 'MV2_COMM_WORLD_RANK': 1},
    {'SLURM_STEP_NUM_TASKS': 4, 'SLURM_STEP_ID': 0}])
def test_one_of_many_does_not_run_alone_unless_it_is_told_to(ranks, variables):
    text = failed(start(ranks, **variables), errno.EPROTO)
    assert 'started 4 ranks' in text and f'{list(variables)[0]}=4' in text, text
    alone = start(ranks, REIGEN_BOOT='single', **variables)
    assert alone.wait(20 * SLOWER) == 0 and alone.lines == ['rank 0 of 1'], state(ranks)


@pytest.mark.parametrize('boot,variables,text', [
    ('smoke', {}, 'REIGEN_BOOT=smoke: give agent, rendezvous, mpi, pmix, pmi, env or single'),
    ('pmi', {}, 'PMI_FD, PMI_RANK and PMI_SIZE are not set'),
    ('env', {}, 'RANK and WORLD_SIZE are not set'),
    ('mpi', {}, 'no MPI'),
    ('pmi', {'PMI_FD': 199, 'PMI_RANK': 0, 'PMI_SIZE': 2}, 'PMI_FD=199 is no open socket'),
    ('pmi', {'PMI_FD': 'x', 'PMI_RANK': 0, 'PMI_SIZE': 2}, 'PMI_FD'),
    (None, {'PMI_FD': 3, 'PMI_RANK': 2, 'PMI_SIZE': 2}, 'PMI_RANK=2'),
    (None, {'PMIX_NAMESPACE': 'gone@1', 'PMIX_RANK': 'x'}, 'PMIX_RANK'),
])
def test_what_cannot_be_is_named(ranks, boot, variables, text):
    rank = start(ranks, **({'REIGEN_BOOT': boot} if boot else {}), **variables)
    assert text in failed(rank, errno.EINVAL, errno.EBADF, errno.ENOENT, errno.ERANGE)


def test_ranks_of_ours_forget_the_launcher_around_us(reigen):
    """reigen run as one of mpirun's ranks: its own ranks are not that one."""
    env = environment(PMI_FD=199, PMI_RANK=2, PMI_SIZE=7, OMPI_COMM_WORLD_SIZE=7,
                      OMPI_COMM_WORLD_RANK=2, HOROVOD_GLOO_RENDEZVOUS_ADDR='127.0.0.1',
                      HOROVOD_GLOO_RENDEZVOUS_PORT=9)
    done = reigen('run', '-np', '2', '--', *program('again'), '1', env=env,
                  timeout=60 * SLOWER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line.split('] ')[-1] for line in done.stdout.splitlines()) == [
        'rank 0 of 2', 'rank 1 of 2'], done.stdout


# ---- the rendezvous of Horovod's launcher

class Store(BaseHTTPRequestHandler):
    """A key-value store as Horovod's launcher serves it: PUT and GET /scope/key over HTTP/1.0."""

    def do_GET(self):  # pylint: disable=invalid-name
        self.server.nanswered += 1
        if self.server.nanswered > self.server.quick:
            self.server.released.wait(60)
        value = self.server.values.get(self.path)
        self.send_response(404 if value is None else 200)
        self.send_header('Content-Length', str(len(value or b'')))
        self.end_headers()
        self.wfile.write(value or b'')

    def do_PUT(self):  # pylint: disable=invalid-name
        self.server.values[self.path] = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextmanager
def store(address='127.0.0.1', quick=10**9):
    """quick: so many answers come at once, the others late."""
    server = ThreadingHTTPServer((address, 0), Store)
    server.values = {}
    server.nanswered, server.quick, server.released = 0, quick, threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def worker(server, rank, size, **more):
    """What Horovod's launcher sets."""
    address, port = server.server_address[:2]
    return {'HOROVOD_GLOO_RENDEZVOUS_ADDR': address, 'HOROVOD_GLOO_RENDEZVOUS_PORT': port,
            'HOROVOD_RANK': rank, 'HOROVOD_SIZE': size, 'HOROVOD_LOCAL_RANK': rank,
            'HOROVOD_LOCAL_SIZE': size, 'HOROVOD_CROSS_RANK': 0, 'HOROVOD_CROSS_SIZE': 1,
            'HOROVOD_CONTROLLER': 'gloo', 'HOROVOD_CPU_OPERATIONS': 'gloo', **more}


@pytest.mark.sanitize
def test_ranks_of_horovods_launcher_meet_again_and_again(ranks):
    with store() as server:
        for rank in range(3):
            start(ranks, 3, **worker(server, rank, 3))
        for rank, process in enumerate(ranks):
            assert process.wait(60 * SLOWER) == 0, state(ranks)
            assert process.lines == [f'rank {rank} of 3'] * 3
        # Nothing but a place: no key, which anyone could read there.
        assert [len(v.split()) for v in server.values.values()] == [4] * 3, server.values


def test_horovods_launcher_over_several_hosts_wants_a_key(ranks):
    with store() as server:
        text = failed(start(ranks, **worker(server, 0, 4, HOROVOD_LOCAL_SIZE=2)), errno.EPERM)
        assert 'REIGEN_KEY_FILE' in text, text


def test_ranks_of_two_hosts_meet_by_horovods_rendezvous(ranks, tmp_path):
    """The store is on the first host, as its launcher is."""
    with two_hosts(tmp_path) as (variables, enter):
        inside = enter(4)
        code = ('import sys; sys.path.insert(0, sys.argv[1]); import test_boot_launchers as t\n'
                'with t.store("10.77.0.1") as s: print(s.server_address[1], flush=True); input()')
        served = Rank([*inside(0), sys.executable, '-c', code, Path(__file__).parent],
                      plain_environment())
        ranks.append(served)
        port = served.wait_line('')
        for rank in range(4):
            more = {'HOROVOD_GLOO_RENDEZVOUS_ADDR': '10.77.0.1', 'HOROVOD_RANK': rank,
                    'HOROVOD_GLOO_RENDEZVOUS_PORT': port, 'HOROVOD_SIZE': 4,
                    'HOROVOD_LOCAL_RANK': rank % 2, 'HOROVOD_LOCAL_SIZE': 2,
                    'REIGEN_KEY_FILE': variables['REIGEN_KEY_FILE']}
            start(ranks, 2, enter=inside(rank), **more)
        for rank in ranks[1:]:
            assert rank.wait(60 * SLOWER) == 0, state(ranks)


@pytest.mark.parametrize('quick', [10**9, 2], ids=['quick', 'slow'])
def test_without_rank_0_the_others_of_horovods_launcher_say_so(ranks, quick):
    """Also where the rendezvous has answered before, and is too slow in the end."""
    with store(quick=quick) as server:
        text = failed(start(ranks, 1, 3000, **worker(server, 1, 2)), errno.ETIMEDOUT)
        assert 'rank 0 did not come' in text, text


@pytest.mark.parametrize('value,text', [(b'reigen9 x', 'did not write'), (None, 'Connection')])
def test_a_rendezvous_that_is_none_is_named(ranks, value, text):
    with store() as server:
        server.values['/reigen/place.0'] = value
        variables = worker(server, 1, 2)
        if value is None:
            with socket.socket() as unused:
                unused.bind(('127.0.0.1', 0))
                variables['HOROVOD_GLOO_RENDEZVOUS_PORT'] = unused.getsockname()[1]
        found = failed(start(ranks, 1, 1000, **variables), errno.EBADMSG, errno.ECONNREFUSED)
        assert text in found and 'rendezvous' in found, found


def test_an_elastic_job_of_horovods_launcher_is_refused(ranks):
    with store() as server:
        text = failed(start(ranks, **worker(server, 0, 2, HOROVOD_ELASTIC=1)), errno.ENOTSUP)
        assert 'HOROVOD_ELASTIC' in text
