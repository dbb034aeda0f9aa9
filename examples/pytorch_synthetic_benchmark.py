# SPDX-License-Identifier: Apache-2.0
"""Training speed on random images: how much the gradients' way costs.

    reigen run -np 4 -- python examples/pytorch_synthetic_benchmark.py --model resnet18

Models come from torchvision where that is installed; `small` needs nothing.
"""
import argparse
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn, optim

import horovod.torch as hvd


def arguments():
    parser = argparse.ArgumentParser(description='PyTorch synthetic benchmark')
    parser.add_argument('--fp16-allreduce', action='store_true', help='send float16')
    parser.add_argument('--model', default='small',
                        help='small, or the name of a model of torchvision (default: %(default)s)')
    parser.add_argument('--batch-size', type=int, default=16, help='images per step and rank')
    parser.add_argument('--num-warmup-batches', type=int, default=3,
                        help='steps that do not count')
    parser.add_argument('--num-batches-per-iter', type=int, default=5, help='steps per figure')
    parser.add_argument('--num-iters', type=int, default=5, help='figures')
    parser.add_argument('--no-cuda', action='store_true',
                        help='use the CPU, also where there is a GPU')
    parser.add_argument('--use-adasum', action='store_true',
                        help='combine what the ranks have moved by Adasum')
    return parser.parse_args()


def small():
    """Some 3 million parameters, most of them in one layer."""
    return nn.Sequential(nn.Conv2d(3, 16, 7, stride=4), nn.ReLU(), nn.Conv2d(16, 64, 5, stride=4),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(6), nn.Flatten(),
                         nn.Linear(64 * 36, 1000))


def build(name):
    if name == 'small':
        return small()
    try:
        from torchvision import models
    except ImportError:
        sys.exit(f'--model {name} needs torchvision; without it there is --model small')
    return getattr(models, name)()


def main():
    args = arguments()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(42)
    cuda = torch.cuda.is_available() and not args.no_cuda
    if cuda:
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    device = torch.device('cuda' if cuda else 'cpu')
    model = build(args.model).to(device)
    # Adasum takes the learning rate of one rank.
    optimizer = optim.SGD(model.parameters(), lr=0.01 * (1 if args.use_adasum else hvd.size()))
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         compression=compression,
                                         op=hvd.Adasum if args.use_adasum else hvd.Average)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    data = torch.randn(args.batch_size, 3, 224, 224).to(device)
    target = torch.randint(1000, (args.batch_size,)).to(device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()

    def clock():
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def say(text):
        if hvd.rank() == 0:
            print(text, flush=True)

    say(f'Model: {args.model}, batch size {args.batch_size}, {hvd.size()} ranks')
    for _ in range(args.num_warmup_batches):
        step()
    rates = []
    for iteration in range(args.num_iters):
        start = clock()
        for _ in range(args.num_batches_per_iter):
            step()
        rates.append(args.batch_size * args.num_batches_per_iter / (clock() - start))
        say(f'Iter #{iteration}: {rates[-1]:.1f} img/sec per rank')
    mean, spread = statistics.fmean(rates), 1.96 * statistics.pstdev(rates)
    say(f'Img/sec per rank: {mean:.1f} +-{spread:.1f}')
    say(f'Total img/sec on {hvd.size()} rank(s): {hvd.size() * mean:.1f} '
        f'+-{hvd.size() * spread:.1f}')
    hvd.shutdown()


if __name__ == '__main__':
    main()
