# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backends reigen and gloo of the current PyTorch, and `hvd` on the same
work: all_reduce of many sizes, and training steps.

usage: distributed.py [--np 2,4] [--python PYTHON] [--rounds N] [--sizes BYTES,...] [--models NAMES]
                      [--out FILE]

`make bench` runs it too, and writes the same tables to docs/benchmarks.md. All contenders take
turns in the same processes, round by round, so that what else the machine does meets all of them. A
round is a number of operations of one size that are waited for one by one; its figure is the time
of one. Printed are the medians over the rounds of rank 0. Ratios are medians of each round's own.

"front" is torch.distributed's all_reduce on a group in Python that does nothing, or a step of
DistributedDataParallel whose hook does nothing: what PyTorch takes by itself. A step is that of
bench/training.py, by DistributedDataParallel over either backend, and by hvd.DistributedOptimizer.
"alone" is the step of one rank, while the others sleep.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import report_distributed

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / 'build/envs/torch2/bin/python'
SIZES = '4,1024,16384,65536,1048576,16777216,67108864'
MODELS = 'mlp,conv,big,deep'
#: What one round is to take, about.
ROUND_S = 0.05
SECONDS_MAX = 600


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--np', default='2,4')
    parser.add_argument('--python', default=str(PYTHON))
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--sizes', default=SIZES)
    parser.add_argument('--models', default=MODELS)
    parser.add_argument('--out')
    parser.add_argument('--rank', action='store_true', help=argparse.SUPPRESS)
    return parser.parse_args()


# ---------------------------------------------------------------------------- in a rank

def timed(call, count):
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def front_group(dist):
    """A group whose all_reduce does nothing, called by torch.distributed as reigen's is."""
    class Nothing(dist.ProcessGroup):
        def allreduce(self, tensors, opts=None):
            return None
    return Nothing(dist.get_rank(), dist.get_world_size())


def front_call(torch, dist):
    """torch.distributed.all_reduce without the default group's work."""
    c10d = dist.distributed_c10d
    front = front_group(dist)
    c10d._world.pg_group_ranks[front] = dict(enumerate(range(dist.get_world_size())))
    return lambda t: dist.all_reduce(t, group=front)


