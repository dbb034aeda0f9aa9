# SPDX-License-Identifier: Apache-2.0
"""torch.compile around, inside and beside what runs over the backend "reigen", and around
horovod.torch: all give what they give without it, and as many graphs as over gloo.

usage: distributed_compiled.py [BACKEND]   gloo, to see that the expectations are right
"""
import sys

import torch
import torch._dynamo as dynamo
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else 'reigen')
import horovod.torch as hvd  # noqa: E402
hvd.init()

ME, SIZE = dist.get_rank(), dist.get_world_size()


class Counter:
    """A compiler that counts its graphs."""

    def __init__(self):
        self.graphs = 0
        self._compile = dynamo.lookup_backend('aot_eager')

    def __call__(self, graph, inputs, **options):
        self.graphs += 1
        return self._compile(graph, inputs, **options)


class Checkpointed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def rows(rank=ME):
    return torch.ones(2, 8) * (rank + 1)


def expected():
    """The mean gradients of all ranks."""
    model = network()
    for rank in range(SIZE):
        (model(rows(rank)).sum() / SIZE).backward()
    return [p.grad for p in model.parameters()]


def check(parameters):
    for parameter, grad in zip(parameters, expected()):
        found = parameter.grad
        found = found.full_tensor() if hasattr(found, 'full_tensor') else found
        assert torch.allclose(found, grad), (found, grad)


def steps(model, parameters=None):
    for _ in range(2):
        model.zero_grad()
        model(rows()).sum().backward()
    check(parameters or model.parameters())


def around_ddp(counter):
    for how in ('ddp_optimizer', 'python_reducer', 'no_optimization'):
        dynamo.reset()
        dynamo.config.optimize_ddp = how
        steps(torch.compile(DistributedDataParallel(network()), backend=counter))
    dynamo.config.optimize_ddp = True
    ddp = DistributedDataParallel(network())
    ddp.compile(backend=counter)
    steps(ddp)
    steps(torch.compile(DistributedDataParallel(Checkpointed()), backend=counter))
    return None


def a_step(counter):
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    @torch.compile(backend=counter)
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    for _ in range(2):
        step(rows())
    check(model.parameters())
    return None


def sharded(counter):
    mesh = init_device_mesh('cpu', (SIZE,))
    two = network()
    fully_shard(two[0], mesh=mesh)
    fully_shard(two, mesh=mesh)
    two.compile(backend=counter)
    steps(two)
    one = FullyShardedDataParallel(network(), use_orig_params=True,
                                   device_id=torch.device('cpu'))
    compiled = torch.compile(one, backend=counter)
    compiled(rows()).sum().backward()
    return None


def in_the_middle(counter):
    @torch.compile(backend=counter)
    def function(x):
        y = x * 2
        dist.all_reduce(y)
        z = y + 1
        dist.all_reduce(z, async_op=True).wait()
        parts = [torch.empty_like(z) for _ in range(SIZE)]
        dist.all_gather(parts, z)
        dist.barrier()
        if ME == 0:
            dist.send(z, 1)
        elif ME == 1:
            dist.recv(z, 0)
        return z + parts[1]

    for _ in range(2):
        result = function(torch.ones(4) * (ME + 1))
    assert result.tolist() == [4.0 * (SIZE * (SIZE + 1) + 1)] * 4
    return 3


def functional_ones(counter):
    @torch.compile(backend=counter, fullgraph=True)
    def function(x):
        y = functional.all_reduce(x * 2, 'sum', dist.group.WORLD)
        z = functional.all_gather_tensor(y + 1, 0, dist.group.WORLD)
        return functional.reduce_scatter_tensor(z, 'sum', 0, dist.group.WORLD) + 1

    for _ in range(2):
        result = function(torch.ones(4) * (ME + 1))
    assert result.tolist() == [(SIZE * (SIZE + 1) + 1.0) * SIZE + 1] * 4
    return 1


def horovods(counter):
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.0),
                                         named_parameters=model.named_parameters())

    @torch.compile(backend=counter)
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    for _ in range(2):
        step(rows())
    check(model.parameters())

    @torch.compile(backend=counter)
    def function(x):
        y = hvd.allreduce(x * 2, op=hvd.Sum) + 1
        hvd.broadcast_(y, 0)
        y = hvd.synchronize(hvd.allreduce_async(y))
        hvd.barrier()
        return y * hvd.size() + hvd.allgather(y).sum()

    for _ in range(2):
        result = function(torch.ones(4) * (ME + 1))
    assert result.tolist() == [(SIZE * (SIZE + 1) + 1.0) * SIZE * 5] * 4, result
    weights = torch.ones(4, requires_grad=True)
    torch.compile(lambda x: hvd.allreduce(x * 2) * 3, backend=counter)(weights).sum().backward()
    assert weights.grad.tolist() == [6.0] * 4
    return None


def main():
    for case in (around_ddp, a_step, sharded, in_the_middle, functional_ones, horovods):
        dynamo.reset()
        counter = Counter()
        graphs = case(counter)
        assert graphs is None or counter.graphs == graphs, (case.__name__, counter.graphs)
    if ME == 0:
        print(f'all compiled on {SIZE} ranks', flush=True)
    dist.destroy_process_group()
    hvd.shutdown()


main()
