# SPDX-License-Identifier: Apache-2.0
"""What scripts written for Horovod 0.28 rely on, beyond training: run by two or more ranks."""
import dataclasses
import inspect
import os
import shutil
import tempfile
import threading

import keras
import numpy as np
import tensorflow as tf

import horovod.keras as hvd_keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_tfk
import whole
from horovod.tensorflow.data import compute_service, compute_worker

tf1 = tf.compat.v1
K = tf.keras
KERAS_3 = hasattr(K.optimizers.Optimizer, 'stateless_apply')


def total():
    """Of rank + 1, over the ranks."""
    return hvd.size() * (hvd.size() + 1) / 2


# ---------------------------------------------------------------------------- graphs

def in_graph(build):
    """What a session finds for build()'s tensors, and what a tf.function does."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetched = build()
        session.run(tf1.global_variables_initializer())
        found = session.run(fetched)
    # What a rank left out in the session must not be met by what another does in the function.
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    return found, [np.asarray(x) for x in tf.function(build)()]


def check_gradient_of_a_broadcast_is_reduced_on_all_ranks():
    """The zeros of ranks that are not the root are known before anything runs; so are what is
    added to them and what they are multiplied by."""
    for root in range(hvd.size()):
        def build(root=root):
            value = tf.constant([1., 2.]) + 0 * tf.cast(hvd.rank_op(), tf.float32)
            loss = tf.reduce_sum(hvd.broadcast(value, root) * (hvd.rank() + 1.))
            gradient, = tf.gradients(loss, value)
            return [gradient, gradient * 0. + 1., gradient + value]

        want = np.full(2, total() / hvd.size() if hvd.rank() == root else 0.)
        for found in in_graph(build):
            np.testing.assert_allclose(found[0], want)
            np.testing.assert_allclose(found[1], [1, 1])
            np.testing.assert_allclose(found[2], want + [1, 2])


def check_gradients_of_ranks_that_take_no_part():
    """Rank 0 gives no rows, gets none, or its gradient is known to be nothing."""
    def build():
        value = tf.ones([2 * min(hvd.rank(), 1), 3])
        even = tf.ones([hvd.size() - 1, 2])  # the last rank gets no row
        losses = [
            (hvd.allgather(value, name='rows'), value),
            (hvd.grouped_allgather([value, value], name='group')[1], value),
            (hvd.reducescatter(even, op=hvd.Sum, name='parts'), even),
            (hvd.alltoall(value, [0] * (hvd.size() - 1) + [value.shape[0]], name='sent')[0], value),
            (hvd.allreduce(even, op=hvd.Sum, name='sum') * min(hvd.rank(), 1), even),
            (hvd.grouped_allreduce([even, even], op=hvd.Sum, name='sums')[0], even)]
        return [tf.gradients(tf.reduce_sum(y), x)[0] for y, x in losses]

    for rows, group, parts, sent, summed, sums in in_graph(build):
        assert rows.shape == group.shape == sent.shape == (2 * min(hvd.rank(), 1), 3)
        assert (rows == 1).all() and (group == 1).all() and (sent == 1).all()
        assert (parts == hvd.size()).all() and (sums == hvd.size()).all()
        assert (summed == hvd.size() - 1).all()


def check_sync_batch_norm_in_a_graph():
    if KERAS_3:
        return  # no layer of Keras 3 runs in a graph of TensorFlow 1
    with tf.Graph().as_default(), tf1.Session() as session:
        layer = hvd.SyncBatchNormalization()
        samples = tf.constant(np.arange(6.).reshape(3, 2) * (hvd.rank() + 1), tf.float32)
        loss = tf.reduce_sum(layer(samples, training=True) ** 2 * hvd.rank())
        gradient, = tf.gradients(loss, samples)
        session.run(tf1.global_variables_initializer())
        assert np.isfinite(session.run(gradient)).all()


def check_objects_in_a_graph():
    for opened in (True, False):
        with tf.Graph().as_default():
            if opened:
                with tf1.Session():
                    exchange_objects()
            else:
                exchange_objects()
            with tf1.Session() as session:
                exchange_objects(session=session)


def exchange_objects(**options):
    assert hvd.broadcast_object({'rank': hvd.rank()}, 1, **options) == {'rank': 1}
    assert hvd.allgather_object('x' * hvd.rank(), **options) == \
        ['x' * rank for rank in range(hvd.size())]
    send = hvd.broadcast_object_fn(root_rank=1, **options)
    for turn in range(2):
        assert send((turn, hvd.rank())) == (turn, 1)


# ---------------------------------------------------------------------------- Keras's functions

def check_keras_functions_give_tensors():
    mine = np.arange(hvd.size(), dtype=np.float32) + hvd.rank()
    mean = np.arange(hvd.size()) + (hvd.size() - 1) / 2
    for module in (hvd_keras, hvd_tfk):
        def call(module=module):
            return [module.allreduce(mine, name='reduced'),
                    module.allreduce(mine, name='summed', op=hvd.Sum),
                    module.allgather(mine, name='gathered'),
                    module.broadcast(mine, 1, name='sent'),
                    module.reducescatter(mine, name='part')]

        with tf.Graph().as_default(), tf1.Session():
            in_tf1 = call()
        assert all(isinstance(found, np.ndarray) for found in in_tf1), in_tf1
        eager, traced = call(), tf.function(call)()
        for found in (eager, traced, in_tf1):
            assert found is in_tf1 or all(isinstance(x, tf.Tensor) for x in found), found
            np.testing.assert_allclose(found[0], mean)
            np.testing.assert_allclose(found[1], mean * hvd.size())
            assert found[2].shape == (hvd.size() ** 2,)
            np.testing.assert_allclose(found[3], np.arange(hvd.size()) + 1)
            np.testing.assert_allclose(found[4], mean[hvd.rank():hvd.rank() + 1])
        assert float(module.allreduce(hvd.rank() + 1., average=False)) == total()


# ---------------------------------------------------------------------------- optimizers

def optimizers():
    """Makers of optimizers that take whole steps."""
    found = [lambda: K.optimizers.SGD(1.0)]
    if not KERAS_3:
        found.append(lambda: K.optimizers.legacy.SGD(1.0))
    return found


def applied_in_a_function(optimizer):
    def apply(pairs):
        optimizer.apply_gradients(pairs)
    return tf.function(apply, reduce_retracing=True)


def ways():
    """How a loop of one's own may compute gradients, clip them, and apply them."""
    def computed(optimizer, value, callable_loss):
        if callable_loss:
            return optimizer.compute_gradients(lambda: value * (hvd.rank() + 1.), [value])
        with tf.GradientTape() as tape:
            loss = value * (hvd.rank() + 1.)
        return optimizer._compute_gradients(loss, [value], tape=tape)

    def clipped(pairs):
        return [(tf.clip_by_value(gradient, -1., 1.), value) for gradient, value in pairs]

    def eager(optimizer, value, callable_loss):
        def step():
            pairs = computed(optimizer, value, callable_loss)
            optimizer.apply_gradients(clipped(pairs))
            return pairs[0][0]
        return step

    def in_one(optimizer, value, callable_loss):
        return tf.function(eager(optimizer, value, callable_loss))

    def first_in_a_function(optimizer, value, callable_loss):
        gradient = tf.function(lambda: computed(optimizer, value, callable_loss)[0][0])

        def step():
            found = gradient()
            optimizer.apply_gradients(clipped([(found, value)]))
            return found
        return step

    def second_in_a_function(optimizer, value, callable_loss):
        apply = applied_in_a_function(optimizer)

        def step():
            found = computed(optimizer, value, callable_loss)[0][0]
            apply(clipped([(found, value)]))
            return found
        return step

    return [eager, in_one, first_in_a_function, second_in_a_function]


