# SPDX-License-Identifier: Apache-2.0
"""Keras's fit() in an elastic job, in the way of Horovod's example: a step before the state is
made, and one after each change.

usage: elastic_fit.py GO keras|tf.keras

It trains epochs of 20 batches until the file GO is there, then two more.
"""
import importlib
import os
import sys

import numpy as np

GO, WHICH = sys.argv[1:]
if WHICH == 'keras':
    import keras
    import horovod.keras as hvd
else:
    from tensorflow import keras
    import horovod.tensorflow.keras as hvd
elastic = importlib.import_module(hvd.__name__ + '.elastic')

hvd.init()
print(f'place {os.environ["REIGEN_PLACE"]} on {os.environ["LOGIN"]} pid {os.getpid()}', flush=True)
rng = np.random.RandomState(1)
images = rng.rand(20 * 16, 8).astype(np.float32)
labels = images @ rng.rand(8, 1).astype(np.float32)

model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation='relu'),
                          keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size())),
              loss='mse')
model.fit(images[:16], labels[:16], batch_size=16, epochs=1, verbose=0)


def on_reset():
    print('a change:', hvd.rank(), 'of', hvd.size(), flush=True)
    state.model.optimizer.learning_rate = 0.001 * hvd.size()
    state.model.fit(images[:16], labels[:16], batch_size=16, epochs=1, verbose=0)


class Say(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if hvd.rank() == 0:
            print(f'epoch {state.epoch}: loss {logs["loss"]:.5f}, {hvd.size()} ranks', flush=True)


state = elastic.KerasState(model, batch=0, epoch=0, over=0, losses=[])
state.register_reset_callbacks([on_reset])


@elastic.run
def train(state):
    if hvd.rank() == 0:
        print(f'goes on at epoch {state.epoch}, batch {state.batch} with {hvd.size()} ranks',
              flush=True)
    while state.over < 2:
        callbacks = [elastic.UpdateEpochStateCallback(state),
                     elastic.UpdateBatchStateCallback(state), Say(),
                     elastic.CommitStateCallback(state, batches_per_commit=2)]
        before = state.epoch
        state.model.fit(images, labels, batch_size=16, epochs=1, callbacks=callbacks, verbose=0)
        assert state.epoch == before + 1 and state.batch == 0, (state.epoch, before, state.batch)
        state.over += int(hvd.broadcast(float(os.path.exists(GO)), 0, name='over'))


train(state)
weights = np.concatenate([np.asarray(w).ravel() for w in model.get_weights()])
first = np.asarray(hvd.broadcast(weights, 0, name='first'))
assert np.array_equal(first, weights), 'all ranks have the same model'
print('done', hvd.rank(), 'of', hvd.size(), 'in epoch', state.epoch, flush=True)
