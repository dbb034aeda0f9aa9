# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with torch.distributed, on the nodes of a Slurm job: nccl between GPUs, gloo
between CPUs. mpirun or pdsh only starts the ranks."""
import sys

import torch
import torch.nn.functional as F
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import digits_torch
import mnist


def main():
    options = digits_torch.parser('PyTorch distributed on several nodes')
    options.add_argument('--local_rank', '--local-rank', type=int,
                         help='what older launchers of PyTorch hand over; not needed')
    args = options.parse_args()
    device = digits_torch.device_of(args, digits_torch.coordinates()[2])
    rank, size, local_rank = digits_torch.join(device)
    torch.manual_seed(args.seed)
    folder = mnist.prepare(args, local_rank, distributed.barrier)
    training, testing = digits_torch.loaders(args, folder, rank, size)

    model = DistributedDataParallel(digits_torch.Net().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * size, momentum=args.momentum)
    for epoch in range(1, args.epochs + 1):
        model.train()
        training.sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(training, 1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if step % args.log_interval == 0 and rank == 0:
                print(f'epoch {epoch}/{args.epochs}, step {step}/{len(training)}: '
                      f'loss {loss.item():.4f}', flush=True)
        right = digits_torch.accuracy(model.module, testing, device)
        if rank == 0:
            print(f'epoch {epoch}/{args.epochs}: accuracy {right:.4f} on {size} ranks', flush=True)
    distributed.destroy_process_group()
    return 0


if __name__ == '__main__':
    sys.exit(main())
