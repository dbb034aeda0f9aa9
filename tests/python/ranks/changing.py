# SPDX-License-Identifier: Apache-2.0
"""Parameters that change while a program trains them, and gradients that some ranks lack: training
on all ranks gives what one process computes from the mean of all ranks' losses."""
import itertools
import os
import sys
import warnings

import torch
from torch import nn

import checks
import horovod.torch as hvd
from horovod.common.agreement import Talk
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.mpi_ops import UNCHECKED
from reigen import _handles

TORCH = tuple(int(part) for part in torch.__version__.split('.')[:2])


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.5, weight_decay=0.1)


def loss_of(model, rank, step):
    rows = torch.arange(6.0).reshape(2, 3) * (rank + 1) / (step + 2)
    return model(rows).pow(2).mean()


def agrees(model):
    """All ranks have the same parameters."""
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    everyones = hvd.allgather(flat[None])
    assert everyones.eq(everyones[0]).all(), everyones


def forget(model, optimizer):
    """No gradients, whatever this PyTorch does by itself; those of frozen parameters too."""
    for p in itertools.chain(model.parameters(), *[g['params'] for g in optimizer.param_groups]):
        p.grad = None


def run(change, distributed, make=sgd, steps=5, passes=1, loss=loss_of, model=build, named=True,
        **options):
    """Train; change(step, model, optimizer) comes before each step."""
    net = model()
    optimizer = make(net.parameters())
    if distributed:
        optimizer = hvd.DistributedOptimizer(
            optimizer, net.named_parameters() if named else None,
            backward_passes_per_step=passes, **options)
    for step in range(steps):
        forget(net, optimizer)
        change(step, net, optimizer)
        for part in range(passes):
            if distributed:
                mine = loss(net, hvd.rank(), step + part)
                if mine is not None:
                    mine.backward()
            else:
                found = [loss(net, r, step + part) for r in range(hvd.size())]
                found = [each for each in found if each is not None]
                if found:
                    (sum(found) / hvd.size()).backward()
        optimizer.step()
        if distributed:
            agrees(net)
    return net


def equal(change, **options):
    """One process and the ranks come to the same."""
    ours = {key: options.pop(key) for key in ('groups', 'compression', 'sparse_as_dense', 'named')
            if key in options}
    wanted = run(change, False, **options)
    found = run(change, True, **options, **ours)
    for (name, a), b in zip(wanted.named_parameters(), found.parameters()):
        torch.testing.assert_close(b.detach(), a.detach(), msg=lambda text: f'{name}: {text}')


# ---------------------------------------------------------------------------- changes

