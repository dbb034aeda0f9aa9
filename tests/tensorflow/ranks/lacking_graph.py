# SPDX-License-Identifier: Apache-2.0
"""Gradients that a rank lacks while another one has them, in functions and graphs."""
import contextlib
import os

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import lacking
from horovod.tensorflow.gradients import GradientReducer

tf1 = tf.compat.v1
ROWS, WIDTH = lacking.ROWS, lacking.WIDTH


@contextlib.contextmanager
def zeros_for_missing():
    os.environ['REIGEN_MISSING_GRADIENTS'] = 'zeros'
    try:
        yield
    finally:
        del os.environ['REIGEN_MISSING_GRADIENTS']


@contextlib.contextmanager
def refused(*words):
    """All ranks are told that they differ, in these words."""
    try:
        yield
    except tf.errors.FailedPreconditionError as error:
        text = str(error)
        for word in ('HorovodAgreeOnGradients: the ranks have different gradients: ', *words):
            assert word in text, f'{word!r} is not in {text!r}'
    else:
        raise AssertionError('nothing was refused')


def step_of(loss_of, sources, **options):
    return tf.function(lambda: lacking.reduced(loss_of, sources, **options))


def first() -> bool:
    return hvd.rank() == 0


def check_a_missing_gradient_is_an_error_on_all_ranks():
    used, shared = tf.Variable([1., 2.], name='used'), tf.Variable([3.], name='shared')
    for options in ({}, {'groups': 1}, {'op': hvd.Sum}, {'compression': hvd.Compression.fp16}):
        step = step_of(lambda: tf.reduce_sum(used) + (shared[0] if first() else 0.),
                       [used, shared], **options)
        for _ in range(2):
            with refused('shared:0 (rank 0 has a dense one, rank 1 has none). ',
                         'REIGEN_MISSING_GRADIENTS=zeros'):
                step()
    # Nothing is left of it: the next function works, and None stays None.
    alike = step_of(lambda: tf.reduce_sum(used), [used, shared])
    assert alike()[1] is None
    np.testing.assert_allclose(alike()[0], [1., 1.])


def check_forms_that_differ_are_an_error_on_all_ranks():
    table = tf.Variable(tf.ones([ROWS, WIDTH]), name='table')
    for other, word in ((lambda: tf.reduce_sum(table), 'rank 1 has a dense one'),
                        (lambda: tf.constant(1.), 'rank 1 has none')):
        step = step_of(lambda: (tf.reduce_sum(tf.gather(table, [1])) if first() else other()),
                       [table])
        with refused('table:0 (', 'rank 0 has a sparse one', word, 'sparse_as_dense=True'):
            step()
    # That remedy is one.
    found = step_of(lambda: tf.reduce_sum(tf.gather(table, [1]) if first() else table), table,
                    sparse_as_dense=True)()
    want = np.full([ROWS, WIDTH], 1. / hvd.size())
    want[1] = 1.
    np.testing.assert_allclose(found, want)


class Named:
    """A variable under a name that TensorFlow itself would not give."""

    def __init__(self, name):
        self.path = name


def check_any_name_can_be_said():
    """Long ones are cut between characters, and no line ends in one."""
    for name, shown in (('é' * 200, 'é' * 60), ('x' + 'é' * 200, 'x' + 'é' * 59),
                        ('€' * 40, '€' * 40), ('x' + '🦌' * 40, 'x' + '🦌' * 29),
                        ('a\nb\r\x1b[2J\0\x7f\u2028c', 'a b  [2J   c')):
        def step():
            grads = [tf.constant([1.]) if first() else None]
            return GradientReducer('Named')(grads, [Named(name)])

        with refused(f'gradients: {shown} (rank 0 has a dense one, rank 1 has none). '):
            tf.function(step)()


def check_many_are_counted():
    several = [tf.Variable(1., name=f'v{i}') for i in range(9)]
    with refused('v0:0 (', 'v3:0 (', ' and 5 more. '):
        step_of(lambda: tf.add_n(several) if first() else tf.constant(1.), several)()


def check_another_order_of_variables_is_an_error():
    one, two = tf.Variable([1.], name='one'), tf.Variable([1.], name='two')
    try:
        step_of(lambda: one[0] + 2. * two[0], [one, two] if first() else [two, one])()
    except tf.errors.FailedPreconditionError as error:
        assert 'the same variables in different orders' in str(error), error
    else:
        raise AssertionError('nothing was refused')
    # Other names are fine: frameworks number them.
    mine = tf.Variable([1.], name=f'mine_{hvd.rank()}')
    np.testing.assert_allclose(step_of(lambda: mine[0] * 3., [mine])()[0], [3.])


