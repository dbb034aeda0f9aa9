# SPDX-License-Identifier: Apache-2.0
"""Ranks of an elastic job whose launcher is played (tests/python/epochs.py). The first argument
says what they do until the file is there that the second one names."""
import os
import sys

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

STOP = sys.argv[2]
ROWS = np.linspace(-1, 1, 64, dtype=np.float32).reshape(-1, 1)


def stops():
    there = tf.constant(float(hvd.rank() == 0 and os.path.exists(STOP)))
    return float(hvd.allreduce(there, op=hvd.Sum, name='stops')) > 0


def say(*words):
    print('epoch', os.environ['REIGEN_EPOCH'], *words, flush=True)


def model():
    net = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    net.build((None, 1))
    return net


def function():
    """A step that is a graph, with several operations in it."""
    hvd.init()
    net, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    state = hvd.elastic.TensorFlowKerasState(net, optimizer, step=0)

    @tf.function
    def step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(rows) - 3 * rows) ** 2)
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables),
                                      net.trainable_variables))
        return hvd.allreduce(loss, name='loss')

    losses = []

    @hvd.elastic.run
    def loop(state):
        say('size', hvd.size(), 'from', state.step)
        while not stops():
            losses.append(float(step(tf.constant(ROWS[hvd.rank()::hvd.size()]))))
            state.step += 1
            say('step', state.step, 'loss', losses[-1])
            state.commit()
    loop(state)
    assert not losses or losses[-1] < losses[0] + 1e-6, losses  # one may come for the end only
    print('done', flush=True)


def fit():
    """Keras's own loop."""
    import horovod.tensorflow.keras as hvd_keras
    hvd.init()
    net = model()
    net.compile(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), 'mse')
    net.fit(ROWS[:8], 3 * ROWS[:8], batch_size=8, epochs=1, verbose=0)
    state = hvd_keras.elastic.KerasState(net, epoch=0, batch=0)

    class Stop(tf.keras.callbacks.Callback):
        def on_batch_end(self, batch, logs=None):
            say('batch', state.epoch, batch)
            if stops():
                self.model.stop_training = True

    @hvd_keras.elastic.run
    def loop(state):
        say('size', hvd.size(), 'from', state.epoch, state.batch)
        net.fit(ROWS[hvd.rank()::hvd.size()], 3 * ROWS[hvd.rank()::hvd.size()], batch_size=4,
                steps_per_epoch=4, epochs=100000, verbose=0, callbacks=[
                    Stop(), hvd_keras.elastic.UpdateBatchStateCallback(state),
                    hvd_keras.elastic.UpdateEpochStateCallback(state),
                    hvd_keras.elastic.CommitStateCallback(state, 1)])
    loop(state)
    print('done', flush=True)


if __name__ == '__main__':
    globals()[sys.argv[1]]()