def unfreeze_one_layer_after_another(step, model, optimizer):
    if step == 0:
        model[0].requires_grad_(False)
        model[1].requires_grad_(False)
    if step in (1, 3):
        model[2 - (step + 1) // 2].requires_grad_(True)


def freeze_layers_that_have_been_trained(step, model, optimizer):
    if step == 2:
        model[0].requires_grad_(False)
    if step == 3:
        model[1].weight.requires_grad_(False)


def train_layers_in_turns(step, model, optimizer):
    for number, layer in enumerate(model):
        layer.requires_grad_(number == step % 3)


def train_one_and_then_nothing_of_the_rest(step, model, optimizer):
    model.requires_grad_(False)
    model[step % 2].weight.requires_grad_(True)


def add_a_group(step, model, optimizer):
    if step == 0:
        del optimizer.param_groups[0]['params'][2:]
        if 'param_names' in optimizer.param_groups[0]:
            del optimizer.param_groups[0]['param_names'][2:]
    if step in (1, 2):
        named = 'param_names' in optimizer.param_groups[0]
        params = [(f'{step}.{name}', p) if named else p
                  for name, p in model[step].named_parameters()]
        optimizer.add_param_group({'params': params, 'lr': 0.05})


def put_another_layer_in_its_place(step, model, optimizer):
    if step == 2:
        torch.manual_seed(step)
        model[2] = nn.Linear(4, 3)
        optimizer.param_groups[0]['params'][-2:] = list(model[2].parameters())


def take_a_layer_away(step, model, optimizer):
    if step == 2:
        del optimizer.param_groups[0]['params'][:2]


CHANGES = [unfreeze_one_layer_after_another, freeze_layers_that_have_been_trained,
           train_layers_in_turns, train_one_and_then_nothing_of_the_rest, add_a_group,
           put_another_layer_in_its_place, take_a_layer_away]


def frozen_at_first(model=build):
    net = model()
    net.requires_grad_(False)
    return net


def check_changes_of_parameters_are_seen_in_the_step_in_which_they_happen():
    for change in CHANGES:
        for options in ({}, {'named': False}, {'passes': 2}, {'groups': 2}):
            equal(change, **options)


def check_names_that_the_optimizer_has_been_given():
    if TORCH < (2, 6):
        return
    make = lambda params: sgd([(str(i), p) for i, p in enumerate(params)])  # noqa: E731
    for change in (add_a_group, unfreeze_one_layer_after_another):
        equal(change, make=make)
        equal(change, make=make, named=False)


def check_all_parameters_are_frozen_when_the_optimizer_is_wrapped():
    for change in (unfreeze_one_layer_after_another, train_layers_in_turns,
                   lambda step, model, optimizer: model.requires_grad_(step > 1)):
        # A loss that needs no gradient has no backward().
        equal(change, model=frozen_at_first, loss=lambda model, rank, step: loss_of(
            model, rank, step) if any(p.requires_grad for p in model.parameters()) else None)


def check_groups_as_lists_take_in_what_is_trained_later():
    for change in (unfreeze_one_layer_after_another, train_layers_in_turns):
        nets = [build(), frozen_at_first()]
        for net in nets:
            optimizer = hvd.DistributedOptimizer(
                sgd(net.parameters()), groups=[list(net[0].parameters()),
                                               [net[1].weight, net[2].weight]])
            for step in range(4):
                forget(net, optimizer)
                change(step, net, optimizer)
                net[2].weight.requires_grad_(True)
                loss_of(net, hvd.rank(), step).backward()
                optimizer.step()
                agrees(net)


def check_a_parameter_that_is_trained_from_the_second_pass_on():
    def loss(model, rank, step):
        model[0].requires_grad_(step % 2 == 1)
        return loss_of(model, rank, step)
    equal(lambda step, model, optimizer: None, passes=2, steps=4, loss=loss)


def check_a_layer_that_is_frozen_between_backward_and_step():
    wanted, net = build(), build()
    pairs = [(wanted, sgd(wanted.parameters())),
             (net, hvd.DistributedOptimizer(sgd(net.parameters()), op=hvd.Sum))]
    for step in range(4):
        for model, optimizer in pairs:
            forget(model, optimizer)
            model[1].requires_grad_(step != 2)
            ranks = range(hvd.size()) if model is wanted else [hvd.rank()]
            sum(loss_of(model, r, step) for r in ranks).backward()
            model[1].requires_grad_(False)
            optimizer.step()
        agrees(net)
    for a, b in zip(wanted.parameters(), net.parameters()):
        torch.testing.assert_close(a.detach(), b.detach())


def check_ranks_that_unfreeze_in_other_steps_stay_equal():
    for last in range(hvd.size()):
        net = build()
        net[0].requires_grad_(False)
        optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
        before = net[0].weight.detach().clone()
        for step in range(4):
            net[0].requires_grad_(step >= (3 if hvd.rank() == last else 1))
            forget(net, optimizer)
            loss_of(net, hvd.rank(), step).backward()
            optimizer.step()
            agrees(net)
            assert torch.equal(before, net[0].weight) == (step == 0)


def check_parameters_that_one_rank_has_are_an_error_on_all():
    net = build()
    own = nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    for step in range(3):
        forget(net, optimizer)
        if step == 1 and hvd.rank() == 0:
            optimizer.add_param_group({'params': [own]})
        (loss_of(net, hvd.rank(), step) + own.sum()).backward()
        if step < 1:
            optimizer.step()
        else:
            checks.raises(ValueError, optimizer.step, 'rank 1 has no allreduce.noname.1.0',
                          'named_parameters')
    # One that nobody trains may be on one rank alone.
    own.requires_grad_(False)
    forget(net, optimizer)
    loss_of(net, hvd.rank(), step).backward()
    optimizer.step()
    agrees(net)


def check_parameters_in_another_order_on_each_rank():
    net = build()
    named = list(net.named_parameters())
    turned = named[hvd.rank():] + named[:hvd.rank()]
    optimizer = hvd.DistributedOptimizer(sgd([p for _, p in turned]), turned)
    for step in range(3):
        forget(net, optimizer)
        loss_of(net, hvd.rank(), step).backward()
        optimizer.step()
        agrees(net)


def check_a_layer_that_is_frozen_before_something_else_is_waited_for():
    """A wait sends what is complete, and with it what is new; frozen layers do not move."""
    net = build()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), groups=3)
    for step in range(4):
        net[1].requires_grad_(step < 2)
        forget(net, optimizer)
        before = net[1].weight.detach().clone()
        loss_of(net, hvd.rank(), step).backward()
        _handles.help_others()
        optimizer.step()
        agrees(net)
        assert torch.equal(before, net[1].weight) == (step >= 2), step


