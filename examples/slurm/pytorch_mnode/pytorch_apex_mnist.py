# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits in mixed precision, on the nodes of a Slurm job.

What Apex did is part of PyTorch now, and is used here: torch.autocast and GradScaler in the place
of apex.amp, DistributedDataParallel in the place of apex.parallel's. --opt-level has Apex's values:
O0 is float32 throughout, O1 and O2 compute in 16 bits where that is safe, O3 holds the parameters
in 16 bits, too; on CPUs it is as O2, since gloo does not add bfloat16. 16 bits are float16 on GPUs
and bfloat16 on CPUs.
"""
import os
import sys

# Before PyTorch is loaded: some virtual machines show a CPU's AMX and do not let it be used.
os.environ.setdefault('ONEDNN_MAX_CPU_ISA', 'AVX512_CORE_BF16')

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import distributed  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import digits_torch  # noqa: E402
import mnist  # noqa: E402


def arguments():
    options = digits_torch.parser('PyTorch in mixed precision on several nodes')
    options.add_argument('--opt-level', default='O1', choices=['O0', 'O1', 'O2', 'O3'],
                         help='how much is computed in 16 bits (default: %(default)s)')
    options.add_argument('--local_rank', '--local-rank', type=int,
                         help='what older launchers of PyTorch hand over; not needed')
    return options.parse_args()


class Precision:
    """How a step is computed at an --opt-level."""

    def __init__(self, level, device):
        self.device = device
        self.dtype = torch.float16 if device.type == 'cuda' else torch.bfloat16
        # What the parameters are; None: float32.
        self.held = self.dtype if level == 'O3' and device.type == 'cuda' else None
        self.mixed = level != 'O0' and not self.held
        # float16 has so small a range that gradients have to be scaled into it; bfloat16 has not.
        self.scaler = torch.cuda.amp.GradScaler(enabled=self.mixed and device.type == 'cuda')

    def convert(self, model):
        return model.to(self.held)

    def loss(self, model, images, labels):
        with torch.autocast(self.device.type, dtype=self.dtype, enabled=self.mixed):
            outputs = model(images.to(self.device, self.held))
        return F.cross_entropy(outputs.float(), labels.to(self.device))

    def step(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()


def main():
    args = arguments()
    device = digits_torch.device_of(args, digits_torch.coordinates()[2])
    rank, size, local_rank = digits_torch.join(device)
    torch.manual_seed(args.seed)
    folder = mnist.prepare(args, local_rank, distributed.barrier)
    training, testing = digits_torch.loaders(args, folder, rank, size)

    precision = Precision(args.opt_level, device)
    model = DistributedDataParallel(precision.convert(digits_torch.Net().to(device)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * size, momentum=args.momentum)
    for epoch in range(1, args.epochs + 1):
        model.train()
        training.sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(training, 1):
            optimizer.zero_grad()
            loss = precision.loss(model, images, labels)
            precision.step(loss, optimizer)
            if step % args.log_interval == 0 and rank == 0:
                print(f'epoch {epoch}/{args.epochs}, step {step}/{len(training)}: '
                      f'loss {loss.item():.4f}', flush=True)
        right = digits_torch.accuracy(model.module, testing, device, precision.held)
        if rank == 0:
            print(f'epoch {epoch}/{args.epochs}: accuracy {right:.4f} on {size} ranks, '
                  f'{args.opt_level}', flush=True)
    distributed.destroy_process_group()
    return 0


if __name__ == '__main__':
    sys.exit(main())
