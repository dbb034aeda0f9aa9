# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with Keras, tuned for processors without a GPU: as many threads as a rank has
cores, batches that are ready when they are wanted, and a small network with cheap convolutions.

    reigen run -np 2 -- python examples/keras_mnist_advanced_modified.py --out checkpoints
"""
import os

import horovod.keras as hvd


def cores():
    """How many cores this process may use at once: a pod or container often has fewer than it
    sees, by the limit of its control group."""
    seen = len(os.sched_getaffinity(0))
    limit = None
    try:
        with open('/sys/fs/cgroup/cpu.max', encoding='ascii') as file:
            quota, period = file.read().split()
            limit = None if quota == 'max' else int(quota) / int(period)
    except OSError:
        try:
            with open('/sys/fs/cgroup/cpu/cpu.cfs_quota_us', encoding='ascii') as quota, \
                    open('/sys/fs/cgroup/cpu/cpu.cfs_period_us', encoding='ascii') as period:
                quota = int(quota.read())
                limit = quota / int(period.read()) if quota > 0 else None
        except OSError:
            pass
    return seen if limit is None else max(1, min(seen, int(limit)))


hvd.init()
# Ranks that share cores must not each start a thread on every core. TensorFlow reads this variable
# when it is imported; who has set it knows better.
threads = int(os.environ.setdefault('OMP_NUM_THREADS', str(max(1, cores() // hvd.local_size()))))

import keras  # noqa: E402 (needs the variable)
import tensorflow as tf  # noqa: E402

import digits  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(2)


def arguments():
    parser = digits.parser('Keras MNIST with Horovod on Reigen, for processors', epochs=6,
                           lr=0.05)
    parser.add_argument('--warmup-epochs', type=float, default=1, metavar='N',
                        help='epochs in which the learning rate rises (default: %(default)s)')
    return parser.parse_args()


def batches(arrays, size, seed):
    """Batches of equal size, so that the graph is made once; the next one is made meanwhile."""
    data = tf.data.Dataset.from_tensor_slices(arrays)
    data = data.shuffle(len(arrays[0]), seed=seed).batch(size, drop_remainder=True).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return data.with_options(options)


def new_model(lr):
    # Strides in the place of pooling: four times fewer products for the same result here.
    model = keras.Sequential([
        keras.layers.Input((28, 28, 1)),
        keras.layers.Conv2D(16, 5, strides=2, activation='relu'),
        keras.layers.Conv2D(32, 3, strides=2, activation='relu'),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(64, activation='relu'),
        keras.layers.Dense(10),
    ])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(lr, momentum=0.9))
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  optimizer=optimizer, metrics=['accuracy'])
    return model


def main():
    args = arguments()
    keras.utils.set_random_seed(args.seed + hvd.rank())
    training = digits.part(digits.load(args.data, 'train'), hvd.rank(), hvd.size())
    testing = digits.part(digits.load(args.data, 't10k'), hvd.rank(), hvd.size())
    if hvd.rank() == 0:
        print(f'{hvd.size()} ranks, {threads} threads in each', flush=True)

    scaled_lr = args.lr * hvd.size()
    model = new_model(scaled_lr)
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr,
                                                 warmup_epochs=args.warmup_epochs),
        hvd.callbacks.LearningRateScheduleCallback(scaled_lr, 1.0, args.warmup_epochs, 4),
        hvd.callbacks.LearningRateScheduleCallback(scaled_lr, 1e-1, 4),
    ]
    # Horovod: one rank writes, or they would spoil each other's files.
    if args.out and hvd.rank() == 0:
        os.makedirs(args.out, exist_ok=True)
        callbacks.append(keras.callbacks.ModelCheckpoint(
            os.path.join(args.out, 'checkpoint-{epoch}.keras')))
    model.fit(batches(training, args.batch_size, args.seed), callbacks=callbacks,
              epochs=args.epochs, shuffle=False,
              verbose=2 if hvd.rank() == 0 else 0)

    _, accuracy = model.evaluate(*testing, batch_size=500, verbose=0)
    accuracy = float(hvd.allreduce(accuracy, name='accuracy'))
    if hvd.rank() == 0:
        print(f'accuracy {accuracy:.4f}', flush=True)
    hvd.shutdown()


if __name__ == '__main__':
    main()