def check_an_optimizer_of_which_all_is_frozen_says_nothing_before_its_step():
    """Other ranks need not wait for anything meanwhile, and would be missed."""
    net = frozen_at_first()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()))
    if hvd.rank() == 0:
        before = list(_handles.table)
        _handles.help_others()
        assert list(_handles.table) == before
    hvd.barrier()
    del optimizer


def check_adasum_combines_frozen_layers_that_momentum_moves():
    net = build()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), op=hvd.Adasum)
    for step in range(4):
        net[0].requires_grad_(step < 2)
        for p in net.parameters():
            if p.grad is not None:  # as zero_grad() of PyTorch 1 does
                p.grad.zero_()
        loss_of(net, hvd.rank(), step).backward()
        optimizer.step()
        agrees(net)


def check_the_failure_of_an_agreement_is_told_to_all_who_ask():
    if hvd.rank() == 0:
        talk = Talk('failing', 0, {})
        for ask in (talk.wait, talk.advance, talk.wait):
            checks.raises(HorovodInternalError, ask, 'failing')
    else:
        checks.raises(HorovodInternalError, lambda: hvd.allreduce(
            torch.ones(5), name='failing', op=hvd.Max))


def check_adasum_combines_the_steps_of_what_is_trained_now():
    for change in CHANGES:
        run(change, True, op=hvd.Adasum)
    net = build()
    net[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), op=hvd.Adasum)
    for step in range(4):
        net[0].requires_grad_(step > hvd.rank())
        forget(net, optimizer)
        loss_of(net, hvd.rank(), step).backward()
        optimizer.step()
        agrees(net)


def check_parameters_that_come_while_a_rank_waits_for_something_else():
    """Rank 0 waits for what the others submit after their step only, from the first step on."""
    net = build()
    net[1].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()))
    for step in range(4):
        net[1].requires_grad_(step > 1)
        forget(net, optimizer)
        loss_of(net, hvd.rank(), step).backward()
        between = [lambda: hvd.allreduce(torch.ones(1), name='between'), optimizer.step]
        # What is new has to be told by step().
        for act in between if hvd.rank() == 0 and step != 2 else reversed(between):
            act()
        agrees(net)


def check_a_job_that_is_joined_again():
    net = build()
    net[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()))
    for step in range(3):
        if step == 1:
            hvd.shutdown()
            hvd.init()
            net[0].requires_grad_(True)
            if hvd.rank() == 0:  # as one that has come later
                optimizer = hvd.DistributedOptimizer(sgd(net.parameters()))
            hvd.broadcast_optimizer_state(optimizer, 1)
        forget(net, optimizer)
        loss_of(net, hvd.rank(), step).backward()
        optimizer.step()
        agrees(net)


def check_ranks_that_have_joined_leave_it_to_the_others():
    net = build()
    net[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()))
    for step in range(4 if hvd.rank() else 1):
        net[0].requires_grad_(step > 1)
        forget(net, optimizer)
        loss_of(net, 1, step).backward()
        optimizer.step()
    hvd.join()


# ---------------------------------------------------------------------------- sparse gradients

