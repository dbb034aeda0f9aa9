# SPDX-License-Identifier: Apache-2.0
"""Gradients: through the operations, and through DistributedOptimizer."""
import os
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import checks
import horovod.torch as hvd


# ---------------------------------------------------------------------------- autograd

def grad_of(operation, *shape):
    """The gradient at this rank's tensor of the sum of rank-weighted outputs."""
    tensor = torch.rand(*shape, requires_grad=True)
    output = operation(tensor)
    (output * (hvd.rank() + 1)).sum().backward()
    return tensor.grad


MEAN = None  # the mean of rank + 1, set after init


def check_gradient_of_allreduce():
    n = hvd.size()
    torch.testing.assert_close(grad_of(hvd.allreduce, 4), torch.full((4,), MEAN))
    total = grad_of(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5), 4)
    torch.testing.assert_close(total, torch.full((4,), MEAN * n / 2))
    fp16 = grad_of(lambda t: hvd.allreduce(t, compression=hvd.Compression.fp16), 4)
    torch.testing.assert_close(fp16, torch.full((4,), MEAN))
    pair = [torch.rand(3, requires_grad=True), torch.rand(2, 2, requires_grad=True)]
    a, b = hvd.grouped_allreduce(pair, op=hvd.Sum)
    ((a.sum() + 2 * b.sum()) * (hvd.rank() + 1)).backward()
    torch.testing.assert_close(pair[0].grad, torch.full((3,), MEAN * n))
    torch.testing.assert_close(pair[1].grad, torch.full((2, 2), 2 * MEAN * n))


def check_gradient_of_allgather_and_broadcast():
    torch.testing.assert_close(grad_of(hvd.allgather, hvd.rank() + 1, 2),
                               torch.full((hvd.rank() + 1, 2), MEAN))
    pair = [torch.rand(hvd.rank() + 1, requires_grad=True), torch.rand(2, requires_grad=True)]
    a, b = hvd.grouped_allgather(pair)
    weights = torch.arange(float(2 * hvd.size()))
    (a.sum() + (b * weights).sum()).backward()
    torch.testing.assert_close(pair[0].grad, torch.ones(hvd.rank() + 1))
    torch.testing.assert_close(pair[1].grad, weights[2 * hvd.rank():2 * hvd.rank() + 2])
    grad = grad_of(lambda t: hvd.broadcast(t, 0), 3)
    torch.testing.assert_close(grad, torch.full((3,), MEAN if hvd.rank() == 0 else 0.0))


def check_gradient_of_alltoall_and_reducescatter():
    n, r = hvd.size(), hvd.rank()
    splits = [s + 1 for s in range(n)]
    grad = grad_of(lambda t: hvd.alltoall(t, splits=splits)[0], sum(splits))
    torch.testing.assert_close(grad, torch.cat([torch.full((s + 1,), s + 1.0)
                                                for s in range(n)]))
    rows = torch.cat([torch.full((len(part),), s + 1.0)
                      for s, part in enumerate(torch.zeros(2 * n + 1).tensor_split(n))])
    torch.testing.assert_close(grad_of(hvd.reducescatter, 2 * n + 1), rows)
    torch.testing.assert_close(
        grad_of(lambda t: hvd.reducescatter(t, op=hvd.Sum), 2 * n + 1), rows * n)
    one = torch.rand(2 * n + 1, requires_grad=True)
    (hvd.grouped_reducescatter([one])[0] * (r + 1)).sum().backward()
    torch.testing.assert_close(one.grad, rows)


