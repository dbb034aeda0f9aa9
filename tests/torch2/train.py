# SPDX-License-Identifier: Apache-2.0
"""Run by two ranks under PyTorch 2: collectives of every type, training, objects. Prints "all good"
from rank 0, fails by an assertion otherwise."""
import torch
import horovod.torch as hvd


def check_types():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
                  torch.bfloat16, torch.float32, torch.float64):
        tensor = torch.arange(17).to(dtype) + hvd.rank()
        total = hvd.allreduce(tensor, op=hvd.Sum, name=f'sum.{dtype}')
        want = sum((torch.arange(17) + r for r in range(hvd.size())), torch.zeros(17).long())
        assert total.dtype == dtype and torch.equal(total, want.to(dtype)), (dtype, total)
        gathered = hvd.allgather(tensor[:hvd.rank() + 1], name=f'gather.{dtype}')
        assert gathered.shape[0] == sum(range(1, hvd.size() + 1)), gathered
        root = hvd.broadcast(tensor, root_rank=1, name=f'broadcast.{dtype}')
        assert torch.equal(root, torch.arange(17).to(dtype) + 1), root


def check_views():
    """Tensors that are no plain blocks of memory."""
    tensor = torch.arange(12.).reshape(3, 4).t() * (hvd.rank() + 1)
    scale = sum(range(1, hvd.size() + 1))
    total = hvd.allreduce(tensor, op=hvd.Sum, name='transposed')
    assert torch.equal(total, torch.arange(12.).reshape(3, 4).t() * scale)
    scalar = hvd.allreduce(torch.tensor(float(hvd.rank())), name='scalar')
    assert scalar.shape == () and scalar.item() == (hvd.size() - 1) / 2


def train(optimizer_of):
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = hvd.DistributedOptimizer(optimizer_of(model.parameters()),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    data = torch.randn(64, 8)
    target = data.sum(1, keepdim=True)
    first = last = None
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = last if first is None else first
    assert last < first / 2, (first, last)
    for name, value in model.state_dict().items():
        everyone = hvd.allgather(value.reshape(1, -1), name=f'same.{name}')
        assert all(torch.equal(row, everyone[0]) for row in everyone), name


def check_objects():
    found = hvd.broadcast_object({'lr': 0.1, 'rank': hvd.rank()}, root_rank=0)
    assert found == {'lr': 0.1, 'rank': 0}
    assert hvd.allgather_object(hvd.rank() * 'x') == ['x' * r for r in range(hvd.size())]


if __name__ == '__main__':
    hvd.init()
    assert int(torch.__version__.split('.')[0]) >= 2, torch.__version__
    check_types()
    check_views()
    train(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
    train(lambda p: torch.optim.Adam(p, lr=0.02))
    check_objects()
    hvd.barrier()
    if hvd.rank() == 0:
        print('all good on', hvd.size(), 'ranks with torch', torch.__version__, flush=True)
    hvd.shutdown()
