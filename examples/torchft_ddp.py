# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with torchft: replicas of a model that come and go, over Reigen.

    torchft_lighthouse --min_replicas 1
    reigen run -np 1 --max-restarts 3 -- python examples/torchft_ddp.py --replica 0
    reigen run -np 1 --max-restarts 3 -- python examples/torchft_ddp.py --replica 1

Each of these is for a terminal of its own. TORCHFT_LIGHTHOUSE says where the first one is, if it is
on another host. A replica is a job of one rank. When one is lost, the others go on in their
processes with the step that was in flight. When it comes back, it gets what they have. It needs
torchft, PyTorch 2.13 or newer, and NumPy for the digits.
"""
import argparse
import os
from datetime import timedelta

import torch
import torchft
from reigen.distributed.torchft import ProcessGroupReigen
from torch import nn
from torch.distributed import TCPStore

import digits

BATCH = 256  # images of a step, of all replicas together
LIMIT = timedelta(seconds=60)
os.environ.setdefault('TORCHFT_LIGHTHOUSE', 'http://localhost:29510')


class Training:
    """A replica. Its name ends with its number."""

    def __init__(self, replica, folder):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        self.sgd = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.store = TCPStore('localhost', 0, is_master=True, wait_for_workers=False)
        self.manager = torchft.Manager(
            pg=ProcessGroupReigen(LIMIT), min_replica_size=1, load_state_dict=self.load,
            state_dict=self.state, replica_id=f'digits_{replica}', timeout=LIMIT, rank=0,
            world_size=1, store_addr='localhost', store_port=self.store.port)
        self.optimizer = torchft.Optimizer(self.manager, self.sgd)
        images, labels = digits.load(folder, 'train')
        self.images, self.labels = torch.from_numpy(images).flatten(1), torch.from_numpy(labels)

    def state(self):
        return {'model': self.model.state_dict(), 'optimizer': self.sgd.state_dict()}

    def load(self, state):
        self.model.load_state_dict(state['model'])
        self.sgd.load_state_dict(state['optimizer'])

    def indices(self):
        """This replica's images of the next step. All replicas see the same order. One that has
        just come has no part in this step yet, and takes any."""
        step, steps = self.manager.current_step(), len(self.images) // BATCH
        order = torch.randperm(len(self.images),
                               generator=torch.Generator().manual_seed(step // steps))
        rank = self.manager.participating_rank() or 0
        return order[step % steps * BATCH:][:BATCH][rank::self.manager.num_participants()]

    def train(self, steps):
        model = torchft.DistributedDataParallel(self.manager, self.model)
        while self.manager.current_step() < steps:
            self.optimizer.zero_grad()  # torchft looks for the replicas that live
            mine = self.indices()
            loss = nn.functional.cross_entropy(model(self.images[mine]), self.labels[mine])
            loss.backward()
            before = self.manager.current_step()
            self.optimizer.step()  # nothing, if a replica was lost in this step
            if self.manager.current_step() > before:
                self.after(self.manager.current_step(), loss.item())

    def after(self, step, loss):
        """A step is done."""
        if step % 20 == 0:
            print(f'step {step}: loss {loss:.4f}, {self.manager.num_participants()} replicas',
                  flush=True)

    def end(self, folder):
        self.manager.shutdown()
        self.manager._pg.shutdown()
        images, labels = digits.load(folder, 't10k')
        answers = self.model(torch.from_numpy(images).flatten(1)).argmax(1)
        total = sum(p.double().sum().item() for p in self.model.parameters())
        print(f'accuracy {(answers == torch.from_numpy(labels)).float().mean():.4f}, '
              f'parameters {total:.12f}', flush=True)


def options():
    parser = argparse.ArgumentParser(description='replicas of a model with torchft')
    parser.add_argument('--replica', type=int, required=True, help='its number, from 0 on')
    parser.add_argument('--steps', type=int, default=300)
    parser.add_argument('--data', default=f'{digits.HERE}/data')
    return parser


def main(kind=Training):
    given = options().parse_args()
    training = kind(given.replica, given.data)
    training.train(given.steps)
    training.end(given.data)


if __name__ == '__main__':
    main()