class Tables(nn.Module):
    """Two embeddings, and a table whose gradient is sparse in two of its three dimensions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Embedding(6, 2, sparse=True)
        self.two = nn.Embedding(5, 3, sparse=True)
        self.cube = nn.Parameter(torch.rand(3, 2, 4))
        self.line = nn.Linear(2, 1)

    def cells(self, places):
        """The sum of some lines of the cube, by a gradient of sparse_dim 2."""
        return _Cells.apply(self.cube, torch.tensor(places))


class _Cells(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cube, places):
        ctx.places, ctx.shape = places, cube.shape
        return cube[places[0], places[1]].sum()

    @staticmethod
    def backward(ctx, grad):
        values = grad.expand(ctx.places.shape[1], ctx.shape[2])
        return torch.sparse_coo_tensor(ctx.places, values, ctx.shape, **UNCHECKED), None


def plain(params):
    return torch.optim.SGD(params, lr=0.1)


def used(table, parts):
    """A loss to which a rank's part of `parts` belongs in each step. table: by step, rank."""
    def loss(model, rank, step):
        what = parts[table(rank, step)]
        found = model.line(torch.ones(1, 2) * (rank + step + 1)).sum()
        return found + sum(part(model, rank, step) for part in what)
    return loss


def one(model, rank, step):
    return model.one(torch.tensor([1, rank, 4])).pow(2).sum()


def two(model, rank, step):
    return model.two(torch.tensor([step % 5])).sum() * (rank + 1)


def cube(model, rank, step):
    return model.cells([[0, 2], [1, step % 2]]) * (rank + 2)


def whole(model, rank, step):
    """The first table as a matrix, as where an embedding is the last layer as well."""
    return model.one.weight.pow(2).sum() * 0.1


#: Which of the parts a rank uses, by its number and the step.
TABLES = {
    'rank 0 from the first step on': lambda rank, step: rank != 0,
    'rank 1 from the first step on': lambda rank, step: rank == 0,
    'all at first, then rank 0': lambda rank, step: rank != 0 and step > 0,
    'nobody at first, then rank 1': lambda rank, step: rank == 0 or step < 2,
    'in turns': lambda rank, step: (rank + step) % 2,
}


def check_sparse_gradients_that_some_ranks_lack():
    cases = [((one,), ()), ((one, two), ()), ((one,), (two,)), ((cube,), ()),
             ((one, cube), (two, cube)), ((one,), (whole,)), ((whole, one), (one,))]
    for parts in cases:
        for title, table in TABLES.items():
            for options in ({}, {'sparse_as_dense': True}, {'groups': 2}):
                try:
                    equal(lambda *_: None, make=plain, model=Tables, steps=4,
                          loss=used(table, parts), **options)
                except BaseException:
                    print(title, [[p.__name__ for p in part] for part in parts], options)
                    raise
    equal(lambda *_: None, make=plain, model=Tables, passes=2,
          loss=used(TABLES['in turns'], ((one, two), (cube,))))


def check_what_step_gets_where_a_gradient_is_missing():
    """Sparse gradients where a rank has such ones; zeros where none has any."""
    for as_dense in (False, True):
        model = Tables()
        optimizer = hvd.DistributedOptimizer(plain(model.parameters()), model.named_parameters(),
                                             sparse_as_dense=as_dense)
        forget(model, optimizer)
        loss = model.line(torch.ones(1, 2)).sum()
        if hvd.rank() == 0:
            loss = loss + one(model, 0, 0) + cube(model, 0, 0)
        loss.backward()
        optimizer.step()
        assert model.one.weight.grad.is_sparse and model.one.weight.grad.sparse_dim() == 1
        assert model.cube.grad.sparse_dim() == 2
        assert torch.equal(model.two.weight.grad, torch.zeros(5, 3))


def check_optimizers_that_take_sparse_gradients_only():
    for as_dense in (False, True):
        for title, table in TABLES.items():
            torch.manual_seed(0)
            model = nn.Embedding(6, 2, sparse=True)
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SparseAdam(list(model.parameters()), 0.1), sparse_as_dense=as_dense)
            for step in range(4):
                forget(model, optimizer)
                if not table(hvd.rank(), step):
                    model(torch.tensor([hvd.rank(), 5])).sum().backward()
                optimizer.step()
                agrees(model)