def check_zeros_are_sent_where_that_is_asked_for():
    used, shared = tf.Variable([1., 2.]), tf.Variable([3.])
    with zeros_for_missing():
        for options in ({}, {'groups': 1}, {'op': hvd.Sum}):
            step = step_of(lambda: tf.reduce_sum(used * used) + (shared[0] if first() else 0.),
                           [used, shared], **options)
            ranks = hvd.size() if options.get('op') == hvd.Sum else 1
            for _ in range(2):
                both = step()
                np.testing.assert_allclose(both[0], [2. * ranks, 4. * ranks])
                np.testing.assert_allclose(both[1], [ranks / hvd.size()])


def check_an_unknown_word_is_refused():
    value = tf.Variable(1.)
    os.environ['REIGEN_MISSING_GRADIENTS'] = 'ignore'
    try:
        step_of(lambda: value * 2., [value])()
    except ValueError as error:
        assert "'ignore'" in str(error) and 'error or zeros' in str(error), error
    else:
        raise AssertionError('nothing was refused')
    finally:
        del os.environ['REIGEN_MISSING_GRADIENTS']


def check_loops_compare_one_step_after_the_other():
    value = tf.Variable([0.])
    for generic in (False, True):
        value.assign([0.])

        @tf.function
        def steps():
            for _ in tf.range(20):
                for _ in range(2):
                    with tf.GradientTape() as tape:
                        # Each gradient needs the value after the one before.
                        loss = tf.reduce_sum(value * float(hvd.rank()) - value * value / 4.)
                    tape = hvd.DistributedGradientTape(tape)
                    value.assign_add(tape.gradient(loss, [value], use_generic_names=generic)[0])

        steps()
        np.testing.assert_allclose(value, [hvd.size() - 1.], rtol=1e-6)


def check_a_rank_that_has_joined_has_no_say():
    value = tf.Variable([1.])
    step = step_of(lambda: tf.reduce_sum(value), [value], op=hvd.Sum)
    np.testing.assert_allclose(step()[0], [hvd.size()])
    if first():
        np.testing.assert_allclose(step()[0], [1.])
    hvd.join()


def check_graphs_of_tensorflow_1():
    def train(passes):
        with tf.Graph().as_default():
            used = tf1.get_variable('used', [2], initializer=tf1.zeros_initializer())
            more = tf1.get_variable('more', [1], initializer=tf1.zeros_initializer())
            loss = tf.reduce_sum(used) + (more[0] if first() else 0.)
            optimizer = hvd.DistributedOptimizer(tf1.train.GradientDescentOptimizer(1.),
                                                 backward_passes_per_step=passes)
            # As minimize(), which takes no variable that the loss does not use.
            pairs = optimizer.compute_gradients(loss, [used, more])
            step = optimizer.apply_gradients(pairs)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                for _ in range(passes):
                    session.run(step)
                return session.run([used, more])

    for passes in (1, 2):
        with refused('more:0 (rank 0 has a dense one, rank 1 has none)'):
            train(passes)
        with zeros_for_missing():
            used, more = train(passes)
        np.testing.assert_allclose(used, [-passes] * 2)
        np.testing.assert_allclose(more, [-passes / hvd.size()])


def fit(passes, **options):
    tf.keras.utils.set_random_seed(1)
    net = lacking.OneMore()
    before = [w.copy() for w in net.more.get_weights()]
    net.compile(optimizer=hvd_keras.DistributedOptimizer(
        tf.keras.optimizers.SGD(0.1), backward_passes_per_step=passes), loss='mse', **options)
    net.fit(np.ones([8, 3], 'float32'), np.ones([8, 1], 'float32'), batch_size=2, verbose=0)
    return before, net.more.get_weights()


def check_keras_fits_in_functions_what_a_rank_does_not_use():
    for passes in (1, 2):
        for options in ({}, {'steps_per_execution': 2}):
            with refused('rank 0 has a dense one, rank 1 has none'):
                fit(passes, **options)
            with zeros_for_missing():
                before, after = fit(passes, **options)
            for was, now in zip(before, after):
                assert np.abs(now - was).max() > 1e-4
                everywhere = hvd.allgather(tf.constant(now)[tf.newaxis]).numpy()
                np.testing.assert_array_equal(everywhere, [now] * hvd.size())
