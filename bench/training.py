# SPDX-License-Identifier: Apache-2.0
"""Training steps of four small models, for every contender: alone, under `import horovod.torch`
(Reigen's or Horovod's own, as PYTHONPATH has it) and under torch's DistributedDataParallel.

usage: training.py --mode single|hvd|ddp --out FILE [--models NAME,...] [--budget-ms N]

Each rank has a batch of its own, of the same size as a single process's: an ideal job's step takes
as long as a single process's. A step is zero_grad, forward, backward and step of SGD with momentum.
Rank 0 writes one line of JSON for each model: the median and 10th percentile of its steps.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

WARM, STEPS_MIN, STEPS_MAX = 8, 20, 400


def linear_stack(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv_net():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(),
                         nn.Linear(128, 10))


#: name: (what makes the model, the shape of a batch)
MODELS = {
    'mlp': (lambda: linear_stack(784, 512, 512, 10), (56, 784)),
    'conv': (conv_net, (39, 1, 28, 28)),
    'big': (lambda: linear_stack(1024, 2048, 2048, 1024, 10), (7, 1024)),
    'deep': (lambda: linear_stack(64, *[128] * 50, 10), (32, 64)),
}


class Single:
    rank, size = 0, 1

    def wrap(self, model, optimizer):
        return model, optimizer

    def agree(self, value):
        return value

    def end(self):
        pass


class Hvd(Single):
    def __init__(self):
        import horovod.torch as hvd
        self.hvd = hvd
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()

    def wrap(self, model, optimizer):
        self.hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        self.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        return model, self.hvd.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters())

    def agree(self, value):
        return int(self.hvd.broadcast(torch.tensor([value]), root_rank=0, name='agree')[0])

    def end(self):
        self.hvd.shutdown()


class Ddp(Single):
    def __init__(self):
        import torch.distributed as dist
        self.dist = dist
        dist.init_process_group('gloo')
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def wrap(self, model, optimizer):
        return nn.parallel.DistributedDataParallel(model), optimizer

    def agree(self, value):
        tensor = torch.tensor([value])
        self.dist.broadcast(tensor, 0)
        return int(tensor[0])

    def end(self):
        self.dist.destroy_process_group()


def measure(contender, name, budget_ms):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    model, optimizer = contender.wrap(
        model, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9))
    torch.manual_seed(contender.rank)
    data, target = torch.randn(*shape), torch.randint(10, shape[:1])

    def step():
        start = time.perf_counter_ns()
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
        return time.perf_counter_ns() - start

    warm = sorted(step() for _ in range(WARM))
    count = int(min(STEPS_MAX, max(STEPS_MIN, budget_ms * 1e6 / warm[WARM // 2])))
    count = contender.agree(count)
    started, busy = time.perf_counter(), time.process_time()
    times = sorted(step() for _ in range(count))
    elapsed, busy = time.perf_counter() - started, time.process_time() - busy
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    return {'series': 'training', 'pattern': name, 'runs': count,
            'median_us': times[count // 2] / 1e3, 'p10_us': times[count // 10] / 1e3,
            'mean_us': elapsed / count * 1e6, 'cpu_us': busy / count * 1e6}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--mode', choices=('single', 'hvd', 'ddp'), required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--models', default=','.join(MODELS))
    parser.add_argument('--budget-ms', type=int, default=1000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    contender = {'single': Single, 'hvd': Hvd, 'ddp': Ddp}[args.mode]()
    results = [measure(contender, name, args.budget_ms) for name in args.models.split(',')]
    if contender.rank == 0:
        with open(args.out, 'w', encoding='utf-8') as out:
            out.writelines(json.dumps(result) + '\n' for result in results)
    contender.end()


if __name__ == '__main__':
    main()
