# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits on whatever hosts there are: an elastic Horovod script.

    horovodrun -np 2 --min-np 2 -H a:2,b:2 python examples/pytorch_mnist_elastic.py
    horovodrun -np 2 --min-np 2 --host-discovery-script ./discover.sh \\
        python examples/pytorch_mnist_elastic.py

Kill a rank or a host while it trains, or let discover.sh name another host: the rest goes on from
the last commit. Model and images are those of pytorch_mnist.py.
"""
import argparse
import json
import os

import torch
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader

import horovod.torch as hvd
from pytorch_mnist import HERE, Net, dataset, test


def arguments():
    parser = argparse.ArgumentParser(description='Elastic PyTorch MNIST with Horovod on Reigen')
    parser.add_argument('--batch-size', type=int, default=64, metavar='N',
                        help='training images per step and rank (default: %(default)s)')
    parser.add_argument('--epochs', type=int, default=5, metavar='N',
                        help='passes over the training images (default: %(default)s)')
    parser.add_argument('--lr', type=float, default=0.01, metavar='LR',
                        help='learning rate of one rank; multiplied by their number '
                             '(default: %(default)s)')
    parser.add_argument('--log-interval', type=int, default=10, metavar='N',
                        help='steps between two lines of progress (default: %(default)s)')
    parser.add_argument('--data', metavar='DIR', default=os.path.join(HERE, 'data'),
                        help='folder with the four files of MNIST')
    parser.add_argument('--report', metavar='FILE',
                        help="where rank 0 writes the losses and the accuracies, as JSON")
    return parser.parse_args()


def say(*words):
    if hvd.rank() == 0:
        print(*words, flush=True)


def train_step(state, images, labels):
    state.optimizer.zero_grad()
    loss = F.nll_loss(state.model(images), labels)
    loss.backward()
    state.optimizer.step()
    state.step += 1
    return loss


def train_epoch(state, loader, args):
    """The images of this epoch that are left: the sampler knows which ones those are."""
    state.model.train()
    for index, (images, labels) in enumerate(loader):
        loss = train_step(state, images, labels)
        state.sampler.record_batch(index, len(images))
        if state.step % args.log_interval == 0:
            loss = hvd.allreduce(loss.detach(), name='loss').item()
            done = state.sampler.processed_num / len(state.sampler.dataset)
            state.losses.append((state.step, state.sampler.epoch + done, hvd.size(), loss))
            say(f'epoch {state.sampler.epoch + 1}: {100 * done:3.0f} %, step {state.step}, '
                f'loss {loss:.4f}, {hvd.size()} ranks')
        state.commit()


def main():
    args = arguments()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    training, testing = dataset(args.data, 'train'), dataset(args.data, 't10k')
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    # As late as can be: where others train already, they wait for what comes after it.
    hvd.init()
    sampler = hvd.elastic.ElasticSampler(training, shuffle=True)
    loader = DataLoader(training, batch_size=args.batch_size, sampler=sampler)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state):
        say(f'training goes on at step {state.step} with {hvd.size()} ranks')
        while state.sampler.epoch < args.epochs:
            train_epoch(state, loader, args)
            loss, accuracy = test(state.model, testing, 1000)
            state.accuracies.append(accuracy)
            say(f'epoch {state.sampler.epoch + 1}/{args.epochs}: test loss {loss:.4f}, '
                f'accuracy {accuracy:.4f}')
            state.sampler.set_epoch(state.sampler.epoch + 1)
            state.commit()

    def scale_learning_rate():
        for group in optimizer.param_groups:
            group['lr'] = args.lr * hvd.size()

    scale_learning_rate()
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, step=0, losses=[],
                                   accuracies=[])
    state.register_reset_callbacks([scale_learning_rate])
    train(state)
    if args.report and hvd.rank() == 0:
        with open(args.report, 'w', encoding='utf-8') as file:
            json.dump({'losses': state.losses, 'accuracies': state.accuracies}, file)


if __name__ == '__main__':
    main()
