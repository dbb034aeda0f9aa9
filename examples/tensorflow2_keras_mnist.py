# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with tf.keras and fit().

    reigen run -np 2 -- python examples/tensorflow2_keras_mnist.py
"""
import os

import tensorflow as tf

import digits
import horovod.tensorflow.keras as hvd


def main():
    args = digits.parser('tf.keras MNIST with Horovod on Reigen', epochs=2).parse_args()
    hvd.init()
    # Horovod: one GPU per process, where there are some.
    gpus = tf.config.list_physical_devices('GPU')
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')
    tf.keras.utils.set_random_seed(args.seed + hvd.rank())

    training = digits.part(digits.load(args.data, 'train'), hvd.rank(), hvd.size())
    testing = digits.part(digits.load(args.data, 't10k'), hvd.rank(), hvd.size())
    dataset = tf.data.Dataset.from_tensor_slices(training).repeat()
    dataset = dataset.shuffle(10000, seed=args.seed).batch(args.batch_size)

    model = tf.keras.Sequential([
        tf.keras.layers.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(16, [5, 5], strides=2, activation='relu'),
        tf.keras.layers.Conv2D(32, [3, 3], strides=2, activation='relu'),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.25),
        tf.keras.layers.Dense(64, activation='relu'),
        tf.keras.layers.Dense(10),
    ])
    # Horovod: the batch of all ranks is larger, and so may be the steps.
    scaled_lr = args.lr * hvd.size()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(scaled_lr))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=optimizer, metrics=['accuracy'])

    callbacks = [
        # Horovod: all ranks start from rank 0's variables.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        # Horovod: metrics over all ranks, before callbacks that use them.
        hvd.callbacks.MetricAverageCallback(),
        # Horovod: large steps from the start would lead astray.
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=1),
    ]
    # Horovod: one rank writes, or they would spoil each other's files.
    if args.out and hvd.rank() == 0:
        callbacks.append(tf.keras.callbacks.ModelCheckpoint(
            os.path.join(args.out, 'checkpoint-{epoch}.keras')))
    model.fit(dataset, steps_per_epoch=len(training[0]) // args.batch_size, callbacks=callbacks,
              epochs=args.epochs, verbose=2 if hvd.rank() == 0 else 0)

    _, accuracy = model.evaluate(*testing, batch_size=500, verbose=0)
    accuracy = float(hvd.allreduce(accuracy, name='accuracy'))
    if hvd.rank() == 0:
        print(f'accuracy {accuracy:.4f}', flush=True)
    hvd.shutdown()


if __name__ == '__main__':
    main()
