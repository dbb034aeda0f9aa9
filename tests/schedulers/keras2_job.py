# SPDX-License-Identifier: Apache-2.0
"""KerasEstimator with Keras 2, as tf_keras has it, in Spark's tasks; what became of it, as JSON.

usage: keras2_job.py FOLDER MASTER few
"""
import estimator_job
import numpy as np
import tf_keras
from estimator_job import FOLDER

from horovod.spark.common.store import Store
from horovod.spark.keras import KerasEstimator, KerasModel


def few(session):
    """A line is learned, the run goes on with more epochs, and the model comes back from a file."""
    rows = session.createDataFrame([(x / 32, x / 16 + 1) for x in range(64)], ['x', 'y'])
    tf_keras.utils.set_random_seed(1)
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,))])
    estimator = KerasEstimator(
        num_proc=2, store=Store.create(str(FOLDER / 'store')), model=model, run_id='two',
        optimizer=tf_keras.optimizers.SGD(0.05, momentum=0.5), loss='mse', metrics=['mae'],
        feature_cols=['x'], label_cols=['y'], batch_size=8, epochs=4, validation=0.25, verbose=0)
    first = estimator.fit(rows)
    trained = estimator.setEpochs(8).fit(rows)
    trained.write().save(str(FOLDER / 'saved'))
    loaded = KerasModel.load(str(FOLDER / 'saved'))
    found = [[row['y__output'] for row in one.transform(rows).collect()]
             for one in (trained, loaded)]
    history = trained.getHistory()
    return {'keras': tf_keras.__version__, 'epochs': [len(first.getHistory()['loss']),
                                                      len(history['loss'])],
            'losses': history['loss'], 'names': sorted(history),
            'same': bool(np.allclose(*map(np.ravel, found)))}


if __name__ == '__main__':
    estimator_job.JOBS.update({'few': few})
    estimator_job.main()
