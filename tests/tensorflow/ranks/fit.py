# SPDX-License-Identifier: Apache-2.0
"""Keras's fit() with horovod.tensorflow.keras or horovod.keras: run by two or more ranks, on
TensorFlow with Keras 2 or 3, or on PyTorch (KERAS_BACKEND=torch, without TensorFlow)."""
import os
import sys
import tempfile

import numpy as np
import keras

import horovod.keras as hvd
import whole

SAMPLES, CLASSES = whole.problem()
TORCH = os.environ.get('KERAS_BACKEND') == 'torch'
KERAS_3 = int(getattr(keras, '__version__', '2').split('.')[0]) >= 3
if TORCH:
    assert 'tensorflow' not in sys.modules
    WRAPPERS = [hvd.DistributedOptimizer]
else:
    import horovod.tensorflow as hvd_tf
    import horovod.tensorflow.keras as hvd_tfk

    WRAPPERS = [hvd.DistributedOptimizer, hvd_tfk.DistributedOptimizer,
                hvd_tf.DistributedOptimizer]


def model(seed=1):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation='tanh'),
                             keras.layers.Dense(3, activation='softmax')])


def momentum():
    return keras.optimizers.SGD(0.1, momentum=0.9)


def train(distributed, optimizer_of=lambda: keras.optimizers.Adam(0.01), passes=1, epochs=1,
          wrap=hvd.DistributedOptimizer, callbacks=(), seed=1, compiled=None, **options):
    """The model after fit(), and its history."""
    net, optimizer = model(seed), optimizer_of()
    order, size = np.arange(whole.COUNT), whole.BATCH * hvd.size() * passes
    if distributed:
        optimizer = wrap(optimizer, backward_passes_per_step=passes, **options)
        order, size = whole.own_order(hvd.rank(), hvd.size()), whole.BATCH
    net.compile(optimizer=optimizer, loss='sparse_categorical_crossentropy',
                metrics=['accuracy'], **(compiled or {}))
    history = net.fit(SAMPLES[order], CLASSES[order], batch_size=size, epochs=epochs,
                      shuffle=False, verbose=0, callbacks=list(callbacks))
    return net, history.history


def check_fit_equals_the_whole_batch():
    want = whole.weights(train(False)[0])
    ways = [{'wrap': wrap} for wrap in WRAPPERS]
    ways += [{'groups': 2}, {'gradient_predivide_factor': 2.0}]
    if not TORCH:
        ways += [{'compiled': {'run_eagerly': True}}, {'compiled': {'steps_per_execution': 2}}]
    if KERAS_3:
        # Left to the user, the step would be compiled as a whole, which no collective survives.
        ways += [{'compiled': {'jit_compile': True, 'experimental_run_tf_function': False}}]
    for way in ways:
        net, _ = train(True, **way)
        whole.close(whole.weights(net), want, f'fit {way}')
        whole.everywhere(hvd, whole.weights(net), f'fit {way}')


def check_several_passes_per_step():
    optimizers = [momentum]
    if hasattr(keras.optimizers, 'legacy') and not KERAS_3:
        optimizers.append(lambda: keras.optimizers.legacy.SGD(0.1, momentum=0.9))
    for optimizer_of in optimizers:
        want = whole.weights(train(False, optimizer_of, passes=2)[0])
        for compiled in ({}, {'run_eagerly': True}):
            net, _ = train(True, optimizer_of, passes=2, average_aggregated_gradients=True,
                           compiled=compiled)
            whole.close(whole.weights(net), want, f'two passes {compiled}')
            steps = whole.COUNT // (whole.BATCH * hvd.size())
            assert int(net.optimizer.iterations) == steps, int(net.optimizer.iterations)


def check_keras_accumulates_too():
    if not KERAS_3:
        return

    def accumulating():
        return keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)

    for passes in (1, 2):
        want = whole.weights(train(False, accumulating, passes=passes)[0])
        net, _ = train(True, accumulating, passes=passes, average_aggregated_gradients=True)
        whole.close(whole.weights(net), want, f'accumulating, {passes} passes per step')
        whole.everywhere(hvd, whole.weights(net), 'weights after accumulating')


def check_callbacks():
    start = 0.1
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                 hvd.callbacks.MetricAverageCallback(),
                 hvd.callbacks.LearningRateWarmupCallback(start, warmup_epochs=2),
                 hvd.callbacks.LearningRateScheduleCallback(start, 0.1, start_epoch=3)]
    # Other weights on each rank until the first broadcast.
    net, history = train(True, momentum, epochs=4, callbacks=callbacks, seed=hvd.rank())
    whole.everywhere(hvd, whole.weights(net), 'weights after callbacks')
    first = start / hvd.size() * (1 + (hvd.size() - 1) / 2)
    np.testing.assert_allclose(history['lr'], [first, start, start, start / 10], rtol=1e-5)
    whole.everywhere(hvd, history['loss'], 'averaged loss')


def check_ranks_with_weights_of_their_own_start_alike():
    """Even the first step takes no gradient of other weights than the root's. (With Keras 2 the
    variables are broadcast after it.)"""
    if not KERAS_3:
        return
    want = whole.weights(train(False, seed=0)[0])
    net, _ = train(True, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
                   seed=hvd.rank())
    whole.close(whole.weights(net), want, 'own weights until training')


def check_momentum_is_corrected():
    """A velocity is a sum of steps; when the learning rate falls, it falls alike."""
    kept = {}

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            slots = getattr(self.model.optimizer, 'momentums', None)
            kept.setdefault('before', [np.array(_numpy(s)) for s in slots or ()])

        def on_train_batch_begin(self, batch, logs=None):
            if batch == 1:
                slots = getattr(self.model.optimizer, 'momentums', None)
                kept['after'] = [np.array(_numpy(s)) for s in slots or ()]

    falling = hvd.callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 1.0 if epoch == 0 else 0.5, staircase=False)
    train(True, momentum, callbacks=[falling, Watch()])
    assert kept['before']
    for before, after in zip(kept['before'], kept['after']):
        np.testing.assert_allclose(after, before / 2, rtol=1e-5)


