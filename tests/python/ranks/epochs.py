# SPDX-License-Identifier: Apache-2.0
"""Ranks of an elastic job; ../epochs.py plays its launcher. The first argument says what they do,
the second names a file: when it is there rank 0 ends the work for all."""
import os
import signal
import sys
import threading

import torch

import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.common.preemption import notice
from horovod.torch.elastic import state as states

STOP = sys.argv[2] if len(sys.argv) > 2 else ''


def number():
    return int(os.environ.get('REIGEN_EPOCH', 0))


def stops():
    """Rank 0's word, for all."""
    there = torch.tensor([float(hvd.rank() == 0 and os.path.exists(STOP))])
    return bool(hvd.allreduce(there, op=hvd.Sum, name='stops')[0])


def say(*words):
    print(*words, flush=True)


def check_environment():
    for name, value in [('RANK', hvd.rank()), ('WORLD_SIZE', hvd.size()),
                        ('LOCAL_RANK', hvd.local_rank()), ('LOCAL_WORLD_SIZE', hvd.local_size()),
                        ('HOROVOD_RANK', hvd.rank()), ('HOROVOD_SIZE', hvd.size()),
                        ('REIGEN_RANK', hvd.rank()), ('REIGEN_SIZE', hvd.size())]:
        assert os.environ[name] == str(value), (name, os.environ[name], value)


def train():
    """A model that learns one line from rows that all ranks share out; a step's loss is that of all
    ranks together, before the step, so it does not depend on how many there are."""
    hvd.init()
    torch.manual_seed(hvd.rank())
    torch.set_num_threads(1)
    rows = torch.linspace(-1, 1, 24).reshape(-1, 1)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    # What scripts do before they begin, those that come later too, when the others are at work.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert hvd.broadcast_object({'a': 1}, root_rank=0) == {'a': 1}
    hvd.allreduce(torch.ones(2))
    hvd.barrier()
    state = hvd.elastic.TorchState(model, optimizer, step=0, losses=[])
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def loop(state):
        check_environment()
        say('epoch', number(), 'rank', hvd.rank(), 'size', hvd.size(), 'from', state.step)
        while not stops():
            mine = rows[hvd.rank()::hvd.size()]
            optimizer.zero_grad()
            loss = ((model(mine) - 3 * mine - 1) ** 2).sum() / len(rows)
            loss.backward()
            handles = [hvd.allreduce_async_(p.grad, op=hvd.Sum, name=name)
                       for name, p in model.named_parameters()]
            whole = hvd.allreduce(loss.detach(), op=hvd.Sum, name='loss')
            for handle in handles:
                hvd.synchronize(handle)
            optimizer.step()
            state.losses.append(float(whole))
            state.step += 1
            say('epoch', number(), 'step', state.step)
            if state.step % 3 == 0:
                state.commit()
        return state.losses
    losses = loop(state)
    assert len(losses) == state.step
    check_curve(losses)
    say('resets', resets, 'steps', state.step, 'done')


def check_curve(losses):
    """As undisturbed, by one process from what rank 0 began with: every step once."""
    torch.manual_seed(0)
    rows = torch.linspace(-1, 1, 24).reshape(-1, 1)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for step, expected in enumerate(losses):
        optimizer.zero_grad()
        loss = ((model(rows) - 3 * rows - 1) ** 2).sum() / len(rows)
        assert abs(float(loss) - expected) < 1e-4 + 1e-3 * abs(expected), (step, loss, expected)
        loss.backward()
        optimizer.step()


def sets():
    """Two process sets, of which one is registered by init, and the other one afterwards."""
    static, dynamic = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 2])
    hvd.init(process_sets=[static])
    hvd.add_process_set(dynamic)
    state = hvd.elastic.TorchState(step=0)

    @hvd.elastic.run
    def loop(state):
        say('epoch', number(), 'rank', hvd.rank(), 'of', hvd.size(), 'static', static.ranks,
            'dynamic', dynamic.ranks)
        while not stops():
            for each in (static, dynamic):
                if each.ranks and each.included():
                    found = hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=each)
                    assert found[0] == len(each.ranks) == each.size(), (each, found)
            state.step += 1
            say('epoch', number(), 'step', state.step)
            state.commit()
    loop(state)
    hvd.shutdown()
    say('done')


def saving():
    """Steps until the job is told to stop; the saves are told of. Without SAVERS all ranks save.
    With CHILD there is a forked one, as a data loader has them."""
    hvd.init()
    state = hvd.elastic.TorchState(step=0)

    def save():
        say('saved at', state.step)
        if 'BROKEN' in os.environ:
            raise HorovodInternalError('no peer')
    if str(hvd.rank()) in os.environ.get('SAVERS', '0123'):
        state.register_preemption_callbacks([save])

    child = os.fork() if 'CHILD' in os.environ else 0
    while 'CHILD' in os.environ and not child:
        signal.pause()

    @hvd.elastic.run
    def loop(state):
        if child:
            say('child', child)
            say('ended by', os.WTERMSIG(os.waitpid(child, 0)[1]))
        while not stops():
            state.step += 1
            say('epoch', number(), 'step', state.step)
            if 'LAST' in os.environ:  # it is signalled now, and ends without a commit
                while not notice._held:
                    signal.sigtimedwait([], 0.01)
                return
            state.commit()
    loop(state)
    say('after the end')


def unsendable():
    hvd.init()
    hvd.elastic.run(lambda state: None)(hvd.elastic.TorchState(step=0, lock=threading.Lock()))


def half():
    """Rank 0 dies when a part of its state has been sent: the other one has what it had."""
    hvd.init()
    model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(float(hvd.rank()))

    class Dying(states.StateHandler):
        def save(self):
            pass

        def restore(self):
            say('restored to', float(model.weight))

        def sync(self):
            if number() == 1:
                assert float(model.weight) == 0  # rank 0's
                hvd.barrier()
                if hvd.rank() == 0:
                    os.kill(os.getpid(), 9)
                hvd.barrier()

    states.set_handler_registry(states.get_handler_registry() + [(str, Dying)])
    state = hvd.elastic.TorchState(net=model, last='last')

    @hvd.elastic.run
    def loop(state):
        assert float(model.weight) == 1, model.weight
        while not stops():
            state.commit()
    loop(state)


def swallow():
    """A loop that catches an error, and goes on as if nothing had been: it gets the next one."""
    hvd.init()
    state = hvd.elastic.TorchState(step=0)
    swallowed = []

    @hvd.elastic.run
    def loop(state):
        say('epoch', number(), 'size', hvd.size())
        while True:
            try:
                if stops():
                    return
                state.step += 1
                state.commit()
            except Exception as error:
                if swallowed:
                    raise
                swallowed.append(error)
                say('swallowed', error)
    loop(state)


if __name__ == '__main__':
    globals()[sys.argv[1]]()
