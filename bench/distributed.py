# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's all_reduce over the backends reigen and gloo of one PyTorch, and `hvd` on the
same work; and the steps of DistributedDataParallel over both.

usage: distributed.py [--np 2,4] [--python PYTHON] [--rounds N] [--sizes BYTES,...] [--models NAMES]
                      [--out FILE]

Every rank has a group of each backend, and all contenders take turns in the same processes, round
by round, so that what else the machine does meets all of them. A round is a number of operations of
one size that are waited for one by one; its figure is the time of one. Printed are the medians over
the rounds of rank 0, and the ratios, which are medians of each round's own ratio. A step of DDP is
that of bench/training.py: what counts is its time above that of the same step without other ranks.
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

ROOT = Path(__file__).resolve().parents[1]
SIZES = [4, 1024, 16384, 65536, 1 << 20, 16 << 20, 64 << 20]
#: What one round is to take, about.
ROUND_S = 0.05


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--np', default='2,4')
    parser.add_argument('--python', default=str(ROOT / 'build/envs/torch2/bin/python'))
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--sizes', default=','.join(map(str, SIZES)))
    parser.add_argument('--models', default='mlp,conv,big,deep')
    parser.add_argument('--out')
    parser.add_argument('--rank', action='store_true', help=argparse.SUPPRESS)
    return parser.parse_args()


# ---------------------------------------------------------------------------- in a rank

def timed(call, count):
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def allreduces(sizes, rounds, contenders, torch, dist):
    """{bytes: {contender: [seconds of each round]}}"""
    found = {}
    for nbytes in sizes:
        tensors = {name: torch.ones(max(nbytes // 4, 1)) for name in contenders}
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
                tensors[name].fill_(1)
    return found


def steps(names, rounds, groups, torch, dist):
    """{model: {contender or 'alone': [seconds of a step]}}"""
    sys.path.insert(0, str(ROOT / 'bench'))
    from training import MODELS
    found = {}
    for name in names:
        make, shape = MODELS[name]
        models = {'alone': make()}
        for backend, group in groups.items():
            models[backend] = torch.nn.parallel.DistributedDataParallel(make(),
                                                                        process_group=group)
        batch, label = torch.randn(shape), torch.randint(0, 10, shape[:1])
        optimizers = {n: torch.optim.SGD(m.parameters(), 1e-3, momentum=0.9)
                      for n, m in models.items()}

        def step(n):
            optimizers[n].zero_grad()
            torch.nn.functional.cross_entropy(models[n](batch), label).backward()
            optimizers[n].step()

        times = found[name] = {n: [] for n in models}
        for turn in range(rounds + 2):
            for n in list(models)[::1 if turn % 2 else -1]:
                dist.barrier()
                took = timed(lambda: step(n), 4)
                if turn > 1:
                    times[n].append(took)
    return found


def rank_main(options):
    import torch
    import torch.distributed as dist
    dist.init_process_group('reigen')
    import horovod.torch as hvd
    gloo = dist.new_group(backend='gloo')
    contenders = {
        'reigen': dist.all_reduce,
        'gloo': lambda t: dist.all_reduce(t, group=gloo),
        'hvd': lambda t: hvd.allreduce_(t, op=hvd.Sum),
    }
    sizes = [int(size) for size in options.sizes.split(',') if size]
    found = {'allreduce': allreduces(sizes, options.rounds, contenders, torch, dist),
             'steps': steps([m for m in options.models.split(',') if m], options.rounds,
                            {'reigen': None, 'gloo': gloo}, torch, dist),
             'torch': torch.__version__, 'np': dist.get_world_size()}
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


# ---------------------------------------------------------------------------- around the ranks

def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def measure(np, options):
    env = {**os.environ, 'OMP_NUM_THREADS': '1', 'MASTER_ADDR': '127.0.0.1', 'WORLD_SIZE': str(np),
           'MASTER_PORT': str(free_port())}
    ranks = [subprocess.Popen([options.python, __file__, '--rank', *sys.argv[1:]],
                              env={**env, 'RANK': str(rank), 'LOCAL_RANK': str(rank)},
                              stdout=subprocess.PIPE, text=True) for rank in range(np)]
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit('a rank has failed')
    return json.loads(outputs[0])


def ratio(times, name, other):
    return statistics.median(a / b for a, b in zip(times[name], times[other]))


def report(found):
    print(f'\ntorch {found["torch"]}, {found["np"]} ranks: all_reduce, microseconds')
    print(f'{"bytes":>10} {"reigen":>10} {"gloo":>10} {"hvd":>10} {"to gloo":>8} {"to hvd":>8}')
    for nbytes, times in found['allreduce'].items():
        us = [statistics.median(times[name]) * 1e6 for name in ('reigen', 'gloo', 'hvd')]
        print(f'{nbytes:>10} {us[0]:10.1f} {us[1]:10.1f} {us[2]:10.1f} '
              f'{ratio(times, "reigen", "gloo"):8.3f} {ratio(times, "reigen", "hvd"):8.3f}')
    if found['steps']:
        print('a step of DDP, milliseconds; what is above the step alone, to gloo')
    for name, times in found['steps'].items():
        ms = {n: statistics.median(t) * 1e3 for n, t in times.items()}
        above = {n: ms[n] - ms['alone'] for n in ('reigen', 'gloo')}
        print(f'{name:>10} reigen {ms["reigen"]:8.2f} gloo {ms["gloo"]:8.2f} '
              f'alone {ms["alone"]:8.2f} ratio {above["reigen"] / above["gloo"]:6.3f}')


def main():
    options = arguments()
    if options.rank:
        rank_main(options)
        return
    everything = []
    for np in options.np.split(','):
        everything.append(measure(int(np), options))
        report(everything[-1])
    if options.out:
        Path(options.out).write_text(json.dumps(everything, indent=1))


if __name__ == '__main__':
    main()
