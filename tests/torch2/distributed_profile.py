# SPDX-License-Identifier: Apache-2.0
"""What torch.profiler tells of a group's operations, on 2 ranks."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile


def profiled():
    return profile(activities=[ProfilerActivity.CPU], record_shapes=True)


def told(done, *names, in_flight=False):
    """The shapes of each event, in order. They must be whole: each ends before the next begins, in
    another thread than its own, unless the profile ends first."""
    events = [event for event in done.events() if event.name.startswith('reigen:')]
    for event, following in zip(events, events[1:]):
        assert event.time_range.start <= event.time_range.end <= following.time_range.start, events
    assert in_flight or all(event.is_async for event in events), events
    assert [event.name for event in events] == [f'reigen:{name}' for name in names], events
    return [event.input_shapes for event in events]


def operators(done):
    return [event.name for event in done.events() if event.name.startswith('c10d::')]


def each_operation(rank):
    tensor, one = torch.ones(1000), torch.ones(2, 3)
    rows = [torch.empty(2, 3) for _ in range(2)]
    with profiled() as done:
        dist.all_reduce(tensor)
        dist.broadcast(one, 0)
        dist.all_gather(rows, one)
        dist.all_reduce(tensor, async_op=True).wait()
        dist.barrier()
    shapes = told(done, 'all_reduce', 'broadcast', 'all_gather', 'all_reduce', 'barrier')
    assert shapes == [[[1000]], [[2, 3]], [[2, 3]], [[1000]], []], shapes
    assert operators(done) == ['c10d::allreduce_', 'c10d::broadcast_', 'c10d::allgather_',
                               'c10d::allreduce_', 'c10d::barrier']
    with profiled() as done:
        dist.send(one, 1) if rank == 0 else dist.recv(one, 0)
        dist.reduce_scatter_tensor(torch.empty(500), tensor)
    told(done, 'recv' if rank else 'send', 'reduce_scatter')


def ddp():
    model = DistributedDataParallel(torch.nn.Linear(10, 10))
    with profiled() as done:
        model(torch.ones(4, 10)).sum().backward()
    assert told(done, 'all_reduce') == [[[110]]]
    assert operators(done) == ['c10d::allreduce_']


def in_flight_at_the_end():
    """Over and over: what writes to a profile that is gone crashes sooner or later."""
    tensor = torch.ones(100000)
    for _ in range(20):
        with profiled() as done:
            work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        told(done, 'all_reduce', in_flight=True)
    dist.all_reduce(tensor)
    with profiled() as done:
        with torch.profiler.record_function('mine'):
            pass
    told(done)


def after_a_mistake():
    with profiled() as done:
        try:
            dist.all_reduce(torch.ones(3, dtype=torch.float8_e4m3fn))
        except ValueError:
            pass
        dist.all_reduce(torch.ones(3))
    told(done, 'all_reduce', 'all_reduce')


dist.init_process_group('reigen')
each_operation(dist.get_rank())
ddp()
in_flight_at_the_end()
after_a_mistake()
if dist.get_rank() == 0:
    print('all told to the profiler')
dist.destroy_process_group()
