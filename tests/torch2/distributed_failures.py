# SPDX-License-Identifier: Apache-2.0
"""What goes wrong over the backend "reigen" is told, on every rank, and what can go on goes on.

usage: distributed_failures.py MODE    MODE: mistakes, killed, late, abort, horovod; three ranks,
                                       and late: two
"""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist


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
    fails(lambda: dist.broadcast(torch.ones(3), me), 'root rank')
    fails(lambda: dist.all_gather_into_tensor(torch.ones((9000 + me) * size),
                                              torch.ones(9000 + me)), 'Mismatched ALLGATHER')
    work = dist.all_reduce(torch.ones(5 + me), async_op=True)
    future = work.get_future()
    fails(future.wait, 'Mismatched')
    fails(work.wait, 'Mismatched')
    assert not work.is_success() and work.exception() is not None
    fails(lambda: dist.all_reduce(torch.ones(2, device='meta')), 'cpu:reigen,cuda:nccl',
          kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), 'integers', kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2).to_sparse(), dist.ReduceOp.MAX), 'SUM or AVG',
          kind=ValueError)
    fails(lambda: dist.broadcast(torch.ones(2).to_sparse(), 0), 'dense', kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2 + me).to_sparse()), 'differ in shape',
          kind=ValueError)
    fails(lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e5m2)), 'reduce', kind=ValueError)
    fails(lambda: dist.send(torch.ones(1), me), kind=ValueError)
    if me == 1:
        dist.send(torch.ones(3), 0)
    elif me == 0:
        fails(lambda: dist.recv(torch.ones(2), 1), 'recv expects 8 bytes', 'has sent 12')
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


def killed(me):
    dist.all_reduce(torch.ones(10))
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    pair = dist.new_group([0, 2], use_local_synchronization=True)
    took = fails(lambda: [dist.all_reduce(torch.ones(100)) for _ in range(1000)], 'rank 1')
    assert took < 15, took
    # What does not need the dead rank may go on until its own group hears of it.
    took = fails(lambda: [(dist.all_reduce(torch.ones(100), group=pair), time.sleep(0.01))
                          for _ in range(2000)])
    assert took < 15, took
    print(f'rank {me} was told after {took:.1f} s', flush=True)
    os._exit(0)


def late(me):
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
    tensor = torch.ones(9)
    if me == 0:
        took = fails(lambda: dist.all_reduce(tensor, group=group), 'Timed out')
        assert 0.9 < took < 3, took
        work = dist.all_reduce(torch.ones(7), group=group, async_op=True)
        fails(lambda: work.wait(datetime.timedelta(seconds=0.2)), 'Timed out')
        fails(lambda: dist.recv(torch.ones(1), 1, group), 'Timed out')
    dist.barrier()
    if me == 1:
        dist.all_reduce(tensor, group=group)
        other = torch.ones(7)
        dist.all_reduce(other, group=group)
        assert (tensor == 2).all() and (other == 2).all()
    dist.barrier()
    if me == 0:
        fails(lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5)),
              'Rank 1 failed to pass monitoredBarrier in 500 ms')
    dist.barrier()


def abort(me):
    work = dist.all_reduce(torch.ones(9), async_op=True) if me else None
    if me == 0:
        time.sleep(0.5)
        dist.distributed_c10d._abort_process_group()
    else:
        fails(work.wait)
        dist.distributed_c10d._abort_process_group()
    dist.init_process_group('reigen', init_method=f'file://{sys.argv[2]}', rank=me,
                            world_size=int(os.environ['WORLD_SIZE']))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == dist.get_world_size()).all()


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
    {f.__name__: f for f in (mistakes, killed, late, abort, horovod)}[sys.argv[1]](me)
    dist.destroy_process_group()
    if sys.argv[1] == 'horovod':
        assert hvd.is_initialized()
    if me == 0:
        print('all told', flush=True)


if __name__ == '__main__':
    main()
