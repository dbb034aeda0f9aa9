# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with a graph and a session, as in TensorFlow 1: hooks and
MonitoredTrainingSession, through tf.compat.v1.

    reigen run -np 2 -- python examples/tensorflow_mnist.py
"""
import numpy as np
import tensorflow as tf

import digits
import horovod.tensorflow as hvd

tf1 = tf.compat.v1


def arguments():
    parser = digits.parser('TensorFlow MNIST with Horovod on Reigen', epochs=2)
    parser.add_argument('--use-adasum', action='store_true',
                        help='combine the steps of the ranks by Adasum')
    parser.add_argument('--gradient-predivide-factor', type=float, default=1.0, metavar='F',
                        help='divide gradients by F before the sum, by size / F after it')
    return parser.parse_args()


def variable(name, *shape):
    return tf1.get_variable(name, shape, initializer=tf1.glorot_uniform_initializer())


def network(images):
    """Logits of ten digits."""
    hidden = tf.nn.relu(tf.nn.conv2d(images, variable('conv1', 5, 5, 1, 16), 2, 'VALID'))
    hidden = tf.nn.relu(tf.nn.conv2d(hidden, variable('conv2', 3, 3, 16, 32), 2, 'VALID'))
    hidden = tf.reshape(hidden, [-1, 5 * 5 * 32])
    hidden = tf.nn.relu(hidden @ variable('dense1', 5 * 5 * 32, 64))
    return hidden @ variable('dense2', 64, 10)


def batches(images, labels, size, epochs, seed):
    random = np.random.RandomState(seed)
    for _ in range(epochs):
        order = random.permutation(len(images))
        for start in range(0, len(order) - size + 1, size):
            yield images[order[start:start + size]], labels[order[start:start + size]]


def main():
    args = arguments()
    hvd.init()
    tf1.disable_eager_execution()
    tf1.set_random_seed(args.seed + hvd.rank())
    training = digits.part(digits.load(args.data, 'train'), hvd.rank(), hvd.size())
    testing = digits.part(digits.load(args.data, 't10k'), hvd.rank(), hvd.size())

    image = tf1.placeholder(tf.float32, [None, 28, 28, 1])
    label = tf1.placeholder(tf.int64, [None])
    logits = network(image)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), label), tf.float32))

    # Horovod: the batch of all ranks is larger, and so may be the steps. Adasum scales by itself.
    scale = 1 if args.use_adasum else hvd.size()
    optimizer = hvd.DistributedOptimizer(
        tf1.train.AdamOptimizer(args.lr * scale), op=hvd.Adasum if args.use_adasum else hvd.Average,
        gradient_predivide_factor=args.gradient_predivide_factor)
    step = tf1.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=step)
    average = hvd.allreduce(right, name='accuracy')

    steps = args.epochs * (len(training[0]) // args.batch_size)
    hooks = [
        # Horovod: all ranks start from rank 0's variables, new or from its checkpoint.
        hvd.BroadcastGlobalVariablesHook(0),
        tf1.train.StopAtStepHook(last_step=steps + 1),
    ]
    # Horovod: one rank writes, or they would spoil each other's files.
    folder = args.out if hvd.rank() == 0 else None
    with tf1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks) as session:
        done = 0
        for batch in batches(*training, args.batch_size, args.epochs, args.seed):
            if session.should_stop():
                break
            value, _ = session.run([loss, train], {image: batch[0], label: batch[1]})
            if done % 20 == 0 and hvd.rank() == 0:
                print(f'step {done}/{steps}: loss {value:.4f}', flush=True)
            done += 1
        if not session.should_stop():
            accuracy = session.run(average, {image: testing[0], label: testing[1]})
            if hvd.rank() == 0:
                print(f'accuracy {accuracy:.4f}', flush=True)
    hvd.shutdown()


if __name__ == '__main__':
    main()
