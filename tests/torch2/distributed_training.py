# SPDX-License-Identifier: Apache-2.0
"""What trains over the backend "reigen": DDP, with the same parameters as over gloo, FSDP2,
ZeroRedundancyOptimizer, DTensor, meshes and functional collectives. Two ranks or more."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(40, 300), torch.nn.ReLU(),
                               torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 300),
                               torch.nn.ReLU(), torch.nn.Linear(300, 10))


def flat(tensors):
    return torch.cat([t.detach().reshape(-1).double() for t in tensors])


def equal_everywhere(tensor):
    rows = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, tensor)
    return all(torch.equal(row, tensor) for row in rows)


def ddp(me, group, hook=None, **options):
    model = network(me)  # rank 0's parameters are everybody's
    wrapped = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.2, **options)
    if hook:
        wrapped.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.01, momentum=0.9)
    numbers = torch.Generator().manual_seed(me)
    for step in range(6):
        optimizer.zero_grad()
        with wrapped.no_sync() if step == 2 else torch.enable_grad():
            wrapped(torch.randn(16, 40, generator=numbers)).pow(2).mean().backward()
        optimizer.step() if step != 2 else None
    return flat(model.parameters())


def ddp_ends_where_gloo_ends(me, size):
    gloo = dist.new_group(backend='gloo')
    options = [{}, {'static_graph': True}, {'gradient_as_bucket_view': True},
               {'find_unused_parameters': True}]
    for option in options[:4 if size == 2 else 1]:
        found, wanted = ddp(me, None, **option), ddp(me, gloo, **option)
        assert equal_everywhere(found)
        if size == 2:  # of more ranks gloo adds in another order
            assert torch.equal(found, wanted), option
        torch.testing.assert_close(found, wanted)
    assert equal_everywhere(ddp(me, None, hooks.fp16_compress_hook))
    assert equal_everywhere(ddp(me, None, hooks.allreduce_hook))


def fsdp2_trains_as_one_process_does(me, size):
    mesh = init_device_mesh('cpu', (size,))
    model, alone = network(), network()
    for part in (model[0], model[3]):
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model[2].eval(), alone[2].eval()
    ours = torch.optim.Adam(model.parameters(), 1e-3)
    theirs = torch.optim.Adam(alone.parameters(), 1e-3)
    for step in range(3):
        batches = [torch.randn(8, 40, generator=torch.Generator().manual_seed(step * size + rank))
                   for rank in range(size)]
        ours.zero_grad(), theirs.zero_grad()
        model(batches[me]).pow(2).mean().backward()
        (sum(alone(batch).pow(2).mean() for batch in batches) / size).backward()
        ours.step(), theirs.step()
    for found, wanted in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(found.full_tensor(), wanted, atol=1e-5, rtol=1e-4)


def zero_keeps_parameters_equal(me, size):
    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 40) + me).pow(2).mean().backward()
        optimizer.step()
    assert equal_everywhere(flat(model.parameters()))
    optimizer.consolidate_state_dict(0)
    assert me or len(optimizer.state_dict()['state']) == len(list(model.parameters()))


def dtensors_are_what_the_whole_is(me, size):
    mesh = init_device_mesh('cpu', (size,))
    whole = torch.arange(8.0 * size * size).reshape(4 * size, 2 * size)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.full_tensor(), whole)
    for placement in (Shard(1), Replicate(), Shard(0)):
        rows = rows.redistribute(mesh, [placement])
        assert torch.equal(rows.full_tensor(), whole)
    torch.testing.assert_close((rows.t() @ rows).full_tensor(), whole.t() @ whole)


def meshes_have_groups(me, size):
    if size != 4:
        return
    mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('replicas', 'shards'))
    for name, wanted in (('replicas', 2 * (me % 2) + 2), ('shards', 4 * (me // 2) + 1)):
        tensor = torch.full((5,), float(me))
        dist.all_reduce(tensor, group=mesh.get_group(name))
        assert (tensor == wanted).all()
    model = torch.nn.Linear(16, 16)
    fully_shard(model, mesh=mesh)
    model(torch.ones(2, 16)).sum().backward()
    assert torch.equal(model.weight.grad.full_tensor(), torch.full((16, 16), 2.0))


def functional_collectives(me, size):
    world = dist.group.WORLD
    mine = torch.full((6,), float(me))
    assert (functional.all_reduce(mine, 'sum', world) == size * (size - 1) / 2).all()
    assert (functional.broadcast(mine, 1, world) == 1).all()
    sums = functional.all_reduce_coalesced([mine, mine[:2]], 'max', world)
    assert all((t + 0 == size - 1).all() for t in sums)
    moved = functional.all_to_all_single(torch.arange(float(size)), None, None, world)
    assert (moved == me).all()


def main():
    dist.init_process_group('reigen')
    me, size = dist.get_rank(), dist.get_world_size()
    for check in (ddp_ends_where_gloo_ends, fsdp2_trains_as_one_process_does,
                  zero_keeps_parameters_equal, dtensors_are_what_the_whole_is, meshes_have_groups,
                  functional_collectives):
        check(me, size)
    dist.destroy_process_group()
    if me == 0:
        print(f'all trained on {size} ranks with torch {torch.__version__}')


if __name__ == '__main__':
    main()
