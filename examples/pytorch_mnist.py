# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with PyTorch: an ordinary Horovod script.

    reigen run -np 4 -- python examples/pytorch_mnist.py
    python examples/pytorch_mnist.py                        one process, without a launcher

Each rank trains on its own part of the images; gradients are averaged over the ranks. At the end
the script checks that all ranks hold the same parameters, to the bit. Where PyTorch sees GPUs, each
rank of a host uses its own one, and ranks share them when there are fewer.
"""
import argparse
import gzip
import hashlib
import json
import os
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd
import reigen

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description='PyTorch MNIST with Horovod on Reigen')
    parser.add_argument('--batch-size', type=int, default=64, metavar='N',
                        help='training images per step and rank (default: %(default)s)')
    parser.add_argument('--test-batch-size', type=int, default=1000, metavar='N',
                        help='test images per step and rank (default: %(default)s)')
    parser.add_argument('--epochs', type=int, default=5, metavar='N',
                        help='passes over the training images (default: %(default)s)')
    parser.add_argument('--lr', type=float, default=0.01, metavar='LR',
                        help='learning rate of one rank; multiplied by their number '
                             '(default: %(default)s)')
    parser.add_argument('--momentum', type=float, default=0.9, metavar='M',
                        help='momentum of SGD (default: %(default)s)')
    parser.add_argument('--no-cuda', action='store_true',
                        help='train on the CPU, also where there is a GPU')
    parser.add_argument('--seed', type=int, default=42, metavar='S',
                        help='random seed (default: %(default)s)')
    parser.add_argument('--log-interval', type=int, default=10, metavar='N',
                        help='steps between two lines of progress (default: %(default)s)')
    parser.add_argument('--fp16-allreduce', action='store_true',
                        help='send gradients as float16')
    parser.add_argument('--use-adasum', action='store_true',
                        help='combine what the ranks have learnt by Adasum, with the learning rate '
                             'of one rank')
    parser.add_argument('--gradient-predivide-factor', type=float, default=1.0, metavar='F',
                        help='divide gradients by F before the sum, by size / F after it')
    parser.add_argument('--data', '--data-dir', dest='data', metavar='DIR',
                        default=os.path.join(HERE, 'data'),
                        help='folder with the four files of MNIST (default: the part of it that '
                             'comes with the examples)')
    parser.add_argument('--workers', type=int, default=0, metavar='N',
                        help='processes that load data (default: %(default)s)')
    parser.add_argument('--out', metavar='DIR', help='where rank 0 saves the model')
    parser.add_argument('--report', metavar='FILE',
                        help='where rank 0 writes what happened, as JSON')
    return parser.parse_args()


# ---------------------------------------------------------------------------- data

def read_idx(path):
    """A tensor of bytes from a gzip'ed file of the IDX format."""
    with gzip.open(path, 'rb') as file:
        magic, = struct.unpack('>I', file.read(4))
        if magic >> 8 != 8:
            sys.exit(f'{path}: not an IDX file of bytes')
        ndim = magic & 0xff
        sizes = struct.unpack(f'>{ndim}I', file.read(4 * ndim))
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    return data.reshape(sizes)


def dataset(folder, kind):
    images = read_idx(os.path.join(folder, f'{kind}-images-idx3-ubyte.gz'))
    labels = read_idx(os.path.join(folder, f'{kind}-labels-idx1-ubyte.gz'))
    # Mean and standard deviation of the training images.
    pixels = (images.float() / 255 - 0.1307) / 0.3081
    return TensorDataset(pixels.unsqueeze(1), labels.long())


# ---------------------------------------------------------------------------- model

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, kernel_size=5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(12, 32, kernel_size=3, stride=2, padding=1)
        self.fc1 = nn.Linear(32 * 7 * 7, 100)
        self.fc2 = nn.Linear(100, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


# ---------------------------------------------------------------------------- training

class Clock:
    """Where the time of the training steps goes on this rank."""

    def __init__(self):
        self.seconds = self.communicating = 0.0
        self.images = 0

    def __enter__(self):
        self._start, self._waited = time.perf_counter(), reigen.stats()['wait_ns']

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self._start
        self.communicating += (reigen.stats()['wait_ns'] - self._waited) / 1e9


def train(args, epoch, model, optimizer, loader, clock, history):
    model.train()
    loader.sampler.set_epoch(epoch)
    total = torch.zeros(2)
    seen = 0
    with clock:
        for step, (data, target) in enumerate(loader, 1):
            data, target = data.to(args.device), target.to(args.device)
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(data), len(data)])
            seen += len(data)
            clock.images += len(data)
            if step % args.log_interval == 0 or step == len(loader):
                history.append({'epoch': epoch - 1 + step / len(loader), 'loss': loss.item()})
                if hvd.rank() == 0:
                    print(f'train epoch {epoch}/{args.epochs}: {100 * step // len(loader):3d} %, '
                          f'loss {loss.item():.4f}', flush=True)
    total = hvd.allreduce(total, name='train_loss', op=hvd.Sum)
    return float(total[0] / total[1])


