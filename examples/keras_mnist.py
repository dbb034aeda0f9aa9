# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with Keras: 3 on TensorFlow or PyTorch, or 2.

    reigen run -np 2 -- python examples/keras_mnist.py
    KERAS_BACKEND=torch reigen run -np 2 -- python examples/keras_mnist.py
"""
import os

import keras

import digits
import horovod.keras as hvd


def main():
    args = digits.parser('Keras MNIST with Horovod on Reigen', epochs=2, lr=1.0).parse_args()
    hvd.init()
    keras.utils.set_random_seed(args.seed + hvd.rank())

    # Each rank has its part, so that an epoch of all is one pass over the images.
    training = digits.part(digits.load(args.data, 'train'), hvd.rank(), hvd.size())
    testing = digits.part(digits.load(args.data, 't10k'), hvd.rank(), hvd.size())

    model = keras.Sequential([
        keras.layers.Input((28, 28, 1)),
        keras.layers.Conv2D(16, [5, 5], strides=2, activation='relu'),
        keras.layers.Conv2D(32, [3, 3], strides=2, activation='relu'),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(64, activation='relu'),
        keras.layers.Dense(10, activation='softmax'),
    ])
    # Horovod: the batch of all ranks is larger, and so may be the steps.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adadelta(args.lr * hvd.size()))
    model.compile(loss='sparse_categorical_crossentropy', optimizer=optimizer,
                  metrics=['accuracy'])

    callbacks = [
        # Horovod: all ranks start from rank 0's variables.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    # Horovod: one rank writes, or they would spoil each other's files.
    if args.out and hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint(
            os.path.join(args.out, 'checkpoint-{epoch}.keras')))
    model.fit(*training, batch_size=args.batch_size, callbacks=callbacks, epochs=args.epochs,
              verbose=2 if hvd.rank() == 0 else 0, validation_data=testing)

    _, accuracy = model.evaluate(*testing, batch_size=500, verbose=0)
    accuracy = float(hvd.allreduce(accuracy, name='accuracy'))
    if hvd.rank() == 0:
        print(f'accuracy {accuracy:.4f}', flush=True)
    hvd.shutdown()


if __name__ == '__main__':
    main()
