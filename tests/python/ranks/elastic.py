# SPDX-License-Identifier: Apache-2.0
"""Elastic states, samplers and the loop around them; data loaders and helpers of horovod.common."""
import os
import sys

import torch
from torch.utils.data import DataLoader

import checks
import horovod.torch as hvd
from horovod.common import elastic, util
from horovod.common.elastic import HostUpdateResult, notification_manager
from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader
from horovod.torch.elastic import state as states


def filled(value):
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def check_state_is_synchronised_committed_and_restored():
    model = filled(1.0 + hvd.rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 + hvd.rank(), momentum=0.9)
    state = hvd.elastic.TorchState(model, optimizer, batch=20 + hvd.rank(), seen=[hvd.rank()])
    assert state.model is model and state.optimizer is optimizer
    state.sync()
    assert model.weight.eq(1).all() and optimizer.param_groups[0]['lr'] == 0.5
    assert (state.batch, state.seen) == (20, [0])

    def spoil():
        state.batch = 21
        state.seen.append(7)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    spoil()
    state.restore()
    assert model.weight.eq(1).all() and (state.batch, state.seen) == (20, [0])
    assert not optimizer.state_dict()['state']
    spoil()
    kept = model.weight.detach().clone()
    state.commit()
    spoil()
    state.restore()
    assert model.weight.equal(kept) and (state.batch, state.seen) == (21, [0, 7])
    momentum = next(iter(optimizer.state_dict()['state'].values()))['momentum_buffer']
    assert momentum.eq(2).all()  # the gradients of two passes
    state.model = filled(5.0)
    spoil()
    state.restore()
    assert state.model.weight.eq(5).all()
    none = hvd.elastic.TorchState(epoch=1)
    assert none.model is None and none.optimizer is None and none.epoch == 1


def check_a_scheduler_stays_with_its_own_optimizer():
    net = filled(1.0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** step)
    state = hvd.elastic.TorchState(net, optimizer, scheduler=scheduler, epoch=0)

    def passes(count):
        for _ in range(count):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            state.scheduler.step()
    passes(1)
    if hvd.rank() != 0:
        scheduler.step()  # no operation of all ranks is in it
    state.sync()
    assert state.scheduler is scheduler and scheduler.optimizer is optimizer
    assert scheduler.last_epoch == 1 and optimizer.param_groups[0]['lr'] == 0.5
    passes(2)
    assert optimizer.param_groups[0]['lr'] == 0.125  # on each rank
    state.restore()
    assert scheduler.last_epoch == 1 and optimizer.param_groups[0]['lr'] == 0.5
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=hvd.rank() + 1)
    hvd.elastic.TorchState(plateau=plateau).sync()
    assert plateau.patience == 1 and plateau.optimizer is optimizer


def check_handlers_can_be_registered():
    class Thing:
        value = 1

    class Handler(states.StateHandler):
        def save(self):
            self.kept = self.value.value

        def restore(self):
            self.value.value = self.kept

        def sync(self):
            self.value.value = hvd.broadcast_object(self.value.value)

    before = states.get_handler_registry()
    states.set_handler_registry(before + [(Thing, Handler)])
    try:
        thing = Thing()
        state = hvd.elastic.TorchState(thing=thing)
    finally:
        states.set_handler_registry(before)
    thing.value = 2 + hvd.rank()
    state.sync()
    assert thing.value == 2 and state.thing is thing
    state.save()
    thing.value = 9
    state.restore()
    assert thing.value == 2


def check_sampler_shares_out_what_is_left():
    n = hvd.size()
    data = list(range(8 * n + 1))
    sampler = hvd.elastic.ElasticSampler(data)
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    state = hvd.elastic.TorchState(sampler=sampler)
    state.sync()
    mine = list(sampler)
    everyones = [i for part in hvd.allgather_object(mine) for i in part]
    assert set(everyones) == set(data) and len(everyones) == 9 * n and len(sampler) == 9
    for number, _ in enumerate(loader):
        sampler.record_batch(number, 2)
        if number == 1:
            break
    assert sampler.processed_num == 4 * n
    state.commit()
    sampler.record_batch(2, 2)
    state.restore()
    assert sampler.processed_num == 4 * n and sampler.state_dict() == {'epoch': 0,
                                                                       'processed_num': 4 * n}
    left = {i for part in hvd.allgather_object(list(sampler)) for i in part}
    used = {i for part in hvd.allgather_object(mine[:4]) for i in part}
    assert left == set(data) - used
    sampler.set_epoch(1)
    assert len(sampler) == 9 and sampler.processed_num == 0 and list(sampler) != mine
    plain = hvd.elastic.ElasticSampler(data, shuffle=False)
    assert list(plain)[:2] == [hvd.rank(), hvd.rank() + n]


