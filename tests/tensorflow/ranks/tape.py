# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow without Keras's fit(): run by two or more ranks."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import whole

K = tf.keras
SAMPLES, CLASSES = whole.problem()


def model():
    K.utils.set_random_seed(1)
    return K.Sequential([K.layers.Input((8,)), K.layers.Dense(16, activation='tanh'),
                         K.layers.Dense(3)])


def train(distributed, function=True, wrap=hvd.DistributedGradientTape, **options):
    """Weights after one pass with a loop of one's own."""
    net, optimizer = model(), K.optimizers.SGD(0.1, momentum=0.9)
    loss_of = K.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(samples, classes):
        with tf.GradientTape() as tape:
            loss = loss_of(classes, net(samples, training=True))
        if distributed:
            tape = wrap(tape, **options)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables))

    if function:
        step = tf.function(step)
    order = np.arange(whole.COUNT)
    if distributed:
        order = whole.own_order(hvd.rank(), hvd.size())
    size = whole.BATCH if distributed else whole.BATCH * hvd.size()
    for start in range(0, len(order), size):
        part = order[start:start + size]
        step(tf.constant(SAMPLES[part]), tf.constant(CLASSES[part]))
    return whole.weights(net)


def check_tape_equals_the_whole_batch():
    want = train(False)
    for options in ({}, {'function': False}, {'groups': 2}, {'gradient_predivide_factor': 2.0},
                    {'function': False, 'groups': 3}):
        got = train(True, **options)
        whole.close(got, want, f'tape {options}')
        whole.everywhere(hvd, got, f'tape {options}')
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        got = train(True, compression=compression)
        assert np.abs(got - want).max() < 0.05, compression


def check_tape_keeps_structure_and_none():
    first, second = tf.Variable([1., 2.]), tf.Variable([3.])
    for source in (first, [first, second], {'a': first, 'b': (second,)}):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(first * float(hvd.rank() + 1))
        found = hvd.DistributedGradientTape(tape).gradient(loss, source)
        tf.nest.assert_same_structure(tf.nest.map_structure(lambda v: 0, source),
                                      tf.nest.map_structure(lambda v: 0, found))
        flat = tf.nest.flatten(found)
        np.testing.assert_allclose(flat[0], [(hvd.size() + 1) / 2] * 2)
        assert all(g is None for g in flat[1:])


def check_local_variables_stay_local():
    shared, local = tf.Variable(1.), tf.Variable(1.)
    for scale in (True, False):
        with tf.GradientTape() as tape:
            loss = (shared + local) * float(hvd.rank() + 1)
        tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
        tape.register_local_source(local)
        both = tape.gradient(loss, [shared, local])
        assert float(both[0]) == (hvd.size() + 1) / 2
        assert float(both[1]) == (hvd.rank() + 1) / (hvd.size() if scale else 1)
    layer = K.layers.Dense(1, use_bias=False)
    layer.build((1, 1))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant([[hvd.rank() + 1.]])))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=layer)
    found = tape.gradient(loss, layer.trainable_variables)
    assert float(found[0][0, 0]) == (hvd.rank() + 1) / hvd.size()


def check_sparse_gradients():
    table = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2))
    dense = None
    for as_dense in (True, False):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [hvd.rank() % 4, 3]) * (hvd.rank() + 1.))
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense)
        found = tape.gradient(loss, table)
        assert isinstance(found, tf.IndexedSlices) != as_dense
        found = tf.convert_to_tensor(found)
        dense = found if as_dense else dense
        np.testing.assert_allclose(found, dense)
    try:
        hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0])), op=hvd.Adasum)
    except NotImplementedError:
        pass
    else:
        raise AssertionError('Adasum took a sparse tensor')


def check_groups_of_mixed_types():
    tensors = [tf.constant([1., 2.]) * (hvd.rank() + 1), tf.constant([3]) * (hvd.rank() + 1),
               tf.constant(1.5, tf.float64)]
    total = sum(range(1, hvd.size() + 1))
    found = hvd.grouped_allreduce(tensors, op=hvd.Sum)
    np.testing.assert_allclose(found[0], np.array([1., 2.]) * total)
    assert found[1].numpy().tolist() == [3 * total] and found[1].dtype == tf.int32
    assert float(found[2]) == 1.5 * hvd.size() and found[2].dtype == tf.float64
    parts = hvd.grouped_reducescatter([tf.ones([2 * hvd.size()]), tf.ones([hvd.size(), 3])],
                                      op=hvd.Sum)
    assert [p.shape.as_list() for p in parts] == [[2], [1, 3]]


