# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with PyTorch and Horovod, on the nodes of a Slurm job."""
import sys

import torch
import torch.nn.functional as F

import digits_torch
import horovod.torch as hvd
import mnist


def main():
    options = digits_torch.parser('PyTorch and Horovod on several nodes')
    options.add_argument('--fp16-allreduce', action='store_true',
                         help='send gradients as float16')
    args = options.parse_args()
    hvd.init()
    torch.manual_seed(args.seed)
    device = digits_torch.device_of(args, hvd.local_rank())
    folder = mnist.prepare(args, hvd.local_rank(), hvd.barrier)
    training, testing = digits_torch.loaders(args, folder, hvd.rank(), hvd.size())

    model = digits_torch.Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(),
                                momentum=args.momentum)
    # All start from the first rank's parameters, and average their gradients.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none)

    for epoch in range(1, args.epochs + 1):
        model.train()
        training.sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(training, 1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if step % args.log_interval == 0 and hvd.rank() == 0:
                print(f'epoch {epoch}/{args.epochs}, step {step}/{len(training)}: '
                      f'loss {loss.item():.4f}', flush=True)
        right, count = hvd.allreduce(digits_torch.right_and_all(model, testing, device),
                                     name='test', op=hvd.Sum).tolist()
        if hvd.rank() == 0:
            print(f'epoch {epoch}/{args.epochs}: accuracy {right / count:.4f} on {hvd.size()} '
                  'ranks', flush=True)
    hvd.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
