# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow in graphs with sessions, as in TensorFlow 1: run by two or more ranks."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import whole

tf1 = tf.compat.v1
SAMPLES, CLASSES = whole.problem()


def train(distributed, optimizer_of=lambda: tf1.train.MomentumOptimizer(0.1, 0.9), passes=1,
          wrap=True, hook=False, **options):
    """(weights, global step) after one pass."""
    with tf.Graph().as_default():
        tf1.set_random_seed(3 + (hvd.rank() if hook else 0))
        samples = tf1.placeholder(tf.float32, [None, 8])
        classes = tf1.placeholder(tf.int64, [None])
        hidden = tf.tanh(samples @ tf1.get_variable('one', [8, 16]))
        logits = hidden @ tf1.get_variable('two', [16, 3])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits))
        optimizer = optimizer_of()
        if distributed:
            optimizer = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=passes,
                                                 **options)
        step = tf1.train.get_or_create_global_step()
        operation = optimizer.minimize(loss, global_step=step)
        order, size = np.arange(whole.COUNT), whole.BATCH * hvd.size() * passes
        if distributed:
            order, size = whole.own_order(hvd.rank(), hvd.size()), whole.BATCH
        hooks = [hvd.BroadcastGlobalVariablesHook(0)] if hook else []
        with tf1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for start in range(0, len(order), size):
                part = order[start:start + size]
                session.run(operation, {samples: SAMPLES[part], classes: CLASSES[part]})
            found = session.run([*tf1.trainable_variables(), step])
        return np.concatenate([w.ravel() for w in found[:-1]]), int(found[-1])


def check_optimizer_equals_the_whole_batch():
    want, _ = train(False)
    for options in ({}, {'groups': 1}, {'gradient_predivide_factor': 2.0}):
        got, _ = train(True, **options)
        whole.close(got, want, f'graph {options}')
        whole.everywhere(hvd, got, f'graph {options}')


def check_several_passes_per_step():
    want, _ = train(False, passes=2)
    got, steps = train(True, passes=2, average_aggregated_gradients=True)
    whole.close(got, want, 'two passes per step')
    assert steps == whole.COUNT // (whole.BATCH * hvd.size()), steps


def check_hook_starts_all_ranks_alike():
    got, _ = train(True, hook=True)
    whole.everywhere(hvd, got, 'weights after the hook')


def check_adasum_of_steps():
    got, _ = train(True, op=hvd.Adasum, passes=2, hook=True)
    whole.everywhere(hvd, got, 'weights of Adasum')
    assert np.isfinite(got).all()


def check_broadcast_global_variables():
    with tf.Graph().as_default(), tf1.Session() as session:
        value = tf1.get_variable('value', initializer=float(hvd.rank()))
        operation = hvd.broadcast_global_variables(1)
        session.run(tf1.global_variables_initializer())
        session.run(operation)
        assert session.run(value) == 1.0
        send = hvd.broadcast_object_fn(root_rank=1, session=session)
        for turn in range(2):
            assert send((turn, hvd.rank())) == (turn, 1)
        found = hvd.allgather_object(hvd.rank(), session=session)
        assert found == list(range(hvd.size()))
    try:
        hvd.broadcast_global_variables(0)
    except RuntimeError:
        return
    raise AssertionError('broadcast_global_variables() ran without a graph')
