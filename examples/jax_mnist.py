# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with JAX, without any library on top of it.

    reigen run -np 4 -- python examples/jax_mnist.py
    python examples/jax_mnist.py                            one process, without a launcher

Each rank trains on its own part of the images; gradients are averaged over the ranks inside the
compiled step. At the end the script checks that all ranks hold the same parameters, to the bit.
"""
import argparse
import gzip
import hashlib
import os
import struct
import sys
import time

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description='JAX MNIST with Horovod on Reigen')
    parser.add_argument('--batch-size', type=int, default=64, metavar='N',
                        help='training images per step and rank (default: %(default)s)')
    parser.add_argument('--epochs', type=int, default=5, metavar='N',
                        help='passes over the training images (default: %(default)s)')
    parser.add_argument('--lr', type=float, default=0.05, metavar='LR',
                        help='learning rate of one rank; multiplied by their number '
                             '(default: %(default)s)')
    parser.add_argument('--momentum', type=float, default=0.9, metavar='M',
                        help='momentum of SGD (default: %(default)s)')
    parser.add_argument('--seed', type=int, default=42, metavar='S',
                        help='random seed (default: %(default)s)')
    parser.add_argument('--log-interval', type=int, default=10, metavar='N',
                        help='steps between two lines of progress (default: %(default)s)')
    parser.add_argument('--fp16-allreduce', action='store_true',
                        help='send gradients as float16')
    parser.add_argument('--data', '--data-dir', dest='data', metavar='DIR',
                        default=os.path.join(HERE, 'data'),
                        help='folder with the four files of MNIST (default: the part of it that '
                             'comes with the examples)')
    return parser.parse_args()


# ---------------------------------------------------------------------------- data

def read_idx(path):
    """An array of bytes from a gzip'ed file of the IDX format."""
    with gzip.open(path, 'rb') as file:
        magic, = struct.unpack('>I', file.read(4))
        if magic >> 8 != 8:
            sys.exit(f'{path}: not an IDX file of bytes')
        ndim = magic & 0xff
        sizes = struct.unpack(f'>{ndim}I', file.read(4 * ndim))
        return np.frombuffer(file.read(), np.uint8).reshape(sizes)


def dataset(folder, kind):
    """Images as rows of floats, labels."""
    images = read_idx(os.path.join(folder, f'{kind}-images-idx3-ubyte.gz'))
    labels = read_idx(os.path.join(folder, f'{kind}-labels-idx1-ubyte.gz'))
    # Mean and standard deviation of the training images.
    pixels = (images.reshape(len(images), -1).astype(np.float32) / 255 - 0.1307) / 0.3081
    return pixels, labels.astype(np.int32)


def batches(images, labels, batch_size, seed):
    """This rank's batches of one epoch: all ranks shuffle alike and take every size-th image. As
    many on every rank, all of one size, so that one compiled step serves them."""
    order = np.random.RandomState(seed).permutation(len(images))[hvd.rank()::hvd.size()]
    steps = len(images) // hvd.size() // batch_size
    for step in range(steps):
        part = order[step * batch_size:(step + 1) * batch_size]
        yield images[part], labels[part]


# ---------------------------------------------------------------------------- model

def initial_parameters(seed, sizes=(784, 128, 64, 10)):
    keys = jax.random.split(jax.random.PRNGKey(seed), len(sizes) - 1)
    return [{'w': jax.random.normal(key, (fan_in, fan_out)) * np.sqrt(2 / fan_in),
             'b': jnp.zeros(fan_out)}
            for key, fan_in, fan_out in zip(keys, sizes, sizes[1:])]


def predict(params, images):
    """Logarithms of the digits' probabilities."""
    x = images
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer['w'] + layer['b'])
    return jax.nn.log_softmax(x @ params[-1]['w'] + params[-1]['b'])


def loss_of(params, images, labels):
    return -jnp.take_along_axis(predict(params, images), labels[:, None], axis=1).mean()


# ---------------------------------------------------------------------------- training

def make_step(args):
    """(params, velocity, images, labels) -> (params, velocity, loss), compiled."""
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    gradient = hvd.distributed_value_and_grad(loss_of, compression=compression)
    rate = args.lr * hvd.size()

    @hvd.jit
    def step(params, velocity, images, labels):
        loss, grads = gradient(params, images, labels)
        velocity = jax.tree_util.tree_map(lambda v, g: args.momentum * v + g, velocity, grads)
        params = jax.tree_util.tree_map(lambda p, v: p - rate * v, params, velocity)
        return params, velocity, loss

    return step


def accuracy_of(params, images, labels):
    """Share of the test images that are recognised: each rank takes every size-th one."""
    mine = slice(hvd.rank(), None, hvd.size())
    right = int((predict(params, images[mine]).argmax(1) == labels[mine]).sum())
    counts = hvd.allreduce(np.array([right, len(labels[mine])], np.int32), 'test', op=hvd.Sum)
    return int(counts[0]) / int(counts[1])


def identical_everywhere(params):
    """True when every rank holds the same bits."""
    digest = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(params):
        digest.update(np.asarray(leaf).tobytes())
    return len(set(hvd.allgather_object(digest.hexdigest()))) == 1


def main():
    args = arguments()
    hvd.init()
    images, labels = dataset(args.data, 'train')
    test_images, test_labels = dataset(args.data, 't10k')
    if hvd.rank() == 0:
        print(f'{len(images)} training images, {len(test_images)} test images, {hvd.size()} '
              f'{"ranks" if hvd.size() > 1 else "rank"}', flush=True)

    params = hvd.broadcast_parameters(initial_parameters(args.seed), root_rank=0)
    velocity = jax.tree_util.tree_map(jnp.zeros_like, params)
    step = make_step(args)
    accuracy = 0.0
    for epoch in range(1, args.epochs + 1):
        started, losses = time.perf_counter(), []
        for number, batch in enumerate(batches(images, labels, args.batch_size,
                                               args.seed + epoch), 1):
            params, velocity, loss = step(params, velocity, *batch)
            losses.append(float(loss))
            if number % args.log_interval == 0 and hvd.rank() == 0:
                print(f'train epoch {epoch}/{args.epochs}: step {number}, loss {losses[-1]:.4f}',
                      flush=True)
        rate = len(losses) * args.batch_size / (time.perf_counter() - started)
        mean = hvd.average_metrics({'loss': np.mean(losses), 'rate': rate})
        accuracy = accuracy_of(params, test_images, test_labels)
        if hvd.rank() == 0:
            print(f'epoch {epoch}/{args.epochs}: loss {mean["loss"]:.4f}, accuracy {accuracy:.4f}, '
                  f'{mean["rate"]:.0f} images/s per rank', flush=True)

    identical = identical_everywhere(params)
    if hvd.rank() == 0:
        print(f'parameters: {"identical to the bit" if identical else "DIFFERENT"} on all '
              f'{hvd.size()} ranks')
        print(f'accuracy {accuracy:.4f}', flush=True)
    hvd.shutdown()
    return 0 if identical else 1


if __name__ == '__main__':
    sys.exit(main())