def check_compute_gradients_on_pytorch():
    """With TensorFlow: ported.py."""
    if not TORCH:
        return
    total = hvd.size() * (hvd.size() + 1) / 2
    for passes in (1, 2):
        value = keras.Variable(0.)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum,
                                             backward_passes_per_step=passes)
        optimizer.build([value])
        for turn in range(1, 2 * passes + 1):
            loss = value.value * (hvd.rank() + 1.)
            (gradient, _), = optimizer.compute_gradients(
                loss if turn % 2 else lambda: value.value * (hvd.rank() + 1.), [value])
            reduced = turn % passes == 0
            assert float(gradient) == (passes * total if reduced else hvd.rank() + 1)
            optimizer.apply_gradients([(gradient.clamp(-1, 1), value)])
            assert float(_numpy(value)) == -(turn // passes)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
    optimizer.apply_gradients([(gradient * 0 + hvd.rank() + 1, value)])
    assert float(_numpy(value)) == -2 - total
    assert type(hvd.allreduce(1.)).__module__ == 'torch'


def _numpy(variable):
    value = getattr(variable, 'value', variable)
    return value.detach().numpy() if TORCH else variable.numpy()


def check_models_are_saved_and_loaded():
    net, _ = train(True, momentum)
    order = whole.own_order(hvd.rank(), hvd.size())
    want = None
    with tempfile.TemporaryDirectory() as folder:
        for kind in ('keras', 'h5'):
            path = os.path.join(folder, f'model.{kind}')
            net.save(path)
            # Without Horovod: the optimizer's class is Keras's own by name.
            plain = keras.models.load_model(path)
            assert 'Distributed' not in str(type(plain.optimizer).__mro__)
            loaded = hvd.load_model(path)
            assert int(loaded.optimizer.iterations) == whole.COUNT // (whole.BATCH * hvd.size())
            loaded.fit(SAMPLES[order], CLASSES[order], batch_size=whole.BATCH, shuffle=False,
                       verbose=0)
            whole.everywhere(hvd, whole.weights(loaded), f'weights of a loaded {kind}')
            want = whole.weights(loaded) if want is None else want
            whole.close(whole.weights(loaded), want, 'the two formats')
    if want is not None and not TORCH:
        net.fit(SAMPLES[order], CLASSES[order], batch_size=whole.BATCH, shuffle=False, verbose=0)
        whole.close(whole.weights(net), want, 'training that went on and that was resumed')


def check_local_layers():
    net = model()
    optimizer = hvd.PartialDistributedOptimizer(momentum(), local_layers=[net.layers[-1]])
    net.compile(optimizer=optimizer, loss='sparse_categorical_crossentropy')
    order = whole.own_order(hvd.rank(), hvd.size())
    net.fit(SAMPLES[order], CLASSES[order], batch_size=whole.BATCH, shuffle=False, verbose=0)
    first, last = net.layers[0].get_weights()[0], net.layers[-1].get_weights()[0]
    whole.everywhere(hvd, first, 'the shared layer')
    found = hvd.allgather_object(last.tobytes())
    assert len(set(found)) == hvd.size(), 'the local layer was reduced'


def check_values():
    ranks = hvd.size()
    np.testing.assert_allclose(hvd.allreduce(np.arange(3.) + hvd.rank(), name='v'),
                               np.arange(3.) + (ranks - 1) / 2)
    assert list(hvd.allgather([hvd.rank()], name='g')) == list(range(ranks))
    assert int(hvd.broadcast(5 + hvd.rank(), 1, name='b')) == 6
    assert len(hvd.reducescatter(np.ones(2 * ranks), name='s')) == 2


def check_elastic_callbacks():
    net = model()
    net.compile(optimizer=hvd.DistributedOptimizer(momentum()),
                loss='sparse_categorical_crossentropy')
    state = hvd.elastic.KerasState(net, batch=0, epoch=0)
    callbacks = [hvd.elastic.UpdateEpochStateCallback(state),
                 hvd.elastic.UpdateBatchStateCallback(state),
                 hvd.elastic.CommitStateCallback(state, batches_per_commit=2)]
    order = whole.own_order(hvd.rank(), hvd.size())
    net.fit(SAMPLES[order], CLASSES[order], batch_size=whole.BATCH, epochs=2, verbose=0,
            callbacks=callbacks)
    assert (state.epoch, state.batch) == (2, 0)
    saved = whole.weights(net)
    for w in net.weights:
        w.assign(w * 0.0)
    state.restore()
    whole.close(whole.weights(net), saved, 'restored weights')
    state.sync()


def check_mixed_precision_decides_together():
    """A gradient that is not finite on one rank skips the step on all."""
    keras.mixed_precision.set_global_policy('mixed_float16')
    try:
        net = model()
        net.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)),
                    loss='sparse_categorical_crossentropy')
        samples = SAMPLES[whole.own_order(hvd.rank(), hvd.size())].copy()
        if hvd.rank() == 1:
            samples[:whole.BATCH] = np.inf
        net.fit(samples, CLASSES[:len(samples)], batch_size=whole.BATCH, shuffle=False, verbose=0)
        assert np.isfinite(whole.weights(net)).all()
        whole.everywhere(hvd, whole.weights(net), 'weights of mixed precision')
    finally:
        keras.mixed_precision.set_global_policy('float32')