def check_steps_in_which_no_rank_has_a_sparse_gradient():
    for make in (lambda params: torch.optim.SparseAdam(params, 0.1),
                 lambda params: torch.optim.Adagrad(params, 0.1),
                 lambda params: torch.optim.SGD(params, 0.1, momentum=0.5)):
        for as_dense in (False, True):
            torch.manual_seed(0)
            model = nn.Embedding(6, 2, sparse=True)
            optimizer = hvd.DistributedOptimizer(make(list(model.parameters())),
                                                 sparse_as_dense=as_dense)
            for step in range(4):
                forget(model, optimizer)
                before = model.weight.detach().clone()
                if step % 2 == 0:
                    model(torch.tensor([hvd.rank(), 5])).sum().backward()
                optimizer.step()
                agrees(model)
                assert torch.equal(before, model.weight) == (step % 2 == 1), (step, optimizer)


# ---------------------------------------------------------------------------- schedulers

def check_a_scheduler_that_was_made_before_the_wrapping():
    for op in (hvd.Average, hvd.Adasum):
        for load in (False, True):
            model = build()
            optimizer = sgd(model.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
            optimizer = hvd.DistributedOptimizer(optimizer, op=op)
            if load:  # the ranks but one load a state then
                hvd.broadcast_optimizer_state(optimizer, 0)
            with warnings.catch_warnings():
                warnings.simplefilter('error')
                for step in range(3):
                    optimizer.zero_grad()
                    loss_of(model, hvd.rank(), step).backward()
                    optimizer.step()
                    scheduler.step()
            assert [group['lr'] for group in optimizer.param_groups] == [0.0125], load
            agrees(model)


def check_a_scheduler_that_comes_too_early_is_told():
    model = build()
    optimizer = sgd(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer = hvd.DistributedOptimizer(optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        scheduler.step()
    assert any('before `optimizer.step()`' in str(w.message) for w in caught), caught


# ---------------------------------------------------------------------------- too many passes

def check_what_helps_where_a_gradient_comes_twice():
    def trained(net):
        return hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())

    # A GAN: the generator's loss goes through the other network.
    makes, judges = nn.Linear(3, 3), nn.Linear(3, 1)
    hvd.broadcast_parameters(makes.state_dict(), 0)
    hvd.broadcast_parameters(judges.state_dict(), 0)
    ours, theirs = trained(makes), trained(judges)
    judges(makes(torch.ones(1, 3))).sum().backward()
    ours.step()
    checks.raises(AssertionError, theirs.zero_grad, 'race condition', 'requires_grad_(False)',
                  'the gradient of weight')
    error = checks.raises(AssertionError, judges(torch.ones(1, 3)).sum().backward,
                          'Increase backward_passes_per_step', 'requires_grad_(False)',
                          'for their sum', 'use_reentrant=False')
    assert any(f'the gradient of {name}.' in str(error) for name in ('weight', 'bias')), error
    theirs.step()
    for step in range(3):
        ours.zero_grad()
        judges.requires_grad_(False)
        judges(makes(torch.ones(1, 3) * hvd.rank())).sum().backward()
        judges.requires_grad_(True)
        ours.step()
        theirs.zero_grad()
        (judges(makes(torch.ones(1, 3)).detach()) - judges(torch.ones(1, 3))).sum().backward()
        theirs.step()
    agrees(makes)
    agrees(judges)
    # A checkpoint of a module that is used twice.
    from torch.utils.checkpoint import checkpoint
    for reentrant in (True, False):
        net = build()
        optimizer = trained(net)
        rows = torch.ones(2, 4, requires_grad=True)
        twice = checkpoint(net[1], checkpoint(net[1], rows, use_reentrant=reentrant),
                           use_reentrant=reentrant)
        if reentrant:
            checks.raises(AssertionError, twice.sum().backward, 'use_reentrant=False',
                          'the gradient of 1.')
            optimizer.step()
        else:
            twice.sum().backward()
            optimizer.step()


if __name__ == '__main__':
    if len(sys.argv) > 1:
        os.environ['REIGEN_OVERLAP'] = sys.argv[1]
    hvd.init()
    torch.set_num_threads(1)
    checks.run(sys.modules[__name__])
    hvd.shutdown()
