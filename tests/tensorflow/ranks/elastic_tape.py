# SPDX-License-Identifier: Apache-2.0
"""A loop of TensorFlow 2's in an elastic job, in the way of Horovod's example.

usage: elastic_tape.py GO

It trains until the file GO is there.
"""
import os
import sys

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

GO = sys.argv[1]
hvd.init()
print(f'place {os.environ["REIGEN_PLACE"]} on {os.environ["LOGIN"]} pid {os.getpid()}', flush=True)
rng = np.random.RandomState(1)
images = tf.constant(rng.rand(16, 8).astype(np.float32))
labels = tf.constant(rng.rand(16, 1).astype(np.float32))
model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(16),
                             tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.001 * hvd.size())


@tf.function
def step(allreduce=True):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    if allreduce:
        tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


step(allreduce=False)


def on_reset():
    optimizer.learning_rate.assign(0.001 * hvd.size())


state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0, over=False)
state.register_reset_callbacks([on_reset])


@hvd.elastic.run
def train(state):
    if hvd.rank() == 0:
        print(f'goes on at batch {state.batch} with {hvd.size()} ranks', flush=True)
    while not state.over:
        loss = step()
        ones = hvd.allreduce(tf.ones(2), op=hvd.Sum, name='ranks')
        assert float(ones[0]) == hvd.size(), ones
        state.batch += 1
        state.over = hvd.broadcast_object(os.path.exists(GO), 0, name='over')
        state.commit()
        if hvd.rank() == 0:
            print(f'batch {state.batch}: loss {float(loss):.5f}, {hvd.size()} ranks', flush=True)


train(state)
weights = tf.concat([tf.reshape(w, [-1]) for w in model.trainable_variables], 0)
assert np.array_equal(hvd.broadcast(weights, 0, name='first').numpy(), weights.numpy())
print('done', hvd.rank(), 'of', hvd.size(), flush=True)
