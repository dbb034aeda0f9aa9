# SPDX-License-Identifier: Apache-2.0
"""Estimators of horovod.spark on Spark, with the digits of the examples; what became of each, as a
line of JSON.

usage: estimator_job.py FOLDER MASTER NAME...    MASTER: or `hosts`, a cluster of two
"""
import gzip
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from pyspark.ml.linalg import DenseVector, SparseVector
from pyspark.sql import SparkSession

from horovod.spark.common.store import Store
from spark_cluster import master_of

FOLDER = Path(sys.argv[1])
DATA = Path(__file__).resolve().parents[2] / 'examples/data'
ROWS = 1500


def digits():
    """(pixels from 0 to 1, digit) of the first images."""
    def read(name, skip):
        return np.frombuffer(gzip.decompress((DATA / name).read_bytes()), np.uint8)[skip:]
    images = read('train-images-idx3-ubyte.gz', 16).reshape(-1, 784)[:ROWS]
    return images / 255., read('train-labels-idx1-ubyte.gz', 8)[:ROWS]


def frame(session):
    """Every fifth row is sparse; the last 300 are to validate with."""
    rows = []
    for number, (image, digit) in enumerate(zip(*digits())):
        at = np.nonzero(image)[0]
        pixels = DenseVector(image) if number % 5 else SparseVector(784, at, image[at])
        rows.append((number, pixels, int(digit), 1.0 + number % 2, number >= ROWS - 300))
    return session.createDataFrame(rows, ['number', 'pixels', 'digit', 'weight', 'last'])


def share_right(predicted):
    found = predicted.select('digit', 'digit__output').collect()
    assert len(found) == 300
    return sum(int(np.argmax(row['digit__output'])) == row['digit'] for row in found) / 300


def related(estimator, model, prefix):
    """Whether they are what Horovod's names in the module of their estimator say."""
    import importlib

    from horovod.spark.common.serialization import HorovodParamsReader, HorovodParamsWriter
    module = importlib.import_module(f'horovod.spark.{prefix}.estimator')
    name = 'Keras' if prefix == 'keras' else 'Torch'
    kinds = {part: getattr(module, f'{name}EstimatorParams{part}')
             for part in ('Writer', 'Writable', 'Reader', 'Readable')}
    return all([isinstance(one, kinds['Writable']) and isinstance(one, kinds['Readable']) and
                isinstance(one.write(), kinds['Writer']) and
                isinstance(type(one).read(), kinds['Reader']) for one in (estimator, model)] +
               [kinds['Writer'] is HorovodParamsWriter, kinds['Reader'] is HorovodParamsReader])


def error_of(function):
    try:
        function()
    except Exception as error:
        return f'{type(error).__name__}: {error}'
    return 'none'


def files(path):
    return {str(one): one.stat().st_mtime_ns for one in Path(path).glob('intermediate*/*.parquet')}


def killer():
    """A function, for ranks to call: it kills rank 1, when the condition holds and unless the file
    is there."""
    def die_once(file, condition):
        import reigen
        if condition and reigen.rank() == 1 and not file.exists():
            file.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return die_once


