# SPDX-License-Identifier: Apache-2.0
"""Gradients that a rank lacks while another one has them, executed eagerly."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.gradients import GradientReducer

ROWS, WIDTH = 5, 2


def reduced(loss_of, sources, **options):
    with tf.GradientTape() as tape:
        loss = loss_of()
    return hvd.DistributedGradientTape(tape, **options).gradient(loss, sources)


def check_a_dense_gradient_that_a_rank_lacks_counts_as_zeros():
    used, shared = tf.Variable([1., 2.]), tf.Variable([3.])
    for step in range(4):
        for options in ({}, {'groups': 2}, {'op': hvd.Sum}):
            has = step < 2 and hvd.rank() == step
            both = reduced(lambda: tf.reduce_sum(used) + (shared[0] if has else 0.),
                           [used, shared], **options)
            ranks = hvd.size() if options.get('op') == hvd.Sum else 1
            np.testing.assert_allclose(both[0], [ranks] * 2)
            if step < 2:
                np.testing.assert_allclose(both[1], [ranks / hvd.size()])
            else:
                assert both[1] is None


def check_a_sparse_gradient_that_a_rank_lacks_is_empty_there():
    table, other = tf.Variable(tf.ones([ROWS, WIDTH])), tf.Variable(1.)
    for owner in range(hvd.size()):
        for index_type in (tf.int32, tf.int64):
            def loss_of():
                rows = tf.gather(table, tf.constant([owner, 3], index_type))
                return other * (tf.reduce_sum(rows) if hvd.rank() == owner else 1.)

            found = reduced(loss_of, [table, other])[0]
            assert isinstance(found, tf.IndexedSlices)
            want = np.zeros([ROWS, WIDTH])
            want[[owner, 3]] = 1. / hvd.size()
            np.testing.assert_allclose(tf.convert_to_tensor(found), want)


def check_what_is_dense_anywhere_is_dense_everywhere():
    table = tf.Variable(tf.ones([ROWS, WIDTH]))
    for dense_rank in range(hvd.size()):
        found = reduced(lambda: tf.reduce_sum(table if hvd.rank() == dense_rank
                                              else tf.gather(table, [1])), table)
        want = np.full([ROWS, WIDTH], 1. / hvd.size())
        want[1] = 1.
        np.testing.assert_allclose(tf.convert_to_tensor(found), want)
        assert not isinstance(found, tf.IndexedSlices)


def check_a_gradient_may_come_first_in_a_later_batch():
    first, late = tf.Variable([1., 2.]), tf.Variable([3.])
    helper = LocalGradientAggregationHelperEager(2, GradientReducer('late', op=hvd.Sum), False,
                                                 False)
    for batch in range(6):
        has = batch in (1, 3) and hvd.rank() == 0
        grads = [tf.ones(2), tf.ones(1) if has else None]
        found = helper.compute_gradients(grads, [first, late])
        if batch % 2:
            np.testing.assert_allclose(found[0], [2. * hvd.size()] * 2)
            # Who had one once has a sum, which is zero where nothing was added.
            np.testing.assert_allclose(found[1], [1. if batch < 5 else 0.])


def check_a_later_batch_may_train_other_variables():
    """As where layers are frozen or not any more: a variable keeps its sum in whatever place."""
    front, back = tf.Variable([0., 0.]), tf.Variable([0., 0.])
    for number, graph in enumerate((tf.function, lambda function: function)):
        helper = LocalGradientAggregationHelperEager(
            2, GradientReducer(f'more{number}', op=hvd.Sum), False, False)
        one = graph(lambda: helper.compute_gradients([tf.fill([2], 10.)], [back]))
        both = graph(lambda: helper.compute_gradients([tf.ones([2]), tf.fill([2], 10.)],
                                                      [front, back]))
        for batch in (one, one, both, both, one, both, both, both, one, one):
            found = batch()
            assert len(found) == (1 if batch is one else 2)
            if int(helper.counter) == 0:
                np.testing.assert_allclose(found[-1], [20. * hvd.size()] * 2)
        for before, ones in ((both, 2), (one, 1), (both, 2)):
            before()
            np.testing.assert_allclose(both()[0], [ones * hvd.size()] * 2)


def check_a_variable_may_be_listed_twice():
    value = tf.Variable([0., 0.])
    for number, graph in enumerate((tf.function, lambda function: function)):
        helper = LocalGradientAggregationHelperEager(
            2, GradientReducer(f'twice{number}', op=hvd.Sum), False, False)
        batch = graph(lambda: helper.compute_gradients([tf.ones([2]), tf.fill([2], 10.)],
                                                       [value, value]))
        batch()
        for found, want in zip(batch(), (2., 20.)):
            np.testing.assert_allclose(found, [want * hvd.size()] * 2)


def check_adasum_combines_the_same_variables_on_all_ranks():
    first, second = tf.Variable([1., 2.]), tf.Variable([1., 2.])
    optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.),
                                         op=hvd.Adasum)
    for step in range(2):
        optimizer.apply_gradients([(tf.ones(2) if hvd.rank() == owner else None, variable)
                                   for owner, variable in enumerate((first, second))])
        # One rank goes a way of its own and the other one stays, so all go that way.
        for variable in (first, second):
            np.testing.assert_allclose(variable, [0. - step, 1. - step])


class OneMore(tf.keras.Model):
    """Only rank 0 uses its second layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.more = (tf.keras.layers.Dense(1) for _ in range(2))
        for layer in (self.layer, self.more):
            layer.build((None, 3))

    def call(self, samples):
        found = self.layer(samples)
        return found + self.more(samples) if hvd.rank() == 0 else found


def check_keras_fits_eagerly_what_a_rank_does_not_use():
    for passes in (1, 2):
        tf.keras.utils.set_random_seed(1)
        net = OneMore()
        before = [w.copy() for w in net.more.get_weights()]
        net.compile(optimizer=hvd_keras.DistributedOptimizer(
            tf.keras.optimizers.SGD(0.1), backward_passes_per_step=passes), loss='mse',
            run_eagerly=True)
        net.fit(np.ones([8, 3], 'float32'), np.ones([8, 1], 'float32'), batch_size=2, verbose=0)
        for was, now in zip(before, net.more.get_weights()):
            assert np.abs(now - was).max() > 1e-4
            everywhere = hvd.allgather(tf.constant(now)[tf.newaxis]).numpy()
            np.testing.assert_array_equal(everywhere, [now] * hvd.size())