def check_gradients_by_finite_differences():
    """Each gradient against the change of the ranks' weighted sums when one element changes.

    Horovod's gradients of allgather and broadcast are those of the mean over the ranks' losses, and
    those of reducescatter are multiplied by the number of ranks; the others are of their sum.
    """
    n, r = hvd.size(), hvd.rank()
    splits = [[1, 2, 1], [2, 1, 1], [1, 1, 2]][r][:n]
    rows = sum(splits)
    even = 2 * n
    operations = [
        (even, 1.0, lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5)),
        (even, 1.0, lambda t: hvd.allreduce(t, postscale_factor=3.0)),
        (even, 1.0, lambda t: hvd.grouped_allreduce([t, t * t])[1]),
        (r + 1, 1 / n, hvd.allgather),
        (r + 1, 1 / n, lambda t: hvd.grouped_allgather([t, t * 2.0])[1]),
        (even, 1 / n, lambda t: hvd.broadcast(t, n - 1)),
        (even, 1.0, hvd.alltoall),
        (rows, 1.0, lambda t: hvd.alltoall(t, splits=splits)[0]),
        (even + 1, n, hvd.reducescatter),
        (even + 1, n, lambda t: hvd.reducescatter(t, op=hvd.Sum, prescale_factor=0.5)),
        (even, n, lambda t: hvd.grouped_reducescatter([t, t * 3.0], op=hvd.Sum)[1]),
    ]
    for number, (count, factor, operation) in enumerate(operations):
        torch.manual_seed(r)
        point = torch.rand(count, 2, dtype=torch.float64)
        weights = None

        def loss(tensor):
            nonlocal weights
            output = operation(tensor)
            if weights is None:
                weights = torch.rand(output.shape, dtype=output.dtype)
            return (output * weights).sum()
        mine = point.clone().requires_grad_()
        loss(mine).backward()
        # One element of one rank after another; all ranks take part in each evaluation.
        for owner in range(n):
            for at in range(3):
                place = (at % (count if r == owner else 1), at % 2)
                values = []
                for step in (1e-5, -1e-5):
                    moved = point.clone()
                    if r == owner:
                        moved[place] += step
                    values.append(hvd.allreduce(loss(moved).detach(), op=hvd.Sum, name='loss'))
                if r == owner:
                    slope = (values[0] - values[1]) / 2e-5 * factor
                    torch.testing.assert_close(mine.grad[place], slope, rtol=1e-5, atol=1e-6,
                                               msg=lambda text: f'operation {number}: {text}')


# ---------------------------------------------------------------------------- optimizer

def build(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


def batches(steps, rows=4):
    """The same on every rank: for each step the batches of all ranks."""
    torch.manual_seed(1)
    return [[(torch.rand(rows, 6), torch.randint(3, (rows,))) for _ in range(hvd.size())]
            for _ in range(steps)]


def alone(steps, make, passes=1):
    """What one process gets from the batches of all ranks together."""
    model = build()
    optimizer = make(model.parameters())
    for number, step in enumerate(batches(steps * passes)):
        if number % passes == 0:
            optimizer.zero_grad()
        data, target = (torch.cat(part) for part in zip(*step))
        F.cross_entropy(model(data), target).backward()
        if number % passes == passes - 1:
            optimizer.step()
    return model


def together(steps, make, passes=1, overlap=None, **options):
    if overlap is not None:
        os.environ['REIGEN_OVERLAP'] = overlap
    model = build(seed=hvd.rank())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        make(model.parameters()), named_parameters=model.named_parameters(),
        backward_passes_per_step=passes, **options)
    for number, step in enumerate(batches(steps * passes)):
        if number % passes == 0:
            optimizer.zero_grad()
        data, target = step[hvd.rank()]
        F.cross_entropy(model(data), target).backward()
        if number % passes == passes - 1:
            optimizer.step()
    return model


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.9)


def adam(params):
    return torch.optim.Adam(params, lr=0.01)


def equal(a, b, **tolerance):
    for name, value in a.state_dict().items():
        torch.testing.assert_close(b.state_dict()[name], value, **tolerance)


def identical(model):
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    everyones = hvd.allgather(flat.unsqueeze(0))
    assert all(torch.equal(everyones[0], other) for other in everyones)


def check_training_equals_one_process_with_all_batches():
    for make in (sgd, adam):
        reference = alone(5, make)
        for options in ({}, {'gradient_predivide_factor': 2.0}, {'groups': 2},
                        {'groups': 100}, {'num_groups': 3, 'gradient_predivide_factor': 0.5},
                        {'overlap': '1'}, {'groups': 2}, {'overlap': '0'}):
            model = together(5, make, **options)
            equal(reference, model)
            identical(model)