def together(rows, store):
    """What a fit can be told, at once, on two ranks that reigen.run() starts. One of the
    labels is text at first, and a column's name has a space and a dot. A rank is killed in the
    second epoch, and another fit goes on."""
    import torch
    from torch import nn

    from horovod.spark.common.backend import LocalBackend
    from horovod.spark.torch import TorchEstimator, remote
    die_once = killer()

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.digit = nn.Sequential(nn.Linear(784, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))
            self.odd = nn.Linear(784, 1)

        def forward(self, pixels):
            return self.digit(pixels), self.odd(pixels)

    steps, folder = [], FOLDER

    def step(model, optimizer, transform_outputs, loss_fn, inputs, labels, sample_weights):
        outputs, labels = transform_outputs(model(*inputs), labels)
        loss = loss_fn(outputs, labels, sample_weights)
        loss.backward()
        steps.append(1)
        die_once(folder / 'torch-died', len(steps) == 15)
        (folder / 'torch-steps').write_text(str(len(steps)))
        if len(steps) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return outputs, float(loss)

    def numbers(frame):
        return frame.assign(digit=frame['digit'].astype(int))

    def right(output, label):
        return float((output.argmax(1) == label).float().mean())

    def off(output, label):
        return np.float64(abs(output.detach() - label).mean())
    model = Two()
    few = rows.where('number < 240').selectExpr(
        'pixels AS `the pixels.x`', 'string(digit) AS digit', 'double(digit % 2) AS odd')
    estimator = TorchEstimator(
        backend=LocalBackend(2), store=store, model=model, epochs=3, batch_size=8, random_seed=1,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.002), metrics=[[right, off]],
        loss_constructors=[nn.CrossEntropyLoss, nn.MSELoss], feature_cols=['the pixels.x'],
        label_cols=['digit', 'odd'], validation=0.25, transformation_fn=numbers, run_id='both',
        inmemory_cache_all=True, backward_passes_per_step=2, train_minibatch_fn=step, verbose=0)
    killed = error_of(lambda: estimator.fit(few))
    kept = len(remote.load(store, store.get_checkpoint_path('both'))['history'])
    trained = estimator.fit(few)
    predicted = trained.transform(few)
    return {'history': trained.getHistory(), 'killed': killed, 'kept': kept,
            'steps': (FOLDER / 'torch-steps').read_text(), 'columns': predicted.columns,
            'kinds': [kind for _, kind in predicted.dtypes[3:]], 'rows': predicted.count(),
            'again': error_of(lambda: trained.transform(predicted)),
            'outputs': error_of(lambda: estimator.copy().setMetrics([[right]]).fit(few)),
            'passes': error_of(lambda: estimator.copy().setBackwardPassesPerStep(0).fit(few))}


def pytorch(session):
    import torch
    from torch import nn

    from horovod.spark.torch import TorchEstimator, TorchModel
    rows = frame(session)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
    before = model[0].weight.clone()

    def right(output, label):
        return (output.argmax(1) == label).float().mean()
    store = Store.create(str(FOLDER / 'store'))
    estimator = TorchEstimator(
        num_proc=2, store=store, model=model, loss=nn.CrossEntropyLoss(), metrics=[right],
        optimizer=torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
        input_shapes=[[-1, 784]], feature_cols=['pixels'], label_cols=['digit'], validation='last',
        sample_weight_col='weight', batch_size=16, epochs=2, random_seed=5, run_id='torch',
        partitions_per_process=2, verbose=0)
    first = estimator.fit(rows)
    written = files(FOLDER / 'store')
    second = estimator.setEpochs(3).fit(rows)  # goes on
    test = rows.where('last').select('number', 'pixels', 'digit')
    second.write().save(str(FOLDER / 'saved'))
    loaded = TorchModel.load(str(FOLDER / 'saved'))
    estimator.write().overwrite().save(str(FOLDER / 'estimator'))
    again = TorchEstimator.load(str(FOLDER / 'estimator'))
    own = {id(one) for one in again.getModel().parameters()}
    wrong = estimator.copy()
    return {
        'untouched': bool((model[0].weight == before).all()),
        'history': second.getHistory(), 'first': first.getHistory(),
        'right': share_right(second.transform(test)),
        'loaded': share_right(loaded.transform(test)),
        'columns': loaded.transform(test).columns,
        'named': loaded.setOutputCols(['p']).transform(test.limit(3)).select('p').count(),
        'rewritten': files(FOLDER / 'store') != written, 'files': len(written),
        'run': sorted(os.listdir(FOLDER / 'store/runs/torch')),
        'pair': all(id(one) in own for group in again.getOptimizer().param_groups
                    for one in group['params']),
        'rate': second.getOptimizer().param_groups[0]['lr'],
        'epochs': again.getEpochs(), 'id': second.getRunId(), 'together': together(rows, store),
        'related': related(again, loaded, 'torch'),
        'respelt': loaded.copy().setLabelColoumns(['d']).getLabelColumns(),
        'errors': {
            'column': error_of(lambda: wrong.setFeatureCols(['pixel']).fit(rows)),
            'type': error_of(lambda: wrong.setFeatureCols(['when']).fit(
                rows.selectExpr('*', 'current_timestamp() AS when'))),
            'text': error_of(lambda: wrong.setFeatureCols(['name']).fit(
                rows.selectExpr('*', 'string(number) AS name'))),
            'null': error_of(lambda: wrong.setFeatureCols(['gap']).fit(
                rows.selectExpr('*', 'nullif(number, 3) AS gap'))),
            'empty': error_of(lambda: estimator.fit(rows.where('number < 0'))),
            'nothing to validate': error_of(lambda: estimator.fit(rows.where('not last'))),
            'callbacks': error_of(lambda: estimator.copy().setCallbacks([print]).fit(rows)),
            'store': error_of(lambda: estimator.copy().setStore(
                Store.create('/dev/null')).fit(rows)),
            'both': error_of(lambda: estimator.copy().setBackend(print).fit(rows))}}


