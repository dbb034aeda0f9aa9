# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits for the examples that use TensorFlow and Keras: MNIST's files as arrays."""
import argparse
import gzip
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def read_idx(path):
    """An array of bytes from a gzip'ed file of the IDX format."""
    with gzip.open(path, 'rb') as file:
        magic, = struct.unpack('>I', file.read(4))
        if magic >> 8 != 8:
            sys.exit(f'{path}: not an IDX file of bytes')
        ndim = magic & 0xff
        sizes = struct.unpack(f'>{ndim}I', file.read(4 * ndim))
        return np.frombuffer(file.read(), np.uint8).reshape(sizes)


def load(folder, kind):
    """(images [n, 28, 28, 1] from 0 to 1, labels [n]); kind: 'train' or 't10k'."""
    images = read_idx(os.path.join(folder, f'{kind}-images-idx3-ubyte.gz'))
    labels = read_idx(os.path.join(folder, f'{kind}-labels-idx1-ubyte.gz'))
    return images[..., np.newaxis].astype(np.float32) / 255, labels.astype(np.int64)


def part(arrays, rank, size, seed=42):
    """One rank's share of the images: shuffled alike on all ranks, equally many for each."""
    order = np.random.RandomState(seed).permutation(len(arrays[0]))
    count = len(order) // size
    mine = order[rank * count:(rank + 1) * count]
    return tuple(a[mine] for a in arrays)


def parser(description, epochs, batch_size=128, lr=0.001):
    """The options that these examples share."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument('--epochs', type=int, default=epochs, metavar='N',
                         help='passes over the training images (default: %(default)s)')
    options.add_argument('--batch-size', type=int, default=batch_size, metavar='N',
                         help='training images per step and rank (default: %(default)s)')
    options.add_argument('--lr', type=float, default=lr, metavar='LR',
                         help='learning rate of one rank; multiplied by their number '
                              '(default: %(default)s)')
    options.add_argument('--seed', type=int, default=42, metavar='S',
                         help='random seed (default: %(default)s)')
    options.add_argument('--data', '--data-dir', dest='data', metavar='DIR',
                         default=os.path.join(HERE, 'data'),
                         help='folder with the four files of MNIST (default: the part of it that '
                              'comes with the examples)')
    options.add_argument('--out', metavar='DIR', help='where rank 0 saves checkpoints')
    return options
