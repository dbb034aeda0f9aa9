# SPDX-License-Identifier: Apache-2.0
"""Two teams of ranks train two networks at the same time, and vote together in the end.

    reigen run -np 4 -- python examples/process_sets.py

The ranks with even numbers are one process set, those with odd numbers another. Gradients are
averaged within a team only, by DistributedOptimizer(process_set=...); each team negotiates for
itself, so the slower one does not hold up the other. The votes are summed over all ranks. Any
number of ranks will do, of which one rank has one team.
"""
import argparse
import sys

import torch
import torch.nn.functional as F
from torch import optim

import horovod.torch as hvd
from pytorch_mnist import HERE, Net, dataset


def arguments():
    parser = argparse.ArgumentParser(description='Process sets with Horovod on Reigen')
    parser.add_argument('--batch-size', type=int, default=32, metavar='N',
                        help='training images per step and rank (default: %(default)s)')
    parser.add_argument('--steps', type=int, default=100, metavar='N',
                        help='training steps (default: %(default)s)')
    parser.add_argument('--lr', type=float, default=0.02, metavar='LR',
                        help='learning rate of one rank (default: %(default)s)')
    parser.add_argument('--data', metavar='DIR', default=f'{HERE}/data',
                        help='folder with the four files of MNIST')
    return parser.parse_args()


def form_teams():
    """(the number of this rank's team, its process set, how many teams there are)"""
    size = hvd.size()
    if size == 1:
        return 0, hvd.global_process_set, 1
    teams = [hvd.add_process_set(range(first, size, 2)) for first in (0, 1)]
    mine = next(number for number, team in enumerate(teams) if team.included())
    return mine, teams[mine], 2


def train(args, number, team, images, labels):
    torch.manual_seed(number)  # each team has a network of its own, equal on all of its ranks
    model = Net()
    optimizer = hvd.DistributedOptimizer(
        optim.SGD(model.parameters(), lr=args.lr * team.size(), momentum=0.5),
        named_parameters=model.named_parameters(), process_set=team)
    order = torch.randperm(len(images))
    rows = args.batch_size * team.size()
    for step in range(args.steps):
        start = step * rows % (len(images) - rows)
        mine = order[start + team.rank():start + rows:team.size()]
        optimizer.zero_grad()
        F.nll_loss(model(images[mine]), labels[mine]).backward()
        optimizer.step()
    return model


def identical_in(team, model):
    """True when all ranks of the team hold the same bits."""
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    highest = hvd.allreduce(flat, op=hvd.Max, name='highest', process_set=team)
    lowest = hvd.allreduce(flat, op=hvd.Min, name='lowest', process_set=team)
    return torch.equal(highest, lowest)


@torch.no_grad()
def vote(model, team, images, labels):
    """(accuracy of this rank's team, accuracy of all teams' votes together)"""
    votes = model.eval()(images).exp()
    alone = (votes.argmax(1) == labels).float().mean().item()
    # Each rank adds its share, so that every team counts once.
    together = hvd.allreduce(votes / team.size(), op=hvd.Sum, name='votes')
    return alone, (together.argmax(1) == labels).float().mean().item()


def main():
    args = arguments()
    hvd.init(process_sets='dynamic')
    torch.set_num_threads(1)
    training, testing = dataset(args.data, 'train'), dataset(args.data, 't10k')
    number, team, teams = form_teams()
    model = train(args, number, team, *training.tensors)
    identical = identical_in(team, model)
    alone, together = vote(model, team, *[t[:2000] for t in testing.tensors])
    results = hvd.allgather_object((number, team.size(), alone, identical))
    if hvd.rank() == 0:
        for each in range(teams):
            _, ranks, accuracy, _ = next(r for r in results if r[0] == each)
            print(f'team {each}: {ranks} rank{"s" * (ranks > 1)}, accuracy {accuracy:.4f}')
        print(f'together: accuracy {together:.4f}')
        print('parameters: ' + ('identical to the bit in each team' if all(r[3] for r in results)
                                else 'DIFFERENT'), flush=True)
    hvd.shutdown()
    return 0 if all(r[3] for r in results) else 1


if __name__ == '__main__':
    sys.exit(main())
