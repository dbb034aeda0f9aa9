# SPDX-License-Identifier: Apache-2.0
"""What goes wrong over the backend "reigen" is told, on every rank, and what can go on goes on.

usage: distributed_failures.py MODE FILE   three ranks; late, forks, sockets: two
FILE: a name for further stores
"""
import datetime
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader


def fails(call, *words, kind=RuntimeError):
    began = time.monotonic()
    try:
        call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, (missing, str(error))
        return time.monotonic() - began
    raise AssertionError(f'this was to fail with {words}')


def mistakes(me):
    size = dist.get_world_size()
    fails(lambda: dist.all_reduce(torch.ones(3 + me)), 'Mismatched ALLREDUCE tensor shapes')
    fails(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int32 if me else torch.float32)),
          'Mismatched data types')
    byte = torch.ones(1, dtype=torch.uint8)
    others = {'BARRIER': dist.barrier, 'REDUCE': lambda: dist.reduce(byte, 0),
              'ALLGATHER': lambda: dist.all_gather([byte.clone() for _ in range(size)], byte),
              'REDUCESCATTER': lambda: dist.reduce_scatter(byte.clone(), [byte] * size)}
    for name, call in others.items():
        fails(call if me else lambda: dist.all_reduce(byte), 'Mismatched operations',
              'rank 0: ALLREDUCE', f'rank 1: {name}' if size == 2 else f': {name}')
    fails(lambda: dist.broadcast(torch.ones(3), me), 'root rank')
    fails(lambda: dist.all_gather_into_tensor(torch.ones((9000 + me) * size),
                                              torch.ones(9000 + me)), 'Mismatched ALLGATHER')
    work = dist.all_reduce(torch.ones(5 + me), async_op=True)
    future = work.get_future()
    fails(future.wait, 'Mismatched')
    fails(work.wait, 'Mismatched')
    assert not work.is_success() and work.exception() is not None
    fails(lambda: dist.all_reduce(torch.ones(2, device='meta')), 'CUDA devices',
          kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), 'integers', kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2).to_sparse(), dist.ReduceOp.MAX), 'SUM or AVG',
          kind=ValueError)
    fails(lambda: dist.broadcast(torch.ones(2).to_sparse(), 0), 'dense', kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2 + me).to_sparse()), 'differ in shape',
          kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e5m2)), 'reduce', kind=ValueError)
    fails(lambda: dist.send(torch.ones(1), me), kind=ValueError)
    fails(lambda: dist.send(torch.ones(1), (me + 1) % size, tag=-1), 'negative', kind=ValueError)
    for op in (dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.BOR):
        fails(lambda op=op: dist.reduce(torch.ones(2, dtype=torch.complex64), 0, op), 'SUM, AVG',
              kind=ValueError)
    # Rank 2 gets from the others as much as it wants, but not from each of them.
    rows = [[1, 1, 1], [1, 1, 2], [2, 1, 1]]
    came = [[1, 1, 2], [1, 1, 1], [2, 1, 1]][me]

    def call():
        dist.all_to_all_single(torch.ones(sum(came)), torch.ones(sum(rows[me])), came, rows[me])
    fails(call, 'rank 0 of the group has sent 1 elements, and 2 were') if me == 2 else call()
    if me == 1:
        dist.send(torch.ones(3), 0)
    elif me == 0:
        fails(lambda: dist.recv(torch.ones(2), 1), 'recv expects 8 bytes', 'has sent 12')
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


def killed(me):
    pair = None
    if me != 1:
        pair = dist.new_group([0, 2], use_local_synchronization=True)
    dist.all_reduce(torch.ones(10))
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    # One that has never sent a message, and any.
    took = fails(lambda: dist.recv(torch.ones(1), 1 if me else None), 'rank 1')
    assert took < 15, took
    took = fails(lambda: [dist.all_reduce(torch.ones(100)) for _ in range(1000)], 'rank 1')
    assert took < 15, took
    # What does not need the dead rank may go on until its own group hears of it.
    took = fails(lambda: [(dist.all_reduce(torch.ones(100), group=pair),
                           time.sleep(0.01))  # patient: it computes
                          for _ in range(2000)])
    assert took < 15, took
    # Groups that are made now would be of no use.
    fails(lambda: dist.new_group([0, 2], use_local_synchronization=True), 'rank 1')
    print(f'rank {me} was told after {took:.1f} s', flush=True)
    os._exit(0)


def late(me):
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
    tensor = torch.ones(9)
    if me == 0:
        took = fails(lambda: dist.all_reduce(tensor, group=group), 'Timed out', 'rank(s) 1 of')
        assert 0.9 < took < 5, took
        work = dist.all_reduce(torch.ones(7), group=group, async_op=True)
        fails(lambda: work.wait(datetime.timedelta(seconds=0.2)), 'Timed out', 'timeout of 0.2 s')
        fails(lambda: dist.recv(torch.ones(1), 1, group), 'Timed out', 'from rank 1 of')
        # Nobody waits for a future's operation, and it ends in time all the same.
        future = dist.all_reduce(torch.ones(8), group=group, async_op=True).get_future()
        fails(future.wait, 'Timed out', 'rank(s) 1 of')
    dist.barrier()
    if me == 1:
        for count in (9, 7, 8):
            other = torch.ones(count)
            dist.all_reduce(other, group=group)
            assert (other == 2).all()
    dist.barrier()
    for _ in range(150):  # so that the names of those that were late are used again
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert (tensor == 2).all()
    if me == 0 and not torch.__version__.startswith('2.13'):  # which has it for gloo alone
        fails(lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5)),
              'Rank 1 failed to pass monitoredBarrier in 500 ms')
    dist.barrier()
    if me == 0:
        took = fails(lambda: dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1)),
                     'rank(s) 1 of the group did not come to make a process group of 2 ranks')
        assert took < 5, took
    dist.barrier()