def check_variables_and_objects():
    for inplace in (False, True):
        values = [tf.Variable([hvd.rank() + 1.]), tf.Variable(hvd.rank() + 5, dtype=tf.int64)]
        hvd.broadcast_variables(values, root_rank=hvd.size() - 1, inplace=inplace)
        assert float(values[0][0]) == hvd.size() and int(values[1]) == hvd.size() + 4
    net = model()
    for w in net.weights:
        w.assign(w * 0 + hvd.rank())
    hvd.broadcast_variables(net.variables, root_rank=1)
    assert (whole.weights(net) == 1).all()
    assert hvd.broadcast_object({'rank': hvd.rank()}, root_rank=1) == {'rank': 1}
    assert hvd.allgather_object('x' * hvd.rank()) == ['x' * r for r in range(hvd.size())]


def check_sync_batch_norm():
    layer = hvd.SyncBatchNormalization(momentum=0.5)
    # Batches of different size, as at the end of a pass.
    ends = np.cumsum([0] + [3 + r for r in range(hvd.size())])
    every = SAMPLES[:ends[-1]]
    mine = tf.Variable(every[ends[hvd.rank()]:ends[hvd.rank() + 1]])
    weight = np.linspace(1, 2, every.size).reshape(every.shape).astype(np.float32)
    part = weight[ends[hvd.rank()]:ends[hvd.rank() + 1]]
    with tf.GradientTape() as tape:
        output = layer(mine, training=True)
        loss = tf.reduce_sum(output * output * part)
    gradient = tape.gradient(loss, mine)
    plain = K.layers.BatchNormalization(momentum=0.5)
    together = tf.Variable(every)
    with tf.GradientTape() as tape:
        want = plain(together, training=True)
        loss = tf.reduce_sum(want * want * weight)
    rows = slice(ends[hvd.rank()], ends[hvd.rank() + 1])
    np.testing.assert_allclose(output, want[rows], atol=2e-5)
    np.testing.assert_allclose(gradient, tape.gradient(loss, together)[rows], atol=2e-4)
    np.testing.assert_allclose(layer.moving_mean, plain.moving_mean, atol=1e-6)


def check_elastic_state():
    net = model()
    net.compile('sgd', 'mse')
    state = hvd.elastic.TensorFlowKerasState(net, epoch=1)
    state.commit()
    before = whole.weights(net)
    for w in net.weights:
        w.assign(w + 1.0 + hvd.rank())
    state.epoch = 7
    state.restore()
    whole.close(whole.weights(net), before, 'restored state')
    assert state.epoch == 1
    for w in net.weights:
        w.assign(w * 0.0 + hvd.rank() + 3.0)
    state.epoch = 10 + hvd.rank()
    state.save()
    state.sync()
    assert (whole.weights(net) == 3).all() and state.epoch == 10
    values = [tf.Variable(float(hvd.rank()))]
    plain = hvd.elastic.TensorFlowState(values, batch=hvd.rank())
    plain.sync()
    assert float(values[0]) == 0 and plain.batch == 0


def check_elastic_run_starts_again():
    calls = []

    @hvd.elastic.run
    def work(state):
        calls.append(state.turn)
        if len(calls) == 1:
            state.turn = 1
            state.commit()
            state.turn = 5
            raise tf.errors.UnknownError(None, None, 'HorovodAllreduce: rank 7 has died')
        return float(hvd.allreduce(tf.constant(1.), op=hvd.Sum, name='again'))

    state = hvd.elastic.TensorFlowState([tf.Variable(1.)], turn=0)
    assert work(state) == hvd.size()
    assert calls == [0, 1], calls


def check_wrong_arguments():
    with tf.GradientTape() as tape:
        pass
    for options in ({'groups': 'two'}, {'groups': -1}, {'groups': [1]},
                    {'gradient_predivide_factor': 2.0, 'op': hvd.Sum}):
        try:
            hvd.DistributedGradientTape(tape, **options)
        except ValueError:
            continue
        raise AssertionError(f'{options} was taken')
    for optimizer, options in ((object(), {}), (K.optimizers.SGD(), {'op': hvd.Adasum})):
        try:
            hvd.DistributedOptimizer(optimizer, **options)
        except ValueError:
            continue
        raise AssertionError(f'{optimizer} was taken')
