# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with TensorFlow 2 and a loop of one's own: DistributedGradientTape.

    reigen run -np 2 -- python examples/tensorflow2_mnist.py
"""
import os

import numpy as np
import tensorflow as tf

import digits
import horovod.tensorflow as hvd


def main():
    args = digits.parser('TensorFlow 2 MNIST with Horovod on Reigen', epochs=2).parse_args()
    hvd.init()
    # Horovod: one GPU per process, where there are some.
    gpus = tf.config.list_physical_devices('GPU')
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')
    tf.random.set_seed(args.seed + hvd.rank())

    images, labels = digits.part(digits.load(args.data, 'train'), hvd.rank(), hvd.size())
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat()
    dataset = dataset.shuffle(10000, seed=args.seed).batch(args.batch_size)

    model = tf.keras.Sequential([
        tf.keras.layers.Conv2D(16, [5, 5], strides=2, activation='relu'),
        tf.keras.layers.Conv2D(32, [3, 3], strides=2, activation='relu'),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.25),
        tf.keras.layers.Dense(64, activation='relu'),
        tf.keras.layers.Dense(10),
    ])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Horovod: the batch of all ranks is larger, and so may be the steps.
    optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())

    @tf.function
    def train(images, labels, first_batch):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        # Horovod: the gradients become those of all ranks.
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        # Horovod: all ranks start from rank 0's variables. After the first step, because the
        # optimizer has its own only then.
        if first_batch:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)
        return loss

    steps = max(1, args.epochs * len(images) // args.batch_size)
    for step, (batch, target) in enumerate(dataset.take(steps)):
        loss = train(batch, target, step == 0)
        if step % 20 == 0 and hvd.rank() == 0:
            print(f'step {step}/{steps}: loss {loss:.4f}', flush=True)

    # Each rank tests its part; the mean is over all.
    images, labels = digits.part(digits.load(args.data, 't10k'), hvd.rank(), hvd.size())
    right = np.mean(np.argmax(model(images).numpy(), axis=1) == labels)
    accuracy = float(hvd.allreduce(right, name='accuracy'))
    if hvd.rank() == 0:
        print(f'accuracy {accuracy:.4f}', flush=True)
        if args.out:
            # Horovod: one rank writes, or they would spoil each other's files.
            checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
            checkpoint.save(os.path.join(args.out, 'checkpoint'))
    hvd.shutdown()


if __name__ == '__main__':
    main()