def check_compute_gradients_reduces_and_apply_does_not_again():
    number = 0
    for optimizer_of in optimizers():
        for wrap in (hvd_keras.DistributedOptimizer, hvd_tfk.DistributedOptimizer):
            for way in ways():
                number += 1
                value = tf.Variable(0., name=f'value_{number}')
                optimizer = wrap(optimizer_of(), op=hvd.Sum)
                getattr(optimizer, 'build', lambda _: None)([value])
                step = way(optimizer, value, number % 2)
                for turn in range(1, 4):
                    assert float(step()) == total(), way
                    assert float(value) == -turn, (way, float(value))
                # Gradients that have not been through it are reduced where they are applied.
                optimizer.apply_gradients([(tf.constant(hvd.rank() + 1.), value)])
                assert float(value) == -3 - total(), (way, float(value))
                applied_in_a_function(optimizer)([(tf.constant(hvd.rank() + 1.), value)])
                assert float(value) == -3 - 2 * total(), (way, float(value))


def check_compute_gradients_of_several_passes():
    for optimizer_of in optimizers():
        for way in ways()[:2]:
            value = tf.Variable(0.)
            optimizer = hvd_tfk.DistributedOptimizer(optimizer_of(), op=hvd.Sum,
                                                     backward_passes_per_step=2)
            getattr(optimizer, 'build', lambda _: None)([value])
            step = way(optimizer, value, False)
            for turn in range(4):
                want = 2 * total() if turn % 2 else hvd.rank() + 1
                assert float(step()) == want, (way, turn)
                assert float(value) == -((turn + 1) // 2), (way, turn, float(value))
            assert int(optimizer.iterations) == 4


def check_compute_gradients_of_scaled_losses():
    """A LossScaleOptimizer inside or outside."""
    scaler = K.mixed_precision.LossScaleOptimizer
    for optimizer_of in optimizers():
        makers = [lambda: hvd_tfk.DistributedOptimizer(scaler(optimizer_of()), op=hvd.Sum)]
        if not KERAS_3:
            makers.append(lambda: scaler(hvd_tfk.DistributedOptimizer(optimizer_of(), op=hvd.Sum)))
        for make in makers:
            value, optimizer = tf.Variable(0.), make()
            getattr(optimizer, 'build', lambda _: None)([value])
            for turn in range(1, 3):
                if hasattr(optimizer, 'compute_gradients'):
                    pairs = optimizer.compute_gradients(
                        lambda: value * (hvd.rank() + 1.) / total(), [value])
                else:
                    pairs = optimizer._compute_gradients(
                        lambda: value * (hvd.rank() + 1.) / total(), [value])
                optimizer.apply_gradients(pairs)
                np.testing.assert_allclose(float(value), -turn, rtol=1e-6)


def check_get_gradients_of_a_graph():
    if KERAS_3:
        return
    with tf.Graph().as_default(), tf1.Session() as session:
        value = tf1.get_variable('value', initializer=0.)
        optimizer = hvd_tfk.DistributedOptimizer(K.optimizers.legacy.SGD(1.0), op=hvd.Sum)
        gradients = optimizer.get_gradients(value * (hvd.rank() + 1.), [value])
        clipped = [tf.clip_by_value(g, -1., 1.) for g in gradients]
        step = optimizer.apply_gradients(zip(clipped, [value]))
        session.run(tf1.global_variables_initializer())
        assert session.run([gradients[0], step])[0] == total()
        assert session.run(value) == -1


# ---------------------------------------------------------------------------- tapes

def recorded(shared, local, wrap=hvd.DistributedGradientTape, **options):
    with tf.GradientTape() as tape:
        loss = shared * (hvd.rank() + 1.) + local * (hvd.rank() + 1.)
    tape = wrap(tape, **options)
    return tape, loss


def check_tapes_know_local_and_global_gradients():
    shared, local, mean = tf.Variable(1.), tf.Variable(1.), total() / hvd.size()
    for scale in (True, False):
        for generic in (True, False):
            def both(scale=scale, generic=generic):
                tape, loss = recorded(shared, local, scale_local_gradients=scale)
                tape.register_local_source(local)
                mine, ours = tape.get_local_and_global_gradients(
                    loss, [shared, local], use_generic_names=generic)
                assert mine[0][0] is local and ours[0][0] is shared
                return mine[0][1], ours[0][1]

            for run in (both, tf.function(both)):
                found, averaged = run()
                whole.close(found, (hvd.rank() + 1) / (hvd.size() if scale else 1), 'a local one')
                whole.close(averaged, mean, 'a global one')
    layer = K.layers.Dense(1, use_bias=False)
    layer.build((1, 1))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.ones([1, 1]))) * (hvd.rank() + 1.) + shared
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=[layer])
    mine, ours = tape.get_local_and_global_gradients(loss, [*layer.trainable_weights, shared])
    whole.close(mine[0][1], (hvd.rank() + 1) / hvd.size(), 'a local layer')
    assert float(ours[0][1]) == 1
    try:
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[shared])
    except ValueError as error:
        assert 'tf.keras.layers.Layer' in str(error)
    else:
        raise AssertionError('a variable was taken for a layer')


