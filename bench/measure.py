# SPDX-License-Identifier: Apache-2.0
"""The measuring loop of bench/hvd.py. As in reigen bench, means of blocks are what counts."""
import argparse
import json
import time

import torch

import peers

RUNS_MAX, RUNS_MIN = 5000, 5
WARM_MIN, WARM_MAX, WARM_SECONDS = 4, 200, 0.02


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', required=True)
    parser.add_argument('--sizes', default='')
    parser.add_argument('--many', default='')
    parser.add_argument('--series', default='')
    parser.add_argument('--budget-ms', type=int, default=200)
    parser.add_argument('--least', type=int, default=RUNS_MIN)
    args = parser.parse_args()
    args.sizes = [int(s) for s in args.sizes.split(',') if s]
    args.many = [tuple(int(x) for x in m.split('x')) for m in args.many.split(',') if m]
    return args


class Contender:
    """What is measured. Methods take tensors of float32; `value` is an int, rank 0's for all."""
    rank = 0
    size = 1

    def broadcast(self, value):
        raise NotImplementedError

    def barrier(self):
        raise NotImplementedError

    def out(self, tensor):
        """Returns the sum in a new tensor."""
        raise NotImplementedError

    def inplace(self, tensor):
        raise NotImplementedError

    # name: function(tensors), in place
    many = {}


def measure(contender, run, args, out, series, **label):
    runs = warm_up(contender, run, args)
    contender.barrier()
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - start)
    if out:
        means = block_means(times)
        out.write(json.dumps({'series': series, **label, 'runs': runs,
                              'median_us': means[len(means) // 2] / 1e3,
                              'p10_us': means[len(means) // 10] / 1e3}) + '\n')
        out.flush()


def block_means(times):
    """The means of as many blocks as reigen bench has rounds here, in order of size."""
    blocks = max(1, min(peers.ROUNDS, len(times) // 2))
    length = len(times) // blocks
    return sorted(sum(times[i * length:(i + 1) * length]) / length for i in range(blocks))


def warm_up(contender, run, args):
    spent, least = 0, min(args.least, WARM_MIN)
    for i in range(1, WARM_MAX + 1):
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        spent += took
        last = took if i < 3 else (last + took) / 2
        if i % least == 0 and not contender.broadcast(int(spent < WARM_SECONDS)):
            break
    runs = int(min(RUNS_MAX, max(args.least, args.budget_ms / 1e3 / max(last, 1e-9))))
    return contender.broadcast(runs)


def main(contender):
    args = options()
    out = open(args.out, 'w', encoding='utf-8') if contender.rank == 0 else None
    for nbytes in args.sizes if args.series in ('', 'out') else []:
        tensor = torch.ones(nbytes // 4)
        assert torch.equal(contender.out(tensor), torch.full_like(tensor, contender.size))
        measure(contender, lambda t=tensor: contender.out(t), args, out, 'out', bytes=nbytes)
    for nbytes in args.sizes if args.series in ('', 'in') else []:
        if nbytes >= 1 << 20 or args.series:
            tensor = torch.zeros(nbytes // 4)
            measure(contender, lambda t=tensor: contender.inplace(t), args, out, 'in',
                    bytes=nbytes)
    for name, run in contender.many.items():
        for count, nbytes in args.many if args.series in ('', name) else []:
            tensors = [torch.zeros(nbytes // 4) for _ in range(count)]
            measure(contender, lambda t=tensors, r=run: r(t), args, out, name,
                    pattern=f'{count}x{nbytes}')
    if out:
        out.close()
