# SPDX-License-Identifier: Apache-2.0
"""KerasEstimator on Spark, with the digits of the examples, as estimator_job.py has them.

usage: keras_job.py FOLDER MASTER NAME...
"""
import io
import json
import os
import re

import estimator_job
import keras
import numpy as np
from estimator_job import FOLDER, error_of, frame, killer, share_right
from horovod.keras.callbacks import BestModelCheckpoint
from sparkdl.horovod.tensorflow.keras import LogCallback

from horovod.runner.common.util import codec
from horovod.spark.common import estimator as common
from horovod.spark.common.backend import LocalBackend, SparkBackend
from horovod.spark.common.store import Store
from horovod.spark.keras import KerasEstimator, KerasModel, remote

COLUMNS = ('pixels AS `the pixels.x`', 'weight', 'double(digit % 2) AS odd')


def bent_model():
    """Of images, which the rows have as vectors, and a number, with two outputs and an activation
    and a loss of its own; and what Keras must know of it."""
    def bent(x):
        return keras.ops.leaky_relu(x, 0.1)

    def squares(label, output):
        return keras.losses.mean_squared_error(label, output)
    keras.utils.set_random_seed(2)
    pixels, weight = keras.Input((28, 28, 1)), keras.Input((1,))
    joined = keras.layers.Concatenate()([keras.layers.Flatten()(pixels), weight])
    hidden = keras.layers.Dense(32, activation=bent)(joined)
    return keras.Model([pixels, weight], [
        keras.layers.Dense(10, name='digit')(hidden),
        keras.layers.Dense(1, name='odd')(hidden)]), {'bent': bent, 'squares': squares}