def allreduces(sizes, rounds, contenders, torch, dist):
    """{bytes: {contender: [seconds of each round]}}"""
    found = {}
    for nbytes in sizes:
        tensors = {name: torch.zeros(max(nbytes // 4, 1)) for name in contenders}
        calls = {name: (lambda run=run, t=tensors[name]: run(t))
                 for name, run in contenders.items()}
        for call in calls.values():
            timed(call, 70 if nbytes < 1 << 20 else 3)  # names come round, memory is touched
        slowest = torch.tensor([max(timed(call, 3) for call in calls.values())])
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        count = int(min(max(ROUND_S / slowest.item(), 3), 2000))
        times = found[nbytes] = {name: [] for name in calls}
        for turn in range(rounds):
            for name in list(calls)[::1 if turn % 2 else -1]:
                dist.barrier()
                times[name].append(timed(calls[name], count))
    return found


class Trainer:
    """A model of bench/training.py and its optimizer, for one contender."""

    def __init__(self, make, shape, torch):
        self.torch = torch
        torch.manual_seed(0)
        self.model = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3, momentum=0.9)
        self.batch, self.label = torch.randn(shape), torch.randint(0, 10, shape[:1])

    def step(self):
        self.optimizer.zero_grad()
        output = self.model(self.batch)
        self.torch.nn.functional.cross_entropy(output, self.label).backward()
        self.optimizer.step()


def trainers(name, gloo, hvd, torch):
    sys.path.insert(0, str(ROOT / 'bench'))
    import training
    make, shape = training.MODELS[name]
    made = {n: Trainer(make, shape, torch) for n in ('alone', 'reigen', 'gloo', 'hvd', 'front')}
    for backend, group in (('reigen', None), ('gloo', gloo), ('front', None)):
        made[backend].model = torch.nn.parallel.DistributedDataParallel(made[backend].model,
                                                                        process_group=group)
    from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    made['front'].model.register_comm_hook(None, noop_hook)
    ours = made['hvd']
    ours.optimizer = hvd.DistributedOptimizer(ours.optimizer,
                                              named_parameters=ours.model.named_parameters())
    return made


def steps(names, rounds, gloo, hvd, torch, dist):
    """{model: {contender or 'alone': [seconds of a step]}}"""
    found = {}
    for name in names:
        made = trainers(name, gloo, hvd, torch)
        times = found[name] = {n: [] for n in made}
        for turn in range(rounds + 2):
            for n in list(made)[::1 if turn % 2 else -1]:
                dist.barrier(group=gloo)  # it sleeps
                if n == 'alone' and dist.get_rank():
                    continue
                took = timed(made[n].step, 4)
                if turn > 1:
                    times[n].append(took)
        dist.barrier(group=gloo)
    return found


def rank_main(options):
    import torch
    import torch.distributed as dist
    import reigen.distributed  # the backend's name, where the package is not installed
    assert reigen.distributed
    torch.set_num_threads(1)
    dist.init_process_group('reigen')
    import horovod.torch as hvd
    hvd.init()
    gloo = dist.new_group(backend='gloo')
    contenders = {
        'reigen': dist.all_reduce,
        'gloo': lambda t: dist.all_reduce(t, group=gloo),
        'hvd': lambda t: hvd.allreduce_(t, op=hvd.Sum),
        'front': front_call(torch, dist),
    }
    sizes = [int(size) for size in options.sizes.split(',') if size]
    found = {'allreduce': allreduces(sizes, options.rounds, contenders, torch, dist),
             'steps': steps([m for m in options.models.split(',') if m], options.rounds, gloo, hvd,
                            torch, dist),
             'torch': torch.__version__, 'np': dist.get_world_size()}
    if dist.get_rank() == 0:
        print(json.dumps(found))
    hvd.shutdown()
    dist.destroy_process_group()


# ---------------------------------------------------------------------------- around the ranks

def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def measure(np, argv, python=PYTHON):
    """What np ranks find, by the arguments of rank_main; None when one of them fails."""
    path = [str(ROOT / 'bindings/python'), *filter(None, [os.environ.get('PYTHONPATH')])]
    env = {**os.environ, 'OMP_NUM_THREADS': '1', 'MASTER_ADDR': '127.0.0.1', 'WORLD_SIZE': str(np),
           'MASTER_PORT': str(free_port()), 'GLOO_SOCKET_IFNAME': 'lo',
           'PYTHONPATH': ':'.join(path)}
    ranks = [subprocess.Popen([str(python), __file__, '--rank', *argv],
                              env={**env, 'RANK': str(rank), 'LOCAL_RANK': str(rank)},
                              stdout=subprocess.PIPE, text=True) for rank in range(np)]
    deadline = time.monotonic() + SECONDS_MAX
    try:
        outputs = [r.communicate(timeout=max(deadline - time.monotonic(), 1))[0] for r in ranks]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    if any(rank.returncode for rank in ranks):
        return None
    found = json.loads(outputs[0])
    # The ratios of rounds, and medians: all that a report needs.
    found['allreduce'] = {int(n): condense(times) for n, times in found['allreduce'].items()}
    found['steps'] = {name: condense(times) for name, times in found['steps'].items()}
    return found


def condense(times):
    """The median in microseconds of each contender, and reigen's ratio to the others."""
    found = {'us': {n: statistics.median(t) * 1e6 for n, t in times.items()}}
    for other in ('gloo', 'hvd'):
        found[other] = statistics.median(a / b for a, b in zip(times['reigen'], times[other]))
    return found


def main():
    options = arguments()
    if options.rank:
        rank_main(options)
        return 0
    argv = ['--rounds', str(options.rounds), '--sizes', options.sizes, '--models', options.models]
    everything = [measure(int(np), argv, options.python) for np in options.np.split(',')]
    print('\n'.join(report_distributed.page([f for f in everything if f])))
    if options.out:
        Path(options.out).write_text(json.dumps(everything, indent=1))
    return 0 if all(everything) else 1


if __name__ == '__main__':
    sys.exit(main())