def check_generic_names_match_differing_graphs():
    """Each rank has other names and scopes, and no gradient of some variable of its own."""
    values = [tf.Variable([1., 2.]), tf.Variable(3.), tf.Variable([[4.]])]

    def gradients():
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(v) for v in values) * (hvd.rank() + 1.)
        with tf.name_scope(f'of_rank_{hvd.rank()}'):
            return hvd.DistributedGradientTape(tape).gradient(loss, values, None, True)

    for run in (gradients, tf.function(gradients)):
        for found in run():
            np.testing.assert_allclose(found, np.full(found.shape, total() / hvd.size()))
    with tf.GradientTape() as tape:
        loss = values[0] * 2.
    found = hvd.DistributedGradientTape(tape).gradient(
        loss, values[1], None, tf.UnconnectedGradients.ZERO)
    assert float(found) == 0


def check_generic_names_of_two_tapes_in_a_graph_differ():
    """They have other shapes, and nothing says which of them is sent first."""
    short, long = tf.Variable([1.]), tf.Variable([1., 2., 3.])

    def gradient(value):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(value) * (hvd.rank() + 1.)
        with tf.name_scope(f'of_rank_{hvd.rank()}'):
            return hvd.DistributedGradientTape(tape).gradient(loss, value, None, True)

    both = tf.function(lambda: (gradient(short), gradient(long)))
    for _ in range(20):
        for found in both():
            np.testing.assert_allclose(found, np.full(found.shape, total() / hvd.size()))
    names = [op.name for op in both.get_concrete_function().graph.get_operations()
             if op.type in ('HorovodAllreduce', 'HorovodAgreeOnGradients')]
    assert len(names) == 4 and len({n.split('/')[-1] for n in names}) == 4, names


