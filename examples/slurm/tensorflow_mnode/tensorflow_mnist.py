# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with a graph and a session, as in TensorFlow 1, and Horovod, on the nodes of a
Slurm job."""
import os
import sys

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mnist  # noqa: E402 (needs the path above)

tf1 = tf.compat.v1


def barrier():
    """Wait for all ranks: nobody has the sum before everybody has given a part of it."""
    with tf1.Session() as session:
        session.run(hvd.allreduce(tf.constant([1.0]), name='barrier', op=hvd.Sum))


def variable(name, *shape):
    return tf1.get_variable(name, shape, initializer=tf1.glorot_uniform_initializer())


def network(images):
    """Logits of ten digits."""
    x = tf.expand_dims(images, 3)
    x = tf.nn.relu(tf.nn.conv2d(x, variable('conv1', 5, 5, 1, 16), 2, 'VALID'))
    x = tf.nn.relu(tf.nn.conv2d(x, variable('conv2', 3, 3, 16, 32), 2, 'VALID'))
    x = tf.nn.relu(tf.reshape(x, [-1, 5 * 5 * 32]) @ variable('hidden', 5 * 5 * 32, 64))
    return x @ variable('out', 64, 10)


def batches(images, labels, args):
    """This rank's batches of all epochs: equally many for each rank."""
    random = np.random.RandomState(args.seed)
    count = len(images) // hvd.size() // args.batch_size
    for _ in range(args.epochs):
        mine = random.permutation(len(images))[hvd.rank()::hvd.size()]
        for step in range(count):
            chosen = mine[step * args.batch_size:(step + 1) * args.batch_size]
            yield images[chosen], labels[chosen]


def main():
    args = mnist.parser('TensorFlow and Horovod on several nodes', batch_size=100,
                        lr=0.001).parse_args()
    hvd.init()
    tf1.disable_eager_execution()
    tf1.set_random_seed(args.seed + hvd.rank())
    folder = mnist.prepare(args, hvd.local_rank(), barrier)
    training = mnist.load(folder, 'train')
    testing = tuple(a[hvd.rank()::hvd.size()] for a in mnist.load(folder, 't10k'))

    image = tf1.placeholder(tf.float32, [None, 28, 28])
    label = tf1.placeholder(tf.int64, [None])
    logits = network(image)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
    right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), label), tf.float32))
    counts = hvd.allreduce(tf.stack([right, tf.cast(tf.size(label), tf.float32)]), name='test',
                           op=hvd.Sum)
    # All ranks' batches together are larger, and so may be the steps.
    optimizer = hvd.DistributedOptimizer(tf1.train.AdamOptimizer(args.lr * hvd.size()))
    train = optimizer.minimize(loss, global_step=tf1.train.get_or_create_global_step())

    config = tf1.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = \
        str(hvd.local_rank()) if tf.config.list_physical_devices('GPU') else ''
    with tf1.train.MonitoredTrainingSession(
            hooks=[hvd.BroadcastGlobalVariablesHook(0)], config=config) as session:
        for step, (images, labels) in enumerate(batches(*training, args), 1):
            value, _ = session.run([loss, train], {image: images, label: labels})
            if step % args.log_interval == 0 and hvd.rank() == 0:
                print(f'step {step}: loss {value:.4f}', flush=True)
        done, count = session.run(counts, {image: testing[0], label: testing[1]})
        if hvd.rank() == 0:
            print(f'{args.epochs} epochs: accuracy {done / count:.4f} on {hvd.size()} ranks',
                  flush=True)
    hvd.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
