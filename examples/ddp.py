# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with PyTorch's own DistributedDataParallel; the backend is a word.

    reigen run -np 4 -- python examples/ddp.py
    torchrun --nproc-per-node 4 examples/ddp.py --backend gloo

It needs PyTorch 2.13 or newer, and NumPy for the digits.
"""
import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import digits


def tensors(folder, kind, rank, size):
    images, labels = digits.part(digits.load(folder, kind), rank, size)
    return torch.from_numpy(images).flatten(1), torch.from_numpy(labels)


def main():
    parser = argparse.ArgumentParser(description='DistributedDataParallel on CPUs')
    parser.add_argument('--backend', default='reigen')
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--data', default=f'{digits.HERE}/data')
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = tensors(options.data, 'train', rank, size)
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(784, 256), nn.ReLU(),
                                                  nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), 0.05 * size, momentum=0.9)
    began = time.perf_counter()
    for _ in range(options.epochs):
        for part in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[part]), labels[part]).backward()
            optimizer.step()
    seconds = time.perf_counter() - began

    images, labels = tensors(options.data, 't10k', rank, size)
    right = (model(images).argmax(1) == labels).sum()
    seen = torch.tensor(len(labels))
    dist.all_reduce(right)
    dist.all_reduce(seen)
    if rank == 0:
        print(f'{dist.get_backend()}: accuracy {right.item() / seen.item():.3f} after '
              f'{options.epochs} epochs in {seconds:.1f} s')
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
