# SPDX-License-Identifier: Apache-2.0
"""Adasum beside averaging, on handwritten digits.

    reigen run -np 4 -- python examples/adasum.py

Averaging needs a learning rate that is tuned to the number of ranks. Adasum looks at the angle
between what the ranks want: what they agree on it averages, what is independent it adds, so the
learning rate of one rank serves for any number. The script trains the same network three times with
the rate of one rank (averaged, averaged with the rate times the ranks, and by Adasum), and prints
how far each got. Any number of ranks will do.
"""
import argparse
import sys

import torch
import torch.nn.functional as F
from torch import optim

import horovod.torch as hvd
from pytorch_mnist import HERE, Net, dataset, identical_everywhere, test


def arguments():
    parser = argparse.ArgumentParser(description='Adasum with Horovod on Reigen')
    parser.add_argument('--batch-size', type=int, default=32, metavar='N',
                        help='training images per step and rank (default: %(default)s)')
    parser.add_argument('--steps', type=int, default=100, metavar='N',
                        help='steps of each training (default: %(default)s)')
    parser.add_argument('--lr', type=float, default=0.02, metavar='LR',
                        help='learning rate of one rank (default: %(default)s)')
    parser.add_argument('--momentum', type=float, default=0.5, metavar='M',
                        help='momentum of SGD (default: %(default)s)')
    parser.add_argument('--seed', type=int, default=42, metavar='S',
                        help='random seed (default: %(default)s)')
    parser.add_argument('--data', metavar='DIR', default=f'{HERE}/data',
                        help='folder with the four files of MNIST')
    return parser.parse_args()


def train(args, images, labels, op, lr):
    """A network after so many steps; equal at the start for every op, and on all ranks."""
    torch.manual_seed(args.seed)
    model = Net()
    optimizer = hvd.DistributedOptimizer(
        optim.SGD(model.parameters(), lr=lr, momentum=args.momentum),
        named_parameters=model.named_parameters(), op=op)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(args.seed))
    rows = args.batch_size * hvd.size()
    for step in range(args.steps):
        start = step * rows % (len(images) - rows)
        mine = order[start + hvd.rank():start + rows:hvd.size()]
        optimizer.zero_grad()
        F.nll_loss(model(images[mine]), labels[mine]).backward()
        optimizer.step()
    return model


def check_the_rule():
    """Adasum of equal vectors is the vector; of orthogonal ones their sum."""
    equal = hvd.allreduce(torch.arange(5.0), op=hvd.Adasum, name='equal')
    mine = torch.zeros(hvd.size())
    mine[hvd.rank()] = 1.0 + hvd.rank()
    sums = hvd.allreduce(mine, op=hvd.Adasum, name='orthogonal')
    return (torch.allclose(equal, torch.arange(5.0))
            and torch.allclose(sums, torch.arange(1.0, hvd.size() + 1)))


def main():
    args = arguments()
    hvd.init()
    torch.set_num_threads(1)
    if not check_the_rule():
        sys.exit('Adasum of equal or orthogonal vectors is not what it should be')
    training, testing = dataset(args.data, 'train'), dataset(args.data, 't10k')
    images, labels = training.tensors
    identical = True
    for title, op, lr in (('average', hvd.Average, args.lr),
                          ('average, rate times ranks', hvd.Average, args.lr * hvd.size()),
                          ('adasum', hvd.Adasum, args.lr)):
        model = train(args, images, labels, op, lr)
        identical = identical_everywhere(model) and identical
        loss, accuracy = test(model, testing, 1000)
        if hvd.rank() == 0:
            print(f'{title:<26} loss {loss:.4f}, accuracy {accuracy:.4f}', flush=True)
    if hvd.rank() == 0:
        print(f'parameters: {"identical to the bit" if identical else "DIFFERENT"} on all '
              f'{hvd.size()} ranks', flush=True)
    hvd.shutdown()
    return 0 if identical else 1


if __name__ == '__main__':
    sys.exit(main())