def callback():
    """It notes when an epoch begins, and has rank 1 killed in the second one."""
    folder, die_once = FOLDER, killer()

    class Dies(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch
            import reigen
            if reigen.rank() == 0:
                with open(folder / 'keras-epochs', 'a') as stream:
                    stream.write(f'{epoch} ')

        def on_train_batch_end(self, batch, logs=None):
            die_once(folder / 'keras-died', self.epoch == 1 and batch == 3)
    return Dies()


def saved(trained, estimator, test):
    """What comes back of a model and an estimator, of which the model is in several files, and
    Spark has not all at once."""
    common._PART_NBYTES, common._PARTS_AT_ONCE = 1 << 16, 2
    trained.write().save(str(FOLDER / 'keras-saved'))
    loaded = KerasModel.load(str(FOLDER / 'keras-saved'))
    estimator.write().overwrite().save(str(FOLDER / 'keras-estimator'))
    again = KerasEstimator.load(str(FOLDER / 'keras-estimator'))
    store = estimator.getStore()
    kept = keras.models.load_model(
        store.get_localized_path(store.get_checkpoint_path('keras')), compile=False,
        custom_objects=estimator.getCustomObjects())
    same = [np.allclose(a, b) for other in (kept, loaded.getModel())
            for a, b in zip(trained.getModel().get_weights(), other.get_weights())]
    return {'right': share_right(loaded.transform(test)), 'same': same, 'epochs': again.getEpochs(),
            'related': estimator_job.related(again, loaded, 'keras'),
            'format': codec.loads_base64(store.read_serialized_keras_model(
                store.get_checkpoint_path('keras'), loaded.getModel(), {}))[1:4].decode(),
            'files': len(list((FOLDER / 'keras-saved/pickled').glob('*.parquet')))}


def fits(session):
    """Rank 1 is killed in the second epoch of a fit, and another fit goes on, in Spark's tasks."""
    def numbers(frame):
        return frame.assign(digit=frame['digit'].astype(int))
    rows = frame(session)
    model, custom_objects = bent_model()
    before = model.get_weights()[0]
    estimator = KerasEstimator(
        backend=LocalBackend(2), store=Store.create(str(FOLDER / 'store')), model=model, epochs=3,
        optimizer=keras.optimizers.Adam(0.003), custom_objects=custom_objects,
        loss=[keras.losses.SparseCategoricalCrossentropy(from_logits=True), 'squares'],
        loss_weights=[1, 0.5],
        metrics=[['accuracy'], [keras.metrics.MeanAbsoluteError(name='off'),
                                keras.metrics.F1Score(threshold=0.5, name='each')]],
        feature_cols=['the pixels.x', 'weight'], label_cols=['digit', 'odd'], validation='last',
        batch_size=16, val_batch_size=20, random_seed=1, transformation_fn=numbers,
        inmemory_cache_all=True, run_id='keras', callbacks=[callback(), LogCallback()],
        checkpoint_callback=BestModelCheckpoint(monitor='val_loss'), sample_weight_col='weight',
        train_steps_per_epoch=30, partitions_per_process=2, verbose=0)
    known = rows.selectExpr(*COLUMNS, 'string(digit) AS digit', 'last')
    killed = error_of(lambda: estimator.fit(known))
    store = estimator.getStore()
    kept = remote.State.loads(store.read(remote.state_path(store, 'keras')))
    shown = io.StringIO()
    trained = estimator.setBackend(SparkBackend(2, stdout=shown, stderr=shown)).fit(known)
    test = rows.where('last').selectExpr(*COLUMNS, 'digit')
    predicted = trained.transform(test)

    def wrong(name, value):
        return error_of(lambda: estimator.copy()._set(**{name: value}).fit(known))
    return {
        'killed': killed, 'kept': [kept.done, kept.rate], 'history': trained.getHistory(),
        'shown': shown.getvalue(),
        'epochs': (FOLDER / 'keras-epochs').read_text(), 'right': share_right(predicted),
        'columns': predicted.columns, 'kinds': [kind for _, kind in predicted.dtypes[4:]],
        'untouched': bool((model.get_weights()[0] == before).all()),
        'rate': float(trained.getModel().optimizer.learning_rate.numpy()),
        'steps': int(trained.getModel().optimizer.iterations.numpy()),
        'run': sorted(os.listdir(FOLDER / 'store/runs/keras')),
        'saved': saved(trained, estimator, test),
        'errors': {
            'weights': wrong('loss_weights', [1]), 'labels': wrong('label_cols', ['digit']),
            'loss': error_of(lambda: estimator.copy().setLoss(None).fit(known)),
            'model': wrong('model', print), 'optimizer': wrong('optimizer', print),
            'other': wrong('reader_pool_type', 'process')}}


def small(session, **options):
    """An estimator for two ranks in Spark's tasks, which train for up to three epochs, 16 steps
    each; and its rows. What it prints, and how often each rank began an epoch: shown."""
    shown = io.StringIO()

    class Counts(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            print(f'begins {epoch}')
    callbacks = [Counts(), *options.pop('callbacks', ())]
    keras.utils.set_random_seed(2)
    return KerasEstimator(
        backend=SparkBackend(2, stdout=shown, stderr=shown), callbacks=callbacks, batch_size=16,
        model=keras.Sequential([keras.Input((1,)), keras.layers.Dense(options.pop('units', 1)),
                                keras.layers.Dense(1)]),
        optimizer='sgd', loss='mse', feature_cols=['x'], label_cols=['y'], epochs=3, verbose=0,
        **options), session.range(512).selectExpr('double(id % 7) AS x', 'double(id % 3) AS y'), \
        shown


def ends(session):
    """A rank alone wants to end: where the loss is not a number a step before the other's is, and
    at the end of an epoch."""
    def nothing(frame):
        return frame.assign(y=float('nan')) if os.environ['RANK'] == '1' else frame

    class Enough(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1 and os.environ['RANK'] == '0':
                self.model.stop_training = True
    found = {}
    for name, options in [('nan', {'callbacks': [keras.callbacks.TerminateOnNaN()],
                                   'transformation_fn': nothing}),
                          ('enough', {'callbacks': [Enough()]})]:
        estimator, rows, shown = small(session, store=Store.create(str(FOLDER / 'store')),
                                       **options)
        trained = estimator.fit(rows)
        history = trained.getHistory()
        found[name] = [len(history['loss']), sorted(
            line for line in shown.getvalue().splitlines() if re.search('begins|wanted', line))]
        if name == 'nan':
            logs = FOLDER / 'store/runs' / trained.getRunId() / 'logs/history.jsonl'
            found['written'] = json.loads(logs.read_text(), parse_constant=str)['loss']
    return found


def hands_over(session):
    """A model of which Spark would not bring the weights, and a store that keeps no runs."""
    store = Store.create(str(FOLDER / 'unsaved'), save_runs=False)
    estimator, rows, _ = small(session, store=store, units=1 << 19, train_steps_per_epoch=1)
    model = estimator.setEpochs(1).fit(rows).getModel()
    return {'bytes': sum(one.nbytes for one in model.get_weights()),
            'limit': session.conf.get('spark.driver.maxResultSize'),
            'runs': sorted(os.listdir(FOLDER / 'unsaved/runs'))}


if __name__ == '__main__':
    estimator_job.JOBS.update({'keras': fits, 'ends': ends, 'hands over': hands_over})
    estimator_job.main()
