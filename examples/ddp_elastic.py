# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with PyTorch's DistributedDataParallel on whatever hosts there are.

    reigen run -np 2 --min-np 1 -H a:1,b:1 -- python examples/ddp_elastic.py

When a rank is lost, the others end their process group and make a new one in the same process. They
go on from the step that was in flight. It needs PyTorch 2.13 or newer, and NumPy for the digits.
"""
import argparse

import torch
import torch.distributed as dist
from reigen.distributed import hosts_changed, in_place
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import digits

BATCH = 256  # images of a step, of all ranks together


class Training:
    """What a process keeps from one group to the next."""

    def __init__(self, folder):
        torch.manual_seed(1)
        self.step = 0
        self.model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        images, labels = digits.load(folder, 'train')
        self.images, self.labels = torch.from_numpy(images).flatten(1), torch.from_numpy(labels)

    def begin_alike(self):
        """Rank 0 is one that has trained for longest: all take what it has."""
        mine = self.step, self.model.state_dict(), self.optimizer.state_dict()
        box = [mine if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(box)
        self.step, model, optimizer = box[0]
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)

    def indices(self):
        """This rank's images of the next step. All ranks see the same order."""
        steps = len(self.images) // BATCH
        order = torch.randperm(len(self.images),
                               generator=torch.Generator().manual_seed(self.step // steps))
        return order[self.step % steps * BATCH:][:BATCH][dist.get_rank()::dist.get_world_size()]

    def go_on(self, steps):
        """Train with this group. True: to the end; False: there are other hosts."""
        self.begin_alike()
        model = DistributedDataParallel(self.model)
        say(f'at step {self.step} with {dist.get_world_size()} ranks')
        while self.step < steps:
            mine = self.indices()
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(self.images[mine]), self.labels[mine])
            loss.backward()
            self.optimizer.step()
            self.step += 1
            if self.step % 20 == 0:
                say(f'step {self.step}: loss {loss.item():.4f}, {dist.get_world_size()} ranks')
                if hosts_changed():
                    return False
        return True


def say(words):
    if dist.get_rank() == 0:
        print(words, flush=True)


def main():
    parser = argparse.ArgumentParser(description='elastic DistributedDataParallel on CPUs')
    parser.add_argument('--steps', type=int, default=300)
    parser.add_argument('--data', default=f'{digits.HERE}/data')
    options = parser.parse_args()

    in_place()
    training, done = Training(options.data), False
    while not done:
        dist.init_process_group('reigen')
        try:
            done = training.go_on(options.steps)
        except RuntimeError as error:  # a rank was lost
            print(f'the group has ended: {error}', flush=True)
        finally:
            dist.destroy_process_group()
    images, labels = digits.load(options.data, 't10k')
    answers = training.model(torch.from_numpy(images).flatten(1)).argmax(1)
    print(f'accuracy {(answers == torch.from_numpy(labels)).float().mean():.4f}', flush=True)


if __name__ == '__main__':
    main()