def check_accumulated_passes_equal_one_process():
    equal(alone(3, sgd, passes=3), together(3, sgd, passes=3))
    equal(alone(3, sgd, passes=2), together(3, sgd, passes=2, groups=1))
    equal(alone(3, adam, passes=2),
          together(3, adam, passes=2, gradient_predivide_factor=2.0, groups=2))


def check_fp16_compression_stays_near():
    model = together(5, sgd, compression=hvd.Compression.fp16)
    equal(alone(5, sgd), model, rtol=0.02, atol=0.005)
    identical(model)


class Halves(hvd.Compression.none):
    """Sends the first half of each tensor, and small ones as float64."""

    @staticmethod
    def compress(tensor):
        part = tensor.flatten()[:tensor.numel() // 2].clone()
        return (part.double() if tensor.numel() < 20 else part), tensor.clone()

    @staticmethod
    def decompress(part, whole):
        whole.view(-1)[:part.numel()] = part.to(whole.dtype)
        return whole


def check_compressors_of_the_users_and_types_that_change():
    model = together(2, sgd, compression=Halves)
    for parameter in model.parameters():
        half = parameter.detach().flatten()[:parameter.numel() // 2]
        assert all(torch.equal(half, o) for o in hvd.allgather(half.unsqueeze(0)))
    model = build()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    for convert in (lambda: model, lambda: model[2].double(), lambda: model.double()):
        convert()
        optimizer.state.clear()
        for turn, parameter in enumerate(model.parameters()):
            parameter.grad = None
            (parameter * (turn + hvd.rank())).sum().backward()
        optimizer.step()
        mean = sum(range(hvd.size())) / hvd.size()
        for turn, parameter in enumerate(model.parameters()):
            assert parameter.grad.eq(turn + mean).all(), (turn, parameter.grad)


def check_groups_as_lists():
    model = build()
    lists = [[model[0].weight, model[0].bias], [model[2].weight]]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), groups=lists)
    F.cross_entropy(model(torch.rand(4, 6) * hvd.rank()), torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
    identical(model)
    checks.raises(ValueError, lambda: hvd.DistributedOptimizer(sgd(model.parameters()), groups=-1))


def check_synchronize_and_skip_synchronize():
    model = build()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    for clip in (True, False):
        F.cross_entropy(model(torch.rand(4, 6)), torch.tensor([0, 1, 2, 0])).backward()
        optimizer.synchronize()
        grads = torch.cat([p.grad.flatten() for p in model.parameters()])
        assert all(torch.equal(grads, other) for other in hvd.allgather(grads.unsqueeze(0)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
        texts = [str(w.message) for w in caught]
        assert any('optimizer.step() called without optimizer.skip_synchronize()' in t
                   for t in texts) != clip, texts
        optimizer.zero_grad()
    identical(model)


def check_misuse_is_told():
    model = build()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    loss = F.cross_entropy(model(torch.rand(4, 6)), torch.tensor([0, 1, 2, 0]))
    loss.backward(retain_graph=True)
    if hvd.size() > 1:
        checks.raises(AssertionError, optimizer.zero_grad, 'race condition')
        checks.raises(AssertionError, loss.backward, 'more than backward_passes_per_step')
    optimizer.step()
    identical(model)

    def make(names, **options):
        return hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=names, **options)
    pairs = list(model.named_parameters())
    checks.raises(ValueError, lambda: make(model.parameters()), 'sequence of tuples')
    checks.raises(ValueError, lambda: make([('same', p) for _, p in pairs]), 'must be unique')
    checks.raises(ValueError, lambda: make(pairs[:-1]), 'were not named')
    checks.raises(ValueError, lambda: make(pairs, op=hvd.Sum, gradient_predivide_factor=2.0),
                  'gradient_predivide_factor not supported')
    checks.raises(ValueError, lambda: make(pairs, op=hvd.Max), 'not a reduction')


def check_adasum_combines_the_steps_of_all_ranks():
    data = batches(3)
    for make in (sgd, adam):
        alone_here, model = build(), build()
        plain = make(alone_here.parameters())
        optimizer = hvd.DistributedOptimizer(
            make(model.parameters()), named_parameters=model.named_parameters(), op=hvd.Adasum)
        for step in data:
            rows, target = step[hvd.rank()]
            before = [p.detach().clone() for p in model.parameters()]
            for net, chosen in ((alone_here, plain), (model, optimizer)):
                chosen.zero_grad()
                F.cross_entropy(net(rows), target).backward()
                chosen.step()
            with torch.no_grad():
                for start, mine, combined in zip(before, alone_here.parameters(),
                                                 model.parameters()):
                    expected = start + hvd.allreduce(mine - start, op=hvd.Adasum)
                    torch.testing.assert_close(combined, expected)
                    mine.copy_(combined)
        identical(model)
    checks.raises(AssertionError, lambda: optimizer.skip_synchronize().__enter__(), 'Adasum')
    assert optimizer.synchronize() is None
    checks.raises(ValueError, lambda: hvd.DistributedOptimizer(
        sgd(model.parameters()), op=hvd.Adasum, gradient_predivide_factor=2.0), 'predivide')


class Choosing(nn.Module):
    """Uses another branch on every other rank."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(6, 3), nn.Linear(6, 3)])

    def forward(self, x, which):
        return self.branches[which](x)


def check_ranks_that_compute_different_gradients():
    torch.manual_seed(0)
    model = Choosing()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()),
                                         named_parameters=model.named_parameters())
    for _ in range(3):
        model(torch.rand(4, 6), hvd.rank() % 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    identical(model)


def check_sparse_gradients():
    for as_dense in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(8, 2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                             named_parameters=model.named_parameters(),
                                             sparse_as_dense=as_dense)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.tensor([[hvd.rank(), step], [5, 6]])).sum().backward()
            optimizer.step()
        identical(model)


def check_sparse_as_dense_gives_step_sparse_gradients():
    """SparseAdam takes no others. The odd ranks have no gradient at first, or none at all."""
    for odd_ranks_join_at in (0, 1, 3):
        torch.manual_seed(0)
        model = nn.Embedding(10, 4, sparse=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(model.parameters()), 0.1),
                                             named_parameters=model.named_parameters(),
                                             sparse_as_dense=True)
        before = model.weight.detach().clone()
        for step in range(3):
            optimizer.zero_grad()
            model.weight.grad = None
            if hvd.rank() % 2 == 0 or step >= odd_ranks_join_at:
                model(torch.tensor([hvd.rank(), 5])).sum().backward()
            optimizer.synchronize()
            assert model.weight.grad.is_sparse and model.weight.grad.sparse_dim() == 1
            with optimizer.skip_synchronize():
                optimizer.step()
        identical(model)
        moved = (model.weight != before).any(dim=1).nonzero().flatten().tolist()
        coming = [r for r in range(hvd.size()) if r % 2 == 0 or odd_ranks_join_at < 3]
        assert moved == sorted({*coming, 5}), moved


def check_optimizer_tells_what_it_is():
    model = build()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), op=hvd.Sum, sparse_as_dense=True)
    # Libraries know it by the module of its class.
    assert type(optimizer).__module__ == optimizer.__module__ == 'horovod.torch.optimizer'
    assert type(optimizer).__name__ == 'SGD' and isinstance(optimizer, torch.optim.SGD)
    assert (optimizer.op, optimizer.gradient_predivide_factor) == (hvd.Sum, 1.0)
    assert optimizer.sparse_as_dense is True and optimizer.backward_passes_per_step == 1
    assert optimizer.process_set is hvd.global_process_set
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), gradient_predivide_factor=2.0)
    assert (optimizer.op, optimizer.gradient_predivide_factor) == (hvd.Average, 2.0)
    assert optimizer.sparse_as_dense is False
    # By name, all ranks know the same parameters.
    names = optimizer._parameter_names
    assert len(set(names.values())) == len(names) == len(list(model.parameters()))
    assert all(known == set(names.values()) for known in hvd.allgather_object(set(names.values())))
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    assert optimizer._parameter_names == {p: name for name, p in model.named_parameters()}
    adasum = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(),
                                      op=hvd.Adasum)
    assert adasum._parameter_names == optimizer._parameter_names
    assert type(adasum).__module__ == 'horovod.torch.optimizer'


def check_broadcast_of_a_new_optimizer_leaves_gradients_of_zeros():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
            self.moving = nn.Parameter(torch.ones(3))
            self.table = nn.Embedding(4, 2, sparse=True)
    model = Part()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    assert model.fixed.grad is None
    assert torch.equal(hvd.broadcast(model.moving.grad, 0), torch.zeros(3))
    assert model.table.weight.grad.is_sparse
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert table.weight.grad.is_sparse and table.weight.grad.to_dense().sum() == 0
    # Where one rank has trained, no gradient is made up on the others.
    model = build()
    optimizer = adam(model.parameters())
    if hvd.rank() == 0:
        model(torch.rand(2, 6)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert (next(model.parameters()).grad is None) == (hvd.rank() > 0)
    assert len(optimizer.state) == len(list(model.parameters()))


def check_an_optimizer_that_is_dropped_leaves_its_names():
    model = build()
    for _ in range(3):
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()),
                                             named_parameters=model.named_parameters())
        optimizer._send_all()
        hvd.barrier()
        del optimizer
        hvd.barrier()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()),
                                         named_parameters=model.named_parameters())
    model(torch.rand(2, 6)).sum().backward()
    optimizer.step()
    identical(model)


def check_optimizer_keeps_its_class_state_and_scheduler():
    model = build()
    inner = adam(model.parameters())
    hooked = []
    if hasattr(inner, 'register_step_pre_hook'):  # torch 2
        inner.register_step_pre_hook(lambda *_: hooked.append(1))
    optimizer = hvd.DistributedOptimizer(inner)
    assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == 'Adam'
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model(torch.rand(2, 6)).sum().backward()
    optimizer.step()
    assert len(hooked) == hasattr(inner, 'register_step_pre_hook')
    scheduler.step()
    assert optimizer.param_groups[0]['lr'] == 0.005
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    optimizer.set_backward_passes_per_step(2)
    for _ in range(2):
        model(torch.rand(2, 6)).sum().backward()
    optimizer.step()
    identical(model)


def check_step_with_closure():
    model = build()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    data = torch.rand(4, 6)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), torch.tensor([0, 1, 2, 0]))
        loss.backward()
        return loss
    first = optimizer.step(closure)
    for _ in range(5):
        last = optimizer.step(closure)
    assert torch.is_tensor(first) and torch.is_tensor(last)
    identical(model)


def optimizers():
    """One of each kind that this torch has, and some in other configurations."""
    skipped = {'Optimizer', 'LBFGS', 'SparseAdam', 'Muon'}  # other gradients, or state refused
    makers = [getattr(torch.optim, name) for name in dir(torch.optim) if name[0].isupper()
              and name not in skipped and isinstance(getattr(torch.optim, name), type)]
    makers += [sgd, lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.5, centered=True),
               lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
               lambda p: torch.optim.SGD([{'params': list(p), 'lr': 0.1, 'nesterov': True,
                                           'momentum': 0.5}], lr=1.0)]
    if int(torch.__version__.split('.')[0]) >= 2:
        makers.append(lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False))
    for make in makers:
        yield lambda params, make=make: (make(params, lr=0.1) if isinstance(make, type)
                                         else make(params))


def check_broadcast_of_optimizer_state():
    for turn, make in enumerate(optimizers()):
        root = turn % hvd.size()
        model = build()
        optimizer = make(model.parameters())
        if hvd.rank() == root:
            for _ in range(2):
                model(torch.rand(3, 6)).sum().backward()
                optimizer.step()
            optimizer.param_groups[0]['lr'] = 0.125
        hvd.broadcast_parameters(model.state_dict(), root)
        hvd.broadcast_optimizer_state(optimizer, root)
        assert optimizer.param_groups[0]['lr'] == 0.125
        everyones = hvd.allgather_object(optimizer.state_dict())
        assert all(same(everyones[0], other) for other in everyones), type(optimizer)
        model(torch.ones(1, 6)).sum().backward()
        optimizer.step()


def same(a, b):
    """Equal, through dicts and lists, tensors to the bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if torch.is_tensor(a):
        return torch.is_tensor(b) and a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and a == b


def check_optimizers_whose_state_cannot_be_sent_are_refused():
    checks.raises(ValueError, lambda: hvd.broadcast_optimizer_state(
        torch.optim.LBFGS(build().parameters()), 0), 'LBFGS')


def check_broadcast_of_parameters_as_lists():
    model = build(seed=hvd.rank())
    hvd.broadcast_parameters(list(model.named_parameters()), root_rank=0)
    identical(model)
    model = build(seed=hvd.rank())
    hvd.broadcast_parameters(model.parameters(), root_rank=hvd.size() - 1)
    equal(build(seed=hvd.size() - 1), model)
    checks.raises(ValueError, lambda: hvd.broadcast_parameters(7, root_rank=0), 'invalid params')


def check_sync_batch_norm_equals_the_whole_batch():
    for shape in ((4, 3), (4, 3, 5), (2, 3, 4, 4)):
        torch.manual_seed(2)
        parts = [torch.rand(*shape) * (r + 1) for r in range(hvd.size())]
        weight = [torch.rand(*shape) for _ in parts]
        whole = torch.cat(parts).requires_grad_()
        mine = parts[hvd.rank()].clone().requires_grad_()
        reference = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)](3)
        norm = hvd.SyncBatchNorm(3)
        expected = reference(whole)
        (expected * torch.cat(weight)).sum().backward()
        output = norm(mine)
        (output * weight[hvd.rank()]).sum().backward()
        rows = slice(hvd.rank() * shape[0], (hvd.rank() + 1) * shape[0])
        close = {'rtol': 1e-4, 'atol': 1e-5}
        torch.testing.assert_close(output, expected[rows], **close)
        torch.testing.assert_close(mine.grad, whole.grad[rows], **close)
        torch.testing.assert_close(norm.running_mean, reference.running_mean, **close)
        torch.testing.assert_close(norm.running_var, reference.running_var, **close)
        torch.testing.assert_close(hvd.allreduce(norm.weight.grad, op=hvd.Sum),
                                   reference.weight.grad, **close)
        norm.eval(), reference.eval()
        torch.testing.assert_close(norm(mine), reference(whole)[rows], **close)