def abort(me):
    work = dist.all_reduce(torch.ones(9), async_op=True) if me else None
    if me == 0:
        time.sleep(0.5)  # patient: the others wait
        dist.distributed_c10d._abort_process_group()
    else:
        fails(work.wait)
        dist.distributed_c10d._abort_process_group()
    dist.init_process_group('reigen', init_method=f'file://{sys.argv[2]}', rank=me,
                            world_size=int(os.environ['WORLD_SIZE']))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == dist.get_world_size()).all()


def again(me):
    """Messages in groups that come and go under the same name, and whose ends are not at once."""
    size = dist.get_world_size()
    for turn in range(8):
        tensor = torch.zeros(1000)
        work = dist.isend(torch.full((1000,), float(me + turn)), (me + 1) % size)
        dist.recv(tensor, (me - 1) % size)
        assert work.wait() and (tensor == (me - 1) % size + turn).all()
        time.sleep(0.03 * me)  # patient: ranks come one after the other
        dist.destroy_process_group()
        dist.init_process_group('reigen', init_method=f'file://{sys.argv[2]}.{turn}', rank=me,
                                world_size=size, timeout=datetime.timedelta(seconds=60))
    dist.barrier()
    threads = [t.name for t in threading.enumerate() if t.name == 'reigen-p2p']
    assert len(threads) <= 2, threads


def echo(me, value):
    tensor = torch.full((1,), value) if me == 0 else torch.zeros(1)
    if me == 0:
        dist.send(tensor, 1)
        tensor.zero_()
        dist.recv(tensor, 1)
    else:
        dist.recv(tensor, 0)
        dist.send(tensor, 0)
    assert tensor.item() == value


def forks(me):
    """Children of a fork, as a DataLoader's, take nothing from their parent."""
    for method in ('before the first message', 'after it'):
        child = os.fork()
        if child == 0:
            fails(lambda: dist.all_reduce(torch.ones(1)), kind=Exception)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, method
        echo(me, 3.0)
    loader = DataLoader(list(range(12)), num_workers=2, multiprocessing_context='fork')
    for batch in loader:
        echo(me, float(batch))
    dist.barrier()


CROWD = r'''
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (500, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
crowd = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(400)]
os.write(1, b'ready')
sys.stdin.read()
'''


def sockets(me):
    """Messages over TCP, to a port where strangers call too."""
    from reigen.distributed import _p2p
    with socket.socket() as caller:  # while all share a host, nobody listens to others
        assert caller.connect_ex(('127.0.0.1', _p2p.listen()['port'])) == errno.ECONNREFUSED
    dist.destroy_process_group()
    _p2p._here = lambda: str(os.getpid())
    _p2p._host_addresses = lambda: ['127.0.0.1']
    dist.init_process_group('reigen', init_method=f'file://{sys.argv[2]}', rank=me, world_size=2)
    port = _p2p.listen()['port']
    tensor = torch.zeros(4)
    work = dist.irecv(tensor, 1 - me, tag=5)
    name = b'c10d.0'
    message = _p2p._HEADER.pack(len(name), 1 - me, 5, 16) + name + b'x' * 16
    for proof in (b'', b'garbage', bytes(64), bytes(64) + message):
        with socket.create_connection(('127.0.0.1', port)) as stranger:
            stranger.settimeout(20)
            assert len(stranger.recv(32)) == 32
            stranger.sendall(proof)
            try:  # it may have been hung up on before
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(33).strip(b'\0') == b''
            except OSError as error:
                assert error.errno in (errno.ENOTCONN, errno.ECONNRESET), error
    # A crowd at the other's port leaves it descriptors for its work.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, limits[1]))
    crowd = subprocess.Popen([sys.executable, '-c', CROWD, str(port)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    assert crowd.stdout.read(5) == b'ready'
    assert not work.is_completed() and (tensor == 0).all()
    dist.barrier()
    dist.send(torch.full((4,), 2.0), 1 - me, tag=5)
    assert work.wait() and (tensor == 2).all()
    big = torch.zeros(700000)
    works = [dist.isend(torch.full((700000,), float(me)), 1 - me), dist.irecv(big, 1 - me)]
    assert all(work.wait() for work in works) and (big == 1 - me).all()
    dist.barrier()
    crowd.kill()
    crowd.wait()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def horovod(me):
    import horovod.torch as hvd
    assert hvd.is_initialized() and hvd.size() == dist.get_world_size()
    assert (hvd.allreduce(torch.ones(3), op=hvd.Sum) == hvd.size()).all()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == hvd.size()).all()


def main():
    if sys.argv[1] == 'horovod':
        import horovod.torch as hvd
        hvd.init()
    dist.init_process_group('reigen', timeout=datetime.timedelta(seconds=60))
    me = dist.get_rank()
    {f.__name__: f for f in (mistakes, killed, late, abort, again, forks, sockets, horovod)}[
        sys.argv[1]](me)
    dist.destroy_process_group()
    if sys.argv[1] == 'horovod':
        assert hvd.is_initialized()
    if me == 0:
        print('all told', flush=True)


if __name__ == '__main__':
    main()
