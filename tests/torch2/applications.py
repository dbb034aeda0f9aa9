# SPDX-License-Identifier: Apache-2.0
"""Libraries that train by Horovod, on two ranks: each trains a model, and both ranks end with the
same. One job: each library leaves it, and the next one joins it again."""
import torch

import horovod.torch as hvd


def data():
    """Points of a line with noise: x, y."""
    torch.manual_seed(7)
    x = torch.randn(64, 1)
    return x, 3 * x + 1 + 0.01 * torch.randn(64, 1)


def same(values):
    """Whether both ranks have the same numbers."""
    both = hvd.allgather(torch.cat([value.detach().reshape(-1) for value in values])[None])
    return len(both) == 2 and bool((both[0] == both[1]).all())


def ignite_trains(local_rank, epochs):
    """What idist.Parallel calls: each rank begins with its own model, and has its share of x."""
    import ignite.distributed as idist
    from ignite.engine import Engine, Events
    from ignite.metrics import MeanSquaredError

    assert (idist.backend(), idist.get_world_size()) == ('horovod', 2)
    assert local_rank == idist.get_local_rank() == hvd.local_rank()
    loader = idist.auto_dataloader(torch.utils.data.TensorDataset(*data()), batch_size=16)
    assert len(loader) == 4  # of 64 points half are its own, and so is half of each batch
    torch.manual_seed(local_rank)
    model = idist.auto_model(torch.nn.Linear(1, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))

    def step(engine, batch):
        optimizer.zero_grad()
        x, y = batch
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return model(x).detach(), y
    trainer, metric, seen = Engine(step), MeanSquaredError(), []
    metric.attach(trainer, 'error')
    trainer.add_event_handler(Events.EPOCH_COMPLETED,
                              lambda engine: seen.append(engine.state.metrics['error']))
    trainer.run(loader, max_epochs=epochs)
    assert idist.all_reduce(hvd.rank() + 1, op='MAX') == 2 and idist.all_gather('x') == ['x', 'x']
    assert idist.broadcast(str(hvd.rank()), src=1) == '1'
    idist.barrier()
    assert seen[-1] < seen[0] / 10 and idist.all_gather(seen[-1]) == [seen[-1]] * 2
    assert same(model.parameters())


def ignite():
    import ignite.distributed as idist
    with idist.Parallel(backend='horovod') as parallel:
        parallel.run(ignite_trains, 10)


def pyro():
    import pyro
    from pyro import distributions
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal
    from pyro.optim import Adam, HorovodOptimizer

    x, y = data()

    def model(x, y):
        slope = pyro.sample('slope', distributions.Normal(0, 10))
        with pyro.plate('data', 64, len(x)):
            pyro.sample('seen', distributions.Normal(slope * x + 1, 0.1), obs=y)
    hvd.init()
    pyro.set_rng_seed(hvd.rank())
    guide = AutoNormal(model)
    mine = slice(hvd.rank(), None, 2)
    x, y = x[mine, 0], y[mine, 0]
    guide(x, y)
    hvd.broadcast_parameters(guide.state_dict(), root_rank=0)
    steps = SVI(model, guide, HorovodOptimizer(Adam({'lr': 0.2})), Trace_ELBO())
    for _ in range(40):
        loss = hvd.allreduce(torch.tensor(steps.step(x, y)), 'loss')  # Pyro's own example does so
    assert torch.isfinite(loss) and abs(guide.median(x, y)['slope'] - 3) < 0.5
    assert same(pyro.get_param_store().values())
    hvd.shutdown()


for library in (ignite, pyro):
    library()
    print(f'{library.__name__} trained the same on both ranks', flush=True)