def few_rows(session):
    """On the hosts of a cluster, four ranks train with three rows: one has none."""
    import torch

    from horovod.spark.torch import TorchEstimator, TorchModel

    class Own(TorchModel):
        """As those that read a row's columns by themselves."""
        def get_prediction_fn(self):
            return lambda model, row: torch.cat([10 * model(torch.tensor([row['x']])),
                                                 torch.tensor([row['y']])])
    rows = session.createDataFrame([(float(x), 2.0 * x) for x in range(3)], ['x', 'y'])
    model = torch.nn.Linear(1, 1)
    trained = TorchEstimator(
        num_proc=4, store=Store.create(str(FOLDER / 'few')), model=model, loss=torch.nn.MSELoss(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1), input_shapes=[[-1, 1]],
        feature_cols=['x'], label_cols=['y'], batch_size=2, epochs=3, verbose=0).fit(rows)
    own = Own(model=trained.getModel(), feature_columns=['x'], label_columns=['y'],
              input_shapes=[[-1, 1]])
    predicted = [row['y__output'] for row in trained.transform(rows).orderBy('x').collect()]
    by_rows = [float(trained.get_prediction_fn()(trained.getModel(), row))
               for row in rows.orderBy('x').collect()]
    return {'predicted': predicted, 'by rows': by_rows,
            'own': [list(row['y__output']) for row in own.transform(rows).orderBy('x').collect()],
            'losses': [one['train']['loss'] for one in trained.getHistory()],
            'rows': trained.transform(rows).count(),
            'executors': len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1}


def full(session):
    """The store's disk has no room for the data."""
    import torch

    from horovod.spark.torch import TorchEstimator
    rows = session.createDataFrame([([float(x * i) for i in range(100)], float(x))
                                    for x in range(4000)], ['x', 'y'])
    model = torch.nn.Linear(100, 1)
    estimator = TorchEstimator(
        num_proc=2, store=Store.create(str(FOLDER / 'full/store')), model=model, verbose=0,
        loss=torch.nn.MSELoss(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        input_shapes=[[-1, 100]], feature_cols=['x'], label_cols=['y'], batch_size=8, epochs=1)
    elsewhere = estimator.copy().setStore(Store.create('memory://x', storage_options={'skip': 0}))
    return {'error': error_of(lambda: estimator.fit(rows)),
            'no connector': error_of(lambda: elsewhere.fit(rows)),
            'left': sorted(os.listdir(FOLDER / 'full/store'))}


JOBS = {'pytorch': pytorch, 'few rows': few_rows, 'full': full}


def main():
    with master_of(sys.argv[2], FOLDER) as master:
        do(master)


def do(master):
    builder = SparkSession.builder.master(master)
    for name, value in {'spark.ui.enabled': 'false', 'spark.ui.showConsoleProgress': 'false',
                        'spark.driver.host': '127.0.0.1', 'spark.sql.shuffle.partitions': '2',
                        'spark.driver.bindAddress': '127.0.0.1', 'spark.driver.memory': '1g',
                        'spark.driver.maxResultSize': '4m', 'spark.executor.memory': '700m',
                        'spark.local.dir': str(FOLDER)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for name in sys.argv[3:]:
        print(json.dumps({'name': name, **JOBS[name](session)}), flush=True)
    session.stop()


if __name__ == '__main__':
    main()