def check_a_failure_restores_and_goes_on():
    calls, resets = [], []
    state = hvd.elastic.TorchState(filled(0.0), batch=0)
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state, last, name='?'):
        calls.append(state.batch)
        while state.batch < last:
            if state.batch == 4 and len(calls) == 1 and hvd.rank() == hvd.size() - 1:
                # As if a rank had died: the others hear of it from the runtime.
                raise hvd.HorovodInternalError('lost')
            total = hvd.allreduce(torch.ones(2), op=hvd.Sum, name='batch')
            with torch.no_grad():
                state.model.weight += total[0] / hvd.size()
            state.batch += 1
            if state.batch % 2 == 0 and state.batch != 4:
                state.commit()
        return name
    assert train(state, 8, name='done') == 'done'
    assert calls == [0, 2] and resets == [hvd.size()], (calls, resets)
    assert state.model.weight.eq(8).all() and state.batch == 8


def check_new_hosts_interrupt_all_ranks_at_a_commit():
    calls = []
    state = hvd.elastic.TorchState(batch=0)

    @hvd.elastic.run
    def train(state):
        calls.append(state.batch)
        while state.batch < 4:
            state.batch += 1
            if state.batch == 2 and hvd.rank() == 0:
                notification_manager.handle_hosts_updated(1, HostUpdateResult.added)
            state.commit()
    train(state)
    assert calls == [0, 2] and state.batch == 4
    state.on_hosts_updated(7, HostUpdateResult.removed)
    error = checks.raises(hvd.HostsUpdatedInterrupt, state.check_host_updates)
    assert error.skip_sync
    state.check_host_updates()


def check_errors_that_would_come_again_are_raised():
    state = hvd.elastic.TorchState(batch=0)

    @hvd.elastic.run
    def train(state):
        hvd.alltoall(torch.ones(4), splits=[[1]])
    checks.raises(ValueError, lambda: train(state))
    checks.raises(NotImplementedError, elastic.State(None, None).save, 'State')


# ---------------------------------------------------------------------------- data and helpers

class Numbers(BaseDataLoader):
    def __init__(self, count, fail_at=None):
        self.count, self.fail_at = count, fail_at

    def __len__(self):
        return self.count

    def _iterate(self):
        for n in range(self.count):
            if n == self.fail_at:
                self.fail_at = None
                raise KeyError('broken')
            yield n

    def _process_batch(self, batch):
        return batch * 10


class AsyncNumbers(AsyncDataLoaderMixin, Numbers):
    pass


def check_data_loaders():
    expected = [n * 10 for n in range(50)]
    assert list(Numbers(50)) == expected
    for size in (0, 3, 100):
        loader = AsyncNumbers(async_loader_queue_size=size, count=50)
        assert list(loader) == expected and list(loader) == expected and len(loader) == 50
        next(iter(loader))
        loader.close_async_loader()
        assert size == 0 or not loader.thread.is_alive()
    broken = AsyncNumbers(4, False, 50, fail_at=5)
    checks.raises(KeyError, lambda: list(broken), 'broken')
    assert list(broken) == expected
    broken.close_async_loader()
    checks.raises(NotImplementedError, lambda: list(BaseDataLoader()), 'BaseDataLoader')


def check_helpers():
    assert util.EXTENSIONS == ['tensorflow', 'torch', 'mxnet']
    assert util.split_list(list(range(5)), 2) == [[0, 1, 2], [3, 4]]
    assert util.num_rank_is_power_2(8) and not util.num_rank_is_power_2(6)
    assert util.is_iterable('x') and not util.is_iterable(7)
    with util.env(REIGEN_TEST_A='1', REIGEN_TEST_B=None):
        assert os.environ['REIGEN_TEST_A'] == '1' and 'REIGEN_TEST_B' not in os.environ
    assert 'REIGEN_TEST_A' not in os.environ
    newer = util.is_version_greater_equal_than
    assert newer('2.10.0', '2.9.1') and newer('2.9', '2.9.0') and not newer('2.9.0rc1', '2.9.0')
    assert newer('2.1.0+cpu', '2.1.0')
    checks.raises(ValueError, lambda: newer('2.9.0', '2.9'), 'major.minor.patch')
    checks.raises(ValueError, lambda: newer(2, '2.9.0'), 'strings')
    util.check_extension('horovod.torch', 'HOROVOD_WITH_PYTORCH', __file__, 'mpi_lib_v2')
    checks.raises(ImportError, lambda: util.check_extension('horovod.mxnet'), 'MXNet')
    assert not util.extension_available('mxnet')
    assert util.get_extension_full_path('/a/b.py', 'c', 'd').startswith('/a/c/d.')
    util.check_installed_version('torch', torch.__version__)
    choose = util.get_average_backwards_compatibility_fun(hvd)
    assert choose(None, None) == hvd.Average and choose(hvd.Max, None) == hvd.Max


if __name__ == '__main__':
    hvd.init()
    torch.set_num_threads(1)
    checks.run(sys.modules[__name__])
    hvd.shutdown()
