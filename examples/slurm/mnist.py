# SPDX-License-Identifier: Apache-2.0
"""MNIST for the examples beside this file: fetched or unpacked once per node, read by all ranks.

The first rank of each node unpacks the files into a directory of that node. The others wait at a
barrier of all ranks: nobody reads a file that is half written, and nothing is fetched twice.
"""
import argparse
import gzip
import hashlib
import os
import shutil
import struct
import sys
import tempfile
import urllib.request

import numpy as np

FILES = [f'{kind}-{what}' for kind in ('train', 't10k')
         for what in ('images-idx3-ubyte', 'labels-idx1-ubyte')]
OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'data')
FETCH_TIMEOUT_S = 60


def parser(description, epochs=5, batch_size=64, lr=0.01):
    """The options that these examples share."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument('--epochs', type=int, default=epochs, metavar='N',
                         help='passes over the training images (default: %(default)s)')
    options.add_argument('--batch-size', type=int, default=batch_size, metavar='N',
                         help='training images per step and rank (default: %(default)s)')
    options.add_argument('--lr', type=float, default=lr, metavar='LR',
                         help='learning rate of one rank (default: %(default)s)')
    options.add_argument('--seed', type=int, default=42, metavar='S',
                         help='random seed (default: %(default)s)')
    options.add_argument('--log-interval', type=int, default=50, metavar='N',
                         help='steps between two lines of progress (default: %(default)s)')
    options.add_argument('--data', '--data-dir', dest='data', default=OURS, metavar='DIR',
                         help="where MNIST's four gzip'ed files are: a folder, or an address that "
                              'begins with http (default: the part of MNIST that comes with the '
                              'examples)')
    options.add_argument('--unpacked', metavar='DIR',
                         help='where each node keeps them unpacked (default: a folder of yours in '
                              'the directory for temporary files)')
    return options


def prepare(args, local_rank, barrier):
    """Have the files on this node; `barrier` waits for all ranks. Returns the folder to load()
    from."""
    folder = args.unpacked or os.path.join(
        tempfile.gettempdir(),
        f'mnist-{os.getuid()}-{hashlib.sha256(args.data.encode()).hexdigest()[:12]}')
    if local_rank == 0:
        own(folder)
        for name in FILES:
            if not os.path.exists(os.path.join(folder, name)):
                unpack(args.data, name, folder)
    barrier()
    return folder


def own(folder):
    """Make the folder; one in a place that all may write to must be ours."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        sys.exit(f'{folder} belongs to somebody else; give another one by --unpacked')


def unpack(source, name, folder):
    """One file; it has its name only when it is whole."""
    handle, path = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, 'wb') as file, fetch(source, f'{name}.gz') as packed:
            shutil.copyfileobj(gzip.GzipFile(fileobj=packed), file)
        os.replace(path, os.path.join(folder, name))
    except BaseException:
        os.unlink(path)
        raise


def fetch(source, name):
    if source.startswith(('http://', 'https://')):
        return urllib.request.urlopen(f'{source.rstrip("/")}/{name}', timeout=FETCH_TIMEOUT_S)
    return open(os.path.join(source, name), 'rb')


def read(path):
    """An array of bytes from a file of the IDX format."""
    with open(path, 'rb') as file:
        magic, = struct.unpack('>I', file.read(4))
        if magic >> 8 != 8:
            sys.exit(f'{path}: not an IDX file of bytes')
        ndim = magic & 0xff
        shape = struct.unpack(f'>{ndim}I', file.read(4 * ndim))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def load(folder, kind):
    """(images [n, 28, 28] with mean 0 and deviation 1, labels [n]); kind: 'train' or 't10k'."""
    images = read(os.path.join(folder, f'{kind}-images-idx3-ubyte'))
    labels = read(os.path.join(folder, f'{kind}-labels-idx1-ubyte'))
    return (images.astype(np.float32) / 255 - 0.1307) / 0.3081, labels.astype(np.int64)