@torch.no_grad()
def test(model, data, batch_size):
    """Loss and accuracy on all test images: each rank takes every size-th one."""
    model.eval()
    device = next(model.parameters()).device
    images, labels = (t[hvd.rank()::hvd.size()] for t in data.tensors)
    total = torch.zeros(3, dtype=torch.float64)
    for start in range(0, len(images), batch_size):
        output = model(images[start:start + batch_size].to(device))
        target = labels[start:start + batch_size].to(device)
        total[0] += F.nll_loss(output, target, reduction='sum').item()
        total[1] += (output.argmax(1) == target).sum().item()
        total[2] += len(target)
    total = hvd.allreduce(total, name='test', op=hvd.Sum)
    return float(total[0] / total[2]), float(total[1] / total[2])


def identical_everywhere(model):
    """True when every rank holds the same bits."""
    digest = hashlib.sha256()
    for _, parameter in sorted(model.state_dict().items()):
        digest.update(parameter.cpu().numpy().tobytes())
    mine = torch.tensor(list(digest.digest()), dtype=torch.uint8)
    everyones = hvd.allgather(mine.unsqueeze(0), name='digest')
    return bool((everyones == mine).all())


def finish(args, model, clock, epochs, history, started):
    """Say how it went; write what --out and --report asked for."""
    identical = identical_everywhere(model)
    mine = {'rank': hvd.rank(), 'seconds': clock.seconds, 'communicating': clock.communicating,
            'images_per_second': clock.images / max(clock.seconds, 1e-9)}
    ranks = hvd.allgather_object(mine, name='clock')
    if hvd.rank() == 0:
        print(f'parameters: {"identical to the bit" if identical else "DIFFERENT"} on all '
              f'{hvd.size()} ranks')
        rate = sum(r['images_per_second'] for r in ranks) / len(ranks)
        waited = sum(r['communicating'] for r in ranks) / len(ranks)
        share = waited / max(sum(r['seconds'] for r in ranks) / len(ranks), 1e-9)
        print(f'accuracy {epochs[-1]["accuracy"]:.4f}, {rate:.0f} images/s per rank, '
              f'communicating {waited:.2f} s ({100 * share:.0f} % of training)', flush=True)
        if args.out:
            os.makedirs(args.out, exist_ok=True)
            torch.save(model.state_dict(), os.path.join(args.out, 'model.pt'))
        if args.report:
            with open(args.report, 'w', encoding='utf-8') as file:
                json.dump({'size': hvd.size(), 'torch': torch.__version__, 'epochs': epochs,
                           'steps': history, 'ranks': ranks, 'identical': identical,
                           'seconds': time.time() - started}, file, indent=1)
    return identical


def main():
    started = time.time()
    args = arguments()
    hvd.init()
    args.device = torch.device('cpu')
    if torch.cuda.is_available() and not args.no_cuda:
        args.device = torch.device('cuda', hvd.local_rank() % torch.cuda.device_count())
        torch.cuda.set_device(args.device)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    training, testing = dataset(args.data, 'train'), dataset(args.data, 't10k')
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank(),
                                 seed=args.seed)
    loader = DataLoader(training, batch_size=args.batch_size, sampler=sampler,
                        num_workers=args.workers)

    model = Net().to(args.device)
    # Adasum finds out by itself how far the ranks may go together.
    scale = 1 if args.use_adasum else hvd.size()
    optimizer = optim.SGD(model.parameters(), lr=args.lr * scale, momentum=args.momentum)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
        gradient_predivide_factor=args.gradient_predivide_factor)
    if hvd.rank() == 0:
        print(f'{len(training)} training images, {len(testing)} test images, '
              f'{hvd.size()} {"ranks" if hvd.size() > 1 else "rank"}', flush=True)

    clock, epochs, history = Clock(), [], []
    for epoch in range(1, args.epochs + 1):
        loss = train(args, epoch, model, optimizer, loader, clock, history)
        test_loss, accuracy = test(model, testing, args.test_batch_size)
        epochs.append({'epoch': epoch, 'loss': loss, 'test_loss': test_loss,
                       'accuracy': accuracy})
        if hvd.rank() == 0:
            print(f'epoch {epoch}/{args.epochs}: loss {loss:.4f}, test loss {test_loss:.4f}, '
                  f'accuracy {accuracy:.4f}', flush=True)

    identical = finish(args, model, clock, epochs, history, started)
    hvd.shutdown()
    return 0 if identical else 1


if __name__ == '__main__':
    sys.exit(main())
