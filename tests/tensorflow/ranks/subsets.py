# SPDX-License-Identifier: Apache-2.0
"""Training on process sets: rank 0 by itself, all others together; run by three ranks or more."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import whole

K = tf.keras


def mine():
    """This rank's set."""
    return SETS[min(hvd.rank(), 1)]


def check_tape_reduces_within_the_set():
    value = tf.Variable(1.)

    def gradient():
        with tf.GradientTape() as tape:
            loss = value * float(hvd.rank() + 1)
        tape = hvd.DistributedGradientTape(tape, process_set=mine())
        return tape.gradient(loss, value)

    want = 1 if hvd.rank() == 0 else (hvd.size() + 2) / 2
    assert float(gradient()) == want
    assert float(tf.function(gradient)()) == want


def check_ranks_outside_the_set_keep_their_gradients():
    value = tf.Variable(0.)

    def gradient():
        with tf.GradientTape() as tape:
            loss = value * float(hvd.rank() + 1)
        return hvd.DistributedGradientTape(tape, process_set=SETS[1]).gradient(loss, value)

    want = 1 if hvd.rank() == 0 else (hvd.size() + 2) / 2
    assert float(gradient()) == want
    assert float(tf.function(gradient)()) == want
    for passes in (1, 2):
        value.assign(0.)
        optimizer = hvd_keras.DistributedOptimizer(K.optimizers.SGD(1.0), process_set=SETS[1],
                                                   backward_passes_per_step=passes)
        for _ in range(passes):
            optimizer.apply_gradients([(tf.constant(hvd.rank() + 1.), value)])
        assert float(value) == -want * passes, float(value)


def check_unknown_and_foreign_sets():
    unknown = hvd.ProcessSet([0])
    unknown.process_set_id = 99
    foreign = SETS[1] if hvd.rank() == 0 else SETS[0]
    for process_set, error in ((unknown, ValueError), (foreign, tf.errors.InvalidArgumentError)):
        try:
            hvd.allreduce(tf.ones(4), process_set=process_set)
        except error:
            continue
        raise AssertionError(f'{process_set} was taken')


def check_fit_and_broadcasts_stay_within_the_set():
    K.utils.set_random_seed(hvd.rank())
    net = K.Sequential([K.layers.Input((8,)), K.layers.Dense(2)])
    optimizer = hvd_keras.DistributedOptimizer(K.optimizers.SGD(0.1), process_set=mine())
    net.compile(optimizer=optimizer, loss='mse')
    root = mine().ranks[-1]
    hvd.broadcast_variables(net.variables, root, process_set=mine())
    net.fit(np.random.randn(8, 8), np.random.randn(8, 2), batch_size=4, verbose=0)
    found = hvd.allgather_object(whole.weights(net).tobytes())
    assert found[0] != found[1] and len(set(found[1:])) == 1
    assert hvd.broadcast_object(hvd.rank(), root, process_set=mine()) == root


if __name__ == '__main__':
    hvd.init()
    SETS = [hvd.ProcessSet([0]), hvd.ProcessSet(range(1, hvd.size()))]
    hvd.shutdown()
    hvd.init(process_sets=SETS)
    check_tape_reduces_within_the_set()
    check_ranks_outside_the_set_keep_their_gradients()
    check_unknown_and_foreign_sets()
    check_fit_and_broadcasts_stay_within_the_set()
    if hvd.rank() == 0:
        print('all good on', hvd.size(), 'ranks', flush=True)
    hvd.shutdown()