# ---------------------------------------------------------------------------- the rest

def check_averaged_integers_of_sparse_tensors_are_floats():
    for dtype, result in ((tf.int32, tf.float64), (tf.int64, tf.float64), (tf.int16, tf.float32)):
        mine = tf.IndexedSlices(tf.constant([[-75 * (hvd.rank() + 1)]], dtype), tf.constant([0]))
        for found in (hvd.allreduce(mine), hvd.grouped_allreduce([mine])[0]):
            assert found.values.dtype == result, found.values.dtype
            np.testing.assert_allclose(
                found.values, [[-75 * (rank + 1) / hvd.size()] for rank in range(hvd.size())])
        assert hvd.allreduce(mine, op=hvd.Sum).values.dtype == dtype


def check_averages_of_integers_truncate():
    mine = np.array([-75, 75, -1, 1, -7, 7]) if hvd.rank() == 0 else np.zeros(6, int)
    want = np.trunc(np.array([-75, 75, -1, 1, -7, 7]) / hvd.size()).astype(int).tolist()
    for dtype in (tf.int8, tf.int16, tf.int32, tf.int64):
        tensor = tf.constant(mine, dtype)
        for found in (hvd.allreduce(tensor), hvd.grouped_allreduce([tensor, tensor])[1],
                      tf.function(hvd.allreduce)(tensor), hvd_keras.allreduce(tensor),
                      hvd.allgather(hvd.reducescatter(tensor))):
            assert found.dtype == dtype and found.numpy().tolist() == want, (dtype, found, want)


def check_names_and_signatures():
    assert [list(part) for part in hvd.split_list([1, 2, 3], 2)] == [[1, 2], [3]]
    assert callable(hvd.gpu_available) and callable(hvd.check_extension)
    names = list(inspect.signature(hvd_keras.PartialDistributedOptimizer).parameters)
    assert names[7:12] == ['op', 'groups', 'process_set', 'local_layers', 'scale_local_gradients']
    layer = keras.layers.Dense(1, use_bias=False)
    layer.build((1, 1))
    optimizer = hvd_keras.PartialDistributedOptimizer(
        keras.optimizers.SGD(1.0), None, '', '', hvd.Compression.none, False, 1.0, hvd.Average,
        None, hvd.global_process_set, layer, False)
    weight = layer.trainable_weights[0]
    weight.assign([[0.]])
    optimizer.apply_gradients([(tf.constant([[hvd.rank() + 1.]]), weight)])
    whole.close(weight, [[-hvd.rank() - 1.]], 'a weight of a local layer')


def check_data_comes_from_a_service():
    """Its workers run in the same processes here; the reader finds them by the file."""
    for dispatchers in {1, hvd.size()}:
        folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None)
        path = os.path.join(folder, 'service.json')
        worker = threading.Thread(target=compute_worker.main,
                                  args=(dispatchers, 'compute', path, 60), daemon=True)
        worker.start()
        config = compute_service.TfDataServiceConfig.read(path, wait_for_file_creation=True)
        assert config == config.from_dict(config.to_dict())
        found = tf.data.Dataset.range(64).batch(8).send_to_data_service(
            config, hvd.rank(), hvd.size())
        assert sorted(x for batch in found.as_numpy_iterator() for x in batch) == list(range(64))
        if hvd.rank() == 0:
            refuse_strangers(config)
        # The end comes when the slowest reader is done.
        with tf.device('/cpu:0'):
            hvd.allreduce(tf.constant(0.), name=f'read.{dispatchers}')
        if hvd.rank() == 0:
            config.compute_client().shutdown()
        worker.join(60)
        assert not worker.is_alive()
        if hvd.rank() == 0:
            assert os.stat(path).st_mode & 0o077 == 0
            shutil.rmtree(folder)


def refuse_strangers(config):
    forged = dataclasses.replace(config, key=b'guessed').compute_client()
    for call in (forged.shutdown, lambda: forged.wait_for_dispatcher_registration(0, 1)):
        try:
            call()
        except ConnectionError:
            continue
        raise AssertionError('a stranger was heard')
    client = config.compute_client()
    for error, call in (
            (ValueError, lambda: client.register_dispatcher(0, 'grpc://elsewhere:1')),
            (IndexError, lambda: client.register_dispatcher(config.dispatchers, 'grpc://x:1'))):
        try:
            call()
        except error:
            continue
        raise AssertionError(f'no {error.__name__}')