def check_sync_batch_norm_of_empty_and_short_batches():
    torch.manual_seed(3)
    whole = torch.rand(6, 3, 4)
    for dtype in (torch.float32, torch.bfloat16):
        norm, reference = hvd.SyncBatchNorm(3), nn.BatchNorm1d(3)
        mine = (whole if hvd.rank() == 0 else whole[:0]).to(dtype).detach().clone().requires_grad_()
        output = norm(mine)
        assert output.shape == mine.shape and output.dtype is dtype
        output.float().pow(2).sum().backward()
        assert mine.grad.shape == mine.shape
        if hvd.rank() == 0:
            expected = reference(whole.to(dtype).float())
            loose = {'rtol': 0.02, 'atol': 0.02} if dtype is torch.bfloat16 else {}
            torch.testing.assert_close(output.float(), expected, **loose)
            torch.testing.assert_close(norm.running_mean, reference.running_mean)
        mean = hvd.allgather(norm.running_mean.unsqueeze(0))
        assert all(torch.equal(mean[0], other) for other in mean)
    plain = hvd.SyncBatchNorm(3, affine=False, track_running_stats=False)
    assert plain.eval()(whole).shape == whole.shape
    checks.raises(ValueError, lambda: norm(torch.rand(3)), 'expected at least 2D input')
    # For serving, a trained model is scripted.
    scripted = torch.jit.script(norm.eval())
    torch.testing.assert_close(scripted(whole), norm(whole))


if __name__ == '__main__':
    hvd.init()
    torch.set_num_threads(1)
    MEAN = (hvd.size() + 1) / 2
    checks.run(sys.modules[__name__])
    hvd.shutdown()
