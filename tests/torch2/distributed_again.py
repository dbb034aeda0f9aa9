# SPDX-License-Identifier: Apache-2.0
"""Process groups that are made again in the same processes after a loss, with no launcher of ours.

usage: distributed_again.py losses FOLDER BACKEND   starts its ranks itself
       distributed_again.py ended FOLDER            two ranks
"""
import datetime
import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401  DDP wants these two, in each child of a fork anew
import torch.distributed as dist
import torch.distributed.tensor  # noqa: F401
import torch.multiprocessing as mp
from reigen._observe import diagnose
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from wait import until  # noqa: E402

LIMIT = datetime.timedelta(seconds=100)
#: Elements of a large tensor: 4 MiB.
LARGE = 1 << 20
abort = dist.distributed_c10d._abort_process_group


def begin(folder, turn, rank, size, backend='reigen'):
    dist.init_process_group(backend, init_method=f'file://{folder}/{turn}', rank=rank,
                            world_size=size, timeout=LIMIT)


def fails(call):
    """The text of what it raises, which is not that its time is over. Where another thread has
    destroyed the group by then, PyTorch's own log of that error can fail of it."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        ours = error.__context__ if isinstance(error, ValueError) else error
        assert isinstance(ours, RuntimeError) and 'Timed out' not in str(ours), error
        return str(ours)
    raise AssertionError('this was to fail')


def for_ever(call):
    while True:
        call()


# ---------------------------------------------------------------------------- losses
# Of three ranks one dies each time, when the others have called there(). Each function gets what
# rank it is, and goes on until it fails.

def reductions(me, large, there):
    there()
    fails(lambda: for_ever(lambda: dist.all_reduce(large)))


def unseen(me, large, there):
    """Nobody waits for these."""
    works = [dist.all_reduce(torch.ones(LARGE), async_op=True) for _ in range(4)]
    there()
    until(lambda: diagnose(0)['failure'], 'the loss')
    works.clear()


def futures(me, large, there):
    future = dist.all_reduce(large, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    several = torch.distributed.group.WORLD.allreduce_coalesced([large, torch.ones(3)])
    many = several.get_future()
    there()
    fails(future.wait)
    fails(many.wait)


def subgroups(me, large, there):
    """Rank 1 makes one to which rank 0 does not come, and hears of the loss before its time-out."""
    if me == 1:
        there()
        assert 'rank 2' in fails(lambda: dist.new_group([0, 1], use_local_synchronization=True))
        return
    pair = dist.new_group([0, 2], use_local_synchronization=True)
    there()
    fails(lambda: for_ever(lambda: dist.all_reduce(large, group=pair)))


def messages(me, large, there):
    there()
    fails(lambda: dist.recv(large, 2))


def ddp(me, large, there):
    """Its reducer waits in C++, and stays alive."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(100, 1000), nn.Linear(1000, 1000)))
    there()
    fails(lambda: for_ever(lambda: model(torch.ones(4, 100)).sum().backward()))


KINDS = (reductions, unseen, futures, subgroups, messages, ddp)
TURNS = 2 * len(KINDS)


def die(kind, folder, turn):
    """The rank that is lost takes part until all are at it."""
    if kind is subgroups:
        dist.new_group([0, 2], use_local_synchronization=True)
    elif kind is ddp:
        model = DistributedDataParallel(nn.Sequential(nn.Linear(100, 1000), nn.Linear(1000, 1000)))
        for _ in range(3):
            model(torch.ones(4, 100)).sum().backward()
    until(lambda: all(Path(folder, f'{turn}.{rank}').exists() for rank in (0, 1)), 'the others')
    os.kill(os.getpid(), signal.SIGKILL)


def used():
    """What a process holds: threads, descriptors, mappings, and MiB of memory."""
    status = Path('/proc/self/status').read_text()
    resident = int(status.split('VmRSS:')[1].split()[0]) >> 10
    return (len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')),
            len(Path('/proc/self/maps').read_text().splitlines()), resident)


def survive(me, folder, backend):
    """A rank that outlives all losses."""
    torch.set_num_threads(1)
    before = []
    for turn, kind in zip(range(TURNS), itertools.cycle(KINDS)):
        begin(folder, f'all.{turn}', me, 3, backend)
        dist.all_reduce(torch.ones(1))
        kind(me, torch.ones(LARGE), Path(folder, f'{turn}.{me}').touch)
        abort() if turn % 2 else dist.destroy_process_group()
        begin(folder, f'left.{turn}', me, 2, backend)
        tensor = torch.ones(5)
        dist.all_reduce(tensor)
        assert (tensor == 2).all(), tensor
        dist.destroy_process_group()
        if turn == len(KINDS) - 1:
            before = used()

    def back():
        now = used()
        return (now[0] <= before[0] and now[1] <= before[1] and now[2] < before[2] + 20
                and now[3] < before[3] + 64)
    until(back, f'what it held before: {before}', seen=used)
    print(f'rank {me} has survived', flush=True)


def losses(folder, backend):
    left = mp.start_processes(survive, args=(folder, backend), nprocs=2, join=False,
                              start_method='fork')
    for turn, kind in zip(range(TURNS), itertools.cycle(KINDS)):
        child = os.fork()
        if child == 0:
            try:
                begin(folder, f'all.{turn}', 2, 3, backend)
                dist.all_reduce(torch.ones(1))
                die(kind, folder, turn)
            finally:
                os._exit(1)
        try:
            while not os.waitpid(child, os.WNOHANG)[0]:
                left.join(0.1)  # raises what one of them has raised
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
    while not left.join():
        pass


# ---------------------------------------------------------------------------- ended
# Another thread of rank 0 ends all groups while the first one waits for rank 1, in vain.

def waits():
    """Whether the first thread is in an operation, or makes a group."""
    from reigen.distributed import _p2p, _world
    return diagnose(0)['pending'] or _world._making or any(_p2p._box.posted.values())


def ended(folder):
    me = int(os.environ['RANK'])
    large, other = torch.ones(LARGE), 1
    calls = {
        'small': lambda pair: dist.all_reduce(torch.ones(3)),
        'large': lambda pair: dist.all_gather_into_tensor(torch.ones(2 * LARGE), large),
        'handle': lambda pair: dist.all_reduce(large, async_op=True).wait(),
        'future': lambda pair: dist.all_reduce(large, async_op=True).get_future().wait(),
        'set': lambda pair: dist.all_reduce(torch.ones(3), group=pair),
        'message': lambda pair: dist.recv(large, other),
        'group': lambda pair: dist.new_group([0, 1]),
    }
    for end in (dist.destroy_process_group, abort):
        for name, call in calls.items():
            turn = f'{end.__name__}.{name}'
            begin(folder, turn, me, 2)
            pair = dist.new_group([1, 0], use_local_synchronization=True)
            dist.all_reduce(torch.ones(3), group=pair)
            dist.barrier()
            mark = Path(folder, f'{turn}.over')
            if me == 0:
                thread = threading.Thread(target=lambda end=end: (until(waits, 'a wait'), end()))
                thread.start()
                fails(lambda call=call, pair=pair: call(pair))
                thread.join()
                mark.touch()
            else:
                until(mark.exists, f'the end of {turn}')
                end()
    if me == 0:
        print('all ended', flush=True)


if __name__ == '__main__':
    {'losses': losses, 'ended': ended}[sys.argv[1]](*sys.argv[2:])
