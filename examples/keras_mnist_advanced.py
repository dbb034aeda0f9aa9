# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with Keras, as one trains large models: warm-up, a schedule of the learning
rate, augmentation, checkpoints from which a run goes on.

    reigen run -np 2 -- python examples/keras_mnist_advanced.py --out checkpoints
"""
import glob
import os
import re

import keras

import digits
import horovod.keras as hvd


def arguments():
    parser = digits.parser('Keras MNIST with Horovod on Reigen, advanced', epochs=6, lr=0.02)
    parser.add_argument('--warmup-epochs', type=float, default=1, metavar='N',
                        help='epochs in which the learning rate rises (default: %(default)s)')
    return parser.parse_args()


def last_checkpoint(folder):
    """(path, epochs done) of the newest checkpoint, or (None, 0)."""
    found = {}
    for path in glob.glob(os.path.join(folder or '', 'checkpoint-*.keras')) if folder else ():
        match = re.search(r'checkpoint-(\d+)\.keras$', path)
        if match:
            found[int(match[1])] = path
    return (found[max(found)], max(found)) if found else (None, 0)


def new_model(lr):
    model = keras.Sequential([
        keras.layers.Input((28, 28, 1)),
        # Augmentation: active in training only.
        keras.layers.RandomRotation(0.02),
        keras.layers.RandomTranslation(0.08, 0.08),
        keras.layers.RandomZoom(0.08),
        keras.layers.Conv2D(16, [5, 5], strides=2, activation='relu'),
        keras.layers.Conv2D(32, [3, 3], strides=2, activation='relu'),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(64, activation='relu'),
        keras.layers.Dense(10, activation='softmax'),
    ])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(lr, momentum=0.9))
    model.compile(loss='sparse_categorical_crossentropy', optimizer=optimizer,
                  metrics=['accuracy'])
    return model


def main():
    args = arguments()
    hvd.init()
    keras.utils.set_random_seed(args.seed + hvd.rank())
    training = digits.part(digits.load(args.data, 'train'), hvd.rank(), hvd.size())
    testing = digits.part(digits.load(args.data, 't10k'), hvd.rank(), hvd.size())

    # Horovod: rank 0 knows where to go on; the others take its variables after the first step.
    scaled_lr = args.lr * hvd.size()
    path, done = last_checkpoint(args.out) if hvd.rank() == 0 else (None, 0)
    done = int(hvd.broadcast(done, 0, name='done'))
    model = hvd.load_model(path) if path else new_model(scaled_lr)
    if done and hvd.rank() == 0:
        print(f'going on after {done} epochs', flush=True)

    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, verbose=hvd.rank() == 0,
                                                 warmup_epochs=args.warmup_epochs),
        hvd.callbacks.LearningRateScheduleCallback(scaled_lr, 1.0, args.warmup_epochs, 3),
        hvd.callbacks.LearningRateScheduleCallback(scaled_lr, 1e-1, 3, 5),
        hvd.callbacks.LearningRateScheduleCallback(scaled_lr, 1e-2, 5),
    ]
    # Horovod: one rank writes, or they would spoil each other's files.
    if args.out and hvd.rank() == 0:
        os.makedirs(args.out, exist_ok=True)
        callbacks.append(keras.callbacks.ModelCheckpoint(
            os.path.join(args.out, 'checkpoint-{epoch}.keras')))
    model.fit(*training, batch_size=args.batch_size, callbacks=callbacks, epochs=args.epochs,
              initial_epoch=done, verbose=2 if hvd.rank() == 0 else 0)

    _, accuracy = model.evaluate(*testing, batch_size=500, verbose=0)
    accuracy = float(hvd.allreduce(accuracy, name='accuracy'))
    if hvd.rank() == 0:
        print(f'accuracy {accuracy:.4f}', flush=True)
    hvd.shutdown()


if __name__ == '__main__':
    main()
