# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch examples of this folder share: the network, the data, and who is which rank."""
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mnist  # noqa: E402 (needs the path above)


def parser(description):
    options = mnist.parser(description)
    options.add_argument('--test-batch-size', type=int, default=1000, metavar='N',
                         help='test images per step and rank (default: %(default)s)')
    options.add_argument('--momentum', type=float, default=0.9, metavar='M',
                         help='momentum of SGD (default: %(default)s)')
    options.add_argument('--no-cuda', action='store_true', help='train on the CPU')
    return options


class Net(nn.Module):
    """Two convolutions and two layers: over 97 % after a few passes."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, kernel_size=5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(12, 32, kernel_size=3, stride=2, padding=1)
        self.hidden = nn.Linear(32 * 7 * 7, 100)
        self.out = nn.Linear(100, 10)

    def forward(self, images):
        images = F.relu(self.conv1(images))
        images = F.relu(self.conv2(images))
        return self.out(F.relu(self.hidden(images.flatten(1))))


def device_of(args, local_rank):
    if args.no_cuda or not torch.cuda.is_available():
        torch.set_num_threads(1)
        return torch.device('cpu')
    torch.cuda.set_device(local_rank % torch.cuda.device_count())
    return torch.device('cuda')


def loaders(args, folder, rank, size):
    """This rank's part of the training images, and of the test images."""
    training, testing = (TensorDataset(torch.from_numpy(images).unsqueeze(1),
                                       torch.from_numpy(labels))
                         for images, labels in (mnist.load(folder, 'train'),
                                                mnist.load(folder, 't10k')))
    sampler = DistributedSampler(training, num_replicas=size, rank=rank, seed=args.seed)
    part = torch.utils.data.Subset(testing, range(rank, len(testing), size))
    return (DataLoader(training, batch_size=args.batch_size, sampler=sampler),
            DataLoader(part, batch_size=args.test_batch_size))


@torch.no_grad()
def right_and_all(model, loader, device, dtype=None):
    """How many of this rank's test images are taken for what they are, of how many. dtype: of the
    model, if it is not float32."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64)
    for images, labels in loader:
        guesses = model(images.to(device, dtype)).argmax(1).cpu()
        counts += torch.tensor([int((guesses == labels).sum()), len(labels)])
    return counts


def coordinates():
    """(rank, size, local rank) of whatever started this process: mpirun of Open MPI, of MPICH or of
    Intel MPI, torchrun or pytorch_apex_mnist_example_pdsh.sh. Alone without any."""
    for names in (('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK'),
                  ('PMI_RANK', 'PMI_SIZE', 'MPI_LOCALRANKID'),
                  ('RANK', 'WORLD_SIZE', 'LOCAL_RANK')):
        if all(name in os.environ for name in names):
            return tuple(int(os.environ[name]) for name in names)
    return 0, 1, 0


def join(device):
    """Let torch.distributed's ranks find each other; (rank, size, local rank)."""
    rank, size, local_rank = coordinates()
    first = os.environ.get('hostlist', 'localhost').partition(',')[0].partition(':')[0]
    os.environ.setdefault('MASTER_ADDR', first)
    os.environ.setdefault('MASTER_PORT', '29500')
    torch.distributed.init_process_group('nccl' if device.type == 'cuda' else 'gloo', rank=rank,
                                         world_size=size)
    return rank, size, local_rank


# PyTorch 1.13 can hang at the end if a thread of gloo's is the last to hold a tensor of Python's.
_summed = []


def accuracy(model, loader, device, dtype=None):
    """Of all ranks together."""
    counts = right_and_all(model, loader, device, dtype).to(device, torch.float32)
    _summed[:] = [counts]
    torch.distributed.all_reduce(counts)
    return float(counts[0] / counts[1])
